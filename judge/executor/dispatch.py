"""Tasks between an assignment and its result: the test data is fetched, a slot gets the task, its result is held.

The table says what is in hand; this module moves it on. The report and its answer are `reports`.
"""

from __future__ import annotations

import functools
import logging
import shutil
from collections.abc import Callable, Mapping

from judge.common import clock
from judge.common.errors import EXIT_FAILED, JudgeError, UnavailableError
from judge.executor import spans, telemetry
from judge.executor.channel import Finished, Job, Progress, given_back
from judge.executor.helpers import HelperScheduler
from judge.executor.machine import for_want_of_space
from judge.executor.parts import ExecutorParts
from judge.executor.storage.data import Prepared
from judge.model.messages import ABILITIES, FINDING, FINDINGS, TOOLS, Assignment, Completed, ExecutorInfo

log = logging.getLogger(__name__)

# Seconds that a report waits for the first word of a slot that was just given a task: it may be "nearly free".
FIRST_WORD = 0.004
# Sandboxes find programs in these directories.
_TOOLS_PATH = "/usr/bin:/bin"
STOPPING = "the executor is stopping"


class Dispatcher:
    def __init__(self, parts: ExecutorParts) -> None:
        """No task is asked for before `languages` is known."""
        self.languages: Mapping[str, str] | None = None
        self.stopping = False
        self.exit_code = 0
        self.first_word_by = 0.0
        self.helpers = HelperScheduler(parts.slots, parts.sharing)
        self._parts = parts
        self._table = parts.table
        self._prepared: dict[str, Prepared] = {}

    def fail(self) -> None:
        """End the executor, to start afresh."""
        self.exit_code, self.stopping = EXIT_FAILED, True

    # --- what the report says of this executor -----------------------------------------------------------------

    def vacant(self, now: float) -> int:
        if self.stopping or self.languages is None or self._parts.disk.full:
            return 0
        return self._table.vacant(self._parts.slots.working, now)

    def info(self) -> ExecutorInfo:
        full = self._parts.disk.finding()
        return ExecutorInfo(
            slots=len(self._parts.slots.slots),
            slot_memory=self._parts.slot_memory,
            languages=dict(self.languages or {}),
            version=self._parts.version,
            abilities=sorted({*ABILITIES, *(tool for tool in TOOLS if shutil.which(tool, path=_TOOLS_PATH))}),
            weak_sandbox=self._parts.weak,
            calibration=self._parts.calibration,
            checks=[finding[:FINDING] for finding in (*([full] if full else []), *self._parts.checks)][:FINDINGS],
        )

    # --- from the assignment to a slot -------------------------------------------------------------------------

    def accept(self, assignment: Assignment) -> None:
        """A task was assigned (seed: add_list): fetch its data, or queue it when it needs none."""
        log.info("task %s taken (attempt %d), trace %s", assignment.id, assignment.attempt, assignment.trace)
        submission = assignment.submission
        if submission.language is not None and submission.language not in (self.languages or {}):
            reason = f"language '{submission.language}' is not installed on {self._parts.config.name}"
            self.give_back(assignment, reason, clock.monotonic())
        elif assignment.problem is None and not any(test.input_blob or test.answer_blob for test in submission.tests):
            self._ready(assignment, Prepared())
        else:
            self._parts.pool.do(functools.partial(self._fetch, assignment))

    def _fetch(self, assignment: Assignment) -> Callable[[], None]:
        """In a thread: bring a task's data here."""
        try:
            prepared = self._parts.blob_client.prepare(assignment, lambda: assignment.claim in self._table.tasks)
        except (JudgeError, OSError) as exc:
            return functools.partial(self._without_data, assignment, exc)
        except Exception as exc:
            log.exception("fetching the data of task %s failed in an unforeseen way", assignment.id)
            return functools.partial(self._without_data, assignment, exc)
        return functools.partial(self._ready, assignment, prepared)

    def _ready(self, assignment: Assignment, prepared: Prepared) -> None:
        if self._table.prepared(assignment.claim, clock.monotonic()):
            self._prepared[assignment.claim] = prepared
        else:
            prepared.pins.close()

    def _without_data(self, assignment: Assignment, error: Exception) -> None:
        now = clock.monotonic()
        if for_want_of_space(error):
            self._parts.disk.failed(now)
        if assignment.claim in self._table.tasks:
            penalty = not isinstance(error, UnavailableError)
            self.give_back(assignment, f"its test data could not be fetched: {error}", now, penalty=penalty)

    def next_due(self) -> float:
        """Monotonic seconds at which a task has waited for a slot for too long; infinity when none waits."""
        return self._table.next_overdue() + self.helpers.patience

    def step(self, now: float) -> None:
        """Give waiting tasks to idle slots, oldest first (seed: t.thread.run); called at every turn of the loop."""
        for claim in self._table.waiting():
            slot = self._parts.slots.idle()
            if slot is None:
                break
            job = self._job(claim)
            if job is None:
                break
            self._table.started(claim, slot.index)
            try:
                slot.give(job, now)
                self.first_word_by = now + FIRST_WORD
            except OSError as exc:
                log.warning("slot %d does not take its task: %s", slot.index, exc)
                self._parts.slots.kill(slot)
        self.helpers.arrange(0 if self.stopping else self._table.outside, self._job, now)
        for claim in self._table.overdue(now - self.helpers.patience):
            assignment = self._table.tasks[claim].assignment
            self.give_back(assignment, "its slot was not free in time", now, penalty=False)

    def _job(self, claim: str) -> Job | None:
        """The job for a slot of a task whose data is here; None when nobody wants the task any more."""
        entry = self._table.tasks.get(claim)
        if entry is None or entry.cancelled or self.stopping:
            return None
        return self._prepared.get(claim, Prepared()).job(entry.assignment, self.languages or {})

    # --- from a slot to the result -----------------------------------------------------------------------------

    def progressed(self, event: Progress, now: float) -> bool:
        """A slot told how far it is; True when it will be free within moments, so that a task may be asked for."""
        if event.share:
            self.helpers.offered(event.claim)
        self._table.status(event.claim, event.status, event.progress)
        self.first_word_by = 0.0
        ahead = event.nearly and not self.stopping and not self._table.waiting()
        if ahead:
            self._table.nearly(event.claim, now)
        return ahead

    def finished(self, event: Finished, now: float) -> None:
        """A slot is done with a task: hold its result for the next report, which follows at once."""
        self.release(event.claim, now)
        self.step(now)  # nobody waits for what follows, the slot does
        if event.no_space:
            self._parts.disk.failed(now)
        if event.runs:
            telemetry.OVERHEAD.observe(event.overhead / event.runs)
        if event.completed is not None:
            self._complete(event.completed, event.output, event.seconds)
            return
        entry = self._table.tasks.get(event.claim)
        if entry is not None:  # not said when it was cancelled
            self.give_back(entry.assignment, STOPPING, now, penalty=False)

    def _complete(self, completed: Completed, output: str | None = None, seconds: float | None = None) -> None:
        entry = self._table.tasks.get(completed.claim)
        trace = "" if entry is None else entry.assignment.trace
        if not self._table.finished(completed, upload=output):
            if completed.claim not in self._table.completions:  # it was cancelled, perhaps after one of its tests
                (self._parts.outputs / f"{completed.claim}.out").unlink(missing_ok=True)
            return
        if completed.retry:
            telemetry.GIVEN_BACK.inc()
            log.warning("task %s is given back, trace %s: %s", completed.id, trace, completed.result.reason)
        else:
            telemetry.JUDGED.labels(str(completed.verdict)).inc()
            log.info("task %s is %s (attempt %d), trace %s", completed.id, completed.verdict, completed.attempt, trace)
        if entry is not None:
            spans.ended(self._parts.config.name, entry.assignment, completed, entry.marks)
        if seconds is not None:
            telemetry.SECONDS.observe(seconds)

    def give_back(self, assignment: Assignment, reason: str, now: float, *, penalty: bool = True) -> None:
        """Have an attempt made again, somewhere: this executor could not judge it."""
        self.release(assignment.claim, now)
        self._complete(given_back(assignment, reason, penalty=penalty))

    def release(self, claim: str, now: float) -> None:
        """Let go of a task's files (seed: clean_file), and of those who help with it."""
        self.helpers.ended(claim, now)
        prepared = self._prepared.pop(claim, None)
        if prepared is not None:
            prepared.pins.close()

    def cancel(self, claim: str, now: float) -> None:
        for slot in self._parts.slots.slots:
            slot.cancel(claim, now)

    def give_all_back(self, now: float) -> None:
        """For the end of the executor: what has no slot is given back at once, what has one is killed."""
        for claim, entry in list(self._table.tasks.items()):
            if entry.slot is None:
                self.give_back(entry.assignment, STOPPING, now, penalty=False)
            else:
                self.cancel(claim, now)
