"""The primary of a real three-member replica set dies, and steps down, under two judicators that are given work.

Nothing acknowledged may be lost or doubled, and no committed verdict may change: also not by what the new primary did
not know yet, and not by calls whose outcome nobody was told.
"""

import concurrent.futures
import contextlib
import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pymongo
import pytest
from pymongo.errors import PyMongoError

from judge.common.errors import DeadlineError, OutcomeUnknownError, StaleError, UnavailableError
from judge.model import messages as m
from judge.rpc.client import RpcClient
from tests.support.clients import FinalTask, Ledger, faults
from tests.support.judicators import Executor, World, accepted, source
from tests.support.mongodb import Cluster, Daemon
from tests.support.servers import wait_for

pytestmark = pytest.mark.timeout(1200)

AGAIN = (DeadlineError, OutcomeUnknownError, UnavailableError)
VERDICTS = itertools.cycle([m.Verdict.AC, m.Verdict.WA, m.Verdict.AC, m.Verdict.RTE])
PAUSE = 0.05
M = TypeVar("M", bound=m.Message)


class Crowd:
    """People who hand in and wait, and executors who say what the submission tells them to say."""

    def __init__(self, world: World) -> None:
        self.ledger = Ledger()
        self.world = world
        self.closing = threading.Event()
        self.over = threading.Event()
        self.pool = concurrent.futures.ThreadPoolExecutor(max_workers=6)
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()
        clients = [world.client(f"gw{number}", timeout=3.0) for number in range(4)]
        self.people = [self.pool.submit(self.person, client) for client in clients]
        executors = [world.executor(name, slots=2) for name in ("e1", "e2")]
        self.executors = [self.pool.submit(self.judge, executor) for executor in executors]

    def failures(self) -> list[BaseException]:
        """What ended any of them so far."""
        ended = [future for future in (*self.people, *self.executors) if future.done()]
        return [failure for entry in ended if (failure := entry.exception()) is not None]

    def person(self, rpc: RpcClient) -> None:
        while not self.closing.is_set():
            with self.lock:
                verdict, key = next(VERDICTS), f"k{next(self.numbers)}"
            self.ledger.offered[key] = verdict.value
            submission = source(f"// {verdict.value} {key}", idempotency_key=key)
            task = self.insist(rpc, "add", submission, m.AddReply).task
            self.ledger.acknowledged.append((key, task.id, time.monotonic()))
            while not task.done:
                task = self.insist(rpc, "get", m.GetRequest(id=task.id, wait=2), m.Task)
            self.ledger.seen[task.id] = (FinalTask.of(task), time.monotonic())

    def insist(self, rpc: RpcClient, method: str, request: m.Message, reply: type[M]) -> M:
        """A careful client: the same call again, until it is answered."""
        while True:
            try:
                return rpc.call(method, request, reply)
            except AGAIN:
                if self.over.wait(PAUSE):
                    raise

    def judge(self, executor: Executor) -> None:
        """The executor's loop: results are sent until they are settled, whatever becomes of the answers."""
        ready: dict[str, m.Completed] = {}
        while not self.over.wait(PAUSE):
            completed = list(ready.values())
            try:
                reply = executor.report(*completed, vacant=max(0, executor.slots - len(ready)))
            except (*AGAIN, StaleError):
                continue
            for ref in (*reply.settled, *reply.drop):
                ready.pop(ref.claim, None)
            for assignment in executor.work.values():
                verdict = m.Verdict[(assignment.submission.source or "").split()[1]]
                status = m.Status.SUCCESS if verdict is m.Verdict.AC else m.Status.RUN_FAILED
                ready[assignment.claim] = accepted(assignment, status=status, verdict=verdict)

    def flows(self, count: int = 10, timeout: float = 180.0) -> None:
        """Wait for verdicts of submissions that are handed in from now on."""
        acknowledged = {task for _, task, _ in list(self.ledger.acknowledged)}

        def new() -> bool:
            assert not self.failures(), self.failures()
            return len(set(self.ledger.seen) - acknowledged) >= count

        wait_for(new, timeout, f"{count} new verdicts")

    def verify(self) -> None:
        self.closing.set()
        for person in self.people:
            person.result(120)  # TimeoutError: somebody waits in vain
        rpc = self.world.client(timeout=30.0)
        for task_id in self.ledger.ids:
            self.ledger.ended[task_id] = FinalTask.of(rpc.call("get", m.GetRequest(id=task_id), m.Task))
        before = None
        while True:
            page = rpc.call("search", m.SearchRequest(limit=200, before=before), m.SearchReply)
            self.ledger.listed += [(task.id, task.submission.idempotency_key) for task in page.tasks]
            before = page.next
            if before is None:
                break
        assert not self.failures(), self.failures()
        assert faults(self.ledger) == []


@pytest.fixture
def crowd(tmp_path: Path, etcd_endpoint: str, mongods: Cluster) -> Iterator[Crowd]:
    world = World(tmp_path, etcd_endpoint, ",".join(daemon.address for daemon in mongods.daemons))
    with contextlib.ExitStack() as stack:
        stack.callback(world.close)
        for name in ("j1", "j2"):
            world.judicator(name, task_expiry=30, executor_expiry=30)
        crowd = Crowd(world)
        stack.callback(crowd.pool.shutdown)
        stack.callback(crowd.over.set)
        crowd.flows()
        yield crowd


def primary(mongods: Cluster) -> Daemon:
    primary = wait_for(mongods.primary, what="a primary")
    assert isinstance(primary, Daemon)
    return primary


def test_the_primary_is_killed(mongods: Cluster, crowd: Crowd) -> None:
    for _ in range(2):
        old = primary(mongods)
        mongod = old.mongod
        old.kill()  # its daemon first, which would start another one
        with contextlib.suppress(ProcessLookupError):
            os.kill(mongod, signal.SIGKILL)
        crowd.flows()
        assert primary(mongods) is not old
        old.start()
        mongods.wait_votes([1, 1, 1], timeout=120)
        crowd.flows()
    crowd.verify()


# Connections of a deposed primary may be collected before the driver has closed them.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_primary_steps_down(mongods: Cluster, crowd: Crowd) -> None:
    for _ in range(3):
        old = primary(mongods)
        with (
            pymongo.MongoClient("127.0.0.1", old.port, directConnection=True) as client,
            contextlib.suppress(PyMongoError),  # it closes the connections, this one too
        ):
            client.admin.command("replSetStepDown", 20, secondaryCatchUpPeriodSecs=10)
        crowd.flows()
    crowd.verify()
