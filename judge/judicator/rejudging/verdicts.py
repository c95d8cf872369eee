"""Which verdict of a task is in force while a rejudging is being applied (docs/rejudge.md).

Applying writes each new outcome beside the old one (`staged`), then adds the rejudging's number to one small document:
that is the moment at which all its verdicts change. Afterwards the staged outcomes are folded in, task by task, while
readers look through them. Everything here but `generation` is pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from judge.judicator.database import Database, Document

# The document that says which rejudgings are in force and not folded in yet.
SWITCH: Final = "verdicts"
HISTORY: Final = 50

# What of a run replaces the same field of its submission.
_REPLACED: Final = ("status", "verdict", "result", "judged_by", "problem", "started", "finished", "trace")


@dataclass(frozen=True)
class Generation:
    """How often the verdicts in force have been switched, and the rejudgings whose staged outcomes count."""

    number: int
    folding: frozenset[int]


async def generation(database: Database) -> Generation:
    """The switch as a majority has it now."""
    doc = await database.meta.find_one({"_id": SWITCH}) or {}
    return Generation(doc.get("generation", 0), frozenset(doc.get("folding", [])))


def is_staged(doc: Document) -> bool:
    """Whether a task has an outcome that may or may not be in force: then the switch decides."""
    return "staged" in doc


def past_verdict(doc: Document, number: int, why: str) -> Document:
    """What is kept of the verdict that rejudging `number` replaces, for its reason; FOLD does the same in MongoDB."""
    result = doc.get("result") or {}
    return {
        "rejudging": number,
        "why": why,
        "status": doc["status"],
        "verdict": doc["verdict"],
        "cpu": result.get("cpu", 0.0),
        "wall": result.get("wall", 0.0),
        "memory": result.get("memory", 0),
        "score": result.get("score"),
        "reason": result.get("reason", ""),
        "failed_test": result.get("failed_test"),
        "judged_by": doc["judged_by"],
        "problem": doc.get("problem"),
        "finished": doc["finished"],
        "trace": doc.get("trace", ""),
    }


def current(doc: Document, folding: frozenset[int]) -> Document:
    """The task as people must see it: with its staged outcome when that is in force, else without."""
    if not is_staged(doc):
        return doc
    rest = {name: value for name, value in doc.items() if name != "staged"}
    staged = doc["staged"]
    if staged["rejudging"] not in folding:
        return rest
    rest.pop("rejudging", None)
    return rest | {
        **{name: staged[name] for name in _REPLACED},
        "history": [*doc["history"], *staged["history"]][-HISTORY:],
        "blobs": sorted({*doc["blobs"], *staged["blobs"]}),
        "past": [*doc.get("past", []), past_verdict(doc, staged["rejudging"], staged["why"])],
        "version": doc["version"] + 1,
    }


def _or(path: str, default: Any) -> Document:
    return {"$ifNull": [path, default]}


# `current` of a task whose staged outcome is in force, as an update inside MongoDB.
FOLD: Final[list[Document]] = [
    {
        "$set": {
            **{name: f"$staged.{name}" for name in _REPLACED},
            "history": {"$slice": [{"$concatArrays": ["$history", "$staged.history"]}, -HISTORY]},
            "blobs": {"$setUnion": ["$blobs", "$staged.blobs"]},
            "past": {
                "$concatArrays": [
                    _or("$past", []),
                    [
                        {
                            "rejudging": "$staged.rejudging",
                            "why": "$staged.why",
                            "status": "$status",
                            "verdict": "$verdict",
                            "cpu": _or("$result.cpu", 0.0),
                            "wall": _or("$result.wall", 0.0),
                            "memory": _or("$result.memory", 0),
                            "score": _or("$result.score", None),
                            "reason": _or("$result.reason", ""),
                            "failed_test": _or("$result.failed_test", None),
                            "judged_by": "$judged_by",
                            "problem": _or("$problem", None),
                            "finished": "$finished",
                            "trace": _or("$trace", ""),
                        }
                    ],
                ]
            },
            "version": {"$add": ["$version", 1]},
        }
    },
    {"$unset": ["staged", "rejudging"]},
]


def matches(path: str, value: Any, folding: frozenset[int]) -> Document:
    """A query's condition that the outcome in force has `value` under `path` (a field that FOLD replaces)."""
    if not folding:
        return {path: value}
    numbers = sorted(folding)
    return {
        "$or": [
            {path: value, "staged.rejudging": {"$nin": numbers}},
            {f"staged.{path}": value, "staged.rejudging": {"$in": numbers}},
        ]
    }
