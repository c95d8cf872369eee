"""The connections of a server: clients by address, room for new connections, and resets."""

import asyncio
import socket
from collections import Counter

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from judge.common.connections import ConnectionLimiter, group, hang_up


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        ("1.2.3.4", "1.2.3.5", False),
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:1.2.3.4", "1.2.3.4", True),
        ("fe80::1%eth0", "fe80::2", True),
        ("", "", True),
    ],
)
def test_addresses_of_one_client(first, second, equal):
    assert (group(first) == group(second)) == equal


@given(st.lists(st.tuples(st.sampled_from("iowl"), st.integers(0, 30), st.sampled_from("abc")), max_size=200))
def test_connections_stay_within_bounds_and_the_longest_waiting_are_dropped(steps):
    limiter: ConnectionLimiter[int] = ConnectionLimiter(6, 3)
    inside: dict[int, str] = {}
    waiting: list[int] = []
    for step, number, stranger in steps:
        if step == "i" and number not in inside:
            welcome, victim = limiter.enter(number, stranger)
            if victim is not None:
                own = [connection for connection in waiting if inside[connection] == stranger]
                full = sum(connection == stranger for connection in inside.values()) >= 3
                assert victim == (own if full else waiting)[0], "who waits the longest"
                waiting.remove(victim)
                del inside[victim]
            if welcome:
                inside[number] = stranger
                waiting.append(number)
        elif step == "w":
            limiter.waits(number)
            if number in inside and number not in waiting:
                waiting.append(number)
        elif step == "o":
            limiter.works(number)
            waiting = [connection for connection in waiting if connection != number]
        elif step == "l":
            limiter.leave(number)
            inside.pop(number, None)
            waiting = [connection for connection in waiting if connection != number]
        assert len(limiter) == len(inside) <= 6
        assert limiter.waiting == len(waiting)
        assert max(Counter(inside.values()).values(), default=0) <= 3


def test_a_connection_may_be_hung_up_twice():
    """Also one of uvloop, which has no descriptor by then."""

    async def hang_up_twice():
        loop = asyncio.get_running_loop()
        own, peer = socket.socketpair()
        with peer, own:
            closed = asyncio.Event()

            class Waiting(asyncio.Protocol):
                def connection_lost(self, exc):
                    closed.set()

            transport, _ = await loop.create_connection(Waiting, sock=own)
            hang_up(transport)
            await closed.wait()
            hang_up(transport)
            assert peer.recv(1) == b""

    asyncio.run(hang_up_twice())
    uvloop.run(hang_up_twice())
