"""Secrets that must be seen nowhere: the forms in which one may show, and a text without them.

Its source is also sent to hosts, to be run there by /usr/bin/python3: standard library only, and nothing of ours.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Iterator

SHORTEST = 16  # characters; what is shorter is no secret, and would be found by chance
PIECE = 32  # characters of a long line that are looked for at a time, so that a part of a secret counts too
MASK = "[secret]"
# Of the secrets directory and of /etc/judge, everything else is secret: a new file is looked after by itself.
PUBLIC = (".crt", ".yml", ".lock", ".pub")
# What looks like a secret, whoever's it is: the rest of a line after such a word, and keys.
_LOOKS = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"(?i)(?<=bearer )[\w.~+/=-]{8,}"),
    re.compile(r"(?i)(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
    re.compile(r"(?im)(?<=sha256: )\"?[0-9a-f]{64}\"?"),
    re.compile(
        r"(?im)(?:(?<=password: )|(?<=password=)|(?<=token: )|(?<=token=)|(?<=secret: )|(?<=secret=)|(?<=passphrase: ))"
        r"(?!/)\S{4,}"
    ),
)


def forms(text: str) -> Iterator[str]:
    """A secret as it may show: itself, in hex, and inside of base64, wherever it begins there."""
    data = text.encode("latin-1", "replace")
    yield text
    yield data.hex()
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode()
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
    found: set[str] = set()
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
                found.update(form for line in lines(text) for form in forms(line))
    return found


def masked(text: str, needles: Iterable[str]) -> str:
    """The text with every needle, and everything that looks like a secret, replaced by [secret]."""
    for needle in sorted(needles, key=len, reverse=True):
        text = text.replace(needle, MASK)
    for look in _LOOKS:
        text = look.sub(MASK, text)
    return text
