"""The tasks: the only module that writes task documents (docs/protocol.md, rules 1 to 4).

Every transition is one compare-and-set on one document, acknowledged by a majority with journal, so it does not
matter how many judicators (or leaders) act at once, or how often a request arrives.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import uuid
from collections.abc import Iterable
from typing import Any, Final, Protocol

from bson import ObjectId, Timestamp
from prometheus_client import Counter
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from judge import clock, failpoint
from judge.allowance import Allowances
from judge.errors import ConflictError, NotFoundError
from judge.judicator import documents
from judge.judicator.database import Database, Document
from judge.judicator.documents import HELD_FIELDS, Held
from judge.judicator.queue.adding import Adding, too_many
from judge.judicator.queue.order import RANKS, STRIKE, Capacity, back_rank, yields
from judge.judicator.queue.usage import Usage
from judge.judicator.queue.waiting import BEHIND, FRONT, RUN, Queue, Taker, Waker, lane_of
from judge.judicator.rejudging import verdicts
from judge.judicator.search import search
from judge.model.messages import Assignment, Completed, Executing, ProblemRef, SearchRequest, Status, Submission

log = logging.getLogger(__name__)

ADDED = Counter("judge_tasks_added_total", "Tasks acknowledged", ["priority"])
HANDED = Counter("judge_tasks_handed_out_total", "Hand-outs", ["priority"])
COMPLETED = Counter("judge_tasks_completed_total", "Tasks completed", ["verdict"])
STALE = Counter("judge_stale_claims_total", "Reports about a hand-out that is no longer in force; none was committed")
GIVEN = Counter("judge_tasks_given_back_total", "Hand-outs that ended without a verdict", ["why"])
CANCELLED = Counter("judge_tasks_cancelled_total", "Tasks cancelled", ["state"])

_QUEUED: Final[Document] = {"done": False, "executor": None}
_HISTORY: Final = 50


class Listener(Waker, Protocol):
    """Who is told at once what this judicator changed (the change stream tells of all changes, a little later)."""

    def changed(self, task: ObjectId) -> None:
        """Something that people see has changed."""

    def called(self, executor: str) -> None:
        """An executor has a reason to report now."""


class Tasks:
    """The task documents of one cluster."""

    def __init__(
        self, database: Database, listener: Listener, attempts: int, allowances: Allowances | None = None
    ) -> None:
        """`attempts` is the cap after which a task ends as internal_error, `allowances` what each role may take."""
        self._db = database
        self._tasks = database.tasks
        self._listener = listener
        self._attempts = attempts
        self._allowances = allowances or Allowances()
        self.usage = Usage(database)
        self.queue = Queue(database, listener, self._allowances)
        self._adding = Adding()
        self._claiming: set[ObjectId] = set()

    # --- people ------------------------------------------------------------------------------------------------

    async def known(self, submission: Submission, digest: str) -> Document | None:
        """The task that this idempotency key made before, be it a moment ago; ConflictError: from other content."""
        key = documents.key_of(submission)
        if key is None:
            return None
        doc = await self._db.latest(self._tasks, {"key": key})
        if doc is not None and doc["digest"] != digest:
            raise ConflictError(
                f"the idempotency key '{submission.idempotency_key}' was used for another submission "
                f"({doc['_id']}); use a new key for new content"
            )
        return doc

    async def add(
        self,
        submission: Submission,
        problem: ProblemRef | None,
        digest: str,
        capacity: Capacity,
        *,
        size: int = 0,
        output: int = 0,
    ) -> tuple[Document, bool]:
        """Queue a task (seed: Add); (document, whether it is new). A majority has it in its journal on return.

        `size` is what it takes in the database, `output` what is reserved until it is done, as `Usage` has counted
        them. LimitError when as many tasks of the user wait as may wait at once.
        """
        doc = documents.new(submission, problem, digest, clock.wall())
        doc["bytes"] = size + output
        if output:
            doc["reserved"] = output
        doc["rank"] = RANKS[submission.priority]
        doc["arrival"] = Timestamp(0, 0)  # mongod puts its logical clock in the place of an empty timestamp
        try:
            with self._adding.begin(submission.user, doc["rank"]) as one:
                cap = self._allowances.of(submission.role).waiting
                look = functools.partial(self.queue.place, lane_of(doc), doc["priority"], capacity)
                full = functools.partial(self.queue.full, submission.user, cap or 0)
                async with self._adding.admitted(submission.user, one, cap, look=look, full=full) as place:
                    if place is None:
                        log.info(
                            "user '%s' is refused another task: %d wait, the most for role '%s'",
                            *(submission.user, cap, submission.role),
                        )
                        raise too_many(submission.user, cap or 0)
                    doc["order"] = self._adding.settle(submission.user, one, place.now, place.mine, place.last)
                    doc["waits"] = BEHIND if place.behind else FRONT
                    await self._tasks.insert_one(doc)
        except DuplicateKeyError:
            known = await self.known(submission, digest)
            if known is None:
                raise
            return known, False
        ADDED.labels(submission.priority).inc()
        log.info(
            "task %s added: user '%s', %s, %s priority, trace %s",
            *(doc["_id"], doc["user"], _what(doc), doc["priority"], doc["trace"]),
        )
        if doc["waits"] == FRONT:
            self._listener.queued(doc["_id"], 0, doc["needs"])
        else:
            await self.queue.added(lane_of(doc))
        return doc, True

    async def get(self, task: ObjectId, version: int = 0) -> Document:
        """One task (seed: Get), not older than `version`, with the verdict that is in force; NotFoundError."""
        doc = await self._db.find(self._tasks, {"_id": task})
        if doc is not None and doc["version"] < version:  # as `Database.find`: the one who asks has seen more
            doc = await self._db.latest(self._tasks, {"_id": task})
        if doc is not None and verdicts.is_staged(doc):
            # The switch first: a verdict that somebody has seen elsewhere is never taken back by this answer.
            now = await verdicts.generation(self._db)
            doc = await self._db.find(self._tasks, {"_id": task})
            doc = None if doc is None else verdicts.current(doc, now.folding)
        if doc is None:
            raise NotFoundError(f"there is no submission {task}")
        return doc

    async def seen(self, task: ObjectId, version: int = 0) -> tuple[int, bool]:
        """The version of a task, not older than `version`, and whether it is done; NotFoundError."""
        fields = {"version": 1, "done": 1, "staged.rejudging": 1}
        doc = await self._db.find(self._tasks, {"_id": task}, fields)
        if doc is not None and doc["version"] < version:
            doc = await self._db.latest(self._tasks, {"_id": task}, fields)
        if doc is not None and verdicts.is_staged(doc):
            now = await verdicts.generation(self._db)  # as in `get`: the switch first
            doc = await self._db.find(self._tasks, {"_id": task}, fields)
            if doc is not None and verdicts.is_staged(doc):
                doc["version"] += doc["staged"]["rejudging"] in now.folding
        if doc is None:
            raise NotFoundError(f"there is no submission {task}")
        return doc["version"], doc["done"]

    async def search(self, request: SearchRequest) -> list[Document]:
        """Up to `limit` tasks, newest first, without their big fields (seed: Search); see search.py."""
        return await search(self._db, request)

    async def cancel(self, task: ObjectId, *, rerun: bool = False) -> Document:
        """End a task that is not done (seed: Cancel); one that is cancelled already is answered as it is.

        A running one is dropped by its executor at its next report. ConflictError when there is a verdict, and for a
        run of a rejudging unless `rerun` says that the rejudging itself is being cancelled.
        """
        while True:
            doc = await self._db.latest(self._tasks, {"_id": task})
            if doc is None:
                raise NotFoundError(f"there is no submission {task}")
            if doc["status"] == Status.CANCELLED:
                return doc
            if doc.get("rerun_of") is not None and not rerun:
                raise ConflictError(
                    f"{task} is a run of rejudging {doc['rejudging']}; cancel that as a whole: "
                    f"`judgectl rejudge cancel {doc['rejudging']}`"
                )
            if doc["done"]:
                raise ConflictError(f"submission {task} is finished already ({doc['status']}); nothing to cancel")
            same = {"_id": task, "done": False, "executor": doc["executor"], "claim": doc["claim"]}
            after = await self._finish(
                {**same, "attempt": doc["attempt"]},
                documents.held(doc),
                {"status": Status.CANCELLED.value, "freed": doc["executor"]},
                whole=True,
            )
            if after is not None:
                if doc["executor"] is None and not rerun:
                    await self.queue.refill(lane_of(doc))
                CANCELLED.labels("waiting" if doc["executor"] is None else "running").inc()
                where = f"running on {doc['executor']}" if doc["executor"] else "waiting"
                log.info("task %s cancelled (%s), trace %s", task, where, doc.get("trace", ""))
                if doc["executor"] is not None:
                    self._listener.called(doc["executor"])
                return after

    # --- executors ---------------------------------------------------------------------------------------------

    async def held_by(self, executor: str) -> dict[str, Held]:
        """What the database says this executor has in hand, by id."""
        found = self._tasks.find({"executor": executor, "done": False}, HELD_FIELDS)
        return {str(doc["_id"]): documents.held(doc) async for doc in found}

    async def running(self) -> list[Held]:
        """Every hand-out in force; for the leader's sweep."""
        found = self._tasks.find({"done": False, "executor": {"$gt": ""}}, HELD_FIELDS)
        return [documents.held(doc) async for doc in found]

    async def beat(self, one: Held, executing: Executing) -> bool:
        """Note that an executor still works on a hand-out; False when it is no longer in force."""
        status = executing.status if executing.status in _WORKING else Status.RUNNING
        progress = documents.cut(executing.progress, 200)
        news = (status, progress) != (one.status, one.progress)
        update: Document = {"$inc": {"beat": 1}}
        if news or executing.waiting != one.waiting:
            update["$set"] = {"status": status.value, "progress": progress, "waiting": executing.waiting}
            update["$inc"]["version"] = int(news)
        done = await self._tasks.update_one(_force(one), update)
        if done.matched_count and news:
            self._listener.changed(one.id)
        return bool(done.matched_count)

    async def complete(self, one: Held, completed: Completed) -> bool:
        """Commit a verdict; True when it is committed now, False when nothing matched (ask `settled` then)."""
        verdict = completed.verdict.value if completed.verdict is not None else None
        result = documents.fit(completed.result)
        blob = completed.result.stdout_blob
        # Runs of rejudgings are the judges' own.
        more = 0 if yields(RANKS[one.priority]) else await self.usage.weigh(result, [blob] if blob else [])
        after = await self._finish(
            _force(one),
            one,
            {"status": completed.status.value, "verdict": verdict, "judged_by": one.executor, "result": result},
            _past(one, f"judged: {verdict}"),
            blob=blob,
            more=more,
        )
        if after is None:
            return False
        COMPLETED.labels(verdict).inc()
        log.info("task %s is %s on %s (attempt %d), trace %s", one.id, verdict, one.executor, one.attempt, one.trace)
        return True

    async def settled(self, executor: str, completed: Completed) -> bool:
        """Whether this very completion was committed before (its answer got lost, and it came again)."""
        doc = await self._db.latest(
            self._tasks, {"_id": ObjectId(completed.id)}, {"done": 1, "judged_by": 1, "attempt": 1, "claim": 1}
        )
        mine = (True, executor, completed.attempt, completed.claim)
        return doc is not None and (doc["done"], doc["judged_by"], doc["attempt"], doc["claim"]) == mine

    async def give_back(self, one: Held, why: str, reason: str, *, weight: int = STRIKE, silent: bool = False) -> bool:
        """Return a hand-out to the head of the queue, or end the task when its attempts are used up.

        `why` is the metric's label, `reason` the sentence kept in the history, `weight` what it
        counts against the cap (order.STRIKE …).
        With `silent` only if no sign of life has come since `one` was read. False when it was no longer in force.
        """
        force = {**_force(one), "beat": one.beat} if silent else _force(one)
        strikes = one.strikes + weight
        past = _past(one, reason)
        if strikes >= STRIKE * self._attempts:
            result = documents.gave_up([*one.history, past])
            end = {**documents.JUDGE_ERROR, "judged_by": one.executor, "result": result, "strikes": strikes}
            after = await self._finish(force, one, end, past)
            if after is not None:
                COMPLETED.labels("JE").inc()
                log.error("task %s is given up, trace %s: %s", one.id, one.trace, result["reason"])
        else:
            failed = sorted({*one.failed, one.executor} if weight == STRIKE else one.failed)
            update: Document = {
                "$set": {
                    "status": Status.RETRYING.value,
                    "waits": RUN if yields(back_rank(one.priority)) else FRONT,
                    "failed": failed,
                    "tried": ",".join(failed),
                    "executor": None,
                    "incarnation": None,
                    "claim": None,
                    "rank": back_rank(one.priority),
                    "strikes": strikes,
                    "progress": "",
                },
                "$push": {"history": {"$each": [past], "$slice": -_HISTORY}},
                "$unset": {"seat": ""},
                "$inc": {"version": 1},
            }
            after = await self._tasks.find_one_and_update(
                force, update, {"needs": 1, "attempt": 1}, return_document=ReturnDocument.AFTER
            )
            if after is not None:
                log.warning(
                    "task %s given back by %s (attempt %d), trace %s: %s",
                    *(one.id, one.executor, one.attempt, one.trace, reason),
                )
                self._listener.queued(one.id, one.attempt, after["needs"])
                self._listener.changed(one.id)
                if one.seat is not None:
                    await self.queue.freed(one.user)
        if after is not None:
            GIVEN.labels(why).inc()
        return after is not None

    async def hand_out(self, taker: Taker, count: int, capacity: Capacity, ahead: int = 0) -> list[Assignment]:
        """Claim up to `count` waiting tasks for an executor, in the order of the queue.

        The last `ahead` of so many will wait there for a slot. `capacity` is the cluster's, with this executor's.
        """
        taken: list[Assignment] = []
        full: set[str] = set()
        while len(taken) < count:
            found = await self._next(taker, count - len(taken), capacity, full)
            if found is None:
                break
            docs = await asyncio.gather(
                *(
                    self._claim(taker, one, seat, waits=place >= count - ahead)
                    for place, (one, seat) in enumerate(found, start=len(taken))
                )
            )
            mine = [doc for doc in docs if doc is not None]
            taken += [documents.to_assignment(doc, self._allowances) for doc in mine]
            lanes = {lane_of(doc) for doc in mine if not yields(doc["rank"])}
            if len(taken) < count:
                await asyncio.gather(*map(self.queue.refill, lanes))
            else:
                for lane in lanes:
                    self.queue.refill_later(lane)
        return taken

    async def waiting_for(self, taker: Taker, capacity: Capacity) -> bool:
        """Whether a report of this executor would be handed something now; the same choice as hand_out's."""
        full: set[str] = set()
        while (found := await self._next(taker, 1, capacity, full)) is not None:
            if found:
                return True
        return False

    async def _next(
        self, taker: Taker, count: int, capacity: Capacity, full: set[str]
    ) -> list[tuple[Document, int | None]] | None:
        """Up to `count` tasks for an executor with their seats; None when nothing waits that it could take.

        Users who turn out to hold all that they may are added to `full`: then there may be none in this answer, and
        others in the next.
        """
        # More than asked for, as others here may be claiming some.
        found = await self.queue.candidates(taker, count + len(self._claiming), capacity, full)
        found = [one for one in found if one["_id"] not in self._claiming][:count]
        return await self.queue.seated(found, capacity, full) if found else None

    async def _claim(self, taker: Taker, candidate: Document, seat: int | None, *, waits: bool) -> Document | None:
        """Compare-and-set one waiting task to this executor; None when somebody else was faster, also with the seat."""
        task = candidate["_id"]
        self._claiming.add(task)
        try:
            doc = await self._tasks.find_one_and_update(
                {"_id": task, **_QUEUED, "attempt": candidate["attempt"]},
                {
                    "$set": {
                        "status": Status.COMPILING.value,
                        "executor": taker.name,
                        "incarnation": taker.incarnation,
                        "claim": uuid.uuid4().hex,
                        "handed": taker.sequence,
                        "beat": 0,
                        "waiting": waits,
                        "progress": "",
                        "started": clock.wall(),
                        **({} if seat is None else {"seat": seat}),
                    },
                    "$unset": {"waits": ""},
                    "$inc": {"attempt": 1, "version": 1},
                },
                return_document=ReturnDocument.AFTER,
            )
        except DuplicateKeyError:
            return None
        finally:
            self._claiming.discard(task)
        if doc is not None:
            HANDED.labels(doc["priority"]).inc()
            log.info("task %s handed to %s (attempt %d), trace %s", task, taker.name, doc["attempt"], doc.get("trace"))
            self._listener.changed(task)
        return doc

    async def again(self, ones: Iterable[Held]) -> list[Assignment]:
        """Hand-outs that are in force, as messages: the answer that carried them got lost."""
        wanted = {one.id: one.claim for one in ones}
        if not wanted:
            return []
        found = self._tasks.find({"_id": {"$in": list(wanted)}, "done": False})
        docs = [doc async for doc in found if doc["claim"] == wanted[doc["_id"]]]
        return [documents.to_assignment(doc, self._allowances) for doc in docs]

    # --- both --------------------------------------------------------------------------------------------------

    async def _finish(
        self,
        force: Document,
        one: Held,
        fields: Document,
        past: Document | None = None,
        *,
        blob: str | None = None,
        more: int = 0,
        whole: bool = False,
    ) -> Document | None:
        """Compare-and-set to an end; the document after it (its id, unless `whole`), None when nothing matched.

        `more` are the bytes that its result takes; what was reserved for it is given back.
        """
        now = clock.wall()
        update: Document = {
            "$set": {
                **fields,
                "done": True,
                "executor": None,
                "progress": "",
                "finished": now,
                # Two judicators' clocks may differ: a figure to look at, never below zero, in no decision.
                "latency": max(0.0, (now - one.created).total_seconds()),
            },
            "$unset": {"waits": "", "seat": "", "reserved": ""},
            "$inc": {"version": 1},
        }
        if more := more - one.reserved:
            update["$inc"]["bytes"] = more
        if past is not None:
            update["$push"] = {"history": {"$each": [past], "$slice": -_HISTORY}}
        if blob is not None:
            update["$addToSet"] = {"blobs": blob}
        fields_back = None if whole else {"_id": 1}
        after = await self._tasks.find_one_and_update(force, update, fields_back, return_document=ReturnDocument.AFTER)
        if after is not None:
            self._listener.changed(after["_id"])
            failpoint.hit("task-ended")
            self.usage.later(one.user, more)
            if one.seat is not None:
                await self.queue.freed(one.user)
        return after

    async def remove_finished(self, before: Any, count: int) -> int:
        """Delete up to `count` finished tasks that ended before a moment of wall time (retention only)."""
        # What an open rejudging is about stays until it is applied or cancelled.
        free = {"done": True, "finished": {"$lt": before}, "rejudging": None}
        docs = await self._tasks.find(free, {"user": 1, "bytes": 1}, limit=count).to_list()
        if not docs:
            return 0
        same = {"_id": {"$in": [doc["_id"] for doc in docs]}, "done": True, "rejudging": None}
        deleted = (await self._tasks.delete_many(same, hint="_id_")).deleted_count
        if deleted == len(docs):  # else somebody else has a part of them, and the recount will see
            await self.usage.gone(docs)
        return deleted


_WORKING = (Status.COMPILING, Status.RUNNING)


def _force(one: Held) -> Document:
    """The filter of rule 2: this hand-out, still in force."""
    return {"_id": one.id, "done": False, "executor": one.executor, "attempt": one.attempt, "claim": one.claim}


def _past(one: Held, reason: str) -> Document:
    return {"attempt": one.attempt, "executor": one.executor, "reason": documents.cut(reason, 1000)}


def _what(doc: Document) -> str:
    """What kind of task this is, for the log."""
    problem = doc["problem"]
    return f"{doc['language'] or 'command'}" + (f", problem {problem['name']}" if problem else "")
