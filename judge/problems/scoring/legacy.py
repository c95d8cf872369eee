"""The legacy format's graders, folder by folder: the default one, and the package's own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from judge.common.errors import PackageError
from judge.common.text import unequal
from judge.model.messages import GroupScore, Verdict
from judge.model.problem import LegacyGroup, ProblemManifest
from judge.problems.scoring.base import (
    ROOT,
    SAMPLE,
    Evaluation,
    Grade,
    Judged,
    ScoringError,
    Standing,
    aggregate,
    children_of,
    group_of,
    rounded,
    snapped,
)

# Verdict, score and deciding test of one test or folder.
_Result = tuple[Verdict, float, str | None]


class Legacy(Evaluation):
    """Every folder's result is its grader's; the root's is the submission's."""

    def __init__(
        self, manifest: ProblemManifest, results: Mapping[str, Judged], standing: Standing, grade: Grade | None
    ) -> None:
        super().__init__(manifest, results, standing)
        self._grade = grade
        self._groups = {group.name: group for group in manifest.graders}
        self._children = children_of(self.names)
        self._tests = frozenset(self.names)
        self._scoring = manifest.traits.has_score

    def evaluate(self) -> None:
        root = self._grader(ROOT)
        verdict, score, failed = self._group(ROOT)
        self.standing.verdict = verdict
        if verdict is not Verdict.AC:
            # The format: of what is not accepted the score is ignored.
            self.standing.failed, score = failed, root.reject_score
        self.standing.score = rounded(score, root.high) if self._scoring else None

    def _grader(self, name: str) -> LegacyGroup:
        """A folder's own settings, else those of the closest folder above that has some."""
        while name not in self._groups and name != ROOT:
            name = group_of(name)
        return self._groups.get(name, LegacyGroup(name=ROOT))

    def _group(self, name: str) -> _Result:
        grader = self._grader(name)
        before = len(self.standing.missing)
        results: list[_Result] = []
        for child in self._children.get(name, []):
            if child in self._tests:
                judged = self.look(child)
                verdict = Verdict.AC if judged is None else judged.verdict
                results.append((verdict, _score_of(judged, grader), child))
            else:
                results.append(self._group(child))
            ignored = grader.ignore_sample and not grader.custom and name == ROOT and child == SAMPLE
            if results[-1][0] is not Verdict.AC and grader.on_reject == "break" and not ignored:
                break
        if grader.custom:
            complete = len(self.standing.missing) == before
            verdict, score, failed = self._custom_grade(name, grader, results, complete)
        else:
            verdict, score, failed = self._default(name, grader, results)
        if verdict is Verdict.AC and self._scoring and not self.standing.missing:
            score = _in_range(name, score, grader)
        if name != ROOT:
            points = rounded(score, grader.high) if self._scoring else None
            self.standing.groups.append(GroupScore(name=name, verdict=verdict, score=points, max_score=grader.high))
        return verdict, score, failed

    def _default(self, name: str, grader: LegacyGroup, results: list[_Result]) -> _Result:
        if grader.ignore_sample and name == ROOT and len(results) > 1:
            results = results[1:2]
        verdict, failed = _verdict(results, grader)
        score = aggregate([score for _, score, _ in results], grader.score)
        if verdict is not Verdict.AC and self.manifest.dialect != "kattis":
            score = grader.reject_score
        return verdict, score, failed

    def _custom_grade(self, name: str, grader: LegacyGroup, results: Sequence[_Result], complete: bool) -> _Result:
        """The own grader's result for a folder; as long as tests are missing, it is taken to accept."""
        if not complete or not results:
            return Verdict.AC, 0.0, None
        if self._grade is None:
            raise ScoringError(name or "data", "has a grader of its own, which cannot be asked here")
        try:
            verdict, score = self._grade(grader, [(verdict, score) for verdict, score, _ in results])
        except PackageError as exc:
            raise ScoringError(name or "data", str(exc)) from exc
        if verdict is Verdict.JE:
            raise ScoringError(name or "data", "the package's grader says JE")
        if verdict is Verdict.AC:
            return verdict, score, None
        failing = [(reason, failed) for reason, _, failed in results if reason is not Verdict.AC]
        matching = (failed for reason, failed in failing if reason.about.package.split()[:1] == [verdict])
        return verdict, score, next(matching, failing[0][1] if failing else None)


def _score_of(judged: Judged | None, grader: LegacyGroup) -> float:
    if judged is not None and judged.verdict is not Verdict.AC:
        return grader.reject_score
    if judged is not None and judged.score is not None:
        return judged.score
    return grader.accept_score


def _verdict(results: Sequence[_Result], grader: LegacyGroup) -> tuple[Verdict, str | None]:
    """The verdict of a folder by its grader's mode, and the first test that has it."""
    bad = [(verdict, failed) for verdict, _, failed in results if verdict is not Verdict.AC]
    if not bad or grader.verdict == "always_accept" or (grader.accept_if_any and len(bad) < len(results)):
        return Verdict.AC, None
    return bad[0] if grader.verdict == "first_error" else max(bad, key=lambda result: result[0].about.severity)


def _in_range(name: str, score: float, grader: LegacyGroup) -> float:
    """The score, or the end of the group's range that is the same number; ScoringError outside the range."""
    low = -math.inf if grader.low is None else grader.low
    high = math.inf if grader.high is None else grader.high
    score = snapped(snapped(score, grader.low), grader.high)
    if not low <= score <= high:
        score_text, *limits = unequal(score, low, high)
        raise ScoringError(name or "data", f"the score {score_text} is outside the group's range {' '.join(limits)}")
    return score
