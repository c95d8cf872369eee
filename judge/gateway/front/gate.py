"""Decisions that need only the head of a request: its maker, the largest body, whether it comes too often."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from flask import Flask
from flask.sessions import SecureCookieSessionInterface
from itsdangerous import BadSignature
from werkzeug.http import parse_cookie

from judge import clock
from judge.config import GatewayConfig
from judge.crowd import group
from judge.gateway import devices
from judge.gateway.auth import (
    FileTokens,
    Principal,
    below,
    fingerprint,
    of_account,
    session_counts,
    sign_with,
    token_digest,
    token_with,
)
from judge.gateway.front.head import Head
from judge.gateway.front.watching import Way
from judge.gateway.sessions import digest
from judge.gateway.throttle import AddressThrottle
from judge.rpc.session import LIFETIME

# Bytes that a stranger may send: a log-in with room to spare.
SMALL_BODY = 64 * 1024
_LOGIN = "/login"
_API = "/api"
_BLOBS = f"{_API}/v1/blobs/"
_FREE_FAILURES, _SECONDS_EACH = 20, 3.0
# Here the front asks the app about a session or an account's token: 204 when it is in force, 404 when it is not.
SESSION = "/session"
# The headers of a 204: whose session or token it is, and the role.
USER, ROLE = "Judge-User", "Judge-Role"
# Seconds for which the front believes a yes and a no, and the pause after an answer that was neither.
_YES, _NO, _UNKNOWN = 10.0, 60.0, 10.0
_SESSIONS = 10_000
_BEARER = "token "
_SLASHES = re.compile("/{2,}")
# Calls that may be held: our own that looks at one submission, and the one of Judge0's that hands in.
_LONG_POLL = re.compile(_API + "/v1/submissions/[0-9a-f]{24}")
_HELD = re.compile(r"/(?:extra/)?submissions(?:\.json)?/?")


def cookie_name(config: GatewayConfig) -> str:
    """The name of the session cookie; browsers take a `__Host-` one from this very host only."""
    return "__Host-judge" if config.secure_cookies else "judge"


class CredentialKind(Enum):
    """A log-in, a token in the form of an account's, which the app may be unable to check now, or any other token."""

    LOGIN = auto()
    ACCOUNT = auto()
    TOKEN = auto()


@dataclass(frozen=True)
class HttpCaller:
    """The maker of a request.

    - `address`: the client's. `key`: the person or address whose share of the gateway the request takes.
    - `known`: None for a stranger. It is also None while the app has not lately vouched for the request's session or
      token; then `proof` names that.
    - `retry_after`: seconds to wait, when requests come too often; else 0.
    - `tries`: the request carries a log-in that may be wrong, or a token that nobody is known by; it counts with
      others of `counted`, the address or a browser by which somebody has come in before.
    """

    address: str
    key: str
    known: Principal | None
    retry_after: float
    body_bytes: int
    proof: str | None = None
    tries: CredentialKind | None = None
    counted: str = ""


@dataclass(frozen=True)
class _AppWord:
    """The app's word on a session or token: its owner while it is in force, and until when the word counts."""

    known: Principal | None
    until: float


@dataclass(frozen=True)
class _Cookie:
    """A session by its cookie: its owner, its name at the cluster, the fingerprint of an owner in tokens.yml."""

    user: str
    digest: str
    fingerprint: str


class FrontGate:
    """The gate of one gateway; one thread uses it."""

    def __init__(self, config: GatewayConfig, tokens: FileTokens, session_key: bytes) -> None:
        """`session_key` signs the cookies of the pages."""
        self._config = config
        self._tokens = tokens
        self._throttle = AddressThrottle(_FREE_FAILURES, _SECONDS_EACH)
        self._cookie = cookie_name(config)
        self._judge0 = config.judge0.prefix if config.judge0.enabled else None
        self._said: OrderedDict[str, _AppWord] = OrderedDict()
        app = Flask("judge.gateway")
        sign_with(app, session_key)
        self._app = app
        self._signed = SecureCookieSessionInterface().get_signing_serializer(app)

    def proxied(self, peer: str) -> bool:
        """Says whether this peer is the proxy in front, which says for whom it speaks."""
        return self._config.proxied and (group(peer).startswith("127.") or peer == "::1")

    def address(self, head: Head, peer: str) -> str:
        """The client's address: the peer's, or what the proxy in front says. Nobody else is believed."""
        if not self.proxied(peer):
            return peer
        # The last entry is what the proxy itself saw; those before it are the client's claims.
        return head.fields.get("x-forwarded-for", "").rpartition(",")[2].strip()[:45] or peer

    def scheme(self, head: Head, peer: str) -> str:
        """http, or https when the proxy says that it ended TLS."""
        return "https" if self.proxied(peer) and head.fields.get("x-forwarded-proto") == "https" else "http"

    def routed(self, head: Head) -> Head:
        """The request at the path by which everybody behind knows it, where it is one of an API.

        Several slashes are one: clients join addresses carelessly, and nobody who sends a body follows to where one
        slash is. Under a host name of its own Judge0's API is at the root: many clients keep no more of an address.
        """
        path = _SLASHES.sub("/", head.path)
        if self._judge0 is not None and head.host in self._config.judge0.hosts:
            return head.at(self._judge0 + path)
        ours = below(path, _API) or (self._judge0 is not None and below(path, self._judge0))
        return head.at(path) if path != head.path and ours else head

    def token(self, head: Head) -> str | None:
        """The token by which the app will serve this request; None when the app looks at none."""
        return token_with(head.method, head.path, self._judge0, head.field, head.argument)

    def speaks_judge0(self, head: Head) -> bool:
        """Says whether a request is for Judge0's API, so that its client reads answers of that shape."""
        return self._judge0 is not None and below(head.path, self._judge0)

    def holds(self, head: Head) -> bool:
        """Says whether the app may hold this call until something changes, where it takes next to no CPU time."""
        asked = head.arguments("wait")
        if not asked:
            return False
        if head.method in {"GET", "HEAD"}:
            return _LONG_POLL.fullmatch(head.path) is not None
        if asked[-1].lower() != "true" or head.method != "POST" or not self.speaks_judge0(head):
            return False
        return _HELD.fullmatch(head.path, len(self._judge0 or "")) is not None

    def for_scripts(self, head: Head) -> dict[str, str]:
        """The headers that let scripts of other sites read an answer of Judge0's API."""
        return self._config.judge0.for_scripts(head.fields.get("origin", "")) if self.speaks_judge0(head) else {}

    def lets_guests_in(self, head: Head) -> bool:
        """Says whether a request without a token is served as the guest of Judge0's API."""
        return bool(self._config.judge0.guest) and self.speaks_judge0(head) and self.token(head) is None

    def caller(self, head: Head, peer: str) -> HttpCaller:
        """The caller by token and address.

        A right token counts in spite of failures from its address when it came in from there before.
        """
        address = self.address(head, peer)
        stranger = group(address)
        bearer = self.token(head)
        known: Principal | None
        proof: str | None = None
        if bearer is not None:
            known = self._tokens.find(bearer)
            if known is None and of_account(bearer):
                known, proof = self._account(bearer, stranger)
        elif session_counts(head.method, head.path, self._judge0):
            known, proof = self._session(head)
        else:
            known = None
        retry = 0.0
        login = head.method == "POST" and head.path == _LOGIN
        tries = bearer is not None or login
        counted = (self._device(head) if login else "") or stranger
        # A session proves its owner, but not the token that somebody tries at the log-in.
        sure = known and not login and (bearer is None or self._throttle.knows(stranger, known.fingerprint))
        if tries and not sure:
            retry = self._throttle.wait(counted, clock.monotonic())
        if known and bearer is not None and not retry:
            self._throttle.came_in(stranger, known.fingerprint)
        return HttpCaller(
            address,
            f"user {known.user}" if known else stranger,
            known,
            retry,
            self._body_bytes(head, by_token=bearer is not None, judges=known.judges) if known else SMALL_BODY,
            proof,
            CredentialKind.LOGIN if login else _try_of(bearer) if known is None else None,
            counted,
        )

    def said(self, proof: str, status: int, told: Mapping[str, str]) -> None:
        """Note the app's answer about a session or token: 204 in force, 404 not in force, else the app cannot tell.

        `told` are the headers of the answer, by their names in lower case.
        """
        before, now = self._said.get(proof), clock.monotonic()
        if status == 204:
            role = told.get(ROLE.lower(), "user")
            known = Principal(
                told.get(USER.lower(), ""),
                role if role in {"admin", "judge"} else "user",  # type: ignore[arg-type]
                fingerprint(proof.removeprefix(_BEARER)),
            )
            said = _AppWord(known, now + _YES)
        elif status == 404:
            said = _AppWord(None, now + (_YES if proof.startswith(_BEARER) else _NO))
        else:  # nobody can log out either, so a known person still is
            said = _AppWord(before.known if before is not None else None, now + _UNKNOWN)
        self._said[proof] = said
        self._said.move_to_end(proof)
        if len(self._said) > _SESSIONS:
            self._said.popitem(last=False)

    def wait(self, caller: HttpCaller) -> float:
        """Seconds until this caller may try again; 0 when it may now."""
        return self._throttle.wait(caller.counted, clock.monotonic())

    def begins(self, caller: HttpCaller) -> None:
        """Count a try as failed until it is `answered`: else a hundred guesses at once would be as free as one."""
        if caller.tries:
            self._throttle.failed(caller.counted, clock.monotonic())

    def answered(self, caller: HttpCaller, status: int) -> None:
        """Note the answer to a request that `begins`; 0 is no answer.

        A log-in has failed with 401. A token that nobody is known by has failed whatever is answered: what is taken of
        people and not of strangers would tell whether it is right. Unless it may be an account's, and the app cannot
        say so now.
        """
        if (caller.tries is CredentialKind.LOGIN and status != 401) or (
            caller.tries is CredentialKind.ACCOUNT and status >= 500
        ):
            self._throttle.forgive(caller.counted, clock.monotonic())

    def _body_bytes(self, head: Head, *, by_token: bool, judges: bool) -> int:
        limits = self._config.limits
        blob = by_token and judges and head.method == "PUT" and head.path.startswith(_BLOBS)
        return max(limits.blob_bytes, limits.body_bytes) if blob else limits.body_bytes

    def way(self, head: Head) -> Way | None:
        """The way by which the maker of this request has come in; None without one that could be in force."""
        token = self.token(head)
        if token is None:
            found = self._cookie_of(head)
            return None if found is None else Way("sessions", found.digest, found.fingerprint)
        listed = self._tokens.find(token)
        if listed is not None:
            return Way("names", listed.user, listed.fingerprint)
        return Way("tokens", token_digest(token)) if of_account(token) else None

    def listed(self, fingerprint: str) -> Principal | None:
        """The person with this fingerprint in tokens.yml, as it is now."""
        return self._tokens.by_fingerprint(fingerprint)

    def _session(self, head: Head) -> tuple[Principal | None, str | None]:
        """(the owner of the session cookie, the session to ask the app about, as a copied cookie outlives it)."""
        found = self._cookie_of(head)
        # The proof names the person, too, so that a session vouches for nobody else.
        return (None, None) if found is None else self._believed(f"{found.user} {found.digest}")

    def _device(self, head: Head) -> str:
        """The browser of this request, if somebody has come in by it: neighbours' wrong passwords do not hold it up."""
        cookie = parse_cookie(head.fields.get("cookie", "")).get(devices.device_cookie(self._cookie), "")
        device = devices.known(self._app, cookie)[1] if cookie else ""
        return f"device {device}" if device else ""

    def _cookie_of(self, head: Head) -> _Cookie | None:
        """The session in a cookie that is signed rightly and whose owner may have one."""
        cookie = parse_cookie(head.fields.get("cookie", "")).get(self._cookie)
        if not cookie or self._signed is None:
            return None
        try:
            said = self._signed.loads(cookie, max_age=LIFETIME)
        except BadSignature:
            return None
        secret = said.get("sid") if isinstance(said, dict) else None
        if not isinstance(secret, str):
            return None
        listed = self._tokens.by_fingerprint(str(said["fp"])) if "fp" in said else None
        user = listed.user if listed is not None else said.get("user")
        if not isinstance(user, str) or ("fp" in said and listed is None):
            return None
        return _Cookie(user, digest(secret), listed.fingerprint if listed is not None else "")

    def _account(self, token: str, stranger: str) -> tuple[Principal | None, str | None]:
        """(the owner of an account's token, the token to ask the app about).

        An address that has to wait with log-ins has to wait with unknown tokens, too: a guess costs the app a question.
        """
        sha = token_digest(token)
        known, proof = self._believed(f"{_BEARER}{sha}")
        waits = self._throttle.wait(stranger, clock.monotonic()) > 0
        if proof is not None and waits and not self._throttle.knows(stranger, fingerprint(sha)):
            proof = None
        return known, proof

    def _believed(self, proof: str) -> tuple[Principal | None, str | None]:
        """(the person by the app's last word, the proof if that word is not fresh)."""
        said = self._said.get(proof)
        if said is None:
            return None, proof
        return said.known, None if said.until > clock.monotonic() else proof


def _try_of(token: str | None) -> CredentialKind | None:
    if token is None:
        return None
    return CredentialKind.ACCOUNT if of_account(token) else CredentialKind.TOKEN
