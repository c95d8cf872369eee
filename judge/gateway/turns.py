"""Whose turn it is: the threads of uWSGI, and the few large transfers, are shared out among those who ask."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Iterator

from judge.errors import LimitError, UnavailableError


class Turns:
    """A number of slots for keys (people, addresses). Who waits is served in rotation by key, not by arrival.

    For one event loop; none of its methods is thread-safe.
    """

    def __init__(self, slots: int, queue: int, queue_each: int) -> None:
        """`slots` at once; at most `queue` wait, at most `queue_each` of one key."""
        self._free = slots
        self._queue, self._queue_each = queue, queue_each
        self._held: Counter[str] = Counter()
        self._most: dict[str, int] = {}
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(len(queue) for queue in self._waiting.values())

    @contextlib.asynccontextmanager
    async def turn(self, key: str, most: int, seconds: float) -> AsyncIterator[None]:
        """Hold a slot; one key has at most `most`. UnavailableError after `seconds`, or when too many wait."""
        await self._take(key, most, seconds)
        try:
            yield
        finally:
            self._give(key)

    async def _take(self, key: str, most: int, seconds: float) -> None:
        if self._free > 0 and self._held[key] < most:
            self._grant(key)
            return
        own = self._waiting.get(key, ())
        if len(own) >= self._queue_each or self.waiting >= self._queue:
            raise UnavailableError("this gateway is busy and too many wait already; try again in a few seconds")
        self._most[key] = most
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(mine)
        try:
            async with asyncio.timeout(seconds):
                await mine
        except BaseException as exc:
            if mine.done() and not mine.cancelled():
                self._give(key)
            else:
                self._forget(key, mine)
            if isinstance(exc, TimeoutError):
                raise UnavailableError("this gateway is busy; try again in a few seconds") from None
            raise

    def _grant(self, key: str) -> None:
        self._free -= 1
        self._held[key] += 1

    def _give(self, key: str) -> None:
        self._free += 1
        self._held[key] -= 1
        if not self._held[key]:
            del self._held[key]
        while self._free > 0:
            chosen = next((one for one in self._waiting if self._held[one] < self._most[one]), None)
            if chosen is None:
                return
            mine = self._waiting[chosen].popleft()
            self._waiting.move_to_end(chosen)
            self._tidy(chosen)
            if not mine.done():  # else its caller has just given up
                self._grant(chosen)
                mine.set_result(None)

    def _forget(self, key: str, mine: asyncio.Future[None]) -> None:
        queue = self._waiting.get(key, ())
        if mine in queue:
            self._waiting[key].remove(mine)
            self._tidy(key)

    def _tidy(self, key: str) -> None:
        if not self._waiting[key]:
            del self._waiting[key], self._most[key]


class Few:
    """A number of things at once, fewer of one key, for which nobody waits."""

    def __init__(self, most: int, each: int) -> None:
        """At most `most` at once, `each` of one key."""
        self._most, self._each = most, each
        self._held: Counter[str] = Counter()

    @contextlib.contextmanager
    def one(self, key: str, what: str) -> Iterator[None]:
        """Have one more; LimitError names `what` when there are too many."""
        if self._held[key] >= self._each:
            raise LimitError(f"at most {self._each} {what} are taken at once from one person; try again when one ends")
        if self._held.total() >= self._most:
            raise LimitError(f"at most {self._most} {what} are taken at once; try again in a few seconds")
        self._held[key] += 1
        try:
            yield
        finally:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
