"""The order of the queue: properties of the pure functions; test_judicator_queue.py has the whole."""

from hypothesis import given
from hypothesis import strategies as st

from judge.judicator.queue.order import ExecutorCapacity, most_slots, round_of, waiting_reason

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
    alive = [executor for executor in executors.values() if executor.alive]
    able = [executor for executor in alive if executor.can_judge(needs, wants)]
    if reason == "no executor is alive":
        assert not alive
    elif "has language" in reason:
        assert needs
        assert not any(needs in executor.languages for executor in alive)
    elif "has all of" in reason:
        assert not able
        assert all(ability in reason for ability in wants)
    elif "drained" in reason:
        assert able
        assert all(executor.drained for executor in able)
    elif "full" in reason:
        assert any(executor.busy and not executor.drained and not executor.accepts for executor in able)
    elif "accepts work" in reason:
        assert any(not executor.accepts and not executor.drained and not executor.busy for executor in able)
    else:
        assert "turn" in reason
        assert any(executor.accepts and not executor.drained for executor in able)


@given(*[st.one_of(st.none(), st.integers(0, 100))] * 3)
def test_a_round_never_goes_back(head: int | None, local: int | None, anywhere: int | None) -> None:
    now = round_of(head, local, anywhere)
    assert now >= max(1, local or 1)
    assert now in {1, head, local, anywhere}
    assert now <= max(1, local or 1, anywhere or 1), "nobody begins in a round that none has come to"
    if head is not None:
        assert now <= max(1, head, local or 1), "nor behind those who wait for the same language"


@given(st.floats(0.001, 1.0), st.integers(0, 500))
def test_a_share_of_the_slots_is_rounded_down_and_at_least_one(share: float, slots: int) -> None:
    limit = most_slots(share, slots)
    if share >= 1:
        assert limit is None
    else:
        assert limit is not None
        assert limit == max(1, int(share * slots))
