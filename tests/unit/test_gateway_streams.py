"""Listeners of a gateway without a cluster: how a stream ends, and who is looked at again."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from judge import clock
from judge.errors import UnavailableError
from judge.gateway.auth import Principal
from judge.gateway.streams import Streams
from judge.gateway.watching import Credential, ListenerWatch
from judge.model.people import WAYS, WaysIn, WaysState
from judge.model.streaming import Change, ChangesReply, ChangesRequest, Wish

TOKEN = Credential("tokens", "0" * 64)


def nobody_answers(_: Any) -> Any:
    raise UnavailableError("this gateway has no cluster")


class Receiver:
    """The client of a stream."""

    def __init__(self) -> None:
        self.got = b""
        self.pieces = asyncio.Queue[bytes]()

    async def send(self, data: bytes) -> None:
        self.got += data
        self.pieces.put_nowait(data)


async def no_submission() -> None:
    return None


async def test_a_stream_that_cannot_go_on_ends_and_has_no_second_answer_in_it():
    def ask(request: ChangesRequest) -> ChangesReply:
        if request.user is not None:
            raise UnavailableError("no judicator answers")
        return ChangesReply(place="5-1")

    streams = Streams(ask, 10, ListenerWatch(nobody_answers, lambda _: None))
    receiver = Receiver()
    async with asyncio.timeout(20):
        await streams.listen(receiver.send, Wish(key="ada", user="ada", after="1-1"), TOKEN, no_submission)
    assert receiver.got == b"retry: 2000\n"
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
        await streams.listen(receiver.send, Wish(key=user, user=user, after="1-1"), TOKEN, no_submission)

    receiver = Receiver()
    streams = Streams(ask, 100, ListenerWatch(nobody_answers, lambda _: None))
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


async def test_a_client_that_has_gone_ends_its_stream():
    async def send(data: bytes) -> None:
        raise ConnectionResetError

    streams = Streams(lambda _: ChangesReply(place="5-1"), 10, ListenerWatch(nobody_answers, lambda _: None))
    async with asyncio.timeout(10):
        with pytest.raises(ConnectionError):
            await streams.listen(send, Wish(key="ada", user="ada"), TOKEN, no_submission)
    assert not streams._all
    streams.close()


def change(version: int, *, done: bool = False) -> Change:
    return Change(id="0-0", submission="0" * 24, version=version, user="ada", status="running", done=done)


async def test_a_stream_of_a_submission_begins_with_its_newest_version():
    """The change may have come between the application's look and the registration of the listener."""

    async def current() -> Change:
        return change(7, done=True)

    streams = Streams(lambda _: ChangesReply(place="5-1"), 10, ListenerWatch(nobody_answers, lambda _: None))
    receiver = Receiver()
    async with asyncio.timeout(10):
        wish = Wish(key="ada", user="ada", submission="0" * 24, version=3)
        await streams.listen(receiver.send, wish, TOKEN, current)
    assert b"id: 7\n" in receiver.got
    streams.close()


class Listener:
    def __init__(self, credential: Credential, role: str = "user", sure: float = 0.0) -> None:
        self.credential, self.role, self.ended = credential, role, False
        self.sure = clock.monotonic() - sure

    def end(self) -> None:
        self.ended = True


async def look(listeners: list[Listener], ask: Any, listed: Any = lambda _: None) -> list[bool]:
    await ListenerWatch(ask, listed)._check(list(listeners))
    return [one.ended for one in listeners]


async def test_each_is_asked_about_once_and_so_many_in_a_question():
    asked = []

    def ask(request: WaysIn) -> WaysState:
        asked.append(len(request.tokens))
        return WaysState(tokens=["user" if one.endswith("a") else "" for one in request.tokens])

    many = [Listener(Credential("tokens", f"{number:063x}{'a' if number % 2 else 'b'}")) for number in range(WAYS + 10)]
    ended = await look(many * 2, ask)
    assert sorted(asked) == [10, WAYS]
    assert ended == [one.credential.id.endswith("b") for one in many * 2]


async def test_a_role_is_that_of_the_file_where_the_cluster_says_so():
    def ask(request: WaysIn) -> WaysState:
        return WaysState(names=["listed" for _ in request.names], sessions=["listed" for _ in request.sessions])

    root = Principal("root", "admin", "f1")
    ways = [
        Credential("names", "root", "f1"),
        Credential("sessions", "0" * 64, "f1"),
        Credential("names", "root", "f2"),
        Credential("sessions", "1" * 64),
    ]
    found = {"f1": root}.get
    assert await look([Listener(way, "admin") for way in ways], ask, found) == [False, False, True, True]
    assert await look([Listener(way, "user") for way in ways], ask, found) == [True] * 4


async def test_what_nobody_can_tell_counts_for_a_while():
    listeners = [Listener(TOKEN, sure=sure) for sure in (0, 50, 70)]
    assert await look(listeners, nobody_answers) == [False, False, True]
