"""The change stream on the tasks: others' changes become hints for waiters here (docs/protocol.md, rule 5)."""

from __future__ import annotations

import asyncio
import logging

from bson import ObjectId
from pymongo.errors import PyMongoError

from judge.judicator.database import Database
from judge.judicator.hub import Hub
from judge.judicator.queue.placing import BEHIND, FRONT
from judge.judicator.queue.waiting import Queue
from judge.mongodb.store import Bson

log = logging.getLogger(__name__)

_RETRY = 1.0
_WAITS = {"attempt": 1, "needs": 1, "user": 1, "waits": 1}
_PIPELINE: list[Bson] = [
    # An update that raises no version is a heartbeat: there is nobody to tell.
    {
        "$match": {
            "$or": [
                {"operationType": "insert"},
                {"operationType": "update", "updateDescription.updatedFields.version": {"$exists": True}},
                {"operationType": "update", "updateDescription.updatedFields.waits": FRONT},
            ]
        }
    },
    {
        "$project": {
            "operationType": 1,
            "documentKey": 1,
            "fullDocument.needs": 1,
            "fullDocument.waits": 1,
            "updateDescription.updatedFields.status": 1,
            "updateDescription.updatedFields.done": 1,
            "updateDescription.updatedFields.version": 1,
            "updateDescription.updatedFields.freed": 1,
            "updateDescription.updatedFields.waits": 1,
            "updateDescription.removedFields": 1,
        }
    },
]


class Follower:
    """Follows the change stream; while it is away, wakes everyone each second instead."""

    def __init__(self, database: Database, hub: Hub, queue: Queue) -> None:
        """Nothing is opened before `run`."""
        self._db = database
        self._queue = queue
        self._hub = hub
        self.alive = False

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                await self._follow()
            except PyMongoError as exc:
                if self.alive:
                    log.warning("the change stream broke off, waiters are woken each second meanwhile: %s", exc)
            finally:
                self.alive = False
                self._hub.everyone()
            await asyncio.sleep(_RETRY)

    async def _follow(self) -> None:
        async with await self._db.raw.tasks.watch(_PIPELINE, max_await_time_ms=1000) as stream:
            self.alive = True
            self._hub.everyone()  # much may have happened before the stream was open
            while stream.alive:
                event = await stream.try_next()
                if event is not None:
                    await self.apply(event)

    async def apply(self, event: Bson) -> None:
        """Turn one event into hints."""
        task = event["documentKey"]["_id"]
        if event["operationType"] == "insert":
            if event["fullDocument"].get("waits") != BEHIND:
                self._hub.queued(task, 0, event["fullDocument"]["needs"])
            return
        update = event.get("updateDescription", {})
        fields = update.get("updatedFields", {})
        if fields.get("freed"):
            self._hub.called(fields["freed"])
        ready, freed = "waits" in fields, "seat" in update.get("removedFields", [])
        if self._hub.idle:
            await self._room(task, ready=ready, freed=freed)
        elif ready or freed:
            self._hub.told += 1
        if "version" in fields:
            self._hub.changed(task, fields["version"], done=fields.get("done") is True)

    async def _room(self, task: ObjectId, *, ready: bool, freed: bool) -> None:
        """Wake an executor when a task may be handed out now, or one of its user's in the slot that it has left."""
        doc = await self._db.tasks.find_one({"_id": task}, _WAITS) if ready or freed else None
        if doc is None:
            return
        if ready and "waits" in doc:
            self._hub.queued(task, doc["attempt"], doc["needs"])
        if freed:
            await self._queue.freed(doc["user"])
