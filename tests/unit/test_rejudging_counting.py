"""Looks at an open rejudging cost the database a small part of its time, however many people look."""

import asyncio

from judge.common import clock
from judge.judicator.rejudging.calls import RunCounts


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
