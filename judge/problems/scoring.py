"""From the verdicts of tests to that of the submission, and to its score: pure functions (docs/judging.md).

`standing` answers both questions of a judging: what is it worth so far, and which tests must still be run? A test that
has not been run counts as one that passed, so the answer to the second is what would be run if all went well; it
shrinks with every failure. When nothing is missing, the verdict stands. What was run beyond that (by a slot that
helped, or in full mode) never changes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from judge.model.messages import GroupScore, Verdict
from judge.model.problem import LegacyGroup, ProblemManifest, ProblemType, TestGroup

ROOT = ""
SAMPLE, SECRET = "sample", "secret"
_SLACK = 1e-9


@dataclass(frozen=True)
class Judged:
    """What the scoring needs to know of one test that was run."""

    verdict: Verdict
    score: float | None = None
    multiplier: float | None = None


@dataclass
class Standing:
    """What a submission is worth. `missing` are tests that must still be run, in order; final when it is empty.

    `used` are the tests that decide; `error` is a sentence when the problem's own scoring is at fault (verdict JE).
    """

    verdict: Verdict = Verdict.AC
    failed: str | None = None
    score: float | None = None
    groups: list[GroupScore] = field(default_factory=list)
    used: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    error: str = ""


class _FaultError(Exception):
    """The problem's scoring is at fault in this test or group."""

    def __init__(self, where: str, sentence: str) -> None:
        super().__init__(f"{where}: {sentence}")
        self.where = where


def group_of(name: str) -> str:
    """The folder of a test or group: `secret/a/1` is in `secret/a`."""
    return name.rpartition("/")[0]


def standing(problem: ProblemManifest | Sequence[str], results: Mapping[str, Judged]) -> Standing:
    """Where a submission stands after these results; see the module's text. Called by the executor.

    `problem` is a manifest, or the names of the tests in judging order where there is none.
    """
    found = Standing()
    if not isinstance(problem, ProblemManifest):
        _first_failing(problem, results, found)
        return found
    try:
        if problem.graders:
            _Legacy(problem, results, found).evaluate()
        elif ProblemType.SCORING in problem.type:
            _Current(problem, results, found).evaluate()
        else:
            _first_failing([test.name for test in problem.tests], results, found)
    except _FaultError as fault:
        found.verdict, found.score, found.error, found.missing = Verdict.JE, None, str(fault), []
        found.failed = found.failed or (fault.where if fault.where in results else None)
    return found


def _first_failing(names: Sequence[str], results: Mapping[str, Judged], found: Standing) -> None:
    """Pass-fail: the first failing test in judging order decides, and nothing after it counts."""
    for name in names:
        found.used.append(name)
        judged = results.get(name)
        if judged is None:
            found.missing.append(name)
        elif judged.verdict is not Verdict.AC:
            found.verdict, found.failed = judged.verdict, name
            return


class _Evaluation:
    """What both formats share: looking at one test."""

    def __init__(self, manifest: ProblemManifest, results: Mapping[str, Judged], found: Standing) -> None:
        self.manifest = manifest
        self.results = results
        self.found = found
        self.names = [test.name for test in manifest.tests]

    def look(self, name: str) -> Judged | None:
        """A test's result, noted as used or missing; a judge error in it ends everything."""
        self.found.used.append(name)
        judged = self.results.get(name)
        if judged is None:
            self.found.missing.append(name)
        elif judged.verdict is Verdict.JE:
            self.found.failed = name
            raise _FaultError(name, "the judge's error in this test leaves the submission without a verdict")
        return judged


class _Current(_Evaluation):
    """Scoring problems of format 2025-09."""

    def evaluate(self) -> None:
        """Sample, then every group of `secret`, then `secret` itself."""
        groups = {group.name: group for group in self.manifest.groups}
        secret = groups.get(SECRET, TestGroup(name=SECRET, max_score=100.0, aggregation="sum"))
        passed = {SAMPLE: self._sample()}
        below = [group for group in self.manifest.groups if group.name != SECRET]
        scores: list[float] = []
        if not all(passed.get(name, False) for name in secret.require_pass):
            self._skip(secret)
            scores, passed[SECRET] = [0.0], False
        elif below:
            for group in below:
                scores.append(self._group(group, passed))
                if scores[-1] == 0.0 and not passed[group.name] and secret.aggregation != "sum":
                    break
            passed[SECRET] = all(passed.get(group.name, False) for group in below)
        else:
            tests = [name for name in self.names if name.startswith(SECRET + "/")]
            scores, passed[SECRET] = self._tests(secret, tests)
        self.found.score = _aggregate(secret, scores, passed=passed[SECRET])
        self._note(secret, self.found.score)

    def _sample(self) -> bool:
        for name in self.names:
            if name.startswith(SAMPLE + "/"):
                judged = self.look(name)
                if judged is not None and judged.verdict is not Verdict.AC:
                    self._fail(name, judged.verdict)
                    return False
        return True

    def _group(self, group: TestGroup, passed: dict[str, bool]) -> float:
        """One group's score; `passed` learns whether all its tests passed."""
        if not all(passed.get(name, False) for name in group.require_pass):
            self._skip(group)
            passed[group.name] = False
            return 0.0
        tests = [name for name in self.names if name.startswith(group.name + "/")]
        scores, passed[group.name] = self._tests(group, tests)
        score = _aggregate(group, scores, passed=passed[group.name])
        self._note(group, score)
        return score

    def _tests(self, group: TestGroup, tests: Sequence[str]) -> tuple[list[float], bool]:
        """The scores of a group's tests, up to where no further one could change the group's."""
        most = group.max_score
        if most is not None and group.aggregation == "sum" and tests:
            most /= len(tests)
        scores = []
        passed = True
        for name in tests:
            judged = self.look(name)
            scores.append(_test_score(name, judged, most, group.aggregation))
            if judged is not None and judged.verdict is not Verdict.AC:
                passed = False
                self._fail(name, judged.verdict)
                if group.aggregation != "sum":
                    break
        return scores, passed

    def _fail(self, name: str, verdict: Verdict) -> None:
        if self.found.failed is None:
            self.found.verdict, self.found.failed = verdict, name

    def _skip(self, group: TestGroup) -> None:
        """A group that needs another one to pass, which did not."""
        self.found.groups.append(GroupScore(name=group.name, verdict="skipped", score=0.0, max_score=group.max_score))

    def _note(self, group: TestGroup, score: float) -> None:
        if any(one.name == group.name for one in self.found.groups):
            return
        verdict = next(
            (
                judged.verdict
                for name in self.found.used
                if name.startswith(group.name + "/")
                and (judged := self.results.get(name)) is not None
                and judged.verdict is not Verdict.AC
            ),
            Verdict.AC,
        )
        self.found.groups.append(GroupScore(name=group.name, verdict=verdict, score=score, max_score=group.max_score))


def _test_score(name: str, judged: Judged | None, most: float | None, aggregation: str) -> float:
    """One test's score in a group of 2025-09; `most` is its maximum, None when unbounded."""
    if judged is None:
        return most or 0.0
    given = judged.score is not None or judged.multiplier is not None
    accepted = judged.verdict is Verdict.AC
    if given and not accepted:
        raise _FaultError(name, "the output validator rejects the output and gives it a score")
    if given and aggregation == "pass-fail":
        raise _FaultError(name, "the output validator gives a score in a group with aggregation pass-fail")
    if not accepted or aggregation == "pass-fail":
        return 0.0
    return _given_score(name, judged, most)


def _given_score(name: str, judged: Judged, most: float | None) -> float:
    """The score of a test that passed: what the validator says, else the maximum."""
    if judged.score is not None and judged.multiplier is not None:
        raise _FaultError(name, "the output validator gives both score.txt and score_multiplier.txt")
    if most is None:
        if judged.score is None:
            raise _FaultError(name, "the maximum score is unbounded, so the output validator must give a score.txt")
        return judged.score
    if judged.multiplier is not None:
        return judged.multiplier * most
    if judged.score is not None and judged.score > most + _SLACK:
        raise _FaultError(name, f"the output validator gives {judged.score:g} where {most:g} is the maximum")
    return most if judged.score is None else judged.score


def _aggregate(group: TestGroup, scores: Sequence[float], *, passed: bool) -> float:
    if group.aggregation == "pass-fail":
        return (group.max_score or 0.0) if passed else 0.0
    score = sum(scores) if group.aggregation == "sum" else min(scores, default=0.0)
    if group.max_score is not None and score > group.max_score + _SLACK:
        raise _FaultError(group.name, f"the score {score:g} is above the group's max_score {group.max_score:g}")
    return round(score, 9)


class _Legacy(_Evaluation):
    """The default grader of the legacy format, folder by folder."""

    def evaluate(self) -> None:
        """The root's result is the submission's."""
        self._groups = {group.name: group for group in self.manifest.graders}
        self._children: dict[str, list[str]] = {}
        known: set[str] = set()
        for name in self.names:
            child = name
            while child not in known:
                known.add(child)
                self._children.setdefault(group_of(child), []).append(child)
                if not group_of(child):
                    break
                child = group_of(child)
        self._tests = frozenset(self.names)
        self._scoring = ProblemType.SCORING in self.manifest.type
        verdict, score, failed = self._group(ROOT)
        self.found.verdict = verdict
        self.found.failed = failed if verdict is not Verdict.AC else None
        self.found.score = round(score, 9) if self._scoring else None

    def _grader(self, name: str) -> LegacyGroup:
        """A folder's own settings, else those of the closest folder above that has some."""
        while name not in self._groups and name != ROOT:
            name = group_of(name)
        return self._groups.get(name, LegacyGroup(name=ROOT))

    def _group(self, name: str) -> tuple[Verdict, float, str | None]:
        """Verdict, score and deciding test of one folder."""
        grader = self._grader(name)
        results: list[tuple[Verdict, float, str | None]] = []
        for child in self._children.get(name, []):
            if child in self._tests:
                judged = self.look(child)
                verdict = Verdict.AC if judged is None else judged.verdict
                results.append((verdict, _legacy_score(judged, grader), child))
            else:
                results.append(self._group(child))
            ignored = grader.ignore_sample and name == ROOT and child == SAMPLE
            if results[-1][0] is not Verdict.AC and grader.on_reject == "break" and not ignored:
                break
        if grader.ignore_sample and name == ROOT and len(results) > 1:
            results = results[1:2]
        verdict, failed = _legacy_verdict(results, grader)
        score = _legacy_sum([score for _, score, _ in results], grader)
        if verdict is not Verdict.AC:
            score = grader.reject_score
        elif self._scoring and not self.found.missing:
            _check_range(name, score, grader)
        if name != ROOT:
            told = score if self._scoring else None
            self.found.groups.append(GroupScore(name=name, verdict=verdict, score=told, max_score=grader.high))
        return verdict, score, failed


def _legacy_score(judged: Judged | None, grader: LegacyGroup) -> float:
    if judged is not None and judged.verdict is not Verdict.AC:
        return grader.reject_score
    if judged is not None and judged.score is not None:
        return judged.score
    return grader.accept_score


def _legacy_verdict(
    results: Sequence[tuple[Verdict, float, str | None]], grader: LegacyGroup
) -> tuple[Verdict, str | None]:
    """The verdict of a folder by its grader's mode, and the first test that has it."""
    bad = [(verdict, failed) for verdict, _, failed in results if verdict is not Verdict.AC]
    accepted = not bad or grader.verdict == "always_accept" or (grader.accept_if_any and len(bad) < len(results))
    if accepted:
        return Verdict.AC, None
    if grader.verdict == "first_error":
        return bad[0]
    return max(bad, key=lambda one: one[0].about.severity)


def _legacy_sum(scores: Sequence[float], grader: LegacyGroup) -> float:
    if not scores:
        return 0.0
    if grader.score in {"sum", "avg"}:
        return sum(scores) / (len(scores) if grader.score == "avg" else 1)
    return min(scores) if grader.score == "min" else max(scores)


def _check_range(name: str, score: float, grader: LegacyGroup) -> None:
    low, high = grader.low, grader.high
    if (low is not None and score < low - _SLACK) or (high is not None and score > high + _SLACK):
        limits = f"{'-inf' if low is None else f'{low:g}'} {'inf' if high is None else f'{high:g}'}"
        raise _FaultError(name or "data", f"the score {score:g} is outside the group's range {limits}")
