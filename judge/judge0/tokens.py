"""Judge0 names a submission by a UUID: ours carries the task's id, so that nothing has to be stored. Pure functions."""

from __future__ import annotations

import hashlib
import re
import uuid

_SHAPE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# A UUID of version 4 has 122 bits of its own, an id has 96; the rest says whether a UUID was made here.
_CHECK = 26


def token_of(task_id: str) -> str:
    """The UUID (version 4) of a task, by its id."""
    bits = (int(task_id, 16) << _CHECK) | _check(task_id)
    high, middle, low = bits >> 74, (bits >> 62) & 0xFFF, bits & ((1 << 62) - 1)
    return str(uuid.UUID(int=(high << 80) | (4 << 76) | (middle << 64) | (2 << 62) | low))


def task_of(token: str) -> str | None:
    """The id of the task that a UUID names; None for one that was not made by `token_of`."""
    if not _SHAPE.fullmatch(token.lower()):
        return None
    number = uuid.UUID(token).int
    bits = ((number >> 80) << 74) | (((number >> 64) & 0xFFF) << 62) | (number & ((1 << 62) - 1))
    task_id = f"{bits >> _CHECK:024x}"
    return task_id if token_of(task_id) == token.lower() else None


def _check(task_id: str) -> int:
    return int.from_bytes(hashlib.sha256(f"judge0:{task_id}".encode()).digest()[:4], "big") >> (32 - _CHECK)
