"""Checks that listeners still may listen: the gateway asks for all together each second, so none hears too much.

When a listener's way in is not in force any more, or the role has changed, the stream ends. The app looks anew at a
listener who comes again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from judge import clock
from judge.errors import JudgeError, UnavailableError
from judge.gateway.auth import Principal
from judge.model.people import WAYS, WaysIn, WaysState

log = logging.getLogger(__name__)

EVERY: Final = 1.0
# A listener of whom no judicator has known for so many seconds is ended.
_UNSURE: Final = 60.0

Ask = Callable[[WaysIn], WaysState]
Listed = Callable[[str], Principal | None]


def nobody_says(_: WaysIn) -> WaysState:
    """Stands in for `ask` where there is no cluster; UnavailableError."""
    raise UnavailableError("this gateway has no cluster to ask about people")


@dataclass(frozen=True)
class Way:
    """A way in: the digest of a token or session, or a name of tokens.yml with its `fingerprint`.

    A session has a fingerprint as well when its owner is in tokens.yml.
    """

    kind: Literal["tokens", "sessions", "names"]
    id: str
    fingerprint: str = ""


class Watched(Protocol):
    """A listener: the way in, the role, and when both were last known to be in force."""

    way: Way
    role: str
    sure: float

    def end(self) -> None:
        """End the stream."""


class ListenerWatch:
    """Watches the listeners of one gateway, in its event loop. It calls `ask` in threads."""

    def __init__(self, ask: Ask, listed: Listed) -> None:
        """`listed` finds a person of tokens.yml by the fingerprint."""
        self._ask, self._listed = ask, listed
        self._told = ""

    async def run(self, watched: Callable[[], Iterable[Watched]]) -> None:
        """Look every second; returns once nobody listens."""
        while True:
            await asyncio.sleep(EVERY)
            mine = list(watched())
            if not mine:
                return
            await self._look(mine)

    async def _look(self, mine: list[Watched]) -> None:
        began = clock.monotonic()
        for part in _parts({one.way for one in mine}):
            try:
                roles = await asyncio.to_thread(self._roles, part)
            except JudgeError as exc:
                if str(exc) != self._told:
                    log.warning("whether listeners still may is not known: %s", exc)
                self._told = str(exc)
                roles = {}
            else:
                self._told = ""
            for one in mine:
                if roles.get(one.way) == one.role:
                    one.sure = began
                elif one.way in roles or (one.way in part and began - one.sure > _UNSURE):
                    one.end()

    def _roles(self, part: frozenset[Way]) -> dict[Way, str]:
        ways = {kind: [one for one in part if one.kind == kind] for kind in ("tokens", "sessions", "names")}
        said = self._ask(WaysIn.model_validate({kind: [one.id for one in some] for kind, some in ways.items()}))
        found: dict[Way, str] = {}
        for kind, some in ways.items():
            found |= dict(zip(some, getattr(said, kind), strict=True))
        return {way: self._of_file(way) if role == "listed" else role for way, role in found.items()}

    def _of_file(self, way: Way) -> str:
        listed = self._listed(way.fingerprint)
        return "" if listed is None else listed.role


def _parts(ways: Iterable[Way]) -> Iterator[frozenset[Way]]:
    """The ways in parts, each as large as one question may be."""
    waiting = list(ways)
    while waiting:
        yield frozenset(waiting[:WAYS])
        del waiting[:WAYS]
