"""Packs of blobs: what is packed comes out again, and what is none is refused."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common.errors import FieldError, TooLargeError
from judge.rpc.packs import MOST, PACK_BLOBS, PACK_BYTES, pack, plan, unpack

contents = st.lists(st.binary(max_size=200), min_size=1, max_size=20, unique=True)


def hashed(data: bytes) -> tuple[str, bytes]:
    return hashlib.sha256(data).hexdigest(), data


@given(contents)
def test_packed_blobs_come_out_again(data: list[bytes]) -> None:
    blobs = unpack(pack([hashed(blob) for blob in data]))
    assert {sha: bytes(view) for sha, view in blobs.items()} == dict(map(hashed, data))


@given(contents, st.data())
def test_a_pack_that_was_cut_is_refused(data: list[bytes], draw: st.DataObject) -> None:
    packed = pack([hashed(blob) for blob in data])
    end = draw.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(FieldError):
        unpack(packed[:end])


@given(st.binary(max_size=300))
def test_anything_else_is_refused(body: bytes) -> None:
    with pytest.raises(FieldError):
        unpack(body)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "is no pack"),
        (b"\n", "is no pack"),
        (b"a 1\n\nx", "line 1 of the pack"),
        (b"A" * 64 + b" 1\n\nx", "line 1 of the pack"),
        (b"a" * 64 + b" -1\n\nx", "line 1 of the pack"),
        (b"a" * 64 + b" 1\n" + b"b" * 64 + b" 99999999999\n\nx", "line 2 of the pack"),
        (b"a" * 64 + b" 2\n\nx", "ends within blob 1 of 1"),
        (b"a" * 64 + b" 1\n\nxyz", "has 2 bytes more"),
    ],
)
def test_sentences_about_broken_packs(body: bytes, sentence: str) -> None:
    with pytest.raises(FieldError, match=sentence):
        unpack(body)


def test_a_pack_has_bounds() -> None:
    with pytest.raises(TooLargeError):
        unpack(bytes(MOST + 1))
    full = pack([(f"{number:064x}", b"") for number in range(PACK_BLOBS)])
    assert len(unpack(full)) == PACK_BLOBS
    largest = pack([(f"{number:064x}", bytes(PACK_BYTES // PACK_BLOBS)) for number in range(PACK_BLOBS)])
    assert len(largest) <= MOST


@given(st.dictionaries(st.integers(), st.integers(0, 3 * PACK_BYTES), max_size=50))
def test_a_plan_has_everything_once_and_every_pack_in_bounds(sizes: dict[int, int]) -> None:
    named_sizes = {str(name): size for name, size in sizes.items()}
    groups = list(plan(named_sizes))
    assert sorted(sha for group in groups for sha in group) == sorted(named_sizes)
    for group in groups:
        total = sum(named_sizes[sha] for sha in group)
        assert len(group) == 1 or (total <= PACK_BYTES and len(group) <= PACK_BLOBS)


def test_many_small_ones_go_together() -> None:
    groups = list(plan({str(number): 1000 for number in range(2500)}))
    assert [len(group) for group in groups] == [1000, 1000, 500]
