"""Secrets that must be seen nowhere: the forms in which one may show, and a text without them.

Its source is also sent to hosts, to be run there by /usr/bin/python3: standard library only, and nothing of ours.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

SHORTEST = 8  # characters; what is shorter would be found by chance, in every second word
PIECE = 32  # characters of a long line that are looked for at a time, so that a part of a secret counts too
MASK = "[secret]"
# Of the secrets directory and of /etc/judge, everything else is secret: a new file is looked after by itself.
PUBLIC = (".crt", ".lock", ".pub")
CONFIG = ".yml"  # of a config only what stands at the name of a secret is one
_WORDS = (
    r"(?:pass(?:word|wd|phrase)|(?<![a-z])pass|pwd|secret|token|psk|(?:api|access|private|auth)[_-]?key|credentials?)"
)
# "password: x", token=x, "client_secret": "x", --password x, in any case; a path is no secret
_SECRET_SETTING = re.compile(
    rf"""(?i)(?P<name>{_WORDS}["']?"""
    r"""(?:\s*[:=]\s*|(?<=--\w{5})\s+|(?<=--\w{6})\s+|(?<=--\w{8})\s+))"""
    r"""(?P<value>"(?!/)[^"\n]{3,}"|'(?!/)[^'\n]{3,}'|(?![/"'\[{|>])[^\s"',;&]{4,})"""
)
# The same as the only thing of a line, as in a config: it may have spaces.
_LINE = re.compile(rf"(?im)^(?P<name>\s*(?:- )?[\w.-]*{_WORDS}\s*[:=]\s*)(?![/\"'{{\[|>])\S.*$")
# Texts that look like a secret of any program.
_LOOKS = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"(?i)(?<=bearer )[\w.~+/=-]{8,}"),
    re.compile(r"(?i)(?<=basic )[\w+/=-]{8,}"),
    re.compile(r"""(?im)(?:authorization|cookie)["']?\s*[:=].+$"""),
    re.compile(r"""(?<=://)[^\s/"'<>]*(?=@)"""),
    re.compile(r"(?im)(?<=sha256: )\"?[0-9a-f]{64}\"?"),
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"),  # a signed token of a log-in elsewhere (JWT)
)


def forms(text: str) -> Iterator[str]:
    """A secret as it may show: itself, escaped as in JSON, URLs and HTML, in hex, and inside of base64."""
    data = text.encode("latin-1", "replace")
    yield text
    yield json.dumps(text)[1:-1]
    yield quote(text, safe="")
    yield quote_plus(text, safe="")
    yield html.escape(text)
    yield data.hex()
    yield data.hex().upper()
    for before in range(3):
        for code in (base64.b64encode, base64.urlsafe_b64encode):
            encoded = code(b"\0" * before + data).decode()
            # the first and the last characters depend on what stands around it
            yield encoded[4 if before else 0 : len(encoded) - 4]


def lines(text: str) -> Iterator[str]:
    """Of a secret's text what is looked for: lines and words that are long enough, very long ones in pieces."""
    for line in text.splitlines():
        for bare in {line.strip(), line.strip().rpartition(" ")[2]}:
            if len(bare) >= 2 * PIECE:
                yield from (bare[start : start + PIECE] for start in range(0, len(bare) - PIECE + 1, PIECE))
            elif len(bare) >= SHORTEST and not bare.startswith("-----"):
                yield bare


def in_directories(places: Iterable[str]) -> set[str]:
    """Every form of every secret in these directories; what cannot be read is passed over."""
    secrets: set[str] = set()
    for place in places:
        for top, _, names in os.walk(place):
            for name in names:
                if name.endswith(PUBLIC):
                    continue
                try:
                    with open(os.path.join(top, name), encoding="latin-1") as file:  # noqa: PTH118, PTH123
                        text = file.read(1 << 20)
                except OSError:
                    continue
                if name.endswith(CONFIG):
                    text = "\n".join(match["value"].strip("\"'") for match in _SECRET_SETTING.finditer(text))
                secrets.update(form for line in lines(text) for form in forms(line) if len(form) >= SHORTEST - 1)
    return secrets


def masked(text: str, needles: Iterable[str]) -> str:
    """The text with every needle, and everything that looks like a secret, replaced by [secret]."""
    for needle in sorted(needles, key=len, reverse=True):
        text = text.replace(needle, MASK)
    for look in _LOOKS:
        text = look.sub(MASK, text)
    for look in (_LINE, _SECRET_SETTING):
        text = look.sub(lambda match: match["name"] + MASK, text)
    return text
