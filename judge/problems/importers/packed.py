"""Tests that people keep compressed: `1.in.gz` is `1.in`, and `tests.zip` a folder, where nothing else is a test.

What is compressed is unpacked into a temporary directory, under names of our own, within a tree's bounds.
"""

from __future__ import annotations

import gzip
import io
import posixpath
import re
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from judge.errors import PackageError
from judge.problems import tree as trees
from judge.problems.importers.draft import Draft, Ref
from judge.problems.importers.pairs import find_pairs
from judge.problems.tree import CHUNK, Tree, clean, within

_GZIP = ".gz"
# Names of archives of tests; another archive is whatever it is.
_TESTS = re.compile(
    r"(?:.*[_-])?(?:tests?|testcases?|test[_-]?(?:data|cases)|data|cases|in|inputs?|out|outputs?|ans|answers?)"
    r"(?:[_-].*)?\.zip"
)
_MOST_ARCHIVES = 20


def holds_tests(tree: Tree) -> bool:
    """Says whether there seem to be tests in what is compressed, and none beside it."""
    return not _has_pairs(list(tree.files)) and bool(_archives(tree) or _has_pairs(_unzipped_names(tree)))


def opened(tree: Tree) -> Tree:
    """The tree with what holds its tests unpacked; the tree itself where some are there as they are. PackageError."""
    return Packed(tree) if holds_tests(tree) else tree


def _has_pairs(paths: list[str]) -> bool:
    return any(pair.answer is not None for pair in find_pairs(paths)[0])


def _unzipped_names(tree: Tree) -> list[str]:
    return [path.removesuffix(_GZIP) for path in tree.files if path.endswith(_GZIP)]


def _archives(tree: Tree) -> list[str]:
    found = [path for path in sorted(tree.files) if _TESTS.fullmatch(posixpath.basename(path).lower())]
    return found if len(found) <= _MOST_ARCHIVES else []


class Packed(Tree):
    """A tree whose compressed files are seen as what is in them."""

    def __init__(self, base: Tree) -> None:
        """Unpack; PackageError for what is damaged, or passes a tree's limits."""
        super().__init__(base.label)
        self._base = base
        self.held = base.held
        self._unpacked: dict[str, Path] = {}
        self._inner: dict[str, Ref] = {}
        archives = _archives(base)
        folder = Path(self.held.enter_context(tempfile.TemporaryDirectory(prefix="judge-archive-")))
        for path, size in base.files.items():
            if path in archives:
                self._open(path)
            elif path.endswith(_GZIP) and path.removesuffix(_GZIP) not in base.files:
                self._gunzip(path, folder / str(len(self._unpacked)))
            else:
                self._take(path, size)

    def _open(self, path: str) -> None:
        archive = Draft(self._base, "directory").nested(path)
        folder = path[: -len(".zip")]
        for name, size in archive.files.items():
            self._take(f"{folder}/{name}", size)
            self._inner[f"{folder}/{name}"] = Ref(archive, name)

    def _gunzip(self, path: str, target: Path) -> None:
        size = 0
        try:
            source = io.BufferedReader(_TreeFile(self._base.chunks(path)))
            with gzip.GzipFile(fileobj=source) as packed, target.open("wb") as file:
                while piece := packed.read(CHUNK):
                    size += len(piece)
                    if size > trees.MAX_FILE_BYTES:
                        msg = f"has more than {trees.MAX_FILE_BYTES} bytes when unpacked; a file may have so many"
                        raise PackageError(f"{self._base.where(path)}: {msg}")
                    file.write(piece)
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise PackageError(f"{self._base.where(path)}: is damaged: {clean(str(exc))}") from None
        except OSError as exc:
            raise PackageError(f"{self._base.where(path)}: cannot be unpacked: {exc.strerror}") from None
        name = path.removesuffix(_GZIP)
        self._take(name, size)
        self._unpacked[name] = target

    def chunks(self, path: str) -> Iterator[bytes]:
        """The content in pieces, wherever it is."""
        if path in self._inner:
            yield from self._inner[path].tree.chunks(self._inner[path].path)
        elif path in self._unpacked:
            with self._unpacked[path].open("rb") as file:
                while chunk := file.read(CHUNK):
                    yield chunk
        else:
            yield from self._base.chunks(path)

    def local(self, path: str) -> Path | None:
        """The place of the file, if it was not compressed: what was unpacked goes when the tree is closed."""
        return None if path in self._inner or path in self._unpacked else self._base.local(path)

    def close(self) -> None:
        """Close what was opened, and what it was read from."""
        self._base.close()

    def _enter(self, top: str) -> None:
        self._unpacked = within(self._unpacked, top)
        self._inner = within(self._inner, top)
        self._base.enter(top)


class _TreeFile(io.RawIOBase):
    """A file of a tree, for those that read from files."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        """Begin; nothing is read yet."""
        self._chunks = chunks
        self._left = b""

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """As files have it."""
        self._left = self._left or next(self._chunks, b"")
        piece, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)
