"""Calls to addresses that people name: their signatures, where they may go, when they are tried again."""

import asyncio
import datetime
import ipaddress
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from bson import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from judge.common.errors import ForbiddenError
from judge.common.webhooks import addresses, signing, tries
from judge.common.webhooks.sender import LOOKUPS, Sender
from judge.config import SubmissionLimits
from judge.gateway.auth import Principal
from judge.gateway.submit import admit
from judge.judicator.events import streaming
from judge.judicator.events.outbox import concerns, payload_data
from judge.judicator.events.receivers import Receivers
from judge.judicator.tasks import forms, intake
from judge.model.messages import Submission
from tests.support.receivers import is_genuine

LOCAL = addresses.networks(["127.0.0.0/8", "::1/128"])


def test_the_example_of_the_specification():
    headers = signing.headers(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@given(st.binary(max_size=200), st.binary(max_size=200), st.integers(0, 2**33), st.floats(-1000, 1000))
def test_only_signed_calls_are_genuine(body, replacement, moment, late):
    secret = signing.new_secret()
    headers = signing.headers(secret, "x", moment, body)
    assert is_genuine(secret, headers, body, moment + late) == (abs(late) <= 300)
    assert is_genuine(secret, headers, replacement, moment) == (replacement == body)
    assert not is_genuine(signing.new_secret(), headers, body, moment)
    assert not is_genuine(secret, headers | {"webhook-id": "y"}, body, moment)
    assert not is_genuine(secret, headers | {"webhook-timestamp": str(moment + 1)}, body, moment)
    turned = {**headers, "webhook-signature": f"v1,old v2,x {headers['webhook-signature']}"}
    assert is_genuine(secret, turned, body, moment), "a receiver may know several"


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_?", "whsec_" + "A" * 28, "whsec_" + "A" * 400])
def test_refused_secrets(secret):
    with pytest.raises(ValueError, match="a secret"):
        signing.key_of(secret)


PRIVATE = [
    *("127.0.0.1", "127.9.9.9", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254"),
    *("0.0.0.0", "100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1", "::1", "::"),
    *("fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::a00:1"),
    *("fec0::1", "fed0::1", "192.88.99.1", "::ffff:192.88.99.1", "::127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b:1::1"),
    *("3fff::1", "5f00::1", "100::1", "4000::1"),
    *("2002:a00:1::1", "2001:db8::1", "2001:0:1::1", "x", "", "1", "0x7f.1", "localhost"),
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses(address):
    assert not addresses.may_go_to(address)


@pytest.mark.parametrize("address", ["9.9.9.9", "2620:fe::fe", "::ffff:9.9.9.9"])
def test_public_addresses(address):
    assert addresses.may_go_to(address)


@given(st.ip_addresses())
def test_allowed_networks(address):
    own = ipaddress.ip_network(address)
    assert addresses.may_go_to(str(address), [own])
    assert not addresses.may_go_to(str(address)) or not address.is_private


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("", "no http or https URL"),
        ("ftp://example.com/", "no http or https URL"),
        ("http:///x", "no http or https URL"),
        ("example.com/x", "no http or https URL"),
        ("http://me:secret@example.com/", "name or password"),
        ("http://example.com:0/", "port 0"),
        ("http://example.com:99999/", "is no URL"),
        ("http://[::1/", "is no URL"),
        ("http://127.0.0.1:8000/x", "no public address"),
        ("http://[::1]/x", "no public address"),
        ("http://[fe80::1%25eth0]/x", "no public address"),
        ("http://exa mple.com/", "characters"),
        ("http://example.com/\r\nX: y", "characters"),
        ("http://b\u00fccher.example/", "characters"),
        ("http://example.com/" + "x" * 2048, "longer"),
    ],
)
def test_refused_urls(url, text):
    assert text in addresses.url_fault(url)


@pytest.mark.parametrize("url", ["http://example.com", "https://example.com:8443/a?b=c#d", "http://9.9.9.9/"])
def test_urls(url):
    assert addresses.url_fault(url) == ""
    assert addresses.url_fault("http://127.0.0.1:1/", LOCAL) == ""


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_pauses_grow_and_end(count, chance):
    wait = tries.pause(count, chance)
    assert 1.5 <= wait <= 4500
    assert tries.pause(count, chance, 10**9) == max(wait, 3600) and tries.pause(count, chance, 0.0) == wait
    assert tries.pause(count + 1, chance) >= wait


def test_three_days_in_all():
    assert 2.9 < sum(tries.pause(count, 0.5) for count in range(1, tries.TRIES)) / 86400 < 3.1


@given(st.text(max_size=40))
def test_any_retry_after(text):
    pause = tries.retry_after(text, datetime.datetime.now(datetime.UTC))
    assert pause is None or pause >= 0


def test_retry_after():
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    assert tries.retry_after("120", now) == 120
    assert tries.retry_after("Mon, 01 Jan 2020 00:00:00 +99999999999999", now) is None
    assert tries.retry_after("Mon, 01 Jan 2020 99999999999999999999:00:00", now) is None
    assert tries.retry_after("Thu, 01 Jan 2026 00:01:00 GMT", now) == 60
    assert tries.retry_after("Wed, 31 Dec 2025 00:01:00 GMT", now) == 0


class _Server(ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.requests, self.answer = [], (200, {})


class _Receiver(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self):
        self.server.requests.append(
            (self.path, dict(self.headers), self.rfile.read(int(self.headers["Content-Length"])))
        )
        status, headers = self.server.answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"x\n" * 10_000)

    def log_message(self, *_):
        pass


@pytest.fixture
def receiver():
    with _Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def url(receiver, host="127.0.0.1"):
    return f"http://{host}:{receiver.server_port}/x"


async def test_a_call_and_its_outcome(receiver):
    async with Sender(LOCAL) as sender:
        outcome = await sender.send(url(receiver), b"{}", {"webhook-id": "a"})
        assert outcome.status == 200 and outcome.text.startswith("x\\nx") and len(outcome.text) <= 500
        path, headers, body = receiver.requests.pop()
        assert (path, body, headers["webhook-id"], headers["Content-Type"]) == ("/x", b"{}", "a", "application/json")
        assert headers["User-Agent"].startswith("judge/")
        receiver.answer = (503, {"Retry-After": "7"})
        outcome = await sender.send(url(receiver), b"{}", {})
        assert (outcome.status, outcome.retry_after) == (503, "7")
        receiver.requests.clear()
        receiver.answer = (307, {"Location": url(receiver)})
        assert (await sender.send(url(receiver), b"{}", {})).status == 307
        assert len(receiver.requests) == 1, "no redirection is followed"


async def test_no_private_address_is_reached(receiver):
    """Neither by number nor by name, nor by a name whose address is looked up when the call is made."""
    async with Sender() as sender:
        for host in ("127.0.0.1", "localhost", "[::1]", "2130706433", "127.1"):
            outcome = await sender.send(url(receiver, host), b"{}", {})
            assert outcome.status == 0 and ("no public address" in outcome.text or host[0] in "12"), (host, outcome)
    assert receiver.requests == []


async def test_a_call_without_an_answer():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        async with Sender(LOCAL, seconds=0.3) as sender:
            outcome = await sender.send(f"http://127.0.0.1:{port}/", b"{}", {})
            assert (outcome.status, outcome.text) == (0, "no answer within 0.3 s")
            outcome = await sender.send(f"https://127.0.0.1:{port}/", b"{}", {})
            assert outcome.status == 0 and outcome.text
    async with Sender(LOCAL) as sender:
        outcome = await sender.send(f"http://127.0.0.1:{port}/", b"{}", {})
        assert (outcome.status, outcome.text) == (0, "connection refused")
        outcome = await sender.send("http://none.invalid/", b"{}", {})
        assert (outcome.status, outcome.text) == (0, "the name none.invalid stands for no address")


async def test_slow_name_lookups_delay_no_other_call(receiver, monkeypatch):
    """Names of one person, whose server of names says nothing, had all threads of the judicator's loop."""
    real, over = socket.getaddrinfo, threading.Event()

    def lookup(host, *arguments, **options):
        if str(host).endswith(".test"):
            over.wait(20)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return real(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    try:
        async with Sender(LOCAL, seconds=1, limit=200) as sender:
            slow = [asyncio.create_task(sender.send(f"http://{n}.test/", b"{}", {})) for n in range(60)]
            await asyncio.sleep(0.1)
            async with asyncio.timeout(0.8):
                await asyncio.to_thread(int)
                assert (await sender.send(url(receiver, "localhost"), b"{}", {})).status == 200
            assert {outcome.text for outcome in await asyncio.gather(*slow)} == {"no answer within 1 s"}
            excess = [asyncio.create_task(sender.send(f"http://{n}.test/", b"{}", {})) for n in range(LOOKUPS - 59)]
            texts = {outcome.text for outcome in await asyncio.gather(*excess)}
            assert texts == {"no answer within 1 s", "too many names are being looked up; it is tried again"}
    finally:
        over.set()


NOW = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
PAST = [{"rejudging": 7}]


@pytest.mark.parametrize(
    ("fields", "past", "cause", "system"),
    [
        ({}, [], "person", False),
        ({}, PAST, "rejudging", False),
        ({"cause": "import"}, [], "import", True),
        ({"cause": "verification"}, [], "verification", False),
        ({"cause": "statement"}, [], "statement", True),
        ({"problem": "p", "check": "statements"}, [], "statement", True),
        ({"problem": "p", "check": "inputs", "cause": "import"}, [], "import", True),
    ],
)
def test_a_run_has_a_cause(fields: dict[str, Any], past: list[Any], cause: str, *, system: bool) -> None:
    submission = Submission(user="ada", role="judge", language="c", source="x", **fields)
    doc = {**forms.new(submission, None, "", NOW), "version": 1, "past": past}
    assert payload_data(doc).cause == cause
    hook: Any = {"_id": "h", "user": None, "problem": None}
    assert (concerns(hook, doc), concerns(hook | {"system": True}, doc)) == (not system, True)
    event = {"documentKey": {"_id": doc["_id"]}, "clusterTime": Timestamp(1, 1), "fullDocument": doc}
    change = streaming.change(event, (1, 1, 0))
    assert change is not None and change.cause == cause


def test_users_set_no_cause() -> None:
    submission = Submission(user="ada", language="c", source="x", cause="verification")
    with pytest.raises(ForbiddenError, match="cause: requires a token of role judge"):
        intake.check_trial(submission)
    with pytest.raises(ForbiddenError, match="cause: requires a token of role judge"):
        admit(submission, Principal("ada", "user", ""), SubmissionLimits(), None)
    judged = admit(submission, Principal("eve", "admin", ""), SubmissionLimits(), None)
    intake.check_trial(judged)
    assert judged.cause == "verification"


EACH = 8


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([True, False, None]), st.floats(0, 400)), max_size=60))
def test_a_failing_receiver_has_one_call_and_the_others_have_their_own(steps):
    now = [0.0]
    receivers: Receivers[str] = Receivers(EACH, lambda: now[0])
    under_way: dict[str, list[int]] = {"a": [], "b": []}
    for key, failed, later in steps:
        now[0] += later
        if receivers.failing(key) and under_way[key]:
            assert receivers.room(key) <= 0
        while (room := receivers.room(key)) > 0:
            under_way[key].append(receivers.begin(key))
            assert len(under_way[key]) <= EACH and receivers.room(key) == room - 1
        assert key in receivers.closed()
        if under_way[key]:
            receivers.end(key, under_way[key].pop(), failed=failed)
            if failed is not None:
                assert receivers.failing(key) == failed or (failed and receivers.failing(key))
    for key, begun in under_way.items():
        while begun:
            receivers.end(key, begun.pop(), failed=False)
        assert receivers.room(key) == EACH
    assert receivers.closed() == []


def test_calls_beside_each_other_count_as_one_failure():
    now = [0.0]
    receivers: Receivers[str] = Receivers(EACH, lambda: now[0])
    begun = [receivers.begin("a") for _ in range(EACH)]
    for call in begun:
        receivers.end("a", call, failed=True)
    assert receivers.room("a") == 0
    now[0] += tries.probe_pause(1, 1.0)
    assert receivers.room("a") == 1
    receivers.begin("a")
    assert receivers.room("a") == 0
    receivers.reset("a")
    assert receivers.room("a") == EACH - 1


def test_no_more_receivers_are_remembered_than_may_be():
    receivers: Receivers[int] = Receivers(EACH, lambda: 0.0)
    for key in range(3000):
        receivers.end(key, receivers.begin(key), failed=True)
    assert len(receivers.closed()) == 1000


@given(st.integers(1, 10**6), st.floats(0, 1), st.none() | st.floats(0, 10**9))
def test_pauses_of_receivers_grow_and_end(count, chance, requested):
    pause = tries.probe_pause(count, chance, requested)
    assert 0.3 < pause <= 3600
    assert requested is not None or pause <= 30 * 1.25
    assert requested is None or pause >= min(requested, 3600)
    assert tries.probe_pause(count + 1, chance) >= tries.probe_pause(count, chance)
