"""Whose a token is: one of tokens.yml, or one of an account in the database, which the cluster is asked about.

A gateway believes a `yes` for two seconds, so a token that is revoked and a user who is disabled are out everywhere
within that. While no judicator answers, it believes one of up to ten seconds ago, so a fail-over shuts nobody out; what
is asked for then has to wait for a judicator anyway.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from judge import clock
from judge.errors import JudgeError, UnauthorizedError, UnavailableError
from judge.gateway.auth import Principal, Tokens, fingerprint, of_account, principal_of, token_digest
from judge.gateway.cluster import Cluster
from judge.model import messages as m
from judge.model.people import NameRef, NameState, Person, TokenRef, TokenUsed

log = logging.getLogger(__name__)

AGE: Final = 2.0
GRACE: Final = 10.0
# How often a token's use is noted, and how long that may take.
_NOTED: Final = 60.0
_PATIENCE: Final = 2.0
_MOST: Final = 10_000


@dataclass(frozen=True)
class _Said:
    """The cluster's word, and when the question was asked: the answer may have been on its way for long."""

    principal: Principal | None
    asked: float


class Known:
    """The people whom this process has seen; safe to use from many threads."""

    def __init__(self, tokens: Tokens, cluster: Cluster) -> None:
        """Nobody is asked before the first call."""
        self._tokens = tokens
        self._cluster = cluster
        self._lock = threading.Lock()
        self._said: OrderedDict[str, _Said] = OrderedDict()
        self._noted: OrderedDict[str, float] = OrderedDict()

    def by_token(self, token: str, origin: str = "") -> Principal | None:
        """Whose this token is, if anybody's; its use is noted. UnavailableError: no judicator can say.

        `origin` is the address it came from.
        """
        listed = self._tokens.find(token)
        if listed is not None:
            return listed if self.lets_in(listed) else None
        if not of_account(token):
            return None
        found = self._ask(f"token {token_digest(token)}", lambda: self._check(token))
        if found is not None and found.token is not None:
            self._note(found.token, origin)
        return found

    def listed(self, name: str) -> bool:
        """Whether tokens.yml has somebody of this name, however it is capitalised."""
        return any(one.user.lower() == name.lower() for one in self._tokens.listed())

    def _check(self, token: str) -> Principal | None:
        digest = token_digest(token)
        try:
            return principal_of(self._cluster.call("token_check", TokenRef(digest=digest), Person), fingerprint(digest))
        except UnauthorizedError:
            return None

    def lets_in(self, listed: Principal) -> bool:
        """Whether somebody of a file of this gateway is not shut out by an account; the file counts while none can say.

        That is tokens.yml, and the config's guest of Judge0's API.
        """

        def check() -> Principal | None:
            named = self._cluster.call("name_state", NameRef(name=listed.user), NameState, timeout=_PATIENCE)
            return None if named.disabled else listed

        try:
            return self._ask(f"name {listed.user}", check) is not None
        except JudgeError as exc:
            log.debug("whether '%s' is disabled is not known: %s", listed.user, exc)
            with self._lock:  # else each request would wait for that
                self._said[f"name {listed.user}"] = _Said(listed, clock.monotonic())
            return True

    def _ask(self, key: str, check: Callable[[], Principal | None]) -> Principal | None:
        now = clock.monotonic()
        with self._lock:
            said = self._said.get(key)
        if said is not None and now - said.asked < AGE:
            return said.principal
        try:
            found = check()
        except UnavailableError:
            if said is not None and now - said.asked < GRACE:
                return said.principal
            raise
        with self._lock:
            if found is None:  # a guess must not push out those who are known
                self._said.pop(key, None)
            else:
                self._said[key] = _Said(found, now)
                self._said.move_to_end(key)
                while len(self._said) > _MOST:
                    self._said.popitem(last=False)
        return found

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
