"""Works out how groups of tests are scored, from what their files say: pure functions (docs/problems-format.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from judge.common.errors import PackageError
from judge.common.text import decimal, unequal
from judge.model.problem import LegacyGroup, ProblemTest, StaticTest, TestGroup
from judge.problems import metadata
from judge.problems.reading import settings
from judge.problems.scoring.base import nearly_equal

SECRET = "secret"  # noqa: S105 - a folder


def shared(groups: Sequence[TestGroup], where: Callable[[str], str]) -> list[TestGroup]:
    """The draft's groups with the points that it infers: what is left of those above is shared evenly. PackageError."""
    secret = next((group for group in groups if group.name == SECRET), None)
    if secret is None or secret.max_score is None:
        return list(groups)
    below = [group for group in groups if group is not secret]
    silent = [group for group in below if group.max_score is None]
    group_total = math.fsum(group.max_score or 0.0 for group in below)
    if secret.aggregation == "min":
        share = secret.max_score
    elif group_total > secret.max_score and not nearly_equal(group_total, secret.max_score):
        max_text, total = unequal(secret.max_score, group_total)
        raise PackageError(f"{where(SECRET)}: max_score: is {max_text}, less than the {total} of its groups")
    else:
        share = max(0.0, secret.max_score - group_total) / max(1, len(silent))
    return [group.model_copy(update={"max_score": share}) if group in silent else group for group in groups]


def check(
    groups: Sequence[TestGroup],
    tests: Sequence[ProblemTest],
    statics: Sequence[StaticTest],
    where: Callable[[str], str],
    report: Callable[[str], None],
) -> None:
    """The rules of 2025-09 that groups must keep among themselves; PackageError for the first that is broken.

    `report` is told of what is read all the same: a required group with another aggregation passes when its tests do.
    """
    secret = next((group for group in groups if group.name == SECRET), None)
    if secret is None:
        return
    preceding = {"sample": "pass-fail"}
    # A group of its own for each test makes as many of both: they are not compared with each other.
    filled = {static.group for static in statics}
    filled.update(test.name[:at] for test in tests for at, char in enumerate(test.name) if char == "/")
    for group in groups:
        place = where(group.name)
        if group.max_score is None and group.aggregation == "pass-fail":
            raise PackageError(f"{place}: max_score: a group with aggregation pass-fail needs a maximum score")
        if group.max_score is None and secret.max_score is not None:
            raise PackageError(f"{place}: max_score: is unbounded, but that of secret is {decimal(secret.max_score)}")
        if secret.aggregation == "pass-fail" and group.aggregation != "pass-fail":
            raise PackageError(f"{place}: score_aggregation: must be pass-fail, as it is for secret")
        _check_required(group, preceding, place, report)
        preceding[group.name] = group.aggregation
        if group.name not in filled:
            raise PackageError(f"{place}: its group has no tests; add some, or remove the folder")


def _check_required(group: TestGroup, preceding: Mapping[str, str], place: str, report: Callable[[str], None]) -> None:
    for name in group.require_pass:
        if name not in preceding or (group.name == SECRET and name != "sample"):
            raise PackageError(f"{place}: require_pass: '{name[:80]}' is no group that comes before this one")
        if preceding[name] != "pass-fail":
            report(
                f"{place}: require_pass: '{name[:80]}' must have aggregation pass-fail; here it passes when all its "
                "tests are accepted, with whatever part of their points"
            )


def grader(
    name: str, keys: Mapping[str, object], overall: metadata.GradingSection, where: str, report: Callable[[str], None]
) -> LegacyGroup:
    """A legacy grader's settings of one folder, out of the keys that it and the folders above it set.

    `overall` is the grading of problem.yaml, which is older and wins, as in problemtools; `report` is told of flags
    that the default grader does not have.
    """
    merged = {**keys, **{key: value for key in _SCORES if (value := getattr(overall, key)) is not None}}
    if overall.on_reject is not None:
        merged["on_reject"] = "continue" if overall.on_reject == "grade" else "break"
    raw = merged.get("grader_flags", [])
    flags = metadata.split(raw) if isinstance(raw, str | list) else []
    values: dict[str, object] = {"name": name}
    if merged.get("grading") == "custom":
        values |= {"custom": True, "flags": flags}
    else:
        values |= _default_grader(flags, where, report)
    values |= {key: merged[key] for key in ("on_reject", *_SCORES[:2]) if merged.get(key) is not None}
    bounds = merged.get("range")
    if isinstance(bounds, tuple):
        values["low"], values["high"] = bounds
    return LegacyGroup.model_validate(values)


_SCORES = ("accept_score", "reject_score", "range")


def _default_grader(flags: Sequence[str], where: str, report: Callable[[str], None]) -> dict[str, object]:
    """Read the flags of the default grader. Of several modes the last one counts; unknown flags are skipped."""
    flags = [settings.OLD_MODES.get(flag, flag) for flag in flags]
    unknown = [flag for flag in flags if flag not in settings.GRADER_FLAGS]
    if unknown:
        flags_text = ", ".join(settings.GRADER_FLAGS)
        report(f"{where}: grader_flags: the default grader has no flag '{unknown[0][:40]}'; it has {flags_text}")
    values: dict[str, object] = {
        "ignore_sample": "ignore_sample" in flags,
        "accept_if_any": "accept_if_any_accepted" in flags,
    }
    for flag in flags:
        if flag in settings.VERDICT_MODES:
            values["verdict"] = flag
        elif flag in settings.SCORE_MODES:
            values["score"] = flag
    return values


def decisive(graders: Sequence[LegacyGroup]) -> bool:
    """Return whether the graders of a pass-fail problem can make a difference to the first failing test's verdict."""
    return any(
        group.custom
        or group.verdict == "always_accept"
        or group.accept_if_any
        or group.ignore_sample
        or (group.on_reject == "continue" and group.verdict != "first_error")
        for group in graders
    )
