"""The faults of a message, found at little cost however it was made."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from judge.errors import TooLargeError, UsageError

# More than anybody makes by mistake. A list of all faults takes a thousand times the memory of what was sent.
MANY: Final = 1000
_NAME: Final = 100
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
    """Whether more than `most` marks stand outside of texts."""
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


def first_fault(exc: ValidationError, what: str, *, given: bool = False) -> ErrorDetails:
    """The first fault, with what was given on demand; UsageError about `what` when there are too many to list."""
    if exc.error_count() > MANY:
        raise UsageError(f"{what} has {exc.error_count()} faults; it is not what this call takes") from None
    return exc.errors(include_url=False, include_context=False, include_input=given)[0]


def place(fault: ErrorDetails) -> str:
    """The dotted name of the field at fault. It may be a name of the sender's own, of any length: that is cut."""
    return ".".join(str(part)[:_NAME] for part in fault["loc"])
