"""Expectations of a package about its own submissions: by folders, and by submissions.yaml (docs/problems-format.md).

The format knows four verdicts for a test, WORDS; the table of verdicts says which of them each of ours satisfies, and
some folders ask for one of ours. Nothing here talks to a cluster: `judgectl problem verify` and `judgectl examples`
bring the results.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from pydantic import ConfigDict, Field, RootModel, ValidationError, field_validator

from judge.common.errors import PackageError
from judge.common.text import decimal, unequal
from judge.languages.table import Language, find, guess
from judge.model.base import first_fault
from judge.model.messages import Result, TestResult, Verdict
from judge.problems import metadata
from judge.problems.folders import expected, folder_of
from judge.problems.package import Package
from judge.problems.reading import formats
from judge.problems.scoring.base import nearly_equal, snapped
from judge.problems.tree import clean

CLASSES = ("AC", "WA", "TLE", "RTE")
# The bounds that submissions are of the time limit (Rule.bound).
LOWER, UPPER, UNUSED = "lower", "upper", "unused"
# submissions.yaml says scores by six decimals.
_SLACK = 1e-6
# A glob with braces stands for so many patterns at most.
MOST = 64


@dataclass(frozen=True)
class Rule:
    """One requirement on the submissions that `glob` matches, for the tests that `tests` matches (empty: all).

    `exact` are the verdicts that the submission may have, where that is the requirement; `partial` is one on its score,
    which must be below the most. `bound` says whether its times are a bound of the time limit: LOWER, it must stay
    within the limit, or UPPER, it must be too slow; UNUSED: submissions.yaml says that they are none.
    """

    glob: str
    tests: str = ""
    permitted: frozenset[str] = frozenset(CLASSES)
    required: frozenset[str] = frozenset(CLASSES)
    score: tuple[float, float] | None = None
    message: str = ""
    language: str | None = None
    exact: frozenset[Verdict] = frozenset()
    partial: bool = False
    description: str = ""
    bound: str = ""
    entry: str | None = None


def _rule(glob: str, permitted: str, required: str, description: str, bound: str = "") -> Rule:
    classes = frozenset(permitted.split()), frozenset(required.split())
    return Rule(glob, permitted=classes[0], required=classes[1], description=description, bound=bound)


_SHARED = (
    _rule("accepted", "AC", "AC", "AC", LOWER),
    _rule("rejected", "AC WA TLE RTE", "WA TLE RTE", "not AC"),
    _rule("brute_force", "AC RTE TLE", "RTE TLE", "TLE or RTE"),
    Rule("compile_error", exact=frozenset({Verdict.CE}), description="CE"),
    Rule("compiler_error", exact=frozenset({Verdict.CE}), description="CE"),
)
_PARTIAL = Rule("partially_accepted", exact=frozenset({Verdict.AC}), partial=True, description="AC, not all points")
# What the format calls a wrong answer.
_WA_VERDICTS = frozenset(verdict for verdict in Verdict if "WA" in verdict.about.package.split())
CURRENT = (
    *_SHARED,
    _rule("wrong_answer", "AC WA", "WA", "WA"),
    _rule("time_limit_exceeded", "AC TLE", "TLE", "TLE", UPPER),
    _rule("run_time_error", "AC RTE", "RTE", "RTE"),
)
LEGACY = (
    *_SHARED,
    # The folder names the verdict of the whole submission there; a later test may end in any way.
    Rule("wrong_answer", exact=_WA_VERDICTS, description="WA"),
    _rule("time_limit_exceeded", "AC WA TLE", "TLE", "TLE", UPPER),
    _rule("run_time_error", "AC WA TLE RTE", "RTE", "RTE"),
    _rule("memory_limit_exceeded", "AC RTE", "MLE", "MLE"),
    _rule("output_limit_exceeded", "AC WA RTE", "OLE", "OLE"),
    _PARTIAL,
)
DRAFT = (*CURRENT, _PARTIAL)
_RULES = {formats.CURRENT: CURRENT, formats.DRAFT: DRAFT}


class _Demand(metadata.Written):
    model_config = ConfigDict(extra="forbid")

    permitted: list[str] | None = None
    required: list[str] | None = None
    score: float | list[float] | None = None
    message: str = ""
    use_for_time_limit: bool | str | None = None

    @field_validator("permitted", "required")
    @classmethod
    def _check_verdicts(cls, value: list[str] | None) -> list[str] | None:
        for word in value or ():
            if word not in CLASSES:
                raise ValueError(f"'{word[:40]}' is no verdict of the format; expected some of {', '.join(CLASSES)}")
        return value

    @field_validator("use_for_time_limit")
    @classmethod
    def _use(cls, value: bool | str | None) -> bool | str | None:
        if value not in (None, True, False, LOWER, UPPER):
            raise ValueError(f"'{str(value)[:40]}' is no use for the time limit; expected false, {LOWER} or {UPPER}")
        return value

    @field_validator("score")
    @classmethod
    def _bounds(cls, value: float | list[float] | None) -> float | list[float] | None:
        if isinstance(value, list) and (len(value) != 2 or value[0] > value[1]):
            raise ValueError("must be a number, or two numbers with the smaller first")
        return value


class _Entry(_Demand):
    model_config = ConfigDict(extra="allow")

    language: str | None = None
    entrypoint: str | None = None
    authors: Any = None
    model_solution: bool = False


class _ExpectationsFile(RootModel[dict[str, _Entry]]):
    root: dict[str, _Entry] = Field(default_factory=dict)


def read_rules(package: Package) -> list[Rule]:
    """All requirements of a package: those of its folders, changed and added to by submissions.yaml; PackageError."""
    rules = {rule.glob: rule for rule in _RULES.get(package.yaml.format.name, LEGACY)}
    extra: list[Rule] = []
    if package.expectations is not None:
        data, where = package.expectations
        for raw_glob, entry in _parse(data, where).items():
            # Globs are relative to submissions/; some packages write it all the same.
            glob = raw_glob.removeprefix("submissions/").rstrip("/")
            _check_glob(glob, where)
            base = rules.get(glob, Rule(glob))
            changed = _demand(base, entry)
            description = base.description if replace(changed, bound=base.bound) == base else ""
            changed = replace(changed, language=entry.language, entry=entry.entrypoint, description=description)
            if glob in rules:
                rules[glob] = changed
            else:
                extra.append(changed)
            place = f"{where}: {clean(glob, 80)}"
            for tests, demand in (entry.model_extra or {}).items():
                _check_glob(tests, place)
                extra.append(_demand(Rule(glob, tests=tests), _inner(demand, place, tests)))
    return [*rules.values(), *extra]


def _check_glob(glob: str, where: str) -> None:
    try:
        _braces(glob)
    except PackageError as exc:
        raise PackageError(f"{where}: {exc}") from exc


def _parse(data: bytes, where: str) -> dict[str, _Entry]:
    try:
        value = {str(glob): entry for glob, entry in metadata.read(data, where).value.items()}
        return _ExpectationsFile.model_validate(value).root
    except ValidationError as exc:
        raise PackageError(f"{where}: {clean(str(first_fault(exc)), 300)}") from None


def _inner(value: Any, where: str, tests: str) -> _Demand:
    try:
        return _Demand.model_validate(value)
    except ValidationError as exc:
        raise PackageError(f"{where}: {clean(tests, 80)}: {clean(str(first_fault(exc)), 300)}") from None


def _demand(base: Rule, demand: _Demand) -> Rule:
    """A rule that submissions.yaml changes, with the bound that it says, or that follows from its verdicts."""
    score = [demand.score] * 2 if isinstance(demand.score, int | float) else demand.score
    has_verdicts = demand.permitted is not None or demand.required is not None
    rule = replace(
        base,
        exact=frozenset() if has_verdicts else base.exact,
        permitted=base.permitted if demand.permitted is None else frozenset(demand.permitted),
        required=base.required if demand.required is None else frozenset(demand.required),
        score=None if score is None else (score[0], score[1]),
        message=demand.message,
    )
    use = demand.use_for_time_limit
    if use is False:
        return replace(rule, bound=UNUSED)
    if use == LOWER:
        return replace(rule, bound=LOWER, permitted=rule.permitted - {"TLE"})
    if use == UPPER:
        return replace(rule, bound=UPPER, required=frozenset({"TLE"}))
    if demand.required is not None and rule.required == {"TLE"}:
        return replace(rule, bound=UPPER)
    if demand.permitted is not None and "TLE" not in rule.permitted:
        return replace(rule, bound=LOWER)
    return replace(rule, bound="") if has_verdicts else rule


def matches(glob: str, path: str) -> bool:
    """Return whether a glob of submissions.yaml matches a path or one of its parents; `*` stays within a name.

    PackageError when it stands for too many patterns; `read_rules` has refused those.
    """
    pattern = _pattern(glob)
    parts = PurePosixPath(path).parts
    return any(pattern.fullmatch("/".join(parts[: count + 1])) for count in range(len(parts)))


@functools.lru_cache
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile("|".join("/".join(map(_name_regex, pattern.split("/"))) for pattern in _braces(glob)))


def _braces(glob: str) -> list[str]:
    """`a.{py,c}` as `a.py` and `a.c`; at most MOST of them, and of pairs of braces."""
    globs: list[str] = []
    todo = [glob]
    pairs = 0
    while todo:
        glob_text = todo.pop()
        match = re.search(r"\{([^{}]*)\}", glob_text)
        if match is None:
            globs.append(glob_text)
            continue
        choices = match[1].split(",")
        pairs += 1
        if max(pairs, len(globs) + len(todo) + len(choices)) > MOST:
            msg = f"'{clean(glob, 80)}' stands for more than {MOST} patterns; write fewer alternatives in braces"
            raise PackageError(msg)
        todo += [glob_text[: match.start()] + choice + glob_text[match.end() :] for choice in reversed(choices)]
    return globs


def _name_regex(name: str) -> str:
    """Every `*` but the last is as short as it can be: nothing is tried twice."""
    first, *parts = map(re.escape, name.split("*"))
    if not parts:
        return first
    return first + "".join(f"(?>[^/]*?{part})" for part in parts[:-1]) + f"[^/]*{parts[-1]}"


@dataclass(frozen=True)
class Candidate:
    """One submission of the package: one source, or the files of a folder by their names below it.

    `skipped` says why it cannot be handed in; then there is no language. `entry` is what submissions.yaml says is
    started.
    """

    path: str
    source: bytes
    language: str
    rules: Sequence[Rule]
    skipped: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    entry: str | None = None

    @property
    def bound(self) -> str:
        """The bound of the time limit that its times are: LOWER, UPPER, or empty.

        A rule that names it and says UNUSED counts before those of its folder. PackageError: it is to be both.
        """
        bounds = {rule.bound for rule in self.rules} - {""}
        if any(rule.bound == UNUSED and not rule.tests for rule in self.rules):
            return ""
        if {LOWER, UPPER} <= bounds:
            msg = f"submissions/{self.path}: is to stay within the time limit and to exceed it; see use_for_time_limit"
            raise PackageError(msg)
        return next(iter(bounds - {UNUSED}), "")

    def slowest(self, result: Result) -> float:
        """The CPU seconds of its slowest test among those that its bound is about."""
        globs = [rule.tests for rule in self.rules if rule.bound == self.bound]
        times = [test.cpu for test in result.tests if any(not glob or matches(glob, test.name) for glob in globs)]
        return max(times, default=0.0)

    @property
    def description(self) -> str:
        """The expectation in a few words for people."""
        texts = [rule.description or _spell(rule) for rule in self.rules if not rule.tests]
        return ", ".join(dict.fromkeys(word for word in texts if word)) or "anything"


def _spell(rule: Rule) -> str:
    if rule.score is not None:
        low, high = rule.score
        return f"{decimal(low)} points" if low == high else f"{decimal(low)} to {decimal(high)} points"
    return " or ".join(word for word in CLASSES if word in rule.required) if rule.required != frozenset(CLASSES) else ""


def candidates(package: Package, table: Mapping[str, Language]) -> list[Candidate]:
    """The package's submissions in name order, with what is required of them. PackageError for submissions.yaml."""
    rules = read_rules(package)
    # Each entry of a folder of submissions/: its files by their names below it; one file by ``.
    programs: dict[str, dict[str, bytes]] = {}
    for path in sorted(package.submissions):
        parts = PurePosixPath(path).parts[1:]
        programs.setdefault("/".join(parts[:2]), {})["/".join(parts[2:])] = package.submissions[path]
    submissions = [_candidate(name, files, rules, table, package.entries) for name, files in programs.items()]
    if package.manifest.traits.has_program:
        return submissions
    # Outputs of tests, in no language.
    return [replace(entry, language="", skipped="" if entry.rules else entry.skipped) for entry in submissions]


def _candidate(
    name: str,
    files: Mapping[str, bytes],
    rules: Sequence[Rule],
    table: Mapping[str, Language],
    entries: Mapping[str, str],
) -> Candidate:
    own_rules = [rule for rule in rules if matches(rule.glob, name)]
    if not own_rules and (verdicts := expected(files.values())):
        own_rules = [Rule(name, exact=verdicts, description=" or ".join(sorted(verdicts)))]
    elif not own_rules:
        own_rules = [rule for rule in rules if rule.glob == folder_of(name)]
    language_name = next((rule.language for rule in own_rules if rule.language), None)
    entry = next((rule.entry for rule in own_rules if rule.entry), None) or entries.get(f"submissions/{name}")
    if language_name is not None:
        options = [find(language_name, table)]
    else:
        options = [guess(f"{name}/{file}" if file else name, table) for file in files]
    choices = {option for option in options if option}
    if choices == {"c", "cpp"}:
        choices = {"cpp"}
    skipped = "" if choices else "no language of the table has this suffix"
    if language_name is not None and not choices:
        skipped = f"there is no language '{clean(language_name, 40)}'"
    if len(choices) > 1:
        skipped = f"its files are in several languages: {', '.join(sorted(choices))}"
    if not own_rules:
        skipped = "neither its folder nor submissions.yaml nor an annotation says what it is for"
    language = next(iter(choices)) if len(choices) == 1 else ""
    source = files.get("", b"")
    return Candidate(name, source, language, own_rules, skipped, {} if "" in files else files, entry)


def check(rule: Rule, verdict: Verdict | None, result: Result, most: float | None = None) -> str:
    """The reason why a judged submission (in full mode) does not do what a rule requires; empty when it does.

    `most` is the highest score that there is, where that is known.
    """
    if verdict is None:
        return "it was cancelled"
    if rule.exact:
        return _check_whole(rule, verdict, result, most)
    if verdict in {Verdict.CE, Verdict.JE}:
        return f"the verdict is {verdict}: {clean(result.reason)}"
    return _check_tests(rule, result) or _check_score(rule, result)


def _check_whole(rule: Rule, verdict: Verdict, result: Result, most: float | None) -> str:
    if verdict not in rule.exact:
        return f"the verdict is {verdict}, not {' or '.join(sorted(rule.exact))}"
    if rule.partial and most is not None and result.score is not None and snapped(result.score, most) >= most:
        return f"it has all of the {decimal(most)} points"
    return ""


def _check_tests(rule: Rule, result: Result) -> str:
    tests = [test for test in result.tests if not rule.tests or matches(rule.tests, test.name)]
    where = f" in {rule.tests}" if rule.tests else ""
    refused = next((test for test in tests if not _classes_of(test) & rule.permitted), None)
    if refused is not None:
        return f"test {refused.name} is {refused.verdict}, which is not permitted"
    if rule.required != frozenset(CLASSES) and not any(_classes_of(test) & rule.required for test in tests):
        return f"no test{where} is {' or '.join(sorted(rule.required))}"
    if rule.message and not any(rule.message in test.message for test in tests):
        return f"no test{where} has a judge's message with '{clean(rule.message, 80)}'"
    return ""


def _classes_of(test: TestResult) -> frozenset[str]:
    return frozenset([test.verdict, *test.verdict.about.package.split()])


def _check_score(rule: Rule, result: Result) -> str:
    if rule.score is None:
        return ""
    score = result.score
    if rule.tests:
        score = next((group.score for group in result.groups if group.name == rule.tests), None)
    if score is None:
        return f"the score is unknown, not {_spell(rule)}"
    low, high = rule.score
    if low <= score <= high or any(nearly_equal(score, end) or abs(score - end) <= _SLACK for end in (low, high)):
        return ""
    score_text, *ends = unequal(score, low, high)
    return f"the score is {score_text}, not {' to '.join(dict.fromkeys(ends))}"
