"""Results that no judicator takes are put into the spool, by a thread: writing them safely takes time."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

from judge import clock
from judge.executor.machine import for_want_of_space
from judge.executor.parts import Parts
from judge.executor.spool import Spooled
from judge.executor.state import Pending
from judge.executor.workers import ThreadPool

log = logging.getLogger(__name__)


class Keeper:
    """Keeps completions; called by the main loop."""

    def __init__(self, parts: Parts) -> None:
        """Start the thread: one of its own, since others may wait for the network just when results are to be kept."""
        self._parts = parts
        self._pool = ThreadPool(parts.mailbox, 1)

    def keep(self, pending: Pending) -> None:
        """Have one completion written, unless it is there or on its way."""
        if not (pending.spooled or pending.spooling or pending.completed.retry):
            pending.spooling = True
            self._pool.do(functools.partial(self._write, pending))

    def keep_now(self, pending: Pending) -> None:
        """Write one completion and wait for the disk; for the end of the executor."""
        if not (pending.spooled or pending.completed.retry):
            self._write(pending)()

    def _write(self, pending: Pending) -> Callable[[], None]:
        error: OSError | None = None
        kept = False
        try:
            kept = self._parts.spool.write(Spooled(completed=pending.completed, upload=pending.upload))
        except OSError as exc:
            error = exc
        return functools.partial(self._written, pending, error, kept=kept)

    def _written(self, pending: Pending, error: OSError | None, *, kept: bool) -> None:
        """A completion is in the spool, or cannot be."""
        pending.spooling, pending.spooled = False, kept
        completed = pending.completed
        if error is not None:
            if for_want_of_space(error):
                self._parts.disk.failed(clock.monotonic())
            log.warning("the result of task %s cannot be spooled: %s; it is kept in memory", completed.id, error)
        elif not kept:
            log.error("the spool is full; the result of task %s is kept in memory", completed.id)
        elif self._parts.board.completions.get(completed.claim) is not pending:
            self._parts.spool.remove(completed.claim)  # it was settled meanwhile
