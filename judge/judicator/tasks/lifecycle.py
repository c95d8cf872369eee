"""The life of tasks: added, given back, judged, cancelled (docs/protocol.md, rules 1, 2 and 4).

Every transition is one compare-and-set on one document, acknowledged by a majority with journal, so it does not
matter how many judicators (or leaders) act at once, or how often a request arrives.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence, Set
from typing import Any, Final, Literal, get_args

from bson import ObjectId, Timestamp
from prometheus_client import Counter as Metric
from pymongo import ReturnDocument
from pymongo.errors import BulkWriteError, DuplicateKeyError

from judge.common import clock, failpoint
from judge.common.errors import ConflictError, LimitError, NotFoundError
from judge.config.allowance import Allowances, Quota
from judge.daemon import tracing
from judge.judicator.batching import Batcher
from judge.judicator.coroutines import in_thread_if_large
from judge.judicator.database import Database, one_by_one
from judge.judicator.documents import HistoryEntry, TaskDocument
from judge.judicator.figures.minutes import Counts
from judge.judicator.hub import Hub
from judge.judicator.queue.order import FULL_PENALTY, RANKS, back_rank, is_rejudge
from judge.judicator.replica import WAITS, Replica
from judge.judicator.tasks import forms, results
from judge.judicator.tasks.assigning import Assigner, Working
from judge.judicator.tasks.forms import HAND_OUT_FIELDS, HandOut
from judge.judicator.tasks.reading import TaskReader
from judge.judicator.tasks.writing import BulkWriter
from judge.judicator.usage import Usage
from judge.model.messages import Completed, Executing, Status, Submission, Verdict
from judge.mongodb.store import Bson

log = logging.getLogger(__name__)

ADDED = Metric("judge_tasks_added_total", "Tasks acknowledged", ["priority"])
COMPLETED = Metric("judge_tasks_completed_total", "Tasks completed", ["verdict"])
# An alert hears of no first one when the series begins with it.
for _verdict in Verdict:
    COMPLETED.labels(_verdict)
STALE = Metric("judge_stale_claims_total", "Reports about a hand-out that is no longer in force; none was committed")
GIVEN = Metric("judge_tasks_given_back_total", "Hand-outs that ended without a verdict", ["why"])
Why = Literal["executor", "restarted", "lost", "unlisted", "dead", "expired"]
for _why in get_args(Why):
    GIVEN.labels(_why)
CANCELLED = Metric("judge_tasks_cancelled_total", "Tasks cancelled", ["state"])

# Of the hand-outs of a task so many are remembered.
HISTORY: Final = 50
# New tasks that are stored by one command; one of more bytes than this goes alone, as others would wait for it.
_INSERTS: Final = 100
_SMALL: Final = 256 * 1024
_WORKING: Final = (Status.COMPILING, Status.RUNNING)
# Seconds for which a heartbeat need not be written.
FRESH: Final = 0.5


class Tasks:
    def __init__(
        self,
        database: Database,
        hub: Hub,
        replica: Replica,
        attempts: int,
        allowances: Allowances,
    ) -> None:
        """`attempts` is the cap after which a task ends as internal_error, `allowances` what each role may take."""
        self._db = database
        self._tasks = database.tasks
        self._hub = hub
        self.replica = replica
        self._attempts = attempts
        self._allowances = allowances
        self.usage = Usage(database)
        self.counts = Counts()
        self.reader = TaskReader(database)
        self.assigner = Assigner(database, replica, hub.changed, self._allowances)
        replica.on_unreadable = self._end_unreadable
        # The number of each user's tasks that are being stored here at this moment.
        self._adding: Counter[str] = Counter()
        self._ends = BulkWriter(database, documents=False)
        self._cancellations = BulkWriter(database, documents=True)
        self._inserts: Batcher[TaskDocument, None] = Batcher(self._insert, _INSERTS)

    # --- people ------------------------------------------------------------------------------------------------

    async def existing(self, submission: Submission, digest: str) -> TaskDocument | None:
        """The task that this idempotency key made before, be it a moment ago; ConflictError: from other content."""
        key = forms.key_of(submission)
        if key is None:
            return None
        doc = await self._db.newest(self._tasks, {"key": key})
        if doc is not None and doc["digest"] != digest:
            raise ConflictError(
                f"the idempotency key '{submission.idempotency_key}' was used for another submission "
                f"({doc['_id']}); use a new key for new content"
            )
        return doc

    async def add(
        self,
        submission: Submission,
        doc: TaskDocument,
        *,
        size: int = 0,
        output: int = 0,
        quota: Quota | None = None,
        confirm: Callable[[], Awaitable[None]] | None = None,
    ) -> tuple[TaskDocument, bool]:
        """Queue a task (seed: Add); (document, whether it is new). A majority has it in its journal on return.

        `doc` is that of `forms.new`, `size` what it takes in the database, `output` what is reserved until it is done
        as `Usage` has counted them, which `confirm` waits for: LimitError where it is too much. `quota` is what its
        user may take in place of the role's figures. LimitError when as many tasks of the user wait as may wait.
        """
        begin = tracing.now()
        doc["bytes"] = size + output
        if output:
            doc["reserved"] = output
        if own := quota.model_dump(exclude_none=True) if quota is not None else {}:
            doc["quota"] = own
        doc["rank"] = RANKS[submission.priority]
        doc["waits"] = WAITS
        doc["arrival"] = Timestamp(0, 0)  # mongod puts its logical clock in the place of an empty timestamp
        cap = self._allowances.of(submission.role, quota).waiting
        if self.full(submission.user, cap):
            log.info(
                "user '%s' is refused another task: %d wait, the most for role '%s'",
                *(submission.user, cap, submission.role),
            )
            raise too_many(submission.user, cap or 0)
        self._adding[submission.user] += 1
        try:
            if confirm is not None:
                await confirm()
            await (self._inserts.ask(doc) if size <= _SMALL else self._tasks.insert_one(doc))
            self.replica.add(doc)
        except DuplicateKeyError:
            existing = await self.existing(submission, doc["digest"])
            if existing is None:
                raise
            return existing, False
        finally:
            self._adding[submission.user] -= 1
            if not self._adding[submission.user]:
                del self._adding[submission.user]
        ADDED.labels(submission.priority).inc()
        log.info(
            "task %s added: user '%s', %s, %s priority, trace %s",
            *(doc["_id"], doc["user"], _kind_of(doc), doc["priority"], doc["trace"]),
        )
        _queue_span(doc, begin)
        return doc, True

    def full(self, user: str, cap: int | None) -> bool:
        """Return whether as many tasks of a user wait, or are being stored, as may wait at once."""
        return cap is not None and self.replica.queue.waiting_of(user) + self._adding[user] >= cap

    async def _insert(self, docs: Sequence[TaskDocument]) -> list[Exception | None]:
        try:
            await self._tasks.insert_many(docs, ordered=False)
        except BulkWriteError as exc:
            return one_by_one(len(docs), exc)
        return [None] * len(docs)

    async def cancel(self, task: ObjectId, *, rerun: bool = False, purged: bool = False) -> TaskDocument:
        """End a task that is not done (seed: Cancel); one that is cancelled already is answered as it is.

        A running one is dropped by its executor at its next report. ConflictError when there is a verdict, and for a
        run of a rejudging unless `rerun` says that the rejudging itself is being cancelled. Of a `purged` user no
        counter is left.
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
            hand_out = forms.hand_out(doc)
            end: TaskDocument = {"status": Status.CANCELLED.value, "freed": doc["executor"]}
            # Its executor may be storing its output at this moment: what is reserved for that is the recount's to give.
            counted = purged or doc["executor"] is None
            after = await self._finish(claim_filter(hand_out), hand_out, end, document=True, counted=counted)
            if after is not None:
                CANCELLED.labels("waiting" if doc["executor"] is None else "running").inc()
                where = f"running on {doc['executor']}" if doc["executor"] else "waiting"
                log.info("task %s cancelled (%s), trace %s", task, where, doc.get("trace", ""))
                if doc["executor"] is not None:
                    self.assigner.call(doc["executor"])
                return after

    # --- executors ---------------------------------------------------------------------------------------------

    async def hand_outs_of(self, executor: str, claims: Set[tuple[str, str]]) -> dict[str, HandOut]:
        """The hand-outs of an executor that are in force, by task id.

        `claims` are the tasks and claims that it names. If one of them is missing, the database may have answered from
        before its last election: the hand-outs are read again after a linearizable read.
        """
        hand_outs = await self._read_hand_outs(executor)
        if not claims <= {(task, hand_out.claim) for task, hand_out in hand_outs.items()}:
            await self._db.latest(self._db.meta, {"_id": "catch_up"})
            hand_outs = await self._read_hand_outs(executor)
        return hand_outs

    async def _read_hand_outs(self, executor: str) -> dict[str, HandOut]:
        tasks = self._tasks.find({"executor": executor, "done": False}, HAND_OUT_FIELDS)
        return {str(task["_id"]): forms.hand_out(task) async for task in tasks}

    async def running(self) -> list[HandOut]:
        """Every hand-out in force; for the leader's sweep."""
        tasks = self._tasks.find({"done": False, "executor": {"$gt": ""}}, HAND_OUT_FIELDS)
        return [forms.hand_out(task) async for task in tasks]

    async def heartbeat(self, hand_out: HandOut, executing: Executing) -> bool:
        """Note that an executor still works on a hand-out; False when it is no longer in force.

        The leader remembers it. Another status or progress is stored twice a second: short tasks end before.
        """
        status = executing.status if executing.status in _WORKING else Status.RUNNING
        working = Working(status.value, results.cut(executing.progress, 200), executing.waiting)
        beats, now = self.assigner.beat(hand_out, working), clock.monotonic()
        if working == beats.stored or now - beats.since < FRESH:
            return True
        news = working[:2] != beats.stored[:2]
        beats.stored, beats.since = working, now
        update: Bson = {"$set": working._asdict(), "$inc": {"heartbeat": 1, "version": int(news)}}
        done = await self._tasks.update_one(claim_filter(hand_out), update)
        if not done.matched_count:
            return False
        version = hand_out.version + int(news)
        self.assigner.note(
            dataclasses.replace(hand_out, **working._asdict(), heartbeat=hand_out.heartbeat + 1, version=version)
        )
        if news:
            self._hub.changed(hand_out.id, version)
        return True

    async def complete(self, hand_out: HandOut, completed: Completed) -> bool:
        """Commit a verdict; True when it is committed now, False when nothing matched (ask `settled` then)."""
        verdict = completed.verdict.value if completed.verdict is not None else None
        result = await in_thread_if_large(len(completed.result.tests), lambda: results.fit(completed.result))
        blob = completed.result.stdout_blob
        # Runs of rejudgings are the judges' own.
        stored_bytes = (
            0 if is_rejudge(RANKS[hand_out.priority]) else await self.usage.size_of(result, [blob] if blob else [])
        )
        end: TaskDocument = {
            "status": completed.status.value,
            "verdict": verdict,
            "judged_by": hand_out.executor,
            "result": result,
        }
        entry = _history_entry(hand_out, f"judged: {verdict}")
        after = await self._finish(claim_filter(hand_out), hand_out, end, entry, blob=blob, stored_bytes=stored_bytes)
        if after is None:
            return False
        COMPLETED.labels(verdict).inc()
        log.info(
            "task %s is %s on %s (attempt %d), trace %s",
            *(hand_out.id, verdict, hand_out.executor, hand_out.attempt, hand_out.trace),
        )
        return True

    async def settled(self, executor: str, completed: Completed) -> bool:
        """Return whether this very completion was committed before (its answer got lost, and it came again)."""
        doc = await self._db.latest(
            self._tasks, {"_id": ObjectId(completed.id)}, {"done": 1, "judged_by": 1, "attempt": 1, "claim": 1}
        )
        expected = (True, executor, completed.attempt, completed.claim)
        return doc is not None and (doc["done"], doc["judged_by"], doc["attempt"], doc["claim"]) == expected

    async def give_back(
        self, hand_out: HandOut, why: Why, reason: str, *, penalty: int = FULL_PENALTY, silent: bool = False
    ) -> bool:
        """Return a hand-out to the head of the queue, or end the task when its attempts are used up.

        `why` is the metric's label, `reason` the sentence kept in the history, `penalty` what it counts against the
        cap (order.FULL_PENALTY …). With `silent` only if no heartbeat has come since `hand_out` was read. False when it
        was no longer in force.
        """
        match: Bson = claim_filter(hand_out) | ({"heartbeat": hand_out.heartbeat} if silent else {})
        total = hand_out.penalty + penalty
        entry = _history_entry(hand_out, reason)
        if total >= FULL_PENALTY * self._attempts:
            changed = await self._give_up(match, hand_out, entry, total)
        else:
            changed = await self._return(match, hand_out, entry, total, failed=penalty == FULL_PENALTY)
        if changed:
            GIVEN.labels(why).inc()
        return changed

    async def _give_up(self, match: Bson, hand_out: HandOut, entry: HistoryEntry, penalty: int) -> bool:
        result = results.gave_up([*hand_out.history, entry])
        end: TaskDocument = {
            "status": Verdict.JE.about.status.value,
            "verdict": Verdict.JE.value,
            "judged_by": hand_out.executor,
            "result": result,
            "penalty": penalty,
        }
        if await self._finish(match, hand_out, end, entry) is None:
            return False
        COMPLETED.labels("JE").inc()
        log.error("task %s is given up, trace %s: %s", hand_out.id, hand_out.trace, result["reason"])
        return True

    async def _return(self, match: Bson, hand_out: HandOut, entry: HistoryEntry, penalty: int, *, failed: bool) -> bool:
        """Put a task back into the queue; `failed` says that its executor has failed it."""
        failers = sorted({*hand_out.failed, hand_out.executor} if failed else hand_out.failed)
        rank = back_rank(hand_out.priority)
        fields: TaskDocument = {
            "status": Status.RETRYING.value,
            "waits": WAITS,
            "failed": failers,
            "tried": ",".join(failers),
            "executor": None,
            "incarnation": None,
            "claim": None,
            "rank": rank,
            "penalty": penalty,
            "progress": "",
        }
        update: Bson = {
            "$set": fields,
            "$inc": {"version": 1},
            "$currentDate": {"returned": True},
            **_remember(entry),
        }
        after = await self._tasks.find_one_and_update(
            match, update, {"version": 1}, return_document=ReturnDocument.AFTER
        )
        if after is None:
            return False
        self.assigner.forget(hand_out)
        if not self.replica.give_back(hand_out.id, failers, after["version"]):
            await self.replica.refresh(hand_out.id)
        log.warning(
            "task %s given back by %s (attempt %d), trace %s: %s",
            *(hand_out.id, hand_out.executor, hand_out.attempt, hand_out.trace, entry["reason"]),
        )
        self._hub.changed(hand_out.id)
        return True

    async def _end_unreadable(self, task: ObjectId, exc: Exception) -> None:
        """End a task whose document makes no sense, so that it holds up nothing else."""
        result = results.gave_up([])
        result["reason"] = f"the stored submission cannot be read ({type(exc).__name__}); submit it again"
        end: TaskDocument = {
            "status": Verdict.JE.about.status.value,
            "verdict": Verdict.JE.value,
            "result": result,
            "done": True,
            "executor": None,
            "progress": "",
            "latency": None,
        }
        update: Bson = {
            "$set": end,
            "$currentDate": {"finished": True},
            "$unset": {"waits": "", "reserved": ""},
            "$inc": {"version": 1},
        }
        done = await self._tasks.update_one({"_id": task, "done": False}, update)
        self.replica.remove(task)
        if done.matched_count:
            COMPLETED.labels("JE").inc()
            self._hub.changed(task, done=True)
            log.error("task %s is ended, its document cannot be read: %s", task, exc)

    # --- both --------------------------------------------------------------------------------------------------

    async def _finish(
        self,
        match: Bson,
        hand_out: HandOut,
        end: TaskDocument,
        entry: HistoryEntry | None = None,
        *,
        blob: str | None = None,
        stored_bytes: int = 0,
        document: bool = False,
        counted: bool = True,
    ) -> TaskDocument | None:
        """Compare-and-set to an end; returns the document after it or, without `document`, its id. None: no match.

        `stored_bytes` are those of its result. What was reserved for it is given back, to its user if `counted`.
        """
        now = clock.wall()
        fields: TaskDocument = {
            **end,
            "done": True,
            "executor": None,
            "progress": "",
            # Two judicators' clocks may differ: a figure to look at, never below zero, in no decision.
            "latency": max(0.0, (now - hand_out.created).total_seconds()),
        }
        added = stored_bytes - hand_out.reserved
        update: Bson = {
            "$set": fields,
            # By the database's clock: retention deletes by it, and a judicator's own may be days behind.
            "$currentDate": {"finished": True},
            "$unset": {"waits": "", "reserved": ""},
            "$inc": {"version": 1, **({"bytes": added} if added else {})},
            **({} if entry is None else _remember(entry)),
            **({} if blob is None else {"$addToSet": {"blobs": blob}}),
        }
        after = await (self._cancellations if document else self._ends).write(match, update)
        if after is not None:
            self.assigner.forget(hand_out)
            self.replica.remove(hand_out.id)
            self._hub.changed(hand_out.id, hand_out.version + 1, done=True)
            if "verdict" in end:
                self.counts.ended(
                    str(end["verdict"]), fields["latency"] or 0.0, rerun=is_rejudge(RANKS[hand_out.priority])
                )
            _judge_span(hand_out, end)
            failpoint.hit("task-ended")
            if counted:
                self.usage.add_later(hand_out.user, added)
        return after

    async def remove_finished(self, before: Any, count: int) -> int:
        """Delete up to `count` finished tasks that ended before a moment of wall time (retention only)."""
        # Tasks of an open rejudging stay until it is applied or cancelled.
        free = {"done": True, "finished": {"$lt": before}, "rejudging": None}
        docs = await self._tasks.find(free, {"user": 1, "bytes": 1}, limit=count).to_list()
        if not docs:
            return 0
        same = {"_id": {"$in": [doc["_id"] for doc in docs]}, "done": True, "rejudging": None}
        deleted = (await self._tasks.delete_many(same, hint="_id_")).deleted_count
        if deleted == len(docs):  # else somebody else has a part of them, and the recount will see
            await self.usage.subtract(docs)
        return deleted


def too_many(user: str, cap: int) -> LimitError:
    return LimitError(
        f"{cap} submissions of user '{user}' wait to be judged, and no more may wait at once; "
        "hand in again when some of them are judged, or cancel some"
    )


def claim_filter(hand_out: HandOut) -> Bson:
    """The filter of rule 2: this hand-out, still in force."""
    return {
        "_id": hand_out.id,
        "done": False,
        "executor": hand_out.executor,
        "attempt": hand_out.attempt,
        "claim": hand_out.claim,
    }


def _history_entry(hand_out: HandOut, reason: str) -> HistoryEntry:
    return {"attempt": hand_out.attempt, "executor": hand_out.executor, "reason": results.cut(reason, 1000)}


def _remember(entry: HistoryEntry) -> Bson:
    return {"$push": {"history": {"$each": [entry], "$slice": -HISTORY}}}


def _kind_of(task: TaskDocument) -> str:
    problem = task["problem"]
    return (task["language"] or "command") + (f", problem {problem['name']}" if problem else "")


def _queue_span(doc: TaskDocument, begin: int) -> None:
    """A task was stored, from `begin` on (tracing.now)."""
    if not tracing.enabled():
        return
    trace, task = doc["trace"], str(doc["_id"])
    tracing.emit(
        "queue",
        trace,
        tracing.span_number(trace, task, "queue"),
        begin,
        parent=tracing.span_number(trace, task, "add"),
        kind="SERVER",
        submission=task,
        language=doc["language"] or "",
        priority=doc["priority"],
    )


def _judge_span(hand_out: HandOut, end: TaskDocument) -> None:
    """A task has come to its end: the time from when it was handed in. A run of a rejudging nobody has handed in."""
    if not tracing.enabled():
        return
    task = str(hand_out.id)
    rerun = is_rejudge(RANKS[hand_out.priority])
    tracing.emit(
        "judge",
        hand_out.trace,
        tracing.span_number(hand_out.trace, task, "judge"),
        int(hand_out.created.timestamp() * 1e9),
        parent=None if rerun else tracing.span_number(hand_out.trace, task, "add"),
        submission=task,
        executor=hand_out.executor or None,
        attempt=hand_out.attempt,
        status=end["status"],
        verdict=end.get("verdict"),
        failed=end["status"] == "internal_error",
    )
