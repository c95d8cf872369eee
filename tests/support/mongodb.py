"""Run MongoDB daemons as processes of their own, each with its mongod, around one etcd."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
import yaml
from pymongo.errors import PyMongoError

from judge.boot.embedded.cluster import mongod_program
from judge.common.failpoint import VARIABLE
from judge.config import EtcdClient
from judge.etcd.client import Etcd
from judge.rpc import pki
from tests.support.servers import free_port, start_process, wait_for

_MAIN = """
import sys
from pathlib import Path
from judge.daemon import main as daemon
sys.exit(daemon.start("mongodb", Path(sys.argv[1])))
"""


class Daemon:
    """One MongoDB daemon: its config, its process, its log, and a direct look at its mongod."""

    def __init__(self, directory: Path, etcd: dict[str, Any], name: str, **changes: Any) -> None:
        self.name = name
        self.home = directory / name
        self.home.mkdir(parents=True)
        self.data = self.home / "data"
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.settings: dict[str, Any] = {
            "name": name, "binary": mongod_program(), "data_dir": str(self.data), "address": self.address,
            "etcd": etcd, "check": {"interval": 0.2, "tries": 100}, "reconcile_interval": 0.2, "stop_grace": 20,
            **changes,
        }  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        path = self.home / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self, failpoint: str = "", **changes: Any) -> Daemon:
        self.settings.update(changes)
        config = self.home / "mongodb.yml"
        config.write_text(yaml.safe_dump(self.settings))
        command = [sys.executable, "-c", _MAIN, str(config)]
        self.process = start_process(command, self.home / "log", env={**os.environ, VARIABLE: failpoint})
        return self

    def wait_log(self, text: str, timeout: float = 90.0) -> None:
        wait_for(lambda: text in self.log, timeout, f"'{text}' in the log of {self.name}:\n{self.log[-3000:]}")

    def ended(self, timeout: float = 40.0) -> int:
        assert self.process is not None
        return self.process.wait(timeout)

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    @property
    def mongod(self) -> int:
        matches = re.findall(r"mongodb started as process (\d+)", self.log)
        return int(matches[-1])

    def ask(self, command: str, **options: Any) -> dict[str, Any] | None:
        """An admin command to this very mongod; None when it does not answer it."""
        try:
            with pymongo.MongoClient(
                "127.0.0.1", self.port, directConnection=True, timeoutMS=2000, serverSelectionTimeoutMS=2000, **options
            ) as client:
                return client.admin.command(command)
        except PyMongoError:
            return None

    def config(self) -> dict[str, Any]:
        answer = self.ask("replSetGetConfig")
        return answer["config"] if answer else {"members": []}


class Cluster:
    """Daemons that share a prefix in one etcd."""

    def __init__(self, directory: Path, endpoint: str) -> None:
        self.directory = directory
        self.etcd_config = {"endpoints": [endpoint], "prefix": f"/{uuid.uuid4().hex}/", "timeout": 2.0}
        self.daemons: list[Daemon] = []
        self.etcd = Etcd(EtcdClient(**self.etcd_config))

    def daemon(self, name: str, **changes: Any) -> Daemon:
        daemon = Daemon(self.directory, changes.pop("etcd", self.etcd_config), name, **changes)
        self.daemons.append(daemon)
        return daemon

    def start(self, count: int, **changes: Any) -> list[Daemon]:
        """That many daemons at once; the first of them is given a head start in nothing."""
        daemons = [self.daemon(f"m{number}", **changes) for number in range(count)]
        for daemon in daemons:
            daemon.start()
        return daemons

    def primary(self) -> Daemon | None:
        for daemon in self.daemons:
            if daemon.process is not None and daemon.process.poll() is None:
                hello = daemon.ask("hello")
                if hello and hello.get("isWritablePrimary"):
                    return daemon
        return None

    def members(self) -> dict[str, dict[str, Any]]:
        """The configuration's members by address, as the primary has it; empty without one."""
        primary = self.primary()
        return {member["host"]: member for member in primary.config()["members"]} if primary else {}

    def votes(self) -> list[int]:
        return sorted((member["votes"] for member in self.members().values()), reverse=True)

    def wait_votes(self, votes: list[int], timeout: float = 120.0) -> None:
        wait_for(lambda: self.votes() == votes, timeout, f"votes {votes}")

    def client(self, daemons: list[Daemon], **options: Any) -> pymongo.MongoClient[dict[str, Any]]:
        return pymongo.MongoClient(
            [daemon.address for daemon in daemons], replicaSet="judge", w="majority", journal=True,
            readConcernLevel="majority", serverSelectionTimeoutMS=30000, **options,
        )  # fmt: skip

    def registration(self, name: str) -> dict[str, str] | None:
        entry = self.etcd.get(f"mongodb/member/{name}")
        return json.loads(entry.value) if entry else None

    def close(self) -> None:
        """Stop all daemons at once, in order where they can (their coverage is written then), else by SIGKILL."""
        running = [daemon.process for daemon in self.daemons if daemon.process and daemon.process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.etcd.close()


@contextlib.contextmanager
def secure_cluster(home: Path, endpoint: str, key: str, password: str) -> Iterator[Cluster]:
    """Three voting members with TLS, whose key file and password of user `judicator` are in `home`."""
    pki.make_ca(home / "pki")
    tls = pki.issue(home / "pki", "host", "mongodb", ["127.0.0.1"])
    for name, text in (("keyfile", key), ("password", password)):
        (home / f"mongodb.{name}").write_text(f"{text}\n")
        (home / f"mongodb.{name}").chmod(0o600)
    options = {
        "username": "judicator", "password_file": str(home / "mongodb.password"),
        "key_file": str(home / "mongodb.keyfile"),
        "tls": {"ca": str(tls.ca), "cert": str(tls.cert), "key": str(tls.key)},
    }  # fmt: skip
    with mongodb_cluster(home, endpoint) as cluster:
        daemons = cluster.start(3, **options)
        for daemon in daemons:
            daemon.wait_log("registered as")
        wait_for(lambda: any("made the user 'judicator'" in daemon.log for daemon in daemons), what="the user")
        wait_for(lambda: sum(d.log.count("gives 127.0.0.1") for d in daemons) == 2, what="three voters")
        yield cluster


@contextlib.contextmanager
def mongodb_cluster(directory: Path, endpoint: str) -> Iterator[Cluster]:
    """A cluster without daemons yet; all that were started are stopped at the end, and their mongods with them."""
    cluster = Cluster(directory, endpoint)
    try:
        yield cluster
    finally:
        cluster.close()
