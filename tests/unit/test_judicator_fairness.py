"""Fairness as users meet it: a cluster of slots and judicators, played with the judicators' own arithmetic.

The judicators' functions are given here what they are given by the database: the smallest place that waits, the largest
that was handed out, the user's own.
"""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from judge.judicator.queue.adding import AddsUnderWay, PendingAdd
from judge.judicator.queue.order import fair_order, most_slots, round_of

# Every job takes so many ticks, or fewer.
JOB = 6


class Entry(NamedTuple):
    """A waiting task by its place."""

    order: int
    arrival: int
    user: str
    needs: str = "c"


@dataclass
class Flight:
    """An add that has read what waits, and is not stored yet."""

    judicator: AddsUnderWay
    user: str
    needs: str
    add: PendingAdd
    over: AbstractContextManager[PendingAdd]
    order: int = 0
    served: bool = False


@dataclass
class Cluster:
    """Slots, judicators, and what waits in one class."""

    slots: int
    share: float
    judicators: list[AddsUnderWay]
    waiting: list[Entry] = field(default_factory=list)
    back: list[Entry] = field(default_factory=list)
    running: list[tuple[Entry, int]] = field(default_factory=list)
    flights: list[Flight] = field(default_factory=list)
    handed: list[tuple[int, Entry]] = field(default_factory=list)
    arrivals: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    now: int = 0

    def full(self) -> set[str]:
        cap = most_slots(self.share, self.slots)
        users = [one.user for one, _ in self.running]
        return set() if cap is None else {user for user in users if users.count(user) >= cap}

    def begin(self, judicator: int, user: str, needs: str = "c") -> Flight:
        adding = self.judicators[judicator]
        over = adding.begin(user, 2)
        flight = Flight(adding, user, needs, over.__enter__(), over)
        head = min((one.order for one in self.waiting if one.needs == needs), default=None)
        here = max((one.order for _, one in self.handed if one.needs == needs), default=None)
        anywhere = max((one.order for _, one in self.handed), default=None)
        mine = max((one.order for one in self.waiting if one.user == user), default=None)
        last = max((one.order for _, one in self.handed if one.user == user), default=None)
        flight.served = last is not None and any(one.order <= last for one in self.waiting)
        flight.order = adding.settle(user, flight.add, round_of(head, here, anywhere), mine, last)
        self.flights.append(flight)
        return flight

    def land(self, flight: Flight) -> Entry:
        self.flights.remove(flight)
        flight.over.__exit__(None, None, None)
        entry = Entry(flight.order, next(self.arrivals), flight.user, flight.needs)
        self.waiting.append(entry)
        return entry

    def add(self, user: str, judicator: int = 0, needs: str = "c") -> Entry:
        return self.land(self.begin(judicator, user, needs))

    def hand_out(self, until: int) -> Entry | None:
        """One task for a free slot, if there is both; it runs until then."""
        full = self.full()
        for queue in (self.back, self.waiting):
            able = [one for one in queue if one.user not in full]
            if able and len(self.running) < self.slots:
                first = min(able)
                queue.remove(first)
                if queue is self.waiting:
                    self.handed.append((self.now, first))
                self.running.append((first, until))
                return first
        return None

    def tick(self, lengths: list[int]) -> None:
        """Some jobs end, and free slots are given work."""
        self.now += 1
        self.running = [(one, end) for one, end in self.running if end > self.now]
        while self.hand_out(self.now + lengths[len(self.handed) % len(lengths)]):
            pass


def waits_for(cluster: Cluster, entry: Entry) -> int | None:
    return next((now for now, one in cluster.handed if one == entry), None)


# --- in hand-outs ----------------------------------------------------------------------------------------------------

CROWDS = ["crowd0", "crowd1", "crowd2"]
TURNS = ["turn0", "turn1", "turn2", "turn3", "turn4"]
OTHERS = ["burst", "rare"]


@dataclass
class Watch:
    """What one waiting task has seen handed out since it was added."""

    entry: Entry
    place: int
    served: bool
    seen: Counter[str] = field(default_factory=Counter)


@dataclass
class Play:
    """A cluster in which every task is watched: of no other user go more first than it has a place in line."""

    cluster: Cluster
    watches: list[Watch] = field(default_factory=list)
    gone: Counter[str] = field(default_factory=Counter)
    slack: int = 0

    def land(self, flight: Flight) -> None:
        user = flight.user
        mine = [one for one in self.cluster.waiting if one.user == user]
        if not mine:
            self.gone[user] = 0
        # A place in line that somebody gave up stays theirs until none of their tasks waits.
        self.watches.append(Watch(self.cluster.land(flight), len(mine) + self.gone[user] + 1, flight.served))

    def add(self, user: str, needs: str = "c") -> None:
        self.land(self.cluster.begin(0, user, needs))

    def hand_out(self) -> None:
        before = len(self.cluster.handed)
        if self.cluster.hand_out(0) is None or len(self.cluster.handed) == before:
            return
        _, entry = self.cluster.handed[-1]
        own = [one.arrival for one in self.cluster.waiting if one.user == entry.user]
        assert self.slack or min(own, default=entry.arrival) >= entry.arrival, "a user's own tasks keep their order"
        self.watches = [one for one in self.watches if one.entry != entry]
        for watch in self.watches:
            watch.seen[entry.user] += 1
            others = [count for user, count in watch.seen.items() if user != watch.entry.user]
            assert max(others, default=0) <= watch.place + watch.served + self.slack, watch

    def cancel(self, number: int) -> None:
        if self.cluster.waiting:
            entry = self.cluster.waiting.pop(number % len(self.cluster.waiting))
            self.watches = [one for one in self.watches if one.entry != entry]
            self.gone[entry.user] += 1

    def end(self, number: int, *, back: bool) -> None:
        if self.cluster.running:
            entry, _ = self.cluster.running.pop(number % len(self.cluster.running))
            if back:
                self.cluster.back.append(entry)


STEP = st.one_of(
    st.tuples(st.just("end"), st.integers(0, 8)),
    st.tuples(st.just("end"), st.integers(0, 8)),
    st.tuples(st.just("end"), st.integers(0, 8)),
    st.tuples(st.just("back"), st.integers(0, 8)),
    st.tuples(st.just("cancel"), st.integers(0, 50)),
    st.tuples(st.just("burst"), st.integers(1, 6)),
    st.tuples(st.just("rare"), st.integers(1, 2)),
    st.tuples(st.just("drain"), st.integers(1, 30)),
)


@given(
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(0, 5),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([["c"], ["c", "java"]]),
    st.lists(STEP, min_size=20, max_size=120),
)
def test_no_task_sees_more_of_another_user_than_its_own_place_in_line(
    slots: int, crowds: int, turns: int, deep: int, early: bool, languages: list[str], steps: list[tuple[str, int]]
) -> None:
    """Whatever mix: crowds that hand in without a pause, people who take turns with one task each, bursts, rare ones.

    Between the add of a user's n-th waiting task and its hand-out at most n of any other user's go first, and one
    more when this user was served already in the round that is on.
    """
    play = Play(Cluster(slots, 1.0, [AddsUnderWay()]))
    pausing = 0
    language = itertools.cycle(languages)
    for what, number in steps:
        if what == "drain":
            pausing = number
        pausing = max(0, pausing - 1)
        busy = [one.user for one, _ in play.cluster.running]
        held = Counter(one.user for one in play.cluster.waiting)
        if not pausing:
            for crowd in CROWDS[:crowds]:
                for _ in range(deep - held[crowd]):
                    play.add(crowd, next(language))
            for user in TURNS[:turns]:
                if not held[user] and (early or user not in busy):
                    play.add(user, next(language))
        if what in OTHERS:
            for _ in range(number):
                play.add(what, next(language))
        elif what == "cancel":
            play.cancel(number)
        elif what != "drain":
            play.end(number, back=what == "back")
        for _ in range(slots):
            play.hand_out()


@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 2), st.integers(0, 3)), min_size=20, max_size=120),
)
def test_adds_that_overlap_cost_others_no_more_than_one_task_for_each_that_is_under_way(
    judicators: int, overlap: int, steps: list[tuple[str, int, int]]
) -> None:
    """An add that has read the queue is stored some hand-outs later; other judicators do not know of it."""
    play = Play(Cluster(2, 1.0, [AddsUnderWay() for _ in range(judicators)]), slack=judicators * overlap + judicators)
    for user, where, ends in steps:
        play.cluster.begin(where % judicators, user)
        while len(play.cluster.flights) > overlap:
            play.land(play.cluster.flights[0])
        for _ in range(ends):
            play.end(0, back=False)
            play.hand_out()


def test_users_who_take_turns_do_not_hold_back_anothers_second_task() -> None:
    """More of them than slots, each with one task at a time, without a pause."""
    cluster = Cluster(2, 1.0, [AddsUnderWay()])
    turns = [f"turn{number}" for number in range(6)]
    for user in turns:
        cluster.add(user)
    mine = [cluster.add("ann") for _ in range(5)]
    for _ in range(60):
        cluster.tick([1])
        waiting = {one.user for one in cluster.waiting}
        for user in turns:
            if user not in waiting:
                cluster.add(user)
    served = [one for _, one in cluster.handed]
    for place, entry in enumerate(mine, start=1):
        before = Counter(one.user for one in served[: served.index(entry)])
        assert max(before[user] for user in turns) <= place + 1


# --- in time ---------------------------------------------------------------------------------------------------------


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
    cluster = Cluster(slots, share, [AddsUnderWay() for _ in range(judicators)])
    for crowd in range(crowds):
        for _ in range(backlog):
            cluster.add(f"crowd {crowd}")
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
            asked.append((cluster.now, cluster.add("newcomer", where % judicators), under_way))
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
    cluster = Cluster(1, 1.0, [AddsUnderWay()])
    for drain in drains:
        while len(cluster.flights) <= overlap:
            cluster.begin(0, "a")
        cluster.land(cluster.flights[0])
        orders = [one.order for one in cluster.waiting] + [one.order for one in cluster.flights]
        assert len(orders) == len(set(orders))
        for _ in range(min(drain, len(cluster.waiting))):
            cluster.running.clear()
            cluster.hand_out(0)


def test_adds_that_overlap_do_not_drift_away_while_the_queue_drains() -> None:
    """Two thousand tasks, each handed in while the one before is under way: then another user's five thousand."""
    cluster = Cluster(1, 1.0, [AddsUnderWay()])
    cluster.begin(0, "lms")
    for _ in range(2000):
        cluster.begin(0, "lms")
        cluster.land(cluster.flights[0])
        cluster.running.clear()
        cluster.hand_out(0)
        del cluster.handed[:-1]
    for _ in range(5000):
        cluster.add("other")
    mine = cluster.add("lms")
    assert len([one for one in cluster.waiting if one < mine]) <= 3


def test_nothing_is_kept_of_adds_that_are_over() -> None:
    adding = AddsUnderWay()
    for _ in range(100):
        with adding.begin("a", 2) as first, adding.begin("a", 2) as second:
            assert [adding.settle("a", one, 1, None, None) for one in (first, second)] == [1, 2]
            assert len(first.avoid) + len(second.avoid) <= 2
    assert not adding._users


def test_places_that_stand_still_are_no_way_past_everybody_else() -> None:
    """A user at the share keeps its places for long: who comes one by one does not join that row again and again."""
    cluster = Cluster(4, 0.5, [AddsUnderWay()])
    for _ in range(40):
        cluster.add("slow")
    cluster.tick([1000])
    assert cluster.full() == {"slow"}
    for _ in range(30):
        cluster.add("patient")
    for _ in range(30):
        if not any(one.user == "visitor" for one in cluster.waiting):
            cluster.add("visitor")
        cluster.running = [one for one in cluster.running if one[0].user == "slow"]
        cluster.tick([1000])
    served = [one.user for _, one in cluster.handed]
    assert served.count("patient") >= 25
    # A user who comes when they move again does not begin where they stand, and go through all those rounds once more.
    before = len(cluster.handed)
    for _ in range(20):
        cluster.add("patient")
    for _ in range(15):
        for user in TURNS[:4]:
            if not any(one.user == user for one in cluster.waiting):
                cluster.add(user)
        cluster.running = []
        cluster.tick([1])
    following = Counter(one.user for _, one in cluster.handed[before:])
    assert following["slow"] == 30, "the share, and no more"
    assert following["patient"] >= 5


def test_a_thousand_of_one_user_do_not_delay_another() -> None:
    cluster = Cluster(3, 1.0, [AddsUnderWay()])
    for _ in range(1000):
        cluster.add("a")
    cluster.add("b")
    cluster.tick([1])
    assert [one.user for _, one in cluster.handed] == ["a", "b", "a"]


def test_a_language_that_nobody_used_is_no_way_past_everybody_else() -> None:
    cluster = Cluster(1, 1.0, [AddsUnderWay()])
    for _ in range(30):
        cluster.add("a")
        cluster.add("b")
    for _ in range(40):
        cluster.tick([1])
    for _ in range(10):
        cluster.add("c", needs="java")
    for _ in range(9):
        cluster.tick([1])
    assert [one.user for _, one in cluster.handed[-9:]].count("c") <= 4


def test_who_was_served_long_ago_begins_with_the_others() -> None:
    """However far the rounds have come meanwhile, in whatever language, and though nobody waited in between."""
    cluster = Cluster(1, 1.0, [AddsUnderWay()])
    for _ in range(30):
        cluster.add("a")
    cluster.add("b", needs="java")
    for _ in range(40):
        cluster.tick([1])
    for _ in range(10):
        cluster.add("b")
    mine = cluster.add("a")
    assert len([one for one in cluster.waiting if one < mine]) <= 2
    for _ in range(10):
        cluster.add("b", needs="java")
    mine = cluster.add("a", needs="java")
    assert len([one for one in cluster.waiting if one < mine]) <= 5


@given(
    st.integers(1, 100),
    st.one_of(st.none(), st.integers(0, 100)),
    st.one_of(st.none(), st.integers(0, 300)),
    st.sets(st.integers(0, 110)),
)
def test_a_place_is_the_first_that_is_free(now: int, mine: int | None, last: int | None, flying: set[int]) -> None:
    order = fair_order(now, mine, last, flying)
    least = max(now, (mine or 0) + (mine is not None), now + 1 if last is not None and last >= now else 0)
    assert order >= least
    assert order not in flying
    assert set(range(least, order)) <= flying


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
