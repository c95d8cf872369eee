"""The spool: what it keeps over a crash, its bound, and what it does not touch."""

import errno
import os

import pytest

from judge.executor.storage.spool import Spool, Spooled
from judge.model.messages import Completed, Result, Status, Verdict


def entry(claim: str, reason: str = "", upload: str | None = None) -> Spooled:
    task = Completed(
        id="0" * 24, attempt=1, claim=claim, status=Status.SUCCESS, verdict=Verdict.AC, result=Result(reason=reason)
    )
    return Spooled(completed=task, upload=upload)


def test_write_load_remove(work):
    spool = Spool(work / "spool", 1 << 20)
    assert spool.load() == []
    first, second = entry("a", upload="/out"), entry("b", "why")
    assert spool.write(first)
    assert spool.write(second)
    os.utime(work / "spool" / "a.json", ns=(1, 1))
    os.utime(work / "spool" / "b.json", ns=(2, 2))
    assert spool.write(second), "again is no error"
    assert len(spool) == 2
    assert spool.bytes == sum(path.stat().st_size for path in (work / "spool").iterdir())
    later = Spool(work / "spool", 1 << 20)
    assert later.load() == [first, second]
    later.remove("a")
    later.remove("a")
    later.remove("never")
    assert [path.name for path in (work / "spool").iterdir()] == ["b.json"]
    assert len(later) == 1


def test_the_bound(work):
    spool = Spool(work / "spool", 1000)
    assert spool.write(entry("a"))
    assert not spool.write(entry("b", "x" * 1000))
    assert len(spool) == 1
    spool.remove("a")
    assert spool.bytes == 0
    count = sum(spool.write(entry(f"claim{number}")) for number in range(10))
    assert 2 <= count < 10
    assert spool.bytes <= 1000, "the bound is that of all entries together"


def test_leftovers_and_foreign_files(work, caplog):
    directory = work / "spool"
    spool = Spool(directory, 1 << 20)
    spool.write(entry("good"))
    (directory / ".half.json.77.tmp").write_text("{")
    (directory / "torn.json").write_text('{"completed"')
    (directory / "notes.txt").write_text("mine")
    (directory / "sub").mkdir()
    later = Spool(directory, 1 << 20)
    assert [item.completed.claim for item in later.load()] == ["good"]
    assert sorted(path.name for path in directory.iterdir()) == ["good.json", "notes.txt", "sub", "torn.bad"]
    assert "torn.json cannot be read" in caplog.text


def test_a_full_disk_is_told_and_leaves_nothing(work, monkeypatch):
    spool = Spool(work / "spool", 1 << 20)

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            spool.write(entry("a"))
    assert list((work / "spool").iterdir()) == []
    assert spool.write(entry("a"))


def test_a_claim_never_becomes_a_path(work):
    spool = Spool(work / "spool", 1 << 20)
    with pytest.raises(OSError, match="cannot name a file"):
        spool.write(entry("../../etc/passwd"))
