"""The single home of time. Decisions use monotonic or boottime; wall time is for people (docs/protocol.md, rule 6)."""

from __future__ import annotations

import datetime
import time

from judge.common.errors import DeadlineError

monotonic = time.monotonic  # for durations and timeouts inside one process
cpu_time = time.process_time  # of this process, for calibration
sleep = time.sleep  # daemons' loops should wait on an event instead, so that they can be stopped


def boottime() -> float:
    """Seconds on CLOCK_BOOTTIME, which also runs while the machine sleeps; for lease deadlines."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall() -> datetime.datetime:
    """The time of day in UTC, to be shown or stored for people; never compared in a decision."""
    return datetime.datetime.now(datetime.UTC)


class Deadline:
    """One budget of time, from now on, shared by the steps of a call."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = monotonic() + seconds

    def left(self) -> float:
        """Seconds that remain, never below zero."""
        return max(0.0, self._end - monotonic())

    @property
    def over(self) -> bool:
        return self.left() <= 0.0

    def check(self, action: str) -> float:
        """Seconds that remain; raises DeadlineError naming `action` when none do."""
        remaining = self.left()
        if remaining <= 0.0:
            raise DeadlineError(f"{action} did not finish within {self.seconds:g} s")
        return remaining
