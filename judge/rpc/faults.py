"""A look at a message before it is read: whether it would take too much memory."""

from __future__ import annotations

from typing import Final

from judge.errors import TooLargeError

# Bytes that are looked at together.
_PIECE: Final = 1024 * 1024
_MARKS: Final = (b",", b"[", b"{")


def check_values(body: bytes, most: int, what: str) -> None:
    """TooLargeError when JSON has more than `most` values: each takes some hundred bytes, and one of `{}` took three.

    What stands in texts does not count. No other fault is found here.
    """
    if _marks(body) > most and _beyond(body, most):
        raise TooLargeError(f"{what} has more than {most} values; send fewer")


def _beyond(body: bytes, most: int) -> bool:
    """Says whether more than `most` marks stand outside of texts."""
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")  # now each quote begins a text, or ends one
    found, inside = 0, 0
    for start in range(0, len(bare), _PIECE):
        parts = bare[start : start + _PIECE].split(b'"')
        found += _marks(b"".join(parts[inside::2]))
        inside ^= (len(parts) - 1) & 1
        if found > most:
            return True
    return False


def _marks(body: bytes) -> int:
    return sum(body.count(mark) for mark in _MARKS)
