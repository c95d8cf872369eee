"""Fairness as users meet it: a cluster of slots, played with the judicators' own queue."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from judge.judicator.queue.fair import FairQueue, QueuedTask, WaitingTask
from judge.judicator.queue.order import Capacity, ExecutorCapacity, most_slots

# Every job takes so many ticks, or fewer.
JOB = 6
ABLE = ExecutorCapacity(frozenset({"c", "java"}))


class Entry(NamedTuple):
    """A task by its place."""

    order: int
    arrival: int
    user: str
    needs: str = "c"

    @property
    def id(self) -> bytes:
        return self.arrival.to_bytes(12, "big")


@dataclass
class Cluster:
    """Slots, and what waits in one class."""

    slots: int
    share: float
    queue: FairQueue = field(default_factory=FairQueue)
    waiting: list[Entry] = field(default_factory=list)
    running: list[tuple[Entry, int]] = field(default_factory=list)
    handed: list[tuple[int, Entry]] = field(default_factory=list)
    back: set[int] = field(default_factory=set)
    arrivals: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    now: int = 0

    def __post_init__(self) -> None:
        self.queue.set_capacity(Capacity({"e1": ABLE}, self.slots))

    def add(self, user: str, needs: str = "c") -> Entry:
        arrival = next(self.arrivals)
        task = arrival.to_bytes(12, "big")
        self.queue.add(QueuedTask(task, user, "normal", needs, share=self.share))
        state = self.queue.state(task)
        assert isinstance(state, WaitingTask)
        entry = Entry(state.order, arrival, user, needs)
        self.waiting.append(entry)
        return entry

    def hand_out(self, until: int) -> Entry | None:
        """One task for a free slot, if there is both; it runs until then."""
        if len(self.running) >= self.slots:
            return None
        for task in self.queue.take("e1", ABLE, 1):
            entry = next(one for one in self.waiting if one.id == task.id)
            self.waiting.remove(entry)
            if entry.arrival not in self.back:
                self.handed.append((self.now, entry))
            self.back.discard(entry.arrival)
            self.running.append((entry, until))
            return entry
        return None

    def end(self, entry: Entry, *, back: bool = False) -> None:
        self.running = [one for one in self.running if one[0] != entry]
        if back:
            self.queue.give_back(entry.id, (), 0.0)
            self.back.add(entry.arrival)
            self.waiting.append(entry)
        else:
            self.queue.remove(entry.id)

    def cancel(self, entry: Entry) -> None:
        self.waiting.remove(entry)
        self.queue.remove(entry.id)

    def tick(self, lengths: list[int]) -> None:
        """Some jobs end, and free slots are given work."""
        self.now += 1
        for entry in [one for one, end in self.running if end <= self.now]:
            self.end(entry)
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
    """What one waiting task has seen assigned since it was added."""

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

    def add(self, user: str, needs: str = "c") -> None:
        cluster = self.cluster
        mine = [one for one in cluster.waiting if one.user == user and one.arrival not in cluster.back]
        if not mine:
            self.gone[user] = 0
        last = max((one.order for _, one in cluster.handed if one.user == user), default=None)
        served = last is not None and any(
            one.order <= last for one in cluster.waiting if one.arrival not in cluster.back
        )
        # A place in line that somebody gave up stays theirs until none of their tasks waits.
        self.watches.append(Watch(cluster.add(user, needs), len(mine) + self.gone[user] + 1, served))

    def hand_out(self) -> None:
        before = len(self.cluster.handed)
        if self.cluster.hand_out(10**9) is None or len(self.cluster.handed) == before:
            return
        _, entry = self.cluster.handed[-1]
        self.watches = [one for one in self.watches if one.entry != entry]
        for watch in self.watches:
            watch.seen[entry.user] += 1
            others = [count for user, count in watch.seen.items() if user != watch.entry.user]
            assert max(others, default=0) <= watch.place + watch.served, watch

    def cancel(self, number: int) -> None:
        able = [one for one in self.cluster.waiting if one.arrival not in self.cluster.back]
        if able:
            entry = able[number % len(able)]
            self.cluster.cancel(entry)
            self.watches = [one for one in self.watches if one.entry != entry]
            self.gone[entry.user] += 1

    def end(self, number: int, *, back: bool) -> None:
        if self.cluster.running:
            entry, _ = self.cluster.running[number % len(self.cluster.running)]
            self.cluster.end(entry, back=back)


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
    play = Play(Cluster(slots, 1.0))
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


def test_users_who_take_turns_do_not_hold_back_anothers_second_task() -> None:
    """More of them than slots, each with one task at a time, without a pause."""
    cluster = Cluster(2, 1.0)
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
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=20, max_size=40),
    st.lists(st.integers(1, JOB), min_size=3, max_size=7),
    st.integers(0, 60),
)
def test_nobody_waits_more_than_two_job_times_behind_anothers_crowd(
    slots: int, share: float, crowds: int, steps: list[tuple[int, int]], lengths: list[int], backlog: int
) -> None:
    """Crowds submit without a pause; others now and then."""
    cluster = Cluster(slots, share)
    for crowd in range(crowds):
        for _ in range(backlog):
            cluster.add(f"crowd {crowd}")
    asked: list[tuple[int, Entry]] = []
    for more, pause in steps:
        for crowd in range(crowds):
            for _ in range(1 + more):
                cluster.add(f"crowd {crowd}")
        if pause == 0 and not any(one.user == "newcomer" for one in cluster.waiting):
            asked.append((cluster.now, cluster.add("newcomer")))
        cluster.tick(lengths)
    for start, entry in asked:
        end = waits_for(cluster, entry)
        # One job time until a slot is free, then one for a task of each crowd.
        assert (cluster.now if end is None else end) - start <= JOB * (1 + crowds) + 1


def test_places_that_stand_still_are_no_way_past_everybody_else() -> None:
    """A user at the share keeps its places for long: who comes one by one does not join that row again and again."""
    cluster = Cluster(4, 0.5)
    for _ in range(40):
        cluster.add("slow")
    cluster.tick([1000])
    assert Counter(one.user for one, _ in cluster.running)["slow"] == most_slots(0.5, 4)
    for _ in range(30):
        cluster.add("patient")
    for _ in range(30):
        if not any(one.user == "visitor" for one in cluster.waiting):
            cluster.add("visitor")
        for one in [one for one, _ in cluster.running if one.user != "slow"]:
            cluster.end(one)
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
        for one in [one for one, _ in cluster.running]:
            cluster.end(one)
        cluster.tick([1])
    following = Counter(one.user for _, one in cluster.handed[before:])
    assert following["slow"] == 30, "the share, and no more"
    assert following["patient"] >= 5


def test_a_thousand_of_one_user_do_not_delay_another() -> None:
    cluster = Cluster(3, 1.0)
    for _ in range(1000):
        cluster.add("a")
    cluster.add("b")
    cluster.tick([1])
    assert [one.user for _, one in cluster.handed] == ["a", "b", "a"]


def test_a_language_that_nobody_used_is_no_way_past_everybody_else() -> None:
    cluster = Cluster(1, 1.0)
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
    cluster = Cluster(1, 1.0)
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
