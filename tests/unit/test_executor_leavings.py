"""What a run has left is packed within bounds, whatever a stranger's program has made there."""

import os
import random
from pathlib import Path

import pytest

from judge.executor.slot import leavings
from judge.judicator.tasks import results
from judge.languages import handed
from judge.model import messages as m

NOISE = random.Random(1)


def gathered(directory: Path, **originals: bytes) -> tuple[dict[str, bytes], str]:
    """The files that are kept, and the sentence about the others."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        packed = leavings.gather(fd, {name.replace("_dot_", "."): data for name, data in originals.items()})
    finally:
        os.close(fd)
    assert len(packed.archive) <= leavings.ARCHIVE
    return handed.unpack(packed.archive, leavings.BYTES), packed.sentence


def test_new_and_changed_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "deep/er").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    for name, text in (("main.py", "print()"), ("data.txt", "new"), ("deep/er/chart.png", "\0\1"), (".hidden", "")):
        (tmp_path / name).write_text(text)
    originals = {"main_dot_py": b"print()", "data_dot_txt": b"old", "gone": b"x"}
    assert gathered(tmp_path, **originals) == ({".hidden": b"", "data.txt": b"new", "deep/er/chart.png": b"\0\1"}, "")
    assert gathered(tmp_path / "empty") == ({}, "")


def test_links_and_pipes_are_neither_followed_nor_waited_for(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_text("secret")
    (inside / "own").write_text("own")
    (inside / "file").symlink_to("/etc/passwd")
    (inside / "up").symlink_to("../secret")
    (inside / "directory").symlink_to("/etc")
    (inside / "loop").symlink_to(".")
    os.mkfifo(inside / "pipe")
    assert gathered(inside) == ({"own": b"own"}, "")


def test_the_smallest_files_are_kept_and_the_others_reported(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"noise{number}").write_bytes(NOISE.randbytes(100_000 + number))
    (tmp_path / "small").write_text("x")
    files, sentence = gathered(tmp_path)
    assert sorted(files) == ["noise0", "noise1", "small"]
    assert sentence == (
        "3 of the files that the run left are not kept: 100 are at most, of 2 MiB together and 256 KiB as a ZIP archive"
    )


def test_large_many_and_deep_files_cost_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    content = leavings.read
    monkeypatch.setattr(leavings, "read", lambda fd, size: read.append(size) or content(fd, size))
    os.truncate(os.open(tmp_path / "sparse", os.O_CREAT | os.O_WRONLY), 10 * 1024**3)
    for number in range(50):
        (tmp_path / f"noise{number}").write_bytes(NOISE.randbytes(300_000))
    assert gathered(tmp_path)[0] == {}
    assert sum(read) <= leavings.BYTES
    crowded = tmp_path / "many"
    crowded.mkdir()
    for number in range(leavings._LOOKED_AT + 1):
        (crowded / f"{number}").touch()
    files, sentence = gathered(crowded)
    assert len(files) == leavings.FILES and sentence.startswith("some files that the run left")
    deep = tmp_path / "depth"
    (deep / "/".join("d" * 30)).mkdir(parents=True)
    (deep / "/".join("d" * 30) / "file").touch()
    assert gathered(deep) == ({}, sentence)


def test_a_name_that_no_archive_can_have_is_left_out(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff")).touch()
    files, sentence = gathered(tmp_path)
    assert files == {} and sentence.startswith("1 of the files")


def test_an_unreadable_directory_is_reported() -> None:
    with Path(os.devnull).open("rb") as device:
        packed = leavings.gather(device.fileno(), {})
    assert packed.archive == b"" and packed.sentence.startswith("some files")


def test_an_archive_is_stored_whole_or_not_at_all() -> None:
    result = m.Result(left="A" * (4 * leavings.ARCHIVE // 3))
    assert results.fit(result)["left"] == result.left
    assert results.fit(m.Result(left="A" * (results.LEFT_BYTES + 1)))["left"] is None
