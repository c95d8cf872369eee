"""Figures over time, in the real database: written by several judicators, kept through the end of each of them."""

import pytest

from judge.common.errors import NotFoundError
from judge.model import messages as m
from judge.model.base import CoreSpeed
from judge.model.figures import FiguresReply, FiguresRequest, HistoryReply, HistoryRequest, Point
from judge.rpc.client import RpcClient
from tests.support.judicators import World, accepted, source
from tests.support.servers import wait_for


def last_point(people: RpcClient, name: str = "hour") -> Point:
    """The last point in which there is anything."""
    reply = people.call("figures", FiguresRequest.model_validate({"span": name}), FiguresReply)
    return next((point for point in reversed(reply.points) if point.judged or point.waiting is not None), Point(at=""))


def judge(world: World, verdict: str) -> None:
    executor = world.executor("e1")
    executor.report(vacant=0)
    task = world.client().call("add", source("x"), m.AddReply).task.id
    wait_for(lambda: executor.report() and task in executor.work, what="the task")
    status = "success" if verdict == "AC" else "run_failed"
    executor.report(accepted(executor.work[task], status=status, verdict=verdict), vacant=0)


def test_what_several_judicators_count_is_added_up_and_outlives_them(world: World, monkeypatch) -> None:
    monkeypatch.setattr("judge.judicator.figures.minutes._SHOWN", 0.0)
    monkeypatch.setattr("judge.judicator.figures.minutes._PERIOD", 0.05)
    first = world.judicator("j1", leader_ttl=5, register_ttl=5, executor_expiry=3600.0, executor_forget=7200.0)
    judge(world, "AC")
    people = world.client()
    wait_for(lambda: sum(last_point(people).verdicts.values()) == 1, what="the first verdict")
    # The leader looks by itself; a new one goes on with the same minutes.
    wait_for(lambda: last_point(people).slots is not None, what="what the leader has seen")
    # The second one has counts that it has not written when it is told to stop.
    monkeypatch.setattr("judge.judicator.figures.minutes._PERIOD", 3600.0)
    second = world.judicator("j2", leader_ttl=5, register_ttl=5, executor_expiry=3600.0, executor_forget=7200.0)
    second.judicator.tasks.counts.ended("WA", 2.0, rerun=False)
    second.judicator.tasks.counts.ended("WA", 2.0, rerun=True)
    world.judicators.remove(second)
    second.stop()
    third = world.judicator("j3", leader_ttl=5, register_ttl=5, executor_expiry=3600.0, executor_forget=7200.0)
    world.judicators.remove(first)
    first.stop()
    reply = world.client(at=third).call("figures", FiguresRequest(span="day"), FiguresReply)
    assert sum(point.judged for point in reply.points) == 2
    assert sum(point.rejudged for point in reply.points) == 1
    assert {verdict: n for point in reply.points for verdict, n in point.verdicts.items()} == {"AC": 1, "WA": 1}
    assert max(point.slots or 0 for point in reply.points) == 1
    assert any(point.most is not None and 1.4 < point.most < 2.3 for point in reply.points)


def test_counts_that_the_database_does_not_take_are_kept(world: World, monkeypatch) -> None:
    monkeypatch.setattr("judge.judicator.figures.minutes._SHOWN", 0.0)
    monkeypatch.setattr("judge.judicator.figures.minutes._PERIOD", 3600.0)
    running = world.judicator(executor_expiry=3600.0, executor_forget=7200.0)
    figures = running.judicator.figures
    running.judicator.tasks.counts.ended("AC", 0.1, rerun=False)
    minutes = figures._minutes
    monkeypatch.setattr(figures, "_minutes", None)
    with pytest.raises(AttributeError):
        running.do(figures.write())
    monkeypatch.setattr(figures, "_minutes", minutes)
    running.do(figures.write())
    running.do(figures.write())
    assert last_point(world.client()).judged == 1


def test_the_database_removes_old_minutes_and_machines(world: World) -> None:
    world.judicator()
    indexes = {name: world.db[name].index_information() for name in ("minutes", "machines")}
    assert indexes["minutes"]["begun"]["expireAfterSeconds"] == 26 * 3600
    assert indexes["machines"]["seen"]["expireAfterSeconds"] == 180 * 86400


def test_an_executors_starts(world: World) -> None:
    world.judicator(executor_expiry=3600.0, executor_forget=7200.0)
    people = world.client()
    with pytest.raises(NotFoundError, match="no executor 'e1'"):
        people.call("executor_history", HistoryRequest(executor="e1"), HistoryReply)
    executor = world.executor("e1", slots=2, languages=())
    executor.info.calibration = [CoreSpeed(core=1, seconds=0.011, first=0.01)]
    executor.report(vacant=0)
    executor.info.languages = {"c": "gcc 12", "ada": "gnat 12"}  # found some seconds later
    executor.report(vacant=0)
    executor.report(vacant=0)
    executor.restart()
    executor.info.version, executor.info.languages = "0.2.0", {}
    executor.report(vacant=0)
    executor.info.languages = {"c": "gcc 13", "python3": "3.11"}
    executor.report(vacant=0)
    history = people.call("executor_history", HistoryRequest(executor="e1"), HistoryReply)
    assert [start.version for start in history.starts] == ["0.2.0", "0.1.0"], "the newest first"
    assert history.starts[1].changes == [] and history.starts[1].slots == 2
    assert history.starts[1].calibration[0].drift == pytest.approx(0.1)
    changed = [(change.language, change.before, change.after) for change in history.starts[0].changes]
    assert changed == [("ada", "gnat 12", ""), ("c", "gcc 12", "gcc 13"), ("python3", "", "3.11")]
    # It is forgotten, and its history is not.
    world.db.executors.delete_many({})
    assert len(people.call("executor_history", HistoryRequest(executor="e1"), HistoryReply).starts) == 2
    starts = world.db.machines.find_one({"_id": "e1"})["starts"]
    world.db.machines.update_one({"_id": "e1"}, {"$set": {"starts": starts * 50}})
    executor.restart()
    executor.report(vacant=0)
    assert len(people.call("executor_history", HistoryRequest(executor="e1"), HistoryReply).starts) == 100
