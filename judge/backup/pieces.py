"""Cuts documents and blobs into pieces. What has not changed is cut alike the next time. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

import bson

# Bytes that a piece has at most, unless a single document is larger; documents of a piece, on average.
LARGEST: Final = 4 * 1024**2
DOCUMENTS: Final = 256


def ends(key: Any, average: int = DOCUMENTS) -> bool:
    """Return whether a piece ends with the document of this `_id`: it depends on the id alone.

    So a document that is added, changed or removed changes the one piece that it is in, and no others.
    """
    return zlib.crc32(bson.encode({"": key})) % average == 0


def of_documents(
    documents: Iterable[tuple[Any, bytes]], *, average: int = DOCUMENTS, largest: int = LARGEST
) -> Iterator[tuple[bytes, int]]:
    """Pieces of (`_id`, BSON) in the order of their ids: (BSON documents one after the other, how many)."""
    buffer: list[bytes] = []
    size = 0
    for key, raw in documents:
        if buffer and size + len(raw) > largest:
            yield b"".join(buffer), len(buffer)
            buffer, size = [], 0
        buffer.append(raw)
        size += len(raw)
        if ends(key, average):
            yield b"".join(buffer), len(buffer)
            buffer, size = [], 0
    if buffer:
        yield b"".join(buffer), len(buffer)


def documents_of(piece: bytes) -> list[bytes]:
    """The BSON documents of a piece; ValueError when it is no row of them."""
    result, at = [], 0
    while at < len(piece):
        size = int.from_bytes(piece[at : at + 4], "little")
        if size < 5 or at + size > len(piece):
            raise ValueError("a piece of documents is cut off")
        result.append(piece[at : at + size])
        at += size
    return result


def of_blob(content: bytes, largest: int = LARGEST) -> list[bytes]:
    """The pieces of a blob; a small one is one piece, whose name is the blob's own. None for nothing."""
    return [content[start : start + largest] for start in range(0, len(content), largest)]
