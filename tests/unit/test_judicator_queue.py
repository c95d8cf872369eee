"""The queue against a naive model that has lists and sorts them all for each question."""

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
class ModelTask:
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
        self.tasks: list[ModelTask] = []
        self.assigned: list[ModelTask] = []
        self.numbers = itertools.count(1)
        self.now = 0.0
        self.capacity = Capacity({}, 0)

    def waiting(self) -> list[ModelTask]:
        return [task for task in self.tasks if task.executor is None]

    def order(self, user: str, priority: str, needs: str, rank: int) -> int:
        """R3, with lists."""
        languages = self.capacity.languages | {""}
        head = min((task.order for task in self.waiting() if (task.rank, task.needs) == (rank, needs)), default=None)
        of_class = [task for task in self.assigned if task.priority == priority]
        local = max((task.order for task in of_class if task.needs == needs), default=1)
        anywhere = max((task.order for task in of_class if task.needs in languages), default=1)
        now = max(1, local, anywhere if head is None else min(head, anywhere))
        own = max((task.order for task in self.waiting() if (task.rank, task.user) == (rank, user)), default=0)
        last = max((task.order for task in of_class if task.user == user), default=None)
        return max(now, own + 1 if own else 0, 0 if last is None else min(last, now) + 1)

    def takes(self, name: str, able: ExecutorCapacity, task: ModelTask) -> bool:
        """R4, R6 and R7, one task at a time."""
        if (task.needs and task.needs not in able.languages) or not task.wants <= able.abilities:
            return False
        limit = most_slots(task.share, self.capacity.slots)
        running = sum(peer.executor is not None and peer.user == task.user and peer.live for peer in self.tasks)
        if task.live and limit is not None and running >= limit:
            return False
        if name not in task.failed:
            return True
        peers = [
            peer
            for other_name, peer in self.capacity.executors.items()
            if other_name != name and other_name not in task.failed and peer.can_judge(task.needs, task.wants)
        ]
        if any(peer.accepts for peer in peers):
            return False
        return not peers or task.since is None or self.now - task.since >= PATIENCE

    def blocks(self, name: str, task: ModelTask) -> tuple[Any, ...]:
        """Of the same kind and user: a returned task that waits for another executor is not overtaken."""
        return task.rank, task.needs, task.wants, task.failed

    def first(self, name: str, able: ExecutorCapacity) -> ModelTask | None:
        peers = bool(set(self.capacity.executors) - {name})
        ranked = sorted(
            self.waiting(),
            key=lambda task: (not task.live, peers and name in task.failed, task.rank, task.order, task.arrival),
        )
        stopped: set[tuple[Any, ...]] = set()
        for task in ranked:
            kind = self.blocks(name, task)
            if kind in stopped:
                continue
            if self.takes(name, able, task):
                return task
            limit = most_slots(task.share, self.capacity.slots)
            running = sum(peer.executor is not None and peer.user == task.user and peer.live for peer in self.tasks)
            if not (task.live and limit is not None and running >= limit):
                stopped.add(kind)
        return None

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
        self.tasks.append(ModelTask(task, user, priority, needs, wants, share, rank, order, number))

    @rule(name=st.sampled_from(EXECUTORS), count=st.integers(1, 3))
    def take(self, name: str, count: int) -> None:
        able = self.capacity.executors.get(name)
        if able is None:
            return
        expected = []
        for _ in range(count):
            task = self.first(name, able)
            if task is None:
                break
            self.begin(task, name)
            expected.append(task)
        assigned = self.queue.take(name, able, count, self.now)
        assert [(task.id, task.order) for task in assigned] == [(task.id, task.order) for task in expected]

    def begin(self, task: ModelTask, name: str) -> None:
        task.before = task.rank, task.failed, task.since
        task.executor, task.attempt = name, task.attempt + 1
        self.assigned.append(dataclasses.replace(task))

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), name=st.sampled_from(EXECUTORS))
    def start_elsewhere(self, data: st.DataObject, name: str) -> None:
        task = data.draw(st.sampled_from(self.waiting()))
        assert not self.queue.start(task.id, name, task.attempt)
        assert self.queue.start(task.id, name, task.attempt + 1)
        self.begin(task, name)

    @precondition(lambda self: any(task.executor for task in self.tasks))
    @rule(data=st.data(), ending=st.sampled_from(["back", "failed", "release", "end"]))
    def end(self, data: st.DataObject, ending: str) -> None:
        task = data.draw(st.sampled_from([task for task in self.tasks if task.executor]))
        if ending == "end":
            assert self.queue.remove(task.id)
            self.tasks.remove(task)
            return
        if ending == "release":
            assert self.queue.release(task.id)
            task.rank, task.failed, task.since = task.before
            task.attempt -= 1
        else:
            assert task.executor is not None
            task.failed |= {task.executor} if ending == "failed" else set()
            assert self.queue.give_back(task.id, task.failed, self.now)
            task.rank, task.since = 0 if task.live else 4, self.now
        task.executor = None

    @precondition(lambda self: self.waiting())
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(self.waiting()))
        assert self.queue.remove(task.id)
        assert not self.queue.remove(task.id)
        self.tasks.remove(task)

    @rule(seconds=st.sampled_from([1.0, PATIENCE]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def the_counts_agree(self) -> None:
        assert len(self.queue) == len(self.waiting())
        for user in USERS:
            live = [task for task in self.tasks if task.user == user and task.live]
            assert self.queue.waiting_of(user) == sum(task.executor is None for task in live)
            assert self.queue.running_of(user) == sum(task.executor is not None for task in live)
        counts: dict[tuple[str, str], int] = {}
        for task in self.waiting():
            counts[task.priority, task.needs] = counts.get((task.priority, task.needs), 0) + 1
        assert self.queue.counts() == counts
        for task in self.tasks:
            state = self.queue.state(task.id)
            assert isinstance(state, RunningTask if task.executor else WaitingTask)
            assert state.attempt == task.attempt

    @invariant()
    def the_next_tasks_are_first_of_their_kind(self) -> None:
        nexts = {task.lane.key.bucket: task.id for task in self.queue.nexts(1000)}
        expected: dict[Any, ModelTask] = {}
        for task in sorted(self.waiting(), key=lambda task: (task.order, task.arrival)):
            expected.setdefault((task.rank, task.needs, task.wants, tuple(sorted(task.failed))), task)
        assert nexts == {kind: task.id for kind, task in expected.items()}


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
        while batch := queue.take("e1", able, 10):
            for task in batch:
                queue.remove(task.id)

    play(2000)
    assert [len(table) for table in (queue._tasks, queue._lanes, queue._users, queue._buckets, queue._tracks)] == [
        0
    ] * 5


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
