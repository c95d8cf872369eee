"""A real executor with its servers, and an executor's main loop with a slot that the test plays."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import yaml

from judge.common import clock
from judge.common.errors import ConflictError, NotFoundError
from judge.config import ExecutorConfig
from judge.executor import slots
from judge.executor.channel import Cancel, Finished, Help, Helped, Job, MessageReader, Progress, Ready, Settings, send
from judge.executor.loop import Loop
from judge.executor.machine import Disk
from judge.executor.parts import ExecutorParts
from judge.executor.slot.parallel import shared_queue
from judge.executor.slot_state import Started
from judge.executor.storage.blobs import BlobCache
from judge.executor.storage.data import BlobClient
from judge.executor.storage.spool import Spool, Spooled
from judge.executor.table import TaskTable
from judge.executor.threads import Mailbox, ThreadPool
from judge.model.messages import (
    AddReply,
    Assignment,
    ClaimRef,
    Completed,
    Empty,
    GetRequest,
    Message,
    ReportReply,
    ReportRequest,
    Result,
    Status,
    Submission,
    Task,
    TaskRef,
    Verdict,
)
from judge.model.overview import DrainRequest, ExecutorsReply, ExecutorState
from judge.model.problem import ProblemImport, ProblemInfo
from judge.rpc.client import RpcClient
from judge.rpc.pki import issue, make_ca
from tests.support.servers import free_port, port_open, start_process, wait_for


@dataclass
class Daemon:
    """One `judge KIND` process, whose log is a file."""

    kind: str
    config: dict[str, Any]
    directory: Path
    prefix: list[str] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def log(self) -> Path:
        return self.directory / f"{self.config['name']}.log"

    def log_has(self, pattern: str) -> bool:
        return re.search(pattern, self.log.read_text(errors="replace")) is not None

    def start(self) -> None:
        path = self.directory / f"{self.config['name']}-{self.kind}.yml"
        path.write_text(yaml.safe_dump(self.config))
        command = [*self.prefix, sys.executable, "-m", "judge.cli", self.kind, "-c", str(path)]
        self.process = start_process(command, self.log)

    def stop(self, sig: signal.Signals = signal.SIGTERM, timeout: float = 60.0) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            return self.process.wait(timeout)
        finally:
            self.process.kill()
            self.process.wait()

    def children(self) -> list[int]:
        assert self.process is not None
        pid = self.process.pid
        pids = []
        for entry in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                pids += [int(child) for child in (entry / "children").read_text().split()]
        return sorted(pids)


class Cluster:
    """A judicator over real servers, and people's RPC calls to it."""

    def __init__(self, directory: Path, etcd: str, mongod: str) -> None:
        self.directory = directory
        self.etcd = {"endpoints": [etcd]}
        pki = directory / "pki"
        make_ca(pki)
        self.pki = pki
        self.port = free_port()
        self.judicator = Daemon(
            "judicator",
            {
                "name": "j1",
                "listen": f"127.0.0.1:{self.port}",
                "address": f"127.0.0.1:{self.port}",
                "tls": self._tls("j1", "judicator"),
                "etcd": self.etcd,
                "mongodb": {"seeds": [mongod]},
                "log_level": "info",
                # Most tests have one user, who may fill all slots.
                "allowances": {"user": {"slot_share": 1.0}},
                # An executor that restarts on a busy machine is not dead.
                "task_expiry": 60.0,
                "executor_expiry": 60.0,
            },
            directory,
        )
        tls = issue(pki, "g1", "gateway", ["127.0.0.1"])
        self.added: list[str] = []
        self.rpc = RpcClient(lambda: [f"127.0.0.1:{self.port}"], tls, 10.0)

    def _tls(self, name: str, role: str) -> dict[str, str]:
        tls = issue(self.pki, name, role, ["127.0.0.1", "localhost"])
        return {"ca": str(tls.ca), "cert": str(tls.cert), "key": str(tls.key)}

    def start(self) -> None:
        self.judicator.start()

        def up() -> bool:
            assert self.judicator.process is not None
            assert self.judicator.process.poll() is None, self.judicator.log.read_text()[-3000:]
            return port_open(self.port) and self.judicator.log_has("serves")

        wait_for(up, what="a serving judicator")
        self.executors()

    def close(self) -> None:
        self.rpc.close()
        if self.judicator.process is not None:
            self.judicator.stop(signal.SIGKILL)

    def executor(self, directory: str, **settings: Any) -> Daemon:
        """The daemon of executor `e1` with a directory of its own, not started.

        One name for all: the judicators prefer other living executors for a retry, and know a dead one only by and by.
        """
        name = "e1"
        (self.directory / directory).mkdir()
        config = {
            "name": name,
            "work_dir": str(self.directory / directory / "work"),
            "tls": self._tls(name, "executor"),
            "etcd": self.etcd,
            "slots": 1,
            "report_interval": 0.5,
            "rpc_timeout": 2.0,
            **settings,
        }
        return Daemon("executor", config, self.directory / directory)

    def add(self, **submission: Any) -> Task:
        task = self.rpc.call("add", Submission.model_validate(submission), AddReply).task
        self.added.append(task.id)
        return task

    def cancel_all(self) -> None:
        while self.added:
            with contextlib.suppress(ConflictError):
                self.cancel(self.added.pop())

    def get(self, task: str, wait: float = 0.0, version: int | None = None) -> Task:
        return self.rpc.call("get", GetRequest(id=task, wait=wait, version=version), Task)

    def done(self, task: str, timeout: float = 120.0) -> Task:
        end = time.monotonic() + timeout
        while True:
            current = self.get(task, wait=5.0)
            if current.done:
                return current
            assert time.monotonic() < end, current

    def running(self, task: str) -> Task:
        """Wait until the task is stored as running: at least half a second after its assignment, so it must last."""
        wait_for(lambda: self.get(task).status == "running", what="a running task")
        return self.get(task)

    def cancel(self, task: str) -> Task:
        return self.rpc.call("cancel", TaskRef(id=task), Task)

    def drain(self, executor: str, drain: bool) -> ExecutorState:
        return self.rpc.call("drain", DrainRequest(executor=executor, drain=drain, reason="test"), ExecutorState)

    def executors(self) -> dict[str, ExecutorState]:
        return {executor.name: executor for executor in self.rpc.call("executors", Empty(), ExecutorsReply).executors}

    def import_problem(self, manifest: str) -> ProblemInfo:
        return self.rpc.call("problem_import", ProblemImport(manifest=manifest, visible=True), ProblemInfo)

    def state(self, executor: Daemon) -> ExecutorState | None:
        """What the judicators know of this very process, by the incarnation that it logs."""
        incarnations = re.findall(r"incarnation (\w+):", executor.log.read_text(errors="replace"))
        state = self.executors().get(executor.config["name"])
        return state if state is not None and incarnations and state.incarnation == incarnations[-1] else None

    def vacant(self, executor: Daemon) -> bool:
        """Whether this very process lives and asks for work."""
        state = self.state(executor)
        return state is not None and state.alive and state.vacant > 0


@contextlib.contextmanager
def started(daemon: Daemon) -> Iterator[Daemon]:
    daemon.start()
    try:
        yield daemon
    finally:
        if daemon.process is not None:
            daemon.stop()


def alive(marker: str) -> list[int]:
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if marker.encode() in (entry / "cmdline").read_bytes():
                    pids.append(int(entry.name))
    return pids


PATIENCE = 30.0
# Passes bytes on between the channel and the test, in both directions, until either is closed.
RELAY = """
import os, sys, threading
def pump(source, target):
    while data := os.read(source, 65536):
        while data:
            data = data[os.write(target, data):]
    os._exit(0)
channel, test = map(int, sys.argv[1:])
threading.Thread(target=pump, args=(channel, test)).start()
pump(test, channel)
"""


class PlayedSlot(slots.Slot):
    """A slot whose process does what the test says; each of its lives says that it is ready, unless it is `mute`."""

    lives = 0
    mute = False
    ours: socket.socket | None = None

    def start(self, now: float) -> None:
        self.hang_up()
        channel, theirs = socket.socketpair()
        self.ours, far = socket.socketpair()
        ends = [theirs.fileno(), far.fileno()]
        self.process = subprocess.Popen([sys.executable, "-ISc", RELAY, *map(str, ends)], pass_fds=ends)
        theirs.close()
        far.close()
        self.sock, self.reader = channel, MessageReader(channel)
        self.note(Started(), now)
        self.ours.settimeout(PATIENCE)
        if not self.mute:
            self.say(Ready())
        self.lives += 1

    def hang_up(self) -> None:
        if self.ours is not None:
            self.ours.close()

    def say(self, message: Message) -> None:
        send(self.ours, message)

    def next_message(self) -> Job | Help | Cancel | None:
        """The next thing that main tells this slot; None when it has gone."""
        return MessageReader(self.ours).for_slot()

    def job(self) -> str:
        request = self.next_message()
        assert isinstance(request, Job), request
        return request.assignment.claim


class Judicators:
    """Take reports and blobs, and assign what a test wants assigned.

    `fault` is raised instead of every answer while it is set, each of `faults` instead of one.
    """

    def __init__(self) -> None:
        self.requests: list[ReportRequest] = []
        self.completed: dict[str, Completed] = {}
        self.blobs: dict[str, bytes] = {}
        self.fault: Exception | None = None
        self.faults: list[Exception] = []
        self.blob_fault: Exception | None = None
        self.drain = False
        self.asked_for_blobs = threading.Event()
        self.blobs_may_go = threading.Event()
        self.parked = threading.Event()
        self.blobs_may_go.set()
        self._next = ReportReply()
        self._lock = threading.Lock()
        self._wake = threading.Event()

    def call(self, method: str, request: Message, reply: type[Message], **_: Any) -> Message:
        assert isinstance(request, ReportRequest)
        with self._lock:
            self.requests.append(request.model_copy(deep=True))
            event = threading.Event()
            self._wake, before = event, self._wake
        before.set()
        if request.hold:
            self.parked.set()
            event.wait(min(PATIENCE, request.hold))
        with self._lock:
            if self._wake is not event and not request.complete:
                return ReportReply(drain=self.drain)  # a newer report is answered
            if self.faults:
                raise self.faults.pop(0)
            if self.fault is not None:
                raise self.fault
            answer, self._next = self._next, ReportReply()
            answer.drain = self.drain
            for completion in request.complete:
                self.completed[completion.claim] = completion
                answer.settled.append(ClaimRef(id=completion.id, claim=completion.claim))
            return answer

    def get_blob(self, sha: str, target: Path) -> None:
        self._blob_call()
        if sha not in self.blobs:
            raise NotFoundError(f"there is no blob {sha}")
        target.write_bytes(self.blobs[sha])

    def put_file(self, file: IO[bytes], sha: str, length: int) -> None:
        self._blob_call()
        file.seek(0)
        self.blobs[sha] = file.read()
        assert (hashlib.sha256(self.blobs[sha]).hexdigest(), len(self.blobs[sha])) == (sha, length)

    def _blob_call(self) -> None:
        self.asked_for_blobs.set()
        assert self.blobs_may_go.wait(PATIENCE)
        if self.blob_fault is not None:
            raise self.blob_fault

    def put(self, data: bytes) -> str:
        sha = hashlib.sha256(data).hexdigest()
        self.blobs[sha] = data
        return sha

    def assign(self, *assignments: Assignment) -> None:
        with self._lock:
            self._next.add += assignments

    def drop(self, *assignments: Assignment) -> None:
        with self._lock:
            self._next.drop += [ClaimRef(id=assignment.id, claim=assignment.claim) for assignment in assignments]

    def wake(self) -> None:
        self._wake.set()

    def report(self, condition: Callable[[ReportRequest], object] = bool, what_for: str = "a report") -> ReportRequest:
        """Wait for a report that begins from now on and is so; for what more than one says."""
        count = len(self.requests)

        def look() -> ReportRequest | None:
            return next((request for request in self.requests[count:] if condition(request)), None)

        request = wait_for(look, PATIENCE, what_for)
        assert isinstance(request, ReportRequest)
        return request

    def result(self, claim: str) -> Completed:
        wait_for(lambda: claim in self.completed, PATIENCE, f"the result of {claim}")
        return self.completed[claim]


class Played:
    """One executor with one slot; `start` begins its loop, in a thread."""

    def __init__(self, config: ExecutorConfig, *earlier: Spooled, spool_bytes: int | None = None) -> None:
        """`earlier` are results in its spool."""
        work = config.work_dir
        self.judicators = Judicators()
        self.outputs = work / "outputs"
        self.outputs.mkdir(exist_ok=True)
        self.spool = work / "spool"
        table = TaskTable(config.name, "inc")
        for entry in earlier:
            table.hold(entry.completed, upload=entry.upload, spooled=True)
        self.slot = PlayedSlot(
            Settings(index=0, core=None, executor=config.name, outputs=self.outputs, cgroup=config.cgroup)
        )
        planned = slots.Slots([])
        planned.slots.append(self.slot)
        mailbox = Mailbox()
        rpc: Any = self.judicators
        self.loop = Loop(
            ExecutorParts(
                config=config,
                table=table,
                slots=planned,
                spool=Spool(self.spool, spool_bytes or config.spool_bytes),
                disk=Disk(work, config.min_free_bytes),
                blob_client=BlobClient(BlobCache(work / "blobs", config.blob_cache_bytes, rpc.get_blob), rpc),
                mailbox=mailbox,
                pool=ThreadPool(mailbox, 1),
                rpc=rpc,
                outputs=self.outputs,
            )
        )
        self.loop.know_languages({"c": "gcc 1"})
        self.exit_code: int | None = None
        self._thread = threading.Thread(target=self._run, name="loop")

    def _run(self) -> None:
        self.exit_code = self.loop.run()

    def start(self) -> Played:
        """Begin the loop, and wait for the slot's first life."""
        self._thread.start()
        wait_for(lambda: self.slot.lives or not self._thread.is_alive(), PATIENCE, "a slot")
        return self

    def ended(self) -> int | None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the loop still runs"
        return self.exit_code

    def close(self) -> None:
        if self._thread.ident is not None:
            self.judicators.blobs_may_go.set()
            self.slot.hang_up()
            self.loop.stop()
            self.ended()
        self.slot.hang_up()

    def spooled(self) -> list[str]:
        return sorted(path.name for path in self.spool.glob("*.json"))

    def take(self, assignment: Assignment) -> None:
        wait_for(lambda: any(request.vacant for request in self.judicators.requests), PATIENCE, "a slot that is ready")
        self.judicators.assign(assignment)
        self.judicators.wake()
        assert self.slot.job() == assignment.claim


class Watcher(logging.Handler):
    """Calls `act` when the executor logs a line with these words."""

    def __init__(self, words: str, act: Callable[[], None]) -> None:
        super().__init__()
        self._words = words
        self._act = act

    def emit(self, record: logging.LogRecord) -> None:
        if self._words in record.getMessage():
            self._act()


def assignment(number: int = 1, **fields: Any) -> Assignment:
    fields.setdefault("submission", Submission(command="true"))
    return Assignment(id=f"{number:024x}", attempt=1, claim=f"c{number}", **fields)


def completed(number: int = 1, **fields: Any) -> Completed:
    fields.setdefault("result", Result())
    return Completed(
        id=f"{number:024x}", attempt=1, claim=f"c{number}", status=Status.SUCCESS, verdict=Verdict.AC, **fields
    )


HEAR = 120.0  # seconds in which a slot is heard, however busy this machine is


class TwoSlots:
    """Two slots over one directory, with main played by a test: it sends the idle one to help."""

    def __init__(self, work: Path) -> None:
        shared_queue.clear(work / "sharing")
        self.sharing = shared_queue.Sharing(work / "sharing")
        cores = sorted(os.sched_getaffinity(0))
        fields = {"executor": f"shared-{os.getpid()}", "outputs": work, "builds": work, "cgroup": "judge"}
        places = {"sharing": work / "sharing", "run_lock": work / "run_lock"}
        self.slots = slots.Slots(
            [
                Settings.model_validate({"index": index, "core": cores[index % len(cores)], **fields, **places})
                for index in range(2)
            ]
        )
        self.events: list[tuple[int, Any]] = []
        self.start()

    def start(self) -> None:
        self.slots.start_due(float("inf"))
        wait_for(lambda: self.read() or self.slots.working == 2, timeout=HEAR, what="two slots")

    def read(self) -> bool:
        """Take in what the slots have said."""
        for slot in self.slots.slots:
            if slot.sock is not None and select.select([slot.sock], [], [], 0)[0]:
                self.events += [(slot.index, event) for event in slot.read(clock.monotonic())[0]]
        return False

    def next_event(self, kind: type, **fields: Any) -> Any:
        """The next event of this kind with these fields."""

        def look() -> bool:
            self.read()
            return any(fits(event) for _, event in self.events)

        def fits(event: Any) -> bool:
            return isinstance(event, kind) and all(getattr(event, key) == value for key, value in fields.items())

        wait_for(look, timeout=HEAR, what=f"{kind.__name__} {fields}")
        place = next(index for index, (_, event) in enumerate(self.events) if fits(event))
        return self.events.pop(place)[1]

    @property
    def coordinator(self) -> slots.Slot:
        return self.slots.slots[0]

    @property
    def helper(self) -> slots.Slot:
        return self.slots.slots[1]

    def lead(self, job: Job) -> Help:
        """Slot 0 judges, and offers its tests; returns what main sends to a slot that helps."""
        self.sharing.tell(1)
        self.coordinator.give(job, clock.monotonic())
        self.next_event(Progress, share=True)
        return Help(job=job, directory=self.sharing.queue(job.assignment.claim))

    def shared(self, job: Job) -> tuple[Finished, Helped]:
        """Judge with both slots."""
        self.helper.give(self.lead(job), clock.monotonic())
        finished = self.next_event(Finished)
        self.helper.recall(clock.monotonic())
        return finished, self.next_event(Helped)

    def alone(self, job: Job) -> Finished:
        """Judge with one slot."""
        self.sharing.tell(0)
        self.coordinator.give(job, clock.monotonic())
        return self.next_event(Finished)
