"""The front and what nobody thought of: any header is read or refused in words, and a fault of ours has an answer."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from werkzeug.http import parse_cookie

from judge.config import EtcdClient, GatewayConfig, Tls
from judge.errors import JudgeError, LimitError, UsageError
from judge.gateway.auth import FileTokens
from judge.gateway.front import head as heads
from judge.gateway.front.gate import FrontGate
from judge.gateway.front.refusing import refusal
from judge.gateway.front.server import Front
from tests.support.gateway import make_config

READ = [
    "Cookie", "Authorization", "X-Auth-Token", "X-Auth-User", "X-RapidAPI-Key", "Host", "Origin", "Accept", "Expect",
    "X-Forwarded-For", "X-Forwarded-Proto", "X-Request-Id", "traceparent", "Content-Type", "Content-Length",
]  # fmt: skip


@pytest.fixture
def config(work) -> GatewayConfig:
    (work / "run").mkdir(parents=True)
    tls = Tls(ca=work / "ca", cert=work / "cert", key=work / "key")
    return make_config(work, EtcdClient(endpoints=["127.0.0.1:1"]), tls, proxied=True, spool_dir=work)


def gate_of(config: GatewayConfig) -> FrontGate:
    return FrontGate(config, FileTokens(config.tokens), config.session_key.read_bytes().strip())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["GET", "POST", "DELETE"]),
    st.sampled_from(["/api/v1/whoami", "/judge0/authorize", "/login", "/"]),
    st.dictionaries(
        st.sampled_from(READ),
        st.text(st.characters(max_codepoint=255), max_size=12).map("Basic {}".format)
        | st.text(st.characters(max_codepoint=255), max_size=20).map("judge={}".format)
        | st.text(st.characters(max_codepoint=255), max_size=20),
        max_size=4,
    ),
    st.binary(max_size=8),
)
def test_any_header_is_read_or_refused_in_words(config, method, path, fields, query):
    """By all that the front does before it asks the app, and by the parser of cookies that both have."""
    gate = gate_of(config)
    lines = "".join(f"{name}: {value}\r\n" for name, value in ({"Host": "x"} | fields).items())
    asked = query.hex().encode() if len(query) % 2 else b"X-Auth-User=%" + query.hex().encode()
    try:
        head = heads.parse(f"{method} {path}?".encode() + asked + b" HTTP/1.1\r\n" + lines.encode("latin-1") + b"\r\n")
        packet = heads.packet(head, gate.address(head, "127.0.0.1"), gate.scheme(head, "127.0.0.1"), ("x", 1))
    except UsageError:
        return
    head = gate.routed(head)
    caller = gate.caller(head, "127.0.0.1")
    gate.begins(caller)
    gate.answered(caller, 401)
    assert caller.known is None
    gate.way(head)
    gate.holds(head)
    assert gate.lets_guests_in(head) is False
    for text in refusal(gate, head, LimitError("too often"), 2.0)[1:]:
        text.encode("latin-1")
    parse_cookie(head.fields.get("cookie", ""))
    assert packet


class _Faulty(FrontGate):
    """A gate with a fault of ours."""

    def caller(self, *_: object) -> object:  # type: ignore[override]
        raise ZeroDivisionError("ours")


@contextlib.contextmanager
def fronted(config: GatewayConfig) -> Iterator[tuple[str, int]]:
    listener = socket.create_server(("127.0.0.1", 0))
    front = Front(config, _Faulty(config, FileTokens(config.tokens), b"k" * 32), listener)
    front.start()
    try:
        yield listener.getsockname()
    finally:
        front.stop()


def ask(address: tuple[str, int], request: bytes) -> tuple[str, bytes]:
    """(the head of the answer, its body); the connection has to be closed behind it."""
    with socket.create_connection(address, timeout=10) as one:
        one.sendall(request)
        got = b""
        while piece := one.recv(65536):
            got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    return head.decode(), body


def test_a_fault_of_ours_is_answered_with_the_number_in_the_log(config, caplog):
    """In the shape that its client reads; such a client was hung up on without a word, and tried again at once."""
    with fronted(config) as address, caplog.at_level(logging.ERROR, "judge.gateway.front.server"):
        head, body = ask(address, b"GET /api/v1/whoami HTTP/1.1\r\nHost: x\r\nAccept: application/problem+json\r\n\r\n")
        told = json.loads(body)
        assert head.startswith("HTTP/1.1 500 "), head
        assert (told["code"], told["status"]) == ("error", 500)
        number = told["detail"].split()[2].rstrip(";")
        assert f"X-Request-Id: {number}" in head
        assert f"internal error {number} in the front" in caplog.text and "ZeroDivisionError" in caplog.text
        head, body = ask(address, b"GET /judge0/about HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\n\r\n")
        assert head.startswith("HTTP/1.1 500 ") and "X-Request-Id: mine" in head
        assert json.loads(body)["error"].startswith("internal error mine;")
        head, body = ask(address, b"GET /login HTTP/1.1\r\nHost: x\r\n\r\n")
        assert head.startswith("HTTP/1.1 500 ") and b"internal error " in body
    assert "ours" not in body.decode(), "nothing of the inside gets out"


def test_a_fault_within_a_refusal_ends_the_connection(config, monkeypatch):
    """There is nothing left that could be answered, and no timer that would end it."""

    def fails(*_: object) -> tuple[str, str, str]:
        raise JudgeError("no shape")

    monkeypatch.setattr("judge.gateway.front.server.refusal", fails)
    with fronted(config) as address, contextlib.suppress(ConnectionResetError):
        assert ask(address, b"GET /api/v1/whoami HTTP/1.1\r\nHost: x\r\n\r\n") == ("", b"")
