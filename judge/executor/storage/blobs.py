"""A directory of blobs by SHA-256 that several processes share: an executor's test data (docs/executor.md).

Layout: `ab/<sha>` the blobs, `process/<id>/` what one user process has in hand (half-written files, pins), `lock`.

- A process verifies a blob whenever it uses it. It hashes the blob, unless it has hashed it before and inode, size and
  mtime are still the same. A damaged blob is fetched again; no verdict ever rests on one.
- A file gets its name by rename, when it is complete. Files are not synced: one that a power cut has damaged does not
  match its name and is fetched again.
- When the directory outgrows its limit, the least recently used blobs are removed first, pinned ones never. Each
  process counts the real size after it has added a sixteenth of the limit, so n processes may overshoot by n/16 of it.
- Directories have mode 0700, so other users cannot reach the files by path. A program in a sandbox gets a descriptor of
  one as its stdin, and may open /dev/stdin again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import itertools
import logging
import os
import re
import shutil
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from judge.common import clock
from judge.common.errors import FieldError, UnavailableError

log = logging.getLogger("blobs")

_SHA = re.compile(r"[0-9a-f]{64}")
_FULL = (errno.ENOSPC, errno.EDQUOT)
_OPEN_TRIES = 5
# A use is noted on disk only when the last noted one is this long ago: else every test of a submission costs a write.
_TOUCH_NS = 1_000_000_000


class BlobCache:
    """Blobs by hash, fetched when missing. Each process makes its own, after the fork; its methods are thread-safe."""

    def __init__(self, directory: Path, max_bytes: int, fetch: Callable[[str, Path], None]) -> None:
        """Use (and create) `directory`, keep it under `max_bytes`; `fetch(sha, path)` writes a missing blob to `path`.

        `fetch` raises a JudgeError when it cannot; the cache checks the content. Raises UnavailableError when the
        directory cannot be used.
        """
        self._root = directory
        self._max = max_bytes
        self._fetch = fetch
        self._verified: dict[str, tuple[int, int, int]] = {}
        self._names = itertools.count()
        self._mutex = threading.Lock()
        self._size = 0
        self._unseen = 0
        self._own = directory / "process" / f"{os.getpid()}-{os.urandom(4).hex()}"
        try:
            self._own.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.chmod(0o700)
            with self._locked():
                self._own.mkdir(mode=0o700)
                self._owner = os.open(self._own / "owner", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
                fcntl.flock(self._owner, fcntl.LOCK_EX)
        except OSError as exc:
            msg = f"{directory}: cannot keep blobs: {exc.strerror}; expected a directory that this process may fill"
            raise UnavailableError(msg) from None
        self._evict(max_bytes, frozenset())

    def close(self) -> None:
        """Drop this process's pins and half-written files; the blobs stay."""
        with self._locked():
            shutil.rmtree(self._own, ignore_errors=True)
        os.close(self._owner)

    def get(self, sha: str) -> Path:
        """The path of a blob, verified just now. A missing or damaged one is fetched first.

        Another process may evict it at any time, unless it is `pinned`. To read it once, use `open`: that needs no pin.
        Raises UnavailableError when the disk is full or what was fetched does not match, and whatever `fetch` raises.
        """
        path = self._path(sha)
        if not self._verify(sha, path):
            self._add(sha, lambda target: self._fetch(sha, target))
        return path

    def open(self, sha: str) -> int:
        """A read-only descriptor of a verified blob; the caller closes it. Errors as `get`."""
        for _ in range(_OPEN_TRIES):
            path = self.get(sha)
            with contextlib.suppress(FileNotFoundError):  # evicted by another process a moment ago
                return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        msg = f"blob {sha[:12]} is evicted as fast as it is fetched; raise the cache's limit ({self._max} bytes)"
        raise UnavailableError(msg)

    def read(self, sha: str) -> bytes:
        """A blob's content. Errors as `get`."""
        with open(self.open(sha), "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            return file.read()

    def put(self, data: bytes) -> str:
        """Store bytes and return their name. Raises UnavailableError when the disk is full."""
        sha = hashlib.sha256(data).hexdigest()
        if not self._verify(sha, self._path(sha)):
            self._add(sha, lambda target: _write(target, data))
        return sha

    @contextlib.contextmanager
    def pinned(self, shas: Iterable[str]) -> Iterator[dict[str, Path]]:
        """Fetch and verify these blobs and keep every process from evicting them meanwhile; errors as `get`."""
        names = list(dict.fromkeys(shas))
        for sha in names:
            self._path(sha)  # refuses what is not a hash before anything is written
        pin = self._own / f"pin-{next(self._names)}"
        with self._locked():
            self._retrying(lambda: pin.write_text("\n".join(names), encoding="ascii"), locked=True)
        try:
            yield {sha: self.get(sha) for sha in names}
        finally:
            pin.unlink(missing_ok=True)

    def _path(self, sha: str) -> Path:
        if not _SHA.fullmatch(sha):
            raise FieldError("blob", f"'{sha[:80]}' is not a SHA-256 in lower-case hexadecimal")
        return self._root / sha[:2] / sha

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the directory: no other process evicts, pins, starts or ends meanwhile.

        No caller fetches or hashes while it has the lock.
        """
        with self._mutex:
            handle = os.open(self._root / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                yield
            finally:
                os.close(handle)

    def _verify(self, sha: str, path: Path) -> bool:
        """Return whether the blob is there and intact; a damaged one is removed."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return False
        except OSError as exc:
            return self._damaged(sha, path, None, exc.strerror or "unreadable")
        status = os.fstat(handle)
        try:
            identity = (status.st_ino, status.st_size, status.st_mtime_ns)
            if self._verified.get(sha) != identity:
                if not stat.S_ISREG(status.st_mode) or _hash(handle) != sha:
                    return self._damaged(sha, path, status.st_ino, "its content does not match its name")
                self._verified[sha] = identity
            # The time decides about eviction only; a jump of the clock costs a fetch at worst.
            now = int(clock.wall().timestamp() * 1e9)
            if now - status.st_atime_ns > _TOUCH_NS:
                with contextlib.suppress(OSError):
                    os.utime(handle, ns=(now, status.st_mtime_ns))
        except OSError as exc:
            return self._damaged(sha, path, status.st_ino, exc.strerror or "unreadable")
        finally:
            os.close(handle)
        return True

    def _damaged(self, sha: str, path: Path, inode: int | None, reason: str) -> bool:
        """Remove the file at `path`, unless another process has replaced it. None: the file cannot be opened."""
        log.warning("blob %s is damaged (%s) and is fetched again", sha[:12], reason)
        self._verified.pop(sha, None)
        with self._locked(), contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode):
                shutil.rmtree(path, ignore_errors=True)
            elif status.st_ino == inode or (inode is None and not stat.S_ISREG(status.st_mode)):
                path.unlink()
        return False

    def _add(self, sha: str, write: Callable[[Path], object]) -> None:
        """Let `write` fill a new file, check it, give it its name, and keep the directory under its limit."""
        path = self._path(sha)
        target = self._own / f"new-{next(self._names)}"

        def attempt() -> None:
            target.unlink(missing_ok=True)
            write(target)
            path.parent.mkdir(mode=0o700, exist_ok=True)

        try:
            self._retrying(attempt)
            with target.open("rb", buffering=0) as file:
                if _hash(file.fileno()) != sha:
                    msg = f"blob {sha[:12]}: what was fetched does not match its name; it is damaged where it came from"
                    raise UnavailableError(msg)
                os.fchmod(file.fileno(), 0o400)
                status = os.fstat(file.fileno())
            with self._locked():
                target.rename(path)
        finally:
            target.unlink(missing_ok=True)
        self._verified[sha] = (status.st_ino, status.st_size, status.st_mtime_ns)
        self._size += status.st_size
        self._unseen += status.st_size
        if self._size > self._max or self._unseen > self._max // 16:
            self._evict(self._max, frozenset({sha}))

    def _retrying(self, action: Callable[[], object], *, locked: bool = False) -> None:
        """Do `action`; on a full disk evict half of what is here and do it once more."""
        for last in (False, True):
            try:
                action()
            except OSError as exc:
                if exc.errno not in _FULL:
                    raise
                if last:
                    msg = f"{self._root}: the disk is full; free some space, or lower the size of the blob cache"
                    raise UnavailableError(msg) from None
                log.warning("%s: the disk is full; evicting half of the cache", self._root)
                self._evict(None, frozenset(), locked=locked)
            else:
                return

    def _evict(self, limit: int | None, keep: frozenset[str], *, locked: bool = False) -> None:
        """Remove the least recently used blobs until at most `limit` bytes are left; None stands for half of them.

        A directory beyond its limit shrinks to nine tenths of it, so that not every new blob evicts another.
        """
        with contextlib.nullcontext() if locked else self._locked():
            blobs = list(self._scan())
            total = sum(size for _, size, _ in blobs)
            if limit is None or total > limit:
                goal = total // 2 if limit is None else limit - limit // 10
                pinned = self._pins() | keep
                for _, size, path in sorted(blobs):
                    if total <= goal:
                        break
                    if path.name not in pinned:
                        path.unlink(missing_ok=True)
                        self._verified.pop(path.name, None)
                        total -= size
                log.info("blob cache %s evicted down to %d bytes", self._root, total)
            else:
                self._pins()
            self._size = total
            self._unseen = 0

    def _scan(self) -> Iterator[tuple[int, int, Path]]:
        """Every blob here: last use, size, path."""
        for directory in self._root.glob("[0-9a-f][0-9a-f]"):
            for path in directory.iterdir():
                with contextlib.suppress(OSError):
                    status = path.lstat()
                    yield status.st_atime_ns, status.st_size, path

    def _pins(self) -> set[str]:
        """All pinned blobs of all processes. Pins of dead processes are removed. The caller holds the lock."""
        pinned: set[str] = set()
        for directory in (self._root / "process").iterdir():
            if directory != self._own and _abandoned(directory):
                shutil.rmtree(directory, ignore_errors=True)
                continue
            for pin in directory.glob("pin-*"):
                with contextlib.suppress(FileNotFoundError):
                    pinned.update(pin.read_text(encoding="ascii").split())
        return pinned


def _abandoned(directory: Path) -> bool:
    """Return whether the process of this directory is gone: its lock on `owner` can be had."""
    try:
        handle = os.open(directory / "owner", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _hash(handle: int) -> str:
    """The SHA-256 of an open file, from its start."""
    with open(handle, "rb", buffering=0, closefd=False) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(target: Path, data: bytes) -> None:
    """Write a new file."""
    with target.open("xb") as file:
        file.write(data)
