"""The kernel's word about processes, which may end or belong to somebody else at any instant, and about memory.

No read of a process raises: the kernel answers ENOENT after it is reaped, ESRCH while it ends, EACCES and EPERM if this
process may not look. `Path.exists` raises for three of these four, so no other module reads below /proc/PID.
"""

from __future__ import annotations

import os
from pathlib import Path

_START_FIELD = 19  # of /proc/PID/stat after the command's closing bracket, see proc(5)


def machine_memory(base: Path = Path("/")) -> int:
    """Bytes of memory that this machine, or this container, may use."""
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for name in ("memory/memory.limit_in_bytes", "memory.max"):
        try:
            text = (base / "sys/fs/cgroup" / name).read_text(encoding="ascii").strip()
        except OSError:
            continue  # the other version of cgroups
        sizes += [int(text)] if text.isdigit() else []  # `max`: none
    return min(sizes)


def pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def read(pid: int, name: str) -> bytes | None:
    """The bytes of /proc/PID/NAME; None if the process has ended or may not be looked at."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return None


def has_program(pid: int) -> bool:
    """Say whether the process runs a program that this process may see. Zombies and kernel threads run none."""
    try:
        Path(f"/proc/{pid}/exe").readlink()
    except OSError:
        return False
    return True


def stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the command's closing bracket, the state first; None if unreadable."""
    fields = (read(pid, "stat") or b"").rpartition(b")")[2].decode("ascii", "replace").split()
    return fields if len(fields) > _START_FIELD else None


def number(pid: int, field: int) -> int | None:
    """One number of `stat`; None if it cannot be read."""
    fields = stat(pid)
    return int(fields[field]) if fields is not None else None


def start_time(pid: int) -> int | None:
    """The start of the process in clock ticks since boot; None if there is no such process.

    The pid and the start together name a process for ever.
    """
    return number(pid, _START_FIELD)


def user(pid: int) -> int | None:
    """The real user id of the process; None if there is no such process."""
    for line in (read(pid, "status") or b"").splitlines():
        if line.startswith(b"Uid:"):
            return int(line.split()[1])
    return None


def children(pid: int) -> list[int]:
    """The children of all threads of a process; those of a thread that ends meanwhile are left out."""
    try:
        threads = [entry.name for entry in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []
    return [int(child) for thread in threads for child in (read(pid, f"task/{thread}/children") or b"").split()]
