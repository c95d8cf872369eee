"""When a slot may say that it is nearly free."""

import math

from hypothesis import given
from hypothesis import strategies as st

from judge.executor.channel import Job
from judge.executor.slot import duration
from judge.executor.slot.duration import DurationEstimator, kind_of
from judge.model.messages import Assignment, ProblemRef, Submission, Test

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
