"""The spans of a submission for a receiver of traces: its time in the queue, and its end."""

from __future__ import annotations

from judge.daemon import tracing
from judge.judicator.documents import TaskDocument
from judge.judicator.queue.order import RANKS, is_rejudge
from judge.judicator.tasks.forms import HandOut


def queued(doc: TaskDocument, begin: int) -> None:
    """A task was stored, from `begin` on (tracing.now)."""
    if not tracing.enabled():
        return
    trace, task = doc["trace"], str(doc["_id"])
    tracing.emit(
        "queue",
        trace,
        tracing.span_number(trace, task, "queue"),
        begin,
        parent=tracing.span_number(trace, task, "add"),
        kind="SERVER",
        submission=task,
        language=doc["language"] or "",
        priority=doc["priority"],
    )


def ended(hand_out: HandOut, end: TaskDocument) -> None:
    """A task has come to its end: the time from when it was handed in. A run of a rejudging nobody has handed in."""
    if not tracing.enabled():
        return
    task = str(hand_out.id)
    rerun = is_rejudge(RANKS[hand_out.priority])
    tracing.emit(
        "judge",
        hand_out.trace,
        tracing.span_number(hand_out.trace, task, "judge"),
        int(hand_out.created.timestamp() * 1e9),
        parent=None if rerun else tracing.span_number(hand_out.trace, task, "add"),
        submission=task,
        executor=hand_out.executor or None,
        attempt=hand_out.attempt,
        status=end["status"],
        verdict=end.get("verdict"),
        failed=end["status"] == "internal_error",
    )
