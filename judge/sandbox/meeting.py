"""Several programs in as many sandboxes that talk over pipes, and which of them is ended when.

- `run_pair`: a submission and an interactive validator. Each writes straight into the other's standard input, and the
  kernel carries the bytes.
- `run_meeting`: the processes of an IOI submission and a manager, over named pipes. Nobody has a pipe but its two ends,
  so that the processes can say nothing to each other beside the manager (docs/decisions/007-interaction.md). A pipe has
  no name in any file system: a program gets a descriptor that is good for nothing but to be opened by its name below
  `/proc/self/fd`, which is as if it opened the pipe itself. So programs see what they see elsewhere: opening waits for
  the other side, and the end of all who write is that of file.

An agent keeps its ends of the pipes until it has noted that its program ended. So a program can notice another's end
only after that end was noted, and `RunOutcome.ended` says truly who ended first. What is written to a program that has
ended is thrown away: nobody is killed by writing to one that is just ending.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from judge.common.errors import SandboxError
from judge.sandbox.box import SHORTEST, Run, Sandbox
from judge.sandbox.types import Command, Killed, RunOutcome

# Seconds after which those who have ended are stood in for again.
_STAND_IN = 0.01
# No pipe of a program without privileges has more bytes.
_PIPE_BYTES = 1 << 20
# Seconds that an interactive validator may live on after the submission, beside its own limits.
_LATER = 1.0
_SHORTEST_WALL = 0.01


@dataclass(frozen=True)
class Actor:
    """A program and its sandbox. The CPU time of `counted` ones together is limited as that of each.

    The program that is counted has more wall time by the CPU time that the others use.
    """

    sandbox: Sandbox
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


def run_pair(
    sandboxes: tuple[Sandbox, Sandbox],
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
    to_validator, to_submission = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
    submission = replace(commands[0], stdin=to_submission[0], stdout=to_validator[1])
    # The validator must be able to see the submission's end, whenever that is.
    limits = commands[1].limits
    wall = min(3600.0, limits.wall_seconds + submission.enforced.wall_seconds + _LATER, max(most, _SHORTEST_WALL))
    limits = limits.model_copy(update={"wall": wall})
    validator = replace(commands[1], stdin=to_validator[0], stdout=to_submission[1], limits=limits)
    actors = [Actor(sandboxes[0], submission), Actor(sandboxes[1], validator, counted=False)]
    pipes = [_Stream(Link(1, 0), to_submission[0]), _Stream(Link(0, 1), to_validator[0])]
    with contextlib.ExitStack() as pipes_end, _side_by_side(sandboxes) as (runs, outcomes):
        for pipe in pipes:
            pipes_end.callback(os.close, pipe.reading)
        try:
            for actor in actors:
                runs.append(actor.sandbox.start(actor.command))
        finally:
            for fd in (to_validator[1], to_submission[1]):
                os.close(fd)
        extra = max(0.0, most - submission.enforced.wall_seconds)
        meeting = _Meeting(
            actors, runs, outcomes, pipes, lambda number, outcome, _: number == 1 and over(outcome), extra
        )
        first, second = meeting.attend(cancel_fd)
        return first, second


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
    with contextlib.ExitStack() as pipes_end, _side_by_side([actor.sandbox for actor in actors]) as (runs, outcomes):
        pipes: list[_Pipe] = []
        for link in links:
            pipes.append(_Pipe(link))
            pipes_end.callback(pipes[-1].close)
        for number, actor in enumerate(actors):
            own_pipes = [pipe.fd for pipe in pipes if number in {pipe.link.writer, pipe.link.reader}]
            runs.append(actor.sandbox.start(replace(actor.command, pipes=own_pipes)))
        return _Meeting(actors, runs, outcomes, pipes, over, extra).attend(cancel_fd)


@contextlib.contextmanager
def _side_by_side(sandboxes: Sequence[Sandbox]) -> Iterator[tuple[list[Run], list[RunOutcome | None]]]:
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


class _Stream:
    """A pipe from one program's standard output to another's standard input. This process has a reading end."""

    def __init__(self, link: Link, reading: int) -> None:
        self.link = link
        self.reading = reading
        self.writer_gone = False

    def stand_in(self, outcomes: Sequence[RunOutcome | None], poll: select.poll) -> bool:
        """Throw away what is written to a program that has ended, as it comes; False: that needs no look again."""
        if outcomes[self.link.reader] is not None and not self.writer_gone:
            os.set_blocking(self.reading, False)
            poll.modify(self.reading, select.POLLIN)
            with contextlib.suppress(BlockingIOError):
                os.read(self.reading, _PIPE_BYTES)
        return False


class _Pipe:
    """A named pipe, and how this process stands in for who has ended."""

    def __init__(self, link: Link) -> None:
        self.link = link
        # A writer has been there, and has gone: who opens the pipe to read then finds what was written, and no end.
        self.writer_gone = False
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

    def stand_in(self, outcomes: Sequence[RunOutcome | None], _: select.poll) -> bool:
        """For the one who has ended, if the other has not; whether that is to be done again, and again."""
        writer, reader = outcomes[self.link.writer] is not None, outcomes[self.link.reader] is not None
        if writer and self._held is not None:
            self._drop(self._held)
            self._held = None
        if (writer or self.writer_gone) and not reader:
            # A process that waits for somebody to open the other side is woken.
            self._drop(self._open(os.O_WRONLY))
        elif reader and not writer and self._full():
            with contextlib.suppress(BlockingIOError):
                os.read(self.reading, _PIPE_BYTES)  # once: it may be filled again as fast
        return writer != reader or (self.writer_gone and not reader)

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
        for fd in (self.fd, *self._own):
            os.close(fd)
        self._own.clear()


class _Meeting:
    """Runs until all have ended, by their numbers."""

    def __init__(
        self,
        actors: Sequence[Actor],
        runs: Sequence[Run],
        outcomes: list[RunOutcome | None],
        pipes: Sequence[_Pipe | _Stream],
        over: Callable[[int, RunOutcome, bool], bool],
        extra: float,
    ) -> None:
        """`outcomes` is filled as runs end, so that the caller has them after an error, too."""
        self._actors = actors
        self._runs = runs
        self._outcomes = outcomes
        self._pipes = pipes
        self._over = over
        self._extra = extra
        self._killed = [Killed.NONE] * len(runs)
        self._settled: float | None = None  # when a run has ended that settles the matter
        self._poll = select.poll()
        for run in runs:
            for fd in (run.channel, run.event_fd):
                if fd is not None:
                    self._poll.register(fd, select.POLLIN)
        for pipe in pipes:
            self._poll.register(pipe.reading, 0)  # tells when all who wrote have gone

    def attend(self, cancel_fd: int | None) -> list[RunOutcome]:
        """Enforce limits, note ends, and kill all when one of those settles the matter."""
        if cancel_fd is not None:
            self._poll.register(cancel_fd, select.POLLIN)
        busy = False
        while True:
            pause = self._look()
            ready = dict(self._poll.poll((min(pause, _STAND_IN) if busy else pause) * 1000))
            for pipe in self._pipes:
                if ready.get(pipe.reading, 0) & ~select.POLLIN and not pipe.writer_gone:
                    self._poll.unregister(pipe.reading)
                    pipe.writer_gone = True
            for number, run in enumerate(self._runs):
                if self._outcomes[number] is None and run.channel in ready:
                    self._note_end(number)
            outcomes = [outcome for outcome in self._outcomes if outcome is not None]
            if len(outcomes) == len(self._runs):
                settled = self._settled
                return outcomes if settled is None else [judged_by_own_end(outcome, settled) for outcome in outcomes]
            busy = sum(pipe.stand_in(self._outcomes, self._poll) for pipe in self._pipes) > 0
            if cancel_fd is not None and cancel_fd in ready:
                self._poll.unregister(cancel_fd)
                self._settled = None
                self._kill_all(Killed.CANCELLED)

    def _look(self) -> float:
        """Kill the programs that have passed a limit; returns the seconds for which none can pass one."""
        cpu_times = [
            run.cpu() if outcome is None else outcome.cpu
            for run, outcome in zip(self._runs, self._outcomes, strict=True)
        ]
        pause = 1.0
        for number, run in enumerate(self._runs):
            if self._alive(number):
                is_counted = self._actors[number].counted
                reason, least = run.look(min(self._extra, sum(cpu_times) - cpu_times[number]) if is_counted else 0.0)
                pause = min(pause, least)
                self._kill(number, reason)
        counted_ones = [number for number, actor in enumerate(self._actors) if actor.counted]
        alive = [number for number in counted_ones if self._alive(number)]
        if alive:
            remaining = self._actors[alive[0]].command.enforced.cpu - sum(cpu_times[number] for number in counted_ones)
            if remaining < 0:
                for number in alive:
                    self._kill(number, Killed.CPU)
            pause = min(pause, max(SHORTEST, remaining / len(alive)))
        return pause

    def _note_end(self, number: int) -> None:
        self._forget_event(number)
        self._poll.unregister(self._runs[number].channel)
        outcome = self._outcomes[number] = self._runs[number].finish(self._killed[number])
        forsaken = any(pipe.writer_gone for pipe in self._pipes if pipe.link.reader == number)
        if self._over(number, outcome, forsaken):
            if self._settled is None:
                self._settled = outcome.ended
            self._kill_all(Killed.CANCELLED)

    def _alive(self, number: int) -> bool:
        """Return whether a run goes on, and was not killed."""
        return self._outcomes[number] is None and self._killed[number] is Killed.NONE

    def _kill(self, number: int, reason: Killed) -> None:
        """Kill a run that is alive, if there is a reason."""
        if reason is not Killed.NONE and self._alive(number):
            self._killed[number] = reason
            self._runs[number].kill()
            self._forget_event(number)

    def _kill_all(self, reason: Killed) -> None:
        for number in range(len(self._runs)):
            self._kill(number, reason)

    def _forget_event(self, number: int) -> None:
        """Ignore the event of a memory limit from now on: once the limit is passed, its descriptor stays readable."""
        event = self._runs[number].event_fd
        if event is not None:
            with contextlib.suppress(KeyError):
                self._poll.unregister(event)
