"""Judicators inside the test's process, and executors and people that speak the RPC to them over real mutual TLS."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import uuid
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pymongo
from prometheus_client import REGISTRY

from judge.allowance import Allowance, Allowances
from judge.config import EtcdClient, JudicatorConfig, MongodbClient, Tls
from judge.judicator import documents
from judge.judicator.database import BATCH
from judge.judicator.main import Judicator
from judge.model import messages as m
from judge.rpc import pki
from judge.rpc.client import RpcClient
from tests.support.servers import free_port, wait_for

T = TypeVar("T")
DOCUMENTS: dict[str, Any] = {
    "tasks": documents.TaskDocument,
    "executors": documents.ExecutorDocument,
    "problems": documents.ProblemDocument,
    "manifests": documents.ManifestDocument,
    "meta": documents.MetaDocument,
    "rejudgings": documents.RejudgingDocument,
    "sessions": documents.SessionDocument,
    "users": documents.UserDocument,
    "tokens": documents.TokenDocument,
    "minutes": documents.MinuteDocument,
    "machines": documents.MachineDocument,
    "rates": documents.RateDocument,
    "audit": documents.AuditDocument,
    "webhooks": documents.WebhookDocument,
    "deliveries": documents.DeliveryDocument,
    "usage": documents.UsageDocument,
    "fs.files": documents.FileDocument,
    "fs.chunks": documents.ChunkDocument,
}
FAST = {"leader_ttl": 5, "register_ttl": 5, "sweep_interval": 0.2, "task_expiry": 3, "executor_expiry": 3}


class Running:
    """One judicator in a thread with its own event loop."""

    def __init__(self, config: JudicatorConfig, batch: int = BATCH, *, passes: bool = False) -> None:
        """`passes`: it makes passes of retention by itself; beside a test's own these would take steps from it."""
        self.config, self.batch, self.passes = config, batch, passes
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name=config.name, daemon=True)
        self.thread.start()
        self.judicator = self.do(self._make())
        self.do(self.judicator.start())

    async def _make(self) -> Judicator:
        judicator = Judicator(self.config, batch=self.batch)
        if not self.passes:
            judicator.retention._barred = math.inf
        return judicator

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the judicator's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    @property
    def address(self) -> str:
        return self.config.listen

    def ready(self) -> Running:
        wait_for(lambda: self.judicator.service.ready, what=f"{self.config.name} ready")
        return self

    def stop(self) -> None:
        if self.thread.is_alive():
            self.do(self.judicator.stop())
            self.do(_rest())
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(10)
            self.loop.close()


async def _rest() -> None:
    """Let what is under way end, such as connections that the driver was making: their sockets are closed then."""
    if pending := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(pending, timeout=5)


class World:
    """One database, one etcd prefix, certificates, and whatever judicators and clients a test starts on them.

    `mongod` is the address of a member of the replica set, or those of several with commas between.
    """

    def __init__(self, directory: Path, etcd: str, mongod: str) -> None:
        self.pki = directory / "pki"
        pki.make_ca(self.pki)
        self.mongods = mongod.split(",")
        self.database = f"t{uuid.uuid4().hex[:12]}"
        self.etcd_config = EtcdClient(endpoints=[etcd], prefix=f"/{self.database}/", timeout=2)
        self.stack = contextlib.ExitStack()
        self.raw = self.stack.enter_context(pymongo.MongoClient(self.mongods, replicaSet="judge", tz_aware=True))
        self.judicators: list[Running] = []

    @property
    def db(self) -> Any:
        return self.raw[self.database]

    def tls(self, name: str, role: str) -> Tls:
        return pki.issue(self.pki, name, role, ["127.0.0.1"])

    def config(self, name: str = "j1", **settings: Any) -> JudicatorConfig:
        address = f"127.0.0.1:{free_port()}"
        defaults: dict[str, Any] = {
            "name": name,
            "listen": address,
            "address": address,
            "tls": self.tls(name, "judicator"),
            "etcd": self.etcd_config,
            "mongodb": MongodbClient(seeds=self.mongods, database=self.database, timeout=5),
            "stop_grace": 2,
            # Most tests have one user, who may fill all slots, and hands in runs whose output might be kept.
            "allowances": Allowances(user=Allowance(slot_share=1.0, stored_bytes=None)),
        }
        return JudicatorConfig(**{**defaults, **settings})

    def judicator(self, name: str = "j1", *, batch: int = BATCH, passes: bool = False, **settings: Any) -> Running:
        running = Running(self.config(name, **settings), batch, passes=passes)
        self.stack.callback(running.stop)
        self.judicators.append(running)
        return running.ready()

    def client(
        self, name: str = "gw", role: str = "gateway", timeout: float = 5.0, at: Running | None = None
    ) -> RpcClient:
        """A client of all judicators, or of one."""
        return self.stack.enter_context(
            RpcClient(
                lambda: [one.address for one in self.judicators if at in {None, one}], self.tls(name, role), timeout
            )
        )

    def executor(self, name: str = "e1", slots: int = 1, languages: tuple[str, ...] = ("c",)) -> Executor:
        return Executor(self, name, slots, languages)

    def close(self) -> None:
        self.stack.close()
        with pymongo.MongoClient(self.mongods, replicaSet="judge") as client:
            unknown = {name: fields for name in DOCUMENTS if (fields := self._unknown_fields(client, name))}
            client.drop_database(self.database)
        assert not unknown, "stored, but not among the fields of judge/judicator/documents.py"

    def _unknown_fields(self, client: pymongo.MongoClient[Any], name: str) -> set[str]:
        """Fields of the newest documents of a collection that their type does not have."""
        docs = client[self.database][name].find(sort=[("$natural", -1)], limit=50)
        return {field for doc in docs for field in doc} - set(DOCUMENTS[name].__annotations__)


@contextlib.contextmanager
def patient_world(directory: Path, etcd: str, mongod: str, **settings: Any) -> Iterator[World]:
    """A world with one judicator, which never holds an executor that says nothing for dead."""
    one = World(directory, etcd, mongod)
    try:
        one.judicator(executor_expiry=3600.0, executor_forget=7200.0, task_expiry=3600.0, **settings)
        yield one
    finally:
        one.close()


class Executor:
    """An executor that judges nothing but speaks the protocol as the real one does."""

    def __init__(self, world: World, name: str, slots: int, languages: tuple[str, ...]) -> None:
        self.name = name
        self.rpc = world.client(name, "executor")
        self.incarnation = uuid.uuid4().hex
        self.sequence = 0
        self.info = m.ExecutorInfo(
            slots=slots, languages=dict.fromkeys(languages, "1.0"), version="0.1.0", abilities=sorted(m.ABILITIES)
        )
        self.slots = slots
        self.work: dict[str, m.Assignment] = {}
        self.waiting: set[str] = set()

    def restart(self) -> None:
        """Come back as a new process that has nothing in hand."""
        self.incarnation, self.sequence, self.work = uuid.uuid4().hex, 0, {}

    def request(self, *complete: m.Completed, vacant: int | None = None, ahead: int = 0) -> m.ReportRequest:
        """The next report; what it completes leaves the work in hand, and the ids in `waiting` have not begun."""
        for one in complete:
            self.work.pop(one.id, None)
        self.sequence += 1
        return m.ReportRequest(
            executor=self.name,
            incarnation=self.incarnation,
            sequence=self.sequence,
            vacant=self.slots - len(self.work) if vacant is None else vacant,
            ahead=ahead,
            executing=[
                m.Executing(id=one.id, attempt=one.attempt, claim=one.claim, waiting=one.id in self.waiting)
                for one in self.work.values()
            ],
            complete=list(complete),
            info=self.info,
        )

    def send(self, request: m.ReportRequest) -> m.ReportReply:
        """Send a report, and take what it brings."""
        reply = self.rpc.call("report", request, m.ReportReply)
        for ref in reply.drop:
            if ref.id in self.work and self.work[ref.id].claim == ref.claim:
                del self.work[ref.id]
        self.work.update({one.id: one for one in reply.add})
        return reply

    def report(self, *complete: m.Completed, vacant: int | None = None, ahead: int = 0) -> m.ReportReply:
        return self.send(self.request(*complete, vacant=vacant, ahead=ahead))

    def wait(self, timeout: float = 5.0) -> bool:
        request = m.WaitRequest(executor=self.name, incarnation=self.incarnation, timeout=timeout)
        return self.rpc.call("wait", request, m.WaitReply).wake


def waiters(kind: str) -> int:
    """How many Waits of executors, or Gets of people, are parked in the judicators of this process."""
    return int(REGISTRY.get_sample_value("judge_waiters", {"kind": kind}) or 0)


def accepted(one: m.Assignment, **fields: Any) -> m.Completed:
    """A completion that says AC."""
    values: dict[str, Any] = {"status": m.Status.SUCCESS, "verdict": m.Verdict.AC, **fields}
    return m.Completed(id=one.id, attempt=one.attempt, claim=one.claim, **values)


def source(text: str = "int main(){}", **fields: Any) -> m.Submission:
    return m.Submission(**{"user": "ann", "language": "c", "source": text, **fields})
