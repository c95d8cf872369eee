"""What a problem's YAML and ini files say: models of problem.yaml, test_group.yaml, testdata.yaml and per-test files.

Two formats of the Kattis/ICPC package are known: legacy (also called legacy-icpc) and 2025-09. Keys that do not
change a verdict are accepted and left alone; a key that would change one, and that this version cannot honour, is
refused with file and line, because a package must be judged as its author meant or not at all (docs/problems.md).
"""

from __future__ import annotations

import configparser
import math
import re
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from judge import config, yamltext
from judge.config.reading import check
from judge.errors import ConfigError, PackageError
from judge.model.problem import ProblemType
from judge.problems.tree import clean

YAML_BYTES = 256 * 1024

LEGACY = ("legacy", "legacy-icpc")
VERDICT_MODES = ("worst_error", "first_error", "always_accept")
SCORE_MODES = ("sum", "avg", "min", "max")
GRADER_FLAGS = (*VERDICT_MODES, *SCORE_MODES, "ignore_sample", "accept_if_any_accepted")
CURRENT = "2025-09"
_NOT_JUDGED = ProblemType.SUBMIT_ANSWER
_TYPES = tuple(ProblemType)
# What the legacy format may say after `validation: custom`. A validator that scores makes no problem a scoring one.
_CUSTOM = ("score", *(one.legacy for one in ProblemType if one.legacy))
# What compilers get unless a package asks for something else: the format's own "typical system default".
_COMPILE_SECONDS = 60
_COMPILE_MIB = 2048
_CONSTANT = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

T = TypeVar("T", bound=BaseModel)


def _unsupported(what: str) -> ValueError:
    return ValueError(f"{what}: this version cannot judge such a problem as its author meant")


def _strings(value: Any) -> Any:
    """A sequence where the format also allows one bare string."""
    return [value] if isinstance(value, str) else value


def _flags(value: Any) -> Any:
    """Validator flags: a string of words (legacy), or a sequence (2025-09)."""
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        return [str(item) for item in value]
    return value


def _number(value: Any) -> float | None:
    """A number as YAML has it, also `inf` and `+inf`, which it reads as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(number) else number


Text = Annotated[str, StringConstraints(max_length=4096)]
Strings = Annotated[list[Text], BeforeValidator(_strings)]
Flags = Annotated[list[Text], BeforeValidator(_flags)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TimeMultipliers(_Section):
    """How far the time limit must be from the example submissions; `judgectl problem verify` checks it."""

    ac_to_time_limit: float = Field(default=2.0, ge=1, allow_inf_nan=False)
    time_limit_to_tle: float = Field(default=1.5, ge=1, allow_inf_nan=False)


class LimitsSection(_Section):
    """`limits` of both formats; seconds, MiB, KiB. Bounds are those of what executors enforce."""

    time_limit: float | None = Field(default=None, gt=0, le=600, allow_inf_nan=False)
    time_resolution: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    time_multipliers: TimeMultipliers = TimeMultipliers()
    time_multiplier: float = Field(default=5.0, gt=0, allow_inf_nan=False)
    time_safety_margin: float = Field(default=2.0, gt=0, allow_inf_nan=False)
    memory: float | None = Field(default=None, ge=4, le=65536, allow_inf_nan=False)
    output: float | None = Field(default=None, gt=0, le=1024, allow_inf_nan=False)
    code: float | None = Field(default=None, gt=0, le=16384, allow_inf_nan=False)
    compilation_time: float = Field(default=_COMPILE_SECONDS, gt=0, le=600, allow_inf_nan=False)
    compilation_memory: float = Field(default=_COMPILE_MIB, ge=64, le=65536, allow_inf_nan=False)
    validation_time: float = Field(default=60, gt=0, le=600, allow_inf_nan=False)
    validation_memory: float = Field(default=2048, ge=4, le=65536, allow_inf_nan=False)
    validation_output: float = Field(default=8, gt=0, le=1024, allow_inf_nan=False)
    validation_passes: int | None = Field(default=None, ge=2, le=1000)


class ProblemYaml(_Section):
    """problem.yaml of both formats. What only describes the problem is not looked into."""

    problem_format_version: str = "legacy"
    type: Strings = Field(default_factory=lambda: ["pass-fail"])
    name: str | dict[str, str] | None = None
    uuid: Any = None
    version: Any = None
    author: Any = None
    credits: Any = None
    source: Any = None
    source_url: Any = None
    license: Any = None
    rights_owner: Any = None
    embargo_until: Any = None
    keywords: Any = None
    limits: LimitsSection = LimitsSection()
    validation: str = "default"
    validator_flags: Flags = Field(default_factory=list)
    grading: Any = None
    languages: Strings = Field(default_factory=lambda: ["all"])
    allow_file_writing: bool = False
    constants: dict[str, str | int | float] | None = None

    @property
    def legacy(self) -> bool:
        """Whether this is the legacy format."""
        return self.problem_format_version in LEGACY

    @field_validator("problem_format_version")
    @classmethod
    def _version(cls, value: str) -> str:
        if value not in (*LEGACY, CURRENT):
            known = ", ".join((*LEGACY, CURRENT))
            raise ValueError(f"problem_format_version: '{value[:40]}' is not known; expected one of {known}")
        return value

    @field_validator("type")
    @classmethod
    def _type(cls, value: list[str]) -> list[str]:
        for kind in value or [""]:
            if kind not in _TYPES:
                raise ValueError(f"type: '{kind[:40]}' is not a type of problem; expected some of {', '.join(_TYPES)}")
            if kind == _NOT_JUDGED:
                raise _unsupported(f"type: '{kind}'")
        if {"pass-fail", "scoring"} <= set(value) or len(set(value)) < len(value):
            msg = f"type: '{', '.join(value)}' contradicts itself; choose pass-fail or scoring, and name each type once"
            raise ValueError(msg)
        return value

    @field_validator("validation")
    @classmethod
    def _validation(cls, value: str) -> str:
        words = value.split()
        if words != ["default"] and (words[:1] != ["custom"] or set(words[1:]) - set(_CUSTOM)):
            known = ", ".join(_CUSTOM)
            msg = f"validation: '{value[:40]}' is not known; expected default, or custom with some of {known}"
            raise ValueError(msg)
        return value

    @field_validator("languages")
    @classmethod
    def _languages(cls, value: list[str]) -> list[str]:
        if not value or ("all" in value and value != ["all"]):
            raise ValueError("languages: must be 'all', or a list of at least one language code")
        return value

    @field_validator("constants")
    @classmethod
    def _constants(cls, value: dict[str, str | int | float] | None) -> dict[str, str | int | float] | None:
        for name in value or {}:
            if not _CONSTANT.fullmatch(name):
                raise ValueError(f"constants: '{name[:40]}' cannot be a constant's name; use letters, digits and _")
        return value

    @model_validator(mode="after")
    def _named(self) -> Self:
        if not self.legacy and self.name is None:
            raise config.fault("key 'name' is missing; format 2025-09 requires it")
        if not self.legacy and self.model_fields_set & {"validation", "validator_flags", "grading", "author"}:
            key = min(self.model_fields_set & {"validation", "validator_flags", "grading", "author"})
            raise config.fault(f"{key}: belongs to the legacy format; format 2025-09 has no such key", key)
        if self.limits.validation_passes is not None and ProblemType.MULTI_PASS not in self.types:
            key = "limits.validation_passes"
            raise config.fault(f"{key}: belongs to multi-pass problems; say type: multi-pass", key)
        return self

    @property
    def custom(self) -> bool:
        """Whether the legacy format announces a custom output validator."""
        return self.validation.startswith("custom")

    @property
    def types(self) -> list[ProblemType]:
        """What `type` and the legacy `validation` say together, in the order of the table."""
        said = {*self.type, *(one for one in ProblemType if one.legacy and one.legacy in self.validation.split())}
        said.add(ProblemType.SCORING if self.scoring else ProblemType.PASS_FAIL)
        return [one for one in ProblemType if one in said]

    @property
    def scoring(self) -> bool:
        """Whether submissions get a score."""
        return ProblemType.SCORING in self.type

    def title(self) -> str:
        """The problem's name for people: the English one, else the first by language; empty when there is none."""
        if isinstance(self.name, dict):
            name = self.name.get("en") or next((self.name[key] for key in sorted(self.name)), "")
        else:
            name = self.name or ""
        return clean(name)


class TestSettings(_Section):
    """test_group.yaml and NAME.yaml of format 2025-09; what is not set is inherited."""

    __test__ = False  # not a pytest class

    max_score: int | Literal["unbounded"] | None = None
    score_aggregation: Literal["pass-fail", "sum", "min"] | None = None
    static_validation_score: Any = None
    require_pass: Strings | None = None
    args: Flags | None = None
    input_validator_args: Any = None
    static_validator_args: Any = None
    output_validator_args: Flags | None = None
    input_visualizer_args: Any = None
    output_visualizer_args: Any = None
    full_feedback: bool | None = None
    hint: Any = None
    description: Any = None

    @field_validator("max_score")
    @classmethod
    def _max_score(cls, value: int | str | None) -> int | str | None:
        if isinstance(value, int) and value < 0:
            raise ValueError(f"max_score: {value} is negative; expected 0 or more, or 'unbounded'")
        return value

    @field_validator("static_validation_score", "static_validator_args")
    @classmethod
    def _static(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None:
            raise _unsupported(f"{info.field_name}: static validation")
        return value

    def flags(self) -> list[str] | None:
        """The validator's arguments from here on down, or None to inherit them."""
        return self.output_validator_args


class LegacyTestSettings(_Section):
    """testdata.yaml of the legacy format."""

    on_reject: str = Field(default="break", pattern=r"^(break|continue)$")
    grading: str = "default"
    grader_flags: Flags = Field(default_factory=list)
    input_validator_flags: Any = None
    output_validator_flags: Any = None
    accept_score: Any = None
    reject_score: Any = None
    range: Any = None

    @field_validator("accept_score", "reject_score")
    @classmethod
    def _score(cls, value: Any, info: ValidationInfo) -> float | None:
        if value is None:
            return None
        score = _number(value)
        if score is None or not math.isfinite(score):
            raise ValueError(f"{info.field_name}: '{str(value)[:40]}' is not a number")
        return score

    @field_validator("range")
    @classmethod
    def _range(cls, value: Any) -> tuple[float | None, float | None]:
        words = value.split() if isinstance(value, str) else value
        bounds = [_number(word) for word in words] if isinstance(words, list) else []
        low, high = bounds if len(bounds) == 2 else (None, None)
        if low is None or high is None or low > high:
            raise ValueError(f"range: '{str(value)[:40]}' is not two numbers, the smaller first")
        return (low if math.isfinite(low) else None), (high if math.isfinite(high) else None)

    @field_validator("grading")
    @classmethod
    def _grading(cls, value: str) -> str:
        if value != "default":
            raise _unsupported(f"grading: '{value[:40]}'")
        return value

    @field_validator("grader_flags")
    @classmethod
    def _grader_flags(cls, value: list[str]) -> list[str]:
        unknown = [flag for flag in value if flag not in GRADER_FLAGS]
        if unknown:
            msg = f"grader_flags: the default grader has no flag '{unknown[0][:40]}'; it has {', '.join(GRADER_FLAGS)}"
            raise ValueError(msg)
        return value

    @field_validator("output_validator_flags")
    @classmethod
    def _validator_flags(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, str):
            raise _unsupported("output_validator_flags: flags for one validator of several")
        return value

    def flags(self) -> list[str] | None:
        """The validator's flags from here on down, or None to inherit them."""
        return None if self.output_validator_flags is None else str(self.output_validator_flags).split()


def read(data: bytes, where: str) -> yamltext.Document:
    """One YAML file of a package; an empty one has no keys. PackageError `where:line: sentence`.

    Aliases, repeated keys and deep nesting are refused: they only occur by mistake or in attacks.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise PackageError(f"{where}:{line}: is not UTF-8 text; save it as UTF-8") from None
    try:
        found = yamltext.read(text, where, plain=True)
    except ConfigError as exc:
        raise PackageError(clean(str(exc), 400)) from None
    if found.value is not None and not isinstance(found.value, dict):
        raise PackageError(f"{where}:1: expected a mapping of settings, found {type(found.value).__name__}")
    return replace(found, value=found.value or {})


def parse(model: type[T], data: bytes, where: str) -> T:
    """One YAML file of a package as a model; PackageError for the first fault, as `read`."""
    document = read(data, where)
    try:
        return check(model, document)
    except ConfigError as exc:
        raise PackageError(clean(str(exc), 400)) from None


def parse_ini(data: bytes, where: str) -> dict[str, str]:
    """DOMjudge's domjudge-problem.ini: `key = value` lines without a section; values may be quoted."""
    parser = configparser.ConfigParser(interpolation=None, strict=True, default_section="")
    try:
        parser.read_string("[problem]\n" + data.decode("utf-8-sig"))
    except (configparser.Error, UnicodeDecodeError) as exc:
        first = str(exc).splitlines()[0]
        raise PackageError(f"{where}: is not a list of 'key = value' lines: {clean(first)}") from None
    return {key: value.strip().strip("'\"") for key, value in parser["problem"].items()}


def seconds(text: str, where: str) -> float:
    """A time limit as some file spells it, in seconds."""
    try:
        value = float(text.strip()) if len(text) < 100 else float("nan")
    except ValueError:
        value = float("nan")
    if not 0 < value <= 600:
        raise PackageError(
            f"{where}: the time limit must be a number of seconds from 0 to 600, found '{clean(text, 40)}'"
        )
    return value
