"""Counts the tasks that wait, run and are finished, without reading them all at each look.

A short queue is counted at each look. A long one is counted by the leader alone, over an index and with pauses; all
judicators show its last count, which is at most twenty times as old as the count takes.
"""

from __future__ import annotations

import asyncio
import collections
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from bson import ObjectId

from judge import clock
from judge.judicator.database import Database, aggregate
from judge.judicator.documents import MetaDocument, WaitingCount
from judge.judicator.loops import put_off
from judge.judicator.queue.order import RANKS
from judge.judicator.queue.placing import BEHIND, FRONT
from judge.judicator.queue.waiting import LANE, RUN, Queue
from judge.mongodb.store import Bson

log = logging.getLogger(__name__)

# Up to so many entries of an index are looked at for one answer.
LOOK: Final = 500
# The document of the leader's count.
_TALLY: Final = "tally"
# Of its time the leader counts one part in so many, at most once in so many seconds.
_SHARE: Final = 20
_PERIOD: Final = 1.0
_WAITING: Final[Bson] = {"waits": {"$in": [BEHIND, FRONT, RUN]}}
_RUNNING: Final[Bson] = {"executor": {"$gt": ""}, "done": False}
# Judged runs of open rejudgings: tasks, but no submissions.
_RERUNS: Final[Bson] = {"rejudging": {"$gt": 0}, "rerun_of": {"$gte": ObjectId(b"\0" * 12)}, "done": True}


@dataclass
class Work:
    """The numbers of tasks that wait (by priority, and by language or empty), run (by executor), and are finished."""

    queued: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RANKS, 0))
    needs: dict[str, int] = field(default_factory=dict)
    holding: dict[str, int] = field(default_factory=dict)
    reruns: int = 0

    @property
    def running(self) -> int:
        """The number of tasks that executors have in hand."""
        return sum(self.holding.values())

    def count(self, rows: Iterable[tuple[str, str, int]]) -> None:
        """Add waiting tasks: priority, needs, how many."""
        for priority, needs, n in rows:
            self.queued[priority] += n
            self.needs[needs] = self.needs.get(needs, 0) + n


class Tally:
    """Counts, for status and metrics."""

    def __init__(self, database: Database, queue: Queue) -> None:
        """Nothing is read before the first call."""
        self._db = database
        self._tasks = database.tasks
        self._queue = queue
        self._last: MetaDocument | None = None

    async def holding(self) -> dict[str, int]:
        """The number of tasks that each executor has in hand."""
        running = await self._tasks.find(_RUNNING, {"executor": 1, "_id": 0}, hint="hands").to_list()
        return collections.Counter(str(task["executor"]) for task in running)

    async def work(self) -> Work:
        """The work that there is; exact while less than LOOK tasks wait, else as the leader counted last."""
        fields = {"priority": 1, "needs": 1, "_id": 0}
        holding, seen, last = await asyncio.gather(
            self.holding(),
            self._tasks.find(_WAITING, fields, hint=LANE, limit=LOOK).to_list(),
            self._db.meta.find_one({"_id": _TALLY}),
        )
        if len(seen) == LOOK and last is None:
            last = await self.recount()
        work = Work(holding=holding, reruns=0 if last is None else last.get("reruns", 0))
        if len(seen) < LOOK or last is None:
            work.count((task["priority"], task["needs"], 1) for task in seen)
        else:
            work.count((row["priority"], row["needs"], row["n"]) for row in last["rows"])
        return work

    async def finished(self, work: Work) -> int:
        """The number of submissions that neither wait nor run, after `work`."""
        total = await self._tasks.estimated_document_count()
        return max(0, total - sum(work.queued.values()) - work.running - work.reruns)

    async def run(self, leading: Callable[[], bool]) -> None:
        """While leading, count, and mend the queue's lanes; until cancelled."""
        took, mending = 0.0, clock.Deadline(0.0)
        while True:
            await asyncio.sleep(max(_PERIOD, _SHARE * took))
            if not leading():
                self._last = None  # another one counts now
                continue
            start = clock.monotonic()
            with put_off("counting the queue"):
                await self.recount()
                took = clock.monotonic() - start
                if mending.over:  # many people with long queues have many lanes
                    start = clock.monotonic()
                    await self._queue.mend()
                    mending = clock.Deadline(_SHARE * (clock.monotonic() - start))

    async def recount(self) -> MetaDocument:
        """Count all that waits, over an index alone, and keep it for everybody."""
        group = {"_id": {"priority": "$priority", "needs": "$needs"}, "n": {"$sum": 1}}
        steps: list[Bson] = [{"$match": _WAITING}, {"$group": group}]
        rows: list[WaitingCount] = [
            WaitingCount(priority=row["_id"]["priority"], needs=row["_id"]["needs"], n=row["n"])
            for row in await aggregate(self._tasks, steps, hint=LANE, comment="recount")
        ]
        reruns = await self._tasks.count_documents(_RERUNS, hint="rejudging", comment="recount")
        counted: MetaDocument = {"rows": rows, "reruns": reruns}
        if counted != self._last:
            await self._db.meta.update_one({"_id": _TALLY}, {"$set": counted}, upsert=True)
            self._last = counted
        return counted
