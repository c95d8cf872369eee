"""Judicators inside the test's process, and their clients: executors, people, problems, queues, rejudgings."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import enum
import hashlib
import itertools
import math
import os
import subprocess
import sys
import threading
import time
import types
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import pymongo
import pytest
from bson import ObjectId, Timestamp
from hypothesis import strategies as st
from prometheus_client import REGISTRY
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pymongo.database import Database
from pymongo.write_concern import WriteConcern

from judge.common import clock
from judge.config import EtcdClient, JudicatorConfig, MongodbClient, Tls, dump
from judge.config.allowance import Allowance, Allowances
from judge.judicator import documents
from judge.judicator.database import BATCH
from judge.judicator.main import Judicator
from judge.judicator.queue.order import RANKS
from judge.judicator.replica import WAITS
from judge.judicator.tasks import forms
from judge.model import messages as m
from judge.model.messages import ProblemRef, Submission
from judge.model.problem import ProblemImport, ProblemInfo, ProblemManifest, ProblemTest
from judge.model.rejudging import (
    RejudgeAct,
    RejudgeDiff,
    RejudgeDiffRequest,
    RejudgeFilter,
    RejudgeStart,
    Rejudging,
    RejudgingRef,
)
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
            judicator.retention._idle_until = math.inf
        return judicator

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    @property
    def address(self) -> str:
        return self.config.listen

    def ready(self) -> Running:
        wait_for(lambda: self.judicator.dispatcher.ready, what=f"{self.config.name} ready")
        return self

    def leading(self) -> Running:
        """Wait until this judicator assigns tasks."""
        wait_for(lambda: self.judicator.tasks.assigner.epoch is not None, what=f"{self.config.name} leads")
        return self

    def stop(self) -> None:
        if self.thread.is_alive():
            self.do(self.judicator.stop())
            self.do(_finish_tasks())
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(10)
            self.loop.close()


async def _finish_tasks() -> None:
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

    def judicator(
        self, name: str = "j1", *, batch: int = BATCH, passes: bool = False, leads: bool = True, **settings: Any
    ) -> Running:
        """Start a judicator; with `leads` wait until it or another one assigns tasks."""
        running = Running(self.config(name, **settings), batch, passes=passes)
        self.stack.callback(running.stop)
        self.judicators.append(running)
        running.ready()
        wait_for(
            lambda: not leads or any(running.judicator.tasks.assigner.epoch is not None for running in self.judicators),
            what="a leader",
        )
        return running

    def client(
        self, name: str = "gw", role: str = "gateway", timeout: float = 5.0, at: Running | None = None
    ) -> RpcClient:
        """A client of all judicators, or of one."""
        return self.stack.enter_context(
            RpcClient(
                lambda: [peer.address for peer in self.judicators if at in {None, peer}], self.tls(name, role), timeout
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
    world = World(directory, etcd, mongod)
    try:
        world.judicator(executor_expiry=3600.0, executor_forget=7200.0, task_expiry=3600.0, **settings)
        yield world
    finally:
        world.close()


def module_world() -> Any:
    """A patient world as the fixture `world` of a module."""

    @pytest.fixture(scope="module", name="world")
    def fixture(tmp_path_factory, etcd_endpoint, mongod_address):
        with patient_world(tmp_path_factory.mktemp("world"), etcd_endpoint, mongod_address) as world:
            yield world

    return fixture


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

    def accept_all(self, vacant: int | None = 0) -> None:
        """Take what waits, and report all work in hand as accepted."""
        self.report()
        self.report(*map(accepted, list(self.work.values())), vacant=vacant)

    def restart(self) -> None:
        self.incarnation, self.sequence, self.work = uuid.uuid4().hex, 0, {}

    def request(
        self, *complete: m.Completed, vacant: int | None = None, ahead: int = 0, hold: float = 0.0
    ) -> m.ReportRequest:
        """The next report; what it completes leaves the work in hand, and the ids in `waiting` have not begun."""
        for completion in complete:
            self.work.pop(completion.id, None)
        self.sequence += 1
        return m.ReportRequest(
            executor=self.name,
            incarnation=self.incarnation,
            sequence=self.sequence,
            vacant=self.slots - len(self.work) if vacant is None else vacant,
            ahead=ahead,
            executing=[
                m.Executing(id=task.id, attempt=task.attempt, claim=task.claim, waiting=task.id in self.waiting)
                for task in self.work.values()
            ],
            complete=list(complete),
            info=self.info,
            hold=hold,
        )

    def works_on(self, task: str, progress: str) -> None:
        """Report how far a task is, for longer than the half second in which that is not stored."""
        for _ in range(3):
            request = self.request(vacant=0)
            for executing in request.executing:
                if executing.id == task:
                    executing.status, executing.progress = m.Status.RUNNING, progress
            self.send(request)
            time.sleep(0.3)

    def send(self, request: m.ReportRequest) -> m.ReportReply:
        """Send a report, and take what it brings."""
        reply = self.rpc.call("report", request, m.ReportReply)
        for ref in reply.drop:
            if ref.id in self.work and self.work[ref.id].claim == ref.claim:
                del self.work[ref.id]
        self.work.update({assignment.id: assignment for assignment in reply.add})
        return reply

    def report(
        self, *complete: m.Completed, vacant: int | None = None, ahead: int = 0, hold: float = 0.0
    ) -> m.ReportReply:
        return self.send(self.request(*complete, vacant=vacant, ahead=ahead, hold=hold))

    def judge_all(self) -> None:
        """Judge whatever waits as AC."""
        while self.report().add or self.work:
            self.report(*[accepted(assignment) for assignment in list(self.work.values())], vacant=0)


# Small batches, so that a kill between two of them leaves half of the work.
_DAEMON = """
import sys
from pathlib import Path
from judge import config
from judge.daemon import log
from judge.daemon.main import on_signals
from judge.judicator.main import run
log.setup("info")
sys.exit(run(config.load(config.JudicatorConfig, Path(sys.argv[1])), on_signals(), batch=2))
"""


class Doomed:
    """A judicator in a process of its own, which ends at a failpoint."""

    def __init__(self, world: World, directory: Path, failpoint: str, **settings: Any) -> None:
        config = world.config("j1", **settings)
        path = directory / "j1.yml"
        path.write_text(dump(config))
        self.world, self.address, self.log = world, config.listen, directory / "j1.log"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _DAEMON, str(path)],
                stdout=out,
                stderr=out,
                env={**os.environ, "JUDGE_FAILPOINT": failpoint},
            )
        world.stack.callback(self.process.wait)
        world.stack.callback(self.process.kill)
        wait_for(lambda: "the database is ready" in self.log.read_text(), what="a serving judicator")

    def client(self, timeout: float) -> RpcClient:
        rpc = RpcClient(lambda: [self.address], self.world.tls("gw", "gateway"), timeout)
        return self.world.stack.enter_context(rpc)

    def died(self) -> None:
        """Wait for its end by the failpoint."""
        assert self.process.wait(60) == -9, self.log.read_text()[-3000:]


def waiters(kind: str) -> int:
    """How many reports of executors, or Gets of people, are held in the judicators of this process."""
    return int(REGISTRY.get_sample_value("judge_waiters", {"kind": kind}) or 0)


def accepted(assignment: m.Assignment, **fields: Any) -> m.Completed:
    values: dict[str, Any] = {"status": m.Status.SUCCESS, "verdict": m.Verdict.AC, **fields}
    return m.Completed(id=assignment.id, attempt=assignment.attempt, claim=assignment.claim, **values)


def source(text: str = "int main(){}", **fields: Any) -> m.Submission:
    return m.Submission(**{"user": "ann", "language": "c", "source": text, **fields})


def manifest(people: RpcClient, name: str = "hello", tests: int = 2, **fields: object) -> ProblemManifest:
    tests_of = [
        ProblemTest(
            name=f"t{n}", input=people.put_blob(f"in {n}".encode()), answer=people.put_blob(f"out {n}".encode())
        )
        for n in range(tests)
    ]
    return ProblemManifest.model_validate({"name": name, "title": "Hello", "tests": tests_of, **fields})


def upload(people: RpcClient, manifest: ProblemManifest) -> ProblemImport:
    return ProblemImport(manifest=people.put_blob(manifest.model_dump_json().encode()), visible=True)


def imported(people: RpcClient, name: str = "hello", tests: int = 2) -> ProblemInfo:
    return people.call("problem_import", upload(people, manifest(people, name, tests)), ProblemInfo)


STATUS = {"AC": m.Status.SUCCESS, "CE": m.Status.COMPILE_FAILED, "JE": m.Status.INTERNAL_ERROR}


def completed(assignment: m.Assignment, verdict: str, **result: Any) -> m.Completed:
    status = STATUS.get(verdict, m.Status.RUN_FAILED)
    return accepted(assignment, status=status, verdict=m.Verdict[verdict], result=m.Result(**result))


def judge(people: RpcClient, executor: Executor, *verdicts: str, **fields: Any) -> list[str]:
    """Hand in one submission for each verdict and judge it so; their ids."""
    ids = [
        people.call("add", source(f"int main(){{}} // {index}", **fields), m.AddReply).task.id
        for index, _ in enumerate(verdicts)
    ]
    expected = dict(zip(ids, verdicts, strict=True))
    rejudge(executor, expected, by_rerun=False)
    return ids


def rejudge(executor: Executor, expected: dict[str, str], *, by_rerun: bool = True, **result: Any) -> None:
    """Take and judge everything that waits, by the verdict wanted for each id (of the task, or of a run's source)."""
    remaining = len(expected)

    def turn() -> bool:
        nonlocal remaining
        completions = []
        for assignment in list(executor.work.values()):
            key = (assignment.submission.source or "") if by_rerun else assignment.id
            completions.append(completed(assignment, expected[key], cpu=0.5, memory=2048, **result))
        remaining -= len(completions)
        executor.report(*completions, vacant=executor.slots)
        return remaining <= 0 and not executor.work

    wait_for(turn, what="everything judged")


def add(people: RpcClient, text: str = "int main(){}", **fields: Any) -> str:
    """Hand in a submission; returns its id."""
    return people.call("add", source(text, **fields), m.AddReply).task.id


def handed_out(world: World, **settings: Any) -> tuple[RpcClient, Executor, str]:
    """A new judicator, somebody who has handed in a task, and an executor that has it."""
    world.judicator(**settings)
    people, executor = world.client(), world.executor()
    task = add(people)
    executor.report()
    return people, executor, task


def get(people: RpcClient, task: str) -> m.Task:
    return people.call("get", m.GetRequest(id=task), m.Task)


async def resign(running: Running) -> None:
    """Lead no more, and do not stand again."""
    running.judicator.lead._election.step = lambda: False  # type: ignore[method-assign]
    running.judicator.tasks.assigner.stop()


def start(people: RpcClient, reason: str = "new test data", **conditions: Any) -> Rejudging:
    request = RejudgeStart(
        filter=RejudgeFilter.model_validate(conditions),
        reason=reason,
        user="root",
        trace="trace-of-the-rejudging",
        idempotency_key=uuid.uuid4().hex,
    )
    return people.call("rejudge_start", request, Rejudging)


def show(people: RpcClient, number: int) -> Rejudging:
    return people.call("rejudging", RejudgingRef(id=number), Rejudging)


def act(people: RpcClient, action: str, number: int, key: str | None = None) -> Rejudging:
    request = RejudgeAct(id=number, key=key or uuid.uuid4().hex, user="root")
    return people.call(f"rejudge_{action}", request, Rejudging)


def settled(people: RpcClient, number: int) -> Rejudging:
    wait_for(lambda: show(people, number).settled, what=f"rejudging {number} settled")
    return show(people, number)


def diff(people: RpcClient, number: int, **fields: Any) -> RejudgeDiff:
    return people.call("rejudge_diff", RejudgeDiffRequest(id=number, **fields), RejudgeDiff)


def sources(people: RpcClient, ids: list[str]) -> list[str]:
    """The source of each submission, by which a run of it is known."""
    return [get(people, task).submission.source or "" for task in ids]


_BATCH = 5000
_COUNT = itertools.count(1)


def _task(user: str, needs: str, priority: str, source: str, created: datetime.datetime) -> dict[str, Any]:
    submission = Submission(user=user, language=needs or "c", source=source, priority=priority)
    doc = forms.new(submission, ProblemRef(name="sum", hash="0" * 64), "0" * 64, created)
    return {**doc, "needs": needs, "rank": RANKS[priority], "arrival": Timestamp(1, 1)}


def waiting(
    count: int,
    *,
    user: str = "crowd",
    needs: str = "c",
    tried: Iterable[str] = (),
    priority: str = "normal",
    size: int = 100,
) -> Iterator[dict[str, Any]]:
    failed = sorted(tried)
    model = _task(user, needs, priority, "x" * size, clock.wall())
    if failed:
        model |= {"rank": 0, "failed": failed, "tried": ",".join(failed), "status": "retrying"}
    for _ in range(count):
        place = {"waits": WAITS, "arrival": Timestamp(1, next(_COUNT))}
        yield {**model, "_id": ObjectId(), "trace": uuid.uuid4().hex, **place}


def runs(count: int, *, number: int, user: str = "crowd", needs: str = "c") -> Iterator[dict[str, Any]]:
    model = _task(user, needs, "normal", "x", clock.wall())
    model |= {"priority": "rejudge", "rank": RANKS["rejudge"], "waits": WAITS, "rejudging": number}
    before = dict.fromkeys(("cpu", "memory", "score", "failed_test", "judged_by"))
    model["before"] = {"verdict": "AC", "status": "success", **before}
    for place in range(count):
        old = {"_id": ObjectId(bytes(4) + ObjectId().binary[4:]), "rerun_of": ObjectId(), "order": place + 1}
        yield {**model, **old, "arrival": Timestamp(1, next(_COUNT))}


def finished(
    count: int, *, user: str = "old", verdict: str = "AC", since: datetime.datetime | None = None, **fields: Any
) -> Iterator[dict[str, Any]]:
    """That many judged tasks, a second apart from `since` on."""
    start = since or clock.wall() - datetime.timedelta(seconds=count)
    for number in range(count):
        created = start + datetime.timedelta(seconds=number)
        if number % 1000 == 0:
            model = _task(user, "c", "normal", "x", created)
            model |= {"done": True, "status": "success", "verdict": verdict, "judged_by": "e1", "finished": created}
        fresh = ObjectId(int(created.timestamp()).to_bytes(4, "big") + ObjectId().binary[4:])
        yield {**model, "_id": fresh, "created": created, "finished": created, **fields}


def write(db: Database[Any], docs: Iterable[dict[str, Any]]) -> int:
    tasks = db.tasks.with_options(write_concern=WriteConcern(w=1, j=False))
    stored = 0
    iterator = iter(docs)
    while batch := list(itertools.islice(iterator, _BATCH)):
        tasks.insert_many(batch, ordered=False)
        stored += len(batch)
    return stored


WORD = "Zq7"


@dataclass
class Marks:
    """Fills messages by the types of their fields. `given` has a value for some fields, by message and name.

    `words`, `numbers`: every mark that was set, as it would stand in an answer, with the field that has it.
    """

    draw: Callable[[st.SearchStrategy[Any]], Any]
    given: dict[tuple[type[BaseModel], str], Any]
    words: dict[str, str] = field(default_factory=dict)
    count: int = 0

    def message(self, model: type[BaseModel], **fixed: Any) -> Any:
        """A message of this type, all fields marked but those in `fixed` and in `given`."""
        values = {}
        for name, info in model.model_fields.items():
            if name in fixed:
                values[name] = fixed[name]
            elif (model, name) in self.given:
                value = self.given[model, name]
                values[name] = value() if callable(value) else value
            else:
                values[name] = self._value(info.annotation, info, f"{model.__name__}.{name}")
        return model.model_construct(**values)

    def _value(self, kind: Any, info: FieldInfo | None, place: str) -> Any:
        origin, parts = get_origin(kind), get_args(kind)
        if hasattr(kind, "__metadata__"):
            return self._plain(kind.__origin__, kind.__metadata__, place)
        if origin in {Union, types.UnionType}:
            kind = next(part for part in parts if part is not type(None))
            return self._value(kind, info, place)
        if origin is Literal:
            return self.draw(st.sampled_from(parts))
        if origin is list:
            return [self._value(parts[0], None, place) for _ in range(2)]
        if origin is dict:
            return {self._value(parts[0], None, place): self._value(parts[1], None, place)}
        return self._plain(kind, info.metadata if info is not None else [], place)

    def _plain(self, kind: type[Any], metadata: Iterable[Any], place: str) -> Any:
        if issubclass(kind, BaseModel):
            return self.message(kind)
        if issubclass(kind, enum.Enum):
            return self.draw(st.sampled_from(list(kind)))
        if kind is bool:
            return self.draw(st.booleans())
        # Numbers so large, or so odd, that rounding leaves nothing of them.
        if kind is int:
            return int(self._noted(str(871_000_000_013 + self._next() * 1_234_567), place))
        if kind is float:
            return float(self._noted(repr(0.1357911 + self._next() * 0.0103071), place))
        assert kind is str, f"{place}: nobody has said how to mark {kind}"
        return self._hex(metadata, place) or self.text(place)

    def _hex(self, metadata: Iterable[Any], place: str) -> str | None:
        for pattern in filter(None, (getattr(item, "pattern", None) for item in metadata)):
            if "[0-9a-f]{" in pattern:
                length = int(pattern.split("{")[1].split("}")[0])
                return self._noted(hashlib.sha256(f"{place}{self._next()}".encode()).hexdigest()[:length], place)
        return None

    def _next(self) -> int:
        self.count += 1
        return self.count

    def _noted(self, text: str, place: str) -> str:
        self.words[text] = place
        return text

    def text(self, place: str) -> str:
        """A marked text that is no field's value."""
        return self._noted(f"{WORD}x{self._next()}x", place)

    def matches(self, text: str) -> dict[str, str]:
        """The marks that are in a text, with their fields."""
        return {mark: place for mark, place in self.words.items() if mark in text}
