"""The spans of an attempt for a receiver of traces: its steps, down to those in the sandbox."""

from __future__ import annotations

from typing import Final

from judge.daemon import tracing
from judge.model.messages import Assignment, Completed, Status

PREPARE: Final = "prepare"
WAIT: Final = "wait for a slot"
# The names of steps; the slot tells of those in the sandbox by the status that it reports.
_NAMES: Final[dict[str, str]] = {
    PREPARE: PREPARE,
    WAIT: WAIT,
    Status.COMPILING: "compile in the sandbox",
    Status.RUNNING: "run in the sandbox",
}

Marks = list[tuple[str, int]]


def mark(marks: Marks, step: str) -> None:
    """A step begins now, where it is another one than before; nothing while nobody wants spans."""
    if tracing.enabled() and step in _NAMES and (not marks or marks[-1][0] != step):
        marks.append((step, tracing.now()))


def ended(executor: str, assignment: Assignment, completed: Completed, marks: Marks) -> None:
    """An attempt has left its slot, or was given back: one span of it, and in it one of each step."""
    if not marks:
        return
    trace, task, attempt, end = assignment.trace, assignment.id, assignment.attempt, tracing.now()
    span = tracing.span_number(trace, task, "attempt", attempt)
    tracing.emit(
        "attempt",
        trace,
        span,
        marks[0][1],
        end=end,
        parent=tracing.span_number(trace, task, "judge"),
        submission=task,
        attempt=attempt,
        executor=executor,
        verdict=None if completed.verdict is None else str(completed.verdict),
        tests=len(completed.result.tests),
        cpu_seconds=completed.result.cpu,
        given_back=completed.retry or None,
        failed=completed.retry,
    )
    for number, (step, begin) in enumerate(marks):
        until = marks[number + 1][1] if number + 1 < len(marks) else end
        tracing.emit(
            _NAMES[step],
            trace,
            tracing.span_number(trace, task, "step", attempt, number),
            begin,
            end=until,
            parent=span,
            submission=task,
        )
