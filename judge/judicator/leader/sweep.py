"""The decisions of the leader's sweep, as pure functions (seed: Lead's loops; docs/protocol.md, rule 6).

The leader compares marks that only grow (a task's attempt and heartbeat, an executor's sequence number) with what it
noted itself, on its own monotonic clock. No time that another host wrote is ever looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from judge.judicator.tasks.forms import HandOut


@dataclass(frozen=True)
class SilenceLimits:
    """The bounds of silence, in observed seconds."""

    task_expiry: float
    executor_expiry: float
    executor_forget: float


@dataclass(frozen=True)
class ExecutorMark:
    name: str
    incarnation: str
    sequence: int
    alive: bool


# By kind and name: a mark, and the observed time at which it was first noted.
Note = tuple[tuple[object, ...], float]
Notes = Mapping[tuple[str, str], Note]


@dataclass(frozen=True)
class SweepDecision:
    """`expired`: hand-outs without a heartbeat; `orphaned`: hand-outs of a dead executor; both go back to the queue."""

    notes: Notes
    expired: list[HandOut] = field(default_factory=list)
    orphaned: list[HandOut] = field(default_factory=list)
    dead: list[ExecutorMark] = field(default_factory=list)
    forgotten: list[ExecutorMark] = field(default_factory=list)


def observed(before: float, gap: float, interval: float) -> float:
    """The observed time after another `gap` seconds, of which at most two sweep intervals count.

    A leader that was blind (its database stalled, its process was frozen) does not know who kept silent meanwhile.
    """
    return before + min(max(gap, 0.0), 2 * interval)


def decide(
    notes: Notes, running: Iterable[HandOut], executors: Iterable[ExecutorMark], now: float, limits: SilenceLimits
) -> SweepDecision:
    """Compare everything with the notes; `now` is the observed time. What is gone is forgotten from the notes."""
    fresh: dict[tuple[str, str], Note] = {}

    def silence(key: tuple[str, str], mark: tuple[object, ...]) -> float:
        earlier, since = notes.get(key, (None, now))
        fresh[key] = mark, since if earlier == mark else now
        return now - fresh[key][1]

    decision = SweepDecision(fresh)
    dead: set[str] = set()
    for executor in executors:
        silent = silence(("executor", executor.name), (executor.incarnation, executor.sequence))
        if executor.alive and silent < limits.executor_expiry:
            continue
        dead.add(executor.name)
        if executor.alive:
            decision.dead.append(executor)
        elif silent >= limits.executor_forget:
            decision.forgotten.append(executor)
    for task in running:
        silent = silence(("task", str(task.id)), (task.attempt, task.heartbeat))
        if task.executor in dead:
            decision.orphaned.append(task)
        elif silent >= limits.task_expiry:
            decision.expired.append(task)
    return decision
