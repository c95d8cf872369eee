"""Who is next: the order of the queue as pure functions (DESIGN 5, rule 3; docs/protocol.md has the formula)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

# The first key of the queue's order. What was given back goes before everything else: it has waited already.
GIVEN_BACK: Final = 0
RANKS: Final[dict[str, int]] = {"high": 1, "normal": 2, "low": 3, "rejudge": 5}
# A run of a rejudging that was given back goes before the other runs, and after everything that people wait for.
RERUN_GIVEN_BACK: Final = 4

# The ranks of what people have handed in.
LIVE: Final = [GIVEN_BACK, *(rank for rank in RANKS.values() if rank < RERUN_GIVEN_BACK)]

# What a hand-out without a verdict counts against the attempt cap, in tenths of an attempt: a full attempt; one that
# neither the task nor the machine is to blame for (only a task that never finds its data ends by these); a lost reply.
STRIKE: Final = 10
LIGHT: Final = 1
NO_STRIKE: Final = 0


def blame(what: str, *, waiting: bool) -> tuple[str, int]:
    """The reason and the weight of a hand-out that ended because `what` became of its executor.

    A task that had not begun there was not the cause. It counts a little all the same, so that one which ends
    executors before it is ever seen to begin is given up some day.
    """
    return (f"{what}, the task had not begun", LIGHT) if waiting else (what, STRIKE)


@dataclass(frozen=True)
class Capacity:
    """The executors that take work (live, not drained) by name, with their languages; their slots together."""

    executors: Mapping[str, frozenset[str]]
    slots: int

    @property
    def languages(self) -> frozenset[str]:
        """All languages that somebody has."""
        return frozenset[str]().union(*self.executors.values())


def fair_order(head: int | None, mine: int | None, flying: Collection[int] = ()) -> int:
    """The virtual time of a new task, the second key of the queue's order.

    `head` is the smallest virtual time that waits in its priority class (None: nobody waits) and `mine` the largest
    one of this user's waiting tasks there (None: the user has none waiting). A user's n-th waiting task is so
    pushed back n steps from the head of the queue: of any other user at most one task goes before a newcomer's.
    `flying` are the virtual times of this user's tasks that are being added at this moment, and may wait already:
    no two tasks share one. They do not count from their largest on, or a user who always has one under way would
    never start again from the head.
    """
    order = mine + 1 if mine is not None else 1 if head is None else head
    while order in flying:
        order += 1
    return order


def most_slots(share: float, slots: int) -> int | None:
    """How many of `slots` one user with this share may hold at once, at least one; None without a limit."""
    return None if share >= 1 else max(1, math.floor(share * slots))


def back_rank(priority: str) -> int:
    """The rank of a task of this priority that an executor has given back."""
    return RERUN_GIVEN_BACK if priority == "rejudge" else GIVEN_BACK


def yields(rank: int) -> bool:
    """Whether a task of this rank is a run of a rejudging, which every other task goes before."""
    return rank >= RERUN_GIVEN_BACK


def may_take(me: str, needs: str, failed: Iterable[str], alive: Mapping[str, frozenset[str]]) -> bool:
    """Whether executor `me` may be given a task that came back from the executors in `failed`.

    `alive` maps the executors that could take work to their languages, `needs` is the task's language or empty.
    An executor that failed a task gets it again only when no other one is left that could try.
    """
    tried = set(failed)
    if me not in tried:
        return True
    return not any(name not in tried and (not needs or needs in languages) for name, languages in alive.items())
