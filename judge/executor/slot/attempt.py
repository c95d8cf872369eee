"""One attempt at a job in one slot: what the slot that judges and one that helps have in common.

An attempt has a sandbox for the submission, its program and validator, the runner of their commands, and the account of
what they have taken; it tells main how far it is.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from judge.common import clock
from judge.executor.channel import Job, Progress
from judge.executor.slot.account import Account
from judge.executor.slot.builds import Builds
from judge.executor.slot.cases import Case, judged_part
from judge.executor.slot.duration import DurationEstimator
from judge.executor.slot.ioi.manager import Manager
from judge.executor.slot.ioi.rounds import Processes, Rounds
from judge.executor.slot.memory_budget import JobLimits, beside_builds, job_limits
from judge.executor.slot.packaged.built import BuildError, Workshop
from judge.executor.slot.packaged.grading import Grader
from judge.executor.slot.parallel.shared_queue import JudgedTest, Sharing
from judge.executor.slot.program import Program, included, plan, plan_program
from judge.executor.slot.run_lock import RunLock
from judge.executor.slot.runner import Runner
from judge.executor.slot.testing import AnswerTester, Judges, Tester
from judge.executor.slot.validation import CustomValidator, SeveralValidators, StaticValidator, format_code
from judge.executor.verdict import GRACE
from judge.languages.handed import contents
from judge.languages.sources import choose
from judge.languages.table import Language
from judge.model.messages import Status
from judge.model.problem import ProblemManifest, ProblemProgram
from judge.problems.reading.formats import later_input_is_next
from judge.sandbox.box import Sandbox
from judge.sandbox.types import RunOutcome

# The slot says that it is nearly free when it expects to be so within this many seconds (docs/executor.md).
LOOKAHEAD = 0.1
# Progress is told at most this often, in seconds.
PROGRESS_EVERY = 0.1
# A slot that waits for its turn tells main that it lives, every so many seconds.
WAITING_EVERY = 5.0


@dataclass(frozen=True)
class Means:
    """The means of a slot, with which it judges one job after another.

    `take` hands out sandboxes, `leave` ends them, at once or later, `prepare` makes the next one; `tell` carries
    progress to main; `outputs` is where outputs go that are too big for a result, `builds` where built validators are
    kept; a `cancel_fd` that becomes readable ends the job. `memory` is what this host can give one run, in bytes;
    `where` names slot and core, in results and log lines; `run_lock` takes turns with the other slots, `sharing` gives
    tests to those that are idle.
    """

    take: Callable[[], Sandbox]
    tell: Callable[[Progress], None]
    table: Mapping[str, Language]
    outputs: Path
    cancel_fd: int | None = None
    weak: bool = False
    where: str = ""
    prepare: Callable[[], None] = lambda: None
    leave: Callable[[Sandbox], None] = lambda box: box.close()
    durations: DurationEstimator = field(default_factory=DurationEstimator)
    builds: Path | None = None
    memory: int | None = None
    sharing: Sharing | None = None
    run_lock: RunLock = field(default_factory=lambda: RunLock(None))


class Teller:
    """Tells main how far an attempt is, and, once, that the slot will soon be free."""

    def __init__(self, tell: Callable[[Progress], None], claim: str, expected: float) -> None:
        """`expected`: how many seconds the whole attempt should take."""
        self._tell = tell
        self._claim = claim
        self._expected = expected
        self._nearly = False
        self._last = Progress(claim=claim, status=Status.COMPILING)
        self.begin = self._notified_at = clock.monotonic()
        if self._soon(expected):
            tell(Progress(claim=claim, status=Status.COMPILING, nearly=True))

    def _soon(self, seconds: float) -> bool:
        soon = not self._nearly and seconds <= LOOKAHEAD
        self._nearly = self._nearly or soon
        return soon

    def say(self, progress: Progress) -> None:
        self._last, self._notified_at = progress.model_copy(update={"nearly": False}), clock.monotonic()
        self._tell(progress)

    def again(self) -> None:
        self.say(self._last)

    def alive(self) -> None:
        """Tell main, now and then, that this slot waits and lives."""
        if clock.monotonic() - self._notified_at >= WAITING_EVERY:
            self.again()

    def shares(self) -> None:
        self.say(self._last.model_copy(update={"status": Status.RUNNING, "share": True}))

    def remaining(self, done: int, count: int, begin: float) -> float:
        """For how many seconds the tests should go on, which began at `begin`; infinity when unknown.

        By those that are done, and by how long earlier jobs of its kind took.
        """
        now = clock.monotonic()
        seconds = (now - begin) / done * (count - done) if done else math.inf
        return min(seconds, self._expected - (now - self.begin))

    def tests(self, done: int, count: int, begin: float) -> None:
        """Tell main how many tests are done, not too often, and whether the slot is nearly free."""
        soon = self._soon(self.remaining(done, count, begin))
        if done == 0 or soon or clock.monotonic() - self._notified_at >= PROGRESS_EVERY:
            progress = f"{done}/{count}"
            self.say(Progress(claim=self._claim, status=Status.RUNNING, progress=progress, nearly=soon))


class PreparedJob:
    """One job and what it takes. Methods raise UsageError when this executor cannot judge it."""

    def __init__(self, means: Means, job: Job, expected: float = math.inf) -> None:
        """`expected`: how many seconds it should take."""
        self.means = means
        self.job = job
        self.manifest = judged_part(job.data.manifest, job.assignment.submission) if job.data is not None else None
        assignment = job.assignment
        # Names with which every log line about this task begins and ends.
        self.named = (assignment.id, assignment.attempt, means.where, assignment.trace)
        self.teller = Teller(means.tell, assignment.claim, expected)
        self.account = Account(assignment.allowance, problem=job.data is not None)
        self.runner = Runner(means.run_lock, means.cancel_fd, self.teller.alive)
        # A run ends at this moment whatever its limits, on the runner's clock.
        self.bound = math.inf

    def limits(self) -> JobLimits:
        """The limits of all that is run, within the memory that this executor has for it."""
        return job_limits(self.job, self.means.memory, self.means.table)

    def beside_builds(self, limits: JobLimits, box: Sandbox) -> JobLimits:
        """The limits beside what was built in this box; UnfitError when that is too much."""
        return beside_builds(limits, self.job, self.means.memory, self.means.table, box.built())

    def program(self, limits: JobLimits) -> Program:
        job, manifest = self.job, self.manifest
        submission = job.assignment.submission
        extra = (
            included(manifest, submission.language, job.data.files, self.means.table)
            if job.data is not None and manifest
            else {}
        )
        task = manifest.task if manifest is not None else None
        return plan(submission, limits.run, self.means.table, extra, task)

    def workshop(self, limits: JobLimits) -> Workshop:
        builds = Builds(self.means.builds or self.means.outputs)
        return Workshop(self.means.take, self.runner.run, builds, limits.compile, self.runner.wait)

    def packaged(self, program: ProblemProgram, limits: JobLimits) -> Program:
        files = self.job.data.files if self.job.data is not None else {}
        contents = {name: Path(files[sha]).read_bytes() for name, sha in program.files.items()}
        # Some validators copy the output that they judge.
        language = self.means.table.get(self.job.assignment.submission.language or "")
        judged_bytes = (language.limits(limits.run) if language is not None else limits.run).output
        output = max(limits.validation.output, judged_bytes)
        return plan_program(
            program, contents, self.means.table, limits.validation.model_copy(update={"output": output})
        )

    def judges(self, limits: JobLimits) -> Judges:
        """The problem's own validators, ready to be built; BuildError when they cannot judge together."""
        manifest = self.manifest
        if manifest is None:
            return Judges()
        return Judges(
            validator=self._output_validator(manifest, limits),
            static=self._static(manifest, limits),
            next_input=later_input_is_next(manifest),
        )

    def _output_validator(self, manifest: ProblemManifest, limits: JobLimits) -> CustomValidator | None:
        """The problem's output validator, which may be several programs; None: the default one."""
        workshop, several = self.workshop(limits), manifest.validators
        if len(several) > 1:
            if manifest.traits.interactive:
                raise BuildError(f"an interactive problem has one output validator; this one has {len(several)}")
            programs = [
                (f"the output validator '{program.name}'", self.packaged(program, limits)) for program in several
            ]
            return SeveralValidators(programs, workshop)
        if not several:
            return None
        sources = None
        if manifest.task is not None and manifest.task.show_source:
            # Nothing was handed in where validators are tried out on the package's own answers.
            sources = b"\n".join(contents(self.job.assignment.submission).values())
        return CustomValidator(self.packaged(several[0], limits), workshop, source=sources)

    def _static(self, manifest: ProblemManifest, limits: JobLimits) -> StaticValidator | None:
        program, submission = manifest.static_validator, self.job.assignment.submission
        row = self.means.table.get(submission.language or "")
        if program is None or not manifest.static_tests or row is None:
            return None
        files = contents(submission)
        choice = choose(files, row, submission.entry)
        entry = choice.main if row.entry == "file" else choice.entry
        packaged = self.packaged(program, limits)
        return StaticValidator(packaged, self.workshop(limits), format_code(row.family), entry, files)

    def grader(self, limits: JobLimits) -> Grader | None:
        """The package's own grader; None: the format's scoring."""
        program = self.manifest.grader if self.manifest is not None else None
        return None if program is None else Grader(self.packaged(program, limits), self.workshop(limits))

    def rounds(self, limits: JobLimits, box: Sandbox, program: Program) -> Rounds | None:
        """The rounds of a submission to an IOI task; None when it runs as others do. `box` has the program in it."""
        task = self.manifest.task if self.manifest is not None else None
        if self.manifest is None or task is None:
            return None
        if task.kind == "batch" and not task.input_file and not task.output_file:
            return None
        manager = task.manager
        return Rounds(
            task=task,
            program=program,
            processes=Processes(box, program, task.processes, self.means.take, self.runner.run),
            run=self.runner.run,
            meet=self.runner.meet,
            manager=None if manager is None else Manager(self.packaged(manager, limits), self.workshop(limits)),
            scoring=self.manifest.traits.has_score,
        )

    @contextlib.contextmanager
    def create_files(self, files: Mapping[str, bytes]) -> Iterator[Sandbox]:
        """The sandbox with the submission in it (seed: create_file); gone with all in it at the end (clean_file)."""
        box = self.means.take()
        try:
            for name, data in files.items():
                box.put(name, data)
            yield box
        finally:
            self.means.leave(box)

    def tester(
        self,
        box: Sandbox,
        program: Program,
        judges: Judges,
        keep: Callable[[RunOutcome], None] | None = None,
        rounds: Rounds | None = None,
    ) -> Tester:
        """The tester for programs in this box; it gives the whole output of each test to `keep`."""
        manifest, options = self.manifest, self.job.assignment.submission.options
        return Tester(
            program=program,
            run=lambda command: self.runner.run(box, command),
            pair=lambda own_command, judge, its, most: self.runner.pair((box, judge.box()), (own_command, its), most),
            judges=judges,
            interactive=manifest is not None and manifest.traits.interactive,
            passes=manifest.passes if manifest is not None else 1,
            keep=keep,
            files=keep is not None and options is not None and options.outputs,
            remaining=self.remaining,
            rounds=rounds,
        )

    def remaining(self) -> float:
        """For how many seconds at most a run may go on now, whatever its limits."""
        return self.bound - self.runner.busy()

    def answer_tester(self, judges: Judges) -> AnswerTester:
        return AnswerTester(judges, remaining=self.remaining)

    def test(self, tester: Tester | AnswerTester, case: Case) -> JudgedTest:
        """Run one test, with the grace that those have which may be repeated."""
        begin = self.runner.busy()
        self.bound = begin + self.account.remaining
        test, judged, near = tester.test(case, GRACE if self.account.repeatable else 0.0)
        return JudgedTest(
            test=test,
            score=judged.score,
            multiplier=judged.multiplier,
            seconds=self.runner.busy() - begin,
            near=near and self.account.repeatable,
        )
