"""Built validators as the slots of an executor keep them: damaged, too many, too big, and on a full disk."""

import hashlib
import os
import resource
from pathlib import Path

import pytest

from judge.common.errors import NotFoundError, PackageError, UnavailableError
from judge.common.files import in_memory
from judge.executor.slot import builds
from judge.executor.storage.blobs import BlobCache
from judge.executor.storage.data import TRIES, BlobClient
from judge.model.messages import Assignment, ProblemRef, Submission, Test
from judge.model.problem import ProblemManifest, ProblemTest


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


class Store:
    """Where the cache fetches from: a dict, which may be away for some calls."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.away = 0
        self.calls = 0

    def put(self, data: bytes) -> str:
        sha = hashlib.sha256(data).hexdigest()
        self.blobs[sha] = data
        return sha

    def fetch(self, sha: str, target: Path) -> None:
        self.calls += 1
        if self.away:
            self.away -= 1
            raise UnavailableError("nobody answers")
        if sha not in self.blobs:
            raise NotFoundError(f"there is no blob {sha}")
        target.write_bytes(self.blobs[sha])


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def blob_client(store, work):
    cache = BlobCache(work / "blobs", 1 << 20, store.fetch)
    return BlobClient(cache, rpc=None)


def assignment(problem: str | None = None, tests: list[Test] | None = None) -> Assignment:
    ref = ProblemRef(name="p", hash=problem) if problem else None
    return Assignment(id="1" * 24, attempt=1, claim="c", submission=Submission(tests=tests or []), problem=ref)


def test_an_assignment_without_data(blob_client):
    data = blob_client.prepare(assignment(), lambda: True)
    assert (data.data, data.blobs) == (None, {})


def test_a_problem_and_blobs(blob_client, store, work):
    input_sha, answer = store.put(b"in"), store.put(b"out")
    manifest = ProblemManifest(name="p", tests=[ProblemTest(name="1", input=input_sha, answer=answer)])
    sha = store.put(manifest.model_dump_json().encode())
    data = blob_client.prepare(assignment(sha, [Test(name="1", input_blob=input_sha, answer="x")]), lambda: True)
    assert data.data.manifest == manifest
    assert Path(data.data.files[input_sha]).read_bytes() == b"in"
    assert Path(data.data.files[answer]).read_bytes() == b"out"
    assert set(data.blobs) == {input_sha}
    assert blob_client._cache._pins
    data.pins.close()
    assert not blob_client._cache._pins


@pytest.mark.parametrize("text", [b"not json", b"{}", b'{"name": "p", "tests": [], "odd": 1}'])
def test_a_bad_manifest_is_refused(blob_client, store, work, text):
    with pytest.raises(PackageError, match="is not a manifest"):
        blob_client.prepare(assignment(store.put(text)), lambda: True)
    assert not blob_client._cache._pins


def test_fetching_is_tried_several_times(blob_client, store):
    sha = store.put(b"x")
    task = assignment(tests=[Test(name="1", input_blob=sha)])
    store.away = TRIES - 1
    assert blob_client.prepare(task, lambda: True).blobs
    unfetched = assignment(tests=[Test(name="1", input_blob=store.put(b"y"))])
    store.away = 99
    with pytest.raises(UnavailableError, match="nobody answers"):
        blob_client.prepare(unfetched, lambda: True)
    assert store.away == 99 - TRIES
    with pytest.raises(UnavailableError):
        blob_client.prepare(unfetched, lambda: False)
    assert store.away == 98 - TRIES, "an unwanted task is tried for once"


def test_a_missing_blob_is_an_error(blob_client):
    with pytest.raises(NotFoundError):
        blob_client.prepare(assignment(tests=[Test(name="1", input_blob="a" * 64)]), lambda: True)
