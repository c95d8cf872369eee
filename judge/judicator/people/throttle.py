"""Tries of passwords: some are free, for a user from an address, for a user, and from an address; then one waits.

A try counts as wrong before it is looked at, and is taken back when it is right: so a hundred at once are no freer than
one after another. The counts are in the database, so another gateway allows nothing more.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from judge.common.connections import group
from judge.common.errors import UnavailableError
from judge.judicator.people.rates import Rates

# Wrong passwords within so many seconds.
WINDOW: Final = 300
EACH, OF_ADDRESS, OF_USER = 10, 50, 100


@dataclass
class LoginTry:
    """One try; the caller sets `right`."""

    right: bool = False


class Throttle:
    def __init__(self, rates: Rates) -> None:
        self._rates = rates

    @contextlib.asynccontextmanager
    async def trying(self, name: str, origin: str, device: str = "") -> AsyncIterator[LoginTry]:
        """One try to log in under this name; LimitError when there were too many. Unknown names count like others.

        `device` is a browser by which this person has come in before: it has tries of its own, and no stranger's wrong
        passwords, from the same address or under the same name, keep it out. All browsers of a person together have a
        bound of their own, as somebody who once knew the password may have logged in with any number of them.
        """
        user, address = name.lower(), group(origin)
        limits = {_key(user, address): EACH, _key("", address): OF_ADDRESS, _key(user, ""): OF_USER}
        if device:
            limits = {_key(user, f"device {device}"): EACH, _key(user, "devices"): OF_USER}
        counted: dict[str, int] = {}
        for key, limit in limits.items():
            count = await self._rates.take(key, limit, WINDOW)
            if count.beyond:
                await self._give_back(counted)
                raise count.refusal(f"too many wrong passwords; try again in {count.seconds} s, or use a token")
            counted[key] = limit
        attempt = LoginTry()
        try:
            yield attempt
        except UnavailableError:  # the password was not looked at
            await self._give_back(counted)
            raise
        finally:
            if attempt.right:
                await self._give_back(counted)

    async def _give_back(self, counted: dict[str, int]) -> None:
        for key, limit in counted.items():
            await self._rates.give_back(key, limit)


def _key(user: str, address: str) -> str:
    """The key of a count. It is a digest, since people type passwords into the field for their name."""
    return "login " + hashlib.sha256(f"{user}\0{address}".encode("utf-8", "surrogatepass")).hexdigest()
