"""Subtasks of IOI tasks: their rules, against the plain definitions, and what is still to be run."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.model.messages import Verdict
from judge.model.problem import IoiTask, ProblemManifest, ProblemType, Subtask
from judge.problems.scoring import Judged, standing
from tests.support.packages import manifest_of

NAMES = ["sample/1", *(f"secret/{number}" for number in range(5))]
AC, WA = Verdict.AC, Verdict.WA


def problem(*subtasks: Subtask) -> ProblemManifest:
    return manifest_of(*NAMES, type=[ProblemType.SCORING], task=IoiTask(subtasks=list(subtasks)))


def judged(value: float) -> Judged:
    return Judged(AC, multiplier=value) if value > 0 else Judged(WA)


OUTCOMES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=6, max_size=6)
MEMBERS = st.lists(st.sampled_from(NAMES), min_size=1, unique=True)


@given(OUTCOMES, st.lists(st.tuples(st.sampled_from(["sum", "min", "mul"]), MEMBERS), min_size=1, max_size=4))
def test_the_score_is_what_the_rules_say(outcomes, groups):
    subtasks = [
        Subtask(name=str(number), points=10 + number, rule=rule, tests=tests)
        for number, (rule, tests) in enumerate(groups)
    ]
    rules = {"sum": lambda values: sum(values) / len(values), "min": min, "mul": math.prod}
    expected = sum(
        subtask.points * rules[subtask.rule]([outcomes[name] for name in subtask.tests]) for subtask in subtasks
    )
    result = standing(problem(*subtasks), {name: judged(value) for name, value in outcomes.items()})
    assert result.score == pytest.approx(expected)
    assert not result.missing and not result.error
    assert [group.max_score for group in result.groups] == [subtask.points for subtask in subtasks]


@given(OUTCOMES, st.lists(st.tuples(st.sampled_from(["sum", "min", "mul"]), MEMBERS), min_size=1, max_size=4))
def test_tests_that_are_not_missing_change_nothing(outcomes, groups):
    subtasks = [Subtask(name=str(n), points=10, rule=rule, tests=tests) for n, (rule, tests) in enumerate(groups)]
    manifest = problem(*subtasks)
    results: dict[str, Judged] = {}
    while missing := standing(manifest, results).missing:
        assert len(set(missing)) == len(missing)
        results[missing[0]] = judged(outcomes[missing[0]])
    full = standing(manifest, {name: judged(value) for name, value in outcomes.items()})
    lazy = standing(manifest, results)
    assert (lazy.score, lazy.verdict, lazy.failed) == (full.score, full.verdict, full.failed)


@pytest.mark.parametrize(
    ("outcomes", "score"), [((1, 12), 50), ((13, 12), 0), ((12, 12.5), 0), ((0, 1), 0), ((0.5, 0.5), 50)]
)
def test_a_threshold_takes_outcomes_up_to_it(outcomes, score):
    subtask = Subtask(name="few", points=50, rule="threshold", threshold=12, tests=["secret/0", "secret/1"])
    results = {
        f"secret/{number}": Judged(AC, score=value) if value else Judged(WA) for number, value in enumerate(outcomes)
    }
    result = standing(problem(subtask), {"sample/1": Judged(AC), **results})
    assert (result.score, result.error) == (score, "")


def test_an_outcome_that_a_rule_cannot_take_is_the_problems_fault():
    subtask = Subtask(name="all", points=50, tests=["secret/0"])
    result = standing(problem(subtask), {"sample/1": Judged(AC), "secret/0": Judged(AC, score=3)})
    assert result.verdict is Verdict.JE
    assert result.error == "secret/0: the outcome 3 is not from 0 to 1, as subtask 'all' needs it"
    scores = standing(problem(subtask), {"sample/1": Judged(AC), "secret/0": Judged(AC, score=1, multiplier=1)})
    assert "both score.txt and score_multiplier.txt" in scores.error


def test_samples_come_first_and_give_no_points_unless_they_are_in_a_subtask():
    manifest = problem(Subtask(name="all", points=50, tests=["secret/0"]))
    assert standing(manifest, {}).missing == ["sample/1", "secret/0"]
    result = standing(manifest, {"sample/1": Judged(WA), "secret/0": Judged(AC)})
    assert (result.verdict, result.failed, result.score) == (WA, "sample/1", 50)
