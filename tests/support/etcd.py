"""The etcd daemon in processes of its own: members, clusters, certificates by role, lost answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml

from judge.common.errors import JudgeError
from judge.common.failpoint import VARIABLE
from judge.config import EtcdClient, EtcdConfig, Tls, load
from judge.etcd.client import Etcd
from judge.etcd.discovery import host_port
from judge.etcd.wire import connect, grpc
from judge.rpc import pki
from tests.support.servers import free_port, start_process, wait_for

TOKEN = "test-cluster-token"
H = TypeVar("H", bound="Host")


class Host:
    """One host's daemon: its config, its directory, its log, at most one process."""

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.root = root / name
        self.root.mkdir(parents=True)
        self.client = f"http://127.0.0.1:{free_port()}"
        self.peer = f"http://127.0.0.1:{free_port()}"
        self.log = self.root / "log"
        self.data = self.root / "var"
        self.process: subprocess.Popen[bytes] | None = None
        self.settings: dict[str, Any] = {}

    def configure(self, bootstrap: str, listed: list[Host], **settings: Any) -> Host:
        cluster = {
            "token": TOKEN,
            "bootstrap": bootstrap,
            "members": [{"name": h.name, "peer": h.peer, "client": h.client} for h in listed],
            **settings.pop("cluster", {}),
        }
        self.settings = {
            "name": self.name,
            "client": self.client,
            "peer": self.peer,
            "data_dir": str(self.data),
            "heartbeat_ms": 50,
            "election_ms": 500,
            "check": {"interval": 0.3, "tries": 10},
            "stop_grace": 5,
            "cluster": cluster,
            **settings,
        }
        return self

    @property
    def config(self) -> EtcdConfig:
        path = self.root / "etcd.yml"
        path.write_text(yaml.safe_dump(self.settings))
        return load(EtcdConfig, path)

    def start(self, failpoint: str = "") -> Host:
        _ = self.config
        code = (
            "import sys; from pathlib import Path; from judge.config import EtcdConfig, load;"
            "from judge.daemon import log, main as daemon; log.setup('debug');"
            "sys.exit(daemon.run(load(EtcdConfig, Path(sys.argv[1]))))"
        )
        command = [sys.executable, "-c", code, str(self.root / "etcd.yml")]
        self.process = start_process(command, self.log, env={**os.environ, VARIABLE: failpoint})
        return self

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def says(self, sentence: str, timeout: float = 90.0, times: int = 1) -> None:
        wait_for(lambda: self.text().count(sentence) >= times, timeout, f"{self.name} to say '{sentence}'")

    def ended(self, timeout: float = 90.0) -> int:
        assert self.process is not None
        return self.process.wait(timeout)

    def stop(self, sig: signal.Signals = signal.SIGTERM, timeout: float = 90.0) -> int:
        assert self.process is not None
        self.process.send_signal(sig)
        return self.process.wait(timeout)

    def server_pid(self) -> int:
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def etcd(self) -> Etcd:
        return Etcd(EtcdClient(endpoints=[host_port(self.client)], timeout=3))

    def voters(self) -> list[str]:
        """The names of the voting members with a published address, as a quorum knows them; empty without one."""
        try:
            with self.etcd() as etcd:
                return sorted(m.name for m in etcd.members() if not m.learner and m.client_urls)
        except JudgeError:
            return []

    def wait_voters(self, *hosts: Host, timeout: float = 90.0) -> None:
        names = sorted(host.name for host in hosts)
        wait_for(lambda: self.voters() == names, timeout, f"voters {names}, last seen {self.voters()}")


@contextmanager
def hosts(root: Path, count: int) -> Iterator[list[Host]]:
    with _killed_at_the_end([Host(root, f"m{number}") for number in range(1, count + 1)]) as members:
        yield members


@contextmanager
def _killed_at_the_end(members: list[H]) -> Iterator[list[H]]:
    try:
        yield members
    finally:
        for host in members:
            if host.process is not None:
                if host.process.poll() is None:
                    host.process.kill()
                host.process.wait()


@contextmanager
def cluster(root: Path, count: int, spare: int = 0) -> Iterator[list[Host]]:
    """A running cluster of `count` members, and `spare` hosts configured to join it."""
    with hosts(root, count + spare) as members:
        first = members[:count]
        for host in first:
            host.configure("initialise", first).start()
        first[0].wait_voters(*first)
        for host in members[count:]:
            host.configure("join", members)
        yield members


class Cutter(grpc.GenericRpcHandler):  # type: ignore[misc]
    """`lose`: how many answers of `method` are lost, from the first call on that etcd has done. `done` counts them."""

    def __init__(self, upstream: str, method: str) -> None:
        self.method = method
        self.lose = 0
        self.done = 0
        self.channel = connect(upstream, None)

    def service(self, details: Any) -> Any:
        def call(raw: bytes, context: Any) -> bytes:
            answer, failure = b"", None
            try:
                answer = self.channel.unary_unary(details.method)(raw, timeout=10)
            except grpc.RpcError as exc:
                failure = exc
            if details.method.endswith(self.method) and self.lose > 0 and (failure is None or self.done):
                self.lose -= 1
                self.done += 1
                context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
            if failure is not None:
                context.abort(failure.code(), failure.details())
            return answer

        return grpc.unary_unary_rpc_method_handler(call)


@contextmanager
def cutting(upstream: str, method: str) -> Iterator[tuple[str, Cutter]]:
    """Serve before `upstream` (`host:port`): the address, and the cutter."""
    cutter = Cutter(upstream, method)
    server = grpc.server(futures.ThreadPoolExecutor(8), [cutter])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}", cutter
    finally:
        server.stop(None).wait()
        cutter.channel.close()


ROLES = ("etcd", "judicator", "mongodb", "executor", "gateway", "proxy", "https", "boot", "stranger")


class Authority:
    """A certificate authority on loopback."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        pki.make_ca(directory)

    def tls(self, role: str, name: str = "h1") -> Tls:
        return pki.issue(self.directory, name, role, ["127.0.0.1", "127.0.0.2", "localhost"])

    def etcd(self, host: Host, role: str, address: str = "127.0.0.1", name: str = "h1") -> Etcd:
        endpoint = host_port(host.client).replace("127.0.0.1", address)
        return Etcd(EtcdClient(endpoints=[endpoint], tls=self.tls(role, name), timeout=5))


class SecureHost(Host):
    """A member with certificates, each host its own."""

    def __init__(self, root: Path, name: str, authority: Authority) -> None:
        super().__init__(root, name)
        self.authority = authority
        self.client = self.client.replace("http", "https")
        self.peer = self.peer.replace("http", "https")

    def configure(self, bootstrap: str, listed: list[Host], **settings: Any) -> Host:
        tls = {key: str(path) for key, path in self.authority.tls("etcd", self.name).model_dump().items()}
        # On two addresses, as a member that listens on its own and for its own host.
        listen = [self.client, self.client.replace("127.0.0.1", "127.0.0.2")]
        return super().configure(bootstrap, listed, tls=tls, peer_tls=tls, listen_client=listen, **settings)

    def etcd(self) -> Etcd:
        return self.authority.etcd(self, "etcd")


@contextmanager
def secure_hosts(root: Path, count: int) -> Iterator[list[SecureHost]]:
    """That many hosts of one authority, not started; whatever runs at the end is killed."""
    authority = Authority(root / "pki")
    members = [SecureHost(root, f"m{number}", authority) for number in range(1, count + 1)]
    with _killed_at_the_end(members):
        yield members


@contextmanager
def secure_cluster(root: Path, count: int) -> Iterator[list[SecureHost]]:
    """A running cluster of `count` members with certificates."""
    with secure_hosts(root, count) as members:
        for host in members:
            host.configure("initialise", list(members)).start()
        members[0].wait_voters(*members)
        yield members
