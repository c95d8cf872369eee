"""Bringing a package's blobs to the cluster: only what is missing, several at once, with bytes, speed and time left."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

from judge.common import clock
from judge.common.errors import LimitError, PackageError
from judge.common.text import size
from judge.ctl import show
from judge.ctl.api import Api
from judge.problems.package import Package
from judge.rpc import packs

# Large bodies at once. A gateway takes four of one person; one place is left for something else of theirs.
_WORKERS = 3
# Seconds between two lines where there is no terminal, and for which a place at the gateway is waited for.
_LINE, _PLACE = 5.0, 120.0


@dataclass(frozen=True)
class Uploaded:
    """The blobs that were sent, in `seconds`, and how many the cluster had already."""

    blobs: int
    bytes: int
    known_count: int
    seconds: float

    @property
    def words(self) -> str:
        """One line for people."""
        if not self.blobs:
            return f"nothing to upload, the cluster has all {self.known_count} files"
        rate = size(int(self.bytes / max(self.seconds, 0.001)))
        rest = f"; it had {self.known_count}" if self.known_count else ""
        return f"uploaded {self.blobs} files, {size(self.bytes)} in {self.seconds:.1f} s ({rate}/s){rest}"


def upload(api: Api, package: Package, more: Sequence[bytes] = (), *, quiet: bool = True) -> Uploaded:
    """Upload those of a package's blobs, and of `more` contents, that the cluster does not have.

    Neither a large blob nor all of them are ever in memory. PackageError when a file has changed since it was read.
    """
    extra = {hashlib.sha256(data).hexdigest(): data for data in more}
    sizes = {sha: _size(blob) for sha, blob in {**package.blobs, **extra}.items()}
    started = clock.monotonic()
    missing = set(api.missing(list(sizes)))
    missing_sizes = {sha: length for sha, length in sizes.items() if sha in missing}

    def content(sha: str) -> IO[bytes]:
        return io.BytesIO(extra[sha]) if sha in extra else package.open(sha)

    with _telling(sum(missing_sizes.values()), quiet) as sent:
        _in_parallel(
            [
                functools.partial(_send, api, [(sha, missing_sizes[sha]) for sha in group], content, sent)
                for group in packs.plan(missing_sizes)
            ]
        )
    seconds = clock.monotonic() - started
    return Uploaded(len(missing_sizes), sum(missing_sizes.values()), len(sizes) - len(missing_sizes), seconds)


def _size(blob: Path | bytes) -> int:
    if isinstance(blob, bytes):
        return len(blob)
    try:
        return blob.stat().st_size
    except OSError as exc:
        raise PackageError(f"{blob}: cannot be read: {exc.strerror}") from None


def _in_parallel(work: Sequence[Callable[[], None]]) -> None:
    """Do all of it, some at a time; the first that fails, or Ctrl-C, ends the rest."""
    pool = ThreadPoolExecutor(_WORKERS, "upload")
    try:
        finished_futures, _ = wait([pool.submit(job) for job in work], return_when=FIRST_EXCEPTION)
        for future in finished_futures:
            future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _send(
    api: Api, group: list[tuple[str, int]], content: Callable[[str], IO[bytes]], sent: Callable[[int], None]
) -> None:
    """Send one group of `packs.plan`, with its sizes; waits for a place at the gateway."""
    deadline = clock.Deadline(_PLACE)
    name, size = group[0]
    while True:
        try:
            if size > packs.PACK_BYTES:
                with content(name) as file:
                    api.request("PUT", f"/blobs/{name}", content=file, sent=sent)
            else:
                api.request("PUT", "/blobs/pack", content=_pack(group, content))
                sent(sum(size for _, size in group))
        except LimitError:
            if deadline.over:
                raise
            clock.sleep(1.0)
        else:
            return


def _pack(group: list[tuple[str, int]], content: Callable[[str], IO[bytes]]) -> IO[bytes]:
    body = io.BytesIO()
    body.write(packs.head(group))
    for sha, _ in group:
        with content(sha) as file:
            shutil.copyfileobj(file, body)
    return body


@contextlib.contextmanager
def _telling(total: int, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Tell how it goes on stderr: a bar on a terminal, else a line now and then; yields what is to be told of bytes."""
    if quiet or not total:
        yield lambda _: None
    elif show.err.is_terminal:
        columns = (BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn())
        with Progress("uploading", *columns, console=show.err, transient=True) as progress:
            task = progress.add_task("", total=total)
            yield lambda count: progress.advance(task, count)
    else:
        yield _Lines(total)


class _Lines:
    """Bytes, speed and time left as lines, where there is no terminal."""

    def __init__(self, total: int) -> None:
        self._total, self._bytes_sent = total, 0
        self._started = self._last = clock.monotonic()

    def __call__(self, count: int) -> None:
        self._bytes_sent += count
        now = clock.monotonic()
        if now - self._last < _LINE:
            return
        self._last = now
        rate = max(1.0, self._bytes_sent / (now - self._started))
        seconds_left = max(0.0, (self._total - self._bytes_sent) / rate)
        show.err.say(
            f"uploaded {size(self._bytes_sent)} of {size(self._total)}, {size(int(rate))}/s, {seconds_left:.0f} s left"
        )


def as_data(uploaded: Uploaded) -> dict[str, Any]:
    """The same for programs."""
    return {
        "blobs": uploaded.blobs,
        "bytes": uploaded.bytes,
        "known": uploaded.known_count,
        "seconds": uploaded.seconds,
    }
