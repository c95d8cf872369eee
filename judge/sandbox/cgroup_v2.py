"""Control groups version 2: one hierarchy; the part of it that systemd delegated to this service, or all for root."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from judge.common.errors import SandboxError
from judge.sandbox import cgroup

CONTROLLERS = ("cpu", "memory", "pids")
LEAF = "daemon"


class DriverV2:
    """Version 2: one hierarchy; the part of it that systemd delegated to this service, or all of it for root."""

    version = "v2"
    shares = True

    def __init__(self, mount: Path) -> None:
        """`mount`: where the unified hierarchy is mounted."""
        self._mount = mount

    def tree(self, root: str, name: str) -> TreeV2:
        """An absolute `root` starts at the hierarchy's root, a relative one at this service's own cgroup."""
        try:
            return TreeV2(self._base(root), name)
        except OSError as exc:
            msg = f"cgroup {exc.filename or root} cannot be used: {exc.strerror}; set Delegate=yes or run as root"
            raise SandboxError(msg) from None

    def _base(self, root: str) -> Path:
        if root.startswith("/"):
            return self._mount / root.strip("/")
        own_group = self._mount / own_path().strip("/")
        if own_group.name == LEAF:
            own_group = own_group.parent
        elif own_group.suffix == ".service":
            # A group with members cannot have controlled children: the daemon steps into a leaf beside them.
            leaf = own_group / LEAF
            leaf.mkdir(exist_ok=True)
            for pid in (own_group / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    cgroup.write(leaf / "cgroup.procs", pid)
        else:
            own_group = self._mount  # a login session or a container's root: nothing is delegated, so only root gets on
        _control(own_group)
        return own_group / root


def own_path() -> str:
    """The path of this process in the unified hierarchy."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return line[3:]
    return "/"


def _control(directory: Path) -> None:
    """Hand the controllers down to the children of a group."""
    cgroup.write(directory / "cgroup.subtree_control", " ".join(f"+{key}" for key in CONTROLLERS))


class TreeV2:
    """A pool's directory, with a leaf for the agents.

    The agent clones a run into its group, since moving a process costs a grace period of the kernel, milliseconds. For
    that the agent, an unprivileged user of the host, needs write access to `cgroup.procs` of the pool and of the group.
    That access is worth nothing to processes outside of the tree. The agent's own cgroup namespace must not begin below
    the pool.
    """

    namespace = False

    def __init__(self, base: Path, name: str) -> None:
        self._base = base
        self._dir = base / cgroup.owned_name(name)
        self._count = 0
        cgroup.remove_abandoned(base)
        cgroup.make(self._dir / "agent")
        _control(base)
        _control(self._dir)
        (self._dir / "cgroup.procs").chmod(0o666)

    @property
    def joins(self) -> list[Path]:
        """The agents' leaf."""
        return [self._dir / "agent" / "cgroup.procs"]

    def group(self, *, keeps: bool) -> GroupV2:
        """A leaf for runs."""
        self._count += 1
        return GroupV2(self._dir / str(self._count), keeps=keeps)

    def close(self) -> None:
        """Remove the pool's directory, and the base when nobody else uses it."""
        cgroup.remove(self._dir)
        with contextlib.suppress(OSError):
            self._base.rmdir()


class GroupV2:
    """The runs of one kind. They share one leaf where the kernel can reset its peaks (6.12); else each gets its own."""

    exact = True
    event_fd = None
    fds: tuple[int, ...] = ()

    def __init__(self, directory: Path, *, keeps: bool) -> None:
        self._dir = directory
        self._keeps = keeps
        self._count = 0
        self._leaf: Leaf | None = Leaf(self._path(), keeps=keeps)
        self._used = False

    def _path(self) -> Path:
        self._count += 1
        return self._dir.with_name(f"{self._dir.name}-{self._count}")

    @property
    def run_fd(self) -> int:
        """The leaf's directory, for CLONE_INTO_CGROUP."""
        return self.leaf.directory_fd

    @property
    def leaf(self) -> Leaf:
        """The leaf in use; SandboxError after `close`."""
        if self._leaf is None:
            raise SandboxError(f"cgroup {self._dir} is closed")
        return self._leaf

    def watch(self, pid: int) -> None:
        """None: the kernel ends the run by itself."""

    def spec(self) -> str:
        """No descriptors: each run gets the leaf's own."""
        return "-"

    def begin(self, memory: int, processes: int) -> None:
        """As for version 1; files of earlier leaves stay charged to those."""
        if self._used and not self.leaf.resettable:
            self.leaf.close()
            self._leaf = Leaf(self._path(), keeps=self._keeps)
        self._used = True
        self.leaf.begin(memory, processes)

    def cpu(self) -> float:
        """From cpu.stat."""
        return self.leaf.cpu()

    def over_memory(self) -> bool:
        """Return whether the counter of kills moved."""
        return self.leaf.over_memory()

    def kill(self) -> None:
        """All in the leaf: it has runs only."""
        self.leaf.kill()

    def finish(self) -> cgroup.MeasuredUsage:
        """As for version 1."""
        return self.leaf.finish()

    def close(self) -> None:
        """Close the descriptors and remove the directory."""
        if self._leaf is not None:
            self._leaf.close()
            self._leaf = None


class Leaf:
    """A group without swap that the kernel kills as a whole. Descriptors stay open from run to run."""

    def __init__(self, directory: Path, *, keeps: bool) -> None:
        """Make the directory and open its files."""
        self._dir = directory
        self._keeps = keeps
        _new(directory)
        (directory / "cgroup.procs").chmod(0o666)
        self._open: list[int] = []
        self.directory_fd = self._fd(directory, os.O_RDONLY | os.O_DIRECTORY)
        self._current = self._fd(directory / "memory.current")
        self._peak = self._optional(directory / "memory.peak", os.O_RDWR)
        self.resettable = self._reset()
        self._stat = self._fd(directory / "memory.stat")
        self._events = self._fd(directory / "memory.events")
        self._cpu = self._fd(directory / "cpu.stat")
        self._procs_peak = self._optional(directory / "pids.peak", os.O_RDONLY)  # since 6.11
        for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
            if (directory / name).exists():
                cgroup.write(directory / name, value)
        self._limits = (0, 0)
        self._cpu0 = self._files = self._cached = self._oom0 = self._high = self._stays = 0

    def _fd(self, path: Path, flags: int = os.O_RDONLY) -> int:
        fd = os.open(path, flags | os.O_CLOEXEC)
        self._open.append(fd)
        return fd

    def _optional(self, path: Path, flags: int) -> int | None:
        with contextlib.suppress(OSError):
            return self._fd(path, flags)
        return None

    def _reset(self) -> bool:
        """Start counting the peak from now, per descriptor (since 6.12; older kernels refuse the write)."""
        if self._peak is None:
            return False
        try:
            os.pwrite(self._peak, b"reset", 0)
        except OSError:
            return False
        return True

    def _kernel(self) -> int:
        """Bytes that the kernel cannot give back for want of memory (0 before 5.18)."""
        text = cgroup.read(self._stat)
        return max(0, cgroup.field(text, b"kernel") - cgroup.field(text, b"slab_reclaimable"))

    def begin(self, memory: int, processes: int) -> None:
        """Set what changed, note where the counters stand."""
        if not self._keeps:
            self._stays = cgroup.freed(self._kernel, self._stays, memory)
        self._files, self._cached = cgroup.retained_memory(self._stat, keeps=self._keeps)
        limits = (memory + self._files, processes)
        if limits[0] != self._limits[0]:
            cgroup.write(self._dir / "memory.max", str(limits[0]))
        if limits[1] != self._limits[1]:
            cgroup.write(self._dir / "pids.max", str(limits[1]))
        self._limits = limits
        self._high = 0
        self._reset()
        self._oom0 = cgroup.field(cgroup.read(self._events), b"oom_kill")
        self._cpu0 = cgroup.field(cgroup.read(self._cpu), b"usage_usec")

    def cpu(self) -> float:
        """CPU seconds. Each call also notes the memory in use, for kernels without memory.peak (before 5.19)."""
        if self._peak is None:
            self._high = max(self._high, int(cgroup.read(self._current)))
        return (cgroup.field(cgroup.read(self._cpu), b"usage_usec") - self._cpu0) / 1e6

    def over_memory(self) -> bool:
        """Return whether the counter of kills moved."""
        return cgroup.field(cgroup.read(self._events), b"oom_kill") > self._oom0

    def kill(self) -> None:
        """The kernel's own kill of a whole group, which has come with 5.14."""
        cgroup.write(self._dir / "cgroup.kill", "1")

    def finish(self) -> cgroup.MeasuredUsage:
        """The account of the run."""
        cpu, oom = self.cpu(), self.over_memory()
        peak = int(cgroup.read(self._peak)) if self._peak is not None else self._high
        used_memory = cgroup.programs(
            peak, self._limits[0], self._files, (self._cached, cgroup.cache(cgroup.read(self._stat)))
        )
        processes = int(cgroup.read(self._procs_peak)) if self._procs_peak is not None else 0
        return cgroup.MeasuredUsage(cpu, used_memory, processes, oom)

    def close(self) -> None:
        """Close the descriptors and remove the directory."""
        for fd in self._open:
            os.close(fd)
        self._open.clear()
        cgroup.remove(self._dir)


def _new(directory: Path) -> None:
    """Make a cgroup; the kernel fills it with files."""
    directory.mkdir()
