"""The files of a problem package, without trusting its author; archives are in archives.py.

Nothing is unpacked under a name that the package chose, links never lead out, sizes are limited before anything is
read, and every refusal is a PackageError that names the file.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from judge.common.errors import PackageError
from judge.common.text import one_line

V = TypeVar("V")
MAX_FILES = 20_000
MAX_FILE_BYTES = 256 * 1024**2
MAX_TOTAL_BYTES = 4 * 1024**3
MAX_DEPTH = 16
MAX_NAME_BYTES = 255
CHUNK = 1024**2
# Entries of any kind, also those that are left out: they cost time before anything is known of them.
MAX_ENTRIES = 4 * MAX_FILES
# So many links to folders are followed.
_FOLDER_LINKS = 100

# The one hidden file that means something: the time limit of some legacy packages.
TIME_LIMIT_FILE = ".timelimit"
_LEFT_BEHIND = frozenset({"__MACOSX", "__pycache__", "Thumbs.db", "desktop.ini"})
# Names of which nobody means a file as a part of a package.
_RUBBISH = _LEFT_BEHIND | {
    ".DS_Store", ".git", ".gitignore", ".gitattributes", ".gitkeep", ".keep", ".svn", ".hg", ".idea", ".vscode",
}  # fmt: skip
# So many names that are left out are noted.
_MOST_LEFT_OUT = 100
# Hidden files that are read nevertheless: Polygon keeps its rendered statements in two such folders.
_READ = frozenset({TIME_LIMIT_FILE, ".html", ".pdf"})
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")


class Tree(ABC):
    """The files of a package: relative POSIX path to size in bytes. Hidden and editors' files are left out."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.files: dict[str, int] = {}
        # Links that are not followed, with the reason: what they lead to is no part of the package.
        self.links: dict[str, str] = {}
        # Files that are links to others of the package.
        self.linked_paths: set[str] = set()
        # Files and folders that are left out by their names, and that somebody may have meant; a few of them.
        self.left_out: dict[str, None] = {}
        # Things that must live as long as the tree, such as archives in it.
        self.resources = contextlib.ExitStack()
        self._total = 0
        self._entries_seen = 0

    @abstractmethod
    def chunks(self, path: str) -> Iterator[bytes]:
        """A file's content in pieces of at most CHUNK bytes; PackageError when it is not as announced."""

    def local(self, path: str) -> Path | None:  # noqa: ARG002 - files of an archive have no place of their own
        """The place of the file on this machine, if it is there."""
        return None

    def close(self) -> None:
        self.resources.close()

    def read(self, path: str, limit: int) -> bytes:
        """A whole file, which may have at most `limit` bytes."""
        if self.files[path] > limit:
            raise PackageError(f"{self.where(path)}: has {self.files[path]} bytes; at most {limit} are accepted here")
        return b"".join(self.chunks(path))

    def where(self, path: str) -> str:
        """The file's name for people: printable, and not longer than a line."""
        text = one_line(path)
        return f"{self.label}/{text if len(text) <= 200 else text[:200] + '…'}"

    def below(self, folder: str) -> list[str]:
        return sorted(path for path in self.files if path.startswith(folder + "/"))

    def only_folder(self) -> str | None:
        tops = {path.split("/", 1)[0] for path in self.files}
        top = next(iter(tops), "")
        return top if len(tops) == 1 and top not in self.files else None

    def enter(self, top: str) -> None:
        """Make a folder the root; what lies beside it is no part of the package any more."""
        self.files = within(self.files, top)
        self.links = within(self.links, top)
        self.linked_paths = set(within(dict.fromkeys(self.linked_paths, True), top))
        self.left_out = within(self.left_out, top)
        self.label = f"{self.label}/{top}"
        self._enter(top)

    def _enter(self, top: str) -> None:
        """Told by `enter` that paths are relative to `top` from now on; only what was just opened is entered."""
        raise NotImplementedError

    def _count(self, entries: int = 1) -> None:
        """Note that so many entries are there, whatever becomes of them."""
        self._entries_seen += entries
        if self._entries_seen > MAX_ENTRIES:
            raise PackageError(f"{self.label}: has more than {MAX_ENTRIES} entries, hidden ones included; remove some")

    def _leaves_out(self, path: str) -> bool:
        """Return whether a file or folder is no part of the package by a name in its path; notes what may be meant."""
        parts = path.split("/")
        first = next((index for index, part in enumerate(parts) if ignored(part)), None)
        if first is None:
            return False
        if parts[first] not in _RUBBISH and not parts[first].startswith("._") and len(self.left_out) < _MOST_LEFT_OUT:
            self.left_out["/".join(parts[: first + 1])] = None
        return True

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
    def __init__(self, root: Path) -> None:
        """List the directory; PackageError for what must not be in a package."""
        super().__init__(root.name or str(root))
        self._root = Path(os.path.realpath(root))
        self._linked: dict[str, Path] = {}
        self._link_count = 0
        self._walk(self._root, "")

    def _walk(self, root: Path, prefix: str) -> None:
        """List a directory; `prefix` is what the package calls it, with a slash behind, where it is a link."""
        for folder, folders, files in os.walk(root, onerror=self._unreadable):
            base = Path(folder)
            self._count(len(folders) + len(files))
            names = []
            for name in sorted([*folders, *files]):
                path = prefix + (base / name).relative_to(root).as_posix()
                try:
                    path.encode()
                except UnicodeEncodeError as exc:
                    raise PackageError(f"{self.where(path)}: the file name is not UTF-8; rename it") from exc
                if not self._leaves_out(path):
                    names.append(name)
                    self._look(path, base / name, inside=bool(prefix))
            folders[:] = [name for name in names if name in set(folders)]

    def _look(self, path: str, full: Path, *, inside: bool) -> None:
        """Note one entry; `inside`: of a folder that a link led to, where further links to folders are not followed."""
        status = full.lstat()
        if stat.S_ISLNK(status.st_mode):
            target = Path(os.path.realpath(full))
            if not target.is_relative_to(self._root):
                self.links[path] = "links to something outside the package; copy the file in"
                return
            loop = full.parent.is_relative_to(target)
            if target.is_dir() and not loop and not inside and self._link_count < _FOLDER_LINKS:
                self._link_count += 1
                self._walk(target, path + "/")
                return
            if not target.is_file():
                self.links[path] = "links to what is not a file of the package; copy it in"
                return
            self._linked[path] = target
            self.linked_paths.add(path)
            status = target.stat()
        elif full != self._root / path:
            self._linked[path] = full
            self.linked_paths.add(path)
        if stat.S_ISREG(status.st_mode):
            self._take(path, status.st_size)
        elif not stat.S_ISDIR(status.st_mode):
            raise PackageError(f"{self.where(path)}: is neither a file nor a folder; remove it")

    def _unreadable(self, error: OSError) -> None:
        raise PackageError(f"{error.filename}: cannot be read: {error.strerror}")

    def _enter(self, top: str) -> None:
        self._root /= top
        self._linked = within(self._linked, top)

    def local(self, path: str) -> Path:
        """The file itself, or what its link leads to inside the package."""
        return self._linked.get(path, self._root / path)

    def chunks(self, path: str) -> Iterator[bytes]:
        """The file's content; what became a link or a pipe since it was listed is refused."""
        try:
            handle = os.open(self.local(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(handle, "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor, not a path
                remaining = self.files[path]
                while chunk := file.read(min(CHUNK, remaining + 1)):
                    remaining -= len(chunk)
                    if remaining < 0:
                        break
                    yield chunk
        except OSError as exc:
            raise PackageError(f"{self.where(path)}: cannot be read: {exc.strerror}") from exc
        if remaining:
            raise PackageError(f"{self.where(path)}: changed while it was read; try again")


def clean(text: str, limit: int = 200) -> str:
    """Text of a package for people: one line, printable, cut to `limit` characters."""
    return "".join(char if char.isprintable() else " " for char in text[: 4 * limit]).strip()[:limit]


def is_file_name(name: str) -> bool:
    """Return whether a manifest can have a file of this name (judge.model.names.FileName)."""
    return len(name) <= 255 and _FILE_NAME.fullmatch(name) is not None


def ignored(name: str) -> bool:
    """Whether tools left this behind: hidden files, editors' backups, a Mac's resource forks, Python's caches."""
    return name not in _READ and (name.startswith(".") or name.endswith("~") or name in _LEFT_BEHIND)


def within(paths: dict[str, V], folder: str) -> dict[str, V]:
    return {path[len(folder) + 1 :]: value for path, value in paths.items() if path.startswith(folder + "/")}
