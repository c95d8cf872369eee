"""Rejudgings over the wire: real judicators, etcd and mongod; the executor is a client of the protocol."""

import concurrent.futures
import datetime
import time

import pytest

from judge.common.errors import ConflictError, EmptyError, FieldError, JudgeError, NotFoundError
from judge.judicator import verdicts as verdicts_in_force
from judge.model import messages as m
from judge.model.problem import ProblemImport, ProblemInfo, ProblemManifest, ProblemTest
from judge.model.rejudging import (
    RejudgeFilter,
    RejudgePreview,
    RejudgeStart,
    Rejudging,
    RejudgingsReply,
    RejudgingsRequest,
)
from judge.rpc.client import RpcClient
from tests.support.judicators import (
    Executor,
    World,
    accepted,
    act,
    completed,
    diff,
    get,
    judge,
    rejudge,
    settled,
    show,
    source,
    sources,
    start,
)
from tests.support.servers import wait_for

OLD = ["WA", "WA", "AC", "TLE", "WA"]
NEW = ["AC", "WA", "AC", "AC", "RTE"]


@pytest.fixture
def people(world: World) -> RpcClient:
    world.judicator(executor_expiry=3600.0, executor_forget=7200.0, task_expiry=3600.0)
    return world.client(timeout=30.0)


@pytest.fixture
def executor(world: World, people: RpcClient) -> Executor:
    return world.executor(slots=8)


def verdicts(people: RpcClient, ids: list[str]) -> list[str | None]:
    return [get(people, task).verdict for task in ids]


def by_search(people: RpcClient) -> dict[str, str | None]:
    """Every verdict as one search shows it, and as searches by verdict find it; they must agree."""
    reply = people.call("search", m.SearchRequest(limit=500), m.SearchReply)
    return {task.id: task.verdict for task in reply.tasks}


def test_from_start_to_apply(world: World, people: RpcClient, executor: Executor) -> None:
    ids = judge(people, executor, *OLD)
    before = [get(people, task_id) for task_id in ids]
    preview = people.call("rejudge_preview", RejudgeFilter(verdict=["WA", "TLE", "AC"]), RejudgePreview)
    assert (preview.count, preview.skipped, preview.verdicts) == (5, 0, {"AC": 1, "TLE": 1, "WA": 3})
    assert [task.id for task in preview.tasks] == ids[::-1]
    assert world.db.rejudgings.count_documents({}) == 0, "a preview stores nothing"

    rejudging = start(people, ids=ids)
    assert (rejudging.id, rejudging.state, rejudging.total, rejudging.waiting) == (1, "running", 5, 5)
    assert [get(people, task_id).rejudging for task_id in ids] == [1] * 5
    rejudge(executor, dict(zip(sources(people, ids), NEW, strict=True)))
    rejudging = show(people, 1)
    assert (rejudging.state, rejudging.done, rejudging.changed, rejudging.waiting, rejudging.running) == (
        "finished",
        5,
        3,
        0,
        0,
    )
    assert verdicts(people, ids) == OLD, "nothing changes before it is applied"
    assert by_search(people) == dict(zip(ids, OLD, strict=True))
    comparison = diff(people, 1)
    assert comparison.matrix == {"AC": {"AC": 1}, "TLE": {"AC": 1}, "WA": {"AC": 1, "RTE": 1, "WA": 1}}
    changed = {
        change.id: (change.before.verdict, change.after and change.after.verdict) for change in comparison.changes
    }
    assert changed == {ids[0]: ("WA", "AC"), ids[3]: ("TLE", "AC"), ids[4]: ("WA", "RTE")}
    assert get(people, comparison.changes[0].rerun or "").rerun_of == comparison.changes[0].id
    assert len(diff(people, 1, all=True).changes) == 5

    act(people, "apply", 1)
    rejudging = settled(people, 1)
    assert (rejudging.state, rejudging.ended_by, rejudging.changed, rejudging.done) == ("applied", "root", 3, 5)
    assert verdicts(people, ids) == NEW
    assert by_search(people) == dict(zip(ids, NEW, strict=True))
    assert diff(people, 1, all=True).matrix == comparison.matrix
    assert {change.id for change in diff(people, 1).changes} == set(changed)
    for old, task in zip(before, (get(people, task_id) for task_id in ids), strict=True):
        (past,) = task.past
        assert (past.rejudging, past.why, past.verdict, past.trace) == (1, "new test data", old.verdict, old.trace)
        assert task.trace == "trace-of-the-rejudging"
        assert (task.rejudging, task.created, task.latency) == (None, old.created, old.latency)
        assert task.version > old.version
        assert [attempt.rejudging for attempt in task.history] == [None, 1]
    assert world.db.tasks.count_documents({}) == 5, "no run is left"
    assert world.db.meta.find_one({"_id": "verdicts"})["folding"] == []


def test_drop_leaves_no_trace_on_verdicts(world: World, people: RpcClient, executor: Executor) -> None:
    ids = judge(people, executor, *OLD)
    before = list(world.db.tasks.find(sort=[("_id", 1)]))
    start(people, verdict=["WA"])
    texts = sources(people, ids)
    rejudge(executor, {texts[0]: "AC", texts[1]: "AC", texts[4]: "AC"})
    assert show(people, 1).state == "finished"
    act(people, "cancel", 1)
    rejudging = settled(people, 1)
    assert (rejudging.state, rejudging.changed) == ("cancelled", 3)
    assert diff(people, 1).matrix == {"WA": {"AC": 3}}, "what it would have changed is kept"
    assert list(world.db.tasks.find(sort=[("_id", 1)])) == before


@pytest.mark.parametrize("changes", [{}, {"past": [{"rejudging": 3}]}, {"result": None, "problem": None}])
def test_folding_makes_what_readers_saw_before(world: World, changes: dict[str, object]) -> None:
    """The update inside MongoDB and the view of it in Python are the same function."""
    now = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    old = {"status": "run_failed", "verdict": "WA", "judged_by": "e1", "started": now, "finished": now, "trace": "old"}
    new = {"status": "success", "verdict": "AC", "judged_by": "e2", "started": now, "finished": now, "trace": "new"}
    doc = {
        **old,
        "result": {"cpu": 1.5, "wall": 2.0, "memory": 3, "reason": "no", "failed_test": "2", "score": 1.0},
        "problem": {"name": "p", "hash": "a"},
        "history": [{"attempt": n, "executor": "e1", "reason": "r"} for n in range(49)],
        "blobs": ["b", "c"],
        "version": 4,
        "rejudging": 7,
        **changes,
        "staged": {
            **new,
            "rejudging": 7,
            "why": "$why",
            "result": {"cpu": 0.5},
            "problem": None,
            "blobs": ["c", "a"],
            "history": [{"attempt": n, "executor": "e2", "reason": "s", "rejudging": 7} for n in range(3)],
        },
    }
    world.db.tasks.insert_one(doc)
    stored = world.db.tasks.find_one()
    world.db.tasks.update_one({}, verdicts_in_force.FOLD)
    folded = world.db.tasks.find_one()
    folded["blobs"].sort()
    assert folded == verdicts_in_force.current(stored, frozenset({7}))


def test_every_filter(people: RpcClient, world: World) -> None:
    first, second = world.executor("e1", slots=8), world.executor("e2", slots=8, languages=("c", "python3"))
    of_ann = judge(people, first, "WA", "AC", user="ann")
    middle = datetime.datetime.now(datetime.UTC)
    two = judge(people, second, "WA", "AC", user="bob")
    three = judge(people, second, "CE", user="bob", language="python3")

    def count(**conditions: object) -> set[str]:
        request = RejudgeFilter.model_validate(conditions)
        return {task.id for task in people.call("rejudge_preview", request, RejudgePreview).tasks}

    assert count(user=["ann"]) == set(of_ann)
    assert count(language=["python3"]) == set(three)
    assert count(verdict=["WA", "CE"]) == {of_ann[0], two[0], three[0]}
    assert count(executor=["e2"]) == {*two, *three}
    assert count(since=middle) == {*two, *three}
    assert count(until=middle) == set(of_ann)
    assert count(ids=[of_ann[0], two[0]], user=["bob"]) == {two[0]}
    assert count(user=["bob"], verdict=["AC"], executor=["e2"], since=middle) == {two[1]}
    assert count(problem=["nothing"]) == set()


def test_refusals(people: RpcClient, executor: Executor) -> None:
    (judged,) = judge(people, executor, "WA")
    waiting = people.call("add", source(), m.AddReply).task.id
    table: list[tuple[dict[str, object], type[JudgeError], str]] = [
        ({}, FieldError, "no condition"),
        ({"user": ["nobody"]}, EmptyError, "no judged submission matches"),
        ({"ids": ["0" * 24]}, NotFoundError, f"no submission {'0' * 24}"),
        ({"ids": [waiting]}, ConflictError, r"no verdict \(pending\)"),
        ({"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}, FieldError, "not after 'since'"),
    ]
    for conditions, error, words in table:
        with pytest.raises(error, match=words) as caught:
            start(people, **conditions)
        assert type(caught.value) is error
    for action in ("apply", "cancel"):
        with pytest.raises(NotFoundError, match="no rejudging 7"):
            act(people, action, 7)
    start(people, ids=[judged])
    with pytest.raises(EmptyError, match="1 match, but are part of an open rejudging"):
        start(people, ids=[judged])
    with pytest.raises(ConflictError, match="not finished: 0 of 1"):
        act(people, "apply", 1)
    rerun = diff(people, 1, all=True).changes[0].rerun or ""
    with pytest.raises(ConflictError, match="run of rejudging 1"):
        people.call("cancel", m.TaskRef(id=rerun), m.Task)
    act(people, "cancel", 1)
    for action in ("apply", "cancel"):
        with pytest.raises(ConflictError, match="cancelled already"):
            act(people, action, 1)
    again = start(people, ids=[judged])
    executor.report(vacant=0)
    assert get(people, judged).rejudging == again.id


def test_calls_may_be_repeated(people: RpcClient, executor: Executor) -> None:
    ids = judge(people, executor, "WA", "AC")
    request = RejudgeStart(filter=RejudgeFilter(ids=ids), reason="r", user="root", idempotency_key="k")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        (number,) = set(pool.map(lambda _: people.call("rejudge_start", request, Rejudging).id, range(8)))
    assert len(people.call("rejudgings", RejudgingsRequest(), RejudgingsReply).rejudgings) == 1
    with pytest.raises(ConflictError, match="another one"):
        people.call("rejudge_start", request.model_copy(update={"reason": "other"}), Rejudging)
    rejudge(executor, dict.fromkeys(sources(people, ids), "AC"))
    for _ in range(2):
        assert act(people, "apply", number, key="same").state == "applied"
    with pytest.raises(ConflictError, match="applied already"):
        act(people, "apply", number)


def test_the_problem_is_taken_as_it_is_now_and_past_verdicts_pile_up(world, people, executor) -> None:
    def publish(answer: bytes) -> str:
        sha = people.put_blob(answer)
        test = ProblemTest(name="1", input=sha, answer=sha)
        manifest = people.put_blob(ProblemManifest(name="sum", tests=[test]).model_dump_json().encode())
        return people.call("problem_import", ProblemImport(manifest=manifest, visible=True), ProblemInfo).hash

    old = publish(b"wrong")
    (task,) = judge(people, executor, "WA", problem="sum")
    new = publish(b"right")
    texts = sources(people, [task])
    for number, verdict in ((1, "AC"), (2, "TLE")):
        start(people, problem=["sum"])
        executor.report()
        (assignment,) = executor.work.values()
        assert assignment.problem is not None
        assert assignment.problem.hash == new
        assert assignment.trace == "trace-of-the-rejudging"
        executor.report(completed(assignment, verdict), vacant=0)
        act(people, "apply", number)
        settled(people, number)
    final = get(people, task)
    assert (final.verdict, final.problem and final.problem.hash) == ("TLE", new)
    assert [(past.rejudging, past.verdict) for past in final.past] == [(1, "WA"), (2, "AC")]
    assert [past.problem and past.problem.hash for past in final.past] == [old, new]
    assert [(change.before.verdict, change.after and change.after.verdict) for change in diff(people, 1).changes] == [
        ("WA", "AC")
    ]
    assert len(texts) == 1


def test_live_submissions_go_before_hundreds_of_runs(world: World, people: RpcClient, executor: Executor) -> None:
    executor.slots = 64
    judge(people, executor, *["WA"] * 300)
    executor.slots = 1
    assert start(people, verdict=["WA"]).waiting == 300
    executor.report(vacant=0)
    for priority in ("low", "normal", "high"):
        live = people.call("add", source(priority, priority=priority), m.AddReply).task.id
        assert [assignment.id for assignment in executor.report(vacant=1).add] == [live]
        executor.report(accepted(executor.work[live]), vacant=0)
    # A live task that this executor failed before, with another executor alive that has not: still no run before it.
    second = world.executor("e2", languages=("python3",))
    second.report(vacant=0)
    live = people.call("add", source("again"), m.AddReply).task.id
    executor.report(vacant=1)
    assignment = executor.work[live]
    failed = accepted(assignment, status=m.Status.RETRYING, verdict=None, retry=True)
    assert [again.id for again in executor.report(failed, vacant=1).add] == [live]
    executor.report(accepted(executor.work[live]), vacant=0)
    # A run that is given back waits behind everything live as well.
    executor.report(vacant=1)
    (run,) = executor.work.values()
    assert get(people, run.id).rerun_of is not None
    executor.report(accepted(run, status=m.Status.RETRYING, verdict=None, retry=True, penalty=False), vacant=0)
    live = people.call("add", source("last", priority="low"), m.AddReply).task.id
    assert [assignment.id for assignment in executor.report(vacant=1).add] == [live]
    executor.report(accepted(executor.work[live]), vacant=0)
    assert [assignment.id for assignment in executor.report(vacant=1).add] == [run.id], (
        "then the one that was given back"
    )


def multiply(world: World, count: int) -> None:
    """So many more submissions like the only one there is."""
    doc = world.db.tasks.find_one({}, {"_id": 0, "key": 0})
    world.db.tasks.insert_many([dict(doc) for _ in range(count)])


def test_cancel_is_quick_with_thousands_and_stops_what_runs(world, people, executor) -> None:
    (task,) = judge(people, executor, "WA")
    multiply(world, 5000)
    start(people, verdict=["WA"])
    wait_for(lambda: show(people, 1).state == "running", what="all runs queued")
    assert show(people, 1).waiting == 5001
    executor.report(vacant=8)
    assert len(executor.work) == 8
    begin = time.monotonic()
    assert act(people, "cancel", 1).state == "cancelled"
    # The executor is called although it has nothing to tell, and hears that its work is not wanted.
    wait_for(lambda: executor.report(vacant=0, hold=5.0) and not executor.work, what="a call")
    rejudging = settled(people, 1)
    took = time.monotonic() - begin
    assert (rejudging.waiting, rejudging.running) == (4993, 8)
    assert world.db.tasks.count_documents({"rejudging": {"$exists": True}}) == 0
    assert world.db.tasks.count_documents({}) == 5001
    assert took < 30, "seconds on an idle machine are a fifth of this"
    assert get(people, task).verdict == "WA"


def test_thousands_are_applied_in_bounded_steps(world: World, people: RpcClient, executor: Executor) -> None:
    """The runs are judged by hand in the database; what counts is that staging, switch and folding scale."""
    judge(people, executor, "WA")
    multiply(world, 4000)
    start(people, verdict=["WA"])
    wait_for(lambda: show(people, 1).state == "running", what="all runs queued")
    world.db.tasks.update_many(
        {"rerun_of": {"$exists": True}}, {"$set": {"done": True, "verdict": "AC", "status": "success", "result": {}}}
    )
    assert show(people, 1).state == "finished"
    act(people, "apply", 1)
    settled(people, 1)
    assert world.db.tasks.count_documents({"verdict": "AC"}) == 4001
    assert world.db.tasks.count_documents({}) == 4001
    pages, after = [], None
    while True:
        page = diff(people, 1, limit=500, after=after)
        pages += page.changes
        after = page.next
        if after is None:
            break
    assert len({change.id for change in pages}) == len(pages) == 4001
