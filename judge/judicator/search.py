"""Search: people's tasks, newest first, by the verdicts in force."""

from __future__ import annotations

from typing import Final

import pymongo
from bson import ObjectId
from pymongo.errors import ExecutionTimeout, NetworkTimeout

from judge.errors import UsageError
from judge.judicator import documents
from judge.judicator.database import Database, Document
from judge.judicator.rejudging import verdicts
from judge.model.messages import SearchRequest

# A search looks again when the verdicts in force were switched meanwhile; more often than this in a row they are not.
_LOOKS: Final = 5
# Seconds. Each condition has an index that yields the newest first, but conditions together may match nothing in a
# long history, and then all that meets one of them is looked at.
_PATIENCE: Final = 3.0


async def search(database: Database, request: SearchRequest) -> list[Document]:
    """Up to `limit` tasks, newest first, without their big fields; no runs of rejudgings.

    UsageError when that takes more than a few seconds.
    """
    now = await verdicts.generation(database)
    for _ in range(_LOOKS):
        query = search_query(request, now.folding)
        found = database.tasks.find(query, documents.BRIEF, sort=[("_id", -1)], limit=request.limit)
        try:
            with pymongo.timeout(_PATIENCE):
                docs = [verdicts.current(doc, now.folding) async for doc in found]
        except (ExecutionTimeout, NetworkTimeout):  # the second when the database is late in saying so
            raise UsageError(
                f"this search has looked for {_PATIENCE:g} s and not found {request.limit} submissions that meet all "
                "its conditions; leave a condition out, or ask for fewer"
            ) from None
        before, now = now, await verdicts.generation(database)
        if now == before:
            break  # no rejudging was applied in between, so these verdicts were in force at one moment
    return docs


def search_query(request: SearchRequest, folding: frozenset[int]) -> Document:
    """The query of a search among people's tasks, by the verdicts in force; pure."""
    names = {"user": "user", "problem": "problem.name", "language": "language", "done": "done"}
    query: Document = {"rerun_of": None}
    for name, field in names.items():
        value = getattr(request, name)
        if value is not None:
            query[field] = value
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
