"""Who wakes: the parked executor that has the most free slots by its newest report."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from bson import ObjectId

from judge.judicator.hub import Hub


async def _never() -> bool:
    return False


def woken(free: dict[str, int], later: Iterable[tuple[str, int, int]]) -> set[str]:
    """Who wakes for one task, when so many slots were free at parking, and `later` reports say otherwise."""

    async def play() -> set[str]:
        hub = Hub()
        waits = {
            name: asyncio.create_task(hub.park(name, frozenset({"c", ""}), count, 5.0, _never))
            for name, count in free.items()
        }
        await asyncio.sleep(0)
        for name, sequence, count in later:
            hub.vacant(name, ("i", sequence), count)
        hub.queued(ObjectId(), 0, "c")
        await asyncio.wait(waits.values(), timeout=0.05)
        found = {name for name, wait in waits.items() if wait.done() and wait.result()}
        hub.close()
        await asyncio.gather(*waits.values())
        return found

    return asyncio.run(play())


def test_the_one_with_the_most_free_slots_wakes() -> None:
    assert woken({"a": 1, "b": 3}, []) == {"b"}


def test_a_parked_executor_that_has_filled_up_meanwhile_does_not_win() -> None:
    assert woken({"a": 1, "b": 3}, [("b", 2, 0)]) == {"a"}
    assert woken({"b": 3}, [("b", 2, 0)]) == set()


def test_an_older_report_that_is_answered_late_changes_nothing() -> None:
    assert woken({"a": 1, "b": 3}, [("b", 2, 0), ("b", 1, 3)]) == {"a"}
