"""A thousand seeded runs: a leader freezes before or after a write, another one leads meanwhile, the first one thaws.

Both believe that they lead. Each task must end with one verdict, under one claim.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from judge.model import messages as m
from tests.support.judicators import Executor, Running, World, accepted, waiting, write
from tests.support.servers import wait_for

RUNS, BLOCKS = 100, 10
# Nothing but the test moves: no expiry and no sweep of its own.
STILL = {"task_expiry": 3600.0, "executor_expiry": 3600.0, "executor_forget": 7200.0, "sweep_interval": 1000.0}


class Freeze:
    """Holds a judicator's writes of claims and results at a point: before they are sent, or before their answer."""

    def __init__(self, running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        self.point = ""
        self.reached = threading.Event()
        self._thaw = threading.Event()
        tasks = running.judicator.tasks
        for writer in (tasks.assigner._claims, tasks._ends):
            monkeypatch.setattr(writer._changes, "_work", self._holding(writer._changes._work))

    def _holding(self, work: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def held(changes: Any) -> Any:
            await self._hold("before")
            answers = await work(changes)
            await self._hold("after")
            return answers

        return held

    async def _hold(self, point: str) -> None:
        if self.point == point:
            self.reached.set()
            await asyncio.to_thread(self._thaw.wait)

    def freeze(self, point: str) -> None:
        self.reached.clear()
        self._thaw.clear()
        self.point = point

    def thaw(self) -> None:
        self.point = ""
        self._thaw.set()


class Run:
    """One seed: a few tasks, two leaders, and the executors `late` (at the frozen leader) and `prompt`."""

    def __init__(self, world: World, leaders: tuple[Running, Running], executors: tuple[Executor, Executor]) -> None:
        self.world = world
        self.frozen, self.leader = leaders
        self.late, self.prompt = executors
        self.ends: dict[str, set[str]] = defaultdict(set)

    def add(self, count: int) -> None:
        write(self.world.db, waiting(count))
        for running in (self.frozen, self.leader):
            queue = running.judicator.replica.queue
            wait_for(lambda queue=queue: len(queue) == count, what="the tasks in both queues")

    def judge(self, executor: Executor, vacant: int) -> m.ReportReply:
        """Report everything in hand as accepted; note the claims whose results the answer does not refuse."""
        completed = [accepted(assignment) for assignment in executor.work.copy().values()]
        reply = executor.report(*completed, vacant=vacant)
        self.note(completed, reply)
        return reply

    def note(self, completed: list[m.Completed], reply: m.ReportReply) -> None:
        refused = {ref.claim for ref in reply.drop}
        for completion in completed:
            if completion.claim not in refused:
                self.ends[completion.id].add(completion.claim)


@pytest.fixture
def leaders(world: World) -> tuple[Running, Running]:
    """Two judicators that both lead; the second one's epoch is newer."""
    pair = world.judicator("j1", **STILL), world.judicator("j2", **STILL)

    async def lead(running: Running, epoch: int) -> None:
        running.judicator.lead._election.step = lambda: False  # type: ignore[method-assign]
        running.judicator.tasks.assigner.lead(epoch, [])

    for epoch, running in enumerate(pair, 1):
        running.do(lead(running, epoch))
    return pair


async def reconcile(running: Running) -> None:
    """The part of a sweep that reads which assignments are in force."""
    tasks = running.judicator.tasks
    tasks.assigner.reconcile(await tasks.running())


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_frozen_leader_does_no_harm(
    world: World, leaders: tuple[Running, Running], monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    freeze = Freeze(leaders[0], monkeypatch)
    executors = world.executor("late", slots=3), world.executor("prompt", slots=3)
    at = [
        [world.client(executor.name, "executor", timeout=30.0, at=leader) for leader in leaders]
        for executor in executors
    ]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        for seed in range(block * RUNS, (block + 1) * RUNS):
            dice = random.Random(seed)
            run = Run(world, leaders, executors)
            late, prompt = executors
            late.rpc, prompt.rpc = at[0][0], at[1][1]
            count = dice.randint(1, 4)
            run.add(count)
            during_claim = dice.random() < 0.5
            if not during_claim:
                late.report()
            completed = [accepted(assignment) for assignment in late.work.copy().values()]
            freeze.freeze(dice.choice(["before", "after"]))
            request = late.request(*completed, vacant=0 if completed else None)
            answer = pool.submit(late.rpc.call, "report", request, m.ReportReply)
            assert freeze.reached.wait(30), f"seed {seed}: nothing was written"
            if dice.random() < 0.7:  # the other leader assigns what it believes to wait
                prompt.report(vacant=dice.randint(0, 3))
            if completed and dice.random() < 0.5:  # the executor gives up, and sends its results to the other leader
                late.rpc = at[0][1]
                run.note(completed, late.rpc.call("report", request, m.ReportReply))
            freeze.thaw()
            reply = answer.result(30)
            assert reply.epoch == 1
            run.note(completed, reply)
            if dice.random() < 0.5:  # the executor has not heard of the newer leader yet
                late.work.update({assignment.id: assignment for assignment in reply.add})
            late.rpc = at[0][1]
            end = time.monotonic() + 30
            while world.db.tasks.count_documents({"done": False}, limit=1):
                assert time.monotonic() < end, f"seed {seed}: {list(world.db.tasks.find())}"
                run.judge(late, dice.randint(0, 3))
                run.judge(prompt, dice.randint(0, 3))
                leaders[1].do(reconcile(leaders[1]))
            docs = list(world.db.tasks.find({}, {"verdict": 1}))
            assert [doc["verdict"] for doc in docs] == ["AC"] * count, f"seed {seed}"
            claims = {str(doc["_id"]): len(run.ends[str(doc["_id"])]) for doc in docs}
            assert set(claims.values()) == {1}, f"seed {seed}: results of two claims counted: {claims}"
            world.db.tasks.delete_many({})
            for executor in executors:
                executor.work.clear()
