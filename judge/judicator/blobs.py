"""Blobs by SHA-256 in GridFS: problems' tests, big inputs and outputs (DESIGN 5). Nothing is stored unverified."""

from __future__ import annotations

import datetime
import hashlib
import logging
from collections.abc import AsyncIterator, Iterable

from bson import ObjectId
from gridfs.asynchronous import AsyncGridFSBucket
from gridfs.errors import CorruptGridFile, NoFile

from judge import clock
from judge.errors import FieldError, NotFoundError, UnavailableError
from judge.judicator.database import Database, Document

log = logging.getLogger(__name__)

_PIECE = 256 * 1024
_YOUNG = datetime.timedelta(hours=12)


class Blobs:
    """The cluster's blobs. A file's name is the hash; its id is only of this upload, so uploads never collide."""

    def __init__(self, database: Database) -> None:
        """Nothing is sent before the first call."""
        self._db = database
        self._db = database
        self._files = database.raw["fs.files"]
        self._bucket = AsyncGridFSBucket(database.raw)

    async def size(self, sha: str) -> int | None:
        """Bytes of a blob; None when it is not there. Asking for it keeps it from retention for another day."""
        doc = await self._db.find(self._files, {"filename": sha}, {"length": 1, "uploadDate": 1})
        if doc is None:
            return None
        await self._keep([doc])
        return int(doc["length"])

    async def missing(self, shas: Iterable[str]) -> list[str]:
        """Those of the blobs that are not there."""
        wanted = sorted(set(shas))
        have: set[str] = set()
        for start in range(0, len(wanted), 1000):
            names = {"filename": {"$in": wanted[start : start + 1000]}}
            docs = await self._files.find(names, {"filename": 1, "uploadDate": 1}).to_list()
            await self._keep(docs)
            have.update(doc["filename"] for doc in docs)
        return [sha for sha in wanted if sha not in have and await self.size(sha) is None]

    async def _keep(self, docs: list[Document]) -> None:
        """Make old files young, or retention could remove one between this question and the task that needs it."""
        now = clock.wall()
        old = [doc["_id"] for doc in docs if now - doc["uploadDate"] > _YOUNG]
        if old:
            await self._files.update_many({"_id": {"$in": old}}, {"$set": {"uploadDate": now}})

    async def read(self, sha: str) -> AsyncIterator[bytes]:
        """The content in pieces, not yet verified; NotFoundError, UnavailableError when pieces are missing."""
        try:
            stream = await self._bucket.open_download_stream_by_name(sha)
            while piece := await stream.read(_PIECE):
                yield piece
        except NoFile:
            if await self.size(sha) is None:
                raise NotFoundError(f"there is no blob {sha}") from None
            raise UnavailableError(
                f"blob {sha} cannot be read yet: the database has just changed its primary"
            ) from None
        except CorruptGridFile as exc:
            raise UnavailableError(f"blob {sha} is damaged in the database: {exc}") from None

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
            await self.write(sha, _one(data))
        return sha

    async def write(self, sha: str, pieces: AsyncIterator[bytes]) -> None:
        """Store what comes, if it is what the hash says; FieldError, and nothing stored, when not.

        The file becomes visible with its last write, after all its pieces are held by a majority.
        """
        digest, total, upload = hashlib.sha256(), 0, ObjectId()
        stream = self._bucket.open_upload_stream_with_id(upload, sha)
        whole = False
        try:
            async for piece in pieces:
                digest.update(piece)
                total += len(piece)
                await stream.write(bytes(piece))
            if digest.hexdigest() != sha:
                raise FieldError("sha", f"the content sent has SHA-256 {digest.hexdigest()}, not {sha}")
            await stream.close()
            whole = True
        finally:
            if not whole:
                await stream.abort()
        log.info("blob %s stored: %d bytes", sha, total)


async def _one(data: bytes) -> AsyncIterator[bytes]:
    yield data
