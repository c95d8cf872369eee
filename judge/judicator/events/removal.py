"""Webhooks that are about one person's submissions alone go with the person: the name may be given again."""

from __future__ import annotations

from bson import Timestamp

from judge.judicator.database import Database
from judge.mongodb.store import Bson


async def of_user(database: Database, user: str, until: Timestamp | None = None) -> list[str]:
    """The names of the webhooks that are told of this user alone; with `until`, those that were there by then."""
    query: Bson = {"user": user}
    if until is not None:
        query["since"] = {"$not": {"$gt": until}}  # those of earlier releases say nothing of it
    return [hook["_id"] async for hook in database.webhooks.find(query, {"_id": 1}, sort=[("_id", 1)])]


async def remove(database: Database, names: list[str]) -> None:
    """Remove these webhooks and what waits for them, as `webhook_remove` does; may be repeated."""
    if names:
        query: Bson = {"hook": {"$in": names}}
        await database.deliveries.delete_many(query)
        await database.webhooks.delete_many({"_id": {"$in": names}})
        # Deliveries that were written meanwhile; nobody would ever send or end them.
        await database.deliveries.delete_many(query)
