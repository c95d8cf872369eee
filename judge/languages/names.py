"""Names of languages: the rows' names, titles, suffixes, and the names that other judges have for them.

A name is looked up without regard to case and spaces. An alias may hold a version: `*` stands for letters, digits and
`. _ -`, and `(*)` for anything in parentheses; `GNU G++17 * (*)` is also `GNU G++17 9.2.0 (64 bit, msys 2)`. What is
exact counts before what has a version, and a row's own name before all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Protocol

from judge.common.errors import ConfigError

_ESCAPED_ANY, _ESCAPED_VERSION = re.escape("(*)"), re.escape("*")


class NamedLanguage(Protocol):
    """The part of a row that this module needs (`judge.languages.table.Language`)."""

    @property
    def title(self) -> str:
        """Its name for people."""

    @property
    def aliases(self) -> list[str]:
        """Its other names."""

    @property
    def suffixes(self) -> list[str]:
        """The suffixes of its files, with the dot."""


class Names:
    """All names of one table. ConfigError when two rows have the same; `where` is the table's file."""

    def __init__(self, table: Mapping[str, NamedLanguage], source: str) -> None:
        """Look at each row's names once; the table is not kept."""
        self._exact: dict[str, str] = {}
        self._versions: dict[str, tuple[re.Pattern[str], str]] = {}
        self._add([(name, name) for name in table], source)
        self._add([(alias, name) for name, row in table.items() for alias in (row.title, *row.aliases)], source)
        # A suffix is the last that counts: `sh` is the POSIX shell, although files called .sh are Bash's.
        for name, row in table.items():
            for suffix in row.suffixes:
                self._exact.setdefault(_exact(suffix[1:]), name)

    def find(self, text: str) -> str | None:
        """The row that is called so, or None."""
        result = self._exact.get(_exact(text))
        if result is not None:
            return result
        spaced = _spaced(text)
        return next((name for pattern, name in self._versions.values() if pattern.fullmatch(spaced)), None)

    def _add(self, names: Iterable[tuple[str, str]], source: str) -> None:
        for alias, name in names:
            if "*" in alias:
                spaced = _spaced(alias)
                owner = self._versions.setdefault(spaced, (_pattern(spaced), name))[1]
            else:
                owner = self._exact.setdefault(_exact(alias), name)
            if owner != name:
                raise ConfigError(
                    f"{source}:1: '{alias}' is a name of both '{owner}' and '{name}'; leave it in one row"
                )


def _spaced(text: str) -> str:
    return " ".join(text.casefold().split())


def _exact(text: str) -> str:
    return _spaced(text).replace(" ", "").replace("_", "")


def _pattern(spaced: str) -> re.Pattern[str]:
    """A name with a version in it; no part of it repeats a part, so that matching is linear."""
    text = re.escape(spaced).replace(_ESCAPED_ANY, r"\([^()]{0,60}\)").replace(_ESCAPED_VERSION, r"[\w.-]{1,40}")
    return re.compile(text, re.ASCII)
