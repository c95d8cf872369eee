"""Nobody waits behind another's crowd: real judicators, crowds that hand in from threads without a pause."""

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from judge.config.allowance import Allowance, Allowances
from judge.model import messages as m
from judge.rpc.client import RpcClient
from tests.support.judicators import Executor, World, accepted, source
from tests.support.servers import wait_for

CROWDS = ("crowd0", "crowd1", "crowd2")
THREADS = 2  # of each crowd
TURNS = [f"turn{number}" for number in range(6)]  # more than there are slots
ENOUGH = 150


@dataclass
class Watch:
    """One task from its add on: its place among its user's waiting tasks, and what it has seen handed out since."""

    user: str
    place: int
    began: int
    handed_out: Counter[str] = field(default_factory=Counter)

    @property
    def largest(self) -> int:
        """Of any other single user."""
        return max((count for user, count in self.handed_out.items() if user != self.user), default=0)


class Log:
    """What is added and handed out, in order."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._handed: dict[str, int] = {}
        self._order: list[str] = []
        self._watched: dict[str, Watch] = {}
        self.ended: list[Watch] = []
        self.queued: Counter[str] = Counter()
        self.stop = False

    def __len__(self) -> int:
        return len(self._order)

    def add(self, people: RpcClient, user: str) -> str:
        """Hand in one task; people add to a user's tasks one after the other, crowds side by side."""
        with self._lock:
            self.queued[user] += 1
            place = self.queued[user]
        task = people.call("add", source(user=user), m.AddReply).task.id
        with self._lock:
            if task not in self._handed:
                self._watched[task] = Watch(user, place, len(self._order))
        return task

    def handed(self, add: list[m.Assignment]) -> None:
        """What one report was answered with."""
        with self._lock:
            for assignment in add:
                user = assignment.submission.user
                self._handed[assignment.id] = len(self._order)
                self._order.append(user)
                self.queued[user] -= 1
                if (watch := self._watched.pop(assignment.id, None)) is not None:
                    self.ended.append(watch)
                for open_watch in self._watched.values():
                    open_watch.handed_out[user] += 1
            self._lock.notify_all()

    def wait_until_handed(self, task: str) -> None:
        with self._lock:
            assert self._lock.wait_for(lambda: self.stop or task in self._handed, 60)

    def let_go(self) -> None:
        with self._lock:
            self.stop = True
            self._lock.notify_all()

    def watches(self) -> list[Watch]:
        with self._lock:
            return [*self.ended, *self._watched.values()]


@contextlib.contextmanager
def people(world: World, log: Log, crowds: int) -> Iterator[None]:
    """Crowds that hand in without a pause, people with one task at a time, and one with three now and then."""

    def crowd(user: str, client: RpcClient) -> None:
        while not log.stop:
            log.add(client, user)

    def turns(user: str, client: RpcClient) -> None:
        while not log.stop:
            log.wait_until_handed(log.add(client, user))

    def threes(user: str, client: RpcClient) -> None:
        while not log.stop:
            for task in [log.add(client, user) for _ in range(3)]:
                log.wait_until_handed(task)

    roles: list[tuple[Callable[[str, RpcClient], None], str]] = [
        *((crowd, user) for user in CROWDS[:crowds] for _ in range(THREADS)),
        *((turns, user) for user in TURNS),
        (threes, "ann"),
    ]
    clients = [world.client(f"gw{number}", timeout=30) for number in range(len(roles))]
    with ThreadPoolExecutor(len(roles)) as pool:
        running = [pool.submit(act, user, client) for (act, user), client in zip(roles, clients, strict=True)]
        try:
            yield
        finally:
            log.let_go()
    for future in running:
        future.result()


def ready(log: Log) -> bool:
    """Nearly all wait who will: only then the next are handed out, or nobody would have to wait."""
    return sum(log.queued[user] > 0 for user in [*TURNS, "ann"]) >= len(TURNS)


def turn(executor: Executor, log: Log) -> None:
    """End what the executor has in hand, and fill its slots."""
    wait_for(lambda: ready(log), what="people who wait")
    completions = [*map(accepted, executor.work.values())]
    log.handed(executor.report(*completions, vacant=executor.slots).add)


@pytest.mark.parametrize(("judicators", "crowds"), [(1, 0), (1, 3), (2, 2)])
def test_no_task_waits_for_more_of_another_user_than_its_place_in_line(world, judicators, crowds) -> None:
    """Two executors with two slots each; six people with one task at a time, one with three, and the crowds."""
    for number in range(judicators):
        world.judicator(
            f"j{number}", allowances=Allowances(user=Allowance(slot_share=1.0, waiting=None, stored_bytes=None))
        )
    log = Log()
    executors = [world.executor(f"e{number}", slots=2) for number in range(2)]
    for number, executor in enumerate(executors):
        at = world.judicators[number % judicators]
        executor.rpc = world.client(executor.name, "executor", timeout=30, at=at)
        executor.report(vacant=0)
    with people(world, log, crowds):
        while len(log) < ENOUGH:
            for executor in executors:
                turn(executor, log)
    watches = log.watches()
    assert sum(watch.user == "ann" for watch in log.ended) >= 6
    for watch in watches:
        if watch.user not in CROWDS:
            # Once more where this user was served in the round that was on. Judicators do not know what others add
            # at this very moment, so each may give a crowd's tasks the same place; and one add of each of its threads
            # may have been under way.
            limit = judicators * (watch.place + 1) + (THREADS if crowds else judicators - 1)
            assert watch.largest <= limit, watch


def test_the_order_is_the_leaders_wherever_tasks_are_added(world: World) -> None:
    """A user who was served in this round begins in the next one."""
    near, far = world.judicator("j1"), world.judicator("j2")
    near_client, far_client = (world.client(f"gw{at.config.name}", at=at) for at in (near, far))
    executor = world.executor(slots=1)
    executor.report(vacant=0)
    queue = near.judicator.replica.queue

    def add(client: RpcClient, user: str) -> None:
        before = len(queue)
        client.call("add", source(user=user), m.AddReply)
        wait_for(lambda: len(queue) == before + 1, what="the task at the leader")

    def next_one() -> str:
        completions = [*map(accepted, executor.work.values())]
        return executor.report(*completions, vacant=1).add[0].submission.user

    for client, user in ((near_client, "ann"), (far_client, "bob"), (near_client, "bob")):
        add(client, user)
    assert next_one() == "ann"
    add(far_client, "ann")
    add(near_client, "cleo")
    assert [next_one() for _ in range(4)] == ["bob", "cleo", "bob", "ann"]
