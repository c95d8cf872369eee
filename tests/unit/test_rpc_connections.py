"""Heads of the answers that the RPC's client reads."""

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from judge.rpc.connections import AnswerHead, TransportError, read_head

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
