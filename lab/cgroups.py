"""The lab's control groups: what a host's processes are, how they are killed, frozen and limited.

A host's processes are whatever is in judge-lab/LAB/HOST, in any hierarchy. Process ids are never remembered:
they wrap early (pid_max 32768) and would soon name somebody else. judge-lab/LAB/HOST carries the limits of the
"machine"; the host lives one level down, in HOST/host, and cannot lift them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from lab.errors import LabError

TOP = "judge-lab"
NEEDED = ("memory", "pids", "freezer", "cpu", "systemd")
PIDS = 4096  # most processes of one host
FREEZE_BEFORE_KILL = 0.2  # seconds
FREEZE_AGAIN = 1.0  # seconds until it is tried again
PATIENCE = (
    120.0  # seconds for killed processes to be gone; disk writes under way are waited for, on a busy machine long
)


def hierarchies() -> list[Path]:
    """Mount points of all cgroup hierarchies, v1 and the (empty) v2; LabError where the v1 controllers are missing."""
    found = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind in {"cgroup", "cgroup2"} and where.startswith("/sys/fs/cgroup/"):
            found.append(Path(where))
    names = {part for path in found for part in path.name.split(",")}
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise LabError(
            f"no cgroup v1 hierarchy for {', '.join(missing)} under /sys/fs/cgroup: the lab needs a machine booted "
            "with systemd.unified_cgroup_hierarchy=0 (and systemd.legacy_systemd_cgroup_controller=1)"
        )
    return sorted(set(found))


def controller(name: str) -> Path:
    """Mount point of one v1 controller."""
    return next(path for path in hierarchies() if name in path.name.split(","))


def group(lab: str, *below: str) -> str:
    """Path of a lab's cgroup inside any hierarchy."""
    return "/".join((TOP, lab, *below))


def make(lab: str, host: str, memory: int) -> None:
    """Make a host's cgroups in every hierarchy and set the limits of the machine it plays; harmless when they exist.

    `memory`: bytes.
    """
    for root in hierarchies():
        for path in (group(lab), group(lab, host), group(lab, host, "host")):
            directory = root
            for part in path.split("/"):
                parent, directory = directory, directory / part
                directory.mkdir(exist_ok=True)
                if "cpuset" in root.name.split(","):
                    inherit_cpuset(parent, directory)
        if "cpuset" in root.name.split(","):
            # the host's own cgroups must get processors without its systemd knowing about it
            (root / group(lab, host, "host") / "cgroup.clone_children").write_text("1")
    (controller("memory") / group(lab, host) / "memory.limit_in_bytes").write_text(str(memory))
    (controller("pids") / group(lab, host) / "pids.max").write_text(str(PIDS))


def inherit_cpuset(parent: Path, child: Path) -> None:
    """A new cpuset is empty and takes no process until it has processors and memory nodes."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not (child / name).read_text().strip():
            (child / name).write_text((parent / name).read_text())


def join_control(lab: str) -> None:
    """Count this process among the lab's own commands (`lab run`, `lab ssh`): `lab down` ends what they leave."""
    directory = controller("pids") / group(lab, "control")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "cgroup.procs").write_text(str(os.getpid()))


def inside_control(lab: str) -> bool:
    """Return whether this process was started by `lab run` of that lab."""
    return os.getpid() in processes(group(lab, "control"))


def processes(path: str) -> set[int]:
    """All processes below a cgroup path, in any hierarchy (one that is only half moved in counts); no zombies."""
    pids: set[int] = set()
    for root in hierarchies():
        for directory, _, files in os.walk(root / path):
            if "cgroup.procs" in files:
                with contextlib.suppress(OSError):  # removed while we look
                    pids.update(int(line) for line in (Path(directory) / "cgroup.procs").read_text().split())
    pids.discard(0)
    return pids


def kill(path: str) -> None:
    """SIGKILL everything below a cgroup path until nothing is left, frozen processes too.

    Frozen first, so that nobody inside sees another one die, as with a power loss; what does not freeze at once
    (waiting for a disk) is not waited for.
    """
    if not processes(path):
        return
    end = time.monotonic() + PATIENCE
    with contextlib.suppress(LabError, FileNotFoundError):
        freeze(path, FREEZE_BEFORE_KILL)
    while pids := processes(path):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        thaw_all(path)  # a frozen process dies at its thawing, before it runs another instruction
        if time.monotonic() > end:
            raise LabError(f"{len(pids)} processes of {path} survive SIGKILL: look at them with `ps {min(pids)}`")
        time.sleep(0.01)


def remove(path: str) -> None:
    """Kill everything below a cgroup path, and remove the path from every hierarchy.

    Both in turns: a keeper that an interrupted `up` has just started may move in between the two. One that comes
    later finds no cgroup, and gives up.
    """
    end = time.monotonic() + PATIENCE
    while True:
        kill(path)
        for root in hierarchies():
            for directory, _, _ in os.walk(root / path, topdown=False):
                with contextlib.suppress(OSError):  # busy while the kernel still lets go of a dead process
                    Path(directory).rmdir()
        left = [root / path for root in hierarchies() if (root / path).is_dir()]
        if not left:
            return
        if time.monotonic() > end:
            raise LabError(f"{left[0]} cannot be removed: something is still in it")
        time.sleep(0.02)


def remove_top() -> None:
    """Remove the lab's top cgroup where no other lab is in it."""
    for root in hierarchies():
        with contextlib.suppress(OSError):
            (root / TOP).rmdir()


def frozen(path: str) -> bool:
    """Return whether a cgroup path is frozen."""
    file = controller("freezer") / path / "freezer.state"
    try:
        return file.read_text().strip() != "THAWED"
    except FileNotFoundError:
        return False


def freeze(path: str, timeout: float = PATIENCE) -> None:
    """Stop every process at once, as a machine hangs; LabError when one does not stop within `timeout` seconds."""
    file = controller("freezer") / path / "freezer.state"
    end = time.monotonic() + timeout
    again = 0.0
    while file.read_text().strip() != "FROZEN":
        now = time.monotonic()
        if now > end:
            raise LabError(f"{path} does not freeze: a process waits uninterruptibly for a disk")
        if now > again:
            # user-mode Linux traces its processes, and one that freezes before the other keeps that from freezing
            file.write_text("THAWED")
            file.write_text("FROZEN")
            again = now + FREEZE_AGAIN
        time.sleep(0.005)


def thaw(path: str) -> None:
    """Let everything below a cgroup path run again; harmless when it does, or is gone."""
    with contextlib.suppress(FileNotFoundError):
        (controller("freezer") / path / "freezer.state").write_text("THAWED")


def thaw_all(path: str) -> None:
    """Thaw a cgroup path and every cgroup below it, which a sandbox inside the host may have frozen for itself."""
    root = controller("freezer")
    for directory, _, _ in os.walk(root / path):
        thaw(str(Path(directory).relative_to(root)))


def usage(path: str) -> tuple[int, int]:
    """Memory in use (bytes, page cache included) and processes below a cgroup path."""
    try:
        memory = int((controller("memory") / path / "memory.usage_in_bytes").read_text())
    except FileNotFoundError:
        memory = 0
    return memory, len(processes(path))


def names(lab: str | None = None) -> set[str]:
    """Labs that have a cgroup, or the hosts of one lab that have one."""
    found: set[str] = set()
    for root in hierarchies():
        top = root / (group(lab) if lab else TOP)
        if top.is_dir():
            found.update(path.name for path in top.iterdir() if path.is_dir())
    return found
