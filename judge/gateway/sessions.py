"""The sessions of the pages. The cookie is signed; whether it is still in force the cluster says, to all gateways.

A gateway believes a `yes` for a second, so a log-out holds everywhere within that; it believes nothing else. While
no judicator answers nobody can be told apart, and nothing is shown: UnavailableError.
"""

from __future__ import annotations

import hashlib
import secrets
import threading

from flask import Request, session

from judge import clock
from judge.errors import UnauthorizedError
from judge.gateway.auth import Principal, Tokens, bearer, csrf_token
from judge.gateway.cluster import Cluster
from judge.model import messages as m
from judge.rpc.session import SessionBegin, SessionEnd, SessionRef, SessionState

AGE = 1.0
_MOST = 10_000


class LiveSessions:
    """The sessions that this process has seen; safe to use from many threads."""

    def __init__(self, tokens: Tokens, cluster: Cluster) -> None:
        self._tokens = tokens
        self._cluster = cluster
        self._lock = threading.Lock()
        self._live: dict[tuple[str, str], float] = {}

    def begin(self, principal: Principal) -> None:
        """Begin a session. Nothing of an earlier one stays, so a planted cookie gains nothing."""
        secret = secrets.token_urlsafe(32)
        self._cluster.call("session_begin", SessionBegin(id=digest(secret), user=principal.user), m.Empty)
        session.clear()
        session.permanent = True
        session["fp"], session["sid"] = principal.fingerprint, secret
        csrf_token()

    def current(self) -> Principal | None:
        """The person who is logged in with the session cookie of this request, if any."""
        fingerprint, secret = session.get("fp"), session.get("sid")
        if not isinstance(fingerprint, str) or not isinstance(secret, str):
            return None
        principal = self._tokens.by_fingerprint(fingerprint)
        return principal if principal is not None and self._in_force(digest(secret), principal.user) else None

    def end(self, principal: Principal, *, everywhere: bool) -> None:
        """End the session of this request, or all that this person has; the cookie stays if that cannot be done."""
        name = digest(str(session.get("sid")))
        self._cluster.call("session_end", SessionEnd(id=name, user=principal.user, everywhere=everywhere), m.Empty)
        with self._lock:
            self._live.pop((name, principal.user), None)
            if everywhere:
                self._live.clear()
        session.clear()

    def _in_force(self, name: str, user: str) -> bool:
        now = clock.monotonic()
        with self._lock:
            if self._live.get((name, user), 0.0) > now:
                return True
        if not self._cluster.call("session_live", SessionRef(id=name, user=user), SessionState).live:
            return False
        with self._lock:
            if len(self._live) >= _MOST:
                self._live.clear()
            # From before the question was asked: the answer may have been on its way for long.
            self._live[name, user] = now + AGE
        return True

    def caller(self, request: Request) -> Principal:
        """The person who makes this API call; UnauthorizedError says what to send.

        The bearer token counts; without one the session does, for reading only, so that no other site can make a
        browser change anything here.
        """
        principal = bearer(request, self._tokens)
        if principal is None and request.method in {"GET", "HEAD"}:
            principal = self.current()
        if principal is None:
            raise UnauthorizedError("no token; send the header 'Authorization: Bearer TOKEN'")
        return principal


def digest(secret: str) -> str:
    """The SHA-256 of a session's secret: the cluster knows that and nothing else of it."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
