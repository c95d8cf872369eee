"""Two programs in two sandboxes that talk to each other over pipes: a submission and an interactive validator.

Each program writes straight into the other's input, and the kernel carries the bytes. This module decides who is
ended when.

- An agent keeps its ends of the pipes until it has noted that its program ended. So a program can notice the other's
  end only after that end was noted, and `RunOutcome.ended` says truly who ended first.
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

from judge.sandbox.box import Run
from judge.sandbox.together import Starter, Together, judged_by_own_end, side_by_side
from judge.sandbox.types import Command, Killed, RunOutcome

# Seconds that the validator may live on after the submission, beside its own limits.
_LATER = 1.0
_SHORTEST = 0.01
_PIECE = 1 << 20


def run_pair(
    sandboxes: tuple[Starter, Starter],
    commands: tuple[Command, Command],
    over: Callable[[RunOutcome], bool],
    cancel_fd: int | None = None,
    most: float = math.inf,
) -> tuple[RunOutcome, RunOutcome]:
    """Run a submission and its validator against each other; returns both accounts, the submission's first.

    When the validator ends first, `over` says whether that settles the matter; if so, the submission is killed. The
    CPU time that the validator uses is added to the submission's wall limit. Both are ended after `most` seconds,
    whatever their limits. SandboxError as `Sandbox.run`.
    """
    inputs: list[int] = []
    try:
        with side_by_side(sandboxes) as (runs, outcomes):
            _start(sandboxes, commands, most, runs, inputs)
            extra = max(0.0, most - commands[0].enforced.wall_seconds)
            return _Interaction(Together(runs, outcomes), inputs, over, extra).attend(cancel_fd)
    finally:
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
        self, together: Together, inputs: Sequence[int], over: Callable[[RunOutcome], bool], extra: float
    ) -> None:
        """`extra`: the most seconds of the validator's CPU time that are added to the submission's wall limit."""
        self._together = together
        self._extra = extra
        self._inputs = inputs
        self._over = over

    def attend(self, cancel_fd: int | None) -> tuple[RunOutcome, RunOutcome]:
        """Enforce limits, note ends, and kill the submission when the validator's end settles the matter."""
        together, poll = self._together, self._together.poll
        cancelled = False
        if cancel_fd is not None:
            poll.register(cancel_fd, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll(self._look() * 1000)}
            for index in (0, 1):
                self._throw_away(index, ready)
                self._note_end(index, ready)
            first, second = together.outcomes
            if first is not None and second is not None:
                return first if cancelled else judged_by_own_end(first, second.ended), second
            if second is not None and self._over(second):
                together.kill(0, Killed.CANCELLED)
            if cancel_fd is not None and cancel_fd in ready:
                poll.unregister(cancel_fd)
                cancelled = True
                together.kill_all(Killed.CANCELLED)

    def _look(self) -> float:
        """Kill the programs that have passed a limit; returns the seconds for which none can pass one."""
        pause = 1.0
        for index, run in enumerate(self._together.runs):
            if self._together.alive(index):
                reason, least = run.look(min(self._extra, self._together.cpu(1)) if index == 0 else 0.0)
                pause = min(pause, least)
                self._together.kill(index, reason)
        return pause

    def _note_end(self, index: int, ready: set[int]) -> None:
        if self._together.ended(index, ready) is not None:
            os.set_blocking(self._inputs[index], False)
            self._together.poll.register(self._inputs[index], select.POLLIN)

    def _throw_away(self, index: int, ready: set[int]) -> None:
        """Read and drop what the other program wrote to one that has ended."""
        fd = self._inputs[index]
        if fd in ready and self._together.outcomes[index] is not None:
            with contextlib.suppress(BlockingIOError):
                if not os.read(fd, _PIECE):
                    self._together.poll.unregister(fd)  # the other one has closed its end
