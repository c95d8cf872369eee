"""Whose turn it is to compute: many runs side by side, or one alone (docs/decisions/009).

The slots of an executor share a directory with two lock files. A run like any other holds `runs` shared. Who wants to
be alone closes the gate (`turn`), so that no new run starts, and waits for those on their way. The kernel lets go of
the locks of a slot that dies. Nobody waits while holding `runs`, so two that want to be alone go one after the other.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from judge import clock

# How long others' runs may take to end, in seconds; then the run is repeated beside them, and the result says so.
PATIENCE = 60.0
# How long to wait between two looks at a lock, in seconds: at first, and at most.
_SHORTEST, _LONGEST = 0.001, 0.01

Wait = Callable[[float], None]


class Quiet:
    """One slot's part in taking turns. Not for use by several threads."""

    def __init__(self, directory: Path | None, patience: float = PATIENCE) -> None:
        """`directory` is the executor's, made when absent; None: there is nobody to take turns with."""
        self._patience = patience
        self._alone = False
        self._turn = self._runs = -1
        if directory is not None:
            directory.mkdir(exist_ok=True, mode=0o700)
            self._turn, self._runs = (_open(directory / name) for name in ("turn", "runs"))

    def close(self) -> None:
        """Let go of everything."""
        for fd in {self._turn, self._runs} - {-1}:
            os.close(fd)
        self._turn = self._runs = -1

    @contextlib.contextmanager
    def beside(self, wait: Wait) -> Iterator[None]:
        """While one run computes that others may run beside; waits for those who want to be alone.

        `wait` waits for some seconds, and raises when the task is not wanted any more.
        """
        if self._alone or self._runs == -1:
            yield
            return
        try:
            _get(self._turn, fcntl.LOCK_SH, wait)
            _get(self._runs, fcntl.LOCK_SH, wait)
            fcntl.flock(self._turn, fcntl.LOCK_UN)
            yield
        finally:
            self._let_go()

    @contextlib.contextmanager
    def alone(self, wait: Wait) -> Iterator[bool]:
        """While one test is repeated: no other slot computes. False when others' runs took longer than the patience.

        Called without holding `beside`; runs inside it need no turn of their own.
        """
        if self._runs == -1:
            yield True
            return
        try:
            _get(self._turn, fcntl.LOCK_EX, wait)
            quiet = _get(self._runs, fcntl.LOCK_EX, wait, self._patience)
            self._alone = True
            yield quiet
        finally:
            self._alone = False
            self._let_go()

    def _let_go(self) -> None:
        for fd in (self._runs, self._turn):
            fcntl.flock(fd, fcntl.LOCK_UN)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _get(fd: int, kind: int, wait: Wait, patience: float = float("inf")) -> bool:
    """Take a lock; False when it was not to be had within `patience` seconds."""
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
