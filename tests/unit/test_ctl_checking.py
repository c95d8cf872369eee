"""Sentences of judgectl about tests that a package's own programs refuse."""

import pytest

from judge.common.errors import UsageError
from judge.ctl.problem import checking
from judge.model import messages as m
from tests.support.gateway import make_task


@pytest.mark.parametrize(
    ("message", "reason", "sentence"),
    [
        ("no", "the input validator 'twice' does not accept: no", "the package's own validator 'twice': no"),
        ("", "the input validator 'twice' does not accept: ended with exit code 0",
         "the package's own validator: the input validator 'twice' does not accept: ended with exit code 0"),
        ("'no'", "the output validator does not accept the answer", "the package's own validator: 'no'"),
        ("", "", "the package's own validator"),
    ],
)  # fmt: skip
def test_the_validator_that_refuses_a_test_is_named(message: str, reason: str, sentence: str) -> None:
    test = m.TestResult(name="secret/1", verdict=m.Verdict.WA, message=message, reason=reason)
    assert checking._sentence("inputs", test) == f"test secret/1: its input is refused by {sentence}"


def row(*verdicts: m.Verdict) -> checking.CheckRow:
    tests = [
        m.TestResult(name=f"secret/{number}", verdict=verdict, reason="ended with exit code 1")
        for number, verdict in enumerate(verdicts, 1)
    ]
    worst = next((verdict for verdict in verdicts if verdict is not m.Verdict.AC), m.Verdict.AC)
    task = make_task(verdict=worst, result=m.Result(tests=tests))
    return checking.CheckRow("check of answers", task, "answers")


@pytest.mark.parametrize("count", [1, 3])
def test_an_output_validator_that_fails_on_every_answer_stops_the_import(count: int) -> None:
    outcome = checking.CheckOutcome()
    checking._judge(row(*[m.Verdict.JE] * count), outcome)
    answers = "its only answer" if count == 1 else f"all {count} answers"
    assert outcome.warnings == [] and f"fails on {answers}" in outcome.broken[0]
    with pytest.raises(UsageError, match=rf"x: is not imported: its output validator fails on {answers}"):
        checking.refuse("x", outcome)


@pytest.mark.parametrize("verdict", [m.Verdict.AC, m.Verdict.WA])
def test_an_output_validator_that_judges_some_answer_is_warned_of(verdict: m.Verdict) -> None:
    outcome = checking.CheckOutcome()
    checking._judge(row(m.Verdict.JE, verdict), outcome)
    assert outcome.broken == [] and len(outcome.warnings) == 1
