"""The parts that all ways of scoring share: a judged test, the standing, and a look at one test."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from judge.model.messages import GroupScore, Verdict
from judge.model.problem import LegacyGroup, ProblemManifest

ROOT = ""
SAMPLE, SECRET = "sample", "secret"
# Scores are kept with so many decimals.
_DECIMALS = 9
# Two numbers are the same when they differ by so little of their size: a few units in the last place of a double.
_LAST_PLACES = 2.0**-50

# Asks a package's own grader about one folder: verdicts and scores of what is in it, in order, to those of the folder.
# PackageError, a sentence, when it has no answer.
Grade = Callable[[LegacyGroup, Sequence[tuple[Verdict, float]]], tuple[Verdict, float]]


@dataclass(frozen=True)
class Judged:
    verdict: Verdict
    score: float | None = None
    multiplier: float | None = None


@dataclass
class Standing:
    """The worth of a submission. `missing`: tests that must still be run, in order; it is final when there are none.

    `used_tests` are the tests that decide; `error` is a sentence if the problem's own scoring is at fault (JE).
    """

    verdict: Verdict = Verdict.AC
    failed: str | None = None
    score: float | None = None
    groups: list[GroupScore] = field(default_factory=list)
    used_tests: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    error: str = ""


class ScoringError(Exception):
    """The problem's scoring is at fault in this test or group."""

    def __init__(self, where: str, sentence: str) -> None:
        super().__init__(f"{where}: {sentence}")
        self.where = where


def rounded(score: float, most: float | None = None) -> float:
    """A score as results have it: the maximum itself, or nine decimals."""
    return score if score == most else round(score, _DECIMALS)


def nearly_equal(score: float, second: float) -> bool:
    """Return whether two scores are equal by nine decimals, or as far as sums of doubles can be."""
    return abs(score - second) <= max(10.0**-_DECIMALS, _LAST_PLACES * abs(second))


def snapped(score: float, bound: float | None) -> float:
    """The bound if the score is the same number, else the score.

    A third of 100 has no double, and three of them may be above 100 or below it.
    """
    return bound if bound is not None and nearly_equal(score, bound) else score


def group_of(name: str) -> str:
    """The folder of a test or group: `secret/a/1` is in `secret/a`."""
    return name.rpartition("/")[0]


def judging_order(manifest: ProblemManifest) -> list[str]:
    """The names of all tests in judging order: a static validation test case comes first in its group."""
    names = [test.name for test in manifest.tests]
    for static in manifest.static_tests:
        first = next((index for index, name in enumerate(names) if name.startswith(static.group + "/")), None)
        if first is None:
            first = 0 if static.group == SAMPLE else len(names)
        names.insert(first, static.name)
    return names


def children_of(names: Sequence[str]) -> dict[str, list[str]]:
    """The children of each folder, tests and folders, in judging order; the root's name is empty."""
    children: dict[str, list[str]] = {}
    below_here: set[str] = set()
    for name in names:
        child = name
        while child not in below_here:
            below_here.add(child)
            children.setdefault(group_of(child), []).append(child)
            if not group_of(child):
                break
            child = group_of(child)
    return children


def aggregate(scores: Sequence[float], mode: str) -> float:
    """The score of a legacy group by its mode: sum, avg, min or max; nothing is worth 0."""
    if not scores:
        return 0.0
    if mode in {"sum", "avg"}:
        return math.fsum(scores) / (len(scores) if mode == "avg" else 1)
    return min(scores) if mode == "min" else max(scores)


class Evaluation:
    """One look at a submission: each way of scoring fills `standing` in its `evaluate`."""

    def __init__(self, manifest: ProblemManifest, results: Mapping[str, Judged], standing: Standing) -> None:
        self.manifest = manifest
        self.results = results
        self.standing = standing
        self.names = judging_order(manifest)

    def look(self, name: str) -> Judged | None:
        """A test's result, noted as used or missing; a judge error in it ends everything."""
        self.standing.used_tests.append(name)
        judged = self.results.get(name)
        if judged is None:
            self.standing.missing.append(name)
        elif judged.verdict is Verdict.JE:
            self.standing.failed = name
            raise ScoringError(name, "the judge's error in this test leaves the submission without a verdict")
        return judged

    def fail(self, name: str, verdict: Verdict) -> None:
        """Note a test that failed: the first one decides."""
        if self.standing.failed is None:
            self.standing.verdict, self.standing.failed = verdict, name
