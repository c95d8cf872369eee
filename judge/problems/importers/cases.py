"""Tests and subtasks of any format, written as `data/` of format 2025-09.

That format has samples without points, and one level of groups below `secret`, which add up. A group gives all or
nothing (`pass-fail`), the smallest of its tests (`min`), or shares its points equally among them (`sum`). Tests with
different points of their own become groups of one test each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from judge.common.errors import PackageError
from judge.problems.importers.draft import Content, Draft, as_number, slug
from judge.problems.tree import clean

# Factors that make points with fractions whole: all of them are multiplied by one of these.
_SCALES = (1, 2, 4, 5, 10, 20, 100, 1000)
_MOST = 10**9
# A long decimal number is as close as this to the fraction that it is written for.
_WRITTEN = Fraction(1, 10**12)
_SAMPLE = "sample"
_HIDDEN = "data/secret"
Rule = Literal["all", "min", "each"]


@dataclass
class ImportedCase:
    """One test. `settings` are the keys of its NAME.yaml; `points` matter in a subtask of rule `each`."""

    name: str
    input: Content
    answer: Content
    sample: bool = False
    points: Fraction | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass
class ImportedSubtask:
    """Tests that are scored together. `requires` are names of subtasks that come before; `settings` of its group."""

    name: str
    cases: list[ImportedCase]
    points: Fraction = Fraction(0)
    rule: Rule = "all"
    requires: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)


def points(text: Any, where: str) -> Fraction:
    """A number of points as formats write them; PackageError for anything else, and for negative or absurd ones."""
    try:
        value = Fraction(str(text).strip()) if len(str(text)) <= 40 and not re.search("[eE_]", str(text)) else None
    except (ValueError, ZeroDivisionError):
        value = None
    if value is None or not 0 <= value <= _MOST:
        raise PackageError(f"{where}: '{str(text)[:40]}' is not a number of points; expected 0 or more")
    return value


def write_plain(draft: Draft, cases: Sequence[ImportedCase]) -> None:
    """A pass-fail problem's tests: samples, and secret ones in the order given."""
    samples = [case for case in cases if case.sample]
    secret = [case for case in cases if not case.sample]
    if not secret:
        # The format wants secret tests; a problem that has nothing but samples is judged by them.
        secret = samples
        draft.report.dropped("secret tests: there are none; the samples are judged as secret tests, too")
    _write(draft, "data/sample", samples)
    _write(draft, "data/secret", secret)


def write_scored(
    draft: Draft,
    subtasks: Sequence[ImportedSubtask],
    *,
    partial: bool = False,
    samples: Sequence[ImportedCase] | None = None,
) -> None:
    """A scoring problem's tests. `partial`: its checker may give a part of a test's points (see testlib.py).

    Samples are shown, and judged in their subtask as well where it has points; `samples` are those that are shown where
    they are not all among the subtasks' tests.
    """
    groups = _groups(draft, _ordered(draft, subtasks), partial=partial)
    raw_points = [_raw_points(group.points) for group in groups]
    scale = _scale(raw_points)
    if scale != 1:
        rounded = " and rounded" if any((value * scale).denominator != 1 for value in raw_points) else ""
        draft.report.dropped(
            f"points with fractions: the format has whole ones, so all are multiplied by {scale}{rounded}"
        )
    draft.kind("scoring")
    whole_points = dict(
        zip((group.name for group in groups), _whole_points([value * scale for value in raw_points]), strict=True)
    )
    draft.group(_HIDDEN, {"max_score": sum(whole_points.values()), "score_aggregation": "sum"})
    sample_cases = [case for subtask in subtasks for case in subtask.cases] if samples is None else samples
    _write_samples(draft, sample_cases, partial=partial)
    width = len(str(len(groups)))
    folders = {group.name: f"{number:0{width}d}_{slug(group.name)}" for number, group in enumerate(groups, 1)}
    for group in groups:
        settings: dict[str, Any] = {
            "max_score": whole_points[group.name],
            "score_aggregation": {"all": "pass-fail", "min": "min", "each": "sum"}[group.rule],
        }
        if group.requires:
            settings["require_pass"] = [
                name if name == _SAMPLE else f"secret/{folders[name]}" for name in group.requires
            ]
        if partial and group.rule != "all":
            case_points = whole_points[group.name] / (len(group.cases) if group.rule == "each" else 1)
            times = ["--times", str(scale)] if scale != 1 else []
            settings["output_validator_args"] = [
                *_flags(draft, _HIDDEN),
                "--points",
                str(as_number(case_points)),
                *times,
            ]
        folder = f"data/secret/{folders[group.name]}"
        draft.group(folder, {**settings, **group.settings})
        _write(draft, folder, group.cases)


def write_unbounded(draft: Draft, cases: Sequence[ImportedCase]) -> None:
    """A scoring problem whose checker alone says how many points a test is worth."""
    draft.kind("scoring")
    flags = [*_flags(draft, _HIDDEN), "--unbounded"]
    draft.group(_HIDDEN, {"max_score": "unbounded", "score_aggregation": "sum", "output_validator_args": flags})
    _write_samples(draft, cases, partial=True)
    _write(draft, "data/secret", [case for case in cases if not case.sample] or cases)


def _flags(draft: Draft, folder: str) -> list[str]:
    return list(draft.groups.get(folder, {}).get("output_validator_args", []))


def _write_samples(draft: Draft, cases: Sequence[ImportedCase], *, partial: bool) -> None:
    samples = [case for case in cases if case.sample]
    if samples and partial:
        draft.group("data/sample", {"output_validator_args": [*_flags(draft, "data/sample"), "--any"]})
    _write(draft, "data/sample", samples)


def _write(draft: Draft, folder: str, cases: Sequence[ImportedCase]) -> None:
    """The tests of one folder, under names that sort in this order."""
    width = len(str(len(cases)))
    plain = [slug(case.name) for case in cases]
    # The own names stay where they already sort like this, and where files are handed in that are called so.
    use_numbers = plain == sorted(plain) or "submit-answer" in draft.problem.get("type", ())
    keep = use_numbers and len({name.lower() for name in plain}) == len(plain)
    for number, (case, name) in enumerate(zip(cases, plain, strict=True), 1):
        base = f"{folder}/{name if keep else f'{number:0{width}d}_{name}'}"
        draft.put(base + ".in", case.input)
        draft.put(base + ".ans", case.answer)
        if case.settings:
            draft.put_yaml(base + ".yaml", case.settings)


def _ordered(draft: Draft, subtasks: Sequence[ImportedSubtask]) -> list[ImportedSubtask]:
    """Subtasks, each after those that it requires, else in the order given.

    PackageError for a circle, and for two of one name: nothing says which of them others require.
    """
    ordered: list[ImportedSubtask] = []
    waiting: dict[str, ImportedSubtask] = {}
    for subtask in subtasks:
        if waiting.setdefault(subtask.name, subtask) is not subtask:
            name = clean(subtask.name, 40)
            raise PackageError(f"{draft.tree.label}: two subtasks are called '{name}'; give each a name of its own")
    for subtask in subtasks:
        for name in subtask.requires:
            if name not in waiting:
                draft.report.dropped(f"subtask {subtask.name}: requires '{clean(name, 40)}', which there is not")
    while waiting:
        ready = next((subtask for subtask in waiting.values() if waiting.keys().isdisjoint(subtask.requires)), None)
        if ready is None:
            first = f"{draft.tree.label}: subtask '{clean(next(iter(waiting)), 40)}'"
            raise PackageError(f"{first} requires itself by way of others; break the circle")
        ordered.append(waiting.pop(ready.name))
    return ordered


def _groups(draft: Draft, subtasks: Sequence[ImportedSubtask], *, partial: bool) -> list[ImportedSubtask]:
    """Subtasks as groups of the format: those whose tests have points of their own may fall into several."""
    required = {name for subtask in subtasks for name in subtask.requires}
    became: dict[str, list[str]] = {}
    groups: list[ImportedSubtask] = []
    for subtask in subtasks:
        if not subtask.cases:
            draft.report.dropped(f"subtask {subtask.name}: it has no tests")
            became[subtask.name] = [part for name in subtask.requires for part in became.get(name, [])]
            continue
        requires = list(dict.fromkeys(part for name in subtask.requires for part in became.get(name, [])))
        parts = _split(subtask, required=subtask.name in required, partial=partial)
        became[subtask.name] = [group.name for group in parts]
        if subtask.name in required and any(group.rule != "all" for group in parts):
            draft.report.dropped(
                f"what dependencies on subtask {subtask.name} ask for: they are fulfilled when all its tests are "
                "accepted, also with a part of their points"
            )
        if all(case.sample for case in subtask.cases) and not sum(group.points for group in parts):
            # Samples without points are the format's own group of samples.
            became[subtask.name] = [_SAMPLE]
            continue
        groups += [
            ImportedSubtask(group.name, group.cases, group.points, group.rule, requires, subtask.settings)
            for group in parts
        ]
    return groups


def _split(subtask: ImportedSubtask, *, required: bool, partial: bool) -> list[ImportedSubtask]:
    """One subtask as groups. Only a group that gives all or nothing can be required by others."""
    if subtask.rule != "each":
        return [subtask]
    case_points = [
        case.points if case.points is not None else subtask.points / len(subtask.cases) for case in subtask.cases
    ]
    total = sum(case_points, Fraction(0))
    if len(set(case_points)) == 1 and total.denominator == 1 and not (required and not partial):
        return [ImportedSubtask(subtask.name, subtask.cases, total, "each")]
    rule: Rule = "each" if partial else "all"
    return [
        ImportedSubtask(f"{subtask.name} {number} {case.name}", [case], value, rule)
        for number, (case, value) in enumerate(zip(subtask.cases, case_points, strict=True), 1)
    ]


def _raw_points(value: Fraction) -> Fraction:
    """A third or a seventh where a program wrote it as a long decimal number (33.333333333333336); else the number."""
    simple = value.limit_denominator(_SCALES[-1])
    return simple if abs(simple - value) <= _WRITTEN * max(value, Fraction(1)) else value


def _scale(values: Sequence[Fraction]) -> int:
    """The smallest factor that makes all points whole, or the largest one, after which they are rounded."""
    for factor in _SCALES:
        if all((value * factor).denominator == 1 for value in values):
            return factor
    common = math.lcm(*(value.denominator for value in values))
    return min(common, _SCALES[-1])


def _whole_points(values: Sequence[Fraction]) -> list[int]:
    """Whole points that add up to the rounded sum: what is left over goes to the largest fractions."""
    floors = [math.floor(value) for value in values]
    remainder = round(sum(values)) - sum(floors)
    for index in sorted(range(len(values)), key=lambda place: floors[place] - values[place])[:remainder]:
        floors[index] += 1
    return floors
