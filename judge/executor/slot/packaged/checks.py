"""Checks a problem's data with the package's own programs, in place of judging a submission (`Submission.check`).

`inputs`: every input validator on every test's input. `answers`: the output validator on every test's answer, and every
answer validator. Each program runs in a sandbox of its own; a test that one of them does not accept is WA, with what
the program said as its message.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from judge.executor.slot import truncation
from judge.executor.slot.cases import Case
from judge.executor.slot.packaged.built import MESSAGE_BYTES, BuiltProgram
from judge.executor.slot.packaged.feedback import ValidatorResult
from judge.executor.slot.program import shorter
from judge.executor.slot.testing import Judges, compare, judged_alone
from judge.executor.slot.validation import Question
from judge.executor.verdict import ACCEPTED, run_fault
from judge.languages.table import PATH
from judge.model.messages import TestResult
from judge.model.problem import ProblemProgram, ProblemTest
from judge.sandbox.types import Command, RunOutcome

# Validators that are no programs: tools read them that are not here.
DESCRIPTIONS = (".ctd", ".viva", ".cue")


def is_program(program: ProblemProgram) -> bool:
    """Return whether a validator is a program, and no description in another tool's language."""
    return PurePosixPath(program.main).suffix.lower() not in DESCRIPTIONS


class DataValidator:
    """One input or answer validator of a package."""

    def __init__(self, name: str, program: BuiltProgram) -> None:
        """`name` is the program's."""
        self.name = name
        self._built = program

    def close(self) -> None:
        """End the sandbox."""
        self._built.close()

    def check_input(self, test: ProblemTest, case: Case, remaining: Callable[[], float]) -> ValidatorResult:
        """Let it judge a test's input, which it reads. The test's own files lie in its current directory."""
        flags = test.input_flags
        arguments = flags.get(self.name, []) if isinstance(flags, dict) else flags
        return self._ask(arguments, case.input, remaining, case.files)

    def check_answer(self, case: Case, remaining: Callable[[], float]) -> ValidatorResult:
        """Let it judge a test's answer, which it reads. It gets the input's path as an argument (BAPCtools)."""
        self._built.put({"judge/input": case.input})
        return self._ask(["/box/judge/input", *case.flags], case.answer or b"", remaining)

    def _ask(
        self,
        arguments: Sequence[str],
        source: bytes | Path,
        remaining: Callable[[], float],
        files: Mapping[str, bytes | Path] | None = None,
    ) -> ValidatorResult:
        program = self._built.program
        stdin = truncation.sealed(source)
        try:
            command = Command(
                argv=[*program.run, *arguments],
                limits=shorter(program.limits, remaining()),
                env={"PATH": PATH, **program.env},
                stdin=stdin,
                files=files or {},
            )
            with self._built.run(command) as outcome:
                return self._opinion(outcome)
        finally:
            os.close(stdin)

    def _opinion(self, outcome: RunOutcome) -> ValidatorResult:
        if outcome.exit_code == ACCEPTED and not outcome.killed:
            return ValidatorResult(accepted=True)
        fault = run_fault(outcome, self._built.limits)
        ending = fault.reason if fault is not None else "ended with exit code 0"
        parts = (outcome.read_stderr(MESSAGE_BYTES), outcome.read_stdout(MESSAGE_BYTES))
        message = "\n".join(text for data in parts if (text := truncation.text(data).strip()))
        return ValidatorResult(
            accepted=False, message=message, rejection=f"{self._built.label} does not accept: {ending}"
        )


class DataCheck:
    """One check of all tests. `judges` has the output validator, None where its word is not asked."""

    def __init__(
        self,
        validators: Sequence[DataValidator],
        judges: Judges | None,
        remaining: Callable[[], float],
        *,
        answers: bool,
    ) -> None:
        """`validators` are run on answers, else on inputs; `left` as of `Tester`."""
        self._validators = validators
        self._judges = judges
        self._left = remaining
        self._answers = answers

    def close(self) -> None:
        """End all sandboxes."""
        for validator in self._validators:
            validator.close()
        if self._judges is not None:
            self._judges.close()

    def test(self, test: ProblemTest, case: Case) -> TestResult:
        """The first validator that does not accept decides; BuildError when one does not compile."""
        for opinion in self._results(test, case):
            if not opinion.accepted:
                return judged_alone(replace(case, public=True), opinion)[0]
        return judged_alone(case, ValidatorResult(accepted=True))[0]

    def _results(self, test: ProblemTest, case: Case) -> Iterator[ValidatorResult]:
        for validator in self._validators:
            yield (
                validator.check_answer(case, self._left)
                if self._answers
                else validator.check_input(test, case, self._left)
            )
        if self._judges is not None:
            yield self._judged(case)

    def _judged(self, case: Case) -> ValidatorResult:
        """Let the output validator judge the answer as if a submission had printed it."""
        validator = self._judges.validator if self._judges is not None else None
        answer = case.answer if isinstance(case.answer, bytes) else (case.answer or Path("/dev/null")).read_bytes()
        if validator is None:
            validated, message = compare(case, answer or b"")
            return ValidatorResult(validated.accepted, validated.fault, message)
        source = truncation.sealed(answer or b"")
        try:
            opinion = validator.check(
                Question(case.input, answer or b"", case.flags), source, first=True, remaining=self._left
            )
        finally:
            os.close(source)
        with contextlib.closing(opinion):
            return replace(opinion, next_input=None, rejection="the output validator does not accept the answer")
