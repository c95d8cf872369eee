"""One test of one submission: run it (several times in multi-pass problems), have its output judged, account for it.

Where nothing is run, a validator's word alone decides: of static validation test cases, and of what was handed in as
the output for a test.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from judge.common.errors import JudgeError
from judge.executor import verdict
from judge.executor.slot import truncation
from judge.executor.slot.cases import Case
from judge.executor.slot.ioi.rounds import Rounds
from judge.executor.slot.program import Program, shorter
from judge.executor.slot.validation import CustomValidator, Question, StaticValidator, ValidatorResult
from judge.model.messages import Limits, RunUsage, TestResult, Verdict
from judge.problems.scoring import Judged
from judge.problems.validator import validate
from judge.sandbox.types import Command, RunOutcome

_BLANKS = b" \t\n\v\f\r\0"


@dataclass
class Pass:
    """The result of one run of the program on one test; `message` is for judges, unless the validator has one."""

    outcome: RunOutcome
    ruling: verdict.Ruling
    validated: ValidatorResult | None = None
    message: str = ""


@dataclass(frozen=True)
class Judges:
    """The programs of the package that judge one task. `next_input`: in later passes INPUT is what was read then."""

    validator: CustomValidator | None = None
    static: StaticValidator | None = None
    next_input: bool = False

    def build(self) -> None:
        """Build them all; BuildError when one does not compile."""
        for validator in (self.validator, self.static):
            if validator is not None:
                validator.box()

    def close(self) -> None:
        for validator in (self.validator, self.static):
            if validator is not None:
                validator.close()


def compare(case: Case, output: bytes) -> tuple[verdict.Validated, str]:
    """(the default validator's finding in an output, its message); the test has an answer."""
    answer = case.answer or b""
    expected = answer if isinstance(answer, bytes) else answer.read_bytes()
    if output == expected:
        return verdict.Validated(accepted=True), ""
    if case.lines:
        equal = _lines(output) == _lines(expected)
        return verdict.Validated(accepted=equal, message="" if equal else "a line of the output differs"), ""
    try:
        comparison = validate(output, expected, case.flags)
    except JudgeError as exc:
        return verdict.Validated(accepted=False, fault=f"the problem's validator cannot be used: {exc}"), ""
    # Also the program's own output may be the secret input: the reason quotes either only where both are known.
    message = comparison.detail if case.public else comparison.message
    return verdict.Validated(comparison.accepted, message if case.public else ""), message


def _lines(output: bytes) -> list[bytes]:
    """The lines of an output, without the blanks at the end of each, and without empty ones at the end of all."""
    return [line.rstrip(_BLANKS) for line in output.rstrip(_BLANKS).split(b"\n")]


def judged_alone(case: Case, validated: ValidatorResult, output: bytes = b"") -> tuple[TestResult, Judged]:
    """A test for which nothing of the submission was run; `output` is what was handed in for it."""
    ruling = verdict.checked_verdict(validated.checked())
    validated.close()
    result = TestResult(
        name=case.name,
        verdict=ruling.verdict,
        reason=truncation.clip(ruling.reason, truncation.MESSAGE),
        message=truncation.clip(validated.message, truncation.MESSAGE),
        feedback=truncation.clip(validated.feedback, truncation.MESSAGE),
    )
    if case.handed_in is not None:
        result.output_sha256, result.output_bytes = truncation.sha256(output), len(output)
        result.output = truncation.text(output[: truncation.SHOWN])
    return result, Judged(ruling.verdict, validated.score, validated.multiplier)


@dataclass(frozen=True)
class AnswerTester:
    """Judges what was handed in as the output for the tests. `remaining` as of `Tester`."""

    judges: Judges
    remaining: Callable[[], float] = lambda: math.inf

    def test(self, case: Case, grace: float) -> tuple[TestResult, Judged, bool]:  # noqa: ARG002 - as Tester's
        """Judge one file; a test for which there is none is not passed."""
        if case.handed_in is None:
            reason = "nothing was handed in for this test"
            return *judged_alone(case, ValidatorResult(accepted=False, rejection=reason)), False
        output = case.handed_in
        if self.judges.validator is None:
            validated, message = compare(case, output)
            rejection = validated.message or "wrong answer"
            opinion = ValidatorResult(validated.accepted, validated.fault, message, rejection=rejection)
            return *judged_alone(case, opinion, output), False
        question = Question(case.input, case.answer or b"", case.flags)
        source = truncation.sealed(output)
        try:
            opinion = self.judges.validator.check(question, source, first=True, remaining=self.remaining)
        finally:
            os.close(source)
        if opinion.next_input is not None:
            opinion.close()
            opinion = ValidatorResult(accepted=False, fault="the output validator asks for another pass")
        return *judged_alone(case, opinion, output), False


@dataclass(frozen=True)
class Tester:
    """Runs tests of one task. `run` runs a command in the submission's sandbox; `pair` lets two talk to each other.

    `remaining` says for how many seconds at most a run may go on now, whatever its limits: the validator's as well,
    which takes as long as the submission's output makes it take; it is the last argument of `pair`. `rounds` runs
    submissions to IOI tasks that are not run as others are. `keep` gets the outcome of each test's last run, with
    `files` also the run's directory.
    """

    program: Program
    run: Callable[[Command], RunOutcome]
    pair: Callable[[Command, CustomValidator, Command, float], tuple[RunOutcome, RunOutcome]]
    judges: Judges = Judges()
    interactive: bool = False
    passes: int = 1
    keep: Callable[[RunOutcome], None] | None = None
    files: bool = False
    remaining: Callable[[], float] = lambda: math.inf
    rounds: Rounds | None = None

    def test(self, case: Case, grace: float) -> tuple[TestResult, Judged, bool]:
        """Run one test to its verdict, which may be TLE by less than the grace; `grace` as in Command.

        The last value says whether it is near a time limit, so that a repetition may find otherwise.
        """
        if case.static is not None:
            static = self.judges.static
            refused = ValidatorResult(accepted=False, fault="a command has no source for the static validator")
            return *judged_alone(case, static.check(case.static.args, self.remaining) if static else refused), False
        with self._passes(case, grace) as passes:
            return *self._result(case, passes), passes[-1].ruling.near

    @contextlib.contextmanager
    def _passes(self, case: Case, grace: float) -> Iterator[list[Pass]]:
        """All passes of one test, until the verdict; `grace` as in `Command`."""
        passes: list[Pass] = []
        source: int | None = None
        try:
            while True:
                run = self._pass(case, source, grace, first=not passes)
                if passes:
                    passes[-1].outcome.close()  # its figures stay, its output would take memory
                passes.append(run)
                if source is not None:
                    os.close(source)
                source = run.validated.next_input if run.validated is not None else None
                if source is None:
                    break
                if len(passes) >= self.passes:
                    run.ruling = verdict.judge_error(f"the output validator asks for more than {self.passes} passes")
                    break
            yield passes
        finally:
            if source is not None:
                os.close(source)
            if passes:
                passes[-1].outcome.close()

    def _pass(self, case: Case, source: int | None, grace: float, *, first: bool) -> Pass:
        program = self.program
        argv = [*program.run, *case.args]
        limits = shorter(program.limits, self.remaining() / (1 + grace))
        command = Command(
            argv, limits, program.env, cwd=program.cwd, grace=grace, files=case.files, keep_scratch=self.files
        )
        question = self._question(case, source)
        if self.interactive and self.judges.validator is not None:
            return self._interact(question, command, self.judges.validator, first=first)
        if self.rounds is not None:
            return self._round(case, question, command, self.rounds)
        stdin = truncation.sealed(case.input) if source is None else source
        try:
            outcome = self.run(dataclasses.replace(command, stdin=stdin))
        finally:
            if source is None:
                os.close(stdin)
        try:
            return self._judge(case, question, outcome, first=first)
        except BaseException:
            outcome.close()
            raise

    def _question(self, case: Case, source: int | None) -> Question:
        """The question to the validator in one pass; `source` is the input of a later pass."""
        question = Question(case.input, case.answer or b"", case.flags)
        if source is None or not self.judges.next_input:
            return question
        return dataclasses.replace(question, input=os.pread(source, os.fstat(source).st_size, 0), later=True)

    def _round(self, case: Case, question: Question, command: Command, rounds: Rounds) -> Pass:
        """One run of a submission to an IOI task, in the way of its kind."""
        played = rounds.play(command, case.input, self.remaining())
        if played.ruling is not None:
            return Pass(played.outcome, played.ruling, played.validated)
        try:
            return self._judge(case, question, played.outcome, first=True, limits=played.limits)
        except BaseException:
            played.outcome.close()
            raise

    def _judge(
        self, case: Case, question: Question, outcome: RunOutcome, *, first: bool, limits: Limits | None = None
    ) -> Pass:
        """Judge a run by itself; one that ended well by its output. `limits` are those that it had."""
        limits = limits or self.program.limits
        fault = verdict.run_fault(outcome, limits, heap_full=self.program.heap_full(outcome))
        if fault is not None:
            return Pass(outcome, fault)
        if case.answer is None:
            return Pass(outcome, verdict.run_verdict(outcome, limits, None))
        if self.judges.validator is None:
            compared, message = compare(case, outcome.read_stdout())
            return Pass(outcome, verdict.run_verdict(outcome, limits, compared), message=message)
        validated = self.judges.validator.check(question, outcome.stdout, first=first, remaining=self.remaining)
        return Pass(outcome, verdict.run_verdict(outcome, limits, validated.checked()), validated)

    def _interact(self, question: Question, command: Command, validator: CustomValidator, *, first: bool) -> Pass:
        """One interaction: both run side by side, and it counts who ended first."""
        outcome, judge = self.pair(command, validator, validator.question(question, first=first), self.remaining())
        try:
            with judge:
                # The validator's own time is not the submission's: it had the core meanwhile.
                limits = self.program.limits
                limits = limits.model_copy(update={"wall": limits.wall_seconds + judge.cpu})
                validated = validator.result(judge)
            opinion_check = validated.checked(first=judge.ended < outcome.ended)
            ruling = verdict.run_verdict(outcome, limits, opinion_check, heap_full=self.program.heap_full(outcome))
        except BaseException:
            outcome.close()
            raise
        if ruling.verdict is not Verdict.AC and validated.next_input is not None:
            os.close(validated.next_input)
            validated = dataclasses.replace(validated, next_input=None)
        return Pass(outcome, ruling, validated)

    def _result(self, case: Case, passes: Sequence[Pass]) -> tuple[TestResult, Judged]:
        """The account of all passes: the largest figures, and what was found in the last."""
        last = passes[-1]
        ruling, outcome = last.ruling, last.outcome
        failed = ruling.verdict is not Verdict.AC
        validated = last.validated or ValidatorResult(accepted=not failed)
        count = os.fstat(outcome.stdout).st_size
        out, err = truncation.printed(outcome)
        message, feedback = last.message or validated.message, validated.feedback
        if self.keep is not None:
            self.keep(outcome)
        reason = ruling.reason if len(passes) == 1 or not failed else f"pass {len(passes)}: {ruling.reason}"
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
            passes=len(passes),
            **_most(passes).model_dump(),
        )
        return result, Judged(ruling.verdict, validated.score, validated.multiplier)


def _most(passes: Sequence[Pass]) -> RunUsage:
    """The largest figures of all passes, and the end of the last."""
    usages = [verdict.usage(run.outcome) for run in passes]
    return usages[-1].model_copy(
        update={name: max(getattr(run, name) for run in usages) for name in ("cpu", "wall", "memory")}
    )
