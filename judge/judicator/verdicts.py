"""Decides which verdict of a task is in force while a rejudging is being applied (docs/rejudge.md).

Applying writes each new outcome beside the old one (`staged`), then adds the rejudging's number to one small document:
that is the moment at which all its verdicts change. Afterwards the staged outcomes are folded in, task by task, while
readers look through them. MongoDB stages and folds, readers do the same in Python: what is copied from where stands in
OUTCOME and _PAST alone. Everything here but `generation` is pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from judge.judicator.database import Database
from judge.judicator.documents import OutcomeFields, TaskDocument
from judge.mongodb.store import Bson

# The document that says which rejudgings are in force and not folded in yet.
SWITCH: Final = "verdicts"
HISTORY: Final = 50

# A run's outcome replaces these fields of its submission.
OUTCOME: Final = tuple(OutcomeFields.__annotations__)

# Of a verdict that is replaced these fields are kept: where they are in the task, and what stands for a missing one.
_PAST: Final[Mapping[str, tuple[str, Any]]] = {
    "status": ("status", None),
    "verdict": ("verdict", None),
    "cpu": ("result.cpu", 0.0),
    "wall": ("result.wall", 0.0),
    "memory": ("result.memory", 0),
    "score": ("result.score", None),
    "reason": ("result.reason", ""),
    "failed_test": ("result.failed_test", None),
    "judged_by": ("judged_by", None),
    "problem": ("problem", None),
    "finished": ("finished", None),
    "trace": ("trace", ""),
}


@dataclass(frozen=True)
class Generation:
    """The number of times that the verdicts in force were switched, and the rejudgings whose staged outcomes count."""

    number: int
    folding: frozenset[int]


async def generation(database: Database) -> Generation:
    """The switch as a majority has it now; never older than the one before.

    A primary that has just been elected may answer with an older switch for a moment, which would take verdicts back.
    """
    doc = await database.meta.find_one({"_id": SWITCH})
    if (0 if doc is None else doc["generation"]) < database.switched:
        doc = await database.latest(database.meta, {"_id": SWITCH})
    if doc is None:
        return Generation(0, frozenset())
    database.switched = max(database.switched, doc["generation"])
    return Generation(doc["generation"], frozenset(doc["folding"]))


def is_staged(doc: TaskDocument) -> bool:
    """Return whether a task has an outcome that may or may not be in force: then the switch decides."""
    return "staged" in doc


def current(doc: TaskDocument, folding: frozenset[int]) -> TaskDocument:
    """The task as people must see it: with its staged outcome when that is in force, else without."""
    if not is_staged(doc):
        return doc
    rest: Bson = {name: value for name, value in doc.items() if name != "staged"}
    staged: Bson = {**doc["staged"]}
    if staged["rejudging"] in folding:
        rest.pop("rejudging", None)
        past = {name: _at(doc, path, default) for name, (path, default) in _PAST.items()}
        rest |= {
            **{name: staged[name] for name in OUTCOME},
            "history": [*doc["history"], *staged["history"]][-HISTORY:],
            "blobs": sorted({*doc["blobs"], *staged["blobs"]}),
            "past": [*doc.get("past", []), {"rejudging": staged["rejudging"], "why": staged["why"], **past}],
            "version": doc["version"] + 1,
        }
    return cast("TaskDocument", rest)


def _at(doc: TaskDocument, path: str, default: Any) -> Any:
    """The value under a dotted path; `default` where there is none, or null, as `$ifNull` has it."""
    value: Any = doc
    for name in path.split("."):
        value = (value or {}).get(name)
    return default if value is None else value


# `current` of a task whose staged outcome is in force, as an update inside MongoDB.
FOLD: Final[list[Bson]] = [
    {
        "$set": {
            **{name: f"$staged.{name}" for name in OUTCOME},
            "history": {"$slice": [{"$concatArrays": ["$history", "$staged.history"]}, -HISTORY]},
            "blobs": {"$setUnion": ["$blobs", "$staged.blobs"]},
            "past": {
                "$concatArrays": [
                    {"$ifNull": ["$past", []]},
                    [
                        {
                            "rejudging": "$staged.rejudging",
                            "why": "$staged.why",
                            **{name: {"$ifNull": [f"${path}", default]} for name, (path, default) in _PAST.items()},
                        }
                    ],
                ]
            },
            "version": {"$add": ["$version", 1]},
        }
    },
    {"$unset": ["staged", "rejudging"]},
]


def staging(why: str) -> Bson:
    """The projection that turns a run into the `staged` of its submission, with the reason of the rejudging."""
    rejudging = {"rejudging": "$rejudging"}
    return {
        "_id": "$rerun_of",
        "staged": {
            **rejudging,
            **{name: f"${name}" for name in (*OUTCOME, "blobs")},
            "history": {"$map": {"input": "$history", "in": {"$mergeObjects": ["$$this", rejudging]}}},
            "why": {"$literal": why},
        },
    }


def matches(path: str, value: Any, folding: frozenset[int]) -> Bson:
    """A query's condition that the outcome in force has `value` under `path` (a field of OUTCOME)."""
    if not folding:
        return {path: value}
    numbers = sorted(folding)
    return {
        "$or": [
            {path: value, "staged.rejudging": {"$nin": numbers}},
            {f"staged.{path}": value, "staged.rejudging": {"$in": numbers}},
        ]
    }
