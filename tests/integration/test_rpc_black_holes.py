"""Clients whose etcd or judicators swallow everything: each call keeps its own deadline, however many there are."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from judge.common.errors import UnavailableError
from judge.config import EtcdClient, Tls
from judge.etcd.client import Etcd
from judge.etcd.registry import Registration, entry_value
from judge.model import messages as m
from judge.rpc import pki
from judge.rpc.client import RpcClient
from judge.rpc.endpoints import EtcdEndpoints

THREADS, DEADLINE = 32, 2.0
# Seconds for 32 threads on a busy machine beyond their deadline; one after the other they would need 3 s each.
SLACK = 4.0


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    pki.make_ca(tmp_path)
    return pki.issue(tmp_path, "gateway-1", "gateway", ["127.0.0.1"])


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """A server that takes connections and says nothing; its address."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@contextlib.contextmanager
def deaf() -> Iterator[str]:
    """An address whose SYNs are dropped: its queue of connections is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        address = listener.getsockname()
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                filler.connect(address)
        with pytest.raises(TimeoutError):
            socket.create_connection(address, timeout=0.5)
        yield f"127.0.0.1:{address[1]}"


def crowd(client: RpcClient) -> list[float]:
    """Seconds that each of many simultaneous calls took until it said that nobody answers."""

    def call(_: int) -> float:
        started = time.monotonic()
        with pytest.raises(UnavailableError):
            client.call("status", m.Empty(), m.Pong)
        return time.monotonic() - started

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(call, range(THREADS)))


@pytest.mark.parametrize("hole", [silent, deaf])
def test_an_etcd_that_swallows_everything_holds_no_call_beyond_its_deadline(hole, tls: Tls) -> None:
    with (
        hole() as address,
        Etcd(EtcdClient(endpoints=[address])) as etcd,
        RpcClient(EtcdEndpoints(etcd), tls, DEADLINE) as client,
    ):
        assert max(crowd(client)) < DEADLINE + SLACK
        assert max(crowd(client)) < DEADLINE + SLACK


@pytest.mark.parametrize("hole", [silent, deaf])
def test_judicators_that_swallow_everything_hold_no_call_beyond_its_deadline(hole, tls: Tls, etcd_endpoint) -> None:
    """Their addresses are known; then etcd goes silent as well."""
    with contextlib.ExitStack() as stack:
        config = EtcdClient(endpoints=[etcd_endpoint], prefix=f"/{time.monotonic_ns()}/")
        etcd = stack.enter_context(Etcd(config))
        for number in range(2):
            entry = entry_value(stack.enter_context(hole()), "0.1.0")
            registration = Registration(etcd, f"judicator/service/j{number}", entry, 60)
            assert registration.step()
            stack.callback(registration.withdraw)
        endpoints = EtcdEndpoints(etcd)
        client = stack.enter_context(RpcClient(endpoints, tls, DEADLINE))
        assert max(crowd(client)) < DEADLINE + SLACK
        assert len(endpoints()) == 2
        endpoints._etcd = stack.enter_context(Etcd(EtcdClient(endpoints=[stack.enter_context(hole())])))
        assert max(crowd(client)) < DEADLINE + SLACK
        assert len(endpoints()) == 2, "known addresses outlive etcd's silence"


def test_known_addresses_are_given_at_once_while_etcd_is_silent(tls: Tls) -> None:
    with silent() as address, Etcd(EtcdClient(endpoints=[address])) as etcd:
        endpoints = EtcdEndpoints(etcd)
        endpoints._addresses = ["127.0.0.1:1"]
        started = time.monotonic()
        assert [endpoints() for _ in range(100)] == [["127.0.0.1:1"]] * 100
        assert time.monotonic() - started < 3.0
        asking = [thread for thread in threading.enumerate() if thread.name == "endpoints"]
        assert len(asking) == 1, "one question at a time"
        endpoints.refresh(0.1)
        assert time.monotonic() - started < 4.5
