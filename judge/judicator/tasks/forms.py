"""A task as a message, as a document, and as a hand-out in force; pure functions."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import secrets
import uuid
from dataclasses import dataclass
from typing import Final

from bson import ObjectId

from judge.config.allowance import Allowances
from judge.judge0 import callbacks
from judge.judicator.documents import HistoryEntry, TaskDocument, allowance_of, iso, iso_or_none
from judge.languages import handed
from judge.model.messages import Assignment, ProblemRef, Status, Submission, Task
from judge.mongodb.store import Bson

# Fields that Search answers without (messages.SearchReply).
_BIG: Final = ("tests", "compile_log", "stdout", "stderr", "left")
BRIEF: Final = {
    **dict.fromkeys(("submission.source", "submission.files", "submission.stdin", "submission.tests"), 0),
    **{f"{result}.{name}": 0 for result in ("result", "staged.result") for name in _BIG},
}


@dataclass(frozen=True)
class HandOut:
    """One hand-out in force, with the fields of TaskDocument that compare-and-set and give-back need."""

    id: ObjectId
    executor: str
    incarnation: str
    attempt: int
    claim: str
    heartbeat: int
    handed: int
    penalty: int
    status: str
    progress: str
    history: tuple[HistoryEntry, ...]
    created: datetime.datetime
    priority: str = "normal"
    waiting: bool = False
    trace: str = ""
    user: str = ""
    reserved: int = 0
    failed: tuple[str, ...] = ()
    version: int = 0


HAND_OUT_FIELDS: Final = {field.name: 1 for field in dataclasses.fields(HandOut) if field.name != "id"}


def hand_out(doc: TaskDocument) -> HandOut:
    """A running task out of its document (projection HAND_OUT_FIELDS)."""
    # Tasks of earlier releases have no trace, and their hand-outs do not say whether they wait.
    fields: Bson = {name: value for name, value in doc.items() if name in HAND_OUT_FIELDS}
    return HandOut(id=doc["_id"], **{**fields, "history": tuple(doc["history"]), "failed": tuple(doc["failed"])})


def to_task(doc: TaskDocument) -> Task:
    return Task.stored(
        {
            **doc,
            "id": str(doc["_id"]),
            "created": iso(doc["created"]),
            "started": iso_or_none(doc.get("started")),
            "finished": iso_or_none(doc.get("finished")),
            "rerun_of": str(doc["rerun_of"]) if doc.get("rerun_of") else None,
            "past": [{**past, "finished": iso_or_none(past["finished"])} for past in doc.get("past", [])],
            "waits": None,  # for people it is the reason, in the document a mark
        }
    )


def to_assignment(doc: TaskDocument, allowances: Allowances) -> Assignment:
    """The message that hands a claimed task to its executor, with what the submitter's role may take."""
    return Assignment.stored(
        {
            "id": str(doc["_id"]),
            "attempt": doc["attempt"],
            "claim": doc["claim"],
            "submission": {name: value for name, value in doc["submission"].items() if name != "told"},
            "problem": doc.get("problem"),
            "trace": doc.get("trace", ""),
            "allowance": allowance_of(doc, allowances),
        }
    )


def key_of(submission: Submission) -> str | None:
    """The unique idempotency key: each user has keys of their own."""
    return None if submission.idempotency_key is None else f"{submission.user}\0{submission.idempotency_key}"


def digest(submission: Submission) -> str:
    """The SHA-256 of the content that an idempotency key stands for. FieldError: a file that cannot be read."""
    content = handed.comparable(submission).model_dump(
        mode="json", exclude={"idempotency_key", "trace", "role"}, exclude_defaults=True
    )
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def wants_of(submission: Submission) -> list[str]:
    """The abilities that an executor needs beside the language, of `messages.ABILITIES` and `messages.TOOLS`."""
    # Older ones would start another class or file than the entry.
    needed = (
        ("check", submission.check in {"inputs", "answers"}),
        ("statements", submission.check == "statements"),
        ("files", submission.files or submission.entry),
        ("options", submission.options),
    )
    return [*(name for name, needs in needed if needs), *([submission.tool] if submission.tool else [])]


def blobs_of(submission: Submission) -> list[str]:
    return sorted({blob for test in submission.tests for blob in (test.input_blob, test.answer_blob) if blob})


def unjudged() -> TaskDocument:
    """The fields of a task that nobody has had in hand."""
    return {
        "status": Status.PENDING.value,
        "done": False,
        "verdict": None,
        "attempt": 0,
        "penalty": 0,
        "failed": [],
        "tried": "",
        "executor": None,
        "incarnation": None,
        "claim": None,
        "heartbeat": 0,
        "handed": 0,
        "judged_by": None,
        "progress": "",
        "result": None,
        "history": [],
        "started": None,
        "finished": None,
        "latency": None,
        "version": 0,
    }


def _id(created: datetime.datetime) -> ObjectId:
    """A new id that begins with the second of `created`, so that filters by time find it in the index of ids.

    Then comes its part of the second, for their order, and what nobody can guess: to guests of Judge0's API an id is a
    key, and a guest who sees their own must learn nothing of the next one.
    """
    part = created.microsecond * 2**16 // 10**6
    return ObjectId(int(created.timestamp()).to_bytes(4, "big") + part.to_bytes(2, "big") + secrets.token_bytes(6))


def new(submission: Submission, problem: ProblemRef | None, content: str, created: datetime.datetime) -> TaskDocument:
    """The document of a new task, without its place in the queue; `content` is its digest as it was handed in."""
    doc: TaskDocument = {
        "_id": _id(created),
        "user": submission.user,
        "language": submission.language,
        "needs": submission.language or "",
        **({"abilities": ",".join(wants)} if (wants := wants_of(submission)) else {}),
        "submission": submission.model_dump(mode="json", exclude_none=True, exclude={"trace"}),
        "trace": submission.trace or uuid.uuid4().hex,
        "problem": None if problem is None else {"name": problem.name, "hash": problem.hash},
        **unjudged(),
        "priority": submission.priority,
        "digest": content,
        "blobs": blobs_of(submission),
        "created": created,
    }
    key = key_of(submission)
    if key is not None:
        doc["key"] = key
    if url := callbacks.url_of(submission):
        doc["callback"] = created
        doc["callback_host"] = callbacks.host_of(url)
    return doc
