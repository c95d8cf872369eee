"""Control groups: what a run may use and what it used. One interface over version 1, version 2, and none at all.

A pool of sandboxes owns one Tree, named after its process: `<root>/<pool>.<pid>.<start time>`. The agents live in it.
Each sandbox has two Groups under it: one for writable runs, that is compilers, whose files in /box stay charged to the
group, and one for all other runs, so that a program's memory is counted from nothing.
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

from judge.common import clock, procfs
from judge.common.errors import SandboxError

log = logging.getLogger(__name__)

_OWNED = re.compile(r"^.+\.(\d+)\.(\d+)$")
_CLEAN_SECONDS = 5.0
# The same for the tree of a dead pool. Its processes may take long to end; a start does not wait for them.
_STALE_SECONDS = 0.5
# Seconds to wait for kernel memory that may also be the kernel's cache of names, which stays.
_FREE_SECONDS = 0.25
# Bytes of it that no run waits for: after a short run the kernel frees some 0.1 MiB about 30 ms later, so a row of
# short runs always has some left.
_LAG = 2 * 1024**2
# The kernel's counters lag behind by some pages per processor.
_DUST = 1024**2
# The most that the kernel charges at once: a huge page and some more. It frees page cache once less is left.
_STEP = 2560 * 1024


@dataclasses.dataclass(frozen=True)
class MeasuredUsage:
    """The account of a run: CPU seconds, bytes, the most processes at once; `oom`: the kernel killed for the limit."""

    cpu: float
    memory: int
    processes: int
    oom: bool


class ControlGroup(Protocol):
    """Limits and counters of the runs of one kind in one sandbox.

    `exact`: the counters miss nothing. Where they do, the caller adds the agent's own sums.
    """

    exact: bool

    def watch(self, pid: int) -> None:
        """The container's first process, before any run."""

    @property
    def fds(self) -> Sequence[int]:
        """Descriptors that the agent keeps, to put processes into the group (version 1)."""

    @property
    def run_fd(self) -> int | None:
        """The descriptor of the group into which the agent clones the next run (version 2); asked for after `begin`."""

    @property
    def event_fd(self) -> int | None:
        """Becomes readable when the memory limit struck; None when the kernel then ends the run by itself."""

    def spec(self) -> str:
        """The text that tells the agent about `fds`."""

    def begin(self, memory: int, processes: int) -> None:
        """Set the limits (bytes, processes and threads) and start counting; called before each run."""

    def cpu(self) -> float:
        """CPU seconds of all processes since `begin`."""

    def over_memory(self) -> bool:
        """Return whether the memory limit has struck since `begin`."""

    def kill(self) -> None:
        """SIGKILL to every process of the run. The agent does that too, and sees to those that are forked meanwhile."""

    def finish(self) -> MeasuredUsage:
        """The counters since `begin`; called when every process of the run is dead."""

    def close(self) -> None: ...


class ControlGroupTree(Protocol):
    @property
    def joins(self) -> list[Path]:
        """The `cgroup.procs` files that a container's launcher enters."""

    @property
    def namespace(self) -> bool:
        """Return whether containers may have a cgroup namespace of their own."""

    def group(self, *, keeps: bool) -> ControlGroup:
        """A new group for the runs of one sandbox; `keeps`: files that they make in /box stay, and stay charged."""

    def close(self) -> None:
        """Kill what is left in the tree and remove it."""


class Driver(Protocol):
    version: str

    def tree(self, root: str, name: str) -> ControlGroupTree:
        """Make a pool's tree below `root` and remove those of dead processes; raises SandboxError."""


def owned_name(name: str) -> str:
    return f"{name}.{os.getpid()}.{procfs.start_time(os.getpid())}"


def remove_abandoned(root: Path) -> None:
    """Kill the processes of dead pools below `root` and remove their trees. The next pool tries again what stays."""
    for stale in abandoned(root):
        remove(stale, _STALE_SECONDS)


def abandoned(directory: Path) -> Iterator[Path]:
    """Trees below `directory` whose process is dead."""
    with contextlib.suppress(FileNotFoundError):
        for path in sorted(directory.iterdir()):
            match = _OWNED.match(path.name)
            if match and path.is_dir() and _ended(int(match[1]), int(match[2])):
                yield path


def _ended(pid: int, start: int) -> bool:
    """Whether a process has ended. One whose start cannot be read may be alive: its groups must not be killed."""
    current = procfs.start_time(pid)
    if current is not None:
        return current != start
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # it is alive, and another user's
        return False
    return False


def remove(directory: Path, seconds: float = _CLEAN_SECONDS) -> None:
    """Kill every process at and below a cgroup directory and remove it.

    If a process stays in the kernel for longer, the directory stays with it: no code of it runs any more, and the next
    pool removes it.
    """
    with contextlib.suppress(OSError):
        directory.rmdir()  # nearly always empty
        return
    deadline = clock.Deadline(seconds)
    while directory.is_dir():
        # os.walk passes over what goes away meanwhile: several slots that start together remove the same tree
        for group, _, _ in os.walk(directory, topdown=False):
            for pid in members(Path(group)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                Path(group).rmdir()
        if directory.is_dir():
            if deadline.over:
                log.warning(
                    "cgroup %s cannot be removed: a killed process stays in the kernel for more than %g s; "
                    "the next sandbox pool removes it",
                    *(directory, seconds),
                )
                return
            clock.sleep(0.002)


def kill_members(group: Path, spared_user: int | None = None) -> None:
    """SIGKILL to the processes in a group but for those of one user, by descriptors.

    A pid may be another process's in the next moment.
    """
    for _ in range(3):  # a process that is killed forks no more
        pidfds: dict[int, int] = {}
        try:
            for pid in members(group):
                # A user that cannot be read may be the spared one.
                if spared_user is None or procfs.user(pid) not in {None, spared_user}:
                    with contextlib.suppress(ProcessLookupError):
                        pidfds[pid] = os.pidfd_open(pid)
            if not pidfds:
                return
            for pid in pidfds.keys() & set(members(group)):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(pidfds[pid], signal.SIGKILL)
        finally:
            for fd in pidfds.values():
                os.close(fd)


def members(group: Path) -> list[int]:
    """The processes in a group; none when it is gone, which the kernel tells in two ways."""
    try:
        return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    except OSError as exc:
        if exc.errno in {errno.ENOENT, errno.ENODEV}:
            return []
        raise


def make(path: Path) -> None:
    """Make a directory and its parents, also while a neighbour removes the common parent."""
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


def retained_memory(stat: int, *, keeps: bool) -> tuple[int, int]:
    """(bytes of tmpfs that come on top of the next run's limit, bytes of page cache).

    The former are files that earlier runs left in /box. Where none are kept, dead runs may still be charged: the kernel
    frees their IPC namespaces a little later. This function waits for that, and never adds it to a limit: else a run
    could raise the limit of the next one.
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

    The kernel does that a little later; until then they count for the next run, which may use `limit` bytes. `kernel`
    says how many there are. Some stay for good, as the names of files: `stays` is how many did at the last call, and
    this returns how many do now.
    """
    most = stays + max(min(_LAG, limit // 32), limit // 64)
    deadline = clock.Deadline(_FREE_SECONDS)
    while (kernel_memory := kernel()) > most and not deadline.over:
        clock.sleep(0.001)
    return min(stays, kernel_memory) if kernel_memory <= most else kernel_memory


def programs(peak: int, limit: int, files: int, cached: tuple[int, int]) -> int:
    """Of the peak of a group, the bytes that were the program's own: an upper bound, whatever the program read.

    `limit` is the group's and includes `files`, which were there before. `cached` is the page cache that was charged at
    the run's start and at its end. The smaller of the two was there at the peak, too, and is taken off, unless the
    kernel may have taken pages back, which it does near the limit. Page cache that the run pulled in counts as the
    program's, since it may have come after the peak.

    Where page cache filled the group, the result stays one byte below the limit. The whole limit would tell the verdict
    that the program had used it up; but then the kernel would have killed it.
    """
    reclaimed = peak > limit - _STEP
    used_memory = max(0, peak - files - (0 if reclaimed else min(cached)))
    below = max(0, limit - files - 1)
    return below if cached[1] > _DUST and below < used_memory <= below + _STEP else used_memory


def cache(stat: bytes) -> int:
    """Bytes of page cache that is not tmpfs, from memory.stat."""
    return field(stat, b"active_file") + field(stat, b"inactive_file")


class KernelGroup:
    """What groups of both versions have in common. Descriptors stay open from run to run, which saves the look-ups."""

    exact = True

    def __init__(self, *, keeps: bool) -> None:
        """`keeps` as of ControlGroupTree.group."""
        self._keeps = keeps
        self._dirs: dict[str, Path] = {}
        self._open: list[int] = []
        self._stat = -1
        self._processes_peak: int | None = None
        self._parents = 0  # processes of the agent that are in the group
        self._limits = (0, 0)
        self._cpu0 = self._files = self._cached = self._oom0 = self._stays = 0

    def _fd(self, path: Path, flags: int = os.O_RDONLY) -> int:
        fd = os.open(path, flags | os.O_CLOEXEC)
        self._open.append(fd)
        return fd

    def _optional(self, path: Path, flags: int = os.O_RDONLY) -> int | None:
        with contextlib.suppress(OSError):
            return self._fd(path, flags)
        return None

    def _kernel_bytes(self) -> int:
        """Bytes of the kernel's own memory that it cannot give back for want of memory."""
        raise NotImplementedError

    def _peak_bytes(self) -> int:
        raise NotImplementedError

    def cpu(self) -> float:
        raise NotImplementedError

    def over_memory(self) -> bool:
        raise NotImplementedError

    def _group_limit(self, memory: int) -> int:
        """The limit of the group for a run that may use `memory`, once that of dead runs is freed.

        Files that earlier runs left in /box come on top. Page cache does not: the kernel gives it up before it kills
        for the limit.
        """
        if not self._keeps:
            self._stays = freed(self._kernel_bytes, self._stays, memory)
        self._files, self._cached = retained_memory(self._stat, keeps=self._keeps)
        return memory + self._files

    def finish(self) -> MeasuredUsage:
        cpu, oom = self.cpu(), self.over_memory()
        cached = (self._cached, cache(read(self._stat)))
        memory = programs(self._peak_bytes(), self._limits[0], self._files, cached)
        peak = self._processes_peak
        return MeasuredUsage(cpu, memory, int(read(peak)) - self._parents if peak is not None else 0, oom)

    def close(self) -> None:
        for fd in self._open:
            os.close(fd)
        self._open.clear()
        for directory in self._dirs.values():
            remove(directory)
