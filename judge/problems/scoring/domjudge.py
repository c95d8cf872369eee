"""Legacy scoring as DOMjudge reads it (its SubmissionService, release 10).

A group is `secret`, a folder with a settings file of its own, or one above such a folder; what lies in no group is not
scored, so samples count only where their folder has such a file. A group with groups in it is worth what these are
worth; any other one is worth its own `accept_score` when all of its tests pass and 0 when not, or else the scores that
the validator gives. `reject_score`, `range` and the modes of verdicts play no part.
"""

from __future__ import annotations

from collections.abc import Sequence

from judge.model.messages import GroupScore, Verdict
from judge.model.problem import LegacyGroup
from judge.problems.scoring.base import ROOT, SAMPLE, Evaluation, aggregate, children_of, rounded


class Domjudge(Evaluation):
    """The root group's score is the submission's; the verdict is that of the first failing test of all groups."""

    def evaluate(self) -> None:
        """Fill `standing`."""
        self._groups_by_name = {group.name: group for group in self.manifest.graders}
        root = self._groups_by_name.pop(ROOT, LegacyGroup(name=ROOT))
        self._children = children_of(self.names)
        self._every = frozenset(self.names)
        self.standing.score = rounded(self._group(root)[1])

    def _group(self, group: LegacyGroup) -> tuple[bool, float]:
        """Return whether all tests of a group passed, and its score."""
        inside = self._children.get(group.name, [])
        groups = [self._groups_by_name[name] for name in inside if name in self._groups_by_name]
        passed, scores = self._groups(group, groups) if groups else self._tests(group, inside)
        score = aggregate(scores, group.score)
        if group.name != ROOT:
            verdict = Verdict.AC if passed else self._first_failing(group.name)
            self.standing.groups.append(
                GroupScore(name=group.name, verdict=verdict, score=rounded(score), max_score=group.high)
            )
        return passed, score

    def _groups(self, group: LegacyGroup, groups: Sequence[LegacyGroup]) -> tuple[bool, list[float]]:
        passed, scores = True, []
        for result_group in groups:
            if group.ignore_sample and result_group.name == SAMPLE:
                continue
            fine, score = self._group(result_group)
            scores.append(score)
            passed = passed and fine
            if not fine and group.on_reject == "break":
                break
        return passed, scores

    def _tests(self, group: LegacyGroup, inside: Sequence[str]) -> tuple[bool, list[float]]:
        """The tests of a group without groups; those in folders below it belong to none."""
        passed, scores = True, []
        for name in (name for name in inside if name in self._every):
            judged = self.look(name)
            fine = judged is None or judged.verdict is Verdict.AC
            scores.append((judged.score if judged is not None else None) or 0.0 if fine else 0.0)
            if not fine and judged is not None:
                passed = False
                if self.standing.failed is None:
                    self.standing.verdict, self.standing.failed = judged.verdict, name
                if group.own_score or group.on_reject == "break":
                    break
        if group.own_score and scores:
            return passed, [group.accept_score if passed else 0.0]
        return passed, scores

    def _first_failing(self, name: str) -> Verdict:
        return next(
            judged.verdict
            for test in self.standing.used_tests
            if test.startswith(name + "/")
            and (judged := self.results.get(test)) is not None
            and judged.verdict is not Verdict.AC
        )
