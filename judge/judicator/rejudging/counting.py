"""The counts of rejudgings that people look at, read from the database no more often than their size allows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from judge.common import clock
from judge.judicator.rejudging.reruns import Cell

# Counting takes at most one part of so many of the database's time.
_PARTS: Final = 20


@dataclass(frozen=True)
class _Count:
    cells: list[Cell]
    until: float


class Counting:
    """Counts of open rejudgings, which are old by at most 20 times what counting takes."""

    def __init__(self, count: Callable[[int], Awaitable[list[Cell]]]) -> None:
        """`count` reads all runs of a rejudging (`Reruns.cells`)."""
        self._count = count
        self._counts: dict[tuple[int, str], _Count] = {}
        self._turn = asyncio.Lock()

    async def cells(self, number: int, state: str) -> list[Cell]:
        """The number of runs of each kind in this state of the rejudging."""
        async with self._turn:
            begin = clock.monotonic()
            self._counts = {key: count for key, count in self._counts.items() if count.until > begin}
            cached = self._counts.get((number, state))
            if cached is not None:
                return cached.cells
            cells = await self._count(number)
            end = clock.monotonic()
            self._counts[number, state] = _Count(cells, end + _PARTS * (end - begin))
            return cells
