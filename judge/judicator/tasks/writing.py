"""Compare-and-sets on tasks, written in bulk: those that come while one bulk is under way go into the next.

A compare-and-set that comes alone is one command. The driver says how many of a bulk matched, and not which. So each
sets the field `write` to an id of its own, and the tasks are read afterwards if not all matched, or if they are to be
read anyway: two commands at most, however many tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from bson import ObjectId
from pymongo import ReturnDocument, UpdateOne
from pymongo.errors import BulkWriteError, PyMongoError

from judge.judicator.batching import Batcher
from judge.judicator.database import Database, one_by_one
from judge.judicator.documents import TaskDocument
from judge.mongodb.store import Bson

# A match, which names a task by its id, and the change of that task if it matches.
CompareAndSet = tuple[Bson, Bson]
# Compare-and-sets of one bulk: all of them wait for the slowest one.
_MOST: Final = 100


class BulkWriter:
    """Writes compare-and-sets on tasks; for one event loop."""

    def __init__(self, database: Database, *, documents: bool) -> None:
        """With `documents` the documents after the changes are returned, else no more than their ids."""
        self._db = database
        self._tasks = database.tasks
        self._documents = documents
        self._changes: Batcher[CompareAndSet, TaskDocument | None] = Batcher(self._write, _MOST)

    async def write(self, match: Bson, update: Bson) -> TaskDocument | None:
        """The task after the change, None if it did not match. PyMongoError: the change may be in force."""
        return await self._changes.ask((match, update))

    async def _write(self, changes: Sequence[CompareAndSet]) -> Sequence[TaskDocument | Exception | None]:
        if len(changes) <= (2 if self._documents else 1):  # a bulk whose documents are read is two commands
            return await asyncio.gather(*(self._write_alone(change) for change in changes))
        ids = [match["_id"] for match, _ in changes]
        writes = [ObjectId() for _ in changes]
        operations = [
            UpdateOne(match, {**update, "$set": {**update["$set"], "write": write}})
            for (match, update), write in zip(changes, writes, strict=True)
        ]
        failed: list[Exception | None] = [None] * len(changes)
        try:
            result = await self._tasks.bulk_write(operations, ordered=False)
            if not self._documents and result.matched_count == len(changes):
                return [{"_id": task} for task in ids]
        except BulkWriteError as exc:
            failed = one_by_one(len(changes), exc)
        projection = None if self._documents else {"write": 1}
        docs = {doc["_id"]: doc async for doc in self._tasks.find({"_id": {"$in": ids}}, projection)}
        answers: list[TaskDocument | Exception | None] = []
        for task, write, error in zip(ids, writes, failed, strict=True):
            doc = docs.get(task)
            if error is None and (doc is None or doc.get("write") != write):
                # Soon after an election a majority read may show the state before the bulk.
                doc = await self._db.latest(self._tasks, {"_id": task}, projection)
            answers.append(error or (doc if doc is not None and doc.get("write") == write else None))
        return answers

    async def _write_alone(self, change: CompareAndSet) -> TaskDocument | Exception | None:
        try:
            if self._documents:
                return await self._tasks.find_one_and_update(*change, return_document=ReturnDocument.AFTER)
            # Not find_one_and_update: mongod keeps a copy of the document that it returns.
            result = await self._tasks.update_one(*change)
            return {"_id": change[0]["_id"]} if result.matched_count else None
        except PyMongoError as exc:
            return exc
