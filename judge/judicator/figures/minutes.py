"""One small document a minute of what the cluster has done, in the database for a bit more than a day.

Every judicator counts the verdicts that it commits and adds them every few seconds; the leader adds how much waits and
how many slots judge. So no task is read for a chart, and a judicator that is killed takes the counts of its last
seconds with it, nothing else. Wall time says which minute is meant: these are figures to look at, in no decision.
"""

from __future__ import annotations

import datetime
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from judge.common import clock
from judge.judicator.database import Database
from judge.judicator.executors import Executors
from judge.judicator.figures.series import class_of, minute, oldest, series
from judge.judicator.loops import every
from judge.judicator.work import WorkCounter
from judge.model.figures import FiguresReply, FiguresRequest, Span
from judge.mongodb.store import Bson

log = logging.getLogger(__name__)

_PERIOD: Final = 10.0
# Seconds for which all who ask are shown what one look has found.
_SHOWN: Final = 5.0
# Of minutes whose counts could not be written so many are kept.
_KEPT: Final = 60


class Counts:
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
        self._waiting.setdefault(when, Counter()).update(counts)
        while len(self._waiting) > _KEPT:
            del self._waiting[min(self._waiting)]

    def take(self) -> dict[datetime.datetime, Counter[str]]:
        """All that is not written yet; the caller writes it, or adds it again."""
        counts, self._waiting = self._waiting, {}
        return counts


class Figures:
    """Writes the minutes, and reads them for charts."""

    def __init__(self, database: Database, counts: Counts, work: WorkCounter, executors: Executors) -> None:
        """`counts` are those that this judicator's tasks add to."""
        self._minutes = database.minutes
        self._counts = counts
        self._work = work
        self._executors = executors
        self._known: dict[Span, tuple[float, FiguresReply]] = {}

    async def run(self, leading: Callable[[], bool]) -> None:
        """Write what was counted, and while leading look how much there is; until cancelled."""

        async def note() -> None:
            if leading():
                await self.look()
            await self.write()

        await every(_PERIOD, "figures", note)

    async def look(self) -> None:
        """Note how much waits now, and how many of the slots judge."""
        work = self._work.work()
        slots = (await self._executors.capacity()).slots
        # Tasks that executors have in hand beyond their slots wait there, or slots are drained.
        most = {"waiting": sum(work.queued.values()), "slots": slots}
        await self._add(minute(clock.wall()), {"$max": most, "$inc": {"busy": min(work.running, slots), "looks": 1}})

    async def write(self) -> None:
        """Write what was counted. What cannot be written now is kept for the next time."""
        by_minute = self._counts.take()
        while by_minute:
            when = min(by_minute)
            try:
                await self._add(when, {"$inc": dict(by_minute[when])})
            except BaseException:
                for minute, counts in by_minute.items():
                    self._counts.add(minute, dict(counts))
                raise
            del by_minute[when]

    async def _add(self, when: datetime.datetime, update: Bson) -> None:
        await self._minutes.update_one({"_id": when}, {**update, "$setOnInsert": {"begun": when}}, upsert=True)

    async def read(self, request: FiguresRequest) -> FiguresReply:
        """The points of a span, a few seconds old."""
        cached = self._known.get(request.span)
        if cached is not None and clock.monotonic() - cached[0] < _SHOWN:
            return cached[1]
        now = clock.wall()
        docs = await self._minutes.find({"_id": {"$gte": oldest(request.span, now)}}).to_list()
        reply = series(docs, request.span, now)
        self._known[request.span] = (clock.monotonic(), reply)
        return reply
