"""How values look to people."""

import datetime
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError

from judge.common.text import decimal, suggestion, unequal
from judge.gateway.pages import views
from judge.model.base import first_fault
from judge.model.messages import Result, Status, Submission, TaskId, Test, TestResult, Verdict
from tests.support.gateway import make_task

NOW = datetime.datetime(2026, 1, 31, 12, 0, 5, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("passed", "text"),
    [
        (-30, "just now"),
        (4, "just now"),
        (5, "5 s ago"),
        (60, "1 min ago"),
        (3599, "59 min ago"),
        (7200, "2 h ago"),
        (86400, "yesterday"),
        (3 * 86400, "3 days ago"),
        (14 * 86400, "17 Jan 2026"),
    ],
)
def test_ago(passed, text):
    moment = (NOW - datetime.timedelta(seconds=passed)).isoformat()
    assert views.ago(moment, NOW) == text


def test_times_that_are_none():
    assert views.ago("", NOW) == views.UNKNOWN
    assert views.ago("soon", NOW) == "soon"
    assert views.utc("soon") == "soon"
    assert views.seconds(None) == views.UNKNOWN


def test_times_of_all_zones_are_shown_in_utc():
    assert views.utc("2026-01-31T14:00:05+02:00") == "2026-01-31 12:00:05 UTC"
    assert views.utc("2026-01-31T12:00:05.123") == "2026-01-31 12:00:05 UTC"


@given(st.floats(0, 1e7))
def test_seconds_always_end_in_a_unit(value):
    assert views.seconds(value).endswith((" ms", " s", " min"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 ms"),
        (0.0312, "31 ms"),
        (0.9999, "1 s"),
        (1.25, "1.25 s"),
        (59.9, "59.9 s"),
        (59.999, "1 min"),
        (125, "2 min 5 s"),
        (7260, "2 h 1 min"),
    ],
)
def test_seconds(value, text):
    assert views.seconds(value) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1536, "1.5 KiB"),
        (131072, "128 KiB"),
        (1_950_000, "1.9 MiB"),
        (2**30, "1 GiB"),
    ],
)
def test_size(count, text):
    assert views.size(count) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("test 3 of 10", (3, 10)), ("3/10", (3, 10)), ("12/10", (10, 10)), ("0/0", None), ("compiling", None)],
)
def test_progress(text, expected):
    assert views.progress(make_task(progress=text)) == expected


def test_every_status_has_words():
    assert all(views.look(status).text for status in Status)


@pytest.mark.parametrize(
    ("tests", "words"), [([], "Ran"), ([Test(name="1")], "Ran"), ([Test(name="1", answer="7")], "Passed")]
)
def test_nothing_is_accepted_without_a_problem(tests, words):
    submission = Submission(user="ada", language="c", source="x", tests=tests)
    result = Result(tests=[TestResult(name="1", verdict=Verdict.AC), TestResult(name="2", verdict=Verdict.WA)])
    task = make_task(submission=submission, done=True, verdict=Verdict.AC, result=result)
    assert views.look(task).text == words
    assert [look.text for look in views.looks(task).values()] == [words, "Wrong answer"]
    of_problem = submission.model_copy(update={"problem": "sum", "tests": []})
    task = make_task(submission=of_problem, done=True, verdict=Verdict.AC, result=result)
    assert (views.look(task).text, views.looks(task)["1"].text) == ("Accepted", "Accepted")


def test_a_task_looks_like_its_verdict_once_it_is_done():
    assert views.look(make_task(status=Status.RUNNING)).text == "Running"
    assert views.look(make_task(status=Status.RUN_FAILED, done=True, verdict=Verdict.WA)).code == "WA"
    assert views.look(make_task(status=Status.CANCELLED, done=True)).text == "Cancelled"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"signal": 11}, "SIGSEGV"),
        ({"signal": 40}, "signal 40"),
        ({"exit_code": 3}, "exit code 3"),
        ({"exit_code": 0}, ""),
    ],
)
def test_ending(fields, text):
    assert views.ending(TestResult(name="1", verdict=Verdict.RTE, **fields)) == text


@pytest.mark.parametrize(
    ("language", "direction"),
    [
        ("fa", "rtl"), ("ar", "rtl"), ("he", "rtl"), ("ur-PK", "rtl"), ("yi", "rtl"), ("ar_EG", "rtl"), ("ckb", "rtl"),
        ("az-Arab", "rtl"), ("pa-Arab-PK", "rtl"), ("ku-Latn", "ltr"), ("ar-Latn", "ltr"), ("en", "ltr"), ("", "ltr"),
        ("en-GB", "ltr"), ("zh-Hant", "ltr"), ("FA", "rtl"), ("arn", "ltr"), ("fr", "ltr"),
    ],
)  # fmt: skip
def test_the_direction_of_a_language(language, direction):
    assert views.direction(language) == direction


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (-0.0, "0"), (100, "100"), (100.0, "100"), (1234567.0, "1234567"), (1234568.0, "1234568"),
        (99.99999, "99.99999"), (99.999999999, "99.999999999"), (1e6, "1000000"), (1e15, "1000000000000000"),
        (0.1, "0.1"), (1 / 3, "0.333333333"), (-2.5, "-2.5"), (1e-10, "0"), (1e16, "1" + 16 * "0"),
        (12345678901234567890.0, "12345678901234567000"), (1e300, "1" + 300 * "0"), (-1e22, "-1" + 22 * "0"),
        (float("inf"), "inf"), (142857142.85714287, "142857142.85714287"),
    ],
)  # fmt: skip
def test_a_score_is_shown_in_full(value, text):
    assert decimal(value) == text


@given(st.decimals(min_value="-1e9", max_value="1e9", places=6))
def test_a_score_with_six_decimals_is_read_back(value):
    assert float(decimal(float(value))) == float(value)


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=3))
def test_numbers_that_differ_look_different(values):
    assert len(set(unequal(*values))) == len(set(values))


class _Sample(BaseModel):
    count: int = Field(default=1, ge=0, le=9)
    name: str = Field(default="a", min_length=1, max_length=3)
    task: TaskId = "0" * 24
    kind: Literal["a", "b"] = "a"
    items: list[int] = Field(default=[], max_length=1)
    moment: datetime.datetime | None = None
    speed: float = 1.0
    on: bool = True


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"count": -1}, "count: expected at least 0"), ({"count": 10}, "count: expected at most 9"),
        ({"count": "x"}, "count: expected an integer"), ({"count": 1.5}, "count: expected an integer"),
        ({"name": ""}, "name: expected at least 1 character"),
        ({"name": "long"}, "name: expected at most 3 characters"),
        ({"name": 7}, "name: expected a text"), ({"task": "x"}, "task: expected an id of 24 hexadecimal digits"),
        ({"kind": "c"}, "kind: expected 'a' or 'b'"), ({"items": [1, 2]}, "items: expected at most 1 item"),
        ({"items": 5}, "items: expected a list"), ({"speed": "fast"}, "speed: expected a number"),
        ({"on": "maybe"}, "on: expected true or false"), ({"moment": "soon"}, "moment: expected a valid datetime"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_told_in_plain_words(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        _Sample(**fields)
    assert str(first_fault(caught.value)).startswith(sentence)


def test_a_name_is_compared_with_those_that_are_there() -> None:
    assert suggestion("helo", ["world", "hello"], "look") == "did you mean 'hello'?"
    assert suggestion("helo", ["world"], "look") == suggestion("helo", [], "look") == "look"
