"""What every query of the judicator costs: the database itself says how many keys and documents it has looked at.

The collection is so large that a wrong index, or none, is looked at by the thousand. All that a judicator sends while
everything that people and executors do is done once is recorded, so a new query is measured without being named here.
"""

import contextlib
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import UpdateOne

from judge.common import clock
from judge.common.errors import ConflictError, LimitError
from judge.config.allowance import Allowance, Allowances
from judge.judicator.figures.series import minute
from judge.model import messages as m
from judge.model import people as p
from judge.model.audit import AuditQuery, By, Note, TokensSeen
from judge.model.deleting import DeletionWanted, ProblemName, PurgeRequest
from judge.model.figures import FiguresRequest, HistoryRequest
from judge.model.messages import BlobsWanted
from judge.model.overview import DrainRequest, ExecutorsReply, MarksRequest, StatusReply, UsageRequest
from judge.model.people import SessionBegin, SessionEnd
from judge.model.problem import Verification
from judge.model.rejudging import (
    RejudgeAct,
    RejudgeDiffRequest,
    RejudgeFilter,
    RejudgePreview,
    RejudgeStart,
    Rejudging,
    RejudgingRef,
    RejudgingsRequest,
)
from judge.model.several import TasksRequest
from judge.model.statements import PagesRequest
from judge.model.streaming import ChangesRequest
from judge.model.visibility import ProblemChange
from judge.model.webhooks import DeliveriesRequest, Resend, WebhookAdd, WebhookRef
from judge.rpc.client import RpcClient
from judge.rpc.methods import METHODS
from tests.support.judicators import World, accepted, finished, imported, runs, source, waiting, write
from tests.support.servers import wait_for

EXCEPT = {
    "recount": "counts and sums over an index alone, for at most a twentieth of the leader's time, and in retention",
    "deleting": "what an admin is told before a deletion, and what is left after: up to 10,000, once in a call",
    "rejudging": "how far a rejudging is, when an admin looks: its own runs",
    "retention": "a step of its walk: two hundred documents, and one that refers to each",
    "queue": "the load of the queue at a start, and the comparison in a twentieth of the time: over an index alone",
}
# More than it returns or changes, a command may look at so many keys or documents.
SPARE = 50
MANY = 3000
LONG_AGO = clock.wall() - datetime.timedelta(days=30)


REJUDGING: dict[str, Any] = {
    "_id": 1000, "digest": "", "filter": {"user": ["new"]}, "reason": "r", "user": "root", "trace": "",
    "state": "running", "settled": False, "members": [], "problems": [], "total": 2 * MANY, "skipped": 0,
    "counts": None, "matrix": None, "call": None, "created": LONG_AGO, "finished": None, "ended": None,
    "ended_by": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, etcd_endpoint: str, mongod_address: str) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("world"), etcd_endpoint, mongod_address)
    yield world
    world.close()


@pytest.fixture(scope="module")
def big(bare: World) -> World:
    """A judicator over a store in which every kind of task is there by the thousand; waits in front come first."""
    world = bare
    world.judicator(
        sweep_interval=0.2, executor_expiry=3600.0, executor_forget=7200.0, task_expiry=3600.0,
        allowances=Allowances(user=Allowance(slot_share=0.5)),
    )  # fmt: skip
    db = world.db
    write(db, finished(MANY, since=LONG_AGO, judged_by="e9"))
    write(db, finished(MANY, user="new", verdict="WA"))
    write(db, waiting(MANY, user="cobolist", needs="cobol"))  # a language that nobody has
    write(db, waiting(MANY, user="broken", tried=["e1"]))  # the executor that asks has failed them
    write(db, waiting(MANY, user="crowd"))  # a user whose share is taken
    write(db, waiting(300, user="ann"))
    for needs in ("c", "pascal"):
        write(db, runs(MANY, number=1000, needs=needs))
    for number in range(10):
        write(db, waiting(MANY // 10, user="polyglot", needs=f"language{number}"))
    db.rejudgings.insert_one(REJUDGING)
    now = clock.wall()
    names = [f"{number:064x}" for number in range(MANY)]
    db["fs.files"].insert_many({"filename": name, "length": 1, "chunkSize": 1, "uploadDate": now} for name in names)
    db.manifests.insert_many({"_id": name, "name": f"p{name}", "blobs": [name]} for name in names[: MANY // 2])
    db.sessions.insert_many({"_id": name, "user": f"user{name}", "begun": now} for name in names)
    people = [{"name": f"crowd{number}", "number": number} for number in range(MANY)]
    db.users.insert_many(
        {"_id": person["name"], "fold": person["name"], "role": "judge" if person["number"] % 9 == 0 else "user",
         "groups": [f"g{person['number'] % 20}"], "disabled": person["number"] % 7 == 0, "created": now, "call": ""}
        for person in people
    )  # fmt: skip
    db.tokens.insert_many(
        {"_id": f"{person['number']:016x}", "digest": f"{person['number']:064x}", "user": person["name"], "label": "",
         "scopes": ["read"], "created": now, "expires": None}
        for person in people
    )  # fmt: skip
    begun = minute(now)
    ago = [begun - datetime.timedelta(minutes=number) for number in range(MANY)]
    figures = {"begun": begun, "verdicts": {"AC": 1}, "looks": 1}
    # The judicator may have written this very minute.
    db.minutes.bulk_write([UpdateOne({"_id": minute}, {"$setOnInsert": figures}, upsert=True) for minute in ago])
    start = {"incarnation": "i", "at": now, "version": "1", "slots": 1, "weak_sandbox": False, "calibration": []}
    machines = [f"crowd{number}" for number in range(MANY)]
    db.machines.insert_many(
        {"_id": name, "seen": now, "languages": {}, "starts": [{**start, "changes": []}]} for name in [*machines, "e1"]
    )
    db.usage.insert_many({"_id": f"user{name}", "bytes": 0} for name in names[:200])
    queue = world.judicators[0].judicator.replica.queue
    wait_for(lambda: len(queue) == 6 * MANY + 300, what="all that waits, in the queue")
    db.create_collection("system.profile", capped=True, size=256 * 1024**2)
    db.command("profile", 2)
    return world


@contextlib.contextmanager
def recorded(world: World) -> Iterator[list[dict[str, Any]]]:
    """What judicators send meanwhile, as the database's profiler has it."""
    profile = world.db["system.profile"]
    before = profile.count_documents({})
    operations: list[dict[str, Any]] = []
    yield operations
    operations += profile.find().skip(before)


def changed(entry: dict[str, Any]) -> int:
    names = ("nreturned", "nMatched", "nModified", "ndeleted", "ninserted", "nUpserted")
    return max(entry.get(name, 0) or 0 for name in names)


def documents_named(entry: dict[str, Any]) -> int:
    """How many documents a command names by their ids: the index takes a second step for each of several."""
    command = entry.get("command", {})
    ids = (command.get("q") or command.get("filter") or {}).get("_id")
    return len(ids["$in"]) if isinstance(ids, dict) and "$in" in ids else 0


def summed(entry: dict[str, Any]) -> int:
    """How many documents a command may sum up: of parts that say so, as those about users with few waiting tasks."""
    pipeline = entry.get("command", {}).get("pipeline", [])
    parts = [pipeline, *(stage["$unionWith"]["pipeline"] for stage in pipeline if "$unionWith" in stage)]
    limits = [
        stage["$limit"]
        for part in parts
        if any("$group" in step for step in part)
        for stage in part
        if "$limit" in stage
    ]
    return sum(limit for limit in limits if limit > 1)


def beyond(entry: dict[str, Any]) -> int:
    looked = max(entry.get("keysExamined", 0), entry.get("docsExamined", 0))
    return looked - changed(entry) - documents_named(entry) - summed(entry)


def _words(entry: dict[str, Any]) -> Iterator[str]:
    """What says why a command is sent: its comment, and the first stage of its pipeline."""
    for command in (entry.get("command", {}), entry.get("originatingCommand", {})):
        yield command.get("comment", "")
        yield from command.get("pipeline", [{}])[0]


def check(operations: list[dict[str, Any]]) -> None:
    """No command looks at more than it may, but for those of EXCEPT, by their comments.

    The change stream reads the log of changes, no collection.
    """
    of_judge = [op for op in operations if op.get("appName") == "judge"]
    questions = [op for op in of_judge if not {"$changeStream", *EXCEPT} & set(_words(op))]
    assert questions
    bad = [op for op in questions if beyond(op) > SPARE]
    lines = [
        f"{beyond(op)} beyond {changed(op)}: {op.get('planSummary')} {str(op.get('command', op))[:600]}" for op in bad
    ]
    assert not bad, "\n".join(lines)
    assert not [op for op in questions if "COLLSCAN" in op.get("planSummary", "") and op["ns"].endswith(".tasks")]


def test_cost_of_handing_in(big: World) -> None:
    people = big.client()
    with recorded(big) as operations:
        for user in ("ann", "newcomer", "newcomer"):
            people.call("add", source(user=user), m.AddReply)
        key = source(user="keyed", idempotency_key="k")
        assert [people.call("add", key, m.AddReply).created for _ in range(2)] == [True, False]
        people.call("add", source(user="root", role="admin", priority="high"), m.AddReply)
        with pytest.raises(LimitError, match="1000 submissions of user 'crowd' wait"):
            people.call("add", source(user="crowd"), m.AddReply)
    check(operations)


def test_handing_out_reporting_and_ending(big: World) -> None:
    first, second = big.executor("e1", slots=2), big.executor("e2", slots=2, languages=("c", "java"))
    with recorded(big) as operations:
        first.report(vacant=0)
        second.report(vacant=0)
        # Two slots for each user: 'broken' has tasks that only e2 may take, 'crowd' those that come then.
        handed = [*first.report(vacant=5).add, *second.report(vacant=5).add]
        users = [task.submission.user for task in handed]
        assert len(users) == 10
        assert [users.count(user) for user in ("broken", "crowd", "cobolist")] == [2, 2, 0]
        wait_for(lambda: first.report(vacant=2).add, what="more for the first")
        task = next(iter(first.work.values()))
        first.report(accepted(task), vacant=0)
        first.report(accepted(task), vacant=0)  # again
        back = next(iter(first.work.values()))
        first.report(accepted(back, retry=True), vacant=1)
        second.restart()
        second.report(vacant=1)
    check(operations)


def test_a_submission_is_three_writes(tmp_path: Path, etcd_endpoint: str, mongod_address: str) -> None:
    """Insert, claim, finish; nothing is read for an executor that asks for work."""
    world = World(tmp_path, etcd_endpoint, mongod_address)
    try:
        world.judicator()
        people, executor = world.client(), world.executor()
        executor.report(vacant=0)
        world.db.command("profile", 2)
        with recorded(world) as operations:
            people.call("add", source(), m.AddReply)
            (task,) = executor.report(hold=5.0).add
            executor.report(accepted(task), vacant=0)
        world.db.command("profile", 0)
        of_tasks = [op for op in operations if op["ns"].endswith(".tasks") and op.get("appName") == "judge"]
        writes = [op["op"] for op in of_tasks if op["op"] in {"insert", "update"} or "findAndModify" in op["command"]]
        filters = [op["command"]["filter"] for op in of_tasks if "filter" in op["command"]]
        swept = {"done": False, "executor": {"$gt": ""}}
        assert len(writes) == 3, writes
        assert [query for query in filters if query != swept] == []
    finally:
        world.close()


def test_the_runs_of_a_rejudging_are_handed_out(big: World) -> None:
    """Judged, given back, handed out again, cancelled, in one of thousands."""
    alone = big.executor("e3", slots=2, languages=("pascal",))
    alone.report(vacant=0)
    with recorded(big) as operations:
        first, second = alone.report(vacant=2).add
        assert big.db.tasks.count_documents({"executor": "e3", "priority": "rejudge", "done": False}) == 2
        alone.report(accepted(first), accepted(second, retry=True), vacant=0)
        assert alone.report(vacant=1).add
        alone.restart()
        alone.report(vacant=1)
        second_executor = big.executor("e5", slots=1, languages=("pascal",))
        (again,) = second_executor.report().add
        assert (again.id, again.attempt) == (second.id, 2), "what came back goes before the others"
        nothing = big.executor("e4", slots=1, languages=())
        assert not nothing.report(hold=0.5).add, "it needs no language; there is none, nor a run"
    check(operations)


def calls(big: World, people: RpcClient) -> dict[str, list[m.Message]]:
    """What people's calls are asked that no other test here asks; every method of the RPC is in one of them."""
    user = "new"
    tasks = people.call("search", m.SearchRequest(user=user, limit=3), m.SearchReply).tasks
    by = RejudgeAct(id=1000, user="root", key="k")
    content = big.db.problems.find_one({"_id": "small"})["hash"]
    return {
        "figures": [FiguresRequest(), FiguresRequest(span="day")],
        "tasks": [TasksRequest(ids=[*(task.id for task in tasks), "0" * 24])],
        "executor_history": [HistoryRequest(executor="e1")],
        "usage": [UsageRequest(user=user), UsageRequest(user="crowd")],
        "marks": [MarksRequest(user=user), MarksRequest(user="crowd")],
        "drain": [DrainRequest(executor="e1", drain=drain) for drain in (True, False)],
        "problems": [m.Empty()],
        "blobs_missing": [BlobsWanted(blobs=["a" * 64])],
        "rejudgings": [RejudgingsRequest(), RejudgingsRequest(before=1000)],
        "rejudging": [RejudgingRef(id=1000)],
        "rejudge_diff": [RejudgeDiffRequest(id=1000, all=True, limit=50)],
        "rejudge_apply": [by],
        "session_begin": [SessionBegin(id="a" * 64, user=user)],
        "session_end": [SessionEnd(id="a" * 64, user=user), SessionEnd(id="b" * 64, user=user, everywhere=True)],
        "audit_note": [Note(action="login")],
        "audit_tokens": [TokensSeen(tokens=[])],
        "audit": [AuditQuery(), AuditQuery(actor="root"), AuditQuery(action="rejudging."), AuditQuery(object="none")],
        "problem_change": [ProblemChange(name="small", owners=[user])],
        "problem_verified": [Verification(problem="small", hash=content)],
        "problem_verification": [ProblemName(name="small")],
        "problem_statements": [PagesRequest(problem="small", hash=content)],
        "changes": [ChangesRequest()],
        "webhook_add": [WebhookAdd(name="w", url="http://none.example/")],
        "webhooks": [m.Empty()],
        "deliveries": [
            DeliveriesRequest(), DeliveriesRequest(webhook="w"), DeliveriesRequest(state="failed"),
            DeliveriesRequest(submission=tasks[0].id),
        ],
        "webhook_ping": [WebhookRef(name="w")],
        "webhook_resend": [Resend(webhook="w")],
        "webhook_remove": [WebhookRef(name="w")],
        "delete_preview": [
            DeletionWanted(submission=tasks[0].id), DeletionWanted(user=user), DeletionWanted(problem="small"),
        ],
        "delete_submission": [m.TaskRef(id=tasks[0].id)],
        "delete_problem": [ProblemName(name="small")],
        "purge": [PurgeRequest(user="few")],
        "users": [
            p.UsersQuery(), p.UsersQuery(after="crowd3"), p.UsersQuery(role="judge"), p.UsersQuery(group="g5"),
            p.UsersQuery(disabled=True), p.UsersQuery(prefix="crowd77"),
        ],
        "tokens": [
            p.TokensQuery(), p.TokensQuery(user="crowd1"), p.TokensQuery(after=f"{7:016x}"),
            p.TokensQuery(after=f"{7:013}-{7:016x}"), p.TokensQuery(after=f"99{7:011}-{7:016x}"),
        ],
        "user_add": [p.UserAdd(name="pia", password="a long phrase", role="admin")],
        "users_add": [p.UsersAdd(users=[p.Newcomer(name="kim", display_name="Kim", password="a long phrase")])],
        "names": [p.NamesQuery(users=["kim", "crowd1"])],
        "user": [p.UserRef(name="pia")],
        "user_change": [p.UserChange(name="pia", role="judge")],
        "user_password": [p.PasswordSet(name="pia", password="another phrase")],
        "login": [p.Login(name="PIA", password="another phrase")],
        "identity_login": [
            p.IdentityLogin(identity=p.Identity(issuer="i", subject="s"), name="ida", create=True) for _ in range(2)
        ],
        "token_create": [p.TokenNew(digest="c" * 64, user="pia", scopes=["read"])],
        "token_used": [p.TokenUsed(id="c" * 16)],
        "credentials": [p.Credentials(tokens=["c" * 64], sessions=["a" * 64], names=["ann", "crowd1"])],
        "token_revoke": [p.TokenEnd(id="c" * 16)],
        "user_delete": [p.UserRef(name="pia")],
    }  # fmt: skip


ELSEWHERE = {
    "ping", "add", "adds", "search", "get", "cancel", "status", "executors", "report", "problem_import",
    "rejudge_preview", "rejudge_start", "rejudge_cancel",
}  # fmt: skip


def test_cost_of_every_other_call(big: World) -> None:
    people = big.client(timeout=30.0)
    imported(people, "small")
    write(big.db, finished(250, user="few", verdict="AC"))
    all_calls = calls(big, people)
    assert set(all_calls) | ELSEWHERE == set(METHODS)
    by = By(actor="root", role="admin", origin="192.0.2.1")
    with recorded(big) as operations:
        for method, requests in all_calls.items():
            for request in requests:
                with contextlib.suppress(ConflictError):
                    people.call(method, request, METHODS[method].reply, by=by)
        imported(people, "other")
    assert big.db.tasks.count_documents({"user": "few"}) == 0
    check(operations)
    with recorded(big) as operations:
        assert len(people.call("users", p.UsersQuery(), p.UsersReply, by=by).users) > 50
    assert sum(op["ns"].endswith(".tokens") for op in operations) == 1, "the tokens of all are counted together"


def test_cost_of_reads(big: World) -> None:
    people = big.client()
    with recorded(big) as operations:
        task = people.call("search", m.SearchRequest(user="ann", limit=1), m.SearchReply).tasks[0]
        people.call("get", m.GetRequest(id=task.id), m.Task)
        people.call("get", m.GetRequest(id=task.id, wait=0.5, version=task.version), m.Task)
        people.call("status", m.Empty(), StatusReply)
        people.call("executors", m.Empty(), ExecutorsReply)
        people.call("cancel", m.TaskRef(id=task.id), m.Task)
    check(operations)


FILTERS: list[dict[str, Any]] = [
    {},
    {"user": "old"},
    {"user": "nobody"},
    {"problem": "sum"},
    {"problem": "none"},
    {"language": "c"},
    {"language": "none"},
    {"status": "pending"},
    {"status": "run_failed"},
    {"verdict": "AC"},
    {"verdict": "MLE"},
    {"executor": "e9"},
    {"executor": "none"},
    {"done": True},
    {"done": False},
    {"user": "old", "verdict": "AC"},
    {"user": "crowd", "done": False},
    {"problem": "sum", "verdict": "WA"},
]


@pytest.mark.parametrize("conditions", FILTERS, ids=str)
def test_cost_of_searches(big: World, conditions: dict[str, Any]) -> None:
    people = big.client()
    with recorded(big) as operations:
        first = people.call("search", m.SearchRequest(limit=20, **conditions), m.SearchReply)
        if first.next is not None:
            people.call("search", m.SearchRequest(limit=20, before=first.next, **conditions), m.SearchReply)
    check(operations)


def test_judging_again_by_time_alone(big: World) -> None:
    """Out of thousands of others, by when they were handed in."""
    people = big.client()
    narrow = RejudgeFilter(since=LONG_AGO, until=LONG_AGO + datetime.timedelta(seconds=20))
    with recorded(big) as operations:
        assert people.call("rejudge_preview", narrow, RejudgePreview).count == 20
        request = RejudgeStart(filter=narrow, reason="a trial", user="root")
        number = people.call("rejudge_start", request, Rejudging).id
        people.call("rejudge_cancel", RejudgeAct(id=number, user="root", key="end"), Rejudging)
    check(operations)


def test_the_judicators_own_loops(big: World) -> None:
    """The leader's passes and the metrics, for a while."""
    judicator = big.judicators[0].judicator
    wait_for(lambda: judicator.lead.leading, what="a leader")
    with recorded(big) as operations:
        for _ in range(3):
            big.judicators[0].do(judicator.lead.sweep_once())
        big.judicators[0].do(judicator.figures.look())
        judicator.tasks.counts.ended("AC", 0.5, rerun=False)
        big.judicators[0].do(judicator.figures.write())
        assert big.judicators[0].do(judicator.replica.compare()) == 0
        big.judicators[0].do(judicator.rejudgings.sweep())
        assert big.judicators[0].do(judicator.retention.once(lambda: True))
    check(operations)


def test_enough_commands_were_recorded(big: World) -> None:
    """By every loop, whoever was served meanwhile."""
    with recorded(big):
        pass
    everything = list(big.db["system.profile"].find())
    assert len(everything) > 500
    check(everything)
