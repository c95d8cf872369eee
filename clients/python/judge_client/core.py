"""Sends calls and tries them again, once for each of the two clients; and has what takes more than one call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, TypeVar

import httpx

from judge_client.base import Ask, Base, refusal
from judge_client.streams import Event, Parser

S = TypeVar("S", bound="Core")
A = TypeVar("A", bound="AsyncCore")


class Core(Base):
    """The synchronous one; a `with` closes it."""

    def __init__(self, *args: Any, transport: httpx.BaseTransport | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self._http = httpx.Client(timeout=self.timeout, transport=transport)

    def __enter__(self: S) -> S:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def _ask(self, ask: Ask) -> Any:
        request, attempt = self._request(ask), 0
        while True:
            answer: httpx.Response | httpx.TransportError
            try:
                answer = self._http.request(**request)
            except httpx.TransportError as exc:
                answer = exc
            delay = self._delay(ask, answer, attempt)
            if delay is None:
                return self._read(ask, request, answer)
            time.sleep(delay)
            attempt += 1

    def _listen(self, ask: Ask) -> Iterator[Event]:
        request, parser = self._request(ask), Parser()
        request["headers"]["Accept"] = "text/event-stream"
        with self._http.stream(**request, timeout=httpx.Timeout(self.timeout, read=None)) as answer:
            if not answer.is_success:
                answer.read()
                raise refusal(answer)
            for line in answer.iter_lines():
                if (event := parser.line(line)) is not None:
                    yield event

    def _each(self, page: Callable[[Any], Any], items: str, begin: Any) -> Iterator[Any]:
        while True:
            reply = page(begin)
            yield from getattr(reply, items)
            begin = reply.next
            if begin is None:
                return


class AsyncCore(Base):
    """The asynchronous one; an `async with` closes it."""

    def __init__(self, *args: Any, transport: httpx.AsyncBaseTransport | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self._http = httpx.AsyncClient(timeout=self.timeout, transport=transport)

    async def __aenter__(self: A) -> A:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def _ask(self, ask: Ask) -> Any:
        request, attempt = self._request(ask), 0
        while True:
            answer: httpx.Response | httpx.TransportError
            try:
                answer = await self._http.request(**request)
            except httpx.TransportError as exc:
                answer = exc
            delay = self._delay(ask, answer, attempt)
            if delay is None:
                return self._read(ask, request, answer)
            await asyncio.sleep(delay)
            attempt += 1

    async def _listen(self, ask: Ask) -> AsyncIterator[Event]:
        request, parser = self._request(ask), Parser()
        request["headers"]["Accept"] = "text/event-stream"
        async with self._http.stream(**request, timeout=httpx.Timeout(self.timeout, read=None)) as answer:
            if not answer.is_success:
                await answer.aread()
                raise refusal(answer)
            async for line in answer.aiter_lines():
                if (event := parser.line(line)) is not None:
                    yield event

    async def _each(self, page: Callable[[Any], Any], items: str, begin: Any) -> AsyncIterator[Any]:
        while True:
            reply = await page(begin)
            for item in getattr(reply, items):
                yield item
            begin = reply.next
            if begin is None:
                return
