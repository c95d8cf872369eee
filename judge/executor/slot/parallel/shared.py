"""The tests of one attempt on several slots: the slot that judges shares them where that pays, and coordinates."""

from __future__ import annotations

import contextlib
import logging
import os

from judge.executor.slot.attempt import PreparedJob
from judge.executor.slot.builds import packed, packing
from judge.executor.slot.parallel.coordinator import Coordinator
from judge.executor.slot.parallel.shared_queue import CoordinatorQueue
from judge.executor.slot.program import Box, Program
from judge.executor.slot.runner import Runner
from judge.executor.slot.serial import SerialJudge

log = logging.getLogger(__name__)

# Tests are shared when there are at least so many left, which take at least so many seconds.
SHARE_TESTS = 2
SHARE_SECONDS = 0.15


class SharedJudge:
    """Tests of an attempt on several slots, counted by a SerialJudge. They are offered once."""

    def __init__(self, attempt: PreparedJob, serial: SerialJudge, box: Box, program: Program) -> None:
        """`box` has in it what the compiler made of `program`."""
        self._attempt = attempt
        self._serial = serial
        self._box = box
        self._program = program
        self._offered = False

    def coordinate(self) -> None:
        """Run the rest of the tests beside idle slots; nothing when there are none, or it is not worth it."""
        sharing, serial = self._attempt.means.sharing, self._serial
        if sharing is None or self._offered or serial.open < SHARE_TESTS:
            return
        if serial.left < SHARE_SECONDS or sharing.idle() == 0:
            return
        if self._attempt.manifest is not None and self._attempt.manifest.grader is not None:
            return
        options = self._attempt.job.assignment.submission.options
        if options is not None and options.outputs:
            return  # a helper hands in no whole outputs
        self._offered = True
        with contextlib.ExitStack() as stack:
            runner = self._attempt.runner
            try:
                path = sharing.queue(self._attempt.job.assignment.claim)
                queue = stack.enter_context(contextlib.closing(CoordinatorQueue(path, self._attempt.means.cancel_fd)))
                if not self._box_kept(queue):
                    return
            except OSError as exc:
                log.warning("task %s attempt %d: its tests cannot be shared: %s", *self._attempt.named[:2], exc)
                return
            stack.callback(setattr, runner, "bell", None)
            runner.bell = queue.interrupt_fd
            coordinator = Coordinator(queue, serial.schedule, serial.names, serial.run, serial.note)
            self._attempt.teller.shares()
            coordinator.until_over(runner.look)

    def _box_kept(self, queue: CoordinatorQueue) -> bool:
        """Return whether the helpers have what the compiler made, if there was anything to compile."""
        if self._program.compile is None:
            return True
        means = self._attempt.means
        # A runner of its own: this is no run of the submission's.
        runner = Runner(means.run_lock, means.cancel_fd, self._attempt.teller.alive)
        with runner.run(self._box, packing()) as outcome:
            data = packed(outcome)
        if data is None:
            return False
        try:
            queue.keep_box(data)
        finally:
            os.close(data)
        return True
