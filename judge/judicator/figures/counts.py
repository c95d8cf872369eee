"""The counts of one judicator that are not written yet."""

from __future__ import annotations

import datetime
from collections import Counter
from typing import Final

from judge.common import clock
from judge.judicator.figures.series import class_of, minute

# Of minutes whose counts could not be written so many are kept.
_KEPT: Final = 60


class Counts:
    """The counts that are not written yet, by minute."""

    def __init__(self) -> None:
        self._waiting: dict[datetime.datetime, Counter[str]] = {}

    def ended(self, verdict: str, seconds: float, *, rerun: bool) -> None:
        """A task has come to its verdict, `seconds` after it was handed in; a run of a rejudging only adds to those."""
        now = clock.wall()
        if rerun:
            self.add(minute(now), {"rejudged": 1})
        else:
            self.add(minute(now), {f"verdicts.{verdict}": 1, f"times.{class_of(seconds)}": 1})

    def add(self, when: datetime.datetime, counts: dict[str, int]) -> None:
        """Count more in a minute."""
        self._waiting.setdefault(when, Counter()).update(counts)
        while len(self._waiting) > _KEPT:
            del self._waiting[min(self._waiting)]

    def take(self) -> dict[datetime.datetime, Counter[str]]:
        """All that is not written yet; the caller writes it, or adds it again."""
        counts, self._waiting = self._waiting, {}
        return counts
