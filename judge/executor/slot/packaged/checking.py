"""Checks a problem's data with the package's own programs, in place of judging a submission (`Submission.check`).

`inputs`: every input validator on every test's input. `answers`: the output validator on every test's answer, and every
answer validator. Each program runs in a sandbox of its own; a test that one of them does not accept is WA, with what
the program said as its message.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from judge.common import clock
from judge.executor.slot import truncation
from judge.executor.slot.attempt import PreparedJob
from judge.executor.slot.cases import Case, cases
from judge.executor.slot.packaged.built import MESSAGE_BYTES, BuildError, BuiltProgram
from judge.executor.slot.testing import Judges, compare, judged_alone
from judge.executor.slot.validation import Question, ValidatorResult
from judge.executor.verdict import ACCEPTED, Ruling, Validated, checked_verdict, judge_error, run_fault
from judge.model.messages import Result
from judge.model.problem import ProblemManifest, ProblemProgram, ProblemTest
from judge.sandbox.types import RunOutcome

# Validators that are no programs: tools read them that are not here.
DESCRIPTIONS = (".ctd", ".viva", ".cue")


def is_program(program: ProblemProgram) -> bool:
    """Return whether a validator is a program, and no description in another tool's language."""
    return PurePosixPath(program.main).suffix.lower() not in DESCRIPTIONS


class Checking:
    def __init__(self, attempt: PreparedJob, result: Result) -> None:
        """`result` learns what comes out."""
        self._attempt = attempt
        self._result = result
        self._answers = attempt.job.assignment.submission.check == "answers"
        self._limits = attempt.limits()
        self._workshop = attempt.workshop(self._limits)

    def run(self, manifest: ProblemManifest) -> Ruling:
        """Check every test; the verdict is that of the first one that is not accepted."""
        result = self._result
        programs = manifest.answer_validators if self._answers else manifest.input_validators
        runnable = [program for program in programs if is_program(program)]
        label = "the answer validator" if self._answers else "the input validator"
        asks = self._answers and not manifest.traits.needs_validator
        with contextlib.ExitStack() as stack:
            judges = stack.enter_context(contextlib.closing(self._attempt.judges(self._limits))) if asks else None
            validators = [(program.name, self._built(f"{label} '{program.name}'", program)) for program in runnable]
            for _, validator in validators:
                stack.callback(validator.close)
            try:
                if self._answers:
                    self._build(manifest, validators=not asks)
                self._tests(manifest, validators, judges)
            except BuildError as exc:
                result.tests = []
                return judge_error(str(exc))
        result.reason = self._not_run(
            [program for program in programs if not is_program(program)], ran=bool(runnable or asks)
        )
        failing = next((test for test in result.tests if test.reason), None)
        if failing is None:
            return checked_verdict(Validated(accepted=True))._replace(reason=result.reason)
        result.failed_test = failing.name
        return Ruling(failing.verdict, f"test {failing.name}: {failing.reason}")

    def _built(self, label: str, program: ProblemProgram) -> BuiltProgram:
        return BuiltProgram(label, self._attempt.packaged(program, self._limits), self._workshop)

    def _build(self, manifest: ProblemManifest, *, validators: bool) -> None:
        """Build what only judges submissions, so that a package whose manager does not compile is known as such."""
        manager = manifest.task.manager if manifest.task is not None else None
        programs: list[tuple[str, ProblemProgram | None]] = [
            *((f"the output validator '{program.name}'", program) for program in manifest.validators if validators),
            ("the manager", manager),
            ("the grader", manifest.grader),
        ]
        for label, program in programs:
            if program is not None:
                with contextlib.closing(self._built(label, program)) as built:
                    built.box()

    def _tests(
        self, manifest: ProblemManifest, validators: Sequence[tuple[str, BuiltProgram]], judges: Judges | None
    ) -> None:
        attempt, budget, begin = self._attempt, truncation.OutputBudget(), clock.monotonic()
        tests = {test.name: test for test in manifest.tests}
        todo = [case for case in cases(attempt.job) if case.name in tests]
        for count, case in enumerate(todo):
            attempt.teller.tests(count, len(todo), begin)
            accepted = case, ValidatorResult(accepted=True)
            opinions = self._opinions(tests[case.name], case, validators, judges)
            rejected = ((replace(case, public=True), opinion) for opinion in opinions if not opinion.accepted)
            result, _ = judged_alone(*next(rejected, accepted))
            budget.trim(result)
            self._result.tests.append(result)

    def _opinions(
        self, test: ProblemTest, case: Case, validators: Sequence[tuple[str, BuiltProgram]], judges: Judges | None
    ) -> Iterator[ValidatorResult]:
        """What each validator says of a test; BuildError when one does not compile."""
        for name, validator in validators:
            if self._answers:
                # It reads the answer, and gets the input's path as an argument (BAPCtools).
                validator.put({"judge/input": case.input})
                yield self._ask(validator, ["/box/judge/input", *case.flags], case.answer or b"")
            else:
                flags = test.input_flags
                arguments = flags.get(name, []) if isinstance(flags, dict) else flags
                # It reads the input. The test's own files lie in its current directory.
                yield self._ask(validator, arguments, case.input, case.files)
        if judges is not None:
            yield self._judged(case, judges)

    def _ask(
        self,
        validator: BuiltProgram,
        arguments: Sequence[str],
        source: bytes | Path,
        files: Mapping[str, bytes | Path] | None = None,
    ) -> ValidatorResult:
        stdin = truncation.sealed(source)
        try:
            command = validator.command(arguments, seconds=self._attempt.remaining(), stdin=stdin, files=files)
            with validator.run(command) as outcome:
                return _opinion(validator, outcome)
        finally:
            os.close(stdin)

    def _judged(self, case: Case, judges: Judges) -> ValidatorResult:
        """Let the output validator judge the answer as if a submission had printed it."""
        answer = case.answer.read_bytes() if isinstance(case.answer, Path) else case.answer or b""
        if judges.validator is None:
            validated, message = compare(case, answer)
            return ValidatorResult(validated.accepted, validated.fault, message)
        source = truncation.sealed(answer)
        try:
            question = Question(case.input, answer, case.flags)
            opinion = judges.validator.check(question, source, first=True, remaining=self._attempt.remaining)
        finally:
            os.close(source)
        with contextlib.closing(opinion):
            return replace(opinion, next_input=None, rejection="the output validator does not accept the answer")

    def _not_run(self, descriptions: list[ProblemProgram], *, ran: bool) -> str:
        """A sentence about validators that were not asked; empty when all were."""
        if descriptions:
            names = ", ".join(Path(program.main).name for program in descriptions)
            return f"not run here, since they are no programs: {names}"
        if ran:
            return ""
        return "the package has no answer validator that can be asked" if self._answers else "no input validator"


def _opinion(validator: BuiltProgram, outcome: RunOutcome) -> ValidatorResult:
    if outcome.exit_code == ACCEPTED and not outcome.killed:
        return ValidatorResult(accepted=True)
    fault = run_fault(outcome, validator.program.limits)
    ending = fault.reason if fault is not None else "ended with exit code 0"
    parts = (outcome.read_stderr(MESSAGE_BYTES), outcome.read_stdout(MESSAGE_BYTES))
    message = "\n".join(text for data in parts if (text := truncation.text(data).strip()))
    return ValidatorResult(accepted=False, message=message, rejection=f"{validator.label} does not accept: {ending}")
