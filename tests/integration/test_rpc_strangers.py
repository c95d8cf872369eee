"""Slow and greedy callers of a judicator: others are served meanwhile, and everything has an end."""

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge.common.errors import UnavailableError
from judge.config import SubmissionLimits
from judge.model import messages as m
from judge.rpc import listener, pki, quotas, server
from judge.rpc.client import RpcClient
from tests.support.gateway import crowd
from tests.support.judicators import World
from tests.support.servers import wait_for

SOON = 5.0
HELLO = bytes.fromhex("1603010200010001fc0303")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter bounds than people need."""
    for module, name, seconds in (
        (server, "_SLOW", 1.0),
        (listener, "_HANDSHAKE", 2.0),
        (listener, "_GOODBYE", 0.5),
        (server, "_IDLE", 2.0),
    ):
        monkeypatch.setattr(module, name, seconds)


@pytest.fixture
def world(hurried: None, tmp_path: Path, etcd_endpoint: str, mongod_address: str) -> Iterator[World]:
    world = World(tmp_path, etcd_endpoint, mongod_address)
    world.judicator(limits=SubmissionLimits(blob_bytes=20_000_000, body_bytes=100_000))
    yield world
    world.close()


@pytest.fixture
def client(world: World) -> Iterator[RpcClient]:
    with RpcClient(lambda: [world.judicators[0].address], world.tls("gw", "gateway"), 20.0) as client:
        yield client


def address_of(world: World) -> tuple[str, int]:
    host, _, port = world.judicators[0].address.partition(":")
    return host, int(port)


def secured(world: World, name: str = "slow", small: bool = False) -> ssl.SSLSocket:
    """A connection with a certificate of its own, and perhaps a small receive buffer."""
    raw = socket.socket()
    if small:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.settimeout(30)
    raw.connect(address_of(world))
    return pki.client_context(world.tls(name, "gateway")).wrap_socket(raw, server_hostname="127.0.0.1")


def served(client: RpcClient) -> None:
    for _ in range(5):
        started = time.monotonic()
        assert client.call("ping", m.Empty(), m.Pong).name
        assert time.monotonic() - started < SOON


def over(sock: socket.socket, drip: bytes, within: float) -> bytes:
    """What came until the server hung up; AssertionError when it does not in time."""
    received, end = b"", time.monotonic() + within
    sock.settimeout(0.1)
    while time.monotonic() < end:
        with contextlib.suppress(TimeoutError, ssl.SSLWantReadError):
            try:
                piece = sock.recv(65536)
            except OSError as exc:
                if isinstance(exc, TimeoutError):
                    raise
                return received
            if not piece:
                return received
            received += piece
        if drip:
            try:
                sock.send(drip)
            except OSError:
                return received
    raise AssertionError(f"still served after {within:g} s")


@pytest.mark.parametrize("begin", [b"", HELLO, b"GET / HTTP/1.1\r\n"])
def test_half_open_handshakes_hold_up_nobody_and_end(world: World, client: RpcClient, begin: bytes) -> None:
    with crowd(address_of(world), 300, begin) as strangers:
        served(client)
        wait_for(lambda: strangers.open == 0, what="the end of all half-open connections")


def test_half_done_handshakes_are_counted_by_address(world: World, client: RpcClient, monkeypatch, caplog) -> None:
    """One address has a number of them, and the oldest go; another address, and whoever is quick, is not concerned."""
    monkeypatch.setattr(listener, "_HANDSHAKE", 60.0)
    address = address_of(world)
    with crowd(address, 1, HELLO, sources=["127.0.0.9"]) as neighbour, crowd(address, 400, HELLO) as strangers:
        wait_for(lambda: len(strangers.ended) >= 400 - listener._SHAKING_EACH, what="the oldest to make room")
        served(client)
        assert strangers.open >= listener._SHAKING_EACH - 10
        assert neighbour.open == 1
    assert "TLS handshakes made room for others, at last for one from 127.0.0.1" in caplog.text


@pytest.mark.parametrize(
    "nonsense",
    [
        b"GET / HTTP/9\r\n\r\n",
        b"\x16\x03\x01\x00\x00\r\n\r\n",
        b"POST /rpc/ping HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        b"POST /rpc/ping HTTP/1.1\r\nHost: x\r\n" + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
        b"POST /rpc/ping HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /rpc/ping HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n",
    ],
)
def test_a_malformed_request_is_one_line_of_the_log(world: World, client: RpcClient, caplog, nonsense: bytes) -> None:
    """A member that speaks nonsense fills no log with our own calls."""
    with secured(world) as odd:
        odd.sendall(nonsense)
        over(odd, b"", within=25)
    served(client)
    assert "Traceback" not in caplog.text
    assert all(record.exc_info is None for record in caplog.records)


@pytest.mark.parametrize(
    "begin",
    [
        b"",
        b"POST /rpc/ping HTTP/1.1\r\nHost: x\r\nX-",
        b"POST /rpc/ping HTTP/1.1\r\nHost: x\r\nContent-Length: 90000\r\n\r\n",
        b"POST /rpc/ping HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"PUT /blobs/" + b"0" * 64 + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n",
        b"PUT /blobs/" + b"0" * 64 + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
    ],
)
def test_slow_callers_come_to_an_end(world: World, client: RpcClient, monkeypatch, begin: bytes) -> None:
    monkeypatch.setattr(server, "_RATE", 10_000_000)
    with secured(world) as slow:
        slow.sendall(begin)
        served(client)
        # Drips keep nothing alive. Closing takes aiohttp's own ten seconds for what still comes.
        over(slow, b"x" if begin and b"chunked" not in begin else b"", within=25)


def test_a_caller_that_reads_nothing_is_cut_off(
    world: World, client: RpcClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_RATE", 10_000_000)
    sha = client.put_blob(bytes(20_000_000))
    with secured(world, small=True) as slow:
        slow.sendall(b"GET /blobs/%s HTTP/1.1\r\nHost: x\r\n\r\n" % sha.encode())
        served(client)
        # Nothing is read, so only the kernel tells of the end.
        wait_for(lambda: _hung_up(slow), what="the end of a connection that reads nothing")


def _hung_up(sock: socket.socket) -> bool:
    """Whether the other side has reset the connection."""
    state = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    return state != 1  # TCP_ESTABLISHED


def test_one_certificate_has_its_share_of_connections(world: World, client: RpcClient, monkeypatch) -> None:
    monkeypatch.setattr(quotas, "_CONNECTIONS", 20)
    monkeypatch.setattr(server, "_IDLE", 60.0)
    request = b"POST /rpc/ping HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
    with contextlib.ExitStack() as stack:
        answers = []
        for _ in range(22):
            connection = stack.enter_context(secured(world, "greedy"))
            connection.sendall(request)
            answers.append(connection.recv(65536))
        assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers[:20])
        assert all(answer.startswith(b"HTTP/1.1 503") for answer in answers[20:])
        assert b"has too many connections open" in answers[-1]
        served(client)
    with RpcClient(lambda: [world.judicators[0].address], world.tls("greedy", "gateway"), 20.0) as again:

        def answered() -> bool:
            with contextlib.suppress(UnavailableError):
                return bool(again.call("ping", m.Empty(), m.Pong))
            return False

        wait_for(answered, what="room again")


def test_connections_that_ask_for_nothing_count_for_their_certificate(world: World, client: RpcClient, monkeypatch):
    monkeypatch.setattr(quotas, "_CONNECTIONS", 20)
    monkeypatch.setattr(server, "_IDLE", 60.0)
    with contextlib.ExitStack() as stack:
        idle = []
        for _ in range(60):
            with contextlib.suppress(OSError):
                idle.append(stack.enter_context(secured(world, "greedy")))
        wait_for(
            lambda: sum(not _ended(connection) for connection in idle) == 40, what="the end of what is beyond the bound"
        )
        served(client)


def _ended(sock: ssl.SSLSocket) -> bool:
    """Whether nothing comes any more."""
    sock.setblocking(False)
    try:
        return not sock.recv(1)
    except (ssl.SSLWantReadError, BlockingIOError):
        return False
    except OSError:
        return True


def test_one_certificate_has_its_share_of_bodies_on_their_way(world: World, client: RpcClient, monkeypatch) -> None:
    monkeypatch.setattr(quotas, "_BODIES", 250_000)
    begin = b"POST /rpc/ping HTTP/1.1\r\nHost: x\r\nContent-Length: 90000\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(secured(world, "greedy")).sendall(begin)

        def refused() -> bool:
            connection = stack.enter_context(secured(world, "greedy"))
            connection.sendall(begin)
            connection.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                return b"too many large requests under way" in connection.recv(65536)
            return False

        wait_for(refused, what="the refusal of a third body")
        served(client)
