"""The order of the queue: properties of the pure functions."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from judge.judicator.queue.order import PATIENCE, ExecutorCapacity, eligible, fair_order, waiting_reason


@given(st.integers(1, 100), st.integers(1, 30))
def test_the_nth_waiting_task_is_pushed_back_n_rounds(now: int, count: int) -> None:
    mine: int | None = None
    for place in range(count):
        mine = fair_order(now, mine, None)
        assert mine == now + place


@given(st.integers(1, 100), st.integers(0, 200))
def test_who_was_served_in_the_round_that_is_on_begins_in_the_next(now: int, last: int) -> None:
    assert fair_order(now, None, last) == now + (last >= now)


NAMES = ["e1", "e2", "e3", "e4"]
LANGUAGES = st.frozensets(st.sampled_from(["c", "java"]))
ABILITIES = st.frozensets(st.sampled_from(["files", "pandoc"]))
CAPACITY = st.builds(
    ExecutorCapacity,
    languages=LANGUAGES,
    abilities=ABILITIES,
    accepts=st.booleans(),
    alive=st.booleans(),
    drained=st.booleans(),
    busy=st.booleans(),
)
OTHERS = st.dictionaries(st.sampled_from(NAMES[1:]), CAPACITY)
NEEDS = st.sampled_from(["c", "java", ""])
FAILED = st.sets(st.sampled_from(NAMES))


@given(OTHERS, FAILED, NEEDS, ABILITIES, st.floats(0, 1e6))
def test_a_failed_executor_gets_it_again_only_when_nobody_else_will_take_it(
    others: dict[str, ExecutorCapacity], failed: set[str], needs: str, wants: frozenset[str], waited: float
) -> None:
    able = [
        one
        for name, one in others.items()
        if name not in failed and (not needs or needs in one.languages) and wants <= one.abilities
    ]
    hopeful = any(one.accepts for one in able) or (bool(able) and waited < PATIENCE)
    assert eligible("e1", needs, wants, failed, others, waited) == ("e1" not in failed or not hopeful)


@given(OTHERS, FAILED, NEEDS, ABILITIES)
def test_a_task_waits_for_no_executor_that_takes_nothing(
    others: dict[str, ExecutorCapacity], failed: set[str], needs: str, wants: frozenset[str]
) -> None:
    """Whatever the others are, if none of them asks for work an idle executor gets the task after a minute."""
    silent = {name: dataclasses.replace(one, accepts=False) for name, one in others.items()}
    assert eligible("e1", needs, wants, failed, silent, PATIENCE)


@given(st.dictionaries(st.sampled_from(NAMES), CAPACITY), FAILED, NEEDS, ABILITIES)
def test_the_reason_of_a_wait_is_true(
    executors: dict[str, ExecutorCapacity], failed: set[str], needs: str, wants: frozenset[str]
) -> None:
    reason = waiting_reason(needs, wants, failed, executors)
    alive = [one for one in executors.values() if one.alive]
    able = [one for one in alive if one.can_judge(needs, wants)]
    if reason == "no executor is alive":
        assert not alive
    elif "has language" in reason:
        assert needs
        assert not any(needs in one.languages for one in alive)
    elif "has all of" in reason:
        assert not able
        assert all(one in reason for one in wants)
    elif "drained" in reason:
        assert able
        assert all(one.drained for one in able)
    elif "full" in reason:
        assert any(one.busy and not one.drained and not one.accepts for one in able)
    elif "accepts work" in reason:
        assert any(not one.accepts and not one.drained and not one.busy for one in able)
    else:
        assert "turn" in reason
        assert any(one.accepts and not one.drained for one in able)
