"""The queue in memory against the database, two leaders at once, and a change of the leader."""

import asyncio
import concurrent.futures
import contextlib
import random
import threading
import time
from collections import Counter
from typing import Any

import pytest
from bson import ObjectId
from prometheus_client import REGISTRY

from judge.common.errors import ConflictError
from judge.judicator.queue.fair import FairQueue
from judge.judicator.replica import WAITING, WAITING_INDEX, WAITING_KEYS, Replica
from judge.model import messages as m
from judge.model.overview import StatusReply
from tests.support.judicators import Executor, Running, World, accepted, add, get, runs, source, waiting, write
from tests.support.servers import wait_for


def contents(queue: FairQueue) -> dict[bytes, tuple[Any, ...]]:
    """Every waiting task with all that the rules look at, except for its round."""
    return {task.id: (*task.lane.key, task.attempt) for task in queue.waiting()}


def repairs() -> float:
    return REGISTRY.get_sample_value("judge_queue_repairs_total") or 0.0


def fresh(running: Running) -> Replica:
    """A queue that is loaded now."""
    replica = Replica(running.judicator.database, running.config.allowances)
    running.do(replica.synchronise())
    return replica


def test_an_index_covers_the_load(world: World) -> None:
    world.judicator()
    write(world.db, waiting(50))
    fields = {**dict.fromkeys(WAITING_KEYS, 1)}
    plan = world.db.command(
        {"explain": {"find": "tasks", "filter": WAITING, "projection": fields, "hint": WAITING_INDEX,
                     "sort": {"waits": 1, "arrival": 1}}, "verbosity": "executionStats"}
    )  # fmt: skip
    stats = plan["executionStats"]
    assert (stats["nReturned"], stats["totalDocsExamined"]) == (50, 0)
    assert "SORT" not in str(plan["queryPlanner"]["winningPlan"]).replace("'sortPattern'", "")


def test_the_change_stream_and_a_load_give_the_same_queue(world: World) -> None:
    """Whatever happens, at whichever judicator; and a comparison finds nothing."""
    first, second = world.judicator("j1"), world.judicator("j2")
    before = repairs()
    dice = random.Random(3)
    executors = [world.executor(f"e{number}", slots=3, languages=("c", "java")) for number in range(2)]
    clients = [world.client(f"gw{number}", at=at) for number, at in enumerate((first, second))]
    open_tasks: list[str] = []
    for executor in executors:
        executor.report(vacant=0)
    for _ in range(60):
        client, executor = dice.choice(clients), dice.choice(executors)
        step = dice.choice(["add", "add", "take", "end", "back", "cancel", "restart"])
        if step == "add":
            fields = {"priority": dice.choice(["low", "normal"]), "language": dice.choice(["c", "java"])}
            submission = source(user=dice.choice(["ann", "bob"]), **fields)
            open_tasks.append(client.call("add", submission, m.AddReply).task.id)
        elif step == "cancel" and open_tasks:
            with contextlib.suppress(ConflictError):  # it may be judged
                client.call("cancel", m.TaskRef(id=open_tasks.pop()), m.Task)
        elif step == "take":
            executor.report()
        elif step == "restart":
            executor.restart()
            executor.report(vacant=0)
        elif executor.work:
            task = next(iter(executor.work.values()))
            executor.report(accepted(task, retry=step == "back"), vacant=0)
    write(world.db, runs(5, number=1))
    loaded = fresh(first)
    for running in (first, second):
        queue = running.judicator.replica.queue
        wait_for(lambda queue=queue: contents(queue) == contents(loaded.queue), what="the same waiting tasks")
        own_runs = {task: (run.executor, run.attempt) for task, run in queue.running().items()}
        assert own_runs == {task: (run.executor, run.attempt) for task, run in loaded.queue.running().items()}
        assert running.do(running.judicator.replica.compare()) == 0
    assert repairs() == before


def test_differences_are_repaired_and_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judge.judicator.replica._SECOND_LOOK", 0.1)
    running = world.judicator()
    before = repairs()
    tasks = [add(world.client()) for _ in range(3)]
    queue = running.judicator.replica.queue
    queue.remove(ObjectId(tasks[0]).binary)
    queue.start(ObjectId(tasks[1]).binary, "nobody", 1)
    assert running.do(running.judicator.replica.compare()) == 2
    assert repairs() == before + 2
    assert {task.id for task in queue.waiting()} == {ObjectId(task).binary for task in tasks}
    assert not queue.running()


@pytest.mark.parametrize("field", [{"needs": 7}, {"priority": "urgent"}, {"submission.check": 5}])
def test_a_task_that_cannot_be_read_ends_and_affects_nothing_else(world: World, field: dict[str, Any]) -> None:
    judicator = world.judicator("j1")
    broken, good = add(world.client()), add(world.client())
    world.db.tasks.update_one({"_id": ObjectId(broken)}, {"$set": field})
    judicator.stop()
    world.judicators.remove(judicator)
    world.judicator("j2")
    executor = world.executor(slots=2)
    wait_for(lambda: executor.report().add or executor.work, what="the good one")
    assert list(executor.work) == [good]
    doc = world.db.tasks.find_one({"_id": ObjectId(broken)})
    assert (doc["status"], doc["verdict"], doc["done"]) == ("internal_error", "JE", True)
    assert "cannot be read" in doc["result"]["reason"]


# --- two leaders -----------------------------------------------------------------------------------------------------


class Gate:
    """Stops a judicator between the decision for a task and its write."""

    def __init__(self, running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.waiting = threading.Event()
        claims = running.judicator.tasks.assigner._claims
        write = claims._changes._work

        async def slow(changes: Any) -> Any:
            self.waiting.set()
            await asyncio.to_thread(self.open.wait)
            return await write(changes)

        monkeypatch.setattr(claims._changes, "_work", slow)


def depose(running: Running) -> None:
    """Have a judicator believe that it leads although another one may, as if it were frozen."""

    async def act() -> None:
        lead = running.judicator.lead
        lead._election.resign()
        lead._election.step = lambda: False  # type: ignore[method-assign]

    running.do(act())


def test_a_leader_that_was_frozen_between_decision_and_write_does_no_harm(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both leaders assign what waits: each task is claimed once, and the late claim is refused by its executor."""
    old = world.judicator("j1", sweep_interval=0.5, task_expiry=3600.0, executor_expiry=3600.0, executor_forget=7200.0)
    new = world.judicator("j2", sweep_interval=0.5, task_expiry=3600.0, executor_expiry=3600.0, executor_forget=7200.0)
    tasks = [add(world.client()) for _ in range(40)]
    gate = Gate(old, monkeypatch)
    late = world.executor("late", slots=10)
    late.rpc = world.client("late", "executor", timeout=60.0, at=old)
    prompt = world.executor("prompt", slots=10)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(late.report)
        assert gate.waiting.wait(30)
        # The sweep of the old one stands still, too.
        monkeypatch.setattr(old.judicator.lead, "sweep_once", lambda: asyncio.sleep(0))
        depose(old)
        new.leading()
        prompt.rpc = world.client("prompt", "executor", at=new)
        judged: Counter[str] = Counter()
        reply = prompt.report(vacant=5)
        assert reply.epoch == 2
        gate.open.set()
        first = answer.result(60)
        assert first.epoch == 1
        shared = {assignment.id for assignment in first.add} & set(prompt.work)
        assert not shared, "a task has one claim"
        monkeypatch.undo()
        # `late` has heard of epoch 2 before it reads the answer of epoch 1, so it takes nothing of that.
        late.work.clear()
        late.rpc = world.client("late", "executor", at=new)
        end = time.monotonic() + 60
        while sum(judged.values()) < len(tasks) and time.monotonic() < end:
            for executor in (late, prompt):
                completed = [accepted(assignment) for assignment in executor.work.copy().values()]
                judged.update(report.id for report in completed)
                executor.report(*completed, vacant=10)
    assert judged == Counter(tasks)
    docs = list(world.db.tasks.find())
    assert all(doc["verdict"] == "AC" for doc in docs)


def test_claims_of_two_leaders_at_once(world: World) -> None:
    """A thousand tasks, two judicators that both assign all the time: each task has one valid claim and one verdict."""
    settings = {"task_expiry": 3600.0, "executor_expiry": 3600.0, "executor_forget": 7200.0, "sweep_interval": 1000.0}
    judicators = [world.judicator(f"j{number}", **settings) for number in range(2)]
    count = 1000
    write(world.db, waiting(count))
    for running in judicators:
        running.do(_lead(running))
        queue = running.judicator.replica.queue
        wait_for(lambda queue=queue: len(queue) == count, what="all that waits")
    verdicts: Counter[str] = Counter()
    lock = threading.Lock()

    def judge(number: int) -> None:
        dice = random.Random(number)
        executor = world.executor(f"x{number}", slots=4)
        clients = [world.client(executor.name, "executor", timeout=30.0, at=at) for at in judicators]
        idle = 0
        while idle < 20:
            executor.rpc = clients[number % 2]
            completed = [accepted(assignment) for assignment in executor.work.copy().values() if dice.random() < 0.8]
            reply = executor.report(*completed, vacant=4 - len(executor.work) + len(completed))
            void = {ref.claim for ref in reply.drop}
            with lock:
                verdicts.update(report.id for report in completed if report.claim not in void)
            idle = 0 if executor.work else idle + 1

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(judge, range(6)))
    assert len(verdicts) == count and set(verdicts.values()) == {1}
    assert world.db.tasks.count_documents({"verdict": "AC", "attempt": 1}) == count


async def _lead(running: Running) -> None:
    running.judicator.lead._election.step = lambda: False  # type: ignore[method-assign]
    running.judicator.tasks.assigner.lead(1, [])


# --- a change of the leader ------------------------------------------------------------------------------------------


def test_a_planned_change_of_the_leader_is_short_and_loses_nothing(world: World) -> None:
    first, second = world.judicator("j1"), world.judicator("j2")
    executor = world.executor()
    executor.rpc = world.client("e1", "executor", timeout=20.0)
    client = world.client("gw2", at=second)
    task = add(client)
    executor.report()
    assert task in executor.work
    waits = [add(client, user=f"u{number}") for number in range(3)]
    gap: list[float] = []

    def stop() -> None:
        end = time.monotonic()
        wait_for(lambda: first.judicator.tasks.assigner.epoch is None, what="the end of the first")
        end = time.monotonic()
        second.leading()
        gap.append(time.monotonic() - end)

    watcher = threading.Thread(target=stop)
    watcher.start()
    first.stop()
    watcher.join()
    world.judicators.remove(first)
    # Half a second by itself; this machine may do something else.
    assert gap[0] < 2.0, gap
    reply = executor.report(accepted(executor.work[task]))
    assert (reply.epoch, [settled.id for settled in reply.settled]) == (2, [task])
    judged = [task]
    while executor.work:
        completed = [accepted(assignment) for assignment in executor.work.copy().values()]
        judged += [report.id for report in completed]
        executor.report(*completed)
    assert sorted(judged) == sorted([task, *waits])
    status = client.call("status", m.Empty(), StatusReply)
    assert (status.running, sum(status.queued.values())) == (0, 0)


def test_a_new_leader_gives_each_running_task_a_full_expiry(world: World) -> None:
    settings = {"sweep_interval": 0.2, "task_expiry": 3.0, "executor_expiry": 3.0}
    judicator = world.judicator("j1", **settings)
    second = world.judicator("j2", **settings)
    executor: Executor = world.executor()
    task = add(world.client())
    wait_for(lambda: executor.report().add, what="the task")
    time.sleep(2)
    judicator.stop()
    world.judicators.remove(judicator)
    second.leading()
    time.sleep(1.5)
    assert not executor.report().drop
    assert get(world.client(), task).executor == "e1"
