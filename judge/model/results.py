"""What each person has reached in each problem, from submissions or from parts of such a list."""

from __future__ import annotations

import csv
import datetime
import io
from collections.abc import Iterable
from typing import Final

from pydantic import Field

from judge.common.text import decimal
from judge.model.messages import Identifier, Message, SearchTime, Task, TaskId, Verdict
from judge.model.people import GroupName

COLUMNS: Final = ("user", "name", "problem", "verdict", "score", "attempts", "solved")


class ResultsQuery(Message):
    """The submissions that count: to a problem, of the present members of a group, handed in from `since` to `until`.

    `before` pages: the `next` of the answer before.
    """

    problem: Identifier | None = None
    group: GroupName | None = None
    since: SearchTime | None = None
    until: SearchTime | None = None
    before: TaskId | None = None


class ProblemResult(Message):
    """What one person has reached in one problem. The best submission is an accepted one, else that of most points."""

    user: str
    name: str = Field(default="", description="the person's display name")
    problem: str
    verdict: Verdict = Field(description="of the best submission, the newest of several")
    score: float | None = Field(default=None, description="of the best submission")
    attempts: int = Field(default=1, description="submissions that were judged")
    solved: str | None = Field(default=None, description="when the first accepted submission was handed in, UTC")

    @property
    def rank(self) -> tuple[bool, float]:
        return self.verdict is Verdict.AC, float("-inf") if self.score is None else self.score


class ResultsReply(Message):
    """A part of the results; one person and problem may be in several parts. `next` is None on the last."""

    results: list[ProblemResult]
    next: TaskId | None = None


def of_task(task: Task) -> ProblemResult | None:
    """The result that a submission alone would be; None for one that is not judged, or to no problem.

    None also for one that tries a problem out, which is in nobody's contest.
    """
    sub = task.submission
    if sub.problem_hash or sub.check or sub.cause:
        return None
    name = task.problem.name if task.problem else sub.problem
    if name is None or not task.done or task.verdict is None:
        return None
    return ProblemResult(
        user=task.submission.user,
        problem=name,
        verdict=task.verdict,
        score=task.result.score if task.result else None,
        solved=task.created if task.verdict is Verdict.AC else None,
    )


def merged(results: Iterable[ProblemResult]) -> list[ProblemResult]:
    """One result for each person and problem, by their names. Of equal ones the first is the newest; pure."""
    rows: dict[tuple[str, str], ProblemResult] = {}
    for result in results:
        key = (result.user, result.problem)
        before = rows.get(key)
        if before is None:
            rows[key] = result
            continue
        best = result if result.rank > before.rank else before
        solved = min(filter(None, (before.solved, result.solved)), key=_moment, default=None)
        rows[key] = best.model_copy(update={"attempts": before.attempts + result.attempts, "solved": solved})
    return [rows[key] for key in sorted(rows)]


def _moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def written(results: Iterable[ProblemResult]) -> str:
    """Results as CSV (RFC 4180)."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for result in results:
        score = "" if result.score is None else decimal(result.score)
        writer.writerow(
            [
                result.user,
                result.name,
                result.problem,
                result.verdict.value,
                score,
                result.attempts,
                result.solved or "",
            ]
        )
    return text.getvalue()
