"""What people ask for through the gateway: Add, Search, problems, executors, status; over the wire, real database."""

import concurrent.futures
import hashlib
from pathlib import Path
from typing import Any

import pytest

from judge.common.errors import FieldError, JudgeError, NotFoundError, PackageError, TooLargeError
from judge.model import messages as m
from judge.model.deleting import ProblemName
from judge.model.overview import ExecutorsReply, MarksReply, MarksRequest, StatusReply
from judge.model.problem import (
    ProblemImport,
    ProblemInfo,
    ProblemsReply,
    ProblemType,
    Verification,
    VerificationReply,
    VerifiedRow,
)
from judge.rpc.client import RpcClient
from tests.support.judicators import World, accepted, imported, judge, manifest, source, upload
from tests.support.servers import wait_for


def add(people: RpcClient, **fields: object) -> m.AddReply:
    return people.call("add", source(**fields), m.AddReply)


def test_a_hundred_adds_with_one_key_at_once_make_one_task(world: World) -> None:
    world.judicator("j1")
    world.judicator("j2")
    clients = [world.client(timeout=30.0) for _ in range(4)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda n: add(clients[n % 4], idempotency_key="k"), range(100)))
    assert len({reply.task.id for reply in replies}) == 1
    assert sum(reply.created for reply in replies) == 1
    assert world.db.tasks.count_documents({}) == 1


def test_adds_that_come_together_are_stored_together_and_each_has_its_own_answer(world: World) -> None:
    world.judicator()
    people = world.client(timeout=30.0)

    def writes() -> int:
        return int(world.raw.admin.command("serverStatus")["metrics"]["commands"]["insert"]["total"])

    def add_one(number: int) -> bool:
        # Each third comes with the key of another, and some of these are in one command.
        return add(people, user=f"u{number % 5}", idempotency_key=f"k{number - number % 3 % 2 * 5}").created

    before = writes()
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        created = list(pool.map(add_one, range(240)))
    stored = list(world.db.tasks.find({}, {"user": 1, "key": 1}))
    assert sum(created) == len(stored) == len({doc["key"] for doc in stored}) < 240
    assert writes() - before < 160


def test_parallel_adds_of_one_user_have_different_places(world: World) -> None:
    judicator = world.judicator()
    people = world.client(timeout=30.0)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda _: add(people), range(60)))
    assert sorted(task.order for task in judicator.judicator.replica.queue.waiting()) == list(range(1, 61))
    arrivals = [doc["arrival"] for doc in world.db.tasks.find()]
    assert len(set(arrivals)) == 60
    assert all(arrival.time for arrival in arrivals)


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"source": ""}, FieldError, "source: is empty"),
        ({"source": "x" * 200_000}, TooLargeError, "at most 128 KiB"),
        ({"source": "a\0b"}, FieldError, "NUL byte"),
        ({"language": "klingon"}, FieldError, "'klingon' is unknown here; known are ada, algol68, awk,"),
        ({"language": "pyton"}, FieldError, "'pyton' is unknown here; did you mean 'python3'?"),
        ({"problem": "nothing"}, NotFoundError, "no problem 'nothing'"),
        ({"tests": [m.Test(name="1", input_blob="0" * 64)]}, FieldError, "not uploaded"),
    ],
)
def test_bad_submissions_change_nothing(
    world: World, fields: dict[str, object], error: type[JudgeError], words: str
) -> None:
    world.judicator()
    with pytest.raises(error, match=words) as caught:
        add(world.client(), **fields)
    assert type(caught.value) is error
    assert world.db.tasks.count_documents({}) == 0


@pytest.mark.parametrize(("again", "strict"), [(False, 0), (True, 1)])
def test_a_refusal_costs_the_database_no_write(
    world: World, monkeypatch: pytest.MonkeyPatch, again: bool, strict: int
) -> None:
    """A linearizable read is a write that a majority syncs; only a key that is there is worth one."""
    running = world.judicator()
    people = world.client()
    database = running.judicator.database
    monkeypatch.setattr("judge.judicator.database._NEW_PRIMARY", 0.0)
    if again:
        # Stored by an earlier try, with another content.
        add(people, idempotency_key="k")
        world.db.tasks.update_many({}, {"$set": {"key": "ann\0other"}})
    looks: list[Any] = []
    real = database.latest

    async def latest(collection: Any, query: Any, projection: Any = None) -> Any:
        if "key" in query:
            looks.append(query)
        return await real(collection, query, projection)

    monkeypatch.setattr(database, "latest", latest)
    for number in range(3):
        key = "other" if again and number == 0 else f"new{number}"
        with pytest.raises(JudgeError):
            add(people, language="klingon", idempotency_key=key)
    assert len(looks) == strict


def test_a_language_that_only_a_sites_executor_knows(world: World) -> None:
    world.judicator()
    people = world.client()
    world.executor("e1", languages=("brainfuck",)).report()
    assert add(people, language="brainfuck", source="+").created


def test_search_filters_and_pages(world: World) -> None:
    world.judicator()
    people, executor = world.client(), world.executor(slots=3)
    ids = [add(people, user="ann" if n % 2 else "bob", stdin="x").task.id for n in range(9)]
    executor.report()
    first, *_ = executor.work
    executor.report(accepted(executor.work[first], result=m.Result(compile_log="log")), vacant=0)

    def search(**fields: object) -> m.SearchReply:
        return people.call("search", m.SearchRequest.model_validate(fields), m.SearchReply)

    listed: list[str] = []
    before = None
    while True:
        page = search(limit=4, before=before)
        listed += [task.id for task in page.tasks]
        before = page.next
        if before is None:
            break
    assert listed == ids[::-1]
    assert search(limit=9).next is None
    assert len(search(user="ann").tasks) == 4
    assert [task.id for task in search(verdict="AC").tasks] == [first]
    assert [task.id for task in search(done=True).tasks] == [first]
    assert len(search(executor="e1").tasks) == 3
    assert len(search(status="pending").tasks) == 6
    assert len(search(language="c").tasks) == 9
    assert search(problem="none").tasks == []
    brief = search(done=True).tasks[0]
    assert brief.submission.source is None
    assert brief.submission.stdin is None
    assert brief.result is not None
    assert brief.result.compile_log == ""


def test_marks_list_the_users_own_solved_and_tried_problems(world: World) -> None:
    world.judicator()
    people, executor = world.client(), world.executor("e1", slots=2)
    executor.report(vacant=0)
    for name in ("hello", "hard", "untried"):
        imported(people, name)
    for user, name, verdict in [
        ("ada", "hello", "WA"),
        ("ada", "hello", "AC"),
        ("ada", "hard", "WA"),
        ("bob", "hard", "AC"),
    ]:
        judge(people, executor, verdict, user=user, problem=name)
    judge(people, executor, "AC", user="ada")  # no problem

    def marks(user: str) -> tuple[list[str], list[str]]:
        reply = people.call("marks", MarksRequest(user=user), MarksReply)
        return reply.solved, reply.tried

    assert marks("ada") == (["hello"], ["hard"])
    assert marks("bob") == (["hard"], []) and marks("eve") == ([], [])


def test_problems_are_imported_listed_and_judged_against(world: World) -> None:
    world.judicator()
    people, executor = world.client(), world.executor()
    request = upload(people, manifest(people, source_bytes=20))
    info = people.call("problem_import", request, ProblemInfo)
    assert (info.name, info.tests, info.hash) == ("hello", 2, request.manifest)
    assert people.call("problem_import", request, ProblemInfo).hash == info.hash
    assert [problem.name for problem in people.call("problems", m.Empty(), ProblemsReply).problems] == ["hello"]
    task = add(people, problem="hello").task
    assert task.problem == m.ProblemRef(name="hello", hash=info.hash)
    newer = people.call("problem_import", upload(people, manifest(people, tests=3)), ProblemInfo)
    assert newer.hash != info.hash
    assert executor.report().add[0].problem == task.problem
    assert len(people.call("search", m.SearchRequest(problem="hello"), m.SearchReply).tasks) == 1
    people.call("problem_import", request, ProblemInfo)
    with pytest.raises(TooLargeError, match="at most 20 bytes"):
        add(people, problem="hello", source="x" * 21)


def test_the_last_verification_is_kept_with_the_content_that_it_is_of(world: World) -> None:
    world.judicator()
    people = world.client()

    def stored() -> Verification | None:
        return people.call("problem_verification", ProblemName(name="hello"), VerificationReply).verification

    with pytest.raises(NotFoundError, match="no problem"):
        stored()
    request = upload(people, manifest(people))
    info = people.call("problem_import", request, ProblemInfo)
    assert stored() is None
    row = VerifiedRow(submission="accepted/a.c", language="c", verdict=m.Verdict.AC, expected="AC", cpu=0.1, limit=1.0)
    verification = Verification(problem="hello", hash=info.hash, rows=[row], warnings=["near"])
    people.call("problem_verified", verification, m.Empty)
    reply = stored()
    assert reply is not None and reply.verified.endswith("Z")
    assert reply.model_copy(update={"verified": ""}) == verification and reply.right
    # Importing the same again leaves it, another content has none, and nothing can be said of what was there before.
    people.call("problem_import", request, ProblemInfo)
    assert stored() == reply
    people.call("problem_import", upload(people, manifest(people, tests=3)), ProblemInfo)
    assert stored() is None
    with pytest.raises(NotFoundError, match="another content"):
        people.call("problem_verified", verification, m.Empty)
    assert "verification" not in str(people.call("problems", m.Empty(), ProblemsReply))


def test_problems_that_cannot_be_judged_are_refused(world: World) -> None:
    world.judicator()
    people = world.client()
    with pytest.raises(NotFoundError, match="upload the manifest first"):
        people.call("problem_import", ProblemImport(manifest="0" * 64), ProblemInfo)
    for bad, words in ((b"{", "manifest"), (b'{"name": "x", "tests": [], "colour": 1}', "colour")):
        with pytest.raises(PackageError, match=words):
            people.call("problem_import", ProblemImport(manifest=people.put_blob(bad)), ProblemInfo)
    with pytest.raises(PackageError, match="no tests"):
        people.call("problem_import", upload(people, manifest(people, tests=0)), ProblemInfo)
    for long in ({"title": "t" * 20_000}, {"languages": ["c"] * 8000}, {"type": [ProblemType.PASS_FAIL] * 8000}):
        with pytest.raises(PackageError, match="what lists show"):
            people.call("problem_import", upload(people, manifest(people).model_copy(update=long)), ProblemInfo)
    twice = manifest(people)
    twice.tests[1].name = "t0"
    with pytest.raises(PackageError, match="two tests named 't0'"):
        people.call("problem_import", upload(people, twice), ProblemInfo)
    missing = manifest(people)
    missing.tests[1].input = "0" * 64
    with pytest.raises(FieldError, match="1 of 4 blobs are not uploaded, first of test 't1'"):
        people.call("problem_import", upload(people, missing), ProblemInfo)
    big = ProblemImport(manifest=people.put_blob(b" " * (8 * 1024**2 + 1)))
    with pytest.raises(TooLargeError):
        people.call("problem_import", big, ProblemInfo)
    assert people.call("problems", m.Empty(), ProblemsReply).problems == []


def test_big_inline_tests_travel_as_blobs(world: World, work: Path) -> None:
    world.judicator()
    people, executor = world.client(), world.executor()
    text = "1 2\n" * 100_000
    task = add(people, tests=[m.Test(name="1", input=text, answer="3")]).task
    assert task.submission.tests[0].input is None
    assert task.submission.tests[0].answer == "3"
    assigned = executor.report().add[0].submission.tests[0]
    assert assigned.input_blob == hashlib.sha256(text.encode()).hexdigest()
    executor.rpc.get_blob(assigned.input_blob, work / "input")
    assert (work / "input").read_text() == text
    # The same submission again is the same content, although it is stored in another form.
    again = add(people, tests=[m.Test(name="1", input=text, answer="3")], idempotency_key="k")
    assert not add(people, tests=[m.Test(name="1", input=text, answer="3")], idempotency_key="k").created
    assert again.created


def test_status_of_a_healthy_cluster(world: World) -> None:
    running = world.judicator(leader_ttl=2, register_ttl=2)
    people = world.client()
    wait_for(lambda: running.judicator.lead.leading, what="a leader")
    wait_for(lambda: running.judicator.register.registered, what="registration")
    wait_for(lambda: running.judicator.follower.alive, what="the change stream")
    executor = world.executor(slots=4)
    for priority in ("high", "low", "low"):
        add(people, priority=priority)
    executor.report(vacant=1)
    status = people.call("status", m.Empty(), StatusReply)
    assert status.faults == []
    assert (status.leader, status.epoch) == ("j1", 1)
    assert [(judicator.name, judicator.leader, judicator.epoch) for judicator in status.judicators] == [("j1", True, 1)]
    assert [(member.role, member.healthy) for member in status.etcd] == [("leader", True)]
    assert [(member.role, member.healthy) for member in status.mongodb] == [("primary", True)]
    assert (status.queued, status.running, status.finished) == ({"high": 0, "normal": 0, "low": 2, "rejudge": 0}, 1, 0)
    assert status.slots == 4
    assert set(status.versions) == {"judge", "etcd", "mongodb"}
    assert [(executor.name, executor.alive, executor.executing) for executor in status.executors] == [("e1", True, 1)]
    executor.report(accepted(next(iter(executor.work.values()))), vacant=0)
    assert people.call("status", m.Empty(), StatusReply).finished == 1
    listed = people.call("executors", m.Empty(), ExecutorsReply).executors
    assert listed[0].info == executor.info
    assert people.call("ping", m.Empty(), m.Pong).leader


def test_status_says_what_is_wrong(world: World) -> None:
    dead = world.etcd_config.model_copy(update={"endpoints": ["127.0.0.1:9"], "timeout": 0.3})
    world.judicator(etcd=dead, leads=False)
    status = world.client().call("status", m.Empty(), StatusReply)
    assert any("etcd does not answer" in fault for fault in status.faults)
    assert any("no executor is alive" in fault for fault in status.faults)
    assert status.leader is None
