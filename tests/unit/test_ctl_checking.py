"""Sentences of judgectl about tests that a package's own programs refuse."""

from __future__ import annotations

import pytest

from judge.ctl.problem import checking
from judge.model import messages as m


@pytest.mark.parametrize(
    ("message", "reason", "said"),
    [
        ("no", "the input validator 'twice' does not accept: no", "the package's own validator 'twice': no"),
        ("", "the input validator 'twice' does not accept: ended with exit code 0",
         "the package's own validator: the input validator 'twice' does not accept: ended with exit code 0"),
        ("'no'", "the output validator does not accept the answer", "the package's own validator: 'no'"),
        ("", "", "the package's own validator"),
    ],
)  # fmt: skip
def test_the_validator_that_refuses_a_test_is_named(message: str, reason: str, said: str) -> None:
    test = m.TestResult(name="secret/1", verdict=m.Verdict.WA, message=message, reason=reason)
    assert checking._sentence("inputs", test) == f"test secret/1: its input is refused by {said}"
