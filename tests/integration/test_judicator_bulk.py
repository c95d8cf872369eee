"""Compare-and-sets in bulk: each task's change is made once, and its caller learns what came of it."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from bson import ObjectId
from pymongo.errors import AutoReconnect

from judge.judicator.tasks.writing import BulkWriter
from tests.support.judicators import World, accepted, add, get, waiting, write
from tests.support.servers import wait_for


class LosesOneReply:
    """A collection whose next reply of one kind is lost, after the server has done what was asked."""

    def __init__(self, collection: Any, method: str) -> None:
        self._collection = collection
        self._method = method
        self.losses = 0

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._collection, name)
        if name != self._method or self.losses:
            return call
        self.losses += 1

        async def lose(*args: Any, **options: Any) -> None:
            await call(*args, **options)
            raise AutoReconnect("connection closed")

        return lose


@pytest.mark.parametrize("entire", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3, 40, 250])
def test_each_task_is_claimed_by_one_of_two_writers(world: World, count: int, entire: bool) -> None:
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
        if entire:
            assert all(doc["claim"] == name and doc["user"] for doc in docs)
        return {doc["_id"] for doc in docs}

    async def both_writers() -> list[set[ObjectId]]:
        writers = [(BulkWriter(db, documents=entire), name) for name in ("first", "second")]
        return await asyncio.gather(*(claim(writer, name) for writer, name in writers))

    first, second = running.do(both_writers())
    assert not first & second
    assert first | second == set(ids) - set(changed)
    claims = Counter(doc["claim"] for doc in world.db.tasks.find({}, {"claim": 1}))
    assert (claims["first"], claims["second"], claims["earlier"]) == (len(first), len(second), len(changed))


def test_many_at_once_are_few_commands(world: World) -> None:
    running = world.judicator()
    write(world.db, waiting(100))
    ids = [doc["_id"] for doc in world.db.tasks.find({}, {"_id": 1})]
    writer = BulkWriter(running.judicator.database, documents=False)

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


@pytest.mark.parametrize("ending", [False, True], ids=["claims", "ends"])
def test_a_lost_reply_to_a_bulk_loses_and_doubles_nothing(world: World, ending: bool) -> None:
    """The outcome of every task in it is found out: each is judged once."""
    running = world.judicator()
    people, executor = world.client(), world.executor(slots=5)
    tasks = [add(people, f"int main(){{}} // {number}") for number in range(5)]
    lifecycle = running.judicator.tasks
    writer = lifecycle._ends if ending else lifecycle.assigner._claims
    if ending:
        assert len(executor.report().add) == 5
    losing = LosesOneReply(writer._tasks, "bulk_write")
    writer._tasks = losing
    completed = [accepted(assignment) for assignment in list(executor.work.values())]
    executor.report(*completed)  # the client repeats it
    assert losing.losses == 1

    def judged() -> bool:
        executor.report(*completed, *(accepted(assignment) for assignment in list(executor.work.values())))
        return all(get(people, task).done for task in tasks)

    wait_for(judged, what="the verdicts")
    documents = list(world.db.tasks.find())
    assert [document["verdict"] for document in documents] == ["AC"] * 5
    assert all(
        len([entry for entry in document["history"] if "judged" in entry["reason"]]) == 1 for document in documents
    )
    assert not running.judicator.tasks.replica.queue.running()
    assert running.do(running.judicator.tasks.replica.compare()) == 0
