"""The change stream on the tasks: what happens at other judicators reaches the queue and the callers that wait here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from pymongo.errors import PyMongoError

from judge.common import clock
from judge.judicator.database import Database
from judge.judicator.hub import Hub
from judge.judicator.replica import WAITING_KEYS, Replica
from judge.mongodb.store import Bson

log = logging.getLogger(__name__)

_RETRY: Final = 1.0
# Seconds between two questions for events under load: those of a task's insert, claim and end mostly come together.
_PAUSE: Final = 0.01
_ADDED: Final = (*WAITING_KEYS, "done")
_UPDATED: Final = ("status", "done", "version", "freed", "executor", "attempt", "tried")
PIPELINE: Final[list[Bson]] = [
    # An update that raises no version is a heartbeat, or the folding of a rejudging.
    {
        "$match": {
            "$or": [
                {"operationType": {"$in": ["insert", "delete"]}},
                {"operationType": "update", "updateDescription.updatedFields.version": {"$exists": True}},
            ]
        }
    },
    {
        "$project": {
            "operationType": 1,
            "documentKey": 1,
            **{f"fullDocument.{name}": 1 for name in _ADDED},
            **{f"updateDescription.updatedFields.{name}": 1 for name in _UPDATED},
        }
    },
]


class Follower:
    """Follows the change stream; while it is away, wakes everyone each second instead."""

    def __init__(self, database: Database, hub: Hub, replica: Replica, call_executor: Callable[[str], None]) -> None:
        """`call_executor` is told of executors that have a reason to report now. Nothing is opened before `run`."""
        self._db = database
        self._hub = hub
        self._replica = replica
        self._call_executor = call_executor
        self.alive = False

    async def run(self) -> None:
        while True:
            try:
                await self._follow()
            except PyMongoError as exc:
                if self.alive or not self._replica.loaded:
                    log.warning("the change stream broke off, waiters are woken each second meanwhile: %s", exc)
            finally:
                self.alive = False
                self._hub.everyone()
            await asyncio.sleep(_RETRY)

    async def _follow(self) -> None:
        async with await self._db.raw.tasks.watch(PIPELINE, max_await_time_ms=1000) as stream:
            # The stream begins at the primary's newest write. A majority read may be older, and what ended in between
            # would be in neither. A linearizable read waits until a majority has all that the primary has.
            await self._db.latest(self._db.meta, {"_id": "catch_up"})
            await self._replica.synchronise()
            self.alive = True
            self._hub.everyone()  # much may have happened before the stream was open
            paused = 0.0
            while stream.alive:
                event = await stream.try_next()
                if event is not None:
                    await self.apply(event)
                    if clock.monotonic() - paused > _PAUSE:
                        await asyncio.sleep(_PAUSE)
                        paused = clock.monotonic()

    async def apply(self, event: Bson) -> None:
        await self._replica.apply(event)
        fields = event.get("updateDescription", {}).get("updatedFields", {})
        if fields.get("freed"):
            self._call_executor(fields["freed"])
        if "version" in fields:
            self._hub.changed(event["documentKey"]["_id"], fields["version"], done=fields.get("done") is True)
