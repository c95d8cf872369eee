"""Turns: the threads of uWSGI and the few large transfers are shared out among people and addresses."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from judge.errors import LimitError, UnavailableError


class Turns:
    """A number of slots for keys (people, addresses). Waiting keys are served in rotation, not by arrival.

    One event loop uses it; no method is thread-safe.
    """

    def __init__(self, slots: int, queue: int, queue_each: int) -> None:
        """`slots` at once; at most `queue` wait, at most `queue_each` of one key."""
        self._free = slots
        self._queue, self._queue_each = queue, queue_each
        self._held: Counter[str] = Counter()
        self._most: dict[str, int] = {}
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self.waiting = 0  # the length of all queues together; each arrival looks at it

    @contextlib.asynccontextmanager
    async def turn(self, key: str, most: int, seconds: float, *, known: bool = True) -> AsyncIterator[None]:
        """Hold a slot; one key has at most `most`. UnavailableError after `seconds`, or when too many wait.

        Only half of the places to wait are for keys that are not `known`.
        """
        await self._take(key, most, seconds, known=known)
        try:
            yield
        finally:
            self._give(key)

    async def _take(self, key: str, most: int, seconds: float, *, known: bool = True) -> None:
        if self._free > 0 and self._held[key] < most:
            self._grant(key)
            return
        own = self._waiting.get(key, ())
        if len(own) >= self._queue_each or self.waiting >= (self._queue if known else self._queue // 2):
            raise UnavailableError("this gateway is busy and too many wait already; try again in a few seconds")
        self._most[key] = most
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(mine)
        self.waiting += 1
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
            self.waiting -= 1
            self._waiting.move_to_end(chosen)
            self._tidy(chosen)
            if not mine.done():  # else its caller has just given up
                self._grant(chosen)
                mine.set_result(None)

    def _forget(self, key: str, mine: asyncio.Future[None]) -> None:
        queue = self._waiting.get(key, ())
        if mine in queue:
            self._waiting[key].remove(mine)
            self.waiting -= 1
            self._tidy(key)

    def _tidy(self, key: str) -> None:
        if not self._waiting[key]:
            del self._waiting[key], self._most[key]


@dataclass(eq=False)
class _Turn:
    key: str
    group: str
    since: float
    give_way: Callable[[LimitError], None]


class Places:
    """A number of large transfers at once, fewer of one person and of one address. Nobody waits for a place.

    A transfer that takes long gives way to a person who has fewer, so that slow ones cannot keep all places.
    """

    def __init__(self, most: int, each: int, each_group: int, patience: float) -> None:
        """At most `most` at once, `each` of one key, `each_group` of one address; `patience` is in seconds."""
        self._most, self._each, self._each_group, self._patience = most, each, each_group, patience
        self._all: list[_Turn] = []  # the longest held first

    @contextlib.contextmanager
    def one(
        self, key: str, group: str, what: str, now: float, give_way: Callable[[LimitError], None]
    ) -> Iterator[None]:
        """Have a place; LimitError names `what` when there is none. `give_way` is called when it goes to another."""
        own = sum(one.key == key for one in self._all)
        if own >= self._each:
            raise LimitError(f"at most {self._each} {what} are taken at once from one person; try again when one ends")
        near = [one for one in self._all if one.group == group]
        if len(near) >= self._each_group:
            self._make_room(near, own, now, f"at most {self._each_group} {what} are taken at once from one address")
        elif len(self._all) >= self._most:
            self._make_room(self._all, own, now, f"at most {self._most} {what} are taken at once")
        place = _Turn(key, group, now, give_way)
        self._all.append(place)
        try:
            yield
        finally:
            if place in self._all:
                self._all.remove(place)

    def _make_room(self, among: list[_Turn], own: int, now: float, why: str) -> None:
        """Take the longest-held place from the person with the most, if they have more than the newcomer."""
        counts = Counter(one.key for one in among)
        slow = [one for one in among if now - one.since >= self._patience and counts[one.key] > own]
        if not slow:
            raise LimitError(f"{why}; try again in a few seconds")
        chosen = max(slow, key=lambda one: (counts[one.key], now - one.since))
        self._all.remove(chosen)
        chosen.give_way(
            LimitError(f"{why}, and this one took longer than {self._patience:g} s while others waited; try it again")
        )


class Pace:
    """The least speed of a large transfer: in each window, and on the whole. Pure."""

    def __init__(self, now: float, length: int, grace: float, rate: float, window: float) -> None:
        """Demand all of `length` bytes in `grace + length / rate` seconds, and half of `rate` in each `window`."""
        self.rate = rate
        self._end = now + grace + length / rate
        self._window, self._least = window, rate / 2 * window
        self._next, self._seen = now + window, 0

    def until(self, now: float, done: int) -> float | None:
        """The time to look again, when `done` bytes are through; None when the transfer is too slow."""
        if now >= self._end:
            return None
        if now >= self._next:
            if done - self._seen < self._least:
                return None
            self._next, self._seen = now + self._window, done
        return min(self._next, self._end)
