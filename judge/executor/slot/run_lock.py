"""Turns to compute: many runs side by side, or one alone (docs/decisions/009).

The slots of an executor share a directory with two lock files. A run like any other holds `runs` shared. A slot that
repeats a test closes the gate (`turn`), so that no new run starts, and waits for those on their way. The kernel lets go
of the locks of a slot that dies. Nobody waits while holding `runs`, so two that want to be alone take turns.

All slots together close the gate for a bounded part of the time: the file `turn` holds how many seconds it may
still be closed, which grow again while it is open (`allowed`).
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from judge.common import clock

# The gate may be closed for this part of the time, and for so many seconds at once after a long rest.
SHARE = 0.1
BURST = 10.0
# Seconds to wait: with the gate open, for the right to close it; with the gate closed, for others' runs to end.
PATIENCE = 10.0
DRAIN = 10.0
# Seconds between two looks at whether the gate may be closed again.
_LOOK = 0.05
_STATE = struct.Struct("=dd")
# Seconds between two looks at a lock that others have: at first, and at most.
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


def allowed(level: float, since: float, now: float) -> float:
    """For how many seconds the gate may be closed now, when it was `level` at `then` and open since. Pure.

    A time to come is that of an earlier boot.
    """
    return BURST if since > now else min(BURST, level + SHARE * (now - since))


class RunLock:
    """One slot's part in taking turns. Not for use by several threads."""

    def __init__(self, directory: Path | None, patience: float = PATIENCE, drain: float = DRAIN) -> None:
        """`directory` is the executor's, made when absent; None: there is nobody to take turns with."""
        self._patience = patience
        self._drain = drain
        self._alone = False
        self._turn = self._runs = -1
        # For how long exclusive() has had the gate closed, before the time in it and afterwards.
        self.closed = 0.0
        if directory is not None:
            directory.mkdir(exist_ok=True, mode=0o700)
            self._turn, self._runs = (_open(directory / name) for name in ("turn", "runs"))

    def close(self) -> None:
        for fd in {self._turn, self._runs} - {-1}:
            os.close(fd)
        self._turn = self._runs = -1

    @contextlib.contextmanager
    def shared(self, wait: Wait) -> Iterator[None]:
        """While one run computes that others may run beside; waits for those who want to be alone.

        `wait` waits for some seconds, and raises when the task is not wanted any more.
        """
        if self._alone or self._runs == -1:
            yield
            return
        try:
            acquire(self._turn, fcntl.LOCK_SH, wait)
            acquire(self._runs, fcntl.LOCK_SH, wait)
            fcntl.flock(self._turn, fcntl.LOCK_UN)
            yield
        finally:
            self._let_go()

    @contextlib.contextmanager
    def exclusive(self, wait: Wait, needs: float = 0.0, most: float = float("inf")) -> Iterator[bool]:
        """While one test is repeated, which should take `needs` seconds: no other slot computes.

        False, and the gate is open: it has been closed for too long lately, or others' runs take too long, or would
        leave less than `needs` of the `most` seconds for which the gate may be closed. Called without holding
        `shared`; runs inside it take their turn as ever. `closed` says for how long the gate was closed.
        """
        self.closed = 0.0
        if self._runs == -1:
            yield True
            return
        if not self._may_close(wait, min(needs, BURST)):
            yield False
            return
        begin = clock.monotonic()
        level = self._level(begin)
        # A slot that is killed meanwhile has paid.
        self._note(level - needs, begin)
        closed = True
        try:
            self._alone = acquire(self._runs, fcntl.LOCK_EX, wait, min(self._drain, max(0.0, most - needs)))
            self.closed = clock.monotonic() - begin
            if not self._alone:
                closed = False
                self._open_gate(level, begin)
            yield self._alone
        finally:
            self._alone = False
            if closed:
                self._open_gate(level, begin)

    def _may_close(self, wait: Wait, level: float) -> bool:
        """Hold the gate (`turn`) as soon as it may be closed for so many seconds; False when that takes too long."""
        end = clock.monotonic() + self._patience
        try:
            while acquire(self._turn, fcntl.LOCK_EX, wait, end - clock.monotonic()):
                now = clock.monotonic()
                if self._level(now) >= level:
                    return True
                fcntl.flock(self._turn, fcntl.LOCK_UN)
                if now >= end:
                    break
                wait(_LOOK)
        except BaseException:
            self._let_go()
            raise
        return False

    def _level(self, now: float) -> float:
        data = os.pread(self._turn, _STATE.size, 0)
        if len(data) < _STATE.size:
            return BURST
        level, since = _STATE.unpack(data)
        return allowed(level, since, now)

    def _note(self, level: float, now: float) -> None:
        os.pwrite(self._turn, _STATE.pack(level, now), 0)

    def _open_gate(self, level: float, begin: float) -> None:
        now = clock.monotonic()
        self.closed = now - begin
        self._note(level - self.closed, now)
        self._let_go()

    def _let_go(self) -> None:
        for fd in (self._runs, self._turn):
            fcntl.flock(fd, fcntl.LOCK_UN)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
