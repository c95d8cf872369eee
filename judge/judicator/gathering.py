"""Questions to the database that come while one is under way go there together, as the next one.

Who is alone has a command at once, and waits for nothing. When many come, a command is about as many as came during the
one before, so that they cost little more than one: in mongod a journal is written and a majority waited for once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


class Gathering(Generic[Q, A]):
    """One kind of question; for one event loop. What is answered was looked at after it was asked."""

    def __init__(self, work: Callable[[Sequence[Q]], Awaitable[Sequence[A | Exception]]], most: int) -> None:
        """`work` answers up to `most` questions in their order, an exception is raised for whoever asked.

        What it raises itself is raised for all of them.
        """
        self._work = work
        self._most = most
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._working: asyncio.Task[None] | None = None

    async def ask(self, question: Q) -> A:
        """The answer to one."""
        mine: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, mine))
        if self._working is None:
            # It begins once those who were woken together with this one have asked, too.
            self._working = asyncio.create_task(self._run())
        return await mine

    async def _run(self) -> None:
        try:
            while self._waiting:
                part, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                await self._answer(part)
        finally:
            self._working = None
            for _, asker in self._waiting:  # only when this was cancelled, at the end of everything
                asker.cancel()

    async def _answer(self, part: list[tuple[Q, asyncio.Future[A]]]) -> None:
        found: Sequence[A | Exception]
        try:
            found = await self._work([question for question, _ in part])
        except Exception as exc:  # noqa: BLE001 - whoever asked is told
            found = [exc] * len(part)
        except BaseException:
            for _, asker in part:
                asker.cancel()
            raise
        for (_, asker), answer in zip(part, found, strict=True):
            if asker.done():  # it has been given up
                continue
            if isinstance(answer, Exception):
                asker.set_exception(answer)
            else:
                asker.set_result(answer)


class Cohorts:
    """Calls that come while others are under way begin together, when these are done or `pace` after these began.

    The questions of a cohort come at the same time, and are gathered: else each stage of a call has commands of its own
    for the few that are just there. After a cohort of several the next one begins `pace` after it. Who is alone begins
    at once. For one event loop.
    """

    def __init__(self, pace: float) -> None:
        """Nobody waits longer than `pace` seconds, whoever is under way."""
        self._pace = pace
        self._under_way = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._began = -pace
        self._crowded = False

    @contextlib.asynccontextmanager
    async def joined(self) -> AsyncIterator[None]:
        """A call is under way within this."""
        loop = asyncio.get_running_loop()
        now, due = loop.time(), self._began + self._pace
        mine: asyncio.Future[None] = loop.create_future()
        self._waiting.append(mine)
        if self._timer is None:
            # Else it begins once those who have come together with this one have joined, too.
            held_up = self._under_way or (self._crowded and now < due)
            self._timer = loop.call_at(max(now, due) if held_up else now, self._begin)
        await mine
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way and not self._crowded and self._waiting:
                self._begin()

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = [one for one in self._waiting if not one.done()], []  # the others have given up
        self._began, self._crowded = asyncio.get_running_loop().time(), len(waiting) > 1
        for one in waiting:
            one.set_result(None)
