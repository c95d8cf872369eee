"""The rows of a package's submissions as they are judged, for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rich.text import Text

from judge.common.text import decimal
from judge.ctl import show
from judge.model import messages as m
from judge.problems.examples import Example


class LabelledRow(Protocol):
    task: m.Task

    @property
    def label(self) -> str: ...


@dataclass
class ExampleRow:
    example: Example
    task: m.Task

    @property
    def label(self) -> str:
        return self.example.candidate.path

    @property
    def wrong(self) -> str:
        """The reason why its outcome is not what its folder stands for; empty when it is, or not known yet."""
        if not self.task.done:
            return ""
        return self.example.wrong(self.task.verdict, self.task.result or m.Result())

    @property
    def right(self) -> bool:
        return not self.wrong

    def mark(self) -> Text:
        if not self.task.done:
            return Text("")
        return Text("✓", style="green") if self.right else Text("✗", style="bold red")

    def as_json(self) -> dict[str, Any]:
        result = self.task.result or m.Result()
        return {
            "id": self.task.id,
            "submission": self.example.file,
            "language": self.example.candidate.language,
            "verdict": self.task.verdict,
            "expected": self.example.candidate.description,
            "right": self.right,
            "wrong": self.wrong,
            "cpu": result.cpu,
            "memory": result.memory,
            "executor": self.task.judged_by,
            "latency": self.task.latency,
        }


@dataclass
class SubmissionRow(ExampleRow):
    """One submission of a package and its task; `limit` is the CPU limit in its language, in seconds.

    `beyond`: its task under a limit of `raised` seconds, for one that must be too slow; ended at the deciding test.
    """

    limit: float
    beyond: m.Task | None = None
    raised: float = 0.0

    @property
    def too_slow(self) -> bool:
        return any(test.verdict is m.Verdict.TLE for test in (self.task.result or m.Result()).tests)

    @property
    def margin(self) -> float | None:
        """The limit as a multiple of its CPU time; None when it did not run or ran into the limit."""
        result = self.task.result
        return None if result is None or not result.cpu or self.too_slow else self.limit / result.cpu

    @property
    def excess(self) -> float | None:
        """The time it took at least, as a multiple of the limit; None: not measured, or another verdict ended it."""
        if self.beyond is None or self.beyond.result is None:
            return None
        if self.beyond.verdict is m.Verdict.TLE:  # maybe for its wall time
            return max(self.beyond.result.cpu, self.raised) / self.limit
        return self.beyond.result.cpu / self.limit if self.beyond.verdict is m.Verdict.AC else None

    def as_json(self) -> dict[str, Any]:
        result = self.task.result or m.Result()
        return {
            "id": self.task.id,
            "submission": self.example.candidate.path,
            "language": self.example.candidate.language,
            "verdict": self.task.verdict,
            "score": result.score,
            "expected": self.example.candidate.description,
            "right": self.right,
            "wrong": self.wrong,
            "cpu": result.cpu,
            "limit": self.limit,
            "margin": self.margin,
            "excess": self.excess,
        }


def table_of(rows: Sequence[SubmissionRow]) -> show.Grid:
    scored = any(row.task.result is not None and row.task.result.score is not None for row in rows)
    score = ["score>"] if scored else []
    grid = show.grid(
        "submission", "language", "verdict!", *score, "expected!", "!", "max cpu>", "limit>", "margin>", "wrong¶"
    )
    for row in rows:
        result = row.task.result
        points = [show.points(result.score) if result else ""] if scored else []
        grid.add_row(
            row.example.candidate.path,
            row.example.candidate.language,
            show.verdict_text(row.task),
            *points,
            row.example.candidate.description,
            row.mark(),
            show.seconds(result.cpu) if result else "",
            f"{decimal(row.limit)} s",
            _margin(row),
            Text(row.wrong, style="red"),
        )
    return grid


def _margin(row: SubmissionRow) -> str:
    if row.margin is not None:
        return f"{row.margin:.1f}x"
    return f"{row.excess:.1f}x over" if row.excess is not None else ""
