"""Assignments: the leader takes tasks from its queue for the executors that ask, and claims each by compare-and-set.

A claim is one compare-and-set on one document, so two leaders never assign a task twice. Whether this judicator assigns
is said by `epoch`: the leader's while no newer one is known (leader/leading.py).
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import uuid
from collections.abc import Callable, Iterable
from typing import Final

from bson import ObjectId
from prometheus_client import Counter
from pymongo.errors import PyMongoError

from judge import clock
from judge.allowance import Allowances
from judge.judicator.database import Database
from judge.judicator.documents import TaskDocument
from judge.judicator.hub import PARKED
from judge.judicator.queue.fair import WaitingTask
from judge.judicator.queue.order import Capacity, ExecutorCapacity
from judge.judicator.replica import Replica
from judge.judicator.tasks import forms
from judge.judicator.tasks.forms import HandOut
from judge.judicator.tasks.writing import BulkWriter
from judge.model.messages import ABILITIES, TOOLS, Assignment, Status

log = logging.getLogger(__name__)

HANDED = Counter("judge_tasks_handed_out_total", "Hand-outs", ["priority"])
# Seconds between two reads of a task whose claim has an unknown outcome.
_RETRY: Final = 0.5
# Tasks that cannot be claimed (somebody has just cancelled them) are replaced by others so many times in one report.
_ROUNDS: Final = 20


@dataclasses.dataclass(frozen=True)
class RequestingExecutor:
    """An executor that asks for work, and the report by which it asks."""

    name: str
    incarnation: str
    sequence: int
    languages: frozenset[str]
    abilities: frozenset[str] = ABILITIES | TOOLS

    @property
    def capacity(self) -> ExecutorCapacity:
        """What it can judge."""
        return ExecutorCapacity(self.languages, self.abilities)


@dataclasses.dataclass(eq=False)
class _Parked:
    """A report that is held until there is work."""

    executor: RequestingExecutor
    free: int
    answer: asyncio.Future[list[WaitingTask]]


class Assigner:
    """Assigns the waiting tasks of one cluster while its judicator leads."""

    def __init__(
        self, database: Database, replica: Replica, changed: Callable[[ObjectId, int], None], allowances: Allowances
    ) -> None:
        """`changed` is told of tasks that people see change; `allowances` say what an assignment may take."""
        self._tasks = database.tasks
        self._claims = BulkWriter(database)
        self._replica = replica
        self._changed = changed
        self._allowances = allowances
        self.epoch: int | None = None
        # The assignments in force of each executor, by task id.
        self._held: dict[str, dict[str, HandOut]] = {}
        # How many reports have listed an assignment, by claim.
        self._beats: dict[str, int] = {}
        self._parked: dict[str, _Parked] = {}
        self._called: set[str] = set()
        self._dispatching: asyncio.Handle | None = None
        self._later: set[asyncio.Task[None]] = set()
        replica.changed = self.wake

    # --- leading -----------------------------------------------------------------------------------------------

    def lead(self, epoch: int, hand_outs: Iterable[HandOut]) -> None:
        """Assign from now on; `hand_outs` are those in force."""
        self._held, self._beats = {}, {}
        for held in hand_outs:
            self.note(held)
        self.epoch = epoch
        self.wake()

    def stop(self) -> None:
        """Assign no more: another judicator may lead. Held reports are answered."""
        self.epoch = None
        self._held, self._beats = {}, {}
        for parked in list(self._parked.values()):
            self._answer(parked, [])

    # --- assignments in force ----------------------------------------------------------------------------------

    def note(self, held: HandOut) -> None:
        """An assignment is in force."""
        self._held.setdefault(held.executor, {})[str(held.id)] = held

    def forget(self, held: HandOut) -> None:
        """An assignment is over."""
        mine = self._held.get(held.executor, {})
        known = mine.get(str(held.id))
        if known is not None and known.claim == held.claim:
            del mine[str(held.id)]
            if not mine:
                del self._held[held.executor]
        self._beats.pop(held.claim, None)

    def held(self, executor: str) -> dict[str, HandOut]:
        """The assignments of an executor that this leader knows to be in force, by task id."""
        return {task: held for task, held in self._held.get(executor, {}).items() if self._runs(held)}

    def beat(self, held: HandOut) -> None:
        """A report has listed an assignment."""
        self._beats[held.claim] = self._beats.get(held.claim, 0) + 1

    def beats(self, held: HandOut) -> int:
        """The number of reports that have listed an assignment, as far as this leader knows."""
        return held.heartbeat + self._beats.get(held.claim, 0)

    def agree(self, running: Iterable[HandOut]) -> None:
        """Note the assignments that the database has: some were made by another leader, or had an unknown outcome."""
        in_force = {held.claim: held for held in running}
        for mine in list(self._held.values()):
            for held in list(mine.values()):
                if held.claim not in in_force and not self._runs(held):
                    self.forget(held)
        for held in in_force.values():
            if str(held.id) not in self._held.get(held.executor, {}):
                self.note(held)

    def _runs(self, held: HandOut) -> bool:
        state = self._replica.queue.running().get(held.id.binary)
        return state is not None and state.attempt == held.attempt

    # --- assigning ---------------------------------------------------------------------------------------------

    def set_capacity(self, capacity: Capacity) -> None:
        """The executors that are live and not drained."""
        self._replica.queue.set_capacity(capacity)
        self.wake()

    def wake(self) -> None:
        """Look soon whether a held report can be answered with work; several changes share a look."""
        if self._parked and self.epoch is not None and self._dispatching is None:
            self._dispatching = asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._dispatching = None
        for parked in sorted(self._parked.values(), key=lambda one: -one.free):
            if parked.free > 0 and (taken := self._take(parked.executor, parked.free)):
                self._answer(parked, taken)

    def _answer(self, parked: _Parked, taken: list[WaitingTask]) -> None:
        if self._parked.get(parked.executor.name) is parked:
            del self._parked[parked.executor.name]
        if not parked.answer.done():
            parked.answer.set_result(taken)

    def _take(self, executor: RequestingExecutor, count: int) -> list[WaitingTask]:
        if self.epoch is None or not self._replica.loaded:
            return []
        return self._replica.queue.take(executor.name, executor.capacity, count, clock.monotonic())

    def called(self, executor: str) -> None:
        """An executor has a reason to report now (a cancelled task, a drain): its held report is answered."""
        if executor in self._parked:
            self._answer(self._parked[executor], [])
        elif self.epoch is not None:
            self._called.add(executor)

    def reported(self, executor: str) -> None:
        """A newer report of an executor has come: one that is held is answered, earlier calls are served."""
        self._called.discard(executor)
        if executor in self._parked:
            self._answer(self._parked[executor], [])

    async def park(self, executor: RequestingExecutor, free: int, seconds: float) -> list[WaitingTask]:
        """Hold a report until there is work, it is called, or so many seconds have passed: the tasks taken for it."""
        if executor.name in self._called or self.epoch is None:
            self._called.discard(executor.name)
            return []
        parked = _Parked(executor, free, asyncio.get_running_loop().create_future())
        self._parked[executor.name] = parked
        self.wake()
        try:
            with PARKED.labels("executor").track_inprogress():
                await asyncio.wait({parked.answer}, timeout=seconds)
        except BaseException:
            if parked.answer.done():  # the caller has hung up at this very moment
                for task in parked.answer.result():
                    self._replica.released(task.id)
            raise
        finally:
            self._answer(parked, [])
        return parked.answer.result()

    async def assign(self, executor: RequestingExecutor, count: int, ahead: int = 0) -> list[Assignment]:
        """Claim up to `count` waiting tasks for an executor; the last `ahead` of so many will wait there for a slot."""
        found: list[Assignment] = []
        for _ in range(_ROUNDS):
            taken = self._take(executor, count - len(found))
            if not taken:
                break
            found += await self.claim(executor, taken, first=len(found), begun=count - ahead)
        return found

    async def claim(
        self, executor: RequestingExecutor, taken: list[WaitingTask], *, first: int, begun: int
    ) -> list[Assignment]:
        """Claim tasks that were taken for an executor; from the place `begun` on they will wait there for a slot.

        Raises PyMongoError only if nothing is known to be claimed.
        """
        claims = await asyncio.gather(
            *(self._claim(executor, task, waits=place >= begun) for place, task in enumerate(taken, first)),
            return_exceptions=True,
        )
        found = [one for one in claims if isinstance(one, Assignment)]
        failed = [one for one in claims if isinstance(one, BaseException)]
        if failed and not found:
            raise failed[0]
        return found

    async def _claim(self, executor: RequestingExecutor, taken: WaitingTask, *, waits: bool) -> Assignment | None:
        """Compare-and-set one waiting task to this executor; None if it does not wait any more, or cannot be read."""
        task = ObjectId(taken.id)
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
        if self.epoch is None:
            self._replica.released(taken.id)
            return None
        try:
            doc = await self._claims.write(
                {"_id": task, "done": False, "executor": None, "attempt": taken.attempt},
                {"$set": fields, "$unset": {"waits": ""}, "$inc": {"attempt": 1, "version": 1}},
            )
        except BaseException:
            self._find_out(task)
            raise
        if doc is None or doc["done"] or doc["claim"] != fields["claim"]:  # a bulk is read after its writes
            await self._replica.refresh(task)
            return None
        self._replica.started(task, executor.name, doc["attempt"], doc["version"])
        try:
            held, assignment = forms.hand_out(doc), forms.to_assignment(doc, self._allowances)
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            if self._replica.unreadable is not None:
                await self._replica.unreadable(task, exc)
            return None
        self.note(held)
        HANDED.labels(doc["priority"]).inc()
        log.info("task %s handed to %s (attempt %d), trace %s", task, executor.name, doc["attempt"], doc.get("trace"))
        self._changed(task, doc["version"])
        return assignment

    def _find_out(self, task: ObjectId) -> None:
        """Read what became of a claim whose outcome is unknown, as soon as the database answers."""

        async def look() -> None:
            while True:
                try:
                    return await self._replica.refresh(task)
                except PyMongoError as exc:
                    log.warning("the outcome of the claim of task %s is unknown: %s", task, str(exc)[:200])
                await asyncio.sleep(_RETRY)

        work = asyncio.create_task(look())
        self._later.add(work)
        work.add_done_callback(self._later.discard)

    async def again(self, hand_outs: Iterable[HandOut]) -> list[Assignment]:
        """Assignments in force, as messages: the answer that carried them got lost."""
        claims = {held.id: held.claim for held in hand_outs}
        if not claims:
            return []
        tasks = await self._tasks.find({"_id": {"$in": list(claims)}, "done": False}).to_list()
        return [forms.to_assignment(task, self._allowances) for task in tasks if task["claim"] == claims[task["_id"]]]
