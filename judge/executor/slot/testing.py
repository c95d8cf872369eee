"""One test of one submission: run it (several times in multi-pass problems), have its output judged, account for it."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judge.errors import JudgeError
from judge.executor.channel import Job
from judge.executor.slot import truncation
from judge.executor.slot.program import Program, shorter
from judge.executor.slot.validation import CustomValidator, Question, ValidatorResult
from judge.executor.verdict import Checked, Ruling, judge_error, run_fault, run_verdict, usage
from judge.model.messages import RunUsage, TestResult, Verdict
from judge.problems.scoring import Judged
from judge.problems.validator import validate
from judge.sandbox.types import Command, Outcome

# Of the whole output of a task without tests.
RUN_NAME = "run"


@dataclass(frozen=True)
class Case:
    """One test as the pipeline sees it: bytes, or the file of a verified blob. No answer: any output is right.

    `public`: the submitter has its data, so that the reason may quote it; else only the judges' message does. `flags`
    are the validator's, `args` the submission's.
    """

    name: str
    input: bytes | Path
    answer: bytes | Path | None
    public: bool = True
    flags: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


def cases(job: Job) -> list[Case]:
    """The tests of a job in judging order: the manifest's, or name order; one run on `stdin` when it has none."""
    submission = job.assignment.submission
    if job.data is not None:
        files, manifest = job.data.files, job.data.manifest
        return [
            Case(
                test.name,
                Path(files[test.input]),
                Path(files[test.answer]),
                test.sample,
                tuple(manifest.validator_flags if test.flags is None else test.flags),
                tuple(test.args),
            )
            for test in manifest.tests
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


@dataclass
class Pass:
    """What one run of the program on one test came to; `message` is for judges, unless the validator has one."""

    outcome: Outcome
    ruling: Ruling
    validated: ValidatorResult | None = None
    message: str = ""


@dataclass(frozen=True)
class Tester:
    """Runs tests of one task. `run` runs a command in the submission's sandbox; `pair` lets two talk to each other.

    `left` says for how many seconds at most a run may go on now, whatever its limits: the validator's as well, which
    takes as long as the submission's output makes it take. `pair` is told as its last argument.
    """

    program: Program
    run: Callable[[Command], Outcome]
    pair: Callable[[Command, CustomValidator, Command, float], tuple[Outcome, Outcome]]
    validator: CustomValidator | None = None
    interactive: bool = False
    passes: int = 1
    keep: Callable[[int, int], None] | None = None
    left: Callable[[], float] = lambda: math.inf

    def test(self, case: Case, grace: float) -> tuple[TestResult, Judged, bool]:
        """Run one test to its verdict, which may be TLE by less than the grace; `grace` as in Command.

        The last value says whether it is near a time limit, so that a repetition may find otherwise.
        """
        with self._passes(case, grace) as done:
            return *self._result(case, done), done[-1].ruling.near

    @contextlib.contextmanager
    def _passes(self, case: Case, grace: float) -> Iterator[list[Pass]]:
        """All passes of one test, until the verdict; `grace` as in `Command`."""
        done: list[Pass] = []
        source: int | None = None
        try:
            while True:
                ended = self._pass(case, source, grace, first=not done)
                done.append(ended)
                if source is not None:
                    os.close(source)
                source = ended.validated.next_input if ended.validated is not None else None
                if source is None:
                    break
                if len(done) >= self.passes:
                    ended.ruling = judge_error(f"the output validator asks for more than {self.passes} passes")
                    break
            yield done
        finally:
            if source is not None:
                os.close(source)
            for one in done:
                one.outcome.close()

    def _pass(self, case: Case, source: int | None, grace: float, *, first: bool) -> Pass:
        program = self.program
        argv = [*program.run, *case.args]
        limits = shorter(program.limits, self.left() / (1 + grace))
        command = Command(argv=argv, limits=limits, env=program.env, cwd=program.cwd, grace=grace)
        if self.interactive and self.validator is not None:
            return self._interact(case, command, self.validator, first=first)
        stdin = truncation.sealed(case.input) if source is None else source
        try:
            outcome = self.run(dataclasses.replace(command, stdin=stdin))
        finally:
            if source is None:
                os.close(stdin)
        try:
            return self._judge(case, outcome, first=first)
        except BaseException:
            outcome.close()
            raise

    def _judge(self, case: Case, outcome: Outcome, *, first: bool) -> Pass:
        """Judge a run by itself; one that ended well by its output."""
        limits, memory_exit = self.program.limits, self.program.memory_exit
        fault = run_fault(outcome, limits, memory_exit)
        if fault is not None:
            return Pass(outcome, fault)
        if case.answer is None:
            return Pass(outcome, run_verdict(outcome, limits, None, memory_exit))
        if self.validator is None:
            checked, message = self._compare(case, outcome, case.answer)
            return Pass(outcome, run_verdict(outcome, limits, checked, memory_exit), message=message)
        question = Question(case.input, case.answer, case.flags)
        validated = self.validator.check(question, outcome.stdout, first=first, left=self.left)
        return Pass(outcome, run_verdict(outcome, limits, validated.checked(), memory_exit), validated)

    def _compare(self, case: Case, outcome: Outcome, answer: bytes | Path) -> tuple[Checked, str]:
        """What the default validator finds in the output, and its message."""
        output = outcome.read_stdout()
        expected = answer if isinstance(answer, bytes) else answer.read_bytes()
        if output == expected:
            return Checked(accepted=True), ""
        try:
            found = validate(output, expected, case.flags)
        except JudgeError as exc:
            return Checked(accepted=False, fault=f"the problem's validator cannot be used: {exc}"), ""
        # Also the program's own output may be the secret input: the reason quotes either only where both are known.
        message = found.detail if case.public else found.message
        return Checked(found.accepted, message if case.public else ""), message

    def _interact(self, case: Case, command: Command, validator: CustomValidator, *, first: bool) -> Pass:
        """One interaction: both run side by side, and it counts who ended first."""
        question = Question(case.input, case.answer or b"", case.flags)
        outcome, judge = self.pair(command, validator, validator.command(question, first=first), self.left())
        try:
            with judge:
                # The validator's own time is not the submission's: it had the core meanwhile.
                limits = self.program.limits
                limits = limits.model_copy(update={"wall": limits.wall_seconds + judge.cpu})
                validated = validator.result(judge)
            checked = validated.checked(first=judge.ended < outcome.ended)
            ruling = run_verdict(outcome, limits, checked, self.program.memory_exit)
        except BaseException:
            outcome.close()
            raise
        if ruling.verdict is not Verdict.AC and validated.next_input is not None:
            os.close(validated.next_input)
            validated = dataclasses.replace(validated, next_input=None)
        return Pass(outcome, ruling, validated)

    def _result(self, case: Case, done: Sequence[Pass]) -> tuple[TestResult, Judged]:
        """The account of all passes: the largest figures, and what was found in the last."""
        last = done[-1]
        ruling, outcome = last.ruling, last.outcome
        failed = ruling.verdict is not Verdict.AC
        validated = last.validated or ValidatorResult(accepted=not failed)
        count = os.fstat(outcome.stdout).st_size
        out, err = truncation.shown(outcome)
        message, feedback = last.message or validated.message, validated.feedback
        if self.keep is not None:
            self.keep(outcome.stdout, count)
        reason = ruling.reason if len(done) == 1 or not failed else f"pass {len(done)}: {ruling.reason}"
        result = TestResult(
            name=case.name,
            verdict=ruling.verdict,
            reason=truncation.clip(reason, truncation.MESSAGE),
            output_sha256=truncation.digest(outcome.stdout, count),
            output_bytes=count,
            output=out,
            error=err,
            message=truncation.clip(message, truncation.MESSAGE),
            feedback=truncation.clip(feedback, truncation.MESSAGE),
            passes=len(done),
            **_most(done).model_dump(),
        )
        return result, Judged(ruling.verdict, validated.score, validated.multiplier)


def _most(done: Sequence[Pass]) -> RunUsage:
    """The largest figures of all passes, and the end of the last."""
    used = [usage(one.outcome) for one in done]
    return used[-1].model_copy(
        update={name: max(getattr(one, name) for one in used) for name in ("cpu", "wall", "memory")}
    )
