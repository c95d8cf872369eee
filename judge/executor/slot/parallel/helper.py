"""A slot that helps: it runs tests of a submission that another slot judges, and hands in their results.

It starts from the coordinator's `/box`, so every test runs the very same program; the coordinator decides the verdict.
"""

from __future__ import annotations

import contextlib
import logging

from judge.common.errors import SandboxError, UsageError
from judge.executor.channel import Help, Helped
from judge.executor.slot.attempt import Means, PreparedJob
from judge.executor.slot.builds import unpack
from judge.executor.slot.cases import cases
from judge.executor.slot.packaged.built import BuildError
from judge.executor.slot.parallel.shared_queue import HelperQueue
from judge.executor.slot.runner import Cancelled

log = logging.getLogger(__name__)


def help_out(means: Means, request: Help) -> Helped:
    """Run tests of the queue until there are none, or main calls back; called by the slot process.

    Whatever goes wrong only ends the help: the other slot runs those tests.
    """
    attempt = PreparedJob(means, request.job)
    helped = Helped(claim=request.job.assignment.claim)
    try:
        with contextlib.closing(HelperQueue(request.directory)) as queue:
            _run_tests(attempt, queue, helped)
    except Cancelled:
        helped.recalled = True
    except FileNotFoundError:
        log.debug("task %s attempt %d is judged", *attempt.named[:2])
    except (BuildError, SandboxError, UsageError, OSError) as exc:
        helped.broken = isinstance(exc, SandboxError)
        log.warning("task %s attempt %d: %s cannot help: %s", *attempt.named[:3], exc)
    except Exception:  # an error of this program ends the help, and no slot
        helped.broken = True
        log.exception("task %s attempt %d: %s cannot help", *attempt.named[:3])
    return helped


def _run_tests(attempt: PreparedJob, queue: HelperQueue, helped: Helped) -> None:
    runner = attempt.runner
    limits = attempt.limits()
    program = attempt.program(limits)
    compiled = program.compile is not None
    with attempt.create_files({} if compiled else program.files) as box, contextlib.ExitStack() as stack:
        if compiled:
            with queue.box() as archive:
                failed = unpack(lambda command: runner.run(box, command), archive)
            if failed:
                raise UsageError(f"what was built cannot be unpacked: {failed}")
            limits = attempt.beside_builds(limits, box)
            program = attempt.program(limits)
        judges = stack.enter_context(contextlib.closing(attempt.judges(limits)))
        judges.build()
        rounds = attempt.rounds(limits, box, program)
        if rounds is not None:
            stack.callback(rounds.close)
            rounds.prepare()
        tester = attempt.tester(box, program, judges, rounds=rounds)
        tests = cases(attempt.job)
        while (index := queue.take()) is not None:
            runner.runs, runner.overhead = 0, 0.0
            judged = attempt.test(tester, tests[index])
            judged.runs, judged.overhead = runner.runs, runner.overhead
            queue.put(index, judged)
            helped.tests += 1
            attempt.teller.again()
