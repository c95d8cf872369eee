"""The calls of admins about webhooks: added, removed, listed; their deliveries listed and sent again."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bson import ObjectId

from judge.common import clock
from judge.common.errors import FieldError, LimitError, NotFoundError
from judge.common.webhooks import signing
from judge.common.webhooks.addresses import Network, url_fault
from judge.judicator.audit import Act
from judge.judicator.database import Database, aggregate
from judge.judicator.documents import DeliveryDocument, WebhookDocument, iso, iso_or_none
from judge.judicator.events import removal
from judge.judicator.events.outbox import begin, delivery
from judge.model import webhooks
from judge.model.messages import Empty
from judge.mongodb.store import Bson
from judge.rpc.server import Peer

_MOST: Final = 100


class WebhookCalls:
    def __init__(self, database: Database, allowed: Sequence[Network], wake: Callable[[], None]) -> None:
        """`allowed` are private networks that may be called, `wake` is called when there is something to send."""
        self._db = database
        self._allowed = allowed
        self._wake = wake

    async def add(self, request: webhooks.WebhookAdd) -> webhooks.WebhookAdded:
        """Add a webhook, or change it; FieldError for an address to which nothing may be sent."""
        fault = url_fault(request.url, self._allowed)
        if fault:
            raise FieldError("url", fault)
        existing = await self._db.find(self._db.webhooks, {"_id": request.name})
        if existing is None and await self._db.webhooks.count_documents({}) >= _MOST:
            raise LimitError(f"there are {_MOST} webhooks; remove one first")
        await begin(self._db)
        now = await self._db.logical_time()
        if existing is None:
            # Deliveries that were being written for an earlier one of this name at its removal are not for this one.
            before = ObjectId.from_datetime(now.as_datetime())
            await self._db.deliveries.delete_many({"hook": request.name, "_id": {"$lt": before}})
        secret = request.secret or (existing["secret"] if existing is not None else signing.new_secret())
        fields: Bson = {**request.model_dump(mode="json", exclude={"name"}), "secret": secret}
        doc = await self._db.webhooks.find_one_and_update(
            {"_id": request.name},
            {"$set": {**fields, "retry": clock.wall()}, "$setOnInsert": {"created": clock.wall(), "since": now}},
            upsert=True,
            return_document=True,
        )
        if doc is None:  # mongod answers an upsert with its document
            raise NotFoundError(f"webhook '{request.name}' is gone again; add it once more")
        return webhooks.WebhookAdded(webhook=_shown(doc, {}), secret=secret)

    async def remove(self, request: webhooks.WebhookRef) -> Empty:
        """Remove a webhook and its waiting calls. Repeating it is NotFoundError."""
        hook = await self._db.find(self._db.webhooks, {"_id": request.name}, {"_id": 1})
        await removal.remove(self._db, [request.name])
        if hook is None:
            raise _missing(request.name)
        return Empty()

    async def all(self, _: Empty) -> webhooks.WebhooksReply:
        counts: dict[str, dict[str, int]] = {}
        pipeline: list[Bson] = [
            {"$match": {"state": {"$in": ["waiting", "failed"]}}},
            {"$group": {"_id": {"hook": "$hook", "state": "$state"}, "count": {"$sum": 1}}},
        ]
        for row in await aggregate(self._db.deliveries, pipeline, hint="state"):
            counts.setdefault(row["_id"]["hook"], {})[row["_id"]["state"]] = row["count"]
        docs = self._db.webhooks.find({}, sort=[("_id", 1)])
        return webhooks.WebhooksReply(webhooks=[_shown(doc, counts.get(doc["_id"], {})) async for doc in docs])

    async def ping(self, request: webhooks.WebhookRef) -> webhooks.Delivery:
        await self._db.get(self._db.webhooks, {"_id": request.name}, _missing(request.name), {"_id": 1})
        now = clock.wall()
        body = webhooks.Payload(type="ping", timestamp=iso(now), data={"webhook": request.name}).model_dump_json()
        doc = delivery(request.name, f"{request.name}/ping/{uuid.uuid4().hex}", "ping", body, now)
        await self._db.deliveries.insert_one(doc)
        await self._call_now(request.name)
        return _listed(doc)

    async def deliveries(self, request: webhooks.DeliveriesRequest) -> webhooks.DeliveriesReply:
        conditions: Bson = {"hook": request.webhook, "state": request.state}
        query: Bson = {name: value for name, value in conditions.items() if value is not None}
        if request.submission is not None:
            query["task"] = ObjectId(request.submission)
        if request.before is not None:
            query["_id"] = {"$lt": ObjectId(request.before)}
        docs = await self._db.deliveries.find(query, {"body": 0}, sort=[("_id", -1)], limit=request.limit + 1).to_list()
        page = [_listed(doc) for doc in docs[: request.limit]]
        return webhooks.DeliveriesReply(deliveries=page, next=page[-1].id if len(docs) > request.limit else None)

    async def resend(self, request: webhooks.Resend) -> webhooks.Resent:
        """Let deliveries wait again: one, whatever became of it, or all of a webhook that were given up."""
        if (request.delivery is None) == (request.webhook is None):
            raise FieldError("delivery", "or 'webhook' must be given, one of the two")
        query: Bson = {"hook": request.webhook, "state": "failed"}
        hook = request.webhook or ""
        if request.delivery is not None:
            query = {"_id": ObjectId(request.delivery)}
            missing = NotFoundError(f"there is no delivery '{request.delivery}'; they are kept for seven days")
            hook = (await self._db.get(self._db.deliveries, query, missing, {"hook": 1}))["hook"]
        again: Bson = {"$set": {"state": "waiting", "tries": 0, "next": clock.wall()}, "$unset": {"ended": ""}}
        done = await self._db.deliveries.update_many(query, again)
        await self._call_now(hook)
        return webhooks.Resent(count=done.matched_count)

    async def _call_now(self, hook: str) -> None:
        """Have the leader call a receiver now, also if it failed before."""
        await self._db.webhooks.update_one({"_id": hook}, {"$set": {"retry": clock.wall()}})
        self._wake()


async def describe_resend(request: webhooks.Resend, _: Peer) -> Act:
    return Act("webhook.resend", request.webhook or str(request.delivery), {"delivery": request.delivery})


def _missing(name: str) -> NotFoundError:
    return NotFoundError(f"there is no webhook '{name}'; `judgectl webhook list` lists them")


def _shown(doc: WebhookDocument, counts: Mapping[str, int]) -> webhooks.Webhook:
    return webhooks.Webhook.stored({**doc, **counts, "name": doc["_id"], "created": iso(doc["created"])})


def _listed(doc: DeliveryDocument) -> webhooks.Delivery:
    return webhooks.Delivery.stored(
        {
            **doc,
            "id": str(doc["_id"]),
            "webhook": doc["hook"],
            "submission": str(doc["task"]) if doc["task"] is not None else None,
            "created": iso(doc["created"]),
            "next": iso(doc["next"]) if doc["state"] == "waiting" else None,
            "ended": iso_or_none(doc.get("ended")),
        }
    )
