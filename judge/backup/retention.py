"""Chooses the backups to keep: the newest of each of the last days, weeks and months that have one. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Keep:
    """The numbers of backups to keep: of the newest ones, and of so many days, ISO weeks and months (UTC) the last."""

    last: int = 2
    daily: int = 7
    weekly: int = 4
    monthly: int = 6


_PERIODS: Mapping[str, Callable[[datetime.datetime], Any]] = {
    "daily": datetime.datetime.date,
    "weekly": lambda moment: moment.isocalendar()[:2],
    "monthly": lambda moment: (moment.year, moment.month),
}


def kept_moments(moments: Iterable[datetime.datetime], keep: Keep) -> set[datetime.datetime]:
    """Those that stay. The newest one always does, whatever the numbers are.

    A period without a backup does not count: a cluster that was off for a year keeps what it had.
    """
    newest_first = sorted(set(moments), reverse=True)
    staying = set(newest_first[: max(1, keep.last)])
    for name, period in _PERIODS.items():
        periods: list[Any] = []
        for moment in newest_first:
            current_period = period(moment)
            if current_period not in periods and len(periods) < getattr(keep, name):
                periods.append(current_period)
                staying.add(moment)
    return staying
