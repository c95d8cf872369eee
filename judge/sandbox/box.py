"""One submission's sandbox: put files in, run commands under limits, get a true account of each (docs/sandbox.md)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import select
import signal
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from judge.common import clock
from judge.common.errors import SandboxError, UnfitError, UsageError
from judge.common.files import ALL_SEALS, copy, in_memory
from judge.model.messages import Limits
from judge.sandbox.agent import (
    EXITED,
    FETCHED,
    IN_SCRATCH,
    MAX_FDS,
    SAW_SIGSYS,
    STORED,
    Answer,
    Rlimits,
    encoded_command,
)
from judge.sandbox.cgroup import ControlGroup, MeasuredUsage
from judge.sandbox.container import KILL_SECONDS, START_SECONDS, Container
from judge.sandbox.types import Command, Killed, RunOutcome

PUT_SECONDS = 30.0
# The shortest time between two looks at the CPU counter, in seconds; bounds both the overshoot and our own cost.
SHORTEST = 0.001
# The longest time between two looks at a run in a weak sandbox, in seconds: there the kernel does not report that the
# run has passed its memory limit.
WEAK_LOOK = 0.005
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
# Errors of writing a file that come from the host. All others come from the file: its name, its size, what is there.
_HOST_ERRORS = frozenset({errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EINTR})


class Sandbox:
    """From SandboxPool.take(); not thread-safe. After a SandboxError it is broken: close it and take another."""

    def __init__(self, container: Container, cores: int) -> None:
        """`cores`: on how many processors a run can burn CPU time at once."""
        self._container = container
        self._cores = cores

    def put(self, name: str, data: bytes | Path, mode: int = 0o644) -> None:
        """Write `/box/<name>` (a relative path; directories are made). What is there is replaced, links not followed.

        `data` may be a file of the host, which is copied; with IN_SCRATCH in the mode it goes to `/scratch`.
        UnfitError when the file cannot be there: a folder has its name, a file has the name of its folder, there is no
        room. The sandbox works then. Called between runs, usually before the first.
        """
        _check_name(name)
        self._container.ready()
        with _source(data) as fd, self._broken_on_error():
            self._container.agent.put(name, fd, mode)
            answer = self._container.expect(STORED, PUT_SECONDS)
        if answer.error:
            place = "/scratch" if mode & IN_SCRATCH else "/box"
            kind = SandboxError if answer.error in _HOST_ERRORS else UnfitError
            raise kind(f"{place}/{name} could not be written in the sandbox: {os.strerror(answer.error)}")

    def get(self, name: str) -> int | None:
        """A descriptor of the regular file `/box/<name>`, or None when there is none; the caller closes it.

        Links are never followed, and nothing is alive that could change the file. For what validators leave behind.
        """
        _check_name(name)
        self._container.ready()
        with self._broken_on_error():
            self._container.agent.get(name)
            answer = self._container.expect(FETCHED, PUT_SECONDS)
        return answer.fd

    def run(
        self, command: Command, cancel_fd: int | None = None, meanwhile: Callable[[], None] | None = None
    ) -> RunOutcome:
        """Run one command to its end and account for it; when this returns no process of it is alive.

        A `cancel_fd` that becomes readable ends the run (Killed.CANCELLED); it is not read. `meanwhile` is called once
        the command runs, and kept short: no limit strikes during it. A program that cannot be executed ends with 127
        or 126 and a sentence on stderr, as in a shell. UnfitError: the command is too long, or its files do not fit.
        SandboxError: the sandbox failed, which says nothing about the command.
        """
        if not command.argv or any("\0" in text for text in (*command.argv, *command.env, *command.env.values())):
            raise UsageError("argv: a command needs a program, and no NUL characters; give it as a list of words")
        with self._broken_on_error():
            return self._run(command, cancel_fd, meanwhile)

    def _run(self, command: Command, cancel_fd: int | None, meanwhile: Callable[[], None] | None) -> RunOutcome:
        run = self.start(command)
        try:
            if meanwhile is not None:
                meanwhile()
            return run.finish(run.wait(cancel_fd))
        finally:
            run.close()

    def start(self, command: Command) -> Run:
        """Start one command without waiting for it; `judge.sandbox.meeting` runs some that talk to each other.

        The caller finishes and closes the run, and closes this sandbox after any error (`run` does all that).
        """
        if command.output is not None:
            _check_name(command.output)
            if command.keep_scratch:
                raise UsageError("keep_scratch: a run has one file of its directory or all of it; ask for one of them")
        if len(command.pipes) > MAX_FDS - 4:
            raise UsageError(f"pipes: a run can have {MAX_FDS - 4} of them, not {len(command.pipes)}")
        for name, data in command.files.items():
            self.put(name, data, 0o644 | IN_SCRATCH)
        self._container.ready()
        return Run(command, self._container, self._cores)

    def built(self) -> int:
        """Bytes in /box after the last writable run. They are no run's: limits do not count them."""
        return self._container.built

    def broken(self) -> None:
        """A run that was started here failed or was given up: end everything at once."""
        self._container.kill()

    def close(self) -> None:
        """End the sandbox and everything in it: processes, mounts, files, cgroups."""
        self._container.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _broken_on_error(self) -> Iterator[None]:
        try:
            yield
        except SandboxError:
            self._container.kill()
            raise
        except OSError as exc:
            self._container.kill()
            file = f" {exc.filename}" if exc.filename else ""
            raise SandboxError(f"the sandbox failed:{file} {exc.strerror}") from exc


class Run:
    """One command on its way: enforces what the kernel does not (CPU and wall time, output, cancelling)."""

    def __init__(self, command: Command, container: Container, cores: int) -> None:
        self._command = command
        self._limits = command.enforced
        self._container = container
        self._cores = cores
        self._group: ControlGroup = container.build if command.writable else container.runs
        self._kept: list[int] = []
        self._outcome_fds: tuple[int, ...] = ()
        self._extra_wall = 0.0
        self._words = encoded_command(command)
        try:
            stdin = None if command.stdin is None else _protected(command.stdin)
            if stdin is not None and stdin != command.stdin:
                self._kept.append(stdin)
            self._outputs = (self._memory("stdout"), self._memory("stderr"))
            self._start(stdin)
        except BaseException:
            self.close()
            raise
        self._asked = clock.monotonic()

    def _memory(self, name: str) -> int:
        fd = in_memory(name)
        self._kept.append(fd)
        return fd

    def _start(self, stdin: int | None) -> None:
        command, limits, group = self._command, self._limits, self._group
        group.begin(limits.memory, limits.processes)
        rlimits = Rlimits(
            # Behind the group's counter, which is exact: the kernel samples this one at its ticks, some 5 % off.
            cpu=math.ceil(1.5 * limits.cpu) + 1,
            fsize=limits.output + 1,  # one more than allowed: who writes it has passed the limit
            stack=limits.stack if limits.stack is not None else limits.memory,
            nofile=limits.files,
        )
        stdout, stderr = self._outputs
        outputs = [stdout if command.stdout is None else command.stdout, stderr]
        self._container.busy()
        self._container.agent.run(
            command, self._words, rlimits, outputs if stdin is None else [stdin, *outputs], group.run_fd
        )

    def finish(self, reason: Killed) -> RunOutcome:
        """The account of a run whose EXITED is there or due; `reason` is why it was killed, if it was."""
        answer = self._container.expect(EXITED, KILL_SECONDS)
        if self._command.writable:
            self._container.built = answer.box
        start = self._container.began() or 0.0
        limits = self._limits
        if self._extra_wall:
            limits = limits.model_copy(update={"wall": limits.wall_seconds + self._extra_wall})
        outputs: tuple[int, ...] = self._outputs
        scratch: int | None = None
        if answer.fd is not None and self._command.keep_scratch:
            scratch = answer.fd
            self._kept.append(scratch)
        elif answer.fd is not None:
            outputs = (*outputs, self._copied(answer.fd))
        usage = _used(self._group, answer)
        try:
            outcome = _outcome(self._command.argv[0], limits, reason, answer, usage, outputs)
        except SandboxError as exc:
            raise self._container.explained(str(exc)) from exc
        self._outcome_fds = outputs if scratch is None else (*outputs, scratch)
        return replace(outcome, ended=start + answer.wall, scratch=scratch)

    def _copied(self, fd: int) -> int:
        """A copy of the file that a run left, which lives in the sandbox's own file system; as much as may be."""
        try:
            target = self._memory("output")
            copy(fd, target, self._limits.output + 1)
        finally:
            os.close(fd)
        return target

    def close(self) -> None:
        """Close what the outcome, if there was one, does not own."""
        for fd in self._kept:
            if fd not in self._outcome_fds:
                os.close(fd)
        self._kept.clear()

    @property
    def channel(self) -> int:
        """The descriptor that is readable when the run has ended."""
        return self._container.agent.channel.fileno()

    @property
    def event_fd(self) -> int | None:
        """The descriptor that is readable when the memory limit was passed, where the kernel tells."""
        return self._group.event_fd

    def kill(self) -> None:
        """End it; `finish` follows.

        A run can keep the agent waiting for a lock, of its output's pipe or of its memory. So the slot kills the
        processes as well. Not before the exec: the agent does not hear of the end of such a process.
        """
        self._container.agent.kill()
        if self._container.began() is not None:
            self._group.kill()

    def cpu(self) -> float:
        return self._group.cpu()

    def wait(self, cancel_fd: int | None) -> Killed:
        """Until the agent has its EXITED to say; kills when a limit is passed and says which."""
        poll = select.poll()
        channel = self.channel
        poll.register(channel, select.POLLIN)
        if cancel_fd is not None:
            poll.register(cancel_fd, select.POLLIN)
        if self._group.event_fd is not None:
            poll.register(self._group.event_fd, select.POLLIN)
        while True:
            reason, pause = self.look()
            if reason is Killed.NONE:
                ready = {fd for fd, _ in poll.poll(pause * 1000)}
                if channel in ready:
                    return Killed.NONE
                if cancel_fd in ready:
                    reason = Killed.CANCELLED
            if reason is not Killed.NONE:
                self.kill()
                return reason

    def look(self, extra_wall: float = 0.0) -> tuple[Killed, float]:
        """The limit that is passed now, and how long nothing can pass one: all cores burn, at worst.

        `extra_wall` seconds are allowed beyond the wall limit: those in which somebody else had the core.
        """
        limits = self._limits
        self._extra_wall = extra_wall
        cpu = self._group.cpu()
        if self._group.over_memory():
            return Killed.MEMORY, 0
        if cpu > limits.cpu:
            return Killed.CPU, 0
        start = self._container.began()
        now = clock.monotonic()
        wall = limits.wall_seconds + extra_wall - (now - start if start is not None else 0)
        if start is None and now > self._asked + START_SECONDS:
            raise SandboxError(f"the sandbox did not start the program within {START_SECONDS:g} s")
        if wall <= 0:
            return Killed.WALL, 0
        if any(os.fstat(fd).st_size > limits.output for fd in self._outputs):
            return Killed.OUTPUT, 0
        pause = min(wall, max(SHORTEST, (limits.cpu - cpu) / self._cores))
        return Killed.NONE, pause if self._group.exact else min(pause, WEAK_LOOK)


def _used(group: ControlGroup, answer: Answer) -> MeasuredUsage:
    usage = group.finish()
    if group.exact:
        return usage
    return MeasuredUsage(max(usage.cpu, answer.cpu), max(usage.memory, answer.maxrss), usage.processes, usage.oom)


def _outcome(
    name: str, limits: Limits, reason: Killed, answer: Answer, usage: MeasuredUsage, outputs: tuple[int, ...]
) -> RunOutcome:
    """Put the account together; the outputs are cut to their limit. `limits` are those that were enforced.

    `outputs` are stdout and stderr, and the file that was asked for, if it is there.
    """
    signaled = os.WIFSIGNALED(answer.status)
    number = os.WTERMSIG(answer.status) if signaled else None
    code = None if signaled else os.WEXITSTATUS(answer.status)
    if answer.error and not usage.oom and reason is not Killed.CANCELLED:
        code, number = _not_started(name, answer, outputs[1]), None
    exceeding = [fd for fd in outputs if os.fstat(fd).st_size > limits.output]
    for fd in exceeding:
        os.ftruncate(fd, limits.output)
    reasons = (
        (reason, reason is not Killed.NONE and number == signal.SIGKILL),
        (Killed.FORBIDDEN, answer.flags & SAW_SIGSYS),
        (Killed.MEMORY, usage.oom),
        (Killed.CPU, usage.cpu > limits.cpu),
        (Killed.WALL, answer.wall > limits.wall_seconds),
        (Killed.OUTPUT, exceeding),
    )
    return RunOutcome(
        exit_code=code,
        signal=number,
        killed=frozenset(reason for reason, holds in reasons if holds),
        cpu=usage.cpu,
        wall=answer.wall,
        memory=usage.memory,
        processes=usage.processes,
        stdout=outputs[0],
        stderr=outputs[1],
        file=outputs[2] if len(outputs) > 2 else None,
    )


def _not_started(name: str, answer: Answer, stderr: int) -> int:
    """The exit code of a program that could not be executed, as a shell has it; SandboxError when that is our fault."""
    # Only what the submission's own programs did to /box can keep it out of there.
    if answer.stage != "exec" and (answer.stage, answer.error) != ("chdir", errno.EACCES):
        raise SandboxError(f"the sandbox could not start '{name}': {answer.stage}: {os.strerror(answer.error)}")
    os.write(stderr, f"{name}: {os.strerror(answer.error)}\n".encode())
    return _NOT_FOUND if answer.error == errno.ENOENT else _NOT_EXECUTABLE


@contextlib.contextmanager
def _source(data: bytes | Path) -> Iterator[int]:
    """A descriptor of this content, to be copied."""
    if isinstance(data, bytes):
        fd = in_memory("judge-put")
        with open(fd, "wb", closefd=False) as file:
            file.write(data)
    else:
        fd = os.open(data, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _protected(fd: int) -> int:
    """The input as a program may have it: nobody in a sandbox can write to it.

    A regular file is opened again for reading only. Linux before 6.7 refuses `mmap(PROT_READ, MAP_SHARED)` of a sealed
    file that is open for writing, and fast readers do that. A file that everybody may write is closed to others if it
    is a memory file, else it is copied: /proc/self/fd/0 opens it again.
    """
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        return fd
    if not status.st_mode & 0o022:
        return _read_only(fd)
    with contextlib.suppress(OSError):  # only memory files know seals
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
        if not seals & fcntl.F_SEAL_WRITE and os.geteuid() == 0:  # else the program is its owner
            os.fchmod(fd, 0o444)
            return _read_only(fd)
        if seals & fcntl.F_SEAL_WRITE:
            return _read_only(fd)
    stdin = in_memory("stdin", seals=True)
    try:
        copy(fd, stdin)
        fcntl.fcntl(stdin, fcntl.F_ADD_SEALS, ALL_SEALS)
        os.lseek(stdin, os.lseek(fd, 0, os.SEEK_CUR), os.SEEK_SET)
        return _read_only(stdin)
    finally:
        os.close(stdin)


def _read_only(fd: int) -> int:
    """The same file, open for reading only, at the same place."""
    reopened = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    os.lseek(reopened, os.lseek(fd, 0, os.SEEK_CUR), os.SEEK_SET)
    return reopened


def _check_name(name: str) -> None:
    parts = name.split("/")
    if not name or "\0" in name or any(part in {"", ".", ".."} for part in parts):
        msg = f"name: '{name}' is not a path below the submission's directory; use a relative path without '..'"
        raise UsageError(msg)
