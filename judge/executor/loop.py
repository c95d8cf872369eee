"""The executor's main loop (seed: Main): reports, takes tasks, gives them to slots, delivers results.

One thread, which never waits for the network or a disk cache: that is what the thread pool and the reporter are for.
The
report's logic is `state.Board`; this module carries out what it says.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import random
import selectors
from collections.abc import Callable, Mapping
from pathlib import Path

from judge import clock
from judge.errors import EXIT_FAILED, JudgeError, StaleError, UnavailableError
from judge.executor import telemetry
from judge.executor.channel import Broken, Finished, Helped, Job, Progress
from judge.executor.data import Prepared
from judge.executor.helpers import Helpers
from judge.executor.keeper import Keeper
from judge.executor.machine import for_want_of_space
from judge.executor.parts import Parts
from judge.executor.slots import Event, Slot, SlotState
from judge.executor.state import given_back
from judge.executor.workers import Answered, Done, Failed, Mail, Unanswered
from judge.model.messages import Assignment, Completed, ExecutorInfo, ReportReply
from judge.notify import notify

log = logging.getLogger(__name__)

# After a report without an answer: 0.2, 0.4 … seconds, at most BACKOFF_MAX; well below the judicators' patience.
BACKOFF_MIN = 0.2
BACKOFF_MAX = 2.0
# After an upload without an answer.
UPLOAD_REST = 2.0
# Results of an earlier life travel in the first report or not at all, so it waits for their uploads, but not for ever.
FIRST_REPORT_WAIT = 10.0
TICK = 1.0
# How often systemd or boot hears of this loop at most, in seconds.
TELL = 0.5
# How long a report waits for the first word of a slot that was just given a task, in seconds: it may be "nearly free".
FIRST_WORD = 0.004
# An executor whose reports are older than others for this many times in a row has been replaced.
STALE_REPORTS = 3
STOPPING = "the executor is stopping"


class Loop:
    """The state of the main loop; `run` is the loop."""

    def __init__(self, parts: Parts) -> None:
        """Nothing is started before `run`."""
        self.p = parts
        self.board = parts.board
        self.helpers = Helpers(parts.slots, parts.sharing)
        self.keeper = Keeper(parts)
        self.selector = selectors.DefaultSelector()
        self.selector.register(parts.mailbox, selectors.EVENT_READ, None)
        self.languages: Mapping[str, str] | None = None
        self.prepared: dict[str, Prepared] = {}
        self.stopping = False
        self.exit_code = 0
        self._in_flight = False
        self._hurry = True
        self._report_at = 0.0
        self._failures = 0
        self._stale = 0
        self._connected: bool | None = None
        self._first_until = clock.monotonic() + FIRST_REPORT_WAIT
        self._upload_at = {claim: 0.0 for claim, one in self.board.completions.items() if one.upload is not None}
        self._state = ""
        self._tell_at = 0.0
        self._word_until = 0.0
        self._was_drained = False

    # --- the loop ----------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ask the loop to end; called by signal handlers."""
        self.stopping = True
        self.p.mailbox.wake()

    def run(self) -> int:
        """Work until told to stop; returns the exit code."""
        notify("READY=1")
        while not self.stopping:
            self._turn()
        notify("STOPPING=1")
        self._wind_up()
        return self.exit_code

    def _turn(self) -> None:
        """One turn: wait for something to happen, take it in, act on it."""
        now = clock.monotonic()
        overdue = self.board.next_overdue() + self.helpers.patience
        due = min(self._report_at, self.p.slots.next_due(), overdue, *self._upload_at.values(), now + TICK)
        if self._word_until > now:
            due = min(due, self._word_until)
        self._take_events(max(0.0, due - now))
        now = clock.monotonic()
        for slot in self.p.slots.stuck(now):
            log.warning("slot %d does not answer; it is killed", slot.index)
            self.p.slots.kill(slot)
        if not self.stopping:
            self._start_slots(now)
        self.p.disk.check(now)
        self._deal_out(now)
        self._upload_due(now)
        self._report_due(now)
        self._tell_status()

    def _take_events(self, seconds: float) -> None:
        """Wait up to `seconds` for mail or slots, and take in what came."""
        for key in list(self.selector.get_map().values()):
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if key.data is not None and key.data.unsent else 0)
            if wanted != key.events:
                self.selector.modify(key.fileobj, wanted, key.data)
        for key, events in self.selector.select(seconds):
            if key.data is None:
                for mail in self.p.mailbox.take():
                    self._take_mail(mail)
                continue
            if events & selectors.EVENT_WRITE:
                with contextlib.suppress(OSError):  # it is gone, and reading says so
                    key.data.flush()
            if events & selectors.EVENT_READ:
                self._read_slot(key.data)

    def _take_mail(self, mail: Mail) -> None:
        if isinstance(mail, Answered):
            self._answered(mail.reply)
        elif isinstance(mail, Unanswered):
            self._unanswered(mail.error)
        elif isinstance(mail, Done):
            mail.then()
        elif isinstance(mail, Failed):
            log.error("work in the background failed in an unforeseen way (%r); the executor ends", mail.error)
            self.exit_code = EXIT_FAILED
            self.stopping = True
        else:
            self._hurry = True

    def know_languages(self, found: Mapping[str, str]) -> None:
        """The languages of this machine are known, so tasks can be taken."""
        self.languages = found
        self._hurry = True

    # --- slots -------------------------------------------------------------------------------------------------

    def _start_slots(self, now: float) -> None:
        for slot in self.p.slots.start_due(now):
            if slot.sock is not None:
                self.selector.register(slot.sock, selectors.EVENT_READ, slot)

    def _read_slot(self, slot: Slot) -> None:
        """Take in what a slot said, and its end."""
        sock, claim = slot.sock, slot.claim
        if sock is None:
            return
        now = clock.monotonic()
        try:
            events, alive = slot.read(now)
        except (JudgeError, ValueError) as exc:
            events, alive = [], False
            slot.ended(f"it talks nonsense: {exc}", now)
        for event in events:
            self._take_event(slot, event, now)
        if not alive:
            self.selector.unregister(sock)
            telemetry.RESTARTS.inc()
            entry = self.board.tasks.get(claim) if claim is not None and slot.claim == claim else None
            slot.claim = None
            if entry is not None:
                self._give_back(entry.assignment, f"slot {slot.index} ended while judging: {slot.last_reason}")
            self._hurry = True

    def _take_event(self, slot: Slot, event: Event, now: float) -> None:
        if isinstance(event, Progress):
            if slot.state is SlotState.HELPING:
                return
            if event.share:
                self.helpers.offered(event.claim)
            self.board.status(event.claim, event.status, event.progress)
            self._word_until = 0.0
            if event.nearly and not self.stopping and not self.board.waiting():
                self.board.nearly(event.claim, now)
                self._hurry = True
        elif isinstance(event, Finished):
            self._finished(event, now)
        elif isinstance(event, Helped):
            self.helpers.helped(slot, event)
        elif isinstance(event, Broken):
            log.error("slot %d: %s", slot.index, event.reason)
        else:
            log.info("slot %d is ready on core %s", slot.index, slot.settings.core)
            self._hurry = True

    def _finished(self, event: Finished, now: float) -> None:
        """A slot is done with a task: keep its result for the next report, which follows at once."""
        self._release(event.claim)
        self._deal_out(now)  # nobody waits for what follows, the slot does
        if event.no_space:
            self.p.disk.failed(now)
        if event.runs:
            telemetry.OVERHEAD.observe(event.overhead / event.runs)
        if event.completed is None:
            entry = self.board.tasks.pop(event.claim, None)
            if entry is not None and not entry.cancelled:
                self.board.hold(given_back(entry.assignment, STOPPING, strike=False))
            return
        self._complete(event.completed, event.output, event.seconds)

    def _complete(self, completed: Completed, output: str | None = None, seconds: float | None = None) -> None:
        trace = self.board.trace(completed.claim)
        kept = self.board.finished(completed, upload=output)
        if not kept:
            if output is not None:
                Path(output).unlink(missing_ok=True)
            return
        if completed.retry:
            telemetry.GIVEN_BACK.inc()
            log.warning("task %s is given back, trace %s: %s", completed.id, trace, completed.result.reason)
        else:
            telemetry.JUDGED.labels(str(completed.verdict)).inc()
            log.info("task %s is %s (attempt %d), trace %s", completed.id, completed.verdict, completed.attempt, trace)
        if seconds is not None:
            telemetry.SECONDS.observe(seconds)
        if output is not None:
            self._upload_at[completed.claim] = 0.0

    def _give_back(self, assignment: Assignment, reason: str, *, strike: bool = True) -> None:
        """Have an attempt made again: this executor could not judge it."""
        self._release(assignment.claim)
        self._complete(given_back(assignment, reason, strike=strike))

    def _release(self, claim: str) -> None:
        """Let go of a task's files (seed: clean_file), and of those who help with it."""
        self.helpers.ended(claim, clock.monotonic())
        prepared = self.prepared.pop(claim, None)
        if prepared is not None:
            prepared.pins.close()

    # --- tasks -------------------------------------------------------------------------------------------------

    def _accept(self, assignment: Assignment) -> None:
        """A task was handed out (seed: add_list): fetch its data, or queue it when it needs none."""
        log.info("task %s taken (attempt %d), trace %s", assignment.id, assignment.attempt, assignment.trace)
        submission = assignment.submission
        if submission.language is not None and submission.language not in (self.languages or {}):
            self._give_back(assignment, f"language '{submission.language}' is not installed on {self.p.config.name}")
            return
        blobs = any(test.input_blob or test.answer_blob for test in submission.tests)
        if assignment.problem is None and not blobs:
            self._prepared(assignment, Prepared())
            return
        claim = assignment.claim

        def fetch() -> Callable[[], None]:
            try:
                found = self.p.blob_client.prepare(assignment, lambda: claim in self.board.tasks)
            except (JudgeError, OSError) as exc:
                return functools.partial(self._unprepared, assignment, exc)
            except Exception as exc:
                log.exception("fetching the data of task %s failed in an unforeseen way", assignment.id)
                return functools.partial(self._unprepared, assignment, exc)
            return functools.partial(self._prepared, assignment, found)

        self.p.pool.do(fetch)

    def _prepared(self, assignment: Assignment, prepared: Prepared) -> None:
        if self.board.prepared(assignment.claim, clock.monotonic()):
            self.prepared[assignment.claim] = prepared
        else:
            prepared.pins.close()

    def _unprepared(self, assignment: Assignment, error: Exception) -> None:
        """A task's data cannot be had here and now."""
        if for_want_of_space(error):
            self.p.disk.failed(clock.monotonic())
        if assignment.claim in self.board.tasks:
            strike = not isinstance(error, UnavailableError)
            self._give_back(assignment, f"its test data could not be fetched: {error}", strike=strike)

    def _deal_out(self, now: float) -> None:
        """Give waiting tasks to idle slots, oldest first (seed: t.thread.run)."""
        for claim in self.board.waiting():
            slot = self.p.slots.idle()
            if slot is None:
                break
            job = self._job(claim)
            if job is None:
                break
            self.board.started(claim, slot.index)
            try:
                slot.give(job, now)
                self._word_until = now + FIRST_WORD
            except OSError as exc:
                log.warning("slot %d does not take its task: %s", slot.index, exc)
                self.p.slots.kill(slot)
        self.helpers.arrange(0 if self.stopping else self.board.outside, self._job, now)
        for claim in self.board.overdue(now - self.helpers.patience):
            self._give_back(self.board.tasks[claim].assignment, "its slot was not free in time", strike=False)

    def _job(self, claim: str) -> Job | None:
        """What slots are told about a task whose data is here; None when nobody wants it any more."""
        entry = self.board.tasks.get(claim)
        if entry is None or entry.cancelled or self.stopping:
            return None
        return self.prepared.get(claim, Prepared()).job(entry.assignment, self.languages or {})

    # --- outputs that travel as blobs --------------------------------------------------------------------------

    def _upload_due(self, now: float) -> None:
        for claim, when in list(self._upload_at.items()):
            pending = self.board.completions.get(claim)
            if pending is None or pending.upload is None:
                del self._upload_at[claim]
            elif when <= now:
                self._upload_at[claim] = float("inf")
                self.p.pool.do(functools.partial(self._upload, claim, Path(pending.upload)))

    def _upload(self, claim: str, output: Path) -> Callable[[], None]:
        """In a thread: store one output."""
        try:
            blob = self.p.blob_client.upload(output)
        except UnavailableError as exc:
            return functools.partial(self._upload_failed, claim, exc)
        except (JudgeError, OSError) as exc:
            return functools.partial(self._uploaded, claim, None, f"the whole output could not be kept: {exc}")
        return functools.partial(self._uploaded, claim, blob, "")

    def _uploaded(self, claim: str, blob: str | None, reason: str) -> None:
        if self.board.uploaded(claim, blob, reason):
            self._hurry = True

    def _upload_failed(self, claim: str, error: JudgeError) -> None:
        log.debug("an output could not be uploaded: %s", error)
        self._upload_at[claim] = clock.monotonic() + UPLOAD_REST
        pending = self.board.completions.get(claim)
        if pending is not None:
            self.keeper.keep(pending)

    # --- reports -----------------------------------------------------------------------------------------------

    def vacant(self) -> int:
        """How many tasks to ask for now."""
        if self.stopping or self.languages is None or self.p.disk.full:
            return 0
        return self.board.vacant(self.p.slots.working, clock.monotonic())

    def info(self) -> ExecutorInfo:
        """What this executor tells about itself."""
        full = self.p.disk.finding()
        return ExecutorInfo(
            slots=len(self.p.slots.slots),
            languages=dict(self.languages or {}),
            version=self.p.version,
            weak_sandbox=self.p.weak,
            checks=[*self.p.checks, *([full] if full else [])],
        )

    def _report_due(self, now: float) -> None:
        """Send a report when it is time, or at once when there is something to tell or to ask for."""
        if self._in_flight:
            return
        first = self.board.sequence == 0
        if first and now < self._first_until and any(one.upload for one in self.board.completions.values()):
            self._report_at = now + BACKOFF_MIN
            return
        urgent = self._failures == 0 and (self._hurry or self.board.urgent)
        if now < (self._word_until if urgent else self._report_at):
            return
        self._hurry = False
        self._in_flight = True
        self._report_at = float("inf")
        vacant = self.vacant()
        ahead = max(0, vacant - self.board.free(self.p.slots.working))
        self.p.reporter.report(self.board.request(vacant, self.info(), ahead))

    def _answered(self, reply: ReportReply) -> None:
        """Carry out a report's answer (seed: cancel_list, add_list)."""
        now = clock.monotonic()
        self._in_flight = False
        self._failures = 0
        self._stale = 0
        self._report_at = now + self.p.config.report_interval
        if self._connected is not True:
            log.info("the judicators take reports%s", " again" if self._connected is False else "")
            self._connected = True
        orders = self.board.answered(reply)
        if self.board.drained != self._was_drained:
            self._was_drained = self.board.drained
            log.info("drained: no more tasks are taken" if self.board.drained else "resumed: tasks are taken again")
        for claim in orders.settled:
            self.p.spool.remove(claim)
            (self.p.outputs / f"{claim}.out").unlink(missing_ok=True)
        for claim in orders.kill:
            task = self.board.tasks[claim].assignment.id
            log.info("task %s is not wanted any more; it is killed, trace %s", task, self.board.trace(claim))
            self._kill(claim, now)
        for ref in reply.drop:
            if ref.claim not in self.board.tasks:
                self._release(ref.claim)
        for assignment in orders.start:
            self._accept(assignment)

    def _kill(self, claim: str, now: float) -> None:
        for slot in self.p.slots.slots:
            slot.cancel(claim, now)

    def _unanswered(self, error: JudgeError) -> None:
        """Keep judging, keep what was finished safe, try again after a pause."""
        now = clock.monotonic()
        self._in_flight = False
        self._failures += 1
        telemetry.REPORTS_FAILED.labels(error.code).inc()
        # One may be the echo of a report that overtook another.
        self._stale = self._stale + 1 if isinstance(error, StaleError) else 0
        if self._stale >= STALE_REPORTS:
            log.error("this executor is out of date: %s; it ends, to start afresh", error)
            self.exit_code = EXIT_FAILED
            self.stopping = True
            return
        pause = min(BACKOFF_MAX, BACKOFF_MIN * 2 ** min(self._failures - 1, 10))
        self._report_at = now + pause * random.uniform(0.8, 1.2)  # noqa: S311 - spreads executors, guards nothing
        if self._connected is not False:
            self._connected = False
            log.warning("reports are not taken: %s; judging goes on, results are spooled", error)
        for pending in self.board.unsafe():
            self.keeper.keep(pending)

    # --- people, and the end -----------------------------------------------------------------------------------

    def _tell_status(self) -> None:
        """Watchdog, status line, metrics, and whether to park a Wait."""
        slots = self.p.slots
        # A wait is for slots that are free, not for those that nearly are: a wake-up spent here is missing elsewhere.
        free = self.board.free(slots.working) if self.vacant() else 0
        self.p.reporter.vacant(self._connected is True and free > 0 and not self._in_flight)
        telemetry.SLOTS.labels("busy").set(slots.busy)
        telemetry.SLOTS.labels("helping").set(slots.helping)
        telemetry.SLOTS.labels("all").set(len(slots.slots))
        telemetry.SPOOL.set(self.p.spool.bytes)
        state = ", drained" if self.board.drained else ""
        if self.p.disk.full:
            state += ", disk full"
        if self._connected is False:
            state += f", no judicator takes reports ({len(self.p.spool)} results spooled)"
        now = clock.monotonic()
        if now < self._tell_at and state == self._state:
            return  # under load slots come and go with every task: whoever listens need not hear of each
        self._tell_at, self._state = now + TELL, state
        notify("WATCHDOG=1", f"STATUS=judging {slots.busy} of {len(slots.slots)} slots{state}")

    def _wind_up(self) -> None:
        """Stop taking, kill what runs and give it back at once, deliver what is finished, within stop_grace."""
        self.p.reporter.vacant(False)
        self._word_until = 0.0
        deadline = clock.Deadline(self.p.config.stop_grace * 0.8)
        now = clock.monotonic()
        for claim, entry in list(self.board.tasks.items()):
            if entry.slot is None:
                self._give_back(entry.assignment, STOPPING, strike=False)
            else:
                self._kill(claim, now)
        while any(slot.state is SlotState.BUSY for slot in self.p.slots.slots) and deadline.left() > 0.0:
            self._take_events(min(0.1, deadline.left()))
            for slot in self.p.slots.stuck(clock.monotonic()):
                self.p.slots.kill(slot)
        for entry in list(self.board.tasks.values()):
            self._give_back(entry.assignment, STOPPING, strike=False)
        self.p.slots.close()
        if self.exit_code == 0:
            self._last_report(deadline)
        for pending in self.board.completions.values():
            self.keeper.keep_now(pending)
        log.info("stopped; %d results are spooled", len(self.p.spool))

    def _last_report(self, deadline: clock.Deadline) -> None:
        """Deliver what is finished and what is given back, unless no judicator answers."""
        while self._in_flight and deadline.left() > 0.0:
            self._take_events(deadline.left())
        while self.board.urgent and self._failures == 0 and deadline.left() > 0.0:
            self._report_due(clock.monotonic())
            self._take_events(deadline.left())
