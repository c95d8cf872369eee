"""Fairness as users meet it: a cluster of slots and judicators played in ticks, with the judicators' own arithmetic."""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from judge.judicator.adding import Add, Adding
from judge.judicator.order import fair_order, most_slots

# Every job takes so many ticks, or fewer.
JOB = 6


class Entry(NamedTuple):
    """A waiting task by its place."""

    order: int
    arrival: int
    user: str


@dataclass
class Flight:
    """An add that has read what waits, and is not stored yet."""

    judicator: Adding
    user: str
    add: Add
    over: AbstractContextManager[Add]
    order: int = 0


@dataclass
class Cluster:
    """Slots, judicators, and what waits in one class."""

    slots: int
    share: float
    judicators: list[Adding]
    waiting: list[Entry] = field(default_factory=list)
    running: list[tuple[str, int]] = field(default_factory=list)
    flights: list[Flight] = field(default_factory=list)
    handed: list[tuple[int, Entry]] = field(default_factory=list)
    arrivals: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    now: int = 0

    def full(self) -> set[str]:
        cap = most_slots(self.share, self.slots)
        users = [user for user, _ in self.running]
        return set() if cap is None else {user for user in users if users.count(user) >= cap}

    def begin(self, judicator: int, user: str) -> Flight:
        adding = self.judicators[judicator]
        over = adding.begin(user, 2)
        flight = Flight(adding, user, over.__enter__(), over)
        cap = most_slots(self.share, self.slots)
        able = [one for one in self.waiting if cap is None or cap >= self.slots or one.user not in self.full()]
        head = min((one.order for one in able or self.waiting), default=None)
        mine = max((one.order for one in self.waiting if one.user == user), default=None)
        flight.order = adding.settle(user, flight.add, head, mine)
        self.flights.append(flight)
        return flight

    def land(self, flight: Flight) -> Entry:
        self.flights.remove(flight)
        flight.over.__exit__(None, None, None)
        entry = Entry(flight.order, next(self.arrivals), flight.user)
        self.waiting.append(entry)
        return entry

    def tick(self, lengths: list[int]) -> None:
        """Some jobs end, and free slots are given work."""
        self.now += 1
        self.running = [(user, end) for user, end in self.running if end > self.now]
        while len(self.running) < self.slots:
            full = self.full()
            able = [one for one in self.waiting if one.user not in full]
            if not able:
                return
            first = min(able)
            self.waiting.remove(first)
            self.handed.append((self.now, first))
            length = lengths[len(self.handed) % len(lengths)]
            self.running.append((first.user, self.now + length))


def waits_for(cluster: Cluster, entry: Entry) -> int | None:
    return next((now for now, one in cluster.handed if one == entry), None)


@settings(max_examples=50)
@given(
    st.integers(1, 6),
    st.sampled_from([0.1, 0.5, 0.75, 1.0]),
    st.integers(1, 3),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 2)), min_size=20, max_size=40),
    st.lists(st.integers(1, JOB), min_size=3, max_size=7),
    st.integers(0, 60),
)
def test_nobody_waits_more_than_two_job_times_behind_anothers_crowd(
    slots: int,
    share: float,
    judicators: int,
    crowds: int,
    steps: list[tuple[int, int, int]],
    lengths: list[int],
    backlog: int,
) -> None:
    """Crowds hand in without a pause, by adds that overlap all the time, at several judicators; others now and then."""
    cluster = Cluster(slots, share, [Adding() for _ in range(judicators)])
    for crowd in range(crowds):
        for _ in range(backlog):
            cluster.land(cluster.begin(0, f"crowd {crowd}"))
    asked: list[tuple[int, Entry, int]] = []
    for where, more, pause in steps:
        for crowd in range(crowds):
            flying = [one for one in cluster.flights if one.user == f"crowd {crowd}"]
            for number in range(1 + more):
                cluster.begin((where + number) % judicators, f"crowd {crowd}")
            for one in flying:  # those of the step before: some are under way at every moment
                cluster.land(one)
        if pause == 0 and not any(one.user == "newcomer" for one in cluster.waiting):
            under_way = max(
                (len([f for f in cluster.flights if f.user == f"crowd {c}"]) for c in range(crowds)), default=0
            )
            asked.append((cluster.now, cluster.land(cluster.begin(where % judicators, "newcomer")), under_way))
        cluster.tick(lengths)
    for start, entry, under_way in asked:
        end = waits_for(cluster, entry)
        waited = (cluster.now if end is None else end) - start
        # One job time until a slot is free, then one for a task of each crowd. Several judicators do not know what the
        # others are adding at this very moment, which may get the same place.
        same = 1 if judicators == 1 else judicators + under_way
        assert waited <= JOB * (1 + crowds * same) + 1


@given(st.integers(1, 4), st.lists(st.integers(0, 3), min_size=5, max_size=60))
def test_no_two_waiting_tasks_of_a_user_share_a_place(overlap: int, drains: list[int]) -> None:
    """Whatever is drained while adds overlap without a pause: then at most one of them goes before a newcomer's."""
    cluster = Cluster(1, 1.0, [Adding()])
    for drain in drains:
        while len(cluster.flights) <= overlap:
            cluster.begin(0, "a")
        cluster.land(cluster.flights[0])
        orders = [one.order for one in cluster.waiting] + [one.order for one in cluster.flights]
        assert len(orders) == len(set(orders))
        for _ in range(min(drain, len(cluster.waiting))):
            cluster.waiting.remove(min(cluster.waiting))


def test_places_do_not_grow_while_adds_overlap_and_the_queue_drains() -> None:
    """Two thousand tasks, each handed in while the one before is under way: then another user's five thousand."""
    cluster = Cluster(1, 1.0, [Adding()])
    cluster.begin(0, "lms")
    for _ in range(2000):
        cluster.begin(0, "lms")
        assert cluster.land(cluster.flights[0]).order <= 3
        cluster.waiting.clear()
    for _ in range(5000):
        cluster.land(cluster.begin(0, "other"))
    mine = cluster.land(cluster.begin(0, "lms"))
    assert len([one for one in cluster.waiting if one < mine]) <= 2


def test_nothing_is_kept_of_adds_that_are_over() -> None:
    adding = Adding()
    for _ in range(100):
        with adding.begin("a", 2) as first, adding.begin("a", 2) as second:
            assert [adding.settle("a", one, None, None) for one in (first, second)] == [1, 2]
            assert len(first.avoid) + len(second.avoid) <= 2
    assert not adding._users


def test_places_that_stand_still_are_no_way_past_everybody_else() -> None:
    """A user at the share keeps its places for long: who comes one by one does not join that row again and again."""
    cluster = Cluster(4, 0.5, [Adding()])
    for _ in range(5):
        cluster.land(cluster.begin(0, "slow"))
    cluster.tick([1000])
    assert cluster.full() == {"slow"}
    for _ in range(30):
        cluster.land(cluster.begin(0, "patient"))
    for _ in range(30):
        if not any(one.user == "visitor" for one in cluster.waiting):
            cluster.land(cluster.begin(0, "visitor"))
        cluster.running = [one for one in cluster.running if one[0] == "slow"]
        cluster.tick([1000])
    served = [one.user for _, one in cluster.handed]
    assert served.count("patient") >= 25


@given(st.integers(0, 100), st.one_of(st.none(), st.integers(0, 100)), st.sets(st.integers(0, 110)))
def test_a_place_is_the_first_that_is_free(head: int, mine: int | None, flying: set[int]) -> None:
    order = fair_order(head, mine, flying)
    least = head if mine is None else mine + 1
    assert order >= least
    assert order not in flying
    assert set(range(least, order)) <= flying


@given(st.floats(0.001, 1.0), st.integers(0, 500))
def test_a_share_of_the_slots_is_rounded_down_and_at_least_one(share: float, slots: int) -> None:
    most = most_slots(share, slots)
    if share >= 1:
        assert most is None
    else:
        assert most is not None
        assert most == max(1, int(share * slots))
