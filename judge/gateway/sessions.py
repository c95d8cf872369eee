"""The sessions of the pages. The cookie is signed; whether it is still in force the cluster says, to all gateways.

A gateway believes a `yes` for a second, so a log-out holds everywhere within that; it believes nothing else. While
no judicator answers nobody can be told apart, and nothing is shown: UnavailableError.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import threading

from flask import Request, session

from judge import clock
from judge.errors import JudgeError, UnauthorizedError
from judge.gateway.auth import FileTokens, Principal, bearer_of, csrf_token, principal_of, token_digest
from judge.gateway.cluster import Cluster
from judge.gateway.known import Known
from judge.model import messages as m
from judge.model.people import Person
from judge.model.streaming import ListenerCredential
from judge.rpc.session import SessionBegin, SessionEnd, SessionRef, SessionState

AGE = 1.0
_MOST = 10_000
_NONE = SessionState(live=False)


class LiveSessions:
    """The sessions that this process has seen; safe to use from many threads."""

    def __init__(self, tokens: FileTokens, known: Known, cluster: Cluster) -> None:
        self._tokens = tokens
        self._known = known
        self._cluster = cluster
        self._lock = threading.Lock()
        self._live: dict[tuple[str, str], tuple[float, SessionState]] = {}

    def begin(self, principal: Principal) -> None:
        """Begin a session. Nothing of an earlier one stays, so a planted cookie gains nothing.

        The one that this browser had ends: nobody can log out of it any more, and a copy of its cookie would stay good.
        """
        earlier, user = self.id, self._user()
        secret = secrets.token_urlsafe(32)
        begin = SessionBegin(
            id=digest(secret),
            user=principal.user,
            account=principal.account,
            token=principal.token,
            arrival=principal.arrival,
        )
        self._cluster.call("session_begin", begin, m.Empty)
        session.clear()
        session.permanent = True
        session["sid"] = secret
        if principal.account:
            session["user"] = principal.user
        else:
            session["fp"] = principal.fingerprint
        csrf_token()
        if earlier is not None and user is not None:
            with contextlib.suppress(JudgeError):  # a person who is in is not sent away for it; it is over in a week
                self._end(SessionEnd(id=earlier, user=user))

    def _user(self) -> str | None:
        """The person whose the cookie of this request says it is."""
        listed = self._tokens.by_fingerprint(str(session.get("fp"))) if "fp" in session else None
        user = listed.user if listed is not None else session.get("user")
        return user if isinstance(user, str) else None

    def _end(self, end: SessionEnd) -> None:
        self._cluster.call("session_end", end, m.Empty)
        with self._lock:
            self._live.pop((end.id, end.user), None)

    @property
    def id(self) -> str | None:
        """The name of the session of this request, as the cluster knows it; None without one."""
        secret = session.get("sid")
        return digest(secret) if isinstance(secret, str) else None

    def current(self) -> Principal | None:
        """The person who is logged in with the session cookie of this request, if any."""
        secret = session.get("sid")
        if not isinstance(secret, str):
            return None
        listed = self._tokens.by_fingerprint(str(session.get("fp"))) if "fp" in session else None
        user = self._user()
        if user is None or ("fp" in session and listed is None):
            return None
        state = self._state(digest(secret), user)
        if not state.live:
            return None
        if listed is not None:
            return listed
        # Only sessions of accounts have a role: one of tokens.yml is nobody's under another name.
        if state.role is None:
            return None
        return principal_of(Person(user=user, role=state.role, scopes=state.scopes, token=state.token))

    def credential(self, request: Request) -> ListenerCredential:
        """What the caller of this request came with, for who checks later whether it is still valid."""
        token = bearer_of(request)
        if token is not None:
            listed = self._tokens.find(token)
            if listed is not None:
                return ListenerCredential(kind="names", id=listed.user, fingerprint=listed.fingerprint)
            return ListenerCredential(kind="tokens", id=token_digest(token))
        fingerprint = str(session.get("fp", ""))
        return ListenerCredential(kind="sessions", id=self.id or "", fingerprint=fingerprint)

    def end(self, principal: Principal, *, everywhere: bool) -> None:
        """End the session of this request, or all that this person has; the cookie stays if that cannot be done."""
        self._end(SessionEnd(id=digest(str(session.get("sid"))), user=principal.user, everywhere=everywhere))
        if everywhere:
            with self._lock:
                self._live.clear()
        session.clear()

    def _state(self, name: str, user: str) -> SessionState:
        now = clock.monotonic()
        with self._lock:
            until, known = self._live.get((name, user), (0.0, _NONE))
        if until > now:
            return known
        state = self._cluster.call("session_live", SessionRef(id=name, user=user), SessionState)
        if state.live:
            with self._lock:
                if len(self._live) >= _MOST:
                    self._live.clear()
                # From before the question was asked: the answer may have been on its way for long.
                self._live[name, user] = (now + AGE, state)
        return state

    def caller(self, request: Request) -> Principal:
        """The person who makes this API call; UnauthorizedError says what to send.

        The bearer token counts; without one the session does, for reading only, so that no other site can make a
        browser change anything here.
        """
        token = bearer_of(request)
        if token is not None:
            principal = self._known.by_token(token, request.remote_addr or "")
            if principal is None:
                raise UnauthorizedError("this token is not known here; ask the operator of the cluster for a new one")
            return principal
        principal = self.current() if request.method in {"GET", "HEAD"} else None
        if principal is None:
            raise UnauthorizedError("no token; send the header 'Authorization: Bearer TOKEN'")
        return principal


def digest(secret: str) -> str:
    """The SHA-256 of a session's secret: the cluster knows that and nothing else of it."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
