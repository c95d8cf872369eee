"""The one way to replace a file: readers, and a kill at any moment, meet the old content or the new one, never a mix.

Until a new content is complete it is in a leftover-to-be beside its file, `.NAME.THREAD.tmp`. A writer that was killed
leaves one behind. Readers ignore it, as no name of theirs begins with a dot, and `sweep` removes it.

And the one way to make a file in memory, without a name (`in_memory`), and where a cluster's files are by default
(`beside`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from judge.common import failpoint

ALL_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
_NOEXEC_SEAL = 0x8  # MFD_NOEXEC_SEAL, since Linux 6.3
_LEFTOVER = re.compile(r"\..+\.[0-9]+\.tmp")


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o600, *, durable: bool) -> Iterator[IO[bytes]]:
    """The new content of `path`, to be written; it takes the place of the old one when the block ends without an error.

    `durable`: once this has returned, the new content outlives a power cut, which costs two waits for the disk. For
    what cannot be made again. Without it a power cut may leave the old, the new or no content.
    Raises OSError; the old file stays then, unless only the last wait failed. Any thread of any process may call it.
    """
    temporary = path.with_name(f".{path.name}.{threading.get_native_id()}.tmp")
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            os.fchmod(descriptor, mode)
            yield file
            file.flush()
            if durable:
                os.fsync(descriptor)
        failpoint.hit("file.written")
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    failpoint.hit("file.renamed")
    if durable:
        sync_directory(path.parent)


def replace(path: Path, content: str | bytes, mode: int = 0o600, *, durable: bool) -> None:
    """Replace a file by this content (text as UTF-8); see `replacing`."""
    with replacing(path, mode, durable=durable) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def secret_directory(directory: Path) -> None:
    """Make a directory for secrets, readable by its owner only. Git ignores it before anything is in it.

    Raises OSError.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    ignore = directory / ".gitignore"
    if not ignore.exists():
        replace(ignore, "*\n", durable=False)


def sync_directory(directory: Path) -> None:
    """Make renames and new names in a directory outlive a power cut. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(directory: Path) -> None:
    """Remove what killed writers left; called at its start by the one that is then alone to write there."""
    with contextlib.suppress(OSError):
        for path in list(directory.iterdir()):
            if _LEFTOVER.fullmatch(path.name):
                path.unlink(missing_ok=True)


def in_memory(name: str, *, seals: bool = False) -> int:
    """A descriptor of an empty memory file that nobody can execute, where the kernel can say so, closed on exec.

    A host may forbid files that can be executed (`vm.memfd_noexec=2`), or change what is asked for (1): then a program
    that gets a descriptor may seal the file, and one that seals its own output would keep the judge from cutting it.
    `seals`: the caller will (with ALL_SEALS); else nobody can. Raises OSError.
    """
    try:
        fd = os.memfd_create(name, os.MFD_CLOEXEC | _NOEXEC_SEAL)
    except OSError as exc:
        if exc.errno != errno.EINVAL:
            raise
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    if not seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)
    return fd


def copy(source: int, target: int, most: int | None = None) -> None:
    """Append a file, or its first `most` bytes, to another. The kernel copies; nothing passes through this process."""
    offset, size = 0, os.fstat(source).st_size if most is None else min(os.fstat(source).st_size, most)
    while offset < size and (copied := os.sendfile(target, source, offset, size - offset)):
        offset += copied


def read(fd: int, most: int | None = None) -> bytes:
    """A file's content from its start, at most so many bytes, wherever its descriptor stands."""
    size = os.fstat(fd).st_size if most is None else min(os.fstat(fd).st_size, most)
    parts, offset = [], 0
    while offset < size and (part := os.pread(fd, size - offset, offset)):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def beside(sources: Sequence[str], kind: str) -> Path | None:
    """The default place of a cluster's `secrets` or `bundle`: beside the first inventory of `sources` that is a file.

    Of inventory/mine, or inventory/mine/hosts.yml, that is inventory/mine.secrets: within it, Ansible would take what
    is there for hosts. Where inventory/mine/secrets is there from before, it stays. None when no source is a file.
    Roles ask for it as a filter (plugins/filter/judge_inventory.py), and so does judgectl.
    """
    for source in sources:
        path = Path(os.path.normpath(Path(source).absolute()))
        if "," in source or not path.exists():
            continue
        home = path if path.is_dir() else path.parent
        within = home / kind
        return within if within.is_dir() or not home.name else home.with_name(f"{home.name}.{kind}")
    return None
