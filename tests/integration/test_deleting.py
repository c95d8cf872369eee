"""Deleting submissions, problems and people's data, and what they have stored; real judicators and database."""

import asyncio
import concurrent.futures
import contextlib
import datetime
import hashlib
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from bson import ObjectId

from judge.common.errors import ConflictError, JudgeError, LimitError, NotFoundError, UnavailableError
from judge.model import messages as m
from judge.model.audit import AuditQuery, AuditReply, By
from judge.model.deleting import Deleted, DeletionPreview, DeletionWanted, ProblemName, Purged, PurgeRequest
from judge.model.people import SessionBegin
from judge.rpc.client import RpcClient
from tests.support.judicators import (
    Doomed,
    Executor,
    Running,
    World,
    accepted,
    act,
    imported,
    manifest,
    rejudge,
    settled,
    source,
    sources,
    start,
    upload,
)
from tests.support.servers import wait_for

PATIENT = {"executor_expiry": 3600.0, "executor_forget": 7200.0, "task_expiry": 3600.0, "leader_ttl": 2}
ROOT = By(actor="root", role="admin", origin="192.0.2.1")


def add(people: RpcClient, **fields: Any) -> str:
    return people.call("add", source(**fields), m.AddReply).task.id


def judged(people: RpcClient, executor: Any, *ids: str) -> None:
    """Judge all that waits."""

    def turn() -> bool:
        executor.report(*map(accepted, list(executor.work.values())), vacant=executor.slots)
        return all(people.call("get", m.GetRequest(id=task), m.Task).done for task in ids)

    wait_for(turn, what="everything judged")


def delete(people: RpcClient, task: str, by: By = ROOT) -> Deleted:
    return people.call("delete_submission", m.TaskRef(id=task), Deleted, by=by)


def preview(people: RpcClient, **target: str) -> DeletionPreview:
    return people.call("delete_preview", DeletionWanted(**target), DeletionPreview)


def purge(people: RpcClient, user: str) -> int:
    """Until nothing is left; how many went."""
    until, deleted = None, 0
    while True:
        reply = people.call("purge", PurgeRequest(user=user, until=until), Purged, by=ROOT)
        until, deleted = reply.until, deleted + reply.deleted
        if not reply.left:
            return deleted


def overdue(world: World) -> None:
    moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=1)
    for name in ("fs.files", "manifests"):
        # Things that are marked for a day stay marked for a day.
        soon = moment + datetime.timedelta(minutes=10)
        world.db[name].update_many({"unused": {"$lt": soon}}, {"$set": {"unused": moment}})


def clean(running: Any, times: int = 1) -> None:
    for _ in range(times):
        assert running.do(running.judicator.retention.once(lambda: True))


def clean_overdue(world: World, running: Any, times: int = 1) -> None:
    """As if all graces had passed in between."""
    for _ in range(times):
        clean(running)
        overdue(world)


def blobs(world: World) -> set[str]:
    return {doc["filename"] for doc in world.db["fs.files"].find()}


def stored(running: Any, user: str) -> int:
    return int(running.do(running.judicator.tasks.usage.stored(user)))


def real(world: World, user: str) -> int:
    return sum(doc.get("bytes", 0) for doc in world.db.tasks.find({"user": user}))


@pytest.fixture
def running(world: World) -> Running:
    return world.judicator(**PATIENT)


@pytest.fixture
def people(world: World) -> RpcClient:
    return world.client(timeout=30.0)


@pytest.fixture
def executor(world: World) -> Executor:
    return world.executor(slots=8)


def test_a_finished_submission_goes_with_its_blobs_and_no_other(world, running, people, executor) -> None:
    own, shared = people.put_blob(b"mine"), people.put_blob(b"shared")
    first = add(
        people, tests=[m.Test(name="1", input_blob=own), m.Test(name="2", input_blob=shared)], idempotency_key="k"
    )
    second = add(people, tests=[m.Test(name="1", input_blob=shared)])
    with pytest.raises(ConflictError, match="cancel it first"):
        delete(people, first)
    assert preview(people, submission=first).refusal is not None
    judged(people, executor, first, second)
    shown_preview = preview(people, submission=first)
    assert (shown_preview.refusal, shown_preview.submissions) == (None, 1)
    assert shown_preview.bytes == world.db.tasks.find_one({"_id": ObjectId(first)})["bytes"]
    assert delete(people, first).bytes == shown_preview.bytes
    with pytest.raises(NotFoundError):
        people.call("get", m.GetRequest(id=first), m.Task)
    with pytest.raises(NotFoundError):
        delete(people, first)
    clean(running)
    assert own in blobs(world), "five minutes for whoever has just asked for it"
    overdue(world)
    clean(running)
    assert blobs(world) & {own, shared} == {shared}
    assert stored(running, "ann") == real(world, "ann") > 0
    again = people.call("add", source(idempotency_key="k", source="other"), m.AddReply)
    assert again.created, "its idempotency key went with it"


def test_a_submission_of_an_open_rejudging_is_not_deleted(world, running, people, executor) -> None:
    imported(people, "hello")
    task = add(people, problem="hello")
    judged(people, executor, task)
    start(people, ids=[task])
    run = str(wait_for(lambda: world.db.tasks.find_one({"rerun_of": {"$ne": None}}), what="a run")["_id"])  # type: ignore[index]
    for call, name in ((lambda: delete(people, task), "apply or cancel"), (lambda: delete(people, run), "is a run of")):
        with pytest.raises(ConflictError, match=name):
            call()
    with pytest.raises(ConflictError, match="rejudging 1; apply or cancel"):
        purge(people, "ann")
    with pytest.raises(ConflictError, match=r"wait or run|judges against"):
        people.call("delete_problem", ProblemName(name="hello"), Deleted, by=ROOT)
    assert preview(people, user="ann").refusal
    act(people, "cancel", 1)
    settled(people, 1)
    assert delete(people, task).deleted == 1


def test_a_deletion_whose_answer_is_lost_is_done_once_and_acknowledged(world: World, running: Running) -> None:
    people, executor = world.client(), world.executor()
    task = add(people)
    judged(people, executor, task)
    by = ROOT.model_copy(update={"call": uuid.uuid4().hex})
    assert delete(people, task, by).deleted == 1
    assert delete(people, task, by).deleted == 0, "the same call, made again"
    trail = people.call("audit", AuditQuery(object=task), AuditReply).entries
    assert [entry.outcome for entry in trail] == ["done", "begun"]
    assert trail[1].details == {"user": "ann"}
    assert (trail[1].actor, trail[1].origin) == ("root", "192.0.2.1")


def test_a_deleted_problem_is_gone_and_what_was_judged_stays_readable(world: World, running: Running) -> None:
    people, executor = world.client(), world.executor()
    first = imported(people, "hello", tests=1)
    task = add(people, problem="hello")
    with pytest.raises(ConflictError, match="1 submissions to problem 'hello' wait or run"):
        people.call("delete_problem", ProblemName(name="hello"), Deleted, by=ROOT)
    judged(people, executor, task)
    second = imported(people, "hello", tests=2)
    shown_preview = preview(people, problem="hello")
    assert shown_preview.refusal is None
    assert "its 1 submissions" in shown_preview.stays[0]
    assert people.call("delete_problem", ProblemName(name="hello"), Deleted, by=ROOT).deleted == 1
    with pytest.raises(NotFoundError):
        add(people, problem="hello")
    clean_overdue(world, running, 2)
    clean(running)
    assert people.call("get", m.GetRequest(id=task), m.Task).verdict == "AC"
    assert blobs(world) & {first.hash, second.hash} == {first.hash}
    assert set(world.db.manifests.find_one({"_id": first.hash})["blobs"]) <= blobs(world)
    assert imported(people, "hello", tests=2).hash == second.hash
    delete(people, task)
    clean_overdue(world, running, 2)
    assert add(people, problem="hello"), "imported again after its deletion, it is whole"


def test_a_problem_that_is_imported_while_it_is_deleted_stays_whole(world, running, people) -> None:
    imported(people, "hello", tests=1)
    deleting = running.judicator.deleting
    look = deleting._problem

    async def slowly(name: str) -> Any:
        problem = await look(name)
        await running.judicator.service.problems.register(newer)
        return problem

    newer = upload(people, manifest(people, "hello", 2))
    deleting._problem = slowly  # type: ignore[method-assign]
    with pytest.raises(ConflictError, match="at the same moment"):
        people.call("delete_problem", ProblemName(name="hello"), Deleted, by=ROOT)
    clean_overdue(world, running, 3)
    stored_manifest = world.db.manifests.find_one({"_id": newer.manifest})
    assert set(stored_manifest["blobs"]) <= blobs(world)


def test_nothing_of_a_purged_person_is_left_but_what_the_page_says(world, running, people, executor) -> None:
    big = "the person's own words " * 20_000
    judged_ids = [add(people, user="eve", source=f"secret {n}", idempotency_key=f"eve-{n}") for n in range(3)]
    judged_ids.append(add(people, user="eve", tests=[m.Test(name="1", input=big)]))
    unaffected = add(people, user="ann")
    judged(people, executor, *judged_ids, unaffected)
    start(people, user=["eve"], reason="again")
    rejudge(executor, dict.fromkeys(sources(people, judged_ids), "WA"))
    act(people, "apply", 1)
    settled(people, 1)
    running_one = add(people, user="eve", source="is running")
    executor.report(vacant=1)
    waiting = add(people, user="eve", source="is waiting", language="java")
    people.call("session_begin", SessionBegin(id="5" * 64, user="eve"), m.Empty)
    shown_preview = preview(people, user="eve")
    assert shown_preview.submissions == 6
    assert "2 of them wait or run" in shown_preview.goes[0]
    assert purge(people, "eve") == 6
    for task in (*judged_ids, running_one, waiting):
        with pytest.raises(NotFoundError):
            people.call("get", m.GetRequest(id=task), m.Task)
    executor.report(vacant=0)
    assert executor.work == {}, "its executor was told to drop it"
    clean_overdue(world, running)
    clean(running)
    for name in world.db.list_collection_names():
        for doc in world.db[name].find():
            if name == "audit":
                continue
            text = str(doc)
            assert "eve" not in text.replace("never", ""), (name, doc)
            assert "secret" not in text
            assert "own words" not in text
    assert world.db.rejudgings.find_one({"_id": 1})["filter"]["user"] == ["(removed)"]
    assert people.call("get", m.GetRequest(id=unaffected), m.Task).verdict == "AC"
    with pytest.raises(NotFoundError):
        preview(people, user="eve")
    assert purge(people, "eve") == 0, "repeating it does nothing"


def test_submissions_during_a_purge_are_new_data(world, running, people, executor) -> None:
    """Whatever the clocks of the judicators say: the database's own logical time decides."""
    old = add(people, user="eve")
    judged(people, executor, old)
    first = running.do(running.judicator.database.logical_time())
    until = f"{first.time}.{first.inc}"
    new = add(people, user="eve")
    long_ago = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)
    world.db.tasks.update_one({"_id": ObjectId(new)}, {"$set": {"created": long_ago}})
    reply = people.call("purge", PurgeRequest(user="eve", until=until), Purged, by=ROOT)
    assert (reply.deleted, reply.left) == (1, 0)
    assert people.call("get", m.GetRequest(id=new), m.Task).status == "pending"
    assert stored(running, "eve") == real(world, "eve") > 0


@pytest.mark.parametrize("failpoint", ["delete-marked", "delete-deleted", "purge-batch"])
def test_a_purge_whose_judicator_dies_is_completed_by_a_repetition(
    world, tmp_path, failpoint, people, executor
) -> None:
    doomed = Doomed(world, tmp_path, failpoint, **PATIENT)
    two = world.judicator("j2", leads=False, **PATIENT)
    shas = [people.put_blob(f"blob {n}".encode()) for n in range(5)]
    ids = [add(people, user="eve", tests=[m.Test(name="1", input_blob=sha)]) for sha in shas]
    judged(people, executor, *ids)
    first = doomed.client(3.0)
    with pytest.raises(UnavailableError):
        first.call("purge", PurgeRequest(user="eve"), Purged, by=ROOT)
    doomed.died()
    remaining = world.db.tasks.count_documents({"user": "eve"})
    assert remaining == (5 if failpoint == "delete-marked" else 3)
    assert purge(people, "eve") == remaining
    clean_overdue(world, two)
    clean(two)
    assert blobs(world) & set(shas) == set()
    clean(two, 2)
    assert stored(two, "eve") == 0
    assert world.db.usage.find_one({"_id": "eve"}) is None


OUTPUT = 300_000
FREE = m.LimitsOverride(output=OUTPUT)
TINY = m.LimitsOverride(output=1)


def crowd(count: int, add_one: Callable[[int], bool]) -> int:
    """Have so many added at once; how many were."""
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        return sum(pool.map(add_one, range(count)))


def limited(world: World, limit: int) -> Any:
    return world.judicator(**PATIENT, allowances={"user": {"stored_bytes": limit}})


def test_the_limit_of_stored_bytes_is_exact_for_parallel_submissions(world: World) -> None:
    limited(world, 60_000)
    world.judicator("j2", **PATIENT, allowances={"user": {"stored_bytes": 60_000}})
    clients = [world.client(timeout=30.0) for _ in range(4)]

    def add_one(n: int) -> bool:
        with contextlib.suppress(LimitError):
            return clients[n % 4].call("add", source("x" * 8_000, limits=TINY), m.AddReply).created
        return False

    count = crowd(40, add_one)
    assert world.db.tasks.count_documents({}) == count == 6
    assert real(world, "ann") <= 60_000
    with pytest.raises(LimitError, match="the limit is 60000"):
        clients[0].call("add", source("x" * 8_000, limits=TINY), m.AddReply)
    clients[0].call("add", source("x" * 8_000, user="bob", limits=TINY), m.AddReply)
    clients[0].call("add", source("x" * 80_000, role="admin"), m.AddReply)


def settle(world: World, running: Any, end: str, people: RpcClient, executor: Any, task: str) -> None:
    """End a waiting task in one of the ways that there are."""
    if end != "waits":
        executor.report(vacant=1)
    if end in {"waits", "runs"}:
        people.call("cancel", m.TaskRef(id=task), m.Task)
    elif end == "output":
        blob = people.put_blob(b"y" * OUTPUT)
        executor.report(accepted(executor.work[task], result=m.Result(stdout_blob=blob)), vacant=0)
    elif end == "gave up":
        while task in executor.work:
            executor.report(accepted(executor.work[task], retry=True), vacant=1)
    elif end == "purged":
        purge(people, "ann")
    else:
        executor.report(accepted(executor.work[task]), vacant=0)
    if end == "deleted":
        delete(people, task)
    elif end == "retention":
        world.db.tasks.update_one({"_id": ObjectId(task)}, {"$set": {"finished": datetime.datetime(2001, 1, 1)}})  # noqa: DTZ001
        assert running.do(running.judicator.tasks.remove_finished(datetime.datetime(2002, 1, 1), 10)) == 1  # noqa: DTZ001


@pytest.mark.parametrize("end", ["waits", "runs", "output", "verdict", "gave up", "deleted", "retention", "purged"])
def test_room_for_an_output_is_kept_until_the_task_ends(world, end, people, executor) -> None:
    """Of what waits and runs, however it ends."""
    running = world.judicator(
        **PATIENT, attempts=2, allowances={"user": {"stored_bytes": 1_000_000, "slot_share": 1.0}}
    )
    executor.report(vacant=0)
    ids = [add(people, limits=FREE) for _ in range(3)]
    assert 3 * OUTPUT < stored(running, "ann") == real(world, "ann") < 1_000_000
    with pytest.raises(LimitError, match=f"{OUTPUT} of them for its output; the limit is 1000000"):
        add(people, limits=FREE)
    settle(world, running, end, people, executor, ids[0])
    if end == "runs":  # its output may be on its way to the database
        assert stored(running, "ann") == real(world, "ann") + OUTPUT
        clean(running, 2)
    assert stored(running, "ann") == real(world, "ann")
    remaining = {"output": 3, "purged": 0}.get(end, 2)
    assert remaining * OUTPUT <= stored(running, "ann") < remaining * OUTPUT + 100_000
    open_ones = world.db.tasks.count_documents({"reserved": OUTPUT, "done": False})
    assert open_ones == world.db.tasks.count_documents({"reserved": {"$exists": True}}) == (0 if end == "purged" else 2)
    if end != "output":
        add(people, limits=FREE)


def test_an_output_without_a_result_is_removed_soon(world, running, people, executor) -> None:
    """Its task was cancelled while the executor stored it, once more after that, too."""
    executor.report(vacant=0)
    ids = [add(people, limits=FREE) for _ in range(2)]
    executor.report(vacant=2)
    used, orphan = executor.rpc.put_blob(b"kept"), executor.rpc.put_blob(b"lost")
    people.call("cancel", m.TaskRef(id=ids[0]), m.Task)
    assert executor.rpc.put_blob(b"lost") == orphan
    executor.report(accepted(executor.work[ids[1]], result=m.Result(stdout_blob=used)), vacant=0)
    fresh = people.put_blob(b"a gateway's, which somebody is about to name")
    moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=1)
    within = {"unused": {"$lt": moment + datetime.timedelta(hours=2)}}
    assert world.db["fs.files"].update_many(within, {"$set": {"unused": moment}}).matched_count == 2
    clean(running)
    assert blobs(world) == {used, fresh}


def test_outputs_never_come_to_more_than_a_user_may_store(world: World, people: RpcClient, executor: Executor) -> None:
    """However many hand in runs that print all they may, and although all of them wait before the first is judged."""
    running = world.judicator(**PATIENT, allowances={"user": {"stored_bytes": 2_000_000, "slot_share": 1.0}})
    clients = [world.client(timeout=30.0) for _ in range(4)]

    def add_one(n: int) -> bool:
        with contextlib.suppress(LimitError):
            return bool(add(clients[n % 4], limits=FREE))
        return False

    count = crowd(24, add_one)
    assert count == 6
    for n in range(count):
        blob = people.put_blob(bytes([n]) * OUTPUT)
        executor.report(vacant=1)
        executor.report(accepted(next(iter(executor.work.values())), result=m.Result(stdout_blob=blob)), vacant=0)
    assert 6 * OUTPUT < stored(running, "ann") == real(world, "ann") <= 2_000_000
    assert sum(doc["length"] for doc in world.db["fs.files"].find()) <= 2_000_000


def test_room_is_reserved_only_for_outputs_that_may_be_kept(running: Running, people: RpcClient) -> None:
    name = imported(people).name

    def takes(**fields: Any) -> bool:
        before = stored(running, "ann")
        add(people, **fields)
        return stored(running, "ann") - before > OUTPUT

    assert takes()
    assert takes(stdin="1")
    assert takes(tests=[m.Test(name="1", input="1")])
    assert takes(language=None, source=None, command="cat", limits=FREE)
    assert not takes(limits=m.LimitsOverride(output=1000))
    assert not takes(tests=[m.Test(name="1", input="1", answer="1")])
    assert not takes(tests=[m.Test(name="1", input="1"), m.Test(name="2", input="1")])
    assert not takes(problem=name, language="c")


@pytest.mark.parametrize("failpoint", ["add-stored", "task-ended"])
def test_a_judicator_that_dies_beside_the_counter_leaves_what_the_recount_mends(world, tmp_path, failpoint) -> None:
    """Between a task's write and its counter's."""
    doomed = Doomed(world, tmp_path, failpoint, **PATIENT)
    first = doomed.client(3.0)
    two = world.judicator("j2", leads=False, **PATIENT)
    people, executor = world.client(timeout=30.0), world.executor()
    if failpoint == "add-stored":
        with pytest.raises(JudgeError):
            add(first, limits=FREE)
    else:
        task = add(people, limits=FREE)
        with pytest.raises(JudgeError):
            first.call("cancel", m.TaskRef(id=task), m.Task)
        assert stored(two, "ann") > OUTPUT > real(world, "ann") > 0
    doomed.died()
    clean(two, 2)
    assert stored(two, "ann") == real(world, "ann") > 0
    executor.accept_all()
    assert 0 < stored(two, "ann") == real(world, "ann") < OUTPUT


def test_results_and_their_blobs_count_and_what_goes_is_given_back(world: World) -> None:
    running = limited(world, 200_000)
    people, executor = world.client(), world.executor()
    task = add(people, limits=TINY)
    before = stored(running, "ann")
    assert before == real(world, "ann") > 0
    executor.report()
    output = people.put_blob(b"y" * 150_000)
    executor.report(accepted(executor.work[task], result=m.Result(stdout_blob=output)))
    assert stored(running, "ann") == real(world, "ann") > before + 150_000
    with pytest.raises(LimitError):
        add(people, source="x" * 60_000, limits=TINY)
    delete(people, task)
    assert stored(running, "ann") == 0
    assert add(people, source="x" * 60_000, limits=TINY)
    with pytest.raises(JudgeError):
        add(people, language="nonsense")
    assert add(people, idempotency_key="k", limits=TINY) == add(people, idempotency_key="k", limits=TINY)
    assert stored(running, "ann") == real(world, "ann"), "refusals and repetitions take nothing"


def test_refused_submissions_leave_no_large_blobs(world: World, people: RpcClient) -> None:
    """Whoever may not store or queue more does not fill the disk with the tests of what is refused."""
    limits = {"stored_bytes": 2_000_000, "waiting": 2}
    running = world.judicator(**PATIENT, allowances={"user": limits})

    def big(fill: str, count: int, **fields: Any) -> m.Submission:
        return source(tests=[m.Test(name="1", input=fill * count, answer="")], **fields)

    with pytest.raises(LimitError, match="the limit is 2000000"):
        people.call("add", big("a", 3_000_000), m.AddReply)
    first = people.call("add", big("b", 500_000, idempotency_key="k"), m.AddReply).task
    add(people, limits=TINY)
    with pytest.raises(LimitError, match="2 submissions of user 'ann' wait"):
        people.call("add", big("c", 500_000), m.AddReply)
    (stored_blob,) = blobs(world)
    assert stored_blob == hashlib.sha256(b"b" * 500_000).hexdigest()
    assert people.call("add", big("b", 500_000, idempotency_key="k"), m.AddReply).task.id == first.id
    people.call("cancel", m.TaskRef(id=first.id), m.Task)
    missing = m.Test(name="2", input_blob="0" * 64)
    submission = source(tests=[m.Test(name="1", input="d" * 500_000, answer=""), missing])
    with pytest.raises(JudgeError, match="is not uploaded"):
        people.call("add", submission, m.AddReply)
    overdue(world)
    clean(running)
    assert blobs(world) == {stored_blob}, "what was stored before the refusal goes soon"
    clean(running)
    assert stored(running, "ann") == real(world, "ann")


def test_blobs_of_late_refusals_count_until_they_are_removed(world: World) -> None:
    """One key with many contents at once: all but one are refused, some when their tests are on the disk already."""
    running = limited(world, 10_000_000)
    clients = [world.client(timeout=30.0) for _ in range(4)]

    def add_one(n: int) -> bool:
        tests = [m.Test(name="1", input=chr(ord("a") + n) * 700_000, answer="")]
        with contextlib.suppress(ConflictError, LimitError):
            return clients[n % 4].call("add", source(tests=tests, idempotency_key="k"), m.AddReply).created
        return False

    assert crowd(16, add_one) == 1
    assert len(blobs(world)) > 1, "none was refused late"
    assert stored(running, "ann") >= sum(doc["length"] for doc in world.db["fs.files"].find())
    overdue(world)
    clean(running, 2)
    assert len(blobs(world)) == 1
    assert stored(running, "ann") == real(world, "ann")


def test_a_count_that_breaks_off_stops_no_other(running: Running) -> None:
    """A name that the database has no form for; nobody can have it, but whoever comes after must be counted."""

    async def count() -> int:
        usage = running.judicator.tasks.usage
        usage.add_later("\ud800", 1)
        with contextlib.suppress(UnicodeError):
            await usage.flush()
        usage.add_later("ann", 5)
        return await usage.stored("ann")

    assert running.do(count()) == 5


def test_the_bytes_of_a_second_are_one_write_for_all_users(world: World) -> None:
    usage, writes = world.judicator(**PATIENT).judicator.tasks.usage, []
    write = usage._write

    async def record(sizes: dict[str, int]) -> None:
        writes.append(dict(sizes))
        await write(sizes)

    async def count_all() -> int:
        for _ in range(10):
            usage.add_later("ann", 5)
            usage.add_later("bob", 1)
            await asyncio.sleep(0.001)
        return await usage.stored("ann")

    usage._write = record  # type: ignore[method-assign]
    assert world.judicators[0].do(count_all()) == 50
    assert writes == [{"ann": 50, "bob": 10}]


def test_bytes_are_reserved_ahead_within_the_limit(world: World) -> None:
    """Of sixty requests for a hundredth of the limit each, few ask the database, and at most a hundred have room."""
    usages = [world.judicator(name, **PATIENT).judicator.tasks.usage for name in ("j1", "j2")]
    commands = []
    for usage in usages:

        def recording(work: Any = usage._reserving._work) -> Any:
            async def record(requests: Any) -> Any:
                commands.append(len(requests))
                return await work(requests)

            return record

        usage._reserving._work = recording()

    async def take(usage: Any, count: int) -> int:
        room = 0
        for _ in range(count):
            try:
                async with usage.reserving("ann", 10, 0, 1_000) as reservation:
                    await reservation.confirm()
                    reservation.kept = True
                    room += 1
            except LimitError:
                pass
        return room

    first, second = world.judicators
    assert first.do(take(usages[0], 40)) == 40
    assert len(commands) <= 15
    assert second.do(take(usages[1], 80)) + first.do(take(usages[0], 80)) == 60
    for running, usage in zip(world.judicators, usages, strict=True):
        running.do(usage.flush())
    assert world.db.usage.find_one({"_id": "ann"})["bytes"] == 1_000


def test_a_counter_that_is_wrong_is_mended_once_it_was_wrong_twice(world: World, people: RpcClient) -> None:
    running = limited(world, 10**9)
    for user in ("ann", "bob", "cid"):
        add(people, user=user)
    world.db.usage.update_one({"_id": "ann"}, {"$inc": {"bytes": 5_000}})
    world.db.usage.delete_one({"_id": "bob"})
    world.db.usage.insert_one({"_id": "ghost", "bytes": 700})
    clean(running)
    assert stored(running, "ann") == real(world, "ann") + 5_000, "it may be under way"
    clean(running)
    for user in ("ann", "bob", "cid", "ghost"):
        assert stored(running, user) == real(world, user)
    clean(running)
    assert world.db.usage.find_one({"_id": "ghost"}) is None


def test_a_recount_beside_judging_takes_nothing_for_a_fault(world, people, executor) -> None:
    """What is judged just before both looks is not counted yet at either, if nobody waits for it."""
    running = world.judicator(**PATIENT, allowances={"user": {"stored_bytes": 10 * OUTPUT, "slot_share": 1.0}})
    usage = running.judicator.tasks.usage
    for _ in range(2):
        judged(people, executor, *(add(people, limits=FREE) for _ in range(4)))
        running.do(usage.recount(None))
    assert stored(running, "ann") == real(world, "ann") > 0


def test_a_counter_of_zero_is_removed(world: World) -> None:
    """What another judicator counts after a purge leaves no counter with the name of whoever is gone."""
    usage = world.judicator(**PATIENT).judicator.tasks.usage
    for size, counters in ((5_000, 1), (-2_000, 1), (-3_000, 0)):
        world.judicators[0].do(usage.add("ann", size))
        assert world.db.usage.count_documents({}) == counters


def test_large_outputs_are_counted_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An output that had room kept for it: a count of all tasks meanwhile would take it for a fault."""
    monkeypatch.setattr("judge.judicator.usage._PAUSE", 60.0)
    usage = world.judicator(**PATIENT).judicator.tasks.usage

    async def count_large() -> None:
        usage.add_later("ann", 1)
        started = asyncio.get_running_loop().time()
        usage.add_later("ann", 70 * 1024**2)
        await usage._writing
        assert asyncio.get_running_loop().time() - started < 15

    world.judicators[0].do(count_large())
    assert world.db.usage.find_one({"_id": "ann"})["bytes"] == 70 * 1024**2 + 1


def test_a_fault_that_several_recounts_see_at_once_is_mended_once(world: World) -> None:
    """Two judicators that both take themselves for the leader, or a person's recount beside the leader's."""
    running = limited(world, 10**9)
    add(world.client(), user="ann")

    async def together() -> None:
        usage = running.judicator.tasks.usage
        await asyncio.gather(*(usage.recount(None) for _ in range(8)))

    for _ in range(5):
        world.db.usage.update_one({"_id": "ann"}, {"$inc": {"bytes": 5_000}})
        clean(running)
        running.do(together())
        assert stored(running, "ann") == real(world, "ann")


def test_the_sum_of_a_users_bytes_may_take_longer_than_another_query(world: World) -> None:
    running = limited(world, 10**9)
    add(world.client(), user="ann")
    world.db.command("profile", 2)
    try:
        running.do(running.judicator.tasks.usage.recount(None))
    finally:
        world.db.command("profile", 0)
    sums = list(world.db["system.profile"].find({"command.comment": "recount", "command.aggregate": "tasks"}))
    assert sums
    assert all(query["command"]["maxTimeMS"] > 30 * 60 * 1000 for query in sums)


def test_the_sum_of_a_users_bytes_is_read_from_an_index_alone(world: World) -> None:
    limited(world, 10**9)
    world.db.tasks.insert_many({"user": f"u{n % 7}", "bytes": n, "arrival": n} for n in range(2_000))
    plan = world.db.command(
        "explain",
        {
            "aggregate": "tasks",
            "pipeline": [{"$match": {"user": "u3"}}, {"$group": {"_id": None, "bytes": {"$sum": "$bytes"}}}],
            "cursor": {},
            "hint": {"user": 1, "bytes": 1},
        },
        verbosity="executionStats",
    )
    assert '"FETCH"' not in str(plan).replace("'", '"')
    assert "COLLSCAN" not in str(plan)
