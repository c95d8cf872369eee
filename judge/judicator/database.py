"""The judicator's collections and indexes, with the guarantees that docs/protocol.md asks for."""

from __future__ import annotations

from typing import Any, Final

from bson.codec_options import CodecOptions
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.asynchronous.mongo_client import AsyncMongoClient
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.write_concern import WriteConcern

from judge.rpc.session import LIFETIME

Document = dict[str, Any]
Collection = AsyncCollection[Document]

MAJORITY: Final = WriteConcern(w="majority", j=True)

# The keys of the queue, in order (rule 3). `arrival` is the database's own logical clock, not anybody's wall clock.
QUEUE: Final = [("rank", ASCENDING), ("order", ASCENDING), ("arrival", ASCENDING)]

# What a user's tasks take, which is summed up from this index alone.
STORED: Final = [("user", ASCENDING), ("bytes", ASCENDING)]
# The index that knows every waiting task by its user; covers all counts.
LANE: Final = "lane"

_WAITING: Final[dict[str, Any]] = {"partialFilterExpression": {"waits": {"$exists": True}}}
_HANDED: Final[dict[str, Any]] = {"partialFilterExpression": {"attempt": {"$gt": 0}}}
_SEATED: Final[dict[str, Any]] = {"partialFilterExpression": {"seat": {"$gte": 0}}}
_NEWEST = ("_id", DESCENDING)
_OLDEST = ("_id", ASCENDING)


def _up(*keys: str) -> list[tuple[str, int]]:
    return [(key, ASCENDING) for key in keys]


_TASK_INDEXES: Final = [
    # What waits, and only that (queue/waiting.py): hand-outs, one end of a class, one user's last task, counts.
    IndexModel(_up("waits", "tried", "needs", *(key for key, _ in QUEUE), "user"), name="ready", **_WAITING),
    IndexModel(_up("waits", "rank", "needs", "order"), name="head", **_WAITING),
    IndexModel([*_up("user", "rank"), ("order", DESCENDING), ("waits", ASCENDING)], name="mine", **_WAITING),
    IndexModel(_up("waits", "user", "rank", "needs", "order", "arrival", "priority"), name=LANE, **_WAITING),
    # The slots that users hold.
    IndexModel(_up("user", "seat"), name="seat", unique=True, **_SEATED),
    # How far the hand-outs have come: in a class and language, and each user in a class.
    IndexModel([*_up("priority", "needs"), ("order", DESCENDING)], name="served", **_HANDED),
    IndexModel([*_up("user", "priority"), ("order", DESCENDING)], name="last", **_HANDED),
    IndexModel(_up("executor", "done", "user", "rank"), name="hands"),
    IndexModel([("key", ASCENDING)], name="key", unique=True, partialFilterExpression={"key": {"$exists": True}}),
    IndexModel([("user", ASCENDING), _NEWEST], name="by_user"),
    IndexModel([("problem.name", ASCENDING), _NEWEST], name="by_problem"),
    IndexModel([("problem.hash", ASCENDING)], name="by_hash"),
    IndexModel([("language", ASCENDING), _NEWEST], name="by_language"),
    IndexModel([("status", ASCENDING), _NEWEST], name="by_status"),
    IndexModel([("verdict", ASCENDING), _NEWEST], name="by_verdict"),
    IndexModel([("judged_by", ASCENDING), _NEWEST], name="by_judge"),
    IndexModel([("executor", ASCENDING), _NEWEST], name="by_executor"),
    IndexModel([("done", ASCENDING), _NEWEST], name="by_done"),
    IndexModel([("done", ASCENDING), ("finished", ASCENDING)], name="retention"),
    IndexModel([("blobs", ASCENDING)], name="blobs"),
    IndexModel(STORED, name="stored"),
    # Both ends of an open rejudging: the submissions that are part of it, and its runs (with rerun_of).
    IndexModel(
        [("rejudging", ASCENDING), ("rerun_of", ASCENDING), ("done", ASCENDING)],
        name="rejudging",
        partialFilterExpression={"rejudging": {"$exists": True}},
    ),
    IndexModel(
        [("past.rejudging", ASCENDING), _OLDEST],
        name="rejudged",
        partialFilterExpression={"past.rejudging": {"$exists": True}},
    ),
]
_REJUDGING_INDEXES: Final = [
    IndexModel([("key", ASCENDING)], name="key", unique=True, partialFilterExpression={"key": {"$exists": True}}),
    IndexModel([("settled", ASCENDING)], name="settled"),
]
_SESSION_INDEXES: Final = [
    IndexModel([("begun", ASCENDING)], name="lifetime", expireAfterSeconds=LIFETIME),
    IndexModel([("user", ASCENDING)], name="by_user"),
]
_AUDIT_INDEXES: Final = [
    IndexModel([("key", ASCENDING)], name="key", unique=True),
    *(IndexModel([(name, ASCENDING), _NEWEST], name=name) for name in ("actor", "action", "object", "origin")),
    IndexModel([("gateway", ASCENDING), ("action", ASCENDING), ("number", DESCENDING)], name="gateway"),
]


class Database:
    """The collections of one database; all writes majority + journal, all reads what a majority has."""

    def __init__(self, client: AsyncMongoClient[Document], name: str) -> None:
        """`client` comes from judge.mongodb.store.connect; nothing is sent before the first operation."""
        self.client = client
        options: CodecOptions[Document] = CodecOptions(tz_aware=True)
        self.raw: AsyncDatabase[Document] = client.get_database(
            name,
            codec_options=options,
            read_preference=ReadPreference.PRIMARY,
            write_concern=MAJORITY,
            read_concern=ReadConcern("majority"),
        )
        self.tasks: Collection = self.raw.tasks
        self.executors: Collection = self.raw.executors
        self.problems: Collection = self.raw.problems
        self.manifests: Collection = self.raw.manifests
        self.meta: Collection = self.raw.meta
        self.rejudgings: Collection = self.raw.rejudgings
        self.sessions: Collection = self.raw.sessions
        self.audit: Collection = self.raw.audit
        self.usage: Collection = self.raw.usage

    async def prepare(self) -> None:
        """Make the indexes that are missing; raises PyMongoError while there is no primary."""
        await self.tasks.create_indexes(_TASK_INDEXES)
        await self.manifests.create_index("blobs", name="blobs")
        await self.manifests.create_index("name", name="name")
        await self.problems.create_index("hash", name="hash")
        await self.rejudgings.create_indexes(_REJUDGING_INDEXES)
        await self.sessions.create_indexes(_SESSION_INDEXES)
        await self.audit.create_indexes(_AUDIT_INDEXES)
        await self.raw["fs.files"].create_index([("filename", ASCENDING), ("uploadDate", ASCENDING)])
        await self.raw["fs.chunks"].create_index([("files_id", ASCENDING), ("n", ASCENDING)], unique=True)

    async def find(
        self, collection: Collection, query: Document, projection: Document | None = None
    ) -> Document | None:
        """One document as a majority has it; None only when it really is not there.

        A primary that has just been elected does not know yet how much a majority has, and for a moment answers a
        majority read without what was acknowledged last. `query` as for `latest`.
        """
        doc = await collection.find_one(query, projection)
        return doc if doc is not None else await self.latest(collection, query, projection)

    async def latest(
        self, collection: Collection, query: Document, projection: Document | None = None
    ) -> Document | None:
        """One document as the newest acknowledged write left it (linearizable; `query` must name it uniquely).

        For reading again after a compare-and-set that matched nothing: a majority read may still show the state
        before the write that made it fail.
        """
        strict = collection.with_options(read_concern=ReadConcern("linearizable"))
        return await strict.find_one(query, projection)
