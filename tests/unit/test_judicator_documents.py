"""Stored forms, limits of what is stored, and the checks of Add."""

import datetime
import hashlib
import json

import pytest

from judge.common.errors import FieldError, ForbiddenError, TooLargeError
from judge.config import SubmissionLimits
from judge.judicator.documents import first_id
from judge.judicator.tasks import forms, intake, results
from judge.model import messages as m

LIMITS = SubmissionLimits()
SHA = "0" * 64


def check(**fields: object) -> None:
    submission = m.Submission.model_validate(fields)
    intake.check(submission, LIMITS, languages={"c", "python3"}, source_bytes=LIMITS.source_bytes)


GOOD = {"language": "c", "source": "int main(){}"}


@pytest.mark.parametrize(
    "fields",
    [
        GOOD,
        {**GOOD, "filename": "a.c", "problem": "hello"},
        {**GOOD, "tests": [{"name": "1", "input": "x", "answer_blob": SHA}, {"name": "2"}]},
        {**GOOD, "stdin": "1 2\0", "limits": {"cpu": 1}},
        {"command": "cat", "stdin": "x"},
        {"command": "./a.out", "compile": "gcc x.c", "source": "int main(){}", "filename": "x.c"},
    ],
)
def test_accepted_submissions(fields: dict[str, object]) -> None:
    check(**fields)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "language"),
        ({"source": "x"}, "language"),
        ({"language": "c"}, "source"),
        ({"language": "cobol", "source": "x"}, "language"),
        ({"language": "c", "source": " \n\t"}, "source"),
        ({"language": "c", "source": "\x7fELF\0\0"}, "source"),
        ({**GOOD, "command": "cat"}, "command"),
        ({**GOOD, "compile": "make"}, "compile"),
        ({"command": "  "}, "command"),
        ({"command": "a\0b"}, "command"),
        ({**GOOD, "filename": "../a.c"}, "filename"),
        ({**GOOD, "filename": ".."}, "filename"),
        ({**GOOD, "filename": ""}, "filename"),
        ({**GOOD, "problem": "p", "tests": [{"name": "1"}]}, "tests"),
        ({**GOOD, "problem": "p", "limits": {"cpu": 1}}, "limits"),
        ({**GOOD, "problem": "p", "stdin": ""}, "stdin"),
        ({**GOOD, "stdin": "", "tests": [{"name": "1"}]}, "stdin"),
        ({**GOOD, "tests": [{"name": "1"}, {"name": "1"}]}, "tests.1.name"),
        ({**GOOD, "tests": [{"name": "1", "input": "", "input_blob": SHA}]}, "tests.0.input_blob"),
        ({**GOOD, "tests": [{"name": "1", "answer": "", "answer_blob": SHA}]}, "tests.0.answer_blob"),
        ({**GOOD, "tests": [{"name": f"t{n}"} for n in range(1001)]}, "tests"),
    ],
)
def test_a_refusal_names_its_field(fields: dict[str, object], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        check(**fields)
    assert caught.value.field == field
    assert len(str(caught.value)) > len(field) + 10


@pytest.mark.parametrize("fields", [{**GOOD, "source": "x" * 131073}, {**GOOD, "stdin": "x" * (1024**2 + 1)}])
def test_submissions_that_are_too_large(fields: dict[str, object]) -> None:
    with pytest.raises(TooLargeError):
        check(**fields)


def test_the_smaller_source_limit_counts() -> None:
    with pytest.raises(TooLargeError, match="at most 5 bytes"):
        intake.check(m.Submission.model_validate(GOOD), LIMITS, languages={"c"}, source_bytes=5)


def test_hints_name_no_language_that_an_executor_made_up() -> None:
    made_up = {f"{'k' * 56}{number:06}" for number in range(200)}
    for language in ("k" * 62, "klingon"):
        with pytest.raises(FieldError) as caught:
            intake.check(
                m.Submission(language=language, source="x"), LIMITS, languages={*made_up, "c"}, source_bytes=1000
            )
        assert "known are ada, algol68" in str(caught.value)
        assert "kkkkk0" not in str(caught.value)


def test_big_test_texts_become_blobs_and_small_sets_stay() -> None:
    small = m.Submission(**GOOD, tests=[m.Test(name="1", input="x" * 2000, answer="y")])
    assert intake.name_texts(small) == (small, {})
    big = m.Submission(**GOOD, tests=[m.Test(name="1", input="x" * 300_000, answer="y"), m.Test(name="2")])
    stored, texts = intake.name_texts(big)
    assert stored.tests[0].input is None
    assert texts == {hashlib.sha256(b"x" * 300_000).hexdigest(): b"x" * 300_000}
    assert stored.tests[0].answer == "y"
    assert stored.tests[1] == m.Test(name="2")
    assert forms.blobs_of(stored) == list(texts)


def test_the_digest_is_of_the_content_alone() -> None:
    submission = m.Submission(**GOOD, idempotency_key="a")
    assert forms.digest(submission) == forms.digest(m.Submission(**GOOD, idempotency_key="b"))
    assert forms.digest(submission) != forms.digest(m.Submission(**{**GOOD, "source": "x"}))
    # A field added later with its default does not make an old submission another one.
    assert set(json.loads(m.Submission(**GOOD).model_dump_json(exclude_defaults=True))) == {"language", "source"}


def test_an_id_tells_nothing_about_other_ids() -> None:
    """They keep the order of their times, and have nothing in common that a guess could begin with."""
    now = datetime.datetime(2026, 1, 31, 12, 0, 0, 500_000, tzinfo=datetime.UTC)
    fresh = [forms.new(m.Submission(**GOOD), None, "0" * 64, now)["_id"] for _ in range(200)]
    assert {task.binary[:6] for task in fresh} == {fresh[0].binary[:4] + b"\x80\0"}
    assert all(len({task.binary[at] for task in fresh}) > 50 for at in range(6, 12)), "six bytes of chance"
    moments = [now + datetime.timedelta(milliseconds=step) for step in range(-600, 600, 7)]
    ids = [forms.new(m.Submission(**GOOD), None, "0" * 64, moment)["_id"] for moment in moments]
    assert ids == sorted(ids) and first_id(moments[0]) <= ids[0] < first_id(moments[0], 1)


def test_keys_belong_to_users() -> None:
    keys = {forms.key_of(m.Submission(user=user, idempotency_key="k")) for user in ("a", "b")}
    assert len(keys) == 2
    assert forms.key_of(m.Submission(user="a")) is None


def test_cut_ends_on_a_whole_character() -> None:
    assert results.cut("abc", 3) == "abc"
    assert results.cut("aé", 2) == "a"
    assert results.cut("\ud800", 10) == "?"


def test_a_monstrous_result_still_fits() -> None:
    test = m.TestResult(name="t", verdict=m.Verdict.WA, output="x" * 10_000, error="y" * 10_000)
    test = test.model_copy(update={"message": "\ud800" * 9})  # no JSON has these
    result = m.Result(compile_log="z" * 10**6, stdout="s" * 10**6, reason="r" * 10**5, tests=[test] * 1000)
    stored = results.fit(result)
    assert len(json.dumps(stored)) < 4 * 1024**2
    assert len(stored["tests"]) == 1000
    assert results.fit(m.Result(tests=[test]))["tests"][0]["output"] == "x" * 4096


def test_a_result_is_measured_in_bytes() -> None:
    test = m.TestResult(name="t", verdict=m.Verdict.WA, output="界" * 1000)
    stored = results.fit(m.Result(tests=[test] * 1000))
    assert sum(len(text.encode()) for _, text in results.texts(stored)) <= results.RESULT_BYTES
    assert len(stored["tests"]) == 1000


@pytest.mark.parametrize(
    ("fields", "sound"),
    [
        ({"status": "success", "verdict": "AC"}, True),
        ({"status": "internal_error", "verdict": "JE"}, True),
        ({"status": "success"}, False),
        ({"status": "running", "verdict": "AC"}, False),
        ({"status": "cancelled", "verdict": "AC"}, False),
        ({"status": "running", "retry": True}, True),
    ],
)
def test_unsound_completions_are_seen(fields: dict[str, object], sound: bool) -> None:
    completed = m.Completed.model_validate({"id": "0" * 24, "attempt": 1, "claim": "c", **fields})
    assert (results.flaw(completed) is None) == sound


def test_evidence_names_every_attempt() -> None:
    result = results.gave_up(
        [{"attempt": 1, "executor": "e1", "reason": "died"}, {"attempt": 2, "executor": "e2", "reason": "died too"}]
    )
    assert result["reason"] == "given up: attempt 1 on e1: died; attempt 2 on e2: died too"


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"command": "cat", "problem": "p"}, "a command"),
        ({"command": "cat"}, "a command"),
        (GOOD, "a run without a problem"),
        ({**GOOD, "stdin": "x"}, "a run without a problem"),
        ({**GOOD, "tests": [{"name": "1"}]}, "tests of one's own"),
    ],
)
def test_own_tests_are_refused(fields: dict[str, object], kind: str) -> None:
    submission = m.Submission.model_validate({"user": "ada", **fields})
    with pytest.raises(ForbiddenError) as refused:
        intake.check(submission, LIMITS, languages={"c"}, source_bytes=100, own_tests=False)
    sentence = f"user: 'ada' may hand in programs to problems only, not {kind} (own_tests is false)"
    assert str(refused.value) == sentence


def test_programs_to_problems_may_always_be_handed_in() -> None:
    submission = m.Submission.model_validate({**GOOD, "problem": "p", "user": "ada"})
    intake.check(submission, LIMITS, languages={"c"}, source_bytes=100, own_tests=False)
