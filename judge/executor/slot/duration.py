"""Estimates how long jobs of a kind take, so that a slot can say early when it will be free (docs/executor.md)."""

from __future__ import annotations

from judge.executor.channel import Job

KINDS = 256
# The share of the newest duration; the rest is what was expected before.
WEIGHT = 0.5


def kind_of(job: Job) -> str:
    """Jobs of one kind tend to take the same time: the same language on the same problem, or on as many tests."""
    submission = job.assignment.submission
    problem = job.assignment.problem
    against = problem.hash if problem is not None else str(len(submission.tests))
    return f"{submission.language or submission.command}/{against}"


class DurationEstimator:
    """Durations in seconds by kind of job; remembers the KINDS that were judged last."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    def expected(self, kind: str) -> float:
        """The seconds that such a job should take; infinity when none was judged here yet."""
        return self._seconds.get(kind, float("inf"))

    def record(self, kind: str, seconds: float) -> None:
        before = self._seconds.pop(kind, seconds)
        self._seconds[kind] = before + WEIGHT * (seconds - before)
        if len(self._seconds) > KINDS:
            del self._seconds[next(iter(self._seconds))]
