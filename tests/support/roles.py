"""A host's etcd behind its gate, and a certificate of every role: who may do what inside the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from judge.config import EtcdClient, Tls
from judge.etcd.client import Etcd
from judge.etcd.discovery import host_port
from judge.rpc import pki
from tests.support.etcd_daemon import Host

ROLES = ("etcd", "judicator", "mongodb", "executor", "gateway", "proxy", "https", "boot", "stranger")


class Authority:
    """A certificate authority on loopback."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        pki.make_ca(directory)

    def tls(self, role: str, name: str = "h1") -> Tls:
        return pki.issue(self.directory, name, role, ["127.0.0.1", "127.0.0.2", "localhost"])

    def etcd(self, host: Host, role: str, address: str = "127.0.0.1", name: str = "h1") -> Etcd:
        """A client of one host with a certificate of this role."""
        endpoint = host_port(host.client).replace("127.0.0.1", address)
        return Etcd(EtcdClient(endpoints=[endpoint], tls=self.tls(role, name), timeout=5))


class SecureHost(Host):
    """A member with certificates, each host its own."""

    def __init__(self, root: Path, name: str, authority: Authority) -> None:
        super().__init__(root, name)
        self.authority = authority
        self.client = self.client.replace("http", "https")
        self.peer = self.peer.replace("http", "https")

    def configure(self, bootstrap: str, listed: list[Host], **more: Any) -> Host:
        tls = {key: str(path) for key, path in self.authority.tls("etcd", self.name).model_dump().items()}
        # On two addresses, as a member that listens on its own and for its own host.
        listen = [self.client, self.client.replace("127.0.0.1", "127.0.0.2")]
        return super().configure(bootstrap, listed, tls=tls, peer_tls=tls, listen_client=listen, **more)

    def etcd(self) -> Etcd:
        return self.authority.etcd(self, "etcd")


@contextmanager
def secure_hosts(root: Path, count: int) -> Iterator[list[SecureHost]]:
    """That many hosts of one authority, not started; whatever runs at the end is killed."""
    authority = Authority(root / "pki")
    made = [SecureHost(root, f"m{number}", authority) for number in range(1, count + 1)]
    try:
        yield made
    finally:
        for host in made:
            if host.process is not None:
                if host.process.poll() is None:
                    host.process.kill()
                host.process.wait()


@contextmanager
def secure_cluster(root: Path, count: int) -> Iterator[list[SecureHost]]:
    """A running cluster of `count` members with certificates."""
    with secure_hosts(root, count) as made:
        for host in made:
            host.configure("initialise", list(made)).start()
        made[0].wait_voters(*made)
        yield made
