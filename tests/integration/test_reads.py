"""Which methods store something: their rows of METHODS say it, and what they send to the database shows it."""

import contextvars
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo.monitoring
import pytest
from pymongo.monitoring import CommandFailedEvent, CommandStartedEvent, CommandSucceededEvent

from judge.model import messages as m
from judge.model import people as p
from judge.model.audit import AuditQuery, By, Note, TokenSeen, TokensSeen
from judge.model.deleting import DeletionWanted, ProblemName, PurgeRequest
from judge.model.figures import FiguresRequest, HistoryRequest
from judge.model.messages import BlobsWanted
from judge.model.overview import DrainRequest, MarksRequest, UsageRequest
from judge.model.people import SessionBegin, SessionEnd
from judge.model.problem import Verification
from judge.model.rejudging import (
    RejudgeAct,
    RejudgeDiffRequest,
    RejudgeFilter,
    RejudgeStart,
    RejudgingRef,
    RejudgingsRequest,
)
from judge.model.several import TasksRequest
from judge.model.statements import PagesRequest
from judge.model.streaming import ChangesRequest
from judge.model.visibility import ProblemChange, Visibility
from judge.model.webhooks import DeliveriesRequest, Resend, WebhookAdd, WebhookRef
from judge.rpc.methods import EXECUTOR, GATEWAY, METHODS
from judge.rpc.server import Peer
from tests.support.judicators import (
    World,
    imported,
    judge,
    manifest,
    patient_world,
    rejudge,
    show,
    source,
    start,
    upload,
)
from tests.support.servers import wait_for

STORES = {"insert", "update", "delete", "findAndModify", "bulkWrite"}
stored: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar("stored", default=None)


class _Listener(pymongo.monitoring.CommandListener):
    """Notes the commands of the call whose context they are sent in; a judicator's loops have none."""

    def started(self, event: CommandStartedEvent) -> None:
        note = stored.get()
        stages = event.command.get("pipeline", [])
        if note is not None and (
            event.command_name in STORES or any({"$merge", "$out"} & set(step) for step in stages)
        ):
            note.append(f"{event.command_name} {event.command.get(event.command_name)}")

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Nothing."""

    def failed(self, event: CommandFailedEvent) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, etcd_endpoint: str, mongod_address: str) -> Iterator[World]:
    pymongo.monitoring.register(_Listener())
    directory: Path = tmp_path_factory.mktemp("world")
    with patient_world(directory, etcd_endpoint, mongod_address) as world:
        yield world


def requests(world: World) -> dict[str, m.Message]:
    """One request of each method that it does not refuse, in an order in which they can be made."""
    people, executor = world.client(), world.executor()
    executor.report(vacant=0)
    small = imported(people, "small")
    _, wrong = judge(people, executor, "WA", "AC")
    judge(people, executor, "AC", user="eve")
    first = start(people, user=["ann"], verdict=["WA"])
    rejudge(executor, {"int main(){} // 0": "AC"})
    # The first who looks at a rejudging after its last verdict notes that it is finished, as the leader would.
    wait_for(lambda: show(people, first.id).state == "finished", what="a finished rejudging")
    waiting = people.call("add", source("waiting"), m.AddReply).task.id
    import_other = upload(people, manifest(people, "other"))
    return {
        "ping": m.Empty(),
        "get": m.GetRequest(id=waiting, wait=0.1, version=99),
        "tasks": TasksRequest(ids=[waiting, "0" * 24]),
        "search": m.SearchRequest(),
        "executors": m.Empty(),
        "status": m.Empty(),
        "figures": FiguresRequest(),
        "executor_history": HistoryRequest(executor="e1"),
        "usage": UsageRequest(user="ann"),
        "marks": MarksRequest(user="ann"),
        "problems": m.Empty(),
        "blobs_missing": BlobsWanted(blobs=["a" * 64]),
        "problem_change": ProblemChange(name="small", visibility=Visibility()),
        "problem_verification": ProblemName(name="small"),
        "problem_verified": Verification(problem="small", hash=small.hash),
        "rejudge_preview": RejudgeFilter(verdict=["AC"]),
        "rejudgings": RejudgingsRequest(),
        "rejudging": RejudgingRef(id=first.id),
        "rejudge_diff": RejudgeDiffRequest(id=first.id),
        "users": p.UsersQuery(),
        "tokens": p.TokensQuery(),
        "user_add": p.UserAdd(name="pia", password="a long phrase"),
        "users_add": p.UsersAdd(users=[p.Newcomer(name="kim", password="a long phrase")]),
        "names": p.NamesQuery(users=["pia"]),
        "user": p.UserRef(name="pia"),
        "user_change": p.UserChange(name="pia", role="judge"),
        "user_password": p.PasswordSet(name="pia", password="another phrase"),
        "login": p.Login(name="pia", password="another phrase"),
        "identity_login": p.IdentityLogin(identity=p.Identity(issuer="i", subject="s"), name="ida", create=True),
        "token_create": p.TokenNew(digest="c" * 64, user="pia", scopes=["read"]),
        "token_used": p.TokenUsed(id="c" * 16),
        "credentials": p.Credentials(tokens=["c" * 64], sessions=["a" * 64], names=["ann"]),
        "token_revoke": p.TokenEnd(id="c" * 16),
        "user_delete": p.UserRef(name="pia"),
        "audit": AuditQuery(),
        "delete_preview": DeletionWanted(user="ann"),
        "report": executor.request(),
        "add": source("new"),
        "cancel": m.TaskRef(id=waiting),
        "drain": DrainRequest(executor="e1", drain=True),
        "problem_import": import_other,
        "problem_statements": PagesRequest(problem="other", hash=import_other.manifest),
        "rejudge_apply": RejudgeAct(id=first.id, user="root", key="a"),
        "rejudge_start": RejudgeStart(filter=RejudgeFilter(ids=[wrong]), reason="r", user="root"),
        "rejudge_cancel": RejudgeAct(id=first.id + 1, user="root", key="c"),
        "session_begin": SessionBegin(id="a" * 64, user="ann"),
        "session_end": SessionEnd(id="a" * 64, user="ann"),
        "audit_note": Note(action="login"),
        "audit_tokens": TokensSeen(tokens=[TokenSeen(user="ann", role="user", fingerprint="f" * 32)]),
        "changes": ChangesRequest(),
        "webhook_add": WebhookAdd(name="w", url="http://none.example/"),
        "webhooks": m.Empty(),
        "deliveries": DeliveriesRequest(),
        "webhook_ping": WebhookRef(name="w"),
        "webhook_resend": Resend(webhook="w"),
        "webhook_remove": WebhookRef(name="w"),
        "delete_submission": m.TaskRef(id=wrong),
        "delete_problem": ProblemName(name="small"),
        "purge": PurgeRequest(user="eve"),
    }


def test_each_method_declares_whether_it_stores_something(world: World) -> None:
    judicator = world.judicators[0].judicator
    every_request = requests(world)
    assert set(every_request) == {name for name, row in METHODS.items() if row.each is None}

    async def commands_of(name: str, request: m.Message) -> list[str]:
        note: list[str] = []
        stored.set(note)
        executors = EXECUTOR in METHODS[name].roles and GATEWAY not in METHODS[name].roles
        peer = Peer("e1", EXECUTOR) if executors else Peer("gw", GATEWAY, By(actor="root", role="admin", call=name))
        await judicator.dispatcher(name, request, peer)
        return note

    wrong: dict[str, Any] = {}
    for name, request in every_request.items():
        commands = world.judicators[0].do(commands_of(name, request))
        if METHODS[name].reads == bool(commands):
            wrong[name] = commands or "stored nothing, but its row does not say that it only reads"
    assert wrong == {}
