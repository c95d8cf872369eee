"""Commands and outcomes of a sandbox. No behaviour here; shared with the pure verdict function."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from judge.common.files import read
from judge.model.messages import Limits


class Killed(enum.StrEnum):
    """The reason why the sandbox ends a run; NONE while it has none."""

    NONE = ""
    CPU = "cpu"
    WALL = "wall"
    MEMORY = "memory"
    OUTPUT = "output"
    FORBIDDEN = "forbidden"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Command:
    """One command to run inside a sandbox.

    Paths are the sandbox's: `/box` is the submission's directory (writable only when `writable`), `/scratch` the
    current directory, a fresh tmpfs, like `/tmp` and `/dev/shm`. `stdin` is a descriptor of the caller, open for
    reading from its start; None is an empty input. `stdout` is a descriptor to write to instead of a memory file (a
    pipe to another sandbox); what goes there is not kept. `grace` is the part of its time limits by which a run may
    pass them before it is ended: the account then says by how much it did.

    `files` lie in `/scratch` when the run starts, by name; it may change its copies. `output` is a file there whose
    content the account has as `RunOutcome.file`; with `keep_scratch` it has the whole directory as `RunOutcome.scratch`
    instead. `pipes` are descriptors that the program has as 3, 4 and so on: of named pipes, which it opens by
    `/proc/self/fd/3` (judge.sandbox.meeting).
    """

    argv: Sequence[str]
    limits: Limits
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: int | None = None
    writable: bool = False
    cwd: str = "/scratch"
    stdout: int | None = None
    grace: float = 0.0
    files: Mapping[str, bytes | Path] = field(default_factory=dict)
    output: str | None = None
    keep_scratch: bool = False
    pipes: Sequence[int] = ()

    @property
    def enforced(self) -> Limits:
        """The limits at which the run is ended."""
        if not self.grace:
            return self.limits
        more = 1 + self.grace
        return self.limits.model_copy(update={"cpu": self.limits.cpu * more, "wall": self.limits.wall_seconds * more})


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of one run. Times in seconds, memory in bytes (peak of all processes, tmpfs included).

    `stdout` and `stderr` are descriptors of memory files that hold at most `limits.output` bytes each; the caller
    closes the outcome (`with outcome:`). They are safe to read: everything that could write to them is dead.
    `killed` is every reason that the sandbox had to end the run, in no order; empty when the program ended by itself
    and within its limits. `ended` is when the program did (clock.monotonic). `file` is a descriptor of a sealed copy of
    the command's `output`, None when there was no regular file of that name at the end. `scratch` is one of `/scratch`
    at the end: what is in it is a stranger's, links and pipes too, and takes memory until closed.
    """

    exit_code: int | None
    signal: int | None
    killed: frozenset[Killed]
    cpu: float
    wall: float
    memory: int
    processes: int
    stdout: int
    stderr: int
    ended: float = 0.0
    file: int | None = None
    scratch: int | None = None

    def close(self) -> None:
        for fd in (self.stdout, self.stderr, self.file, self.scratch):
            if fd is not None:
                os.close(fd)

    def __enter__(self) -> RunOutcome:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read_stdout(self, limit: int | None = None) -> bytes:
        return read(self.stdout, limit)

    def read_stderr(self, limit: int | None = None) -> bytes:
        return read(self.stderr, limit)
