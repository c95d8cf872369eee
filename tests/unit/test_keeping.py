"""The pure parts of retention, stored bytes, the audit trail and what gateways note in it."""

import datetime
import itertools
import json

import pytest
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st

from judge.gateway.notes import BURST, REFILL_SECONDS, NoteBudget
from judge.judicator import audit, loops
from judge.judicator.usage import correction
from judge.model.audit import AuditQuery


@given(st.integers(), st.integers())
def test_a_correction_is_no_larger_than_either_difference(before: int, now: int) -> None:
    amount = correction(before, now)
    assert abs(amount) <= min(abs(before), abs(now))
    assert amount == 0 or (amount > 0) == (before > 0) == (now > 0)


@given(st.integers(-(10**9), 10**9), st.lists(st.integers(-1000, 1000), min_size=2, max_size=30))
def test_a_constant_difference_is_corrected(off: int, noise: list[int]) -> None:
    """Each look sees the fault and something that is under way; afterwards the fault is as small as that."""
    previous = 0
    for delta in [*noise, 0, 0]:
        now = off + delta
        amount = correction(previous, now)
        off, previous = off - amount, now - amount
    assert abs(off) <= 2 * max(map(abs, noise), default=0)


@given(st.lists(st.integers(1, 8 * 64 * 1024), unique=True, min_size=2), st.sampled_from([1, -1]))
def test_a_small_difference_is_not_corrected(looks: list[int], sign: int) -> None:
    """As of a user whose tasks never end: something of his always waits to be counted."""
    assert {correction(sign * before, sign * now) for before, now in itertools.pairwise(looks)} == {0}


details = st.recursive(
    st.text() | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=60) | st.dictionaries(st.text(), inner, max_size=60),
    max_leaves=200,
)


@given(details)
def test_details_are_small_and_forge_no_line(value: object) -> None:
    bounded = audit.bounded(value)
    for text in json.dumps(bounded, ensure_ascii=False).split('"'):
        assert text.replace("\\", "").isprintable()
        assert len(text) <= 4 * 300


def test_a_query_of_the_trail_names_no_operator_of_the_database() -> None:
    at = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    query = audit.query(AuditQuery(actor="root", action="problem.", since=at, until=at, before="f" * 24))
    assert query["actor"] == "root"
    assert query["action"] == {"$regex": r"^problem\."}
    assert query["_id"]["$gte"] == ObjectId.from_datetime(at)
    assert query["_id"]["$lt"] == ObjectId.from_datetime(at + datetime.timedelta(seconds=1))
    assert audit.query(AuditQuery(action="login")) == {"action": "login"}
    assert audit.query(AuditQuery()) == {}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.lists(st.floats(0, 60), min_size=1, max_size=300))
def test_notes_are_bounded_and_nothing_goes_uncounted(steps: list[float]) -> None:
    clock = Clock()
    throttle = NoteBudget(monotonic=clock)
    lines = reported = 0
    for step in steps:
        clock.now += step
        skipped = throttle.take("login.failed")
        if skipped is not None:
            lines, reported = lines + 1, reported + skipped
    assert lines <= BURST + clock.now / REFILL_SECONDS + 1
    clock.now += BURST * REFILL_SECONDS
    assert reported + (throttle.take("login.failed") or 0) == len(steps) - lines


def test_kinds_do_not_share_a_bucket_and_are_forgotten() -> None:
    throttle = NoteBudget(monotonic=Clock())
    assert [throttle.take("a") for _ in range(BURST + 1)] == [0] * BURST + [None]
    assert throttle.take("b") == 0
    for index in range(2000):
        throttle.take(f"kind {index}")
    assert len(throttle._kinds) <= 1000


@pytest.mark.parametrize(("tries", "seconds"), [(1, 1), (2, 2), (5, 16), (7, 60), (10**6, 60)])
def test_pauses_after_faults_grow_up_to_a_minute(tries: int, seconds: float) -> None:
    assert loops.pause(tries) == seconds


@pytest.mark.parametrize("year", [1970, 2026, 2105])
def test_a_search_of_the_audit_trail_takes_any_moment(year: int) -> None:
    moment = datetime.datetime(year, 12, 31, 23, 59, 59, 999999, datetime.UTC)
    query = audit.query(AuditQuery(since=moment, until=moment))
    assert query["_id"]["$gte"] <= query["_id"]["$lt"]
