"""Static validation test cases, the package's own graders, and the two readings of legacy scores."""

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common.errors import PackageError
from judge.executor.slot.parallel.schedule import Schedule
from judge.model.messages import Verdict
from judge.model.problem import (
    LegacyGroup,
    ProblemManifest,
    ProblemProgram,
    ProblemType,
    StaticTest,
    TestGroup,
)
from judge.problems.reading.formats import later_input_is_next
from judge.problems.scoring import Judged, judging_order, standing
from tests.support.packages import SHA, manifest_of

AC, WA, TLE = Judged(Verdict.AC), Judged(Verdict.WA), Judged(Verdict.TLE)
SCORING = [ProblemType.SCORING]


# --- static validation -------------------------------------------------------------------------------------------

NAMES = ("sample/1", "secret/a/1", "secret/a/2", "secret/b/1")


def test_a_static_test_comes_first_in_its_group():
    statics = [StaticTest(group=group) for group in ("sample", "secret", "secret/b", "secret/c")]
    assert judging_order(manifest_of(*NAMES, static_tests=statics)) == [
        *("sample/(static)", "sample/1", "secret/(static)", "secret/a/1", "secret/a/2", "secret/b/(static)"),
        *("secret/b/1", "secret/c/(static)"),
    ]


def test_a_static_test_of_a_sample_less_problem_comes_first():
    order = judging_order(manifest_of("secret/1", static_tests=[StaticTest(group="sample")]))
    assert order == ["sample/(static)", "secret/1"]


def test_in_a_pass_fail_problem_it_decides_like_any_other():
    problem = manifest_of(*NAMES, static_tests=[StaticTest(group="secret")])
    results = dict.fromkeys(judging_order(problem), AC)
    assert standing(problem, results).verdict is Verdict.AC
    result = standing(problem, {**results, "secret/(static)": WA})
    assert (result.verdict, result.failed, result.used_tests) == (
        Verdict.WA, "secret/(static)", ["sample/1", "secret/(static)"],
    )  # fmt: skip


def scored(aggregation: str = "sum", score: float | None = 10, *, own: str = "secret/a") -> ProblemManifest:
    return manifest_of(
        *NAMES,
        type=SCORING,
        groups=[
            TestGroup(name="secret", max_score=100, aggregation="sum"),
            TestGroup(name="secret/a", max_score=40, aggregation=aggregation),
            TestGroup(name="secret/b", max_score=50, aggregation="pass-fail"),
        ],
        static_tests=[StaticTest(group=own, score=score)],
    )


@pytest.mark.parametrize(
    ("problem", "changes", "total", "group"),
    [
        (scored(), {}, 90, 40),
        (scored(), {"secret/a/1": WA}, 75, 25),  # 10 of the static test, (40 - 10) / 2 of the other one
        (scored(), {"secret/a/(static)": WA}, 80, 30),
        (scored(), {"secret/a/(static)": Judged(Verdict.AC, score=3)}, 83, 33),
        (scored(), {"secret/a/(static)": Judged(Verdict.AC, multiplier=0.5)}, 85, 35),
        (scored("min"), {}, 60, 10),
        (scored("min"), {"secret/a/(static)": Judged(Verdict.AC, score=4)}, 54, 4),
        (scored("pass-fail", None), {}, 90, 40),
        (scored("pass-fail", None), {"secret/a/(static)": WA}, 50, 0),
        (scored(own="secret"), {}, 100, 40),
        (scored(own="secret"), {"secret/(static)": WA}, 90, 40),
    ],
)
def test_scores_with_a_static_test(problem, changes, total, group):
    result = standing(problem, {**dict.fromkeys(judging_order(problem), AC), **changes})
    assert (result.error, result.missing) == ("", [])
    assert (result.score, next(group.score for group in result.groups if group.name == "secret/a")) == (total, group)


def test_a_static_score_above_its_maximum_is_the_problems_fault():
    problem = scored()
    results = {**dict.fromkeys(judging_order(problem), AC), "secret/a/(static)": Judged(Verdict.AC, score=11)}
    result = standing(problem, results)
    assert result.verdict is Verdict.JE
    assert "gives 11 where 10 is the maximum" in result.error


# --- the package's own grader ------------------------------------------------------------------------------------

GRADER = ProblemProgram(name="grader", language="python3", main="grade.py", files={"grade.py": SHA})
GRADED = manifest_of(
    "sample/1", "secret/a/1", "secret/a/2", "secret/b/1",
    type=SCORING,
    grader=GRADER,
    graders=[
        LegacyGroup(name="", on_reject="continue", custom=True, flags=["root"]),
        LegacyGroup(name="secret", on_reject="continue", custom=True, flags=["secret"]),
        LegacyGroup(name="secret/a", on_reject="continue", custom=True, flags=["a"], accept_score=5, reject_score=1),
        LegacyGroup(name="secret/b", accept_score=7),
        LegacyGroup(name="sample", accept_score=0),
    ],
)  # fmt: skip


class Asked:
    """Adds scores up and accepts when half of the results are accepted; notes what it was asked."""

    def __init__(self) -> None:
        self.questions: list[tuple[str, list[tuple[str, float]]]] = []

    def __call__(self, group: LegacyGroup, results: Sequence[tuple[Verdict, float]]) -> tuple[Verdict, float]:
        self.questions.append((group.flags[0], [(str(verdict), score) for verdict, score in results]))
        good = sum(verdict is Verdict.AC for verdict, _ in results)
        return (Verdict.AC if 2 * good >= len(results) else Verdict.WA), sum(score for _, score in results)


def test_a_grader_is_asked_folder_by_folder_from_below():
    grader = Asked()
    results = {**dict.fromkeys(judging_order(GRADED), AC), "secret/a/2": TLE, "secret/b/1": Judged(Verdict.AC, 9)}
    result = standing(GRADED, results, grader)
    assert grader.questions == [
        ("a", [("AC", 5), ("TLE", 1)]), ("secret", [("AC", 6), ("AC", 9)]), ("root", [("AC", 0), ("AC", 15)]),
    ]  # fmt: skip
    assert (result.verdict, result.score, result.failed) == (Verdict.AC, 15, None)


def test_a_grader_is_asked_only_when_all_is_there():
    grader = Asked()
    assert standing(GRADED, {"sample/1": AC, "secret/a/1": AC}, grader).missing == ["secret/a/2", "secret/b/1"]
    assert grader.questions == []


def test_a_rejection_by_the_grader_names_the_test():
    result = standing(
        GRADED, {**dict.fromkeys(judging_order(GRADED), WA), "sample/1": AC}, lambda *_: (Verdict.WA, 3.0)
    )
    assert (result.verdict, result.failed, result.score) == (Verdict.WA, "secret/a/1", 0)


@pytest.mark.parametrize("error", [PackageError("said 'x'"), None])
def test_a_grader_that_fails_is_the_judges_error(error):
    def grade(*_: object) -> tuple[Verdict, float]:
        if error is not None:
            raise error
        return Verdict.JE, 0.0

    result = standing(GRADED, dict.fromkeys(judging_order(GRADED), AC), grade)
    assert (result.verdict, result.missing) == (Verdict.JE, [])
    assert result.error.startswith("secret/a: ")


def test_without_its_grader_a_problem_has_no_verdict():
    assert standing(GRADED, dict.fromkeys(judging_order(GRADED), AC)).verdict is Verdict.JE


@given(st.lists(st.sampled_from([AC, WA, TLE]), min_size=4, max_size=4), st.booleans())
def test_lazy_and_full_judging_ask_a_grader_to_the_same_end(verdicts, strict):
    graders = [group.model_copy(update={"on_reject": "break"}) if strict else group for group in GRADED.graders]
    problem = GRADED.model_copy(update={"graders": graders})
    names = judging_order(problem)
    everything = dict(zip(names, verdicts, strict=True))
    ends = []
    for full in (False, True):
        schedule = Schedule(problem, names, full=full, grade=Asked())
        while not schedule.over:
            schedule.note(schedule.first, everything[schedule.first])
            schedule.count(everything[schedule.first])
        ends.append(schedule.stand)
    assert ends[0] == ends[1] == standing(problem, everything, Asked())


# --- dialects ----------------------------------------------------------------------------------------------------

LEGACY = ["sample/1", "secret/a/1", "secret/a/2", "secret/b/1"]


def read(dialect: str, *graders: LegacyGroup) -> ProblemManifest:
    return manifest_of(*LEGACY, type=SCORING, graders=list(graders), dialect=dialect)


def groups(*, sample: bool, root: dict[str, object] | None = None) -> list[LegacyGroup]:
    graders = [
        LegacyGroup(name="", on_reject="continue", **(root or {})),
        LegacyGroup(name="secret", on_reject="continue"),
        LegacyGroup(name="secret/a", accept_score=30, own_score=True),
        LegacyGroup(name="secret/b", accept_score=70, own_score=True),
    ]
    return [*graders, LegacyGroup(name="sample", accept_score=5, own_score=True)] if sample else graders


@pytest.mark.parametrize(
    ("dialect", "sample", "root", "changes", "score"),
    [
        ("kattis", True, {}, {}, 5 + 30 + 30 + 70),
        ("domjudge", True, {}, {}, 5 + 30 + 70),
        ("domjudge", False, {}, {}, 100),  # samples have no settings: they are in no group
        ("kattis", True, {"ignore_sample": True}, {}, 130),
        ("domjudge", True, {"ignore_sample": True}, {}, 100),
        ("domjudge", False, {}, {"secret/a/2": WA}, 70),
        ("domjudge", False, {}, {"sample/1": WA}, 100),
        ("domjudge", True, {}, {"sample/1": WA}, 100),
        ("kattis", True, {"accept_if_any": True}, {"secret/a/2": WA, "secret/b/1": WA}, 5 + 30),
    ],
)
def test_a_group_has_its_own_score_or_that_of_its_tests(dialect, sample, root, changes, score):
    problem = read(dialect, *groups(sample=sample, root=root))
    result = standing(problem, {**dict.fromkeys(LEGACY, AC), **changes})
    assert (result.score, result.error, result.missing) == (score, "", [])


def test_domjudge_has_the_first_failing_test_of_its_groups():
    problem = read("domjudge", *groups(sample=False))
    result = standing(problem, {**dict.fromkeys(LEGACY, AC), "sample/1": TLE, "secret/b/1": WA})
    assert (result.verdict, result.failed, result.score) == (Verdict.WA, "secret/b/1", 30)


def test_nothing_is_accepted_where_no_test_counts():
    """Tests in folders that are no groups; also where a package was stored by an earlier release."""
    result = standing(read("domjudge", LegacyGroup(name="")), {})
    assert (result.verdict, result.score, result.missing) == (Verdict.JE, None, [])
    assert "by its groups no test counts" in result.error


def test_domjudge_adds_the_validators_scores_where_a_group_has_none():
    bare = [LegacyGroup(name=name, on_reject="continue") for name in ("", "secret", "secret/a", "secret/b")]
    problem = read("domjudge", *bare)
    given_scores = {name: Judged(Verdict.AC, score=2.5) for name in LEGACY}
    assert standing(problem, given_scores).score == 7.5
    assert standing(problem, dict.fromkeys(LEGACY, AC)).score == 0
    assert standing(problem, {**given_scores, "secret/a/1": WA}).score == 5


def test_domjudge_stops_a_group_where_its_score_is_decided():
    problem = read("domjudge", *groups(sample=False))
    assert standing(problem, {"secret/a/1": WA}).missing == ["secret/b/1"]
    strict = read("domjudge", *[group.model_copy(update={"on_reject": "break"}) for group in groups(sample=False)])
    assert standing(strict, {"secret/a/1": WA}).missing == []


def test_a_rejected_folder_of_kattis_keeps_its_score():
    """As its default grader: a folder's score is that of what is in it, whatever its verdict."""
    graders = [
        LegacyGroup(name="", on_reject="continue", verdict="always_accept"),
        LegacyGroup(name="secret", on_reject="continue", accept_score=10, reject_score=2),
    ]
    results = {**dict.fromkeys(LEGACY, AC), "secret/a/2": WA}
    assert standing(read("kattis", *graders), results).score == 1 + 10 + 2 + 10
    assert standing(read("", *graders), results).score == 1 + 2


@given(
    st.dictionaries(st.sampled_from(LEGACY), st.sampled_from([AC, WA, TLE, Judged(Verdict.AC, score=1.5)])),
    st.sampled_from(["kattis", "domjudge"]),
    *(st.booleans(), st.booleans()),
    st.sampled_from(["sum", "min", "max", "avg"]),
)
def test_lazy_judging_comes_to_the_same_end(results, dialect, sample, own, mode):
    graders = [
        group.model_copy(update={"score": mode, "own_score": own and group.own_score})
        for group in groups(sample=sample)
    ]
    problem = read(dialect, *graders)
    everything = {name: results.get(name, WA) for name in LEGACY}
    judged: dict[str, Judged] = {}
    while missing := standing(problem, judged).missing:
        judged[missing[-1]] = everything[missing[-1]]
    lazy, full = standing(problem, judged), standing(problem, everything)
    assert (lazy.verdict, lazy.score, lazy.groups, lazy.failed) == (full.verdict, full.score, full.groups, full.failed)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, False),
        ({"format": "legacy"}, False),
        ({"format": "legacy", "dialect": "kattis"}, False),
        ({"format": "legacy", "dialect": "domjudge"}, True),
        ({"format": "2023-07-draft"}, True),
        ({"format": "2025-09"}, True),
        ({"format": "2025-09", "dialect": "kattis"}, False),
    ],
)
def test_the_input_of_a_later_pass(fields, expected):
    assert later_input_is_next(manifest_of("secret/1", **fields)) is expected


# --- extremes ----------------------------------------------------------------------------------------------------


def test_scores_too_large_to_be_added_are_the_judges_error() -> None:
    """Some validators copy a score out of the submission's output."""
    huge = Judged(Verdict.AC, score=1e308)
    groups = [TestGroup(name="secret", aggregation="sum")]
    judged = standing(
        manifest_of("secret/1", "secret/2", type=SCORING, groups=groups), {"secret/1": huge, "secret/2": huge}
    )
    assert (judged.verdict, judged.error) == (Verdict.JE, "the scores are too large to be added")


def test_a_plan_takes_linear_time_in_the_number_of_groups() -> None:
    """It is made again after each failing test."""

    def seconds(count: int) -> float:
        names = [f"secret/{number}/1" for number in range(count)]
        groups = [TestGroup(name=f"secret/{number}", aggregation="sum", max_score=1.0) for number in range(count)]
        problem = manifest_of(*names, type=SCORING, groups=groups)
        results = dict.fromkeys(names, WA)
        times = []
        for _ in range(3):
            begin = time.process_time()
            standing(problem, results)
            times.append(time.process_time() - begin)
        return min(times)

    assert seconds(2000) < 40 * seconds(200), "a square would be 100 times as much"


def test_a_skipped_group_has_one_score() -> None:
    groups = [TestGroup(name="secret", aggregation="sum", max_score=100.0, require_pass=["sample"])]
    problem = manifest_of("sample/1", "secret/1", type=SCORING, groups=groups)
    judged = standing(problem, {"sample/1": WA, "secret/1": AC})
    assert [(group.name, group.verdict) for group in judged.groups] == [("secret", "skipped")]
