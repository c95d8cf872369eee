"""Finds the file name and the class that start a program in Java or Kotlin, where both come from the source.

A scan, not a parser: comments and literals are skipped, braces counted, and what is found at the top level is enough.
Whatever it gets wrong, the compiler says in its own words. Linear in the source's size, also for hostile sources.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final, Literal

Kind = Literal["class", "kotlin"]
_DEFAULT: Final = "Main"
_NAME_BYTES: Final = 200

# Every alternative that has begun also ends (at the latest with the text), so no position is scanned twice.
_REMAINDER: Final = r"""
  | "(?:\\.|[^"\\\n])*"?                 # string
  | '(?:\\.|[^'\\\n])*'?                 # character
  | //[^\n]*
  | /\*.*?(?:\*/|\Z)
"""
_TEXT_BLOCK: Final[dict[Kind, str]] = {
    "class": r'"{3}(?:\\.|[^\\])*?(?:"{3}|\Z)',
    "kotlin": r'"{3}.*?(?:"{3,}|\Z)',
}
# Names may have letters of any alphabet; a byte above ASCII is always part of one.
_WORD: Final = r"[A-Za-z_$\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*"
_TOKEN: Final = {
    kind: re.compile(rf"(?P<skip>{block}{_REMAINDER})|(?P<word>{_WORD})|(?P<mark>[{{}}();.])", re.VERBOSE | re.DOTALL)
    for kind, block in _TEXT_BLOCK.items()
}
_TYPES: Final[dict[Kind, frozenset[str]]] = {
    "class": frozenset({"class", "interface", "enum", "record"}),
    "kotlin": frozenset({"class", "interface", "object"}),
}
_FACADE: Final = re.compile(r'@file\s*:\s*JvmName\s*\(\s*"([A-Za-z_$][\w$]{0,199})"\s*\)')


def find_entry(source: str, filename: str | None = None) -> tuple[str, str]:
    """The (file stem, main class) under which to compile and start a Java `source`.

    The stem is the public top-level type's name, because the compiler insists on it, else the stem of `filename`, else
    the main class. The main class is the top-level type that declares `void main(`, a public one first; it carries
    the package as its prefix. `Main` is the answer when nothing is found.
    """
    scan = _Scan(source, "class")
    public = scan.public
    entry = public if public in scan.mains else next(iter(scan.mains), None)
    stem = public or _stem(filename) or entry or _DEFAULT
    entry = entry or (scan.types[0][0] if scan.types else stem)
    return (stem if _is_name(stem) else _DEFAULT), scan.qualified(entry if _is_name(entry) else _DEFAULT)


def main_classes(source: str, filename: str, kind: Kind) -> list[str]:
    """The classes of a source that can be started, with their package, the public one first.

    In Kotlin a main beside all classes belongs to a class that is called after the file.
    """
    scan = _Scan(source, kind)
    facade = [_facade(source, filename)] if scan.facade else []
    names = facade + sorted(dict.fromkeys(scan.mains), key=lambda name: name != scan.public)
    return [scan.qualified(name) for name in names if _is_name(name)]


def default_class(source: str, filename: str, kind: Kind) -> str:
    """The class to try where none has a main: the language's own error message says the rest."""
    if kind == "kotlin":
        return _Scan(source, kind).qualified(_facade(source, filename))
    return find_entry(source, filename)[1]


def _facade(source: str, filename: str) -> str:
    if match := _FACADE.search(source):
        return match[1]
    stem = re.sub(r"\W", "_", PurePosixPath(filename).stem) or _DEFAULT
    return f"{'_' if stem[0].isdigit() else ''}{stem[0].upper()}{stem[1:]}Kt"


class _Scan:
    """The declarations at the top level of a source: types, whether they are public, those that have a main."""

    def __init__(self, source: str, kind: Kind) -> None:
        self.types: list[tuple[str, bool]] = []
        self.mains: list[str] = []
        self.facade = False
        self._kind = kind
        self._package: list[str] = []
        self._in_package = self._public = False
        self._depth = 0
        self._last = ("", "", "")
        for match in _TOKEN[kind].finditer(source):
            if match.lastgroup == "skip":
                continue
            if match.lastgroup == "mark":
                self._mark(match[0])
            else:
                self._word(match[0])
            self._last = (*self._last[1:], match[0])
        self.public = next((name for name, is_public in self.types if is_public), None)

    def qualified(self, name: str) -> str:
        package = ".".join(self._package)
        return f"{package}.{name}" if package and all(map(_is_name, self._package)) and _fits(package) else name

    def _mark(self, text: str) -> None:
        static, before, last = self._last
        self._depth += {"{": 1, "}": -1}.get(text, 0)
        if text == "(" and last == "main":
            if self._kind == "class" and before == "void" and self._depth == 1 and self.types:
                self.mains.append(self.types[-1][0])
            elif self._kind == "kotlin" and before == "fun" and self._depth == 0:
                self.facade = True
            elif self._kind == "kotlin" and (static, before) == ("JvmStatic", "fun") and self.types:
                self.mains.append(self.types[-1][0])
        if text == ";" and self._depth == 0:
            self._public = self._in_package = False

    def _word(self, text: str) -> None:
        if self._depth:
            return
        last = self._last[2]
        if self._in_package and last in {"package", "."}:
            self._package.append(text)
            return
        self._in_package = text == "package" and not self.types and not self._package
        if last in _TYPES[self._kind] and not self._in_package:
            self.types.append((text, self._public))
            self._public = False
        self._public = self._public or text == "public"


def _is_name(name: str) -> bool:
    return name.replace("$", "_").isidentifier() and _fits(name)


def _fits(name: str) -> bool:
    return len(name.encode(errors="replace")) <= _NAME_BYTES


def _stem(filename: str | None) -> str | None:
    """The submitted file's own stem when a class could be called so."""
    stem = PurePosixPath(filename).stem if filename else ""
    return stem if _is_name(stem) else None
