"""Packs: several blobs as one body, so that not every small one waits for the disk by itself (docs/protocol.md).

For each blob a line `SHA256 LENGTH`, then an empty line, then the contents in the same order with nothing between. Pure
functions; a client with blobs to upload makes packs, the judicator takes them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from judge.common.errors import FieldError, TooLargeError

# Bytes of contents, and blobs, in one pack. A larger blob travels by itself, in pieces.
PACK_BYTES: Final = 4 * 1024**2
PACK_BLOBS: Final = 1000
_LINE: Final = 64 + 1 + 10 + 1
# Bytes of the largest pack.
MOST: Final = PACK_BYTES + PACK_BLOBS * _LINE + 1
_HEX: Final = frozenset(b"0123456789abcdef")


def pack(contents: Sequence[tuple[str, bytes]]) -> bytes:
    return b"".join([head([(sha, len(data)) for sha, data in contents]), *(data for _, data in contents)])


def head(lengths: Sequence[tuple[str, int]]) -> bytes:
    """The beginning of a pack of blobs with these names and lengths, after which their contents follow."""
    return "".join(f"{sha} {length}\n" for sha, length in lengths).encode() + b"\n"


def unpack(body: bytes) -> dict[str, memoryview]:
    """The contents of a pack by name, not verified, sharing its memory; FieldError, TooLargeError when it is none."""
    if len(body) > MOST:
        raise TooLargeError(f"the pack has {len(body)} bytes; the limit is {MOST}")
    end = body.find(b"\n\n", 0, PACK_BLOBS * _LINE + 1) + 1
    if not end:
        raise FieldError("body", f"is no pack of at most {PACK_BLOBS} blobs: an empty line has to end its list of them")
    lines = body[: end - 1].split(b"\n")
    view, at = memoryview(body), end + 1
    blobs: dict[str, memoryview] = {}
    for number, line in enumerate(lines, 1):
        sha, _, digits = line.partition(b" ")
        if len(sha) != 64 or not _HEX.issuperset(sha) or not digits.isdigit() or len(digits) > 10:
            raise FieldError("body", f"line {number} of the pack is not a SHA-256 and a length in bytes")
        length = int(digits)
        if at + length > len(body):
            raise FieldError("body", f"is cut off: the pack ends within blob {number} of {len(lines)}")
        blobs[sha.decode()] = view[at : at + length]
        at += length
    if at != len(body):
        raise FieldError("body", f"has {len(body) - at} bytes more than the lengths in its list say")
    return blobs


def plan(sizes: Mapping[str, int]) -> Iterable[list[str]]:
    """The blobs of these sizes (bytes) in groups to send: packs, and what is too large for one by itself."""
    group: list[str] = []
    size_of_group = 0
    for sha, size in sizes.items():
        if size > PACK_BYTES:
            yield [sha]
            continue
        if size_of_group + size > PACK_BYTES or len(group) == PACK_BLOBS:
            yield group
            group, size_of_group = [], 0
        group.append(sha)
        size_of_group += size
    if group:
        yield group
