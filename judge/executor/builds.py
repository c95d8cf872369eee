"""Built programs, kept by what they were built from: a validator is compiled once per executor.

A build is the `/box` of a sandbox as one tar archive, made and unpacked by `tar` inside sandboxes: nothing outside ever
looks at the names in it. The slots of an executor share the directory; it is emptied at the executor's start, when
compilers may be new. A file begins with the hash of the rest, so a damaged one is made again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from judge.executor.program import COMPILE_LIMITS, Program
from judge.problems.languages import PATH
from judge.rpc.messages import Limits
from judge.sandbox.types import Command, Outcome

log = logging.getLogger(__name__)

# The least recently used builds leave beyond so many, and so many bytes.
KEEP = 64
KEEP_BYTES = 2 * 1024**3
_TAR = "/bin/tar"
_UNPACK = "tar -C /box --no-same-owner -xpf /box/packed.tar && rm /box/packed.tar"
_HASH = 64
_PACKED = "packed.tar"
# Of tar: room for the archive and for what is unpacked from it, which may both count as the run's.
_LIMITS = Limits(cpu=30, wall=60, memory=640 * 1024**2, output=256 * 1024**2)


def key_of(program: Program, versions: Mapping[str, str] | None = None) -> str:
    """What a build depends on: the files and the commands."""
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
    """The directory of one executor, as one of its slots sees it."""

    def __init__(self, directory: Path) -> None:
        """`directory` exists; see `clear`."""
        self._directory = directory

    @contextlib.contextmanager
    def building(self, key: str) -> Iterator[None]:
        """Nobody else builds this meanwhile: two slots that start with one problem compile its validator once."""
        handle = os.open(self._directory / f"{key}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def load(self, key: str) -> bytes | None:
        """The archive of a build, intact, or None."""
        path = self._directory / f"{key}.tar"
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        if hashlib.sha256(data[_HASH:]).hexdigest().encode() != data[:_HASH]:
            path.unlink(missing_ok=True)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return data[_HASH:]

    def save(self, key: str, data: bytes) -> None:
        """Keep an archive, if there is room: else it is built again; the least recently used ones leave."""
        path = self._directory / f"{key}.tar"
        target = self._directory / f"{key}.{os.getpid()}.new"
        try:
            target.write_bytes(hashlib.sha256(data).hexdigest().encode() + data)
            target.rename(path)
        except OSError as exc:
            log.warning("a built validator of %d bytes is not kept: %s", len(data), exc)
        finally:
            target.unlink(missing_ok=True)
        total = 0
        for count, (_, size, old) in enumerate(sorted(map(_kept, self._directory.glob("*.tar")), reverse=True)):
            total += size
            if count >= KEEP or (total > KEEP_BYTES and count > 0):
                old.unlink(missing_ok=True)


def _kept(path: Path) -> tuple[float, int, Path]:
    """When an archive was used last, and its size; another slot may have removed it."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0.0, 0, path
    return found.st_mtime, found.st_size, path


def packing() -> Command:
    """The command whose output is the archive of /box."""
    argv = [_TAR, "-C", "/box", "--numeric-owner", "-cf", "-", "."]
    return Command(argv=argv, limits=_LIMITS, writable=True)


def packed(outcome: Outcome) -> bytes | None:
    """The archive, or None when it could not be made (a build of more than 256 MiB is simply not kept)."""
    return outcome.read_stdout() if outcome.exit_code == 0 and not outcome.killed else None


def unpacking() -> tuple[str, Command]:
    """The name under which to put an archive into /box, and the command that unpacks it there."""
    return _PACKED, Command(argv=["/bin/sh", "-c", _UNPACK], limits=_LIMITS, env={"PATH": PATH}, writable=True)


def compile_limits(seconds: float | None = None, memory: int | None = None) -> Limits:
    """The limits of compilers: the format's, or what the package asks for."""
    limits = COMPILE_LIMITS
    if seconds is not None:
        limits = limits.model_copy(update={"cpu": seconds, "wall": 1.5 * seconds})
    return limits if memory is None else limits.model_copy(update={"memory": memory})
