"""DOMjudge's annotations in sources."""

import pytest

from judge.model.verdicts import Verdict
from judge.problems.folders import expected


@pytest.mark.parametrize(
    ("source", "verdicts"),
    [
        (b"# @EXPECTED_RESULTS@: CORRECT\n", {Verdict.AC}),
        (b"/* @EXPECTED_RESULTS@: CORRECT, WRONG-ANSWER,TIMELIMIT */", {Verdict.AC, Verdict.WA, Verdict.TLE}),
        (b"// @EXPECTED_RESULTS@: run_error\r\n", {Verdict.RTE, Verdict.MLE, Verdict.SV}),
        (b"@EXPECTED_RESULTS@: NONSENSE", set()),
        (b"@EXPECTED_RESULTS@:\nCORRECT", set()),
        (b"print(1)", set()),
    ],
)
def test_expected_verdicts_of_a_source(source: bytes, verdicts: set[Verdict]) -> None:
    assert expected([b"x = 1", source]) == verdicts
