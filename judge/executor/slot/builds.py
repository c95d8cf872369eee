"""Built programs, kept by what they were built from: a validator is compiled once per executor.

A build is the `/box` of a sandbox as one tar archive, made and unpacked by `tar` inside sandboxes: nothing outside ever
looks at the names in it. The archive itself has no name there: it goes through standard output and input. The slots of
an executor share the directory; it is emptied at the executor's start, when compilers may be new. A file ends with
the hash of the rest, so a damaged one is made again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from judge.common import files
from judge.executor.channel import COMPILE_LIMITS
from judge.executor.slot import truncation
from judge.executor.slot.program import Program
from judge.executor.slot.run_lock import Wait, acquire
from judge.model.messages import Limits
from judge.sandbox.types import Command, RunOutcome

log = logging.getLogger(__name__)

# The least recently used builds leave beyond so many, and so many bytes.
KEEP = 64
KEEP_BYTES = 2 * 1024**3
_TAR = "/bin/tar"
_HASH = 64
# Of tar: room for the archive and for what is unpacked from it, which may both count as the run's.
_LIMITS = Limits(cpu=30, wall=60, memory=640 * 1024**2, output=256 * 1024**2)
# Times to the nanosecond, holes, and the order in which the files were made.
_PACK = ["--format=posix", "--pax-option=delete=atime,delete=ctime", "--sparse", "--sort=inode", "--numeric-owner"]


def key_of(program: Program, versions: Mapping[str, str] | None = None) -> str:
    """The key of a build, by all that it depends on: the files and the commands."""
    digest = hashlib.sha256()
    for part in (*(program.compile or ()), "--", *program.run, "--", *sorted((versions or {}).values())):
        digest.update(part.encode() + b"\0")
    for name in sorted(program.files):
        digest.update(name.encode() + b"\0" + hashlib.sha256(program.files[name]).digest())
    return digest.hexdigest()


def clear(directory: Path) -> None:
    """Make the directory, empty; the executor calls it before it starts its slots."""
    directory.mkdir(exist_ok=True, mode=0o700)
    for path in directory.iterdir():
        path.unlink(missing_ok=True)


class Builds:
    def __init__(self, directory: Path) -> None:
        """`directory` exists; see `clear`."""
        self._directory = directory

    @contextlib.contextmanager
    def building(self, key: str, wait: Wait) -> Iterator[None]:
        """Keep others from building the same: two slots that start with one problem compile its validator once.

        `wait` lets some seconds pass, and raises when the task is not wanted any more.
        """
        handle = os.open(self._directory / f"{key}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            acquire(handle, fcntl.LOCK_EX, wait)
            yield
        finally:
            os.close(handle)

    def load(self, key: str) -> int | None:
        """A descriptor of the archive of a build, intact, which the caller closes; None when there is none."""
        path = self._directory / f"{key}.tar"
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        size = os.fstat(fd).st_size - _HASH
        if size < 0 or truncation.digest(fd, size).encode() != os.pread(fd, _HASH, size):
            os.close(fd)
            path.unlink(missing_ok=True)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return fd

    def save(self, key: str, archive: int) -> None:
        """Keep an archive, if there is room: else it is built again; the least recently used ones leave."""
        size = os.fstat(archive).st_size
        try:
            with files.replacing(self._directory / f"{key}.tar", durable=False) as file:
                files.copy(archive, file.fileno())
                os.write(file.fileno(), truncation.digest(archive, size).encode())
        except OSError as exc:
            log.warning("a built validator of %d bytes is not kept: %s", size, exc)
        total = 0
        for count, (_, size, old) in enumerate(sorted(map(_entry, self._directory.glob("*.tar")), reverse=True)):
            total += size
            if count >= KEEP or (total > KEEP_BYTES and count > 0):
                old.unlink(missing_ok=True)


def _entry(path: Path) -> tuple[float, int, Path]:
    """The time of an archive's last use, and its size; another slot may have removed it."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0.0, 0, path
    return status.st_mtime, status.st_size, path


def packing() -> Command:
    """The command whose output is the archive of /box."""
    argv = [_TAR, "-C", "/box", *_PACK, "-cf", "-", "."]
    return Command(argv=argv, limits=_LIMITS, writable=True)


def packed(outcome: RunOutcome) -> int | None:
    """A descriptor of the archive, which the caller closes.

    None when not all could be put into it (more than 256 MiB, sockets): it is simply not kept.
    """
    complete = outcome.exit_code == 0 and not outcome.killed and not outcome.read_stderr(1)
    return os.dup(outcome.stdout) if complete else None


def unpack(run: Callable[[Command], RunOutcome], archive: int) -> str:
    """Make /box what it was when it was packed; `run` runs a command there. The first words of what went wrong."""
    os.lseek(archive, 0, os.SEEK_SET)
    argv = [_TAR, "-C", "/box", "--no-same-owner", "-xpf", "-"]
    with run(Command(argv=argv, limits=_LIMITS, writable=True, stdin=archive)) as outcome:
        if outcome.exit_code == 0:
            return ""
        return truncation.text(outcome.read_stderr(200)).strip() or f"tar ended with exit code {outcome.exit_code}"


def compile_limits(seconds: float | None = None, memory: int | None = None) -> Limits:
    """The limits of compilers: the format's, or what the package asks for."""
    limits = COMPILE_LIMITS
    if seconds is not None:
        limits = limits.model_copy(update={"cpu": seconds, "wall": 1.5 * seconds})
    return limits if memory is None else limits.model_copy(update={"memory": memory})
