"""A judicator's copy of the queue: loaded from the database, then kept by its own calls and by the change stream.

Every judicator has one, so that the next leader need not load it. What a judicator changes itself it notes at once;
the event of the same change comes later and changes nothing. A slow comparison with the database repairs differences.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from bson import ObjectId
from prometheus_client import Counter

from judge.common import clock
from judge.config.allowance import Allowances
from judge.judicator.database import Database
from judge.judicator.documents import TaskDocument
from judge.judicator.loops import put_off
from judge.judicator.queue.fair import FairQueue, QueuedTask, RunningTask
from judge.judicator.queue.order import GIVEN_BACK, RANKS, RERUN_GIVEN_BACK
from judge.mongodb.store import Bson

log = logging.getLogger(__name__)

REPAIRS = Counter("judge_queue_repairs_total", "Differences between the queue in memory and the database, repaired")

# The value of `waits` of a waiting task; earlier releases wrote others. The index of them, which covers a load.
WAITS: Final = "waiting"
WAITING_INDEX: Final = "waiting"
WAITING_KEYS: Final = (
    *("waits", "arrival", "_id", "user", "priority", "rank", "needs", "abilities", "tried", "attempt", "order"),
    *("submission.role", "quota.slot_share"),
)
WAITING: Final[Bson] = {"waits": {"$gt": ""}}
RUNNING: Final[Bson] = {"executor": {"$gt": ""}, "done": False}
_ROW: Final[Bson] = dict.fromkeys(WAITING_KEYS, 1)
_STATE: Final[Bson] = {**_ROW, "done": 1, "executor": 1, "version": 1}
# What reading a document raises that makes no sense.
UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError)
# Rows of one batch: each is taken in without a pause.
_BATCH: Final = 2000
# Tasks that are over are remembered so long: events of their beginning may still come.
_ENDED: Final = 50_000
# Seconds from one comparison to the next, and in how much of the time it may compare.
_PERIOD: Final = 30.0
_SHARE: Final = 20
# Seconds after which a difference is looked at again. By then its event has come.
_SECOND_LOOK: Final = 3.0


class Replica:
    def __init__(self, database: Database, allowances: Allowances) -> None:
        """Empty until `synchronise`."""
        self._db = database
        self._tasks = database.tasks
        self._allowances = allowances
        self.queue = FairQueue()
        self.ready = asyncio.Event()
        # Called after a change that may let an executor have a task, and with a task that cannot be read.
        self.on_change: Callable[[], None] = lambda: None
        self.on_unreadable: Callable[[ObjectId, Exception], Awaitable[None]] | None = None
        # The versions at which tasks were assigned or came back last: older events say nothing of them.
        self._versions: dict[bytes, int] = {}
        self._ended: OrderedDict[bytes, None] = OrderedDict()

    @property
    def loaded(self) -> bool:
        return self.ready.is_set()

    # --- what happens to a task --------------------------------------------------------------------------------

    def add(self, doc: Mapping[str, Any]) -> None:
        """A task was stored that waits. Raises what `queued_task` raises."""
        task: bytes = doc["_id"].binary
        if task not in self._ended and self.queue.add(queued_task(doc, self._allowances), clock.monotonic()):
            self.on_change()

    def start(self, task: ObjectId, executor: str, attempt: int, version: int) -> bool:
        """An executor was given a task; False if this queue does not know the task."""
        state = self.queue.state(task.binary)
        if state is None:
            return task.binary in self._ended
        same = isinstance(state, RunningTask) and state.attempt == attempt
        if same or self.queue.start(task.binary, executor, attempt):
            self._versions[task.binary] = version
        return True

    def give_back(self, task: ObjectId, failed: list[str], version: int) -> bool:
        """A running task waits again; False if this queue does not know the task."""
        state = self.queue.state(task.binary)
        if state is None:
            return task.binary in self._ended
        if isinstance(state, RunningTask) and version > self._versions.get(task.binary, -1):
            self._versions[task.binary] = version
            self.queue.give_back(task.binary, failed, clock.monotonic())
            self.on_change()
        return True

    def release(self, task: bytes) -> None:
        """A task that was taken has not been assigned."""
        if self.queue.release(task):
            self.on_change()

    def remove(self, task: ObjectId) -> None:
        """A task is finished, cancelled or deleted."""
        self._versions.pop(task.binary, None)
        self._ended[task.binary] = None
        if len(self._ended) > _ENDED:
            self._ended.popitem(last=False)
        if self.queue.remove(task.binary):
            self.on_change()

    def observe(self, task: ObjectId, doc: TaskDocument | None) -> bool:
        """Make the queue agree with a task's newest document; whether it did not."""
        before = self.queue.state(task.binary)
        if doc is None or doc["done"]:
            self.remove(task)
            return before is not None
        executor, attempt = doc["executor"], doc["attempt"]
        agrees = before is not None and before.attempt == attempt
        agrees = agrees and executor == (before.executor if isinstance(before, RunningTask) else None)
        if not agrees:
            self.queue.remove(task.binary)
            self._ended.pop(task.binary, None)
            queued = queued_task(doc, self._allowances)
            if executor is None:
                self.queue.add(queued, clock.monotonic())
            else:
                self.queue.add(queued._replace(attempt=attempt - 1), clock.monotonic())
                self.queue.start(task.binary, executor, attempt)
            self.on_change()
        if attempt:
            self._versions[task.binary] = doc["version"]
        return not agrees

    async def refresh(self, task: ObjectId) -> None:
        doc = await self._db.latest(self._tasks, {"_id": task}, _STATE)
        await self._take_in(task, functools.partial(self.observe, task, doc))

    # --- the change stream -------------------------------------------------------------------------------------

    async def apply(self, event: Bson) -> None:
        """Take in one event (changes.PIPELINE)."""
        task: ObjectId = event["documentKey"]["_id"]
        kind = event["operationType"]
        if kind == "delete":
            self.remove(task)
        elif kind == "insert":
            doc = event["fullDocument"]
            if doc.get("waits") and not doc.get("done"):
                await self._take_in(task, functools.partial(self.add, {**doc, "_id": task}))
        else:
            fields = event.get("updateDescription", {}).get("updatedFields", {})
            if fields.get("done") is True:
                self.remove(task)
            elif "executor" not in fields:
                return
            elif fields["executor"] is None:
                failed = fields["tried"].split(",") if "tried" in fields else self._failed_executors(task)
                if not self.give_back(task, failed, fields["version"]):
                    await self.refresh(task)
            elif not self.start(task, fields["executor"], fields["attempt"], fields["version"]):
                await self.refresh(task)

    def _failed_executors(self, task: ObjectId) -> list[str]:
        """The executors that have failed a task before: an update that adds none does not name them."""
        state = self.queue.state(task.binary)
        waited = state.waited if isinstance(state, RunningTask) else state
        return [] if waited is None else list(waited.lane.key.failed)

    async def _take_in(self, task: ObjectId, work: Callable[[], object]) -> None:
        """Do what a document of a task calls for; a document that makes no sense holds up no other."""
        try:
            work()
        except UNREADABLE as exc:
            log.error("task %s cannot be read: %s: %s", task, type(exc).__name__, exc)  # noqa: TRY400 - the document is at fault
            if self.on_unreadable is not None:
                await self.on_unreadable(task, exc)

    # --- the database ------------------------------------------------------------------------------------------

    async def synchronise(self) -> None:
        """Agree with the database: load it, or find what events that were missed would have said.

        The change stream must be open, so that nothing happens unseen meanwhile.
        """
        if not self.loaded:
            for row in await self._tasks.find(RUNNING, _STATE).to_list():
                await self._take_in(row["_id"], functools.partial(self.observe, row["_id"], row))
            await self._read_waiting(self.add)
            self.ready.set()
            log.info("the queue is loaded: %d tasks wait, %d run", len(self.queue), len(self.queue.running()))
            return
        await asyncio.gather(*(self.refresh(ObjectId(task)) for task in await self.differences()))

    async def _read_waiting(self, take: Callable[[Mapping[str, Any]], None]) -> None:
        cursor = self._tasks.find(
            WAITING, _ROW, hint=WAITING_INDEX, sort=[("waits", 1), ("arrival", 1)], batch_size=_BATCH
        )
        cursor.comment("queue")
        async with cursor:
            while rows := await cursor.to_list(_BATCH):
                for row in rows:
                    await self._take_in(row["_id"], functools.partial(take, row))
                await asyncio.sleep(0)

    async def differences(self) -> set[bytes]:
        """The tasks that wait or run here or in the database, but not in both."""
        waiting_here = {task.id for task in self.queue.waiting()}
        running = {task: task_state.attempt for task, task_state in self.queue.running().items()}
        differ: set[bytes] = set()

        def compare(row: Mapping[str, Any]) -> None:
            task = row["_id"].binary
            if task in waiting_here:
                waiting_here.discard(task)
            else:
                differ.add(task)

        await self._read_waiting(compare)
        for row in await self._tasks.find(RUNNING, {"attempt": 1}, comment="queue").to_list():
            if running.pop(row["_id"].binary, None) != row["attempt"]:
                differ.add(row["_id"].binary)
        return differ | waiting_here | set(running)

    async def run(self) -> None:
        """Compare with the database now and then, until cancelled."""
        pause = _PERIOD
        while True:
            await asyncio.sleep(pause)
            begin = clock.monotonic()
            with put_off("the comparison of the queue"):
                await self.compare()
            pause = max(_PERIOD, _SHARE * (clock.monotonic() - begin))

    async def compare(self) -> int:
        """Repair what differs from the database for some seconds; how much did."""
        if not self.loaded:
            return 0
        suspects = {task: self.queue.state(task) for task in await self.differences()}
        if not suspects:
            return 0
        await asyncio.sleep(_SECOND_LOOK)
        repaired = 0
        for task, state in suspects.items():
            if self.queue.state(task) is not state:
                continue  # something has happened to it since
            doc = await self._db.latest(self._tasks, {"_id": ObjectId(task)}, _STATE)
            if self.queue.state(task) is state and self.observe(ObjectId(task), doc):
                log.warning("the queue and the database differed about task %s; it is repaired", ObjectId(task))
                REPAIRS.inc()
                repaired += 1
        return repaired


def queued_task(doc: Mapping[str, Any], allowances: Allowances) -> QueuedTask:
    """A waiting task out of its document, or of a row of the index. ValueError, KeyError, TypeError: it cannot be."""
    priority, needs, user, tried = doc["priority"], doc["needs"], doc["user"], doc.get("tried") or ""
    if priority not in RANKS or not isinstance(needs, str) or not isinstance(user, str):
        raise ValueError(f"priority {priority!r}, language {needs!r} or user {user!r} is none")
    own, role = (doc.get("quota") or {}).get("slot_share"), (doc.get("submission") or {}).get("role", "user")
    share = allowances.of(role).slot_share if own is None else float(own) or 1.0
    order = doc.get("order")
    return QueuedTask(
        doc["_id"].binary,
        user,
        priority,
        needs,
        frozenset(abilities.split(",")) if (abilities := doc.get("abilities")) else frozenset(),
        tuple(tried.split(",")) if tried else (),
        int(doc["attempt"]),
        share,
        int(order) if priority == "rejudge" and order is not None else None,
        doc["rank"] in {GIVEN_BACK, RERUN_GIVEN_BACK},
    )
