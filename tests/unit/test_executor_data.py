"""Getting a task's data: manifests, pins, and how long it is tried."""

import hashlib
from pathlib import Path

import pytest

from judge.common.errors import NotFoundError, PackageError, UnavailableError
from judge.executor.storage.blobs import BlobCache
from judge.executor.storage.data import TRIES, BlobClient
from judge.model.messages import Assignment, ProblemRef, Submission, Test
from judge.model.problem import ProblemManifest, ProblemTest


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
