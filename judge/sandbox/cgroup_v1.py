"""Control groups version 1: one hierarchy per controller; the hosts that are booted that way."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from judge.common import procfs
from judge.common.errors import SandboxError
from judge.sandbox import cgroup

CONTROLLERS = ("memory", "pids", "cpuacct")
# Used where it is mounted: then all processes of a group share the core as one. Else the kernel gives each session its
# share (sched_autogroup), and a program with many sessions leaves the slot too little time to end it.
SHARES = "cpu"
_UNLIMITED = 1 << 62
# The agent's process that waits in the group and clones the runs (agent.c, struct parent).
_PARENT = 1


class DriverV1:
    version = "v1"

    def __init__(self, mounts: dict[str, Path]) -> None:
        self._mounts = mounts
        self.shares = SHARES in mounts

    def tree(self, root: str, name: str) -> TreeV1:
        """Make `<controller>/<root>/<name>` in every hierarchy."""
        roots = {key: mount / root.strip("/") for key, mount in self._mounts.items()}
        if roots.get(SHARES) == roots["cpuacct"]:
            del roots[SHARES]  # mounted together: a process in the one is in the other
        return TreeV1(roots, name)


class TreeV1:
    namespace = True

    def __init__(self, roots: dict[str, Path], name: str) -> None:
        self._roots = roots
        self._dirs = {key: root / cgroup.owned_name(name) for key, root in roots.items()}
        self._count = 0
        try:
            for key, root in roots.items():
                cgroup.remove_abandoned(root)
                cgroup.make(self._dirs[key])
        except OSError as exc:
            msg = f"cgroup {exc.filename or root} cannot be used: {exc.strerror}; run as root or delegate it"
            raise SandboxError(msg) from exc

    @property
    def joins(self) -> list[Path]:
        return [directory / "cgroup.procs" for directory in self._dirs.values()]

    def group(self, *, keeps: bool) -> GroupV1:
        self._count += 1
        return GroupV1({key: directory / str(self._count) for key, directory in self._dirs.items()}, keeps=keeps)

    def close(self) -> None:
        """Remove the pool's directories, and the root when nobody else uses it."""
        for key, directory in self._dirs.items():
            cgroup.remove(directory)
            with contextlib.suppress(OSError):
                self._roots[key].rmdir()


class GroupV1(cgroup.KernelGroup):
    run_fd = None

    def __init__(self, dirs: dict[str, Path], *, keeps: bool) -> None:
        super().__init__(keeps=keeps)
        self._dirs = dirs
        for directory in dirs.values():
            directory.mkdir()
        memory, pids, cpuacct = (dirs[key] for key in CONTROLLERS)
        self._swap = (memory / "memory.memsw.limit_in_bytes").exists()
        self.fds = [self._fd(directory / "cgroup.procs", os.O_WRONLY) for directory in dirs.values()]
        self._peak = self._fd(memory / "memory.max_usage_in_bytes", os.O_RDWR)
        self._stat = self._fd(memory / "memory.stat")
        self._oom = self._fd(memory / "memory.oom_control")
        self._cpu = self._fd(cpuacct / "cpuacct.usage")
        self._kernel = self._optional(memory / "memory.kmem.usage_in_bytes")
        self._processes_peak = self._optional(pids / "pids.peak")  # since kernel 6.11
        self._parents = _PARENT
        self.event_fd = self._listen(memory)
        self._limits = (_UNLIMITED, 0)
        self._struck = False
        self._helper_user: int | None = None

    def _listen(self, memory: Path) -> int:
        """An eventfd that the kernel rings when the limit strikes (cgroup-v1/memory.rst, OOM control)."""
        fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._open.append(fd)
        cgroup.write(memory / "cgroup.event_control", f"{fd} {self._oom}")
        return fd

    def watch(self, pid: int) -> None:
        """The kernel's eventfd."""

    def spec(self) -> str:
        """`procs:` and the descriptors."""
        return "procs:" + ",".join(map(str, self.fds))

    def _set(self, memory: int, processes: int) -> None:
        """Set the limits. A rise begins with memsw and a fall ends with it: it must never be below the other."""
        directory, pids = self._dirs["memory"], self._dirs["pids"]
        names = ["memory.memsw.limit_in_bytes", "memory.limit_in_bytes"] if self._swap else ["memory.limit_in_bytes"]
        for name in names if memory > self._limits[0] else reversed(names):
            cgroup.write(directory / name, str(memory))
        if processes != self._limits[1]:
            cgroup.write(pids / "pids.max", str(processes + _PARENT))
        self._limits = (memory, processes)

    def _kernel_bytes(self) -> int:
        return int(cgroup.read(self._kernel)) if self._kernel is not None else 0

    def begin(self, memory: int, processes: int) -> None:
        if self._helper_user is None and (helpers := cgroup.members(self._dirs["pids"])):
            self._helper_user = procfs.user(helpers[0])
        limit = self._group_limit(memory)
        if (limit, processes) != self._limits:
            self._set(limit, processes)
        os.pwrite(self._peak, b"0", 0)
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.event_fd)
        self._struck = False
        self._oom0 = cgroup.field(cgroup.read(self._oom), b"oom_kill")
        self._cpu0 = int(cgroup.read(self._cpu))

    def cpu(self) -> float:
        """From cpuacct: living, dead and unreaped alike."""
        return (int(cgroup.read(self._cpu)) - self._cpu0) / 1e9

    def _peak_bytes(self) -> int:
        return int(cgroup.read(self._peak))

    def over_memory(self) -> bool:
        """Return whether the eventfd rang, or the counter moved."""
        with contextlib.suppress(BlockingIOError):
            self._struck = os.eventfd_read(self.event_fd) > 0 or self._struck
        return self._struck or cgroup.field(cgroup.read(self._oom), b"oom_kill") > self._oom0

    def kill(self) -> None:
        """All but the agent's helper, which has another user than the runs.

        A helper that died is replaced, so its pid changes. If it were killed here, the next run could not start.
        """
        cgroup.kill_members(self._dirs["pids"], self._helper_user)
