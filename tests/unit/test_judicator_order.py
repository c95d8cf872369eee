"""The order of the queue: properties of the pure functions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from judge.judicator.queue.order import ExecutorCapacity, fair_order, most_slots, round_of, waiting_reason


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
NEEDS = st.sampled_from(["c", "java", ""])
FAILED = st.sets(st.sampled_from(NAMES))


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


@given(*[st.one_of(st.none(), st.integers(0, 100))] * 3)
def test_a_round_never_goes_back(head: int | None, here: int | None, anywhere: int | None) -> None:
    now = round_of(head, here, anywhere)
    assert now >= max(1, here or 1)
    assert now in {1, head, here, anywhere}
    assert now <= max(1, here or 1, anywhere or 1), "nobody begins in a round that none has come to"
    if head is not None:
        assert now <= max(1, head, here or 1), "nor behind those who wait for the same language"


@given(st.floats(0.001, 1.0), st.integers(0, 500))
def test_a_share_of_the_slots_is_rounded_down_and_at_least_one(share: float, slots: int) -> None:
    most = most_slots(share, slots)
    if share >= 1:
        assert most is None
    else:
        assert most is not None
        assert most == max(1, int(share * slots))
