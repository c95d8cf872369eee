"""Opens ZIP archives of strangers: the entries are counted before an object is made for each of them."""

from __future__ import annotations

import zipfile
from typing import IO, Any, Final

_ENTRY: Final = b"PK\x01\x02"


class TooManyEntriesError(ValueError):
    """The archive's directory has more entries, or more bytes, than are taken."""


class _Counted:
    """A file whose reads are refused while they show more than `entries` entries of a directory, or are too long."""

    def __init__(self, file: IO[bytes], entries: int, directory: int) -> None:
        self._file = file
        self._entries = entries
        self._directory = directory
        self.counting = True

    def read(self, size: int | None = -1) -> bytes:
        length = -1 if size is None else size
        if not self.counting:
            return self._file.read(length)
        if length > self._directory:
            raise TooManyEntriesError(f"its directory has more than {self._directory} bytes; pack fewer files")
        data = self._file.read(length)
        if data.count(_ENTRY) > self._entries:
            raise TooManyEntriesError(f"it has more than {self._entries} entries, hidden ones included; remove some")
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def opened(file: IO[bytes], entries: int, directory: int = 64 * 1024**2) -> zipfile.ZipFile:
    """The archive in a file; TooManyEntriesError for one of more entries, or with a directory of more bytes.

    Otherwise raises what zipfile.ZipFile raises.
    """
    counted = _Counted(file, entries, directory)
    archive = zipfile.ZipFile(counted)
    counted.counting = False
    return archive
