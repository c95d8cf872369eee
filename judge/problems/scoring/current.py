"""Scoring problems of format 2025-09: groups of `secret`, static validation test cases, required groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from judge.common.text import unequal
from judge.model.messages import GroupScore, Verdict
from judge.model.problem import StaticTest, TestGroup
from judge.problems.scoring.base import SAMPLE, SECRET, Evaluation, Judged, ScoringError, group_of, rounded, snapped


class Current(Evaluation):
    """Sample, then every group of `secret`, then `secret` itself."""

    def evaluate(self) -> None:
        self._static = {static.name: static for static in self.manifest.static_tests}
        self._tests_below: dict[str, list[str]] = {}
        for name in self.names:
            folder = group_of(name)
            while folder:
                self._tests_below.setdefault(folder, []).append(name)
                folder = group_of(folder)
        groups = {group.name: group for group in self.manifest.groups}
        secret = groups.get(SECRET, TestGroup(name=SECRET, max_score=100.0, aggregation="sum"))
        passed = {SAMPLE: self._sample()}
        if not _allowed(secret, passed):
            self.standing.score = 0.0
            self._skip(secret)
            return
        below = [group for group in self.manifest.groups if group.name != SECRET]
        if below:
            static_test = StaticTest(group=SECRET).name
            scores, verdict = self._tests(secret, [static_test] if static_test in self._static else [])
            fine = verdict is Verdict.AC
            for group in below if fine or secret.aggregation == "sum" else []:
                scores.append(self._group(group, passed))
                if scores[-1] == 0.0 and not passed[group.name] and secret.aggregation != "sum":
                    break
            fine = fine and all(passed.get(group.name, False) for group in below)
            verdicts = [verdict, *(group.verdict for group in self.standing.groups)]
            first_failing = next((verdict for verdict in verdicts if verdict not in {"AC", "skipped"}), Verdict.AC)
        else:
            scores, first_failing = self._tests(secret, self._tests_below.get(SECRET, []))
            fine = first_failing is Verdict.AC
        score = _aggregate(secret, scores, passed=fine)
        self.standing.score = rounded(score, secret.max_score)
        self._note(secret, first_failing, score)

    def _sample(self) -> bool:
        for name in self.names:
            if name.startswith(SAMPLE + "/"):
                judged = self.look(name)
                if judged is not None and judged.verdict is not Verdict.AC:
                    self.fail(name, judged.verdict)
                    return False
        return True

    def _group(self, group: TestGroup, passed: dict[str, bool]) -> float:
        """One group's score; `passed` learns whether all its tests passed."""
        passed[group.name] = False
        if not _allowed(group, passed):
            self._skip(group)
            return 0.0
        scores, verdict = self._tests(group, self._tests_below.get(group.name, []))
        passed[group.name] = verdict is Verdict.AC
        score = _aggregate(group, scores, passed=passed[group.name])
        self._note(group, verdict, score)
        return score

    def _most(self, group: TestGroup, tests: Sequence[str]) -> dict[str, float | None]:
        """The maximum of each test of a group: what the static test leaves is shared by the others of a sum."""
        static = {name: self._static[name].score or 0.0 for name in tests if name in self._static}
        highest = group.max_score
        dynamic_count = len(tests) - len(static)
        if highest is not None and group.aggregation == "sum" and dynamic_count:
            highest = (highest - math.fsum(static.values())) / dynamic_count
        return {name: static.get(name, highest) for name in tests}

    def _tests(self, group: TestGroup, tests: Sequence[str]) -> tuple[list[float], Verdict]:
        """The scores of a group's tests, up to where no further one could change the group's; the first fault."""
        scores = []
        verdict = Verdict.AC
        for name, most in self._most(group, tests).items():
            judged = self.look(name)
            scores.append(_test_score(name, judged, most, group.aggregation))
            if judged is not None and judged.verdict is not Verdict.AC:
                verdict = judged.verdict if verdict is Verdict.AC else verdict
                self.fail(name, judged.verdict)
                if group.aggregation != "sum":
                    break
        return scores, verdict

    def _skip(self, group: TestGroup) -> None:
        """Note a group that needs another one to pass, which did not."""
        self._note(group, "skipped", 0.0)

    def _note(self, group: TestGroup, verdict: str, score: float) -> None:
        score = rounded(score, group.max_score)
        self.standing.groups.append(
            GroupScore(name=group.name, verdict=verdict, score=score, max_score=group.max_score)
        )


def _allowed(group: TestGroup, passed: Mapping[str, bool]) -> bool:
    """Return whether all groups have passed that this one requires."""
    return all(passed.get(name, False) for name in group.require_pass)


def _test_score(name: str, judged: Judged | None, most: float | None, aggregation: str) -> float:
    """One test's score in a group of 2025-09; `most` is its maximum, None when unbounded."""
    if judged is None:
        return most or 0.0
    has_score = judged.score is not None or judged.multiplier is not None
    accepted = judged.verdict is Verdict.AC
    if has_score and not accepted:
        raise ScoringError(name, "the output validator rejects the output and gives it a score")
    if has_score and aggregation == "pass-fail":
        raise ScoringError(name, "the output validator gives a score in a group with aggregation pass-fail")
    if not accepted or aggregation == "pass-fail":
        return 0.0
    return _given_score(name, judged, most)


def _given_score(name: str, judged: Judged, most: float | None) -> float:
    """The score of a test that passed: what the validator says, else the maximum."""
    if judged.score is not None and judged.multiplier is not None:
        raise ScoringError(name, "the output validator gives both score.txt and score_multiplier.txt")
    if most is None:
        if judged.score is None:
            raise ScoringError(name, "the maximum score is unbounded, so the output validator must give a score.txt")
        return judged.score
    if judged.multiplier is not None:
        return judged.multiplier * most
    if judged.score is None:
        return most
    score = snapped(judged.score, most)
    if score > most:
        score_text, limit = unequal(score, most)
        raise ScoringError(name, f"the output validator gives {score_text} where {limit} is the maximum")
    return score


def _aggregate(group: TestGroup, scores: Sequence[float], *, passed: bool) -> float:
    if group.aggregation == "pass-fail":
        return (group.max_score or 0.0) if passed else 0.0
    score = math.fsum(scores) if group.aggregation == "sum" else min(scores, default=0.0)
    score = snapped(score, group.max_score)
    if group.max_score is not None and score > group.max_score:
        score_text, limit = unequal(score, group.max_score)
        raise ScoringError(group.name, f"the score {score_text} is above the group's max_score {limit}")
    return score
