"""An executor's test data: a directory of blobs by SHA-256 (docs/executor.md).

Layout: `ab/<sha>` the blobs, `new/` half-written files. The lock of the work directory keeps other processes away.

- A process verifies a blob whenever it uses it. It hashes the blob, unless it has hashed it before and inode, size and
  mtime are still the same. A damaged blob is fetched again; no verdict ever rests on one.
- A file gets its name by rename, when it is complete. Files are not synced: one that a power cut has damaged does not
  match its name and is fetched again.
- When the directory outgrows its limit, the least recently used blobs are removed first, pinned ones never.
- Directories have mode 0700, so other users cannot reach the files by path. A program in a sandbox gets a descriptor of
  one as its stdin, and may open /dev/stdin again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import logging
import os
import re
import shutil
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from judge.common import clock
from judge.common.errors import FieldError, UnavailableError

log = logging.getLogger("blobs")

_SHA = re.compile(r"[0-9a-f]{64}")
_FULL = (errno.ENOSPC, errno.EDQUOT)
# A use is noted on disk only when the last noted one is this long ago: else every test of a submission costs a write.
_TOUCH_NS = 1_000_000_000


class BlobCache:
    """Blobs by hash, fetched when missing; the methods are thread-safe."""

    def __init__(self, directory: Path, max_bytes: int, fetch: Callable[[str, Path], None]) -> None:
        """Use (and create) `directory`, keep it under `max_bytes`; `fetch(sha, path)` writes a missing blob to `path`.

        `fetch` raises a JudgeError when it cannot; the cache checks the content. Raises UnavailableError when the
        directory cannot be used.
        """
        self._root = directory
        self._max = max_bytes
        self._fetch = fetch
        self._verified: dict[str, tuple[int, int, int]] = {}
        self._pins: Counter[str] = Counter()
        self._names = itertools.count()
        self._mutex = threading.Lock()  # no thread fetches or hashes a blob while it holds the mutex
        self._size = 0
        self._new = directory / "new"
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.chmod(0o700)
            for name in ("new", "process"):  # earlier releases had their half-written files in `process`
                shutil.rmtree(directory / name, ignore_errors=True)
            self._new.mkdir(mode=0o700)
        except OSError as exc:
            msg = f"{directory}: cannot keep blobs: {exc.strerror}; expected a directory that this process may fill"
            raise UnavailableError(msg) from exc
        self._evict(max_bytes)

    def get(self, sha: str) -> Path:
        """The path of a blob, verified just now. A missing or damaged one is fetched first.

        It may be evicted at any time, unless it is `pinned`.
        Raises UnavailableError when the disk is full or what was fetched does not match, and whatever `fetch` raises.
        """
        path = self._path(sha)
        if not self._verify(sha, path):
            self._add(sha, path)
        return path

    @contextlib.contextmanager
    def pinned(self, shas: Iterable[str]) -> Iterator[dict[str, Path]]:
        """Fetch and verify these blobs and keep them from eviction meanwhile; errors as `get`."""
        names = list(dict.fromkeys(shas))
        with self._mutex:
            self._pins.update(names)
        try:
            yield {sha: self.get(sha) for sha in names}
        finally:
            with self._mutex:
                self._pins -= Counter(names)  # names without a pin leave the counter

    def _path(self, sha: str) -> Path:
        if not _SHA.fullmatch(sha):
            raise FieldError("blob", f"'{sha[:80]}' is not a SHA-256 in lower-case hexadecimal")
        return self._root / sha[:2] / sha

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
        """Remove the file at `path`, unless another thread has replaced it. None: the file cannot be opened."""
        log.warning("blob %s is damaged (%s) and is fetched again", sha[:12], reason)
        self._verified.pop(sha, None)
        with self._mutex, contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode):
                shutil.rmtree(path, ignore_errors=True)
            elif status.st_ino == inode or (inode is None and not stat.S_ISREG(status.st_mode)):
                path.unlink()
        return False

    def _add(self, sha: str, path: Path) -> None:
        """Fetch a blob, check it, give it its name, and keep the directory under its limit."""
        target = self._new / str(next(self._names))
        try:
            self._fetch_to(sha, target)
            with target.open("rb", buffering=0) as file:
                if _hash(file.fileno()) != sha:
                    msg = f"blob {sha[:12]}: what was fetched does not match its name; it is damaged where it came from"
                    raise UnavailableError(msg)
                os.fchmod(file.fileno(), 0o400)
                status = os.fstat(file.fileno())
            with self._mutex:
                target.rename(path)
                self._size += status.st_size
        finally:
            target.unlink(missing_ok=True)
        self._verified[sha] = (status.st_ino, status.st_size, status.st_mtime_ns)
        if self._size > self._max:
            self._evict(self._max, sha)

    def _fetch_to(self, sha: str, target: Path) -> None:
        """Fetch a blob into a new file; on a full disk evict half of what is here and try once more."""
        for last in (False, True):
            try:
                target.unlink(missing_ok=True)
                self._fetch(sha, target)
                self._path(sha).parent.mkdir(mode=0o700, exist_ok=True)
            except OSError as exc:
                if exc.errno not in _FULL:
                    raise
                if last:
                    msg = f"{self._root}: the disk is full; free some space, or lower the size of the blob cache"
                    raise UnavailableError(msg) from exc
                log.warning("%s: the disk is full; evicting half of the cache", self._root)
                self._evict(None)
            else:
                return

    def _evict(self, limit: int | None, newest: str = "") -> None:
        """Remove the least recently used blobs until at most `limit` bytes remain; None stands for half of them.

        A directory beyond its limit shrinks to nine tenths of it, so that not every new blob evicts another. `newest`
        stays.
        """
        with self._mutex:
            blobs = list(self._scan())
            total = sum(size for _, size, _ in blobs)
            if limit is None or total > limit:
                goal = total // 2 if limit is None else limit - limit // 10
                for _, size, path in sorted(blobs):
                    if total <= goal:
                        break
                    if path.name not in self._pins and path.name != newest:
                        path.unlink(missing_ok=True)
                        self._verified.pop(path.name, None)
                        total -= size
                log.info("blob cache %s evicted down to %d bytes", self._root, total)
            self._size = total

    def _scan(self) -> Iterator[tuple[int, int, Path]]:
        """Every blob here: last use, size, path."""
        for directory in self._root.glob("[0-9a-f][0-9a-f]"):
            for path in directory.iterdir():
                with contextlib.suppress(OSError):
                    status = path.lstat()
                    yield status.st_atime_ns, status.st_size, path


def _hash(handle: int) -> str:
    """The SHA-256 of an open file, from its start."""
    with open(handle, "rb", buffering=0, closefd=False) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
