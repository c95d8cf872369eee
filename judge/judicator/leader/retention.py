"""Retention: old finished tasks leave the database, and manifests and blobs that nothing refers to (docs/protocol.md).

A pass walks the collections in small steps and keeps its position in the database, so that it neither holds anything up
nor begins anew when the leader changes. What nothing refers to is first marked with the moment from which it may go,
by the database's clock; a call that asks for it takes the mark away, and only what is still marked is deleted.
This is the one place where wall time decides, as an age of days can be had no other way. It decides only about what
is finished or unused, and stays idle while this host's clock and the database's disagree.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from prometheus_client import Counter
from pymongo.asynchronous.collection import AsyncCollection

from judge.common import clock, failpoint
from judge.judicator.blobs import SOON, due, mark, unmark
from judge.judicator.database import Database, aggregate
from judge.judicator.documents import FileDocument
from judge.judicator.loops import every
from judge.judicator.tasks.lifecycle import Tasks
from judge.mongodb.store import Bson

log = logging.getLogger(__name__)

REMOVED = Counter("judge_retention_removed_total", "Removed by retention", ["kind"])

POSITION: Final = "retention"
_PERIOD: Final = 600.0
_WAKE: Final = 1.0
_KEYS: Final = 2000
# Between two steps it rests as long as the step took, within these bounds.
_REST: Final = (0.005, 2.0)
_GRACE: Final = datetime.timedelta(days=1)
_AGREE: Final = datetime.timedelta(minutes=5)

# One step of a phase: from a position (None: the beginning) to the next (None: the phase is over), and how much went.
Step = Callable[[Any], Awaitable[tuple[Any, int]]]


# Collections whose documents keep others from being removed, and the indexed fields that name these.
Reference = tuple[str, str]
_MANIFESTS: Final[tuple[Reference, ...]] = (("problems", "hash"), ("tasks", "problem.hash"))
_BLOBS: Final[tuple[Reference, ...]] = (("tasks", "blobs"), ("manifests", "blobs"))


def walk(key: str, references: Sequence[Reference], after: Any, limit: int) -> list[Bson]:
    """The pipeline of one step: documents by `_id`, each with `used`, `marked` and `due`; every lookup has an index."""
    names = [f"by{index}" for index in range(len(references))]
    lookups = [
        {
            "$lookup": {
                "from": collection,
                "localField": key,
                "foreignField": field,
                "pipeline": [{"$limit": 1}, {"$project": {"_id": 1}}],
                "as": name,
            }
        }
        for (collection, field), name in zip(references, names, strict=True)
    ]
    return [
        *([] if after is None else [{"$match": {"_id": {"$gt": after}}}]),
        {"$sort": {"_id": 1}},
        {"$limit": limit},
        {"$project": {key: 1, "unused": 1}},
        *lookups,
        {
            "$project": {
                "marked": {"$gt": ["$unused", None]},
                "due": {"$and": [{"$gt": ["$unused", None]}, {"$lt": ["$unused", "$$NOW"]}]},
                "used": {"$or": [{"$ne": [f"${name}", []]} for name in names]},
            }
        },
    ]


class Retention:
    """Removes what is old or unused; a loop of the leader's own."""

    def __init__(
        self,
        database: Database,
        tasks: Tasks,
        days: float,
        phases: Sequence[tuple[str, Step]],
    ) -> None:
        """`days` 0 keeps every submission; `phases` are further phases."""
        self._db = database
        self._batch = database.batch
        self._tasks = tasks
        self._days = days
        self._due_at = clock.monotonic() + _PERIOD
        self._idle_until = 0.0
        self._files = database.files
        self._chunks = database.chunks
        self._phases: list[tuple[str, Step]] = [
            ("task", self._old_tasks),
            ("manifest", self._unused_manifests),
            ("blob", self._unused_blobs),
            ("double", self._doubles),
            ("upload", self._broken_uploads),
            *phases,
        ]

    async def run(self, leading: Callable[[], bool]) -> None:
        """While leading, make a pass when it is time for one, or go on with one that was begun."""

        async def continue_if_due() -> None:
            now = clock.monotonic()
            if now >= self._idle_until and (now >= self._due_at or await self.position() is not None):
                await self.once(leading)

        await every(_WAKE, "retention", continue_if_due, leading)

    async def position(self) -> tuple[str, Any] | None:
        """The phase and place that an unfinished pass has come to; None when there is none."""
        doc = await self._db.meta.find_one({"_id": POSITION})
        return (doc["phase"], doc["after"]) if doc is not None and doc["phase"] is not None else None

    async def _moved(self, phase: str | None, after: Any) -> None:
        await self._db.meta.update_one({"_id": POSITION}, {"$set": {"phase": phase, "after": after}}, upsert=True)

    async def once(self, leading: Callable[[], bool]) -> bool:
        """Go on to the end of a pass; `leading` is asked before each step. False when it ended before."""
        self._due_at = clock.monotonic() + _PERIOD
        if not await self._clocks_agree():
            self._idle_until = self._due_at
            return False
        names = [name for name, _ in self._phases]
        phase, after = await self.position() or (names[0], None)
        first = names.index(phase) if phase in names else 0
        removed: dict[str, int] = {}
        for name, step in self._phases[first:]:
            while True:
                if not leading():
                    return False
                began = clock.monotonic()
                after, count = await step(after)
                removed[name] = removed.get(name, 0) + count
                REMOVED.labels(name).inc(count)
                if after is None:
                    break
                await self._moved(name, after)
                failpoint.hit(f"retention-{name}")
                await asyncio.sleep(min(max(clock.monotonic() - began, _REST[0]), _REST[1]))
            following = names.index(name) + 1
            await self._moved(names[following] if following < len(names) else None, None)
        self._due_at = clock.monotonic() + _PERIOD
        if any(removed.values()):
            log.info("retention: %s", ", ".join(f"{name} {count}" for name, count in removed.items() if count))
        return True

    async def _clocks_agree(self) -> bool:
        now, database_time = clock.wall(), await self._db.wall_time()
        if abs(now - database_time) <= _AGREE:
            return True
        log.error(
            "retention is idle: this host's clock says %s, the database's says %s; set the clocks", now, database_time
        )
        return False

    async def _old_tasks(self, _: Any) -> tuple[Any, int]:
        if not self._days:
            return None, 0
        count = await self._tasks.remove_finished(clock.wall() - datetime.timedelta(days=self._days), self._batch)
        return (0 if count else None), count

    async def _rows(
        self, collection: AsyncCollection[Any], key: str, references: Sequence[Reference], after: Any
    ) -> list[Bson]:
        steps = walk(key, references, after, self._batch)
        return await aggregate(collection, steps, comment="retention")

    async def _judge(self, collection: AsyncCollection[Any], rows: list[Bson]) -> list[Any]:
        """Mark what has come to be unused, unmark what is used; the ids of what may go."""
        unused = [row["_id"] for row in rows if not row["used"] and not row["marked"]]
        used = [row["_id"] for row in rows if row["used"] and row["marked"]]
        if unused:
            await collection.update_many({"_id": {"$in": unused}, "unused": None}, mark(_GRACE))
        if used:
            await unmark(collection, {"_id": {"$in": used}})
        return [row["_id"] for row in rows if row["due"] and not row["used"]]

    async def _unused_manifests(self, after: Any) -> tuple[Any, int]:
        """Manifests that are no problem's current one, that no task refers to, and no open rejudging."""
        rows = await self._rows(self._db.manifests, "_id", _MANIFESTS, after)
        opened = await self._db.rejudgings.find({"settled": False}, {"problems.hash": 1}).to_list()
        hashes = {problem["hash"] for doc in opened for problem in doc.get("problems", [])}
        for row in rows:
            row["used"] = row["used"] or row["_id"] in hashes
        ids = await self._judge(self._db.manifests, rows)
        failpoint.hit("retention-manifest-chosen")
        count = 0
        if ids:
            # Its blobs have waited as long as it has.
            async for doc in self._db.manifests.find({"_id": {"$in": ids}}, {"blobs": 1}):
                await self._files.update_many({"filename": {"$in": doc["blobs"]}}, mark(SOON))
            count = (await self._db.manifests.delete_many({"_id": {"$in": ids}, **due()})).deleted_count
        return self._position_after(rows), count

    async def _unused_blobs(self, after: Any) -> tuple[Any, int]:
        """Blobs that neither a task nor a manifest refers to."""
        rows = await self._rows(self._files, "filename", _BLOBS, after)
        ids = await self._judge(self._files, rows)
        count = 0
        if ids:
            await self._files.delete_many({"_id": {"$in": ids}, **due()})
            remaining = {doc["_id"] async for doc in self._files.find({"_id": {"$in": ids}}, {"_id": 1})}
            failpoint.hit("retention-blob-deleted")
            deleted = [blob for blob in ids if blob not in remaining]
            for blob in deleted:
                await self._chunks.delete_many({"files_id": blob})
            count = len(deleted)
        return self._position_after(rows), count

    async def _doubles(self, after: Any) -> tuple[Any, int]:
        """All but the newest copy of blobs that were stored twice, as by two tries of one upload at two judicators.

        Readers take the newest copy. A copy that has been older than another one for the grace has no reader left.
        """
        later: Bson = {} if after is None else {"filename": {"$gt": after}}
        fields = {"filename": 1, "uploadDate": 1, "length": 1, "unused": 1, "chunkSize": 1}
        order = [("filename", 1), ("uploadDate", 1)]
        docs = await self._files.find(later, fields, sort=order, limit=self._batch).to_list()
        copies: dict[str, list[FileDocument]] = {}
        for doc in docs:
            copies.setdefault(doc["filename"], []).append(doc)
        if len(docs) == self._batch and len(copies) > 1:
            copies.popitem()  # it may have more copies than were read
        before, count = clock.wall() - _GRACE, 0
        for *older, newest in copies.values():
            if not older or newest["uploadDate"] > before or "unused" in newest or not await self._whole(newest):
                continue
            for file in older:
                await self._files.delete_one({"_id": file["_id"]})
                failpoint.hit("retention-double-deleted")
                await self._chunks.delete_many({"files_id": file["_id"]})
                count += 1
        return (max(copies) if len(docs) == self._batch else None), count

    async def _whole(self, file: FileDocument) -> bool:
        pieces = -(-int(file["length"]) // file["chunkSize"]) if file["length"] else 0
        return await self._chunks.count_documents({"files_id": file["_id"]}) == pieces

    async def _broken_uploads(self, after: Any) -> tuple[Any, int]:
        """Pieces of uploads that never came to their end, and of blobs whose removal did not."""
        later = {} if after is None else {"files_id": {"$gt": after}}
        keys = self._chunks.find(later, {"_id": 0, "files_id": 1}, sort=[("files_id", 1), ("n", 1)], limit=_KEYS)
        uploads = list(dict.fromkeys([doc["files_id"] async for doc in keys]))
        before = clock.wall() - _GRACE
        old = [upload for upload in uploads if upload.generation_time < before]
        whole = {doc["_id"] async for doc in self._files.find({"_id": {"$in": old}}, {"_id": 1})}
        broken = [upload for upload in old if upload not in whole]
        for upload in broken:
            await self._chunks.delete_many({"files_id": upload})
        return (uploads[-1] if uploads else None), len(broken)

    def _position_after(self, rows: list[Bson]) -> Any:
        """The position after these rows; None when they are the last."""
        return rows[-1]["_id"] if len(rows) == self._batch else None
