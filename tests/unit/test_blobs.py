"""The blob cache: verification, repair, eviction, pins, full disks, and several processes on one directory."""

from __future__ import annotations

import errno
import hashlib
import multiprocessing
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from judge.common.errors import FieldError, NotFoundError, UnavailableError
from judge.executor.storage import blobs
from judge.executor.storage.blobs import BlobCache
from tests.support.servers import wait_for

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
        self.asked: list[str] = []

    def __call__(self, name: str, target: Path) -> None:
        self.asked.append(name)
        if name not in self.contents:
            raise NotFoundError(f"no blob {name}")
        target.write_bytes(self.contents[name])


Make = Callable[..., BlobCache]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes caches on one directory and closes them."""
    made: list[BlobCache] = []

    def build(source: Any = None, limit: int = 10**6) -> BlobCache:
        made.append(BlobCache(tmp_path / "cache", limit, source or Source()))
        return made[-1]

    yield build
    for cache in made:
        cache.close()


def files(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "cache").glob("??/*")}


def test_put_and_get(make: Make, tmp_path: Path):
    cache = make()
    name = cache.put(b"data")
    assert name == sha(b"data") == cache.put(b"data")
    assert cache.get(name) == tmp_path / "cache" / name[:2] / name
    assert cache.read(name) == b"data"
    assert stat.S_IMODE(cache.get(name).stat().st_mode) == 0o400
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
    handle = cache.open(name)
    try:
        assert os.read(handle, 10) == b"data"
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(handle, b"x")
    finally:
        os.close(handle)


def test_a_missing_blob_is_fetched_once(make: Make):
    source = Source(b"far")
    cache = make(source)
    assert cache.read(sha(b"far")) == cache.read(sha(b"far")) == b"far"
    assert source.asked == [sha(b"far")]


def test_errors_of_fetching_pass_and_leave_nothing(make: Make, tmp_path: Path):
    cache = make()
    with pytest.raises(NotFoundError):
        cache.get(sha(b"nowhere"))
    assert files(tmp_path) == set()
    assert [path.name for path in (tmp_path / "cache/process").glob("*/*")] == ["owner"]


@pytest.mark.parametrize("name", ["", "x", "A" * 64, "../" + "a" * 61, "a" * 63 + "\n", "a" * 65])
def test_names_that_are_no_hash_are_refused(make: Make, name: str):
    cache = make()
    with pytest.raises(FieldError, match="is not a SHA-256"):
        cache.get(name)
    with pytest.raises(FieldError), cache.pinned([name]):
        pass


@pytest.mark.parametrize("again", [False, True], ids=["same process", "new process"])
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
    assert cache.read(sha(b"precious")) == b"precious"
    assert len(source.asked) == 2


def test_an_unchanged_file_is_hashed_once_per_process(make: Make, monkeypatch: pytest.MonkeyPatch):
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
    assert hashed == [1, 1], "another process trusts nobody"


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
    assert make(source).read(sha(b"sector")) == b"sector"
    assert len(source.asked) == 2


def test_what_is_fetched_must_match(make: Make, tmp_path: Path):
    def wrong(name: str, target: Path) -> None:
        target.write_bytes(b"something else")

    cache = make(wrong)
    with pytest.raises(UnavailableError, match="does not match its name"):
        cache.get(sha(b"right"))
    assert files(tmp_path) == set()


# --- eviction ----------------------------------------------------------------------------------------------------


def test_the_least_recently_used_leave(make: Make, tmp_path: Path):
    contents = [bytes([65 + place]) * 100 for place in range(10)]
    cache = make(Source(*contents), limit=1000)
    for data in contents:
        cache.get(sha(data))
    cache.get(sha(contents[0]))
    cache.put(b"new" * 10)
    left = files(tmp_path)
    assert sha(contents[0]) in left and sha(b"new" * 10) in left
    assert sha(contents[1]) not in left and sha(contents[2]) not in left
    assert sum(path.stat().st_size for path in (tmp_path / "cache").glob("??/*")) <= 900


def test_a_blob_bigger_than_the_limit_is_still_delivered(make: Make):
    big = b"b" * 5000
    cache = make(Source(big), limit=1000)
    cache.put(b"small")
    assert cache.read(sha(big)) == big


def test_a_new_process_brings_the_directory_under_its_limit(make: Make, tmp_path: Path):
    cache = make(limit=10**6)
    for place in range(10):
        cache.put(bytes([place]) * 1000)
    make(limit=5000)
    assert len(files(tmp_path)) == 4


def test_pinned_blobs_stay(make: Make, tmp_path: Path):
    contents = [bytes([65 + place]) * 100 for place in range(5)]
    source = Source(*contents)
    cache, other = make(source, limit=1000), make(source, limit=1000)
    names = [sha(data) for data in contents]
    with cache.pinned(names) as paths, cache.pinned(names[:1]):
        assert list(paths) == names
        for place in range(40):
            other.put(f"{place:0100d}".encode())
            cache.put(f"{place:0101d}".encode())
        assert all(path.exists() for path in paths.values())
        assert set(names) <= files(tmp_path)
    for place in range(40):
        other.put(f"{place:0102d}".encode())
    assert not set(names) & files(tmp_path)


def test_pins_of_a_process_that_died_do_not_count(make: Make, tmp_path: Path):
    cache = make(limit=1000)
    name = cache.put(b"p" * 100)
    dead = tmp_path / "cache/process/1-dead"
    dead.mkdir()
    (dead / "pin-0").write_text(name)
    (dead / "new-1").write_bytes(b"half")
    for place in range(20):
        cache.put(f"{place:0100d}".encode())
    assert not dead.exists() and name not in files(tmp_path)


def test_open_survives_eviction_by_others(make: Make, monkeypatch: pytest.MonkeyPatch):
    source = Source(b"slippery")
    cache = make(source)
    real = cache.get
    lost = [2]

    def get(name: str) -> Path:
        path = real(name)
        if lost[0]:
            lost[0] -= 1
            path.unlink()
        return path

    monkeypatch.setattr(cache, "get", get)
    assert cache.read(sha(b"slippery")) == b"slippery"
    lost[0] = 100
    with pytest.raises(UnavailableError, match="evicted as fast as it is fetched"):
        cache.open(sha(b"slippery"))


# --- full disks --------------------------------------------------------------------------------------------------


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
        cache.put(bytes([place]) * 10)
    assert cache.read(sha(b"wanted")) == b"wanted"
    assert len(files(tmp_path)) == 6


def test_a_disk_that_stays_full_is_unavailable(make: Make, tmp_path: Path):
    cache = make(FullDisk(tmp_path / "cache", 0, b"wanted"))
    kept = cache.put(b"kept")
    with cache.pinned([kept]):
        with pytest.raises(UnavailableError, match="the disk is full; free some space"):
            cache.get(sha(b"wanted"))
        assert files(tmp_path) == {kept}
    assert [path.name for path in (tmp_path / "cache/process").glob("*/*")] == ["owner"]


def test_other_errors_of_the_disk_are_not_swallowed(make: Make):
    def broken(name: str, target: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        make(broken).get(sha(b"x"))


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
    names = [cache.put(bytes([place]) * 100_000) for place in range(30)]
    assert cache.read(names[-1]) == bytes([29]) * 100_000
    with cache.pinned(names[-1:]):
        try:
            cache.put(b"z" * 2_000_000)
        except UnavailableError:
            pass
        else:
            raise AssertionError
        assert cache.read(names[-1]) == bytes([29]) * 100_000
    cache.close()


def test_a_directory_that_cannot_be_used(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="cannot keep blobs"):
        BlobCache(tmp_path / "file", 1000, Source())


# --- several at once ---------------------------------------------------------------------------------------------

SHARED = [f"{place} ".encode() * 500 for place in range(30)]


def _use_cache(directory: Path, seed: int) -> None:
    import random

    source = Source(*SHARED)
    cache = BlobCache(directory, 20_000, source)
    chance = random.Random(seed)
    for _ in range(150):
        some = chance.sample(SHARED, 3)
        with cache.pinned(map(sha, some)) as paths:
            for data in some:
                assert paths[sha(data)].read_bytes() == data
        one = chance.choice(SHARED)
        assert cache.read(sha(one)) == one
    cache.close()


def test_processes_share_a_directory(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_use_cache, args=(tmp_path / "cache", seed)) for seed in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert list((tmp_path / "cache/process").iterdir()) == []


def _pin_and_wait(directory: Path, ready: Any) -> None:
    cache = BlobCache(directory, 1000, Source(b"held" * 25))
    with cache.pinned([sha(b"held" * 25)]):
        ready.set()
        threading.Event().wait(60)


def test_pins_last_as_long_as_their_process(make: Make, tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_pin_and_wait, args=(tmp_path / "cache", ready))
    process.start()
    try:
        wait_for(ready.is_set, what="a pin")
        cache = make(limit=1000)
        for place in range(30):
            cache.put(f"{place:0100d}".encode())
        assert sha(b"held" * 25) in files(tmp_path)
    finally:
        process.kill()
        process.join()
    for place in range(30):
        cache.put(f"{place:0101d}".encode())
    assert sha(b"held" * 25) not in files(tmp_path)


def test_threads_share_a_cache(make: Make):
    cache = make(Source(*SHARED), limit=15_000)
    faults: list[Exception] = []

    def use(start: int) -> None:
        try:
            for step in range(100):
                data = SHARED[(start + step) % len(SHARED)]
                assert cache.read(sha(data)) == data
        except Exception as exc:  # noqa: BLE001 - whatever it is, the test shows it
            faults.append(exc)

    threads = [threading.Thread(target=use, args=(place * 7,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
