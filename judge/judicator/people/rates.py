"""How often somebody does something, counted in the database: so it is the same at every gateway and judicator.

A count begins with the first time and is over after its window; the database's own clock says when.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from typing import Final

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from judge import clock
from judge.errors import LimitError
from judge.judicator.database import Database
from judge.mongodb.store import Bson

MINUTE: Final = 60
# A window that is about to end is told as one second, never as nothing.
_LEAST: Final = 1


@dataclass(frozen=True)
class Count:
    """A count after one more: `left` times until it starts again in `seconds`; below 0 it was once too often."""

    limit: int
    left: int
    seconds: int

    @property
    def beyond(self) -> bool:
        """Whether it was once too often."""
        return self.left < 0

    def refusal(self, sentence: str) -> LimitError:
        """The error for whoever did it once too often, with what clients need to wait."""
        error = LimitError(sentence)
        error.rate = (self.limit, max(0, self.left), self.seconds)
        return error


class Rates:
    """The counts."""

    def __init__(self, database: Database) -> None:
        """Nothing is sent before the first call."""
        self._col = database.rates

    async def take(self, key: str, limit: int, window: int = MINUTE) -> Count:
        """Count one more under this key, `limit` of which are free within `window` seconds; exact at any concurrency.

        What is refused counts once at most, so trying on makes nobody wait longer.
        """
        over: Bson = {"$lte": [{"$ifNull": ["$until", datetime.datetime.fromtimestamp(0, datetime.UTC)]}, "$$NOW"]}
        end: Bson = {"$dateAdd": {"startDate": "$$NOW", "unit": "second", "amount": window}}
        more: Bson = {"$min": [{"$add": ["$n", 1]}, limit + 1]}
        update: list[Bson] = [
            {"$set": {"fresh": over}},
            {"$set": {"n": {"$cond": ["$fresh", 1, more]}, "until": {"$cond": ["$fresh", end, "$until"]}}},
            {"$set": {"now": "$$NOW"}},
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
            return Count(limit, limit - doc["n"], seconds)

    async def look(self, key: str, limit: int, window: int = MINUTE) -> Count:
        """The count as it is, to a second or so: by this host's clock."""
        doc = await self._col.find_one({"_id": key})
        left = 0.0 if doc is None else (doc["until"] - clock.wall()).total_seconds()
        if doc is None or left <= 0:
            return Count(limit, limit, window)
        return Count(limit, limit - doc["n"], math.ceil(left))

    async def give_back(self, key: str, limit: int) -> None:
        """Count one less of those that were free: it was none. The one that was refused since takes nobody's place."""
        less: Bson = {"$max": [0, {"$subtract": [{"$min": ["$n", limit]}, 1]}]}
        await self._col.update_one({"_id": key}, [{"$set": {"n": less}}])
