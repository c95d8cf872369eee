"""Values of a package's YAML files: texts are what the file says, and numbers are those of YAML 1.2."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from judge.common import yamltext
from judge.common.errors import ConfigError, PackageError
from judge.problems.expectations import _parse
from judge.problems.importers.draft import dump
from judge.problems.metadata import ProblemYaml, Section, load, number, read, seconds
from judge.problems.reading.findings import Findings
from judge.problems.reading.settings import LegacyTestSettings, TestSettings, current
from tests.support.packages import refused

WORDS = (
    "No", "no", "yes", "On", "off", "true", "FALSE", "Null", "null", "~", "3.10", "0123", "007", "12:30", "1:30",
    "1_000", "2024-01-01", "2024-01-01T10:00:00Z", "0x1F", "0o17", "0b11", "1e3", "1.0", "+1", ".5", "5.", ".inf",
    ".nan", "=",
)  # fmt: skip


def settings_of(model: type[Section], text: str) -> tuple[Any, Findings]:
    findings = Findings()
    return load(model, read(text.encode(), "f.yaml"), findings).settings, findings


@pytest.mark.parametrize("word", WORDS)
def test_a_title_is_what_is_written(word):
    assert settings_of(ProblemYaml, f"name: {word}\n")[0].title() == word
    assert settings_of(ProblemYaml, f"name: {{en: {word}}}\n")[0].title() == word


def test_a_title_that_is_not_written_is_none():
    assert settings_of(ProblemYaml, "name:\n")[0].name is None


@pytest.mark.parametrize("word", WORDS)
def test_arguments_are_what_is_written(word):
    for key in ("args", "output_validator_args", "static_validator_args"):
        assert getattr(settings_of(TestSettings, f"{key}: [a, {word}]\n")[0], key) == ["a", word]
        if word not in {"Null", "null", "~"}:
            assert getattr(settings_of(TestSettings, f"{key}: {word}\n")[0], key) == word
    assert settings_of(TestSettings, f"input_validator_args: {{a: [{word}]}}\n")[0].input_validator_args == {
        "a": [word]
    }
    legacy = settings_of(LegacyTestSettings, f"output_validator_flags: [{word}]\n")[0]
    assert legacy.output_validator_flags == [word]


@pytest.mark.parametrize("word", WORDS)
def test_constants_are_what_is_written(word):
    assert settings_of(ProblemYaml, f"constants: {{n: {word}}}\n")[0].constants == {"n": word}
    assert settings_of(ProblemYaml, f"constants: {{n: {{value: {word}, latex: x}}}}\n")[0].constants == {"n": word}


def test_older_words_of_group_settings_keep_what_is_written():
    value, _ = current(read(b"output_validator_flags: no\n", "f").value, "f")
    assert value["output_validator_args"] == "no"


@pytest.mark.parametrize(("word", "value"), [("010", 10), ("012", 12), ("1e1", 10), ("2.50", 2.5), ("0x10", 16)])
def test_numbers_are_those_of_yaml_1_2(word, value):
    settings, findings = settings_of(ProblemYaml, f"limits: {{time_limit: {word}}}\n")
    assert (settings.limits.time_limit, findings.errors) == (value, [])


@pytest.mark.parametrize("word", ["1:30", "1_0", "1,5", "0:10:0", "2024-01-01", "0b11", "1.2.3", "1 0"])
@pytest.mark.parametrize(
    ("model", "text"),
    [
        (ProblemYaml, "limits: {{time_limit: {}}}\n"),
        (ProblemYaml, "limits: {{memory: {}}}\n"),
        (ProblemYaml, "limits: {{validation_passes: {}}}\n"),
        (TestSettings, "max_score: {}\n"),
        (TestSettings, "static_validation_score: {}\n"),
        (LegacyTestSettings, "accept_score: {}\n"),
        (LegacyTestSettings, "range: 0 {}\n"),
    ],
)
def test_words_that_are_no_numbers_are_errors(model, text, word):
    text = text.format(word if "{}" not in text or "," not in word else f"'{word}'")
    _, findings = settings_of(model, text)
    assert len(findings.errors) == 1, findings.errors
    assert findings.errors[0].startswith("f.yaml:1: ")


def test_a_key_is_what_is_written():
    value = read(b"no: 1\n3.10: 2\n007: 3\ntrue: 4\n", "f").value
    assert [str(key) for key in value] == ["no", "3.10", "007", "true"]


def test_one_number_in_two_spellings_is_a_key_twice():
    assert "f:2: key '01' occurs twice" in refused(read, b"1: a\n01: b\n", "f")


def test_expectations_have_texts_as_written():
    text = b"accepted/a.py: {message: No, language: 3.10, entrypoint: 007, score: 012}\n3.10: {message: x}\n"
    rules = _parse(text, "f")
    assert rules["accepted/a.py"].message == "No"
    assert (rules["accepted/a.py"].language, rules["accepted/a.py"].entrypoint) == ("3.10", "007")
    assert rules["accepted/a.py"].score == 12
    assert "3.10" in rules


@pytest.mark.parametrize("word", WORDS)
def test_importers_pass_words_on_as_written(word):
    value = read(f"a: {{args: [{word}]}}\n".encode(), "f").value
    again = read(dump({"g": value["a"]}), "f").value["g"]["args"]
    assert yamltext.text_of(again, 0) in {word, "null" if word in {"Null", "~"} else word}


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1))
def test_texts_that_are_written_are_read_back_by_both_versions_of_yaml(text):
    assert read(dump({"a": text}), "f").value["a"] == text
    assert yaml.safe_load(dump({"a": text}))["a"] == text


@pytest.mark.parametrize("text", ["1_0", "1:30", "", "x", "\u0661", "1" * 200])
def test_time_limits_of_other_files_are_numbers(text):
    with pytest.raises(PackageError):
        seconds(text, "f")
    assert text == "1" * 200 or number(text) is None


def test_configs_of_operators_are_read_as_ansible_writes_them():
    assert yamltext.read("a: yes\nb: 010\n", "f").value == {"a": True, "b": 8}
    with pytest.raises(ConfigError, match="YAML alias"):
        yamltext.read("a: &x 1\nb: *x\n", "f", plain=True)


def test_json_may_begin_with_a_byte_order_mark():
    assert yamltext.from_json(b'\xef\xbb\xbf{"a": 3.10}') == {"a": 3.1}
    assert str(yamltext.from_json('\ufeff{"a": 3.10}')["a"]) == "3.10"


def test_the_sentence_says_where_and_what():
    text = "name: 12:30\nlimits:\n  time_limit: 1:30\n"
    _, findings = settings_of(ProblemYaml, text)
    assert findings.errors == ["f.yaml:3: time_limit: '1:30' is not a number; write it such as 90 or 2.5"]


@pytest.mark.parametrize("word", ["true", "on", "No", "false"])
@pytest.mark.parametrize("key", ["time_limit", "memory", "time_resolution"])
def test_yes_and_no_are_no_numbers(key, word):
    """YAML's words for true and false count as 1 and 0: a second, a MiB, or the usual limit."""
    _, findings = settings_of(ProblemYaml, f"name: X\nlimits: {{{key}: {word}}}\n")
    assert findings.errors == [f"f.yaml:2: {key}: '{word}' is not a number; write it such as 90 or 2.5"]
