"""What leaves the database: old finished tasks, and blobs that nothing refers to (JudicatorConfig.retention_days).

This is the one place that compares wall time, as an age of days can be had no other way. It decides only about what
is finished, and stays idle while this clock and the database's disagree.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from typing import Final

from bson import ObjectId
from gridfs.asynchronous import AsyncGridFSBucket
from gridfs.errors import NoFile
from prometheus_client import Counter

from judge import clock
from judge.judicator.database import Database
from judge.judicator.tasks import Tasks

log = logging.getLogger(__name__)

REMOVED = Counter("judge_retention_removed_total", "Removed by retention", ["kind"])

_PERIOD: Final = 600.0
_BATCH: Final = 500
_GRACE: Final = datetime.timedelta(days=1)
_AGREE: Final = datetime.timedelta(minutes=5)


class Retention:
    """Removes what is old; driven by the leader's sweep."""

    def __init__(self, database: Database, tasks: Tasks, days: float, *, period: float = _PERIOD) -> None:
        """`days` 0 keeps everything; `period` in seconds between two passes."""
        self._db = database
        self._tasks = tasks
        self._days = days
        self._period = period
        self._next = clock.monotonic() + period

    async def step(self, may: Callable[[], bool]) -> None:
        """Make a pass when it is time for one; `may` is asked before each batch."""
        if not self._days or clock.monotonic() < self._next:
            return
        self._next = clock.monotonic() + self._period
        await self.once(may)

    async def once(self, may: Callable[[], bool]) -> None:
        """One pass over everything."""
        now = clock.wall()
        hello = await self._db.client.admin.command("hello")
        theirs = hello["localTime"]
        if abs(now - theirs.replace(tzinfo=datetime.UTC)) > _AGREE:
            log.error(
                "retention is idle: this host's clock says %s, the database's says %s; set the clocks", now, theirs
            )
            return
        before = now - datetime.timedelta(days=self._days)
        total = 0
        while may() and (count := await self._tasks.remove_finished(before, _BATCH)):
            total += count
        REMOVED.labels("task").inc(total)
        manifests = await self._remove_manifests(now - _GRACE) if may() else 0
        blobs = await self._remove_blobs(now - _GRACE, may)
        pieces = await self._remove_pieces(now - _GRACE, may)
        if total or manifests or blobs or pieces:
            log.info(
                "retention removed %d tasks, %d old manifests, %d blobs, %d broken uploads",
                total,
                manifests,
                blobs,
                pieces,
            )

    async def _remove_manifests(self, before: datetime.datetime) -> int:
        """Manifests that are no problem's current one and that no task refers to."""
        removed = 0
        async for doc in self._db.manifests.find({"imported": {"$lt": before}}, {"_id": 1}):
            sha = doc["_id"]
            if await self._db.problems.find_one({"hash": sha}, {"_id": 1}):
                continue
            if await self._db.tasks.find_one({"problem.hash": sha}, {"_id": 1}):
                continue
            removed += (await self._db.manifests.delete_one({"_id": sha})).deleted_count
        REMOVED.labels("manifest").inc(removed)
        return removed

    async def _remove_blobs(self, before: datetime.datetime, may: Callable[[], bool]) -> int:
        """Blobs that neither a task nor a manifest refers to."""
        bucket = AsyncGridFSBucket(self._db.raw)
        removed = 0
        async for doc in self._db.raw["fs.files"].find({"uploadDate": {"$lt": before}}, {"filename": 1}):
            sha = doc["filename"]
            if await self._db.tasks.find_one({"blobs": sha}, {"_id": 1}):
                continue
            if await self._db.manifests.find_one({"blobs": sha}, {"_id": 1}):
                continue
            if not may():
                break
            try:
                await bucket.delete(doc["_id"])
            except NoFile:
                continue
            removed += 1
        REMOVED.labels("blob").inc(removed)
        return removed

    async def _remove_pieces(self, before: datetime.datetime, may: Callable[[], bool]) -> int:
        """Pieces of uploads that never came to their end."""
        chunks, files = self._db.raw["fs.chunks"], self._db.raw["fs.files"]
        removed = 0
        groups = await chunks.aggregate([{"$sort": {"files_id": 1, "n": 1}}, {"$group": {"_id": "$files_id"}}])
        async for group in groups:
            upload: ObjectId = group["_id"]
            if upload.generation_time >= before or await files.find_one({"_id": upload}, {"_id": 1}):
                continue
            if not may():
                break
            await chunks.delete_many({"files_id": upload})
            removed += 1
        REMOVED.labels("upload").inc(removed)
        return removed
