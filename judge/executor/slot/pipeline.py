"""Compile, run, check: what a slot does with one task (seed: Execute).

One sandbox serves one task: the source and what the compiler leaves lie in its `/box`; every run gets fresh `/scratch`,
`/tmp` and `/dev/shm`. A validator of the problem's own has a second one. Called by the slot process only, which is
single-threaded.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import logging
import os
from dataclasses import dataclass

import judge
from judge.common import clock
from judge.common.errors import SandboxError, UnfitError, UsageError
from judge.common.files import copy
from judge.executor.channel import Finished, Job, given_back
from judge.executor.slot import leavings, truncation
from judge.executor.slot.attempt import Means, PreparedJob
from judge.executor.slot.cases import cases
from judge.executor.slot.duration import kind_of
from judge.executor.slot.made import made_fault
from judge.executor.slot.memory_budget import JobLimits
from judge.executor.slot.packaged.built import BuildError
from judge.executor.slot.packaged.checking import Checking
from judge.executor.slot.packaged.rendering import Rendering
from judge.executor.slot.parallel.coordinator import coordinate, worth_sharing
from judge.executor.slot.program import Program, shorter
from judge.executor.slot.runner import Cancelled
from judge.executor.slot.serial import SerialJudge
from judge.executor.slot.testing import Judges
from judge.executor.verdict import Ruling, compile_verdict, judge_error, rendered_verdict, unfit_verdict, usage
from judge.languages import handed
from judge.model.messages import Completed, Limits, Result, Verdict
from judge.model.problem import ProblemManifest
from judge.sandbox.box import Sandbox
from judge.sandbox.types import Command, RunOutcome

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pipeline(Means):
    """Judges jobs, one after another, with what a slot has."""

    def execute(self, job: Job) -> Finished:
        """Judge one job to its end (seed: Execute); `completed` is None when it was cancelled.

        A job whose sandbox failed is given back, and `Finished.broken` is set: nothing is known about the submission.
        """
        return Judging(self, job).execute()


class Judging:
    def __init__(self, means: Means, job: Job) -> None:
        self._means = means
        self._job = job
        self._kind = kind_of(job)
        self._finished = Finished(claim=job.assignment.claim)
        self._result = Result(
            language_version=job.language_version,
            judge_version=judge.__version__,
            sandbox=means.where,
            weak_sandbox=means.weak,
        )
        self._attempt = PreparedJob(means, job, means.durations.expected(self._kind))
        self._omission = ""

    def execute(self) -> Finished:
        finished, runner, log_fields = self._finished, self._attempt.runner, self._attempt.named
        try:
            log.info("task %s attempt %d enters the sandbox of %s, trace %s", *log_fields)
            verdict = self._judge()
            finished.completed = self._completed(verdict)
        except Cancelled:
            log.info("task %s attempt %d is killed in the sandbox of %s, trace %s", *log_fields)
        except SandboxError as exc:
            log.warning("task %s attempt %d: the sandbox of %s failed, trace %s: %s", *log_fields, exc)
            finished.broken = True
            finished.completed = given_back(self._job.assignment, f"the sandbox of {log_fields[2]} failed: {exc}")
        except UsageError as exc:
            finished.completed = given_back(self._job.assignment, str(exc))
        except OSError as exc:
            file = f" {exc.filename}" if exc.filename else ""
            finished.no_space = exc.errno in {errno.ENOSPC, errno.EDQUOT}
            finished.completed = given_back(self._job.assignment, f"the executor failed:{file} {exc.strerror}")
        except Exception as exc:  # an error of this program ends one attempt, and no slot
            log.exception("task %s attempt %d: the slot failed in the sandbox of %s, trace %s", *log_fields)
            finished.broken = True
            finished.completed = given_back(self._job.assignment, f"the executor failed: {type(exc).__name__}")
        finished.seconds = clock.monotonic() - self._attempt.teller.begin
        finished.runs, finished.overhead = runner.runs, runner.overhead
        if finished.completed is not None:
            end = finished.completed.verdict or "not judged"
            log.info(
                "task %s attempt %d leaves the sandbox of %s, trace %s: %s after %d runs",
                *(*log_fields, end, finished.runs),
            )
        self._means.durations.record(self._kind, finished.seconds)
        return finished

    def _judge(self) -> Verdict:
        attempt = self._attempt
        if self._job.data is not None and self._job.assignment.submission.check == "statements":
            return self._render(self._job.data.manifest)
        if self._job.data is not None and self._job.assignment.submission.check is not None:
            return self._ruled(Checking(attempt, self._result).run(self._job.data.manifest))
        limits = attempt.limits()
        try:
            if attempt.manifest is not None and not attempt.manifest.traits.has_program:
                return self._judge_answers(limits)
            return self._judge_program(limits)
        except BuildError as exc:
            return self._ruled(judge_error(str(exc)))
        except UnfitError as exc:
            # The submission's own files and command fit, or it has no problem and all files are its own.
            return self._ruled(judge_error(str(exc)) if self._job.data is not None else unfit_verdict(str(exc)))

    def _judge_program(self, limits: JobLimits) -> Verdict:
        """Compile and run; BuildError and UnfitError when programs or files of the package are at fault."""
        attempt = self._attempt
        with contextlib.ExitStack() as stack:
            try:
                program = attempt.program(limits)
                self._result.limits = program.limits
                box = stack.enter_context(attempt.create_files(program.files))
                failed = self._compile(box, program, limits.compile)
                if failed is None:
                    limits = attempt.beside_builds(limits, box)
                    program = attempt.program(limits)
                    self._result.limits = program.limits
            except UnfitError as exc:
                failed = unfit_verdict(str(exc))
            if failed is not None:
                return self._ruled(failed)
            judges = stack.enter_context(contextlib.closing(attempt.judges(limits)))
            judges.build()
            return self._run_all(box, program, judges, limits)

    def _render(self, manifest: ProblemManifest) -> Verdict:
        """Render the problem's statements; their pages are the task's whole output."""
        pages = Rendering(self._attempt).pages(manifest)
        path = self._means.outputs / f"{self._finished.claim}.out"
        path.write_text(pages.model_dump_json(), encoding="utf-8")
        self._finished.output = str(path)
        return rendered_verdict()

    def _judge_answers(self, limits: JobLimits) -> Verdict:
        """Judge the files that were handed in as the output for tests: nothing of them is run."""
        attempt = self._attempt
        with contextlib.closing(attempt.judges(limits)) as judges:
            judges.build()
            serial = SerialJudge(attempt, attempt.answer_tester(judges), cases(self._job))
            while not serial.schedule.over:
                serial.step()
            return serial.conclude(self._result)

    def _ruled(self, ruling: Ruling) -> Verdict:
        self._result.reason = ruling.reason
        return ruling.verdict

    def _completed(self, verdict: Verdict) -> Completed:
        assignment = self._job.assignment
        return Completed(
            id=assignment.id,
            attempt=assignment.attempt,
            claim=assignment.claim,
            status=verdict.about.status,
            verdict=verdict,
            result=self._result,
        )

    def _compile(self, box: Sandbox, program: Program, limits: Limits) -> Ruling | None:
        """Run the compiler under limits; CE when it failed or passed one (seed: compiling, compile_failed)."""
        if program.compile is None:
            return None
        runner, account = self._attempt.runner, self._attempt.account
        limited = shorter(limits, account.remaining)
        command = Command(argv=program.compile, limits=limited, env=program.env, writable=True, cwd="/box")
        begin = runner.busy()
        # The next sandbox comes up while the compiler runs: nothing is measured closely then.
        with runner.run(box, command, self._means.prepare) as outcome:
            self._result.compile = usage(outcome)
            self._result.compile_log = truncation.build_log(outcome, program.named)
            account.spend(runner.busy() - begin)
            failed = compile_verdict(outcome, limits, account.sentence if account.over else "")
        fault = "" if failed is not None else made_fault(program, box.get)
        return unfit_verdict(f"the compiler {fault}") if fault else failed

    def _run_all(self, box: Sandbox, program: Program, judges: Judges, limits: JobLimits) -> Verdict:
        """Run the tests that decide, in order; in full mode the others as well (seed: running)."""
        tests = cases(self._job)
        options = self._job.assignment.submission.options
        is_complete = (len(tests) == 1 and tests[0].answer is None) or (options is not None and options.outputs)
        with contextlib.ExitStack() as stack:
            grader = self._attempt.grader(limits)
            if grader is not None:
                stack.callback(grader.close)
            rounds = self._attempt.rounds(limits, box, program)
            if rounds is not None:
                stack.callback(rounds.close)
                try:
                    rounds.prepare()
                except UnfitError as exc:
                    return self._ruled(unfit_verdict(str(exc)))
            tester = self._attempt.tester(box, program, judges, self._keep_output if is_complete else None, rounds)
            serial = SerialJudge(self._attempt, tester, tests, grader.grade if grader is not None else None)
            offered = False
            while not serial.schedule.over:
                if not offered and worth_sharing(self._attempt, serial):
                    offered = True
                    coordinate(self._attempt, serial, box, program)
                else:
                    serial.step()
            verdict = serial.conclude(self._result)
            if self._omission:
                self._result.reason = "; ".join(filter(None, (self._result.reason, self._omission)))
            return verdict

    def _keep_output(self, outcome: RunOutcome) -> None:
        """The whole output of the last run: inside the result when small text, else in a file for main."""
        fd = outcome.stdout
        size = os.fstat(fd).st_size
        options = self._job.assignment.submission.options
        if options is not None and options.outputs:
            self._result.stderr = base64.b64encode(outcome.read_stderr(truncation.INLINE)).decode()
        if outcome.scratch is not None:
            kept_files = leavings.gather(outcome.scratch, handed.contents(self._job.assignment.submission))
            self._result.left = base64.b64encode(kept_files.archive).decode() if kept_files.archive else None
            self._omission = kept_files.sentence
        self._result.stdout = self._finished.output = None
        if size <= truncation.INLINE:
            with contextlib.suppress(UnicodeDecodeError):
                self._result.stdout = os.pread(fd, size, 0).decode("utf-8")
                return
        path = self._means.outputs / f"{self._finished.claim}.out"
        with path.open("wb") as file:
            copy(fd, file.fileno())
        self._finished.output = str(path)
