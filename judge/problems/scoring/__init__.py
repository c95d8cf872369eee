"""From the verdicts of tests to that of the submission, and to its score: pure functions (docs/judging.md).

`standing` answers both questions of a judging: what is it worth so far, and which tests must still be run? A test that
has not been run counts as one that passed, so the answer to the second is what would be run if all went well; it
shrinks with every failure. When nothing is missing, the verdict stands. What was run beyond that (by a slot that
helped, or in full mode) never changes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judge.model.messages import Verdict
from judge.model.problem import ProblemManifest
from judge.problems.scoring.base import Grade, Judged, ScoringError, Standing, judging_order
from judge.problems.scoring.current import Current
from judge.problems.scoring.domjudge import Domjudge
from judge.problems.scoring.legacy import Legacy
from judge.problems.scoring.subtasks import Subtasks

__all__ = ["Grade", "Judged", "Standing", "judging_order", "standing"]


def standing(
    problem: ProblemManifest | Sequence[str], results: Mapping[str, Judged], grade: Grade | None = None
) -> Standing:
    """The standing of a submission after these results; see the module's text. Called by the executor.

    `problem` is a manifest, or the names of the tests in judging order where there is none. `grade` asks the package's
    own grader: the same question has the same answer.
    """
    total = Standing()
    if not isinstance(problem, ProblemManifest):
        _first_failing(problem, results, total)
        return total
    scoring = problem.traits.has_score
    try:
        if problem.task is not None and problem.task.subtasks:
            Subtasks(problem, results, total).evaluate(problem.task)
        elif problem.graders and problem.dialect == "domjudge" and scoring:
            Domjudge(problem, results, total).evaluate()
        elif problem.graders:
            Legacy(problem, results, total, grade).evaluate()
        elif scoring:
            Current(problem, results, total).evaluate()
        else:
            _first_failing(judging_order(problem), results, total)
    except OverflowError:
        total.error = "the scores are too large to be added"
    except ScoringError as fault:
        total.error = str(fault)
        total.failed = total.failed or (fault.where if fault.where in results else None)
    if scoring and not total.used_tests and not total.error and judging_order(problem):
        # Any submission at all would be accepted.
        total.error = f"{problem.name}: by its groups no test counts"
    if total.error:
        total.verdict, total.score, total.missing = Verdict.JE, None, []
    return total


def _first_failing(names: Sequence[str], results: Mapping[str, Judged], total: Standing) -> None:
    """Pass-fail: the first failing test in judging order decides, and nothing after it counts."""
    for name in names:
        total.used_tests.append(name)
        judged = results.get(name)
        if judged is None:
            total.missing.append(name)
        elif judged.verdict is not Verdict.AC:
            total.verdict, total.failed = judged.verdict, name
            return
