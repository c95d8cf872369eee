"""Rejudgings when judicators are killed at every step, and what readers see meanwhile: all new verdicts or none."""

import contextlib
import datetime
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from judge.common.errors import JudgeError, UnavailableError
from judge.model import messages as m
from judge.model.rejudging import RejudgeFilter, RejudgeStart, Rejudging
from judge.rpc.client import RpcClient
from tests.support.judicators import Doomed, Executor, World, act, get, judge, rejudge, settled, show, sources, start
from tests.support.servers import wait_for

PATIENT = {"executor_expiry": 3600.0, "executor_forget": 7200.0, "task_expiry": 3600.0, "leader_ttl": 2}
OLD = ["WA", "TLE", "WA", "RTE", "WA"]
NEW = ["AC", "AC", "WA", "AC", "CE"]


def begin(
    world: World, directory: Path, failpoint: str, slots: int = 8
) -> tuple[Doomed, Executor, RpcClient, list[str]]:
    """A judicator that will die, with submissions that it has had judged: it, their executor, its client, their ids."""
    doomed = Doomed(world, directory, failpoint, **PATIENT)
    world.judicators.append(doomed)  # type: ignore[arg-type]
    executor, people = world.executor(slots=slots), doomed.client(30.0)
    return doomed, executor, people, judge(people, executor, *OLD)


def die(doomed: Doomed, call: Callable[[RpcClient], object]) -> None:
    """Make a call under which the judicator dies."""
    with contextlib.suppress(UnavailableError):
        call(doomed.client(2.0))
    doomed.died()


def successor(world: World) -> RpcClient:
    """Another judicator comes in place of the one that has died; a client of it."""
    world.judicators.clear()
    world.judicator("j2", **PATIENT)
    return world.client(timeout=30.0)


def verdicts(people: RpcClient, ids: list[str]) -> list[str | None]:
    return [get(people, task).verdict for task in ids]


def seen_by_search(people: RpcClient, ids: list[str]) -> list[str | None]:
    tasks = people.call("search", m.SearchRequest(limit=500), m.SearchReply).tasks
    by_id = {task.id: task.verdict for task in tasks}
    return [by_id[task] for task in ids]


@pytest.mark.parametrize("failpoint", ["note", "mark", "create"])
def test_killed_while_starting(world: World, tmp_path: Path, failpoint: str) -> None:
    doomed, executor, people, ids = begin(world, tmp_path, f"rejudge-{failpoint}")
    key = uuid.uuid4().hex
    request = RejudgeStart(filter=RejudgeFilter(ids=ids), reason="r", user="root", idempotency_key=key)
    die(doomed, lambda impatient: impatient.call("rejudge_start", request, Rejudging))
    people = successor(world)
    assert people.call("rejudge_start", request, Rejudging).id == 1
    rejudge(executor, dict(zip(sources(people, ids), NEW, strict=True)))
    wait_for(lambda: show(people, 1).state == "finished", what="the end of all runs")
    assert show(people, 1).total == 5
    act(people, "apply", 1)
    settled(people, 1)
    assert verdicts(people, ids) == NEW
    assert world.db.tasks.count_documents({}) == 5


@pytest.mark.parametrize("failpoint", ["stage", "staged", "switched", "fold", "folded", "remove", "unswitched"])
def test_killed_while_applying(world: World, tmp_path: Path, failpoint: str) -> None:
    doomed, executor, people, ids = begin(world, tmp_path, f"rejudge-{failpoint}")
    start(people, ids=ids)
    rejudge(executor, dict(zip(sources(people, ids), NEW, strict=True)))
    assert show(people, 1).state == "finished"
    die(doomed, lambda impatient: act(impatient, "apply", 1))
    people = successor(world)
    # People see all or nothing of what was done by then, now and at every later moment.
    looks = [seen_by_search(people, ids)]
    while not show(people, 1).settled:
        looks.append(seen_by_search(people, ids))
        assert len(looks) < 20_000
    looks += [seen_by_search(people, ids), verdicts(people, ids)]
    assert all(look in (OLD, NEW) for look in looks), looks
    assert looks == sorted(looks, key=lambda look: look == NEW), "what was in force once stays in force"
    if failpoint in {"stage", "staged"}:
        assert looks[0] == OLD
    else:
        assert looks[0] == NEW
    assert looks[-1] == NEW
    assert [len(get(people, task).past) for task in ids] == [1] * 5, "folded in once"
    assert world.db.tasks.count_documents({}) == 5
    assert world.db.tasks.count_documents({"$or": [{"staged": {"$exists": 1}}, {"rejudging": {"$exists": 1}}]}) == 0
    assert world.db.meta.find_one({"_id": "verdicts"})["folding"] == []


@pytest.mark.parametrize("failpoint", ["stopped", "remove"])
def test_killed_while_cancelling(world: World, tmp_path: Path, failpoint: str) -> None:
    doomed, executor, people, ids = begin(world, tmp_path, f"rejudge-{failpoint}")
    before = list(world.db.tasks.find(sort=[("_id", 1)]))
    start(people, ids=ids)
    executor.report(vacant=2)
    die(doomed, lambda impatient: act(impatient, "cancel", 1))
    people = successor(world)
    assert settled(people, 1).state == "cancelled"
    assert list(world.db.tasks.find(sort=[("_id", 1)])) == before
    executor.report(vacant=0)
    assert executor.work == {}, "the executor was told to drop what it had"


def test_a_rejudging_whose_judicator_dies_while_it_runs_finishes_by_itself(world: World, tmp_path: Path) -> None:
    doomed, executor, people, ids = begin(world, tmp_path, "nowhere", slots=2)
    start(people, ids=ids)
    executor.report()
    doomed.process.kill()
    doomed.process.wait()
    people = successor(world)
    rejudge(executor, dict(zip(sources(people, ids), NEW, strict=True)))
    wait_for(
        lambda: world.db.rejudgings.find_one({"_id": 1})["state"] == "finished",
        timeout=60,
        what="the leader's word that it is finished, without anybody asking",
    )
    assert verdicts(people, ids) == OLD


class Reader(threading.Thread):
    """Looks at all verdicts again and again through one judicator."""

    def __init__(self, address: str, world: World, count: int) -> None:
        super().__init__(daemon=True)
        self.rpc = RpcClient(lambda: [address], world.tls("gw", "gateway"), timeout=30.0)
        self.count = count
        self.over = threading.Event()
        self.looks = 0
        self.failure: str | None = None
        self.new = False

    def run(self) -> None:
        try:
            while not self.over.is_set() and self.failure is None:
                self._look()
        except JudgeError as exc:
            self.failure = repr(exc)
        finally:
            self.rpc.close()

    def _look(self) -> None:
        tasks = self.rpc.call("search", m.SearchRequest(limit=500), m.SearchReply).tasks
        kinds = {task.verdict for task in tasks}
        right = len(self.rpc.call("search", m.SearchRequest(limit=500, verdict="AC"), m.SearchReply).tasks)
        wrong = len(self.rpc.call("search", m.SearchRequest(limit=500, status="run_failed"), m.SearchReply).tasks)
        self.looks += 1
        if len(tasks) != self.count or len(kinds) != 1 or {right, wrong} - {0, self.count}:
            self.failure = f"half of it: {len(tasks)} with {kinds}; {right} AC and {wrong} failed ones found"
        if self.new and (kinds != {m.Verdict.AC} or wrong or not right):
            self.failure = f"it went back: {kinds}, {right} AC, {wrong} failed"
        if right:
            self.new = True


def test_readers_see_all_or_nothing_while_it_is_applied(world: World) -> None:
    j1, j2 = world.judicator("j1", batch=3, **PATIENT), world.judicator("j2", batch=3, **PATIENT)
    people, executor = world.client(timeout=30.0), world.executor(slots=60)
    ids = judge(people, executor, *["WA"] * 60)
    start(people, ids=ids)
    rejudge(executor, dict.fromkeys(sources(people, ids), "AC"))
    readers = [Reader(judicator.address, world, 60) for judicator in (j1, j2, j1)]
    for reader in readers:
        reader.start()
    wait_for(lambda: all(reader.looks > 3 for reader in readers), what="readers at work")
    assert not any(reader.new for reader in readers)
    act(people, "apply", 1)
    settled(people, 1)
    marks = [reader.looks for reader in readers]
    wait_for(
        lambda: all(reader.looks > mark + 2 or reader.failure for reader, mark in zip(readers, marks, strict=True)),
        timeout=60,
        what="a look after it",
    )
    for reader in readers:
        reader.over.set()
        reader.join(30)
    assert [reader.failure for reader in readers] == [None] * 3
    assert all(reader.new for reader in readers)


def test_leavings_of_a_slow_judicator_are_removed(world: World) -> None:
    running = world.judicator("j1", **PATIENT)
    people, executor = world.client(timeout=30.0), world.executor(slots=8)
    ids = judge(people, executor, *OLD)
    before = list(world.db.tasks.find(sort=[("_id", 1)]))
    start(people, ids=ids)
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    assert running.do(running.judicator.tasks.remove_finished(tomorrow, 100)) == 0, "retention leaves it alone"
    late = list(world.db.tasks.find({"rerun_of": {"$exists": True}}))
    act(people, "cancel", 1)
    settled(people, 1)
    world.db.tasks.insert_many(late)
    world.db.tasks.update_many({"rerun_of": None}, {"$set": {"rejudging": 1}})
    world.db.meta.update_one({"_id": "verdicts"}, {"$set": {"folding": [1], "generation": 5}}, upsert=True)
    running.do(running.judicator.rejudgings.tidy())
    assert list(world.db.tasks.find(sort=[("_id", 1)])) == before
    assert world.db.meta.find_one({"_id": "verdicts"})["folding"] == []
