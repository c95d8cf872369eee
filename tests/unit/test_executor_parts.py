"""Small parts of an executor: its start, what a submission has used of its allowance, when a slot is nearly free."""

import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common.errors import ConfigError, RefusedError
from judge.common.text import decimal
from judge.config.allowance import UNLIMITED, Allowance
from judge.executor import main
from judge.executor.channel import Job
from judge.executor.slot import duration
from judge.executor.slot.account import Account
from judge.executor.slot.duration import DurationEstimator, kind_of
from judge.model.messages import Assignment, ProblemRef, Submission, Test
from judge.sandbox import CheckedItem, CheckLevel

SECONDS = st.floats(0, 100)


@given(st.lists(SECONDS, max_size=20), st.floats(1, 300), st.booleans())
def test_the_time_is_used_up_exactly_once_the_sum_reaches_it(costs, total, problem):
    account = Account(Allowance(own_seconds=total, problem_seconds=total), problem=problem)
    for count, cost in enumerate(costs, 1):
        account.spend(cost)
        assert account.over is (sum(costs[:count]) >= total - 0.001)
        assert account.remaining == max(0.0, total - account.spent)
    assert f"{decimal(total)} s" in account.sentence


@given(st.lists(st.tuples(SECONDS, SECONDS), max_size=20), st.integers(0, 6), SECONDS)
def test_repetitions_end_with_their_number_and_their_time(wishes, repeats, alone):
    """Nothing is begun that should take longer than there is."""
    account = Account(Allowance(repeats=repeats, alone_seconds=alone), problem=True)
    count, used = 0, 0.0
    for needs, took in wishes:
        refusal = account.refusal(needs)
        assert bool(refusal) is (count >= repeats or needs > max(0.0, alone - used))
        if not refusal:
            account.repeated(took)
            count, used = count + 1, used + took
    assert count <= repeats
    assert account.alone_remaining == max(0.0, alone - used)


@pytest.mark.parametrize(("problem", "name"), [(True, "problem_seconds"), (False, "own_seconds")])
def test_the_sentence_names_the_limit(problem, name):
    account = Account(Allowance(own_seconds=300, problem_seconds=300), problem=problem)
    assert account.sentence == (
        f"total time exceeded: all runs of this submission together may take 300 s ({name}); later tests are not run"
    )
    assert account.repeatable is problem


@given(st.lists(SECONDS))
def test_without_limits_nothing_is_refused(costs):
    account = Account(UNLIMITED, problem=True)
    for cost in costs:
        account.spend(cost)
        account.repeated(cost)
        assert account.refusal(cost) == ""
        assert not account.over


def test_a_weak_sandbox_is_refused_unless_allowed(caplog):
    good = [CheckedItem(CheckLevel.PASS, "kernel", "6"), CheckedItem(CheckLevel.WARN, "swap", "on")]
    assert main.check_sandbox(good, allow_weak=False) is False
    bad = [*good, CheckedItem(CheckLevel.FAIL, "cgroups", "none")]
    with pytest.raises(RefusedError, match="no full sandbox is possible here: cgroups: none"):
        main.check_sandbox(bad, allow_weak=False)
    assert main.check_sandbox(bad, allow_weak=True)
    assert "weak sandbox" in caplog.text


def test_the_work_directory_is_locked(work):
    fd = main.lock_work_dir(work / "new")
    with pytest.raises(RefusedError, match="in use by another executor"):
        main.lock_work_dir(work / "new")
    os.close(fd)
    os.close(main.lock_work_dir(work / "new"))
    with pytest.raises(ConfigError, match="cannot be used"):
        main.lock_work_dir(Path("/proc/nowhere"))


def test_cleaning_touches_only_strays(work):
    for name in ("keep.out", "stray.out", "foreign.txt"):
        (work / name).write_text("x")
    main.clean(work, {"keep"})
    assert sorted(path.name for path in work.iterdir()) == ["foreign.txt", "keep.out"]


DURATIONS = st.lists(st.floats(0.001, 600), min_size=1, max_size=30)


def job(submission: Submission, problem: ProblemRef | None = None) -> Job:
    assignment = Assignment(id="0" * 24, attempt=1, claim="c", submission=submission, problem=problem)
    return Job(assignment=assignment, data=None, blobs={}, language_version="")


@given(DURATIONS)
def test_the_estimate_lies_between_the_durations(durations: list[float]) -> None:
    estimator = DurationEstimator()
    assert estimator.expected("c/1") == math.inf, "nothing is known yet"
    for seconds in durations:
        estimator.record("c/1", seconds)
    assert min(durations) - 1e-9 <= estimator.expected("c/1") <= max(durations) + 1e-9
    assert estimator.expected("cpp/1") == math.inf


def test_a_change_is_learnt_within_a_few_jobs() -> None:
    estimator = DurationEstimator()
    estimator.record("c/1", 0.05)
    estimator.record("c/1", 2.0)
    assert estimator.expected("c/1") > 1.0
    for _ in range(6):
        estimator.record("c/1", 0.05)
    assert estimator.expected("c/1") < 0.1


def test_the_oldest_kinds_are_forgotten() -> None:
    estimator = DurationEstimator()
    for number in range(duration.KINDS + 1):
        estimator.record(str(number), 1.0)
    assert estimator.expected("0") == math.inf
    assert estimator.expected(str(duration.KINDS)) == 1.0


def test_kinds_tell_language_problem_and_number_of_tests_apart() -> None:
    problems = [ProblemRef(name="p", hash=digit * 64) for digit in "ab"]
    jobs = [
        job(Submission(language="c", source="x"), problems[0]),
        job(Submission(language="c", source="x"), problems[1]),
        job(Submission(language="cpp", source="x"), problems[0]),
        job(Submission(language="c", source="x", tests=[Test(name="1")])),
        job(Submission(language="c", source="x")),
        job(Submission(command="sort")),
    ]
    assert len({kind_of(item) for item in jobs}) == len(jobs)
    assert kind_of(job(Submission(language="c", source="y"), problems[0])) == kind_of(jobs[0])
