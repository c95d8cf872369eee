"""Bodies in chunks: read as one, in whatever pieces they come; nothing else is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.errors import UsageError
from judge.gateway.front.bodies import Chunks

END = b"0\r\n\r\n"


def chunk(data: bytes, extension: str = "") -> bytes:
    return b"%x%b\r\n%b\r\n" % (len(data), extension.encode(), data)


def read(raw: bytes, step: int = 10**6) -> tuple[bytes, Chunks]:
    chunks = Chunks()
    return b"".join(chunks.feed(raw[at : at + step]) for at in range(0, len(raw), step)), chunks


@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=300), st.sampled_from(["", ";a=b", " ;x"])), max_size=20),
    st.integers(1, 400),
    st.sampled_from([b"", b"X-Sum: 1\r\n", b"A: b\r\nC: d\r\n"]),
)
def test_any_pieces_are_one_body(parts, step, trailer):
    raw = b"".join(chunk(*part) for part in parts) + b"0\r\n" + trailer + b"\r\n"
    found, chunks = read(raw, step)
    assert (found, chunks.wants) == (b"".join(data for data, _ in parts), 0)
    assert read(raw[:-1], step)[1].wants > 0, "nothing is whole before its end"


@given(st.binary(max_size=100), st.integers(1, 50))
def test_any_bytes_are_chunks_or_one_sentence(data, step):
    try:
        found, _ = read(data, step)
    except UsageError:
        pass
    else:
        assert len(found) <= len(data)


@pytest.mark.parametrize(
    "raw",
    [
        b"zz\r\nx", b"-1\r\nx", b"+1\r\nx", b"0x1\r\nx", b"1\nx\n0\n\n", b"\r\n", b" 1\r\nx\r\n",
        b"1_0\r\n", b"5" * 2000,
        b"1\r\nxy\r\n", b"1\r\nx0\r\n\r\n", b"ffffffffffffff\r\nx", b"0\r\n" + b"A: b\r\n" * 2000,
        b"1;" + b"a" * 2000 + b"\r\nx", b"1\r\nx\r\n" * 10_000,
    ],
    ids=lambda raw: repr(raw[:20]),
)  # fmt: skip
def test_what_two_servers_could_read_differently_is_refused(raw):
    with pytest.raises(UsageError):
        read(raw, 1)


def test_small_chunks_are_fine_while_they_are_few():
    assert read(chunk(b"x" * 64) * 9000 + chunk(b"y") * 4000 + END)[1].wants == 0
