"""Report and the life of a task: every rule of docs/protocol.md that an executor can meet, over the real wire."""

import asyncio
import concurrent.futures
import threading
import time
from collections import Counter
from typing import Any

import pytest
from bson import ObjectId
from prometheus_client import REGISTRY

from judge.common.errors import ConflictError, ForbiddenError, NotFoundError, StaleError
from judge.model import messages as m
from judge.model.overview import DrainRequest, ExecutorState, StatusReply
from judge.rpc.client import RpcClient
from tests.support.judicators import World, accepted, add, get, handed_out, source
from tests.support.servers import wait_for


def metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_the_whole_life_of_a_task(world: World) -> None:
    world.judicator()
    people, executor = world.client(), world.executor()
    added = people.call("add", source(), m.AddReply)
    assert added.created
    assert added.task.status is m.Status.PENDING
    reply = executor.report()
    assert [assignment.id for assignment in reply.add] == [added.task.id]
    assert reply.add[0].submission.source == "int main(){}"
    handed = get(people, added.task.id)
    assert (handed.status, handed.executor, handed.attempt) == ("compiling", "e1", 1)
    assert handed.started is not None

    def stored() -> m.Task | None:
        request = executor.request()
        request.executing[0].status, request.executing[0].progress = m.Status.RUNNING, "test 3 of 10"
        assert not executor.send(request).drop
        task = get(people, added.task.id)
        return task if task.status is m.Status.RUNNING else None

    running = wait_for(stored, what="its status")
    assert running.progress == "test 3 of 10"
    assert running.version > handed.version
    executor.report()
    completed = accepted(executor.work[added.task.id], result=m.Result(cpu=0.5))
    assert executor.report(completed).settled == [m.ClaimRef(id=completed.id, claim=completed.claim)]
    task = people.call("get", m.GetRequest(id=added.task.id, wait=5), m.Task)
    assert (task.status, task.verdict, task.judged_by, task.executor) == ("success", "AC", "e1", None)
    assert task.result is not None
    assert task.result.cpu == 0.5
    assert task.latency is not None
    assert [step.reason for step in task.history] == ["judged: AC"]


def test_a_heartbeat_without_news_is_not_stored_and_keeps_the_task(world: World) -> None:
    """The leader remembers heartbeats: a task that is listed is not taken back, and nothing is written for it."""
    _, executor, task = handed_out(world, task_expiry=1.2, sweep_interval=0.2)
    executor.report()
    before = world.db.tasks.find_one({"_id": ObjectId(task)})
    over = time.monotonic() + 3
    while time.monotonic() < over:
        assert not executor.report().drop
        time.sleep(0.1)
    assert world.db.tasks.find_one({"_id": ObjectId(task)}) == before


def test_status_and_progress_are_stored_twice_a_second(world: World) -> None:
    """Not sooner: a short task ends before, and so is written no more than three times."""
    people, executor, task = handed_out(world)

    def report(status: m.Status, progress: str, *, waiting: bool = False) -> m.Task:
        request = executor.request()
        execution = request.executing[0]
        execution.status, execution.progress, execution.waiting = status, progress, waiting
        executor.send(request)
        return get(people, task)

    begin = time.monotonic()
    versions = {report(m.Status.RUNNING, f"test {number} of 9").version for number in range(9)}
    assert len(versions) <= 1 + (time.monotonic() - begin) / 0.5
    wait_for(lambda: report(m.Status.RUNNING, "test 9 of 9").progress == "test 9 of 9", what="progress")
    begin = time.monotonic()
    wait_for(lambda: report(m.Status.RUNNING, "the end").progress == "the end", what="more progress")
    assert time.monotonic() - begin < 10


def test_a_hand_out_that_is_over_is_dropped_also_right_after_its_heartbeat(world: World) -> None:
    people, executor, task = handed_out(world)
    executor.report()
    people.call("cancel", m.TaskRef(id=task), m.Task)
    assert [dropped.id for dropped in executor.report().drop] == [task]


def test_the_same_completion_again_is_settled_and_changes_nothing(world: World) -> None:
    people, executor, task = handed_out(world)
    completed = accepted(executor.work[task])
    executor.report(completed)
    before = get(people, task)
    reply = executor.report(completed)
    assert [settled.claim for settled in reply.settled] == [completed.claim]
    assert reply.drop == []
    assert get(people, task) == before


def test_a_repeated_report_brings_the_same_hand_out_again(world: World) -> None:
    world.judicator()
    people, executor = world.client(), world.executor()
    task = add(people)
    request = executor.request()
    first = executor.rpc.call("report", request, m.ReportReply)
    again = executor.rpc.call("report", request, m.ReportReply)
    assert first.add == again.add
    assert [assignment.id for assignment in again.add] == [task]
    assert get(people, task).attempt == 1


def test_a_lost_hand_out_goes_back_and_costs_no_attempt(world: World) -> None:
    world.judicator(attempts=1)
    people, executor = world.client(), world.executor()
    task = add(people)
    for attempt in range(1, 5):
        executor.request()  # a sequence number that is never heard
        reply = executor.rpc.call("report", executor.request(), m.ReportReply)
        assert [(assignment.id, assignment.attempt) for assignment in reply.add] == [(task, attempt)]
    stored = get(people, task)
    assert not stored.done
    assert {step.reason for step in stored.history} == {"the hand-out did not reach it"}


def test_a_hand_out_to_a_process_that_is_gone_by_then_costs_no_attempt(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = world.judicator(attempts=1)
    people, executor = world.client(), world.executor()
    task = add(people)
    assigner = running.judicator.tasks.assigner
    assign = assigner.assign

    async def late(*words: Any) -> list[m.Assignment]:
        """The judicator comes to it after the first report of the executor's next process."""
        monkeypatch.undo()
        executor.restart()
        await asyncio.to_thread(executor.report, vacant=0)
        return await assign(*words)

    monkeypatch.setattr(assigner, "assign", late)
    assert executor.rpc.call("report", executor.request(), m.ReportReply).add == []
    stored = get(people, task)
    assert (stored.done, [step.reason for step in stored.history]) == (
        False, ["the executor restarted before the hand-out was sent"],
    )  # fmt: skip
    assert task in {assignment.id for assignment in executor.report().add}


def test_a_restarted_executors_tasks_go_back_at_once(world: World) -> None:
    people, executor, task = handed_out(world)
    old = executor.request()
    executor.restart()
    reply = executor.report(vacant=0)
    assert reply.add == []
    stored = get(people, task)
    assert (stored.status, stored.executor) == ("retrying", None)
    assert stored.history[0].reason == "the executor restarted"
    # The process that was replaced is refused, whatever it says.
    old.sequence += 100
    with pytest.raises(StaleError, match="replaced"):
        executor.rpc.call("report", old, m.ReportReply)


def test_a_spooled_result_of_an_earlier_life_is_committed_by_the_first_report(world: World) -> None:
    people, executor, task = handed_out(world)
    completed = accepted(executor.work[task])
    executor.restart()
    executor.report(completed)
    assert get(people, task).verdict == "AC"


def test_an_older_report_is_refused(world: World) -> None:
    world.judicator()
    executor = world.executor()
    old = executor.request()
    executor.report()
    with pytest.raises(StaleError, match="older"):
        executor.rpc.call("report", old, m.ReportReply)


def test_a_stale_claim_never_commits_and_is_counted(world: World) -> None:
    world.judicator()
    people, first, second = world.client(), world.executor("e1"), world.executor("e2")
    task = add(people)
    first.report()
    late = accepted(first.work[task])
    first.restart()
    first.report(vacant=0)
    second.report()
    assert task in second.work
    stale = metric("judge_stale_claims_total")
    reply = first.report(late, vacant=0)
    assert [ref.claim for ref in reply.drop] == [late.claim]
    assert [ref.claim for ref in reply.settled] == [late.claim]
    assert metric("judge_stale_claims_total") == stale + 1
    second.report(accepted(second.work[task], status=m.Status.RUN_FAILED, verdict=m.Verdict.WA))
    reply = first.report(late, vacant=0)
    assert [ref.claim for ref in reply.drop] == [late.claim]
    stored = get(people, task)
    assert (stored.verdict, stored.judged_by, stored.attempt) == ("WA", "e2", 2)


def test_a_claim_of_another_executor_is_not_accepted(world: World) -> None:
    world.judicator()
    people, first, second = world.client(), world.executor("e1"), world.executor("e2")
    task = add(people)
    first.report()
    stolen = accepted(first.work[task])
    assert [ref.claim for ref in second.report(stolen).drop] == [stolen.claim]
    assert not get(people, task).done
    wrong = stolen.model_copy(update={"attempt": 7})
    assert first.report(wrong, vacant=0).drop


def test_a_task_that_an_executor_no_longer_reports_is_given_back(world: World) -> None:
    people, executor, task = handed_out(world)
    executor.report()
    executor.work.clear()
    executor.report(vacant=0)
    stored = get(people, task)
    assert (stored.status, stored.history[0].reason) == ("retrying", "the executor no longer has it")
    assert world.db.tasks.find_one()["penalty"] == 1, "the process lives, so the task is not to blame"


def test_an_executor_is_told_to_drop_what_is_not_its(world: World) -> None:
    world.judicator()
    executor = world.executor()
    unknown = m.Assignment(id="0" * 24, attempt=1, claim="x", submission=source())
    executor.work[unknown.id] = unknown
    assert [ref.claim for ref in executor.report().drop] == ["x"]
    assert [ref.claim for ref in executor.report(accepted(unknown)).drop] == ["x"]


def test_attempts_end_with_evidence(world: World) -> None:
    world.judicator(attempts=3)
    people, first, second = world.client(), world.executor("e1"), world.executor("e2")
    task = add(people)
    for executor in (first, second, first):
        executor.report()
        assert task in executor.work, executor.name
        executor.report()
        executor.restart()
        executor.report(vacant=0)
    stored = get(people, task)
    assert (stored.status, stored.verdict, stored.done) == ("internal_error", "JE", True)
    assert [(past.attempt, past.executor) for past in stored.history] == [(1, "e1"), (2, "e2"), (3, "e1")]
    assert stored.result is not None
    assert "attempt 2 on e2: the executor restarted" in stored.result.reason
    assert first.report().add == []


def test_a_task_that_only_waited_in_a_restarted_executor_is_hardly_blamed(world: World) -> None:
    world.judicator(attempts=1)
    people, executor = world.client(), world.executor(slots=2)
    first, second = add(people), add(people)
    for _ in range(5):
        executor.report(vacant=2, ahead=2)
        assert executor.work.keys() == {first, second}
        executor.restart()
        executor.report(vacant=0)
    executor.report(vacant=2)  # now for free slots, but the second one's data is not there
    executor.waiting = {second}
    executor.report()
    executor.restart()
    executor.report(vacant=0)
    assert get(people, first).verdict == "JE", "it was running"
    stored = get(people, second)
    assert not stored.done
    assert {step.reason for step in stored.history} == {"the executor restarted, the task had not begun"}


def test_a_task_that_ends_its_executor_is_blamed_once_it_has_begun(world: World) -> None:
    world.judicator(attempts=1)
    people, executor = world.client(), world.executor()
    task = add(people)
    executor.waiting = {task}
    executor.report(vacant=1, ahead=1)
    executor.report()
    before = get(people, task).version
    executor.waiting = set()
    executor.report()
    assert get(people, task).version == before, "nobody needs to look again for that"
    executor.restart()
    executor.report(vacant=0)
    assert get(people, task).verdict == "JE"


def test_only_the_last_of_a_hand_out_wait(world: World) -> None:
    world.judicator()
    people, executor = world.client(), world.executor(slots=3)
    ids = [add(people) for _ in range(3)]
    executor.report(vacant=3, ahead=1)
    assert [world.db.tasks.find_one({"_id": ObjectId(task)})["waiting"] for task in ids] == [False, False, True]


def test_a_task_prefers_an_executor_that_has_not_failed_it(world: World) -> None:
    world.judicator()
    people, first, second = world.client(), world.executor("e1"), world.executor("e2", languages=("c",))
    second.report(vacant=0)
    failed, fresh = add(people), add(people)
    first.report()
    retry = accepted(first.work[failed], retry=True, result=m.Result(reason="the sandbox is broken"))
    reply = first.report(retry)
    assert [ref.id for ref in reply.settled] == [failed]
    assert [task.id for task in reply.add] == [fresh]
    assert get(people, failed).history[0].reason == "the sandbox is broken"
    assert [task.id for task in second.report().add] == [failed]


def test_a_single_executor_gets_a_failed_task_again_and_first(world: World) -> None:
    world.judicator()
    people, executor = world.client(), world.executor("e1")
    failed, _ = add(people), add(people)
    executor.report()
    assert [task.id for task in executor.report(accepted(executor.work[failed], retry=True)).add] == [failed]


def test_attempts_that_nobody_is_to_blame_for_weigh_little(world: World) -> None:
    people, executor, task = handed_out(world, attempts=1)
    for _ in range(9):
        executor.report(accepted(executor.work[task], retry=True, penalty=False))
        assert not get(people, task).done
    executor.report(accepted(executor.work[task], retry=True, penalty=False), vacant=0)
    assert get(people, task).verdict == "JE"


def test_a_completion_without_a_verdict_is_given_back(world: World) -> None:
    people, executor, task = handed_out(world)
    reply = executor.report(accepted(executor.work[task], verdict=None), vacant=0)
    assert reply.settled
    assert "without a verdict" in get(people, task).history[0].reason


def test_cancel_of_a_waiting_and_of_a_running_task(world: World) -> None:
    world.judicator()
    people, executor = world.client(), world.executor()
    running, waiting = add(people), add(people)
    executor.report()
    for task in (waiting, running):
        cancelled = people.call("cancel", m.TaskRef(id=task), m.Task)
        assert (cancelled.status, cancelled.done, cancelled.verdict) == ("cancelled", True, None)
        assert people.call("cancel", m.TaskRef(id=task), m.Task) == cancelled
    late = accepted(executor.work[running])
    assert [ref.id for ref in executor.report().drop] == [running]
    assert executor.report(late).drop
    assert get(people, running).status == "cancelled"
    judged = add(people)
    executor.report()
    executor.report(accepted(executor.work[judged]))
    with pytest.raises(ConflictError, match="finished already"):
        people.call("cancel", m.TaskRef(id=judged), m.Task)
    with pytest.raises(NotFoundError):
        people.call("cancel", m.TaskRef(id="0" * 24), m.Task)


def test_order_is_priority_then_fair_then_arrival(world: World) -> None:
    world.judicator()
    people, executor = world.client(), world.executor(slots=100)
    names: dict[str, str] = {}
    for user, priority in [
        ("ann", "low"), ("ann", "normal"), ("ann", "normal"), ("ann", "normal"), ("bob", "normal"), ("bob", "normal"),
        ("ann", "high"), ("cid", "normal"),
    ]:  # fmt: skip
        task = add(people, user=user, priority=priority)
        names[task] = f"{user}-{priority}"
    order = [names[assignment.id] for assignment in executor.report().add]
    assert order[0] == "ann-high"
    assert order[1:4] == ["ann-normal", "bob-normal", "cid-normal"]
    assert order[4:6] == ["ann-normal", "bob-normal"]
    assert order[6:] == ["ann-normal", "ann-low"]


def test_a_returned_task_goes_to_the_head_of_the_queue(world: World) -> None:
    world.judicator()
    people, executor = world.client(), world.executor()
    low = add(people, priority="low")
    executor.report()
    add(people, priority="high")
    executor.restart()
    assert [assignment.id for assignment in executor.report().add] == [low]


def test_tasks_go_only_to_executors_that_have_the_language(world: World) -> None:
    world.judicator()
    people = world.client()
    task = add(people, language="java", source="class A {}")
    assert world.executor("e1", languages=("c",)).report().add == []
    command = people.call("add", m.Submission(user="a", command="cat"), m.AddReply).task.id
    assert [assignment.id for assignment in world.executor("e2", languages=()).report().add] == [command]
    warnings = people.call("status", m.Empty(), StatusReply).warnings
    assert any("1 tasks wait for an executor with language 'java'" in warning for warning in warnings)
    assert [assignment.id for assignment in world.executor("e3", languages=("java", "c")).report().add] == [task]


def test_a_drained_executor_finishes_and_takes_no_more(world: World) -> None:
    world.judicator()
    people, executor = world.client(), world.executor(slots=2)
    task = add(people)
    executor.report()
    drain = DrainRequest(executor="e1", drain=True, reason="new disk")
    state = people.call("drain", drain, ExecutorState)
    assert (state.drain, state.drain_reason) == (True, "new disk")
    add(people)
    reply = executor.report()
    assert (reply.drain, reply.add) == (True, [])
    executor.restart()
    assert executor.report().drain
    people.call("drain", DrainRequest(executor="e1", drain=False), ExecutorState)
    assert task in [assignment.id for assignment in executor.report().add]
    with pytest.raises(NotFoundError):
        people.call("drain", DrainRequest(executor="nobody", drain=True), ExecutorState)


def test_two_judicators_never_hand_out_twice(world: World) -> None:
    """Twelve executors on two judicators judge 150 tasks; each is handed out and committed exactly once."""
    world.judicator("j1")
    world.judicator("j2")
    people = world.client()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        tasks = list(pool.map(lambda n: add(people, user=f"u{n % 7}"), range(150)))
    handed: Counter[str] = Counter()
    lock = threading.Lock()

    def judge(number: int) -> None:
        executor = world.executor(f"x{number}", slots=2)
        executor.rpc.first = world.judicators[number % 2].address
        completed: list[m.Completed] = []
        while True:
            added = executor.report(*completed).add
            with lock:
                handed.update(assignment.id for assignment in added)
            completed = [accepted(assignment) for assignment in executor.work.values()]
            if not completed:
                return

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        list(pool.map(judge, range(12)))
    assert handed == Counter(tasks)
    docs = list(world.db.tasks.find())
    assert all(doc["done"] and doc["verdict"] == "AC" and doc["attempt"] == 1 for doc in docs)
    assert len(docs) == 150


def test_reports_of_one_executor_at_two_judicators_at_once_agree(world: World) -> None:
    """The same report reaches both: what both hand out beyond the slots goes back without loss."""
    world.judicator("j1")
    world.judicator("j2")
    people, executor = world.client(), world.executor(slots=2)
    tasks = {add(people) for _ in range(6)}
    request = executor.request()
    clients = [
        world.stack.enter_context(RpcClient(lambda a=judicator.address: [a], world.tls("e1", "executor"), 5.0))
        for judicator in world.judicators
    ]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        replies = list(pool.map(lambda client: client.call("report", request, m.ReportReply), clients))
    executor.work = {assignment.id: assignment for assignment in replies[0].add}
    judged: set[str] = set()
    while len(judged) < 6:
        judged |= set(executor.work)
        executor.report(*[accepted(assignment) for assignment in executor.work.values()])
    assert judged == tasks
    docs = list(world.db.tasks.find())
    assert all(doc["done"] and doc["penalty"] == 0 for doc in docs)


def test_the_first_report_of_an_executor_may_reach_two_judicators_at_once(world: World) -> None:
    world.judicator("j1")
    world.judicator("j2")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for number in range(25):
            request = world.executor(f"x{number}").request()
            tls = world.tls(request.executor, "executor")
            clients = [
                world.stack.enter_context(RpcClient(lambda a=judicator.address: [a], tls, 5.0))
                for judicator in world.judicators * 3
            ]
            list(pool.map(lambda client, request=request: client.call("report", request, m.ReportReply), clients))


def test_a_command_goes_to_an_executor_that_has_its_program(world: World) -> None:
    world.judicator()
    people, without, has = world.client(), world.executor("e1", slots=3), world.executor("e2", slots=3)
    without.info = without.info.model_copy(update={"abilities": [*m.ABILITIES, "pdftocairo"]})
    has.info = has.info.model_copy(update={"abilities": [*m.ABILITIES, *m.TOOLS]})
    page = add(people, source=None, language=None, command="pandoc", tool="pandoc", role="admin")
    plain = add(people)
    assert [assignment.id for assignment in without.report().add] == [plain]
    assert [assignment.id for assignment in has.report().add] == [page]
    with pytest.raises(ForbiddenError, match="tool: requires a token of role judge"):
        add(people, source=None, language=None, command="pandoc", tool="pandoc")


def test_an_executor_of_an_older_release_gets_no_files(world: World) -> None:
    """It would ignore them, and judge something else (docs/decisions/012-mixed-releases.md)."""
    world.judicator()
    people, older, newer = world.client(), world.executor("e1", slots=3), world.executor("e2", slots=3)
    older.info = older.info.model_copy(update={"abilities": []})
    files = [m.SourceFile(name="a.c", text="int main(){}"), m.SourceFile(name="a.h", text="")]
    several = add(people, source=None, files=files)
    single = add(people)
    assert [assignment.id for assignment in older.report().add] == [single]
    assert [assignment.id for assignment in newer.report().add] == [several]
    assert newer.work[several].submission.files == files
    assert world.db.tasks.find_one({"_id": ObjectId(single)}).get("wants") is None
