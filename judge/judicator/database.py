"""The judicator's collections, with the guarantees that docs/protocol.md asks for."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from bson import Timestamp
from bson.codec_options import CodecOptions
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.asynchronous.mongo_client import AsyncMongoClient
from pymongo.errors import BulkWriteError, DuplicateKeyError, NotPrimaryError, WriteError
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.write_concern import WriteConcern

from judge.common import clock
from judge.common.errors import JudgeError
from judge.judicator import documents
from judge.mongodb.store import DUPLICATE, Bson, unconfirmed

D = TypeVar("D", bound=Mapping[str, Any])

MAJORITY: Final = WriteConcern(w="majority", j=True)
# Documents of one command: a few of these pass within any deadline, however big the documents are.
BATCH: Final = 200
# Seconds from the first look at a new primary; it confirms a write of its own within moments.
_NEW_PRIMARY: Final = 60.0
_NEVER: Final = object()
# The server stopped being the primary, or is stopping: it cannot say what became of the write.
_CHANGING: Final = frozenset({91, 189, 10107, 11600, 11602, 13435, 13436})


async def aggregate(
    collection: AsyncCollection[Any], pipeline: Sequence[Bson], *, hint: str | None = None, comment: str | None = None
) -> list[Any]:
    """The rows of an aggregation; `hint` names the index, `comment` says in the profiler what it is for."""
    hinted: Bson = {} if hint is None else {"hint": hint}
    return await (await collection.aggregate(pipeline, comment=comment, **hinted)).to_list()


def one_by_one(count: int, failed: BulkWriteError) -> list[Exception | None]:
    """What each of so many writes of one command would have raised alone; raises `failed` if nobody knows."""
    if unconfirmed(failed):  # nobody knows whether a majority has any of them
        raise failed
    errors: list[Exception | None] = [None] * count
    for error in failed.details["writeErrors"]:
        code = error["code"]
        if code in _CHANGING:
            errors[error["index"]] = NotPrimaryError(error["errmsg"], error)
        else:
            kind = DuplicateKeyError if code == DUPLICATE else WriteError
            errors[error["index"]] = kind(error["errmsg"], code, error)
    return errors


class Database:
    """The collections of one database; all writes majority + journal, all reads what a majority has."""

    def __init__(self, client: AsyncMongoClient[Any], name: str, batch: int = BATCH) -> None:
        """Nothing is sent before the first operation. `batch`: documents that one command of a long work takes."""
        self.client = client
        self.batch = batch
        self._election: object = None
        self._elected = clock.monotonic()
        self._caught_up: object = _NEVER
        # The newest number of the switch of verdicts that was read here (verdicts.py).
        self.switched = 0
        self.raw: AsyncDatabase[Any] = client.get_database(
            name,
            codec_options=CodecOptions(tz_aware=True),
            read_preference=ReadPreference.PRIMARY,
            write_concern=MAJORITY,
            read_concern=ReadConcern("majority"),
        )
        self.tasks: AsyncCollection[documents.TaskDocument] = self.raw.tasks
        self.executors: AsyncCollection[documents.ExecutorDocument] = self.raw.executors
        self.machines: AsyncCollection[documents.MachineDocument] = self.raw.machines
        self.minutes: AsyncCollection[documents.MinuteDocument] = self.raw.minutes
        self.problems: AsyncCollection[documents.ProblemDocument] = self.raw.problems
        self.manifests: AsyncCollection[documents.ManifestDocument] = self.raw.manifests
        self.meta: AsyncCollection[documents.MetaDocument] = self.raw.meta
        self.rejudgings: AsyncCollection[documents.RejudgingDocument] = self.raw.rejudgings
        self.sessions: AsyncCollection[documents.SessionDocument] = self.raw.sessions
        self.users: AsyncCollection[documents.UserDocument] = self.raw.users
        self.tokens: AsyncCollection[documents.TokenDocument] = self.raw.tokens
        # No wait for the majority: some counts that are lost with a primary harm nobody.
        self.rates: AsyncCollection[documents.RateDocument] = self.raw.rates.with_options(
            write_concern=WriteConcern(w=1, j=False), read_concern=ReadConcern("local")
        )
        self.audit: AsyncCollection[documents.AuditDocument] = self.raw.audit
        self.webhooks: AsyncCollection[documents.WebhookDocument] = self.raw.webhooks
        self.deliveries: AsyncCollection[documents.DeliveryDocument] = self.raw.deliveries
        self.usage: AsyncCollection[documents.UsageDocument] = self.raw.usage
        self.files: AsyncCollection[documents.FileDocument] = self.raw["fs.files"]
        self.chunks: AsyncCollection[documents.ChunkDocument] = self.raw["fs.chunks"]

    async def find(self, collection: AsyncCollection[D], query: Bson, projection: Bson | None = None) -> D | None:
        """One document as a majority has it; None only when it really is not there.

        A primary that has just been elected does not know yet how much a majority has, and for a moment answers a
        majority read without what was acknowledged last. `query` as for `latest`.
        """
        doc = await collection.find_one(query, projection)
        return doc if doc is not None else await self.latest(collection, query, projection)

    async def get(
        self, collection: AsyncCollection[D], query: Bson, missing: JudgeError, projection: Bson | None = None
    ) -> D:
        """The document that `find` finds; raises `missing` when there is none."""
        doc = await self.find(collection, query, projection)
        if doc is None:
            raise missing
        return doc

    async def find_all(self, collection: AsyncCollection[D], ids: Sequence[str]) -> list[D | None]:
        """The documents of these ids as a majority has them, by one command; `latest` for what seems to be missing."""
        docs = collection.find({"_id": {"$in": sorted(set(ids))}})
        by_id: dict[str, D] = {doc["_id"]: doc async for doc in docs}
        for key in set(ids) - set(by_id):
            latest = await self.latest(collection, {"_id": key})
            if latest is not None:
                by_id[key] = latest
        return [by_id.get(key) for key in ids]

    async def restoring(self) -> str:
        """The reason why nobody may use this database yet: a restore has begun and not ended; or an empty text."""
        restore = await self.raw.restoring.find_one({"_id": "restore", "finished": {"$ne": True}})
        return (
            ""
            if restore is None
            else f"backup {restore['backup']} is being restored; run playbooks/restore.yml to its end"
        )

    async def newest(self, collection: AsyncCollection[D], query: Bson) -> D | None:
        """The same as `latest`, without its write for what is not there, if the primary has been one for a minute.

        Such a primary has itself all that was acknowledged. For what people can ask for without limit.
        """
        election = self.client.topology_description.max_election_id
        if election != self._election:
            self._election, self._elected = election, clock.monotonic()
        if clock.monotonic() - self._elected >= _NEW_PRIMARY:
            local: AsyncCollection[D] = collection.with_options(read_concern=ReadConcern("local"))
            if await local.find_one(query, {"_id": 1}) is None:
                return None
        return await self.latest(collection, query)

    async def catch_up(self) -> None:
        """Make majority reads show all that was acknowledged before; costs one write after each election.

        For queries of several documents, of which some are missing for a moment after an election.
        """
        election = self.client.topology_description.max_election_id
        if election != self._caught_up:
            # A linearizable read waits until a majority has all that the primary has.
            await self.latest(self.meta, {"_id": "catch_up"})
            self._caught_up = election

    async def logical_time(self) -> Timestamp:
        """The newest change's time in the database's log; what is written from here on has a later one."""
        hello: dict[str, Any] = await self.client.admin.command("hello")
        moment: Timestamp = hello["operationTime"]
        return moment

    async def wall_time(self) -> datetime.datetime:
        """The time by the clock of the database's primary."""
        hello: dict[str, Any] = await self.client.admin.command("hello")
        moment: datetime.datetime = hello["localTime"]
        return moment.replace(tzinfo=datetime.UTC)

    async def latest(self, collection: AsyncCollection[D], query: Bson, projection: Bson | None = None) -> D | None:
        """One document as the newest acknowledged write left it (linearizable; `query` must name it uniquely).

        For reading again after a compare-and-set that matched nothing: a majority read may still show the state
        before the write that made it fail.
        """
        strict: AsyncCollection[D] = collection.with_options(read_concern=ReadConcern("linearizable"))
        return await strict.find_one(query, projection)
