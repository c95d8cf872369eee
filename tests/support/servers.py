"""Real etcd and mongod on free loopback ports, and waiting for conditions."""

import contextlib
import os
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, TypeVar

import pymongo

from judge.boot.embedded import cluster as embedded

PAUSE = 0.02  # seconds between two looks at a condition
T = TypeVar("T")


_GIVEN: set[int] = set()  # by this process


def free_port() -> int:
    """A port that was free a moment ago, and that this process has not been given before."""
    port = embedded.free_port(_GIVEN)
    _GIVEN.add(port)
    return port


def program(name: str) -> str | None:
    """The path of a program that this machine has, or that scripts/install-packages put beside this Python; or None."""
    return shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}")


def wait_for(condition: Callable[[], T], timeout: float = 90.0, what: str = "condition") -> T:
    """Poll until `condition()` is truthy and return it; AssertionError naming `what` after `timeout` seconds."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come true within {timeout:g} s")
        time.sleep(PAUSE)


class Acceptor:
    """Takes connections at a free port of the loopback, in a thread of its own, until `close`."""

    def __init__(self, take: Callable[[socket.socket], object]) -> None:
        """`take` has each connection, and must not wait for long."""
        self._take = take
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._take(connection)

    def close(self) -> None:
        # A thread that still waits in accept would take connections of the next socket that gets this one's number.
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()


def server_of(endpoint: str) -> int:
    port = endpoint.rpartition(":")[2]
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_text().split("\0")
            if words[0].endswith("etcd") and any(f"127.0.0.1:{port}" in word for word in words):
                return int(entry.name)
    raise AssertionError(endpoint)


@contextlib.contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """Processes that stand still; they go on at the end. Threads may still answer for a moment after the signal."""
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: all(map(_stands_still, pids)), what="that all threads stand still")
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _stands_still(pid: int) -> bool:
    try:
        stats = [(thread / "stat").read_text() for thread in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile
        return False
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


@contextlib.contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    """Have a server answer in a thread for the length of a `with`, which closes it."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answer_http(handler: BaseHTTPRequestHandler, status: int, data: bytes = b"", **headers: str) -> None:
    """One whole answer; a header's name is written with `_` for `-`."""
    handler.send_response(status)
    for name, value in {**headers, "Content_Length": str(len(data))}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(data)


def start_process(command: list[str], log: Path, **options: Any) -> subprocess.Popen[bytes]:
    """A process that ends with this one; what it prints goes to the end of a file."""
    with log.open("ab") as out:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *command],
            stdout=out, stderr=out, stdin=subprocess.DEVNULL, **options,
        )  # fmt: skip


def port_open(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def _running(command: list[str], log: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    process = start_process(command, log)
    try:

        def up() -> bool:
            assert process.poll() is None, log.read_text(errors="replace")[-2000:]
            return port_open(port)

        wait_for(up, what=f"{command[0]} on port {port}")
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def etcd_server(directory: Path, port: int | None = None) -> Iterator[str]:
    """One etcd member; yields its client endpoint `host:port`."""
    client, peer = port or free_port(), free_port()
    name = f"t{uuid.uuid4().hex[:6]}"
    command = [
        "etcd", "--name", name, "--data-dir", str(directory / "etcd"), "--logger", "zap",
        "--listen-client-urls", f"http://127.0.0.1:{client}", "--advertise-client-urls", f"http://127.0.0.1:{client}",
        "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
        "--initial-cluster", f"{name}=http://127.0.0.1:{peer}", "--initial-cluster-token", name,
    ]  # fmt: skip
    directory.mkdir(parents=True, exist_ok=True)
    with _running(command, directory / "etcd.log", client):
        yield f"127.0.0.1:{client}"
    shutil.rmtree(directory / "etcd")  # a run of all tests would keep 40 GB of servers' data otherwise


@contextlib.contextmanager
def mongod_server(directory: Path, replica_set: str = "judge") -> Iterator[str]:
    """One mongod that is the primary of its own replica set; yields `host:port`."""
    port = free_port()
    data = directory / "mongod"
    data.mkdir(parents=True, exist_ok=True)
    command = [
        embedded.mongod_program(), "--dbpath", str(data), "--port", str(port), "--bind_ip", "127.0.0.1",
        "--replSet", replica_set, "--wiredTigerCacheSizeGB", "0.25", "--nounixsocket",
    ]  # fmt: skip
    with _running(command, directory / "mongod.log", port):
        with pymongo.MongoClient("127.0.0.1", port, directConnection=True) as client:
            client.admin.command(
                "replSetInitiate", {"_id": replica_set, "members": [{"_id": 0, "host": f"127.0.0.1:{port}"}]}
            )
            wait_for(lambda: client.admin.command("hello").get("isWritablePrimary"), what="a primary")
        yield f"127.0.0.1:{port}"
    shutil.rmtree(data)
