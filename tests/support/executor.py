"""A small real cluster around one executor: etcd, mongod and judicator serve, the tests start and kill the executor."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from judge.model.messages import AddReply, Empty, GetRequest, Submission, Task, TaskRef
from judge.model.overview import DrainRequest, ExecutorsReply, ExecutorState
from judge.model.problem import ProblemImport, ProblemInfo
from judge.rpc.client import RpcClient
from judge.rpc.pki import issue, make_ca
from tests.support.servers import free_port, port_open, wait_for


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
        """Where it logs."""
        return self.directory / f"{self.config['name']}.log"

    def said(self, pattern: str) -> bool:
        """Whether its log has a match."""
        return re.search(pattern, self.log.read_text(errors="replace")) is not None

    def start(self) -> None:
        """Start the process; does not wait."""
        path = self.directory / f"{self.config['name']}-{self.kind}.yml"
        path.write_text(yaml.safe_dump(self.config))
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "judge.cli", self.kind, "-c", str(path)]
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *self.prefix, *command],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def stop(self, sig: signal.Signals = signal.SIGTERM, timeout: float = 20.0) -> int:
        """End it and join it; the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            return self.process.wait(timeout)
        finally:
            self.process.kill()
            self.process.wait()

    def children(self) -> list[int]:
        """The process ids of its children: an executor's slots."""
        assert self.process is not None
        pid = self.process.pid
        found = []
        for entry in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += [int(child) for child in (entry / "children").read_text().split()]
        return sorted(found)


class Cluster:
    """A judicator over real servers, and people's RPC calls to it."""

    def __init__(self, directory: Path, etcd: str, mongod: str) -> None:
        """Nothing is started yet."""
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
            },
            directory,
        )
        tls = issue(pki, "g1", "gateway", ["127.0.0.1"])
        self.rpc = RpcClient(lambda: [f"127.0.0.1:{self.port}"], tls, 10.0)

    def _tls(self, name: str, role: str) -> dict[str, str]:
        tls = issue(self.pki, name, role, ["127.0.0.1", "localhost"])
        return {"ca": str(tls.ca), "cert": str(tls.cert), "key": str(tls.key)}

    def start(self) -> None:
        """Start the judicator and wait until it serves."""
        self.judicator.start()

        def up() -> bool:
            assert self.judicator.process is not None
            assert self.judicator.process.poll() is None, self.judicator.log.read_text()[-3000:]
            return port_open(self.port) and self.judicator.said("serves")

        wait_for(up, timeout=60, what="a serving judicator")
        self.executors()

    def close(self) -> None:
        """End the judicator."""
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
        """Submit."""
        return self.rpc.call("add", Submission.model_validate(submission), AddReply).task

    def get(self, task: str, wait: float = 0.0, version: int | None = None) -> Task:
        """One task."""
        return self.rpc.call("get", GetRequest(id=task, wait=wait, version=version), Task)

    def done(self, task: str, timeout: float = 60.0) -> Task:
        """Wait for the end of a task."""
        end = time.monotonic() + timeout
        while True:
            found = self.get(task, wait=5.0)
            if found.done:
                return found
            assert time.monotonic() < end, found

    def running(self, task: str) -> Task:
        """Wait until a program of the task runs."""
        wait_for(lambda: self.get(task).status == "running", what="a running task")
        return self.get(task)

    def cancel(self, task: str) -> Task:
        """Cancel."""
        return self.rpc.call("cancel", TaskRef(id=task), Task)

    def drain(self, executor: str, drain: bool) -> ExecutorState:
        """Drain or resume."""
        return self.rpc.call("drain", DrainRequest(executor=executor, drain=drain, reason="test"), ExecutorState)

    def executors(self) -> dict[str, ExecutorState]:
        """All executors by name."""
        return {one.name: one for one in self.rpc.call("executors", Empty(), ExecutorsReply).executors}

    def import_problem(self, manifest: str) -> ProblemInfo:
        """Register an uploaded manifest."""
        return self.rpc.call("problem_import", ProblemImport(manifest=manifest), ProblemInfo)

    def state(self, executor: Daemon) -> ExecutorState | None:
        """What the judicators know of this very process, by the incarnation that it logs."""
        incarnations = re.findall(r"incarnation (\w+):", executor.log.read_text(errors="replace"))
        found = self.executors().get(executor.config["name"])
        return found if found is not None and incarnations and found.incarnation == incarnations[-1] else None

    def vacant(self, executor: Daemon) -> bool:
        """Whether this very process lives and asks for work."""
        found = self.state(executor)
        return found is not None and found.alive and found.vacant > 0


@contextlib.contextmanager
def started(daemon: Daemon) -> Iterator[Daemon]:
    """A daemon for the length of a `with`."""
    daemon.start()
    try:
        yield daemon
    finally:
        if daemon.process is not None:
            daemon.stop()


def alive(marker: str) -> list[int]:
    """Live processes whose command line has the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found
