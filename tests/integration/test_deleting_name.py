"""A name that is given up: nothing of it is left in the database, and nobody is told of the next one who has it."""

from typing import Any

import pytest

from judge.common.errors import NotFoundError, UnauthorizedError
from judge.config.allowance import Allowance, Allowances
from judge.model import messages as m
from judge.model import people as p
from judge.model.audit import AuditQuery, AuditReply, By
from judge.model.deleting import DeletionPreview, DeletionWanted, Purged, PurgeRequest
from judge.model.people import SessionBegin
from judge.model.webhooks import Delivery, WebhookAdd, WebhookAdded, WebhookRef, WebhooksReply
from judge.rpc.client import RpcClient
from tests.support.judicators import World, act, judge, rejudge, settled, show, source, sources, start
from tests.support.receivers import HOOKS, Receiver
from tests.support.servers import wait_for

MARK = "Xq7-Marked"
ROOT = By(actor="root", role="admin", origin="192.0.2.1")
OWN = By(actor=MARK, role="user", origin="192.0.2.2")


@pytest.fixture
def telling(world: World) -> World:
    """A judicator that tells receivers on this host, and counts what is handed in within a minute."""
    first = world.judicator(**HOOKS, allowances=Allowances(user=Allowance(per_minute=100, slot_share=1.0)))
    wait_for(lambda: first.judicator.lead.leading, what="a leader")
    return world


def holding(world: World) -> dict[str, list[Any]]:
    """All documents that have the name somewhere, however it is capitalised, by collection."""
    documents: dict[str, list[Any]] = {}
    for name in world.db.list_collection_names():
        for doc in world.db[name].find():
            if MARK.lower() in str(doc).lower():
                documents.setdefault(name, []).append(doc)
    return documents


def hook(people: RpcClient, receiver: Receiver, name: str, **fields: Any) -> None:
    people.call("webhook_add", WebhookAdd(name=name, url=receiver.url, **fields), WebhookAdded)


def hooks(people: RpcClient) -> list[str]:
    return [webhook.name for webhook in people.call("webhooks", m.Empty(), WebhooksReply).webhooks]


def purge(people: RpcClient, until: str | None = None) -> Purged:
    while True:
        reply = people.call("purge", PurgeRequest(user=MARK, until=until), Purged, by=ROOT)
        if not reply.left:
            return reply
        until = reply.until


def calls_about(receiver: Receiver) -> int:
    """How many calls have named this person."""
    with receiver.lock:
        return sum(MARK in call.body.decode() for call in receiver.calls)


def lived(world: World, people: RpcClient, receiver: Receiver) -> None:
    """All that the database may come to know of a person."""
    executor = world.executor(slots=8)
    executor.report(vacant=0)
    people.call("user_add", p.UserAdd(name=MARK, password="a long phrase"), p.User, by=ROOT)
    people.call("login", p.Login(name=MARK, password="a long phrase"), p.Person)
    with pytest.raises(UnauthorizedError):
        people.call("login", p.Login(name=MARK, password="another phrase"), p.Person)
    people.call("token_create", p.TokenNew(digest="c" * 64, user=MARK, scopes=["read"]), p.TokenInfo, by=OWN)
    people.call("session_begin", SessionBegin(id="5" * 64, user=MARK, account=True), m.Empty, by=OWN)
    hook(people, receiver, "mine", user=MARK)
    hook(people, receiver, "all")
    people.call("webhook_ping", WebhookRef(name="mine"), Delivery)
    ids = judge(people, executor, "WA", "AC", user=MARK)
    start(people, user=[MARK])
    rejudge(executor, dict.fromkeys(sources(people, ids), "AC"))
    wait_for(lambda: show(people, 1).state == "finished", what="a finished rejudging")
    act(people, "apply", 1)
    settled(people, 1)
    wait_for(lambda: calls_about(receiver) >= 6, what="news for both receivers")
    people.call("add", source(user=MARK, source="is running"), m.AddReply, by=OWN)
    executor.report(vacant=1)
    people.call("add", source(user=MARK, source="is waiting", language="java"), m.AddReply, by=OWN)


def test_a_purged_name_leaves_nothing_and_its_next_owner_has_no_webhook_of_it(telling, receiver) -> None:
    people = telling.client(timeout=30.0)
    lived(telling, people, receiver)
    before = holding(telling)
    assert {"tasks", "users", "tokens", "sessions", "webhooks", "deliveries", "rates", "usage", "rejudgings"} <= set(
        before
    )
    assert {f"submit {MARK}", f"noted {MARK}"} <= {doc["_id"] for doc in before["rates"]}
    preview = people.call("delete_preview", DeletionWanted(user=MARK), DeletionPreview)
    assert "webhooks that are told of this user alone: mine" in preview.goes
    purge(people)
    assert hooks(people) == ["all"]
    assert set(holding(telling)) == {"audit"}
    assert telling.db.deliveries.count_documents({"hook": "mine"}) == 0, "a ping names nobody, and goes as well"
    trail = people.call("audit", AuditQuery(action="user.purge"), AuditReply).entries
    assert [(entry.outcome, entry.details.get("webhooks")) for entry in reversed(trail)][:2] == [
        ("begun", ["mine"]),
        ("done", ["mine"]),
    ]
    with pytest.raises(NotFoundError):
        people.call("delete_preview", DeletionWanted(user=MARK), DeletionPreview)
    # The next one of this name.
    calls = calls_about(receiver)
    judge(people, telling.executor("e2"), "AC", user=MARK)
    wait_for(lambda: calls_about(receiver) > calls, what="news for who is told of everybody")
    assert telling.db.deliveries.count_documents({"user": MARK}) == 1


def test_a_webhook_of_the_names_next_owner_stays(telling: World, receiver: Receiver) -> None:
    """Whatever is asked again with the moment of the first call is about what was there by then."""
    people = telling.client(timeout=30.0)
    hook(people, receiver, "old", user=MARK)
    assert people.call("delete_preview", DeletionWanted(user=MARK), DeletionPreview).submissions == 0
    until = purge(people).until
    assert hooks(people) == []
    hook(people, receiver, "new", user=MARK)
    purge(people, until)
    assert hooks(people) == ["new"]
    # One of an earlier release says nothing of when it was added.
    telling.db.webhooks.update_one({"_id": "new"}, {"$unset": {"since": ""}})
    purge(people, until)
    assert hooks(people) == []


def test_a_deleted_account_takes_its_webhooks_along(telling: World, receiver: Receiver) -> None:
    people = telling.client(timeout=30.0)
    hook(people, receiver, "mine", user=MARK)
    hook(people, receiver, "all")
    with pytest.raises(NotFoundError, match="no user"):
        people.call("user_delete", p.UserRef(name=MARK), m.Empty, by=ROOT)
    assert hooks(people) == ["all", "mine"], "a refused call has done nothing"
    people.call("user_add", p.UserAdd(name=MARK), p.User, by=ROOT)
    people.call("token_create", p.TokenNew(digest="c" * 64, user=MARK, scopes=["read"]), p.TokenInfo, by=OWN)
    people.call("webhook_ping", WebhookRef(name="mine"), Delivery)
    people.call("user_delete", p.UserRef(name=MARK), m.Empty, by=ROOT)
    assert hooks(people) == ["all"]
    assert set(holding(telling)) == {"audit"}
    assert telling.db.deliveries.count_documents({"hook": "mine"}) == 0
    trail = people.call("audit", AuditQuery(action="user.delete"), AuditReply).entries
    assert (trail[0].outcome, trail[0].details["webhooks"]) == ("done", ["mine"])
