"""Queues of any length, written straight into the store in the form that judicators give their documents."""

from __future__ import annotations

import datetime
import itertools
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from bson import ObjectId, Timestamp
from pymongo.database import Database
from pymongo.write_concern import WriteConcern

from judge import clock
from judge.judicator.queue.order import RANKS
from judge.judicator.queue.placing import BEHIND, FRONT, ROOM
from judge.judicator.queue.waiting import RUN
from judge.judicator.tasks import forms
from judge.model.messages import ProblemRef, Submission

_BATCH = 5000
_COUNT = itertools.count(1)


def _task(user: str, needs: str, priority: str, source: str, created: datetime.datetime) -> dict[str, Any]:
    submission = Submission(user=user, language=needs or "c", source=source, priority=priority)
    doc = forms.new(submission, ProblemRef(name="sum", hash="0" * 64), "0" * 64, created)
    return {**doc, "needs": needs, "rank": RANKS[priority], "order": 1, "arrival": Timestamp(1, 1)}


def waiting(
    count: int,
    *,
    user: str = "crowd",
    needs: str = "c",
    tried: Iterable[str] = (),
    priority: str = "normal",
    first: int = 1,
    size: int = 100,
) -> Iterator[dict[str, Any]]:
    """That many waiting tasks of one user, one place each from `first` on; with `tried` they have come back."""
    failed = sorted(tried)
    model = _task(user, needs, priority, "x" * size, clock.wall())
    if failed:
        model |= {"rank": 0, "failed": failed, "tried": ",".join(failed), "status": "retrying"}
    for number in range(count):
        front = FRONT if failed or number < ROOM else BEHIND
        place = {"order": first + number, "arrival": Timestamp(1, next(_COUNT))}
        yield {**model, "_id": ObjectId(), "waits": front, "trace": uuid.uuid4().hex, **place}


def runs(count: int, *, number: int, user: str = "crowd", needs: str = "c") -> Iterator[dict[str, Any]]:
    """Waiting runs of a rejudging."""
    model = _task(user, needs, "normal", "x", clock.wall())
    model |= {"priority": "rejudge", "rank": RANKS["rejudge"], "waits": RUN, "rejudging": number}
    before = dict.fromkeys(("cpu", "memory", "score", "failed_test", "judged_by"))
    model["before"] = {"verdict": "AC", "status": "success", **before}
    for place in range(count):
        old = {"_id": ObjectId(bytes(4) + ObjectId().binary[4:]), "rerun_of": ObjectId(), "order": place + 1}
        yield {**model, **old, "arrival": Timestamp(1, next(_COUNT))}


def finished(
    count: int, *, user: str = "old", verdict: str = "AC", since: datetime.datetime | None = None, **fields: Any
) -> Iterator[dict[str, Any]]:
    """That many judged tasks, a second apart from `since` on."""
    start = since or clock.wall() - datetime.timedelta(seconds=count)
    for number in range(count):
        created = start + datetime.timedelta(seconds=number)
        if number % 1000 == 0:
            model = _task(user, "c", "normal", "x", created)
            model |= {"done": True, "status": "success", "verdict": verdict, "judged_by": "e1", "finished": created}
        fresh = ObjectId(int(created.timestamp()).to_bytes(4, "big") + ObjectId().binary[4:])
        yield {**model, "_id": fresh, "created": created, "finished": created, **fields}


def write(db: Database[Any], docs: Iterable[dict[str, Any]]) -> int:
    """Store tasks; how many."""
    tasks = db.tasks.with_options(write_concern=WriteConcern(w=1, j=False))
    stored = 0
    rest = iter(docs)
    while batch := list(itertools.islice(rest, _BATCH)):
        tasks.insert_many(batch, ordered=False)
        stored += len(batch)
    return stored
