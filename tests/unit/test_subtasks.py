"""Subtasks of IOI tasks: their rules, against the plain definitions, and what is still to be run."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.model.messages import Verdict
from judge.model.problem import IoiTask, ProblemManifest, ProblemTest, ProblemType, Subtask
from judge.problems.scoring import Judged, standing

SHA = "0" * 64
NAMES = ["sample/1", *(f"secret/{number}" for number in range(5))]
AC, WA = Verdict.AC, Verdict.WA


def problem(*subtasks: Subtask) -> ProblemManifest:
    tests = [ProblemTest(name=name, input=SHA, answer=SHA, sample=name.startswith("sample")) for name in NAMES]
    task = IoiTask(subtasks=list(subtasks))
    return ProblemManifest(name="x", type=[ProblemType.SCORING], tests=tests, task=task)


def worth(value: float) -> Judged:
    return Judged(AC, multiplier=value) if value > 0 else Judged(WA)


OUTCOMES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=6, max_size=6)
MEMBERS = st.lists(st.sampled_from(NAMES), min_size=1, unique=True)


@given(OUTCOMES, st.lists(st.tuples(st.sampled_from(["sum", "min", "mul"]), MEMBERS), min_size=1, max_size=4))
def test_the_score_is_what_the_rules_say(outcomes, groups):
    subtasks = [
        Subtask(name=str(number), points=10 + number, rule=rule, tests=tests)
        for number, (rule, tests) in enumerate(groups)
    ]
    rules = {"sum": lambda found: sum(found) / len(found), "min": min, "mul": math.prod}
    wanted = sum(one.points * rules[one.rule]([outcomes[name] for name in one.tests]) for one in subtasks)
    found = standing(problem(*subtasks), {name: worth(value) for name, value in outcomes.items()})
    assert found.score == pytest.approx(wanted)
    assert not found.missing and not found.error
    assert [group.max_score for group in found.groups] == [one.points for one in subtasks]


@given(OUTCOMES, st.lists(st.tuples(st.sampled_from(["sum", "min", "mul"]), MEMBERS), min_size=1, max_size=4))
def test_tests_that_are_not_missing_change_nothing(outcomes, groups):
    subtasks = [Subtask(name=str(n), points=10, rule=rule, tests=tests) for n, (rule, tests) in enumerate(groups)]
    manifest = problem(*subtasks)
    known: dict[str, Judged] = {}
    while missing := standing(manifest, known).missing:
        assert len(set(missing)) == len(missing)
        known[missing[0]] = worth(outcomes[missing[0]])
    whole = standing(manifest, {name: worth(value) for name, value in outcomes.items()})
    lazy = standing(manifest, known)
    assert (lazy.score, lazy.verdict, lazy.failed) == (whole.score, whole.verdict, whole.failed)


@pytest.mark.parametrize(
    ("outcomes", "score"), [((1, 12), 50), ((13, 12), 0), ((12, 12.5), 0), ((0, 1), 0), ((0.5, 0.5), 50)]
)
def test_a_threshold_takes_outcomes_up_to_it(outcomes, score):
    subtask = Subtask(name="few", points=50, rule="threshold", threshold=12, tests=["secret/0", "secret/1"])
    given_ = {
        f"secret/{number}": Judged(AC, score=value) if value else Judged(WA) for number, value in enumerate(outcomes)
    }
    found = standing(problem(subtask), {"sample/1": Judged(AC), **given_})
    assert (found.score, found.error) == (score, "")


def test_an_outcome_that_a_rule_cannot_take_is_the_problems_fault():
    subtask = Subtask(name="all", points=50, tests=["secret/0"])
    found = standing(problem(subtask), {"sample/1": Judged(AC), "secret/0": Judged(AC, score=3)})
    assert found.verdict is Verdict.JE
    assert found.error == "secret/0: the outcome 3 is not from 0 to 1, as subtask 'all' needs it"
    both = standing(problem(subtask), {"sample/1": Judged(AC), "secret/0": Judged(AC, score=1, multiplier=1)})
    assert "both score.txt and score_multiplier.txt" in both.error


def test_samples_come_first_and_give_no_points_unless_they_are_in_a_subtask():
    manifest = problem(Subtask(name="all", points=50, tests=["secret/0"]))
    assert standing(manifest, {}).missing == ["sample/1", "secret/0"]
    found = standing(manifest, {"sample/1": Judged(WA), "secret/0": Judged(AC)})
    assert (found.verdict, found.failed, found.score) == (WA, "sample/1", 50)
