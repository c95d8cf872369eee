"""Sends the executor's reports in time, and does what follows from the answers (seed: Main)."""

from __future__ import annotations

import functools
import logging
import random
from collections.abc import Callable

from judge.common import clock
from judge.common.errors import JudgeError, StaleError, UnavailableError
from judge.executor import telemetry
from judge.executor.dispatch import STOPPING, Dispatcher
from judge.executor.parts import ExecutorParts
from judge.executor.threads import ThreadPool
from judge.executor.uploads import SpoolWriter
from judge.model.messages import ReportReply, ReportRequest

log = logging.getLogger(__name__)

# After a report without an answer: 0.2, 0.4 … seconds, at most BACKOFF_MAX; well below the judicators' patience.
BACKOFF_MIN = 0.2
BACKOFF_MAX = 2.0
# Results of an earlier life travel in the first report or not at all, so it waits for their uploads, but not for ever.
FIRST_REPORT_WAIT = 10.0
# Seconds for which the leader may hold a report of an executor that has nothing to do.
HOLD = 1.0
# An executor whose reports are older than others for this many times in a row has been replaced.
STALE_REPORTS = 3


class Reports:
    """The reports of one executor; their answers come by mail. One may go while the leader holds another."""

    def __init__(self, parts: ExecutorParts, dispatcher: Dispatcher, writer: SpoolWriter) -> None:
        """`dispatcher` carries out what answers ask for, `writer` keeps what no judicator takes."""
        # When the reports that wait for their answers were sent, and for how long they may be held, by number.
        self._sent: dict[int, tuple[float, float]] = {}
        self._epoch = 0
        self._answered = 0
        self.failures = 0
        # None before the first answer.
        self.connected: bool | None = None
        self._parts = parts
        self._table = parts.table
        self._pool = ThreadPool(parts.mailbox, 2)  # one report may be held by the leader while another one goes
        self._dispatcher = dispatcher
        self._writer = writer
        self._hurry = True
        self._at = 0.0
        self._hold_from = 0.0
        self._stale = 0
        self._first_until = clock.monotonic() + FIRST_REPORT_WAIT
        self._was_drained = False

    def hurry(self) -> None:
        """There is something to tell, or a task to ask for: the next report goes at once."""
        self._hurry = True

    @property
    def in_flight(self) -> bool:
        return bool(self._sent)

    @property
    def held(self) -> bool:
        """Return whether the leader may hold a report."""
        return any(hold for _, hold in self._sent.values())

    def _free(self) -> bool:
        """Return whether a slot is free that may be given work; one that is only nearly free is not."""
        slots = self._parts.slots.working
        return self._table.free(slots) > 0 and self._dispatcher.vacant(clock.monotonic()) > 0

    def next_due(self) -> float:
        """Monotonic seconds at which the next report goes; infinity while one waits for its answer."""
        if len(self._sent) > 1 or not all(hold for _, hold in self._sent.values()):
            return float("inf")
        if self._table.sequence == 0 and self._table.uploads():
            return self._first_until
        if self.failures == 0 and (self._hurry or self._table.urgent):
            return self._dispatcher.first_word_by
        if self._sent:
            return self._at if self._table.in_hand else float("inf")
        return min(self._at, self._hold_from) if self.connected is True and self._free() else self._at

    def step(self, now: float) -> None:
        if now < self.next_due():
            return
        self._hurry = False
        vacant = self._dispatcher.vacant(now)
        ahead = max(0, vacant - self._table.free(self._parts.slots.working))
        idle = self.connected is True and not self._table.completions and self._free()
        hold, pending = HOLD if idle else 0.0, min(self._sent, default=0)
        request = self._table.request(vacant, self._dispatcher.info(), ahead, hold=hold, pending=pending)
        self._sent[request.sequence] = now, hold
        self._at = now + self._parts.config.report_interval
        self._pool.do(functools.partial(self._send, request))

    def _send(self, request: ReportRequest) -> Callable[[], None]:
        error: JudgeError
        try:
            reply = self._parts.rpc.call("report", request, ReportReply)
        except JudgeError as exc:
            error = exc
        except Exception as exc:
            log.exception("a report failed in an unforeseen way")
            error = UnavailableError(f"internal fault in the RPC client: {exc!r}")
        else:
            if reply.leader:
                self._parts.rpc.first = reply.leader
            return lambda: self.answered(reply, request.sequence, clock.monotonic())
        return lambda: self.unanswered(error, request.sequence, clock.monotonic())

    def answered(self, reply: ReportReply, sequence: int, now: float) -> None:
        """Carry out a report's answer (seed: cancel_list, add_list)."""
        sent_at, hold = self._sent.pop(sequence, (now, 0.0))
        self._answered = max(self._answered, sequence)
        self.failures = 0
        self._stale = 0
        self._at = now + self._parts.config.report_interval
        # A judicator that does not hold reports is asked once in each interval. One that holds them
        # answers early, too, if a newer report has come.
        newest = sequence == self._table.sequence
        early = newest and hold > 0.0 and now < sent_at + hold / 2 and not (reply.add or reply.drop)
        self._hold_from = self._at if early else now
        if reply.epoch < self._epoch and reply.add:
            log.warning("assignments of epoch %d are refused: a leader of epoch %d is known", reply.epoch, self._epoch)
            reply.add = []
        self._epoch = max(self._epoch, reply.epoch)
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
            if self._dispatcher.stopping:
                self._dispatcher.give_back(assignment, STOPPING, now, penalty=False)
            else:
                self._dispatcher.accept(assignment)

    def unanswered(self, error: JudgeError, sequence: int, now: float) -> None:
        """Keep judging, keep what was finished safe, try again after a pause; end when this executor was replaced."""
        self._sent.pop(sequence, None)
        if isinstance(error, StaleError) and sequence < max([self._answered, *self._sent]):
            return  # a later report overtook this one, and says all that this one said
        self.failures += 1
        telemetry.REPORTS_FAILED.labels(error.code).inc()
        self._stale = self._stale + 1 if isinstance(error, StaleError) else 0
        if self._stale >= STALE_REPORTS:
            log.error("this executor is out of date: %s; it ends, to start afresh", error)
            self._dispatcher.fail()
            return
        pause = min(BACKOFF_MAX, BACKOFF_MIN * 2 ** min(self.failures - 1, 10))
        self._at = now + pause * random.uniform(0.8, 1.2)  # noqa: S311 - spreads executors, guards nothing
        if self.connected is not False:
            self.connected = False
            log.warning("reports are not taken: %s; judging goes on, results are spooled", error)
        for pending in self._table.unsafe():
            self._writer.write(pending)
