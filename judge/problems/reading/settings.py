"""Reads the settings of groups and tests: test_group.yaml, testdata.yaml and NAME.yaml, of any version.

`current` rewrites what the draft, or an older spelling, calls otherwise, so that one model reads all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from judge.common import yamltext
from judge.common.errors import PackageError
from judge.common.text import decimal
from judge.problems.metadata import Flags, Range, Score, Section, Text, number, split
from judge.problems.reading.findings import Findings
from judge.problems.reading.formats import GRADER_KEYS

VERDICT_MODES = ("worst_error", "first_error", "always_accept")
SCORE_MODES = ("sum", "avg", "min", "max")
OLD_MODES = {"no_errors": "worst_error"}
"""Modes by the names that they had once, which packages and problemtools still know."""
GRADER_FLAGS = (*VERDICT_MODES, *SCORE_MODES, "ignore_sample", "accept_if_any_accepted")
SCORING_KEYS = ("max_score", "score_aggregation", "require_pass")


Strings = Annotated[list[Text], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]
ByName = Text | list[Text] | dict[str, Text | list[Text]]


class TestSettings(Section):
    """test_group.yaml and NAME.yaml of format 2025-09; what is not set is inherited."""

    __test__ = False  # not a pytest class

    DECIDES = frozenset(
        {*SCORING_KEYS, "static_validation_score", "static_validator_args", "args", "output_validator_args"}
    )
    max_score: int | Literal["unbounded"] | None = None
    score_aggregation: Literal["pass-fail", "sum", "min"] | None = None
    static_validation_score: float | Literal["pass-fail"] | None = None
    require_pass: Strings | None = None
    args: Flags | None = None
    input_validator_args: ByName | None = None
    static_validator_args: Flags | None = None
    output_validator_args: Flags | None = None
    answer_validator_args: Any = None
    input_visualizer_args: Any = None
    output_visualizer_args: Any = None
    full_feedback: Any = None
    hint: Any = None
    description: Any = None
    generate: Any = None

    @field_validator("max_score", mode="before")
    @classmethod
    def _max_score(cls, value: Any) -> Any:
        if value is None or value == "unbounded":
            return value
        score = number(value)
        if score is None or not score.is_integer() or score < 0:
            text = str(value)[:40]
            raise ValueError(f"max_score: '{text}' is no score; expected a whole number of 0 or more, or 'unbounded'")
        return int(score)

    @field_validator("static_validation_score")
    @classmethod
    def _static_score(cls, value: float | str | None) -> float | str | None:
        if isinstance(value, float) and not 0 <= value < math.inf:
            raise ValueError(
                f"static_validation_score: {decimal(value)} is no score; expected 0 or more, or 'pass-fail'"
            )
        return value


class LegacyTestSettings(Section):
    DECIDES = frozenset({"on_reject", "grading", "grader_flags", "output_validator_flags", "accept_score",
                         "reject_score", "range"})  # fmt: skip
    on_reject: str = Field(default="break", pattern=r"^(break|continue)$")
    grading: str = Field(default="default", pattern=r"^(default|custom)$")
    grader_flags: Flags = ""
    input_validator_flags: ByName | None = None
    output_validator_flags: ByName | None = None
    accept_score: Score = None
    reject_score: Score = None
    range: Range = None
    # Tools beside the judges write these.
    args: Any = None
    output_visualizer_flags: Any = None


def graded(raw: Mapping[Any, Any]) -> bool:
    legacy = GRADER_KEYS - {"input_validator_flags"}
    return any(key in legacy and not isinstance(raw[key], dict) for key in raw)


def current(raw: Mapping[Any, Any], where: str) -> tuple[dict[Any, Any], list[str]]:
    """A group's or test's settings in the words of 2025-09, and sentences about what was rewritten. PackageError.

    The draft has `scoring` (`score`, `aggregation`, `require_pass`) and `static_validation`; older spellings are
    `grading` with the same keys, and flags as one string.
    """
    fields = yamltext.Fields(raw)
    fields.written = getattr(raw, "written", {})
    sentences = []
    for key in ("scoring", "grading"):
        section = fields.get(key)
        if isinstance(section, dict):
            del fields[key]
            names = {"score": "max_score", "max_score": "max_score", "aggregation": "score_aggregation",
                     "score_aggregation": "score_aggregation", "require_pass": "require_pass"}  # fmt: skip
            for name, value in section.items():
                if name not in names:
                    allowed = ", ".join(names)
                    raise PackageError(f"{where}: {key}.{str(name)[:40]}: is not known; expected some of {allowed}")
                if value is not None:
                    fields.setdefault(names[name], value)
            sentences.append(f"{key}: is of a draft of the format; it is read as {', '.join(SCORING_KEYS)}")
    static = fields.pop("static_validation", None)
    if static is True or isinstance(static, dict):
        section = static if isinstance(static, dict) else {}
        fields.setdefault("static_validation_score", section.get("score", "pass-fail"))
        fields.setdefault("static_validator_args", section.get("args", []))
        sentences.append("static_validation: is of a draft of the format; it is read as static_validation_score")
    for old, new in (("output_validator_flags", "output_validator_args"),
                     ("input_validator_flags", "input_validator_args")):  # fmt: skip
        if old in fields:
            value = fields.pop(old)
            if value is not None:
                fields.setdefault(new, value if isinstance(value, list | dict) else yamltext.text_of(raw, old))
            sentences.append(f"{old}: is the legacy format's word for {new}; it is read as that")
    return fields, sentences


def of_groups(document: yamltext.Document, findings: Findings) -> yamltext.Document:
    """A problem.yaml in which a group's words for flags are those that problem.yaml has; converters put them there."""
    fields = yamltext.Fields(document.value)
    fields.written = document.value.written
    for word in ("output_validator_flags", "output_validator_args"):
        value = fields.pop(word, None)
        place = f"{document.source}:{document.lines().get((word,), 1)}: {word}"
        if value is None:
            continue
        if (fields.get("validator_flags") or value) != value:
            findings.error(f"{place}: contradicts 'validator_flags'; leave one of them out")
            continue
        fields["validator_flags"] = value if isinstance(value, list | dict) else yamltext.text_of(document.value, word)
        findings.warning(f"{place}: is the word of groups for 'validator_flags'; it is read as that, for all tests")
    return replace(document, value=fields)


def by_validator(flags: Any, dialect: str) -> list[str] | dict[str, list[str]]:
    """Flags as they are handed over: of all validators of a kind, or by the names of some of them."""
    if flags is None:
        return []
    if not isinstance(flags, dict):
        return split(flags, dialect)
    if set(flags) == {"name", "flags"}:  # the legacy format's way to name one
        flags = {str(flags["name"]): flags["flags"]}
    return {str(name): split(value, dialect) for name, value in flags.items()}
