"""The calls about rejudgings: what people ask for, see and decide (docs/rejudge.md). What follows is progress.py's."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Final, cast

from bson import ObjectId
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from judge.common import clock, failpoint
from judge.common.errors import ConflictError, EmptyError, NotFoundError
from judge.judicator.database import Database, aggregate
from judge.judicator.documents import MetaDocument, RejudgingDocument
from judge.judicator.rejudging import views
from judge.judicator.rejudging.progress import ENDED, Rejudgings
from judge.judicator.rejudging.reruns import Cell, Reruns
from judge.judicator.tasks import forms
from judge.model import rejudging as r
from judge.model.rejudging import RejudgeState as State
from judge.mongodb.store import Bson

log = logging.getLogger(__name__)

# Submissions of one rejudging: their ids fit into one document with room to spare.
MOST: Final = 100_000
PREVIEW: Final = 25
_NUMBER: Final = "rejudgings"
_BRIEF: Final = {"members": 0}
# Counting takes at most one part of so many of the database's time.
_PARTS: Final = 20


class RunCounts:
    """Counts of open rejudgings for people to look at, which are old by at most 20 times what counting takes."""

    def __init__(self, count: Callable[[int], Awaitable[list[Cell]]]) -> None:
        """`count` reads all runs of a rejudging (`Reruns.cells`)."""
        self._count = count
        # By number and state: the cells, and until when they are fresh.
        self._cache: dict[tuple[int, str], tuple[list[Cell], float]] = {}
        self._turn = asyncio.Lock()

    async def cells(self, number: int, state: str) -> list[Cell]:
        """The number of runs of each kind in this state of the rejudging."""
        async with self._turn:
            begin = clock.monotonic()
            self._cache = {key: entry for key, entry in self._cache.items() if entry[1] > begin}
            if (number, state) not in self._cache:
                cells = await self._count(number)
                end = clock.monotonic()
                self._cache[number, state] = cells, end + _PARTS * (end - begin)
                return cells
            return self._cache[number, state][0]


class RejudgingCalls:
    """The RPC methods about rejudgings. Each changes a state with one compare-and-set, then has `Rejudgings` act."""

    def __init__(self, database: Database, reruns: Reruns, rejudgings: Rejudgings) -> None:
        self._db = database
        self._col = database.rejudgings
        self._tasks = database.tasks
        self._reruns = reruns
        self._run_counts = RunCounts(reruns.cells)
        self._rejudgings = rejudgings

    async def preview(self, selection: r.RejudgeFilter) -> r.RejudgePreview:
        """The submissions that a start with this filter would take; nothing is stored."""
        query = await self._checked(selection)
        free = {**query, "rejudging": None}
        cursor = self._tasks.find(free, forms.BRIEF, sort=[("_id", -1)], limit=PREVIEW)
        groups = await aggregate(self._tasks, [{"$match": free}, {"$group": {"_id": "$verdict", "n": {"$sum": 1}}}])
        by_verdict = {row["_id"]: row["n"] for row in groups}
        return r.RejudgePreview(
            count=sum(by_verdict.values()),
            skipped=await self._tasks.count_documents({**query, "rejudging": {"$gt": 0}}),
            verdicts=dict(sorted(by_verdict.items())),
            tasks=[forms.to_task(doc) async for doc in cursor],
        )

    async def _checked(self, selection: r.RejudgeFilter) -> Bson:
        """The filter's query; ids that are named must exist and be judged (NotFoundError, ConflictError)."""
        query = views.selection(selection)
        own, fields = {"rerun_of": None}, {"done": 1, "verdict": 1, "status": 1}
        if selection.ids:
            documents = {str(doc["_id"]): doc async for doc in self._tasks.find({"_id": query["_id"], **own}, fields)}
            for task in selection.ids:
                doc = documents.get(task) or await self._db.find(self._tasks, {"_id": ObjectId(task), **own}, fields)
                if doc is None:
                    raise NotFoundError(f"there is no submission {task}")
                if not doc["done"] or doc["verdict"] is None:
                    raise ConflictError(
                        f"submission {task} has no verdict ({doc['status']}); only judged ones are judged again"
                    )
        return query

    async def start(self, request: r.RejudgeStart) -> r.Rejudging:
        """Judge again what the filter finds now; the same idempotency key gives the same rejudging.

        EmptyError: it finds nothing; ConflictError: the key was used for another one, or too many are found.
        """
        digest = json.dumps(request.model_dump(mode="json", exclude={"trace", "idempotency_key"}), sort_keys=True)
        key = None if request.idempotency_key is None else f"{request.user}\0{request.idempotency_key}"
        rejudging = await self._earlier(key, digest)
        if rejudging is None:
            rejudging = await self._insert(request, key, digest)
            failpoint.hit("rejudge-note")
        await self._rejudgings.push(rejudging["_id"])
        return await self.get(rejudging["_id"])

    async def _earlier(self, key: str | None, digest: str) -> RejudgingDocument | None:
        doc = None if key is None else await self._db.latest(self._col, {"key": key}, _BRIEF)
        if doc is not None and doc["digest"] != digest:
            raise ConflictError(f"the idempotency key was used for rejudging {doc['_id']}, which is another one")
        return doc

    async def _insert(self, request: r.RejudgeStart, key: str | None, digest: str) -> RejudgingDocument:
        query = await self._checked(request.filter)
        free = self._tasks.find({**query, "rejudging": None}, {"_id": 1}, sort=[("_id", 1)], limit=MOST + 1)
        ids = [doc["_id"] async for doc in free]
        skipped = await self._tasks.count_documents({**query, "rejudging": {"$gt": 0}})
        if len(ids) > MOST:
            raise ConflictError(f"more than {MOST} submissions match; narrow the filter, for example by time")
        if not ids:
            earlier = await self._earlier(key, digest)
            if earlier is not None:  # the same call, made twice at the same moment, has them
                return earlier
            more = f"; {skipped} match, but are part of an open rejudging" if skipped else ""
            raise EmptyError(f"no judged submission matches this filter{more}; nothing is rejudged")
        names = await self._tasks.distinct("problem.name", {**query, "rejudging": None, "problem": {"$ne": None}})
        problems = self._db.problems.find({"_id": {"$in": names}}, {"hash": 1})
        doc: RejudgingDocument = {
            "_id": await self._number(),
            "digest": digest,
            "filter": request.filter.model_dump(mode="json"),
            "reason": request.reason,
            "user": request.user,
            "trace": request.trace,
            "state": State.STARTING.value,
            "settled": False,
            "members": ids,
            "problems": [{"name": problem["_id"], "hash": problem["hash"]} async for problem in problems],
            "total": len(ids),
            "skipped": skipped,
            "counts": None,
            "matrix": None,
            "call": None,
            "created": clock.wall(),
            "finished": None,
            "ended": None,
            "ended_by": None,
        }
        if key is not None:
            doc["key"] = key
        try:
            await self._col.insert_one(doc)
        except DuplicateKeyError:  # the same call, made twice at the same moment
            existing = await self._earlier(key, digest)
            if existing is None:
                raise
            return existing
        log.info(
            "rejudging %d of %d submissions started by '%s': %s, trace %s",
            *(doc["_id"], len(ids), request.user, request.reason, request.trace),
        )
        return doc

    async def _number(self) -> int:
        doc = await self._db.meta.find_one_and_update(
            {"_id": _NUMBER}, {"$inc": {"last": 1}}, upsert=True, return_document=ReturnDocument.AFTER
        )
        return cast("MetaDocument", doc)["last"]

    async def read(self, request: r.RejudgingRef) -> r.Rejudging:
        return await self.get(request.id)

    async def _read(self, number: int) -> RejudgingDocument:
        missing = NotFoundError(f"there is no rejudging {number}; `judgectl rejudge list` lists them")
        return await self._db.get(self._col, {"_id": number}, missing, _BRIEF)

    async def _with_counts(self, doc: RejudgingDocument) -> r.Rejudging:
        counted = None
        if doc["counts"] is None:
            counted = views.counts(await self._run_counts.cells(doc["_id"], doc["state"]))
        return views.to_rejudging(doc, counted)

    async def get(self, number: int) -> r.Rejudging:
        """One rejudging with its counts; NotFoundError."""
        doc = await self._read(number)
        if doc["state"] == State.RUNNING and await self._rejudgings.note_finished(doc):
            doc = await self._read(number)
        return await self._with_counts(doc)

    async def all(self, request: r.RejudgingsRequest) -> r.RejudgingsReply:
        query = {} if request.before is None else {"_id": {"$lt": request.before}}
        docs = await self._col.find(query, _BRIEF, sort=[("_id", -1)], limit=request.limit + 1).to_list()
        more = len(docs) > request.limit
        page = [await self._with_counts(doc) for doc in docs[: request.limit]]
        return r.RejudgingsReply(rejudgings=page, next=page[-1].id if more else None)

    async def diff(self, request: r.RejudgeDiffRequest) -> r.RejudgeDiff:
        """Old and new verdicts, before it is applied and after; of a cancelled one the matrix is left."""
        number = request.id
        state = await self.get(number)
        rejudging = await self._read(number)
        after = None if request.after is None else ObjectId(request.after)
        if rejudging["state"] == State.APPLIED:
            docs = await self._reruns.applied_page(number, after=after, limit=request.limit + 1)
            changes = [views.change_of_task(doc, number) for doc in docs]
        else:
            docs = await self._reruns.page(number, every=request.all, after=after, limit=request.limit + 1)
            changes = [views.change_of_run(doc) for doc in docs]
        more = len(changes) > request.limit
        changes = changes[: request.limit]
        last = changes[-1].id if more else None
        cells = rejudging["matrix"]
        if cells is None:
            cells = views.matrix(await self._run_counts.cells(number, rejudging["state"]))
        listed = [change for change in changes if request.all or views.differs(change)]
        return r.RejudgeDiff(rejudging=state, matrix=cells, changes=listed, next=last)

    async def apply(self, request: r.RejudgeAct) -> r.Rejudging:
        """Let the new verdicts count, all at once. ConflictError unless it is finished."""
        number = request.id
        rejudging = await self.get(number)  # notes a running one as finished when it is
        cells = await self._reruns.cells(number)
        fields: RejudgingDocument = {"state": State.APPLYING.value, **_end_fields(request, cells)}
        done = await self._col.update_one({"_id": number, "state": State.FINISHED.value}, {"$set": fields})
        if done.matched_count:
            log.info("rejudging %d is being applied by '%s', trace %s", number, request.user, rejudging.trace)
        elif not await self._same_call(request):
            raise ConflictError(_why_not_apply(await self.get(number)))
        await self._rejudgings.push(number)
        return await self.get(number)

    async def cancel(self, request: r.RejudgeAct) -> r.Rejudging:
        """Drop it as a whole: no verdict changes. ConflictError when it is being applied, or over."""
        number = request.id
        rejudging = await self.get(number)
        cells = await self._reruns.cells(number)
        fields: RejudgingDocument = {"state": State.CANCELLED.value, **_end_fields(request, cells)}
        states = [state.value for state in views.OPEN]
        done = await self._col.update_one({"_id": number, "state": {"$in": states}}, {"$set": fields})
        if done.matched_count:
            ENDED.labels("cancelled").inc()
            log.info("rejudging %d is cancelled by '%s', trace %s", number, request.user, rejudging.trace)
        elif not await self._same_call(request):
            now = await self.get(number)
            raise ConflictError(f"rejudging {number} is {now.state} already; nothing to cancel")
        await self._rejudgings.push(number)
        return await self.get(number)

    async def _same_call(self, request: r.RejudgeAct) -> bool:
        """Return whether this very call was answered before, and the answer got lost."""
        doc = await self._db.latest(self._col, {"_id": request.id}, {"call": 1})
        return doc is not None and doc["call"] == request.key


def _end_fields(request: r.RejudgeAct, cells: list[Cell]) -> RejudgingDocument:
    """The fields that are kept of a rejudging when somebody ends it."""
    return {
        "ended": clock.wall(),
        "ended_by": request.user,
        "call": request.key,
        "counts": views.counts(cells),
        "matrix": views.matrix(cells),
    }


def _why_not_apply(rejudging: r.Rejudging) -> str:
    if rejudging.state in {State.STARTING, State.RUNNING}:
        return (
            f"rejudging {rejudging.id} is not finished: {rejudging.done} of {rejudging.total} are judged; "
            "apply it when all are, or cancel it"
        )
    return f"rejudging {rejudging.id} is {rejudging.state} already; nothing to apply"
