"""The indexes of all collections. Where one serves a rule, its keys come from the module that has the rule."""

from __future__ import annotations

from typing import Final

from pymongo import ASCENDING, DESCENDING, IndexModel

from judge.judicator.database import Database
from judge.judicator.queue.order import READY
from judge.judicator.queue.usage import STORED
from judge.judicator.queue.waiting import LANE, LANE_KEYS
from judge.mongodb.store import Bson
from judge.rpc.session import LIFETIME

_WAITING: Final[Bson] = {"partialFilterExpression": {"waits": {"$exists": True}}}
_HANDED: Final[Bson] = {"partialFilterExpression": {"attempt": {"$gt": 0}}}
_SEATED: Final[Bson] = {"partialFilterExpression": {"seat": {"$gte": 0}}}
_NEWEST = ("_id", DESCENDING)
_OLDEST = ("_id", ASCENDING)


def _up(*keys: str) -> list[tuple[str, int]]:
    return [(key, ASCENDING) for key in keys]


_TASK_INDEXES: Final = [
    # Tasks that wait, and only those (queue/waiting.py): hand-outs, one end of a class, one user's last task, counts.
    IndexModel(_up(*READY), name="ready", **_WAITING),
    IndexModel(_up("waits", "rank", "needs", "order"), name="head", **_WAITING),
    IndexModel([*_up("user", "rank"), ("order", DESCENDING), ("waits", ASCENDING)], name="mine", **_WAITING),
    IndexModel(_up(*LANE_KEYS), name=LANE, **_WAITING),
    # The slots that users hold.
    IndexModel(_up("user", "seat"), name="seat", unique=True, **_SEATED),
    # The progress of the hand-outs: in a class and language, and of each user in a class.
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
    IndexModel(_up(*STORED), name="stored"),
    IndexModel(_up("done", "callback"), name="callback", partialFilterExpression={"callback": {"$exists": True}}),
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


async def make(database: Database) -> None:
    """Make the indexes that are missing; raises PyMongoError while there is no primary."""
    await database.tasks.create_indexes(_TASK_INDEXES)
    await database.manifests.create_index("blobs", name="blobs")
    await database.manifests.create_index("name", name="name")
    await database.problems.create_index("hash", name="hash")
    await database.rejudgings.create_indexes(_REJUDGING_INDEXES)
    await database.sessions.create_indexes(_SESSION_INDEXES)
    await database.users.create_indexes(_USER_INDEXES)
    await database.tokens.create_indexes(_TOKEN_INDEXES)
    # The database removes a count some time after its window has ended.
    await database.rates.create_index("until", name="until", expireAfterSeconds=0)
    await database.minutes.create_index("begun", name="begun", expireAfterSeconds=_MINUTES_SECONDS)
    await database.machines.create_index("seen", name="seen", expireAfterSeconds=_MACHINE_DAYS * 86400)
    await database.audit.create_indexes(_AUDIT_INDEXES)
    await database.deliveries.create_indexes(_DELIVERY_INDEXES)
    await database.files.create_index([("filename", ASCENDING), ("uploadDate", ASCENDING)])
    await database.chunks.create_index([("files_id", ASCENDING), ("n", ASCENDING)], unique=True)
