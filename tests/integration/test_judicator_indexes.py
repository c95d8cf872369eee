"""Indexes of large collections: builds outlive the client's timeout, and changed or given-up ones are replaced."""

import datetime
from typing import Any

import pytest
from bson import ObjectId

from judge.config import MongodbClient
from judge.judicator import indexes
from judge.model import messages as m
from judge.model.overview import StatusReply
from tests.support.judicators import FAST, Running, World, source
from tests.support.servers import wait_for

DOCUMENTS = 100_000


def many_tasks(world: World, count: int = DOCUMENTS) -> None:
    """Finished tasks, without indexes, as an older version's restore leaves them."""
    ended = datetime.datetime.now(datetime.UTC)
    for start in range(0, count, 10_000):
        world.db.tasks.insert_many(
            {
                "_id": ObjectId(),
                "user": f"u{number % 97}",
                "status": "success",
                "verdict": "AC",
                "done": True,
                "executor": None,
                "judged_by": f"e{number % 7}",
                "language": "c",
                "needs": "c",
                "rank": 2,
                "order": number,
                "attempt": 1,
                "priority": "normal",
                "finished": ended,
                "key": f"k{number}",
                "blobs": [],
                "version": 1,
            }
            for number in range(start, start + 10_000)
        )


def impatient(world: World, name: str) -> Running:
    """A judicator whose client gives each call far less time than the build takes."""
    settings = {**FAST, "mongodb": MongodbClient(seeds=world.mongods, database=world.database, timeout=0.2)}
    running = Running(world.config(name, **settings))
    world.stack.callback(running.stop)
    world.judicators.append(running)
    return running


def names(world: World, collection: str = "tasks") -> set[str]:
    return set(world.db[collection].index_information())


def expected(collection: str = "tasks") -> set[str]:
    return {"_id_", *(index.document["name"] for index in indexes.INDEXES[collection])}


def built(world: World) -> bool:
    reply = world.db.command({"listIndexes": "tasks", "includeBuildUUIDs": True, "cursor": {"batchSize": 1000}})
    return {index.get("name") for index in reply["cursor"]["firstBatch"]} == expected()


@pytest.mark.parametrize("judicators", [1, 3])
def test_a_cluster_serves_although_its_indexes_take_longer_than_a_call(world: World, judicators: int) -> None:
    many_tasks(world)
    running = [impatient(world, f"j{number}") for number in range(judicators)]
    builds: list[str] = []
    for member in running:
        member.judicator._note_build = lambda text, real=member.judicator._note_build: (builds.append(text), real(text))  # type: ignore[method-assign]

    def ready() -> bool:
        return all(running_judicator.judicator.dispatcher.ready for running_judicator in running)

    wait_for(ready, timeout=120, what="all judicators")
    wait_for(lambda: built(world), timeout=120, what="all indexes")
    for member in running:
        wait_for(lambda entry=member: not entry.judicator.building, what="no build")


def test_status_names_the_build_while_a_judicator_serves(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    running = world.judicator("j1", **FAST)
    running.judicator._note_build("builds the indexes of 5 tasks (by_user)")
    status = world.client().call("status", m.Empty(), StatusReply)
    assert any("'j1' builds the indexes of 5 tasks (by_user)" in warning for warning in status.warnings)
    running.judicator._note_build("")
    status = world.client().call("status", m.Empty(), StatusReply)
    assert not any("builds the indexes" in warning for warning in status.warnings)


def test_a_judicator_serves_while_other_indexes_are_built(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade: the indexes of before serve, and the build of the new one goes on behind them."""
    import asyncio

    release = asyncio.Event()
    real = indexes.make_rest

    async def slow(*args: Any) -> None:
        await release.wait()
        await real(*args)

    monkeypatch.setattr(indexes, "make_rest", slow)
    monkeypatch.setattr("judge.judicator.main._SMALL_BUILD", 0.1)
    running = world.judicator("j1", **FAST)
    world.client().call("add", source(), m.AddReply)
    assert not names(world) >= expected()
    running.loop.call_soon_threadsafe(release.set)
    wait_for(lambda: built(world), what="all indexes")


def test_a_changed_index_is_rebuilt_and_a_given_up_one_dropped(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.db.tasks.create_index([("user", 1)], name="by_user")
    world.db.tasks.create_index([("verdict", 1), ("_id", -1)], name="verdicts_of_before")
    world.db.tasks.create_index([("key", 1)], name="key")
    world.db.tasks.create_index([("own", 1)], name="made_by_an_operator")
    world.db.tasks.create_index([("rank", 1), ("arrival", 1)], name="fair")
    world.db.minutes.create_index("begun", name="begun", expireAfterSeconds=1)
    world.judicator("j1", **FAST)
    wait_for(lambda: names(world) >= expected(), what="all indexes")
    wait_for(lambda: names(world) - expected() == {"made_by_an_operator"}, what="only the operator's own")
    present = world.db.tasks.index_information()
    assert present["by_user"]["key"] == [("user", 1), ("_id", -1)]
    assert present["key"]["unique"]
    begun = world.db.minutes.index_information()["begun"]
    assert begun["expireAfterSeconds"] == indexes._MINUTES_SECONDS
    assert "made_by_an_operator" in caplog.text


def test_a_second_start_changes_no_index(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.judicator("j1", **FAST)

    async def refused(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(indexes, "_drop", refused)
    second = world.judicator("j2", **FAST)
    for name in indexes.INDEXES:
        assert names(world, name) == expected(name)
        present, building = second.do(indexes._present(second.judicator.database, name))
        assert not building
        assert not indexes.obsolete(indexes.INDEXES[name], present, ())
