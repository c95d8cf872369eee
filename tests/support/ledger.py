"""What a client of the cluster was promised and what it saw; and, as pure functions, whether every promise was kept.

Times are seconds of the client's own monotonic clock.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from judge.model import messages as m

JUDGED = "judged: "  # a task's history says so of the attempt whose verdict was committed


@dataclass(frozen=True)
class Final:
    """A finished task as the client saw it: what must never change again."""

    id: str
    key: str | None
    status: str
    verdict: str | None
    attempt: int
    judged_by: str | None
    judged: int
    reason: str = ""

    @classmethod
    def of(cls, task: m.Task) -> Final:
        """Out of the API's answer; `judged` counts the verdicts that its history speaks of."""
        return cls(
            id=task.id,
            key=task.submission.idempotency_key,
            status=task.status.value,
            verdict=task.verdict.value if task.verdict is not None else None,
            attempt=task.attempt,
            judged_by=task.judged_by,
            judged=sum(past.reason.startswith(JUDGED) for past in task.history),
            reason=task.result.reason if task.result is not None else "",
        )


@dataclass
class Ledger:
    """Everything that one client did and was told.

    `offered` maps each idempotency key to the only right verdict, `acknowledged` to every id that it was answered with.
    `seen` has each finished task as it was seen first, `ended` as it was when all was over, and `listed` what the
    cluster lists then: (id, key) of all its tasks, finished or not.
    """

    offered: dict[str, str] = field(default_factory=dict)
    acknowledged: list[tuple[str, str, float]] = field(default_factory=list)
    seen: dict[str, tuple[Final, float]] = field(default_factory=dict)
    ended: dict[str, Final] = field(default_factory=dict)
    listed: list[tuple[str, str | None]] = field(default_factory=list)

    @property
    def ids(self) -> set[str]:
        """Every task that the client was promised."""
        return {task for _, task, _ in self.acknowledged}

    def waiting(self) -> set[str]:
        """Promised, and not seen finished yet."""
        return self.ids - self.seen.keys()


def faults(ledger: Ledger) -> list[str]:
    """Every broken promise as one sentence; empty when nothing was lost, doubled, changed, or judged wrong."""
    return [
        *_keys(ledger),
        *_lost(ledger),
        *_doubled(ledger),
        *(fault for final in ledger.ended.values() for fault in _verdict(ledger, final)),
    ]


def _keys(ledger: Ledger) -> Iterable[str]:
    ids: dict[str, set[str]] = {}
    keys: dict[str, set[str]] = {}
    for key, task, _ in ledger.acknowledged:
        ids.setdefault(key, set()).add(task)
        keys.setdefault(task, set()).add(key)
        if key not in ledger.offered:
            yield f"{task} was acknowledged for key {key}, which was never handed in"
    for key, tasks in ids.items():
        if len(tasks) > 1:
            yield f"doubled: key {key} was acknowledged as {', '.join(sorted(tasks))}"
    for task, many in keys.items():
        if len(many) > 1:
            yield f"lost: {task} was the answer to several submissions: {', '.join(sorted(many))}"
    for key in ledger.offered.keys() - ids.keys():
        yield f"lost: key {key} was never acknowledged"


def _lost(ledger: Ledger) -> Iterable[str]:
    listed = {task for task, _ in ledger.listed}
    for task in sorted(ledger.ids):
        if task not in listed:
            yield f"lost: {task} was acknowledged and is not listed"
        if task not in ledger.ended:
            yield f"lost: {task} was acknowledged and has no verdict"
    for task in sorted(ledger.seen.keys() - ledger.ended.keys() - ledger.ids):
        yield f"lost: {task} had a verdict and is gone"


def _doubled(ledger: Ledger) -> Iterable[str]:
    for task, count in Counter(task for task, _ in ledger.listed).items():
        if count > 1:
            yield f"doubled: {task} is listed {count} times"
    for key, count in Counter(key for _, key in ledger.listed if key is not None).items():
        if count > 1:
            yield f"doubled: key {key} made {count} tasks"
    for task, key in ledger.listed:
        if task not in ledger.ids:
            yield f"doubled: {task} (key {key}) is listed and was acknowledged to nobody"


def _verdict(ledger: Ledger, final: Final) -> Iterable[str]:
    first = ledger.seen.get(final.id)
    if first is not None and first[0] != final:
        yield f"changed: {final.id} was {first[0]} and became {final}"
    if final.judged != 1:
        yield f"{'doubled' if final.judged else 'wrong'}: {final.id} was judged {final.judged} times"
    wanted = ledger.offered.get(final.key or "")
    if final.verdict != wanted:
        said = f" ({final.reason})" if final.reason else ""
        yield f"wrong: {final.id} (key {final.key}) is {final.verdict}, not {wanted}{said}"


@dataclass(frozen=True)
class Outage:
    """What a client noticed of an event, in seconds: the longest time without an acknowledgement, and without a
    verdict, that overlaps what followed it; and how long after it the first new submission was judged."""

    acknowledged: float
    verdicts: float
    flowing: float | None


def longest_gap(times: Iterable[float], begin: float, end: float) -> float:
    """The longest stretch of [begin, end] without any of `times`."""
    marks = [begin, *sorted(time for time in times if begin < time < end), end]
    return max(later - earlier for earlier, later in itertools.pairwise(marks))


def outage(ledger: Ledger, event: float, end: float) -> Outage:
    """What was noticed of `event` until `end`."""
    acknowledged: Mapping[str, float] = {task: when for _, task, when in reversed(ledger.acknowledged)}
    new = [when for task, (_, when) in ledger.seen.items() if acknowledged.get(task, event) > event]
    return Outage(
        acknowledged=longest_gap(acknowledged.values(), event, end),
        verdicts=longest_gap((when for _, when in ledger.seen.values()), event, end),
        flowing=min(new) - event if new else None,
    )
