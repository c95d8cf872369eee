"""Listeners of a gateway without a cluster: how a stream ends, and who is looked at again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from judge import clock
from judge.errors import UnavailableError
from judge.gateway.auth import Principal
from judge.gateway.front import watching
from judge.gateway.front.streams import Streams
from judge.gateway.front.watching import ListenerWatch, Way
from judge.model.people import WAYS, WaysIn, WaysState
from judge.model.streaming import ChangesReply, ChangesRequest, Wish

TOKEN = Way("tokens", "0" * 64)


class Receiver:
    """The side of a connection that a listener is sent to."""

    def __init__(self) -> None:
        self.got = b""
        self.pieces = asyncio.Queue[bytes]()

    def write(self, data: bytes) -> None:
        self.got += data
        self.pieces.put_nowait(data)

    async def sent(self, _: float) -> None:
        """At once."""

    def listens(self, goes: Callable[[bool], None]) -> None:
        self.goes = goes


async def test_a_stream_that_cannot_go_on_ends_and_has_no_second_answer_in_it():
    def ask(request: ChangesRequest) -> ChangesReply:
        if request.user is not None:
            raise UnavailableError("no judicator answers")
        return ChangesReply(place="5-1")

    async def still() -> Wish | None:
        return wish

    wish = Wish(key="ada", user="ada", after="1-1")
    streams = Streams(ask, 10, ListenerWatch(watching.nobody_says, lambda _: None))
    receiver: Any = Receiver()
    async with asyncio.timeout(20):
        await streams.listen(receiver, b"head\r\n\r\n", wish, TOKEN, still)
    assert receiver.got == b"head\r\n\r\nretry: 2000\n"
    streams.close()


async def test_who_asks_for_all_that_happened_keeps_nobody_else_from_hearing_of_it():
    """Four questions of one person, who may have fifty streams, were all that a gateway asked at once."""
    asked, over, loop = asyncio.Queue[str](), threading.Event(), asyncio.get_running_loop()

    def ask(request: ChangesRequest) -> ChangesReply:
        if request.user is not None:
            loop.call_soon_threadsafe(asked.put_nowait, request.user)
        if request.user == "eve":
            over.wait(20)
        return ChangesReply(place="5-1")

    async def listen(user: str) -> None:
        async def still() -> Wish | None:
            return wish

        wish = Wish(key=user, user=user, after="1-1")
        await streams.listen(receiver, b"", wish, TOKEN, still)

    receiver: Any = Receiver()
    streams = Streams(ask, 100, ListenerWatch(watching.nobody_says, lambda _: None))
    listeners = [asyncio.create_task(listen("eve")) for _ in range(20)]
    try:
        async with asyncio.timeout(10):
            assert await asked.get() == "eve"
            listeners.append(asyncio.create_task(listen("ada")))
            assert await asked.get() == "ada"
    finally:
        over.set()
        streams.close()
        for one in listeners:
            one.cancel()


@pytest.mark.parametrize("lost", [True, False])
async def test_a_listener_who_goes_is_heard_of(lost):
    """An end of the connection ends the stream; an end of what the client sends brings two signs of life, soon."""

    async def still() -> Wish | None:
        return wish

    wish = Wish(key="ada", user="ada")
    streams = Streams(lambda _: ChangesReply(place="5-1"), 10, ListenerWatch(watching.nobody_says, lambda _: None))
    receiver: Any = Receiver()
    task = asyncio.create_task(streams.listen(receiver, b"", wish, TOKEN, still))
    async with asyncio.timeout(10):
        assert b"begin" in await receiver.pieces.get()
        receiver.goes(lost)
        if lost:
            await task
        else:
            assert [await receiver.pieces.get() for _ in range(2)] == [b":\n"] * 2
            await asyncio.sleep(1)
            assert receiver.pieces.empty(), "who still reads is not written to every moment"
            task.cancel()
    streams.close()


@pytest.mark.parametrize(
    ("other", "same"), [({}, True), ({"user": "ada"}, False), (None, False), ({"begin": None}, True)]
)
def test_who_may_hear_less_than_before_hears_nothing_of_it(other, same):
    """An admin who has become a user is allowed their own events by then, and not those of all."""
    allowed = None if other is None else Wish(key="root", **other)
    assert Wish(key="root", role="admin").same(allowed) == same


class Listener:
    def __init__(self, way: Way, role: str = "user", sure: float = 0.0) -> None:
        self.way, self.role, self.ended = way, role, False
        self.sure = clock.monotonic() - sure

    def end(self) -> None:
        self.ended = True


async def look(listeners: list[Listener], ask: Any, listed: Any = lambda _: None) -> list[bool]:
    await ListenerWatch(ask, listed)._look(list(listeners))
    return [one.ended for one in listeners]


async def test_each_is_asked_about_once_and_so_many_in_a_question():
    asked = []

    def ask(request: WaysIn) -> WaysState:
        asked.append(len(request.tokens))
        return WaysState(tokens=["user" if one.endswith("a") else "" for one in request.tokens])

    many = [Listener(Way("tokens", f"{number:063x}{'a' if number % 2 else 'b'}")) for number in range(WAYS + 10)]
    ended = await look(many * 2, ask)
    assert sorted(asked) == [10, WAYS]
    assert ended == [one.way.id.endswith("b") for one in many * 2]


async def test_a_role_is_that_of_the_file_where_the_cluster_says_so():
    def ask(request: WaysIn) -> WaysState:
        return WaysState(names=["listed" for _ in request.names], sessions=["listed" for _ in request.sessions])

    root = Principal("root", "admin", "f1")
    ways = [
        Way("names", "root", "f1"),
        Way("sessions", "0" * 64, "f1"),
        Way("names", "root", "f2"),
        Way("sessions", "1" * 64),
    ]
    found = {"f1": root}.get
    assert await look([Listener(way, "admin") for way in ways], ask, found) == [False, False, True, True]
    assert await look([Listener(way, "user") for way in ways], ask, found) == [True] * 4


async def test_what_nobody_can_tell_counts_for_a_while():
    listeners = [Listener(TOKEN, sure=sure) for sure in (0, 50, 70)]
    assert await look(listeners, watching.nobody_says) == [False, False, True]
