"""The connections of the RPC's client: which are kept, what ends them, and servers that answer in odd ways."""

import contextlib
import hashlib
import io
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from judge.common import clock
from judge.common.errors import NotFoundError, TooLargeError, UnavailableError
from judge.model import messages as m
from judge.rpc import connections, pki
from judge.rpc.client import RpcClient
from tests.support.servers import Acceptor, wait_for

PONG = b'{"name": "j1", "version": "1", "leader": true}'
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(PONG), PONG)
TOO_LARGE = b'{"code": "too_large", "error": "the limit is 1"}'
Answering = Callable[[ssl.SSLSocket, bytes], bool]


class Odd:
    """A TLS server of the cluster's CA: `answer` gets each head, answers it, and says whether it wants another."""

    def __init__(self, directory: Path, answer: Answering) -> None:
        pki.make_ca(directory)
        self.tls = pki.issue(directory, "gw", "gateway", ["127.0.0.1"])
        self.answer = answer
        self.accepted = 0
        self.ended = 0
        self.heads: list[bytes] = []
        self._context = pki.server_context(pki.issue(directory, "j1", "judicator", ["127.0.0.1"]))
        self._acceptor = Acceptor(lambda sock: threading.Thread(target=self._serve, args=(sock,), daemon=True).start())
        self.address = f"127.0.0.1:{self._acceptor.port}"

    def _serve(self, sock: socket.socket) -> None:
        self.accepted += 1
        with contextlib.suppress(OSError), self._context.wrap_socket(sock, server_side=True) as tls:
            while data := tls.recv(65536):
                self.heads.append(data)
                if not self.answer(tls, data):
                    break
        self.ended += 1

    def close(self) -> None:
        self._acceptor.close()


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[Odd]:
    server = Odd(tmp_path, lambda tls, _: bool(tls.sendall(WHOLE)) or True)
    yield server
    server.close()


@pytest.fixture
def client(odd: Odd) -> Iterator[RpcClient]:
    with RpcClient(lambda: [odd.address], odd.tls, 3.0) as client:
        yield client


def ping(client: RpcClient, timeout: float | None = None) -> str:
    return client.call("ping", m.Empty(), m.Pong, timeout=timeout).name


def say(*pieces: bytes, pause: float = 0.0, keep_open: bool = True) -> Answering:
    """Answers with these pieces, in TLS records of their own."""

    def answer(tls: ssl.SSLSocket, _: bytes) -> bool:
        for piece in pieces:
            tls.sendall(piece)
            time.sleep(pause)
        return keep_open

    return answer


def test_one_connection_serves_many_calls(odd: Odd, client: RpcClient) -> None:
    assert [ping(client) for _ in range(20)] == ["j1"] * 20
    assert odd.accepted == 1
    assert odd.heads[0].split(b"\r\n\r\n")[1] == b"{}", "head and body go together"


def test_a_refusal_that_was_read_keeps_its_connection(odd: Odd, client: RpcClient, tmp_path: Path) -> None:
    odd.answer = say(b"HTTP/1.1 404 x\r\nContent-Length: 37\r\n\r\n" + b'{"code": "not_found", "error": "why"}')
    for _ in range(3):
        with pytest.raises(NotFoundError):
            ping(client)
        with pytest.raises(NotFoundError):
            client.get_blob("0" * 64, tmp_path / "blob")
    assert odd.accepted == 1


def test_threads_have_connections_of_their_own(odd: Odd, client: RpcClient) -> None:
    odd.answer = say(WHOLE[:60], WHOLE[60:], pause=0.01)
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda _: [ping(client) for _ in range(10)], range(8)))
    assert names == [["j1"] * 10] * 8
    assert 2 <= odd.accepted <= 8


@pytest.mark.parametrize(
    "answer",
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"10;x=y\r\n", PONG[:16] + b"\r\n1e", b"\r\n",
         PONG[16:], b"\r\n0\r\nX-After: 1\r\n\r\n"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nA: b\r\n\r\n" + WHOLE[:30], WHOLE[30:]),
        tuple(bytes([byte]) for byte in WHOLE),
    ],
)  # fmt: skip
def test_an_answer_may_come_in_any_shape(odd: Odd, client: RpcClient, answer: tuple[bytes, ...]) -> None:
    assert len(PONG) == 16 + 0x1E
    odd.answer = say(*answer)
    assert [ping(client) for _ in range(3)] == ["j1"] * 3
    assert odd.accepted == 1


@pytest.mark.parametrize(
    ("answer", "keep_open"),
    [
        (WHOLE.replace(b"\r\n", b"\r\nConnection: close\r\n", 1), True),
        (WHOLE.replace(b"/1.1", b"/1.0"), True),
        (b"HTTP/1.1 200 OK\r\n\r\n" + PONG, False),
        (WHOLE + b"HTTP", True),
    ],
)
def test_a_connection_that_is_over_serves_no_other_call(odd, client, answer, keep_open) -> None:
    odd.answer = say(answer, keep_open=keep_open)
    assert [ping(client) for _ in range(3)] == ["j1"] * 3
    assert odd.accepted == 3
    wait_for(lambda: odd.ended == 3, what="the end of all connections")


def test_nothing_is_sent_on_a_kept_connection_that_the_server_closed(odd, client, caplog) -> None:
    caplog.set_level(logging.DEBUG, logger="judge.rpc.client")
    odd.answer = say(WHOLE, keep_open=False)
    for number in range(1, 5):
        assert ping(client) == "j1"
        assert odd.accepted == number
        wait_for(lambda: odd.ended == number, what="the server to hang up")  # noqa: B023
    assert "failed" not in caplog.text, "each call had its answer at the first try"


def test_a_kept_connection_that_breaks_at_a_call_is_made_again(odd: Odd, client: RpcClient) -> None:
    assert ping(client) == "j1"
    odd.answer = lambda *_: False
    threading.Timer(0.3, lambda: setattr(odd, "answer", say(WHOLE))).start()
    assert ping(client) == "j1"


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + PONG,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 150_000,
    ],
)
def test_a_malformed_answer_counts_as_no_judicator(odd: Odd, client: RpcClient, answer: bytes) -> None:
    odd.answer = say(answer, keep_open=False)
    with pytest.raises(UnavailableError, match="no judicator answered 'ping'"):
        ping(client, timeout=0.5)


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
def test_an_answer_that_drips_ends_with_the_deadline(odd: Odd, client: RpcClient, begin: bytes) -> None:
    odd.answer = say(begin, *[b"x"] * 50, pause=0.1)
    started = time.monotonic()
    with pytest.raises(UnavailableError, match="timed out"):
        ping(client, timeout=1.0)
    assert time.monotonic() - started < 4.0


def test_a_content_that_nobody_takes_ends_with_the_deadline(odd: Odd) -> None:
    odd.answer = lambda *_: bool(time.sleep(10))
    with RpcClient(lambda: [odd.address], odd.tls, 1.0) as client:
        started = time.monotonic()
        with pytest.raises(UnavailableError, match="timed out"):
            client.put_blob(b"x" * 4_000_000)
        assert time.monotonic() - started < 9.5, "a second, and one for each megabyte"


@pytest.mark.parametrize("reads", [True, False])
def test_a_refusal_before_all_was_sent_is_heard(odd: Odd, client: RpcClient, reads: bool) -> None:
    def refuse(tls: ssl.SSLSocket, _: bytes) -> bool:
        tls.sendall(b"HTTP/1.1 413 x\r\nContent-Length: %d\r\n\r\n%s" % (len(TOO_LARGE), TOO_LARGE))
        time.sleep(0.2)
        with contextlib.suppress(OSError):
            while reads and tls.recv(65536):
                pass
        return False

    odd.answer = refuse
    with pytest.raises(TooLargeError):
        client.put_blob(b"x" * 4_000_000)


@pytest.mark.parametrize("length", [5, 2_000_000])
def test_a_file_that_is_not_as_long_as_was_said_ends_its_connection(odd: Odd, client: RpcClient, length: int) -> None:
    """What is too much would else be the next request."""
    odd.answer = lambda *_: True
    with pytest.raises(UnavailableError, match="another length"):
        client._send("/blobs/" + "0" * 64, length, lambda: iter([b"x" * 1_000_000]))
    assert length > 5 or all(head.startswith(b"PUT ") and head.endswith(b"\r\n\r\n") for head in odd.heads)
    wait_for(lambda: odd.ended == odd.accepted, what="the end of all connections")


def test_a_fault_of_the_file_is_not_the_judicators(odd: Odd, client: RpcClient) -> None:
    class Broken(io.BytesIO):
        """A file on a bad disk."""

        def read(self, _: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    odd.answer = lambda *_: True
    with pytest.raises(OSError, match="Input/output error"):
        client.put_file(Broken(), "0" * 64, 100)
    wait_for(lambda: odd.ended == odd.accepted == 1, what="the end of the connection")


def test_connections_are_kept_for_a_while_and_not_too_many(odd, client, monkeypatch) -> None:
    monkeypatch.setattr(connections, "_MOST_IDLE", 3)
    odd.answer = say(WHOLE[:60], WHOLE[60:], pause=0.1)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ping, [client] * 8))
    assert odd.accepted > 3
    wait_for(lambda: odd.accepted - odd.ended == 3, what="the others to be closed")
    before = odd.accepted
    ping(client)
    assert odd.accepted == before
    monkeypatch.setattr(connections, "_KEEP", 0.0)
    ping(client)  # of its own, kept for no time; the two others are kept still
    client.close()
    wait_for(lambda: odd.accepted == odd.ended, what="all to be closed")
    assert ping(client) == "j1", "a client that was closed keeps nothing, and still asks"
    wait_for(lambda: odd.accepted == odd.ended, what="its connection to be closed")


def test_a_connection_too_old_is_not_used(odd: Odd, client: RpcClient, monkeypatch: pytest.MonkeyPatch) -> None:
    ping(client)
    ping(client)
    assert odd.accepted == 1
    now = clock.monotonic
    monkeypatch.setattr(clock, "monotonic", lambda: now() + connections._KEEP + 1)
    ping(client)
    assert odd.accepted == 2
    wait_for(lambda: odd.ended == 1, what="the old one to be closed")


def test_an_odd_name_stays_within_its_line(odd: Odd, client: RpcClient) -> None:
    client.has_blob("0 HTTP/1.1\r\nX: y\r\n\r\n?#é")
    assert odd.heads[0].startswith(b"HEAD /blobs/0%20HTTP/1.1%0D%0AX%3A%20y%0D%0A%0D%0A%3F%23%C3%A9 HTTP/1.1\r\nHost: ")


def test_a_blob_that_stalls_is_given_up_and_one_that_takes_long_is_not(odd, client, tmp_path) -> None:
    data = bytes(range(256)) * 20_000
    sha = hashlib.sha256(data).hexdigest()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data)
    cut = [data[at : at + 512_000] for at in range(0, len(data), 512_000)]
    odd.answer = say(head, *cut, pause=0.4)  # longer than the deadline, and never silent for so long
    started = time.monotonic()
    client.get_blob(sha, tmp_path / "blob")
    assert time.monotonic() - started > 3.0
    assert (tmp_path / "blob").read_bytes() == data
    odd.answer = say(head, cut[0], pause=20)
    started = time.monotonic()
    with pytest.raises(UnavailableError, match="no judicator answered 'blob'"):
        client.get_blob(sha, tmp_path / "other")
    assert time.monotonic() - started < 15.0
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("value", ["a\r\nJudge-By: root", "a\nb", "a\0"])
def test_a_header_is_one_line(odd: Odd, value: str) -> None:
    pool = connections.Connections(pki.client_context(odd.tls))
    headers = {"Judge-By": value}
    with (
        contextlib.closing(pool),
        pytest.raises(connections.TransportError, match="line's end"),
        pool.request(odd.address, "POST", "/rpc/ping", 1.0, headers),
    ):
        pass
    assert odd.heads == []
