"""The adds that are under way in this judicator: no two tasks of a user share a place, and nobody passes the cap.

A read of the database may or may not show what is being added at the same moment. Each add therefore knows its peers:
the adds of the same user that were under way when it began to read, or began before it had decided. Nothing is kept of
an add that is over.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from judge.errors import LimitError
from judge.judicator.queue.order import fair_order
from judge.judicator.queue.placing import Place


def too_many(user: str, cap: int) -> LimitError:
    """The refusal of a user who has as many tasks waiting as may wait."""
    return LimitError(
        f"{cap} submissions of user '{user}' wait to be judged, and no more may wait at once; "
        "hand in again when some of them are judged, or cancel some"
    )


@dataclass(eq=False)
class PendingAdd:
    """One add: its place once it is known, the places and the number of its peers."""

    rank: int
    order: int | None = None
    avoid: set[int] = field(default_factory=set)
    peers: int = 0
    # Set once it is stored or refused, or waits for its turn to be counted exactly.
    clear: asyncio.Event = field(default_factory=asyncio.Event)


class _UserAdds:
    """The adds of one user."""

    def __init__(self) -> None:
        self.adds: set[PendingAdd] = set()
        self.turn = asyncio.Lock()


class AddsUnderWay:
    """All adds under way; used from one event loop only."""

    def __init__(self) -> None:
        """None yet."""
        self._users: dict[str, _UserAdds] = {}

    @contextlib.contextmanager
    def begin(self, user: str, rank: int) -> Iterator[PendingAdd]:
        """An add, from before its first read until its task is stored."""
        mine = self._users.setdefault(user, _UserAdds())
        add = PendingAdd(rank, peers=len(mine.adds))
        for other in mine.adds:
            other.peers += 1
            if other.order is not None and other.rank == rank:
                add.avoid.add(other.order)
        mine.adds.add(add)
        try:
            yield add
        finally:
            add.clear.set()
            mine.adds.discard(add)
            if not mine.adds:
                del self._users[user]

    def settle(self, user: str, add: PendingAdd, now: int, mine: int | None, last: int | None) -> int:
        """Give an add its place; `now`, `mine` and `last` as for fair_order, read since it began."""
        add.order = fair_order(now, mine, last, add.avoid)
        for other in self._users[user].adds:
            if other.order is None and other.rank == add.rank:
                other.avoid.add(add.order)
        return add.order

    @contextlib.asynccontextmanager
    async def admitted(
        self,
        user: str,
        add: PendingAdd,
        cap: int | None,
        *,
        look: Callable[[], Awaitable[Place]],
        full: Callable[[], Awaitable[bool]],
    ) -> AsyncIterator[Place | None]:
        """The facts for an add's place, read by `look`; None when `cap` tasks of this user wait. Store the task inside.

        `full` says so exactly. Far from the cap adds go side by side, and nothing is counted. Near it they queue up,
        and each waits until those that do not are stored.
        """
        place = await look()
        if cap is None or (place.waiting is not None and place.waiting + add.peers < cap):
            yield place
            return
        add.clear.set()
        mine = self._users[user]
        async with mine.turn:
            for other in list(mine.adds):
                await other.clear.wait()
            yield None if await full() else await look()
