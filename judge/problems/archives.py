"""Packages in archives: ZIP, and tar as it is or compressed. Their files are read out of them, never unpacked.

What a stranger's archive may cost is bounded before it is paid: the directory of a ZIP archive, the headers of a tar
archive, the number of entries of both, hidden ones included, and what a compressed tar archive becomes on disk.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import posixpath
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Generic, TypeVar

from judge.common import zips
from judge.common.errors import PackageError
from judge.problems import tree
from judge.problems.tree import CHUNK, MAX_ENTRIES, Folder, Tree, clean, within

# A ZIP archive's directory: 800 bytes for each of as many entries as there may be.
_DIRECTORY_BYTES = 64 * 1024**2
# Bytes that stand before a file in a tar archive, names included; and the memory that decompressing may take.
_HEADER_BYTES = 1024**2
_BLOCK = 512
_MEMORY = 128 * 1024**2
# The longest path that a link in an archive may hold.
_LINK_BYTES = 4096
_OUTSIDE = "the name leads out of the archive; pack relative names only"
_LINK = "is a link or a special file; pack the file itself"
# Errors that reading a damaged ZIP archive raises.
_DAMAGED = (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, OSError, ValueError, RuntimeError)
# Endings of tar archives, whose names are what stands before.
TAR_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


def open_tree(path: Path) -> Tree:
    """The files of the package at `path`, a directory or an archive; PackageError when it is neither."""
    if path.is_dir():
        return Folder(path)
    if not path.is_file():
        raise PackageError(f"{path}: there is no such directory or ZIP archive")
    return TarArchive(path) if _is_tar(path) else Archive(path)


def stem(path: Path) -> str:
    """The name of an archive without its ending: what a problem is called that has no other name."""
    ending = next((suffix for suffix in TAR_ENDINGS if path.name.lower().endswith(suffix)), path.suffix)
    return path.name[: len(path.name) - len(ending)] if ending else path.name


def _is_tar(path: Path) -> bool:
    """By the ending, or by what stands where tar archives have their mark."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        head = file.read(_BLOCK)
        packed = any(head.startswith(magic) for magic, _ in _PACKERS)
        return packed or path.name.lower().endswith(TAR_ENDINGS) or (head[257:262] == b"ustar" and head[:2] != b"PK")
    return False


def _plain(name: str) -> str:
    """A name without `.` among its folders, "" for the root; ValueError for one that leads out of the archive."""
    parts = [part for part in name.removesuffix("/").split("/") if part != "."]
    if name.startswith("/") or ".." in parts or "\\" in name or (len(name) > 1 and name[1] == ":"):
        raise ValueError(name)
    if "" in parts and parts != [""]:
        raise ValueError(name)
    return "/".join(parts)


M = TypeVar("M")


class _PackedTree(Tree, Generic[M]):
    """An archive whose files are read out of it, never unpacked under their own names."""

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self._members: dict[str, M] = {}

    def _follow(self, name: str, target: str) -> None:
        """A link to a file of the archive is that file; others are noted. Links to links are not followed."""
        path = posixpath.normpath(target)
        if path not in self._members:
            self.links[name] = _LINK
            return
        self._take(name, self.files[path])
        self._members[name] = self._members[path]
        self.linked_paths.add(name)

    def _enter(self, top: str) -> None:
        self._members = within(self._members, top)


class Archive(_PackedTree[zipfile.ZipInfo]):
    def __init__(self, path: Path) -> None:
        """List the archive; PackageError for what must not be in a package."""
        super().__init__(path.name)
        try:
            file = self.resources.enter_context(path.open("rb"))
        except OSError as exc:
            raise PackageError(f"{path}: cannot be read: {exc.strerror}") from exc
        links: list[tuple[str, zipfile.ZipInfo]] = []
        with contextlib.ExitStack() as unless_listed:
            unless_listed.callback(self.close)
            self._zip = self.resources.enter_context(_opened_zip(file, path))
            for entry in self._zip.infolist():
                self._look(entry, links)
            for name, entry in links:
                if 0 < entry.file_size <= _LINK_BYTES:
                    text = b"".join(self._pieces(entry, name)).decode("utf-8", "replace")
                    self._follow(name, posixpath.join(posixpath.dirname(name), text))
                else:
                    self.links[name] = _LINK
            unless_listed.pop_all()

    def _look(self, entry: zipfile.ZipInfo, links: list[tuple[str, zipfile.ZipInfo]]) -> None:
        self._count()
        name = self._name(entry)
        if not name or entry.is_dir() or entry.filename.endswith("\\") or self._leaves_out(name):
            return
        mode = entry.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
            raise PackageError(f"{self.where(name)}: {_LINK}")
        if entry.flag_bits & 0x1:
            raise PackageError(f"{self.where(name)}: is encrypted; pack it without a password")
        if stat.S_ISLNK(mode):
            links.append((name, entry))
            return
        self._take(name, entry.file_size)
        self._members[name] = entry

    def _name(self, entry: zipfile.ZipInfo) -> str:
        """The plain name of an entry; PackageError for one that is none.

        Some tools write UTF-8 without saying so. Those of Windows write its separators, whatever system they name.
        """
        name = entry.filename
        if not name.isascii() and not entry.flag_bits & 0x800:
            try:
                name = name.encode("cp437").decode()
            except UnicodeError as exc:
                raise PackageError(f"{self.where(name)}: the file name is not UTF-8; rename it") from exc
        try:
            return _plain(name.replace("\\", "/"))
        except ValueError as exc:
            raise PackageError(f"{self.where(name)}: {_OUTSIDE}") from exc

    def chunks(self, path: str) -> Iterator[bytes]:
        """The file's content, of exactly the size that the archive's directory announced."""
        return self._pieces(self._members[path], path)

    def _pieces(self, entry: zipfile.ZipInfo, path: str) -> Iterator[bytes]:
        try:
            with self._zip.open(entry) as file:
                remaining = entry.file_size
                while chunk := file.read(CHUNK):
                    remaining -= len(chunk)
                    if remaining < 0:
                        break
                    yield chunk
        except _DAMAGED as exc:
            raise PackageError(f"{self.where(path)}: is damaged in the archive: {clean(str(exc))}") from exc
        if remaining:
            raise PackageError(f"{self.where(path)}: is not as long as the archive's directory says; pack it again")


def _opened_zip(file: IO[bytes], path: Path) -> zipfile.ZipFile:
    try:
        return zips.opened(file, MAX_ENTRIES, _DIRECTORY_BYTES)
    except zips.TooManyEntriesError as exc:
        raise PackageError(f"{path}: {exc}") from exc
    except (zipfile.BadZipFile, zipfile.LargeZipFile, UnicodeDecodeError, NotImplementedError, ValueError) as exc:
        raise PackageError(f"{path}: is not a ZIP archive that can be read: {clean(str(exc))}") from exc
    except OSError as exc:
        raise PackageError(f"{path}: cannot be read: {exc.strerror}") from exc


class _Headers(io.FileIO):
    """A tar archive's file while its headers are read, of which none may be long; PackageError."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= _HEADER_BYTES:
            raise PackageError(f"a header in it has more than {_HEADER_BYTES} bytes")
        return super().read(size) or b""


class TarArchive(_PackedTree[tuple[int, int]]):
    """A package in a tar archive. A compressed one becomes a temporary file without a name first."""

    def __init__(self, path: Path) -> None:
        """List the archive; PackageError for what must not be in a package."""
        super().__init__(path.name)
        try:
            self._file = self.resources.enter_context(_uncompressed(path))
        except OSError as exc:
            raise PackageError(f"{path}: cannot be read: {exc.strerror or clean(str(exc))}") from exc
        with contextlib.ExitStack() as unless_listed:
            unless_listed.callback(self.close)
            try:
                self._list()
            except PackageError as exc:
                raise PackageError(str(exc) if str(exc).startswith(self.label) else f"{self.label}: {exc}") from exc
            except (tarfile.TarError, OSError, EOFError, ValueError, OverflowError) as exc:
                raise PackageError(f"{path}: is not a tar archive that can be read: {clean(str(exc))}") from exc
            unless_listed.pop_all()

    def _list(self) -> None:
        links: list[tuple[str, str]] = []
        with _Headers(os.dup(self._file.fileno()), "rb") as headers:
            headers.seek(0)
            archive = tarfile.TarFile(fileobj=headers, encoding="utf-8")
            for member in archive:
                self._look(member, links)
            end = archive.offset
        if os.pread(self._file.fileno(), _BLOCK, end) != bytes(_BLOCK):
            raise PackageError("is damaged, or ends too early; pack it again")
        for name, target in links:
            self._follow(name, target)

    def _look(self, member: tarfile.TarInfo, links: list[tuple[str, str]]) -> None:
        self._count()
        try:
            member.name.encode()
            name = _plain(member.name)
        except UnicodeEncodeError as exc:
            raise PackageError(f"{self.where(member.name)}: the file name is not UTF-8; rename it") from exc
        except ValueError as exc:
            raise PackageError(f"{self.where(member.name)}: {_OUTSIDE}") from exc
        if not name or member.isdir() or self._leaves_out(name):
            return
        if member.issym() or member.islnk():
            folder = posixpath.dirname(name) if member.issym() else ""
            links.append((name, posixpath.join(folder, member.linkname[:_LINK_BYTES])))
            return
        if not member.isreg() or member.issparse():
            raise PackageError(f"{self.where(name)}: {_LINK}")
        self._take(name, member.size)
        self._members[name] = (member.offset_data, member.size)

    def chunks(self, path: str) -> Iterator[bytes]:
        """The file's content, of exactly the size that its header announced."""
        place, remaining = self._members[path]
        while remaining:
            chunk = os.pread(self._file.fileno(), min(CHUNK, remaining), place)
            if not chunk:
                raise PackageError(f"{self.where(path)}: is cut off in the archive; pack it again")
            place, remaining = place + len(chunk), remaining - len(chunk)
            yield chunk


def _uncompressed(path: Path) -> IO[bytes]:
    """The archive's file, or a temporary one of what it is when uncompressed; OSError, PackageError."""
    file = path.open("rb")
    head = file.read(6)
    file.seek(0)
    opened = next((opener for magic, opener in _PACKERS if head.startswith(magic)), None)
    if opened is None:
        return file
    with file, contextlib.ExitStack() as stack:
        unpacked_file = stack.enter_context(tempfile.TemporaryFile(prefix="judge-archive-"))
        most = tree.MAX_TOTAL_BYTES + 2 * _BLOCK * MAX_ENTRIES
        try:
            for chunk in opened(file):
                most -= len(chunk)
                if most < 0:
                    raise PackageError(f"{path}: has more than {tree.MAX_TOTAL_BYTES} bytes when unpacked")
                unpacked_file.write(chunk)
            unpacked_file.flush()
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as exc:
            raise PackageError(f"{path}: is damaged: {clean(str(exc))}") from exc
        stack.pop_all()
        return unpacked_file


def gunzipped(file: IO[bytes]) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=file) as unpacked:
        while chunk := unpacked.read(CHUNK):
            yield chunk


def _decompressed(file: IO[bytes], make: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor]) -> Iterator[bytes]:
    """One stream behind the other, as parallel packers write them; xz may put zeros between."""
    data = file.read(CHUNK)
    while data:
        unpacker = make()
        while not unpacker.eof:
            if unpacker.needs_input and not data:
                data = file.read(CHUNK)
                if not data:
                    raise EOFError("it ends too early")
            yield unpacker.decompress(data, CHUNK)
            data = b""
        data = unpacker.unused_data.lstrip(b"\0") or file.read(CHUNK)


def unbzipped(file: IO[bytes]) -> Iterator[bytes]:
    return _decompressed(file, bz2.BZ2Decompressor)


def unxzed(file: IO[bytes]) -> Iterator[bytes]:
    return _decompressed(file, lambda: lzma.LZMADecompressor(memlimit=_MEMORY))


_PACKERS: tuple[tuple[bytes, Callable[[IO[bytes]], Iterator[bytes]]], ...] = (
    (b"\x1f\x8b", gunzipped),
    (b"BZh", unbzipped),
    (b"\xfd7zXZ\0", unxzed),
)
