"""Who wakes: the parked executor that has the most free slots by its newest report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import pytest
from bson import ObjectId

from judge import clock
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


def parked_after(tell: Callable[[Hub], None], *, later: float = 0.0) -> bool:
    """Whether the queue need not be looked at again after a report that found nothing, and after this."""

    async def play() -> bool:
        hub = Hub()
        hub.looked("e", ("i", 1), frozenset({"c"}), hub.told)
        tell(hub)
        clock_now = clock.monotonic() + later
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clock, "monotonic", lambda: clock_now)
            return hub.nothing("e", "i") is not None and hub.nothing("e", "other") is None

    return asyncio.run(play())


def test_the_queue_is_not_looked_at_twice_for_nothing() -> None:
    assert parked_after(lambda _: None)


@pytest.mark.parametrize(
    "tell",
    [
        lambda hub: hub.queued(ObjectId(), 0, "c"),
        lambda hub: hub.room(["c"]),
        lambda hub: hub.everyone(),
    ],
)
def test_it_is_looked_at_again_when_anything_was_told(tell: Callable[[Hub], None]) -> None:
    assert not parked_after(tell)


def test_it_is_looked_at_again_after_a_moment_though_nothing_was_told() -> None:
    assert not parked_after(lambda _: None, later=0.6)


def test_what_was_told_while_the_queue_was_asked_counts() -> None:
    hub = Hub()
    told = hub.told
    hub.queued(ObjectId(), 0, "c")
    hub.looked("e", ("i", 1), frozenset({"c"}), told)
    assert hub.nothing("e", "i") is None


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
