"""Counts of what people do, in the database: so they are the same at every gateway and judicator.

A count begins with the first time and ends after its window, by the database's own clock.
"""

from __future__ import annotations

import datetime
import functools
import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from judge.common import clock
from judge.common.errors import LimitError
from judge.judicator.batching import Batcher
from judge.judicator.database import Database
from judge.mongodb.store import Bson

MINUTE: Final = 60
# Calls that take rights away from a thief. Each has a count of its own, as ending all sessions can
# be repeated for nothing.
TAKING: Final = ("logout", "token.revoke", "user.password")
# Seconds that are told of a window that is about to end.
_LEAST: Final = 1
# Times that are counted by one command.
_TOGETHER: Final = 100


@dataclass(frozen=True)
class Count:
    """A count, of which `left` times are free until it starts again in `seconds`; below 0 it was once too often."""

    limit: int
    left: int
    seconds: int

    @property
    def beyond(self) -> bool:
        return self.left < 0

    def refusal(self, sentence: str) -> LimitError:
        """The error for once too often, with the seconds to wait."""
        error = LimitError(sentence)
        error.rate = (self.limit, max(0, self.left), self.seconds)
        return error


def noting(person: str) -> str:
    """The key under which the audit trail counts what a person does that is noted; pure."""
    return f"noted {person}"


def taking(person: str, action: str) -> str:
    """The key under which it counts one of TAKING beyond that; pure."""
    return f"taken {action} {person}"


def acts(person: str) -> list[str]:
    """All keys under which the audit trail counts what a person does; pure."""
    return [noting(person), *(taking(person, action) for action in TAKING)]


class Rates:
    def __init__(self, database: Database) -> None:
        self._col = database.rates
        # Those that come while others are counted go together, in the order in which they have come.
        self._turns: weakref.WeakValueDictionary[tuple[str, int, int], Batcher[None, Count]] = (
            weakref.WeakValueDictionary()
        )

    async def take(self, key: str, limit: int, window: int = MINUTE) -> Count:
        """Count one more under this key, `limit` of which are free within `window` seconds; exact at any concurrency.

        Further refused tries do not count, so trying on makes nobody wait longer.
        """
        turn = (key, limit, window)
        batcher = self._turns.get(turn)
        if batcher is None:
            batcher = Batcher(functools.partial(self._take, key, limit, window), _TOGETHER)
            self._turns[turn] = batcher
        return await batcher.ask(None)

    async def _take(self, key: str, limit: int, window: int, askers: Sequence[None]) -> list[Count]:
        """Count several more by one command, in the order in which they have come."""
        over: Bson = {"$lte": [{"$ifNull": ["$until", datetime.datetime.fromtimestamp(0, datetime.UTC)]}, "$$NOW"]}
        end: Bson = {"$dateAdd": {"startDate": "$$NOW", "unit": "second", "amount": window}}
        more: Bson = {"$min": [{"$add": ["$was", len(askers)]}, limit + 1]}
        update: list[Bson] = [
            {"$set": {"fresh": over}},
            {"$set": {"was": {"$cond": ["$fresh", 0, "$n"]}, "until": {"$cond": ["$fresh", end, "$until"]}}},
            {"$set": {"n": more, "now": "$$NOW"}},
            {"$unset": "fresh"},
        ]
        while True:
            try:
                doc = await self._col.find_one_and_update(
                    {"_id": key}, update, upsert=True, return_document=ReturnDocument.AFTER
                )
            except DuplicateKeyError:  # somebody else has just begun it
                continue
            assert doc is not None  # noqa: S101 - of an upsert
            seconds = max(_LEAST, math.ceil((doc["until"] - doc["now"]).total_seconds()))
            return [
                Count(limit, limit - min(doc["was"] + place, limit + 1), seconds) for place in range(1, len(askers) + 1)
            ]

    async def look(self, key: str, limit: int, window: int = MINUTE) -> Count:
        """The count as it is, by this host's clock, so a second or so may be wrong."""
        doc = await self._col.find_one({"_id": key})
        left = 0.0 if doc is None else (doc["until"] - clock.wall()).total_seconds()
        if doc is None or left <= 0:
            return Count(limit, limit, window)
        return Count(limit, limit - doc["n"], math.ceil(left))

    async def give_back(self, key: str, limit: int) -> None:
        """Take back one of the free times, which should not have counted. A refused try since then takes no place."""
        less: Bson = {"$max": [0, {"$subtract": [{"$min": ["$n", limit]}, 1]}]}
        await self._col.update_one({"_id": key}, [{"$set": {"n": less}}])
