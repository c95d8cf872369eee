"""Callbacks of Judge0's API: an address that a submission names is sent the submission once it has ended.

What is due stands in the task's own document, so a leader that dies leaves it to the next one; each try is claimed by
compare-and-set for longer than it takes (docs/judge0.md). Receivers that fail are called as those of webhooks are.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import random
from collections import Counter
from collections.abc import Callable
from typing import Final

from bson import ObjectId
from prometheus_client import Counter as Metric

from judge.common import clock
from judge.common.errors import JudgeError, NotFoundError
from judge.common.webhooks import tries
from judge.common.webhooks.sender import CallOutcome, Sender
from judge.judge0 import callbacks
from judge.judicator.blobs import Blobs
from judge.judicator.database import Database
from judge.judicator.documents import TaskDocument
from judge.judicator.events.receivers import Receivers
from judge.judicator.loops import put_off
from judge.judicator.tasks import forms
from judge.model import messages as m
from judge.mongodb.store import DRIVER_ERRORS, Bson

log = logging.getLogger(__name__)

CALLS: Final = Metric("judge_callbacks_total", "Callbacks of Judge0's API that were tried", ["outcome"])
CALLS.labels("given up")  # an alert hears of no first one when the series begins with it
_PERIOD: Final = 0.5
# Calls at once: to one host, of one user, in all. A user with many names for one slow receiver is bounded, too, and has
# at most half of what the calls of others leave: several such users leave room for somebody else.
_CALLS_OF_HOST, _CALLS_OF_USER, _CALLS_OF_ALL = 8, 16, 64
# So many that are due are looked at in a round, of each no more than it takes to choose.
_BATCH: Final = 500
_BRIEF: Final = {"user": 1, "callback": 1, "callback_tries": 1, "callback_host": 1}
# Longer than a try takes. After it, the judicator that leads then may try again.
_LEASE: Final = datetime.timedelta(seconds=30)
# Longer than all tries of one callback. What was not tried for so long, because its receiver fails, is given up.
_PATIENCE: Final = datetime.timedelta(minutes=20)
_UNSET: Final[Bson] = {"$unset": {"callback": "", "callback_host": "", "callback_tries": ""}}


class Callbacks:
    def __init__(self, database: Database, blobs: Blobs, sender: Sender) -> None:
        """`sender` is opened by `run`."""
        self._db = database
        self._blobs = blobs
        self._sender = sender
        # Of a user's own, since one user's wrong address must not hold back another's at the same host.
        self._receivers = Receivers[tuple[str, str]](_CALLS_OF_HOST)
        self._under_way: dict[asyncio.Task[None], tuple[str, str]] = {}

    async def run(self, leading: Callable[[], bool]) -> None:
        """While leading, send the callbacks that are due; never returns."""
        async with self._sender:
            try:
                while True:
                    await asyncio.sleep(_PERIOD)
                    if leading():
                        await self._round()
            finally:
                for task in list(self._under_way):
                    task.cancel()

    async def _round(self) -> None:
        """Begin the callbacks that are due and have room."""
        with put_off("callbacks"):
            if len(self._under_way) >= _CALLS_OF_ALL:
                return
            # What has no room now is not read, and so not written either.
            due: Bson = {
                "done": True,
                "callback": {"$lte": clock.wall()},
                "user": {"$nin": self._full_users()},
                "callback_host": {"$nin": self._full_hosts()},
            }
            if closed := self._receivers.closed():
                due["$nor"] = [{"callback_host": host, "user": user} for host, user in closed]
            documents = self._db.tasks.find(due, _BRIEF, sort=[("callback", 1)], hint="callbacks", limit=_BATCH)
            async for doc in documents:
                if len(self._under_way) >= _CALLS_OF_ALL:
                    break
                receiver = doc.get("callback_host", ""), doc["user"]
                if receiver[0] in self._full_hosts() or receiver[1] in self._full_users():
                    continue
                if self._receivers.room(receiver) > 0 and await self._claim(doc):
                    started = self._receivers.begin(receiver)
                    count = doc.get("callback_tries", 0) + 1
                    sending = asyncio.create_task(self._try(doc["_id"], count, receiver, started))
                    self._under_way[sending] = receiver
                    sending.add_done_callback(self._under_way.pop)

    def _full_hosts(self) -> list[str]:
        """The hosts to which no more calls are made now."""
        counts = Counter(host for host, _ in self._under_way.values())
        return [host for host, count in counts.items() if count >= _CALLS_OF_HOST]

    def _full_users(self) -> list[str]:
        """The users of whom no more calls are made now."""
        counts = Counter(user for _, user in self._under_way.values())
        return [user for user, count in counts.items() if count >= _share(len(self._under_way) - count)]

    async def _claim(self, doc: TaskDocument) -> bool:
        """Return whether this try is ours. Once the lease is over, the judicator that leads then may try again."""
        query: Bson = {"_id": doc["_id"], "callback": doc["callback"]}
        change: Bson = {"$set": {"callback": clock.wall() + _LEASE}, "$inc": {"callback_tries": 1}}
        return bool((await self._db.tasks.update_one(query, change)).matched_count)

    async def _try(self, task_id: ObjectId, count: int, receiver: tuple[str, str], begun: int) -> None:
        failed = retry_after = None
        try:
            doc = await self._db.find(self._db.tasks, {"_id": task_id})
            if doc is None:  # deleted meanwhile
                return
            task = forms.to_task(doc)
            try:
                body = callbacks.body(task, await self._output(task))
            except JudgeError as exc:
                outcome = CallOutcome(0, str(exc), 0.0)
            else:
                outcome = await self._sender.send(callbacks.url_of(task.submission), body, {}, method="PUT")
                failed = callbacks.is_retried(outcome.status)
            now = clock.wall()
            retry_after = tries.retry_after(outcome.retry_after, now)
            final = callbacks.is_final(outcome.status, count)
            became = "delivered" if tries.delivered(outcome.status) else "given up" if final else "failed"
            CALLS.labels(became).inc()
            # The address may have a secret in it.
            level = logging.WARNING if became == "given up" else logging.INFO
            answer = f"{outcome.status or ''} {outcome.text[:100]}".strip()
            log.log(level, "callback of %s: try %d %s: %s", task_id, count, became, answer)
            wait = datetime.timedelta(seconds=tries.pause(count, random.random(), retry_after))  # noqa: S311 - it spreads tries
            change: Bson = _UNSET if final else {"$set": {"callback": now + wait}}
            await self._db.tasks.update_one({"_id": task_id, "callback": {"$exists": True}}, change)
            if failed:
                await self._give_up(*receiver)
        except DRIVER_ERRORS as exc:  # it is tried once more when its lease is over
            log.warning("the callback of %s is put off: %s", task_id, str(exc)[:200])
        finally:
            self._receivers.end(receiver, begun, failed=failed, retry_after=retry_after)

    async def _give_up(self, host: str, user: str) -> None:
        """Give up what was not tried for long, because its receiver fails."""
        late: Bson = {
            "done": True, "callback": {"$lt": clock.wall() - _PATIENCE}, "user": user, "callback_host": host,
        }  # fmt: skip
        while docs := await self._db.tasks.find(late, {"_id": 1}, hint="callbacks", limit=_BATCH).to_list():
            await self._db.tasks.update_many({**late, "_id": {"$in": [doc["_id"] for doc in docs]}}, _UNSET)
            CALLS.labels("given up").inc(len(docs))
            log.warning("%d callbacks of user '%s' are given up: their receiver fails", len(docs), user)

    async def _output(self, task: m.Task) -> bytes:
        """The whole output, where it is kept beside the task and may be told."""
        blob = task.result.stdout_blob if task.result is not None else None
        if blob is None or task.submission.problem is not None:
            return b""
        try:
            return await self._blobs.get(blob)
        except NotFoundError:  # deleted meanwhile
            return b""


def _share(calls_of_others: int) -> int:
    """The number of calls that one user may have under way while others have so many. Pure."""
    return max(1, min(_CALLS_OF_USER, (_CALLS_OF_ALL - calls_of_others) // 2))
