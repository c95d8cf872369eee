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

    def fill(self, user: str, count: int, needs: str = "c") -> None:
        for _ in range(count):
            self.add(user, needs)

    def hand_out(self, until: int) -> Entry | None:
        """One task for a free slot, if there is both; it runs until then."""
        if len(self.running) >= self.slots:
            return None
        for task in self.queue.take("e1", ABLE, 1):
            entry = next(entry for entry in self.waiting if entry.id == task.id)
            self.waiting.remove(entry)
            if entry.arrival not in self.back:
                self.handed.append((self.now, entry))
            self.back.discard(entry.arrival)
            self.running.append((entry, until))
            return entry
        return None

    def end(self, entry: Entry, *, back: bool = False) -> None:
        self.running = [run for run in self.running if run[0] != entry]
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
        self.now += 1
        for entry in [task for task, end in self.running if end <= self.now]:
            self.end(entry)
        while self.hand_out(self.now + lengths[len(self.handed) % len(lengths)]):
            pass


def waits_for(cluster: Cluster, entry: Entry) -> int | None:
    return next((now for now, task in cluster.handed if task == entry), None)


CROWDS = ["crowd0", "crowd1", "crowd2"]
TURNS = ["turn0", "turn1", "turn2", "turn3", "turn4"]
OTHERS = ["burst", "rare"]


@dataclass
class Watch:
    """What one waiting task has seen assigned since it was added."""

    entry: Entry
    place: int
    served: bool
    handed_out: Counter[str] = field(default_factory=Counter)


@dataclass
class Play:
    """A cluster in which every task is watched: of no other user go more first than it has a place in line."""

    cluster: Cluster
    watches: list[Watch] = field(default_factory=list)
    given_up: Counter[str] = field(default_factory=Counter)

    def add(self, user: str, needs: str = "c") -> None:
        cluster = self.cluster
        own = [task for task in cluster.waiting if task.user == user and task.arrival not in cluster.back]
        if not own:
            self.given_up[user] = 0
        last = max((task.order for _, task in cluster.handed if task.user == user), default=None)
        served = last is not None and any(
            task.order <= last for task in cluster.waiting if task.arrival not in cluster.back
        )
        # A place in line that somebody gave up stays theirs until none of their tasks waits.
        self.watches.append(Watch(cluster.add(user, needs), len(own) + self.given_up[user] + 1, served))

    def hand_out(self) -> None:
        before = len(self.cluster.handed)
        if self.cluster.hand_out(10**9) is None or len(self.cluster.handed) == before:
            return
        _, entry = self.cluster.handed[-1]
        self.watches = [watch for watch in self.watches if watch.entry != entry]
        for watch in self.watches:
            watch.handed_out[entry.user] += 1
            counts = [count for user, count in watch.handed_out.items() if user != watch.entry.user]
            assert max(counts, default=0) <= watch.place + watch.served, watch

    def cancel(self, number: int) -> None:
        able = [task for task in self.cluster.waiting if task.arrival not in self.cluster.back]
        if able:
            entry = able[number % len(able)]
            self.cluster.cancel(entry)
            self.watches = [watch for watch in self.watches if watch.entry != entry]
            self.given_up[entry.user] += 1

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
def test_no_other_user_goes_first_more_often_than_a_tasks_place(
    slots: int, crowds: int, turns: int, deep: int, early: bool, languages: list[str], steps: list[tuple[str, int]]
) -> None:
    """Whatever mix: crowds that hand in without a pause, people who take turns with one task each, bursts, rare ones.

    Between the add of a user's n-th waiting task and its hand-out at most n of any other user's go first, and one
    more when this user was served already in the round that is on.
    """
    play = Play(Cluster(slots, 1.0))
    pausing = 0
    language = itertools.cycle(languages)
    for action, number in steps:
        if action == "drain":
            pausing = number
        pausing = max(0, pausing - 1)
        busy = [task.user for task, _ in play.cluster.running]
        waiting = Counter(task.user for task in play.cluster.waiting)
        if not pausing:
            for crowd in CROWDS[:crowds]:
                for _ in range(deep - waiting[crowd]):
                    play.add(crowd, next(language))
            for user in TURNS[:turns]:
                if not waiting[user] and (early or user not in busy):
                    play.add(user, next(language))
        if action in OTHERS:
            for _ in range(number):
                play.add(action, next(language))
        elif action == "cancel":
            play.cancel(number)
        elif action != "drain":
            play.end(number, back=action == "back")
        for _ in range(slots):
            play.hand_out()


@settings(max_examples=50)
@given(
    st.integers(1, 6),
    st.sampled_from([0.1, 0.5, 0.75, 1.0]),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=20, max_size=40),
    st.lists(st.integers(1, JOB), min_size=3, max_size=7),
    st.integers(0, 60),
)
def test_a_user_waits_at_most_two_job_times_behind_a_crowd(
    slots: int, share: float, crowds: int, steps: list[tuple[int, int]], lengths: list[int], backlog: int
) -> None:
    cluster = Cluster(slots, share)
    for crowd in range(crowds):
        cluster.fill(f"crowd {crowd}", backlog)
    newcomers: list[tuple[int, Entry]] = []
    for extra, pause in steps:
        for crowd in range(crowds):
            cluster.fill(f"crowd {crowd}", 1 + extra)
        if pause == 0 and not any(task.user == "newcomer" for task in cluster.waiting):
            newcomers.append((cluster.now, cluster.add("newcomer")))
        cluster.tick(lengths)
    for start, entry in newcomers:
        end = waits_for(cluster, entry)
        # One job time until a slot is free, then one for a task of each crowd.
        assert (cluster.now if end is None else end) - start <= JOB * (1 + crowds) + 1


def test_a_user_at_the_share_lets_no_visitor_overtake() -> None:
    """A user at the share keeps its places for long: who comes one by one does not join that row again and again."""
    cluster = Cluster(4, 0.5)
    cluster.fill("slow", 40)
    cluster.tick([1000])
    assert Counter(task.user for task, _ in cluster.running)["slow"] == most_slots(0.5, 4)
    cluster.fill("patient", 30)
    for _ in range(30):
        if not any(task.user == "visitor" for task in cluster.waiting):
            cluster.add("visitor")
        for task in [task for task, _ in cluster.running if task.user != "slow"]:
            cluster.end(task)
        cluster.tick([1000])
    served = [task.user for _, task in cluster.handed]
    assert served.count("patient") >= 25
    # A user who comes when they move again does not begin where they stand, and go through all those rounds once more.
    before = len(cluster.handed)
    cluster.fill("patient", 20)
    for _ in range(15):
        for user in TURNS[:4]:
            if not any(task.user == user for task in cluster.waiting):
                cluster.add(user)
        for task in [task for task, _ in cluster.running]:
            cluster.end(task)
        cluster.tick([1])
    following = Counter(task.user for _, task in cluster.handed[before:])
    assert following["slow"] == 30, "the share, and no more"
    assert following["patient"] >= 5


def test_an_unused_language_overtakes_nobody() -> None:
    cluster = Cluster(1, 1.0)
    for _ in range(30):
        cluster.add("a")
        cluster.add("b")
    for _ in range(40):
        cluster.tick([1])
    cluster.fill("c", 10, "java")
    for _ in range(9):
        cluster.tick([1])
    assert [task.user for _, task in cluster.handed[-9:]].count("c") <= 4


def test_a_user_served_long_ago_begins_in_the_current_round() -> None:
    """However far the rounds have come meanwhile, in whatever language, and though nobody waited in between."""
    cluster = Cluster(1, 1.0)
    cluster.fill("a", 30)
    cluster.add("b", needs="java")
    for _ in range(40):
        cluster.tick([1])
    cluster.fill("b", 10)
    entry = cluster.add("a")
    assert len([task for task in cluster.waiting if task < entry]) <= 2
    cluster.fill("b", 10, "java")
    entry = cluster.add("a", needs="java")
    assert len([task for task in cluster.waiting if task < entry]) <= 5
