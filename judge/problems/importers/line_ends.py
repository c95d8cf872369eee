"""The line ends of tests, as the system of a package gives them to programs.

Some systems change the line ends of Windows (CR LF) before they run anything; programs here run on Linux, and get the
same. Nothing is copied: a file is read once to see what changes, and changed again each time that it is read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from judge.common.errors import PackageError
from judge.common.text import several
from judge.problems.importers.cases import ImportedCase
from judge.problems.importers.draft import Content, Draft, Overlay, Ref
from judge.problems.tree import Tree

LineRule = Callable[[Iterator[bytes]], Iterator[bytes]]
# A run of blanks that ends a line, and one of both kinds within a line, each looked at from its beginning alone.
_ENDING_BLANKS = re.compile(rb"(?<![ \r])[ \r]++\n")
_BLANKS = re.compile(rb"(?<![ \r])[ \r]{2,}+")


def unix(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Every CR LF as LF: the rule of dos2unix, by which TPS makes inputs, and of Polygon's packages for Windows."""
    for piece in _whole_lines(chunks):
        yield piece.replace(b"\r\n", b"\n")


def dmoj(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """DMOJ's rule: CR LF and CR become LF, and the last line gets an end; an empty file stays empty."""
    last = b"\n"
    for piece in _whole_lines(chunks):
        changed = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        last = changed[-1:] or last
        yield changed
    if last != b"\n":
        yield b"\n"


def uoj(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The rule of UOJ's formatter: blanks and CR at the end of a line go, and the last line gets an end.

    Within a line, those of a run of both kinds stand together by their kinds. An empty file stays empty.
    """
    buffer, last = b"", b"\n"
    for chunk in chunks:
        last = chunk[-1:] or last
        piece = buffer + chunk
        body = piece.rstrip(b" \r")
        buffer = piece[len(body) :]
        body = _ENDING_BLANKS.sub(b"\n", body)
        yield _BLANKS.sub(_by_kind, body) if b" \r" in body or b"\r " in body else body
    if last != b"\n":
        yield b"\n"


def _by_kind(ordered_returns: re.Match[bytes]) -> bytes:
    kinds = (b" ", b"\r") if ordered_returns[0].startswith(b" ") else (b"\r", b" ")
    return b"".join(kind * ordered_returns[0].count(kind) for kind in kinds)


def plain(tree: Tree, paths: Collection[str]) -> tuple[Tree, list[str]]:
    """The tree with plain line ends in those of these files that have none but Windows'; itself where none has.

    Also the files that have both kinds, which stay as they are.
    """
    counts = {path: returns(tree.chunks(path)) for path in paths if path in tree.files}
    sizes = {path: tree.files[path] - count for path, count in counts.items() if count}
    return ChangedLines(tree, sizes, unix) if sizes else tree, [path for path, count in counts.items() if count is None]


def change(
    draft: Draft, cases: Iterable[ImportedCase], rule: LineRule, system: str, exempt: Collection[Ref] = ()
) -> None:
    """Have the files of these tests by a system's rule, except for `exempt`; what changes is reported."""
    all_cases = list(cases)
    refs = [
        part for case in all_cases for part in (case.input, case.answer) if isinstance(part, Ref) and part not in exempt
    ]
    changed = _changed(refs, rule)
    for case in all_cases:
        case.input, case.answer = _new(case.input, changed), _new(case.answer, changed)
    if changed:
        count = several(len(changed), "file")
        draft.report.took(
            f"line ends of {count} of tests are changed as {system}, such as in {next(iter(changed)).path}"
        )


def say_kept(draft: Draft) -> None:
    """Report the inputs of a draft that have line ends of Windows: programs get them as they are."""
    contents = [content for path, content in draft.files.items() if path.startswith("data/") and path.endswith(".in")]
    with_returns = [
        content for content in contents if isinstance(content, Ref) and returns(content.tree.chunks(content.path)) != 0
    ]
    if with_returns:
        count = "1 input has" if len(with_returns) == 1 else f"{len(with_returns)} inputs have"
        draft.report.took(
            f"{count} line ends of Windows (CR LF), such as {with_returns[0].path}: programs get them as they are"
        )


def _new(content: Content, changed: dict[Ref, Ref]) -> Content:
    return changed.get(content, content) if isinstance(content, Ref) else content


def _changed(refs: Sequence[Ref], rule: LineRule) -> dict[Ref, Ref]:
    """Those of these files that a rule changes, each with what takes its place."""
    sizes: dict[Tree, dict[str, int]] = {}
    for ref in dict.fromkeys(refs):
        size = _size_changed(ref, rule)
        if size is not None:
            sizes.setdefault(ref.tree, {})[ref.path] = size
    trees = {tree: ChangedLines(tree, tree_sizes, rule) for tree, tree_sizes in sizes.items()}
    return {Ref(tree, path): Ref(trees[tree], path) for tree, tree_sizes in sizes.items() for path in tree_sizes}


def _size_changed(ref: Ref, rule: LineRule) -> int | None:
    """The size of a file when it is changed; None where the rule leaves it as it is, or it is binary (has a NUL)."""
    before, after = hashlib.blake2b(), hashlib.blake2b()
    binary = False

    def counted_pieces() -> Iterator[bytes]:
        nonlocal binary
        for chunk in ref.tree.chunks(ref.path):
            binary = binary or (rule is unix and b"\0" in chunk)
            before.update(chunk)
            yield chunk

    size = 0
    for piece in rule(counted_pieces()):
        size += len(piece)
        after.update(piece)
    return None if binary or before.digest() == after.digest() else size


class ChangedLines(Overlay):
    """A tree of which some files have other line ends, and sizes."""

    def __init__(self, base: Tree, sizes: dict[str, int], rule: LineRule) -> None:
        """`sizes`: those of the changed files, by path."""
        super().__init__(base)
        self._rule = rule
        self.changed = sizes
        self.files = {**base.files, **sizes}

    def chunks(self, path: str) -> Iterator[bytes]:
        """The content in pieces; PackageError, too, when it has changed since it was looked through."""
        if path not in self.changed:
            yield from self._base.chunks(path)
            return
        remaining = self.files[path]
        for changed in self._rule(self._base.chunks(path)):
            remaining -= len(changed)
            if remaining < 0:
                break
            yield changed
        if remaining:
            raise PackageError(f"{self.where(path)}: changed while it was read; try again")

    def local(self, path: str) -> Path | None:
        return None if path in self.changed else self._base.local(path)


def returns(chunks: Iterator[bytes]) -> int | None:
    """The number of line ends if all are CR LF; 0 at the first that is not; None when some were before."""
    count = 0
    for piece in _whole_lines(chunks):
        pairs = piece.count(b"\r\n")
        count += pairs
        if piece.count(b"\r") != pairs or piece.count(b"\n") != pairs:
            return None if count else 0
    return count


def _whole_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces none of which ends between a CR and an LF."""
    buffer = b""
    for chunk in chunks:
        piece = buffer + chunk
        buffer = b"\r" if piece.endswith(b"\r") else b""
        yield piece.removesuffix(buffer)
    yield buffer
