"""The connections of a server: clients by address, room for new connections, and resets."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from judge.common.connections import ConnectionLimiter, group, hang_up


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1.2.3.4", "1.2.3.5", False),
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:1.2.3.4", "1.2.3.4", True),
        ("fe80::1%eth0", "fe80::2", True),
        ("", "", True),
    ],
)
def test_what_counts_as_one_stranger(one, other, same):
    assert (group(one) == group(other)) == same


@given(st.lists(st.tuples(st.sampled_from("iowl"), st.integers(0, 30), st.sampled_from("abc")), max_size=200))
def test_a_crowd_keeps_its_bounds_and_turns_away_those_who_wait_the_longest(steps):
    limiter: ConnectionLimiter[int] = ConnectionLimiter(6, 3)
    inside: dict[int, str] = {}
    waiting: list[int] = []
    for what, number, stranger in steps:
        if what == "i" and number not in inside:
            welcome, victim = limiter.enter(number, stranger)
            if victim is not None:
                own = [one for one in waiting if inside[one] == stranger]
                full = sum(one == stranger for one in inside.values()) >= 3
                assert victim == (own if full else waiting)[0], "who waits the longest"
                waiting.remove(victim)
                del inside[victim]
            if welcome:
                inside[number] = stranger
                waiting.append(number)
        elif what == "w":
            limiter.waits(number)
            if number in inside and number not in waiting:
                waiting.append(number)
        elif what == "o":
            limiter.works(number)
            waiting = [one for one in waiting if one != number]
        elif what == "l":
            limiter.leave(number)
            inside.pop(number, None)
            waiting = [one for one in waiting if one != number]
        assert len(limiter) == len(inside) <= 6
        assert limiter.waiting == len(waiting)
        assert max(Counter(inside.values()).values(), default=0) <= 3


def test_a_connection_may_be_hung_up_twice():
    """Also one of uvloop, which has no descriptor by then."""

    async def both():
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with theirs, ours:
            lost = asyncio.Event()

            class Waiting(asyncio.Protocol):
                def connection_lost(self, exc):
                    lost.set()

            transport, _ = await loop.create_connection(Waiting, sock=ours)
            hang_up(transport)
            await lost.wait()
            hang_up(transport)
            assert theirs.recv(1) == b""

    asyncio.run(both())
    uvloop.run(both())
