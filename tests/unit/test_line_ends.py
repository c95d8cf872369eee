"""Line ends of Windows seen as plain ones: which files, and that memory for them is bounded."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common.errors import PackageError
from judge.problems.importers.line_ends import ChangedLines, plain
from judge.problems.tree import CHUNK, Folder, Tree
from tests.support.packages import folder


class Cut(Tree):
    """One file in pieces that a test chooses; `given` counts those that were asked for."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__("x")
        self.pieces, self.count = pieces, 0
        self.files = {"a": sum(map(len, pieces)), "b": 1}

    def chunks(self, path: str) -> Iterator[bytes]:
        for piece in self.pieces if path == "a" else [b"b"]:
            self.count += 1
            yield piece

    def local(self, path: str) -> Path | None:
        return Path(path)

    def _enter(self, top: str) -> None:
        raise NotImplementedError


@given(st.lists(st.sampled_from([b"", b"\r", b"\n", b"\r\n", b"a", b"bc\r\n", b"d\r"]), max_size=8))
def test_only_files_whose_line_ends_are_all_windows_change(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    remainder = data.replace(b"\r\n", b"")
    tree, mixed = plain(Cut(pieces), ["a", "b", "gone"])
    changed = b"\r\n" in data and not re.search(rb"[\r\n]", remainder)
    expected = data.replace(b"\r\n", b"\n") if changed else data
    assert isinstance(tree, ChangedLines) is changed
    assert set(mixed) <= {"a"} and (not mixed or (b"\r\n" in data and not changed))
    assert b"".join(tree.chunks("a")) == expected and tree.files["a"] == len(expected)
    assert tree.local("a") == (None if changed else Path("a")) and tree.local("b") == Path("b")
    assert b"".join(tree.chunks("b")) == b"b"


def test_a_file_with_plain_line_ends_is_not_read_to_its_end() -> None:
    tree = Cut([b"1", b"2\n", *100 * [b"3\n"]])
    assert plain(tree, ["a"]) == (tree, []) and tree.count == 2


def test_pieces_are_no_longer_than_a_trees(tmp_path: Path) -> None:
    text = b"x" * (CHUNK - 1) + b"\r\n" + b"y" * CHUNK + b"\r\n"
    tree, _ = plain(Folder(folder(tmp_path, {"a": text}, "x")), ["a"])
    pieces = list(tree.chunks("a"))
    assert max(map(len, pieces)) <= CHUNK and b"".join(pieces) == text.replace(b"\r\n", b"\n")


@pytest.mark.parametrize("now", [[b"1\r\n2333"], [b"1\r\n\r\n\r\n"]])
def test_a_file_that_changes_while_it_is_read_is_refused(now: list[bytes]) -> None:
    base = Cut([b"1\r\n2\r\n3"])
    tree, _ = plain(base, ["a"])
    base.pieces = now
    with pytest.raises(PackageError, match="x/a: changed while it was read"):
        list(tree.chunks("a"))
