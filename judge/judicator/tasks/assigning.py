"""Hand-outs: waiting tasks are claimed for the executors that ask for work, in the order of the queue (rule 3)."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import uuid
from collections.abc import Iterable

from bson import ObjectId
from prometheus_client import Counter
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from judge import clock
from judge.allowance import Allowances
from judge.judicator.database import Database
from judge.judicator.documents import TaskDocument
from judge.judicator.queue.order import Capacity, is_rejudge
from judge.judicator.queue.waiting import Queue, QueueListener, RequestingExecutor, lane_of
from judge.judicator.tasks import forms
from judge.judicator.tasks.forms import HandOut
from judge.model.messages import Assignment, Status

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class _Choice:
    """Tasks for an executor with their seats; `all`: nothing else waits that it could take, whoever hands it out."""

    tasks: list[tuple[TaskDocument, int | None]]
    all: bool


HANDED = Counter("judge_tasks_handed_out_total", "Hand-outs", ["priority"])


class Assigner:
    """Hands out the waiting tasks of one cluster."""

    def __init__(self, database: Database, queue: Queue, listener: QueueListener, allowances: Allowances) -> None:
        """`allowances` say what an assignment may take on its executor."""
        self._tasks = database.tasks
        self._queue = queue
        self._listener = listener
        self._allowances = allowances
        # Tasks that are being claimed here at this moment.
        self._claiming: set[ObjectId] = set()

    async def hand_out(
        self, executor: RequestingExecutor, count: int, capacity: Capacity, ahead: int = 0
    ) -> tuple[list[Assignment], bool]:
        """Claim up to `count` waiting tasks for an executor, in the order of the queue; whether that was all for it.

        The last `ahead` of so many will wait there for a slot. `capacity` is the cluster's, with this executor's.
        """
        taken: list[Assignment] = []
        full: set[str] = set()
        while len(taken) < count:
            choice = await self._next(executor, count - len(taken), capacity, full)
            if choice is None:
                return taken, True
            claims = await asyncio.gather(
                *(
                    self._claim(executor, task, seat, waits=place >= count - ahead)
                    for place, (task, seat) in enumerate(choice.tasks, start=len(taken))
                )
            )
            mine = [task for task in claims if task is not None]
            taken += [forms.to_assignment(task, self._allowances) for task in mine]
            lanes = {lane_of(task) for task in mine if not is_rejudge(task["rank"])}
            if len(taken) < count:
                moved = sum(await asyncio.gather(*map(self._queue.refill, lanes)))
                if choice.all and len(mine) == len(choice.tasks) and not moved:
                    return taken, True  # a task that has come since wakes somebody
            else:
                for lane in lanes:
                    self._queue.refill_later(lane)
        return taken, False

    async def has_work(self, executor: RequestingExecutor, capacity: Capacity) -> bool:
        """Says whether a report of this executor would be handed something now; the same choice as hand_out's."""
        full: set[str] = set()
        while (choice := await self._next(executor, 1, capacity, full)) is not None:
            if choice.tasks:
                return True
        return False

    async def _next(
        self, executor: RequestingExecutor, count: int, capacity: Capacity, full: set[str]
    ) -> _Choice | None:
        """Up to `count` tasks for an executor with their seats; None when nothing waits that it could take.

        Users who turn out to hold all that they may are added to `full`: then there may be none in this answer, and
        others in the next.
        """
        # More than asked for, as others here may be claiming some.
        most, known = count + len(self._claiming), len(full)
        found = await self._queue.candidates(executor, most, capacity, full)
        tasks = [task for task in found if task["_id"] not in self._claiming][:count]
        if not tasks:
            return None
        seated = await self._queue.seated(tasks, capacity, full)
        return _Choice(seated, len(tasks) == len(found) < most and len(full) == known)

    async def _claim(
        self, executor: RequestingExecutor, candidate: TaskDocument, seat: int | None, *, waits: bool
    ) -> TaskDocument | None:
        """Compare-and-set one waiting task to this executor; None when somebody else was faster, also with the seat."""
        task = candidate["_id"]
        self._claiming.add(task)
        fields: TaskDocument = {
            "status": Status.COMPILING.value,
            "executor": executor.name,
            "incarnation": executor.incarnation,
            "claim": uuid.uuid4().hex,
            "handed": executor.sequence,
            "heartbeat": 0,
            "waiting": waits,
            "progress": "",
            "started": clock.wall(),
        }
        if seat is not None:
            fields["seat"] = seat
        try:
            doc = await self._tasks.find_one_and_update(
                {"_id": task, "done": False, "executor": None, "attempt": candidate["attempt"]},
                {"$set": fields, "$unset": {"waits": ""}, "$inc": {"attempt": 1, "version": 1}},
                return_document=ReturnDocument.AFTER,
            )
        except DuplicateKeyError:
            return None
        finally:
            self._claiming.discard(task)
        if doc is not None:
            HANDED.labels(doc["priority"]).inc()
            log.info(
                "task %s handed to %s (attempt %d), trace %s", task, executor.name, doc["attempt"], doc.get("trace")
            )
            self._listener.changed(task, doc["version"])
        return doc

    async def again(self, hand_outs: Iterable[HandOut]) -> list[Assignment]:
        """Hand-outs that are in force, as messages: the answer that carried them got lost."""
        claims = {held.id: held.claim for held in hand_outs}
        if not claims:
            return []
        tasks = await self._tasks.find({"_id": {"$in": list(claims)}, "done": False}).to_list()
        return [forms.to_assignment(task, self._allowances) for task in tasks if task["claim"] == claims[task["_id"]]]
