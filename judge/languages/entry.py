"""Which file name and which class start a program in a language like Java, where both come from the source.

A scan, not a parser: comments and literals are skipped, braces counted, and what is found at the top level is enough.
Whatever it gets wrong, the compiler says in its own words. Linear in the source's size, also for hostile sources.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

DEFAULT = "Main"

# Every alternative that has begun also ends (at the latest with the text), so no position is scanned twice.
_SKIP = r"""
    "{3}(?:\\.|[^\\])*?(?:"{3}|\Z)       # text block
  | "(?:\\.|[^"\\\n])*"?                 # string
  | '(?:\\.|[^'\\\n])*'?                 # character
  | //[^\n]*
  | /\*.*?(?:\*/|\Z)
"""
_TOKEN = re.compile(
    rf"(?P<skip>{_SKIP})|(?P<word>[A-Za-z_$][\w$]*)|(?P<mark>[{{}}();.])", re.VERBOSE | re.DOTALL | re.ASCII
)
_TYPES = frozenset({"class", "interface", "enum", "record"})
_NAME = re.compile(r"[A-Za-z_$][\w$]{0,199}", re.ASCII)


def find_entry(source: str, filename: str | None = None) -> tuple[str, str]:
    """The (file stem, main class) under which to compile and start `source`.

    The stem is the public top-level type's name, because the compiler insists on it, else the stem of `filename`, else
    the main class. The main class is the top-level type that declares `void main(`, a public one first; it carries
    the package as its prefix. `Main` is the answer when nothing is found.
    """
    package, types, mains = _scan(source)
    public = next((name for name, is_public in types if is_public), None)
    entry = public if public in mains else next(iter(mains), None)
    stem = public or _stem(filename) or entry or DEFAULT
    entry = entry or (types[0][0] if types else stem)
    if not _NAME.fullmatch(stem):
        stem = DEFAULT
    if not _NAME.fullmatch(entry):
        entry = DEFAULT
    return stem, f"{package}.{entry}" if package else entry


def _scan(source: str) -> tuple[str, list[tuple[str, bool]], list[str]]:
    """The package, the top-level types with whether they are public, and those of them that declare a main."""
    package: list[str] = []
    types: list[tuple[str, bool]] = []
    mains: list[str] = []
    depth = 0
    public = False
    in_package = False
    before, last = "", ""
    for match in _TOKEN.finditer(source):
        text = match.group()
        if match.lastgroup == "skip":
            continue
        if match.lastgroup == "mark":
            depth += {"{": 1, "}": -1}.get(text, 0)
            if text == "(" and last == "main" and before == "void" and depth == 1 and types:
                mains.append(types[-1][0])
            if text == ";" and depth == 0:
                public = in_package = False
        elif depth == 0:
            if in_package:
                package.append(text)
            elif text == "package" and not types:
                in_package = True
            elif last in _TYPES:
                types.append((text, public))
                public = False
            public = public or text == "public"
        before, last = last, text
    name = ".".join(package)
    return (name if len(name) <= 200 else ""), types, mains


def _stem(filename: str | None) -> str | None:
    """The submitted file's own stem when a class could be called so."""
    stem = PurePosixPath(filename).stem if filename else ""
    return stem if _NAME.fullmatch(stem) else None
