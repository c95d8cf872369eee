"""Files with the line ends of Windows (CR LF), seen with plain ones (LF): programs made for Linux expect those.

A file is seen so where all of its line ends are CR LF; a CR or an LF alone shows that the others are meant. Nothing is
copied: files are looked through once, as far as their first other line end, and changed while they are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from judge.errors import PackageError
from judge.problems.tree import Tree


def plain(tree: Tree, paths: Collection[str]) -> tuple[Tree, list[str]]:
    """The tree with plain line ends in those of these files that have none but Windows'; itself where none has.

    Also the files that have both kinds, which stay as they are.
    """
    counts = {path: _returns(tree.chunks(path)) for path in paths if path in tree.files}
    found = {path: count for path, count in counts.items() if count}
    return PlainEnds(tree, found) if found else tree, [path for path, count in counts.items() if count is None]


class PlainEnds(Tree):
    """A tree of which some files have other line ends."""

    def __init__(self, base: Tree, changed: dict[str, int]) -> None:
        """`changed`: how many line ends are CR LF, by path; all of the file's are."""
        super().__init__(base.label)
        self._base = base
        self.changed = changed
        self.held, self.links = base.held, base.links
        self.files = {path: size - changed.get(path, 0) for path, size in base.files.items()}

    def where(self, path: str) -> str:
        """The file's name for people, which is the one that it has."""
        return self._base.where(path)

    def chunks(self, path: str) -> Iterator[bytes]:
        """The content in pieces; PackageError, too, when it has changed since it was looked through."""
        if path not in self.changed:
            yield from self._base.chunks(path)
            return
        left = self.files[path]
        for piece in _whole(self._base.chunks(path)):
            changed = piece.replace(b"\r\n", b"\n")
            left -= len(changed)
            if left < 0:
                break
            yield changed
        if left:
            raise PackageError(f"{self.where(path)}: changed while it was read; try again")

    def local(self, path: str) -> Path | None:
        """The place of an unchanged file."""
        return None if path in self.changed else self._base.local(path)

    def close(self) -> None:
        """Close what is seen."""
        self._base.close()

    def _enter(self, top: str) -> None:
        raise NotImplementedError


def _returns(chunks: Iterator[bytes]) -> int | None:
    """The number of line ends if all are CR LF; 0 at the first that is not; None when some were before."""
    count = 0
    for piece in _whole(chunks):
        both = piece.count(b"\r\n")
        count += both
        if piece.count(b"\r") != both or piece.count(b"\n") != both:
            return None if count else 0
    return count


def _whole(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces none of which ends between a CR and an LF."""
    held = b""
    for chunk in chunks:
        piece = held + chunk
        held = b"\r" if piece.endswith(b"\r") else b""
        yield piece.removesuffix(held)
    yield held
