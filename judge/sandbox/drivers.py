"""Finds the kind of control groups that this machine has."""

from __future__ import annotations

from pathlib import Path

from judge.sandbox import cgroup_v1, cgroup_v2
from judge.sandbox.cgroup_v1 import DriverV1
from judge.sandbox.cgroup_v2 import DriverV2


def find(mounts: str | None = None) -> DriverV1 | DriverV2 | None:
    """The driver for this machine, or None when memory, pids and CPU accounting are not all at hand.

    `mounts` is the text of /proc/self/mounts, for tests.
    """
    text = Path("/proc/self/mounts").read_text() if mounts is None else mounts
    v1: dict[str, Path] = {}
    unified: Path | None = None
    for line in text.splitlines():
        _, mount_point, kind, options = line.split()[:4]
        if kind == "cgroup2":
            unified = Path(mount_point)
        elif kind == "cgroup":
            keys = (*cgroup_v1.CONTROLLERS, cgroup_v1.SHARES)
            v1.update({key: Path(mount_point) for key in keys if key in options.split(",")})
    if unified is not None and _controllers(unified) >= set(cgroup_v2.CONTROLLERS):
        return DriverV2(unified)
    if set(v1) >= set(cgroup_v1.CONTROLLERS):
        return DriverV1(v1)
    return None


def _controllers(mount: Path) -> set[str]:
    try:
        return set((mount / "cgroup.controllers").read_text().split())
    except OSError:
        return set()
