"""The faults of a message: a look before it is read whether it would take too much memory, a sentence after that."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from judge.common.errors import FieldError, TooLargeError, UsageError
from judge.model.base import first_fault

# Bytes that are looked at together.
_PIECE: Final = 1024 * 1024
_MARKS: Final = (b",", b"[", b"{")


def bad_request(exc: ValidationError) -> UsageError:
    """The first fault of a body as one sentence; FieldError when it lies in a field."""
    fault = first_fault(exc)
    if fault.kind == "json_invalid":
        return UsageError(f"the body is not JSON: {fault.text.removeprefix('Invalid JSON: ')}; send one JSON object")
    if not fault.field:
        prefix = "" if fault.kind == "too_many" else "is not what this method takes: "
        return UsageError(f"the body {prefix}{fault.text}")
    if fault.kind == "extra_forbidden":
        return FieldError(fault.field, "is not a field of this message; remove it")
    return FieldError(fault.field, fault.text)


def check_values(body: bytes, most: int, label: str) -> None:
    """TooLargeError when JSON has more than `most` values: each takes some hundred bytes, and one of `{}` took three.

    What stands in texts does not count. No other fault is found here.
    """
    if _count_marks(body) > most and _has_more_marks(body, most):
        raise TooLargeError(f"{label} has more than {most} values; send fewer")


def _has_more_marks(body: bytes, most: int) -> bool:
    """Return whether more than `most` marks stand outside of texts."""
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")  # now each quote begins a text, or ends one
    count, inside = 0, 0
    for start in range(0, len(bare), _PIECE):
        parts = bare[start : start + _PIECE].split(b'"')
        count += _count_marks(b"".join(parts[inside::2]))
        inside ^= (len(parts) - 1) & 1
        if count > most:
            return True
    return False


def _count_marks(body: bytes) -> int:
    return sum(body.count(mark) for mark in _MARKS)
