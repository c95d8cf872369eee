"""Changes of submissions become deliveries in the database. The leader follows the change stream on the tasks.

How far it has come is kept in the database with the stream's own token: the next leader goes on from there. What is
read twice makes nothing twice, since a delivery's key says which webhook, submission and change it is about.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any, Final

from bson import ObjectId
from pymongo.errors import BulkWriteError, OperationFailure

from judge.common import clock
from judge.common.errors import NotFoundError
from judge.judicator.database import Database
from judge.judicator.documents import DeliveryDocument, MetaDocument, TaskDocument, WebhookDocument, iso, iso_or_none
from judge.judicator.loops import every
from judge.judicator.tasks.reading import TaskReader
from judge.model.cause import SYSTEM, Cause, cause_of
from judge.model.webhooks import Event, Payload, SubmissionEvent
from judge.mongodb.store import Bson, only_duplicates

log = logging.getLogger(__name__)

POSITION: Final = "webhooks"
_RETRY: Final = 1.0
_SAVE: Final = 5.0
_BRIEF: Final = {"version": 1, "past": 1, "finished": 1}
# InvalidResumeToken, ChangeStreamFatalError, ChangeStreamHistoryLost: the log does not reach back so far.
_LOG_TOO_SHORT: Final = frozenset({260, 280, 286})
# Judicators' clocks differ by less; what is looked at twice makes nothing twice.
_MARGIN: Final = datetime.timedelta(minutes=5)
_PIPELINE: Final[list[Bson]] = [
    {"$match": {"operationType": "update", "updateDescription.updatedFields.version": {"$exists": True}}},
    {
        "$project": {
            "documentKey": 1,
            "clusterTime": 1,
            "wallTime": 1,
            "done": "$updateDescription.updatedFields.done",
            "version": "$updateDescription.updatedFields.version",
            "fields": {
                "$map": {"input": {"$objectToArray": "$updateDescription.updatedFields"}, "in": "$$this.k"},
            },
        }
    },
    # An array that only grows is told by its new place: past.0.
    {"$match": {"$or": [{"done": True}, {"fields": {"$regex": "^past"}}]}},
]


class Outbox:
    def __init__(self, database: Database, reader: TaskReader, wake: Callable[[], None]) -> None:
        """`wake` is called when there is something to send."""
        self._db = database
        self._reader = reader
        self._wake = wake
        # The moment at which the position was moved on without reading; at first long ago.
        self._moved_at = -_SAVE

    async def run(self, leading: Callable[[], bool]) -> None:
        """While leading, follow the stream; never returns."""

        async def go_on() -> None:
            try:
                if not await self.move_on():
                    await self.follow(leading)
            except OperationFailure as exc:
                if exc.code not in _LOG_TOO_SHORT:
                    raise
                log.warning("the database's log does not reach back to the last event; ended submissions are read")
                await self.catch_up()

        await every(_RETRY, "webhooks", go_on, leading)

    async def move_on(self) -> bool:
        """Move the place on without reading while there is no webhook; False when there is one."""
        due = clock.monotonic() - self._moved_at > _SAVE
        if due:
            position, now = await begin(self._db), await self._db.logical_time()
            await self._db.catch_up()
        # After that: a webhook that is not seen here is told of what ends after its adding, which is later than `now`.
        if await self._db.webhooks.find_one({}, {"_id": 1}) is not None:
            return False
        if due:
            fields = {"token": None, "since": now, "at": clock.wall()}
            await self._db.meta.update_one({"_id": POSITION, "at": position["at"]}, {"$set": fields})
            self._moved_at = clock.monotonic()
        return True

    async def follow(self, leading: Callable[[], bool]) -> None:
        """Follow the stream from the last leader's position, while leading."""
        position = await begin(self._db)
        token = position.get("token")
        resume: dict[str, Any] = {"resume_after": token} if token else {"start_at_operation_time": position["since"]}
        saved = clock.monotonic()
        async with await self._db.raw.tasks.watch(_PIPELINE, max_await_time_ms=1000, **resume) as stream:
            await self._save(stream.resume_token)
            while stream.alive and leading():
                event = await stream.try_next()
                if event is not None:
                    await self.handle(event)
                if clock.monotonic() - saved > _SAVE:
                    saved = clock.monotonic()
                    await self._save(stream.resume_token)

    async def handle(self, event: Bson) -> None:
        kind: Event = "submission.finished" if event.get("done") is True else "submission.rejudged"
        await self._db.catch_up()
        hooks = [
            hook
            for hook in await self._db.webhooks.find({"events": kind}).to_list()
            # The place in the log may be from before it was added.
            if "since" not in hook or hook["since"] < event["clusterTime"]
        ]
        if hooks:
            await self._insert_deliveries(
                event["documentKey"]["_id"], kind, event["version"], hooks, event.get("wallTime")
            )

    async def catch_up(self) -> None:
        """Write deliveries of all that has changed since the position that is lost, then begin anew from now.

        The new position is written last. Who is interrupted begins again, and what is met twice makes nothing twice.
        """
        position = await begin(self._db)
        # The log is read from this moment on; what changed before is searched for. Some of it is met twice.
        fields = {"token": None, "since": await self._db.logical_time(), "at": clock.wall()}
        await self._db.catch_up()
        hooks = await self._db.webhooks.find({}).to_list()
        if hooks:
            await self._search(position["at"] - _MARGIN, hooks)
        # Another leader may have caught up meanwhile; its position is later than this one.
        await self._db.meta.update_one({"_id": POSITION, "at": position["at"]}, {"$set": fields})

    async def _search(self, since: datetime.datetime, hooks: list[WebhookDocument]) -> None:
        """Write deliveries of submissions that ended, and of rejudgings that were applied, since then."""
        late: Bson = {"done": True, "finished": {"$gte": since}, "rerun_of": None}
        await self._write(self._db.tasks.find(late, _BRIEF, hint="retention"), hooks)
        # A rejudging's runs may have been judged long before it was applied.
        applied = await self._db.rejudgings.find({"ended": {"$gte": since}}, {"_id": 1}).to_list()
        numbers: Bson = {"past.rejudging": {"$in": [doc["_id"] for doc in applied]}}
        if applied:
            await self._write(self._db.tasks.find(numbers, _BRIEF, hint="rejudged"), hooks)

    async def _write(self, docs: AsyncIterable[TaskDocument], hooks: list[WebhookDocument]) -> None:
        async for doc in docs:
            kind: Event = "submission.rejudged" if doc.get("past") else "submission.finished"
            # A new verdict may be older than the moment from which it counts.
            finished = None if doc.get("past") else doc["finished"]
            interested = [hook for hook in hooks if kind in hook["events"] and _existed_at(hook, finished)]
            await self._insert_deliveries(doc["_id"], kind, doc["version"], interested, None)

    async def _insert_deliveries(
        self,
        task: ObjectId,
        kind: Event,
        version: int,
        hooks: Iterable[WebhookDocument],
        moment: datetime.datetime | None,
    ) -> None:
        try:
            doc = await self._reader.get(task, version)
        except NotFoundError:
            return  # deleted meanwhile
        if doc.get("rerun_of") is not None:
            return  # a run of a rejudging is the judges' own
        body = Payload(type=kind, timestamp=iso(moment or clock.wall()), data=payload_data(doc)).model_dump_json()
        now = clock.wall()
        deliveries = [
            delivery(hook["_id"], f"{hook['_id']}/{task}/{version}/{kind}", kind, body, now, doc=doc)
            for hook in hooks
            if concerns(hook, doc)
        ]
        if not deliveries:
            return
        try:
            await self._db.deliveries.insert_many(deliveries, ordered=False)
        except BulkWriteError as exc:
            if not only_duplicates(exc):
                raise
        self._wake()

    async def _save(self, token: Any) -> None:
        fields = {"token": token, "at": clock.wall()}
        await self._db.meta.update_one({"_id": POSITION}, {"$set": fields}, upsert=True)


async def begin(database: Database) -> MetaDocument:
    """The position from which the stream is read: the last one, or now. Webhooks are told of all that ends after it.

    Called by the leader, and before a webhook is added: there may be no leader yet.
    """
    position = await database.find(database.meta, {"_id": POSITION})
    if position is not None:
        return position
    first: Bson = {"token": None, "since": await database.logical_time(), "at": clock.wall()}
    await database.meta.update_one({"_id": POSITION}, {"$setOnInsert": first}, upsert=True)
    return await begin(database)


def _existed_at(hook: WebhookDocument, moment: datetime.datetime | None) -> bool:
    """Return whether a webhook may have been added by this moment of a judicator's clock. Pure."""
    since = hook.get("since")
    return since is None or moment is None or since.as_datetime() <= moment + _MARGIN


def concerns(hook: WebhookDocument, doc: TaskDocument) -> bool:
    problem = doc.get("problem")
    if _cause(doc) in SYSTEM and not hook.get("system"):
        return False
    return hook.get("user") in {None, doc["user"]} and hook.get("problem") in {None, problem and problem["name"]}


def _cause(doc: TaskDocument) -> Cause:
    submission = doc["submission"]
    return cause_of(submission.get("cause"), submission.get("check"), rejudged=bool(doc.get("past")))


def payload_data(doc: TaskDocument) -> SubmissionEvent:
    """The news of a submission for a receiver, as it is now. Pure."""
    result, problem, past = doc.get("result") or {}, doc.get("problem"), doc.get("past") or []
    return SubmissionEvent(
        id=str(doc["_id"]),
        version=doc["version"],
        user=doc["user"],
        problem=problem["name"] if problem else None,
        problem_hash=problem["hash"] if problem else None,
        language=doc["language"],
        status=doc["status"],
        verdict=doc.get("verdict"),
        score=result.get("score"),
        cpu=result.get("cpu"),
        memory=result.get("memory"),
        created=iso(doc["created"]),
        finished=iso_or_none(doc.get("finished")),
        cause=_cause(doc),
        rejudging=past[-1]["rejudging"] if past else None,
    )


def delivery(
    hook: str, key: str, kind: Event, body: str, now: datetime.datetime, *, doc: TaskDocument | None = None
) -> DeliveryDocument:
    return {
        "_id": ObjectId(),
        "key": key,
        "hook": hook,
        "event": kind,
        "task": doc["_id"] if doc is not None else None,
        "user": doc["user"] if doc is not None else "",
        "version": doc["version"] if doc is not None else 0,
        "body": body,
        "state": "waiting",
        "tries": 0,
        "created": now,
        "next": now,
    }
