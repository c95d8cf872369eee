"""Compile, run, check: what a slot does with one task (seed: Execute).

One sandbox serves one task: the source and what the compiler leaves lie in its `/box`; every run gets fresh `/scratch`,
`/tmp` and `/dev/shm`. A validator of the problem's own has a second one. Called by the slot process only, which is
single-threaded.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import judge
from judge import clock
from judge.errors import SandboxError, UsageError
from judge.executor.channel import Finished, Job, Progress
from judge.executor.slot import truncation
from judge.executor.slot.account import Account
from judge.executor.slot.builds import Builds, packed, packing
from judge.executor.slot.duration import DurationEstimator, kind_of
from judge.executor.slot.memory_budget import JobLimits, job_limits
from judge.executor.slot.parallel.coordinator import Coordinator
from judge.executor.slot.parallel.schedule import Schedule
from judge.executor.slot.parallel.shared_queue import CoordinatorQueue, JudgedTest, Sharing
from judge.executor.slot.program import Box, Program, included, plan, plan_program, shorter
from judge.executor.slot.run_lock import RunLock
from judge.executor.slot.runner import Cancelled, Runner
from judge.executor.slot.testing import Case, Tester, cases
from judge.executor.slot.validation import BuildError, CustomValidator
from judge.executor.table import given_back
from judge.executor.verdict import GRACE, Ruling, compile_verdict, judge_error, total_time_verdict, usage
from judge.languages.table import Language
from judge.model.messages import Completed, Limits, Repeated, Result, Status, TestResult, Verdict
from judge.model.problem import ProblemType
from judge.problems import scoring
from judge.sandbox.types import Command

log = logging.getLogger(__name__)

# The slot says that it is nearly free when it expects to be so within this many seconds (docs/executor.md).
LOOKAHEAD = 0.1
# Progress is told at most this often, in seconds.
PROGRESS_EVERY = 0.1
# A slot that waits for its turn tells main that it lives, every so many seconds.
WAITING_EVERY = 5.0
# Tests are shared when there are at least so many left, which take at least so many seconds.
SHARE_TESTS = 2
SHARE_SECONDS = 0.15


@dataclass(frozen=True)
class Pipeline:
    """Judges jobs, one after another, in sandboxes that `take` hands out.

    `leave` ends them, at once or later, `prepare` makes the next one; `tell` carries progress to main; `outputs` is
    where outputs go that are too big for a result, `builds` where built validators are kept; a `cancel_fd` that becomes
    readable ends the job. `memory` is what this host can give one run, in bytes; `where` names slot and core, in
    results and log lines; `run_lock` takes turns with the other slots, `sharing` gives tests to those that are idle.
    """

    take: Callable[[], Box]
    tell: Callable[[Progress], None]
    table: Mapping[str, Language]
    outputs: Path
    cancel_fd: int | None = None
    weak: bool = False
    where: str = ""
    prepare: Callable[[], None] = lambda: None
    leave: Callable[[Box], None] = lambda box: box.close()
    durations: DurationEstimator = field(default_factory=DurationEstimator)
    builds: Path | None = None
    memory: int | None = None
    sharing: Sharing | None = None
    run_lock: RunLock = field(default_factory=lambda: RunLock(None))

    def execute(self, job: Job) -> Finished:
        """Judge one job to its end (seed: Execute); `completed` is None when it was cancelled.

        SandboxError says that the sandbox failed, and that nothing is known about the submission.
        """
        return Judging(self, job).execute()


class Judging:
    """One job in the pipeline and what it counts; also the part of a slot that helps (helping.py)."""

    def __init__(self, pipeline: Pipeline, job: Job) -> None:
        self.pipeline = pipeline
        self.job = job
        self.result = Result(
            language_version=job.language_version,
            judge_version=judge.__version__,
            sandbox=pipeline.where,
            weak_sandbox=pipeline.weak,
        )
        self.queue: CoordinatorQueue | None = None
        self.shareable = True
        one = job.assignment
        # What every log line about this task begins and ends with.
        self.named = (one.id, one.attempt, pipeline.where, one.trace)
        self.finished = Finished(claim=job.assignment.claim)
        self.budget = truncation.OutputBudget()
        self.account = Account(one.allowance, problem=job.data is not None)
        self.runner = Runner(pipeline.run_lock, pipeline.cancel_fd, self._alive)
        # Where a run ends whatever its limits, on the runner's clock.
        self.bound = math.inf
        self.manifest = job.data.manifest if job.data is not None else None
        self.told = self.begin = clock.monotonic()
        self.last = Progress(claim=self.finished.claim, status=Status.COMPILING)
        self.nearly = False
        self.kind = kind_of(job)
        self.expected = pipeline.durations.expected(self.kind)

    def execute(self) -> Finished:
        """Judge it; see Pipeline.execute."""
        try:
            if self._soon(self.expected):
                self.pipeline.tell(Progress(claim=self.finished.claim, status=Status.COMPILING, nearly=True))
            log.info("task %s attempt %d enters the sandbox of %s, trace %s", *self.named)
            verdict = self._judge()
            self.finished.completed = self._completed(verdict)
        except Cancelled:
            log.info("task %s attempt %d is killed in the sandbox of %s, trace %s", *self.named)
        except SandboxError as exc:
            log.warning("task %s attempt %d: the sandbox of %s failed, trace %s: %s", *self.named, exc)
            raise
        except UsageError as exc:
            self.finished.completed = given_back(self.job.assignment, str(exc))
        except OSError as exc:
            where = f" {exc.filename}" if exc.filename else ""
            self.finished.no_space = exc.errno in {errno.ENOSPC, errno.EDQUOT}
            self.finished.completed = given_back(self.job.assignment, f"the executor failed:{where} {exc.strerror}")
        self.finished.seconds = clock.monotonic() - self.begin
        self.finished.runs, self.finished.overhead = self.runner.runs, self.runner.overhead
        if self.finished.completed is not None:
            end = self.finished.completed.verdict or "not judged"
            log.info(
                "task %s attempt %d leaves the sandbox of %s, trace %s: %s after %d runs",
                *(*self.named, end, self.finished.runs),
            )
        self.pipeline.durations.record(self.kind, self.finished.seconds)
        return self.finished

    def _soon(self, seconds: float) -> bool:
        """Whether to say now, once, that the slot will be free within `seconds`."""
        soon = not self.nearly and seconds <= LOOKAHEAD
        self.nearly = self.nearly or soon
        return soon

    def limits(self) -> JobLimits:
        """The limits of all that is run for the job; UsageError when this executor has not the memory."""
        return job_limits(self.job, self.pipeline.memory, self.pipeline.table)

    def program(self, limits: JobLimits) -> Program:
        """How to build and run the submission here; UsageError when it cannot be judged by this executor."""
        job, manifest = self.job, self.manifest
        submission = job.assignment.submission
        extra = included(manifest, submission.language, job.data.files) if job.data is not None and manifest else {}
        return plan(submission, limits.run, self.pipeline.table, extra)

    def _judge(self) -> Verdict:
        limits = self.limits()
        program = self.program(limits)
        self.result.limits = program.limits
        with self.create_files(program.files) as box, contextlib.ExitStack() as stack:
            failed = self._compile(box, program, limits.compile)
            if failed is not None:
                return self._ruled(failed)
            validator = self.validator(limits)
            if validator is not None:
                stack.callback(validator.close)
                try:
                    validator.box()
                except BuildError as exc:
                    return self._ruled(judge_error(str(exc)))
            stack.callback(self._unshare)
            return self._run_all(box, program, cases(self.job), validator)

    def validator(self, limits: JobLimits) -> CustomValidator | None:
        """The problem's own validator, ready to be built."""
        manifest, data = self.manifest, self.job.data
        if manifest is None or data is None or manifest.validator is None:
            return None
        contents = {name: Path(data.files[sha]).read_bytes() for name, sha in manifest.validator.files.items()}
        program = plan_program(manifest.validator, contents, self.pipeline.table, limits.validation)
        builds = Builds(self.pipeline.builds or self.pipeline.outputs)
        return CustomValidator(program, self.pipeline.take, self.runner.run, builds, limits.compile, self.runner.wait)

    def _completed(self, verdict: Verdict) -> Completed:
        assignment = self.job.assignment
        return Completed(
            id=assignment.id,
            attempt=assignment.attempt,
            claim=assignment.claim,
            status=verdict.about.status,
            verdict=verdict,
            result=self.result,
        )

    @contextlib.contextmanager
    def create_files(self, files: Mapping[str, bytes]) -> Iterator[Box]:
        """The sandbox with the submission in it (seed: create_file); gone with all in it at the end (clean_file)."""
        box = self.pipeline.take()
        try:
            for name, data in files.items():
                box.put(name, data)
            yield box
        finally:
            self.pipeline.leave(box)

    def _alive(self) -> None:
        """Tell main, now and then, that this slot waits and lives."""
        if clock.monotonic() - self.told >= WAITING_EVERY:
            self.say(self.last)

    def say(self, progress: Progress) -> None:
        """Tell main, and remember what was told."""
        self.last, self.told = progress.model_copy(update={"nearly": False}), clock.monotonic()
        self.pipeline.tell(progress)

    def _ruled(self, ruling: Ruling) -> Verdict:
        self.result.reason = ruling.reason
        return ruling.verdict

    def _compile(self, box: Box, program: Program, limits: Limits) -> Ruling | None:
        """Run the compiler under limits; CE when it failed or passed one (seed: compiling, compile_failed)."""
        if program.compile is None:
            return None
        shown = shorter(limits, self.account.left)
        command = Command(argv=program.compile, limits=shown, env=program.env, writable=True, cwd="/box")
        begin = self.runner.busy()
        # The next sandbox comes up while the compiler runs: nothing is measured closely then.
        with self.runner.run(box, command, self.pipeline.prepare) as outcome:
            self.result.compile = usage(outcome)
            self.result.compile_log = truncation.build_log(outcome)
            self.account.spend(self.runner.busy() - begin)
            return compile_verdict(outcome, limits, self.account.sentence if self.account.over else "")

    def tester(self, box: Box, program: Program, validator: CustomValidator | None, *, whole: bool) -> Tester:
        """What runs tests in this box; `whole`: keep all of the output."""
        manifest = self.manifest
        return Tester(
            program=program,
            run=lambda command: self.runner.run(box, command),
            pair=lambda mine, judge, its, most: self.runner.pair((box, judge.box()), (mine, its), most),
            validator=validator,
            interactive=manifest is not None and ProblemType.INTERACTIVE in manifest.type,
            passes=manifest.passes if manifest is not None else 1,
            keep=self._keep_output if whole else None,
            left=lambda: self.bound - self.runner.busy(),
        )

    def _run_all(self, box: Box, program: Program, tests: Sequence[Case], validator: CustomValidator | None) -> Verdict:
        """Run the tests that decide, in order; in full mode the others as well (seed: running)."""
        whole = len(tests) == 1 and tests[0].answer is None
        tester = self.tester(box, program, validator, whole=whole)
        by_name = {case.name: case for case in tests}
        schedule = Schedule(self.manifest, list(by_name), full=self.job.assignment.submission.mode == "full")
        noted: dict[str, JudgedTest] = {}
        begin = clock.monotonic()

        def run(name: str) -> JudgedTest:
            self._tell(len(noted), len(tests), begin)
            return self.test(tester, by_name[name])

        def note(found: JudgedTest) -> None:
            noted[found.test.name] = found
            self.runner.runs += found.runs
            self.runner.overhead += found.overhead
            schedule.note(found.test.name, found.judged)
            while (due := schedule.due) is not None:
                noted[due] = self._settled(tester, by_name[due], noted[due])
                schedule.count(noted[due].judged)
                self.budget.trim(noted[due].test)
                if self.account.over and not schedule.over:
                    schedule.end()
                    self.result.reason = self.account.sentence

        while not schedule.over:
            if self._worth_sharing(len(noted), len(tests), begin):
                self._share(box, program, len(by_name))
            if self.queue is not None:
                self._lead(self.queue, schedule, list(by_name), run, note)
                break
            note(run(schedule.first))
        counted = schedule.counted
        return self._conclude(schedule.stand, [noted[name].test for name in by_name if name in counted], counted)

    def test(self, tester: Tester, case: Case) -> JudgedTest:
        """Run one test, with the grace that those have which may be repeated; for slots that help as well."""
        begin = self.runner.busy()
        self.bound = begin + self.account.left
        test, judged, is_near = tester.test(case, GRACE if self.account.repeatable else 0.0)
        found = JudgedTest(
            test=test, score=judged.score, multiplier=judged.multiplier, seconds=self.runner.busy() - begin
        )
        found.near = is_near and self.account.repeatable
        return found

    def _settled(self, tester: Tester, case: Case, found: JudgedTest) -> JudgedTest:
        """What a test comes to whose turn it is to count: repeated when it is near a limit, and paid for."""
        account = self.account
        account.spend(found.seconds)
        if found.near and not account.over:
            refusal = account.refusal(found.seconds)
            if not refusal:
                found, refusal = self._repeat(tester, case, found)
            if refusal:
                found.test.reason = f"{found.test.reason}; not repeated: {refusal}"
        if account.over:
            test = found.test
            used = test.model_dump(include={"name", "cpu", "wall", "memory", "repeated"})
            ruling = total_time_verdict(account.sentence)
            found = JudgedTest(test=TestResult(**used, verdict=ruling.verdict, reason=ruling.reason))
        return found

    def _repeat(self, tester: Tester, case: Case, first: JudgedTest) -> tuple[JudgedTest, str]:
        """Run a test once more, alone if that can be had; why its first run counts after all, or nothing."""
        account = self.account
        with self.runner.alone(first.seconds, account.alone_left) as alone:
            begin = self.runner.busy()
            rest = account.alone_left - self.pipeline.run_lock.closed if alone else math.inf
            self.bound = begin + min(account.left, rest)
            test, judged, _ = tester.test(case, 0.0)
            seconds = self.runner.busy() - begin
        late = account.spent + seconds < account.total and seconds >= rest
        account.spend(seconds)
        account.repeated(self.pipeline.run_lock.closed)
        if late:
            return first, account.no_time_alone
        test.repeated = Repeated(cpu=first.test.cpu, wall=first.test.wall, exclusive=alone)
        return JudgedTest(test=test, score=judged.score, multiplier=judged.multiplier), ""

    def _lead(
        self,
        queue: CoordinatorQueue,
        schedule: Schedule,
        names: Sequence[str],
        run: Callable[[str], JudgedTest],
        note: Callable[[JudgedTest], None],
    ) -> None:
        """Run the rest of the tests beside others."""
        coordinator = Coordinator(queue, schedule, names, run, note)
        self.say(self.last.model_copy(update={"status": Status.RUNNING, "share": True}))
        coordinator.until_over(self.runner.look)

    def _worth_sharing(self, done: int, count: int, begin: float) -> bool:
        """Whether an idle slot could run tests of this one, and there is enough of them left."""
        sharing = self.pipeline.sharing
        if sharing is None or not self.shareable or count - done < SHARE_TESTS:
            return False
        return self._left(done, count, begin) >= SHARE_SECONDS and sharing.idle() > 0

    def _left(self, done: int, count: int, begin: float) -> float:
        """How many seconds the rest should take, by the tests before and by earlier jobs; infinity when unknown."""
        now = clock.monotonic()
        left = (now - begin) / done * (count - done) if done else float("inf")
        return min(left, self.expected - (now - self.begin))

    def _share(self, box: Box, program: Program, count: int) -> None:
        """Make a queue, with what the compiler made; nothing when that cannot be done."""
        sharing, self.shareable = self.pipeline.sharing, False
        if sharing is None or count != len(cases(self.job)):
            return
        try:
            queue = CoordinatorQueue(sharing.queue(self.finished.claim), self.pipeline.cancel_fd)
        except OSError as exc:
            log.warning("task %s attempt %d: its tests cannot be shared: %s", *self.named[:2], exc)
            return
        if program.compile is not None:
            runs, overhead = self.runner.runs, self.runner.overhead
            try:
                with self.runner.run(box, packing()) as outcome:
                    data = packed(outcome)
                if data is None:
                    queue.close()
                    return
                queue.keep_box(data)
            except OSError as exc:
                log.warning("task %s attempt %d: its tests cannot be shared: %s", *self.named[:2], exc)
                queue.close()
                return
            except BaseException:
                queue.close()
                raise
            finally:
                self.runner.runs, self.runner.overhead = runs, overhead
        self.queue, self.runner.bell = queue, queue.interrupt_fd

    def _unshare(self) -> None:
        """Nobody shares these tests any more."""
        if self.queue is not None:
            self.queue.close()
            self.queue = self.runner.bell = None

    def _conclude(
        self, stand: scoring.Standing, tests: list[TestResult], judged: Mapping[str, scoring.Judged]
    ) -> Verdict:
        """Put the result together."""
        result = self.result
        for test in tests:
            test.score = judged[test.name].score
            result.cpu = max(result.cpu, test.cpu)
            result.wall = max(result.wall, test.wall)
            result.memory = max(result.memory, test.memory)
            if test.name == stand.failed:
                ended = f"; {result.reason}" if result.reason and test.reason != result.reason else ""
                result.reason = f"test {test.name}: {test.reason}{ended}"
        failing = next((test for test in tests if test.name == stand.failed), None)
        if stand.error and (failing is None or failing.verdict is not Verdict.JE):
            result.reason = stand.error
        result.tests = tests
        result.failed_test, result.score, result.groups = stand.failed, stand.score, stand.groups
        return stand.verdict

    def _tell(self, index: int, count: int, begin: float) -> None:
        """Progress, not too often, and whether the slot is nearly free."""
        soon = self._soon(self._left(index, count, begin))
        now = clock.monotonic()
        if index == 0 or soon or now - self.told >= PROGRESS_EVERY:
            claim, progress = self.finished.claim, f"{index}/{count}"
            self.say(Progress(claim=claim, status=Status.RUNNING, progress=progress, nearly=soon))

    def _keep_output(self, fd: int, size: int) -> None:
        """The whole output of a task without answers: inside the result when small text, else in a file for main."""
        if size <= truncation.INLINE:
            with contextlib.suppress(UnicodeDecodeError):
                self.result.stdout = os.pread(fd, size, 0).decode("utf-8")
                return
        path = self.pipeline.outputs / f"{self.finished.claim}.out"
        with path.open("wb") as file:
            offset = 0
            while offset < size:
                offset += os.sendfile(file.fileno(), fd, offset, size - offset)
        self.finished.output = str(path)
