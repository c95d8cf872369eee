"""What a run leaves is packed within bounds, and excerpts of outputs are bounded, whatever a program has made."""

import errno
import hashlib
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.executor.slot import leavings, truncation
from judge.executor.table import REPORT_BYTES
from judge.judicator.tasks import results
from judge.languages import handed
from judge.model import messages as m
from judge.model.messages import TestResult, Verdict
from judge.sandbox.types import RunOutcome

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


def outcome(out: bytes = b"", err: bytes = b"") -> RunOutcome:
    fds = []
    for data in (out, err):
        fd = os.memfd_create("test")
        os.write(fd, data)
        fds.append(fd)
    return RunOutcome(0, None, frozenset(), 0.0, 0.0, 0, 1, fds[0], fds[1])


@given(st.binary(max_size=3000), st.binary(max_size=3000), st.integers(0, 20_000))
def test_the_budget_holds(out, err, total):
    with outcome(out, err) as run:
        first, second = truncation.printed(run)
    assert (first, second) == (truncation.text(out[:1024]), truncation.text(err[:1024]))
    budget = truncation.OutputBudget(total, total)
    for verdict in (Verdict.AC, Verdict.WA):
        used = 0
        for _ in range(4):
            test = TestResult(name="1", verdict=verdict, output=first, error=second, message=first, feedback=second)
            budget.trim(test)
            texts = (test.output, test.error, test.message, test.feedback)
            used += sum(truncation.json_size(text) for text in texts if text)
            assert (test.output, test.error) in {(first, second), ("", "")}, "both or none"
        assert used <= total


def test_thousands_of_failing_tests_fit_into_a_report():
    budget = truncation.OutputBudget()
    noise = "\x01" * truncation.SHOWN
    tests = [TestResult(name=f"{n}", verdict=Verdict.WA, output=noise, error=noise) for n in range(10_000)]
    for test in tests:
        budget.trim(test)
    assert tests[0].output == noise
    assert sum(len(test.model_dump_json()) for test in tests) < REPORT_BYTES


def test_build_log():
    with outcome(b"note\n", b"error\n") as run:
        assert truncation.build_log(run, str.upper) == "ERROR\n\nNOTE\n"
    with outcome(b"", b"\xff" * truncation.LOG * 5) as run:
        log = truncation.build_log(run, lambda log: log * 2)
        assert log.endswith(f"… cut after {truncation.LOG} characters\n")
        assert len(log) < truncation.LOG + 100


def test_clip():
    assert truncation.clip("abc", 3) == "abc"
    assert truncation.clip("abcd", 3) == "ab…"


def test_digest():
    data = os.urandom(3 << 20)
    with outcome(data) as run:
        assert truncation.digest(run.stdout, len(data)) == hashlib.sha256(data).hexdigest() == truncation.sha256(data)
        assert truncation.digest(run.stdout, len(data) + 10) == truncation.sha256(data), "shorter than told"


def test_sealed(work):
    (work / "blob").write_bytes(b"x" * 100_000)
    for source, expected in ((b"abc", b"abc"), (work / "blob", b"x" * 100_000), (b"", b"")):
        fd = truncation.sealed(source)
        try:
            assert os.read(fd, 200_000) == expected
            with pytest.raises(OSError, match="not permitted") as caught:
                os.write(fd, b"y")
            assert caught.value.errno == errno.EPERM
        finally:
            os.close(fd)
    with pytest.raises(FileNotFoundError):
        truncation.sealed(work / "missing")
