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
from typing import Final, NamedTuple

from bson import ObjectId
from prometheus_client import Counter
from pymongo.errors import PyMongoError

from judge.common import clock
from judge.config.allowance import Allowances
from judge.judicator.database import Database
from judge.judicator.documents import TaskDocument
from judge.judicator.hub import PARKED
from judge.judicator.queue.fair import WaitingTask
from judge.judicator.queue.order import Capacity, ExecutorCapacity
from judge.judicator.replica import UNREADABLE, Replica
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
        return ExecutorCapacity(self.languages, self.abilities)


class Working(NamedTuple):
    """What a report says of an assignment in force."""

    status: str
    progress: str
    waiting: bool


@dataclasses.dataclass
class Beats:
    """The reports that have listed an assignment: what the newest said, and what is stored since a monotonic time."""

    newest: Working
    stored: Working
    since: float
    count: int = 0


@dataclasses.dataclass(eq=False)
class _Parked:
    """A report that is held until there is work."""

    executor: RequestingExecutor
    free: int
    answer: asyncio.Future[list[WaitingTask]]


class Assigner:
    def __init__(
        self, database: Database, replica: Replica, changed: Callable[[ObjectId, int], None], allowances: Allowances
    ) -> None:
        """`on_change` is told of tasks that people see change; `allowances` say what an assignment may take."""
        self._tasks = database.tasks
        self._claims = BulkWriter(database, documents=True)
        self._replica = replica
        self._changed = changed
        self._allowances = allowances
        self.epoch: int | None = None
        # The assignments in force of each executor, by task id.
        self._hand_outs: dict[str, dict[str, HandOut]] = {}
        # What reports have said of the assignments, by claim.
        self._beats: dict[str, Beats] = {}
        self._parked: dict[str, _Parked] = {}
        self._pending_calls: set[str] = set()
        self._dispatching: asyncio.Handle | None = None
        self._lookups: set[asyncio.Task[None]] = set()
        replica.on_change = self.wake

    # --- leading -----------------------------------------------------------------------------------------------

    def lead(self, epoch: int, hand_outs: Iterable[HandOut]) -> None:
        """Assign from now on; `hand_outs` are those in force."""
        self._hand_outs, self._beats = {}, {}
        for hand_out in hand_outs:
            self.note(hand_out)
        self.epoch = epoch
        self.wake()

    def stop(self) -> None:
        """Assign no more: another judicator may lead. Held reports are answered."""
        self.epoch = None
        self._hand_outs, self._beats = {}, {}
        for parked in list(self._parked.values()):
            self._answer(parked, [])

    # --- assignments in force ----------------------------------------------------------------------------------

    def note(self, hand_out: HandOut) -> None:
        self._hand_outs.setdefault(hand_out.executor, {})[str(hand_out.id)] = hand_out

    def forget(self, hand_out: HandOut) -> None:
        of_executor = self._hand_outs.get(hand_out.executor, {})
        current = of_executor.get(str(hand_out.id))
        if current is not None and current.claim == hand_out.claim:
            del of_executor[str(hand_out.id)]
            if not of_executor:
                del self._hand_outs[hand_out.executor]
        self._beats.pop(hand_out.claim, None)

    def hand_outs(self, executor: str) -> dict[str, HandOut]:
        """The assignments of an executor that this leader knows to be in force, by task id."""
        return {task: hand_out for task, hand_out in self._hand_outs.get(executor, {}).items() if self._runs(hand_out)}

    def beat(self, hand_out: HandOut, working: Working) -> Beats:
        """A report has listed an assignment: what is known of it by reports."""
        beats = self._beats.get(hand_out.claim)
        if beats is None:
            stored = Working(hand_out.status, hand_out.progress, hand_out.waiting)
            beats = self._beats[hand_out.claim] = Beats(stored, stored, clock.monotonic())
        beats.count += 1
        beats.newest = working
        return beats

    def beats(self, hand_out: HandOut) -> int:
        """The number of reports that have listed an assignment, as far as this leader knows."""
        beats = self._beats.get(hand_out.claim)
        return hand_out.heartbeat + (beats.count if beats is not None else 0)

    def waits(self, hand_out: HandOut) -> bool:
        """Return whether an assignment waits at its executor for a slot, as far as this leader knows."""
        beats = self._beats.get(hand_out.claim)
        return hand_out.waiting if beats is None else beats.newest.waiting

    def reconcile(self, running: Iterable[HandOut]) -> None:
        """Note the assignments that the database has: some were made by another leader, or had an unknown outcome."""
        in_force = {hand_out.claim: hand_out for hand_out in running}
        for of_executor in list(self._hand_outs.values()):
            for hand_out in list(of_executor.values()):
                if hand_out.claim not in in_force and not self._runs(hand_out):
                    self.forget(hand_out)
        for hand_out in in_force.values():
            if str(hand_out.id) not in self._hand_outs.get(hand_out.executor, {}):
                self.note(hand_out)

    def _runs(self, hand_out: HandOut) -> bool:
        state = self._replica.queue.running().get(hand_out.id.binary)
        return state is not None and state.attempt == hand_out.attempt

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
        for parked in sorted(self._parked.values(), key=lambda report: -report.free):
            if parked.free > 0 and (tasks := self._take(parked.executor, parked.free)):
                self._answer(parked, tasks)

    def _answer(self, parked: _Parked, tasks: list[WaitingTask]) -> None:
        if self._parked.get(parked.executor.name) is parked:
            del self._parked[parked.executor.name]
        if not parked.answer.done():
            parked.answer.set_result(tasks)

    def _take(self, executor: RequestingExecutor, count: int) -> list[WaitingTask]:
        if self.epoch is None or not self._replica.loaded:
            return []
        return self._replica.queue.take(executor.name, executor.capacity, count, clock.monotonic())

    def call(self, executor: str) -> None:
        """An executor has a reason to report now (a cancelled task, a drain): its held report is answered."""
        if executor in self._parked:
            self._answer(self._parked[executor], [])
        elif self.epoch is not None:
            self._pending_calls.add(executor)

    def note_report(self, executor: str) -> None:
        """A newer report of an executor has come: one that is held is answered, earlier calls are served."""
        self._pending_calls.discard(executor)
        if executor in self._parked:
            self._answer(self._parked[executor], [])

    async def park(self, executor: RequestingExecutor, free: int, seconds: float) -> list[WaitingTask]:
        """Hold a report until there is work, it is called, or so many seconds have passed: the tasks taken for it."""
        if executor.name in self._pending_calls or self.epoch is None:
            self._pending_calls.discard(executor.name)
            return []
        earlier = self._parked.get(executor.name)
        if earlier is not None:
            # Of two reports one is held: the executor sends no third one, and the result of a task would wait.
            if earlier.executor.incarnation == executor.incarnation and earlier.executor.sequence > executor.sequence:
                return []
            self._answer(earlier, [])
        parked = _Parked(executor, free, asyncio.get_running_loop().create_future())
        self._parked[executor.name] = parked
        self.wake()
        try:
            with PARKED.labels("executor").track_inprogress():
                await asyncio.wait({parked.answer}, timeout=seconds)
        except BaseException:
            if parked.answer.done():  # the caller has hung up at this very moment
                for task in parked.answer.result():
                    self._replica.release(task.id)
            raise
        finally:
            self._answer(parked, [])
        return parked.answer.result()

    async def assign(self, executor: RequestingExecutor, count: int, ahead: int = 0) -> list[Assignment]:
        """Claim up to `count` waiting tasks for an executor; the last `ahead` of so many will wait there for a slot."""
        assignments: list[Assignment] = []
        for _ in range(_ROUNDS):
            tasks = self._take(executor, count - len(assignments))
            if not tasks:
                break
            assignments += await self.claim(executor, tasks, first=len(assignments), starting=count - ahead)
        return assignments

    async def claim(
        self, executor: RequestingExecutor, tasks: list[WaitingTask], *, first: int, starting: int
    ) -> list[Assignment]:
        """Claim tasks that were taken for an executor; from the place `starting` on they will wait there for a slot.

        Raises PyMongoError only if nothing is known to be claimed.
        """
        claims = await asyncio.gather(
            *(self._claim(executor, task, waits=place >= starting) for place, task in enumerate(tasks, first)),
            return_exceptions=True,
        )
        assignments = [result for result in claims if isinstance(result, Assignment)]
        failed = [result for result in claims if isinstance(result, BaseException)]
        if failed and not assignments:
            raise failed[0]
        return assignments

    async def _claim(self, executor: RequestingExecutor, waiting: WaitingTask, *, waits: bool) -> Assignment | None:
        """Compare-and-set one waiting task to this executor; None if it does not wait any more, or cannot be read."""
        task = ObjectId(waiting.id)
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
            self._replica.release(waiting.id)
            return None
        try:
            doc = await self._claims.write(
                {"_id": task, "done": False, "executor": None, "attempt": waiting.attempt},
                {"$set": fields, "$unset": {"waits": ""}, "$inc": {"attempt": 1, "version": 1}},
            )
        except BaseException:
            self._resolve_outcome(task)
            raise
        if doc is None or doc["done"] or doc["claim"] != fields["claim"]:  # a bulk is read after its writes
            await self._replica.refresh(task)
            return None
        self._replica.start(task, executor.name, doc["attempt"], doc["version"])
        try:
            hand_out, assignment = forms.hand_out(doc), forms.to_assignment(doc, self._allowances)
        except UNREADABLE as exc:
            if self._replica.on_unreadable is not None:
                await self._replica.on_unreadable(task, exc)
            return None
        self.note(hand_out)
        HANDED.labels(doc["priority"]).inc()
        log.info("task %s handed to %s (attempt %d), trace %s", task, executor.name, doc["attempt"], doc.get("trace"))
        self._changed(task, doc["version"])
        return assignment

    def _resolve_outcome(self, task: ObjectId) -> None:
        """Read what became of a claim whose outcome is unknown, as soon as the database answers."""

        async def refresh() -> None:
            while True:
                try:
                    return await self._replica.refresh(task)
                except PyMongoError as exc:
                    log.warning("the outcome of the claim of task %s is unknown: %s", task, str(exc)[:200])
                await asyncio.sleep(_RETRY)

        work = asyncio.create_task(refresh())
        self._lookups.add(work)
        work.add_done_callback(self._lookups.discard)

    async def resend(self, hand_outs: Iterable[HandOut]) -> list[Assignment]:
        """Assignments in force, as messages: the answer that carried them got lost."""
        claims = {hand_out.id: hand_out.claim for hand_out in hand_outs}
        if not claims:
            return []
        tasks = await self._tasks.find({"_id": {"$in": list(claims)}, "done": False}).to_list()
        return [forms.to_assignment(task, self._allowances) for task in tasks if task["claim"] == claims[task["_id"]]]
