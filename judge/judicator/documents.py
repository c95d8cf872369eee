"""The stored form of tasks and back; pure functions. Only tasks.py writes these documents (docs/protocol.md)."""

from __future__ import annotations

import datetime
import hashlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from bson import ObjectId

from judge.allowance import Allowances
from judge.errors import FieldError
from judge.model.messages import Assignment, Completed, ProblemRef, Result, Status, Submission, Task, Verdict

Document = dict[str, Any]

# Documents stay small (docs/protocol.md). Texts beyond these many bytes are for people only, and are cut.
LOG_BYTES: Final = 64 * 1024
TEXT_BYTES: Final = 4 * 1024
STDOUT_BYTES: Final = 256 * 1024
RESULT_BYTES: Final = 2 * 1024**2
_CUTS: Final = (TEXT_BYTES, 256, 0)

# What Search answers without (messages.SearchReply).
BRIEF: Final = {
    "submission.source": 0,
    "submission.stdin": 0,
    "submission.tests": 0,
    "result.tests": 0,
    "result.compile_log": 0,
    "result.stdout": 0,
    "staged.result.tests": 0,
    "staged.result.compile_log": 0,
    "staged.result.stdout": 0,
}


@dataclass(frozen=True)
class Held:
    """One hand-out in force, as the database has it: what compare-and-set compares, and what give-back needs."""

    id: ObjectId
    executor: str
    incarnation: str
    attempt: int
    claim: str
    beat: int
    handed: int
    strikes: int
    status: str
    progress: str
    history: tuple[Document, ...]
    created: datetime.datetime
    priority: str = "normal"
    waiting: bool = False
    trace: str = ""
    user: str = ""
    seat: int | None = None
    reserved: int = 0
    failed: tuple[str, ...] = ()


HELD_FIELDS: Final = {
    "executor": 1,
    "incarnation": 1,
    "attempt": 1,
    "claim": 1,
    "beat": 1,
    "handed": 1,
    "strikes": 1,
    "waiting": 1,
    "status": 1,
    "progress": 1,
    "history": 1,
    "created": 1,
    "priority": 1,
    "trace": 1,
    "user": 1,
    "seat": 1,
    "reserved": 1,
    "failed": 1,
}


def held(doc: Document) -> Held:
    """A running task out of its document (projection HELD_FIELDS)."""
    # Tasks of earlier releases have no trace, and their hand-outs do not say whether they wait.
    fields = {name: doc[name] for name in HELD_FIELDS if name in doc}
    return Held(id=doc["_id"], **{**fields, "history": tuple(doc["history"]), "failed": tuple(doc["failed"])})


def _iso(moment: datetime.datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def to_task(doc: Document) -> Task:
    """The message that Get and Search answer."""
    return Task.stored(
        {
            "id": str(doc["_id"]),
            "submission": doc["submission"],
            "problem": doc.get("problem"),
            "status": doc["status"],
            "done": doc["done"],
            "verdict": doc.get("verdict"),
            "attempt": doc["attempt"],
            "executor": doc.get("executor"),
            "judged_by": doc.get("judged_by"),
            "progress": doc["progress"],
            "result": doc.get("result"),
            "history": doc["history"],
            "created": _iso(doc["created"]),
            "started": _iso(doc.get("started")),
            "finished": _iso(doc.get("finished")),
            "latency": doc.get("latency"),
            "version": doc["version"],
            "trace": doc.get("trace", ""),
            "rejudging": doc.get("rejudging"),
            "rerun_of": str(doc["rerun_of"]) if doc.get("rerun_of") else None,
            "past": [{**one, "finished": _iso(one["finished"])} for one in doc.get("past", [])],
        }
    )


def to_assignment(doc: Document, allowances: Allowances) -> Assignment:
    """The message that hands a claimed task to its executor, with what the submitter's role may take."""
    return Assignment.stored(
        {
            "id": str(doc["_id"]),
            "attempt": doc["attempt"],
            "claim": doc["claim"],
            "submission": doc["submission"],
            "problem": doc.get("problem"),
            "trace": doc.get("trace", ""),
            "allowance": allowances.of(doc["submission"].get("role", "user")),
        }
    )


def key_of(submission: Submission) -> str | None:
    """The unique idempotency key: each user has keys of their own."""
    return None if submission.idempotency_key is None else f"{submission.user}\0{submission.idempotency_key}"


def digest(submission: Submission) -> str:
    """The SHA-256 of a submission's content; what the same idempotency key must come with again."""
    content = submission.model_dump(mode="json", exclude={"idempotency_key", "trace", "role"}, exclude_defaults=True)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def blobs_of(submission: Submission) -> list[str]:
    """The blobs that a submission needs to be kept."""
    found = {blob for test in submission.tests for blob in (test.input_blob, test.answer_blob) if blob}
    return sorted(found)


def first_id(moment: datetime.datetime, later: int = 0) -> ObjectId:
    """The first id that a document of this moment's second can have, or of so many seconds `later`."""
    second = min(max(int(moment.timestamp()) + later, 0), 2**32 - 1)
    return ObjectId(second.to_bytes(4, "big") + bytes(8))


def unjudged() -> Document:
    """The fields of a task that nobody has had in hand."""
    return {
        "status": Status.PENDING.value,
        "done": False,
        "verdict": None,
        "attempt": 0,
        "strikes": 0,
        "failed": [],
        "tried": "",
        "executor": None,
        "incarnation": None,
        "claim": None,
        "beat": 0,
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
    """A new id that begins with the second of `created`, so that filters by time find it in the index of ids."""
    return ObjectId(int(created.timestamp()).to_bytes(4, "big") + ObjectId().binary[4:])


def new(submission: Submission, problem: ProblemRef | None, content: str, created: datetime.datetime) -> Document:
    """The document of a new task, without its place in the queue; `content` is its digest as it was handed in."""
    doc: Document = {
        "_id": _id(created),
        "user": submission.user,
        "language": submission.language,
        "needs": submission.language or "",
        "submission": submission.model_dump(mode="json", exclude_none=True, exclude={"trace"}),
        "trace": submission.trace or uuid.uuid4().hex,
        "problem": None if problem is None else problem.model_dump(),
        **unjudged(),
        "priority": submission.priority,
        "digest": content,
        "blobs": blobs_of(submission),
        "created": created,
    }
    key = key_of(submission)
    if key is not None:
        doc["key"] = key
    return doc


def texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text inside a dumped message, with its dotted place."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from texts(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from texts(inner, f"{path}.{index}")


def check_text(submission: Submission) -> None:
    """Refuse text that is no Unicode (half of a surrogate pair); raises FieldError naming the place."""
    for path, text in texts(submission.model_dump(exclude_none=True)):
        try:
            text.encode()
        except UnicodeEncodeError as exc:
            msg = f"is not Unicode text: it has half of a surrogate pair at character {exc.start}; send UTF-8"
            raise FieldError(path, msg) from None


def cut(text: str, limit: int) -> str:
    """The first `limit` bytes of a text, ending on a whole character; what cannot be encoded is replaced."""
    data = text.encode(errors="replace")
    return data.decode() if len(data) <= limit else data[:limit].decode(errors="ignore")


def fit(result: Result) -> Document:
    """A result as it is stored: texts for people are cut so that the document stays small whatever was reported."""
    stored: Document = {}
    for limit in _CUTS:
        brief = result.model_copy(
            update={
                "compile_log": cut(result.compile_log, LOG_BYTES),
                "reason": cut(result.reason, TEXT_BYTES),
                "stdout": None if result.stdout is None else cut(result.stdout, STDOUT_BYTES),
                "tests": [
                    test.model_copy(update={name: cut(getattr(test, name), limit) for name in _TEST_TEXTS})
                    for test in result.tests
                ],
            }
        )
        stored = brief.model_dump(mode="json")
        if sum(len(text.encode("utf-8", "replace")) for _, text in texts(stored)) <= RESULT_BYTES:
            break
    return stored


_TEST_TEXTS: Final = ("reason", "output", "error", "message", "feedback")


def flaw(completed: Completed) -> str | None:
    """Why a reported completion cannot be committed as it is; None when it can (or asks to be retried)."""
    if completed.retry:
        return None
    if not completed.status.done or completed.status is Status.CANCELLED:
        return f"the executor reported status '{completed.status}', which is no end of a judging"
    if completed.verdict is None:
        return f"the executor reported status '{completed.status}' without a verdict"
    return None


def gave_up(history: list[Document]) -> Document:
    """The result of a task that no executor could finish: the evidence as one text."""
    told = "; ".join(f"attempt {one['attempt']} on {one['executor']}: {one['reason']}" for one in history)
    return Result(reason=cut(f"given up: {told}", TEXT_BYTES)).model_dump(mode="json")


JUDGE_ERROR: Final = {"status": Verdict.JE.about.status.value, "verdict": Verdict.JE.value}
