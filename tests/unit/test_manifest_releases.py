"""What a manifest may say, and what an executor of an earlier release makes of it: the same verdicts, or a refusal."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from judge.model.problem import (
    LegacyGroup,
    ProblemManifest,
    ProblemProgram,
    ProblemTest,
    ProblemType,
    StaticTest,
)
from judge.problems.package import manifest_bytes

SHA = "0" * 64
PROGRAM = ProblemProgram(name="p", language="python3", main="p.py", files={"p.py": SHA})
# All that the releases before these features know, in every part of a manifest; they refuse whatever else they find.
KNOWN = {
    *("name", "title", "limits", "validator_flags", "type", "tests", "source_bytes", "memory_is_default"),
    *("compile_seconds", "compile_memory", "validator", "validation", "validation_memory_is_default", "passes"),
    *("languages", "include", "groups", "graders", "package"),
}
KNOWN_TEST = {"name", "input", "answer", "sample", "flags", "args"}
KNOWN_GRADER = {
    *("name", "on_reject", "verdict", "score", "ignore_sample", "accept_if_any"),
    *("accept_score", "reject_score", "low", "high"),
}
KNOWN_TYPES = frozenset({"pass-fail", "scoring", "interactive", "multi-pass"})


def understood(manifest: ProblemManifest) -> bool:
    """Whether such an executor would judge by this manifest."""
    data = json.loads(manifest_bytes(manifest))
    return (
        data.keys() <= KNOWN
        and all(test.keys() <= KNOWN_TEST for test in data["tests"])
        and all(group.keys() <= KNOWN_GRADER for group in data.get("graders", []))
        and KNOWN_TYPES.issuperset(data.get("type", []))
    )


def manifest(**fields: object) -> ProblemManifest:
    test = fields.pop("test", {})
    assert isinstance(test, dict)
    return ProblemManifest(name="p", tests=[ProblemTest(name="secret/1", input=SHA, answer=SHA, **test)], **fields)


def test_manifests_without_new_fields_are_understood():
    assert understood(manifest())
    assert understood(manifest(graders=[LegacyGroup(name="")], type=[ProblemType.SCORING], passes=3))


@pytest.mark.parametrize(
    "fields",
    [
        {"validators": [PROGRAM, PROGRAM]},
        {"static_validator": PROGRAM},
        {"static_tests": [StaticTest(group="secret")]},
        {"grader": PROGRAM},
        {"graders": [LegacyGroup(name="", custom=True)]},
        {"graders": [LegacyGroup(name="", own_score=True)]},
        {"dialect": "domjudge"},
        {"dialect": "kattis"},
        {"format": "2025-09"},
        {"type": [ProblemType.PASS_FAIL, ProblemType.SUBMIT_ANSWER]},
        {"test": {"files": {"data.txt": SHA}}},
    ],
)
def test_manifests_with_new_fields_are_refused(fields):
    assert not understood(manifest(**fields))


def test_a_manifest_comes_back_as_it_was():
    original = manifest(
        test={"files": {"a.txt": SHA}, "input_flags": {"one": ["-x"]}},
        validators=[PROGRAM],
        input_validators=[PROGRAM],
        static_tests=[StaticTest(group="secret", score=3, args=["x"])],
        graders=[LegacyGroup(name="", custom=True, flags=["sum"], own_score=True)],
    )
    assert ProblemManifest.model_validate_json(manifest_bytes(original)) == original


@pytest.mark.parametrize("word", ["\0", "a\0", "a\0b", "\nä\0"])
@pytest.mark.parametrize(
    ("model", "key", "fields"),
    [
        (ProblemManifest, "validator_flags", {"name": "p", "tests": []}),
        (ProblemTest, "flags", {"name": "1", "input": SHA, "answer": SHA}),
        (ProblemTest, "args", {"name": "1", "input": SHA, "answer": SHA}),
        (ProblemTest, "input_flags", {"name": "1", "input": SHA, "answer": SHA}),
        (StaticTest, "args", {"group": "secret"}),
        (LegacyGroup, "flags", {"name": ""}),
    ],
)
def test_no_word_of_a_command_line_has_a_nul(model: Any, key: str, fields: dict[str, object], word: str) -> None:
    good = word.replace("\0", "\n")
    assert getattr(model.model_validate({**fields, key: [good]}), key) == [good]
    with pytest.raises(ValidationError):
        model.model_validate({**fields, key: ["a", word]})
    if key == "input_flags":
        with pytest.raises(ValidationError):
            model.model_validate({**fields, key: {"validator": [word]}})
