"""Built validators as the slots of an executor keep them: damaged, too many, too big, and on a full disk."""

import os
import resource
from pathlib import Path

import pytest

from judge.common.files import in_memory
from judge.executor.slot import builds


@pytest.fixture
def cache(tmp_path: Path) -> builds.Builds:
    builds.clear(tmp_path / "builds")
    return builds.Builds(tmp_path / "builds")


def save(cache: builds.Builds, key: str, data: bytes) -> None:
    fd = in_memory(key)
    os.write(fd, data)
    cache.save(key, fd)
    os.close(fd)


def load(cache: builds.Builds, key: str) -> bytes | None:
    """The archive, which ends where its hash begins."""
    fd = cache.load(key)
    if fd is None:
        return None
    with os.fdopen(fd, "rb") as file:
        return file.read()[:-64]


def age(cache: builds.Builds, tmp_path: Path, key: str, seconds: int) -> None:
    """A build that was used so long ago."""
    save(cache, key, key.encode())
    os.utime(tmp_path / "builds" / f"{key}.tar", (1_000_000_000 - seconds, 1_000_000_000 - seconds))


def test_a_build_is_found_until_it_is_damaged(cache, tmp_path):
    assert load(cache, "a") is None
    save(cache, "a", b"archive")
    assert load(cache, "a") == b"archive"
    file = tmp_path / "builds/a.tar"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert load(cache, "a") is None
    assert not file.exists()


def test_a_new_process_begins_without_builds(cache, tmp_path):
    save(cache, "a", b"archive")
    builds.clear(tmp_path / "builds")
    assert load(cache, "a") is None


def test_the_least_recently_used_leave(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(builds, "KEEP", 3)
    for key, seconds in (("new", 1), ("old", 3), ("middle", 2)):
        age(cache, tmp_path, key, seconds)
    assert load(cache, "old") == b"old"  # this makes it the most recently used
    save(cache, "fourth", b"4")
    assert {path.stem for path in (tmp_path / "builds").glob("*.tar")} == {"fourth", "old", "new"}


def test_builds_are_bounded_in_bytes(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(builds, "KEEP_BYTES", 2500)
    for key in ("first", "second", "third"):
        age(cache, tmp_path, key, 0)
    save(cache, "big", b"x" * 2000)
    assert load(cache, "big") is not None
    assert sum(path.stat().st_size for path in (tmp_path / "builds").glob("*.tar")) <= 2500
    save(cache, "huge", b"x" * 3000)
    assert load(cache, "huge") is not None, "the one that is in use stays"
    assert load(cache, "big") is None


def test_a_full_disk_only_means_building_again(cache, tmp_path, caplog):
    """The limit of this process's files stands for the disk: the write fails in the middle."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    archive = in_memory("a")
    os.write(archive, b"x" * 8192)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        cache.save("a", archive)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        os.close(archive)
    assert load(cache, "a") is None
    assert "a built validator of 8192 bytes is not kept: " in caplog.text
    assert list((tmp_path / "builds").iterdir()) == []


def test_a_wait_for_another_slots_build_can_be_given_up(cache):
    """A slot that is cancelled says so at once, and lets the next one build."""

    def unwanted(_: float) -> None:
        raise InterruptedError

    with cache.building("a", unwanted):
        with pytest.raises(InterruptedError), cache.building("a", unwanted):
            pytest.fail("two build at once")
        with cache.building("b", unwanted):
            pass
    with cache.building("a", unwanted):
        pass
