"""Whether those who listen still may: asked for all of them together each second, so that no end is heard of late.

A listener whose way in is not in force any more, or who acts in another role by now, is told nothing more; whoever
comes again is looked at anew by the app.
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
# Seconds for which nobody may be able to tell; a listener hears nothing in that time, unless judicators answer in part.
_UNSURE: Final = 60.0

Ask = Callable[[WaysIn], WaysState]
Listed = Callable[[str], Principal | None]


def nobody_says(_: WaysIn) -> WaysState:
    """In place of `ask` where there is no cluster; UnavailableError."""
    raise UnavailableError("this gateway has no cluster to ask about people")


@dataclass(frozen=True)
class Way:
    """How somebody has come in: the digest of a token or session, or a name of tokens.yml with its `fingerprint`.

    A session of who is in tokens.yml has both.
    """

    kind: Literal["tokens", "sessions", "names"]
    id: str
    fingerprint: str = ""


class Watched(Protocol):
    """One who listens: by which way, in which role, since when that is known."""

    way: Way
    role: str
    sure: float

    def end(self) -> None:
        """Tell them nothing more."""


class Watch:
    """The looks of one gateway, for its event loop. `ask` is called in threads."""

    def __init__(self, ask: Ask, listed: Listed) -> None:
        """`listed` finds who is in tokens.yml by a fingerprint."""
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
    """So many at once as one question may have."""
    waiting = list(ways)
    while waiting:
        yield frozenset(waiting[:WAYS])
        del waiting[:WAYS]
