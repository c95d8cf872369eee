"""Runs in sandboxes, as one slot does them: each takes its turn, and ends when the task is not wanted any more."""

from __future__ import annotations

import contextlib
import select
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from judge.common import clock
from judge.executor.slot.run_lock import RunLock
from judge.executor.verdict import ACCEPTED
from judge.sandbox.box import Sandbox
from judge.sandbox.meeting import Actor, Link, run_meeting, run_pair
from judge.sandbox.types import Command, Killed, RunOutcome


class Cancelled(Exception):  # noqa: N818 - not an error: somebody asked for it
    """The task is not wanted any more; its processes are dead."""


class SupersededError(Exception):
    """A helper ended this run: what it found out may make the run useless. Raised to the coordinator only."""


class Runner:
    """Runs the commands of one task. `runs` and `overhead` as in Finished; `waited` are seconds until its turns came.

    `bell` is a descriptor that becomes readable when a helper rings, or main wants an end; it interrupts a run.
    """

    def __init__(self, run_lock: RunLock, cancel_fd: int | None, alive: Callable[[], None]) -> None:
        """`cancel_fd` becomes readable when main wants an end; `alive` is called while this slot waits."""
        self.run_lock = run_lock
        self._cancel_fd = cancel_fd
        self._alive = alive
        self._deaf = False
        self.bell: int | None = None
        self.runs = 0
        self.overhead = 0.0
        self.waited = 0.0

    @property
    def _interrupt_fd(self) -> int | None:
        """The descriptor that ends a run when it becomes readable."""
        return self._cancel_fd if self.bell is None or self._deaf else self.bell

    def _interrupted(self) -> NoReturn:
        """A run was ended: Cancelled when main asks for that, else SupersededError."""
        if self.bell is None or _readable(self._cancel_fd):
            raise Cancelled
        raise SupersededError

    def busy(self) -> float:
        """A clock that stands still while this slot waits for its turn, in seconds."""
        return clock.monotonic() - self.waited

    def wait(self, seconds: float) -> None:
        """Let time pass until it is this slot's turn; Cancelled or SupersededError when nobody wants that any more."""
        if _readable(self._interrupt_fd, seconds):
            self._interrupted()
        self._alive()

    def look(self, seconds: float) -> None:
        """Let time pass until a helper rings; Cancelled when main asks for an end."""
        _readable(self._interrupt_fd, seconds)
        if _readable(self._cancel_fd):
            raise Cancelled
        self._alive()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        begin = clock.monotonic()
        with self.run_lock.shared(self.wait):
            self.waited += clock.monotonic() - begin
            yield

    @contextlib.contextmanager
    def alone(self, needs: float, most: float) -> Iterator[bool]:
        """While a test is repeated, which no helper interrupts; see RunLock.exclusive."""
        self._deaf = True
        begin = clock.monotonic()
        try:
            with self.run_lock.exclusive(self.wait, needs, most) as alone:
                self.waited += clock.monotonic() - begin
                yield alone
        finally:
            self._deaf = False

    def _account(self, run: Callable[[int | None], Sequence[RunOutcome]]) -> Sequence[RunOutcome]:
        """One or more programs at once, by a function of the descriptor that ends them.

        Cancelled when main asked for an end (seed: t.proc.kill), or SupersededError.
        """
        with self._turn():
            begin = clock.monotonic()
            outcomes = run(self._interrupt_fd)
        self.overhead += max(0.0, clock.monotonic() - begin - max(outcome.wall for outcome in outcomes))
        self.runs += 1
        if _readable(self._interrupt_fd) and any(Killed.CANCELLED in outcome.killed for outcome in outcomes):
            for outcome in outcomes:
                outcome.close()
            self._interrupted()
        return outcomes

    def run(self, box: Sandbox, command: Command, meanwhile: Callable[[], None] | None = None) -> RunOutcome:
        """One run in the sandbox; errors as `_account`."""
        return self._account(lambda end: [box.run(command, end, meanwhile)])[0]

    def pair(
        self, boxes: tuple[Sandbox, Sandbox], commands: tuple[Command, Command], most: float
    ) -> tuple[RunOutcome, RunOutcome]:
        """One interaction; a validator that ended with anything but 42 settles it. `most` as of `run_pair`."""
        first, second = self._account(
            lambda end: run_pair(boxes, commands, lambda validator: validator.exit_code != ACCEPTED, end, most)
        )
        return first, second

    def meet(
        self,
        actors: Sequence[Actor],
        links: Sequence[Link],
        over: Callable[[int, RunOutcome, bool], bool],
        extra: float,
    ) -> Sequence[RunOutcome]:
        """Several programs that talk to each other; the arguments are those of `run_meeting`."""
        return self._account(lambda end: run_meeting(actors, links, over, end, extra))


def _readable(fd: int | None, seconds: float = 0.0) -> bool:
    """Return whether a descriptor is readable, or will be within so many seconds; None never is."""
    poll = select.poll()
    if fd is not None:
        poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
