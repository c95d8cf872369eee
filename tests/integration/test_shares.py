"""What one user may take of the cluster: slots at once, submissions that wait; and places in the queue."""

import concurrent.futures
import contextlib
import threading
from collections import Counter
from typing import Any

import pytest

from judge.common.errors import LimitError
from judge.config.allowance import UNLIMITED, Allowance, Allowances
from judge.model import messages as m
from judge.model.overview import StatusReply
from judge.model.rejudging import RejudgeFilter, RejudgeStart, Rejudging
from judge.rpc.client import RpcClient
from tests.support.judicators import Executor, World, accepted, source, waiters, waiting, write
from tests.support.servers import wait_for


def shares(share: float = 0.75, waiting: int | None = None) -> dict[str, Any]:
    return {
        "allowances": Allowances(user=Allowance(slot_share=share, waiting=waiting, stored_bytes=None), admin=UNLIMITED)
    }


def add(people: RpcClient, user: str, **fields: Any) -> str:
    return people.call("add", source(user=user, **fields), m.AddReply).task.id


def users(reply: m.ReportReply) -> list[str]:
    return [assignment.submission.user for assignment in reply.add]


def holding(*executors: Executor) -> Counter[str]:
    return Counter(assignment.submission.user for executor in executors for assignment in executor.work.values())


def test_one_user_holds_no_more_than_the_share_and_blocks_nobody(world: World) -> None:
    world.judicator(**shares())
    people, first, two = world.client(), world.executor("e1", slots=4), world.executor("e2", slots=4)
    first.report(vacant=0)
    two.report(vacant=0)  # eight slots: six for each
    for _ in range(20):
        add(people, "crowd")
    late = add(people, "ann")
    assert users(first.report()) == ["crowd", "ann", "crowd", "crowd"]
    assert users(two.report()) == ["crowd"] * 3
    assert holding(first, two)["crowd"] == 6
    assert users(two.report()) == []
    # The end of one of the user's tasks makes room for the next, wherever it ran; that of another's does not.
    assert users(first.report(accepted(first.work[late]))) == []
    assignment = next(iter(two.work.values()))
    assert users(two.report(accepted(assignment), vacant=0)) == []
    assert users(first.report()) == ["crowd"]


def test_a_single_slot_is_everybodys(world: World) -> None:
    world.judicator(**shares(0.1))
    people, executor = world.client(), world.executor(slots=1)
    for _ in range(2):
        add(people, "ann")
    assert users(executor.report()) == ["ann"]
    assert users(executor.report(accepted(next(iter(executor.work.values()))))) == ["ann"]


def test_admins_and_rejudgings_have_no_share(world: World) -> None:
    world.judicator(**shares(0.25))
    people, executor = world.client(), world.executor(slots=4)
    executor.report(vacant=0)
    for _ in range(4):
        add(people, "root", role="admin")
    assert users(executor.report()) == ["root"] * 4
    executor.report(*map(accepted, list(executor.work.values())), vacant=0)
    for _ in range(3):
        add(people, "ann")
    for _ in range(3):
        executor.accept_all()
    start = RejudgeStart(filter=RejudgeFilter(user=["ann"]), reason="again", user="root")
    people.call("rejudge_start", start, Rejudging)
    assert users(executor.report(vacant=3)) == ["ann"] * 3
    add(people, "ann")
    assert users(executor.report(vacant=1)) == ["ann"], "runs of rejudgings do not count to the user"


def held_report(
    executor: Executor, pool: concurrent.futures.ThreadPoolExecutor
) -> concurrent.futures.Future[m.ReportReply]:
    """A report that the leader holds."""
    before = waiters("executor")
    report = pool.submit(executor.report, hold=20.0)
    wait_for(lambda: waiters("executor") > before, what="a held report")
    return report


def test_a_held_report_is_answered_when_a_users_slot_is_free(world: World) -> None:
    """Also if the task ends at another judicator, whose change comes by the change stream."""
    near, far = world.judicator("j1", **shares(0.5)), world.judicator("j2", **shares(0.5))
    people, busy, idle = world.client(at=near), world.executor("e1", slots=1), world.executor("e2", slots=1)
    busy.report(vacant=0)
    idle.report(vacant=0)
    add(people, "ann")
    add(people, "ann")
    assert users(busy.report()) == ["ann"]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        report = held_report(idle, pool)
        busy.report(accepted(next(iter(busy.work.values()))), vacant=0)
        assert users(report.result(20)) == ["ann"]
        add(people, "ann")
        report = held_report(busy, pool)
        world.client("gw2", at=far).call("cancel", m.TaskRef(id=next(iter(idle.work))), m.Task)
        assert users(report.result(20)) == ["ann"]


def test_an_executor_hears_of_whatever_language_the_user_has_waiting(world: World) -> None:
    """Though many tasks of languages that it does not have stand before it, and in a class that goes first."""
    judicator = world.judicator(**shares(0.5))
    people = world.client()
    busy, idle = world.executor("e1", languages=("ada", "b")), world.executor("e2")
    busy.report(vacant=0)
    idle.report(vacant=0)
    write(world.db, waiting(20, user="ann", needs="ada"))
    write(world.db, waiting(20, user="ann", needs="b", priority="high"))
    wait_for(lambda: len(judicator.judicator.replica.queue) == 40, what="these tasks")
    assert users(busy.report()) == ["ann"]
    add(people, "ann", priority="low")
    assert users(idle.report()) == [], "one of two slots is the share"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        report = held_report(idle, pool)
        busy.report(accepted(next(iter(busy.work.values()))), vacant=0)
        assert users(report.result(20)) == ["ann"]


def test_the_share_holds_however_many_report_at_once(world: World) -> None:
    for number in range(3):
        world.judicator(f"j{number}", **shares(0.5))
    people = world.client()
    executors = [world.executor(f"e{number}", slots=2) for number in range(6)]
    for executor in executors:
        executor.report(vacant=0)
    for _ in range(30):
        add(people, "crowd")
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        for _ in range(8):
            list(pool.map(lambda executor: executor.report(), executors))
            assert holding(*executors)["crowd"] <= 6
            running = {executor: next(iter(executor.work.values()), None) for executor in executors}
            list(
                pool.map(
                    lambda executor, running=running: (
                        running[executor] and executor.report(accepted(running[executor]), vacant=0)
                    ),
                    executors,
                )
            )


def test_given_back_cancelled_and_ended_tasks_leave_their_slot(world: World) -> None:
    judicator = world.judicator(**shares(0.5), attempts=2)
    people, executor = world.client(), world.executor(slots=2)
    executor.report(vacant=0)
    for _ in range(4):
        add(people, "ann")
    for _ in range(2):  # twice: the second time it is given up
        assert users(executor.report()) == ["ann"]
        assert users(executor.report(accepted(next(iter(executor.work.values())), retry=True), vacant=0)) == []
    assert users(executor.report()) == ["ann"]
    people.call("cancel", m.TaskRef(id=next(iter(executor.work))), m.Task)
    executor.report(vacant=0)
    assert users(executor.report()) == ["ann"]
    executor.restart()
    executor.report(vacant=0)
    assert users(executor.report()) == ["ann"]
    queue = judicator.judicator.replica.queue
    assert (queue.waiting_of("ann"), queue.running_of("ann")) == (1, 1)


def test_a_long_crowd_is_assigned_in_order(world: World) -> None:
    judicator = world.judicator()
    people, executor = world.client(), world.executor(slots=1)
    ids = [add(people, "crowd") for _ in range(48)]
    people.call("cancel", m.TaskRef(id=ids.pop(1)), m.Task)
    ids_seen = []
    for _ in range(len(ids) - 1):
        executor.report()
        ids_seen += list(executor.work)
        executor.report(*map(accepted, list(executor.work.values())), vacant=0)
    executor.report()
    assert [*ids_seen, *executor.work] == ids
    queue = judicator.judicator.replica.queue
    assert (queue.waiting_of("crowd"), queue.running_of("crowd")) == (0, 1)


def test_too_many_waiting_are_refused_with_one_sentence(world: World) -> None:
    world.judicator(**shares(1.0, waiting=3))
    people, executor = world.client(), world.executor(slots=1)
    ids = [add(people, "ann", idempotency_key=f"k{number}") for number in range(3)]
    with pytest.raises(LimitError) as refused:
        add(people, "ann", idempotency_key="k3")
    assert str(refused.value) == (
        "3 submissions of user 'ann' wait to be judged, and no more may wait at once; "
        "hand in again when some of them are judged, or cancel some"
    )
    assert (refused.value.http_status, refused.value.exit_code) == (429, 2)
    assert add(people, "ann", idempotency_key="k1") == ids[1], "the same call again is no new submission"
    add(people, "bob")
    add(people, "root", role="admin")
    executor.report()
    add(people, "ann")  # one is running now


def test_the_cap_counts_all_classes_and_no_gaps(world: World) -> None:
    judicator = world.judicator(**shares(1.0, waiting=6))
    people = world.client()
    write(world.db, waiting(2, user="ann"))
    wait_for(lambda: judicator.judicator.replica.queue.waiting_of("ann") == 2, what="these tasks")
    for priority in ("low", "low", "normal", "normal"):
        add(people, "ann", priority=priority)
    for priority in ("low", "normal"):
        with pytest.raises(LimitError):
            add(people, "ann", priority=priority)
    for _ in range(5):
        add(people, "bob", priority="low")
    add(people, "bob")
    with pytest.raises(LimitError):
        add(people, "bob")


def test_the_cap_holds_exactly_for_a_parallel_crowd(world: World) -> None:
    world.judicator(**shares(1.0, waiting=25))
    people = [world.client(f"gw{number}", timeout=30) for number in range(8)]
    barrier = threading.Barrier(8)

    def crowd(number: int) -> int:
        barrier.wait()
        count = 0
        for _ in range(10):
            with contextlib.suppress(LimitError):
                add(people[number], "ann")
                count += 1
        return count

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(crowd, range(8))) == 25
    assert world.db.tasks.count_documents({}) == 25


def test_a_long_queue_is_counted_at_once(world: World) -> None:
    world.judicator()
    people = world.client()
    write(world.db, waiting(700, user="ann"))
    write(world.db, waiting(20, user="bob", needs="java", priority="high"))

    def status() -> StatusReply:
        return people.call("status", m.Empty(), StatusReply)

    wait_for(lambda: status().queued == {"high": 20, "normal": 700, "low": 0, "rejudge": 0}, what="the count")
    assert status().finished == 0
    world.db.tasks.delete_many({"user": "ann"})
    wait_for(lambda: status().queued["normal"] == 0, what="the count after the end")
