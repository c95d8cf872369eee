"""A check of a problem's data as a job of a slot: which programs are asked, test after test, and what comes out."""

from __future__ import annotations

import contextlib
from pathlib import Path

from judge.common import clock
from judge.executor.slot import truncation
from judge.executor.slot.attempt import PreparedJob
from judge.executor.slot.cases import cases
from judge.executor.slot.memory_budget import JobLimits
from judge.executor.slot.packaged.built import BuildError, BuiltProgram
from judge.executor.slot.packaged.checks import DataCheck, DataValidator, is_program
from judge.executor.verdict import Ruling, Validated, checked_verdict, judge_error
from judge.model.messages import Result
from judge.model.problem import ProblemManifest, ProblemProgram


class Checking:
    """One check; see `judge.executor.slot.packaged.checks`."""

    def __init__(self, attempt: PreparedJob, result: Result) -> None:
        """`result` learns what comes out."""
        self._attempt = attempt
        self._result = result
        self._answers = attempt.job.assignment.submission.check == "answers"

    def run(self, manifest: ProblemManifest) -> Ruling:
        """Check every test; the verdict is that of the first one that is not accepted."""
        attempt, result = self._attempt, self._result
        limits = attempt.limits()
        programs = manifest.answer_validators if self._answers else manifest.input_validators
        runnable = [description for description in programs if is_program(description)]
        label = "the answer validator" if self._answers else "the input validator"
        workshop = attempt.workshop(limits)

        def validator(program: ProblemProgram) -> DataValidator:
            built_program = BuiltProgram(f"{label} '{program.name}'", attempt.packaged(program, limits), workshop)
            return DataValidator(program.name, built_program)

        asks = self._answers and not manifest.traits.needs_validator
        judges = attempt.judges(limits) if asks else None
        check = DataCheck(
            [validator(description) for description in runnable], judges, attempt.left, answers=self._answers
        )
        with contextlib.closing(check):
            try:
                if self._answers:
                    self._build(manifest, limits, validators=not asks)
                self._tests(check, manifest)
            except BuildError as exc:
                result.tests = []
                return judge_error(str(exc))
        result.reason = self._not_run(
            [description for description in programs if not is_program(description)], ran=bool(runnable or asks)
        )
        failing = next((test for test in result.tests if test.reason), None)
        if failing is None:
            return checked_verdict(Validated(accepted=True))._replace(reason=result.reason)
        result.failed_test = failing.name
        return Ruling(failing.verdict, f"test {failing.name}: {failing.reason}")

    def _build(self, manifest: ProblemManifest, limits: JobLimits, *, validators: bool) -> None:
        """Build what only judges submissions, so that a package whose manager does not compile is known as such."""
        attempt = self._attempt
        programs = [
            (f"the output validator '{description.name}'", description)
            for description in manifest.validators
            if validators
        ]
        manager = manifest.task.manager if manifest.task is not None else None
        programs += [
            (label, description)
            for label, description in (("the manager", manager), ("the grader", manifest.grader))
            if description
        ]
        workshop = attempt.workshop(limits)
        for label, program in programs:
            with contextlib.closing(BuiltProgram(label, attempt.packaged(program, limits), workshop)) as built_program:
                built_program.box()

    def _tests(self, check: DataCheck, manifest: ProblemManifest) -> None:
        attempt, budget, begin = self._attempt, truncation.OutputBudget(), clock.monotonic()
        tests = {test.name: test for test in manifest.tests}
        todo = [case for case in cases(attempt.job) if case.name in tests]
        for count, case in enumerate(todo):
            attempt.teller.tests(count, len(todo), begin)
            result = check.test(tests[case.name], case)
            budget.trim(result)
            self._result.tests.append(result)

    def _not_run(self, descriptions: list[ProblemProgram], *, ran: bool) -> str:
        """A sentence about validators that were not asked; empty when all were."""
        if descriptions:
            names = ", ".join(Path(program.main).name for program in descriptions)
            return f"not run here, since they are no programs: {names}"
        if ran:
            return ""
        return "the package has no answer validator that can be asked" if self._answers else "no input validator"
