"""The pure parts of the gateway's front: heads, uWSGI's packets, room for connections, turns, failed log-ins."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.config import EtcdClient, Tls
from judge.errors import LimitError, UnavailableError, UsageError
from judge.gateway import head as heads
from judge.gateway.app import create_app
from judge.gateway.auth import Tokens
from judge.gateway.crowd import Crowd, group
from judge.gateway.gate import SMALL_BODY, Gate
from judge.gateway.head import HeadTooLargeError
from judge.gateway.throttle import Throttle
from judge.gateway.turns import Few, Turns
from tests.support.gateway import ADMIN, USER, make_config

# --- heads -----------------------------------------------------------------------------------------------------


def parse(*lines: str) -> heads.Head:
    return heads.parse(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))


def test_a_head_is_read():
    head = parse(
        "POST /a%20b?c=d HTTP/1.1", "Host: x", "Content-Length: 7", "Cookie: a=1", "Cookie: b=2", "X-A: 1", "x-a: 2"
    )
    assert (head.method, head.path, head.length, head.chunked, head.version) == ("POST", "/a b", 7, False, "1.1")
    assert head.fields["cookie"] == "a=1; b=2"
    assert head.fields["x-a"] == "1, 2"
    assert head.bearer is None
    assert parse("GET / HTTP/1.1", "Host: x", "Authorization: Bearer  t ").bearer == "t"
    assert parse("GET / HTTP/1.1", "Host: x", "Authorization: Basic t").bearer == ""
    assert parse("GET http://x HTTP/1.1", "Host: x").target == "/"
    assert parse("GET HTTP://x:80/y?z HTTP/1.1", "Host: x").target == "/y?z"
    assert parse("GET / HTTP/1.0").fields == {}


@pytest.mark.parametrize(
    "lines",
    [
        ("GET / HTTP/1.1",),
        ("GET / HTTP/1.1", "Host: x", "Host: y"),
        ("GET / HTTP/2.0", "Host: x"),
        ("GET  / HTTP/1.1", "Host: x"),
        ("G\x00T / HTTP/1.1", "Host: x"),
        ("get / HTTP/1.1", "Host: x"),
        ("Post / HTTP/1.1", "Host: x"),
        ("GET /\x7f HTTP/1.1", "Host: x"),
        ("GET /", "Host: x"),
        ("CONNECT x:1 HTTP/1.1", "Host: x"),
        ("OPTIONS * HTTP/1.1", "Host: x"),
        ("GET / HTTP/1.1", "Host: x", " folded: before anything"),
        ("GET / HTTP/1.1", "Host: x", "Name : space"),
        ("GET / HTTP/1.1", "Host: x", "no colon"),
        ("GET / HTTP/1.1", "Host: x", "A: \x00"),
        *(
            ("POST / HTTP/1.1", "Host: x", *lengths)
            for lengths in (
                ("Content-Length: 1", "Content-Length: 2"),
                ("Content-Length: 1, 2",),
                ("Content-Length: -1",),
                ("Content-Length: +1",),
                ("Content-Length: 0x1",),
                ("Content-Length: 1 1",),
                ("Content-Length: ²",),
                ("Content-Length: " + "9" * 19,),
                ("Content-Length: 1", "Transfer-Encoding: chunked"),
                ("Transfer-Encoding: chunked", "Content-Length: 1"),
                ("Transfer-Encoding: identity",),
                ("Transfer-Encoding: chunked, chunked",),
                ("Transfer-Encoding: xchunked",),
                ("Transfer-Encoding: gzip, chunked",),
            )
        ),
    ],
)  # fmt: skip
def test_a_head_that_two_servers_could_read_differently_is_refused(lines):
    with pytest.raises(UsageError):
        parse(*lines)


def test_a_head_has_bounds():
    with pytest.raises(HeadTooLargeError):
        parse("GET / HTTP/1.1", "Host: x", *(f"X-{number}: 1" for number in range(200)))
    long = parse("GET /" + "a" * 32_700 + " HTTP/1.1", "Host: x")
    with pytest.raises(HeadTooLargeError):
        heads.packet(long, "1.2.3.4", "http", ("x", 1))


def unpack(packet: bytes) -> dict[str, bytes]:
    kind, size, modifier = struct.unpack("<BHB", packet[:4])
    assert (kind, modifier, size) == (0, 0, len(packet) - 4)
    parts, at = [], 4
    while at < len(packet):
        (length,) = struct.unpack_from("<H", packet, at)
        parts.append(packet[at + 2 : at + 2 + length])
        at += 2 + length
    return {key.decode(): value for key, value in zip(parts[::2], parts[1::2], strict=True)}


def test_what_uwsgi_is_told():
    head = parse(
        "PUT /caf%C3%A9?q=%20 HTTP/1.1", "Host: x", "Content-Type: a/b", "Content-Length: 3",
        "X-Forwarded-For: 9.9.9.9", "Remote_Addr: 6.6.6.6", "Remote-Addr: 7.7.7.7", "X_Forwarded_For: 8.8.8.8",
    )  # fmt: skip
    told = unpack(heads.packet(head, "1.2.3.4", "https", ("::1", 80)))
    assert told == {
        "REQUEST_METHOD": b"PUT", "REQUEST_URI": b"/caf%C3%A9?q=%20", "PATH_INFO": "/café".encode(), "SCRIPT_NAME": b"",
        "QUERY_STRING": b"q=%20", "SERVER_PROTOCOL": b"HTTP/1.1", "SERVER_NAME": b"::1", "SERVER_PORT": b"80",
        "REMOTE_ADDR": b"1.2.3.4", "UWSGI_SCHEME": b"https", "HTTP_HOST": b"x", "CONTENT_TYPE": b"a/b",
        "CONTENT_LENGTH": b"3", "HTTP_X_FORWARDED_FOR": b"9.9.9.9", "HTTP_REMOTE_ADDR": b"7.7.7.7",
    }  # fmt: skip


PIECES = st.sampled_from(
    [b"GET", b"POST", b" ", b"/", b"HTTP/1.1", b"\r\n", b"\n", b"\r", b"Host: x", b":", b"Content-Length: 5", b"\x00",
     b"\t", b"Transfer-Encoding: chunked", b"Authorization: Bearer ", b"Cookie: a=b;", b"%", b"%00", b"?", b"\xff", b"http://"]
)  # fmt: skip


@given(st.lists(PIECES | st.binary(max_size=6), max_size=40).map(b"".join))
def test_any_bytes_are_a_head_or_one_sentence(data):
    """Whatever is let through has one meaning, and uWSGI's variables are ours."""
    try:
        head = heads.parse(data + b"\r\n\r\n")
        told = unpack(heads.packet(head, "1.2.3.4", "http", ("x", 1)))
    except UsageError:
        return
    assert told["REMOTE_ADDR"] == b"1.2.3.4"
    assert told["PATH_INFO"].startswith(b"/")
    assert head.target.startswith("/")
    assert not (head.chunked and "content-length" in head.fields)
    assert head.length >= 0


# --- who is asking ---------------------------------------------------------------------------------------------


@pytest.fixture
def config(work):
    return make_config(
        work, EtcdClient(endpoints=["127.0.0.1:1"]), Tls(ca=work / "ca", cert=work / "cert", key=work / "key")
    )


def gate_of(config) -> Gate:
    return Gate(config, Tokens(config.tokens), config.session_key.read_bytes().strip())


def test_only_a_proxy_speaks_for_others(config):
    head = parse("GET / HTTP/1.1", "Host: x", "X-Forwarded-For: 6.6.6.6, 1.2.3.4", "X-Forwarded-Proto: https")
    own, behind = gate_of(config), gate_of(config.model_copy(update={"proxied": True}))
    assert [own.address(head, peer) for peer in ("127.0.0.1", "9.9.9.9")] == ["127.0.0.1", "9.9.9.9"]
    assert [behind.address(head, peer) for peer in ("127.0.0.1", "::1", "9.9.9.9")] == ["1.2.3.4", "1.2.3.4", "9.9.9.9"]
    assert [own.scheme(head, "127.0.0.1"), behind.scheme(head, "9.9.9.9")] == ["http", "http"]
    assert behind.scheme(head, "127.0.0.1") == "https"


def test_a_stranger_sends_a_small_body_only(config):
    gate = gate_of(config)
    limits = config.limits
    bodies = {
        ("POST /api/v1/submissions", None): SMALL_BODY,
        ("POST /api/v1/submissions", "wrong"): SMALL_BODY,
        ("POST /api/v1/submissions", USER): limits.body_bytes,
        ("PUT /api/v1/blobs/x", ADMIN): limits.blob_bytes,
        ("PUT /api/v1/blobs/x", None): SMALL_BODY,
        ("POST /submit", None): SMALL_BODY,
        ("POST /login", None): SMALL_BODY,
    }
    for (line, token), most in bodies.items():
        fields = ["Host: x"] + ([f"Authorization: Bearer {token}"] if token else [])
        assert gate.caller(parse(f"{line} HTTP/1.1", *fields), "1.2.3.4").body_bytes == most, (line, token)


def test_a_session_of_the_pages_is_known_at_the_gate(config):
    client = create_app(config).test_client()
    principal = Tokens(config.tokens).find(USER)
    with client.session_transaction() as session:
        session["fp"] = principal.fingerprint
    cookie = client.get_cookie("judge")
    gate = gate_of(config)
    known = gate.caller(parse("POST /submit HTTP/1.1", "Host: x", f"Cookie: odd; a=b; judge={cookie.value}"), "1.2.3.4")
    assert known.known and known.known.user == "ada" and known.body_bytes == config.limits.blob_bytes
    for forged in (cookie.value[:-2] + "xx", "", "a.b.c", cookie.value.swapcase()):
        assert (
            gate.caller(parse("POST /submit HTTP/1.1", "Host: x", f"Cookie: judge={forged}"), "1.2.3.4").known is None
        )
    for _ in range(30):
        gate.answered(known, 401)
    for line, waits in (("POST /login", True), ("POST /submit", False), ("GET /api/v1/whoami", False)):
        caller = gate.caller(parse(f"{line} HTTP/1.1", "Host: x", f"Cookie: judge={cookie.value}"), "1.2.3.4")
        assert (caller.retry_after > 0) == waits, "a session is no licence to guess the tokens of others"


def test_failures_cost_strangers_time_and_not_their_neighbours(config):
    gate = gate_of(config)
    right = parse("GET /api/v1/whoami HTTP/1.1", "Host: x", f"Authorization: Bearer {USER}")
    wrong = parse("GET /api/v1/whoami HTTP/1.1", "Host: x", "Authorization: Bearer wrong")
    assert gate.caller(right, "1.2.3.4").retry_after == 0
    for _ in range(30):
        gate.answered(gate.caller(wrong, "1.2.3.4"), 401)
    assert gate.caller(wrong, "1.2.3.4").retry_after > 0
    assert gate.caller(right, "1.2.3.4").retry_after == 0, "came in from there before"
    other = parse("GET /api/v1/whoami HTTP/1.1", "Host: x", f"Authorization: Bearer {ADMIN}")
    assert gate.caller(other, "1.2.3.4").retry_after > 0, "or guessing would go on"
    assert gate.caller(other, "1.2.3.5").retry_after == 0
    for free in ("GET /login", "GET /", "GET /static/app.css", "GET /api/v1/health"):
        assert gate.caller(parse(f"{free} HTTP/1.1", "Host: x"), "1.2.3.4").retry_after == 0
    for guess in (
        "/login",
        "/%6cogin",
        "/%6C%6f%67in?a",
        "http://x/log%69n",
        "//login",
        "/%2flogin",
        "//api/v1/whoami",
        "/%61pi/v1/whoami",
    ):
        assert gate.caller(parse(f"POST {guess} HTTP/1.1", "Host: x"), "1.2.3.4").retry_after > 0, guess


@given(st.lists(st.tuples(st.floats(0, 10), st.booleans()), max_size=80))
def test_a_throttle_lets_through_a_burst_and_then_one_each_so_often(steps):
    throttle, now, through = Throttle(5, 3.0), 0.0, 0
    for pause, _ in steps:
        now += pause
        if throttle.wait("a", now) <= 0:
            throttle.failed("a", now)
            through += 1
        assert 0 <= throttle.wait("a", now) <= 3.0 + 1e-6
        assert throttle.wait("b", now) == 0
    assert through <= 5 + now / 3.0 + 1


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


# --- room ------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from("iowl"), st.integers(0, 30), st.sampled_from("abc")), max_size=200))
def test_a_crowd_keeps_its_bounds_and_turns_away_those_who_wait_the_longest(steps):
    crowd: Crowd[int] = Crowd(6, 3)
    inside: dict[int, str] = {}
    waiting: list[int] = []
    for what, number, stranger in steps:
        if what == "i" and number not in inside:
            welcome, victim = crowd.enter(number, stranger)
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
            crowd.waits(number)
            if number in inside and number not in waiting:
                waiting.append(number)
        elif what == "o":
            crowd.works(number)
            waiting = [one for one in waiting if one != number]
        elif what == "l":
            crowd.leave(number)
            inside.pop(number, None)
            waiting = [one for one in waiting if one != number]
        assert len(crowd) == len(inside) <= 6
        assert crowd.waiting == len(waiting)
        assert max(Counter(inside.values()).values(), default=0) <= 3


# --- turns -----------------------------------------------------------------------------------------------------


def test_turns_go_round_by_key():
    """Fifty of one and one of another: the other comes next but one."""

    async def run() -> list[str]:
        turns, order, gate = Turns(1, 100, 100), [], asyncio.Event()

        async def one(key: str) -> None:
            async with turns.turn(key, 1, 10):
                order.append(key)
                await gate.wait()

        tasks = [asyncio.create_task(one("a")) for _ in range(50)]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(one("b")))
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*tasks)
        assert turns.waiting == 0
        return order

    assert asyncio.run(run()).index("b") <= 2


@given(st.integers(1, 4), st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=40))
def test_turns_keep_their_bounds_whoever_gives_up(slots, callers):
    """At most `slots` at once, at most two of one key; nobody is forgotten, though some are cancelled meanwhile."""

    async def run() -> None:
        turns, held = Turns(slots, 1000, 1000), Counter()

        async def one(key: str, steps: int) -> None:
            async with turns.turn(key, 2, 10):
                held[key] += 1
                assert held.total() <= slots and max(held.values()) <= 2
                try:
                    for _ in range(steps):
                        await asyncio.sleep(0)
                finally:
                    held[key] -= 1

        tasks = [asyncio.create_task(one(*caller)) for caller in callers]
        for number, task in enumerate(tasks):
            await asyncio.sleep(0)
            if number % 3 == 2:
                task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        assert turns.waiting == 0
        assert turns._free == slots and not turns._held

    asyncio.run(run())


def test_too_many_who_wait_are_told_at_once():
    async def run() -> None:
        turns = Turns(1, 3, 2)
        async with turns.turn("a", 1, 1):
            waiting = [asyncio.create_task(turns._take("a", 1, 10)) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(UnavailableError, match="too many wait already"):
                await turns._take("a", 1, 10)
            waiting.append(asyncio.create_task(turns._take("b", 1, 10)))
            await asyncio.sleep(0)
            with pytest.raises(UnavailableError, match="too many wait already"):
                await turns._take("c", 1, 10)
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
            with pytest.raises(UnavailableError, match="is busy"):
                await turns._take("c", 1, 0.01)
        assert turns._free == 1

    asyncio.run(run())


def test_few_at_once():
    few = Few(3, 2)
    with few.one("a", "things"), few.one("a", "things"):
        with (
            pytest.raises(LimitError, match="at most 2 things are taken at once from one person"),
            few.one("a", "things"),
        ):
            pass
        with few.one("b", "things"), pytest.raises(LimitError, match="at most 3"), few.one("c", "things"):
            pass
    with few.one("a", "things"):
        pass
    assert not few._held
