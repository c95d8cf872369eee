"""Several programs in as many sandboxes that talk over named pipes: the processes of an IOI submission and a manager.

Nobody has a pipe but its two ends, so that the processes of a submission can say nothing to each other beside the
manager (docs/decisions/007-interaction.md). A pipe has no name in any file system: a program gets a descriptor
that is good for nothing but to be opened by its name below `/proc/self/fd`, which is as if it opened the pipe itself.
So programs see what they see elsewhere: opening waits for the other side, and the end of all who write is that of file.

Decides which program is ended when. A program that has ended is replaced: what is written to it is thrown away, and
who waits for it to open its side finds the end of file. Nobody is killed by writing to a program that is just ending.
"""

from __future__ import annotations

import contextlib
import os
import select
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from judge.sandbox.box import SHORTEST
from judge.sandbox.together import Starter, Together, judged_by_own_end, side_by_side
from judge.sandbox.types import Command, Killed, RunOutcome

# Seconds after which those who have ended are stood in for again.
_STAND_IN = 0.01
_PIECE = 1 << 16


@dataclass(frozen=True)
class Actor:
    """A program and its sandbox. The CPU time of `counted` ones together is limited as that of each.

    The program that is counted has more wall time by the CPU time that the others use.
    """

    sandbox: Starter
    command: Command
    counted: bool = True


@dataclass(frozen=True)
class Link:
    """A pipe between two actors, by their numbers. `held`: the reader sees its end only when the writer has ended.

    So it is known who ended first: a reader that ends at the end of file ends after its writer was noted to.
    """

    writer: int
    reader: int
    held: bool = False


def path_of(position: int) -> str:
    """The name by which an actor opens its pipe at this position among `links`, counted from 0."""
    return f"/proc/self/fd/{3 + position}"


def run_meeting(
    actors: Sequence[Actor],
    links: Sequence[Link],
    over: Callable[[int, RunOutcome, bool], bool],
    cancel_fd: int | None = None,
    extra: float = 0.0,
) -> list[RunOutcome]:
    """Run all of them to their ends; returns their accounts, in order. SandboxError as `Sandbox.run`.

    Each has the pipes that it takes part in, in the order of `links`. `over` is asked with every end, by the actor's
    number and with whether a program that wrote to it had closed its side before: whether that settles the matter, so
    that all others are killed (Killed.CANCELLED). `extra` is by how many
    seconds at most the wall limits of counted actors grow. They are started in order.
    """
    with contextlib.ExitStack() as pipes_end, side_by_side([actor.sandbox for actor in actors]) as (runs, outcomes):
        pipes: list[_Pipe] = []
        for link in links:
            pipes.append(_Pipe(link))
            pipes_end.callback(pipes[-1].close)
        for number, actor in enumerate(actors):
            own_pipes = [pipe.fd for pipe in pipes if number in {pipe.link.writer, pipe.link.reader}]
            runs.append(actor.sandbox.start(replace(actor.command, pipes=own_pipes)))
        return _Meeting(actors, Together(runs, outcomes), pipes, over, extra).attend(cancel_fd)


class _Pipe:
    """One pipe, and how this process stands in for who has ended."""

    def __init__(self, link: Link) -> None:
        self.link = link
        # A writer has been there, and has gone: who opens the pipe to read then finds what was written, and no end.
        self.left = False
        self._own: list[int] = []
        with tempfile.TemporaryDirectory(prefix="judge-pipe-") as directory:
            path = Path(directory) / "pipe"
            os.mkfifo(path)
            # The sandboxes' users are nobody here. Who has no descriptor finds no way to it.
            path.chmod(0o666)
            self.fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            # Somebody reads, always: writing to who has ended is no reason to be killed.
            self.reading = self._open(os.O_RDONLY)
            self._held = self._open(os.O_WRONLY) if link.held else None
        except BaseException:
            self.close()
            raise

    def _open(self, flags: int) -> int:
        fd = os.open(f"/proc/self/fd/{self.fd}", flags | os.O_NONBLOCK | os.O_CLOEXEC)
        self._own.append(fd)
        return fd

    def _drop(self, fd: int) -> None:
        self._own.remove(fd)
        os.close(fd)

    def stand_in(self, outcomes: Sequence[RunOutcome | None]) -> bool:
        """For the one who has ended, if the other has not; whether that is to be done again, and again."""
        writer, reader = outcomes[self.link.writer] is not None, outcomes[self.link.reader] is not None
        if writer and self._held is not None:
            self._drop(self._held)
            self._held = None
        if (writer or self.left) and not reader:
            # A process that waits for somebody to open the other side is woken.
            self._drop(self._open(os.O_WRONLY))
        elif reader and not writer and self._full():
            with contextlib.suppress(BlockingIOError):
                while os.read(self.reading, _PIECE):
                    pass
        return writer != reader or (self.left and not reader)

    def _full(self) -> bool:
        """Return whether who writes has to wait.

        Until then nothing is thrown away: programs may use a pipe in the other direction than they are meant to, and
        what one wrote before its end is for the other, who may not have read it yet.
        """
        fd = self._open(os.O_WRONLY)
        try:
            look = select.poll()
            look.register(fd, select.POLLOUT)
            return not look.poll(0)
        finally:
            self._drop(fd)

    def close(self) -> None:
        """Let go of it."""
        for fd in (self.fd, *self._own):
            os.close(fd)
        self._own.clear()


class _Meeting:
    """Runs until all have ended."""

    def __init__(
        self,
        actors: Sequence[Actor],
        together: Together,
        pipes: Sequence[_Pipe],
        over: Callable[[int, RunOutcome, bool], bool],
        extra: float,
    ) -> None:
        self._actors = actors
        self._together = together
        self._pipes = pipes
        self._over = over
        self._extra = extra
        self._settled: float | None = None  # when a run has ended that settles the matter
        for pipe in pipes:
            together.poll.register(pipe.reading, 0)  # tells when all who wrote have gone

    def attend(self, cancel_fd: int | None) -> list[RunOutcome]:
        """Enforce limits, note ends, and kill all when one of those settles the matter."""
        together, poll = self._together, self._together.poll
        if cancel_fd is not None:
            poll.register(cancel_fd, select.POLLIN)
        busy = False
        while True:
            pause = self._look()
            ready = {fd for fd, _ in poll.poll((min(pause, _STAND_IN) if busy else pause) * 1000)}
            self._note_gone(ready)
            for number in range(len(together.runs)):
                self._note_end(number, ready)
            outcomes = [outcome for outcome in together.outcomes if outcome is not None]
            if len(outcomes) == len(together.runs):
                settled = self._settled
                return outcomes if settled is None else [judged_by_own_end(outcome, settled) for outcome in outcomes]
            busy = sum(pipe.stand_in(together.outcomes) for pipe in self._pipes) > 0
            if cancel_fd is not None and cancel_fd in ready:
                poll.unregister(cancel_fd)
                self._settled = None
                together.kill_all(Killed.CANCELLED)

    def _note_gone(self, ready: set[int]) -> None:
        for pipe in self._pipes:
            if pipe.reading in ready and not pipe.left:
                self._together.poll.unregister(pipe.reading)
                pipe.left = True

    def _look(self) -> float:
        """Kill the programs that have passed a limit; returns the seconds for which none can pass one."""
        runs = self._together
        cpu_times = [runs.cpu(number) for number in range(len(runs.runs))]
        pause = 1.0
        for number, run in enumerate(runs.runs):
            if runs.alive(number):
                is_counted = self._actors[number].counted
                reason, least = run.look(min(self._extra, sum(cpu_times) - cpu_times[number]) if is_counted else 0.0)
                pause = min(pause, least)
                runs.kill(number, reason)
        counted_ones = [number for number, actor in enumerate(self._actors) if actor.counted]
        alive = [number for number in counted_ones if runs.alive(number)]
        if alive:
            remaining = self._actors[alive[0]].command.enforced.cpu - sum(cpu_times[number] for number in counted_ones)
            if remaining < 0:
                for number in alive:
                    runs.kill(number, Killed.CPU)
            pause = min(pause, max(SHORTEST, remaining / len(alive)))
        return pause

    def _note_end(self, number: int, ready: set[int]) -> None:
        outcome = self._together.ended(number, ready)
        if outcome is not None:
            forsaken = any(pipe.left for pipe in self._pipes if pipe.link.reader == number)
            if self._over(number, outcome, forsaken):
                if self._settled is None:
                    self._settled = outcome.ended
                self._together.kill_all(Killed.CANCELLED)
