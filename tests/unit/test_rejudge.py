"""Rejudgings without servers: filters, comparisons, what is in force, the order of the queue, trace ids."""

import datetime
from typing import Any

import pytest
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from judge.common.errors import FieldError, NotFoundError, UsageError
from judge.ctl import rejudge as ctl
from judge.gateway.api.rejudge import number_of
from judge.gateway.pages import rejudge as rejudge_pages
from judge.gateway.trace import trace_of
from judge.judicator import verdicts
from judge.judicator.queue.order import RANKS, back_rank, is_rejudge
from judge.judicator.rejudging import reruns
from judge.judicator.rejudging import views as rejudge_views
from judge.judicator.tasks import forms
from judge.judicator.tasks.reading import search_query
from judge.model import messages as m
from judge.model.rejudging import RejudgeFilter, RejudgeState, Rejudging

NOW = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
LIVE = st.sampled_from(["high", "normal", "low"])
PLACES = st.tuples(LIVE, st.booleans(), st.integers(0, 10**6), st.integers(0, 10**6))


@given(st.lists(PLACES, max_size=30), st.lists(st.tuples(st.booleans(), st.integers(0, 10**6)), max_size=30))
def test_no_run_of_a_rejudging_is_before_a_live_task(live: list[Any], again: list[tuple[bool, int]]) -> None:
    """Whatever their places and whether they were given back: in the queue's order all that is live comes first."""

    def rank(priority: str, back: bool) -> int:
        return back_rank(priority) if back else RANKS[priority]

    queue = [(rank(priority, back), order, arrival, "live") for priority, back, order, arrival in live]
    queue += [(rank("rejudge", back), order, 0, "run") for back, order in again]
    kinds = [kind for *_, kind in sorted(queue)]
    assert kinds == ["live"] * len(live) + ["run"] * len(again)
    assert all(is_rejudge(place[0]) == (place[-1] == "run") for place in queue)


def task(**changes: Any) -> dict[str, Any]:
    return {
        "_id": ObjectId(),
        "status": "run_failed",
        "verdict": "WA",
        "result": {"cpu": 1.0, "wall": 2.0, "memory": 3, "reason": "test 2: wrong", "failed_test": "2"},
        "judged_by": "e1",
        "problem": {"name": "sum", "hash": "a" * 64},
        "started": NOW,
        "finished": NOW,
        "history": [{"attempt": 1, "executor": "e1", "reason": "judged: WA"}],
        "blobs": ["b"],
        "version": 4,
        "trace": "old",
        "rejudging": 7,
        **changes,
    }


def staged(number: int = 7) -> dict[str, Any]:
    return {
        "rejudging": number,
        "why": "because",
        "status": "success",
        "verdict": "AC",
        "result": {"cpu": 0.5},
        "judged_by": "e2",
        "problem": None,
        "started": NOW,
        "finished": NOW,
        "trace": "new",
        "blobs": ["a"],
        "history": [{"attempt": 1, "executor": "e2", "reason": "judged: AC", "rejudging": number}],
    }


@given(st.frozensets(st.integers(1, 9)), st.integers(1, 9))
def test_the_switch_decides_which_verdict_is_current(folding: frozenset[int], number: int) -> None:
    document = verdicts.current(task(staged=staged(number)), folding)
    assert "staged" not in document
    if number in folding:
        assert (document["verdict"], document["trace"], document["version"], document["blobs"]) == (
            "AC",
            "new",
            5,
            ["a", "b"],
        )
        (past,) = document["past"]
        assert (past["verdict"], past["rejudging"], past["trace"], past["why"]) == ("WA", number, "old", "because")
        assert "rejudging" not in document
        assert len(document["history"]) == 2
    else:
        assert (document["verdict"], document["version"], document["rejudging"]) == ("WA", 4, 7)


def test_a_task_without_a_staged_verdict_is_unchanged() -> None:
    document = task()
    assert verdicts.current(document, frozenset({7})) is document


@given(st.frozensets(st.integers(1, 5), min_size=1))
def test_a_search_by_verdict_looks_through_the_switch(folding: frozenset[int]) -> None:
    query = search_query(m.SearchRequest(verdict=m.Verdict.AC), folding)
    old, new = query["$and"][0]["$or"]
    assert old == {"verdict": "AC", "staged.rejudging": {"$nin": sorted(folding)}}
    assert new == {"staged.verdict": "AC", "staged.rejudging": {"$in": sorted(folding)}}
    assert search_query(m.SearchRequest(verdict=m.Verdict.AC), frozenset())["$and"] == [{"verdict": "AC"}]


@given(st.integers(1, 2**31), st.binary(min_size=12, max_size=12))
def test_a_run_has_one_id_and_is_older_than_everything(number: int, raw: bytes) -> None:
    original = ObjectId(raw)
    assert reruns.rerun_id(number, original) == reruns.rerun_id(number, original)
    assert reruns.rerun_id(number, original) != reruns.rerun_id(number + 1, original)
    assert reruns.rerun_id(number, original) < ObjectId.from_datetime(
        datetime.datetime(1971, 1, 1, tzinfo=datetime.UTC)
    )


def test_a_filter_as_a_query() -> None:
    criteria = RejudgeFilter(
        ids=["0" * 24], user=["ann", "ann"], problem=["p"], language=["c"], verdict=["WA"], executor=["e"], since=NOW
    )
    assert rejudge_views.selection(criteria) == {
        "done": True,
        "rerun_of": None,
        "submission.problem_hash": None,
        "submission.check": None,
        "submission.cause": None,
        "_id": {"$in": [ObjectId("0" * 24)]},
        "user": {"$in": ["ann"]},
        "problem.name": {"$in": ["p"]},
        "language": {"$in": ["c"]},
        "verdict": {"$in": ["WA"]},
        "judged_by": {"$in": ["e"]},
        "created": {"$gte": NOW},
    }


@given(st.integers(86400, 2**32 - 2), st.integers(0, 999_999), st.sampled_from([-1, 0, 1]))
def test_a_filter_by_time_alone_is_bounded_by_ids(second: int, micro: int, apart: int) -> None:
    """No submission that a time includes is lost by the bounds of the ids, and those a second away are not read."""
    moment = datetime.datetime.fromtimestamp(second, datetime.UTC) + datetime.timedelta(microseconds=micro)
    created = moment + datetime.timedelta(microseconds=apart)
    task = forms.new(m.Submission(user="u", language="c", source="x"), None, "", created)["_id"]
    since = rejudge_views.selection(RejudgeFilter(since=moment))
    until = rejudge_views.selection(RejudgeFilter(until=moment))
    assert created < moment or task >= since["_id"]["$gte"]
    assert created >= moment or task < until["_id"]["$lt"]
    assert abs((until["_id"]["$lt"].generation_time - moment).total_seconds()) <= 1


def test_a_filter_by_any_time_has_bounds() -> None:
    for year in (1, 1900, 1970, 2105, 2500, 9999):
        moment = datetime.datetime(year, 6, 1, tzinfo=datetime.UTC)
        try:
            criteria = RejudgeFilter(since=moment)
        except ValidationError:
            assert not 1970 <= year < 2106, "no submission can be of such a time"
        else:
            assert set(rejudge_views.selection(criteria)["_id"]) == {"$gte"}


def test_a_filter_without_a_condition_is_refused() -> None:
    with pytest.raises(FieldError, match="no condition"):
        rejudge_views.selection(RejudgeFilter())
    with pytest.raises(FieldError, match="not after"):
        rejudge_views.selection(RejudgeFilter(since=NOW, until=NOW))


CELL = st.fixed_dictionaries(
    {
        "before": st.sampled_from(["AC", "WA", None]),
        "after": st.sampled_from(["AC", "WA", None]),
        "running": st.booleans(),
        "changed": st.booleans(),
        "n": st.integers(1, 100),
    }
)


@given(st.lists(CELL))
def test_counts_and_matrix_miss_nobody(cells: list[dict[str, Any]]) -> None:
    total = sum(cell["n"] for cell in cells)
    totals = rejudge_views.counts(cells)
    assert totals["waiting"] + totals["running"] + totals["done"] == total
    matrix = rejudge_views.matrix(cells)
    assert sum(sum(row.values()) for row in matrix.values()) == total
    assert len(ctl.matrix_table(matrix).rows) == len(matrix)


def test_a_verdict_that_was_replaced_twice_is_compared_with_the_right_one() -> None:
    doc: Any = {**task(), "user": "ann", "language": "c"}
    for number, verdict in ((3, "TLE"), (5, "AC")):
        problem = {"name": "sum", "hash": "b" * 64}
        new: Any = {**staged(number), "verdict": verdict, "problem": problem}
        doc = verdicts.current({**doc, "staged": new}, frozenset({number}))
    first, second = (rejudge_views.change_of_task(doc, number) for number in (3, 5))
    assert (first.before.verdict, first.after and first.after.verdict) == ("WA", "TLE")
    assert (second.before.verdict, second.after and second.after.verdict) == ("TLE", "AC")
    assert first.before.cpu == 1.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2h", NOW - datetime.timedelta(hours=2)),
        ("90m", NOW - datetime.timedelta(minutes=90)),
        ("2026-01-30", NOW - datetime.timedelta(hours=36)),
        ("2026-01-31T11:00", NOW - datetime.timedelta(hours=1)),
        ("2026-01-31T12:00+01:00", NOW - datetime.timedelta(hours=1)),
    ],
)
def test_times_of_the_command_line(text: str, expected: datetime.datetime) -> None:
    assert ctl.moment("since", text, NOW) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "2x", "2026-13-01", "h", "999999d", "10000-01-01"])
def test_a_broken_time_is_one_sentence(text: str) -> None:
    with pytest.raises(UsageError, match=r"--since: .* is no time; expected"):
        ctl.moment("since", text, NOW)


def test_an_impossible_filter_names_its_option() -> None:
    none: dict[str, Any] = {"since": None, "until": None}
    for text in ("0001-01-01T00:00+23:59", "9999-12-31T23:59:59-23:59", "900000d"):
        with pytest.raises((FieldError, UsageError), match=r"--since: .*"):
            ctl.filter_of(NOW, **{**none, "since": text})
    with pytest.raises(FieldError, match=r"--problem: .* not 'a b'"):
        ctl.filter_of(NOW, problem=["a b"], **none)
    with pytest.raises(FieldError, match="ID: "):
        ctl.filter_of(NOW, ids=["7"], **none)


def test_the_form_of_the_page() -> None:
    criteria = rejudge_pages.filter_of(
        {"verdict": "WA, TLE", "problem": " sum ", "since": "2026-01-31T12:00", "user": ""}
    )
    assert criteria == RejudgeFilter(verdict=["WA", "TLE"], problem=["sum"], since=NOW)
    assert rejudge_pages.sentence(criteria) == "problem sum; verdict WA, TLE; since 2026-01-31 12:00 UTC"
    with pytest.raises(FieldError):
        rejudge_pages.filter_of({"verdict": "GOOD"})


@pytest.mark.parametrize("text", ["0", "-1", "x", "9" * 40, "", "1 ", "\u0661", "000000000001" + "0" * 5000])
def test_broken_numbers_of_rejudgings(text: str) -> None:
    with pytest.raises(NotFoundError):
        number_of(text)


W3C = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_sources_of_a_trace_id() -> None:
    assert trace_of("contest-7.42", W3C) == "contest-7.42"
    assert trace_of("", W3C) == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert trace_of("two words", W3C) == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert len(trace_of("", "")) == 32
    assert trace_of("", "") != trace_of("", "")


@given(st.text(max_size=80), st.text(max_size=80))
def test_a_trace_id_is_a_plain_word(request_id: str, traceparent: str) -> None:
    trace = trace_of(request_id, traceparent)
    assert m.Submission(command="true", trace=trace).trace == trace
    assert trace


def test_skipped_submissions_are_counted_in_words(capsys):
    rejudging = Rejudging(
        id=3, filter=RejudgeFilter(), reason="x", user="ada", created="2026-01-01T00:00:00Z",
        state=RejudgeState.RUNNING, settled=False, total=2, skipped=1,
    )  # fmt: skip
    ctl.print_words(rejudging)
    assert "1 more matches, but is left out: part of another rejudging" in capsys.readouterr().out
    ctl.print_words(rejudging.model_copy(update={"skipped": 0}))
    assert "left out" not in capsys.readouterr().out
