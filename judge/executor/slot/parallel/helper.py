"""What a slot does that helps: it runs tests of a submission that another slot judges, and hands in what they came to.

It starts from the coordinator's `/box`, so every test runs the very same program; the coordinator decides the verdict.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

from judge.errors import UsageError
from judge.executor.channel import Help, Helped
from judge.executor.slot.builds import unpack
from judge.executor.slot.parallel.shared_queue import HelperQueue
from judge.executor.slot.pipeline import Judging, Pipeline
from judge.executor.slot.runner import Cancelled
from judge.executor.slot.testing import cases
from judge.executor.slot.validation import BuildError

log = logging.getLogger(__name__)


def help_out(pipeline: Pipeline, wanted: Help) -> Helped:
    """Run tests until there are none left, or main calls back; called by the slot process.

    SandboxError says that the sandbox failed; whatever else goes wrong only ends the help.
    """
    return _Helper(pipeline, wanted.job).help(wanted.directory)


class _Helper(Judging):
    """The part of a slot in a task that another one judges."""

    def help(self, directory: Path) -> Helped:
        helped = Helped(claim=self.finished.claim)
        try:
            with contextlib.closing(HelperQueue(directory)) as queue:
                self._work(queue, helped)
        except Cancelled:
            helped.recalled = True
        except FileNotFoundError:
            log.debug("task %s attempt %d is judged", *self.named[:2])
        except (BuildError, UsageError, OSError) as exc:
            log.warning("task %s attempt %d: %s cannot help: %s", *self.named[:3], exc)
        return helped

    def _work(self, queue: HelperQueue, helped: Helped) -> None:
        """Run tests while there are any."""
        limits = self.limits()
        program = self.program(limits)
        built = program.compile is not None
        with (
            self.create_files({} if built else program.files) as box,
            contextlib.ExitStack() as stack,
        ):
            if built:
                failed = unpack(lambda command: self.runner.run(box, command), queue.box())
                if failed:
                    msg = f"what was built cannot be unpacked: {failed}"
                    raise UsageError(msg)
            validator = self.validator(limits)
            if validator is not None:
                stack.callback(validator.close)
                validator.box()
            tester = self.tester(box, program, validator, whole=False)
            tests = cases(self.job)
            while (index := queue.take()) is not None:
                self.runner.runs, self.runner.overhead = 0, 0.0
                found = self.test(tester, tests[index])
                found.runs, found.overhead = self.runner.runs, self.runner.overhead
                queue.put(index, found)
                helped.tests += 1
                self.say(self.last)
