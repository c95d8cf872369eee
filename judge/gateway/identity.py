"""Who makes a request: the one cache of identities of a process, for API, pages, admission and streams of events.

Judicators say which tokens, sessions and names of tokens.yml are valid. A gateway believes that for `LIFETIME` seconds,
counted from before it asked, so a disabled account, a revoked token and a log-out take effect everywhere within that.
Credentials that have come lately are asked about together: many people cost one call a second.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from flask import Request, g, has_request_context, session

from judge.common import clock
from judge.common.errors import JudgeError, UnauthorizedError, UnavailableError
from judge.gateway.auth import (
    FileTokens,
    Principal,
    api_token,
    csrf_token,
    fingerprint,
    of_account,
    principal_of,
    token_digest,
)
from judge.gateway.cluster import Cluster
from judge.model import messages as m
from judge.model.people import (
    CREDENTIALS,
    Credential,
    Credentials,
    CredentialState,
    CredentialStates,
    SessionBegin,
    SessionEnd,
    TokenUsed,
)

log = logging.getLogger(__name__)

LIFETIME: Final = 2.0
# A credential that has come within so many seconds is asked about along with others.
_RECENT: Final = 30.0
# Seconds after which a token's use is noted again, and seconds that the note may take.
_NOTE_INTERVAL: Final = 60.0
_NOTE_TIMEOUT: Final = 2.0
_ENTRIES: Final = 10_000
_KINDS: Final = ("tokens", "sessions", "names")


@dataclass
class _Entry:
    """A valid credential: its state, when that was asked, and when the credential came last."""

    state: CredentialState
    asked_at: float
    used_at: float


@dataclass(frozen=True)
class _Answer:
    """The last answer of the cluster, for all who have waited since before it was asked for."""

    asked_at: float
    credentials: frozenset[Credential] = frozenset()
    states: Mapping[Credential, CredentialState] = field(default_factory=dict)
    # Nobody answered: for a moment others need not wait for that, too.
    error: JudgeError | None = None
    error_until: float = 0.0

    def covers(self, credential: Credential, began: float) -> bool:
        """Whether somebody who has waited since `began` need not ask about this credential."""
        return began < self.error_until or (self.asked_at >= began and credential in self.credentials)


class Identities:
    """The identities of one process; safe to use from many threads."""

    def __init__(self, tokens: FileTokens, cluster: Cluster) -> None:
        self._tokens = tokens
        self._cluster = cluster
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._entries: OrderedDict[Credential, _Entry] = OrderedDict()
        self._waiting: dict[Credential, int] = {}
        self._answer = _Answer(0.0)
        self._last_uses: OrderedDict[str, float] = OrderedDict()

    # --- requests ------------------------------------------------------------------------------------------------

    def caller(self, request: Request) -> Principal:
        """The person who makes this API call; UnauthorizedError says what to send.

        The bearer token counts; without one the session does, for reading only, so that no other site can make a
        browser change anything here.
        """
        token = api_token(request.headers.get("Authorization"))
        if token is not None:
            principal = self.by_token(token, request.remote_addr or "")
            if principal is None:
                raise UnauthorizedError("unknown token; ask the operator of the cluster for a new one")
            return principal
        principal = self.by_session() if request.method in {"GET", "HEAD"} else None
        if principal is None:
            raise UnauthorizedError("no token; send the header 'Authorization: Bearer TOKEN'")
        return principal

    def by_token(self, token: str, origin: str = "") -> Principal | None:
        """The owner of this token, if any; its use is noted. UnavailableError: no judicator can say.

        `origin` is the address that it came from. Admission has identified the caller of this request already.
        """
        identified = g.get("identified") if has_request_context() else None
        if identified is not None and identified[0] == token:
            principal: Principal | None = identified[1]
            return principal
        listed = self._tokens.find(token)
        if listed is not None:
            return listed if self.allows(listed) else None
        if not of_account(token):
            return None
        principal = self._principal(Credential("tokens", token_digest(token)))
        if principal is not None and principal.token is not None:
            self._note_use(principal.token, origin)
        return principal

    def by_session(self) -> Principal | None:
        """The person who is logged in with the session cookie of this request, if any; raises as `by_token`."""
        name, user = self.session_id, self._cookie_user()
        if name is None or user is None:
            return None
        principal = self._principal(Credential("sessions", name, str(session.get("fp", ""))))
        return principal if principal is not None and principal.user == user else None

    def allows(self, listed: Principal) -> bool:
        """Whether no account shuts out somebody of a gateway's file; while nobody can say, the file counts.

        That is tokens.yml, and the config's guest of Judge0's API.
        """
        credential = Credential("names", listed.user)
        try:
            return self._state(credential) is not None
        except JudgeError as exc:
            log.debug("cannot find out whether '%s' is disabled: %s", listed.user, exc)
            with self._lock:  # else each request would wait for that
                self._store(credential, CredentialState(user=listed.user), clock.monotonic())
            return True

    def listed(self, name: str) -> bool:
        """Return whether tokens.yml has somebody of this name, however it is capitalised."""
        return any(principal.user.lower() == name.lower() for principal in self._tokens.listed())

    def credential(self, request: Request) -> Credential:
        token = api_token(request.headers.get("Authorization"))
        if token is None:
            return Credential("sessions", self.session_id or "", str(session.get("fp", "")))
        listed = self._tokens.find(token)
        if listed is None:
            return Credential("tokens", token_digest(token))
        return Credential("names", listed.user, listed.fingerprint)

    def check(self, credentials: Iterable[Credential]) -> dict[Credential, Principal | None]:
        """Who each of many credentials belongs to now, whatever is cached; raises what the cluster answers."""
        distinct = list(dict.fromkeys(credentials))
        states: dict[Credential, CredentialState] = {}
        for start in range(0, len(distinct), CREDENTIALS):
            states |= self._ask(distinct[start : start + CREDENTIALS])
        return {credential: self._resolve(credential, states[credential]) for credential in distinct}

    # --- sessions ------------------------------------------------------------------------------------------------

    @property
    def session_id(self) -> str | None:
        """The name of the session of this request, as the cluster knows it; None without one."""
        secret = session.get("sid")
        return token_digest(secret) if isinstance(secret, str) else None

    def begin_session(self, principal: Principal) -> None:
        """Begin a session. Nothing of an earlier one stays, so a planted cookie gains nothing.

        The one that this browser had ends: nobody can log out of it any more, and a copy of its cookie would stay good.
        """
        earlier, user = self.session_id, self._cookie_user()
        secret = secrets.token_urlsafe(32)
        begin = SessionBegin(
            id=token_digest(secret),
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

    def end_session(self, principal: Principal, *, everywhere: bool) -> None:
        """End the session of this request, or all that this person has; the cookie stays if that cannot be done."""
        self._end(SessionEnd(id=self.session_id or "", user=principal.user, everywhere=everywhere))
        session.clear()

    def _end(self, end: SessionEnd) -> None:
        self._cluster.call("session_end", end, m.Empty)
        with self._lock:
            for credential, entry in list(self._entries.items()):
                if credential.kind == "sessions" and (
                    credential.id == end.id or (end.everywhere and entry.state.user == end.user)
                ):
                    del self._entries[credential]

    def _cookie_user(self) -> str | None:
        if "fp" in session:
            listed = self._tokens.by_fingerprint(str(session.get("fp")))
            return None if listed is None else listed.user
        user = session.get("user")
        return user if isinstance(user, str) else None

    # --- the cache -----------------------------------------------------------------------------------------------

    def _principal(self, credential: Credential) -> Principal | None:
        state = self._state(credential)
        return None if state is None else self._resolve(credential, state)

    def _resolve(self, credential: Credential, state: CredentialState) -> Principal | None:
        """The person of a credential in this state; tokens.yml is looked at now."""
        if credential.fingerprint:
            listed = self._tokens.by_fingerprint(credential.fingerprint)
            return listed if listed is not None and listed.user == state.user else None
        if state.person is None:
            return None
        return principal_of(state.person, fingerprint(credential.id) if credential.kind == "tokens" else "")

    def _state(self, credential: Credential) -> CredentialState | None:
        """The state of a credential, None if it is not valid.

        From half of its lifetime on one thread asks anew, and the others go on with the cached state; after that they
        wait. What all who wait have come with is one question.
        """
        began = clock.monotonic()
        with self._lock:
            entry = self._entries.get(credential)
            if entry is not None:
                entry.used_at = began
                if began - entry.asked_at < LIFETIME / 2:
                    return entry.state
            fresh = entry if entry is not None and began - entry.asked_at < LIFETIME else None
            self._waiting[credential] = self._waiting.get(credential, 0) + 1
        try:
            answer = self._answer
            if not answer.covers(credential, began):
                if not self._asking.acquire(blocking=fresh is None):
                    return fresh.state if fresh is not None else None
                try:
                    answer = self._answer if self._answer.covers(credential, began) else self._renew(credential)
                finally:
                    self._asking.release()
        finally:
            with self._lock:
                self._waiting[credential] -= 1
                if not self._waiting[credential]:
                    del self._waiting[credential]
        if answer.error is not None:
            if fresh is not None:
                return fresh.state
            raise answer.error
        state = answer.states[credential]
        return state if state.user else None

    def _renew(self, credential: Credential) -> _Answer:
        """Ask about this credential and all that are due or waited for; `_asking` is held."""
        now = clock.monotonic()
        with self._lock:
            due = [
                cached
                for cached, entry in self._entries.items()
                if now - entry.asked_at > LIFETIME / 4 and now - entry.used_at < _RECENT
            ]
            batch = list(dict.fromkeys([credential, *self._waiting, *due]))[:CREDENTIALS]
        try:
            states = self._ask(batch)
        except UnavailableError as exc:
            self._answer = _Answer(now, frozenset(batch), error=exc, error_until=clock.monotonic() + LIFETIME / 2)
            return self._answer
        with self._lock:
            for cached, state in states.items():
                self._store(cached, state, now)
        self._answer = _Answer(now, frozenset(batch), states)
        return self._answer

    def _ask(self, credentials: Sequence[Credential]) -> dict[Credential, CredentialState]:
        """The states of at most CREDENTIALS credentials, by one call."""
        by_kind = {kind: [credential for credential in credentials if credential.kind == kind] for kind in _KINDS}
        request = Credentials.model_validate(
            {kind: [credential.id for credential in group] for kind, group in by_kind.items()}
        )
        reply = self._cluster.call("credentials", request, CredentialStates)
        states: dict[Credential, CredentialState] = {}
        for kind, group in by_kind.items():
            states |= zip(group, getattr(reply, kind), strict=True)
        return states

    def _store(self, credential: Credential, state: CredentialState, asked_at: float) -> None:
        """Keep a valid state; what is not valid is forgotten, as guesses must not push out people."""
        if not state.user:
            self._entries.pop(credential, None)
            return
        entry = self._entries.get(credential)
        self._entries[credential] = _Entry(state, asked_at, asked_at if entry is None else entry.used_at)
        self._entries.move_to_end(credential)
        while len(self._entries) > _ENTRIES:
            self._entries.popitem(last=False)

    def _note_use(self, token: str, origin: str) -> None:
        """Note a use now and then; the answer does not depend on it."""
        now = clock.monotonic()
        with self._lock:
            if now - self._last_uses.get(token, -_NOTE_INTERVAL) < _NOTE_INTERVAL:
                return
            self._last_uses[token] = now
            self._last_uses.move_to_end(token)
            while len(self._last_uses) > _ENTRIES:
                self._last_uses.popitem(last=False)
        try:
            self._cluster.call("token_used", TokenUsed(id=token, origin=origin), m.Empty, timeout=_NOTE_TIMEOUT)
        except JudgeError as exc:
            log.info("the use of token %s cannot be recorded: %s", token, exc)
