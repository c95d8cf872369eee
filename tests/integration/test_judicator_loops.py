"""A fault that nobody foresaw, in a loop of a judicator or in one thing that it looks after: the rest goes on."""

import datetime
import logging
from typing import Any

import pytest

from judge.judicator import loops
from judge.model import messages as m
from judge.model.overview import ExecutorsReply, StatusReply
from tests.support.judicators import FAST, World, add, get, judge, rejudge, show, sources, start
from tests.support.servers import wait_for

PATIENT = {"executor_expiry": 3600.0, "executor_forget": 7200.0, "task_expiry": 3600.0, "leader_ttl": 2}


def warned(world: World) -> list[str]:
    status = world.client(timeout=20.0).call("status", m.Empty(), StatusReply)
    return [warning for warning in status.warnings if " fails in " in warning]


def test_a_rejudging_that_cannot_be_advanced_keeps_no_other_from_its_end(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    running = world.judicator("j1", **PATIENT)
    people, executor = world.client(timeout=30.0), world.executor(slots=8)
    ids = judge(people, executor, "WA", "WA")
    long_ago = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    old = {"text": "judicator 'gone' fails in sweep of something", "at": long_ago}
    world.db.meta.insert_many([{"_id": f"fault:gone:sweep:{number}", **old} for number in range(60)])
    rejudgings = running.judicator.rejudgings
    advance, broken = rejudgings.advance, True

    async def picky(number: int) -> None:
        if number == 1 and broken:
            raise KeyError("a field that nobody missed")
        await advance(number)

    rejudgings.advance = picky  # type: ignore[method-assign]
    start(people, ids=ids[:1])
    start(people, ids=ids[1:])
    with caplog.at_level(logging.ERROR, "judge.judicator.loops"):
        rejudge(executor, dict.fromkeys(sources(people, ids[1:]), "AC"))
        wait_for(lambda: world.db.rejudgings.find_one({"_id": 2})["state"] == "finished", what="the other one's end")
        wait_for(lambda: warned(world), what="a warning")
    assert "judicator 'j1' fails in rejudging of 1, " in warned(world)[0]
    assert "a field that nobody missed" in warned(world)[0]
    records = [record for record in caplog.records if record.name == "judge.judicator.loops"]
    assert records
    assert all(record.exc_info for record in records), "each with its trace"
    assert running.judicator.crashed() is None
    assert world.db.rejudgings.find_one({"_id": 1})["state"] == "starting"
    broken = False
    wait_for(lambda: show(people, 1).state == "running", what="a later try")
    wait_for(lambda: not warned(world), what="the end of the warning")


def test_one_task_that_cannot_be_given_back_keeps_no_other_waiting(world: World) -> None:
    running = world.judicator("j1", **FAST)
    people, silent = world.client(), world.executor("e1", slots=2)
    bad, good = (add(people) for _ in range(2))
    give_back = running.judicator.tasks.give_back

    async def picky(item: Any, *args: Any, **options: Any) -> bool:
        if str(item.id) == bad:
            raise ZeroDivisionError
        return await give_back(item, *args, **options)

    running.judicator.tasks.give_back = picky  # type: ignore[method-assign]
    silent.report()
    wait_for(lambda: get(people, good).status == "retrying", what="the other task")
    executors = people.call("executors", m.Empty(), ExecutorsReply).executors
    assert [executor.alive for executor in executors] == [False]
    wait_for(lambda: any("the sweep of" in text or "sweep of" in text for text in warned(world)), what="a warning")
    assert running.judicator.lead.leading


@pytest.mark.parametrize("loop", ["elect", "sweep", "follower", "register", "rejudgings", "retention", "prepare"])
def test_a_loop_that_breaks_begins_again(world: World, loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the judicator's loops, broken once at its first turn."""
    from judge.etcd.election import Election
    from judge.etcd.registry import Registration
    from judge.judicator import indexes
    from judge.judicator.changes import Follower
    from judge.judicator.leader.leading import Leader
    from judge.judicator.leader.retention import Retention
    from judge.judicator.rejudging.progress import Rejudgings

    owner, name = {
        "elect": (Election, "step"),
        "sweep": (Leader, "sweep_once"),
        "follower": (Follower, "_follow"),
        "register": (Registration, "step"),
        "rejudgings": (Rejudgings, "sweep"),
        "retention": (Retention, "position"),
        "prepare": (indexes, "make"),
    }[loop]
    monkeypatch.setattr(loops, "_LEAST", 0.1)
    real, calls = getattr(owner, name), []

    def once_broken(self: Any, *args: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("broken once")
        return real(self, *args)

    monkeypatch.setattr(owner, name, once_broken)
    running = world.judicator("j1", passes=True, **FAST)
    wait_for(lambda: len(calls) > 1, what="a second turn")
    wait_for(lambda: running.judicator.lead.leading, what="a leader")
    assert running.judicator.crashed() is None
    wait_for(lambda: any("broken once" in warning for warning in warned(world)), what="a warning")


@pytest.mark.parametrize("loop", ["epoch", "sweep", "rejudgings", "retention", "queue"])
def test_a_call_that_the_database_refuses_is_told_as_a_fault(
    world: World, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It will be refused for ever, so it is no outage that passes."""
    from judge.judicator.leader.leading import Leader
    from judge.judicator.leader.retention import Retention
    from judge.judicator.rejudging.progress import Rejudgings
    from judge.judicator.replica import Replica

    owner, name = {
        "epoch": (Leader, "_take_epoch"),
        "sweep": (Leader, "sweep_once"),
        "rejudgings": (Rejudgings, "sweep"),
        "retention": (Retention, "position"),
        "queue": (Replica, "compare"),
    }[loop]

    async def refused(self: Any, *_: Any) -> Any:
        return await self._db.client.admin.command("aCommandOfNobody")

    monkeypatch.setattr(owner, name, refused)
    monkeypatch.setattr("judge.judicator.replica._PERIOD", 0.1)
    running = world.judicator("j1", passes=True, leads=loop != "epoch", **FAST)
    wait_for(lambda: any("no such command" in warning for warning in warned(world)), what="a warning")
    assert running.judicator.crashed() is None
