"""The files that a run has left in its directory, packed for its result: never through a link, and bounded."""

from __future__ import annotations

import contextlib
import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from judge.common.files import read
from judge.languages import handed

# Of one result: files, bytes of all of them, and of the archive that they come in.
FILES: Final = 100
BYTES: Final = handed.LEFT_BYTES
ARCHIVE: Final = 256 * 1024
# Names that are looked at, and directories inside one another: those beyond are not kept.
_LOOKED_AT: Final = 4096
_DEPTH: Final = 16
# Bytes that an archive has beside contents: for each file, which also has its name twice, and for itself.
_ENTRY, _END = 80, 22
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True)
class Leavings:
    """The files kept, as a ZIP archive (empty for none), and a sentence about the others (empty for none)."""

    archive: bytes
    sentence: str


@dataclass(frozen=True)
class _File:
    name: str
    size: int


class _Tree:
    """The files below a directory that nobody can change any more. Its names are a stranger's, and so are its links."""

    def __init__(self, directory: int) -> None:
        self._directory = directory
        self._looked = 0
        self.whole = True  # no name was left out for want of time

    def files(self) -> list[_File]:
        """All regular files, the smallest first."""
        with contextlib.suppress(OSError):
            return sorted(self._below(self._directory, "", 0), key=lambda file: (file.size, file.name))
        self.whole = False
        return []

    def _below(self, directory: int, prefix: str, depth: int) -> Iterator[_File]:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            self._looked += 1
            if self._looked > _LOOKED_AT:
                self.whole = False
                return
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                yield _File(prefix + name, status.st_size)
            elif stat.S_ISDIR(status.st_mode) and depth == _DEPTH:
                self.whole = False
            elif stat.S_ISDIR(status.st_mode):
                with self._opened(directory, name, os.O_DIRECTORY) as inner:
                    if inner is not None:
                        yield from self._below(inner, f"{prefix}{name}/", depth + 1)

    @contextlib.contextmanager
    def _opened(self, directory: int, name: str, flags: int = 0) -> Iterator[int | None]:
        """A descriptor of what has this name; None for what cannot be read."""
        try:
            fd = os.open(name, _READ | flags, dir_fd=directory)
        except OSError:
            self.whole = False
            yield None
            return
        try:
            yield fd
        finally:
            os.close(fd)

    def read(self, file: _File) -> bytes | None:
        """The content of a file; None when it cannot be read."""
        with contextlib.ExitStack() as stack:
            directory = self._directory
            *parents, last = file.name.split("/")
            for name in parents:
                inner = stack.enter_context(self._opened(directory, name, os.O_DIRECTORY))
                if inner is None:
                    return None
                directory = inner
            fd = stack.enter_context(self._opened(directory, last))
            return None if fd is None else read(fd, file.size)


def gather(directory: int, before: Mapping[str, bytes]) -> Leavings:
    """The files of a directory but those that `before` has with the same content; the smallest first, while they fit.

    `directory` is a descriptor of what a run has left, all of whose processes are dead. Called by the slot.
    """
    tree = _Tree(directory)
    contents: dict[str, bytes] = {}
    omitted, size, packed = 0, 0, _END
    for file in tree.files():
        if file.name in before and len(before[file.name]) == file.size and tree.read(file) == before[file.name]:
            continue
        data = tree.read(file) if len(contents) < FILES and size + file.size <= BYTES else None
        size += 0 if data is None else file.size
        entry = _entry(file.name, data)
        if data is None or entry is None or packed + entry > ARCHIVE:
            omitted += 1
            continue
        contents[file.name] = data
        packed += entry
    sentence = ""
    if omitted or not tree.whole:
        count = f"{omitted} of the files" if tree.whole else "some files"
        sentence = (
            f"{count} that the run left are not kept: {FILES} are at most, of {BYTES // 1024**2} MiB together and "
            f"{ARCHIVE // 1024} KiB as a ZIP archive"
        )
    return Leavings(handed.pack(dict(sorted(contents.items()))) if contents else b"", sentence)


def _entry(name: str, data: bytes | None) -> int | None:
    """The number of bytes of an archive that a file takes; None when it cannot be in one."""
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        return None
    return None if data is None else len(zlib.compress(data)) + 2 * len(encoded) + _ENTRY
