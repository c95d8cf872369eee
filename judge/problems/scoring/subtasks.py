"""Subtasks as IOI contests have them (judge.yaml): points for the outcomes of tests, of which one may be in several.

A test's outcome is 1 when it passed and nothing else is given, 0 when it failed, a part of 1 in `score_multiplier.txt`,
any number in `score.txt`. The rules are those of the Contest Management System's score types.
"""

from __future__ import annotations

import math

from judge.common.text import unequal
from judge.model.messages import GroupScore, Verdict
from judge.model.problem import IoiTask, Subtask
from judge.problems.scoring.base import SAMPLE, Evaluation, Judged, ScoringError, rounded, snapped


class Subtasks(Evaluation):
    """The samples that are in no subtask, then the subtasks in their order; the score is their sum."""

    def evaluate(self, task: IoiTask) -> None:
        self._judged: dict[str, Judged | None] = {}
        scored = {name for subtask in task.subtasks for name in subtask.tests}
        for name in self.names:
            if name.startswith(SAMPLE + "/") and name not in scored:
                self._once(name)
        self.standing.groups = [self._score(subtask) for subtask in task.subtasks]
        highest = math.fsum(subtask.points for subtask in task.subtasks)
        self.standing.score = rounded(
            snapped(math.fsum(group.score or 0.0 for group in self.standing.groups), highest), highest
        )

    def _once(self, name: str) -> Judged | None:
        """A test's result, which is noted and run once, in however many subtasks it is."""
        if name not in self._judged:
            judged = self._judged[name] = self.look(name)
            if judged is not None and judged.verdict is not Verdict.AC:
                self.fail(name, judged.verdict)
        return self._judged[name]

    def _score(self, subtask: Subtask) -> GroupScore:
        """One subtask, up to where no further test could change its score."""
        outcomes: list[float] = []
        verdict = Verdict.AC
        for name in subtask.tests:
            judged = self._once(name)
            outcomes.append(_outcome(name, judged, subtask))
            if judged is not None and verdict is Verdict.AC:
                verdict = judged.verdict
            if outcomes[-1] == 0 and subtask.rule != "sum":
                break
        part = {"sum": math.fsum(outcomes) / max(1, len(subtask.tests)), "mul": math.prod(outcomes)}
        score = rounded(part.get(subtask.rule, min(outcomes, default=1.0)) * subtask.points, subtask.points)
        return GroupScore(name=subtask.name, verdict=verdict, score=score, max_score=subtask.points)


def _outcome(name: str, judged: Judged | None, subtask: Subtask) -> float:
    """The worth of a test in a subtask; one that has not been run counts as passed."""
    if judged is None:
        return 1.0
    if judged.verdict is not Verdict.AC:
        return 0.0
    if judged.score is not None and judged.multiplier is not None:
        raise ScoringError(name, "the output validator gives both score.txt and score_multiplier.txt")
    fraction = judged.score if judged.score is not None else judged.multiplier
    value = 1.0 if fraction is None else fraction
    if subtask.rule == "threshold":
        return 1.0 if 0 < value <= (subtask.threshold or 0.0) else 0.0
    if not 0 <= value <= 1:
        text = unequal(value, 0.0, 1.0)[0]
        raise ScoringError(name, f"the outcome {text} is not from 0 to 1, as subtask '{subtask.name}' needs it")
    return value
