"""The calls to receivers, made by the leading judicator: each delivery until its receiver has it.

A delivery is claimed by compare-and-set before each try, for longer than a try takes: two leaders do not make the same
try, and a leader that dies leaves it to the next one. Of one webhook and submission the older is delivered first.
"""

from __future__ import annotations

import asyncio
import datetime
import functools
import logging
import random
from collections import Counter
from collections.abc import Callable
from typing import Final

from bson import ObjectId
from prometheus_client import Counter as Metric
from prometheus_client import Gauge

from judge import clock, failpoint
from judge.hooks import signing, tries
from judge.hooks.sender import CallOutcome, Sender
from judge.judicator.database import Database
from judge.judicator.documents import DeliveryDocument, WebhookDocument
from judge.judicator.loops import put_off
from judge.mongodb.store import DRIVER_ERRORS, Bson

log = logging.getLogger(__name__)

CALLS: Final = Metric("judge_webhook_calls_total", "Calls to receivers of webhooks", ["outcome"])
CALLS.labels("failed")  # an alert hears of no first one when the series begins with it
UNDER_WAY: Final = Gauge("judge_webhook_calls_open", "Calls to receivers that are under way")

_LOOK: Final = 1.0
_EACH, _ALL = 8, 64
# Longer than a try takes. After it, the judicator that leads then may try again.
_LEASE: Final = datetime.timedelta(seconds=30)
_AGAIN: Final = datetime.timedelta(seconds=1)


class Post:
    """Makes the calls of one cluster."""

    def __init__(self, database: Database, sender: Sender) -> None:
        """`sender` is opened by `run`."""
        self._db = database
        self._sender = sender
        self._news = asyncio.Event()
        self._busy: dict[tuple[str, ObjectId | None], asyncio.Task[None]] = {}

    def wake(self) -> None:
        """Look for deliveries now: there is something to send."""
        self._news.set()

    async def run(self, leading: Callable[[], bool]) -> None:
        """While leading, send the deliveries that are due; never returns."""
        async with self._sender:
            try:
                while True:
                    self._news.clear()
                    if not leading() or not await self._round():
                        await self._pause()
            finally:
                for task in list(self._busy.values()):
                    task.cancel()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(_LOOK):
                await self._news.wait()
        except TimeoutError:
            pass

    async def _round(self) -> bool:
        """Begin the deliveries that are due and have room; returns whether any was begun."""
        begun = False
        with put_off("webhooks"):
            under_way = Counter(hook for hook, _ in self._busy)
            async for hook in self._db.webhooks.find({}):
                room = min(_EACH - under_way[hook["_id"]], _ALL - len(self._busy))
                if room > 0:
                    begun |= await self._begin(hook, room)
            return begun
        return False

    async def _begin(self, hook: WebhookDocument, room: int) -> bool:
        begun = False
        due: Bson = {"hook": hook["_id"], "state": "waiting", "next": {"$lte": clock.wall()}}
        async for doc in self._db.deliveries.find(due, sort=[("next", 1)], limit=4 * _EACH):
            chain = hook["_id"], doc["task"] or doc["_id"]
            if room == 0 or chain in self._busy:
                continue
            if not await self._claim(doc):
                continue
            self._busy[chain] = asyncio.create_task(self._deliver(hook, doc))
            self._busy[chain].add_done_callback(functools.partial(self._ended, chain))
            UNDER_WAY.set(len(self._busy))
            room -= 1
            begun = True
        return begun

    def _ended(self, chain: tuple[str, ObjectId | None], _: asyncio.Task[None]) -> None:
        self._busy.pop(chain, None)
        UNDER_WAY.set(len(self._busy))
        self._news.set()

    async def _claim(self, doc: DeliveryDocument) -> bool:
        """Claim this try, and say whether it is ours; an older delivery about the same submission goes first."""
        if doc["task"] is not None:
            older: Bson = {
                "hook": doc["hook"],
                "task": doc["task"],
                "state": "waiting",
                "version": {"$lt": doc["version"]},
            }
            before = await self._db.deliveries.find_one(older, {"next": 1}, sort=[("version", 1)])
            if before is not None:
                later = max(before["next"], clock.wall()) + _AGAIN
                await self._db.deliveries.update_one(_same(doc), {"$set": {"next": later}})
                return False
        claimed = {"$set": {"next": clock.wall() + _LEASE}, "$inc": {"tries": 1}}
        done = await self._db.deliveries.update_one(_same(doc), claimed)
        return bool(done.matched_count)

    async def _deliver(self, hook: WebhookDocument, doc: DeliveryDocument) -> None:
        """One try, and what it came to."""
        body = doc["body"].encode()
        identifier = f"msg_{doc['_id']}"
        headers = signing.headers(hook["secret"], identifier, int(clock.wall().timestamp()), body)
        outcome = await self._sender.send(hook["url"], body, headers)
        failpoint.hit("webhook-sent")
        now = clock.wall()
        fields = after(outcome, doc["tries"] + 1, now, random.random())  # noqa: S311 - it spreads tries
        CALLS.labels(str(fields["state"])).inc()
        if fields["state"] == "failed":
            log.warning("webhook '%s': delivery %s is given up: %s", hook["_id"], identifier, _words(outcome))
        try:
            await self._db.deliveries.update_one({"_id": doc["_id"], "state": "waiting"}, {"$set": fields})
            last = f"{now.isoformat(timespec='seconds')[:19]}Z {_words(outcome)}"[:300]
            await self._db.webhooks.update_one({"_id": hook["_id"]}, {"$set": {"last": last}})
        except DRIVER_ERRORS as exc:  # it is sent once more when its lease is over
            log.warning("delivery %s has an outcome that cannot be kept: %s", identifier, str(exc)[:200])


def after(outcome: CallOutcome, count: int, now: datetime.datetime, chance: float) -> Bson:
    """The fields of a delivery after its try number `count`. Pure."""
    said: Bson = {"status": outcome.status, "text": outcome.text}
    if tries.delivered(outcome.status):
        return {**said, "state": "delivered", "ended": now}
    if tries.hopeless(outcome.status) or count >= tries.TRIES:
        return {**said, "state": "failed", "ended": now}
    wait = tries.pause(count, chance, tries.retry_after(outcome.retry_after, now))
    return {**said, "state": "waiting", "next": now + datetime.timedelta(seconds=wait)}


def _same(doc: DeliveryDocument) -> Bson:
    return {"_id": doc["_id"], "state": "waiting", "next": doc["next"]}


def _words(outcome: CallOutcome) -> str:
    return f"{outcome.status or ''} {outcome.text}".strip()[:200]
