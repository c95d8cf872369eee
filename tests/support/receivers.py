"""HTTP servers that the cluster calls: webhook receivers, a trace collector, an identity provider."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import hmac
import http.server
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

from judge.common.webhooks import signing
from judge.etcd import wire  # noqa: F401 - the first to import protobuf, whose implementation it chooses
from tests.support.judicators import FAST, World
from tests.support.servers import answer_http, free_port, serving, wait_for

# isort: split
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

# A judicator may tell receivers on this host.
HOOKS: dict[str, Any] = {**FAST, "webhooks": {"networks": ["127.0.0.0/8"], "callback_networks": ["127.0.0.0/8"]}}


def is_genuine(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Return whether headers (lower-case) fit a body and are at most five minutes old, as a receiver checks it."""
    try:
        identifier, moment = headers["webhook-id"], int(headers["webhook-timestamp"])
        right = signing.signature(secret, identifier, moment, body)
    except (KeyError, ValueError):
        return False
    texts = headers.get("webhook-signature", "").split(" ")
    return abs(now - moment) <= 300 and any(hmac.compare_digest(right.encode(), text.encode()) for text in texts)


@dataclass
class Call:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    status: int
    arrival: float = field(default_factory=time.time)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """`answer` decides by the number of the call (from 1) and the call; a status, or a status with headers."""

    answer: Callable[[int, Call], int | tuple[int, dict[str, str]]] = lambda number, call: 204
    calls: list[Call] = field(default_factory=list)
    port: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def successes(self) -> list[Call]:
        with self.lock:
            return [call for call in self.calls if 200 <= call.status < 300]


@contextlib.contextmanager
def receiving(port: int = 0) -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def take(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            with receiver.lock:
                call = Call(self.command, self.path, headers, body, 0)
                receiver.calls.append(call)
                reply = receiver.answer(len(receiver.calls), call)
                call.status, headers_more = reply if isinstance(reply, tuple) else (reply, {})
            answer_http(self, call.status, **headers_more)

        do_POST = do_PUT = take  # noqa: N815 - as http.server calls them

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    receiver.port = server.server_port
    with serving(server):
        yield receiver


@contextlib.contextmanager
def telling(directory: Path, etcd_endpoint: str, mongod_address: str) -> Iterator[World]:
    world = World(directory, etcd_endpoint, mongod_address)
    try:
        first = world.judicator(**HOOKS)
        wait_for(lambda: first.judicator.lead.leading, what="a leader")
        yield world
    finally:
        world.close()


def hurry(world: World, **conditions: object) -> None:
    """Have whatever waits for its next try be due now."""
    world.db.deliveries.update_many(
        {"state": "waiting", **conditions}, {"$min": {"next": world.db.command("hello")["localTime"]}}
    )


class SpanReceiver(http.server.ThreadingHTTPServer):
    """Takes spans as a collector does, and keeps them by the service that they are from."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.spans: list[tuple[str, Span]] = []
        self.bodies: list[bytes] = []
        super().__init__((host, port), _Handler)

    @property
    def address(self) -> str:
        return "http://{}:{}/v1/traces".format(*self.server_address[:2])

    def spans_of(self, name: str) -> list[tuple[str, Span]]:
        return [(service, span) for service, span in self.spans if span.name == name]


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        assert self.path == "/v1/traces"
        export = ExportTraceServiceRequest.FromString(body)
        assert isinstance(self.server, SpanReceiver)
        self.server.bodies.append(body)
        for resource in export.resource_spans:
            service = {item.key: item.value.string_value for item in resource.resource.attributes}["service.name"]
            self.server.spans += [(service, span) for scope in resource.scope_spans for span in scope.spans]
        answer_http(self, 200, ExportTraceServiceResponse().SerializeToString(), Content_Type="application/x-protobuf")

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def receiving_spans(receiver: SpanReceiver | None = None) -> Iterator[SpanReceiver]:
    """A receiver for the length of a `with`; one that was made elsewhere has its socket in the network there."""
    server = receiver or SpanReceiver()
    with serving(server):
        yield server


class IdentityProvider:
    """One provider. `claims` are those of the next ID token, `lies` change it, `subject` is who logs in there."""

    client_id, client_secret = "judge", "a secret of tests & more: %"

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "one"})
        self.published = [self.key]
        self.subject = "s-1"
        self.claims: dict[str, Any] = {"preferred_username": "ida", "groups": ["cs101"]}
        self.lies: dict[str, Any] = {}
        self.alg = "RS256"
        self.userinfo: dict[str, Any] = {}
        self.silent = False
        self.refusal = ""  # the reason if its own page lets nobody in
        self.asked: list[str] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.issuer = f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextlib.contextmanager
    def serving(self) -> Iterator[IdentityProvider]:
        with serving(self._server):
            yield self

    def log_in(self, url: str) -> str:
        """What the provider's own page does with a browser that comes with this address: where it is sent."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert (query["client_id"], query["response_type"]) == (self.client_id, "code")
        assert "openid" in query["scope"].split() and query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self._codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def _page(self, url: str) -> str:
        """Where its own page sends a browser at once."""
        if not self.refusal:
            return self.log_in(url)
        query = parse_qs(urlsplit(url).query)
        return f"{query['redirect_uri'][0]}?{urlencode({'error': self.refusal, 'state': query['state'][0]})}"

    def _token(self, form: dict[str, str], basic: str) -> tuple[int, dict[str, Any]]:
        query = self._codes.pop(form.get("code", ""), None)
        expected = base64.b64encode(f"{self.client_id}:{self.client_secret}".encode()).decode()
        if basic != f"Basic {expected}":
            return 401, {"error": "invalid_client"}
        proof = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        proved = query and base64.urlsafe_b64encode(proof).decode().rstrip("=") == query["code_challenge"]
        if query is None or not proved or form.get("redirect_uri") != query["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.issuer, "sub": self.subject, "aud": self.client_id, "iat": now, "exp": now + 300,
            "nonce": query["nonce"], **self.claims, **self.lies,
        }  # fmt: skip
        claims = {name: value for name, value in claims.items() if value is not None}
        return 200, {"access_token": "at", "token_type": "Bearer", "expires_in": 300, "id_token": self._signed(claims)}

    def _signed(self, claims: dict[str, Any]) -> str:
        if self.alg in {"none", "HS256"}:  # without a signature, or with what everybody knows: the public key
            parts = [json.dumps(part).encode() for part in ({"alg": self.alg, "kid": "one"}, claims)]
            body = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
            mac = hmac.new(self.key.as_pem(private=False), body, "sha256").digest() if self.alg != "none" else b""
            return f"{body.decode()}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"
        return jwt.encode({"alg": self.alg, "kid": self.key.kid}, claims, self.key, algorithms=[self.alg])

    def _answer(self, path: str, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        if path == "/.well-known/openid-configuration":
            ends = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            ends["userinfo_endpoint"] = "userinfo"
            return 200, {"issuer": self.issuer, **{name: f"{self.issuer}/{end}" for name, end in ends.items()}}
        if path == "/keys":
            return 200, {"keys": [key.as_dict(private=False) for key in self.published]}
        if path == "/token":
            return self._token(form, authorization)
        if path == "/userinfo" and authorization == "Bearer at":
            return 200, {"sub": self.subject, **self.userinfo}
        return 404, {}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def _say(self) -> None:
                length = int(self.headers.get("Content-Length", "0"))
                form = {name: values[0] for name, values in parse_qs(self.rfile.read(length).decode()).items()}
                provider.asked.append(self.path)
                if self.path.startswith("/authorize?"):
                    answer_http(self, 303, Location=provider._page(self.path))
                    return
                status, body = provider._answer(self.path, form, self.headers.get("Authorization", ""))
                if provider.silent:
                    status, body = 503, {}
                answer_http(self, status, json.dumps(body).encode(), Content_Type="application/json")

            do_GET = do_POST = _say  # noqa: N815 - as http.server calls them

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        return Handler


@contextlib.contextmanager
def unkind_providers(directory: Path) -> Iterator[dict[str, Any]]:
    """A gateway's settings with two providers: `uni` lets nobody in, and `away` does not answer."""
    secret = directory / "secret"
    secret.write_text("a secret")
    with IdentityProvider().serving() as provider:
        provider.refusal = "access_denied"
        address, nobody = (f"127.0.0.1:{free_port()}" for _ in range(2))
        client = {"client_id": provider.client_id, "client_secret_file": secret}
        yield {
            "listen": address,
            "public_url": f"http://{address}",
            "oidc": [
                {**client, "name": "uni", "title": "the University of Uppsala", "issuer": provider.issuer},
                {**client, "name": "away", "title": "Elsewhere", "issuer": f"http://{nobody}"},
            ],
        }
