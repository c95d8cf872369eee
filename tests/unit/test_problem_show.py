"""`judgectl problem show`: everything that decides how a problem is judged is in it."""

from pathlib import Path

import pytest

from judge.ctl.problem.showing import print_problem
from judge.model.problem import ProblemInfo
from judge.problems.package import read_package

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("packages/whisper", ["communication, 2 processes, manager manager (python3", "few bits", "threshold", "80"]),
        ("packages/sum-files", ["reads ", "writes "]),
        ("packages/loopless", ["static validator"]),
        ("packages/halves", ["grader", "read as kattis reads it"]),
        ("packages/countdown", ["input validators", "secret/small"]),
        ("foreign/polygon-hunt", ["2025-09, made of a package of polygon"]),
    ],
)
def test_show_prints_all_that_decides_judging(
    package: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with read_package(EXAMPLES / package) as content:
        manifest = content.manifest
    info = ProblemInfo(name=manifest.name, hash="0" * 64, tests=len(manifest.tests), limits=manifest.limits)
    print_problem(info, manifest)
    output = " ".join(capsys.readouterr().out.split())
    assert [word for word in words if " ".join(word.split()) not in output] == []
