"""Waiting for a `flock` that may have to be given up: looked at again and again, never blocking."""

from __future__ import annotations

import fcntl
import math
from collections.abc import Callable

from judge.common import clock

# Seconds to wait between two looks: at first, and at most.
_SHORTEST, _LONGEST = 0.001, 0.01

# Lets so many seconds pass, and raises when the task is not wanted any more.
Wait = Callable[[float], None]


def acquire(fd: int, kind: int, wait: Wait, patience: float = math.inf) -> bool:
    """Take a lock (`LOCK_SH` or `LOCK_EX`); False when it was not to be had within `patience` seconds."""
    end = clock.monotonic() + patience
    pause = _SHORTEST
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.monotonic() >= end:
                return False
            wait(pause)
            pause = min(_LONGEST, 1.5 * pause)
        else:
            return True
