"""Questions that are asked together: each has its own answer, and none an answer from before it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo.errors import BulkWriteError, DuplicateKeyError, PyMongoError, WriteError

from judge.common.errors import OutcomeUnknownError
from judge.judicator.batching import Batcher
from judge.judicator.database import one_by_one
from judge.mongodb.store import translate


def test_who_is_alone_is_asked_for_at_once_and_who_comes_meanwhile_together() -> None:
    asked: list[list[int]] = []

    async def run() -> list[int]:
        go = asyncio.Event()

        async def work(questions: Sequence[int]) -> list[int]:
            asked.append(list(questions))
            await go.wait()
            return [10 * one for one in questions]

        batcher = Batcher(work, 3)
        first = asyncio.create_task(batcher.ask(1))
        await asyncio.sleep(0.01)
        rest = [asyncio.create_task(batcher.ask(one)) for one in (2, 3, 4, 5)]
        await asyncio.sleep(0.01)
        go.set()
        return list(await asyncio.gather(first, *rest))

    assert asyncio.run(run()) == [10, 20, 30, 40, 50]
    assert asked == [[1], [2, 3, 4], [5]]


def test_what_one_may_not_have_is_raised_for_that_one_and_what_fails_for_all() -> None:
    async def run() -> list[object]:
        async def work(questions: Sequence[int]) -> list[int | Exception]:
            if 7 in questions:
                raise OSError("away")
            return [LookupError(str(one)) if one == 2 else one for one in questions]

        batcher = Batcher(work, 3)
        return list(await asyncio.gather(*(batcher.ask(one) for one in (1, 2, 3, 6, 7, 8)), return_exceptions=True))

    found = [repr(one) for one in asyncio.run(run())]
    assert found == ["1", "LookupError('2')", "3", *["OSError('away')"] * 3]


def test_who_gives_up_holds_up_nobody() -> None:
    async def run() -> int:
        async def work(questions: Sequence[int]) -> list[int]:
            await asyncio.sleep(0.01)
            return list(questions)

        batcher = Batcher(work, 10)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await batcher.ask(1)
        return await batcher.ask(2)

    assert asyncio.run(run()) == 2


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=30), st.integers(1, 5))
def test_nobody_is_answered_by_a_look_from_before_they_asked(askers: list[tuple[int, int]], most: int) -> None:
    """`askers`: turns of the loop before each asks, and turns that the look takes that has this one first."""

    async def run() -> None:
        now = 0

        async def turns(count: int) -> None:
            nonlocal now
            for _ in range(count):
                await asyncio.sleep(0)
                now += 1

        async def work(questions: Sequence[tuple[int, int]]) -> list[int]:
            assert len(questions) <= most
            looked = now
            await turns(questions[0][1])
            return [looked] * len(questions)

        batcher = Batcher(work, most)

        async def ask(before: int, long: int) -> None:
            await turns(before)
            asked = now
            assert await batcher.ask((asked, long)) >= asked

        await asyncio.gather(*(ask(*one) for one in askers))

    asyncio.run(run())


def test_each_write_of_one_command_means_what_it_would_mean_alone() -> None:
    """A key that is taken is told, and a primary that steps down in the middle leaves the outcome unknown."""
    rows = [
        {"index": 1, "code": 11000, "errmsg": "E11000 duplicate key"},
        {"index": 2, "code": 189, "errmsg": "Primary stepped down"},
        {"index": 4, "code": 2, "errmsg": "bad value"},
    ]
    found = one_by_one(5, BulkWriteError({"writeErrors": rows, "writeConcernErrors": []}))
    assert found[0] is found[3] is None
    assert isinstance(found[1], DuplicateKeyError)
    assert isinstance(found[2], PyMongoError) and isinstance(translate(found[2]), OutcomeUnknownError)
    assert isinstance(found[4], WriteError)
