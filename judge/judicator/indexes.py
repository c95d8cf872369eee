"""The indexes of all collections. Where one serves a rule, its keys come from the module that has the rule."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import pymongo
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.database import Database as SyncDatabase
from pymongo.errors import OperationFailure

from judge.judicator.database import Database
from judge.judicator.replica import WAITING_INDEX, WAITING_KEYS
from judge.judicator.usage import STORED
from judge.model.people import SESSION_SECONDS
from judge.mongodb.store import Bson

log = logging.getLogger(__name__)

_WAITING: Final[Bson] = {"partialFilterExpression": {"waits": {"$exists": True}}}
_NEWEST = ("_id", DESCENDING)
_OLDEST = ("_id", ASCENDING)


def _up(*keys: str) -> list[tuple[str, int]]:
    return [(key, ASCENDING) for key in keys]


_TASK_INDEXES: Final = [
    # The waiting tasks, and no others: it covers a load of the queue.
    IndexModel(_up(*WAITING_KEYS), name=WAITING_INDEX, **_WAITING),
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
    IndexModel(_up(*STORED), name="stored"),
    IndexModel(
        _up("done", "callback", "callback_host", "user"),
        name="callbacks",
        partialFilterExpression={"callback": {"$exists": True}},
    ),
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
    IndexModel([("begun", ASCENDING)], name="lifetime", expireAfterSeconds=SESSION_SECONDS),
    IndexModel([("user", ASCENDING)], name="by_user"),
]
_USER_INDEXES: Final = [
    IndexModel([("fold", ASCENDING)], name="fold", unique=True),
    IndexModel(
        _up("identity.issuer", "identity.subject"),
        name="identity",
        unique=True,
        partialFilterExpression={"identity.issuer": {"$exists": True}},
    ),
    IndexModel([("groups", ASCENDING), _OLDEST], name="groups"),
    IndexModel([("role", ASCENDING), _OLDEST], name="role"),
    IndexModel([("disabled", ASCENDING), _OLDEST], name="disabled"),
]
_TOKEN_INDEXES: Final = [
    IndexModel([("digest", ASCENDING)], name="digest", unique=True),
    IndexModel([("user", ASCENDING), ("created", DESCENDING), _NEWEST], name="by_user"),
    IndexModel([("created", DESCENDING), _NEWEST], name="newest"),
]
_AUDIT_INDEXES: Final = [
    IndexModel([("key", ASCENDING)], name="key", unique=True),
    *(IndexModel([(name, ASCENDING), _NEWEST], name=name) for name in ("actor", "action", "object", "origin")),
    IndexModel([("gateway", ASCENDING), ("action", ASCENDING), ("number", DESCENDING)], name="gateway"),
]
_DELIVERY_DAYS: Final = 7
_DELIVERY_INDEXES: Final = [
    IndexModel([("key", ASCENDING)], name="key", unique=True),
    IndexModel(_up("hook", "state", "next"), name="due"),
    IndexModel(_up("hook", "task", "version"), name="chain"),
    IndexModel(_up("state", "hook"), name="state"),
    *(IndexModel([(name, ASCENDING), _NEWEST], name=f"by_{name}") for name in ("hook", "state", "task")),
    IndexModel([("user", ASCENDING)], name="by_user"),
    IndexModel([("ended", ASCENDING)], name="ended", expireAfterSeconds=_DELIVERY_DAYS * 86400),
]
# Of a chart's last day all is there, also while it is being made.
_MINUTES_SECONDS: Final = 26 * 3600
_MACHINE_DAYS: Final = 180


# Every collection's indexes.
INDEXES: Final[Mapping[str, list[IndexModel]]] = {
    "tasks": _TASK_INDEXES,
    "manifests": [IndexModel(_up("blobs"), name="blobs"), IndexModel(_up("name"), name="name")],
    "problems": [IndexModel(_up("hash"), name="hash")],
    "rejudgings": _REJUDGING_INDEXES,
    "sessions": _SESSION_INDEXES,
    "users": _USER_INDEXES,
    "tokens": _TOKEN_INDEXES,
    # The database removes a count some time after its window has ended.
    "rates": [IndexModel(_up("until"), name="until", expireAfterSeconds=0)],
    "minutes": [IndexModel(_up("begun"), name="begun", expireAfterSeconds=_MINUTES_SECONDS)],
    "machines": [IndexModel(_up("seen"), name="seen", expireAfterSeconds=_MACHINE_DAYS * 86400)],
    "audit": _AUDIT_INDEXES,
    "deliveries": _DELIVERY_INDEXES,
    "fs.files": [IndexModel(_up("filename", "uploadDate"))],
    "fs.chunks": [IndexModel(_up("files_id", "n"), unique=True)],
}
# Indexes that queries name as a hint: without one the database refuses such a query.
HINTED: Final = frozenset(
    {"callbacks", "due", "hands", "rejudged", "rejudging", "retention", "state", "stored", "waiting"}
)
# Indexes that earlier versions had, by collection.
GIVEN_UP: Final[Mapping[str, frozenset[str]]] = {
    "tasks": frozenset({"fair", "full", "head", "held", "lane", "last", "mine", "queue", "ready", "seat", "served"})
}
# Seconds for the builds. mongod aborts a build when the deadline of any caller that joined it passes, and the next
# call begins from nothing. So this is far beyond the longest build, and the client's own timeout does not apply.
BUILD_SECONDS: Final = 24 * 3600.0
# A member that is down does not hold up a build.
_QUORUM: Final = "majority"
_NO_COLLECTION, _NO_INDEX = 26, 27


def needed(models: Iterable[IndexModel]) -> list[IndexModel]:
    """The indexes without which a judicator cannot serve: those that refuse duplicates, and those of hints."""
    return [model for model in models if model.document.get("unique") or model.document["name"] in HINTED]


def obsolete(models: Iterable[IndexModel], present: Iterable[Mapping[str, Any]], given_up: Iterable[str]) -> list[str]:
    """The names of present indexes that have to go: given up, with other keys or options, or under another name.

    A unique index that changes should get a new name instead: the old one then refuses duplicates until it is given
    up, after the new one is there.
    """
    meanings = {index.document["name"]: _meaning(index.document) for index in models}
    names = {index["name"]: _meaning(index) for index in present if index["name"] != "_id_"}
    renamed = [meaning for name, meaning in meanings.items() if name not in names]
    return [
        name
        for name, meaning in names.items()
        if name in given_up or meanings.get(name, meaning) != meaning or (name not in meanings and meaning in renamed)
    ]


def unknown(models: Iterable[IndexModel], present: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted({index["name"] for index in present} - {index.document["name"] for index in models} - {"_id_"})


def _meaning(document: Mapping[str, Any]) -> tuple[Any, ...]:
    """The keys in their order, and the options that change what an index holds or does."""
    return (
        [*document["key"].items()],
        bool(document.get("unique")),
        document.get("partialFilterExpression"),
        document.get("expireAfterSeconds"),
    )


async def make(database: Database, tell: Callable[[str], None]) -> None:
    """Build the indexes without which nobody can serve; raises PyMongoError while there is no primary.

    `tell` is called with a sentence while a build is under way, and with an empty text after it.
    """
    await _make(database, {name: needed(models) for name, models in INDEXES.items()}, {}, tell)


async def make_rest(database: Database, tell: Callable[[str], None]) -> None:
    """Build all other indexes, while queries use those that are there; as `make`."""
    await _make(database, INDEXES, GIVEN_UP, tell)
    for name, models in INDEXES.items():
        if unknown_names := unknown(models, (await _present(database, name))[0]):
            log.warning(
                "collection %s has indexes that this version of Judge does not use: %s; each write maintains them; "
                "drop those that you did not make for yourself",
                *(name, ", ".join(unknown_names)),
            )


async def _make(
    database: Database,
    by_collection: Mapping[str, list[IndexModel]],
    given_up: Mapping[str, frozenset[str]],
    tell: Callable[[str], None],
) -> None:
    with pymongo.timeout(BUILD_SECONDS):
        for name, models in by_collection.items():
            present, building = await _present(database, name)
            for old in obsolete(models, present, given_up.get(name, ())):
                log.warning("index '%s' of %s is of another version: it is dropped", old, name)
                await _drop(database, name, old)
                present = [index for index in present if index["name"] != old]
            there = {index["name"] for index in present} - building
            missing = [index for index in models if index.document["name"] not in there]
            if not missing:
                continue
            count = await database.raw[name].estimated_document_count()
            if count:
                names = ", ".join(index.document["name"] for index in missing)
                tell(f"builds the indexes of {count} {name} ({names})")
            try:
                await database.raw[name].create_indexes(missing, commitQuorum=_QUORUM)
            finally:
                tell("")


async def _present(database: Database, name: str) -> tuple[list[Mapping[str, Any]], set[str]]:
    """(a collection's indexes, the names of those that are being built)."""
    try:
        reply = await database.raw.command(
            {"listIndexes": name, "includeBuildUUIDs": True, "cursor": {"batchSize": 1000}}
        )
    except OperationFailure as exc:
        if exc.code != _NO_COLLECTION:
            raise
        return [], set()
    entries = reply["cursor"]["firstBatch"]
    return [entry.get("spec", entry) for entry in entries], {
        entry["spec"]["name"] for entry in entries if "buildUUID" in entry
    }


async def _drop(database: Database, collection: str, name: str) -> None:
    try:
        await database.raw[collection].drop_index(name)
    except OperationFailure as exc:
        if exc.code != _NO_INDEX:  # another judicator has dropped it
            raise


def make_all(database: SyncDatabase[Bson]) -> None:
    """Build the indexes of a database that nobody uses yet (a restore); the caller's client sets the deadline.

    Judicators build those by which the database removes old documents: it would remove some before the restore
    compares what is there with the backup.
    """
    for name, models in INDEXES.items():
        lasting = [model for model in models if "expireAfterSeconds" not in model.document]
        if lasting:
            database[name].create_indexes(lasting, commitQuorum=_QUORUM)
