"""What a manifest may say, whoever wrote it: a package's reader, an importer, or an admin past judgectl."""

from typing import Any

import pytest
from pydantic import ValidationError

from judge.model.problem import LegacyGroup, ProblemManifest, ProblemTest, StaticTest

SHA = "0" * 64


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
