"""Asks the package's own grader (legacy `graders/`) what a folder comes to: verdicts and scores in, one of each out.

It sees nothing of a submission but these, in a sandbox of its own. The same question is asked once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from judge.common.errors import PackageError
from judge.common.text import decimal
from judge.executor.slot import truncation
from judge.executor.slot.packaged.built import MESSAGE_BYTES, BuildError, BuiltProgram, Workshop, first_line
from judge.executor.slot.program import Program
from judge.executor.verdict import run_fault
from judge.model.messages import Verdict
from judge.model.problem import LegacyGroup
from judge.problems.validator import number

# Verdicts that may be answered; the score is checked by itself.
_VERDICTS = {verdict.encode(): verdict for verdict in Verdict if verdict.about.graded}
_ANSWER = re.compile(rb"\s*(%s)\s+(\S+)\s*" % b"|".join(_VERDICTS))
_ANSWER_BYTES = 1024


class Grader(BuiltProgram):
    def __init__(self, program: Program, workshop: Workshop) -> None:
        super().__init__("the package's grader", program, workshop)
        self._answers: dict[tuple[tuple[str, ...], bytes], tuple[Verdict, float]] = {}

    def grade(self, group: LegacyGroup, results: Sequence[tuple[Verdict, float]]) -> tuple[Verdict, float]:
        """The grader's result for a folder; PackageError when it is not in the format."""
        lines = "".join(f"{_code(verdict)} {decimal(score, 17)}\n" for verdict, score in results).encode()
        question = (tuple(group.flags), lines)
        if question not in self._answers:
            self._answers[question] = self._ask(*question)
        return self._answers[question]

    def _ask(self, flags: Sequence[str], lines: bytes) -> tuple[Verdict, float]:
        stdin = truncation.sealed(lines)
        try:
            with self.run(self.command(flags, stdin=stdin)) as outcome:
                fault = run_fault(outcome, self.program.limits)
                if fault is not None:
                    message = first_line(outcome)
                    raise PackageError(f"{self.label} failed: {fault.reason}" + (f": {message}" if message else ""))
                answer = outcome.read_stdout(_ANSWER_BYTES + 1)
        except BuildError as exc:
            raise PackageError(truncation.clip(str(exc), MESSAGE_BYTES)) from exc
        finally:
            os.close(stdin)
        graded = answered(answer)
        if graded is None:
            excerpt = truncation.clip(truncation.text(answer[:80]).strip(), 80)
            raise PackageError(
                f"{self.label} said '{excerpt}'; it must print one verdict and one number, such as 'AC 40'"
            )
        return graded


def answered(output: bytes) -> tuple[Verdict, float] | None:
    """The verdict and the score that a grader has printed; None when it printed something else."""
    match = _ANSWER.fullmatch(output) if len(output) <= _ANSWER_BYTES else None
    score = number(match[2]) if match is not None else None
    return None if match is None or score is None else (_VERDICTS[match[1]], score)


def _code(verdict: Verdict) -> str:
    """The format's word: AC, WA, RTE or TLE."""
    return verdict.about.package.split()[0] if verdict.about.package else verdict
