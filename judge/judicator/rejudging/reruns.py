"""The runs of rejudgings: how they are made, counted, staged, folded in and removed (docs/rejudge.md).

A run ("rerun") is a task of its own that judges the source of a finished submission again, behind everything that
people wait for. It is handed out, reported, swept and cancelled as every task is. Its outcome reaches the submission in
two steps that change nothing for readers, `stage` and `fold`, around the switch between them (verdicts.py).

Every function here may be repeated, and may run at several judicators at once: what is done already is left alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, TypedDict, cast

from bson import ObjectId

from judge.common import failpoint
from judge.common.errors import ConflictError, NotFoundError
from judge.judicator import verdicts
from judge.judicator.database import Database, aggregate
from judge.judicator.documents import ProblemHash, RejudgingDocument, TaskDocument
from judge.judicator.queue.order import RANKS
from judge.judicator.replica import WAITS
from judge.judicator.tasks import forms
from judge.judicator.tasks.lifecycle import Tasks
from judge.mongodb.store import Bson

# Documents of a command that touches a flag or deletes.
_MANY: Final = 2000
# The index for a batch that is named by ids: without this hint the planner walks a whole rejudging for each batch.
_BY_ID: Final = "_id_"
_PRIORITY: Final = "rejudge"
_LEAST: Final = ObjectId(b"\0" * 12)
_SCORE: Final = {"$ifNull": ["$result.score", None]}

# Differences that are large enough to be told: of the verdict, or of the score.
CHANGED: Final[Bson] = {
    "$and": [
        "$done",
        {"$or": [{"$ne": ["$verdict", "$before.verdict"]}, {"$ne": [_SCORE, {"$ifNull": ["$before.score", None]}]}]},
    ]
}


def rerun_id(number: int, task: ObjectId) -> ObjectId:
    """The id of a submission's run in a rejudging: always the same, so that it is never made twice.

    As an ObjectId it is older than every other, so that searches, newest first, do not pass the runs on their way.
    """
    return ObjectId(b"\0" * 4 + hashlib.sha256(f"{number}:{task}".encode()).digest()[:8])


def members(number: int) -> Bson:
    """The query of the submissions in an open rejudging."""
    return {"rejudging": number, "rerun_of": None}


def runs(number: int) -> Bson:
    return {"rejudging": number, "rerun_of": {"$gte": _LEAST}}


class Cell(TypedDict):
    """The number (`n`) of a rejudging's runs of one kind. `after` is None for those that are not judged yet."""

    before: str | None
    after: str | None
    running: bool
    changed: bool
    n: int


class Reruns:
    def __init__(self, database: Database, tasks: Tasks) -> None:
        """`tasks` cancels what executors have in hand."""
        self._db = database
        self._batch = database.batch
        self._col = database.tasks
        self._tasks = tasks

    async def mark(self, number: int, ids: Sequence[ObjectId]) -> None:
        """Make these submissions part of a rejudging, those that are in no other one."""
        for part in _parts(ids, _MANY):
            free = {"_id": {"$in": part}, "done": True, "rejudging": None, "rerun_of": None}
            await self._col.update_many(free, {"$set": {"rejudging": number}}, hint=_BY_ID)

    async def create(
        self, doc: RejudgingDocument, ids: Sequence[ObjectId], now: datetime.datetime
    ) -> AsyncIterator[int]:
        """Queue a run for each of these submissions that is part of rejudging `doc`; yields after every batch."""
        for base in range(0, len(ids), self._batch):
            part = list(ids[base : base + self._batch])
            existing = await self._col.find({"_id": {"$in": _ids(doc, part)}}, {"_id": 1}).to_list()
            if len(existing) < len(part):  # else an earlier try came so far
                await aggregate(
                    self._col,
                    [
                        {"$match": {"_id": {"$in": part}, **members(doc["_id"])}},
                        {"$project": _new_run(doc, part, base, now)},
                        {
                            "$merge": {
                                "into": self._col.name,
                                "on": "_id",
                                "whenMatched": "keepExisting",
                                "whenNotMatched": "insert",
                            }
                        },
                    ],
                    hint=_BY_ID,
                )
            failpoint.hit("rejudge-create")
            yield base + len(part)

    async def unfinished(self, number: int) -> bool:
        return await self._col.find_one({**runs(number), "done": False}, {"_id": 1}) is not None

    async def cells(self, number: int) -> list[Cell]:
        group = {
            "before": "$before.verdict",
            "after": {"$cond": ["$done", {"$ifNull": ["$verdict", "$status"]}, None]},
            "running": {"$and": [{"$not": ["$done"]}, {"$gt": ["$executor", ""]}]},
            "changed": CHANGED,
        }
        steps: list[Bson] = [{"$match": runs(number)}, {"$group": {"_id": group, "n": {"$sum": 1}}}]
        rows = await aggregate(self._col, steps, comment="rejudging")
        return [cast("Cell", {**row["_id"], "n": row["n"]}) for row in rows]

    async def page(self, number: int, *, every: bool, after: ObjectId | None, limit: int) -> list[TaskDocument]:
        """Runs in the order of their submissions; without `every` the changed ones only."""
        query = runs(number)
        if after is not None:
            query["rerun_of"] = {"$gt": after}
        if not every:
            query["$expr"] = CHANGED
        cursor = self._col.find(
            query, {"submission": 0, "history": 0, "result.tests": 0, "result.compile_log": 0, "result.stdout": 0}
        )
        return await cursor.sort([("rerun_of", 1)]).limit(limit).to_list()

    async def applied_page(self, number: int, *, after: ObjectId | None, limit: int) -> list[TaskDocument]:
        """Submissions whose verdict this rejudging has replaced, by id."""
        query: Bson = {"past.rejudging": number}
        if after is not None:
            query["_id"] = {"$gt": after}
        now = await verdicts.generation(self._db)
        cursor = self._col.find(
            query, {"submission.source": 0, "submission.files": 0, "submission.tests": 0, "result.tests": 0}
        )
        return [verdicts.current(doc, now.folding) async for doc in cursor.sort([("_id", 1)]).limit(limit)]

    # --- apply -------------------------------------------------------------------------------------------------

    async def stage(self, number: int, why: str) -> None:
        """Write each run's outcome beside its submission's, with the reason; no reader sees it before the switch."""
        ids = [doc["_id"] async for doc in self._col.find({**runs(number), "done": True}, {"_id": 1})]
        for part in _parts(ids, self._batch):
            await aggregate(
                self._col,
                [
                    {"$match": {"_id": {"$in": part}, **runs(number), "done": True}},
                    {"$project": verdicts.staging(why)},
                    {
                        "$merge": {
                            "into": self._col.name,
                            "on": "_id",
                            # Only while it is part of this rejudging: never again once it is folded in.
                            "whenMatched": [
                                {
                                    "$set": {
                                        "staged": {
                                            "$cond": [{"$eq": ["$rejudging", number]}, "$$new.staged", "$$REMOVE"]
                                        }
                                    }
                                }
                            ],
                            "whenNotMatched": "discard",
                        }
                    },
                ],
                hint=_BY_ID,
            )
            failpoint.hit("rejudge-stage")

    async def fold(self, number: int) -> None:
        """Make the staged outcomes the submissions' own, once they are in force."""
        staged = {**members(number), "staged.rejudging": number}
        while part := await self._col.find(staged, {"_id": 1}).limit(self._batch).to_list():
            ids = [doc["_id"] for doc in part]
            await self._col.update_many({**staged, "_id": {"$in": ids}}, verdicts.FOLD, hint=_BY_ID)
            failpoint.hit("rejudge-fold")

    # --- the end -----------------------------------------------------------------------------------------------

    async def stop(self, number: int) -> None:
        """End what executors have in hand, and remove every run that has not been handed out."""
        while True:
            await self._remove({**runs(number), "executor": None})
            query = {**runs(number), "executor": {"$gt": ""}}
            in_hand = await self._col.find(query, {"_id": 1}).limit(self._batch).to_list()
            if not in_hand:
                return
            for run in in_hand:
                with contextlib.suppress(ConflictError, NotFoundError):  # it has come to its end meanwhile
                    await self._tasks.cancel(run["_id"], rerun=True)

    async def remove(self, number: int) -> None:
        """Remove all runs, and let go of the submissions."""
        await self._remove(runs(number))
        failpoint.hit("rejudge-remove")
        free = {"$unset": {"rejudging": "", "staged": ""}}
        await self._until_none(members(number), lambda part: self._col.update_many(part, free, hint=_BY_ID))

    async def _remove(self, query: Bson) -> None:
        await self._until_none(query, lambda part: self._col.delete_many(part, hint=_BY_ID))

    async def _until_none(self, query: Bson, write: Callable[[Bson], Awaitable[object]]) -> None:
        """Write to what a query finds, a batch at a time, until it finds nothing; two commands work at each batch."""
        while page := await self._col.find(query, {"_id": 1}).limit(_MANY).to_list():
            ids = [doc["_id"] for doc in page]
            parts = _parts(ids, -(-len(ids) // 2))
            await asyncio.gather(*(write({**query, "_id": {"$in": part}}) for part in parts))

    async def numbers(self) -> set[int]:
        """The rejudgings that any task is part of."""
        return set(await self._col.distinct("rejudging", {"rejudging": {"$gt": 0}}))


def _parts(ids: Sequence[ObjectId], size: int) -> list[list[ObjectId]]:
    return [list(ids[start : start + size]) for start in range(0, len(ids), size)]


def _ids(doc: RejudgingDocument, part: Sequence[ObjectId]) -> list[ObjectId]:
    return [rerun_id(doc["_id"], task) for task in part]


def _new_run(doc: RejudgingDocument, part: list[ObjectId], base: int, now: datetime.datetime) -> Bson:
    """A projection that turns a submission into its run; the problem is taken as it is now."""
    place = {"$indexOfArray": [{"$literal": part}, "$_id"]}
    constants: TaskDocument = {
        **forms.unjudged(),
        "priority": _PRIORITY,
        "rank": RANKS[_PRIORITY],
        "waits": WAITS,
        "digest": "",
        "created": now,
        "rejudging": doc["_id"],
        "trace": doc["trace"],
    }
    copied = ("user", "language", "needs", "abilities", "submission", "blobs")
    return {
        "_id": {"$arrayElemAt": [{"$literal": _ids(doc, part)}, place]},
        **{name: {"$literal": value} for name, value in constants.items()},
        **{name: f"${name}" for name in copied},
        "rerun_of": "$_id",
        "order": {"$add": [base + 1, place]},
        "arrival": "$$CLUSTER_TIME",
        "problem": _problem(doc["problems"]),
        "before": {
            "verdict": "$verdict",
            "status": "$status",
            "cpu": "$result.cpu",
            "memory": "$result.memory",
            "score": "$result.score",
            "failed_test": "$result.failed_test",
            "judged_by": "$judged_by",
        },
    }


def _problem(problems: Sequence[ProblemHash]) -> Any:
    """The problem at its present content; one that has gone stays as it was."""
    if not problems:
        return {"$ifNull": ["$problem", None]}
    branches = [
        {"case": {"$eq": ["$problem.name", {"$literal": problem["name"]}]}, "then": {"$literal": dict(problem)}}
        for problem in problems
    ]
    return {"$switch": {"branches": branches, "default": {"$ifNull": ["$problem", None]}}}
