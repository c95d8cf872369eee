"""Print what is left on this machine of the lab named as the argument, one thing a line. PYTHONPATH: the repository."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from lab import cgroups, network, state


def of_processes(mark: re.Pattern[str]) -> list[str]:
    """Processes that carry the lab's marks in their command line, and mounts that any process sees of it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            mounts = (process / "mounts").read_text(errors="replace").splitlines()
        except OSError:
            continue  # it has ended meanwhile
        if mark.search(command):
            found.append(f"process {process.name}: {command}")
        found += [f"mount of process {process.name}: {line}" for line in mounts if mark.search(line)]
    return found


def traces(name: str) -> list[str]:
    """Networks, cgroups, files, processes and mounts of a lab."""
    found = [f"network namespace {item}" for item in network.names(name)]
    groups = [root / cgroups.group(name) for root in cgroups.hierarchies()]
    found += [f"cgroup {group}" for group in groups if group.exists()]
    found += [f"file {path}" for path in state.state_root().glob("*") if path.name.lstrip(".").split(".")[0] == name]
    return found + of_processes(re.compile(rf"judge-lab/\.?{name}\b|jl-{name}\b"))


if __name__ == "__main__":
    for line in traces(sys.argv[1]):
        sys.stdout.write(line + "\n")
