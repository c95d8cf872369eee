"""The tests of one attempt on several slots: the slot that judges shares them where that pays, and coordinates."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Sequence

from judge.executor.slot.attempt import PreparedJob
from judge.executor.slot.builds import packed, packing
from judge.executor.slot.parallel.schedule import Schedule
from judge.executor.slot.parallel.shared_queue import CoordinatorQueue, JudgedTest
from judge.executor.slot.program import Program
from judge.executor.slot.runner import Runner, SupersededError
from judge.executor.slot.serial import SerialJudge
from judge.model.messages import Verdict
from judge.sandbox.box import Sandbox

log = logging.getLogger(__name__)

# Seconds to wait for helpers between two looks whether one of them has died.
LOOK = 0.05
# Tests are shared when there are at least so many left, which take at least so many seconds.
SHARE_TESTS = 2
SHARE_SECONDS = 0.15


class Coordinator:
    def __init__(
        self,
        queue: CoordinatorQueue,
        schedule: Schedule,
        names: Sequence[str],
        run: Callable[[str], JudgedTest],
        note: Callable[[JudgedTest], None],
    ) -> None:
        """`names` are the tests by number; `run` runs one of them here (SupersededError: it was interrupted).

        `note` tells the schedule, which may take a repetition, and keeps the account.
        """
        self._queue = queue
        self._schedule = schedule
        self._names = names
        self._run_test = run
        self._note = note
        self._number = {name: index for index, name in enumerate(names)}
        self._published: frozenset[int] = frozenset()
        self._publish()

    def until_over(self, wait: Callable[[float], None]) -> None:
        """Run tests that nobody else runs, and note what others found out; `wait` until somebody rings."""
        while not self._schedule.over:
            index = self._queue.take(self._candidates())
            if index is None:
                wait(LOOK)
            # Helpers ring for a result that makes this slot's test useless, once they see which test that is. A result
            # that was handed in before is collected here.
            self._hear(self._queue.collect())
            if index is None or self._schedule.over:
                continue
            if index in self._candidates():
                self._run(index)
            else:
                self._queue.give_up(index)

    def _run(self, index: int) -> None:
        try:
            judged = self._run_test(self._names[index])
        except SupersededError:
            self._queue.give_up(index)
        else:
            self._queue.rest()
            self._hear([judged])

    def _hear(self, news: Iterable[JudgedTest]) -> None:
        failed = False
        for judged in news:
            self._note(judged)
            failed = failed or judged.test.verdict is not Verdict.AC
        # More than before is wanted when a test passed that had failed near a time limit.
        if failed or not self._published.issuperset(self._candidates()):
            self._publish()

    def _candidates(self) -> list[int]:
        return [self._number[name] for name in self._schedule.candidates()]

    def _publish(self) -> None:
        indexes = self._candidates()
        self._published = frozenset(indexes)
        self._queue.publish(indexes, stops=self._schedule.stops_at_failure)


def worth_sharing(attempt: PreparedJob, serial: SerialJudge) -> bool:
    sharing, manifest, options = attempt.means.sharing, attempt.manifest, attempt.job.assignment.submission.options
    return (
        sharing is not None
        and serial.open >= SHARE_TESTS
        and serial.remaining >= SHARE_SECONDS
        and sharing.idle() > 0
        and (manifest is None or manifest.grader is None)
        and (options is None or not options.outputs)  # a helper hands in no whole outputs
    )


def coordinate(attempt: PreparedJob, serial: SerialJudge, box: Sandbox, program: Program) -> None:
    """Run the rest of the tests beside idle slots, if it can be; `box` has what the compiler made of `program`."""
    sharing, runner = attempt.means.sharing, attempt.runner
    if sharing is None:
        return
    with contextlib.ExitStack() as stack:
        try:
            path = sharing.queue(attempt.job.assignment.claim)
            queue = stack.enter_context(contextlib.closing(CoordinatorQueue(path, attempt.means.cancel_fd)))
            if not _keep_box(attempt, queue, box, program):
                return
        except OSError as exc:
            log.warning("task %s attempt %d: its tests cannot be shared: %s", *attempt.named[:2], exc)
            return
        stack.callback(setattr, runner, "bell", None)
        runner.bell = queue.interrupt_fd
        coordinator = Coordinator(queue, serial.schedule, serial.names, serial.run, serial.note)
        attempt.teller.shares()
        coordinator.until_over(runner.look)


def _keep_box(attempt: PreparedJob, queue: CoordinatorQueue, box: Sandbox, program: Program) -> bool:
    """Return whether the helpers have what the compiler made, if there was anything to compile."""
    if program.compile is None:
        return True
    means = attempt.means
    # A runner of its own: this is no run of the submission's.
    runner = Runner(means.run_lock, means.cancel_fd, attempt.teller.alive)
    with runner.run(box, packing()) as outcome:
        archive = packed(outcome)
    if archive is None:
        return False
    try:
        queue.keep_box(archive)
    finally:
        os.close(archive)
    return True
