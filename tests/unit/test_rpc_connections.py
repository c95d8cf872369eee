"""The client of the RPC: which judicator it asks first, heads of answers, and how much one certificate may ask for."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from judge.common import clock
from judge.common.errors import UnavailableError
from judge.rpc import pki
from judge.rpc.client import RpcClient
from judge.rpc.connections import AnswerHead, TransportError, read_head
from judge.rpc.quotas import REPORT_BYTES, Quotas

_NAMES = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=20).map(lambda name: f"x-{name}")
_VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)


@given(
    status=st.integers(100, 999),
    length=st.none() | st.integers(0, 10**17),
    headers=st.lists(st.tuples(_NAMES, _VALUES), max_size=8),
    close=st.booleans(),
    minor=st.sampled_from("01"),
    upper=st.booleans(),
)
def test_any_further_headers_are_ignored(
    status: int, length: int | None, headers: list[tuple[str, str]], close: bool, minor: str, upper: bool
) -> None:
    lines = [f"{name}: {value}" for name, value in headers]
    if length is not None:
        lines.insert(len(lines) // 2, f"{'CONTENT-LENGTH' if upper else 'Content-Length'}:{length}")
    if close:
        lines.append("Connection: x, Close")
    head = "\r\n".join([f"HTTP/1.{minor} {status} OK", *lines]).encode()
    assert read_head(head) == AnswerHead(status, length, chunked=False, keep=minor == "1" and not close)


@given(st.binary(max_size=300) | st.binary(max_size=300).map(lambda tail: b"HTTP/1.1 200 OK\r\n" + tail))
@example(b"HTTP/1.1 200 OK\r\nContent-Length: \xb2")
def test_anything_may_come_as_a_head(head: bytes) -> None:
    with contextlib.suppress(TransportError):
        assert 100 <= read_head(head).status <= 999


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"", "no HTTP"),
        (b"HTTP/2 200 OK", "no HTTP"),
        (b"HTTP/1.1 20 OK", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length", "header"),
        (b"HTTP/1.1 200 OK\r\n: 1", "header"),
        (b"HTTP/1.1 200 OK\r\nContent-Length : 1", "header"),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n Content-Length: 1", "header"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\ncontent-length: 2", "ends"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1", "ends"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1_0", "ends"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked", "ends"),
    ],
)
def test_a_head_that_can_be_read_in_two_ways_is_refused(head: bytes, reason: str) -> None:
    with pytest.raises(TransportError, match=reason):
        read_head(head)


def test_chunks_count_and_not_a_length_beside_them() -> None:
    assert read_head(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: Chunked") == AnswerHead(
        200, None, chunked=True, keep=True
    )


ADDRESSES = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]


def test_a_client_changes_its_judicator_after_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pki.make_ca(tmp_path)
    now = 1000.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    client = RpcClient(lambda: ADDRESSES, pki.issue(tmp_path, "gw", "gateway", ["127.0.0.1"]), 1.0)
    firsts = set()
    client.order(refresh=False, patience=0.0)
    for _ in range(100):
        client.first = ADDRESSES[0]
        for _ in range(10):
            assert client.order(refresh=False, patience=0.0)[0] == ADDRESSES[0]
            now += 10.0
        now += 300.0
        firsts.add(client.order(refresh=False, patience=0.0)[0])
    client.close()
    assert firsts == set(ADDRESSES)


def test_the_body_of_a_request_counts_only_until_it_is_read() -> None:
    quotas = Quotas()
    for _ in range(3):
        with quotas.body("e1", 4 * REPORT_BYTES):
            with pytest.raises(UnavailableError), quotas.body("e1", 1):
                pass
            with quotas.body("e2", 1):
                pass
