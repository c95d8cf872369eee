"""How values look to people."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.gateway.pages import views
from judge.model.messages import Result, Status, Submission, Test, TestResult, Verdict
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
