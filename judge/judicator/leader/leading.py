"""Leadership and the leader's sweep (seed: Lead; docs/protocol.md, The leader).

Every act of the leader is a compare-and-set that two leaders could do side by side. So a leader that etcd does not
confirm any more stops sweeping, and goes on assigning until the database knows a newer epoch.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from prometheus_client import Counter, Gauge
from pymongo import ReturnDocument
from pymongo.errors import PyMongoError

from judge.common import clock
from judge.config import JudicatorConfig
from judge.etcd.client import Etcd
from judge.etcd.election import Election
from judge.judicator.database import Database
from judge.judicator.documents import ExecutorDocument
from judge.judicator.executors import Executors
from judge.judicator.leader.sweep import ExecutorMark, Notes, SilenceLimits, SweepDecision, decide, observed
from judge.judicator.loops import Loops, every, is_unavailable
from judge.judicator.queue.order import FULL_PENALTY, attempt_penalty
from judge.judicator.tasks.forms import HandOut
from judge.judicator.tasks.lifecycle import Tasks, Why

log = logging.getLogger(__name__)

LEADER_KEY: Final = "judicator/leader"
EPOCH: Final = "leader"

LEADING = Gauge("judge_leading", "1 while this judicator leads")
# Seconds between two steps of a judicator that does not lead.
_STAND: Final = 0.25
DEAD = Counter("judge_executors_dead_total", "Executors declared dead")


class Leader:
    """One candidate: stands for election, and sweeps while it leads."""

    def __init__(
        self,
        config: JudicatorConfig,
        database: Database,
        etcd: Etcd,
        tasks: Tasks,
        executors: Executors,
        loops: Loops,
    ) -> None:
        self._config = config
        self._db = database
        self._tasks = tasks
        self._executors = executors
        self._loops = loops
        self._election = Election(etcd, LEADER_KEY, config.name, config.leader_ttl, address=config.address)
        # A thread of its own, so that nothing else that waits for etcd delays a refresh.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="election")
        self._limits = SilenceLimits(config.task_expiry, config.executor_expiry, config.executor_forget)
        self._notes: Notes = {}
        self._observed = 0.0
        self._last_pass: float | None = None
        self.epoch: int | None = None

    @property
    def leading(self) -> bool:
        return self.epoch is not None and self._election.held

    @property
    def other_address(self) -> str | None:
        """The address of the judicator that leads, if it is another one."""
        peer = self._election.other
        return None if peer is None else peer.address or None

    async def elect(self) -> None:
        """Stand for election until cancelled, once the queue is loaded."""
        while True:
            if self._tasks.replica.loaded or self._election.held:
                await self.step()
            interval = self._election.interval
            await asyncio.sleep(interval if self.leading else min(interval, _STAND))

    async def step(self) -> bool:
        """One step of the election; on winning an epoch is taken from the database. Whether it leads afterwards."""
        leads = await asyncio.get_running_loop().run_in_executor(self._thread, self._election.step)
        if not leads:
            self._step_down()
        elif self.epoch is None:
            try:
                await self._take_epoch()
            except PyMongoError as exc:
                if not is_unavailable(exc):  # else the next step tries again
                    raise
        LEADING.set(int(self.leading))
        return self.leading

    def _step_down(self) -> None:
        if self.epoch is not None:
            log.warning("epoch %d is over: this judicator no longer leads", self.epoch)
        self.epoch, self._notes, self._last_pass = None, {}, None

    async def _take_epoch(self) -> None:
        """An epoch that is larger than every one before it, whatever happens to etcd (its restores, its rebuilding)."""
        doc = await self._db.meta.find_one_and_update(
            {"_id": EPOCH},
            {"$inc": {"epoch": 1}, "$set": {"holder": self._config.name}},
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        if doc is None:  # deleted between the two steps of the upsert
            return
        epoch = int(doc["epoch"])
        self._executors.forget_reports()
        self._tasks.assigner.lead(epoch, await self._tasks.running())
        self.epoch = epoch
        log.info("leading with epoch %d", epoch)

    async def sweep(self) -> None:
        await every(self._config.sweep_interval, "the sweep", self.sweep_once)

    async def sweep_once(self) -> SweepDecision | None:
        """One pass; None when this judicator does not lead (any more)."""
        assigner = self._tasks.assigner
        if assigner.epoch is None or not await self._confirm(assigner.epoch) or not self.leading:
            return None
        now = clock.monotonic()
        if self._last_pass is not None:
            self._observed = observed(self._observed, now - self._last_pass, self._config.sweep_interval)
        self._last_pass = now
        stored = {task.id: task for task in await self._tasks.running()}
        assigner.reconcile(stored.values())
        running = [
            dataclasses.replace(task, heartbeat=assigner.beats(task), waiting=assigner.waits(task))
            for task in stored.values()
        ]
        docs = {doc["_id"]: doc for doc in await self._executors.all()}
        marks = [self._mark(doc) for doc in docs.values()]
        decision = decide(self._notes, running, marks, self._observed, self._limits)
        self._notes = decision.notes
        for mark in decision.dead:
            await self._act(mark.name, functools.partial(self._declare_dead, docs[mark.name], mark))
        silence = f"no sign of life for {self._config.task_expiry:g} s"
        give_backs: list[tuple[HandOut, Why, str, int]] = [
            (task, "dead", *attempt_penalty("the executor is dead", waiting=task.waiting)) for task in decision.orphaned
        ]
        give_backs += [(task, "expired", silence, FULL_PENALTY) for task in decision.expired]
        for task, why, reason, penalty in give_backs:
            hand_out = stored[task.id]
            if assigner.beats(hand_out) == task.heartbeat:  # else a report has listed it meanwhile
                back = functools.partial(self._tasks.give_back, hand_out, why, reason, penalty=penalty, silent=True)
                await self._act(task.id, back)
        for mark in decision.forgotten:
            await self._act(mark.name, functools.partial(self._forget, docs[mark.name]))
        return decision

    def _mark(self, doc: ExecutorDocument) -> ExecutorMark:
        """What is known of an executor; a leader hears more reports than it stores."""
        sequence = self._executors.sequence(doc["_id"], doc["incarnation"])
        return ExecutorMark(doc["_id"], doc["incarnation"], max(doc["sequence"], sequence or 0), doc["alive"])

    async def _act(self, item: object, act: Callable[[], Awaitable[object]]) -> None:
        """One act of the sweep: a fault in it keeps nobody from the others."""
        if self.leading:
            await self._loops.item("sweep", item, act)

    async def _declare_dead(self, doc: ExecutorDocument, mark: ExecutorMark) -> None:
        if self._mark(doc) != mark:
            return  # it has reported meanwhile
        if await self._executors.declare_dead(doc):
            DEAD.inc()
            log.warning("executor '%s' is dead: no report for %g s", doc["_id"], self._config.executor_expiry)

    async def _forget(self, doc: ExecutorDocument) -> None:
        if await self._executors.forget(doc):
            log.info("executor '%s' is forgotten: dead for %g s", doc["_id"], self._config.executor_forget)

    async def _confirm(self, epoch: int) -> bool:
        """Write to the epoch: proves that it is the newest, and that the database takes majority writes now.

        Without the second, a stalled replica set would look like silent executors.
        """
        done = await self._db.meta.update_one({"_id": EPOCH, "epoch": epoch}, {"$inc": {"passes": 1}})
        if not done.matched_count:
            log.warning("epoch %s is not the newest: taking a new one, if this judicator still leads", epoch)
            self._tasks.assigner.stop()
            self._step_down()
        return bool(done.matched_count)

    async def resign(self) -> None:
        """Give the leadership up; called once, when the loops have ended."""
        self._tasks.assigner.stop()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._election.resign)
        self.epoch = None
        self._thread.shutdown(wait=False)
        LEADING.set(0)
