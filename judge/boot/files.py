"""Files of the run directory: written so that a kill at any moment leaves the old or the new content, never a mix."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from judge import failpoint


def write_atomic(path: Path, text: str, mode: int = 0o600, *, durable: bool = True) -> None:
    """Replace a file: temporary file, fsync, rename, fsync of the directory. Raises OSError, the old file then stays.

    Without `durable` it is only safe against kills, not against a power cut, and costs no wait for the disk.
    Called by boot for rendered configs and its state, by holds, and by `judge up` for everything it makes.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        failpoint.hit("boot.file.written")
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    failpoint.hit("boot.file.renamed")
    if durable:
        sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make renames and new names in a directory last through a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep_temporaries(directory: Path) -> None:
    """Remove what a killed writer left behind; boot does it at its start, when it alone writes there."""
    for path in directory.glob(".*.tmp"):
        with contextlib.suppress(OSError):
            path.unlink()
