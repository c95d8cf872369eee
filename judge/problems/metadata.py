"""Reads a package's problem.yaml, in any version of the format (docs/problems-format.md).

A key that decides no verdict is left alone whatever it says; one that does, and that means nothing here, is an error:
a package must be judged as its author meant or not at all. Keys of another version are read as that version reads them.
"""

from __future__ import annotations

import contextlib
import difflib
import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import UnionType
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from judge import config
from judge.common import yamltext
from judge.common.errors import ConfigError, PackageError
from judge.config.reading import check, explain
from judge.model.labels import Labels, labels_of
from judge.model.problem import ProblemType, Traits, together
from judge.problems.reading.findings import Findings
from judge.problems.reading.formats import CURRENT, DOMJUDGE, FORMATS, SPELLINGS, Format
from judge.problems.tree import clean

YAML_BYTES = 256 * 1024

# Words of the legacy format after `validation: custom`. A validator that scores makes no problem a scoring one.
_CUSTOM = ("score", *(kind.traits.legacy for kind in ProblemType if kind.traits.legacy))
# Keys that belong to the legacy format, and what they are in the newer ones.
_OLD_KEYS = {
    "validation": "the folder output_validator/ and 'type' say it",
    "validator_flags": "it is 'output_validator_args' of data/test_group.yaml",
    "grading": "it is data/secret/test_group.yaml",
    "author": "it is 'credits'",
    "source_url": "it is 'source.url'",
}
_LEAST_MIB = 4  # the least that executors can enforce
_CONSTANT = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
# Other systems' names of a key of ours. No tool of the format reads these, so a limit of that name is none.
_REPLACEMENTS = {
    "time": "time_limit", "timeout": "time_limit", "time_limit_seconds": "time_limit", "cpu_time": "time_limit",
    "memory_limit": "memory", "mem": "memory", "memlimit": "memory", "memory_mb": "memory", "output_limit": "output",
    "title": "name", "problem_type": "type",
}  # fmt: skip
# The likeness from which an unknown key is taken for a slip of the pen for one that decides verdicts.
_SIMILARITY = 0.8
_TRIES = 4

# Infinity as other tools write it.
_INFINITE = re.compile(r"[+-]?(?:inf|infinity)", re.IGNORECASE)
# What somebody means as a number.
_LIKE_NUMBER = re.compile(r"[-+.]*[0-9].*")

T = TypeVar("T", bound=BaseModel)


def words(value: Any) -> Any:
    """A sequence where the format also allows one bare string, or words with blanks or commas between them."""
    return value.replace(",", " ").split() if isinstance(value, str) else value


def number(value: Any) -> float | None:
    """A number as YAML has it, also `inf` and `+inf`, which it reads as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and not _INFINITE.fullmatch(value):
        try:
            value = yamltext.number(value) if len(value) < 100 else None
        except ValueError:
            value = None
    try:
        result = math.nan if value is None else float(value)
    except OverflowError:
        return None
    return None if math.isnan(result) else result


def split(value: str | list[str], dialect: str = "") -> list[str]:
    """Flags as they are handed over; where DOMjudge reads them, a quoted part is one of them."""
    if isinstance(value, list):
        return value
    if dialect == DOMJUDGE:
        with contextlib.suppress(ValueError):
            return shlex.split(value)
    return value.split()


def _validation(value: Any) -> Any:
    """`custom interactive` as one string; early drafts had a mapping: `{interactive: true}`."""
    if isinstance(value, dict):
        return " ".join(["custom", *(str(key) for key, enabled in value.items() if enabled)])
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(value)
    return value


def _constants(value: Any) -> Any:
    """Constants by name; BAPCtools also allows a mapping of spellings, of which `value` is the plain one."""
    if not isinstance(value, dict):
        return value
    return {
        str(name): yamltext.text_of(constant, "value")
        if isinstance(constant, dict) and "value" in constant
        else constant
        for name, constant in value.items()
    }


def _score(value: Any, info: ValidationInfo) -> float | None:
    if value is None:
        return None
    score = number(value)
    if score is None or not math.isfinite(score):
        raise ValueError(f"{info.field_name}: '{str(value)[:40]}' is not a number")
    return score


def _range(value: Any, info: ValidationInfo) -> tuple[float | None, float | None] | None:
    if value is None:
        return None
    parts = value.split() if isinstance(value, str) else value
    bounds = [number(part) for part in parts] if isinstance(parts, list) else []
    low, high = bounds if len(bounds) == 2 else (None, None)
    if low is None or high is None or low > high:
        raise ValueError(f"{info.field_name}: '{str(value)[:40]}' is not two numbers, the smaller first")
    return (low if math.isfinite(low) else None), (high if math.isfinite(high) else None)


Score = Annotated[float | None, BeforeValidator(_score)]
Range = Annotated[tuple[float | None, float | None] | None, BeforeValidator(_range)]
Text = Annotated[str, StringConstraints(max_length=4096)]
Words = Annotated[list[Text], BeforeValidator(words)]
Flags = Text | list[Text]


class Written(BaseModel):
    """Some keys of a stranger's file. A key that is a text has it as the file writes it, whatever YAML makes of it.

    NULLS: keys whose text may be a word for nothing, such as Null.
    """

    NULLS: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        texts = {}
        for name, raw in value.items():
            key = str(name) if isinstance(name, int | float) else name
            field = cls.model_fields.get(key) if isinstance(key, str) else None
            texts[key] = raw
            if field is None or (raw is None and key not in cls.NULLS):
                continue
            text = yamltext.text_of(value, name)
            texts[key] = item = _worded(field.annotation, raw, text)
            is_odd = isinstance(item, str) and _LIKE_NUMBER.fullmatch(item) and number(item) is None
            types = _parts(field.annotation)
            if {int, float} & set(types) and str not in types and (is_odd or isinstance(raw, bool)):
                raise config.fault(f"{key}: '{text[:40]}' is not a number; write it such as 90 or 2.5", key)
        return texts


class Section(Written):
    """Some keys of a file. A misspelt key of DECIDES is an error, as verdicts depend on it."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    DECIDES: ClassVar[frozenset[str]] = frozenset()


class TimeMultipliers(Section):
    """The margins between the time limit and the example submissions; `judgectl problem verify` checks them."""

    DECIDES = frozenset({"ac_to_time_limit", "time_limit_to_tle"})
    ac_to_time_limit: float = Field(default=2.0, ge=1, le=1000, allow_inf_nan=False)
    time_limit_to_tle: float = Field(default=1.5, ge=1, le=1000, allow_inf_nan=False)


class LimitsSection(Section):
    """`limits` of all versions; seconds, MiB, KiB. Bounds are those of what executors enforce."""

    time_limit: float | None = Field(default=None, gt=0, le=600, allow_inf_nan=False)
    time_resolution: float = Field(default=1.0, gt=0, le=600, allow_inf_nan=False)
    time_multipliers: TimeMultipliers = TimeMultipliers()
    time_multiplier: float = Field(default=5.0, gt=0, le=1000, allow_inf_nan=False)
    time_safety_margin: float = Field(default=2.0, gt=0, le=1000, allow_inf_nan=False)
    memory: float | None = Field(default=None, ge=0, le=65536, allow_inf_nan=False)
    output: float | None = Field(default=None, ge=0, le=1024, allow_inf_nan=False)
    code: float | None = Field(default=None, gt=0, le=16384, allow_inf_nan=False)
    # The limits of compilers: the format's own "typical system default".
    compilation_time: float = Field(default=60, gt=0, le=600, allow_inf_nan=False)
    compilation_memory: float = Field(default=2048, ge=64, le=65536, allow_inf_nan=False)
    validation_time: float = Field(default=60, gt=0, le=600, allow_inf_nan=False)
    validation_memory: float = Field(default=2048, ge=4, le=65536, allow_inf_nan=False)
    validation_output: float = Field(default=8, gt=0, le=1024, allow_inf_nan=False)
    validation_passes: int | None = Field(default=None, ge=2, le=1000)

    @field_validator("memory")
    @classmethod
    def _enough(cls, value: float | None) -> float | None:
        if value is not None and 0 < value < _LEAST_MIB:
            raise ValueError(f"a program needs {_LEAST_MIB} MiB or more; 0 is the usual limit")
        return value


LimitsSection.DECIDES = frozenset(LimitsSection.model_fields)


class GradingSection(Section):
    """`grading` of a legacy problem.yaml. The last four are older than the format's text, and hold for all groups."""

    DECIDES = frozenset({"accept_score", "reject_score", "range", "on_reject"})
    objective: Any = None
    show_test_data_groups: Any = None
    accept_score: Score = None
    reject_score: Score = None
    range: Range = None
    on_reject: Literal["first_error", "worst_error", "grade"] | None = None


class ProblemYaml(Section):
    """problem.yaml of all versions. What only describes the problem is not looked into."""

    DECIDES = frozenset(
        {"problem_format_version", "type", "limits", "validation", "validator_flags", "languages", "constants"}
    )
    NULLS = frozenset({"name"})
    problem_format_version: str = "legacy"
    type: Words = Field(default_factory=lambda: ["pass-fail"])
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
    difficulty: Any = None
    limits: LimitsSection = LimitsSection()
    validation: Annotated[str, BeforeValidator(_validation)] = "default"
    validator_flags: Flags = ""
    grading: GradingSection = GradingSection()
    languages: Words = Field(default_factory=lambda: ["all"])
    allow_file_writing: bool = False
    constants: Annotated[dict[str, str] | None, BeforeValidator(_constants)] = None

    @model_validator(mode="before")
    @classmethod
    def _flags_within(cls, value: Any) -> Any:
        """`validation: {validator_flags: …}`, as a converter of Polygon's packages writes it, is both keys."""
        within = value.get("validation") if isinstance(value, dict) else None
        if not isinstance(within, dict) or "validator_flags" not in within or value.get("validator_flags"):
            return value
        rest = {key: item for key, item in within.items() if key != "validator_flags"}
        return {**value, "validation": rest or "default", "validator_flags": within["validator_flags"] or ""}

    @property
    def legacy(self) -> bool:
        return self.format.legacy

    @property
    def labels(self) -> Labels:
        return labels_of(self.keywords, self.difficulty)

    @property
    def format(self) -> Format:
        return FORMATS[self.problem_format_version]

    @field_validator("problem_format_version")
    @classmethod
    def _version(cls, value: str) -> str:
        name = SPELLINGS.get(value, value)
        if name not in FORMATS:
            versions = ", ".join(FORMATS)
            raise ValueError(f"problem_format_version: '{value[:40]}' is not known; expected one of {versions}")
        return name

    @field_validator("type")
    @classmethod
    def _type(cls, value: list[str]) -> list[str]:
        types = tuple(ProblemType)
        for kind in value or [""]:
            if kind not in types:
                raise ValueError(f"type: '{kind[:40]}' is not a type of problem; expected some of {', '.join(types)}")
        if set(value) & set(together(value).apart):
            text = ", ".join(value)
            raise ValueError(f"type: '{text}' contradicts itself; choose one of those that exclude each other")
        return list(dict.fromkeys(value))

    @field_validator("validation")
    @classmethod
    def _known_validation(cls, value: str) -> str:
        validation = value.split()
        if validation != ["default"] and (validation[:1] != ["custom"] or set(validation[1:]) - set(_CUSTOM)):
            expected = ", ".join(_CUSTOM)
            msg = f"validation: '{value[:40]}' is not known; expected default, or custom with some of {expected}"
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
    def _known_constants(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        for name in value or {}:
            if not _CONSTANT.fullmatch(name):
                raise ValueError(f"constants: '{name[:40]}' cannot be a constant's name; use letters, digits and _")
        return value

    @model_validator(mode="after")
    def _check_types(self) -> Self:
        types = self.types
        if set(types) & set(self.traits.apart):
            raise config.fault(f"type: {', '.join(types)} contradict each other", "validation", "type")
        return self

    @property
    def custom(self) -> bool:
        """Return whether `validation` announces a custom output validator."""
        return self.validation.startswith("custom")

    @property
    def types(self) -> list[ProblemType]:
        """The types by `type` and the legacy `validation` together, in the order of the table."""
        words = self.validation.split()
        types = {*self.type, *(kind for kind in ProblemType if kind.traits.legacy in words)}
        return [kind for kind in ProblemType if kind in types or (kind is ProblemType.PASS_FAIL and not self.scoring)]

    @property
    def traits(self) -> Traits:
        return together(self.types)

    @property
    def scoring(self) -> bool:
        return together(self.type).has_score

    def title(self) -> str:
        """The problem's name for people: the English one, else the first by language; empty when there is none."""
        if isinstance(self.name, dict):
            return clean(self.name.get("en") or next((self.name[key] for key in sorted(self.name)), ""))
        return clean(self.name or "")


@dataclass(frozen=True)
class SettingsSource(Generic[T]):
    """A settings file that has been read: what it says, and where each part of it stands."""

    settings: T
    where: str
    lines: Mapping[tuple[Any, ...], int]

    def at(self, *path: str) -> str:
        """`file:line` of a key, for people."""
        return f"{self.where}:{self.lines.get(path, 1)}"


def read(data: bytes, where: str, repeats: list[str] | None = None) -> yamltext.Document:
    """One YAML file of a package; an empty one has no keys. PackageError `where:line: sentence`.

    Aliases, repeated keys (without `repeats`) and deep nesting are refused: they are mistakes, or attacks.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise PackageError(f"{where}:{line}: is not UTF-8 text; save it as UTF-8") from exc
    try:
        document = yamltext.read(text, where, plain=True, repeats=repeats)
    except ConfigError as exc:
        raise PackageError(clean(str(exc), 400)) from exc
    if document.value is not None and not isinstance(document.value, dict):
        raise PackageError(f"{where}:1: expected a mapping of settings, found {yamltext.kind_of(document.value)}")
    return replace(document, value=document.value or yamltext.Fields())


def parse(model: type[T], data: bytes, where: str) -> T:
    """One YAML file of a package as a model; PackageError for the first fault, as `read`, unknown keys among them."""
    document = read(data, where)
    try:
        return check(model, document)
    except ConfigError as exc:
        raise PackageError(clean(str(exc), 400)) from exc


def load(model: type[T], document: yamltext.Document, findings: Findings) -> SettingsSource[T]:
    """A file's settings. What is wrong in them becomes errors, and is left out; what is unknown becomes warnings."""
    lines = document.lines()
    value = _known_keys(model, document.value, document, lines, (), findings)
    for _ in range(_TRIES):
        try:
            return SettingsSource(model.model_validate(value), document.source, lines)
        except ValidationError as exc:
            faults = explain(exc, model, replace(document, value=value))
        wrong: set[Any] = set()
        for fault in faults:
            findings.error(clean(f"{fault.place}: {fault.sentence}", 400))
            wrong.add(fault.path[0] if fault.path else None)
        value = {key: item for key, item in value.items() if str(key) not in wrong}
        if "problem_format_version" in wrong:
            value["problem_format_version"] = CURRENT
    return SettingsSource(model.model_validate({}), document.source, lines)


def _replacement(name: str, model: type[BaseModel], *, top: bool) -> str:
    """A question behind the warning of a key that is called otherwise here, or stands in `limits`; or nothing."""
    plain = name.lower().replace("-", "_")
    suggestion = _REPLACEMENTS.get(plain, plain)
    if suggestion in model.model_fields:
        return f"; is '{suggestion}' meant?"
    return f"; is 'limits.{suggestion}' meant?" if top and suggestion in LimitsSection.model_fields else ""


def _known_keys(
    model: type[BaseModel],
    value: Mapping[Any, Any],
    document: yamltext.Document,
    lines: Mapping[tuple[Any, ...], int],
    above: tuple[str, ...],
    findings: Findings,
) -> dict[str, Any]:
    """The keys that a model knows, in sections below it, too; a key without a value is as if it were not there."""
    fields = yamltext.Fields()
    fields.written = getattr(value, "written", {})
    nulls: frozenset[str] = getattr(model, "NULLS", frozenset())
    decides: frozenset[str] = getattr(model, "DECIDES", frozenset())
    for key, item in value.items():
        name = str(key)
        path = (*above, name)
        if name not in model.model_fields:
            sentence = f"{document.source}:{lines.get(path, 1)}: unknown key '{clean('.'.join(path), 80)}'"
            suggestions = difflib.get_close_matches(name, decides, n=1, cutoff=_SIMILARITY)
            if suggestions:
                findings.error(f"{sentence}; did you mean '{suggestions[0]}'?")
            else:
                findings.warning(f"{sentence}; it is left alone{_replacement(name, model, top=not above)}")
        elif item is not None or (name in nulls and yamltext.text_of(value, name)):
            section = _section(model.model_fields[name].annotation)
            fields[name] = item
            if section is not None and isinstance(item, dict):
                fields[name] = _known_keys(section, item, document, lines, path, findings)
    return fields


def _worded(annotation: Any, value: Any, text: str) -> Any:
    """A value as the text that the file has in its place, if the annotation has text where the value is none."""
    parts = [part for part in _parts(annotation) if part is not type(None)]
    if isinstance(value, list):
        kind = next((get_args(part)[0] for part in parts if get_origin(part) is list), Any)
        return [_worded(kind, item, yamltext.text_of(value, index)) for index, item in enumerate(value)]
    if isinstance(value, dict):
        kinds = next((get_args(part) for part in parts if get_origin(part) is dict), None)
        if kinds is None:
            return value
        return {
            str(key) if kinds[0] is str else key: _worded(kinds[1], item, yamltext.text_of(value, key))
            for key, item in value.items()
            if item is not None or yamltext.text_of(value, key)
        }
    lists = [part for part in parts if get_origin(part) is list]
    texts = str in parts or (value is not None and any(str in _parts(get_args(part)[0]) for part in lists))
    return value if isinstance(value, str) or not texts or type(value) in parts else text or value


def _parts(annotation: Any) -> list[Any]:
    """The types of a union, without what is annotated to them."""
    if get_origin(annotation) is Annotated:
        return _parts(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        return [inner for part in get_args(annotation) for inner in _parts(part)]
    return [annotation]


def _section(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((section for part in get_args(annotation) if (section := _section(part)) is not None), None)


def review(source: SettingsSource[ProblemYaml], findings: Findings) -> None:
    """Warnings about what is unusual in problem.yaml, and what is made of it."""
    yaml = source.settings
    fields_set = yaml.model_fields_set
    if not yaml.legacy:
        for key in sorted(fields_set & _OLD_KEYS.keys()):
            sentence = f"belongs to the legacy format ({_OLD_KEYS[key]}); it is read as there"
            findings.warning(f"{source.at(key)}: {key}: {sentence}")
        if yaml.name is None:
            findings.warning(f"{source.at()}: key 'name' is missing; format {yaml.format.name} requires it")
    for key in ("memory", "output"):
        if getattr(yaml.limits, key) == 0:
            findings.warning(f"{source.at('limits', key)}: limits.{key}: is 0; the usual limit counts, as in DOMjudge")
    if yaml.limits.validation_passes is not None and yaml.traits.passes == 1:
        findings.warning(
            f"{source.at('limits', 'validation_passes')}: limits.validation_passes: belongs to multi-pass problems; "
            "it is left alone, as 'type' does not say multi-pass"
        )
    if str(yaml.grading.objective) == "min":
        findings.warning(
            f"{source.at('grading', 'objective')}: grading.objective: is 'min'; scores are what the package computes, "
            "but the larger one counts as the better"
        )


def seconds(text: str, where: str) -> float:
    value = number(text.strip())
    if value is None or not 0 < value <= 600:
        sentence = f"the time limit must be a number of seconds from 0 to 600, found '{clean(text, 40)}'"
        raise PackageError(f"{where}: {sentence}")
    return value
