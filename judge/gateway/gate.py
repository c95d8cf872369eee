"""What the head of a request alone decides: who it is from, how large its body may be, whether it comes too often."""

from __future__ import annotations

from dataclasses import dataclass

from flask import Flask
from flask.sessions import SecureCookieSessionInterface
from itsdangerous import BadSignature
from werkzeug.http import parse_cookie

from judge import clock
from judge.config import GatewayConfig
from judge.gateway.auth import Principal, Tokens
from judge.gateway.crowd import group
from judge.gateway.head import Head
from judge.gateway.throttle import Throttle
from judge.rpc.session import LIFETIME

# What a stranger may send: a log-in with room to spare.
SMALL_BODY = 64 * 1024
_LOGIN = "/login"
_API = "/api/"
_BLOBS, _SUBMIT = "/api/v1/blobs/", "/submit"
_FREE_FAILURES, _SECONDS_EACH = 20, 3.0


def cookie_name(config: GatewayConfig) -> str:
    """The name of the session cookie; browsers take a `__Host-` one from this very host only."""
    return "__Host-judge" if config.secure_cookies else "judge"


@dataclass(frozen=True)
class Caller:
    """Who makes a request. `address` is the client's, `key` whose share of the gateway it takes.

    `retry_after`: seconds, when it comes too often; else 0. `known` is None for a stranger.
    """

    address: str
    key: str
    known: Principal | None
    retry_after: float
    body_bytes: int


class Gate:
    """The gate of one gateway, for one thread."""

    def __init__(self, config: GatewayConfig, tokens: Tokens, session_key: bytes) -> None:
        """`session_key` signs the cookies of the pages."""
        self._config = config
        self._tokens = tokens
        self._throttle = Throttle(_FREE_FAILURES, _SECONDS_EACH)
        self._cookie = cookie_name(config)
        app = Flask("judge.gateway")
        app.secret_key = session_key
        self._signed = SecureCookieSessionInterface().get_signing_serializer(app)

    def proxied(self, peer: str) -> bool:
        """Whether this peer is the proxy in front, which speaks for others."""
        return self._config.proxied and (group(peer).startswith("127.") or peer == "::1")

    def address(self, head: Head, peer: str) -> str:
        """The client's address: the proxy's word for it, where there is a proxy; nobody else's."""
        if not self.proxied(peer):
            return peer
        # The last entry is what the proxy itself saw; those before it are the client's claims.
        return head.fields.get("x-forwarded-for", "").rpartition(",")[2].strip()[:45] or peer

    def scheme(self, head: Head, peer: str) -> str:
        """http, or https when the proxy says that it ended TLS."""
        return "https" if self.proxied(peer) and head.fields.get("x-forwarded-proto") == "https" else "http"

    def caller(self, head: Head, peer: str) -> Caller:
        """Who this is. A right token counts in spite of failures from its address when it came in from there before."""
        address = self.address(head, peer)
        stranger = group(address)
        bearer = head.bearer
        known = self._tokens.find(bearer) if bearer is not None else self._session(head)
        retry = 0.0
        login = head.method == "POST" and head.path == _LOGIN
        tries = bearer is not None or login or self._needs_token(head)
        # A session says who somebody is, not whose token they try at the log-in.
        sure = known and not login and (bearer is None or self._throttle.knows(stranger, known.fingerprint))
        if tries and not sure:
            retry = self._throttle.wait(stranger, clock.monotonic())
        if known and bearer is not None and not retry:
            self._throttle.came_in(stranger, known.fingerprint)
        return Caller(
            address,
            f"user {known.user}" if known else stranger,
            known,
            retry,
            self._body_bytes(head) if known else SMALL_BODY,
        )

    def answered(self, caller: Caller, status: int) -> None:
        """Note what came of it: 401 is a failed log-in."""
        if status == 401:
            self._throttle.failed(group(caller.address), clock.monotonic())

    @staticmethod
    def _needs_token(head: Head) -> bool:
        return head.path.startswith(_API) and head.path not in {_API + "v1/health", _API + "v1/openapi.json"}

    def _body_bytes(self, head: Head) -> int:
        limits = self._config.limits
        large = head.path == _SUBMIT or (head.method == "PUT" and head.path.startswith(_BLOBS))
        return max(limits.blob_bytes, limits.body_bytes) if large else limits.body_bytes

    def _session(self, head: Head) -> Principal | None:
        """Whose session cookie this is. The app looks again, and has the last word."""
        cookie = parse_cookie(head.fields.get("cookie", "")).get(self._cookie)
        if not cookie or self._signed is None:
            return None
        try:
            said = self._signed.loads(cookie, max_age=LIFETIME)
        except BadSignature:
            return None
        fingerprint = said.get("fp") if isinstance(said, dict) else None
        return self._tokens.by_fingerprint(fingerprint) if isinstance(fingerprint, str) else None
