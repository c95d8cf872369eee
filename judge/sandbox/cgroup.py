"""Control groups: what a run may use and what it used. One interface over version 1, version 2, and none at all.

A pool of sandboxes owns one Tree, named after its process: `<root>/<pool>.<pid>.<start time>`. The agents live in the
tree; the programs of each sandbox in two Groups under it, one for writable runs (compilers: their files in /box stay
charged to it) and one for the others, so that a program's memory is counted from nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import logging
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from judge import clock
from judge.errors import SandboxError

log = logging.getLogger(__name__)

_OWNED = re.compile(r"^.+\.(\d+)\.(\d+)$")
_CLEAN_SECONDS = 5.0
# The same for the tree of a dead pool: its processes may take long to end, and nothing waits for that.
_STALE_SECONDS = 0.5
# Seconds to wait for kernel memory that may also be the kernel's cache of names, which stays.
_FREE_SECONDS = 0.25
# Bytes of it that are not waited for: short runs, one right after the other, always have some that is being freed,
# 0.1 MiB each for some 30 ms.
_LAG = 2 * 1024**2
# The kernel's counters lag behind by some pages per processor.
_DUST = 1024**2
# The most that the kernel charges at once, a huge page and some more: it makes room when so much is missing.
_STEP = 2560 * 1024


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a run used: CPU seconds, bytes, the highest number of processes; `oom` when the memory limit killed."""

    cpu: float
    memory: int
    processes: int
    oom: bool


class Group(Protocol):
    """Limits and counters of the runs of one kind in one sandbox.

    `exact`: the counters miss nothing; else the agent's own sums have to be added to them.
    """

    exact: bool

    def watch(self, pid: int) -> None:
        """The container's first process, before any run."""

    @property
    def fds(self) -> Sequence[int]:
        """Descriptors that the agent keeps, to put processes into the group (version 1)."""

    @property
    def run_fd(self) -> int | None:
        """A descriptor that goes with the next run, which is cloned into it (version 2); asked for after `begin`."""

    @property
    def event_fd(self) -> int | None:
        """Becomes readable when the memory limit struck; None when the kernel then ends the run by itself."""

    def spec(self) -> str:
        """How the agent is told about `fds`."""

    def begin(self, memory: int, processes: int) -> None:
        """Set the limits (bytes, processes and threads) and start counting; called before each run."""

    def cpu(self) -> float:
        """CPU seconds of all processes since `begin`."""

    def over_memory(self) -> bool:
        """Whether the memory limit has struck since `begin`."""

    def finish(self) -> Usage:
        """The counters since `begin`; called when every process of the run is dead."""

    def close(self) -> None:
        """Remove the group; its processes are dead."""


class Tree(Protocol):
    """The control groups of one pool."""

    @property
    def joins(self) -> list[Path]:
        """The `cgroup.procs` files that a container's launcher enters."""

    @property
    def namespace(self) -> bool:
        """Whether containers may have a cgroup namespace of their own."""

    def group(self, *, keeps: bool) -> Group:
        """A new group for the runs of one sandbox; `keeps`: files that they make in /box stay, and stay charged."""

    def close(self) -> None:
        """Kill what is left in the tree and remove it."""


class Driver(Protocol):
    """The version of control groups that this machine has."""

    version: str

    def tree(self, root: str, name: str) -> Tree:
        """Make a pool's tree below `root` and remove those of dead processes; raises SandboxError."""


def start_time(pid: int) -> int | None:
    """The kernel's start time of a process (clock ticks since boot), which with the pid names it for ever."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return int(stat[stat.rindex(b")") + 2 :].split()[19])


def owned_name(name: str) -> str:
    """The name of this process's tree."""
    return f"{name}.{os.getpid()}.{start_time(os.getpid())}"


def remove_abandoned(root: Path) -> None:
    """Kill what is left of dead pools below `root` and remove their trees; the next pool tries again what stays."""
    for stale in abandoned(root):
        try:
            remove(stale, _STALE_SECONDS)
        except SandboxError as exc:
            log.warning("%s; the next sandbox pool removes it", exc)


def abandoned(directory: Path) -> Iterator[Path]:
    """Trees below `directory` whose process is dead."""
    with contextlib.suppress(FileNotFoundError):
        for path in sorted(directory.iterdir()):
            match = _OWNED.match(path.name)
            if match and path.is_dir() and start_time(int(match[1])) != int(match[2]):
                yield path


def remove(directory: Path, seconds: float = _CLEAN_SECONDS) -> None:
    """Kill every process at and below a cgroup directory and remove it; SandboxError when it will not go in time."""
    with contextlib.suppress(OSError):
        directory.rmdir()  # nearly always empty
        return
    deadline = clock.Deadline(seconds)
    while directory.is_dir():
        # os.walk passes over what goes away meanwhile: several slots that start together remove the same tree
        for group, _, _ in os.walk(directory, topdown=False):
            for pid in _members(Path(group)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                Path(group).rmdir()
        if directory.is_dir():
            if deadline.over:
                msg = f"cgroup {directory} could not be removed within {seconds:g} s: it still has processes"
                raise SandboxError(msg)
            clock.sleep(0.002)


def _members(group: Path) -> list[int]:
    """The processes in a group; none when it is gone, which the kernel tells in two ways."""
    try:
        return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    except OSError as exc:
        if exc.errno in {errno.ENOENT, errno.ENODEV}:
            return []
        raise


def make(path: Path) -> None:
    """Make a directory and its parents; survives a neighbour's tidy rmdir of the common parent."""
    for _ in range(10):
        with contextlib.suppress(FileNotFoundError):
            path.mkdir(parents=True, exist_ok=True)
            return
    raise SandboxError(f"cgroup {path} could not be made")


def write(path: Path, text: str) -> None:
    """Set a setting, in one system call."""
    path.write_bytes(text.encode())


def read(fd: int) -> bytes:
    """The whole of a counter file that stays open."""
    return os.pread(fd, 65536, 0)


def field(text: bytes, key: bytes) -> int:
    """The number after `key` in a flat-keyed file; 0 when the kernel does not know it."""
    head = key + b" "
    start = 0 if text.startswith(head) else text.find(b"\n" + head) + 1
    if start == 0 and not text.startswith(head):
        return 0
    end = text.find(b"\n", start)
    return int(text[start + len(head) : end if end >= 0 else None])


def kept(stat: int, *, keeps: bool) -> tuple[int, int]:
    """Bytes of tmpfs that come on top of the next run's limit (what earlier runs left in /box), and of page cache.

    Where no files are kept, only what dead runs left behind is still charged: the kernel frees their IPC namespaces
    a little later. That is waited for, never added to a limit, or a run could raise the next one's.
    """
    text = read(stat)
    if keeps:
        return field(text, b"shmem"), cache(text)
    deadline = clock.Deadline(_CLEAN_SECONDS)
    while field(text, b"shmem") > _DUST:
        if deadline.over:
            raise SandboxError(f"memory of dead runs was not freed within {_CLEAN_SECONDS:g} s")
        clock.sleep(0.001)
        text = read(stat)
    return 0, cache(text)


def freed(kernel: Callable[[], int], stays: int, limit: int) -> int:
    """Wait until the kernel's own memory for dead runs (messages, stacks, sockets) is given back.

    That happens a little later, and would count for the next run, which may use `limit` bytes. `kernel` says how many
    there are, `stays` is what was there before, and what this returns for the next call: names of files, too, are kept
    for a group.
    """
    most = stays + max(min(_LAG, limit // 32), limit // 64)
    deadline = clock.Deadline(_FREE_SECONDS)
    while (there := kernel()) > most and not deadline.over:
        clock.sleep(0.001)
    return min(stays, there) if there <= most else there


def programs(peak: int, limit: int, files: int, cached: tuple[int, int]) -> int:
    """Of the peak of a group, the bytes that were the program's own: never less than that, whatever it read.

    `limit` is the group's and includes `files`, which were there before. Of page cache, `cached` is what was charged at
    the run's start and at its end: so much as there was at both ends was there at the peak, too, unless the kernel took
    pages back for room, which it does at the limit: then nobody knows. What the run pulled in counts for it, since it
    may have come after the peak.

    Where page cache filled the group, that is less than the limit, by a byte if nothing else is known: all of it would
    say to the verdict that the program had used it up, and it had not, or it would have been killed for that.
    """
    reclaimed = peak > limit - _STEP
    used = max(0, peak - files - (0 if reclaimed else min(cached)))
    below = max(0, limit - files - 1)
    return below if cached[1] > _DUST and below < used <= below + _STEP else used


def cache(stat: bytes) -> int:
    """Bytes of page cache that is not tmpfs, from memory.stat."""
    return field(stat, b"active_file") + field(stat, b"inactive_file")
