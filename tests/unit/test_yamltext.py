"""Any YAML is a value or one sentence with file and line: for configs, tokens and all else that is read so."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge import config
from judge.common import yamltext
from judge.common.errors import ConfigError, PackageError
from judge.common.yamltext import from_json
from judge.gateway import auth
from judge.problems.metadata import ProblemYaml, parse
from tests.support.gateway import ADMIN, PEOPLE, write_tokens

_LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
FAULTS = {
    "merged": ("<<: {odd: 1}\ntokens: []\n", r":1: unknown key 'odd'; expected tokens \(and 1 more\)"),
    "merged from afar": ("x: &x {odd: 1}\n<<: *x\n", r":1: unknown key '(odd|x)'"),
    "merge of a word": ("<<: 1\n", r":1: not YAML: expected a mapping or list of mappings"),
    "merge alone": ("<<\n", r":1: not YAML: could not determine a constructor"),
    "merge of nothing": ("<<:\n", r":1: not YAML: expected a mapping"),
    "laughs": (_LAUGHS + "tokens: *a11\n", r":[567]: YAML aliases stand for more than 200000 values"),
    "merged laughs": (
        "a0: &a0 {k: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 20)}]}}\n" for n in range(1, 12)),
        r"stand for more than 200000 values",
    ),
    "inside itself": ("tokens: &x [*x]\n", r":1: a value contains itself by a YAML alias"),
    "merged into itself": ("tokens: &x {<<: *x}\n", r":1: a value contains itself by a YAML alias"),
    "complex key": ("? [a]\n: 1\n", r":1: a key must be a word"),
    "twice": ("tokens: []\ntokens: []\n", r":2: key 'tokens' occurs twice"),
    "python": ("tokens: !!python/object/apply:os.system [id]\n", r":1: not YAML: could not determine a constructor"),
    "no date": ("a: 1\ntokens: 2026-13-45\n", r":2: has a value that cannot be read as timestamp: month must be"),
    "no timestamp": ("tokens: !!timestamp x\n", r":1: has a value that cannot be read as timestamp"),
    "no int": ("tokens: !!int ''\n", r":1: has a value that cannot be read as int"),
    "no bool": ("tokens: !!bool x\n", r":1: has a value that cannot be read as bool"),
    "no base": ("tokens: 0b_\n", r":1: has a value that cannot be read as int"),
    "long int": (f"tokens: {'9' * 9999}\n", r":1: has a value that cannot be read as int: Exceeds the limit"),
    "long hex": (f"tokens: 0x{'f' * 9999}\n", r":1: tokens: .*, got a very long number|it has more than 256 bits"),
    "not a number as key": (".nan: 1\n", r":1: "),
    "nothing as key": ("~: 1\n", r":1: "),
    "deep": ("tokens: " + "[" * 5000, r":1: is nested too deeply"),
    "two documents": ("a: 1\n--- b\n", r":2: not YAML: but found another document"),
    "control character": ("a: 1\nb: \x07\n", r":2: not YAML: has a control character"),
    "huge value": (f"tokens: {'x' * 100_000}\n", r":1: tokens: .{,300}$"),
}


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_each_fault_is_one_sentence_and_keeps_the_last_good_tokens(name: str, work: Path, caplog: Any) -> None:
    text, sentence = FAULTS[name]
    path = work / "tokens.yml"
    write_tokens(path, PEOPLE)
    tokens = auth.FileTokens(path)
    with caplog.at_level(logging.WARNING):
        path.write_text(text)
        for _ in range(2):
            principal = tokens.find(ADMIN)
            assert principal is not None and principal.user == "root"
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1, "one line, not one for each request"
    assert re.search(sentence, lines[0].removesuffix("; the tokens read before stay in force")), lines[0]
    assert lines[0].isprintable() and len(lines[0]) < 1000


def test_merged_keys_count_and_are_found_on_their_lines() -> None:
    document = yamltext.read("base: &b {a: 1, b: 2}\ntop:\n  <<: *b\n  a: 3\n", "f")
    assert document.value == {"base": {"a": 1, "b": 2}, "top": {"a": 3, "b": 2}}
    assert document.lines() == {("base",): 1, ("base", "a"): 1, ("base", "b"): 1, ("top",): 2,
                             ("top", "b"): 1, ("top", "a"): 4}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: &x 1\nb: *x\n", "f:2: uses a YAML alias; write the value out"),
        ("a: &x [1]\nb: {<<: *x}\n", "f:2: uses a YAML alias; write the value out"),
        ("a:\n  " + "[" * 32 + "]" * 32, "f:2: is nested deeper than 32 levels"),
        ("a: " + "{b: " * 40 + "}" * 40, "f:1: is nested deeper than 32 levels"),
    ],
)
def test_a_plain_file_has_no_aliases_and_few_levels(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        yamltext.read(text, "f", plain=True)
    assert str(refused.value) == sentence
    deepest = "a: " + "[" * 31 + "]" * 31
    assert yamltext.read(deepest, "f", plain=True).value


@pytest.mark.parametrize("number", ["0x" + "f" * 4000, "-0x" + "f" * 65, "0b1" + "0" * 256, "1" + ":0" * 200])
def test_integers_are_of_a_size_that_somebody_means(number: str) -> None:
    with pytest.raises(ConfigError, match=r"^f:1: has a value that cannot be read as int: it has more than 256 bits$"):
        yamltext.read(f"a: {number}", "f")
    assert yamltext.read("a: 0x" + "f" * 64, "f").value == {"a": 2**256 - 1}


@pytest.mark.parametrize("text", [r'{"a": "\ud83d\ude00 x"}', 'a: "\\uD83D\\\n  \\uDE00 x"', 'a: "\\U0001F600 x"'])
def test_two_halves_that_json_writes_are_one_character(text: str) -> None:
    assert yamltext.read(text, "f", plain=True).value == {"a": "\U0001f600 x"}
    document = yamltext.read(r'"\ud83d\ude00": {"\ud83d\ude00\ud83d\ude01": 1}', "f")
    assert list(document.lines()) == [("\U0001f600",), ("\U0001f600", "\U0001f600\U0001f601")]
    with pytest.raises(ConfigError, match=r"^f:2: key '\S' occurs twice"):
        yamltext.read('"\U0001f600": 1\n"\\ud83d\\ude00": 2', "f")


@pytest.mark.parametrize(
    "text",
    [
        '{\n\t"a":\t1,\n\t"b": [\n\t\ttrue\t,\t# c\n\t\t2\n\t]\t\n}\n',
        "b: [\n\ttrue,\n\t\n\t2\n\t]\na: 1\n",
        '{"a"\t: 1\n\t, b: [true\t\n\t, 2]}',
    ],
)
def test_tabs_are_blanks_between_brackets_as_in_json(text: str) -> None:
    assert yamltext.read(text, "f").value == {"a": 1, "b": [True, 2]}
    with pytest.raises(ConfigError, match=r"^f:2: not YAML: there is a tab where YAML takes blanks alone$"):
        yamltext.read("a:\n\tb: 1\n", "f")


@pytest.mark.parametrize("escape", [r"\0", r"a\x00b", r"\ud800", r"\uDFFF x", r"\ude00\ud83d", r"\ud83d\ude00\ude00"])
def test_an_escape_makes_no_text_that_nothing_takes(escape: str) -> None:
    sentence = r"^f:2: has a NUL or half a character, .*; write it without$"
    for text in (f'a: 1\nb: "{escape}"', f'a: 1\n"{escape}": 1', f'a:\n- ["{escape}"]'):
        with pytest.raises(ConfigError, match=sentence):
            yamltext.read(text, "f", plain=True)
    assert yamltext.read(r'a: "\x01\U0001F600"', "f").value == {"a": "\x01\U0001f600"}


_WORDS = st.sampled_from(
    ["<<", "a", "name", "tokens", "=", "~", ".nan", "-.inf", "1", "0x_", "0b_", "1e999", "2026-13-45", "190:20:30",
     "!!int", "!!int ''", "!!timestamp", "!!binary a", "!!set", "!!omap", "!!pairs", "!!float", "!!merge x",
     "!!value x", "!x", "&x", "*x", "&x a", "[", "]", "{", "}", ", ", ": ", "? ", "- ", "\n", "\n  ", "\n- ", "|", ">",
     "'", '"', "#", "%YAML 1.1\n---\n", "---\n", "...\n", "\t", "\ufeff", "\u2028",
     r'"\0"', r'"\ud800"', "9" * 5000, "0x" + "f" * 4000]
)  # fmt: skip


@given(st.lists(_WORDS, max_size=12).map("".join) | st.text(max_size=60))
def test_any_text_is_a_value_or_a_sentence(text: str) -> None:
    for model in (config.GatewayConfig, auth.TokenFile):
        try:
            config.parse_text(model, text, "file.yml")
        except ConfigError as exc:
            _sentence(str(exc), r"file\.yml:\d+: ")


@given(st.lists(_WORDS, max_size=12).map("".join))
def test_any_text_in_a_package_is_a_value_or_a_sentence(text: str) -> None:
    try:
        parse(ProblemYaml, text.encode(), "problem.yaml")
    except PackageError as exc:
        _sentence(str(exc), r"problem\.yaml:\d+: ")


def _sentence(text: str, start: str) -> None:
    assert re.match(start, text), text
    assert text.isprintable() and len(text) < 1500


@pytest.mark.parametrize(
    "text", ['{"a": "\\u0000"}', '{"a": ["\\ud800"]}', '{"\\ud800": 1}', '"\\udc00"', '[[{"a": "b\\u0000"}]]']
)
def test_json_has_no_text_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="half of a character"):
        from_json(text)


@pytest.mark.parametrize("text", ["NaN", '{"a": [Infinity]}', "[-Infinity]"])
def test_json_has_finite_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="is no number of JSON"):
        from_json(text)


def test_json_is_read_as_it_is_written() -> None:
    value = {"a": ["\U0001f600", {"b": None}], "c": 1.5}
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False).encode("utf-8-sig")):
        assert from_json(text) == value
