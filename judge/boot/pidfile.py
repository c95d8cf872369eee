"""Pid files and locks of the run directory (seeds: `lock(s.pid_file)`, `file.get_lock`, `s.pid_file.write`).

NAME.pid    who runs. boot locks it while it looks and acts; another process that holds the lock keeps boot away.
NAME.alive  locked by the service itself for as long as it lives: it inherits the locked descriptor at its start.
boot.pid    locked by boot for as long as it lives: one boot per run directory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from judge.boot import procs
from judge.common import clock, procfs
from judge.common.errors import RefusedError

_NOBODY = -1
_TAKEOVER = 2.0  # seconds: a killed boot's descriptors may live on in a child that is about to become its program


@dataclass(frozen=True)
class PidRecord:
    """The content of NAME.pid. `start` is in clock ticks since the machine's start; `pid` -1: not started (yet)."""

    pid: int = _NOBODY
    start: int = 0
    incarnation: str = ""
    fingerprint: str = ""

    def matches(self, pid: int) -> bool:
        """Return whether the process of this pid is the recorded one, and not a later owner of its pid."""
        return (
            self.incarnation != ""
            and procfs.start_time(pid) == self.start
            and procs.environment(pid).get(procs.INCARNATION) == self.incarnation
        )


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)


def try_lock(path: Path) -> int | None:
    """A descriptor that holds the file's lock, which closing it gives back; None when somebody else holds it."""
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_locked(path: Path) -> bool:
    """Return whether somebody holds the file's lock; False when the file does not exist."""
    if not path.exists():
        return False
    descriptor = try_lock(path)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False


def holder(path: Path) -> str:
    """`process 12 (bash)`: who locked the file according to /proc/locks, for sentences only."""
    try:
        os.close(_open(path))
    except OSError as exc:
        return f"nobody, it cannot be opened: {exc.strerror}"
    with contextlib.suppress(OSError, ValueError):
        inode = str(path.stat().st_ino)
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            fields = line.split()
            if "FLOCK" in fields and fields[fields.index("FLOCK") + 4].rpartition(":")[2] == inode:
                pid = int(fields[fields.index("FLOCK") + 3])
                return f"process {pid} ({procs.command_of(pid)})"
    return "another process"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Hold the lock inside the block if it is free; yields whether it is held. Never waits, never raises OSError."""
    try:
        descriptor = try_lock(path)
    except OSError:  # `holder` says so
        descriptor = None
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def read(path: Path) -> PidRecord:
    """The content of a pid file; a missing, empty or damaged one says that no process runs."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return PidRecord()
    try:
        fields = dict(line.split("=", 1) for line in lines[1 : lines.index("end")])
        return PidRecord(int(lines[0]), int(fields["start"]), fields["incarnation"], fields["fingerprint"])
    except (KeyError, ValueError):
        return PidRecord()


def write(path: Path, record: PidRecord) -> None:
    """Write a pid file in place, as locks belong to the inode. The pid is the first line, as other tools expect.

    One write and then one truncation: a kill between them leaves old text after the line `end`, where `read` stops.
    """
    text = (
        f"{record.pid}\nstart={record.start}\nincarnation={record.incarnation}\nfingerprint={record.fingerprint}\nend\n"
    ).encode()
    descriptor = _open(path)
    try:
        os.pwrite(descriptor, text, 0)
        os.ftruncate(descriptor, len(text))
    finally:
        os.close(descriptor)


class BootLock:
    """The lock that makes a boot the only one of its run directory; held until `close` or the process's end."""

    def __init__(self, run_dir: Path) -> None:
        """Take it; RefusedError names who has it."""
        path = run_dir / "boot.pid"
        deadline = clock.Deadline(_TAKEOVER)
        descriptor = try_lock(path)
        while descriptor is None and not deadline.over:
            # Only the instants between a killed boot's fork and exec are worth waiting for; a living boot is refused.
            if read_pid(path) is not None:
                break
            clock.sleep(0.02)
            descriptor = try_lock(path)
        if descriptor is None:
            msg = f"{run_dir} is already managed by boot, {holder(path)}; stop that one first, or use another run_dir"
            raise RefusedError(msg)
        self._descriptor = descriptor
        write(path, PidRecord(os.getpid(), procfs.start_time(os.getpid()) or 0, "boot", ""))

    def close(self) -> None:
        """Give the run directory back; safe to call twice."""
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = -1


def read_pid(boot_pid: Path) -> int | None:
    """The pid of the boot that boot.pid speaks of, if that very process still runs."""
    record = read(boot_pid)
    if record.pid > 0 and procfs.start_time(record.pid) == record.start:
        return record.pid
    return None
