"""The blob cache: verification, repair, eviction, pins, full disks, and several threads."""

import errno
import hashlib
import multiprocessing
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge.common.errors import FieldError, NotFoundError, UnavailableError
from judge.executor.storage import blobs
from judge.executor.storage.blobs import BlobCache

# The last use of a blob is noted in steps of a second; here every use counts.
pytestmark = pytest.mark.usefixtures("every_use_counts")


@pytest.fixture
def every_use_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "_TOUCH_NS", 0)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Source:
    """Where blobs come from; counts what was asked for."""

    def __init__(self, *contents: bytes) -> None:
        self.contents = {sha(data): data for data in contents}
        self.requests: list[str] = []

    def __call__(self, name: str, target: Path) -> None:
        self.requests.append(name)
        if name not in self.contents:
            raise NotFoundError(f"no blob {name}")
        target.write_bytes(self.contents[name])


Make = Callable[..., BlobCache]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes caches on one directory; each stands for a new life of the executor."""

    def build(source: Any = None, limit: int = 10**6) -> BlobCache:
        return BlobCache(tmp_path / "cache", limit, source or Source())

    return build


def put(cache: BlobCache, data: bytes) -> str:
    """Have the cache fetch these bytes; their name."""
    fetch, cache._fetch = cache._fetch, lambda _, target: target.write_bytes(data)
    try:
        cache.get(sha(data))
    finally:
        cache._fetch = fetch
    return sha(data)


def read(cache: BlobCache, name: str) -> bytes:
    return cache.get(name).read_bytes()


def files(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "cache").glob("??/*")}


def test_a_missing_blob_is_fetched_once_and_kept(make: Make, tmp_path: Path):
    source, name = Source(b"data"), sha(b"data")
    cache = make(source)
    assert cache.get(name) == tmp_path / "cache" / name[:2] / name
    assert read(cache, name) == b"data"
    assert source.requests == [name]
    assert stat.S_IMODE(cache.get(name).stat().st_mode) == 0o400
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


def test_half_written_files_leave_at_the_start(make: Make, tmp_path: Path):
    for name in ("new", "process/1-dead"):  # the second one as earlier releases had it
        (tmp_path / "cache" / name).mkdir(parents=True)
        (tmp_path / "cache" / name / "0").write_bytes(b"half")
    make()
    assert [path.name for path in (tmp_path / "cache").rglob("*")] == ["new"]


def wrong(_: str, target: Path) -> None:
    target.write_bytes(b"something else")


def broken(_: str, __: Path) -> None:
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        (Source(), NotFoundError, "no blob"),
        (wrong, UnavailableError, "does not match its name"),
        (broken, OSError, "Input/output"),
    ],
)
def test_errors_of_fetching_pass_and_leave_nothing(make: Make, tmp_path: Path, source, error, words):
    with pytest.raises(error, match=words):
        make(source).get(sha(b"nowhere"))
    assert files(tmp_path) == set()
    assert list((tmp_path / "cache/new").iterdir()) == []


@pytest.mark.parametrize("name", ["", "x", "A" * 64, "../" + "a" * 61, "a" * 63 + "\n", "a" * 65])
def test_names_that_are_no_hash_are_refused(make: Make, name: str):
    cache = make()
    with pytest.raises(FieldError, match="is not a SHA-256"):
        cache.get(name)
    with pytest.raises(FieldError), cache.pinned([name]):
        pass


@pytest.mark.parametrize("again", [False, True], ids=["same life", "new life"])
@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "grow", "directory", "link", "loop"])
def test_damage_is_found_and_repaired(make: Make, tmp_path: Path, harm: str, again: bool):
    source = Source(b"precious")
    cache = make(source)
    path = cache.get(sha(b"precious"))
    path.chmod(0o644)
    if harm in ("directory", "link", "loop"):
        path.unlink()
        if harm == "directory":
            path.mkdir()
        else:
            path.symlink_to("/etc/hostname" if harm == "link" else path.name)
    else:
        path.write_bytes({"flip": b"preciouS", "cut": b"preci", "empty": b"", "grow": b"precious!"}[harm])
    if again:
        cache = make(source)
    assert read(cache, sha(b"precious")) == b"precious"
    assert len(source.requests) == 2


def test_an_unchanged_file_is_hashed_once(make: Make, monkeypatch: pytest.MonkeyPatch):
    cache = make(Source(b"x"))
    cache.get(sha(b"x"))
    hashed: list[int] = []
    real = hashlib.file_digest

    def counting(*arguments: Any) -> Any:
        hashed.append(1)
        return real(*arguments)

    monkeypatch.setattr(hashlib, "file_digest", counting)
    for _ in range(5):
        cache.get(sha(b"x"))
    assert hashed == []
    os.utime(cache.get(sha(b"x")), ns=(0, 0))
    cache.get(sha(b"x"))
    assert hashed == [1], "another mtime: hashed again"
    make(Source()).get(sha(b"x"))
    assert hashed == [1, 1], "a new process trusts nobody"


def test_an_unreadable_blob_is_damaged(make: Make, monkeypatch: pytest.MonkeyPatch):
    source = Source(b"sector")
    make(source).get(sha(b"sector"))
    fails = [True]
    real = hashlib.file_digest

    def broken(*arguments: Any) -> Any:
        if fails:
            fails.pop()
            raise OSError(errno.EIO, "Input/output error")
        return real(*arguments)

    monkeypatch.setattr(hashlib, "file_digest", broken)
    assert read(make(source), sha(b"sector")) == b"sector"
    assert len(source.requests) == 2


def test_the_least_recently_used_leave(make: Make, tmp_path: Path):
    contents = [bytes([65 + place]) * 100 for place in range(10)]
    cache = make(Source(*contents), limit=1000)
    for data in contents:
        cache.get(sha(data))
    cache.get(sha(contents[0]))
    put(cache, b"new" * 10)
    names = files(tmp_path)
    assert sha(contents[0]) in names and sha(b"new" * 10) in names
    assert sha(contents[1]) not in names and sha(contents[2]) not in names
    assert sum(path.stat().st_size for path in (tmp_path / "cache").glob("??/*")) <= 900


def test_a_blob_bigger_than_the_limit_is_still_delivered(make: Make):
    big = b"b" * 5000
    cache = make(Source(big), limit=1000)
    put(cache, b"small")
    assert read(cache, sha(big)) == big


def test_a_new_process_brings_the_directory_under_its_limit(make: Make, tmp_path: Path):
    cache = make(limit=10**6)
    for place in range(10):
        put(cache, bytes([place]) * 1000)
    make(limit=5000)
    assert len(files(tmp_path)) == 4


def test_pinned_blobs_stay(make: Make, tmp_path: Path):
    contents = [bytes([65 + place]) * 100 for place in range(5)]
    cache = make(Source(*contents), limit=1000)
    names = [sha(data) for data in contents]
    with cache.pinned(names) as paths, cache.pinned(names[:1]):
        assert list(paths) == names
        for place in range(40):
            put(cache, f"{place:0100d}".encode())
        assert all(path.exists() for path in paths.values())
        assert set(names) <= files(tmp_path)
    for place in range(40):
        put(cache, f"{place:0102d}".encode())
    assert not set(names) & files(tmp_path)


def test_a_blob_that_is_pinned_twice_stays_until_both_pins_are_gone(make: Make, tmp_path: Path):
    cache = make(Source(b"p" * 100), limit=1000)
    name = sha(b"p" * 100)
    with cache.pinned([name]):
        with cache.pinned([name]), pytest.raises(NotFoundError), cache.pinned([name, sha(b"nowhere")]):
            pass
        for place in range(40):
            put(cache, f"{place:0100d}".encode())
        assert name in files(tmp_path)


class FullDisk(Source):
    """Fails with ENOSPC as long as the directory has more than so many blobs."""

    def __init__(self, directory: Path, room: int, *contents: bytes) -> None:
        super().__init__(*contents)
        self.directory, self.room = directory, room

    def __call__(self, name: str, target: Path) -> None:
        target.write_bytes(b"hal")
        if len(list(self.directory.glob("??/*"))) >= self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().__call__(name, target)


def test_a_full_disk_evicts_and_tries_once_more(make: Make, tmp_path: Path):
    cache = make(FullDisk(tmp_path / "cache", 10, b"wanted"))
    for place in range(10):
        put(cache, bytes([place]) * 10)
    assert read(cache, sha(b"wanted")) == b"wanted"
    assert len(files(tmp_path)) == 6


def test_a_disk_that_stays_full_is_unavailable(make: Make, tmp_path: Path):
    cache = make(FullDisk(tmp_path / "cache", 0, b"wanted"))
    pinned = put(cache, b"kept")
    with cache.pinned([pinned]):
        with pytest.raises(UnavailableError, match="the disk is full; free some space"):
            cache.get(sha(b"wanted"))
        assert files(tmp_path) == {pinned}
    assert list((tmp_path / "cache/new").iterdir()) == []


def test_a_real_full_file_system(tmp_path: Path):
    """A tmpfs of 1 MiB, in a mount namespace of its own."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_fill_small_disk, args=(tmp_path,))
    process.start()
    process.join(60)
    assert process.exitcode == 0


def _fill_small_disk(directory: Path) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(0x00020000) == 0  # CLONE_NEWNS
    assert libc.mount(b"none", b"/", None, 0x44000, None) == 0  # MS_REC | MS_PRIVATE
    assert libc.mount(b"tmpfs", str(directory).encode(), b"tmpfs", 0, b"size=1m") == 0
    cache = BlobCache(directory / "cache", 10**9, Source())
    names = [put(cache, bytes([place]) * 100_000) for place in range(30)]
    assert read(cache, names[-1]) == bytes([29]) * 100_000
    with cache.pinned(names[-1:]):
        try:
            put(cache, b"z" * 2_000_000)
        except UnavailableError:
            pass
        else:
            raise AssertionError
        assert read(cache, names[-1]) == bytes([29]) * 100_000


def test_a_directory_that_cannot_be_used(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="cannot keep blobs"):
        BlobCache(tmp_path / "file", 1000, Source())


SHARED = [f"{place} ".encode() * 500 for place in range(30)]


def test_threads_share_a_cache(make: Make):
    cache = make(Source(*SHARED), limit=15_000)
    faults: list[Exception] = []

    def use(start: int) -> None:
        try:
            for step in range(100):
                contents = [SHARED[(start + step + offset) % len(SHARED)] for offset in range(3)]
                with cache.pinned(map(sha, contents)) as paths:
                    assert [path.read_bytes() for path in paths.values()] == contents
        except Exception as exc:  # noqa: BLE001 - whatever it is, the test shows it
            faults.append(exc)

    threads = [threading.Thread(target=use, args=(place * 7,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
