"""Work for threads: outputs go to the blobs, and results that no judicator takes to the spool."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from pathlib import Path

from judge.common import clock
from judge.common.errors import JudgeError, UnavailableError
from judge.executor.machine import for_want_of_space
from judge.executor.parts import ExecutorParts
from judge.executor.storage.spool import Spooled
from judge.executor.table import Pending
from judge.executor.threads import ThreadPool

log = logging.getLogger(__name__)

# After an upload without an answer, in seconds.
UPLOAD_REST = 2.0


class SpoolWriter:
    """Puts completions into the spool, in a thread: writing them safely takes time."""

    def __init__(self, parts: ExecutorParts) -> None:
        """Start the thread: one of its own, since others may wait for the network just when results are to be kept."""
        self._parts = parts
        self._pool = ThreadPool(parts.mailbox, 1)

    def write(self, pending: Pending) -> None:
        """Have one completion written, unless it is there or on its way."""
        if not (pending.spooled or pending.spooling or pending.completed.retry):
            pending.spooling = True
            self._pool.do(functools.partial(self._write, pending))

    def write_now(self, pending: Pending) -> None:
        """Write one completion and wait for the disk; for the end of the executor."""
        if not (pending.spooled or pending.completed.retry):
            self._write(pending)()

    def _write(self, pending: Pending) -> Callable[[], None]:
        error: OSError | None = None
        spooled = False
        try:
            spooled = self._parts.spool.write(Spooled(completed=pending.completed, upload=pending.upload))
        except OSError as exc:
            error = exc
        return functools.partial(self._written, pending, error, spooled=spooled)

    def _written(self, pending: Pending, error: OSError | None, *, spooled: bool) -> None:
        """A completion is in the spool, or cannot be."""
        pending.spooling, pending.spooled = False, spooled
        completed = pending.completed
        if error is not None:
            if for_want_of_space(error):
                self._parts.disk.failed(clock.monotonic())
            log.warning("the result of task %s cannot be spooled: %s; it is kept in memory", completed.id, error)
        elif not spooled:
            log.error("the spool is full; the result of task %s is kept in memory", completed.id)
        elif self._parts.table.completions.get(completed.claim) is not pending:
            self._parts.spool.remove(completed.claim)  # it was settled meanwhile


class Uploads:
    """Outputs that are too big for a report: each is in the blobs before its result is reported."""

    def __init__(self, parts: ExecutorParts, writer: SpoolWriter) -> None:
        """`writer` keeps results whose output nobody takes now."""
        self._parts = parts
        self._writer = writer

    def next_due(self) -> float:
        return min((pending.upload_at for pending in self._parts.table.uploads()), default=float("inf"))

    def step(self, now: float) -> None:
        for pending in self._parts.table.uploads():
            if pending.upload_at <= now and pending.upload is not None:
                pending.upload_at = float("inf")
                self._parts.pool.do(functools.partial(self._upload, pending.completed.claim, Path(pending.upload)))

    def _upload(self, claim: str, output: Path) -> Callable[[], None]:
        try:
            blob = self._parts.blob_client.upload(output)
        except UnavailableError as exc:
            return functools.partial(self._failed, claim, exc)
        except (JudgeError, OSError) as exc:
            reason = f"the whole output could not be kept: {exc}"
            return functools.partial(self._parts.table.uploaded, claim, None, reason)
        return functools.partial(self._parts.table.uploaded, claim, blob)

    def _failed(self, claim: str, error: JudgeError) -> None:
        log.debug("an output could not be uploaded: %s", error)
        pending = self._parts.table.completions.get(claim)
        if pending is not None:
            pending.upload_at = clock.monotonic() + UPLOAD_REST
            self._writer.write(pending)
