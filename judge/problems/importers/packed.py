"""Tests that people keep compressed: `1.in.gz` is `1.in`, and `tests.zip` a folder, also where other tests are plain.

What is compressed is unpacked into a temporary directory, under names of our own, within a tree's bounds. What cannot
be unpacked here, and looks like a test, refuses the package: it would be lost.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import posixpath
import re
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO, Any

from judge.common.errors import PackageError
from judge.problems import archives
from judge.problems import tree as trees
from judge.problems.archives import TAR_ENDINGS
from judge.problems.importers.draft import Draft, Overlay, Ref
from judge.problems.importers.pairs import Pair, find_pairs, is_data
from judge.problems.pointers import PointerError, refuse_pointers
from judge.problems.tree import Tree, clean

# Endings of one compressed file, and of those that nothing here unpacks.
_SINGLE: dict[str, Callable[[IO[bytes]], Iterator[bytes]]] = {
    ".gz": archives.gunzipped,
    ".xz": archives.unxzed,
    ".lzma": archives.unxzed,
    ".bz2": archives.unbzipped,
}
_UNREAD = (".zst", ".zstd", ".z", ".lz", ".lz4", ".br")
_ARCHIVES = (".zip", *TAR_ENDINGS)
_UNREAD_ARCHIVES = (".7z", ".rar", ".tar.zst", ".tzst", ".tar.z")
# Names of archives of tests, without their endings; another archive is looked into.
_TESTS = re.compile(
    r"(?:.*[_-])?(?:tests?|testcases?|test[_-]?(?:data|cases)|data|cases|in|inputs?|out|outputs?|ans|answers?|secret)"
    r"(?:[_-].*)?"
)
# Folders and archives of what contestants get, or of programs: no tests are looked for there.
_NO_TESTS = re.compile(
    r"att|attachments?|public|downloads?|additional_file|statements?|docs?|templates?|starter|sources?|src|solutions?"
)
_MOST_ARCHIVES = 20


def holds_tests(tree: Tree) -> bool:
    """Also where one file of a pair is compressed, and the other is small."""
    return bool(_named_archives(tree)) or any(
        pair.answer is not None for pair in find_pairs([*tree.files, *_singles(tree).values()])[0]
    )


def opened(tree: Tree) -> Tree:
    """The tree with what holds tests unpacked, archives as well; the tree itself where nothing does. PackageError."""
    singles = _singles(tree)
    archives = _archives(tree)
    if not singles and not archives:
        return tree
    return Packed(tree, singles, archives)


def unpacked(tree: Tree) -> Tree:
    """The tree with compressed files of tests unpacked, and archives as they are. PackageError."""
    singles = _singles(tree)
    return Packed(tree, singles, []) if singles else tree


def refuse_packed(tree: Tree) -> None:
    """PackageError for compressed tests in the data of a package, whose format has none."""
    for path in tree.below("data"):
        stem, ending = _split(path, (*_ARCHIVES, *_UNREAD_ARCHIVES))
        name = posixpath.basename(stem).lower()
        is_lost = ending and (name in {"secret", "sample"} or _TESTS.fullmatch(name)) and not tree.below(stem)
        if not is_lost:
            stem, ending = _split(path, (*_SINGLE, *_UNREAD))
            is_lost = ending and re.search(r"\.(?:in|ans|out|files)$", stem.lower()) and stem not in tree.files
        if is_lost:
            raise PackageError(
                f"{tree.where(path)}: is compressed, and the package format has only plain files of tests; unpack it"
            )


def _split(path: str, endings: Collection[str]) -> tuple[str, str]:
    """A path without the longest of these endings that it has, and that ending; "" for none."""
    lower = path.lower()
    longest = max((ending for ending in endings if lower.endswith(ending)), key=len, default="")
    return path[: len(path) - len(longest)], longest


def _elsewhere(path: str) -> bool:
    return any(_NO_TESTS.fullmatch(part.lower()) for part in path.split("/")[:-1])


def _singles(tree: Tree) -> dict[str, str]:
    """Compressed files that are tests by their names, with their plain names; PackageError for those of other kinds."""
    plain: dict[str, str] = {}
    unread: dict[str, str] = {}
    for path in sorted(tree.files):
        stem, ending = _split(path, (*_SINGLE, *_UNREAD, *_ARCHIVES, *_UNREAD_ARCHIVES))
        if ending in (*_SINGLE, *_UNREAD) and stem not in tree.files and is_data(stem) and not _elsewhere(path):
            (plain if ending in _SINGLE else unread)[path] = stem
    if not plain and not unread:
        return {}
    pairs, unpaired = find_pairs([*tree.files, *plain.values(), *unread.values()])
    tests = {path for pair in pairs for path in (pair.input, pair.answer)} | {*unpaired}
    lost_path = next((path for path, stem in unread.items() if stem in tests), None)
    if lost_path is not None:
        raise PackageError(
            f"{tree.where(lost_path)}: is a test by its name, and compressed in a way that is not read here; unpack it"
        )
    return {path: stem for path, stem in plain.items() if stem in tests}


def _named_archives(tree: Tree) -> list[str]:
    return [
        path
        for path in sorted(tree.files)
        if (parts := _split(path, _ARCHIVES))[1] and _TESTS.fullmatch(posixpath.basename(parts[0]).lower())
    ]


def _archives(tree: Tree) -> list[str]:
    """Archives that may hold tests; PackageError for those of tests that are not read here, without their tests."""
    members = []
    for path in sorted(tree.files):
        stem, ending = _split(path, (*_ARCHIVES, *_UNREAD_ARCHIVES))
        name = posixpath.basename(stem).lower()
        if not ending or _elsewhere(path) or _NO_TESTS.fullmatch(name):
            continue
        if ending in _ARCHIVES:
            members.append(path)
        elif _TESTS.fullmatch(name) and not tree.below(stem):
            raise PackageError(
                f"{tree.where(path)}: may hold tests by its name, and is an archive of a kind that is not read here; "
                "unpack it, or remove it"
            )
    if len(members) > _MOST_ARCHIVES:
        raise PackageError(f"{tree.label}: has more than {_MOST_ARCHIVES} archives; unpack those with tests")
    return members


class Packed(Overlay):
    """A tree whose compressed files are seen as what is in them. `notes`: what became of them, for people."""

    def __init__(self, base: Tree, singles: dict[str, str], archives: Collection[str]) -> None:
        """Unpack; PackageError for what is damaged, or passes a tree's limits."""
        super().__init__(base)
        self.notes: list[tuple[bool, str]] = []
        folder = Path(self.resources.enter_context(tempfile.TemporaryDirectory(prefix="judge-archive-")))
        for path, size in base.files.items():
            if path in singles:
                self._unpack(path, singles[path], folder / str(len(self._contents)))
            elif path not in archives:
                self._take(path, size)
        if singles:
            self.notes.append((True, f"{len(singles)} compressed files of tests, such as {next(iter(singles))}"))
        for path in archives:
            self._open(path)
        refuse_pointers(self)

    def _open(self, path: str) -> None:
        """See an archive as a folder, where it has tests that are not beside it; else it stays a file."""
        folder = _split(path, _ARCHIVES)[0]
        has_test_name = bool(_TESTS.fullmatch(posixpath.basename(folder).lower()))
        try:
            archive = Draft(self._base, "directory").nested(path)
        except PackageError as exc:
            if has_test_name or isinstance(exc, PointerError):
                raise
            self._take(path, self._base.files[path])
            self.notes.append((False, f"{path}: is not looked into: {exc}"))
            return
        pairs = [pair for pair in find_pairs(archive.files)[0] if pair.answer is not None]
        digests = {_digest(self, pair) for pair in find_pairs(self.files)[0] if pairs and pair.answer is not None}
        repeated = [pair for pair in pairs if _digest(archive, pair) in digests]
        if (pairs and len(repeated) == len(pairs)) or not (pairs or has_test_name):
            self._take(path, self._base.files[path])
            if pairs:
                self.notes.append((False, f"{path}: its {len(pairs)} tests are those beside it"))
            return
        repeated_paths = {name for pair in repeated for name in (pair.input, pair.answer)}
        for name, size in archive.files.items():
            if name not in repeated_paths:
                self._take(f"{folder}/{name}", size)
                self._contents[f"{folder}/{name}"] = Ref(archive, name)
        suffix = f"; {len(repeated)} more are those beside it" if repeated else ""
        self.notes.append((True, f"{len(pairs) - len(repeated)} tests of the archive {path}{suffix}"))

    def _unpack(self, path: str, name: str, target: Path) -> None:
        size = 0
        if not self._base.files[path]:
            raise PackageError(f"{self._base.where(path)}: is damaged: it is empty")
        try:
            source = io.BufferedReader(_TreeFile(self._base.chunks(path)))
            with target.open("wb") as file:
                for piece in _SINGLE[_split(path, _SINGLE)[1]](source):
                    size += len(piece)
                    if size > trees.MAX_FILE_BYTES:
                        msg = f"has more than {trees.MAX_FILE_BYTES} bytes when unpacked; a file may have so many"
                        raise PackageError(f"{self._base.where(path)}: {msg}")
                    file.write(piece)
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, ValueError) as exc:
            raise PackageError(f"{self._base.where(path)}: is damaged: {clean(str(exc))}") from exc
        except MemoryError as exc:
            raise PackageError(f"{self._base.where(path)}: needs more memory to be unpacked than there is") from exc
        except OSError as exc:
            reason = exc.strerror or clean(str(exc))
            raise PackageError(f"{self._base.where(path)}: cannot be unpacked: {reason}") from exc
        self._take(name, size)
        self._contents[name] = target

    def local(self, path: str) -> Path | None:
        """The place of the file, if it was not compressed: what was unpacked goes when the tree is closed."""
        return None if path in self._contents else self._base.local(path)


def _digest(tree: Tree, pair: Pair) -> tuple[bytes, bytes]:
    digests = []
    for path in (pair.input, pair.answer or pair.input):
        digest = hashlib.blake2b()
        for chunk in tree.chunks(path):
            digest.update(chunk)
        digests.append(digest.digest())
    return digests[0], digests[1]


class _TreeFile(io.RawIOBase):
    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._remainder = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._remainder = self._remainder or next(self._chunks, b"")
        piece, self._remainder = self._remainder[: len(buffer)], self._remainder[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)
