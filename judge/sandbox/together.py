"""Runs that go on at the same time until all have ended: which are alive, how they are killed, how ends are noted."""

from __future__ import annotations

import contextlib
import select
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from judge.common.errors import SandboxError
from judge.sandbox.box import Run
from judge.sandbox.types import Command, Killed, RunOutcome


class Starter(Protocol):
    """The part of `judge.sandbox.Sandbox` that is needed here."""

    def start(self, command: Command) -> Run:
        """Start a command without waiting for it."""

    def broken(self) -> None:
        """End everything after an error."""


@contextlib.contextmanager
def side_by_side(sandboxes: Sequence[Starter]) -> Iterator[tuple[list[Run], list[RunOutcome | None]]]:
    """Lists for one run of each sandbox and for their accounts. Runs are closed at the end; after an error, all ends.

    SandboxError for OSError.
    """
    runs: list[Run] = []
    outcomes: list[RunOutcome | None] = [None] * len(sandboxes)
    try:
        yield runs, outcomes
    except BaseException as exc:
        for outcome in outcomes:
            if outcome is not None:
                outcome.close()
        for sandbox in sandboxes:
            sandbox.broken()
        if isinstance(exc, OSError):
            raise SandboxError(f"the sandbox failed: {exc.strerror}") from exc
        raise
    finally:
        for run in runs:
            run.close()


def judged_by_own_end(outcome: RunOutcome, settled: float) -> RunOutcome:
    """The account of a run that was killed since another run's end, at `settled`, decided the matter.

    It may have ended by itself before: an agent needs a moment to report an end. Then it was not killed.
    """
    if outcome.ended <= settled:
        return replace(outcome, killed=outcome.killed - {Killed.CANCELLED})
    return outcome


class Together:
    """Runs by their numbers. `poll` has their descriptors; others may be added to it."""

    def __init__(self, runs: Sequence[Run], outcomes: list[RunOutcome | None]) -> None:
        """`outcomes` is filled as runs end, so that the caller has them after an error, too."""
        self.runs = runs
        self.outcomes = outcomes
        self.poll = select.poll()
        self._killed = [Killed.NONE] * len(runs)
        for run in runs:
            for fd in (run.channel, run.event_fd):
                if fd is not None:
                    self.poll.register(fd, select.POLLIN)

    def alive(self, number: int) -> bool:
        """Return whether a run goes on, and was not killed."""
        return self.outcomes[number] is None and self._killed[number] is Killed.NONE

    def cpu(self, number: int) -> float:
        """CPU seconds of a run until now, or until its end."""
        outcome = self.outcomes[number]
        return self.runs[number].cpu() if outcome is None else outcome.cpu

    def kill(self, number: int, reason: Killed) -> None:
        """Kill a run that is alive, if there is a reason."""
        if reason is Killed.NONE or not self.alive(number):
            return
        self._killed[number] = reason
        self.runs[number].kill()
        self._forget_event(number)

    def kill_all(self, reason: Killed) -> None:
        """Kill all runs that are alive."""
        for number in range(len(self.runs)):
            self.kill(number, reason)

    def ended(self, number: int, ready: set[int]) -> RunOutcome | None:
        """Note the end of a run, if it is among the `ready` descriptors; its account, once."""
        run = self.runs[number]
        if self.outcomes[number] is not None or run.channel not in ready:
            return None
        self._forget_event(number)
        self.poll.unregister(run.channel)
        outcome = self.outcomes[number] = run.finish(self._killed[number])
        return outcome

    def _forget_event(self, number: int) -> None:
        """Ignore the event of a memory limit from now on: once the limit is passed, its descriptor stays readable."""
        event = self.runs[number].event_fd
        if event is not None:
            with contextlib.suppress(KeyError):
                self.poll.unregister(event)
