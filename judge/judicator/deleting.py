"""Deleting submissions, problems and people's data (docs/protocol.md, Deleting).

Every step may be repeated, at any judicator, after a death at any point. Blobs and manifests are marked for retention
before the documents go that refer to them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from bson import ObjectId, Timestamp
from prometheus_client import Counter

from judge.common import clock, failpoint
from judge.common.errors import ConflictError, NotFoundError
from judge.judicator.audit import Act
from judge.judicator.blobs import SOON, Blobs, mark
from judge.judicator.database import Database
from judge.judicator.documents import ProblemDocument, TaskDocument
from judge.judicator.events import removal
from judge.judicator.people.users import Users
from judge.judicator.tasks.lifecycle import Tasks
from judge.model.deleting import Deleted, DeletionPreview, DeletionWanted, ProblemName, Purged, PurgeRequest
from judge.model.messages import TaskRef
from judge.mongodb.store import Bson
from judge.rpc.server import Peer

log = logging.getLogger(__name__)

DELETED = Counter("judge_deleted_total", "Deleted at a person's word", ["kind"])

# Stands in old rejudgings for a person whose data is gone.
REMOVED: Final = "(removed)"
# One call deletes for so long, in seconds, and counts up to so many that are left.
_PATIENCE: Final = 2.0
_COUNT: Final = 10_000
# The comment, for the database's profiler, of queries that look at all tasks of a user or problem once in a call.
_LOOK: Final = "deleting"
_FIELDS: Final = dict.fromkeys(("user", "done", "status", "rejudging", "rerun_of", "blobs", "bytes", "problem"), 1)


class Deleting:
    """Deletes submissions, problems and the data of people, at the word of admins."""

    def __init__(self, database: Database, tasks: Tasks, blobs: Blobs, users: Users) -> None:
        self._users = users
        self._db = database
        self._tasks = tasks
        self._blobs = blobs
        self._usage = tasks.usage

    async def describe_deletion(self, request: TaskRef, _: Peer) -> Act:
        doc = await self._db.tasks.find_one({"_id": ObjectId(request.id)}, {"user": 1, "problem": 1})
        about = {} if doc is None else {"user": doc["user"]}
        if doc is not None and (problem := doc.get("problem")) is not None:
            about["problem"] = problem["name"]
        return Act("submission.delete", request.id, about)

    async def describe_purge(self, request: PurgeRequest, _: Peer) -> Act:
        hooks = await removal.of_user(self._db, request.user, _moment(request.until))
        return Act("user.purge", request.user, {"until": request.until, "webhooks": hooks or None})

    async def preview(self, request: DeletionWanted) -> DeletionPreview:
        """The effect of a deletion: what would go and stay, and why it could not; nothing is stored. NotFoundError."""
        if request.submission is not None:
            doc = await self._submission(request.submission)
            return DeletionPreview(
                goes=[
                    f"submission {request.submission} of user '{doc['user']}' with its source, result and history",
                    "calls of webhooks about it",
                    "its own test data and output, unless another submission has the same",
                ],
                stays=["what the audit trail says about it", "rejudgings that it was part of, as numbers"],
                refusal=_refusal(doc),
                submissions=1,
                bytes=doc.get("bytes", 0),
            )
        if request.problem is not None:
            return await self._preview_problem(request.problem)
        return await self._preview_user(str(request.user))

    # --- submissions -------------------------------------------------------------------------------------------

    async def _submission(self, task: str) -> TaskDocument:
        missing = NotFoundError(f"there is no submission {task}")
        return await self._db.get(self._db.tasks, {"_id": ObjectId(task)}, missing, _FIELDS)

    async def submission(self, request: TaskRef, peer: Peer) -> Deleted:
        """Delete a finished submission. ConflictError unless it is finished and in no open rejudging."""
        try:
            return await self.remove(request)
        except NotFoundError:
            if peer.again:
                return Deleted(deleted=0)
            raise

    async def remove(self, request: TaskRef) -> Deleted:
        """Delete a finished submission; errors as `submission`."""
        while True:
            doc = await self._submission(request.id)
            refusal = _refusal(doc)
            if refusal is not None:
                raise ConflictError(refusal)
            count, size = await self._delete([doc])
            if count:
                return Deleted(deleted=count, bytes=size)

    async def _delete(self, docs: list[TaskDocument]) -> tuple[int, int]:
        """Delete finished tasks that are in no rejudging; how many, and their bytes."""
        await self._blobs.mark_unused(sha for doc in docs for sha in doc["blobs"])
        failpoint.hit("delete-marked")
        ids = [doc["_id"] for doc in docs]
        await self._db.deliveries.delete_many({"task": {"$in": ids}})
        free = {"_id": {"$in": ids}, "done": True, "rejudging": None}
        count = (await self._db.tasks.delete_many(free, hint="_id_")).deleted_count
        failpoint.hit("delete-deleted")
        DELETED.labels("submission").inc(count)
        # Else somebody else has a part of them, and the recount will see.
        return count, await self._usage.subtract(docs) if count == len(docs) else 0

    # --- problems ----------------------------------------------------------------------------------------------

    async def _problem(self, name: str) -> tuple[ProblemDocument, str | None]:
        """The problem, and why it cannot be deleted now."""
        doc = await self._db.get(self._db.problems, {"_id": name}, NotFoundError(f"there is no problem '{name}'"))
        submitted = {"problem.name": name, "done": False, "submission.check": {"$ne": "statements"}}
        waiting = await self._db.tasks.count_documents(submitted, limit=_COUNT, comment=_LOOK)
        if waiting:
            return doc, f"{waiting} submissions to problem '{name}' wait or run; let them end, or cancel them"
        opened = await self._db.rejudgings.find_one({"settled": False, "problems.name": name}, {"_id": 1})
        if opened is not None:
            return doc, f"rejudging {opened['_id']} judges against problem '{name}'; apply or cancel it first"
        return doc, None

    async def _preview_problem(self, name: str) -> DeletionPreview:
        doc, refusal = await self._problem(name)
        judged = await self._db.tasks.count_documents(
            {"problem.name": name, "rerun_of": None}, limit=_COUNT, comment=_LOOK
        )
        manifest = await self._db.manifests.find_one({"_id": doc["hash"]}, {"blobs": 1})
        blobs = [] if manifest is None else manifest["blobs"]
        files = await self._db.files.find({"filename": {"$in": blobs}}, {"length": 1}).to_list()
        stays = ["what the audit trail says about it"]
        if judged:
            stays.insert(
                0,
                f"its {_count_text(judged)} submissions, and the contents of the problem that they were judged against",
            )
        return DeletionPreview(
            goes=[
                f"problem '{name}': nobody can hand in for it any more",
                "contents of it that no submission refers to",
            ],
            stays=stays,
            refusal=refusal,
            bytes=sum(file["length"] for file in files),
        )

    async def problem(self, request: ProblemName, peer: Peer) -> Deleted:
        """Delete a problem. ConflictError while submissions to it wait or run, or a rejudging of it is open."""
        name = request.name
        try:
            doc, refusal = await self._problem(name)
            sha: str | None = doc["hash"]
        except NotFoundError:
            if not peer.again:
                raise
            sha = refusal = None
        if refusal is not None:
            raise ConflictError(refusal)
        count = (await self._db.problems.delete_one({"_id": name, "hash": sha})).deleted_count
        failpoint.hit("delete-problem")
        if not count and not peer.again:
            raise ConflictError(f"problem '{name}' was imported or deleted at the same moment; look again")
        # Retention leaves alone what submissions refer to, or what has been imported again.
        await self._db.manifests.update_many({"name": name}, mark(SOON))
        DELETED.labels("problem").inc(count)
        return Deleted(deleted=count)

    # --- people ------------------------------------------------------------------------------------------------

    async def _preview_user(self, user: str) -> DeletionPreview:
        query = {"user": user, "rerun_of": None}
        count = await self._db.tasks.count_documents(query, limit=_COUNT, comment=_LOOK)
        unfinished = await self._db.tasks.count_documents({"user": user, "done": False}, limit=_COUNT, comment=_LOOK)
        account = await self._db.users.find_one({"_id": user}, {"_id": 1})
        hooks = await removal.of_user(self._db, user)
        exists = count or account is not None or hooks
        if not exists and not await self._db.rejudgings.find_one({"user": user}, {"_id": 1}):
            raise NotFoundError(f"nothing of user '{user}' is stored")
        goes = [
            f"{_count_text(count)} submissions with their sources, results, histories and idempotency keys",
            "their own test data and outputs, unless another user's submission has the same",
            f"the name in the history of rejudgings, where '{REMOVED}' takes its place",
            "sessions: this user is logged out",
            "calls of webhooks about their submissions",
        ]
        if hooks:
            goes.append(f"webhooks that are told of this user alone: {', '.join(hooks)}")
        if account is not None:
            goes.append("the account, which is disabled first, with its password, groups, figures and tokens")
        if unfinished:
            goes.insert(0, f"{_count_text(unfinished)} of them wait or run: these are cancelled first")
        return DeletionPreview(
            goes=goes,
            stays=[
                "what the audit trail and the daemons' logs say about this user",
                "a token of tokens.yml, until it is taken out of there",
                "copies in backups, in MongoDB's oplog and in executors' caches, until these are overwritten",
            ],
            refusal=await self._rejudged(query),
            submissions=count,
            bytes=await self._usage.stored(user),
        )

    async def _rejudged(self, query: Bson) -> str | None:
        doc = await self._db.tasks.find_one({**query, "rejudging": {"$gt": 0}}, {"rejudging": 1}, comment=_LOOK)
        if doc is None:
            return None
        return f"some of the submissions are part of rejudging {doc['rejudging']}; apply or cancel it first"

    async def purge(self, request: PurgeRequest) -> Purged:
        """Delete a person's data, as far as it goes in one call; what they hand in after `until` is new data.

        ConflictError: some of it is part of an open rejudging.
        """
        user = request.user
        until = (
            _moment(request.until) or await self._db.logical_time()
        )  # later than the `arrival` of every task that is stored
        old: Bson = {"user": user, "arrival": {"$lte": until}}
        refusal = await self._rejudged(old)
        if refusal is not None:
            raise ConflictError(refusal)
        await self._users.shut_out(user, until)
        # Before anything is cancelled, which they would be told.
        await removal.remove(self._db, await removal.of_user(self._db, user, until))
        deadline, deleted, size = clock.Deadline(_PATIENCE), 0, 0
        while not deadline.over:
            await self._cancel(old)
            query = {**old, "done": True, "rejudging": None}
            docs = await self._db.tasks.find(query, {"user": 1, "blobs": 1, "bytes": 1}, limit=self._db.batch).to_list()
            if not docs:
                break
            count, freed = await self._delete(docs)
            deleted, size = deleted + count, size + freed
            failpoint.hit("purge-batch")
        left = await self._db.tasks.count_documents(old, limit=_COUNT, comment=_LOOK)
        if not left:
            await self._forget(user)
            # A task that came in just now would be that of the next one of this name, so the name stays taken.
            if await self._db.tasks.find_one({"user": user}, {"_id": 1}, comment=_LOOK) is None:
                await self._users.forget(user, until)
        log.info("user '%s': %d submissions deleted, %s left", user, deleted, _count_text(left))
        return Purged(deleted=deleted, bytes=size, left=left, until=f"{until.time}.{until.inc}")

    async def _cancel(self, query: Bson) -> None:
        """Cancel what waits or runs, some of it; the index has what waits by its user, and little runs."""
        docs: list[TaskDocument] = []
        for executor in (None, {"$gt": ""}):
            unfinished = {**query, "done": False, "executor": executor}
            docs += await self._db.tasks.find(unfinished, {"_id": 1}, limit=self._db.batch, hint="hands").to_list()

        async def cancel(task: ObjectId) -> None:
            with contextlib.suppress(ConflictError, NotFoundError):  # it has come to its end meanwhile
                await self._tasks.cancel(task, purged=True)

        await asyncio.gather(*(cancel(doc["_id"]) for doc in docs))

    async def _forget(self, user: str) -> None:
        """Take the name out of what rejudgings that are over remember, drop the counter, end sessions."""
        over = {"settled": True}
        # The key of the call that started one, and what it asked for, serve a repetition of that call only.
        mentions = {**over, "$or": [{"filter.user": user}, {"user": user}]}
        await self._db.rejudgings.update_many(mentions, {"$unset": {"key": ""}, "$set": {"digest": ""}})
        for field in ("user", "ended_by"):
            await self._db.rejudgings.update_many({**over, field: user}, {"$set": {field: REMOVED}})
        await self._db.rejudgings.update_many(
            {**over, "filter.user": user}, {"$set": {"filter.user.$[one]": REMOVED}}, array_filters=[{"one": user}]
        )
        await self._db.sessions.delete_many({"user": user})
        await self._db.deliveries.delete_many({"user": user})
        # Bytes that this judicator still has to count would make the counter anew. A counter that is not at zero waits
        # for what another judicator has to count, which removes it then, or retention does.
        await self._usage.flush()
        await self._db.usage.delete_one({"_id": user, "bytes": 0})


def _moment(text: str | None) -> Timestamp | None:
    """The database's logical time that a call before this one has answered."""
    return None if text is None else Timestamp(*map(int, text.split(".")))


def _count_text(count: int) -> str:
    return f"{count} or more" if count >= _COUNT else str(count)


def _refusal(doc: TaskDocument) -> str | None:
    """The reason why a submission cannot be deleted as it is; pure."""
    task = doc["_id"]
    if doc.get("rerun_of") is not None:
        return f"{task} is a run of rejudging {doc['rejudging']}; it goes when that is applied or cancelled"
    if doc.get("rejudging") is not None:
        return f"submission {task} is part of rejudging {doc['rejudging']}; apply or cancel that first"
    if not doc["done"]:
        return f"submission {task} is {doc['status']}; let it end, or cancel it first: `judgectl cancel {task}`"
    return None
