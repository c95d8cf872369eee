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
    version = "v2"
    shares = True

    def __init__(self, mount: Path) -> None:
        self._mount = mount

    def tree(self, root: str, name: str) -> TreeV2:
        """An absolute `root` starts at the hierarchy's root, a relative one at this service's own cgroup."""
        try:
            return TreeV2(self._base(root), name)
        except OSError as exc:
            msg = f"cgroup {exc.filename or root} cannot be used: {exc.strerror}; set Delegate=yes or run as root"
            raise SandboxError(msg) from exc

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
        return [self._dir / "agent" / "cgroup.procs"]

    def group(self, *, keeps: bool) -> GroupV2:
        self._count += 1
        return GroupV2(self._dir / str(self._count), keeps=keeps)

    def close(self) -> None:
        """Remove the pool's directory, and the base when nobody else uses it."""
        cgroup.remove(self._dir)
        with contextlib.suppress(OSError):
            self._base.rmdir()


class GroupV2(cgroup.KernelGroup):
    """The runs of one kind: a group without swap that the kernel kills as a whole.

    They share one directory where the kernel can reset its peaks (6.12); else each gets its own. Files that earlier
    runs left in /box stay charged to the directories of those.
    """

    event_fd = None
    fds: tuple[int, ...] = ()

    def __init__(self, directory: Path, *, keeps: bool) -> None:
        super().__init__(keeps=keeps)
        self._base = directory
        self._count = 0
        self._used = False
        self._make()

    def _make(self) -> None:
        self._count += 1
        directory = self._base.with_name(f"{self._base.name}-{self._count}")
        self._dirs = {"unified": directory}
        _new(directory)
        (directory / "cgroup.procs").chmod(0o666)
        self._directory_fd = self._fd(directory, os.O_RDONLY | os.O_DIRECTORY)
        self._current = self._fd(directory / "memory.current")
        self._peak = self._optional(directory / "memory.peak", os.O_RDWR)
        self.resettable = self._reset()
        self._stat = self._fd(directory / "memory.stat")
        self._events = self._fd(directory / "memory.events")
        self._cpu = self._fd(directory / "cpu.stat")
        self._processes_peak = self._optional(directory / "pids.peak")  # since 6.11
        for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
            if (directory / name).exists():
                cgroup.write(directory / name, value)
        self._limits = (0, 0)
        self._high = self._stays = 0

    @property
    def run_fd(self) -> int:
        """The directory, for CLONE_INTO_CGROUP."""
        return self._directory_fd

    def watch(self, pid: int) -> None:
        """None: the kernel ends the run by itself."""

    def spec(self) -> str:
        """No descriptors: each run gets the directory."""
        return "-"

    def _reset(self) -> bool:
        """Start counting the peak from now, per descriptor (since 6.12; older kernels refuse the write)."""
        if self._peak is None:
            return False
        try:
            os.pwrite(self._peak, b"reset", 0)
        except OSError:
            return False
        return True

    def _kernel_bytes(self) -> int:
        text = cgroup.read(self._stat)  # it says nothing of the kernel before 5.18
        return max(0, cgroup.field(text, b"kernel") - cgroup.field(text, b"slab_reclaimable"))

    def begin(self, memory: int, processes: int) -> None:
        """Set the limits, as far as they have changed, and start counting."""
        if not self._open:
            raise SandboxError(f"cgroup {self._base} is closed")
        if self._used and not self.resettable:
            self.close()
            self._make()
        self._used = True
        limits = (self._group_limit(memory), processes)
        for name, limit, before in zip(("memory.max", "pids.max"), limits, self._limits, strict=True):
            if limit != before:
                cgroup.write(self._dirs["unified"] / name, str(limit))
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
        return cgroup.field(cgroup.read(self._events), b"oom_kill") > self._oom0

    def _peak_bytes(self) -> int:
        return int(cgroup.read(self._peak)) if self._peak is not None else self._high

    def kill(self) -> None:
        """The kernel's own kill of a whole group, which has come with 5.14; there are runs only."""
        cgroup.write(self._dirs["unified"] / "cgroup.kill", "1")


def _new(directory: Path) -> None:
    """Make a cgroup; the kernel fills it with files."""
    directory.mkdir()
