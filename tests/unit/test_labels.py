"""Tags and difficulty: what packages and people say becomes labels, or one sentence."""

import random
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError
from typer.testing import CliRunner

from judge.ctl.problem.commands import app
from judge.model.labels import TAGS, Labels, labels_of
from judge.model.visibility import ProblemFields
from judge.problems.package import read_package
from tests.support.packages import folder
from tests.unit.test_importers_polygon import polygon

PACKAGE = {"data/secret/1.in": b"1\n", "data/secret/1.ans": b"1\n"}


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("keywords: [graphs, Dynamic Programming, graphs]\ndifficulty: 2.50\n",
         Labels(tags=["graphs", "dynamic-programming"], difficulty="2.50")),
        ("keywords: dp graphs\ndifficulty: hard\n", Labels(tags=["dp", "graphs"], difficulty="hard")),
        ("keywords: shortest path, dp\n", Labels(tags=["shortest-path", "dp"])),
        ("keywords: {a: b}\ndifficulty: [3]\n", Labels()),
        ("", Labels()),
    ],
)  # fmt: skip
def test_a_package_s_keywords_and_difficulty_are_labels(tmp_path: Path, text: str, labels: Labels) -> None:
    head = b"problem_format_version: 2025-09\nname: X\ntype: pass-fail\n"
    with read_package(folder(tmp_path, {**PACKAGE, "problem.yaml": head + text.encode()}, "x")) as package:
        assert package.yaml.labels == labels
        assert not [note for note in package.notes if "difficulty" in note]


def test_polygon_s_tags_are_keywords(tmp_path: Path) -> None:
    tags = b'<tags><tag value="dp"/><tag value="*2100"/><tag value="run-twice"/></tags></problem>'
    files = polygon()
    files["problem.xml"] = files["problem.xml"].replace(b"</problem>", tags)
    with read_package(folder(tmp_path, files, "p")) as package:
        assert package.yaml.labels.tags == ["*2100", "dp"]


def test_whatever_a_package_says_is_no_error() -> None:
    source = random.Random(0)
    for _ in range(2000):
        words = ["".join(chr(source.choice((source.randrange(0xD800), source.randrange(128)))) for _ in range(40))]
        labels = labels_of(words * 30 if source.random() < 0.5 else words[0], words[0])
        assert ProblemFields.model_validate(labels.model_dump()).tags == labels.tags
        assert len(labels.tags) <= TAGS


@pytest.mark.parametrize(
    "fields",
    [
        {"tags": ["two words"]}, {"tags": ["a,b"]}, {"tags": [""]}, {"tags": ["x" * 31]}, {"tags": ["x\n"]},
        {"tags": ["x"] * 21}, {"difficulty": "x" * 31}, {"difficulty": "a\nb"}, {"order": 1.5}, {"order": 10**7},
    ],
)  # fmt: skip
def test_other_labels_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ProblemFields.model_validate(fields)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--tag", "x" * 31], "--tag: expected at most 30 characters"),
        (["--order", "10000000"], "--order: expected at most 1000000"),
        ([], "nothing is to be changed; give --tag, --difficulty or --order"),
    ],
)
def test_a_wrong_label_is_one_sentence(arguments: list[str], sentence: str) -> None:
    result = CliRunner().invoke(app, ["label", "hello", *arguments])
    assert sentence in str(result.exception)


def test_a_number_is_a_difficulty() -> None:
    assert ProblemFields.model_validate(yaml.safe_load("{difficulty: 3.5, tags: [DP]}")) == ProblemFields(
        difficulty="3.5", tags=["dp"]
    )
