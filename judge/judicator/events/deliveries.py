"""The calls to receivers, made by the leading judicator: each delivery until its receiver has it.

A delivery is claimed by compare-and-set before each try, for longer than a try takes: two leaders do not make the same
try, and a leader that dies leaves it to the next one. Of one webhook and submission the older is delivered first.
A receiver that fails is called by one delivery at a time, after a growing pause; its other deliveries are not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import logging
import math
import random
from collections.abc import Callable
from typing import Final

from bson import ObjectId
from prometheus_client import Counter as Metric
from prometheus_client import Gauge

from judge.common import clock, failpoint
from judge.common.webhooks import signing, tries
from judge.common.webhooks.sender import CallOutcome, Sender
from judge.judicator.database import Database
from judge.judicator.documents import DeliveryDocument, WebhookDocument
from judge.judicator.events.receivers import Receivers
from judge.judicator.loops import put_off
from judge.mongodb.store import DRIVER_ERRORS, Bson

log = logging.getLogger(__name__)

CALLS: Final = Metric("judge_webhook_calls_total", "Calls to receivers of webhooks", ["outcome"])
CALLS.labels("failed")  # an alert hears of no first one when the series begins with it
CALLS.labels("dropped")
UNDER_WAY: Final = Gauge("judge_webhook_calls_open", "Calls to receivers that are under way")

_PERIOD: Final = 1.0
# Calls at once: to one receiver, and in all.
_CALLS_OF_RECEIVER, _CALLS_OF_ALL = 8, 64
# Longer than a try takes. After it, the judicator that leads then may try again.
_LEASE: Final = datetime.timedelta(seconds=30)
_BEHIND_OLDER: Final = datetime.timedelta(seconds=1)
# Deliveries that may wait for one webhook; beyond, the oldest are dropped.
MOST_WAITING: Final = 100_000
# A delivery that has not been tried for so long, because its receiver fails, is given up.
_PATIENCE: Final = datetime.timedelta(days=3)
_ORPHAN_AGE: Final = datetime.timedelta(minutes=1)
_BOUNDING: Final = 30.0
_BATCH: Final = 1000


class DeliverySender:
    def __init__(self, database: Database, sender: Sender) -> None:
        """`sender` is opened by `run`."""
        self._db = database
        self._sender = sender
        self._most_waiting = MOST_WAITING
        self._news = asyncio.Event()
        self._under_way: dict[tuple[str, ObjectId | None], asyncio.Task[None]] = {}
        self._receivers = Receivers[str](_CALLS_OF_RECEIVER)
        self._hooks: dict[str, WebhookDocument] = {}
        self._hooks_read = self._bounded_at = -_BOUNDING
        # The status that was last written about a webhook's calls, and when.
        self._noted_outcomes: dict[str, tuple[int, float]] = {}

    def wake(self) -> None:
        """Look for deliveries now: there is something to send, or webhooks have changed."""
        self._hooks_read = -_BOUNDING
        self._news.set()

    async def run(self, leading: Callable[[], bool]) -> None:
        """While leading, send the deliveries that are due; never returns."""
        async with self._sender:
            try:
                while True:
                    self._news.clear()
                    if not leading() or not await self._round():
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(_PERIOD):
                                await self._news.wait()
            finally:
                for task in list(self._under_way.values()):
                    task.cancel()

    async def _round(self) -> bool:
        """Begin the deliveries that are due and have room; returns whether any was begun."""
        any_started = False
        with put_off("webhooks"):
            await self._read_hooks()
            if clock.monotonic() - self._bounded_at > _BOUNDING:
                self._bounded_at = clock.monotonic()
                await self._bound_waiting()
            ready = [name for name in self._hooks if self._receivers.room(name) > 0]
            if not ready or len(self._under_way) >= _CALLS_OF_ALL:
                return False
            # Of receivers that may not be called now, nothing is read: so many deliveries may wait for one of them.
            due: Bson = {"hook": {"$in": ready}, "state": "waiting", "next": {"$lte": clock.wall()}}
            waiting = self._db.deliveries.find(
                due, {"body": 0}, sort=[("next", 1)], limit=4 * _CALLS_OF_ALL, hint="due"
            )
            # A receiver may fail for some deliveries alone: others are tried first, so these hold up none for long.
            docs = sorted(await waiting.to_list(), key=lambda doc: doc["tries"] * self._receivers.failing(doc["hook"]))
            for doc in docs:
                if len(self._under_way) >= _CALLS_OF_ALL:
                    break
                any_started |= await self._begin(self._hooks[doc["hook"]], doc)
            return any_started
        return False

    async def _read_hooks(self) -> None:
        """Read the webhooks, at most once in a while."""
        if clock.monotonic() - self._hooks_read < _PERIOD:
            return
        self._hooks_read = clock.monotonic()
        hooks = {hook["_id"]: hook async for hook in self._db.webhooks.find({})}
        for name, hook in hooks.items():
            was = self._hooks.get(name)
            if was is not None and (was["url"], was.get("retry")) != (hook["url"], hook.get("retry")):
                self._receivers.reset(name)
        self._hooks = hooks

    async def _begin(self, hook: WebhookDocument, doc: DeliveryDocument) -> bool:
        """Try a delivery if there is room for it; returns whether it is being tried."""
        chain = hook["_id"], doc["task"] or doc["_id"]
        if chain in self._under_way or self._receivers.room(hook["_id"]) <= 0:
            return False
        claimed = await self._claim(doc)
        if claimed is None:
            return False
        self._under_way[chain] = asyncio.create_task(self._deliver(hook, claimed, self._receivers.begin(hook["_id"])))
        self._under_way[chain].add_done_callback(functools.partial(self._call_ended, chain))
        UNDER_WAY.set(len(self._under_way))
        return True

    def _call_ended(self, chain: tuple[str, ObjectId | None], _: asyncio.Task[None]) -> None:
        self._under_way.pop(chain, None)
        UNDER_WAY.set(len(self._under_way))
        self._news.set()

    async def _claim(self, doc: DeliveryDocument) -> DeliveryDocument | None:
        """Claim this try: the whole delivery, or None. An older one of the same submission goes first."""
        if doc["task"] is not None:
            older: Bson = {
                "hook": doc["hook"],
                "task": doc["task"],
                "state": "waiting",
                "version": {"$lt": doc["version"]},
            }
            predecessor = await self._db.deliveries.find_one(older, {"next": 1}, sort=[("version", 1)])
            if predecessor is not None:
                later = max(predecessor["next"], clock.wall()) + _BEHIND_OLDER
                await self._db.deliveries.update_one(_unchanged(doc), {"$set": {"next": later}})
                return None
        claimed = {"$set": {"next": clock.wall() + _LEASE}, "$inc": {"tries": 1}}
        return await self._db.deliveries.find_one_and_update(_unchanged(doc), claimed, return_document=True)

    async def _deliver(self, hook: WebhookDocument, doc: DeliveryDocument, begun: int) -> None:
        failed = retry_after = None
        try:
            body = doc["body"].encode()
            identifier = f"msg_{doc['_id']}"
            headers = signing.headers(hook["secret"], identifier, int(clock.wall().timestamp()), body)
            outcome = await self._sender.send(hook["url"], body, headers)
            failpoint.hit("webhook-sent")
            now = clock.wall()
            failed = not tries.delivered(outcome.status) and not tries.hopeless(outcome.status)
            retry_after = tries.retry_after(outcome.retry_after, now)
        finally:
            self._receivers.end(hook["_id"], begun, failed=failed, retry_after=retry_after)
        fields = after(outcome, doc["tries"], now, random.random())  # noqa: S311 - it spreads tries
        CALLS.labels(str(fields["state"])).inc()
        if fields["state"] == "failed":
            log.warning("webhook '%s': delivery %s is given up: %s", hook["_id"], identifier, _outcome_text(outcome))
        try:
            await self._db.deliveries.update_one({"_id": doc["_id"], "state": "waiting"}, {"$set": fields})
            await self._note(hook["_id"], outcome, now)
        except DRIVER_ERRORS as exc:  # it is sent once more when its lease is over
            log.warning("delivery %s has an outcome that cannot be kept: %s", identifier, str(exc)[:200])

    async def _note(self, hook: str, outcome: CallOutcome, now: datetime.datetime) -> None:
        """Show the last outcome at its webhook: each that has another status, else one a second."""
        status, at = self._noted_outcomes.get(hook, (0, -math.inf))
        if status == outcome.status and clock.monotonic() - at < 1:
            return
        self._noted_outcomes[hook] = outcome.status, clock.monotonic()
        last = f"{now.isoformat(timespec='seconds')[:19]}Z {_outcome_text(outcome)}"[:300]
        await self._db.webhooks.update_one({"_id": hook}, {"$set": {"last": last}})

    async def _bound_waiting(self) -> None:
        """Bound what waits: too many of one webhook, too long for a receiver that fails, of no webhook."""
        # Read before the webhooks: a webhook that is added meanwhile is not missed.
        waiting = await self._db.deliveries.distinct("hook", {"state": "waiting"})
        self._hooks_read = -_BOUNDING
        await self._read_hooks()
        for name in waiting:
            if name not in self._hooks:  # it was removed while they were written
                latest_orphan = ObjectId.from_datetime(clock.wall() - _ORPHAN_AGE)
                await self._db.deliveries.delete_many({"hook": name, "_id": {"$lt": latest_orphan}})
                continue
            if self._receivers.failing(name):
                await self._give_up(name)
            await self._drop(name)
        self._noted_outcomes = {name: note for name, note in self._noted_outcomes.items() if name in self._hooks}

    async def _give_up(self, hook: str) -> None:
        """Give up deliveries that were not tried for days."""
        late: Bson = {"hook": hook, "state": "waiting", "next": {"$lt": clock.wall() - _PATIENCE}}
        while ids := [doc["_id"] async for doc in self._db.deliveries.find(late, {"_id": 1}, limit=_BATCH, hint="due")]:
            over: Bson = {"state": "failed", "ended": clock.wall(), "text": "the receiver failed for three days"}
            await self._db.deliveries.update_many({**late, "_id": {"$in": ids}}, {"$set": over})
            CALLS.labels("failed").inc(len(ids))
            log.warning("webhook '%s': %d deliveries are given up: its receiver failed for three days", hook, len(ids))

    async def _drop(self, hook: str) -> None:
        """Drop the oldest deliveries beyond the bound, and count them where people see it."""
        query: Bson = {"hook": hook, "state": "waiting"}
        excess = await self._db.deliveries.count_documents(query, hint="due") - self._most_waiting
        while excess > 0:
            oldest = self._db.deliveries.find(
                query, {"_id": 1}, sort=[("next", 1)], limit=min(excess, _BATCH), hint="due"
            )
            ids = [doc["_id"] async for doc in oldest]
            if not ids:
                return
            # Counted first: a leader that dies in between counts some of them twice, and loses none unseen.
            await self._db.webhooks.update_one({"_id": hook}, {"$inc": {"dropped": len(ids)}})
            await self._db.deliveries.delete_many({**query, "_id": {"$in": ids}})
            CALLS.labels("dropped").inc(len(ids))
            log.warning(
                "webhook '%s': the %d oldest deliveries are dropped: more than %d wait",
                *(hook, len(ids), self._most_waiting),
            )
            excess -= len(ids)


def after(outcome: CallOutcome, count: int, now: datetime.datetime, chance: float) -> Bson:
    """The fields of a delivery after its try number `count`. Pure."""
    fields: Bson = {"status": outcome.status, "text": outcome.text}
    if tries.delivered(outcome.status):
        return {**fields, "state": "delivered", "ended": now}
    if tries.hopeless(outcome.status) or count >= tries.TRIES:
        return {**fields, "state": "failed", "ended": now}
    wait = tries.pause(count, chance, tries.retry_after(outcome.retry_after, now))
    return {**fields, "state": "waiting", "next": now + datetime.timedelta(seconds=wait)}


def _unchanged(doc: DeliveryDocument) -> Bson:
    return {"_id": doc["_id"], "state": "waiting", "next": doc["next"]}


def _outcome_text(outcome: CallOutcome) -> str:
    return f"{outcome.status or ''} {outcome.text}".strip()[:200]
