"""The one way to replace a file: readers, and a kill at any moment, meet the old content or the new one, never a mix.

Until a new content is complete it is in a leftover-to-be beside its file, `.NAME.THREAD.tmp`. A writer that was killed
leaves one behind. Readers ignore it, as no name of theirs begins with a dot, and `sweep` removes it.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from judge import failpoint

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


def sync_directory(directory: Path) -> None:
    """Make renames and new names in a directory outlive a power cut. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_leftover(name: str) -> bool:
    """Whether a file of this name is what a killed writer left."""
    return _LEFTOVER.fullmatch(name) is not None


def sweep(directory: Path) -> None:
    """Remove what killed writers left; called at its start by the one that is then alone to write there."""
    with contextlib.suppress(OSError):
        for path in list(directory.iterdir()):
            if is_leftover(path.name):
                path.unlink(missing_ok=True)
