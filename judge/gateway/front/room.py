"""Room for bodies and answers in a gateway's front, in memory and on disk: bounded as a whole and for each client."""

from __future__ import annotations

import asyncio
import io
import logging
import resource
import tempfile
from collections import Counter
from pathlib import Path
from typing import IO

from judge.errors import LimitError, UnavailableError
from judge.text import size

log = logging.getLogger(__name__)

_PIECE = 256 * 1024


class Room:
    """Bytes in use. One event loop uses it; no method is thread-safe."""

    def __init__(self, memory: int, disk: int) -> None:
        """Bound the bytes in memory and on disk. Contents may fill half of the memory.

        The other half is for heads that have begun to come, which cannot go to the disk.
        """
        self._memory, self._disk = memory, disk
        self.memory = 0
        self._held: Counter[str] = Counter()

    @property
    def full(self) -> bool:
        """Says whether a connection has to be closed for want of memory."""
        return self.memory > self._memory

    def fits(self, count: int) -> bool:
        """Says whether so many bytes more of contents may be kept in memory."""
        return self.memory + count <= self._memory // 2

    def take(self, key: str, count: int, most: int) -> None:
        """Take bytes on disk for this key, which has at most `most`. LimitError; UnavailableError: no room."""
        if self._held[key] + count > most:
            raise LimitError(f"at most {size(most)} are taken at once from one person; try again when that is done")
        if self._held.total() + count > self._disk:
            log.warning("no room for %d bytes more, %d are on their way", count, self._held.total())
            raise UnavailableError("this gateway has no room for large transfers now; try again in a few seconds")
        self._held[key] += count

    def give(self, key: str, count: int) -> None:
        """Give bytes on disk back."""
        self._held[key] -= count
        if not self._held[key]:
            del self._held[key]


class Held:
    """A body or an answer as it comes: in memory while it is small, else in a file without a name."""

    def __init__(self, room: Room, directory: Path, key: str, share: int, small: int) -> None:
        """Up to `small` bytes may be kept in memory; `key` has at most `share` bytes on disk, in `directory`."""
        self._room, self._directory, self._key, self._share, self._small = room, directory, key, share, small
        self._memory = bytearray()
        self._file: IO[bytes] | None = None
        self._claimed = 0
        self.length = 0

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self._room.memory -= len(self._memory)
        self._memory = bytearray()
        if self._file is not None:
            self._file.close()
            self._file = None
        self._room.give(self._key, self._claimed)
        self._claimed = 0

    def expect(self, length: int) -> None:
        """Announce a number of bytes. LimitError or UnavailableError when there is no room for them."""
        if length > self._small:
            self._claim(length)

    async def append(self, piece: bytes) -> None:
        """Add a piece; errors as `expect`, and UnavailableError when the disk takes no more."""
        self.length += len(piece)
        if self._file is None and not self._claimed and self.length <= self._small and self._room.fits(len(piece)):
            self._memory += piece
            self._room.memory += len(piece)
            return
        self._claim(self.length)
        self._room.memory += len(piece)
        try:
            # A write to the disk must not hold up the loop.
            await asyncio.get_running_loop().run_in_executor(None, self._write, piece)
        finally:
            self._room.memory -= len(piece)
        self._room.memory -= len(self._memory)
        self._memory = bytearray()

    @property
    def whole(self) -> bytes | None:
        """The content, when it is in memory."""
        return bytes(self._memory) if self._file is None else None

    def pieces(self) -> io.BufferedIOBase | IO[bytes]:
        """The content from its beginning, to be read in pieces."""
        if self._file is None:
            return io.BytesIO(self._memory)
        self._file.seek(0)
        return self._file

    def _claim(self, length: int) -> None:
        more = length - self._claimed
        if more > 0:
            self._room.take(self._key, more, self._share)
            self._claimed = length

    def _write(self, piece: bytes) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._directory, buffering=0)  # noqa: SIM115 - __exit__ closes
                piece = bytes(self._memory) + piece
            view = memoryview(piece)
            while view:
                view = view[self._file.write(view) :]
        except OSError as exc:
            log.error("spool_dir cannot be written: %s", exc.strerror)  # noqa: TRY400 - the disk's fault, not the code's
            raise UnavailableError("this gateway has no room for large transfers; tell its operator") from None


def open_files(wanted: int) -> int:
    """Ask for so many open files, and answer how many this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        soft = min(wanted, hard) if hard != resource.RLIM_INFINITY else wanted
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft
