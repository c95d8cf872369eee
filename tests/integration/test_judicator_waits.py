"""Submissions do not wait silently: for no executor that will never take them, and with a reason for people."""

import datetime

import pytest
from bson import ObjectId

from judge.common import clock
from judge.model import messages as m
from judge.model.overview import DrainRequest, ExecutorState, StatusReply
from judge.rpc.client import RpcClient
from tests.support.judicators import Executor, World, accepted, add, get, source
from tests.support.servers import wait_for

PATIENT = {"executor_expiry": 3600.0, "executor_forget": 7200.0, "task_expiry": 3600.0}


@pytest.fixture
def people(world: World, monkeypatch: pytest.MonkeyPatch) -> RpcClient:
    monkeypatch.setattr("judge.judicator.queue.fair.PATIENCE", 2.0)
    monkeypatch.setattr("judge.judicator.executors._ASKED", 1.0)
    monkeypatch.setattr("judge.judicator.executors._CACHE", 0.1)
    world.judicator("j1", **PATIENT)
    return world.client()


def failed_by(people: RpcClient, executor: Executor, **fields: object) -> str:
    """A submission that this executor has failed once; it takes nothing in the same report."""
    task = add(people, **fields)
    executor.report()
    request = executor.request(accepted(executor.work[task], retry=True, penalty=True), vacant=0)
    executor.send(request)
    assert get(people, task).status is m.Status.RETRYING
    return task


def takes(executor: Executor, task: str) -> bool:
    return task in {assignment.id for assignment in executor.report().add}


def test_an_executor_without_the_ability_is_not_waited_for(world: World, people: RpcClient) -> None:
    able, second = world.executor("e1"), world.executor("e2")
    second.info.abilities = ["options"]
    task = failed_by(people, able, source=None, files=[m.SourceFile(name="a.c", text="int main(){}")])
    assert not takes(second, task)
    assert takes(able, task)


def test_an_executor_that_asks_for_nothing_is_waited_for_a_while_only(world: World, people: RpcClient) -> None:
    """Its disk is full, it rests, or all its slots are busy with long tasks; it reports all the same."""
    idle, full = world.executor("e1"), world.executor("e2")
    full.report(vacant=0)
    task = failed_by(people, idle)
    began = clock.monotonic()

    def turn() -> bool:
        full.report(vacant=0)
        return takes(idle, task)

    wait_for(turn, what="the task at the executor that failed it")
    assert clock.monotonic() - began > 1.5, "the other one had a moment"


def test_an_executor_that_asks_for_work_is_waited_for(world: World, people: RpcClient) -> None:
    failer, second = world.executor("e1"), world.executor("e2", languages=("c",))
    task = failed_by(people, failer)
    # It takes other work all the time, and so will take this one.
    began = clock.monotonic()
    while clock.monotonic() - began < 3.0:
        request = second.request(vacant=1)
        reply = second.rpc.call("report", request, m.ReportReply)
        if any(assignment.id == task for assignment in reply.add):
            return
        assert not takes(failer, task)
    pytest.fail("the other executor did not get it")


def aged(world: World, task: str, seconds: float) -> None:
    """The task as if it had been handed in so long ago."""
    then = clock.wall() - datetime.timedelta(seconds=seconds)
    world.db.tasks.update_one({"_id": ObjectId(task)}, {"$set": {"created": then}})


def waits_of(people: RpcClient, task: str) -> tuple[m.Waits | None, list[str]]:
    return (
        get(people, task).waits,
        people.call("status", m.Empty(), StatusReply).waits,
    )


def reason_of(people: RpcClient, task: str) -> str:
    waits = waits_of(people, task)[0]
    return "" if waits is None else waits.reason


def test_people_are_told_why_a_submission_waits(world: World, people: RpcClient) -> None:
    task = add(people)
    assert waits_of(people, task) == (None, []), "it has not waited for long"
    aged(world, task, 100)

    def reason() -> str:
        waits, status = waits_of(people, task)
        assert waits is not None
        assert 99 < waits.seconds < 300
        (sentence,) = status
        assert sentence.startswith("the next of 1 waiting submissions in 'c' has waited for 10")
        assert sentence.endswith(waits.reason)
        return waits.reason

    assert reason() == "no executor is alive"
    world.executor("e1", languages=("java",)).report()
    wait_for(lambda: reason() == "no live executor has language 'c'", what="the language")
    able = world.executor("e2")
    able.report(vacant=0)
    wait_for(lambda: reason() == "no executor that can judge it accepts work", what="nobody accepts")
    people.call("drain", DrainRequest(executor="e2", drain=True, reason="its fan"), ExecutorState)
    wait_for(lambda: reason() == "all executors that can judge it are drained", what="drained")
    people.call("drain", DrainRequest(executor="e2", drain=False), ExecutorState)
    assert takes(able, task)
    assert waits_of(people, task) == (None, [])
    second = add(people, "int x;")
    able.report(vacant=0)
    aged(world, second, 100)
    wait_for(lambda: reason_of(people, second).endswith("are full"), what="full")


def test_people_are_told_that_an_ability_is_missing(world: World, people: RpcClient) -> None:
    lone = world.executor("e1")
    lone.info.abilities = []
    task = people.call(
        "add", source(source=None, files=[m.SourceFile(name="a.c", text="int main(){}")]), m.AddReply
    ).task.id
    aged(world, task, 50)
    lone.report()
    wait_for(
        lambda: (
            "with language 'c' has all of: files" in (waits_of(people, task)[0] or m.Waits(reason="", seconds=0)).reason
        ),
        what="the ability",
    )
