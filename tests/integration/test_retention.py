"""What retention removes and what it leaves, beside everything that happens meanwhile; real etcd and mongod."""

import asyncio
import datetime
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from bson import ObjectId

from judge.common import clock
from judge.common.errors import FieldError, ForbiddenError, NotFoundError
from judge.judicator.leader import retention
from judge.model import messages as m
from judge.model.overview import ExecutorsReply, StatusReply
from judge.model.problem import ProblemInfo, ProblemsReply
from judge.rpc.client import RpcClient
from tests.support.judicators import (
    FAST,
    Executor,
    Running,
    World,
    accepted,
    imported,
    manifest,
    rejudge,
    source,
    start,
    upload,
)
from tests.support.servers import wait_for


def add(people: RpcClient, **fields: object) -> str:
    return people.call("add", source(**fields), m.AddReply).task.id


def age(world: World, collection: str, query: dict[str, object], field: str, days: float) -> None:
    moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)
    world.db[collection].update_many(query, {"$set": {field: moment}})


def overdue(world: World) -> None:
    """The grace of everything that is marked is over."""
    for collection in ("fs.files", "manifests"):
        age(world, collection, {"unused": {"$exists": True}}, "unused", 0.01)


def once(running: Running) -> None:
    assert running.do(running.judicator.retention.once(lambda: True))


async def pass_by(world: World, running: Running) -> None:
    """As if all graces had passed: what is unused is marked, and removed."""
    for _ in range(2):
        assert await running.judicator.retention.once(lambda: True)
        overdue(world)
    assert await running.judicator.retention.once(lambda: True)


def cleaned(world: World, running: Running) -> None:
    running.do(pass_by(world, running))


def blobs(world: World) -> set[str]:
    return {doc["filename"] for doc in world.db["fs.files"].find()}


def files_are_complete(world: World) -> bool:
    """Every stored file has its pieces, and every piece its file."""
    files = {doc["_id"] for doc in world.db["fs.files"].find({"length": {"$gt": 0}})}
    return files == set(world.db["fs.chunks"].distinct("files_id"))


@pytest.fixture
def running(world: World) -> Running:
    return world.judicator()


@pytest.fixture
def people(world: World) -> RpcClient:
    return world.client(timeout=30.0)


@pytest.fixture
def executor(world: World) -> Executor:
    return world.executor(slots=9)


def test_old_tasks_go_and_what_nothing_refers_to(world: World, people: RpcClient, executor: Executor) -> None:
    running = world.judicator(retention_days=30)
    used, unused = people.put_blob(b"used"), people.put_blob(b"unused")
    old = add(people, tests=[m.Test(name="1", input_blob=used)])
    recent = add(people)
    waiting = add(people, user="bob", language="java")
    first, second = imported(people, tests=1), imported(people, tests=2)
    executor.accept_all()
    old_id = ObjectId.from_datetime(datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=3))
    world.db["fs.chunks"].insert_one({"files_id": old_id, "n": 0, "data": b"broken off"})

    def ids() -> set[str]:
        return {str(doc["_id"]) for doc in world.db.tasks.find()}

    age(world, "tasks", {"done": True}, "finished", 29)
    once(running)
    assert ids() == {old, recent, waiting}
    assert {used, unused, first.hash, second.hash} <= blobs(world), "all have their grace"
    overdue(world)
    fresh = people.put_blob(b"fresh")
    once(running)
    assert unused not in blobs(world)
    assert {used, fresh, second.hash} <= blobs(world)
    assert world.db["fs.chunks"].count_documents({"data": b"broken off"}) == 0
    age(world, "tasks", {"blobs": used}, "finished", 31)
    cleaned(world, running)
    assert ids() == {recent, waiting}
    assert blobs(world) & {used, first.hash, second.hash} == {second.hash}
    assert files_are_complete(world)


def test_keeping_every_submission_keeps_no_rubbish(world: World, people: RpcClient, executor: Executor) -> None:
    running = world.judicator(retention_days=0)
    unused = people.put_blob(b"unused")
    add(people)
    executor.accept_all()
    age(world, "tasks", {}, "finished", 3000)
    cleaned(world, running)
    assert unused not in blobs(world)
    assert world.db.tasks.count_documents({}) == 1


def test_asking_for_a_blob_gives_it_its_whole_grace_again(world: World, running: Running, people: RpcClient) -> None:
    sha = people.put_blob(b"old")
    once(running)
    overdue(world)
    assert people.has_blob(sha)
    once(running)
    assert people.has_blob(sha)


def test_the_content_of_a_trial_stays_as_long_as_the_trial(world, people, executor) -> None:
    running = world.judicator(retention_days=30)
    problem = manifest(people, tests=2)
    sha = upload(people, problem).manifest
    trial = {"problem": "hello", "problem_hash": sha, "role": "admin", "language": "c"}
    first = add(people, **trial)
    assert people.call("problems", m.Empty(), ProblemsReply).problems == [], "no name stands for it"
    cleaned(world, running)
    assert {sha, *problem.blobs()} <= blobs(world)
    executor.report()
    assert executor.work[first].problem == m.ProblemRef(name="hello", hash=sha)
    executor.report(accepted(executor.work[first]))
    cleaned(world, running)
    assert {sha, *problem.blobs()} <= blobs(world)
    age(world, "tasks", {}, "finished", 31)
    for _ in range(2):
        cleaned(world, running)
    assert not {sha, *problem.blobs()} & blobs(world)
    with pytest.raises(NotFoundError, match="no blob"):
        add(people, **trial, idempotency_key="later")


def test_a_trial_keeps_its_content_while_the_name_gets_another(running, people, executor) -> None:
    current = imported(people, tests=1)
    sha = upload(people, manifest(people, tests=3)).manifest
    trial = add(people, problem="hello", problem_hash=sha, role="admin")
    plain = add(people, problem="hello")
    executor.report()
    assert executor.work[trial].problem == m.ProblemRef(name="hello", hash=sha)
    assert executor.work[plain].problem == m.ProblemRef(name="hello", hash=current.hash)
    assert people.call("problems", m.Empty(), ProblemsReply).problems[0].hash == current.hash


@pytest.mark.parametrize(
    ("fields", "error", "sentence"),
    [
        ({"role": "user"}, ForbiddenError, "problem_hash: requires a token of role judge"),
        ({"problem": None}, FieldError, "problem: is missing; 'problem_hash' goes with"),
        ({"problem": "other"}, FieldError, "problem_hash: names a manifest of problem 'hello', not of 'other'"),
        ({"problem_hash": "0" * 64}, NotFoundError, "there is no blob 000"),
        (
            {"problem": "other", "problem_hash": None, "check": "inputs"},
            FieldError,
            "source: is given together with 'check'",
        ),
        ({"role": "user", "problem_hash": None, "check": "inputs"}, ForbiddenError, "check: requires a token of role"),
    ],
)
def test_trials_that_are_refused(world, fields, error, sentence, running, people) -> None:
    sha = upload(people, manifest(people)).manifest
    imported(people, "other")
    with pytest.raises(error, match=sentence):
        add(people, **{"problem": "hello", "problem_hash": sha, "role": "admin", **fields})
    assert world.db.tasks.count_documents({}) == 0


def test_retention_is_idle_when_clocks_disagree(world, monkeypatch, people, executor) -> None:
    running = world.judicator(retention_days=1)
    add(people)
    executor.accept_all()
    skewed = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=400)
    monkeypatch.setattr("judge.judicator.leader.retention.clock.wall", lambda: skewed)
    assert not running.do(running.judicator.retention.once(lambda: True))
    assert world.db.tasks.count_documents({}) == 1


def test_a_judicator_whose_clock_is_behind_ends_no_submission_in_the_past(world, monkeypatch, people, executor) -> None:
    running = world.judicator(retention_days=7)
    judged, cancelled = add(people), add(people, source="int x;")
    executor.report(vacant=1)
    real = clock.wall
    with monkeypatch.context() as patch:
        patch.setattr(clock, "wall", lambda: real() - datetime.timedelta(days=8))
        executor.report(*[accepted(assignment) for assignment in executor.work.values()], vacant=0)
        (open_task,) = {judged, cancelled} - {str(doc["_id"]) for doc in world.db.tasks.find({"done": True})}
        people.call("cancel", m.TaskRef(id=open_task), m.Task)
        warnings = people.call("status", m.Empty(), StatusReply).warnings
        assert any("the clock of judicator 'j1' is 691200 s behind the database's" in warning for warning in warnings)
    ends = [doc["finished"] for doc in world.db.tasks.find()]
    assert len(ends) == 2
    assert all(abs(real() - end) < datetime.timedelta(minutes=1) for end in ends)
    cleaned(world, running)
    assert world.db.tasks.count_documents({}) == 2
    assert not any("clock" in warning for warning in people.call("status", m.Empty(), StatusReply).warnings)


def test_a_blob_that_was_stored_twice_is_kept_once(world: World, running: Running, people: RpcClient) -> None:
    blobs_of = running.judicator.blobs

    async def write_twice(data: bytes) -> None:
        sha = hashlib.sha256(data).hexdigest()

        async def pieces() -> AsyncIterator[bytes]:
            yield data

        await asyncio.gather(blobs_of.write(sha, pieces()), blobs_of.write(sha, pieces()))

    contents = [bytes([n]) * 600_000 for n in range(3)]
    for data in contents:
        running.do(write_twice(data))
    shas = [hashlib.sha256(content).hexdigest() for content in contents]
    add(people, tests=[m.Test(name=str(n), input_blob=sha) for n, sha in enumerate(shas)])
    files = world.db["fs.files"]
    assert files.count_documents({}) == 6
    once(running)
    assert files.count_documents({}) == 6, "a reader may have begun with the older one"
    age(world, "fs.files", {}, "uploadDate", 3)
    newest = files.find_one({"filename": shas[0]}, sort=[("_id", -1)])
    age(world, "fs.files", {"_id": newest["_id"]}, "uploadDate", 2)
    # The newest copy of another one has lost a piece.
    damaged = files.find_one({"filename": shas[1]}, sort=[("_id", -1)])
    age(world, "fs.files", {"_id": damaged["_id"]}, "uploadDate", 2)
    world.db["fs.chunks"].delete_one({"files_id": damaged["_id"], "n": 0})
    once(running)
    assert files.find_one({"filename": shas[0]})["_id"] == newest["_id"]
    counts = [files.count_documents({"filename": sha}) for sha in shas]
    assert counts == [1, 2, 1]
    assert files_are_complete(world)
    for sha, content in ((shas[0], contents[0]), (shas[2], contents[2])):
        assert running.do(blobs_of.get(sha)) == content


@pytest.mark.parametrize("batch", [2, 3, 5])
def test_doubles_are_found_whatever_the_step(world: World, batch: int) -> None:
    running = world.judicator(batch=batch)
    moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=3)
    names = [hashlib.sha256(bytes([n])).hexdigest() for n in range(5)]
    file = {"length": 0, "chunkSize": 1}
    world.db["fs.files"].insert_many(
        {**file, "filename": name, "uploadDate": moment + datetime.timedelta(seconds=copy)}
        for name, copies in zip(names, (1, 2, 1, 3, 2), strict=True)
        for copy in range(copies)
    )
    world.db.tasks.insert_one({"blobs": names, "done": True, "user": "ann", "bytes": 0})
    for _ in range(3):
        once(running)
    assert sorted(doc["filename"] for doc in world.db["fs.files"].find()) == sorted(names)
    world.db.tasks.delete_many({})


def test_faults_of_judicators_that_are_gone_are_forgotten(world: World, running: Running) -> None:
    now = datetime.datetime.now(datetime.UTC)
    for name, days in (("j0:sweep:x", 2), ("j1:sweep:y", 0)):
        at = now - datetime.timedelta(days=days)
        world.db.meta.insert_one({"_id": f"fault:{name}", "text": name, "at": at})
    once(running)
    assert [doc["_id"] for doc in world.db.meta.find({"text": {"$exists": True}})] == ["fault:j1:sweep:y"]
    world.db.meta.delete_many({"text": {"$exists": True}})


def many_files(world: World, count: int) -> None:
    """So many blobs that no task refers to."""
    now = datetime.datetime.now(datetime.UTC)
    names = (hashlib.sha256(str(index).encode()).hexdigest() for index in range(count))
    world.db["fs.files"].insert_many(
        {"filename": name, "length": 0, "chunkSize": 1, "uploadDate": now} for name in names
    )


def test_a_dead_executor_is_noticed_while_retention_has_much_to_do(world: World) -> None:
    """Small steps make this pass a long one; the sweep goes on beside it."""
    many_files(world, 6000)
    silent = world.executor("e1")
    running = world.judicator(batch=3, **FAST)
    part, lead = running.judicator.retention, running.judicator.lead
    wait_for(lambda: lead.leading, what="a leader")
    part._idle_until = part._due_at = 0.0
    wait_for(lambda: (running.do(part.position()) or ("", None))[0] == "blob", what="a pass at its blobs")
    task = add(world.client())
    silent.report()

    def dead() -> bool:
        executors = world.client().call("executors", m.Empty(), ExecutorsReply).executors
        return [executor.alive for executor in executors] == [False]

    wait_for(dead, what="the end of a silent executor")
    assert (running.do(part.position()) or ("", None))[0] == "blob", "the pass is not over yet"
    wait_for(lambda: world.db.tasks.find_one({"_id": ObjectId(task)})["status"] == "retrying", what="its task back")


def test_another_leader_goes_on_where_a_pass_has_come_to(world: World) -> None:
    many_files(world, 100)
    first, two = world.judicator("j1", batch=10), world.judicator("j2", batch=10)
    steps = iter(range(1000))
    assert not first.do(first.judicator.retention.once(lambda: next(steps) < 7)), "it no longer leads"
    phase, after = first.do(first.judicator.retention.position()) or ("", None)
    assert phase == "blob"
    assert world.db["fs.files"].count_documents({"unused": {"$exists": True}}) > 0
    before = world.db["fs.files"].find_one({"_id": {"$lte": after}})
    world.db["fs.files"].update_one({"_id": before["_id"]}, {"$unset": {"unused": ""}})
    assert two.do(two.judicator.retention.once(lambda: True))
    unmarked = list(world.db["fs.files"].find({"unused": {"$exists": False}}))
    assert [doc["_id"] for doc in unmarked] == [before["_id"]], "what was looked at is not looked at again in this pass"
    assert two.do(two.judicator.retention.position()) is None


def test_no_lookup_of_retention_reads_a_collection(world: World, running: Running) -> None:
    """Every reference is looked up by an index: the documents examined do not grow with the collections."""
    many_files(world, 300)
    world.db.tasks.insert_many({"blobs": [f"{index:064d}"], "key": str(index)} for index in range(500))
    world.db.manifests.insert_many({"blobs": [f"{index:064d}"]} for index in range(500))
    world.db.problems.insert_many({"hash": str(index)} for index in range(500))
    for collection, key, references in (
        ("fs.files", "filename", retention._BLOBS),
        ("manifests", "_id", retention._MANIFESTS),
    ):
        pipeline = retention.walk(key, references, None, 50)
        plan = world.db.command(
            "explain",
            {"aggregate": collection, "pipeline": pipeline, "cursor": {}},
            verbosity="executionStats",
        )
        lookups = [stage for stage in plan["stages"] if "$lookup" in stage]
        assert len(lookups) == len(references)
        assert all(stage["collectionScans"] == 0 for stage in lookups)
        assert sum(stage["totalDocsExamined"] for stage in lookups) <= 50


def between(running: Running, act: Callable[[], Awaitable[Any]]) -> Callable[[], int]:
    """Have `act` happen once, after retention has chosen what to remove and before it removes; how often it chose."""
    part = running.judicator.retention
    chosen, times = part._judge, 0

    async def judge(collection: Any, rows: Any) -> Any:
        nonlocal times
        ids = await chosen(collection, rows)
        if ids:
            times += 1
            if times == 1:
                await act()
        return ids

    part._judge = judge  # type: ignore[method-assign]
    return lambda: times


def test_a_manifest_that_is_imported_again_meanwhile_stays(world: World, running: Running, people: RpcClient) -> None:
    first, request = imported(people, tests=1), upload(people, manifest(people, tests=1))
    imported(people, tests=2)
    once(running)
    overdue(world)
    acts = between(running, lambda: running.judicator.service.problems.register(request))
    once(running)
    assert acts() >= 1
    assert [problem.hash for problem in people.call("problems", m.Empty(), ProblemsReply).problems] == [first.hash]
    cleaned(world, running)
    stored = world.db.manifests.find_one({"_id": first.hash})
    assert set(stored["blobs"]) <= blobs(world), "the problem is whole"
    assert files_are_complete(world)


@pytest.mark.parametrize("use", ["asked for", "uploaded again", "put again by a submission"])
def test_a_blob_that_is_used_during_a_pass_stays(world, use, running, people) -> None:
    text = "x" * 300_000
    sha = people.put_blob(text.encode())
    once(running)
    overdue(world)
    service = running.judicator.service

    async def want() -> None:
        if use == "asked for":
            assert await service.blobs.size(sha) == len(text)
        elif use == "uploaded again":
            assert await service.blobs.put(text.encode()) == sha
        else:
            await service.add(source(tests=[m.Test(name="1", input=text)]))

    acts = between(running, want)
    once(running)
    assert acts() == 1
    assert sha in blobs(world)
    assert files_are_complete(world)


def test_after_its_removal_a_blob_is_missing(world, running, people) -> None:
    sha = people.put_blob(b"x")
    problem = manifest(people, tests=2)
    request = upload(people, problem)
    once(running)
    overdue(world)
    once(running)
    assert not people.has_blob(sha)
    with pytest.raises(NotFoundError):
        people.call("problem_import", request, ProblemInfo)
    with pytest.raises(FieldError, match="not uploaded"):
        add(people, tests=[m.Test(name="1", input_blob=sha)])
    assert people.put_blob(b"x") == sha
    assert people.has_blob(sha)


def test_an_import_that_hangs_for_days_between_its_look_and_its_manifest_is_refused(world, running, people) -> None:
    """Its blobs were there, and went; it must not become a problem that nobody can judge."""
    request = upload(people, manifest(people, tests=2))
    problems = running.judicator.service.problems
    look, looks = problems._check_stored, 0

    async def check_late(checked: Any, needed: Any) -> None:
        nonlocal looks
        await look(checked, needed)
        looks += 1
        if looks == 1:
            await pass_by(world, running)

    problems._check_stored = check_late  # type: ignore[method-assign]
    with pytest.raises(FieldError, match="not uploaded"):
        people.call("problem_import", request, ProblemInfo)
    assert people.call("problems", m.Empty(), ProblemsReply).problems == []


def test_a_submission_under_way_finds_the_manifest_that_was_replaced_meanwhile(world, running, people) -> None:
    """It has read which content the problem has; then the problem is imported anew, and retention looks."""
    first = imported(people, tests=1)
    age(world, "manifests", {}, "unused", 5)  # marked wrongly, long ago
    service = running.judicator.service
    get = service.problems.get

    async def slowly(name: str) -> Any:
        doc = await get(name)
        await service.problems.register(newer)
        await running.judicator.retention.once(lambda: True)
        return doc

    newer = upload(people, manifest(people, tests=2))
    service.problems.get = slowly  # type: ignore[method-assign]
    task = people.call("add", source(problem="hello"), m.AddReply).task
    assert task.problem is not None
    assert task.problem.hash == first.hash
    cleaned(world, running)
    assert first.hash in blobs(world)
    assert set(world.db.manifests.find_one({"_id": first.hash})["blobs"]) <= blobs(world)


def test_a_rejudging_keeps_the_content_that_it_judges_against(world, people, executor) -> None:
    """Its runs are made after the problem was read; until then only the rejudging itself refers to the content."""
    running = world.judicator(executor_expiry=3600.0, executor_forget=7200.0, task_expiry=3600.0)
    imported(people, tests=1)
    task = add(people, problem="hello")
    executor.accept_all()
    current = imported(people, tests=2)
    rejudgings = running.judicator.rejudgings
    mark = rejudgings._reruns.mark

    async def slowly(number: int, ids: Any) -> None:
        await running.judicator.service.problems.register(newer)
        await pass_by(world, running)
        await mark(number, ids)

    newer = upload(people, manifest(people, tests=3))
    rejudgings._reruns.mark = slowly  # type: ignore[method-assign]
    start(people, ids=[task])
    wait_for(lambda: world.db.tasks.count_documents({"rerun_of": {"$exists": True}}) == 1, what="its run")
    run = world.db.tasks.find_one({"rerun_of": {"$exists": True}})
    assert run["problem"]["hash"] == current.hash
    assert set(world.db.manifests.find_one({"_id": current.hash})["blobs"]) <= blobs(world)
    rejudge(executor, {"int main(){}": "WA"})
