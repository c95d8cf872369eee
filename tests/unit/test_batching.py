"""Questions that are asked together: each has its own answer, and none an answer from before it was asked."""

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


def test_a_single_question_is_sent_at_once_and_later_ones_in_batches() -> None:
    batches: list[list[int]] = []

    async def run() -> list[int]:
        go = asyncio.Event()

        async def work(questions: Sequence[int]) -> list[int]:
            batches.append(list(questions))
            await go.wait()
            return [10 * question for question in questions]

        batcher = Batcher(work, 3)
        first = asyncio.create_task(batcher.ask(1))
        await asyncio.sleep(0.01)
        later = [asyncio.create_task(batcher.ask(question)) for question in (2, 3, 4, 5)]
        await asyncio.sleep(0.01)
        go.set()
        return list(await asyncio.gather(first, *later))

    assert asyncio.run(run()) == [10, 20, 30, 40, 50]
    assert batches == [[1], [2, 3, 4], [5]]


def test_an_answer_may_be_an_error_and_a_failed_batch_fails_each_question() -> None:
    async def run() -> list[object]:
        async def work(questions: Sequence[int]) -> list[int | Exception]:
            if 7 in questions:
                raise OSError("away")
            return [LookupError(str(question)) if question == 2 else question for question in questions]

        batcher = Batcher(work, 3)
        return list(
            await asyncio.gather(*(batcher.ask(question) for question in (1, 2, 3, 6, 7, 8)), return_exceptions=True)
        )

    answers = [repr(question) for question in asyncio.run(run())]
    assert answers == ["1", "LookupError('2')", "3", *["OSError('away')"] * 3]


def test_a_cancelled_question_blocks_no_other() -> None:
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
def test_no_answer_is_older_than_its_question(askers: list[tuple[int, int]], limit: int) -> None:
    """`askers`: turns of the loop before each asks, and turns that the look takes that has this one first."""

    async def run() -> None:
        now = 0

        async def turns(count: int) -> None:
            nonlocal now
            for _ in range(count):
                await asyncio.sleep(0)
                now += 1

        async def work(questions: Sequence[tuple[int, int]]) -> list[int]:
            assert len(questions) <= limit
            looked = now
            await turns(questions[0][1])
            return [looked] * len(questions)

        batcher = Batcher(work, limit)

        async def ask(before: int, long: int) -> None:
            await turns(before)
            begun = now
            assert await batcher.ask((begun, long)) >= begun

        await asyncio.gather(*(ask(*asker) for asker in askers))

    asyncio.run(run())


def test_each_write_of_a_bulk_command_has_its_own_error() -> None:
    rows = [
        {"index": 1, "code": 11000, "errmsg": "E11000 duplicate key"},
        {"index": 2, "code": 189, "errmsg": "Primary stepped down"},
        {"index": 4, "code": 2, "errmsg": "bad value"},
    ]
    faults = one_by_one(5, BulkWriteError({"writeErrors": rows, "writeConcernErrors": []}))
    assert faults[0] is faults[3] is None
    assert isinstance(faults[1], DuplicateKeyError)
    assert isinstance(faults[2], PyMongoError) and isinstance(translate(faults[2]), OutcomeUnknownError)
    assert isinstance(faults[4], WriteError)
