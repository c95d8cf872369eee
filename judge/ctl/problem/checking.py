"""A package's tests, looked at on an executor by its own programs: inputs by theirs, answers by the validator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from judge.common.errors import UsageError
from judge.ctl import show
from judge.ctl.api import Api
from judge.ctl.problem.trial import Present, Trial
from judge.model import messages as m
from judge.model.problem import ProblemManifest, ProblemProgram

Kind = Literal["inputs", "answers"]
# The name of a validator in what an executor says of a test.
_VALIDATOR_NAME = re.compile(r"(?<=validator )'[^']*'")
_MOST_CHARACTERS = 200


@dataclass
class CheckOutcome:
    """The outcome of the checks: how many tests each has passed, the sentences about tests that were refused.

    `refused` and `broken` (an output validator that cannot judge at all) are faults, `warnings` are not.
    """

    passed: dict[Kind, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def add(self, second: CheckOutcome) -> None:
        """Take in what came of other checks, which have passed no tests."""
        self.notes += second.notes
        self.refused += second.refused
        self.warnings += second.warnings
        self.left_out |= second.left_out

    @property
    def words(self) -> str:
        """One line for people; empty when there was nothing to check."""
        return ", ".join(
            f"{count} {kind.removesuffix('s') if count == 1 else kind} checked" for kind, count in self.passed.items()
        )


@dataclass
class CheckRow:
    """One check and its task. `builds`: of answers where nobody is asked about any, but programs are built."""

    label: str
    task: m.Task
    kind: Kind
    builds: bool = False


def programs(manifest: ProblemManifest) -> dict[Kind, list[ProblemProgram]]:
    """The programs that look at a problem's inputs, and at its answers; none: there is nothing to check."""
    answers = [*_submission_programs(manifest), *_built(manifest)]
    by_kind: dict[Kind, list[ProblemProgram]] = {"inputs": manifest.input_validators, "answers": answers}
    return {kind: kind_programs for kind, kind_programs in by_kind.items() if kind_programs}


def _submission_programs(manifest: ProblemManifest) -> list[ProblemProgram]:
    """The programs that say whether an answer is right.

    An output validator is one of them where an answer is such an output as submissions print.
    """
    output = [] if manifest.traits.needs_validator or not manifest.traits.has_program else manifest.validators
    return [*manifest.answer_validators, *output]


def _built(manifest: ProblemManifest) -> list[ProblemProgram]:
    """The programs that judge submissions and are asked about no answer; the check of answers only builds them."""
    manager = manifest.task.manager if manifest.task is not None else None
    speaks = manifest.validators if manifest.traits.needs_validator else []
    return [*speaks, *(program for program in (manager, manifest.grader) if program is not None)]


def check(api: Api, manifest: ProblemManifest, available: Present, *, quiet: bool) -> CheckOutcome:
    """Run a problem's checks on the cluster; its blobs are uploaded, and nothing is registered."""
    outcome = CheckOutcome()
    with Trial.of(api, manifest) as trial:
        rows = []
        for kind, kind_programs in programs(manifest).items():
            label = f"check of {kind}"
            if why := available.lacks(kind_programs):
                outcome.left_out[label] = why
                continue
            language = next((program.language for program in kind_programs if program.language), None)
            submission = m.Submission(language=language, check=kind, mode="full")
            builds = kind == "answers" and not _submission_programs(manifest)
            rows.append(CheckRow(label, trial.hand_in(submission), kind, builds))
        for row in trial.follow(rows, table_of, quiet=quiet):
            _judge(row, outcome)
        outcome.left_out |= trial.left_out
    return outcome


def _judge(row: CheckRow, outcome: CheckOutcome) -> None:
    result = row.task.result or m.Result()
    if row.builds and row.task.verdict is m.Verdict.AC:
        outcome.notes.append("the package's programs that judge submissions compile")
        return
    outcome.passed[row.kind] = sum(test.verdict is m.Verdict.AC for test in result.tests)
    bad = [test for test in result.tests if test.verdict is not m.Verdict.AC]
    if result.reason and row.task.verdict is m.Verdict.AC:
        outcome.notes.append(f"check of {row.kind}: {show_line(result.reason)}")
    if not bad and row.task.verdict is not m.Verdict.AC:
        why = result.reason or (row.task.verdict or row.task.status)
        if row.kind == "answers" and row.task.verdict is m.Verdict.JE:
            outcome.broken.append(show_line(str(why)))
        else:
            outcome.warnings.append(f"the {row.kind} could not be checked: {show_line(str(why))}")
    failed = [test for test in bad if test.verdict is m.Verdict.JE]
    if row.kind == "answers" and failed and len(failed) == len(result.tests):
        # A validator that says yes or no to nothing judges no submission either.
        why = show_line(failed[0].reason or failed[0].message or failed[0].error)
        answers_text = "its only answer" if len(failed) == 1 else f"all {len(failed)} answers"
        outcome.broken.append(f"its output validator fails on {answers_text} (test {failed[0].name}: {why})")
        return
    sentences = {test.name: _sentence(row.kind, test) for test in bad}
    # An answer file is whatever the output validator reads, and need not be an output that it accepts.
    sure = [test.name for test in bad if row.kind == "inputs" or "the answer validator" in test.reason]
    outcome.refused += [sentences[name] for name in sure]
    doubts = [name for name in sentences if name not in sure]
    if doubts:
        more = f" (and of {len(doubts) - 1} more tests)" if len(doubts) > 1 else ""
        outcome.warnings.append(f"{sentences[doubts[0]]}{more}; fine if answers are no outputs in this problem")


def _sentence(kind: Kind, test: m.TestResult) -> str:
    half = "input" if kind == "inputs" else "answer"
    message = show_line(test.message or test.reason or test.error or test.output)
    # Of several validators one has to know whose message it is: helper scripts beside them are validators as well.
    validator_name = _VALIDATOR_NAME.search(test.reason) if test.message else None
    validator = "the package's own validator" + (f" {validator_name[0]}" if validator_name is not None else "")
    return f"test {test.name}: its {half} is refused by {validator}" + (f": {message}" if message else "")


def show_line(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _MOST_CHARACTERS else words[: _MOST_CHARACTERS - 1] + "…"


def table_of(rows: Sequence[CheckRow]) -> show.Grid:
    grid = show.grid("check", "verdict", "tests>")
    for row in rows:
        grid.add_row(row.kind, show.verdict_text(row.task), str(len(row.task.result.tests)) if row.task.result else "")
    return grid


def refuse(name: str, outcome: CheckOutcome) -> None:
    """UsageError with one sentence for each test that was refused, the first of them, or for a broken validator."""
    if outcome.broken:
        raise UsageError(f"{name}: is not imported: {outcome.broken[0]}; mend it (--no-check does not try it)")
    if outcome.refused:
        count, limit = len(outcome.refused), 50
        remainder = [f"… and {count - limit} more tests"] if count > limit else []
        head = f"{name}: is not imported: its own validators refuse {count} of its tests; --no-check does not ask them"
        raise UsageError("\n".join([head, *outcome.refused[:limit], *remainder]))
