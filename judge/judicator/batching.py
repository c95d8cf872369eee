"""Questions to the database that come while one is under way go there together, as the next one.

Who is alone has a command at once, and waits for nothing. When many come, a command is about as many as came during the
one before, so that they cost little more than one: in mongod a journal is written and a majority waited for once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


class Batcher(Generic[Q, A]):
    """One kind of question; for one event loop. What is answered was looked at after it was asked."""

    def __init__(self, work: Callable[[Sequence[Q]], Awaitable[Sequence[A | Exception]]], most: int) -> None:
        """`work` answers up to `most` questions in order: an exception is for one caller, a raised one for all."""
        self._work = work
        self._most = most
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._working: asyncio.Task[None] | None = None

    async def ask(self, question: Q) -> A:
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, answer))
        if self._working is None:
            # It begins once those who were woken together with this one have asked, too.
            self._working = asyncio.create_task(self._run())
        return await answer

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
        answers: Sequence[A | Exception]
        try:
            answers = await self._work([question for question, _ in part])
        except Exception as exc:  # noqa: BLE001 - raised for the callers
            answers = [exc] * len(part)
        except BaseException:
            for _, asker in part:
                asker.cancel()
            raise
        for (_, asker), answer in zip(part, answers, strict=True):
            if asker.done():  # it has been given up
                continue
            if isinstance(answer, Exception):
                asker.set_exception(answer)
            else:
                asker.set_result(answer)
