"""What each person has reached in each problem: whole lists and lists in parts come to the same."""

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from judge.model.messages import ProblemRef, Result, Status, Submission, Task, Verdict
from judge.model.results import COLUMNS, ProblemResult, merged, of_task, written

VERDICTS = [Verdict.AC, Verdict.WA, Verdict.TLE]
TIMES = st.integers(0, 59).map(lambda second: f"2026-01-31T12:00:{second:02}Z")


@st.composite
def single(draw: st.DrawFn) -> ProblemResult:
    verdict = draw(st.sampled_from(VERDICTS))
    return ProblemResult(
        user=draw(st.sampled_from("ab")),
        problem=draw(st.sampled_from("pq")),
        verdict=verdict,
        score=draw(st.none() | st.integers(0, 3).map(float)),
        solved=draw(TIMES) if verdict is Verdict.AC else None,
    )


@given(st.lists(single()), st.integers(0, 10))
def test_parts_come_to_the_same_as_the_whole(rows, cut):
    whole = merged(rows)
    assert merged([*merged(rows[:cut]), *merged(rows[cut:])]) == whole
    assert sum(row.attempts for row in whole) == len(rows)
    for row in whole:
        own = [other for other in rows if (other.user, other.problem) == (row.user, row.problem)]
        assert (row.verdict is Verdict.AC) == (row.solved is not None) == any(o.solved for o in own)
        assert row.solved == min((other.solved for other in own if other.solved), default=None)
        assert row.rank == max(other.rank for other in own)


def task(**fields: object) -> Task:
    sub = Submission(user="ann", language="c", source="x", problem="hello")
    values = {"id": "0" * 24, "submission": sub, "status": Status.SUCCESS, "created": "2026-01-31T12:00:00Z"}
    values = {**values, **fields}
    return Task.model_validate({**values, "done": "verdict" in values})


def test_only_judged_submissions_to_a_problem_count():
    judged = {"verdict": Verdict.AC, "problem": ProblemRef(name="hello", hash="0" * 64), "result": Result(score=2.5)}
    row = of_task(task(**judged))
    assert row is not None and (row.user, row.problem, row.score) == ("ann", "hello", 2.5)
    assert row.solved == "2026-01-31T12:00:00Z"
    assert of_task(task(status=Status.RUNNING)) is None
    assert of_task(task(status=Status.CANCELLED)) is None
    free = Submission(user="ann", language="c", source="x")
    assert of_task(task(verdict=Verdict.AC, submission=free)) is None
    for run in ({"cause": "verification"}, {"problem_hash": "0" * 64}, {"check": "inputs"}):
        own = Submission(user="ann", problem="hello", **run)
        assert of_task(task(**judged, submission=own)) is None, "an author's runs of a package are no tries"


def test_the_file_has_a_line_for_each_person_and_problem():
    row = ProblemResult(user="ann", name="Ann, A.", problem="p", verdict=Verdict.WA, score=2.5, attempts=3)
    assert list(csv.reader(io.StringIO(written([row])))) == [
        list(COLUMNS),
        ["ann", "Ann, A.", "p", "WA", "2.5", "3", ""],
    ]
