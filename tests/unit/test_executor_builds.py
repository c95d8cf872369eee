"""Built validators as the slots of an executor keep them: damaged, too many, too big, and on a full disk."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from judge.common.files import in_memory
from judge.executor.slot import builds


@pytest.fixture
def kept(tmp_path: Path) -> builds.Builds:
    builds.clear(tmp_path / "builds")
    return builds.Builds(tmp_path / "builds")


def save(kept: builds.Builds, key: str, data: bytes) -> None:
    fd = in_memory(key)
    os.write(fd, data)
    kept.save(key, fd)
    os.close(fd)


def load(kept: builds.Builds, key: str) -> bytes | None:
    """The archive, which ends where its hash begins."""
    fd = kept.load(key)
    if fd is None:
        return None
    with os.fdopen(fd, "rb") as file:
        return file.read()[:-64]


def age(kept: builds.Builds, tmp_path: Path, key: str, seconds: int) -> None:
    """A build that was used so long ago."""
    save(kept, key, key.encode())
    os.utime(tmp_path / "builds" / f"{key}.tar", (1_000_000_000 - seconds, 1_000_000_000 - seconds))


def test_what_was_kept_is_found_until_it_is_damaged(kept, tmp_path):
    assert load(kept, "a") is None
    save(kept, "a", b"archive")
    assert load(kept, "a") == b"archive"
    file = tmp_path / "builds/a.tar"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert load(kept, "a") is None
    assert not file.exists()


def test_a_new_life_begins_with_none(kept, tmp_path):
    save(kept, "a", b"archive")
    builds.clear(tmp_path / "builds")
    assert load(kept, "a") is None


def test_the_least_recently_used_leave(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(builds, "KEEP", 3)
    for key, seconds in (("new", 1), ("old", 3), ("middle", 2)):
        age(kept, tmp_path, key, seconds)
    assert load(kept, "old") == b"old"  # this makes it the most recently used
    save(kept, "fourth", b"4")
    assert {path.stem for path in (tmp_path / "builds").glob("*.tar")} == {"fourth", "old", "new"}


def test_they_have_only_so_many_bytes(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(builds, "KEEP_BYTES", 2500)
    for key in ("first", "second", "third"):
        age(kept, tmp_path, key, 0)
    save(kept, "big", b"x" * 2000)
    assert load(kept, "big") is not None
    assert sum(path.stat().st_size for path in (tmp_path / "builds").glob("*.tar")) <= 2500
    save(kept, "huge", b"x" * 3000)
    assert load(kept, "huge") is not None, "the one that is in use stays"
    assert load(kept, "big") is None


def test_a_full_disk_only_means_building_again(kept, tmp_path, caplog):
    """The limit of this process's files stands for the disk: the write fails in the middle."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    archive = in_memory("a")
    os.write(archive, b"x" * 8192)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        kept.save("a", archive)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        os.close(archive)
    assert load(kept, "a") is None
    assert "a built validator of 8192 bytes is not kept: " in caplog.text
    assert list((tmp_path / "builds").iterdir()) == []


def test_a_wait_for_another_slots_build_can_be_given_up(kept):
    """A slot that is cancelled says so at once, and lets the next one build."""

    def unwanted(_: float) -> None:
        raise InterruptedError

    with kept.building("a", unwanted):
        with pytest.raises(InterruptedError), kept.building("a", unwanted):
            pytest.fail("two build at once")
        with kept.building("b", unwanted):
            pass
    with kept.building("a", unwanted):
        pass
