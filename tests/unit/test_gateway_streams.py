"""Listeners of a gateway without a cluster: how a stream ends, and who is looked at again."""

import asyncio
import threading
from typing import Any, get_args

import pytest

from judge.common.errors import UnavailableError
from judge.gateway.auth import Principal
from judge.gateway.streams import Streams, _Listener
from judge.model.cause import Cause
from judge.model.people import Credential
from judge.model.streaming import Change, ChangesReply, ChangesRequest, Wish

TOKEN = Credential("tokens", "0" * 64)
MAY: Any = {"credential": TOKEN, "role": "user"}


def nobody_answers(_: Any) -> Any:
    raise UnavailableError("this gateway has no cluster")


class Receiver:
    def __init__(self) -> None:
        self.received = b""
        self.pieces = asyncio.Queue[bytes]()

    async def send(self, data: bytes) -> None:
        self.received += data
        self.pieces.put_nowait(data)


async def no_submission() -> None:
    return None


async def test_a_stream_that_cannot_go_on_ends_and_has_no_second_answer_in_it():
    def ask(request: ChangesRequest) -> ChangesReply:
        if request.user is not None:
            raise UnavailableError("no judicator answers")
        return ChangesReply(place="5-1")

    streams = Streams(ask, 10, nobody_answers)
    receiver = Receiver()
    async with asyncio.timeout(20):
        await streams.listen(receiver.send, Wish(key="ada", **MAY, user="ada", after="1-1"), no_submission)
    assert receiver.received == b"retry: 2000\n"
    streams.close()


async def test_a_client_that_reads_old_events_delays_no_other():
    """Four questions of one person, who may have fifty streams, were all that a gateway asked at once."""
    requests, over, loop = asyncio.Queue[str](), threading.Event(), asyncio.get_running_loop()

    def ask(request: ChangesRequest) -> ChangesReply:
        if request.user is not None:
            loop.call_soon_threadsafe(requests.put_nowait, request.user)
        if request.user == "eve":
            over.wait(20)
        return ChangesReply(place="5-1")

    async def listen(user: str) -> None:
        await streams.listen(receiver.send, Wish(key=user, **MAY, user=user, after="1-1"), no_submission)

    receiver = Receiver()
    streams = Streams(ask, 100, nobody_answers)
    listeners = [asyncio.create_task(listen("eve")) for _ in range(20)]
    try:
        async with asyncio.timeout(10):
            assert await requests.get() == "eve"
            listeners.append(asyncio.create_task(listen("ada")))
            assert await requests.get() == "ada"
    finally:
        over.set()
        streams.close()
        for listener in listeners:
            listener.cancel()


async def test_a_client_that_has_gone_ends_its_stream():
    async def send(data: bytes) -> None:
        raise ConnectionResetError

    streams = Streams(lambda _: ChangesReply(place="5-1"), 10, nobody_answers)
    async with asyncio.timeout(10):
        with pytest.raises(ConnectionError):
            await streams.listen(send, Wish(key="ada", **MAY, user="ada"), no_submission)
    assert not streams._all
    streams.close()


def change(version: int, *, final: bool = False) -> Change:
    return Change(id="0-0", submission="0" * 24, version=version, user="ada", status="running", done=final)


async def test_a_stream_of_a_submission_begins_with_its_newest_version():
    """The change may have come between the application's look and the registration of the listener."""

    async def current() -> Change:
        return change(7, final=True)

    streams = Streams(lambda _: ChangesReply(place="5-1"), 10, nobody_answers)
    receiver = Receiver()
    async with asyncio.timeout(10):
        wish = Wish(key="ada", **MAY, user="ada", submission="0" * 24, version=3)
        await streams.listen(receiver.send, wish, current)
    assert b"id: 7\n" in receiver.received
    streams.close()


@pytest.mark.parametrize("cause", get_args(Cause))
@pytest.mark.parametrize("system", [False, True])
def test_a_listener_hears_of_system_runs_on_demand(cause: str, *, system: bool) -> None:
    item = change(1).model_copy(update={"cause": cause})
    listener = _Listener(Wish(key="ada", **MAY, system=system))
    assert listener.wants(item) == (system or cause not in {"import", "statement"})
    assert _Listener(Wish(key="ada", **MAY, submission=item.submission)).wants(item), "it asks for this one"


async def listeners_after(check: Any, roles: list[str], *, sure: float = 0.0) -> list[bool]:
    """Which of the listeners in these roles have ended after one check; all were confirmed `sure` seconds ago."""
    streams = Streams(lambda _: ChangesReply(place="5-1"), 10, check)
    listeners = []
    for number, role in enumerate(roles):
        listener = _Listener(Wish(key="ada", role=role, credential=Credential("tokens", f"{number:064x}")))
        listener.checked -= sure
        listeners.append(listener)
    streams._all = set(listeners)
    await streams._check_once()
    return [listener.over for listener in listeners]


async def test_a_stream_ends_with_its_credential_and_with_its_role():
    ada = Principal("ada", "user", "")

    def check(credentials: Any) -> Any:
        return {credential: ada if int(credential.id, 16) else None for credential in credentials}

    assert await listeners_after(check, ["user", "user", "admin"]) == [True, False, True]


async def test_an_unconfirmed_credential_is_valid_for_a_minute():
    assert await listeners_after(nobody_answers, ["user"], sure=50) == [False]
    assert await listeners_after(nobody_answers, ["user"], sure=70) == [True]


async def test_an_unconfirmed_listener_receives_nothing(monkeypatch):
    confirms = threading.Event()

    def check(credentials: Any) -> Any:
        if not confirms.is_set():
            raise UnavailableError("no judicator answers")
        return dict.fromkeys(credentials, Principal("ada", "user", ""))

    monkeypatch.setattr("judge.gateway.streams._CHECK", 0.05)
    monkeypatch.setattr("judge.gateway.streams.LIFETIME", 0.2)
    streams = Streams(lambda _: ChangesReply(place="5-1"), 10, check)
    receiver = Receiver()
    listener = asyncio.create_task(streams.listen(receiver.send, Wish(key="ada", user="ada", **MAY), no_submission))
    try:
        async with asyncio.timeout(10):
            await receiver.pieces.get()
            await asyncio.sleep(0.3)
            streams._happened(ChangesReply(changes=[change(1)], place="5-2"))
            await asyncio.sleep(0.3)
            assert receiver.pieces.empty()
            confirms.set()
            assert b"running" in await receiver.pieces.get(), "it has waited"
    finally:
        streams.close()
        listener.cancel()
