"""Strangers and slow people at a gateway without a proxy: others are served meanwhile, and everything has an end."""

import asyncio
import concurrent.futures
import contextlib
import json
import re
import socket
import threading
import time
from pathlib import Path

import httpx
import pytest

from judge.config import CheckSettings
from judge.config.allowance import Allowance
from judge.model import messages as m
from judge.model.overview import ExecutorsReply, UsageReply
from tests.support.gateway import (
    ADMIN,
    ID,
    OTHER,
    USER,
    Prepared,
    connect,
    crowd,
    ended,
    executor_state,
    gateway_config,
    healthy,
    make_task,
    running_gateway,
    slowest,
)
from tests.support.servers import wait_for

THREADS = 4
# Others wait hardly longer than without an attack; this allows for a busy machine, an attack that works takes a minute.
SOON = 5.0
BIG = 3_000_000
HEAD = b"Host: x\r\nUser-Agent: slow\r\nConnection: close\r\n"


def bearer(token: str) -> bytes:
    return f"Authorization: Bearer {token}\r\n".encode()


@pytest.fixture(scope="module")
def judicator(tmp_path_factory, etcd_endpoint):
    with Prepared(tmp_path_factory.mktemp("judicator"), etcd_endpoint).serving() as judicator:
        sha = judicator.put(b"o" * BIG)
        task = make_task(status="success", done=True, result=m.Result(stdout_blob=sha))
        judicator.answers |= {
            "status": healthy(),
            "usage": UsageReply(allowance=Allowance(), waiting=0, running=0, stored_bytes=0),
        }
        judicator.tasks(task)
        yield judicator


@pytest.fixture(scope="module")
def settings(judicator, tmp_path_factory):
    work = tmp_path_factory.mktemp("gateway")
    return gateway_config(
        judicator,
        work,
        threads=THREADS,
        limits={"body_bytes": 2_000_000, "blob_bytes": 4_000_000},
        # So many seconds of silence would end uWSGI.
        check=CheckSettings(interval=0.5, tries=40),
        spool_dir=work,
    )


@pytest.fixture(scope="module")
def base(settings):
    work = settings.tokens.parent
    with running_gateway(settings, work) as url:
        for token in (ADMIN, USER, OTHER):  # people who have come in before are not shut out by strangers' failures
            answer = httpx.get(f"{url}/api/v1/whoami", headers={"Authorization": f"Bearer {token}"}, trust_env=False)
            assert answer.status_code == 200
        yield url
    assert "killing it" not in (work / "gateway.log").read_text(), "a busy gateway is not a hung one"


@pytest.fixture
def address(base):
    host, _, port = base.removeprefix("http://").partition(":")
    return host, int(port)


SLOW = {
    "nothing": b"",
    "half a head": b"GET /api/v1/alive HTTP/1.1\r\nHost: x\r\nX-",
    "a small body without a token": b"POST /api/v1/submissions HTTP/1.1\r\n" + HEAD + b"Content-Length: 60000\r\n\r\n",
    "a body with a token": b"POST /api/v1/submissions HTTP/1.1\r\n"
    + HEAD
    + bearer(USER)
    + b"Content-Type: application/json\r\nContent-Length: 60000\r\n\r\n",
    "a large body with a token": b"POST /api/v1/submissions HTTP/1.1\r\n"
    + HEAD
    + bearer(USER)
    + b"Content-Type: application/json\r\nContent-Length: 1900000\r\n\r\n",
    "a blob of an admin": b"PUT /api/v1/blobs/" + b"0" * 64 + b" HTTP/1.1\r\n" + HEAD + bearer(ADMIN)
    + b"Content-Length: 3000000\r\n\r\n",
    "a log-in": b"POST /login HTTP/1.1\r\n"
    + HEAD
    + b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 60000\r\n\r\n",
    "alive with a body": b"GET /api/v1/alive HTTP/1.1\r\n" + HEAD + b"Content-Length: 100000000\r\n\r\n",
    "chunks": b"POST /api/v1/submissions HTTP/1.1\r\n"
    + HEAD
    + bearer(USER)
    + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    "a promise": b"POST /login HTTP/1.1\r\n" + HEAD + b"Expect: 100-continue\r\nContent-Length: 60000\r\n\r\n",
    "TLS": bytes.fromhex("160301020001000200"),
    # Last, as it ends in refused log-ins.
    "a body without a token": b"POST /api/v1/submissions HTTP/1.1\r\n" + HEAD + b"Content-Length: 100000000\r\n\r\n",
}  # fmt: skip


def test_slow_senders_come_to_an_end(address, base):
    with contextlib.ExitStack() as stack:
        crowds = [
            stack.enter_context(crowd(address, 20, SLOW[way], drip=b"x", every=0.2))
            for way in ("nothing", "half a head", "a body without a token", "TLS")
        ]
        for crowd_of in crowds:
            ended(crowd_of, within=30)


@pytest.mark.parametrize("way", SLOW)
def test_slow_senders_hold_up_nobody(base, address, way):
    """One hundred times as many connections as threads, a byte each half a second."""
    with crowd(address, 400, SLOW[way], drip=b"x") as strangers:
        assert slowest(base, OTHER) < SOON
        assert len(strangers.sockets) == 400


def test_slow_readers_hold_up_nobody(base, address):
    """Answers larger than all buffers, and nobody takes them."""
    reply = httpx.get(
        f"{base}/api/v1/submissions/{ID}/output", headers={"Authorization": f"Bearer {USER}"}, trust_env=False
    )
    assert reply.content == b"o" * BIG
    for path, token in ((f"/api/v1/submissions/{ID}/output", USER), ("/api/v1/openapi.json", "")):
        request = b"GET %s HTTP/1.1\r\n%s%s\r\n" % (path.encode(), HEAD, bearer(token) if token else b"")
        with crowd(address, 200, request, read=False):
            assert slowest(base, OTHER) < SOON


def begun(client: socket.socket) -> bool:
    """Whether an answer has begun to come."""
    with contextlib.suppress(BlockingIOError):
        return bool(client.recv(1, socket.MSG_PEEK))
    return False


def test_one_client_has_some_downloads_at_once(base, address):
    """An answer that nobody reads takes a file of nginx, and no thread."""
    request = b"GET /api/v1/submissions/%s/output HTTP/1.1\r\n%s%s\r\n" % (ID.encode(), HEAD, bearer(USER))
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            client = stack.enter_context(connect(address, small=True))
            client.sendall(request)
            assert client.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 200"
        path = f"{base}/api/v1/submissions/{ID}/output"
        answer = httpx.get(path, headers={"Authorization": f"Bearer {USER}"}, trust_env=False)
        assert (answer.status_code, answer.json()["code"]) == (429, "limit")
        assert answer.headers["retry-after"]
        assert slowest(base, OTHER) < SOON


def test_thousands_of_half_heads_hold_up_nobody(base, address):
    with crowd(address, 2500, SLOW["half a head"], drip=b"x", every=2.0) as strangers:
        assert slowest(base, OTHER) < SOON
        ended(strangers, within=40)


def stored(settings):
    """Bytes of bodies and answers on the gateway's disk. nginx removes a file's name when it has opened it."""
    (process,) = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if b"gateway-nginx.conf" in path.read_bytes() and path.parent.joinpath("cwd").resolve() == settings.run_dir
    ]
    size = 0
    for path in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed just now
            size += path.stat().st_size if "/bodies/" in str(path.readlink()) else 0
    return size


def test_withheld_bodies_of_strangers_are_small(settings, address, base):
    """Three thousand strangers who each send all but the end of the largest body they may."""
    begin = b"POST /login HTTP/1.1\r\n" + HEAD + b"Content-Length: 65536\r\n\r\n" + b"x" * 65_000
    with crowd(address, 3000, begin, sources=[f"127.0.0.{number}" for number in range(11, 15)]) as strangers:
        assert slowest(base, OTHER, times=3) < SOON
        assert stored(settings) <= 3000 * 65_536
        assert strangers.sockets


def test_a_large_body_of_a_stranger_is_never_stored(settings, address, base):
    fields = b"Content-Length: 1900000\r\n"
    for method, path, token, status in (
        (b"POST", b"/api/v1/submissions", b"", b"401"),
        (b"POST", b"/submit", b"", b"401"),
        (b"POST", b"/api/v1/submissions", bearer("nobody"), b"401"),
        (b"POST", b"/api/v1/alive", b"", b"413"),
        (b"GET", b"/api/v1/alive", b"", b"413"),
        (b"PUT", b"/api/v1/blobs/" + b"0" * 64, bearer(USER), b"413"),
        (b"POST", b"/.judge/events", b"", b"404"),
        (b"POST", b"/static/app.css", b"", b"404"),
    ):
        for length in (fields, b"Transfer-Encoding: chunked\r\n"):
            body = b"x" * 500_000 if length == fields else b"7a120\r\n" + b"x" * 500_000
            with connect(address) as client:
                with contextlib.suppress(ConnectionError):
                    client.sendall(b"%s %s HTTP/1.1\r\n%s%s%s\r\n" % (method, path, HEAD, token, length) + body)
                assert client.recv(12)[9:] == status, (path, length)
                assert stored(settings) == 0, (path, length)


def all_of(client):
    """What a client receives until the end of its connection, which may be a reset after an answer."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while piece := client.recv(65536):
            received += piece
    return received


def put(token, length, path=b"/api/v1/blobs/" + b"0" * 64, method=b"PUT"):
    return b"%s %s HTTP/1.1\r\n%s%sContent-Length: %d\r\n\r\n" % (method, path, HEAD, bearer(token), length)


def test_a_short_cookie_is_no_credential(base):
    """A client that sends another one with each request waits like a stranger."""

    def ask(number):
        headers = {"Cookie": f"z={number}"}
        return httpx.get(f"{base}/api/v1/errors/usage", headers=headers, trust_env=False, timeout=30).status_code

    started = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert set(pool.map(ask, range(150))) <= {200, 429}
    assert time.monotonic() - started > 1.5


def test_one_person_sends_some_large_bodies_at_once(settings, base, address):
    """Eight, and a bound holds for all people together: so the disk that bodies take is bounded."""
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            client = stack.enter_context(connect(address))
            client.sendall(put(ADMIN, 3_500_000) + b"x" * 1_000_000)
        url = f"{base}/api/v1"
        path = f"{url}/blobs/{'0' * 64}"

        def ninth():
            return httpx.put(path, content=b"x" * 3_500_000, headers=admin(), trust_env=False)

        wait_for(lambda: stored(settings) >= 8 * 900_000, what="eight uploads")
        answer = ninth()
        assert (answer.status_code, answer.json()["code"]) == (429, "limit")
        assert 8 * 900_000 <= stored(settings) <= 8 * 1_100_000
        text = b" " * 1_900_000 + b'{"odd": 1}'
        headers = {"Authorization": f"Bearer {USER}", "Content-Type": "application/json"}
        neighbour = httpx.post(f"{url}/submissions", content=text, headers=headers, timeout=60, trust_env=False)
        assert neighbour.status_code == 400, neighbour.text
    wait_for(lambda: ninth().status_code == 400, what="the end of the uploads")


def admin():
    return {"Authorization": f"Bearer {ADMIN}"}


def test_a_copied_cookie_is_a_strangers_after_the_logout(settings, base, judicator):
    """Neither its rights nor its size of bodies outlive the session."""
    # Log-ins wait in nginx for those that the tests before sent from this address.
    with httpx.Client(base_url=base, trust_env=False, timeout=30) as ada:
        page = ada.get("/login").text
        field = re.search(r'name="csrf" value="([^"]+)"', page)
        assert ada.post("/login", data={"token": USER, "csrf": field[1]}).status_code == 303
        cookie = ada.cookies["judge"]
        assert ada.get("/login").status_code == 303, "who is logged in is sent on"
        inside = (
            "/.judge/admission",
            "/%2ejudge/admission",
            "/.judge/events",
            "/.judge/errors/503.page.text",
            "//.judge/admission",
        )
        assert {ada.get(path).status_code for path in inside} == {404}, "what nginx asks is not for clients"

        def large_post():
            form = {"source": "x" * 150_000}
            answer = httpx.post(f"{base}/submit", data=form, headers={"Cookie": f"judge={cookie}"}, trust_env=False)
            return answer.status_code

        assert large_post() != 401
        csrf = re.search(r'name="csrf" value="([^"]+)"', ada.get("/submissions").text)
        assert ada.post("/logout", data={"csrf": csrf[1]}).status_code == 303
        wait_for(lambda: large_post() == 401, timeout=9, what="the end of the session")
        assert httpx.get(f"{base}/login", headers={"Cookie": f"judge={cookie}"}, trust_env=False).status_code == 200


def test_the_long_polls_of_one_person_leave_room_for_those_of_others(base, judicator):
    judicator.tasks(
        make_task(), make_task(id="f" * 24, submission=make_task().submission.model_copy(update={"user": "bob"}))
    )
    release = threading.Event()
    before = judicator.answers["get"]

    async def get(request):
        if request.wait:
            await asyncio.to_thread(release.wait, 20)
        return before(request)

    judicator.answers["get"] = get
    try:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:

            def poll(token, task):
                path = f"{base}/api/v1/submissions/{task}?wait=20"
                return httpx.get(path, headers={"Authorization": f"Bearer {token}"}, timeout=60, trust_env=False)

            polls = []
            for _ in range(6):  # one after the other: six at the same moment are too many requests of one person
                polls.append(pool.submit(poll, USER, ID))
                time.sleep(0.2)
            refused, _ = concurrent.futures.wait(polls, timeout=20, return_when=concurrent.futures.FIRST_COMPLETED)
            assert refused, "those beyond one's share are answered at once"
            assert all(call.result().headers["retry-after"] == "1" for call in refused)
            neighbour = pool.submit(poll, OTHER, "f" * 24)
            assert slowest(base, OTHER, times=3) < SOON
            release.set()
            assert "retry-after" not in neighbour.result(60).headers
    finally:
        release.set()
        judicator.answers["get"] = before


def test_requests_behind_one_another_are_each_answered(address, base):
    with connect(address) as client:
        client.sendall(b"GET /api/v1/alive HTTP/1.1\r\nHost: x\r\n\r\n" * 49)
        client.sendall(b"GET /api/v1/alive HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        received = all_of(client)
    assert received.count(b"HTTP/1.1 200 ") == 50


def test_an_answer_arrives_while_a_stranger_still_sends(address, base):
    with connect(address) as connection:
        connection.sendall(
            b"POST /api/v1/submissions HTTP/1.1\r\n" + HEAD + b"Content-Length: 100000000\r\n\r\n" + b"x" * 5_000_000
        )
        started, reply = time.monotonic(), all_of(connection)
    assert reply.startswith((b"HTTP/1.1 401 ", b"HTTP/1.1 413 ", b"HTTP/1.1 429 ")), reply[:200]
    assert time.monotonic() - started < SOON


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (b"/login", b""),
        (b"/submit", b"Authorization: Basic x\r\n"),
        (b"/api/v1/submissions", b"Transfer-Encoding: chunked\r\n"),
    ],
)
def test_nobody_waits_for_a_body_that_is_withheld(address, base, path, fields):
    """Too large for a stranger and not for the app: it is not there, and the thread that would read it is free."""
    length = b"" if b"chunked" in fields else b"Content-Length: 1900000\r\n"
    form = b"Content-Type: application/x-www-form-urlencoded\r\n"
    with connect(address) as connection:
        started = time.monotonic()
        connection.sendall(b"POST " + path + b" HTTP/1.1\r\n" + HEAD + fields + form + length + b"\r\n")
        reply = all_of(connection)
    assert reply.startswith((b"HTTP/1.1 4", b"HTTP/1.1 303")), reply[:200]
    assert time.monotonic() - started < SOON


@pytest.mark.parametrize("path", ["/api/v1/submissions", "/judge0/submissions"])
def test_a_body_in_chunks_is_taken_like_another(base, judicator, path):
    """Clients of .NET, Spring and Go send JSON so, without its length."""
    judicator.answers["executors"] = ExecutorsReply(executors=[executor_state()])
    headers = {"Authorization": f"Bearer {USER}", "Content-Type": "application/json"}

    def post(data, **options):
        pieces = (data[at : at + 1000] for at in range(0, len(data), 1000))
        return httpx.post(base + path, content=pieces, headers={**headers, **options}, trust_env=False, timeout=60)

    answer = post(json.dumps({"language_id": 9, "source": "x" * 100_000}).encode())
    assert answer.status_code in {400, 422} and "language" in answer.text
    assert post(b"[", Expect="100-continue").status_code == 400
    asks = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAARAAAAA"}
    assert post(b"[", **asks).status_code == 400, "Java's client asks for HTTP/2, and goes on without"
    large = post(b"x" * 3_000_000)
    assert large.status_code == 413 and "too large" in large.text
    stranger = post(b"x" * 100, Authorization="Bearer nobody")
    assert stranger.status_code == 401


def test_bodies_that_nobody_reads_hold_no_turn(address, base):
    """Of calls that the application refuses by their heads."""
    host, port = address
    lines = []
    for number in range(60):
        line = socket.socket()
        line.bind((f"127.0.0.{2 + number % 7}", 0))
        line.connect((host, port))
        line.sendall(b"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n" + b"x" * 60000)
        lines.append(line)
    answers = []
    for line in lines:
        with line:
            line.settimeout(30)
            answers.append(line.recv(12))
    assert set(answers) <= {b"HTTP/1.1 404", b"HTTP/1.1 429"} and b"HTTP/1.1 404" in answers
    assert slowest(base, OTHER) < SOON


def test_a_very_slow_reader_is_cut_off(address, base):
    with connect(address, small=True) as client:
        client.sendall(b"GET /api/v1/submissions/%s/output HTTP/1.1\r\n%s%s\r\n" % (ID.encode(), HEAD, bearer(USER)))
        client.settimeout(1.0)
        started, count = time.monotonic(), 0
        try:
            while piece := client.recv(1):
                count += len(piece)
                if time.monotonic() - started > 110:
                    pytest.fail("still being served")
                threading.Event().wait(0.05)
        except ConnectionError:
            pass
    assert count < BIG


def test_failed_log_ins_are_slowed_down_and_neighbours_are_not(base):
    """From one address: twenty are free, then they cost time. Who has come in before still does."""

    def ask(token):
        return httpx.get(f"{base}/api/v1/whoami", headers={"Authorization": f"Bearer {token}"}, trust_env=False)

    assert ask(USER).status_code == 200
    refused = next(answer for answer in map(ask, map(str, range(1000))) if answer.status_code != 401)
    assert (refused.status_code, refused.json()["code"]) == (429, "limit")
    assert "too many failed log-ins from 127.0.0.1; try again in" in refused.json()["error"]
    assert 1 <= int(refused.headers["retry-after"]) <= 4

    def log_in(number):
        ask(f"guess {number}")
        return httpx.post(f"{base}/login", data={"token": USER}, trust_env=False)

    page = next(answer for answer in map(log_in, range(100)) if answer.status_code == 429)
    assert "failed log-ins" in page.text
    assert ask(USER).status_code == 200, "a neighbour who came in before"
    assert httpx.get(f"{base}/login", trust_env=False).status_code == 200, "pages are there"
    assert httpx.get(f"{base}/api/v1/health", trust_env=False).status_code == 200
    # A client that sends no token tries none: that is told, and costs nobody anything.
    assert {httpx.get(f"{base}/api/v1/whoami", trust_env=False).status_code for _ in range(30)} == {401}
    wait_for(lambda: ask(OTHER).status_code == 200, timeout=90, what="time has paid for the failures")


def test_a_client_cannot_claim_another_address(base):
    """Without a proxy in front, what a client says about addresses is its own claim."""

    def ask(number):
        address_ = f"10.0.{number // 200}.{number % 200}"
        headers = {"Authorization": f"Bearer {number}", "X-Forwarded-For": address_, "X-Real-IP": address_}
        return httpx.get(f"{base}/api/v1/whoami", headers=headers, trust_env=False)

    refused = next(answer for answer in map(ask, range(1000)) if answer.status_code != 401)
    assert refused.status_code == 429 and "from 127.0.0.1;" in refused.json()["error"]


ODD = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\nHost: x\n\n\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    b"post /login HTTP/1.1\r\nHost: x\r\n\r\n",
    b"BREW /login HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /api/v1/alive HTTP/1.1\r\nHost: x\r\n" + b"X-A: 1\r\n" * 4000 + b"\r\n",
    b"GET /api/v1/whoami HTTP/1.1\r\nHost: x\r\nCookie: " + b"a=b; " * 6000 + b"\r\n\r\n",
    b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /",
    b"POST /login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 65536999999999999999\r\n\r\n",
    b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 123456789012345\r\n\r\n",
    b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data\r\nContent-Length: 3\r\n\r\nabc",
    b"GET /%00%ff%2e%2e/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /static/%2e%2e/%2e%2e/auth.py HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET //evil.example/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://evil.example/api/v1/whoami HTTP/1.1\r\nHost: x\r\n\r\n",
    b"HEAD /api/v1/whoami HTTP/1.0\r\n\r\n",
    b"GET /api/v1/whoami HTTP/1.1\r\nHost: x\r\nCookie: theirs=caf\xe9; judge=\xff\r\n\r\n",
    b"GET /submit HTTP/1.1\r\nHost: x\r\nCookie: theirs=caf\xe9\r\n\r\n",
    b"GET /api/v1//whoami HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"POST /api//v1/submissions HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 2\r\n\r\n{}",
    bytes(range(256)) + b"\r\n\r\n",
]


@pytest.mark.parametrize("request_bytes", ODD, ids=lambda data: repr(data[:24]))
def test_an_odd_request_gets_one_answer(base, address, request_bytes):
    """Refused in one answer, never by a fault of ours."""
    with connect(address) as client:
        answer = b""
        with contextlib.suppress(ConnectionError):
            client.sendall(request_bytes)
            # The first bytes before the half-close: nginx drops a half-closed client whose request waits for its rate.
            answer = client.recv(65536)
            client.shutdown(socket.SHUT_WR)
        answer += all_of(client)
    assert answer.startswith((b"HTTP/1.1 30", b"HTTP/1.1 4", b"HTTP/1.0 30", b"HTTP/1.0 4")), answer[:300]
    assert answer.count(b"\r\nContent-Length: ") <= 1
    assert b"Traceback" not in answer
    if b" /api/" in request_bytes and not request_bytes.startswith(b"HEAD "):
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"], "programs read JSON"


def test_a_flood_of_whole_requests_leaves_people_their_turn(base, address):
    """Strangers who ask for pages as fast as they can: people are served among them, in rotation."""
    stop = threading.Event()

    def ask():
        while not stop.is_set():
            with contextlib.suppress(OSError), connect(address) as connection:
                connection.sendall(b"GET /login HTTP/1.1\r\nHost: x\r\n\r\n")
                while connection.recv(65536):
                    pass

    threads = [threading.Thread(target=ask) for _ in range(32)]
    for thread in threads:
        thread.start()
    try:
        assert slowest(base, OTHER) < SOON
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
