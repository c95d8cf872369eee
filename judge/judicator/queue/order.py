"""The rule of the queue: which waiting task an executor gets next (docs/judging.md has the rules). Pure functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

# The first key of the order. A task that was given back goes before everything else: it has waited already.
GIVEN_BACK: Final = 0
RANKS: Final[dict[str, int]] = {"high": 1, "normal": 2, "low": 3, "rejudge": 5}
# A run of a rejudging that was given back goes before the other runs, and after everything that people wait for.
RERUN_GIVEN_BACK: Final = 4

# The penalty of a hand-out without a verdict, against the cap of attempts, in tenths of an attempt: a full attempt; one
# that is neither the task's nor the machine's fault (only a task that never finds its data ends by these); a lost one.
FULL_PENALTY: Final = 10
LIGHT_PENALTY: Final = 1
NO_PENALTY: Final = 0


def attempt_penalty(what: str, *, waiting: bool) -> tuple[str, int]:
    """The reason and the penalty of a hand-out that ended because `what` became of its executor.

    A task that was `waiting` there, and had not begun, was not the cause. It counts a little all the same, so that a
    task which ends executors before it is ever seen to begin is given up some day.
    """
    return (f"{what}, the task had not begun", LIGHT_PENALTY) if waiting else (what, FULL_PENALTY)


@dataclass(frozen=True)
class ExecutorCapacity:
    """What one executor can judge, and whether it takes work.

    `accepts`: it asked for work within the last seconds. One whose slots are all busy with long tasks, whose disk is
    full, or that rests does not. `busy`: it has work in hand.
    """

    languages: frozenset[str]
    abilities: frozenset[str] = frozenset()
    accepts: bool = True
    alive: bool = True
    drained: bool = False
    busy: bool = False

    def can_judge(self, needs: str, wants: Collection[str]) -> bool:
        """Return whether it has a language (or none is needed), and these abilities."""
        return (not needs or needs in self.languages) and self.abilities.issuperset(wants)


@dataclass(frozen=True)
class Capacity:
    """The executors that are live and not drained, by name; their slots together."""

    executors: Mapping[str, ExecutorCapacity]
    slots: int

    @property
    def languages(self) -> frozenset[str]:
        return frozenset[str]().union(*(executor.languages for executor in self.executors.values()))

    def others(self, executor: str) -> Mapping[str, ExecutorCapacity]:
        return {name: capacity for name, capacity in self.executors.items() if name != executor}


# Seconds for which a task that an executor failed waits for another one that does not ask for work.
PATIENCE: Final = 60.0


def round_of(head: int | None, here: int | None, anywhere: int | None) -> int:
    """The virtual time at which a newcomer's task begins.

    `head` is the smallest one that waits in its class and language (None: nobody waits), `here` the largest one that
    was handed out there, `anywhere` the largest one that was handed out in the class, whatever the language. A language
    whose executors are busy for long is behind the others, and its newcomers begin where it is. Nowhere it goes back:
    what waits for its user's share, or for a language that nobody has, stands still at its old place, and newcomers
    that joined it there would go before everybody else without end.
    """
    far = anywhere or 1
    return max(1, here or 1, far if head is None else min(head, far))


def fair_order(now: int, own: int | None, last: int | None) -> int:
    """The round of a new task (R3).

    `now` is round_of its class and language, `own` the largest round of this user's waiting tasks in the class (None:
    none waits) and `last` the largest round of this user's tasks there that were ever assigned. A user's n-th waiting
    task is so n rounds behind, and a user who was served in the current round begins in the next: each user has at most
    one task in each round.
    """
    return max(now, 0 if own is None else own + 1, 0 if last is None else min(last, now) + 1)


def most_slots(share: float, slots: int) -> int | None:
    """The most of `slots` that one user with this share may hold at once, at least one; None without a limit."""
    return None if share >= 1 else max(1, math.floor(share * slots))


def back_rank(priority: str) -> int:
    """The rank of a task of this priority that an executor has given back."""
    return RERUN_GIVEN_BACK if priority == "rejudge" else GIVEN_BACK


def is_rejudge(rank: int) -> bool:
    """Return whether a task of this rank is a run of a rejudging: every other task goes before it."""
    return rank >= RERUN_GIVEN_BACK


def waiting_reason(
    needs: str, wants: Collection[str], failed: Collection[str], executors: Mapping[str, ExecutorCapacity]
) -> str:
    """The reason why a task waits, in words; `executors` are all known ones, `failed` those that failed it."""
    speaker = f"executor with language '{needs}'" if needs else "executor"
    steps: list[tuple[Callable[[ExecutorCapacity], bool], str]] = [
        (lambda executor: executor.alive, "no executor is alive"),
        (lambda executor: executor.can_judge(needs, ()), f"no live executor has language '{needs}'"),
        (
            lambda executor: executor.can_judge(needs, wants),
            f"no live {speaker} has all of: {', '.join(sorted(wants))}",
        ),
        (lambda executor: not executor.drained, "all executors that can judge it are drained"),
    ]
    able = dict(executors)
    for condition, sentence in steps:
        able = {name: executor for name, executor in able.items() if condition(executor)}
        if not able:
            return sentence
    able = {name: executor for name, executor in able.items() if name not in failed} or able
    if any(executor.accepts for executor in able.values()):
        return "its turn has not come: others go first, or its user holds as many slots as one user may"
    if any(executor.busy for executor in able.values()):
        return "all executors that can judge it are full"
    return "no executor that can judge it accepts work"
