"""Blobs by SHA-256 in GridFS: problems' tests, big inputs and outputs. Nothing is stored unverified.

What nothing refers to is marked by retention with the moment from which it may be removed (`unused`), which is not
before the end of a grace. Before a caller is told that a blob is there, its mark is taken away: the caller has that
grace to write down a reference.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Final

from bson import Int64, ObjectId
from pymongo import UpdateOne
from pymongo.asynchronous.collection import AsyncCollection

from judge.common.errors import FieldError, NotFoundError, UnavailableError
from judge.judicator.database import Database
from judge.judicator.documents import ChunkDocument
from judge.model.messages import BlobsMissing, BlobsWanted
from judge.mongodb.store import Bson

log = logging.getLogger(__name__)

# Bytes of a chunk, as GridFS has it, and chunks that are fetched or sent at once. GridFS's own code would keep 32 MiB.
# Each time that some are sent a majority has to write them to its disks.
_CHUNK = 255 * 1024
_BATCH, _SENT = 8, 16
_NAMES = 1000
# For what a person deletes. Longer than any call takes between the question for a blob and the reference to it.
SOON: Final = datetime.timedelta(minutes=5)
# For an output, which its executor stores before the result that refers to it: that may be void, or never come.
_UNREFERRED: Final = datetime.timedelta(hours=1)


def mark(grace: datetime.timedelta) -> list[Bson]:
    """An update that lets a document be removed after `grace`, or when its mark says, whichever is sooner."""
    return [{"$set": {"unused": {"$min": ["$unused", _moment_after(grace)]}}}]


def _moment_after(grace: datetime.timedelta) -> Bson:
    return {"$add": ["$$NOW", int(grace.total_seconds() * 1000)]}


def due() -> Bson:
    """The query of what is marked and may be removed now, by the database's clock."""
    return {"unused": {"$exists": True}, "$expr": {"$lt": ["$unused", "$$NOW"]}}


async def unmark(collection: AsyncCollection[Any], query: Bson) -> None:
    await collection.update_many({**query, "unused": {"$exists": True}}, {"$unset": {"unused": ""}})


class Blobs:
    """The cluster's blobs. A file's name is the hash; its id is only of this upload, so uploads never collide."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._files = database.files
        self._chunks = database.chunks

    async def size(self, sha: str) -> int | None:
        """Bytes of a blob; None when it is not there. Asking for it keeps it from retention for its grace."""
        doc = await self._db.find(self._files, {"filename": sha}, {"length": 1, "unused": 1})
        if doc is None or ("unused" in doc and not await self._keep([sha])):
            return None
        return int(doc["length"])

    async def missing(self, shas: Iterable[str]) -> list[str]:
        """Those of the blobs that are not there; the others are kept as `size` keeps them."""
        unseen = await self.absent(shas)
        if not unseen:
            return []
        # This is a linearizable read: from now on the primary knows of all that was acknowledged before.
        await self.size(unseen[0])
        return await self.absent(unseen)

    async def list_missing(self, request: BlobsWanted) -> BlobsMissing:
        return BlobsMissing(missing=await self.absent(request.blobs))

    async def absent(self, shas: Iterable[str]) -> list[str]:
        """The same, without a wait for the disk: right after an election one may be named that is there.

        For a caller that then stores what is named; it costs the work of one blob.
        """
        names_sorted = sorted(set(shas))
        have: set[str] = set()
        for start in range(0, len(names_sorted), _NAMES):
            names = {"filename": {"$in": names_sorted[start : start + _NAMES]}}
            docs = await self._files.find(names, {"filename": 1, "unused": 1}).to_list()
            marked = {doc["filename"] for doc in docs if "unused" in doc}
            have |= {doc["filename"] for doc in docs} - marked
            have |= await self._keep(sorted(marked))
        return [sha for sha in names_sorted if sha not in have]

    async def _keep(self, names: list[str]) -> set[str]:
        """Take the marks of blobs away; those that are there and have none. A removal that came first has won."""
        query = {"filename": {"$in": names}}
        while names:
            await unmark(self._files, query)
            docs = await self._files.find(query, {"filename": 1, "unused": 1}).to_list()
            if not any("unused" in doc for doc in docs):
                return {doc["filename"] for doc in docs}
        return set()

    async def mark_unused(self, shas: Iterable[str]) -> None:
        """Let retention remove these soon, unless something else refers to them or somebody asks for them."""
        names = sorted(set(shas))
        for start in range(0, len(names), _NAMES):
            await self._files.update_many({"filename": {"$in": names[start : start + _NAMES]}}, mark(SOON))

    async def read(self, sha: str) -> AsyncIterator[bytes]:
        """The content in pieces, not yet verified; NotFoundError, UnavailableError when pieces are missing."""
        file = await self._files.find_one({"filename": sha}, sort=[("uploadDate", -1)])
        if file is None:
            if await self.size(sha) is None:
                raise NotFoundError(f"there is no blob {sha}")
            raise UnavailableError(f"blob {sha} cannot be read yet: the database has just changed its primary")
        remaining, number = int(file["length"]), 0
        chunks = self._chunks.find({"files_id": file["_id"]}, sort=[("n", 1)], batch_size=_BATCH)
        async with chunks:
            async for chunk in chunks:
                if chunk["n"] != number or len(chunk["data"]) > remaining:
                    break
                remaining, number = remaining - len(chunk["data"]), number + 1
                yield chunk["data"]
        if remaining:
            raise UnavailableError(f"blob {sha} is damaged in the database: piece {number} is missing, or too long")

    async def get(self, sha: str) -> bytes:
        """The whole content of a small blob, verified."""
        data = b"".join([piece async for piece in self.read(sha)])
        if hashlib.sha256(data).hexdigest() != sha:
            raise UnavailableError(f"blob {sha} is damaged in the database: its content does not have this hash")
        return data

    async def put(self, data: bytes) -> str:
        """Store a blob unless it is there, and return its name."""
        sha = hashlib.sha256(data).hexdigest()
        if await self.size(sha) is None:
            await self.write(sha, _single_piece(data))
        return sha

    async def take(self, sha: str, pieces: AsyncIterator[bytes], *, output: bool = False) -> None:
        """Store what comes, unless it is there; the rest as `write`."""
        if await self.absent([sha]):
            await self.write(sha, pieces, output=output)
            return
        async for _ in pieces:
            pass
        if output:
            await self._files.update_many({"filename": sha}, mark(_UNREFERRED))

    async def write(self, sha: str, pieces: AsyncIterator[bytes], *, output: bool = False) -> None:
        """Store what comes, if it is what the hash says; FieldError, and nothing stored, when not.

        An `output` to which no result comes to refer is removed soon. The file becomes visible with its last write,
        after all its pieces are held by a majority.
        """
        digest, total, upload = hashlib.sha256(), 0, ObjectId()
        number, buffer = 0, bytearray()
        whole = False
        try:
            async for piece in pieces:
                digest.update(piece)
                total += len(piece)
                buffer += piece
                if len(buffer) >= _SENT * _CHUNK:
                    keep = len(buffer) % _CHUNK
                    number = await self._store(upload, number, buffer[: len(buffer) - keep])
                    del buffer[: len(buffer) - keep]
            if digest.hexdigest() != sha:
                raise FieldError("sha", f"the content sent has SHA-256 {digest.hexdigest()}, not {sha}")
            await self._store(upload, number, buffer)
            await self._files.bulk_write([_file(upload, sha, total, _UNREFERRED if output else None)])
            whole = True
        finally:
            if not whole:
                await self._files.delete_one({"_id": upload})  # its answer may be all that was lost
                await self._chunks.delete_many({"files_id": upload})
        log.info("blob %s stored: %d bytes", sha, total)

    async def store(self, contents: Mapping[str, memoryview]) -> None:
        """Store those of several small blobs that are not there; their contents are in memory.

        FieldError, and none is stored, when a content does not have its hash. A majority's disks are waited for twice,
        for all of them together.
        """
        mismatch = await asyncio.to_thread(_first_mismatch, contents)
        if mismatch:
            raise FieldError(
                "sha", f"the content sent as {mismatch} has another SHA-256; it arrived damaged, or changed"
            )
        uploads = {sha: ObjectId() for sha in await self.absent(contents)}
        if not uploads:
            return
        try:
            chunks = [
                ChunkDocument(files_id=upload, n=number, data=bytes(contents[sha][start : start + _CHUNK]))
                for sha, upload in uploads.items()
                for number, start in enumerate(range(0, len(contents[sha]), _CHUNK))
            ]
            if chunks:
                await self._chunks.insert_many(chunks, ordered=False)
            files = [_file(upload, sha, len(contents[sha])) for sha, upload in uploads.items()]
            await self._files.bulk_write(files, ordered=False)
        except BaseException:
            ids = {"$in": list(uploads.values())}
            await self._files.delete_many({"_id": ids})
            await self._chunks.delete_many({"files_id": ids})
            raise
        log.info("%d blobs stored: %d bytes", len(uploads), sum(len(contents[sha]) for sha in uploads))

    async def _store(self, upload: ObjectId, number: int, data: bytearray) -> int:
        """Write chunks from this number on; returns the number after them."""
        starts = range(0, len(data), _CHUNK)
        if starts:
            await self._chunks.insert_many(
                {"files_id": upload, "n": number + index, "data": bytes(data[start : start + _CHUNK])}
                for index, start in enumerate(starts)
            )
        return number + len(starts)


def _file(upload: ObjectId, sha: str, length: int, grace: datetime.timedelta | None = None) -> UpdateOne:
    """The write that makes an upload visible: with the database's clock, and all of it at once."""
    file: Bson = {"_id": upload, "filename": sha, "chunkSize": _CHUNK, "length": Int64(length)}
    if grace is not None:
        file["unused"] = _moment_after(grace)
    return UpdateOne({"_id": upload}, [{"$set": {**file, "uploadDate": "$$NOW"}}], upsert=True)


def _first_mismatch(contents: Mapping[str, memoryview]) -> str | None:
    return next((sha for sha, data in contents.items() if hashlib.sha256(data).hexdigest() != sha), None)


async def _single_piece(data: bytes) -> AsyncIterator[bytes]:
    yield data
