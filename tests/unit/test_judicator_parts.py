"""Small parts of a judicator: callers that watch a task, loops that wait for a database, indexes, counts."""

import asyncio
import logging
import re
from pathlib import Path

import pytest
from bson import ObjectId
from pymongo.errors import AutoReconnect, OperationFailure, PyMongoError, ServerSelectionTimeoutError

from judge.common import clock
from judge.judicator import indexes
from judge.judicator.hub import Hub
from judge.judicator.loops import put_off
from judge.judicator.rejudging.calls import RunCounts
from judge.judicator.replica import WAITING_INDEX


def test_a_version_that_was_read_wakes_nobody_and_a_newer_one_does() -> None:
    hub, task = Hub(), ObjectId()
    with hub.watching(task) as watch:
        watch.version = 3
        hub.changed(task, 3)
        assert not watch.changed.is_set()
        hub.changed(task, 4)
        assert watch.changed.is_set()
        watch.changed.clear()
        hub.changed(task)
        assert watch.changed.is_set() and watch.done is None
        hub.changed(task, 5, done=True)
        assert watch.done == 5


@pytest.mark.parametrize("fault", [AutoReconnect("gone"), ServerSelectionTimeoutError("nobody there")])
def test_a_database_that_is_away_is_waited_for(fault: PyMongoError, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), put_off("figures"):
        raise fault
    assert caplog.messages == [f"put off: figures; the database does not answer: {fault}"]


@pytest.mark.parametrize("fault", [OperationFailure("no such operator", code=2), ValueError("a fault of ours")])
def test_a_fault_is_none_of_that(fault: Exception) -> None:
    with pytest.raises(type(fault)), put_off("figures"):
        raise fault


JUDICATOR = Path(indexes.__file__).parent


def test_every_hint_is_among_the_indexes_that_serving_needs() -> None:
    text = "".join(path.read_text() for path in JUDICATOR.rglob("*.py"))
    hints = set(re.findall(r'hint="(\w+)"', text)) - {"_id_"}
    assert hints | {WAITING_INDEX} == indexes.HINTED
    names = {index.document["name"] for models in indexes.INDEXES.values() for index in models}
    assert names >= indexes.HINTED


def test_serving_needs_every_unique_index() -> None:
    for models in indexes.INDEXES.values():
        unique = {index.document["name"] for index in models if index.document.get("unique")}
        assert unique <= {index.document["name"] for index in indexes.needed(models)}


def test_given_up_names_are_not_in_use() -> None:
    for collection, names in indexes.GIVEN_UP.items():
        assert not names & {index.document["name"] for index in indexes.INDEXES[collection]}


def test_many_looks_at_once_and_soon_after_are_one_count(monkeypatch):
    now, counts = [0.0], []
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])

    async def count(number):
        counts.append(number)
        await asyncio.sleep(0)
        now[0] += 1.5
        return [{"n": len(counts)}]

    async def look() -> None:
        counting = RunCounts(count)
        first = await asyncio.gather(*(counting.cells(7, "running") for _ in range(50)))
        assert first == [[{"n": 1}]] * 50
        await counting.cells(8, "running")
        assert counts == [7, 8]
        now[0] = 31.0
        assert await counting.cells(7, "running") == [{"n": 1}], "20 times what counting took"
        assert await counting.cells(7, "finished") == [{"n": 3}], "another state is counted at once"
        now[0] = 32.0
        assert await counting.cells(7, "running") == [{"n": 4}]
        assert counts == [7, 8, 7, 7]

    asyncio.run(look())


def test_a_small_rejudging_is_counted_at_each_look():
    counts = []

    async def count(number):
        counts.append(number)
        return []

    async def look() -> None:
        counting = RunCounts(count)
        for _ in range(3):
            await counting.cells(1, "running")
            await asyncio.sleep(0.05)

    asyncio.run(look())
    assert len(counts) == 3
