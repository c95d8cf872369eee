"""Rejudgings: judge finished submissions again, compare, and change their verdicts all at once or not at all.

`starting → running → finished → applying → applied`, and `cancelled` from the first three (docs/rejudge.md). A
person's call moves the state with one compare-and-set; what follows from a state is done by `advance`, at the
judicator that took the call and, when that dies, at the leader. Every step may be repeated at any time.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from bson import ObjectId
from prometheus_client import Counter
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError, PyMongoError

from judge import clock, failpoint
from judge.errors import ConflictError, EmptyError, NotFoundError
from judge.judicator import documents
from judge.judicator.database import Database, Document
from judge.judicator.loops import Loops, away
from judge.judicator.rejudging import verdicts
from judge.judicator.rejudging.reruns import Reruns
from judge.judicator.rejudging.views import (
    OPEN,
    change_of_run,
    change_of_task,
    counts,
    differs,
    matrix,
    selection,
    to_rejudging,
)
from judge.model import messages as m
from judge.model.rejudging import (
    RejudgeAct,
    RejudgeDiff,
    RejudgeDiffRequest,
    RejudgeFilter,
    RejudgePreview,
    RejudgeStart,
    Rejudging,
    RejudgingRef,
    RejudgingsReply,
    RejudgingsRequest,
)
from judge.model.rejudging import RejudgeState as State

log = logging.getLogger(__name__)

ENDED = Counter("judge_rejudgings_total", "Rejudgings that were applied or cancelled", ["state"])

# Submissions of one rejudging: their ids fit into one document with room to spare.
MOST: Final = 100_000
PREVIEW: Final = 25
_NUMBER: Final = "rejudgings"
_PERIOD: Final = 1.0
# A person's call waits so long for what follows from it; the rest goes on behind.
_PATIENCE: Final = 2.0
# Leavings are looked for every so many passes.
_TIDY: Final = 10
_BRIEF: Final = {"members": 0}


class Rejudgings:
    """All rejudgings of one cluster."""

    def __init__(self, database: Database, reruns: Reruns, loops: Loops) -> None:
        """Nothing is read before the first call."""
        self._loops = loops
        self._db = database
        self._col = database.rejudgings
        self._tasks = database.tasks
        self._reruns = reruns
        self._work: dict[int, asyncio.Task[None]] = {}
        self._passes = 0

    # --- people ------------------------------------------------------------------------------------------------

    async def preview(self, wanted: RejudgeFilter) -> RejudgePreview:
        """What a start with this filter would take; nothing is stored."""
        query = await self._checked(wanted)
        free = {**query, "rejudging": None}
        found = self._tasks.find(free, documents.BRIEF, sort=[("_id", -1)], limit=PREVIEW)
        groups = await self._tasks.aggregate([{"$match": free}, {"$group": {"_id": "$verdict", "n": {"$sum": 1}}}])
        by_verdict = {row["_id"]: row["n"] async for row in groups}
        return RejudgePreview(
            count=sum(by_verdict.values()),
            skipped=await self._tasks.count_documents({**query, "rejudging": {"$gt": 0}}),
            verdicts=dict(sorted(by_verdict.items())),
            tasks=[documents.to_task(doc) async for doc in found],
        )

    async def _checked(self, wanted: RejudgeFilter) -> Document:
        """The filter's query; ids that are named must exist and be judged (NotFoundError, ConflictError)."""
        query = selection(wanted)
        own, fields = {"rerun_of": None}, {"done": 1, "verdict": 1, "status": 1}
        if wanted.ids:
            known = {str(doc["_id"]): doc async for doc in self._tasks.find({"_id": query["_id"], **own}, fields)}
            for one in wanted.ids:
                doc = known.get(one) or await self._db.find(self._tasks, {"_id": ObjectId(one), **own}, fields)
                if doc is None:
                    raise NotFoundError(f"there is no submission {one}")
                if not doc["done"] or doc["verdict"] is None:
                    raise ConflictError(
                        f"submission {one} has no verdict ({doc['status']}); only judged ones are judged again"
                    )
        return query

    async def start(self, request: RejudgeStart) -> Rejudging:
        """Judge again what the filter finds now; the same idempotency key gives the same rejudging.

        EmptyError: it finds nothing; ConflictError: the key was used for another one, or too many are found.
        """
        digest = json.dumps(request.model_dump(mode="json", exclude={"trace", "idempotency_key"}), sort_keys=True)
        key = None if request.idempotency_key is None else f"{request.user}\0{request.idempotency_key}"
        known = await self._known(key, digest)
        if known is None:
            known = await self._insert(request, key, digest)
            failpoint.hit("rejudge-note")
        await self._push(known["_id"])
        return await self.get(known["_id"])

    async def _known(self, key: str | None, digest: str) -> Document | None:
        doc = None if key is None else await self._db.latest(self._col, {"key": key}, _BRIEF)
        if doc is not None and doc["digest"] != digest:
            raise ConflictError(f"the idempotency key was used for rejudging {doc['_id']}, which is another one")
        return doc

    async def _insert(self, request: RejudgeStart, key: str | None, digest: str) -> Document:
        query = await self._checked(request.filter)
        free = self._tasks.find({**query, "rejudging": None}, {"_id": 1}, sort=[("_id", 1)], limit=MOST + 1)
        ids = [doc["_id"] async for doc in free]
        skipped = await self._tasks.count_documents({**query, "rejudging": {"$gt": 0}})
        if len(ids) > MOST:
            raise ConflictError(f"more than {MOST} submissions match; narrow the filter, for example by time")
        if not ids:
            more = f"; {skipped} match, but are part of an open rejudging" if skipped else ""
            raise EmptyError(f"no judged submission matches this filter{more}; nothing is rejudged")
        names = await self._tasks.distinct("problem.name", {**query, "rejudging": None, "problem": {"$ne": None}})
        problems = self._db.problems.find({"_id": {"$in": names}}, {"hash": 1})
        doc: Document = {
            "_id": await self._number(),
            "digest": digest,
            "filter": request.filter.model_dump(mode="json"),
            "reason": request.reason,
            "user": request.user,
            "trace": request.trace,
            "state": State.STARTING.value,
            "settled": False,
            "members": ids,
            "problems": [{"name": one["_id"], "hash": one["hash"]} async for one in problems],
            "total": len(ids),
            "skipped": skipped,
            "counts": None,
            "matrix": None,
            "call": None,
            "created": clock.wall(),
            "finished": None,
            "ended": None,
            "ended_by": None,
            **({"key": key} if key is not None else {}),
        }
        try:
            await self._col.insert_one(doc)
        except DuplicateKeyError:  # the same call, made twice at the same moment
            known = await self._known(key, digest)
            if known is None:
                raise
            return known
        log.info(
            "rejudging %d of %d submissions started by '%s': %s, trace %s",
            *(doc["_id"], len(ids), request.user, request.reason, request.trace),
        )
        return doc

    async def _number(self) -> int:
        doc: Any = await self._db.meta.find_one_and_update(
            {"_id": _NUMBER}, {"$inc": {"last": 1}}, upsert=True, return_document=ReturnDocument.AFTER
        )
        return int(doc["last"])

    def methods(self) -> dict[str, Callable[[Any], Awaitable[m.Message]]]:
        """The RPC methods, for the service."""
        return {
            "rejudge_preview": self.preview,
            "rejudge_start": self.start,
            "rejudgings": self._list,
            "rejudging": self._one,
            "rejudge_diff": self.diff,
            "rejudge_apply": self.apply,
            "rejudge_cancel": self.cancel,
        }

    async def _list(self, request: RejudgingsRequest) -> RejudgingsReply:
        return RejudgingsReply(rejudgings=await self.all(request.limit))

    async def _one(self, request: RejudgingRef) -> Rejudging:
        return await self.get(request.id)

    async def _read(self, number: int) -> Document:
        doc = await self._db.find(self._col, {"_id": number}, _BRIEF)
        if doc is None:
            raise NotFoundError(f"there is no rejudging {number}; `judgectl rejudge list` lists them")
        return doc

    async def _seen(self, doc: Document) -> Rejudging:
        counted = None if doc["counts"] is not None else counts(await self._reruns.cells(doc["_id"]))
        return to_rejudging(doc, counted)

    async def get(self, number: int) -> Rejudging:
        """One rejudging with its counts; NotFoundError."""
        doc = await self._read(number)
        if doc["state"] == State.RUNNING and await self._running(doc):
            doc = await self._read(number)
        return await self._seen(doc)

    async def all(self, limit: int) -> list[Rejudging]:
        """The newest rejudgings, newest first."""
        docs = await self._col.find({}, _BRIEF, sort=[("_id", -1)], limit=limit).to_list()
        return [await self._seen(doc) for doc in docs]

    async def diff(self, request: RejudgeDiffRequest) -> RejudgeDiff:
        """Old verdicts against new ones, before it is applied and after; of a cancelled one the matrix is left."""
        number = request.id
        seen = await self.get(number)
        doc = await self._read(number)
        after = None if request.after is None else ObjectId(request.after)
        if doc["state"] == State.APPLIED:
            docs = await self._reruns.applied_page(number, after=after, limit=request.limit + 1)
            changes = [change_of_task(one, number) for one in docs]
        else:
            docs = await self._reruns.page(number, every=request.all, after=after, limit=request.limit + 1)
            changes = [change_of_run(one) for one in docs]
        more = len(changes) > request.limit
        changes = changes[: request.limit]
        last = changes[-1].id if more else None
        cells = doc["matrix"] if doc["matrix"] is not None else matrix(await self._reruns.cells(number))
        shown = [one for one in changes if request.all or differs(one)]
        return RejudgeDiff(rejudging=seen, matrix=cells, changes=shown, next=last)

    async def apply(self, request: RejudgeAct) -> Rejudging:
        """Let the new verdicts count, all at once. ConflictError unless it is finished."""
        number = request.id
        seen = await self.get(number)  # notes a running one as finished when it is
        cells = await self._reruns.cells(number)
        fields = {"state": State.APPLYING.value, **_ended(request, cells)}
        done = await self._col.update_one({"_id": number, "state": State.FINISHED.value}, {"$set": fields})
        if done.matched_count:
            log.info("rejudging %d is being applied by '%s', trace %s", number, request.user, seen.trace)
        elif not await self._same_call(request):
            raise ConflictError(_why_not_apply(await self.get(number)))
        await self._push(number)
        return await self.get(number)

    async def cancel(self, request: RejudgeAct) -> Rejudging:
        """Drop it as a whole: no verdict changes. ConflictError when it is being applied, or over."""
        number = request.id
        seen = await self.get(number)
        cells = await self._reruns.cells(number)
        fields = {"state": State.CANCELLED.value, **_ended(request, cells)}
        states = [state.value for state in OPEN]
        done = await self._col.update_one({"_id": number, "state": {"$in": states}}, {"$set": fields})
        if done.matched_count:
            ENDED.labels("cancelled").inc()
            log.info("rejudging %d is cancelled by '%s', trace %s", number, request.user, seen.trace)
        elif not await self._same_call(request):
            now = await self.get(number)
            raise ConflictError(f"rejudging {number} is {now.state} already; nothing to cancel")
        await self._push(number)
        return await self.get(number)

    async def _same_call(self, request: RejudgeAct) -> bool:
        """Whether this very call was answered before, and the answer got lost."""
        doc = await self._db.latest(self._col, {"_id": request.id}, {"call": 1})
        return doc is not None and doc["call"] == request.key

    # --- what follows ------------------------------------------------------------------------------------------

    async def _push(self, number: int) -> None:
        """Have the work done that follows from a state, and wait for it a little."""
        known = self._work.get(number)
        if known is not None and not known.done():
            # It may have looked at the state before this call changed it.
            await asyncio.wait({known}, timeout=_PATIENCE)
        if known is None or known.done():
            known = self._work[number] = asyncio.create_task(self._guarded(number))
        await asyncio.wait({known}, timeout=_PATIENCE)

    async def _guarded(self, number: int) -> None:
        try:
            await self.advance(number)
        except PyMongoError as exc:
            log.warning("rejudging %d is put off, the database does not answer: %s", number, str(exc)[:200])
        except Exception:
            log.exception("rejudging %d is put off after an unforeseen error; the leader tries again", number)
        finally:
            if self._work.get(number) is asyncio.current_task():
                del self._work[number]

    async def advance(self, number: int) -> None:
        """Do everything that can be done for a rejudging now."""
        steps: dict[str, Callable[[Document], Awaitable[bool]]] = {
            State.STARTING: self._starting,
            State.RUNNING: self._running,
            State.APPLYING: self._applying,
            State.APPLIED: self._applied,
            State.CANCELLED: self._cancelled,
        }
        while True:
            doc = await self._col.find_one({"_id": number}, _BRIEF)
            step = None if doc is None or doc["settled"] else steps.get(doc["state"])
            if doc is None or step is None or not await step(doc):
                return

    async def _move(self, doc: Document, **fields: Any) -> bool:
        """Compare-and-set from the state that `doc` shows."""
        done = await self._col.update_one({"_id": doc["_id"], "state": doc["state"]}, {"$set": fields})
        return bool(done.matched_count)

    async def _starting(self, doc: Document) -> bool:
        number = doc["_id"]
        whole = await self._col.find_one({"_id": number, "state": State.STARTING.value}, {"members": 1})
        if whole is None:
            return True
        await self._reruns.mark(number, whole["members"])
        failpoint.hit("rejudge-mark")
        async for _ in self._reruns.create(doc, whole["members"], clock.wall()):
            if not await self._col.find_one({"_id": number, "state": State.STARTING.value}, {"_id": 1}):
                return True  # cancelled meanwhile
        total = await self._tasks.count_documents({"rejudging": number, "rerun_of": None})
        late = doc["total"] - total  # taken by another rejudging between the choice and the marks
        await self._move(doc, state=State.RUNNING.value, total=total, skipped=doc["skipped"] + late)
        log.info("rejudging %d: %d runs wait, trace %s", number, total, doc["trace"])
        return True

    async def _running(self, doc: Document) -> bool:
        if await self._reruns.unfinished(doc["_id"]):
            return False
        if await self._move(doc, state=State.FINISHED.value, finished=clock.wall()):
            log.info("rejudging %d is finished: it can be applied or cancelled, trace %s", doc["_id"], doc["trace"])
        return True

    async def _applying(self, doc: Document) -> bool:
        number = doc["_id"]
        await self._reruns.stage(number, doc["reason"])
        failpoint.hit("rejudge-staged")
        switch = {"_id": verdicts.SWITCH}
        await self._db.meta.update_one(switch, {"$setOnInsert": {"generation": 0, "folding": []}}, upsert=True)
        # This one write changes all its verdicts.
        await self._db.meta.update_one(
            {**switch, "folding": {"$ne": number}}, {"$push": {"folding": number}, "$inc": {"generation": 1}}
        )
        failpoint.hit("rejudge-switched")
        if await self._move(doc, state=State.APPLIED.value):
            ENDED.labels("applied").inc()
            log.info("rejudging %d is applied: its verdicts are in force, trace %s", number, doc["trace"])
        return True

    async def _applied(self, doc: Document) -> bool:
        number = doc["_id"]
        await self._reruns.fold(number)
        failpoint.hit("rejudge-folded")
        await self._reruns.remove(number)
        await self._unswitch([number])
        failpoint.hit("rejudge-unswitched")
        return await self._settle(doc)

    async def _unswitch(self, numbers: list[int]) -> None:
        await self._db.meta.update_one(
            {"_id": verdicts.SWITCH, "folding": {"$in": numbers}},
            {"$pull": {"folding": {"$in": numbers}}, "$inc": {"generation": 1}},
        )

    async def _cancelled(self, doc: Document) -> bool:
        await self._reruns.stop(doc["_id"])
        failpoint.hit("rejudge-stopped")
        await self._reruns.remove(doc["_id"])
        return await self._settle(doc)

    async def _settle(self, doc: Document) -> bool:
        await self._col.update_one({"_id": doc["_id"]}, {"$set": {"settled": True}, "$unset": {"members": ""}})
        return False

    async def close(self) -> None:
        """Drop what is under way; the leader takes it up."""
        work = list(self._work.values())
        for one in work:
            one.cancel()
        await asyncio.gather(*work, return_exceptions=True)

    # --- the leader --------------------------------------------------------------------------------------------

    async def run(self, leading: Callable[[], bool]) -> None:
        """While leading, take care of every open rejudging, also of those whose judicator has died."""
        while True:
            await asyncio.sleep(_PERIOD)
            if leading():
                try:
                    await self.sweep()
                except PyMongoError as exc:
                    if not away(exc):
                        raise
                    log.warning("rejudgings are put off, the database does not answer: %s", str(exc)[:200])

    async def sweep(self) -> None:
        """One pass over the open rejudgings; now and then over what a slow judicator may have left behind."""
        async for doc in self._col.find({"settled": False}, {"_id": 1}):
            if doc["_id"] not in self._work:
                await self._loops.item("rejudging", doc["_id"], functools.partial(self.advance, doc["_id"]))
        self._passes += 1
        if self._passes % _TIDY == 0:
            await self._loops.item("rejudgings", "tidying", self.tidy)

    async def tidy(self) -> None:
        """Remove what a judicator wrote for a rejudging after another one had settled it."""
        found = await self._reruns.numbers()
        now = await verdicts.generation(self._db)
        opened = {doc["_id"] async for doc in self._col.find({"settled": False}, {"_id": 1})}
        for number in sorted(found - opened):
            log.warning("rejudging %d is over, but tasks are still part of it: they are let go", number)
            await self._reruns.stop(number)
            await self._reruns.remove(number)
        if now.folding - opened:
            await self._unswitch(sorted(now.folding - opened))


def _ended(request: RejudgeAct, cells: list[Document]) -> Document:
    """What is kept of a rejudging when somebody ends it."""
    return {
        "ended": clock.wall(),
        "ended_by": request.user,
        "call": request.key,
        "counts": counts(cells),
        "matrix": matrix(cells),
    }


def _why_not_apply(seen: Rejudging) -> str:
    """One sentence for a rejudging that cannot be applied as it is."""
    if seen.state in {State.STARTING, State.RUNNING}:
        return (
            f"rejudging {seen.id} is not finished: {seen.done} of {seen.total} are judged; "
            "apply it when all are, or cancel it"
        )
    return f"rejudging {seen.id} is {seen.state} already; nothing to apply"
