"""Rejudgings as people ask for them and see them: filters, counts, comparisons. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bson import ObjectId

from judge.common.errors import FieldError
from judge.judicator.documents import RejudgingDocument, TaskDocument, VerdictFields, first_id, iso_or_none
from judge.judicator.rejudging.reruns import Cell
from judge.languages.table import row_of
from judge.model.rejudging import Outcome, RejudgeChange, RejudgeFilter, RejudgeState, Rejudging
from judge.mongodb.store import Bson

UNKNOWN = "-"
# The states in which somebody may still change their mind.
OPEN = frozenset({RejudgeState.STARTING, RejudgeState.RUNNING, RejudgeState.FINISHED})
_SHOWN = frozenset({"reason", "user", "state", "settled", "total", "skipped", "trace"})


def selection(request: RejudgeFilter) -> Bson:
    """The query of the finished submissions that meet all conditions; FieldError when there is no condition."""
    if request == RejudgeFilter():
        raise FieldError("filter", "has no condition; name ids, a problem, language, user, verdict, executor or a time")
    if request.since is not None and request.until is not None and request.since >= request.until:
        raise FieldError("filter.until", "is not after 'since', so nothing lies between them")
    query: Bson = {"done": True, "verdict": {"$ne": None}, "rerun_of": None}
    # Tasks that were judged to try a problem out belong to one content of it, and to nobody's contest.
    query |= {"submission.problem_hash": None, "submission.check": None, "submission.cause": None}
    for name, path in (
        ("user", "user"),
        ("problem", "problem.name"),
        ("language", "language"),
        ("executor", "judged_by"),
    ):
        values = getattr(request, name)
        if values:
            spellings = [*values, *map(row_of, values)] if name == "language" else values
            query[path] = {"$in": list(dict.fromkeys(spellings))}
    if request.verdict:
        query["verdict"] = {"$in": [value.value for value in dict.fromkeys(request.verdict)]}
    if request.ids:
        query["_id"] = {"$in": [ObjectId(value) for value in dict.fromkeys(request.ids)]}
    moments = {"$gte": request.since, "$lt": request.until}
    created = {key: moment for key, moment in moments.items() if moment is not None}
    if created:
        query["created"] = created
        # Ids begin with the second of `created`, and have an index; an id in the second after `until` is too late.
        bounds = {key: first_id(moment, int(key == "$lt")) for key, moment in created.items()}
        query.setdefault("_id", bounds)
    return query


def counts(cells: Iterable[Cell]) -> dict[str, int]:
    """`waiting`, `running`, `done` and `changed` out of Reruns.cells."""
    numbers = {"waiting": 0, "running": 0, "done": 0, "changed": 0}
    for cell in cells:
        kind = "done" if cell["after"] is not None else "running" if cell["running"] else "waiting"
        numbers[kind] += cell["n"]
        if cell["changed"]:
            numbers["changed"] += cell["n"]
    return numbers


def matrix(cells: Iterable[Cell]) -> dict[str, dict[str, int]]:
    rows: dict[str, dict[str, int]] = {}
    for cell in cells:
        row = rows.setdefault(cell["before"] or UNKNOWN, {})
        after = cell["after"] or UNKNOWN
        row[after] = row.get(after, 0) + cell["n"]
    return {before: dict(sorted(row.items())) for before, row in sorted(rows.items())}


def to_rejudging(doc: RejudgingDocument, counted: dict[str, int] | None) -> Rejudging:
    """The message for people. `counted` is what the runs say while there are runs; later the document knows."""
    return Rejudging.stored(
        {
            "id": doc["_id"],
            "filter": doc["filter"],
            **{name: value for name, value in doc.items() if name in _SHOWN},
            "created": iso_or_none(doc["created"]),
            "finished": iso_or_none(doc["finished"]),
            "ended": iso_or_none(doc["ended"]),
            "ended_by": doc["ended_by"],
            **(doc["counts"] or counted or {}),
        }
    )


def outcome(fields: TaskDocument | VerdictFields) -> Outcome:
    """One side of a comparison, out of whatever holds its fields."""
    result: Any = fields.get("result") or fields
    return Outcome(
        verdict=fields.get("verdict"),
        cpu=result.get("cpu") or 0.0,
        memory=result.get("memory") or 0,
        score=result.get("score"),
        failed_test=result.get("failed_test"),
        judged_by=fields.get("judged_by"),
    )


def _problem(task: TaskDocument) -> str | None:
    problem = task["problem"]
    return None if problem is None else problem["name"]


def change_of_run(run: TaskDocument) -> RejudgeChange:
    """A run against the verdict that it may replace."""
    return RejudgeChange(
        id=str(run["rerun_of"]),
        rerun=str(run["_id"]),
        user=run["user"],
        problem=_problem(run),
        language=run["language"],
        before=outcome(run["before"]),
        after=outcome(run) if run["done"] else None,
    )


def change_of_task(doc: TaskDocument, number: int) -> RejudgeChange:
    """A submission's verdict after an applied rejudging against the one before."""
    past = doc["past"]
    place = next(index for index, entry in enumerate(past) if entry["rejudging"] == number)
    after = past[place + 1] if place + 1 < len(past) else doc
    return RejudgeChange(
        id=str(doc["_id"]),
        user=doc["user"],
        problem=_problem(doc),
        language=doc["language"],
        before=outcome(past[place]),
        after=outcome(after),
    )


def differs(change: RejudgeChange) -> bool:
    after = change.after
    return after is not None and (after.verdict, after.score) != (change.before.verdict, change.before.score)
