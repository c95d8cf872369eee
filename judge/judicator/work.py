"""The numbers of tasks that wait, run and are finished, out of this judicator's queue."""

from __future__ import annotations

import collections
from dataclasses import dataclass, field
from typing import Final

from bson import ObjectId

from judge.common import clock
from judge.judicator.database import Database
from judge.judicator.queue.order import RANKS
from judge.judicator.replica import Replica
from judge.mongodb.store import Bson

# Judged runs of open rejudgings: tasks, but no submissions.
_RERUNS: Final[Bson] = {"rejudging": {"$gt": 0}, "rerun_of": {"$gte": ObjectId(b"\0" * 12)}, "done": True}
# Seconds for which their number is remembered.
_FRESH: Final = 10.0


@dataclass
class Work:
    """The numbers of tasks that wait (by priority, and by language or empty) and run (by executor)."""

    queued: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RANKS, 0))
    needs: dict[str, int] = field(default_factory=dict)
    holding: dict[str, int] = field(default_factory=dict)

    @property
    def running(self) -> int:
        return sum(self.holding.values())


class WorkCounter:
    def __init__(self, database: Database, replica: Replica) -> None:
        self._tasks = database.tasks
        self._queue = replica.queue
        self._reruns: tuple[float, int] | None = None

    def work(self) -> Work:
        work = Work(holding=collections.Counter(task.executor for task in self._queue.running().values()))
        for (priority, needs), count in self._queue.counts().items():
            work.queued[priority] += count
            work.needs[needs] = work.needs.get(needs, 0) + count
        return work

    async def finished(self, work: Work) -> int:
        """The number of submissions that neither wait nor run, after `work`."""
        total = await self._tasks.estimated_document_count()
        if self._reruns is None or clock.monotonic() - self._reruns[0] > _FRESH:
            count = await self._tasks.count_documents(_RERUNS, hint="rejudging", comment="recount")
            self._reruns = clock.monotonic(), count
        return max(0, total - sum(work.queued.values()) - work.running - self._reruns[1])
