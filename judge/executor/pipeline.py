"""Compile, run, check: what a slot does with one task (seed: Execute).

One sandbox serves one task: the source and what the compiler leaves lie in its `/box`; every run gets fresh `/scratch`,
`/tmp` and `/dev/shm`. Called by the slot process only, which is single-threaded.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from judge import clock
from judge.errors import JudgeError, UsageError
from judge.executor import excerpt
from judge.executor.channel import Finished, Job, Progress, limits_of
from judge.executor.pace import Pace, kind_of
from judge.executor.state import given_back
from judge.executor.verdict import compile_verdict, run_fault, run_verdict, task_status, task_verdict, usage
from judge.problems.languages import PATH, Language
from judge.problems.validator import validate
from judge.rpc.messages import Completed, Limits, Result, Status, Submission, TestResult, Verdict
from judge.sandbox.types import Command, Killed, Outcome

MIB = 1024**2
# The Kattis format's limits for compilation; the wall limit ends compilers that wait for ever.
COMPILE_LIMITS = Limits(cpu=60, wall=90, memory=2048 * MIB, output=64 * MIB, processes=256, files=1024)
# The slot says that it is nearly free when it expects to be so within this many seconds (docs/executor.md).
LOOKAHEAD = 0.1
# Progress is told at most this often, in seconds.
PROGRESS_EVERY = 0.1
COMMAND_SOURCE = "source"
NAME_BYTES = 255
# Of the whole output of a task without tests.
RUN_NAME = "run"


class Cancelled(Exception):  # noqa: N818 - not an error: somebody asked for it
    """The task is not wanted any more; its processes are dead."""


class Box(Protocol):
    """The part of `judge.sandbox.Sandbox` that a task needs."""

    def put(self, name: str, data: bytes, mode: int = 0o644) -> None:
        """Write a file into /box."""

    def run(self, command: Command, cancel_fd: int | None = None) -> Outcome:
        """Run one command to its end."""

    def close(self) -> None:
        """End the sandbox and everything in it."""


@dataclass(frozen=True)
class Program:
    """How one submission is built and started inside the sandbox, whatever kind it is."""

    files: Mapping[str, bytes]
    compile: Sequence[str] | None
    run: Sequence[str]
    env: Mapping[str, str]
    limits: Limits
    cwd: str = "/scratch"
    memory_exit: int | None = None


@dataclass(frozen=True)
class Case:
    """One test as the pipeline sees it: bytes, or the file of a verified blob. No answer: any output is right.

    `public`: the submitter knows the answer already, so that messages may quote it.
    """

    name: str
    input: bytes | Path
    answer: bytes | Path | None
    public: bool = True


def plan(submission: Submission, limits: Limits, table: Mapping[str, Language]) -> Program:
    """How to judge a submission: by its language, or by its own shell commands (the seed's plain task).

    Raises UsageError for a language that this executor does not have.
    """
    source = submission.source
    if submission.command is not None:
        name = Path(submission.filename or COMMAND_SOURCE).name or COMMAND_SOURCE
        if len(name.encode("utf-8", "replace")) > NAME_BYTES:
            name = COMMAND_SOURCE
        return Program(
            files={} if source is None else {name: source.encode("utf-8", "replace")},
            compile=["/bin/sh", "-c", submission.compile] if submission.compile else None,
            run=["/bin/sh", "-c", submission.command],
            env={"PATH": PATH},
            limits=limits,
            cwd="/box",
        )
    language = table.get(submission.language or "")
    if language is None:
        msg = f"language '{submission.language}' is not in this executor's table"
        raise UsageError(msg)
    text = source or ""
    made = language.plan(text, submission.filename, limits.memory)
    return Program(
        files={made.source_name: text.encode("utf-8", "replace")},
        compile=made.compile,
        run=made.run,
        env={"PATH": PATH, **made.env},
        limits=language.limits(limits),
        memory_exit=language.memory_exit,
    )


def cases(job: Job) -> list[Case]:
    """The tests of a job in judging order: the manifest's, or name order; one run on `stdin` when it has none."""
    submission = job.assignment.submission
    if job.data is not None:
        files = job.data.files
        return [
            Case(test.name, Path(files[test.input]), Path(files[test.answer]), test.sample)
            for test in job.data.manifest.tests
        ]
    if not submission.tests:
        return [Case(RUN_NAME, (submission.stdin or "").encode("utf-8", "replace"), None)]
    return [
        Case(
            test.name,
            _content(test.input, test.input_blob, job.blobs) or b"",
            _content(test.answer, test.answer_blob, job.blobs),
        )
        for test in sorted(submission.tests, key=lambda test: test.name)
    ]


def _content(text: str | None, blob: str | None, files: Mapping[str, str]) -> bytes | Path | None:
    if blob is not None:
        return Path(files[blob])
    return text.encode("utf-8", "replace") if text is not None else None


@dataclass(frozen=True)
class Pipeline:
    """Judges jobs, one after another, in sandboxes that `take` hands out.

    `tell` carries progress to main; `outputs` is where outputs go that are too big for a result; a `cancel_fd` that
    becomes readable ends the job.
    """

    take: Callable[[], Box]
    tell: Callable[[Progress], None]
    table: Mapping[str, Language]
    outputs: Path
    cancel_fd: int | None = None
    weak: bool = False
    prepare: Callable[[], None] = lambda: None
    pace: Pace = field(default_factory=Pace)

    def execute(self, job: Job) -> Finished:
        """Judge one job to its end (seed: Execute); `completed` is None when it was cancelled.

        SandboxError says that the sandbox failed, and that nothing is known about the submission.
        """
        return _Task(self, job).execute()


class _Task:
    """One run of the pipeline and what it counts."""

    def __init__(self, pipeline: Pipeline, job: Job) -> None:
        self.pipeline = pipeline
        self.job = job
        self.result = Result(language_version=job.language_version, weak_sandbox=pipeline.weak)
        self.finished = Finished(claim=job.assignment.claim)
        self.budget = excerpt.Budget()
        self.flags = job.data.manifest.validator_flags if job.data is not None else []
        self.told = 0.0
        self.nearly = False
        self.begin = clock.monotonic()
        self.kind = kind_of(job)
        self.expected = pipeline.pace.expected(self.kind)

    def execute(self) -> Finished:
        try:
            if self._soon(self.expected):
                self.pipeline.tell(Progress(claim=self.finished.claim, status=Status.COMPILING, nearly=True))
            verdict = self._judge()
            self.finished.completed = self._completed(verdict)
        except Cancelled:
            pass
        except UsageError as exc:
            self.finished.completed = given_back(self.job.assignment, str(exc))
        except OSError as exc:
            where = f" {exc.filename}" if exc.filename else ""
            self.finished.no_space = exc.errno in {errno.ENOSPC, errno.EDQUOT}
            self.finished.completed = given_back(self.job.assignment, f"the executor failed:{where} {exc.strerror}")
        self.finished.seconds = clock.monotonic() - self.begin
        self.pipeline.pace.took(self.kind, self.finished.seconds)
        return self.finished

    def _soon(self, seconds: float) -> bool:
        """Whether to say now, once, that the slot will be free within `seconds`."""
        soon = not self.nearly and seconds <= LOOKAHEAD
        self.nearly = self.nearly or soon
        return soon

    def _judge(self) -> Verdict:
        program = plan(self.job.assignment.submission, limits_of(self.job), self.pipeline.table)
        tests = cases(self.job)
        with self._create_files(program) as box:
            if program.compile is not None:
                # The next sandbox comes up while the compiler runs: nothing is measured closely then.
                self.pipeline.prepare()
                if not self._compile(box, program.compile, program):
                    return Verdict.CE
            self._run_all(box, program, tests)
        verdict, self.result.failed_test = task_verdict((test.name, test.verdict) for test in self.result.tests)
        for test in self.result.tests:
            self.result.cpu = max(self.result.cpu, test.cpu)
            self.result.wall = max(self.result.wall, test.wall)
            self.result.memory = max(self.result.memory, test.memory)
            if test.name == self.result.failed_test:
                self.result.reason = f"test {test.name}: {test.reason}"
        return verdict

    def _completed(self, verdict: Verdict) -> Completed:
        assignment = self.job.assignment
        return Completed(
            id=assignment.id,
            attempt=assignment.attempt,
            claim=assignment.claim,
            status=task_status(verdict),
            verdict=verdict,
            result=self.result,
        )

    @contextlib.contextmanager
    def _create_files(self, program: Program) -> Iterator[Box]:
        """The sandbox with the submission in it (seed: create_file); gone with all in it at the end (clean_file)."""
        box = self.pipeline.take()
        try:
            for name, data in program.files.items():
                box.put(name, data)
            yield box
        finally:
            box.close()

    def _run(self, box: Box, command: Command) -> Outcome:
        """One run in the sandbox; Cancelled when main asked for an end (seed: t.proc.kill)."""
        begin = clock.monotonic()
        outcome = box.run(command, self.pipeline.cancel_fd)
        self.finished.overhead += max(0.0, clock.monotonic() - begin - outcome.wall)
        self.finished.runs += 1
        if outcome.killed is Killed.CANCELLED:
            outcome.close()
            raise Cancelled
        return outcome

    def _compile(self, box: Box, argv: Sequence[str], program: Program) -> bool:
        """Run the compiler under limits; False when it failed or passed one (seed: compiling, compile_failed)."""
        command = Command(argv=argv, limits=COMPILE_LIMITS, env=program.env, writable=True, cwd="/box")
        with self._run(box, command) as outcome:
            self.result.compile = usage(outcome)
            self.result.compile_log = excerpt.build_log(outcome)
            failed = compile_verdict(outcome, COMPILE_LIMITS)
        if failed is None:
            return True
        self.result.reason = failed[1]
        return False

    def _run_all(self, box: Box, program: Program, tests: Sequence[Case]) -> None:
        """Run the tests in order, up to the first that fails (seed: running)."""
        begin = clock.monotonic()
        whole = len(tests) == 1 and tests[0].answer is None
        for index, case in enumerate(tests):
            now = clock.monotonic()
            left = (now - begin) / index * (len(tests) - index) if index else float("inf")
            soon = self._soon(min(left, self.expected - (now - self.begin)))
            if index == 0 or soon or now - self.told >= PROGRESS_EVERY:
                self.told = now
                claim, progress = self.finished.claim, f"{index}/{len(tests)}"
                self.pipeline.tell(Progress(claim=claim, status=Status.RUNNING, progress=progress, nearly=soon))
            test = self._test(box, program, case, whole=whole)
            self.result.tests.append(test)
            if test.verdict is not Verdict.AC:
                break

    def _test(self, box: Box, program: Program, case: Case, *, whole: bool) -> TestResult:
        """Run one test and decide its verdict."""
        stdin = excerpt.sealed(case.input)
        try:
            command = Command(argv=program.run, limits=program.limits, env=program.env, stdin=stdin, cwd=program.cwd)
            outcome = self._run(box, command)
        finally:
            os.close(stdin)
        with outcome:
            message = ""
            size = os.fstat(outcome.stdout).st_size
            fault = run_fault(outcome, program.limits, program.memory_exit)
            if fault is not None:
                verdict, reason = fault
                sha = excerpt.digest(outcome.stdout, size)
            else:
                output = outcome.read_stdout()
                sha = excerpt.sha256(output)
                verdict, reason, message = self._check(outcome, program, output, case)
            out, err = self.budget.excerpts(outcome, always=verdict is not Verdict.AC)
            if whole:
                self._keep_output(outcome.stdout, size)
        return TestResult(
            name=case.name,
            verdict=verdict,
            reason=reason,
            output_sha256=sha,
            output_bytes=size,
            output=out,
            error=err,
            message=message,
            **usage(outcome).model_dump(),
        )

    def _check(self, outcome: Outcome, program: Program, output: bytes, case: Case) -> tuple[Verdict, str, str]:
        """Verdict, reason and the validator's message of a run that ended well."""
        if case.answer is None:
            return Verdict.AC, "", ""
        expected = case.answer if isinstance(case.answer, bytes) else case.answer.read_bytes()
        if output == expected:
            return Verdict.AC, "", ""
        try:
            checked = validate(output, expected, self.flags)
        except JudgeError as exc:
            return Verdict.JE, excerpt.clip(f"the problem's validator cannot be used: {exc}", excerpt.MESSAGE), ""
        verdict, reason = run_verdict(outcome, program.limits, checked, program.memory_exit)
        message = checked.detail if case.public else checked.message
        return verdict, excerpt.clip(reason, excerpt.MESSAGE), excerpt.clip(message, excerpt.MESSAGE)

    def _keep_output(self, fd: int, size: int) -> None:
        """The whole output of a task without answers: inside the result when small text, else in a file for main."""
        if size <= excerpt.INLINE:
            with contextlib.suppress(UnicodeDecodeError):
                self.result.stdout = os.pread(fd, size, 0).decode("utf-8")
                return
        path = self.pipeline.outputs / f"{self.finished.claim}.out"
        with path.open("wb") as file:
            offset = 0
            while offset < size:
                offset += os.sendfile(file.fileno(), fd, offset, size - offset)
        self.finished.output = str(path)
