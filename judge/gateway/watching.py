"""Checks once a second that listeners still may listen, with one question to the cluster for all of them.

If a listener's credential is no longer valid, or the role has changed, the stream ends. The application decides anew
when the listener comes again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from judge import clock
from judge.errors import JudgeError
from judge.gateway.auth import Principal
from judge.model.people import WAYS, WaysIn, WaysState

log = logging.getLogger(__name__)

EVERY: Final = 1.0
# A listener whose credential no judicator has confirmed for so many seconds is ended.
_UNSURE: Final = 60.0

Ask = Callable[[WaysIn], WaysState]
Listed = Callable[[str], Principal | None]


@dataclass(frozen=True)
class Credential:
    """What a listener came with: the digest of a token or session, or a name of tokens.yml with its `fingerprint`.

    A session has a fingerprint as well when its owner is in tokens.yml.
    """

    kind: Literal["tokens", "sessions", "names"]
    id: str
    fingerprint: str = ""


class Watched(Protocol):
    """A listener: its credential, its role, and when both were last known to be valid."""

    credential: Credential
    role: str
    sure: float

    def end(self) -> None:
        """End the stream."""


class ListenerWatch:
    """Watches the listeners of one gateway, in its event loop. It calls `ask` in threads."""

    def __init__(self, ask: Ask, listed: Listed) -> None:
        """`listed` returns a person of tokens.yml by the fingerprint."""
        self._ask, self._listed = ask, listed
        self._warning = ""

    async def run(self, watched: Callable[[], Iterable[Watched]]) -> None:
        """Check every second; returns once nobody listens."""
        while True:
            await asyncio.sleep(EVERY)
            listeners = list(watched())
            if not listeners:
                return
            await self._check(listeners)

    async def _check(self, listeners: list[Watched]) -> None:
        began = clock.monotonic()
        for part in _parts({listener.credential for listener in listeners}):
            try:
                roles = await asyncio.to_thread(self._roles, part)
            except JudgeError as exc:
                if str(exc) != self._warning:
                    log.warning("no judicator confirms that listeners still may listen: %s", exc)
                self._warning = str(exc)
                roles = {}
            else:
                self._warning = ""
            for listener in listeners:
                credential = listener.credential
                if roles.get(credential) == listener.role:
                    listener.sure = began
                elif credential in roles or (credential in part and began - listener.sure > _UNSURE):
                    listener.end()

    def _roles(self, part: frozenset[Credential]) -> dict[Credential, str]:
        by_kind = {
            kind: [credential for credential in part if credential.kind == kind]
            for kind in ("tokens", "sessions", "names")
        }
        ids = {kind: [credential.id for credential in credentials] for kind, credentials in by_kind.items()}
        state = self._ask(WaysIn.model_validate(ids))
        roles: dict[Credential, str] = {}
        for kind, credentials in by_kind.items():
            roles |= dict(zip(credentials, getattr(state, kind), strict=True))
        return {
            credential: self._role_of_file(credential) if role == "listed" else role
            for credential, role in roles.items()
        }

    def _role_of_file(self, credential: Credential) -> str:
        listed = self._listed(credential.fingerprint)
        return "" if listed is None else listed.role


def _parts(credentials: Iterable[Credential]) -> Iterator[frozenset[Credential]]:
    """The credentials in parts, each as large as one question may be."""
    waiting = list(credentials)
    while waiting:
        yield frozenset(waiting[:WAYS])
        del waiting[:WAYS]
