"""Tests that are run side by side come to what serial judging comes to, whatever the order of their ends."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.executor.slot.parallel.schedule import Schedule
from judge.model.messages import Verdict
from judge.model.problem import LegacyGroup, ProblemManifest, ProblemTest, ProblemType, TestGroup
from judge.problems.scoring import Judged, Standing, standing
from tests.support.examples import at_least

SHA = "0" * 64
NAMES = ["sample/1", "secret/a/1", "secret/a/2", "secret/b/1", "secret/b/2", "secret/c/1", "secret/c/2"]


def manifest(**fields: object) -> ProblemManifest:
    tests = [ProblemTest(name=name, input=SHA, answer=SHA, sample=name.startswith("sample")) for name in NAMES]
    return ProblemManifest(name="p", tests=tests, **fields)


def groups(*aggregations: str, require: bool) -> list[TestGroup]:
    first, second, third = aggregations
    return [
        TestGroup(name="secret", max_score=100, aggregation="sum"),
        TestGroup(name="secret/a", max_score=20, aggregation=first, require_pass=["sample"] if require else []),
        TestGroup(name="secret/b", max_score=30, aggregation=second, require_pass=["secret/a"] if require else []),
        TestGroup(name="secret/c", max_score=50, aggregation=third),
    ]


AGGREGATION = st.sampled_from(["sum", "min", "pass-fail"])
PROBLEMS = st.one_of(
    st.none(),
    st.just(manifest()),
    st.builds(
        lambda first, second, third, require: manifest(
            type=[ProblemType.SCORING], groups=groups(first, second, third, require=require)
        ),
        *(AGGREGATION, AGGREGATION, AGGREGATION, st.booleans()),
    ),
    st.builds(
        lambda verdict, score, reject, scoring, sample, accept_any: manifest(
            type=[ProblemType.SCORING if scoring else ProblemType.PASS_FAIL],
            graders=[
                LegacyGroup(
                    name="",
                    verdict=verdict,
                    score=score,
                    on_reject=reject,
                    ignore_sample=sample,
                    accept_if_any=accept_any,
                )
            ],
        ),
        st.sampled_from(["worst_error", "first_error", "always_accept"]),
        st.sampled_from(["sum", "avg", "min", "max"]),
        st.sampled_from(["break", "continue"]),
        *(st.booleans(), st.booleans(), st.booleans()),
    ),
)
ONE = st.one_of(
    st.just(Judged(Verdict.AC)),
    st.builds(
        Judged,
        st.sampled_from([first for first in Verdict if first is not Verdict.CE]),
        st.one_of(st.none(), st.floats(0, 60)),
    ),
)
RESULTS = st.lists(ONE, min_size=len(NAMES), max_size=len(NAMES))


def serial(
    problem: ProblemManifest | None, results: dict[str, Judged], *, full: bool
) -> tuple[Standing, dict[str, Judged]]:
    """How one slot judges alone: run what is missing in order, look again after each failure."""
    judged: dict[str, Judged] = {}
    while True:
        stand = standing(problem or NAMES, judged)
        unjudged = [name for name in NAMES if name not in judged] if full and not stand.error else []
        todo = [*stand.missing, *(name for name in unjudged if name not in stand.missing)]
        if not todo:
            return stand, judged
        for name in todo:
            judged[name] = results[name]
            if judged[name].verdict is not Verdict.AC:
                break


def take_in(schedule: Schedule, name: str, judged: Judged) -> list[str]:
    """Note a result, and count what is due; returns what counted."""
    schedule.note(name, judged)
    counted = []
    while (due := schedule.due) is not None:
        counted.append(due)
        schedule.count(schedule._results[due])
    return counted


@settings(max_examples=at_least(400))
@given(PROBLEMS, RESULTS, st.booleans(), st.randoms(use_true_random=False), st.integers(1, 4))
def test_any_order_of_ends_comes_to_the_serial_account(problem, given_results, full, chance, slots):
    results = dict(zip(NAMES, given_results, strict=True))
    expected, judged = serial(problem, results, full=full)
    schedule = Schedule(problem, NAMES, full=full)
    running: list[str] = []
    counted: list[str] = []
    ran: list[str] = []
    while not schedule.over:
        candidates = schedule.candidates()
        assert candidates[0] == schedule.first, "the test that decides next is the most urgent"
        assert not set(candidates) & set(ran), "no test is wanted twice"
        free = [name for name in candidates if name not in running]
        running += free[: slots - len(running)]
        assert running, "there is always something to wait for"
        ended = running.pop(chance.randrange(len(running)))
        ran.append(ended)
        counted += take_in(schedule, ended, results[ended])
    assert (schedule.stand, schedule.counted) == (expected, judged)
    assert list(schedule.counted) == list(judged) == counted, "and in the serial order"
    if slots == 1:
        assert ran == counted, "one slot runs what counts, and nothing else"


@given(PROBLEMS, RESULTS, st.permutations(NAMES), st.booleans())
def test_results_in_any_order_come_to_the_serial_account(problem, given_results, order, full):
    results = dict(zip(NAMES, given_results, strict=True))
    schedule = Schedule(problem, NAMES, full=full)
    for name in order:
        take_in(schedule, name, results[name])
    expected, judged = serial(problem, results, full=full)
    assert (schedule.over, schedule.stand, schedule.counted) == (True, expected, judged)


def schedule_with(
    names: Sequence[str], verdict: Verdict, problem: ProblemManifest | None = None, *, full: bool
) -> Schedule:
    schedule = Schedule(problem, NAMES, full=full)
    for name in names:
        take_in(schedule, name, Judged(verdict))
    return schedule


def test_no_test_after_a_failure_is_a_candidate():
    assert schedule_with(["secret/b/1"], Verdict.WA, full=False).candidates() == NAMES[:3]
    assert schedule_with(["secret/b/1"], Verdict.WA, full=True).candidates() == [*NAMES[:3], *NAMES[4:]]
    scored = manifest(type=[ProblemType.SCORING], groups=groups("sum", "min", "sum", require=False))
    assert schedule_with(["secret/b/1"], Verdict.WA, scored, full=False).candidates() == [*NAMES[:3], *NAMES[5:]]
    assert schedule_with(["secret/b/1"], Verdict.JE, scored, full=False).candidates() == NAMES[:3]


@pytest.mark.parametrize(
    ("problem", "full", "expected"),
    [
        (None, False, True),
        (manifest(), False, True),
        (None, True, False),
        (manifest(type=[ProblemType.SCORING], groups=groups("sum", "sum", "sum", require=False)), False, False),
        (manifest(graders=[LegacyGroup(name="")]), False, False),
    ],
)
def test_problems_that_stop_at_a_failure(problem, full, expected):
    assert Schedule(problem, NAMES, full=full).stops_at_failure is expected


LATE = Judged(Verdict.TLE)


@settings(max_examples=at_least(400))
@given(PROBLEMS, RESULTS, st.integers(1, len(NAMES)), st.booleans())
def test_tests_after_the_end_of_the_time_count_as_too_late(problem, given_results, runs, full):
    """As if every test from there on had run for too long; and the verdict is that of lazy judging."""
    results = dict(zip(NAMES, given_results, strict=True))
    schedule = Schedule(problem, NAMES, full=full)
    while not schedule.over:
        name = schedule.first
        last = len(schedule.counted) + 1 == runs
        schedule.note(name, LATE if last else results[name])
        schedule.count(LATE if last else results[name])
        if last:
            schedule.end()
            break
    counted = dict(schedule.counted)
    assert schedule.over
    assert (schedule.due, schedule.candidates(), schedule.stand.missing) == (None, [], [])
    expected, _ = serial(problem, {name: counted.get(name, LATE) for name in NAMES}, full=False)
    assert (schedule.stand.verdict, schedule.stand.failed, schedule.stand.score, schedule.stand.groups) == (
        *(expected.verdict, expected.failed, expected.score, expected.groups),
    )


@given(PROBLEMS, RESULTS, st.integers(0, len(NAMES) - 1))
def test_a_repeated_test_counts_by_its_repetition(problem, given_results, place):
    results = dict(zip(NAMES, given_results, strict=True))
    near = NAMES[place]
    schedule = Schedule(problem, NAMES, full=False)
    for name in NAMES:
        schedule.note(name, LATE if name == near else results[name])
    while (due := schedule.due) is not None:
        schedule.count(Judged(Verdict.AC) if due == near else results[due])
    expected, judged = serial(problem, results | {near: Judged(Verdict.AC)}, full=False)
    assert (schedule.over, schedule.stand, schedule.counted) == (True, expected, judged)
