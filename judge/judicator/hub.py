"""The calls that wait in this judicator: parked executors and people's waiting Gets (docs/protocol.md, rule 5).

Everything here is a hint. Losing one costs at most the executor's heartbeat period, never a task.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field

from bson import ObjectId
from prometheus_client import Gauge

from judge import clock

PARKED = Gauge("judge_waiters", "Calls that wait in this judicator", ["kind"])

_REMEMBER = 4096
# Seconds for which the queue need not be looked at again when nothing was told since; well below a report's interval,
# so that an executor's regular reports always look.
_LOOKED = 0.5

# Names a report: its incarnation and sequence number.
Report = tuple[str, int]


@dataclass
class _Parked:
    """One executor's Wait."""

    name: str
    needs: frozenset[str]
    free: int
    event: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True)
class FruitlessLook:
    """An executor's report found the queue without anything for it, when so much had been told, at this time."""

    report: Report
    needs: frozenset[str]
    told: int
    at: float


@dataclass(eq=False)
class TaskWatch:
    """Somebody who waits for a task to change: the version that was read last, and the one that is known to end it."""

    changed: asyncio.Event = field(default_factory=asyncio.Event)
    version: int = -1
    done: int | None = None


class Hub:
    """Wakes as many parked executors as there are new tasks, and everybody who watches a task that changed."""

    def __init__(self) -> None:
        """An empty hub; used from one event loop only."""
        self._parked: dict[str, _Parked] = {}
        self._called: set[str] = set()
        self._watched: dict[ObjectId, set[TaskWatch]] = {}
        self._seen: OrderedDict[tuple[ObjectId, int], None] = OrderedDict()
        self._closed = False
        # The number of tasks that each executor could take after its last report to this judicator.
        self._free: dict[str, tuple[Report, int]] = {}
        # The number of times that a task may have come that somebody could take.
        self.told = 0
        self._looks: dict[str, FruitlessLook] = {}

    def queued(self, task: ObjectId, attempt: int, needs: str) -> None:
        """A task waits: wake one executor that can take it, the one with the most free slots.

        Told twice about the same queueing (by this judicator and by the change stream) it wakes only once.
        """
        key = (task, attempt)
        if key in self._seen:
            return
        self._seen[key] = None
        if len(self._seen) > _REMEMBER:
            self._seen.popitem(last=False)
        self.room([needs])

    def looked(self, executor: str, report: Report, needs: frozenset[str], told: int, at: float | None = None) -> None:
        """An executor that has these languages was given all that there is for it; `told` was read before.

        `at` is when the queue was asked, where that was for an earlier report.
        """
        self._looks[executor] = FruitlessLook(report, needs, told, clock.monotonic() if at is None else at)

    def nothing(self, executor: str, incarnation: str) -> FruitlessLook | None:
        """The look by which there is still nothing for an executor; None when the database has to be asked."""
        look = self._looks.get(executor)
        fresh = look is not None and look.told == self.told and clock.monotonic() - look.at < _LOOKED
        return look if look is not None and fresh and look.report[0] == incarnation else None

    def room(self, needs: Iterable[str]) -> None:
        """Work for one of these languages may be handed out now: wake one executor that can take it."""
        self.told += 1
        wanted = frozenset(needs)
        able = [
            parked
            for parked in self._parked.values()
            if parked.free > 0 and wanted & parked.needs and not parked.event.is_set()
        ]
        if able:
            max(able, key=lambda parked: parked.free).event.set()

    @property
    def idle(self) -> bool:
        """Says whether an executor that could take work is parked here."""
        return any(parked.free > 0 for parked in self._parked.values())

    def vacant(self, executor: str, report: Report, free: int) -> None:
        """An executor could take so many tasks after a report; also one that is parked already is chosen by this."""
        before = self._free.get(executor)
        if before is not None and before[0][0] == report[0] and before[0][1] > report[1]:
            return  # a later report was answered first
        self._free[executor] = (report, free)
        if executor in self._parked:
            self._parked[executor].free = free

    def free(self, executor: str, report: Report) -> int | None:
        """The number of tasks an executor could take after this report; None when it went to another judicator."""
        known = self._free.get(executor)
        return known[1] if known is not None and known[0] == report else None

    def changed(self, task: ObjectId, version: int | None = None, *, done: bool = False) -> None:
        """A task changed visibly: wake those who watch it and have not read this version (None: not known) yet.

        Told of a change twice, by this judicator and by the change stream, they read it once.
        """
        for watch in self._watched.get(task, ()):
            if done:
                watch.done = version
            if version is None or version > watch.version:
                watch.changed.set()

    def called(self, executor: str) -> None:
        """An executor should report now (a cancelled task, a drain); remembered until it does."""
        self._called.add(executor)
        if executor in self._parked:
            self._parked[executor].event.set()

    def everyone(self) -> None:
        """Wake all: nobody can tell who is meant while the change stream is away, or when this judicator stops."""
        self.told += 1
        for parked in self._parked.values():
            parked.event.set()
        for watches in self._watched.values():
            for watch in watches:
                watch.changed.set()

    def close(self) -> None:
        """Let everyone go, and nobody wait any more."""
        self._closed = True
        self.everyone()

    def reported(self, executor: str) -> None:
        """An executor's report is being answered: earlier calls are served by it."""
        self._called.discard(executor)

    async def park(
        self, name: str, needs: frozenset[str], free: int, seconds: float, check: Callable[[], Awaitable[bool]]
    ) -> bool:
        """Park an executor's Wait for up to `seconds`; True when it should report now.

        `needs` are the languages it has, and the empty one. `check` looks for work that was there before the
        executor was parked. A second Wait of the same executor replaces the first one.
        """
        if name in self._parked:
            self._parked[name].event.set()
        if self._closed:
            return False
        if name in self._called:
            self._called.discard(name)
            return True
        mine = self._parked[name] = _Parked(name, needs, free)
        try:
            with PARKED.labels("executor").track_inprogress(), contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    if free > 0 and await check():
                        return True
                    await mine.event.wait()
            self._called.discard(name)
            return mine.event.is_set() and not self._closed
        finally:
            if self._parked.get(name) is mine:
                del self._parked[name]

    @contextlib.contextmanager
    def watching(self, task: ObjectId) -> Iterator[TaskWatch]:
        """A watch whose event is set at every change of the task; whoever waits clears it, and says what was read."""
        watch = TaskWatch()
        self._watched.setdefault(task, set()).add(watch)
        try:
            with PARKED.labels("people").track_inprogress():
                yield watch
        finally:
            self._watched[task].discard(watch)
            if not self._watched[task]:
                del self._watched[task]

    @property
    def closed(self) -> bool:
        """Says whether nobody may wait any more."""
        return self._closed
