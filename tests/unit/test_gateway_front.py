"""The pure parts of the gateway's front: heads, uWSGI's packets, room for connections, turns, failed log-ins."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import struct
import threading
from collections import Counter
from dataclasses import replace

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from judge import clock
from judge.config import EtcdClient, GatewayConfig, Tls
from judge.crowd import Crowd, group, hang_up
from judge.errors import LimitError, UnavailableError, UsageError
from judge.gateway import devices
from judge.gateway.app import create_app
from judge.gateway.auth import FileTokens
from judge.gateway.front import head as heads
from judge.gateway.front.exchange import exchange
from judge.gateway.front.gate import SMALL_BODY, FrontGate, HttpCaller, cookie_name
from judge.gateway.front.head import HeadTooLargeError
from judge.gateway.front.refusing import refusal
from judge.gateway.front.room import Held, Room
from judge.gateway.front.turns import Pace, Places, Turns
from judge.gateway.throttle import AddressThrottle
from tests.support.gateway import ADMIN, USER, make_config, write_tokens

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
    assert (head.field("X-A"), head.field("Authorization")) == ("1, 2", None)
    assert (head.argument("c"), head.argument("e"), parse("GET /?a=%41&a=2&b HTTP/1.1", "Host: x").argument("a")) == (
        "d",
        None,
        "A",
    )
    assert parse("GET http://x HTTP/1.1", "Host: x").target == "/"
    assert parse("GET HTTP://x:80/y?z HTTP/1.1", "Host: x").target == "/y?z"
    assert parse("GET / HTTP/1.0").fields == {}
    assert parse("GET /?a=1&b=2&a=3 HTTP/1.1", "Host: x").arguments("a") == ["1", "3"]
    for sent, read in (("caf\xe9", "caf\ufffd"), ("caf\xc3\xa9", "caf\xe9")):
        cookie = parse("GET / HTTP/1.1", "Host: x", f"Cookie: a=1; b={sent}").fields["cookie"]
        assert cookie.encode("latin-1").decode("utf-8") == f"a=1; b={read}"


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
        "CONTENT_LENGTH": b"3", "HTTP_REMOTE_ADDR": b"7.7.7.7",
    }  # fmt: skip


PIECES = st.sampled_from(
    [b"GET", b"POST", b" ", b"/", b"HTTP/1.1", b"\r\n", b"\n", b"\r", b"Host: x", b":", b"Content-Length: 5", b"\x00",
     b"\t", b"Transfer-Encoding: chunked", b"Authorization: Bearer ", b"Cookie: a=b;", b"%", b"%00", b"?", b"\xff", b"http://"]
)  # fmt: skip


LINES = st.lists(
    st.tuples(
        st.sampled_from(
            ["Host", "host", "Cookie", "X-A", "x_a", "Content-Length", "Transfer-Encoding", "Accept", "Expect", "A b"]
        ),
        st.sampled_from([":", ": ", ":  ", " :"]),
        st.sampled_from(
            ["x", "5", "a; b", "chunked", "", "a  b", " ", "\t", "caf\xe9", "007", "9" * 16, "a:b", "\x01"]
        ),
        st.sampled_from(["\r\n", "\r\n", "\r\n", "\n", " \r\n"]),
    ).map("".join),
    max_size=6,
)


@given(
    st.sampled_from(["GET /", "POST /a?b", "get /", "GET http://x/", "GET *", "CONNECT /x", "GET /\x7f", "G-T /a"]),
    st.sampled_from([" HTTP/1.1\r\n", " HTTP/1.0\r\n", " HTTP/1.1\n", "  HTTP/1.1\r\n"]),
    LINES,
    st.booleans(),
)
def test_a_usual_head_means_what_h11_says_of_it(start, version, lines, host):
    """The short way takes nothing that the long one refuses, and reads nothing else in it."""
    data = (start + version + ("Host: x\r\n" if host else "") + "".join(lines) + "\r\n").encode("latin-1")
    short = heads._usual(data)
    if short is not None:
        assert short == heads._whole(data)


def test_what_browsers_and_programs_send_goes_the_short_way():
    common = b"Host: x:1\r\nUser-Agent: Mozilla/5.0 (X11; Linux)\r\nAccept: text/html,*/*;q=0.8\r\nCookie: a=b; c=d\r\n"
    for line in (b"GET /a%20b?c=d HTTP/1.1\r\n", b"POST /submit HTTP/1.1\r\nContent-Length: 7\r\n"):
        assert heads._usual(line + common + b"\r\n") == heads._whole(line + common + b"\r\n")


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


def gate_of(config) -> FrontGate:
    return FrontGate(config, FileTokens(config.tokens), config.session_key.read_bytes().strip())


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
        ("PUT /api/v1/blobs/x", USER): limits.body_bytes,
        ("POST /submit", None): SMALL_BODY,
        ("POST /login", None): SMALL_BODY,
    }
    for (line, token), most in bodies.items():
        fields = ["Host: x"] + ([f"Authorization: Bearer {token}"] if token else [])
        assert gate.caller(parse(f"{line} HTTP/1.1", *fields), "1.2.3.4").body_bytes == most, (line, token)


def test_a_session_of_the_pages_is_known_at_the_gate_while_the_app_says_so(config, monkeypatch):
    """A cookie that is well signed proves nothing: its session may have ended. So it is a stranger's until then."""
    now = [1000.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    client = create_app(config).test_client()
    principal = FileTokens(config.tokens).find(USER)
    with client.session_transaction() as session:
        session["fp"], session["sid"] = principal.fingerprint, "secret"
    cookie = client.get_cookie("judge").value
    gate = gate_of(config)

    def ask(line: str = "POST /submit", value: str = cookie) -> HttpCaller:
        return gate.caller(parse(f"{line} HTTP/1.1", "Host: x", f"Cookie: odd; a=b; judge={value}"), "1.2.3.4")

    proof = ask().proof
    assert proof is not None
    for status, known, asked in (
        *((None, False, True), (503, False, False), (204, True, False), (503, True, False), (404, False, False)),
        *((503, False, False), (204, True, False)),
    ):
        if status is not None:
            gate.said(proof, status, {"judge-user": "ada", "judge-role": "user"})
        caller = ask()
        assert (caller.known is not None, caller.proof) == (known, proof if asked else None), status
        assert caller.key == ("user ada" if known else "1.2.3.4")
        assert caller.body_bytes == (config.limits.body_bytes if known else SMALL_BODY)
    now[0] += 60.0
    assert ask().proof == proof, "a yes has an end"
    for forged in (cookie[:-2] + "xx", "", "a.b.c", cookie.swapcase()):
        assert (ask(value=forged).known, ask(value=forged).proof) == (None, None)
    for _ in range(30):
        fail(gate, ask("POST /login"))
    for line, waits in (("POST /login", True), ("POST /submit", False), ("GET /api/v1/whoami", False)):
        assert (ask(line).retry_after > 0) == waits, "a session is no licence to guess the tokens of others"
    write_tokens(config.tokens, [("root", "admin", ADMIN)])
    assert (ask().known, ask().proof) == (None, None), "who has no token has no session"


def test_failures_cost_strangers_time_and_not_their_neighbours(config):
    gate = gate_of(config)
    right = parse("GET /api/v1/whoami HTTP/1.1", "Host: x", f"Authorization: Bearer {USER}")
    wrong = parse("GET /api/v1/whoami HTTP/1.1", "Host: x", "Authorization: Bearer wrong")
    assert gate.caller(right, "1.2.3.4").retry_after == 0
    for _ in range(30):
        fail(gate, gate.caller(wrong, "1.2.3.4"))
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
    ):
        assert gate.caller(parse(f"POST {guess} HTTP/1.1", "Host: x"), "1.2.3.4").retry_after > 0, guess
    for guess in ("/api/v1/openapi.json", "//api/v1/whoami", "/%61pi/v1/whoami", "/judge0/about"):
        head = parse(f"GET {guess} HTTP/1.1", "Host: x", "authorization:  bEARER wrong")
        assert gate.caller(head, "1.2.3.4").retry_after > 0, guess
    for header in ("Authorization: Basic t", "Authorization: wrong"):
        assert gate.caller(parse("GET /api/v1/whoami HTTP/1.1", "Host: x", header), "1.2.3.4").retry_after > 0, header
    for asked in (
        "/judge0/authenticate?X-Auth-Token=wrong",
        "/judge0/authenticate.json?X-Auth-Token=wrong",
        "/judge0/extra/authorize?x=1&X-Auth-User=wrong",
        "/judge0/extra/authorize.json/?X-Auth-User=wrong",
    ):
        assert gate.caller(parse(f"POST {asked} HTTP/1.1", "Host: x"), "1.2.3.4").retry_after > 0, asked
    assert gate.caller(parse("GET /judge0/about?X-Auth-Token=wrong HTTP/1.1", "Host: x"), "1.2.3.4").retry_after == 0
    without = parse("GET /api/v1/whoami HTTP/1.1", "Host: x")
    assert gate.caller(without, "1.2.3.4").retry_after == 0, "no token is no guess"
    for _ in range(30):
        fail(gate, gate.caller(without, "1.2.3.6"))
    assert gate.caller(wrong, "1.2.3.6").retry_after == 0


def test_several_slashes_of_an_api_are_one(config):
    """The app would answer with a page that leads elsewhere, where nobody follows who sends a body."""
    gate = gate_of(config)
    for asked, target in (
        ("/api//v1///submissions?a=//", "/api/v1/submissions?a=//"),
        ("/api/v1%2F%2fwhoami", "/api/v1/whoami"),
        ("/judge0//submissions?wait=true&a=//", "/judge0/submissions?wait=true&a=//"),
        ("//judge0///submissions/%2f//batch", "/judge0/submissions/batch"),
        ("/judge0//x%3Fy%20%C3%A9?", "/judge0/x%3Fy%20%C3%A9?"),
        ("/%6audge0%2F%2fabout", "/judge0/about"),
        *((same, same) for same in ("/judge0/%61bout", "/judge0x//y", "/apix//v1", "//login", "/", "/judge0")),
    ):
        assert gate.routed(parse(f"GET {asked} HTTP/1.1", "Host: x")).target == target, asked
    off = gate_of(config.model_copy(update={"judge0": config.judge0.model_copy(update={"enabled": False})}))
    assert off.routed(parse("GET /judge0//x HTTP/1.1", "Host: x")).target == "/judge0//x"
    assert off.routed(parse("GET /api//x HTTP/1.1", "Host: x")).target == "/api/x"


@pytest.mark.parametrize(
    ("asked", "held"),
    [
        ("POST /judge0/submissions?wait=true", True),
        ("POST /judge0/extra/submissions.json/?wait=True", True),
        ("POST /judge0/submissions?wait=false&base64_encoded=true&wait=true", True),
        ("POST /judge0/submissions?wait=true&wait=false", False),
        ("POST /judge0/submissions?wait=false", False),
        ("POST /judge0/submissions?wait=", False),
        ("POST /judge0/submissions", False),
        ("POST /judge0/submissions/batch?wait=true", False),
        ("DELETE /judge0/submissions/x?wait=true", False),
        ("DELETE /judge0/submissions?wait=true", False),
        ("POST /api/v1/submissions?wait=true", False),
        ("POST /api/v1/submissions?wait=1", False),
        ("POST /submissions?wait=true", False),
        ("GET /api/v1/submissions/0123456789abcdef01234567?wait=20&version=1", True),
        ("GET /api/v1/submissions/0123456789abcdef01234567", False),
        ("GET /api/v1/submissions?wait=20", False),
        ("GET /api/v1/submissions/batch?ids=0123&wait=20", False),
        ("GET /api/v1/submissions/0123456789abcdef01234567/source?wait=20", False),
        ("GET /judge0/submissions/0123?wait=true", False),
        ("POST /api/v1/submissions/0123456789abcdef01234567?wait=20", False),
        ("GET /submissions/0123?wait=20", False),
    ],
)  # fmt: skip
def test_few_calls_are_held(config, asked, held):
    """All others have an eighth of the turns, whatever stands in their address."""
    assert gate_of(config).holds(parse(f"{asked} HTTP/1.1", "Host: x")) == held


def test_under_a_host_of_its_own_judge0_is_at_the_root(config):
    named = config.judge0.model_copy(update={"hosts": ["judge0.example.org"]})
    gate = gate_of(config.model_copy(update={"judge0": named}))

    def ask(target: str, host: str) -> str:
        return gate.routed(parse(f"POST {target} HTTP/1.1", f"Host: {host}", f"X-Auth-Token: {USER}")).target

    for host in ("judge0.example.org", "Judge0.Example.ORG:8080", "judge0.example.org:", "judge0.example.org.:80"):
        assert ask("/submissions?wait=true", host) == "/judge0/submissions?wait=true"
        assert ask("//extra//submissions", host) == "/judge0/extra/submissions"
        assert ask("/", host) == "/judge0/"
        assert ask("/judge0/about", host) == "/judge0/judge0/about", "there is nothing"
        assert ask("/api/v1/whoami", host) == "/judge0/api/v1/whoami", "nor of ours"
        assert ask("http://x/login", host) == "/judge0/login"
    for host in ("x.judge0.example.org", "judge0.example.org.evil", "judge0.example.org:80:80", "example.org"):
        assert ask("/submissions", host) == "/submissions"
    assert gate.routed(parse("GET /about HTTP/1.0")).target == "/about"
    head = gate.routed(parse("POST /submissions HTTP/1.1", "Host: judge0.example.org", f"X-Auth-Token: {USER}"))
    assert gate.caller(head, "1.2.3.4").known.user == "ada"
    pages = {"judge0": {"hosts": ["Judge.example"]}, "public_url": "https://judge.example:8443"}
    with pytest.raises(ValueError, match=r"judge0.hosts has 'judge.example', where public_url says"):
        GatewayConfig.model_validate({**config.model_dump(), **pages})


def test_a_token_that_nobody_has_is_a_failure_whatever_is_answered(config):
    """Else a path that answers strangers and people differently would be a place to guess."""

    def waits(token: str, *statuses: int) -> bool:
        gate = gate_of(config)
        head = parse("OPTIONS /judge0/submissions HTTP/1.1", "Host: x", f"X-Auth-Token: {token}")
        for status in itertools.islice(itertools.cycle(statuses), 30):
            caller = replace(gate.caller(head, "1.2.3.4"), proof=None)
            gate.begins(caller)
            gate.answered(caller, status)
        return gate.caller(head, "1.2.3.4").retry_after > 0

    account = "judge_" + "a" * 43
    for guess in ("wrong", account):
        assert waits(guess, 204, 404, 0, 413, 200, 401), guess
    assert waits("wrong", 503)
    assert not waits(account, 503), "nobody could say whether it is right"
    assert not waits(USER, 204, 404, 0)


def test_an_address_that_is_too_long_is_refused_as_such(config):
    gate = gate_of(config)
    for target in ("/judge0//" + "!" * 30_000, "/judge0//" + "%21" * 30_000, "/judge0//" + "\\" * 30_000):
        head = gate.routed(parse(f"POST {target} HTTP/1.1", "Host: x"))
        with contextlib.suppress(HeadTooLargeError):
            assert len(heads.packet(head, "1.2.3.4", "http", ("x", 1))) < 65535 + 4


def test_what_is_no_token_stands_in_the_way_of_none(config):
    gate = gate_of(config)

    def ask(*lines: str) -> str | None:
        known = gate.caller(parse("GET /judge0/about HTTP/1.1", "Host: x", *lines), "1.2.3.4").known
        return known.user if known is not None else None

    for none in ("Bearer undefined", "Bearer null", "bearer Null", "Bearer", "undefined", "null", "Basic Og=="):
        assert ask(f"X-RapidAPI-Key: {USER}", f"Authorization: {none}") == "ada", none
        assert ask("X-Auth-Token: undefined", f"Authorization: {none}", f"x-apihub-key: {USER}") == "ada", none
    assert ask(f"X-Auth-Token: {USER}", f"Authorization: Bearer {ADMIN}") == "ada"
    # Else whoever has a token could guess those of others beside it.
    assert ask("X-Auth-Token: wrong", f"X-Auth-User: {USER}") is None


def fail(gate: FrontGate, caller: HttpCaller) -> None:
    """A request that came through and is answered with 401, or was refused at once."""
    if caller.retry_after == 0:
        gate.begins(caller)
        gate.answered(caller, 401)


@pytest.mark.parametrize("line", ["GET /api/v1/whoami", "POST /login"])
def test_guesses_at_once_are_as_few_as_one_after_the_other(config, line):
    """Their answers are all still to come."""
    gate, free = gate_of(config), 0
    fields = ["Host: x", *(["Authorization: Bearer wrong"] if "api" in line else [])]
    for _ in range(200):
        caller = gate.caller(parse(f"{line} HTTP/1.1", *fields), "1.2.3.4")
        if caller.retry_after == 0:
            gate.begins(caller)
            free += 1
    assert free == 20
    assert gate.caller(parse(f"{line} HTTP/1.1", *fields), "1.2.3.5").retry_after == 0


def test_a_browser_that_was_in_is_not_held_up_by_neighbours_who_fail(config):
    """Its own failures count; no cookie that is none, of another or of the session has tries of its own."""
    gate = gate_of(config)
    signer = devices._signer(gate._app)

    def fails(*cookies: str) -> float:
        fields = [f"Cookie: {'; '.join(cookies)}"] if cookies else []
        caller = gate.caller(parse("POST /login HTTP/1.1", "Host: x", *fields), "1.2.3.4")
        if caller.retry_after == 0:
            gate.begins(caller)
            gate.answered(caller, 401)
        return caller.retry_after

    name = devices.device_cookie(cookie_name(config))
    mine, other = (f"{name}={signer.dumps(['ada', device])}" for device in ("one", "two"))
    assert [fails() > 0 for _ in range(21)] == [False] * 20 + [True]
    for forged in (mine[:-1], f"{name}=x", f"{name}=", f"{name}={signer.dumps('ada')}"):
        assert fails(forged) > 0
    assert [fails(mine) > 0 for _ in range(21)] == [False] * 20 + [True]
    assert fails(other) == 0


@pytest.mark.parametrize("status", [303, 404, 0])
def test_what_was_no_failure_costs_nothing(config, status):
    gate = gate_of(config)
    for _ in range(100):
        caller = gate.caller(parse("POST /login HTTP/1.1", "Host: x"), "1.2.3.4")
        assert caller.retry_after == 0
        gate.begins(caller)
        gate.answered(caller, status)


@given(st.lists(st.tuples(st.floats(0, 10), st.booleans()), max_size=80))
def test_a_throttle_lets_through_a_burst_and_then_one_each_so_often(steps):
    throttle, now, through = AddressThrottle(5, 3.0), 0.0, 0
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


def test_places_to_wait_are_kept_for_those_who_are_known():
    """However many strangers ask, from however many addresses."""

    async def run() -> None:
        turns, waiting = Turns(1, 10, 4), []
        async with turns.turn("first", 1, 1):
            for stranger in range(100):
                waiting.append(asyncio.create_task(turns._take(f"stranger {stranger}", 1, 10, known=False)))
                await asyncio.sleep(0)
            assert turns.waiting == 5
            waiting.append(asyncio.create_task(turns._take("user ada", 1, 10)))
            await asyncio.sleep(0)
            assert turns.waiting == 6
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

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


def test_a_few_places_for_what_takes_long():
    """One person has some of them, one address too; who is slow gives way to a person who has fewer, and hears why."""
    places, went = Places(6, 2, 3, 30.0), []
    with contextlib.ExitStack() as stack:

        def enter(key: str, group: str, now: float) -> None:
            stack.enter_context(places.one(key, group, "things", now, lambda why: went.append((key, str(why)))))

        enter("a", "x", 0)
        enter("a", "x", 1)
        with pytest.raises(LimitError, match="at most 2 things are taken at once from one person; try again"):
            enter("a", "y", 100)
        enter("b", "x", 2)
        with pytest.raises(LimitError, match="at most 3 things are taken at once from one address; try again"):
            enter("c", "x", 29)
        assert not went
        enter("c", "x", 30)
        most = "at most 3 things are taken at once from one address"
        why = f"{most}, and this one took longer than 30 s while others waited"
        assert went == [("a", f"{why}; try it again")]
        enter("d", "y", 30)
        enter("d", "y", 31)
        enter("e", "z", 31)
        with pytest.raises(LimitError, match="at most 6 things are taken at once; try again"):
            enter("e", "z", 59)
        enter("f", "z", 60)
        assert went[1][0] == "d", "who has the most"
        with pytest.raises(LimitError):
            enter("f", "z", 100)
        assert [key for key, _ in went] == ["a", "d"], "nobody gives way to who has as many"
    assert not places._all


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("xyz"), st.floats(0, 20)), max_size=60))
def test_places_keep_their_bounds_and_nobody_without_one_waits_longer_than_the_patience(steps):
    places, now = Places(5, 2, 4, 30.0), 0.0
    with contextlib.ExitStack() as stack:
        for key, address, pause in steps:
            now += pause
            held = [(one.key, one.group, one.since) for one in places._all]
            before = [one for one in held if one[1] == address]
            crowded = before if len(before) >= 4 else held if len(held) >= 5 else []
            try:
                stack.enter_context(places.one(key, address, "things", now, lambda _: None))
            except LimitError:
                own = sum(one == key for one, _, _ in held)
                assert own >= 2 or all(now - since < 30.0 or own for _, _, since in crowded)
            assert len(places._all) <= 5
            assert max(Counter(one.key for one in places._all).values(), default=0) <= 2
            assert max(Counter(one.group for one in places._all).values(), default=0) <= 4


@given(st.integers(1, 10_000_000), st.lists(st.tuples(st.floats(0.01, 5), st.integers(0, 500_000)), max_size=60))
def test_who_comes_along_is_not_slow_and_everything_ends(length, steps):
    """Too slow: half of the rate over a window was not reached, or the time for the whole is over."""
    pace, now, done, seen = Pace(0.0, length, 10.0, 1000.0, 10.0), 0.0, 0, [(0.0, 0)]
    for pause, more in steps:
        now, done = now + pause, min(length, done + more)
        seen.append((now, done))
        until = pace.until(now, done)
        if until is None:
            late = now >= 10.0 + length / 1000.0
            assert late or any(done - then < 5000 for when, then in seen if now - when >= 10.0 - 1e-9)
            return
        assert now < until <= min(now + 10.0, 10.0 + length / 1000.0)


def test_memory_has_a_bound_and_contents_leave_half_of_it(tmp_path):
    async def run() -> None:
        room = Room(1000, 10_000)
        with Held(room, tmp_path, "a", 5000, 400) as first, Held(room, tmp_path, "a", 5000, 400) as second:
            await first.append(b"a" * 300)
            await second.append(b"b" * 300)
            assert (first.whole, second.whole, room.memory) == (b"a" * 300, None, 300)
            assert second.pieces().read() == b"b" * 300
            await first.append(b"A" * 200)
            assert (first.whole, room.memory) == (None, 0)
            assert first.pieces().read() == b"a" * 300 + b"A" * 200
            with pytest.raises(LimitError, match=r"at most 4.9 KiB are taken at once from one person"):
                first.expect(4800)
            with Held(room, tmp_path, "b", 20_000, 400) as other, pytest.raises(UnavailableError, match="no room"):
                other.expect(9600)
        assert (room.memory, room.full) == (0, False)
        room.take("a", 5000, 5000)
        room.memory += 1001
        assert room.full

    asyncio.run(run())


def test_a_full_disk_is_said_in_words(tmp_path, caplog):
    async def run() -> None:
        with Held(Room(1000, 10_000), tmp_path / "none", "a", 5000, 1) as held:
            await held.append(b"two")

    with pytest.raises(UnavailableError, match="tell its operator"):
        asyncio.run(run())
    assert "spool_dir cannot be written: No such file or directory" in caplog.text


@pytest.mark.parametrize("kind", ["application/json", "application/problem+json"])
def test_what_the_front_refuses_is_told_in_the_shape_that_is_asked_for(config, kind):
    head = parse("GET /api/v1/status HTTP/1.1", "Host: x", f"Accept: {kind}", "Origin: https://ide.example")
    text, media, extra = refusal(gate_of(config), head, LimitError("too often"), 3.0)
    assert media == kind and "too often" in text
    assert extra == "Retry-After: 4\r\nVary: Accept\r\n", "scripts of other sites read nothing of our own API"


@pytest.mark.parametrize(("origins", "read"), [(None, "*"), (["https://ide.example"], "https://ide.example"), ([], "")])
def test_scripts_of_other_sites_read_what_the_front_refuses_where_they_may(config, origins, read):
    settings = config.model_copy(update={"judge0": config.judge0.model_copy(update={"origins": origins})})
    head = parse("POST /judge0/submissions HTTP/1.1", "Host: x", "Origin: https://ide.example")
    _, _, extra = refusal(gate_of(settings), head, LimitError("too often"), 3.0)
    assert f"Access-Control-Allow-Origin: {read}\r\n" in extra if read else "Access-Control" not in extra
    page = parse("GET /submit HTTP/1.1", "Host: x", "Origin: https://ide.example")
    assert "Access-Control" not in refusal(gate_of(settings), page, LimitError("too often"), 3.0)[2]


# --- the exchange with uWSGI -----------------------------------------------------------------------------------


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("size", [1000, 60_000, 1_000_000])
def test_an_answer_is_whole_though_the_body_was_not_read(tmp_path, run, size):
    """As of any app that refuses a call by its head: then the end of the connection is an error at once."""
    said = b"HTTP/1.1 405 No\r\n\r\n" + b"x" * 100
    rounds = 20

    def serve(listener):
        for number in range(rounds):
            with listener.accept()[0] as one:
                one.recv(10)
                if number % 2:
                    for place in range(len(said)):
                        one.send(said[place : place + 1])
                else:
                    one.sendall(said)

    async def ask():
        room = Room(10**7, 10**7)
        for _ in range(rounds):
            with Held(room, tmp_path, "k", 10**7, 2 * size) as body, Held(room, tmp_path, "k", 10**7, 10**5) as answer:
                await body.append(b"b" * size)
                async with asyncio.timeout(10):
                    await exchange(str(tmp_path / "s"), b"packet" * 100, body, answer, 5)
                assert answer.whole == said

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        server = threading.Thread(target=serve, args=(listener,), daemon=True)
        server.start()
        run(ask())
        server.join(10)


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
