"""The order of the queue: properties of the pure functions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from judge.judicator.queue.order import eligible, fair_order


@given(st.integers(1, 100), st.integers(1, 30))
def test_the_nth_waiting_task_is_pushed_back_n_rounds(now: int, count: int) -> None:
    mine: int | None = None
    for place in range(count):
        mine = fair_order(now, mine, None)
        assert mine == now + place


@given(st.integers(1, 100), st.integers(0, 200))
def test_who_was_served_in_the_round_that_is_on_begins_in_the_next(now: int, last: int) -> None:
    assert fair_order(now, None, last) == now + (last >= now)


ALIVE = st.dictionaries(st.sampled_from(["e2", "e3", "e4"]), st.frozensets(st.sampled_from(["c", "java"])))


@given(ALIVE, st.sets(st.sampled_from(["e1", "e2", "e3", "e4"])), st.sampled_from(["c", "java", ""]))
def test_a_failed_executor_gets_it_again_only_when_nobody_else_could(
    alive: dict[str, frozenset[str]], failed: set[str], needs: str
) -> None:
    others = {name for name, has in alive.items() if name not in failed and (not needs or needs in has)}
    assert eligible("e1", needs, failed, alive) == ("e1" not in failed or not others)
