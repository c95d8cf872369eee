"""Reads of tasks: one, or a search. All show the verdicts in force (judicator/verdicts.py)."""

from __future__ import annotations

import contextlib
from typing import Final

import pymongo
from bson import ObjectId
from pymongo.errors import ExecutionTimeout, NetworkTimeout

from judge.common import clock
from judge.common.errors import NotFoundError, UsageError
from judge.judicator import verdicts
from judge.judicator.database import Database
from judge.judicator.documents import TaskDocument
from judge.judicator.tasks import forms
from judge.languages.table import row_of
from judge.model.messages import SearchRequest
from judge.model.several import TasksReply, TasksRequest
from judge.model.verdicts import Verdict
from judge.mongodb.store import Bson

# A search looks again when the verdicts in force were switched meanwhile; more often than this in a row they are not.
_LOOKS: Final = 5
# Seconds. Each condition has an index that yields the newest first, but conditions together may match nothing in a
# long history, and then all that meets one of them is looked at.
_PATIENCE: Final = 3.0
_COUNTED: Final = 10_000
# Submissions of a person that are looked at for the marks of the list of problems.
_MARKED: Final = 1000
# Seconds for which several tasks are read in one call; below what a gateway waits for an answer.
_SEVERAL: Final = 2.0


class TaskReader:
    def __init__(self, database: Database) -> None:
        self._db = database
        self._tasks = database.tasks

    async def get(self, task: ObjectId, version: int = 0) -> TaskDocument:
        """One task (seed: Get), not older than `version`; NotFoundError."""
        doc = await self._fresh(task, version)
        if doc is not None and verdicts.is_staged(doc):
            # The switch first: a verdict that somebody has seen elsewhere is never taken back by this answer.
            now = await verdicts.generation(self._db)
            doc = await self._db.find(self._tasks, {"_id": task})
            doc = None if doc is None else verdicts.current(doc, now.folding)
        if doc is None:
            raise NotFoundError(f"there is no submission {task}")
        return doc

    async def version(self, task: ObjectId, version: int = 0) -> tuple[int, bool]:
        """The version of a task, not older than `version`, and whether it is done; NotFoundError."""
        fields = {"version": 1, "done": 1, "staged.rejudging": 1}
        doc = await self._fresh(task, version, fields)
        if doc is not None and verdicts.is_staged(doc):
            now = await verdicts.generation(self._db)  # as in `get`: the switch first
            doc = await self._db.find(self._tasks, {"_id": task}, fields)
            if doc is not None and verdicts.is_staged(doc):
                doc["version"] += doc["staged"]["rejudging"] in now.folding
        if doc is None:
            raise NotFoundError(f"there is no submission {task}")
        return doc["version"], doc["done"]

    async def several(self, request: TasksRequest) -> TasksReply:
        """Several tasks in the order of the question, as far as room and time go."""
        reply, room, deadline = TasksReply(tasks=[]), request.room, clock.Deadline(_SEVERAL)
        for place, task_id in enumerate(request.ids):
            if (room <= 0 or deadline.over) and place:
                reply.left = request.ids[place:]
                break
            with contextlib.suppress(NotFoundError):
                task = forms.to_task(await self.get(ObjectId(task_id)))
                if request.user is None or (task.submission.user == request.user and task.rerun_of is None):
                    room -= len(task.model_dump_json())
                    reply.tasks.append(task)
        return reply

    async def _fresh(self, task: ObjectId, version: int, fields: Bson | None = None) -> TaskDocument | None:
        """A task as it is stored; one that is older than what the caller has seen is read again (`Database.find`)."""
        doc = await self._db.find(self._tasks, {"_id": task}, fields)
        if doc is not None and doc["version"] < version:
            doc = await self._db.latest(self._tasks, {"_id": task}, fields)
        return doc

    async def search(self, request: SearchRequest) -> list[TaskDocument]:
        """Tasks without big fields, newest first, no reruns (seed: Search). UsageError when it takes seconds."""
        now = await verdicts.generation(self._db)
        for _ in range(_LOOKS):
            query = search_query(request, now.folding)
            cursor = self._tasks.find(query, forms.BRIEF, sort=[("_id", -1)], skip=request.skip, limit=request.limit)
            try:
                with pymongo.timeout(_PATIENCE):
                    docs = [verdicts.current(doc, now.folding) async for doc in cursor]
            except (ExecutionTimeout, NetworkTimeout) as exc:  # the second when the database is late in saying so
                raise UsageError(
                    f"this search has looked for {_PATIENCE:g} s and not found {request.limit} submissions that "
                    "meet all its conditions; leave a condition out, or ask for fewer"
                ) from exc
            before, now = now, await verdicts.generation(self._db)
            if now == before:
                break  # no rejudging was applied in between, so these verdicts were in force at one moment
        return docs

    async def marks(self, user: str) -> tuple[set[str], set[str]]:
        """The problems that a person has solved, and tried, in their newest submissions (`_MARKED` of them)."""
        fields = {"problem.name": 1, "verdict": 1}
        newest = self._tasks.find({"user": user, "rerun_of": None}, fields, sort=[("_id", -1)], limit=_MARKED)
        solved: set[str] = set()
        tried: set[str] = set()
        async for doc in newest:
            problem = doc.get("problem")
            if problem:
                tried.add(problem["name"])
                if doc.get("verdict") == Verdict.AC.value:
                    solved.add(problem["name"])
        return solved, tried

    async def count(self, request: SearchRequest) -> int:
        """The number of tasks that a search finds in all, counted up to 10000. UsageError as of `search`."""
        query = search_query(request, (await verdicts.generation(self._db)).folding)
        try:
            with pymongo.timeout(_PATIENCE):
                return await self._tasks.count_documents(query, limit=_COUNTED)
        except (ExecutionTimeout, NetworkTimeout) as exc:
            raise UsageError(
                f"these submissions could not be counted within {_PATIENCE:g} s; leave 'total' out"
            ) from exc


def search_query(request: SearchRequest, folding: frozenset[int]) -> Bson:
    """The query of a search among people's tasks, by the verdicts in force; pure."""
    names = {"user": "user", "problem": "problem.name", "language": "language", "done": "done"}
    query: Bson = {"rerun_of": None}
    for name, field in names.items():
        value = getattr(request, name)
        if value is not None:
            query[field] = value
    if request.language is not None and (row := row_of(request.language)) != request.language:
        query["language"] = {"$in": [request.language, row]}
    parts = [
        verdicts.matches(name, str(value), folding)
        for name in ("status", "verdict")
        if (value := getattr(request, name)) is not None
    ]
    if request.executor is not None:
        judged = verdicts.matches("judged_by", request.executor, folding)
        parts.append({"$or": [{"executor": request.executor}, judged]})
    if request.before is not None:
        query["_id"] = {"$lt": ObjectId(request.before)}
    return {**query, "$and": parts} if parts else query
