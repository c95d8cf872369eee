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
        self._groups_by_name = {group.name: group for group in self.manifest.graders}
        root = self._groups_by_name.pop(ROOT, LegacyGroup(name=ROOT))
        self._children = children_of(self.names)
        self._every = frozenset(self.names)
        self.standing.score = rounded(self._group(root)[1])

    def _group(self, group: LegacyGroup) -> tuple[Verdict, float]:
        """The verdict of the first failing test of a group, and the group's score."""
        inside = self._children.get(group.name, [])
        groups = [self._groups_by_name[name] for name in inside if name in self._groups_by_name]
        verdict, scores = self._groups(group, groups) if groups else self._tests(group, inside)
        score = aggregate(scores, group.score)
        if group.name != ROOT:
            self.standing.groups.append(
                GroupScore(name=group.name, verdict=verdict, score=rounded(score), max_score=group.high)
            )
        return verdict, score

    def _groups(self, group: LegacyGroup, groups: Sequence[LegacyGroup]) -> tuple[Verdict, list[float]]:
        first_failing, scores = Verdict.AC, []
        for inner in groups:
            if group.ignore_sample and inner.name == SAMPLE:
                continue
            verdict, score = self._group(inner)
            scores.append(score)
            first_failing = verdict if first_failing is Verdict.AC else first_failing
            if verdict is not Verdict.AC and group.on_reject == "break":
                break
        return first_failing, scores

    def _tests(self, group: LegacyGroup, inside: Sequence[str]) -> tuple[Verdict, list[float]]:
        """The tests of a group without groups; those in folders below it belong to none."""
        first_failing, scores = Verdict.AC, []
        for name in (name for name in inside if name in self._every):
            judged = self.look(name)
            fine = judged is None or judged.verdict is Verdict.AC
            scores.append((judged.score if judged is not None else None) or 0.0 if fine else 0.0)
            if not fine and judged is not None:
                first_failing = judged.verdict if first_failing is Verdict.AC else first_failing
                self.fail(name, judged.verdict)
                if group.own_score or group.on_reject == "break":
                    break
        if group.own_score and scores:
            return first_failing, [group.accept_score if first_failing is Verdict.AC else 0.0]
        return first_failing, scores
