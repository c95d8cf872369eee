"""Two programs in two sandboxes that talk to each other over pipes: a submission and an interactive validator.

Each program writes straight into the other's input, and the kernel carries the bytes. This module decides who is
ended when.

- An agent keeps its ends of the pipes until it has noted that its program ended. So a program can notice the other's
  end only after that end was noted, and `Outcome.ended` says truly who ended first.
- This process keeps the reading ends open until both programs have ended, and drops what the living one still writes.
  So no program dies of SIGPIPE by the chance of writing to one that is just ending.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from judge.errors import SandboxError
from judge.sandbox.box import Run
from judge.sandbox.types import Command, Killed, Outcome

# Seconds that the validator may live on after the submission, beside its own limits.
_LATER = 1.0
_SHORTEST = 0.01
_PIECE = 1 << 20


class Starter(Protocol):
    """The part of `judge.sandbox.Sandbox` that is needed here."""

    def start(self, command: Command) -> Run:
        """Start a command without waiting for it."""

    def broken(self) -> None:
        """End everything after an error."""


def run_pair(
    sandboxes: tuple[Starter, Starter],
    commands: tuple[Command, Command],
    over: Callable[[Outcome], bool],
    cancel_fd: int | None = None,
    most: float = math.inf,
) -> tuple[Outcome, Outcome]:
    """Run a submission and its validator against each other; returns both accounts, the submission's first.

    When the validator ends first, `over` says whether that settles the matter; if so, the submission is killed. The
    CPU time that the validator uses is added to the submission's wall limit. Both are ended after `most` seconds,
    whatever their limits. SandboxError as `Sandbox.run`.
    """
    runs: list[Run] = []
    outcomes: list[Outcome | None] = [None, None]
    inputs: list[int] = []
    try:
        _start(sandboxes, commands, most, runs, inputs)
        extra = max(0.0, most - commands[0].enforced.wall_seconds)
        return _Interaction(runs, outcomes, inputs, over, extra).attend(cancel_fd)
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
        for fd in inputs:
            os.close(fd)


def _start(
    sandboxes: Sequence[Starter], commands: Sequence[Command], most: float, runs: list[Run], inputs: list[int]
) -> None:
    """Start both with a pipe each way. This process keeps the reading ends only, as `inputs`."""
    to_validator, to_submission = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
    inputs += [to_submission[0], to_validator[0]]
    try:
        submission = replace(commands[0], stdin=to_submission[0], stdout=to_validator[1])
        # The validator must be able to see the submission's end, whenever that is.
        limits = commands[1].limits
        wall = min(3600.0, limits.wall_seconds + commands[0].enforced.wall_seconds + _LATER, max(most, _SHORTEST))
        limits = limits.model_copy(update={"wall": wall})
        validator = replace(commands[1], stdin=to_validator[0], stdout=to_submission[1], limits=limits)
        for sandbox, command in zip(sandboxes, (submission, validator), strict=True):
            runs.append(sandbox.start(command))
    finally:
        for fd in (to_validator[1], to_submission[1]):
            os.close(fd)


class _Interaction:
    """Two runs until both have ended; index 0 is the submission, 1 the validator."""

    def __init__(
        self,
        runs: Sequence[Run],
        outcomes: list[Outcome | None],
        inputs: Sequence[int],
        over: Callable[[Outcome], bool],
        extra: float,
    ) -> None:
        """`extra`: the most seconds of the validator's CPU time that are added to the submission's wall limit."""
        self._runs = runs
        self._extra = extra
        self._outcomes = outcomes
        self._inputs = inputs
        self._over = over
        self._killed = [Killed.NONE, Killed.NONE]
        self._poll = select.poll()
        for run in runs:
            for fd in (run.channel, run.event_fd):
                if fd is not None:
                    self._poll.register(fd, select.POLLIN)

    def attend(self, cancel_fd: int | None) -> tuple[Outcome, Outcome]:
        """Enforce limits, note ends, and kill the submission when the validator's end settles the matter."""
        if cancel_fd is not None:
            self._poll.register(cancel_fd, select.POLLIN)
        while True:
            ready = {fd for fd, _ in self._poll.poll(self._look() * 1000)}
            for index in (0, 1):
                self._throw_away(index, ready)
                self._note_end(index, ready)
            first, second = self._outcomes
            if first is not None and second is not None:
                return first, second
            if second is not None and self._over(second):
                self._kill(0, Killed.CANCELLED)
            if cancel_fd is not None and cancel_fd in ready:
                self._poll.unregister(cancel_fd)
                self._kill(0, Killed.CANCELLED)
                self._kill(1, Killed.CANCELLED)

    def _look(self) -> float:
        """Kill the programs that have passed a limit; returns the seconds for which none can pass one."""
        pause = 1.0
        for index, run in enumerate(self._runs):
            if self._alive(index):
                reason, least = run.look(min(self._extra, self._validator_cpu()) if index == 0 else 0.0)
                pause = min(pause, least)
                self._kill(index, reason)
        return pause

    def _validator_cpu(self) -> float:
        outcome = self._outcomes[1]
        return self._runs[1].cpu() if outcome is None else outcome.cpu

    def _alive(self, index: int) -> bool:
        return self._outcomes[index] is None and self._killed[index] is Killed.NONE

    def _kill(self, index: int, reason: Killed) -> None:
        if reason is Killed.NONE or not self._alive(index):
            return
        self._killed[index] = reason
        self._runs[index].kill()
        self._forget_event(index)

    def _note_end(self, index: int, ready: set[int]) -> None:
        run = self._runs[index]
        if self._outcomes[index] is None and run.channel in ready:
            self._forget_event(index)
            self._poll.unregister(run.channel)
            self._outcomes[index] = run.finish(self._killed[index])
            os.set_blocking(self._inputs[index], False)
            self._poll.register(self._inputs[index], select.POLLIN)

    def _throw_away(self, index: int, ready: set[int]) -> None:
        """Read and drop what the other program wrote to one that has ended."""
        fd = self._inputs[index]
        if fd in ready and self._outcomes[index] is not None:
            with contextlib.suppress(BlockingIOError):
                if not os.read(fd, _PIECE):
                    self._poll.unregister(fd)  # the other one has closed its end

    def _forget_event(self, index: int) -> None:
        """Ignore the event of a memory limit from now on: once the limit is passed, its descriptor stays readable."""
        event = self._runs[index].event_fd
        if event is not None:
            with contextlib.suppress(KeyError):
                self._poll.unregister(event)
