"""Faults of a package, and what is merely unusual: all of it, in the order in which it is found.

Reading goes on after an error, so that an author sees everything at once (`judgectl problem check`); importing then
refuses the package.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from judge.common.errors import PackageError
from judge.common.text import one_line

Level = Literal["error", "warning", "note"]
# So many are kept: a package of strangers may be wrong in every one of its files.
MOST = 500


@dataclass(frozen=True)
class Finding:
    """One sentence that starts with `file:` or `file:line:`.

    An error: the package cannot be judged as its author meant. A warning: it is unusual, and the sentence says what is
    made of it. A note: what was found, and is not looked at.
    """

    level: Level
    text: str


@dataclass
class Findings:
    """All findings about one package; each is kept once. `left_out` counts those beyond MOST."""

    all: list[Finding] = field(default_factory=list)
    left_out: int = 0

    def error(self, text: str) -> None:
        """The package cannot be judged as it is meant."""
        self._add("error", text)

    def warning(self, text: str) -> None:
        """Something is unusual; the text says what is made of it."""
        self._add("warning", text)

    def note(self, text: str) -> None:
        self._add("note", text)

    def _add(self, level: Level, text: str) -> None:
        finding = Finding(level, one_line(text))
        if finding in self.all:
            return
        if len(self.all) < MOST or (level == "error" and not self.errors):
            self.all.append(finding)
        else:
            self.left_out += 1

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """A PackageError becomes an error here, and reading goes on behind the block."""
        try:
            yield
        except PackageError as exc:
            self.error(str(exc))

    @property
    def errors(self) -> list[str]:
        return [finding.text for finding in self.all if finding.level == "error"]

    def refuse(self) -> None:
        """PackageError with the first error, when there is one, and how many more there are."""
        errors = self.errors
        if errors:
            suffix = f" (and {len(errors) - 1} more: see 'judgectl problem check')" if len(errors) > 1 else ""
            raise PackageError(errors[0] + suffix)
