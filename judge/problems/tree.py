"""The files of a problem package, from a directory or a ZIP archive, without trusting either.

Nothing is unpacked under a name that the package chose, links never lead out, sizes are limited before anything is
read, and every refusal is a PackageError that names the file.
"""

from __future__ import annotations

import os
import posixpath
import stat
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from judge.errors import PackageError
from judge.text import one_line

MAX_FILES = 20_000
MAX_FILE_BYTES = 256 * 1024**2
MAX_TOTAL_BYTES = 4 * 1024**3
MAX_DEPTH = 16
MAX_NAME_BYTES = 255
CHUNK = 1024**2
# So many links to folders are followed.
_FOLDER_LINKS = 100
# The longest path that a link in an archive may hold.
_LINK_BYTES = 4096

# The one hidden file that means something: the time limit of some legacy packages.
TIME_LIMIT_FILE = ".timelimit"
_LEFT_BEHIND = frozenset({"__MACOSX", "__pycache__", "Thumbs.db", "desktop.ini"})
# Hidden files that are read nevertheless: Polygon keeps its rendered statements in two such folders.
_READ = frozenset({TIME_LIMIT_FILE, ".html", ".pdf"})


class Tree(ABC):
    """The files of a package: relative POSIX path to size in bytes. Hidden and editors' files are left out."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.files: dict[str, int] = {}
        # Links that are not followed, with the reason: what they lead to is no part of the package.
        self.links: dict[str, str] = {}
        self._total = 0

    @abstractmethod
    def chunks(self, path: str) -> Iterator[bytes]:
        """A file's content in pieces of at most CHUNK bytes; PackageError when it is not as announced."""

    @abstractmethod
    def local(self, path: str) -> Path | None:
        """Where the file lies on this machine, if it does."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what was opened."""

    def read(self, path: str, limit: int) -> bytes:
        """A whole file, which may have at most `limit` bytes."""
        if self.files[path] > limit:
            raise PackageError(f"{self.where(path)}: has {self.files[path]} bytes; at most {limit} are accepted here")
        return b"".join(self.chunks(path))

    def where(self, path: str) -> str:
        """The file's name for people: printable, and not longer than a line."""
        shown = one_line(path)
        return f"{self.label}/{shown if len(shown) <= 200 else shown[:200] + '…'}"

    def below(self, folder: str) -> list[str]:
        """All files below a folder, in name order."""
        return sorted(path for path in self.files if path.startswith(folder + "/"))

    def only_folder(self) -> str | None:
        """The one folder that all files lie in, if there is one."""
        tops = {path.split("/", 1)[0] for path in self.files}
        top = next(iter(tops), "")
        return top if len(tops) == 1 and top not in self.files else None

    def enter(self, top: str) -> None:
        """Make the folder that all files lie in the root."""
        self.files = {path.removeprefix(top + "/"): size for path, size in self.files.items()}
        self.links = {path.removeprefix(top + "/"): reason for path, reason in self.links.items()}
        self.label = f"{self.label}/{top}"
        self._enter(top)

    @abstractmethod
    def _enter(self, top: str) -> None:
        """Told by `enter` that paths are relative to `top` from now on."""

    def _take(self, path: str, size: int) -> None:
        """Note one file after checking its name and size against the limits."""
        parts = path.split("/")
        if len(parts) > MAX_DEPTH or any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
            raise PackageError(f"{self.where(path)}: the name is too long, or nested deeper than {MAX_DEPTH} folders")
        if path in self.files:
            raise PackageError(f"{self.where(path)}: is in the archive twice; keep one of the two")
        if size > MAX_FILE_BYTES:
            raise PackageError(f"{self.where(path)}: has {size} bytes; a file may have at most {MAX_FILE_BYTES}")
        self.files[path] = size
        self._total += size
        if len(self.files) > MAX_FILES:
            raise PackageError(f"{self.label}: has more than {MAX_FILES} files; split the problem or remove some")
        if self._total > MAX_TOTAL_BYTES:
            raise PackageError(f"{self.label}: has more than {MAX_TOTAL_BYTES} bytes when unpacked; remove some tests")


class Folder(Tree):
    """A package in a directory."""

    def __init__(self, root: Path) -> None:
        """List the directory; PackageError for what must not be in a package."""
        super().__init__(root.name or str(root))
        self._root = Path(os.path.realpath(root))
        self._linked: dict[str, Path] = {}
        self._followed = 0
        self._walk(self._root, "")

    def _walk(self, root: Path, prefix: str) -> None:
        """List a directory; `prefix` is what the package calls it, with a slash behind, where it is a link."""
        for folder, folders, files in os.walk(root, onerror=self._unreadable):
            base = Path(folder)
            folders[:] = sorted(name for name in folders if not _ignored(name))
            for name in [*folders, *sorted(name for name in files if not _ignored(name))]:
                path = prefix + (base / name).relative_to(root).as_posix()
                try:
                    path.encode()
                except UnicodeEncodeError:
                    raise PackageError(f"{self.where(path)}: the file name is not UTF-8; rename it") from None
                self._look(path, base / name, inside=bool(prefix))

    def _look(self, path: str, full: Path, *, inside: bool) -> None:
        """Note one entry; `inside`: of a folder that a link led to, where further links to folders are not followed."""
        status = full.lstat()
        if stat.S_ISLNK(status.st_mode):
            target = Path(os.path.realpath(full))
            if not target.is_relative_to(self._root):
                self.links[path] = "links to something outside the package; copy the file in"
                return
            loop = full.parent.is_relative_to(target)
            if target.is_dir() and not loop and not inside and self._followed < _FOLDER_LINKS:
                self._followed += 1
                self._walk(target, path + "/")
                return
            if not target.is_file():
                self.links[path] = "links to what is not a file of the package; copy it in"
                return
            self._linked[path] = target
            status = target.stat()
        elif full != self._root / path:
            self._linked[path] = full
        if stat.S_ISREG(status.st_mode):
            self._take(path, status.st_size)
        elif not stat.S_ISDIR(status.st_mode):
            raise PackageError(f"{self.where(path)}: is neither a file nor a folder; remove it")

    def _unreadable(self, error: OSError) -> None:
        raise PackageError(f"{error.filename}: cannot be read: {error.strerror}")

    def _enter(self, top: str) -> None:
        self._root /= top
        self._linked = {path.removeprefix(top + "/"): target for path, target in self._linked.items()}

    def local(self, path: str) -> Path:
        """The file itself, or what its link leads to inside the package."""
        return self._linked.get(path, self._root / path)

    def chunks(self, path: str) -> Iterator[bytes]:
        """The file's content; what became a link or a pipe since it was listed is refused."""
        try:
            handle = os.open(self.local(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(handle, "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor, not a path
                left = self.files[path]
                while chunk := file.read(min(CHUNK, left + 1)):
                    left -= len(chunk)
                    if left < 0:
                        break
                    yield chunk
        except OSError as exc:
            raise PackageError(f"{self.where(path)}: cannot be read: {exc.strerror}") from None
        if left:
            raise PackageError(f"{self.where(path)}: changed while it was read; try again")

    def close(self) -> None:
        """Nothing is open."""


class Archive(Tree):
    """A package in a ZIP archive; its files are read out of it, never unpacked under their own names."""

    def __init__(self, path: Path) -> None:
        """List the archive; PackageError for what must not be in a package."""
        super().__init__(path.name)
        self._prefix = ""
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, zipfile.LargeZipFile, UnicodeDecodeError, NotImplementedError, ValueError) as exc:
            raise PackageError(f"{path}: is not a ZIP archive that can be read: {clean(str(exc))}") from None
        except OSError as exc:
            raise PackageError(f"{path}: cannot be read: {exc.strerror}") from None
        self._entries: dict[str, zipfile.ZipInfo] = {}
        links: list[zipfile.ZipInfo] = []
        try:
            for entry in self._zip.infolist():
                self._look(entry, links)
            for entry in links:
                self._follow(entry)
        except PackageError:
            self._zip.close()
            raise

    def _look(self, entry: zipfile.ZipInfo, links: list[zipfile.ZipInfo]) -> None:
        name = entry.filename.removesuffix("/")
        parts = name.split("/")
        if not name.isascii() and not entry.flag_bits & 0x800:
            raise PackageError(f"{self.where(name)}: the file name is not UTF-8; rename it")
        if name.startswith("/") or "\\" in name or ".." in parts or "" in parts or (len(name) > 1 and name[1] == ":"):
            raise PackageError(f"{self.where(name)}: the name leads out of the archive; pack relative names only")
        if entry.is_dir() or any(_ignored(part) for part in parts):
            return
        mode = entry.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
            raise PackageError(f"{self.where(name)}: is a link or a special file; pack the file itself")
        if entry.flag_bits & 0x1:
            raise PackageError(f"{self.where(name)}: is encrypted; pack it without a password")
        if stat.S_ISLNK(mode):
            links.append(entry)
            return
        self._take(name, entry.file_size)
        self._entries[name] = entry

    def _follow(self, entry: zipfile.ZipInfo) -> None:
        """A link to a file of the archive is that file; others are noted. Links to links are not followed."""
        name = entry.filename
        target = None
        if 0 < entry.file_size <= _LINK_BYTES:
            text = b"".join(self._pieces(entry, name)).decode("utf-8", "replace")
            target = self._entries.get(posixpath.normpath(posixpath.join(posixpath.dirname(name), text)))
        if target is None:
            self.links[name] = "is a link or a special file; pack the file itself"
        else:
            self._take(name, target.file_size)
            self._entries[name] = target

    def _enter(self, top: str) -> None:
        self._prefix += top + "/"

    def local(self, path: str) -> None:  # noqa: ARG002 - the archive's files have no place of their own
        """Nowhere."""
        return

    def chunks(self, path: str) -> Iterator[bytes]:
        """The file's content, of exactly the size that the archive's directory announced."""
        return self._pieces(self._entries[self._prefix + path], path)

    def _pieces(self, entry: zipfile.ZipInfo, path: str) -> Iterator[bytes]:
        try:
            with self._zip.open(entry) as file:
                left = entry.file_size
                while chunk := file.read(CHUNK):
                    left -= len(chunk)
                    if left < 0:
                        break
                    yield chunk
        except (
            zipfile.BadZipFile,
            zlib.error,
            NotImplementedError,
            EOFError,
            OSError,
            ValueError,
            RuntimeError,
        ) as exc:
            raise PackageError(f"{self.where(path)}: is damaged in the archive: {clean(str(exc))}") from None
        if left:
            raise PackageError(f"{self.where(path)}: is not as long as the archive's directory says; pack it again")

    def close(self) -> None:
        """Close the archive."""
        self._zip.close()


def open_tree(path: Path) -> Tree:
    """The files of the package at `path`, a directory or a ZIP archive; PackageError when it is neither."""
    if path.is_dir():
        return Folder(path)
    if not path.is_file():
        raise PackageError(f"{path}: there is no such directory or ZIP archive")
    return Archive(path)


def clean(text: str, limit: int = 200) -> str:
    """Text of a package for people: one line, printable, cut to `limit` characters."""
    return "".join(char if char.isprintable() else " " for char in text[: 4 * limit]).strip()[:limit]


def _ignored(name: str) -> bool:
    """Whether tools left this behind: hidden files, editors' backups, a Mac's resource forks, Python's caches."""
    return name not in _READ and (name.startswith((".", "-")) or name.endswith("~") or name in _LEFT_BEHIND)
