"""From tests to the submission: the first failing test, the groups of 2025-09, the legacy default grader."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from judge.model.messages import Verdict
from judge.model.problem import (
    IoiTask,
    LegacyGroup,
    ProblemManifest,
    ProblemType,
    Subtask,
    TestGroup,
)
from judge.problems.reading.groups import shared
from judge.problems.scoring import Judged, standing
from tests.support.packages import manifest_of

AC, WA, TLE, RTE, JE = (
    Judged(Verdict.AC),
    Judged(Verdict.WA),
    Judged(Verdict.TLE),
    Judged(Verdict.RTE),
    Judged(Verdict.JE),
)


# --- pass-fail ---------------------------------------------------------------------------------------------------

NAMES = ["sample/1", "secret/1", "secret/2", "secret/a/1"]
RESULTS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([AC, WA, TLE, RTE, JE]))


@given(RESULTS)
def test_the_first_failing_test_decides_whatever_else_was_run(results):
    result = standing(NAMES, results)
    assert result == standing(manifest_of(*NAMES), results)
    first = next((name for name in NAMES if name in results and results[name] is not AC), None)
    before = NAMES[: NAMES.index(first)] if first else NAMES
    assert result.missing == [name for name in before if name not in results]
    assert result.failed == first
    assert result.verdict == (results[first].verdict if first else Verdict.AC)


def test_a_problem_without_tests_is_accepted():
    assert standing([], {}).verdict is Verdict.AC


# --- 2025-09 -----------------------------------------------------------------------------------------------------

SCORED = manifest_of(
    "sample/1", "secret/a/1", "secret/a/2", "secret/b/1", "secret/b/2", "secret/c/1", "secret/c/2",
    type=[ProblemType.SCORING],
    groups=[
        TestGroup(name="secret", max_score=100, aggregation="sum"),
        TestGroup(name="secret/a", max_score=20, aggregation="pass-fail", require_pass=["sample"]),
        TestGroup(name="secret/b", max_score=30, aggregation="sum", require_pass=["secret/a"]),
        TestGroup(name="secret/c", max_score=50, aggregation="min"),
    ],
)  # fmt: skip
ALL = [test.name for test in SCORED.tests]
GOOD = dict.fromkeys(ALL, AC)


@pytest.mark.parametrize(
    ("changes", "score", "verdict", "failed"),
    [
        ({}, 100, "AC", None),
        ({"secret/a/2": WA}, 50, "WA", "secret/a/2"),  # a gives nothing, b is not run
        ({"sample/1": RTE}, 50, "RTE", "sample/1"),  # neither is a, and so b
        ({"secret/b/1": TLE}, 85, "TLE", "secret/b/1"),
        ({"secret/b/2": Judged(Verdict.AC, multiplier=0.5)}, 92.5, "AC", None),
        ({"secret/b/2": Judged(Verdict.AC, score=3)}, 88, "AC", None),
        ({"secret/c/1": Judged(Verdict.AC, score=10)}, 60, "AC", None),
        ({"secret/c/2": WA, "secret/b/2": TLE}, 35, "TLE", "secret/b/2"),
        ({"sample/1": Judged(Verdict.AC, score=7)}, 100, "AC", None),  # ignored in samples
    ],
)  # fmt: skip
def test_groups(changes, score, verdict, failed):
    result = standing(SCORED, {**GOOD, **changes})
    assert (result.score, result.verdict, result.failed, result.missing) == (score, verdict, failed, [])
    assert [group.name for group in result.groups][-1] == "secret"
    assert result.groups[-1].score == score


@pytest.mark.parametrize("rule", ["sum", "min"])
@pytest.mark.parametrize(
    ("changes", "score"),
    [
        ({"secret/a/2": Judged(Verdict.AC, multiplier=0.5)}, {"sum": 95, "min": 90}),
        ({"secret/a/2": WA}, {"sum": 60, "min": 50}),
    ],
)
def test_a_required_group_passes_with_a_part_of_its_points(changes, score, rule):
    groups = [
        group.model_copy(update={"aggregation": rule}) if group.name == "secret/a" else group for group in SCORED.groups
    ]
    assert standing(SCORED.model_copy(update={"groups": groups}), {**GOOD, **changes}).score == score[rule]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"secret/a/1": JE}, "secret/a/1: the judge's error"),
        ({"secret/a/1": Judged(Verdict.AC, score=1)}, "aggregation pass-fail"),
        ({"secret/b/1": Judged(Verdict.WA, score=1)}, "rejects the output and gives it a score"),
        ({"secret/b/1": Judged(Verdict.AC, score=1, multiplier=1)}, "both score.txt and"),
        ({"secret/b/1": Judged(Verdict.AC, score=16)}, "gives 16 where 15 is the maximum"),
    ],
)
def test_the_problems_own_faults(changes, words):
    result = standing(SCORED, {**GOOD, **changes})
    assert (result.verdict, result.score, result.missing) == (Verdict.JE, None, [])
    assert words in result.error


def test_an_unbounded_group_needs_scores():
    problem = manifest_of("secret/1", type=[ProblemType.SCORING], groups=[TestGroup(name="secret", aggregation="sum")])
    assert standing(problem, {"secret/1": Judged(Verdict.AC, score=1234.5)}).score == 1234.5
    assert "unbounded" in standing(problem, {"secret/1": AC}).error


def test_secret_passes_as_a_whole_or_not():
    groups = [TestGroup(name="secret", max_score=10, aggregation="pass-fail"), TestGroup(name="secret/a", max_score=1)]
    problem = manifest_of("secret/a/1", "secret/a/2", type=[ProblemType.SCORING], groups=groups)
    assert standing(problem, {"secret/a/1": AC, "secret/a/2": AC}).score == 10
    assert standing(problem, {"secret/a/1": AC, "secret/a/2": WA}).score == 0
    assert standing(problem, {"secret/a/1": WA}).missing == [], "nothing more can change it"


def test_the_sum_must_not_pass_the_maximum():
    groups = [TestGroup(name="secret", max_score=10, aggregation="sum"), TestGroup(name="secret/a", max_score=11)]
    problem = manifest_of("secret/a/1", type=[ProblemType.SCORING], groups=groups)
    assert "above the group's max_score" in standing(problem, {"secret/a/1": AC}).error


def test_a_group_ends_where_its_score_is_decided():
    assert standing(SCORED, {**GOOD, "secret/c/1": WA}).used_tests == ALL[:-1]
    assert standing(SCORED, {"sample/1": WA}).missing == ["secret/c/1", "secret/c/2"]


@given(st.dictionaries(st.sampled_from(ALL), st.sampled_from([AC, WA, TLE, RTE])))
def test_running_missing_tests_comes_to_the_full_result(results):
    """Running what is missing, in any way, comes to the end that running everything comes to."""
    everything = {name: results.get(name, WA) for name in ALL}
    judged: dict[str, Judged] = {}
    while missing := standing(SCORED, judged).missing:
        judged[missing[-1]] = everything[missing[-1]]
    first, every = standing(SCORED, judged), standing(SCORED, everything)
    assert (first.verdict, first.failed, first.score, first.groups) == (
        every.verdict, every.failed, every.score, every.groups,
    )  # fmt: skip
    assert 0 <= (first.score or 0) <= 100


# --- legacy ------------------------------------------------------------------------------------------------------

LEGACY = manifest_of(
    "sample/1", "secret/g1/1", "secret/g1/2", "secret/g2/1",
    type=[ProblemType.SCORING],
    graders=[
        LegacyGroup(name="", on_reject="continue", ignore_sample=True, low=0, high=100),
        LegacyGroup(name="sample", accept_score=0),
        LegacyGroup(name="secret", on_reject="continue", verdict="first_error", accept_if_any=True),
        LegacyGroup(name="secret/g1", accept_score=40, score="min", low=0, high=40),
        LegacyGroup(name="secret/g2", accept_score=60, score="min", low=0, high=60),
    ],
)  # fmt: skip
LEGACY_GOOD = {test.name: AC for test in LEGACY.tests}


@pytest.mark.parametrize(
    ("changes", "verdict", "score", "failed"),
    [
        ({}, "AC", 100, None),
        ({"secret/g1/2": WA}, "AC", 60, None),
        ({"sample/1": WA}, "AC", 100, None),
        ({"secret/g1/1": TLE, "secret/g2/1": WA}, "TLE", 0, "secret/g1/1"),
        ({"secret/g1/2": Judged(Verdict.AC, score=10)}, "AC", 70, None),
    ],
)
def test_the_legacy_grader(changes, verdict, score, failed):
    result = standing(LEGACY, {**LEGACY_GOOD, **changes})
    assert (result.verdict, result.score, result.failed, result.missing) == (verdict, score, failed, [])


def test_legacy_ranges_are_kept():
    result = standing(LEGACY, {**LEGACY_GOOD, "secret/g2/1": Judged(Verdict.AC, score=61)})
    assert result.verdict is Verdict.JE
    assert "secret/g2: the score 61 is outside the group's range 0 60" in result.error


@pytest.mark.parametrize(
    ("grader", "results", "verdict", "score"),
    [
        ({"score": "sum"}, [AC, AC], "AC", 2),
        ({"score": "avg"}, [AC, Judged(Verdict.AC, score=2)], "AC", 1.5),
        ({"score": "max"}, [AC, Judged(Verdict.AC, score=3)], "AC", 3),
        ({"score": "min"}, [AC, Judged(Verdict.AC, score=3)], "AC", 1),
        ({"on_reject": "continue"}, [WA, TLE], "TLE", 0),  # the worst error
        ({"on_reject": "continue", "verdict": "first_error"}, [WA, TLE], "WA", 0),
        ({"on_reject": "break"}, [WA, TLE], "WA", 0),
        ({"on_reject": "continue", "verdict": "always_accept"}, [WA, AC], "AC", 1),
        ({"on_reject": "continue", "accept_if_any": True}, [WA, AC], "AC", 1),
        ({"on_reject": "continue", "accept_if_any": True}, [WA, RTE], "RTE", 0),
        ({"on_reject": "continue", "reject_score": -5}, [WA, AC], "WA", -5),
    ],
)
def test_modes_of_the_legacy_grader(grader, results, verdict, score):
    problem = manifest_of(
        "secret/1", "secret/2", type=[ProblemType.SCORING],
        graders=[LegacyGroup(name=""), LegacyGroup(name="secret", **grader)],
    )  # fmt: skip
    result = standing(problem, dict(zip(["secret/1", "secret/2"], results, strict=True)))
    assert result.groups[0].name == "secret"
    assert (result.groups[0].verdict, result.groups[0].score) == (verdict, score)


def test_folders_inherit_the_closest_settings():
    problem = manifest_of("secret/a/b/1", type=[ProblemType.SCORING], graders=[LegacyGroup(name="", accept_score=7)])
    assert standing(problem, {"secret/a/b/1": AC}).score == 7


def test_legacy_stops_where_on_reject_says():
    assert standing(LEGACY, {"sample/1": AC, "secret/g1/1": WA}).missing == ["secret/g2/1"]
    strict = LEGACY.model_copy(update={"graders": [LegacyGroup(name="")]})
    assert standing(strict, {"sample/1": WA}).missing == []


# --- sums of many tests ------------------------------------------------------------------------------------------

POINTS = st.one_of(
    st.integers(1, 10**9).map(float), st.decimals(min_value="0.01", max_value="1e9", places=2).map(float)
)


def of_many(count: int, **fields: object) -> ProblemManifest:
    return manifest_of(*(f"secret/{number}" for number in range(count)), type=[ProblemType.SCORING], **fields)


def current(count: int, maximum: float, groups: int) -> ProblemManifest:
    """`count` tests in each of several groups of `secret`, which share its points; or no groups."""
    if not groups:
        return of_many(count, groups=[TestGroup(name="secret", max_score=maximum, aggregation="sum")])
    silent = [TestGroup(name=f"secret/{number}", aggregation="sum") for number in range(groups)]
    secret = TestGroup(name="secret", max_score=maximum, aggregation="sum")
    names = [f"secret/{group}/{number}" for group in range(groups) for number in range(count)]
    return manifest_of(*names, type=[ProblemType.SCORING], groups=shared([secret, *silent], lambda name: name))


def legacy(count: int, maximum: float) -> ProblemManifest:
    root = LegacyGroup(
        name="", accept_score=maximum / count, low=0, high=maximum, on_reject="continue", verdict="first_error"
    )
    return of_many(count, graders=[root])


@settings(max_examples=60, deadline=None)
@example(49, 1e6, 0)
@example(18, 1e7, 0)
@example(7, 1e9, 0)
@example(1999, 1e9, 0)
@given(st.integers(1, 2000), POINTS, st.integers(0, 20))
def test_right_submissions_have_the_maximum_whatever_it_is_and_however_many_tests_share_it(count, maximum, groups):
    for problem in (current(max(1, count // max(1, groups)), maximum, groups), legacy(count, maximum)):
        results = {test.name: AC for test in problem.tests}
        result = standing(problem, results)
        assert (result.verdict, result.error, result.score) == (Verdict.AC, "", maximum)
        assert all(group.score == group.max_score for group in result.groups)


@settings(max_examples=60, deadline=None)
@example(49, 1e6)
@given(st.integers(1, 300), POINTS)
def test_validators_may_give_every_test_its_maximum_as_they_compute_it(count, maximum):
    problem = current(count, maximum, 0)
    results = {test.name: Judged(Verdict.AC, score=maximum / count) for test in problem.tests}
    result = standing(problem, results)
    assert (result.verdict, result.error, result.score) == (Verdict.AC, "", maximum)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), POINTS, st.data())
def test_one_more_test_that_passes_never_costs_points(count, maximum, data):
    problem = current(count, maximum, 0)
    passed = data.draw(st.integers(0, count - 1))
    names = [test.name for test in problem.tests]
    scores = [
        standing(problem, {name: AC if index < limit else WA for index, name in enumerate(names)}).score
        for limit in (passed, passed + 1)
    ]
    assert scores[0] <= scores[1] <= maximum


@pytest.mark.parametrize(
    ("maximum", "score"), [(1_000_000, 1_000_000.5), (1e6, 1e6 + 1e-6), (100, 100.0000001), (1e9, 1e9 + 1)]
)
def test_a_score_above_the_maximum_is_named_so_that_it_differs_from_it(maximum, score):
    problem = of_many(1, groups=[TestGroup(name="secret", max_score=maximum, aggregation="sum")])
    result = standing(problem, {"secret/0": Judged(Verdict.AC, score=score)})
    assert result.verdict is Verdict.JE
    numbers = re.findall(r"[0-9.e+]*[0-9]", result.error.partition(": ")[2])
    assert len(set(numbers)) == len(numbers) == 2
    ranged = of_many(1, graders=[LegacyGroup(name="", low=0, high=maximum)])
    result = standing(ranged, {"secret/0": Judged(Verdict.AC, score=score)})
    assert result.verdict is Verdict.JE
    numbers = re.findall(r"[0-9.e+]*[0-9]", result.error.partition(": ")[2])
    assert len(set(numbers)) == len(numbers) == 3


@pytest.mark.parametrize("rule", ["sum", "min", "mul"])
@pytest.mark.parametrize(("count", "points"), [(49, 1e6), (7, 1e9), (3, 33.33), (3, 0.1)])
def test_subtasks_add_up_to_their_points(rule, count, points):
    share = points / count
    problem = of_many(count)
    subtasks = [Subtask(name=f"{n}", rule=rule, points=share, tests=[f"secret/{n}"]) for n in range(count)]
    problem = problem.model_copy(update={"task": IoiTask(subtasks=subtasks)})
    result = standing(problem, {test.name: AC for test in problem.tests})
    assert result.score == pytest.approx(points, rel=1e-15, abs=1e-9)
    assert all(group.score == group.max_score for group in result.groups)
