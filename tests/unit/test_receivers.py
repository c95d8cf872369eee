"""Calls to receivers that fail: one at a time, after pauses that grow and end. Property tests."""

from hypothesis import given
from hypothesis import strategies as st

from judge.common.webhooks import tries
from judge.judicator.events.receivers import Receivers

EACH = 8


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([True, False, None]), st.floats(0, 400)), max_size=60))
def test_a_failing_receiver_has_one_call_and_the_others_have_their_own(steps):
    now = [0.0]
    receivers: Receivers[str] = Receivers(EACH, lambda: now[0])
    under_way: dict[str, list[int]] = {"a": [], "b": []}
    for key, failed, later in steps:
        now[0] += later
        if receivers.failing(key) and under_way[key]:
            assert receivers.room(key) <= 0
        while (room := receivers.room(key)) > 0:
            under_way[key].append(receivers.begin(key))
            assert len(under_way[key]) <= EACH and receivers.room(key) == room - 1
        assert key in receivers.closed()
        if under_way[key]:
            receivers.end(key, under_way[key].pop(), failed=failed)
            if failed is not None:
                assert receivers.failing(key) == failed or (failed and receivers.failing(key))
    for key, begun in under_way.items():
        while begun:
            receivers.end(key, begun.pop(), failed=False)
        assert receivers.room(key) == EACH
    assert receivers.closed() == []


def test_calls_beside_each_other_count_as_one_failure():
    now = [0.0]
    receivers: Receivers[str] = Receivers(EACH, lambda: now[0])
    begun = [receivers.begin("a") for _ in range(EACH)]
    for call in begun:
        receivers.end("a", call, failed=True)
    assert receivers.room("a") == 0
    now[0] += tries.probe_pause(1, 1.0)
    assert receivers.room("a") == 1
    receivers.begin("a")
    assert receivers.room("a") == 0
    receivers.reset("a")
    assert receivers.room("a") == EACH - 1


def test_no_more_receivers_are_remembered_than_may_be():
    receivers: Receivers[int] = Receivers(EACH, lambda: 0.0)
    for key in range(3000):
        receivers.end(key, receivers.begin(key), failed=True)
    assert len(receivers.closed()) == 1000


@given(st.integers(1, 10**6), st.floats(0, 1), st.none() | st.floats(0, 10**9))
def test_pauses_of_receivers_grow_and_end(count, chance, requested):
    pause = tries.probe_pause(count, chance, requested)
    assert 0.3 < pause <= 3600
    assert requested is not None or pause <= 30 * 1.25
    assert requested is None or pause >= min(requested, 3600)
    assert tries.probe_pause(count + 1, chance) >= tries.probe_pause(count, chance)
