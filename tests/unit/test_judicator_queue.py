"""The queue against a naive model that has lists and sorts them all for each question."""

from __future__ import annotations

import dataclasses
import itertools
import tracemalloc
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from judge.judicator.queue.fair import FairQueue, QueuedTask, RunningTask, WaitingTask
from judge.judicator.queue.order import PATIENCE, RANKS, Capacity, ExecutorCapacity, most_slots

USERS = ["ann", "bob", "eve"]
LANGUAGES = ["", "c", "java"]
EXECUTORS = ["e1", "e2", "e3"]
WANTS = [frozenset[str](), frozenset({"files"})]


@dataclasses.dataclass
class Known:
    """One task of the model."""

    id: bytes
    user: str
    priority: str
    needs: str
    wants: frozenset[str]
    share: float
    rank: int
    order: int
    arrival: int
    attempt: int = 0
    failed: frozenset[str] = frozenset()
    since: float | None = None
    executor: str | None = None
    before: tuple[int, frozenset[str], float | None] = (0, frozenset(), None)

    @property
    def live(self) -> bool:
        return self.priority != "rejudge"


class QueueMachine(RuleBasedStateMachine):
    """Adds, assignments and ends in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = FairQueue()
        self.known: list[Known] = []
        self.assigned: list[Known] = []
        self.numbers = itertools.count(1)
        self.now = 0.0
        self.capacity = Capacity({}, 0)

    # --- the model -------------------------------------------------------------------------------------------------

    def waiting(self) -> list[Known]:
        return [one for one in self.known if one.executor is None]

    def order(self, user: str, priority: str, needs: str, rank: int) -> int:
        """R3, with lists."""
        languages = self.capacity.languages | {""}
        head = min((one.order for one in self.waiting() if (one.rank, one.needs) == (rank, needs)), default=None)
        of_class = [one for one in self.assigned if one.priority == priority]
        here = max((one.order for one in of_class if one.needs == needs), default=1)
        anywhere = max((one.order for one in of_class if one.needs in languages), default=1)
        now = max(1, here, anywhere if head is None else min(head, anywhere))
        mine = max((one.order for one in self.waiting() if (one.rank, one.user) == (rank, user)), default=0)
        last = max((one.order for one in of_class if one.user == user), default=None)
        return max(now, mine + 1 if mine else 0, 0 if last is None else min(last, now) + 1)

    def takes(self, name: str, able: ExecutorCapacity, one: Known) -> bool:
        """R4, R6 and R7, one task at a time."""
        if (one.needs and one.needs not in able.languages) or not one.wants <= able.abilities:
            return False
        most = most_slots(one.share, self.capacity.slots)
        held = sum(other.executor is not None and other.user == one.user and other.live for other in self.known)
        if one.live and most is not None and held >= most:
            return False
        if name not in one.failed:
            return True
        others = [
            other
            for other_name, other in self.capacity.executors.items()
            if other_name != name and other_name not in one.failed and other.can_judge(one.needs, one.wants)
        ]
        if any(other.accepts for other in others):
            return False
        return not others or one.since is None or self.now - one.since >= PATIENCE

    def blocks(self, name: str, one: Known) -> tuple[Any, ...]:
        """Of the same kind and user: a returned task that waits for another executor is not overtaken."""
        return one.rank, one.needs, one.wants, one.failed

    def first(self, name: str, able: ExecutorCapacity) -> Known | None:
        others = bool(set(self.capacity.executors) - {name})
        ranked = sorted(
            self.waiting(),
            key=lambda one: (not one.live, others and name in one.failed, one.rank, one.order, one.arrival),
        )
        stopped: set[tuple[Any, ...]] = set()
        for one in ranked:
            kind = self.blocks(name, one)
            if kind in stopped:
                continue
            if self.takes(name, able, one):
                return one
            most = most_slots(one.share, self.capacity.slots)
            held = sum(other.executor is not None and other.user == one.user and other.live for other in self.known)
            if not (one.live and most is not None and held >= most):
                stopped.add(kind)
        return None

    # --- what happens ----------------------------------------------------------------------------------------------

    @initialize(slots=st.integers(0, 8))
    def some_executors(self, slots: int) -> None:
        self.change_executors([True] * 3, [LANGUAGES] * 3, [True] * 3, slots)

    @rule(
        live=st.lists(st.booleans(), min_size=3, max_size=3),
        languages=st.lists(st.lists(st.sampled_from(LANGUAGES), unique=True), min_size=3, max_size=3),
        accepts=st.lists(st.booleans(), min_size=3, max_size=3),
        slots=st.integers(0, 8),
    )
    def change_executors(self, live: list[bool], languages: list[list[str]], accepts: list[bool], slots: int) -> None:
        executors = {
            name: ExecutorCapacity(frozenset(has) - {""}, frozenset({"files"} if name != "e3" else ()), accepting)
            for name, alive, has, accepting in zip(EXECUTORS, live, languages, accepts, strict=True)
            if alive
        }
        self.capacity = Capacity(executors, slots)
        self.queue.set_capacity(self.capacity)

    @rule(
        user=st.sampled_from(USERS),
        priority=st.sampled_from(list(RANKS)),
        needs=st.sampled_from(LANGUAGES),
        wants=st.sampled_from(WANTS),
        share=st.sampled_from([0.25, 0.5, 1.0]),
        place=st.integers(1, 9),
    )
    def add(self, user: str, priority: str, needs: str, wants: frozenset[str], share: float, place: int) -> None:
        number = next(self.numbers)
        task = number.to_bytes(12, "big")
        rank = RANKS[priority]
        order = place if priority == "rejudge" else self.order(user, priority, needs, rank)
        assert self.queue.add(QueuedTask(task, user, priority, needs, wants, share=share, order=place))
        assert not self.queue.add(QueuedTask(task, user, priority, needs, wants, share=share))
        self.known.append(Known(task, user, priority, needs, wants, share, rank, order, number))

    @rule(name=st.sampled_from(EXECUTORS), count=st.integers(1, 3))
    def take(self, name: str, count: int) -> None:
        able = self.capacity.executors.get(name)
        if able is None:
            return
        expected = []
        for _ in range(count):
            one = self.first(name, able)
            if one is None:
                break
            self.begin(one, name)
            expected.append(one)
        found = self.queue.take(name, able, count, self.now)
        assert [(task.id, task.order) for task in found] == [(one.id, one.order) for one in expected]

    def begin(self, one: Known, name: str) -> None:
        one.before = one.rank, one.failed, one.since
        one.executor, one.attempt = name, one.attempt + 1
        self.assigned.append(dataclasses.replace(one))

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), name=st.sampled_from(EXECUTORS))
    def start_elsewhere(self, data: st.DataObject, name: str) -> None:
        one = data.draw(st.sampled_from(self.waiting()))
        assert not self.queue.start(one.id, name, one.attempt)
        assert self.queue.start(one.id, name, one.attempt + 1)
        self.begin(one, name)

    @precondition(lambda self: any(one.executor for one in self.known))
    @rule(data=st.data(), how=st.sampled_from(["back", "failed", "release", "end"]))
    def end(self, data: st.DataObject, how: str) -> None:
        one = data.draw(st.sampled_from([one for one in self.known if one.executor]))
        if how == "end":
            assert self.queue.remove(one.id)
            self.known.remove(one)
            return
        if how == "release":
            assert self.queue.release(one.id)
            one.rank, one.failed, one.since = one.before
            one.attempt -= 1
        else:
            assert one.executor is not None
            one.failed |= {one.executor} if how == "failed" else set()
            assert self.queue.give_back(one.id, one.failed, self.now)
            one.rank, one.since = 0 if one.live else 4, self.now
        one.executor = None

    @precondition(lambda self: self.waiting())
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.waiting()))
        assert self.queue.remove(one.id)
        assert not self.queue.remove(one.id)
        self.known.remove(one)

    @rule(seconds=st.sampled_from([1.0, PATIENCE]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    # --- what holds ------------------------------------------------------------------------------------------------

    @invariant()
    def the_counts_agree(self) -> None:
        assert len(self.queue) == len(self.waiting())
        for user in USERS:
            live = [one for one in self.known if one.user == user and one.live]
            assert self.queue.waiting_of(user) == sum(one.executor is None for one in live)
            assert self.queue.running_of(user) == sum(one.executor is not None for one in live)
        counts: dict[tuple[str, str], int] = {}
        for one in self.waiting():
            counts[one.priority, one.needs] = counts.get((one.priority, one.needs), 0) + 1
        assert self.queue.counts() == counts
        for one in self.known:
            state = self.queue.state(one.id)
            assert isinstance(state, RunningTask if one.executor else WaitingTask)
            assert state.attempt == one.attempt

    @invariant()
    def the_next_tasks_are_first_of_their_kind(self) -> None:
        nexts = {task.lane.key.bucket: task.id for task in self.queue.nexts(1000)}
        expected: dict[Any, Known] = {}
        for one in sorted(self.waiting(), key=lambda one: (one.order, one.arrival)):
            expected.setdefault((one.rank, one.needs, one.wants, tuple(sorted(one.failed))), one)
        assert nexts == {kind: one.id for kind, one in expected.items()}


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)


def test_nothing_is_kept_of_tasks_that_are_over() -> None:
    queue = FairQueue()
    able = ExecutorCapacity(frozenset({"c"}))
    queue.set_capacity(Capacity({"e1": able}, 100))

    def play(count: int) -> None:
        for number in range(count):
            queue.add(QueuedTask(number.to_bytes(12, "big"), f"user {number % 7}", "normal", "c", share=0.5))
        for number in range(0, count, 2):
            queue.remove(number.to_bytes(12, "big"))
        while found := queue.take("e1", able, 10):
            for task in found:
                queue.remove(task.id)

    play(2000)
    assert [len(one) for one in (queue._tasks, queue._lanes, queue._users, queue._buckets, queue._tracks)] == [0] * 5


def test_cancelled_tasks_in_the_middle_of_a_lane_are_forgotten() -> None:
    queue = FairQueue()
    tracemalloc.start()
    queue.add(QueuedTask(b"first", "ann"))
    for number in range(20_000):
        task = number.to_bytes(12, "big")
        queue.add(QueuedTask(task, "ann"))
        queue.remove(task)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used < 1_000_000
    assert queue.nexts(5)[0].id == b"first"
