"""The one way to replace a file on a host that may have no judge yet: judge/common/files.py with `durable`.

Runs on hosts: standard library only.
"""

from __future__ import annotations

import os
from pathlib import Path


def put(path: Path, data: bytes, mode: int) -> None:
    """Replace a file so that readers see the old one or the new one, and a power cut afterwards leaves the new one.

    The mode holds from the first byte.
    """
    written(path, data, mode).replace(path)
    keep_names(path.parent)


def written(path: Path, data: bytes, mode: int) -> Path:
    """The data in a file beside `path`, on the disk, which the caller renames to `path`."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(handle, "wb") as file:
        os.fchmod(handle, mode)
        file.write(data)
        file.flush()
        os.fsync(handle)
    return fresh


def keep_names(directory: Path) -> None:
    """Make the renames in a directory so far outlive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
