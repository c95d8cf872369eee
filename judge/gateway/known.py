"""Finds the owner of a token: one of tokens.yml, or of an account in the database, which the cluster is asked about.

A gateway believes a `yes` for two seconds, so a token that is revoked and a user who is disabled are out everywhere
within that. While no judicator answers, it believes one of up to ten seconds ago, so a fail-over shuts nobody out; what
is asked for then has to wait for a judicator anyway.

Who is known already is asked about together with all others who have come lately: so many people cost a call each
second, and not one for each of them.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from flask import g, has_request_context

from judge import clock
from judge.errors import JudgeError, UnauthorizedError, UnavailableError
from judge.gateway.auth import FileTokens, Principal, fingerprint, of_account, principal_of, token_digest
from judge.gateway.cluster import Cluster
from judge.model import messages as m
from judge.model.people import WAYS, NameRef, NameState, Person, TokenRef, TokenUsed, WaysIn, WaysState

log = logging.getLogger(__name__)

AGE: Final = 2.0
GRACE: Final = 10.0
# Somebody who has come within so many seconds is asked about along with others.
_LATELY: Final = 30.0
# Seconds after which a token's use is noted again, and seconds that a call may take.
_NOTED: Final = 60.0
_PATIENCE: Final = 2.0
_MOST: Final = 10_000

# A way in, as `WaysIn` names it: the digest of an account's token, or the name of somebody of a file.
_Key = tuple[Literal["tokens", "names"], str]


@dataclass
class _ClusterWord:
    """The cluster's word, and when the question was asked: the answer may have been on its way for long.

    `seen`: when they have come last.
    """

    principal: Principal
    asked: float
    seen: float


class Known:
    """The people whom this process has seen; safe to use from many threads."""

    def __init__(self, tokens: FileTokens, cluster: Cluster) -> None:
        """Nobody is asked before the first call."""
        self._tokens = tokens
        self._cluster = cluster
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._failed: tuple[float, UnavailableError] | None = None
        self._said: OrderedDict[_Key, _ClusterWord] = OrderedDict()
        self._noted: OrderedDict[str, float] = OrderedDict()

    def by_token(self, token: str, origin: str = "") -> Principal | None:
        """The owner of this token, if anybody; its use is noted. UnavailableError: no judicator can say.

        `origin` is the address it came from. Admission has identified the caller of this request already.
        """
        identified = g.get("identified") if has_request_context() else None
        if identified is not None and identified[0] == token:
            principal: Principal | None = identified[1]
            return principal
        listed = self._tokens.find(token)
        if listed is not None:
            return listed if self.lets_in(listed) else None
        if not of_account(token):
            return None
        found = self._ask(("tokens", token_digest(token)), lambda: self._check(token))
        if found is not None and found.token is not None:
            self._note(found.token, origin)
        return found

    def listed(self, name: str) -> bool:
        """Says whether tokens.yml has somebody of this name, however it is capitalised."""
        return any(one.user.lower() == name.lower() for one in self._tokens.listed())

    def _check(self, token: str) -> Principal | None:
        digest = token_digest(token)
        try:
            return principal_of(self._cluster.call("token_check", TokenRef(digest=digest), Person), fingerprint(digest))
        except UnauthorizedError:
            return None

    def lets_in(self, listed: Principal) -> bool:
        """Says whether an account lets in somebody of a gateway's file; while nobody can say, the file counts.

        That is tokens.yml, and the config's guest of Judge0's API.
        """

        def check() -> Principal | None:
            named = self._cluster.call("name_state", NameRef(name=listed.user), NameState, timeout=_PATIENCE)
            return None if named.disabled else listed

        try:
            return self._ask(("names", listed.user), check) is not None
        except JudgeError as exc:
            log.debug("whether '%s' is disabled is not known: %s", listed.user, exc)
            with self._lock:  # else each request would wait for that
                self._said["names", listed.user] = _ClusterWord(listed, clock.monotonic(), clock.monotonic())
            return True

    def _ask(self, key: _Key, check: Callable[[], Principal | None]) -> Principal | None:
        now = clock.monotonic()
        with self._lock:
            said = self._said.get(key)
            if said is not None:
                said.seen = now
        if said is not None and now - said.asked < AGE / 2:
            return said.principal
        try:
            if said is not None and self._still(key, said, now):
                return said.principal
            found = check()
        except UnavailableError:
            if said is not None and now - said.asked < GRACE:
                return said.principal
            raise
        with self._lock:
            if found is None:  # a guess must not push out those who are known
                self._said.pop(key, None)
            else:
                self._said[key] = _ClusterWord(found, now, now)
                self._said.move_to_end(key)
                while len(self._said) > _MOST:
                    self._said.popitem(last=False)
        return found

    def _still(self, key: _Key, said: _ClusterWord, now: float) -> bool:
        """Says whether the answer about this person still holds; UnavailableError: nobody can say.

        From half of its time on somebody asks, and for all whose word is half as old, so that there is one question for
        all before long; meanwhile what was said counts for the others. Once its time is over they wait for the answer.
        """
        fresh = now - said.asked < AGE
        if not self._asking.acquire(blocking=not fresh):
            return True
        try:
            with self._lock:
                again = self._said.get(key)
                due = {
                    one: other
                    for one, other in self._said.items()
                    if now - other.asked > AGE / 4 and now - other.seen < _LATELY
                }
            if again is not None and again.asked >= said.asked and again is not said:
                return True
            if self._failed is not None and self._failed[0] >= now:
                raise self._failed[1]
            try:
                return self._renew({key: said, **due}, now)[key]
            except UnavailableError as exc:
                self._failed = clock.monotonic(), exc
                if fresh:
                    return True
                raise
        finally:
            self._asking.release()

    def _renew(self, due: dict[_Key, _ClusterWord], now: float) -> dict[_Key, bool]:
        """Ask by one call whether these answers hold: one that does is good for as long again, others are forgotten."""
        tokens, names = ([one[1] for one in due if one[0] == kind][:WAYS] for kind in ("tokens", "names"))
        state = self._cluster.call("ways", WaysIn(tokens=tokens, names=names), WaysState, timeout=_PATIENCE)
        keys: list[_Key] = [*(("tokens", one) for one in tokens), *(("names", one) for one in names)]
        holds = {
            one: role == ("listed" if one[0] == "names" else due[one].principal.role)
            for one, role in zip(keys, [*state.tokens, *state.names], strict=True)
        }
        with self._lock:
            for one, still in holds.items():
                if self._said.get(one) is due[one]:  # else somebody else has just asked
                    del self._said[one]  # the next time it is asked what has become of them
                    if still:
                        self._said[one] = _ClusterWord(due[one].principal, now, due[one].seen)
        return holds

    def _note(self, token: str, origin: str) -> None:
        """Note a use now and then; the answer does not depend on it."""
        now = clock.monotonic()
        with self._lock:
            if now - self._noted.get(token, -_NOTED) < _NOTED:
                return
            self._noted[token] = now
            self._noted.move_to_end(token)
            while len(self._noted) > _MOST:
                self._noted.popitem(last=False)
        try:
            self._cluster.call("token_used", TokenUsed(id=token, origin=origin), m.Empty, timeout=_PATIENCE)
        except JudgeError as exc:
            log.info("that token %s was used cannot be noted: %s", token, exc)
