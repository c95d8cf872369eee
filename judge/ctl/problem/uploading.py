"""Bringing a package's blobs to the cluster: only what is missing, several at once, with bytes, speed and time left."""

from __future__ import annotations

import contextlib
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
class UploadOutcome:
    """The blobs that were sent, in `seconds`, and how many the cluster had already."""

    blobs: int
    bytes: int
    present_count: int
    seconds: float

    @property
    def words(self) -> str:
        if not self.blobs:
            return f"nothing to upload, the cluster has all {self.present_count} files"
        rate = size(int(self.bytes / max(self.seconds, 0.001)))
        present = f"; it had {self.present_count}" if self.present_count else ""
        return f"uploaded {self.blobs} files, {size(self.bytes)} in {self.seconds:.1f} s ({rate}/s){present}"

    def as_json(self) -> dict[str, Any]:
        return {"blobs": self.blobs, "bytes": self.bytes, "known": self.present_count, "seconds": self.seconds}


def upload(api: Api, package: Package, more: Sequence[bytes] = (), *, quiet: bool = True) -> UploadOutcome:
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

    with _telling(sum(missing_sizes.values()), quiet) as progress:
        pool = ThreadPoolExecutor(_WORKERS, "upload")
        try:
            groups = [[(sha, missing_sizes[sha]) for sha in group] for group in packs.plan(missing_sizes)]
            jobs = [pool.submit(_send, api, group, content, progress) for group in groups]
            for job in wait(jobs, return_when=FIRST_EXCEPTION).done:
                job.result()
        finally:  # the first that fails, or Ctrl-C, ends the rest
            pool.shutdown(wait=False, cancel_futures=True)
    seconds = clock.monotonic() - started
    return UploadOutcome(len(missing_sizes), sum(missing_sizes.values()), len(sizes) - len(missing_sizes), seconds)


def _size(blob: Path | bytes) -> int:
    if isinstance(blob, bytes):
        return len(blob)
    try:
        return blob.stat().st_size
    except OSError as exc:
        raise PackageError(f"{blob}: cannot be read: {exc.strerror}") from exc


def _send(
    api: Api, group: list[tuple[str, int]], content: Callable[[str], IO[bytes]], progress: Callable[[int], None]
) -> None:
    """Send one group of `packs.plan`, with its sizes; waits for a place at the gateway."""
    deadline = clock.Deadline(_PLACE)
    name, size = group[0]
    while True:
        try:
            if size > packs.PACK_BYTES:
                with content(name) as file:
                    api.request("PUT", f"/blobs/{name}", content=file, progress=progress)
            else:
                pack = io.BytesIO(packs.head(group))
                pack.seek(0, io.SEEK_END)
                for sha, _ in group:
                    with content(sha) as file:
                        shutil.copyfileobj(file, pack)
                api.request("PUT", "/blobs/pack", content=pack)
                progress(sum(size for _, size in group))
        except LimitError:
            if deadline.over:
                raise
            clock.sleep(1.0)
        else:
            return


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
        bytes_sent, started = 0, clock.monotonic()
        next_line = started + _LINE

        def show_progress(count: int) -> None:
            nonlocal bytes_sent, next_line
            bytes_sent += count
            now = clock.monotonic()
            if now >= next_line:
                next_line = now + _LINE
                rate = max(1.0, bytes_sent / (now - started))
                progress_text = f"{size(int(rate))}/s, {max(0.0, (total - bytes_sent) / rate):.0f} s left"
                show.err.say(f"uploaded {size(bytes_sent)} of {size(total)}, {progress_text}")

        yield show_progress
