"""Sends the executor's reports in time, and does what follows from the answers (seed: Main)."""

from __future__ import annotations

import logging
import random

from judge import clock
from judge.errors import JudgeError, StaleError
from judge.executor import telemetry
from judge.executor.dispatch import Dispatcher
from judge.executor.parts import ExecutorParts
from judge.executor.uploads import SpoolWriter
from judge.model.messages import ReportReply

log = logging.getLogger(__name__)

# After a report without an answer: 0.2, 0.4 … seconds, at most BACKOFF_MAX; well below the judicators' patience.
BACKOFF_MIN = 0.2
BACKOFF_MAX = 2.0
# Results of an earlier life travel in the first report or not at all, so it waits for their uploads, but not for ever.
FIRST_REPORT_WAIT = 10.0
# An executor whose reports are older than others for this many times in a row has been replaced.
STALE_REPORTS = 3


class Reports:
    """The reports of one executor, one at a time; their answers come by mail."""

    def __init__(self, parts: ExecutorParts, dispatcher: Dispatcher, writer: SpoolWriter) -> None:
        """`dispatcher` carries out what answers ask for, `writer` keeps what no judicator takes."""
        self.in_flight = False
        self.failures = 0
        # None before the first answer.
        self.connected: bool | None = None
        self._parts = parts
        self._table = parts.table
        self._dispatcher = dispatcher
        self._writer = writer
        self._hurry = True
        self._at = 0.0
        self._stale = 0
        self._first_until = clock.monotonic() + FIRST_REPORT_WAIT
        self._was_drained = False

    def hurry(self) -> None:
        """There is something to tell, or a task to ask for: the next report goes at once."""
        self._hurry = True

    def next_due(self) -> float:
        """Monotonic seconds at which the next report goes; infinity while one waits for its answer."""
        if self.in_flight:
            return float("inf")
        if self._table.sequence == 0 and self._table.uploads():
            return self._first_until
        urgent = self.failures == 0 and (self._hurry or self._table.urgent)
        return self._dispatcher.first_word_by if urgent else self._at

    def step(self, now: float) -> None:
        """Send a report when it is due, and park a Wait while a slot is free; called at every turn of the main loop."""
        if now >= self.next_due():
            self._hurry = False
            self.in_flight = True
            vacant = self._dispatcher.vacant(now)
            ahead = max(0, vacant - self._table.free(self._parts.slots.working))
            self._parts.calls.report(self._table.request(vacant, self._dispatcher.info(), ahead))
        # A wait is for slots that are free, not for those that nearly are: a wake-up spent here is missing elsewhere.
        free = self._table.free(self._parts.slots.working) if self._dispatcher.vacant(now) else 0
        self._parts.calls.vacant(self.connected is True and free > 0 and not self.in_flight)

    def answered(self, reply: ReportReply, now: float) -> None:
        """Carry out a report's answer (seed: cancel_list, add_list)."""
        self.in_flight = False
        self.failures = 0
        self._stale = 0
        self._at = now + self._parts.config.report_interval
        if self.connected is not True:
            log.info("the judicators take reports%s", " again" if self.connected is False else "")
            self.connected = True
        orders = self._table.answered(reply)
        if self._table.drained != self._was_drained:
            self._was_drained = self._table.drained
            log.info("drained: no more tasks are taken" if self._table.drained else "resumed: tasks are taken again")
        for claim in orders.settled:
            self._parts.spool.remove(claim)
            (self._parts.outputs / f"{claim}.out").unlink(missing_ok=True)
        for claim in orders.kill:
            task = self._table.tasks[claim].assignment
            log.info("task %s is not wanted any more; it is killed, trace %s", task.id, task.trace)
            self._dispatcher.cancel(claim, now)
        for ref in reply.drop:
            if ref.claim not in self._table.tasks:
                self._dispatcher.release(ref.claim, now)
        for assignment in orders.start:
            self._dispatcher.accept(assignment)

    def unanswered(self, error: JudgeError, now: float) -> bool:
        """Keep judging, keep what was finished safe, try again after a pause; False when this executor was replaced."""
        self.in_flight = False
        self.failures += 1
        telemetry.REPORTS_FAILED.labels(error.code).inc()
        # One may be the echo of a report that overtook another.
        self._stale = self._stale + 1 if isinstance(error, StaleError) else 0
        if self._stale >= STALE_REPORTS:
            log.error("this executor is out of date: %s; it ends, to start afresh", error)
            return False
        pause = min(BACKOFF_MAX, BACKOFF_MIN * 2 ** min(self.failures - 1, 10))
        self._at = now + pause * random.uniform(0.8, 1.2)  # noqa: S311 - spreads executors, guards nothing
        if self.connected is not False:
            self.connected = False
            log.warning("reports are not taken: %s; judging goes on, results are spooled", error)
        for pending in self._table.unsafe():
            self._writer.write(pending)
        return True
