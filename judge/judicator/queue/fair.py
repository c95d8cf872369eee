"""The queue: waiting and running tasks in memory. No I/O, no clock, no database.

docs/judging.md numbers the rules; comments here name them (R1 to R9). Every judicator keeps such a queue
(judge/judicator/replica.py), and the leader assigns tasks from its own.

Waiting tasks stand in lanes. All tasks of a lane have the same user, rank, language, abilities, failed executors and
share, so an executor can take either all of them or none. The lanes that differ only in user and share form a bucket. A
bucket keeps its lanes in a heap by their first tasks, so a choice looks at one lane for each bucket. Heaps are lazy: an
entry whose key is no longer the first key of its lane is skipped.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from judge.judicator.queue.order import (
    PATIENCE,
    RANKS,
    Capacity,
    ExecutorCapacity,
    back_rank,
    fair_order,
    is_rejudge,
    most_slots,
    round_of,
)

# A key is the round and, in these bits, the arrival.
_ARRIVAL: Final = 44
# The last round of so many users is remembered; older rounds decide nothing.
_LAST: Final = 100_000


class QueuedTask(NamedTuple):
    """A task to be queued. `order` is the place of a run in its rejudging; `returned`: an executor gave it back."""

    id: bytes
    user: str
    priority: str = "normal"
    needs: str = ""
    wants: frozenset[str] = frozenset()
    failed: tuple[str, ...] = ()
    attempt: int = 0
    share: float = 1.0
    order: int | None = None
    returned: bool = False


class LaneKey(NamedTuple):
    """What the tasks of a lane have in common."""

    rank: int
    needs: str
    wants: frozenset[str]
    failed: tuple[str, ...]
    user: str
    priority: str
    share: float

    @property
    def bucket(self) -> tuple[int, str, frozenset[str], tuple[str, ...]]:
        return self[:4]


class WaitingTask(NamedTuple):
    """A waiting task. `since`: when an executor gave it back, in seconds of the caller's clock; None: never."""

    key: int
    id: bytes
    lane: _Lane
    attempt: int
    since: float | None = None

    @property
    def order(self) -> int:
        return self.key >> _ARRIVAL


class RunningTask(NamedTuple):
    """A task that an executor has, and as what it waited before."""

    waited: WaitingTask
    executor: str
    attempt: int


class _Lanes:
    """A lazy heap of lanes by their first tasks; `count` lanes exist, entered or not."""

    __slots__ = ("count", "heap")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, _Lane]] = []
        self.count = 0

    def push(self, lane: _Lane) -> None:
        heapq.heappush(self.heap, (lane.tasks[0].key, lane.number, lane))

    def first(self) -> _Lane | None:
        while self.heap:
            key, _, lane = self.heap[0]
            if lane.first == key:
                return lane
            heapq.heappop(self.heap)
        return None


class _User:
    """One user: the lanes, those of them that the share blocks, and the largest waiting round of each rank."""

    __slots__ = ("blocked", "ends", "lanes", "running", "waiting")

    def __init__(self) -> None:
        self.lanes: set[_Lane] = set()
        self.blocked: set[_Lane] = set()
        self.ends: dict[int, int] = {}
        self.waiting = 0
        self.running = 0


class _Lane:
    """The waiting tasks of one lane, sorted. Removed tasks stay until they are reached; the first one waits."""

    __slots__ = ("bucket", "key", "live", "number", "removed", "tasks", "total", "track", "user")

    def __init__(self, key: LaneKey, number: int, user: _User, bucket: _Lanes, track: _Lanes, total: list[int]) -> None:
        self.key, self.number = key, number
        self.user, self.bucket, self.track, self.total = user, bucket, track, total
        self.live = not is_rejudge(key.rank)
        self.tasks: deque[WaitingTask] = deque()
        self.removed = 0

    @property
    def first(self) -> int | None:
        return self.tasks[0].key if self.tasks else None

    def enter(self) -> None:
        """Enter the heaps by the first task."""
        self.bucket.push(self)
        self.track.push(self)


class FairQueue:
    def __init__(self) -> None:
        self._tasks: dict[bytes, WaitingTask | RunningTask] = {}
        self._lanes: dict[LaneKey, _Lane] = {}
        self._users: dict[str, _User] = {}
        # Without the blocked lanes, whose users hold the whole share.
        self._buckets: dict[tuple[int, str, frozenset[str], tuple[str, ...]], _Lanes] = {}
        # The lanes of a rank and language, with the blocked ones.
        self._tracks: dict[tuple[int, str], _Lanes] = {}
        # The numbers of waiting tasks by priority and language.
        self._totals: dict[tuple[str, str], list[int]] = {}
        # The largest rounds that were assigned: by priority and language, and by user and priority.
        self._assigned: dict[tuple[str, str], int] = {}
        self._last: dict[tuple[str, str], int] = {}
        self._running: dict[bytes, RunningTask] = {}
        self._arrival = 0
        self._number = 0
        self._capacity = Capacity({}, 0)
        self._languages: frozenset[str] = frozenset({""})

    def __len__(self) -> int:
        return len(self._tasks) - len(self._running)

    # --- changes -----------------------------------------------------------------------------------------------

    def add(self, task: QueuedTask, now: float | None = None) -> bool:
        """Queue a task behind earlier ones; False if the queue has it. `now`: when a returned task came back."""
        if task.id in self._tasks:
            return False
        rank = back_rank(task.priority) if task.returned else RANKS[task.priority]
        lane = self._lane(LaneKey(rank, task.needs, task.wants, task.failed, task.user, task.priority, task.share))
        order = task.order if task.order is not None and not lane.live else self._order(lane)
        self._arrival += 1
        key = (order << _ARRIVAL) + self._arrival
        self._insert(WaitingTask(key, task.id, lane, task.attempt, now if task.returned else None))
        return True

    def take(self, executor: str, capacity: ExecutorCapacity, count: int, now: float = 0.0) -> list[WaitingTask]:
        """Assign up to `count` tasks to an executor, the first ones by the rules; each has its next attempt (R1-R8)."""
        serving = list(self._serving(executor, capacity))
        tasks: list[WaitingTask] = []
        while len(tasks) < count:
            best: tuple[tuple[bool, bool, int, int], WaitingTask] | None = None
            for kind, patience, lanes in serving:
                lane = None if best is not None and kind > best[0][:3] else self._first(lanes)
                if lane is None:
                    continue
                task = lane.tasks[0]
                ripe = not patience or task.since is None or now - task.since >= patience
                if ripe and (best is None or (*kind, task.key) < best[0]):
                    best = (*kind, task.key), task
            if best is None:
                break
            self.start(best[1].id, executor, best[1].attempt + 1)
            tasks.append(best[1])
        return tasks

    def _serving(
        self, executor: str, capacity: ExecutorCapacity
    ) -> Iterator[tuple[tuple[bool, bool, int], float, _Lanes]]:
        """The buckets that an executor may take from: their places (R1, R2, R6), the patience (R6), their lanes."""
        other_executors = self._capacity.others(executor)
        for (rank, needs, wants, failed), lanes in self._buckets.items():
            if (needs and needs not in capacity.languages) or not capacity.abilities >= wants:
                continue
            patience = self._patience(executor, needs, wants, failed, other_executors) if failed else 0.0
            if patience is not None and lanes.heap:
                yield (is_rejudge(rank), bool(other_executors) and executor in failed, rank), patience, lanes

    def start(self, task: bytes, executor: str, attempt: int) -> bool:
        """Note that an executor has a waiting task; False if it does not wait, or this attempt is an older one."""
        waited = self._tasks.get(task)
        if not isinstance(waited, WaitingTask) or attempt <= waited.attempt:
            return False
        self._remove_waiting(waited)
        self._tasks[task] = self._running[task] = RunningTask(waited, executor, attempt)
        lane, order = waited.lane, waited.order
        if lane.live:
            self._user(lane.key.user).running += 1
        track, user_class = (lane.key.priority, lane.key.needs), (lane.key.user, lane.key.priority)
        self._assigned[track] = max(order, self._assigned.get(track, 0))
        self._last[user_class] = max(order, self._last.get(user_class, 0))
        if len(self._last) > _LAST:
            self._last = dict(heapq.nlargest(_LAST // 2, self._last.items(), key=lambda item: item[1]))
        return True

    def give_back(self, task: bytes, failed: Iterable[str], now: float) -> bool:
        """Return a running task to the head of its class; `failed` are the executors that failed it (R2, R6)."""
        running = self._stop_running(task)
        if running is None:
            return False
        old = running.waited.lane.key
        lane = self._lane(old._replace(rank=back_rank(old.priority), failed=tuple(sorted(failed))))
        self._insert(WaitingTask(running.waited.key, task, lane, running.attempt, now))
        return True

    def release(self, task: bytes) -> bool:
        """Undo `take` for a task whose assignment was not stored: it waits again where it did."""
        running = self._stop_running(task)
        if running is None:
            return False
        self._insert(running.waited._replace(lane=self._lane(running.waited.lane.key)))
        return True

    def remove(self, task: bytes) -> bool:
        """Forget a task: it is finished, cancelled or deleted."""
        state = self._tasks.get(task)
        if isinstance(state, WaitingTask):
            self._remove_waiting(state)
            self._forget(state.lane.key.user)
        return state is not None and (isinstance(state, WaitingTask) or self._stop_running(task) is not None)

    def set_capacity(self, capacity: Capacity) -> None:
        """The executors that are live and not drained; shares are parts of their slots."""
        if capacity.slots != self._capacity.slots:
            for user in self._users.values():
                _unblock(user)
        self._capacity = capacity
        self._languages = capacity.languages | {""}

    # --- queries -----------------------------------------------------------------------------------------------

    def state(self, task: bytes) -> WaitingTask | RunningTask | None:
        return self._tasks.get(task)

    def waiting_of(self, user: str) -> int:
        """The number of a user's waiting tasks; runs of rejudgings are nobody's (R5)."""
        counts = self._users.get(user)
        return 0 if counts is None else counts.waiting

    def running_of(self, user: str) -> int:
        """The number of a user's tasks that executors have (R4)."""
        counts = self._users.get(user)
        return 0 if counts is None else counts.running

    def counts(self) -> dict[tuple[str, str], int]:
        return {key: total[0] for key, total in self._totals.items() if total[0]}

    def running(self) -> Mapping[bytes, RunningTask]:
        return self._running

    def waiting(self) -> Iterator[WaitingTask]:
        return (task for task in self._tasks.values() if isinstance(task, WaitingTask))

    def nexts(self, most: int) -> list[WaitingTask]:
        """The first task of each rank, language, abilities and failed executors, up to `most`, the first ones first."""
        first: dict[tuple[Any, ...], WaitingTask] = {}
        for lane in self._lanes.values():
            task, bucket = lane.tasks[0], lane.key.bucket
            if bucket not in first or task.key < first[bucket].key:
                first[bucket] = task
        return heapq.nsmallest(most, first.values(), key=lambda task: (task.lane.key.rank, task.key))

    # --- inside ------------------------------------------------------------------------------------------------

    def _order(self, lane: _Lane) -> int:
        """The round of a new task (R3)."""
        key, last_round = lane.key, lane.user.ends.get(lane.key.rank)
        if not self._assigned:
            return fair_order(1, last_round, None)
        last = self._last.get((key.user, key.priority))
        here = self._assigned.get((key.priority, key.needs))
        anywhere = max(self._assigned.get((key.priority, needs), 0) for needs in self._languages) or None
        first = lane.track.first()
        return fair_order(round_of(None if first is None else first.tasks[0].order, here, anywhere), last_round, last)

    def _user(self, name: str) -> _User:
        user = self._users.get(name)
        if user is None:
            user = self._users[name] = _User()
        return user

    def _lane(self, key: LaneKey) -> _Lane:
        lane = self._lanes.get(key)
        if lane is None:
            self._number += 1
            user = self._user(key.user)
            bucket = self._buckets.setdefault(key.bucket, _Lanes())
            track = self._tracks.setdefault(key[:2], _Lanes())
            total = self._totals.setdefault((key.priority, key.needs), [0])
            lane = self._lanes[key] = _Lane(key, self._number, user, bucket, track, total)
            user.lanes.add(lane)
            bucket.count += 1
            track.count += 1
        return lane

    def _insert(self, task: WaitingTask) -> None:
        lane = task.lane
        self._tasks[task.id] = task
        tasks, order = lane.tasks, task.key >> _ARRIVAL
        if not tasks:
            tasks.append(task)
            lane.enter()
        elif task.key > tasks[-1].key:
            tasks.append(task)
        else:
            ordered = list(tasks)
            insort(ordered, task, key=lambda entry: entry.key)
            lane.tasks = deque(ordered)
            if ordered[0] is task:
                lane.enter()
        lane.total[0] += 1
        if lane.live:
            lane.user.waiting += 1
        if order > lane.user.ends.get(lane.key.rank, 0):
            lane.user.ends[lane.key.rank] = order

    def _remove_waiting(self, task: WaitingTask) -> None:
        """Take a task out of its lane."""
        lane, tasks = task.lane, task.lane.tasks
        del self._tasks[task.id]
        lane.total[0] -= 1
        if lane.live:
            lane.user.waiting -= 1
        if tasks[0] is not task:
            lane.removed += 1
            if lane.removed * 2 > len(tasks):
                lane.tasks = deque(waiting for waiting in tasks if self._tasks.get(waiting.id) is waiting)
                lane.removed = 0
        else:
            tasks.popleft()
            while tasks and self._tasks.get(tasks[0].id) is not tasks[0]:
                tasks.popleft()
                lane.removed -= 1
            if tasks:
                lane.enter()
            else:
                self._drop(lane)
        if task.order == lane.user.ends[lane.key.rank]:
            self._find_end(lane.user, lane.key.rank)

    def _find_end(self, user: _User, rank: int) -> None:
        """Find the largest waiting round of a user in a rank again."""
        end = 0
        for lane in user.lanes:
            if lane.key.rank == rank:
                while self._tasks.get(lane.tasks[-1].id) is not lane.tasks[-1]:
                    lane.tasks.pop()
                    lane.removed -= 1
                end = max(end, lane.tasks[-1].order)
        if end:
            user.ends[rank] = end
        else:
            del user.ends[rank]

    def _drop(self, lane: _Lane) -> None:
        """Forget an empty lane, and what is empty without it."""
        key = lane.key
        del self._lanes[key]
        lane.user.lanes.discard(lane)
        lane.user.blocked.discard(lane)
        lane.bucket.count -= 1
        lane.track.count -= 1
        if not lane.bucket.count:
            del self._buckets[key.bucket]
        if not lane.track.count:
            del self._tracks[key[:2]]

    def _forget(self, name: str) -> None:
        user = self._users.get(name)
        if user is not None and not user.lanes and not user.running:
            del self._users[name]

    def _stop_running(self, task: bytes) -> RunningTask | None:
        running = self._running.pop(task, None)
        if running is not None:
            del self._tasks[task]
            key = running.waited.lane.key
            if running.waited.lane.live:
                user = self._user(key.user)
                user.running -= 1
                _unblock(user)
            self._forget(key.user)
        return running

    def _first(self, lanes: _Lanes) -> _Lane | None:
        """The first lane of a bucket whose user may hold one more slot (R4)."""
        while (lane := lanes.first()) is not None:
            most = most_slots(lane.key.share, self._capacity.slots) if lane.live else None
            if most is None or lane.user.running < most:
                return lane
            lane.user.blocked.add(lane)
            heapq.heappop(lanes.heap)
        return None

    @staticmethod
    def _patience(
        executor: str,
        needs: str,
        wants: Collection[str],
        failed: Collection[str],
        other_executors: Mapping[str, ExecutorCapacity],
    ) -> float | None:
        """The seconds for which a returned task waits for another executor; None: this one must not take it (R6)."""
        if executor not in failed:
            return 0.0
        able = [
            capacity
            for name, capacity in other_executors.items()
            if name not in failed and capacity.can_judge(needs, wants)
        ]
        if any(capacity.accepts for capacity in able):
            return None
        return PATIENCE if able else 0.0


def _unblock(user: _User) -> None:
    for lane in user.blocked:
        lane.bucket.push(lane)
    user.blocked.clear()
