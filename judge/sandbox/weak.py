"""Counting without cgroups, for `allow_weak_sandbox`: /proc is polled. A program that tries can fool it."""

from __future__ import annotations

import os
from pathlib import Path

from judge.common import procfs
from judge.sandbox.cgroup import MeasuredUsage

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class WeakDriver:
    version = "none"

    def tree(self, root: str, name: str) -> WeakTree:  # noqa: ARG002 - the interface of the real drivers
        return WeakTree()


class WeakTree:
    namespace = True

    def __init__(self) -> None:
        self.joins: list[Path] = []

    def group(self, *, keeps: bool) -> WeakGroup:  # noqa: ARG002 - no kernel charges anything here
        return WeakGroup()

    def close(self) -> None:
        """Do nothing: there is no directory to remove."""


class WeakGroup:
    """The runs of one sandbox: each look adds up what the processes below the container's bwrap use."""

    exact = False
    fds: tuple[int, ...] = ()
    run_fd = None
    event_fd = None

    def __init__(self) -> None:
        self._root = 0
        self._memory = self._high = self._most = 0
        self._cpu: dict[int, float] = {}

    def watch(self, pid: int) -> None:
        """Count the descendants of this process, bwrap."""
        self._root = pid

    def spec(self) -> str:
        return "-"

    def begin(self, memory: int, processes: int) -> None:  # noqa: ARG002 - cannot be limited without cgroups
        """Start counting; only the memory limit is looked at."""
        self._memory = memory
        self._high = self._most = 0
        self._cpu = {}

    def cpu(self) -> float:
        """CPU seconds of every process seen so far, and of those that they have waited for."""
        pids = self._pids()
        memory = 0
        for pid in pids:
            fields, statm = procfs.stat(pid), (procfs.read(pid, "statm") or b"").split()
            if fields is None or len(statm) < 3:
                continue
            self._cpu[pid] = sum(map(int, fields[11:15])) / _TICK
            memory += (int(statm[1]) - int(statm[2])) * _PAGE
        self._high = max(self._high, memory)
        self._most = max(self._most, len(pids))
        return sum(self._cpu.values())

    def _pids(self) -> list[int]:
        """The descendants of bwrap but the agent, which is its only child."""
        pids: list[int] = []
        pending = procfs.children(self._root)
        first = set(pending)
        while pending:
            pid = pending.pop()
            if pid not in first:
                pids.append(pid)
            pending.extend(procfs.children(pid))
        return pids

    def over_memory(self) -> bool:
        return self._high > self._memory

    def kill(self) -> None:
        """Nothing: the agent kills the run."""

    def finish(self) -> MeasuredUsage:
        """The sums of all looks; the sandbox adds what the agent reaped."""
        return MeasuredUsage(sum(self._cpu.values()), self._high, self._most, self.over_memory())

    def close(self) -> None:
        """Do nothing: there is no directory to remove."""
