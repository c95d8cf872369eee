"""Compare-and-sets in bulk: each task's change is made once, and its caller learns what came of it."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from bson import ObjectId

from judge.judicator.tasks.writing import BulkWriter
from tests.support.judicators import World, waiting, write


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3, 40, 250])
def test_of_two_writers_one_has_each_task(world: World, count: int, whole: bool) -> None:
    """As two leaders claim at once. Some tasks are gone, some have changed before."""
    running = world.judicator()
    db = running.judicator.database
    write(world.db, waiting(count))
    ids = [doc["_id"] for doc in world.db.tasks.find({}, {"_id": 1})]
    changed = ids[::7]
    world.db.tasks.update_many({"_id": {"$in": changed}}, {"$set": {"claim": "earlier"}})
    absent = [ObjectId() for _ in range(3)]

    async def claim(writer: BulkWriter, name: str) -> set[ObjectId]:
        answers = await asyncio.gather(
            *(writer.write({"_id": task, "claim": None}, {"$set": {"claim": name}}) for task in [*ids, *absent])
        )
        docs = [doc for doc in answers if doc is not None]
        if whole:
            assert all(doc["claim"] == name and doc["user"] for doc in docs)
        return {doc["_id"] for doc in docs}

    async def both() -> list[set[ObjectId]]:
        writers = [(BulkWriter(db, whole=whole), name) for name in ("first", "second")]
        return await asyncio.gather(*(claim(writer, name) for writer, name in writers))

    first, second = running.do(both())
    assert not first & second
    assert first | second == set(ids) - set(changed)
    claims = Counter(doc["claim"] for doc in world.db.tasks.find({}, {"claim": 1}))
    assert (claims["first"], claims["second"], claims["earlier"]) == (len(first), len(second), len(changed))


def test_many_at_once_are_few_commands(world: World) -> None:
    running = world.judicator()
    write(world.db, waiting(100))
    ids = [doc["_id"] for doc in world.db.tasks.find({}, {"_id": 1})]
    writer = BulkWriter(running.judicator.database, whole=False)

    def commands() -> int:
        return int(world.raw.admin.command("serverStatus")["metrics"]["commands"]["update"]["total"])

    async def end(task: ObjectId) -> bool:
        return await writer.write({"_id": task, "done": False}, {"$set": {"done": True}}) is not None

    async def everything() -> list[bool]:
        return await asyncio.gather(*(end(task) for task in ids))

    before = commands()
    assert all(running.do(everything()))
    assert commands() - before <= 10
    assert not any(running.do(everything())), "a second time nothing matches"
