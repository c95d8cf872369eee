"""Webhooks: verdicts reach receivers, signed, in order, through all that dies; deliveries are listed and resent."""

import contextlib
import datetime
import json
import socket
import time
from collections import Counter

import pytest
from bson import ObjectId, Timestamp
from pymongo import WriteConcern
from pymongo.errors import BulkWriteError, NotPrimaryError

from judge.common import clock
from judge.common.errors import FieldError, ForbiddenError, NotFoundError, OutcomeUnknownError
from judge.judicator.database import Database
from judge.judicator.events.outbox import POSITION, Outbox, delivery
from judge.model import messages as m
from judge.model.deleting import Deleted
from judge.model.webhooks import (
    DeliveriesReply,
    DeliveriesRequest,
    Delivery,
    Resend,
    Resent,
    WebhookAdd,
    WebhookAdded,
    WebhookRef,
    WebhooksReply,
)
from judge.mongodb.store import translate
from tests.support.gateway import ADMIN, Person, check, make_config, serving_app
from tests.support.judicators import act, judge, rejudge, show, source, start
from tests.support.receivers import HOOKS, hurry, is_genuine, receiving, telling
from tests.support.servers import wait_for


@pytest.fixture(scope="module")
def shared(tmp_path_factory, etcd_endpoint, mongod_address):
    with telling(tmp_path_factory.mktemp("world"), etcd_endpoint, mongod_address) as world:
        yield world


@pytest.fixture(scope="module")
def people(shared):
    return shared.client(timeout=30.0)


@pytest.fixture(scope="module")
def executor(shared):
    executor = shared.executor(slots=8)
    executor.report(vacant=0)
    return executor


@contextlib.contextmanager
def webhook(people, name, url, **fields):
    """A webhook for the length of a `with`."""
    try:
        yield people.call("webhook_add", WebhookAdd(name=name, url=url, **fields), WebhookAdded)
    finally:
        people.call("webhook_remove", WebhookRef(name=name), m.Empty)


@pytest.fixture
def hook(people, receiver):
    with webhook(people, "h", receiver.url) as added:
        yield added


def apply(people, number):
    wait_for(lambda: show(people, number).state == "finished", what="a finished rejudging")
    act(people, "apply", number)


def deliveries(people, **conditions):
    return people.call("deliveries", DeliveriesRequest(**conditions), DeliveriesReply).deliveries


def test_a_verdict_is_delivered(people, executor, receiver, hook):
    (task,) = judge(people, executor, "WA", user="ada")
    wait_for(receiver.successes, what="a call")
    (call,) = receiver.calls
    assert (call.path, call.headers["content-type"]) == ("/hook", "application/json")
    assert is_genuine(hook.secret, call.headers, call.body, time.time())
    message = call.json
    assert message["type"] == "submission.finished" and message["timestamp"].endswith("Z")
    data = message["data"]
    assert (data["id"], data["user"], data["status"], data["verdict"]) == (task, "ada", "run_failed", "WA")
    wait_for(lambda: deliveries(people, webhook="h")[0].state == "delivered", what="the note that it is delivered")
    (sent_delivery,) = deliveries(people, submission=task)
    assert (sent_delivery.status, sent_delivery.tries, call.headers["webhook-id"]) == (
        204,
        1,
        f"msg_{sent_delivery.id}",
    )

    def row():
        return people.call("webhooks", m.Empty(), WebhooksReply).webhooks[0]

    wait_for(lambda: " 204" in row().last, what="the outcome of the last call, which is written after the delivery")
    assert (row().waiting, row().failed) == (0, 0)
    assert hook.secret not in row().model_dump_json()


def test_cancellations_and_rejudgings_are_delivered(people, executor, receiver, hook):
    waiting = people.call("add", source("int x;"), m.AddReply).task.id
    people.call("cancel", m.TaskRef(id=waiting), m.Task)
    (task,) = judge(people, executor, "WA")
    rejudging = start(people, ids=[task])
    rejudge(executor, {"int main(){} // 0": "AC"})
    apply(people, rejudging.id)
    due = {
        ("submission.finished", waiting, None),
        ("submission.finished", task, "WA"),
        ("submission.rejudged", task, "AC"),
    }

    def messages():
        return {
            (call.json["type"], call.json["data"]["id"], call.json["data"]["verdict"]) for call in receiver.successes()
        }

    # Each at least once.
    wait_for(lambda: messages() >= due, what="three calls")
    assert messages() == due, "the rejudging's own run is told to nobody"
    data = [call.json["data"] for call in receiver.successes() if call.json["data"]["id"] == task]
    assert data[-1]["rejudging"] == rejudging.id
    assert {(item["cause"], item["rejudging"]) for item in data} == {("person", None), ("rejudging", rejudging.id)}
    versions = [item["version"] for item in data]
    assert versions == sorted(versions)


def test_a_webhook_is_told_only_of_what_it_is_about(people, executor, receiver):
    with (
        webhook(people, "eve", receiver.url, user="eve"),
        webhook(people, "p", receiver.url, problem="none"),
        webhook(people, "r", receiver.url, events=["submission.rejudged"]),
    ):
        judge(people, executor, "AC", user="ada")
        (task,) = judge(people, executor, "AC", user="eve")
        wait_for(receiver.successes, what="the call about eve")
        assert [call.json["data"]["id"] for call in receiver.calls] == [task]
    with pytest.raises(NotFoundError):
        people.call("webhook_remove", WebhookRef(name="eve"), m.Empty)
    assert deliveries(people, webhook="eve") == []


def test_a_call_has_its_cause_and_the_system_s_own_runs_are_sent_on_demand(people, executor, receiver):
    trial = {"user": "ada", "role": "judge"}
    with webhook(people, "all", receiver.url + "/all", system=True), webhook(people, "some", receiver.url):
        for cause in ("import", "statement", "verification", None):
            judge(people, executor, "AC", cause=cause, **trial)
        due = {("/hook", "person"), ("/hook", "verification")}
        due |= {("/hook/all", cause) for cause in ("import", "person", "statement", "verification")}

        def calls():
            return {(call.path, call.json["data"]["cause"]) for call in receiver.successes()}

        wait_for(lambda: calls() >= due, what="the calls")
        assert calls() == due
    with pytest.raises(ForbiddenError):
        people.call("add", source(user="ada", cause="import"), m.AddReply)


def test_errors_are_tried_again_and_order_is_kept(shared, people, executor, receiver, hook):
    """503, then 500, 404, a redirection, then 204: tried again each time; what is newer waits for what is older."""
    answers = iter([(503, {"Retry-After": "1"}), 500, 404, (302, {"Location": "/other"})])
    receiver.answer = lambda number, call: next(answers, 204)
    (task,) = judge(people, executor, "WA")
    wait_for(lambda: receiver.calls, what="the first try")
    rejudging = start(people, ids=[task])
    rejudge(executor, {"int main(){} // 0": "AC"})
    apply(people, rejudging.id)

    def over():
        hurry(shared)
        return len(receiver.successes()) == 2

    wait_for(over, what="both calls")
    assert [call.json["data"]["verdict"] for call in receiver.calls] == ["WA"] * 5 + ["AC"]
    assert len({call.headers["webhook-id"] for call in receiver.calls}) == 2, "each try has the id of the first"
    assert {call.path for call in receiver.calls} == {"/hook"}
    for call in receiver.calls:
        assert is_genuine(hook.secret, call.headers, call.body, time.time())


def updates(world):
    """Updates of documents so far; all are majority writes."""
    return world.db.command("serverStatus")["metrics"]["document"]["updated"]


def waiting_deliveries(world, hook, count, *, at=None):
    now = at or clock.wall()
    docs = [delivery(hook, f"{hook}/{ObjectId()}", "submission.finished", "{}", now) for _ in range(count)]
    for doc in docs:
        doc["task"] = ObjectId()
    world.db.deliveries.insert_many(docs)
    return [doc["_id"] for doc in docs]


def test_a_receiver_that_fails_is_called_by_one_delivery_at_a_time(shared, people, receiver):
    """200 deliveries wait for it: few calls, few writes, and the other webhook's go out at once."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with webhook(people, "dead", f"http://127.0.0.1:{port}/"), webhook(people, "live", receiver.url):
        before = updates(shared)
        time.sleep(3)
        idle = (updates(shared) - before) / 3
        waiting_deliveries(shared, "dead", 200)
        wait_for(lambda: shared.db.deliveries.find_one({"hook": "dead", "status": 0}), what="the first failed call")
        before, began = updates(shared), time.monotonic()
        waiting_deliveries(shared, "live", 5)
        wait_for(lambda: len(receiver.successes()) == 5, what="the calls of the other webhook")
        time.sleep(10)
        rate = (updates(shared) - before) / (time.monotonic() - began)
        tries = sum(doc["tries"] for doc in shared.db.deliveries.find({"hook": "dead"}))
        print(f"\n{idle:.1f} updates a second idle, {rate:.1f} with a dead receiver, {tries} tries in all")
        assert tries <= 8 + 6 and rate < idle + 3
        assert shared.db.deliveries.count_documents({"hook": "dead", "tries": 0}) >= 185
        # An admin who asks for a call, since the receiver is back, waits for no pause.
        with receiving(port) as back:
            people.call("webhook_ping", WebhookRef(name="dead"), Delivery)
            wait_for(lambda: len(back.successes()) >= 186, what="what has waited")


def test_deliveries_that_a_receiver_never_takes_hold_up_no_others(shared, people, receiver):
    """Ten always fail. What comes later is taken within a few pauses, however often these have failed."""
    with webhook(people, "some", receiver.url):
        refused = {f"msg_{number}" for number in waiting_deliveries(shared, "some", 10)}
        receiver.answer = lambda number, call: 500 if call.headers["webhook-id"] in refused else 204
        post = shared.judicators[0].judicator.deliveries

        def failed_often():
            hurry(shared, hook="some")
            return post._receivers._states["some"].failures >= 4

        wait_for(lambda: "some" in post._receivers._states and failed_often(), what="failures in a row")
        shared.db.deliveries.update_many({"hook": "some"}, {"$max": {"tries": 3}})
        hurry(shared, hook="some")
        new = waiting_deliveries(shared, "some", 20)
        wait_for(lambda: len(receiver.successes()) >= len(new), what="the others")


def test_what_waits_for_a_webhook_is_bounded_and_what_is_dropped_is_counted(shared, people, receiver, monkeypatch):
    receiver.answer = lambda number, call: 503
    post = shared.judicators[0].judicator.deliveries
    with webhook(people, "full", receiver.url):
        wait_for(lambda: "full" in post._hooks, what="that the leader knows it")
        old = waiting_deliveries(shared, "full", 30, at=clock.wall() - datetime.timedelta(hours=1))
        late = waiting_deliveries(shared, "full", 10, at=clock.wall() - datetime.timedelta(days=4))
        new = waiting_deliveries(shared, "full", 50)
        wait_for(lambda: post._receivers.failing("full"), what="a failed call")
        monkeypatch.setattr(post, "_most_waiting", 60)
        shared.judicators[0].do(post._bound_waiting())
        remaining = {doc["_id"]: doc for doc in shared.db.deliveries.find({"hook": "full"})}
        assert sum(remaining[key]["state"] == "failed" for key in late if key in remaining) >= 2, "days are enough"
        assert sum(doc["state"] == "waiting" for doc in remaining.values()) == 60
        (row,) = people.call("webhooks", m.Empty(), WebhooksReply).webhooks
        assert set(new) <= set(remaining) and len(set(old) - set(remaining)) == row.dropped
        assert row.dropped == 90 - len(remaining) and row.waiting == 60


def test_deliveries_of_a_removed_webhook_go(shared, people):
    """They may be written just after its removal; nobody else would end them."""
    waiting_deliveries(shared, "gone", 3)
    shared.db.deliveries.update_many({"hook": "gone"}, {"$set": {"state": "waiting"}})
    (doc,) = shared.db.deliveries.find({"hook": "gone"}).limit(1)
    past = ObjectId.from_datetime(clock.wall() - datetime.timedelta(minutes=5))
    shared.db.deliveries.insert_one({**doc, "_id": past, "key": "gone/past"})
    shared.judicators[0].do(shared.judicators[0].judicator.deliveries._bound_waiting())
    assert shared.db.deliveries.count_documents({"hook": "gone"}) == 3, "a webhook may have been added just now"
    assert shared.db.deliveries.find_one({"_id": past}) is None
    shared.db.deliveries.delete_many({"hook": "gone"})


def test_a_receiver_that_is_gone_and_resending(shared, people, executor, receiver, hook):
    receiver.answer = lambda number, call: 410 if number == 1 else 204
    (task,) = judge(people, executor, "AC")
    wait_for(lambda: deliveries(people, state="failed"), what="the delivery that is given up")
    assert people.call("webhooks", m.Empty(), WebhooksReply).webhooks[0].failed == 1
    assert people.call("webhook_resend", Resend(webhook="h"), Resent).count == 1
    wait_for(receiver.successes, what="the call again")
    (first_delivery,) = deliveries(people, submission=task)
    assert people.call("webhook_resend", Resend(delivery=first_delivery.id), Resent).count == 1
    wait_for(lambda: len(receiver.successes()) == 2, what="the same call once more")
    assert len({call.headers["webhook-id"] for call in receiver.calls}) == 1
    with pytest.raises(NotFoundError):
        people.call("webhook_resend", Resend(delivery="0" * 24), Resent)
    people.call("webhook_ping", WebhookRef(name="h"), Delivery)
    wait_for(lambda: receiver.calls[-1].json["type"] == "ping", what="the ping")
    shared.client().call("delete_submission", m.TaskRef(id=task), Deleted)
    assert deliveries(people, submission=task) == []


def test_private_addresses_are_refused(people):
    for url in ("http://10.0.0.1/", "http://[::1]/", "http://169.254.169.254/meta-data", "file:///etc/passwd", "x"):
        with pytest.raises(FieldError) as caught:
            people.call("webhook_add", WebhookAdd(name="bad", url=url), WebhookAdded)
        assert caught.value.field == "url"


def test_webhooks_over_the_api(shared, tmp_path, receiver):
    settings = make_config(tmp_path, shared.etcd_config, shared.tls("gateway-1", "gateway"))
    with serving_app(settings) as app:
        admin = Person(app.test_client(), ADMIN)
        body = {"name": "api", "url": receiver.url}
        added = check(admin("POST", "/webhooks", json=body), 201, "add_webhook")
        again = check(admin("POST", "/webhooks", json={**body, "events": ["submission.rejudged"]}), 201, "add_webhook")
        assert again["secret"] == added["secret"], "what is changed keeps its secret"
        check(admin("POST", "/webhooks/api/ping"), 201, "ping_webhook")
        wait_for(receiver.successes, what="the ping")
        assert is_genuine(added["secret"], receiver.calls[0].headers, receiver.calls[0].body, time.time())
        listed = check(admin("GET", "/webhooks"), 200, "webhooks")["webhooks"]
        assert [webhook["name"] for webhook in listed] == ["api"] and "whsec" not in json.dumps(listed)
        (resent_delivery,) = check(admin("GET", "/deliveries?webhook=api"), 200, "deliveries")["deliveries"]
        check(admin("POST", "/deliveries/resend", json={"delivery": resent_delivery["id"]}), 200, "resend")
        for bad in ({"name": "x", "url": "http://192.168.0.1/"}, {"name": "x", "url": receiver.url, "secret": "short"}):
            assert admin("POST", "/webhooks", json=bad).status_code == 400
        assert admin("POST", "/webhooks/none/ping").status_code == 404
        check(admin("DELETE", "/webhooks/api"), 200, "remove_webhook")
        assert admin("DELETE", "/webhooks/api").status_code == 404


def test_no_delivery_is_lost_when_leaders_stop(world, receiver):
    """Leaders stop while submissions end, and every third call is answered by 500: each verdict arrives."""
    judicators = [world.judicator(name, **HOOKS) for name in ("j1", "j2", "j3")]
    wait_for(lambda: any(judicator.judicator.lead.leading for judicator in judicators), what="a leader")
    people = world.client(timeout=30.0)
    executor = world.executor(slots=20)
    executor.report(vacant=0)
    people.call("webhook_add", WebhookAdd(name="h", url=receiver.url), WebhookAdded)
    receiver.answer = lambda number, call: 500 if number % 3 == 0 else 204
    tasks = []
    for _ in range(2):
        tasks += judge(people, executor, *["AC"] * 40)
        leader = wait_for(
            lambda: next((judicator for judicator in world.judicators if judicator.judicator.lead.leading), None)
        )
        world.judicators.remove(leader)
        leader.stop()
        tasks += judge(people, executor, *["WA"] * 10)
    wait_for(lambda: world.judicators[0].judicator.lead.leading, what="the last leader")

    def over():
        hurry(world, tries={"$gt": 0})
        return {call.json["data"]["id"] for call in receiver.successes()} >= set(tasks)

    wait_for(over, what="a call for each verdict")
    counts = Counter(call.json["data"]["id"] for call in receiver.successes())
    assert set(counts) == set(tasks)


def test_a_log_that_does_not_reach_back(world, receiver):
    """What has finished since the place that is lost is told, also when it may have been told already."""
    first = world.judicator("j1", **HOOKS)
    people = world.client(timeout=30.0)
    executor = world.executor(slots=4)
    executor.report(vacant=0)
    people.call("webhook_add", WebhookAdd(name="h", url=receiver.url), WebhookAdded)
    tasks = set(judge(people, executor, "AC", "WA"))
    wait_for(lambda: {call.json["data"]["id"] for call in receiver.successes()} == tasks, what="the first calls")
    first.stop()
    world.judicators.remove(first)
    world.db.deliveries.delete_many({})
    world.db.meta.update_one({"_id": POSITION}, {"$set": {"token": None, "since": Timestamp(1, 1)}})
    second = world.judicator("j2", **HOOKS)
    wait_for(lambda: len(receiver.successes()) == 4, what="calls about what has finished")
    tasks |= set(judge(people, executor, "RTE"))
    wait_for(lambda: len(receiver.successes()) == 5, what="the stream again")
    assert {call.json["data"]["id"] for call in receiver.successes()} == tasks
    # As where the log has been cut off, with a webhook that was added after all that.
    later = {"_id": "later", "since": Timestamp(int(time.time()) + 3600, 1)}
    world.db.webhooks.insert_one({**world.db.webhooks.find_one({"_id": "h"}), **later})
    world.db.deliveries.delete_many({})
    second.do(second.judicator.outbox.catch_up())
    assert Counter(doc["hook"] for doc in world.db.deliveries.find()) == {"h": 3}


class CutReader:
    """Reads submissions until the database has another primary."""

    def __init__(self, reader, reads):
        self.reader, self.reads = reader, reads

    async def get(self, *query):
        self.reads -= 1
        if self.reads < 0:
            raise NotPrimaryError("not primary")
        return await self.reader.get(*query)


def test_a_catch_up_that_is_cut_off_is_begun_again(world, receiver):
    """The place in the log is written after the deliveries that it covers: the next leader finds the old place."""
    first = world.judicator("j1", **HOOKS)
    people = world.client(timeout=30.0)
    executor = world.executor(slots=10)
    executor.report(vacant=0)
    people.call("webhook_add", WebhookAdd(name="h", url=receiver.url), WebhookAdded)
    tasks = judge(people, executor, *["AC"] * 9, "WA")
    rejudging = start(people, ids=[tasks[-1]])
    rejudge(executor, {"int main(){} // 9": "AC"})
    apply(people, rejudging.id)
    wait_for(lambda: len(receiver.successes()) >= 11, what="the calls")
    first.stop()
    world.judicators.remove(first)
    # The submissions ended, and the rejudging's run was judged, long before the place; it was applied after it.
    early = clock.wall() - datetime.timedelta(hours=2)
    world.db.tasks.update_many({"_id": ObjectId(tasks[-1])}, {"$set": {"finished": early}})
    world.db.deliveries.delete_many({})
    position = {"token": None, "since": Timestamp(1, 1), "at": clock.wall() - datetime.timedelta(hours=1)}
    world.db.meta.update_one({"_id": POSITION}, {"$set": position})
    was = world.db.meta.find_one({"_id": POSITION})
    idle = world.judicator("j2", **HOOKS)
    outbox = Outbox(idle.judicator.database, CutReader(idle.judicator.outbox._reader, 4), lambda: None)
    with pytest.raises(NotPrimaryError):
        idle.do(outbox.catch_up())
    place = world.db.meta.find_one({"_id": POSITION})
    assert place == was or place["at"] > was["at"], "this one's catch-up has not moved it"
    idle.do(idle.judicator.outbox.catch_up())
    events = {(str(doc["task"]), doc["event"]) for doc in world.db.deliveries.find()}
    assert events == {(task, "submission.finished") for task in tasks[:-1]} | {(tasks[-1], "submission.rejudged")}


def test_a_delivery_that_no_majority_has_is_not_taken_as_written(shared, people, executor):
    """Two members must confirm it, and there is one: the insert itself reports no error."""
    (task,) = judge(people, executor, "AC")
    judicator = shared.judicators[0].judicator
    strict = WriteConcern(w=2, wtimeout=200)
    database = Database(judicator.database.client, judicator.database.raw.name)
    database.deliveries = database.deliveries.with_options(write_concern=strict)
    outbox = Outbox(database, judicator.outbox._reader, lambda: None)
    with stored_webhook(shared, "strict"):
        for _ in range(2):  # the second time each of them is a duplicate as well
            with pytest.raises(BulkWriteError) as caught:
                shared.judicators[0].do(outbox.handle(end_of(task, 10**6)))
            assert isinstance(translate(caught.value), OutcomeUnknownError)


@contextlib.contextmanager
def stored_webhook(world, name):
    """A webhook that no judicator has added."""
    doc = {"_id": name, "url": "http://127.0.0.1:9/", "events": ["submission.finished"], "secret": "s"}
    world.db.webhooks.insert_one({**doc, "user": None, "problem": None, "created": clock.wall()})
    try:
        yield
    finally:
        world.db.webhooks.delete_one({"_id": name})
        world.db.deliveries.delete_many({"hook": name})


def end_of(task, version):
    """What the change stream says of a submission that has ended."""
    key = {"_id": ObjectId(task)}
    return {"done": True, "clusterTime": Timestamp(2**31, 1), "documentKey": key, "version": version}


class LaggingHooks:
    """The webhooks as a new primary shows them: none until a majority has confirmed all that it has."""

    def __init__(self, database):
        self.hooks, self.caught_up = database.webhooks, False
        self.latest = database.latest
        database.webhooks, database.latest = self, self.confirm

    async def confirm(self, *query):
        self.caught_up = True
        return await self.latest(*query)

    async def find_one(self, *query):
        return await self.hooks.find_one(*query) if self.caught_up else None

    def find(self, query):
        return self.hooks.find(query if self.caught_up else {"_id": "absent"})


def test_a_new_primary_that_shows_no_webhooks_yet_loses_no_delivery(shared, people, executor):
    """The place in the log stays, and the deliveries are written."""
    (task,) = judge(people, executor, "AC")
    judicator = shared.judicators[0].judicator
    # The leader's own outbox may find the same end: by its version it is the same delivery.
    version = shared.db.tasks.find_one({"_id": ObjectId(task)})["version"]

    def outbox():
        database = Database(judicator.database.client, judicator.database.raw.name)
        LaggingHooks(database)
        return Outbox(database, judicator.outbox._reader, lambda: None)

    with stored_webhook(shared, "late"):
        assert shared.judicators[0].do(outbox().move_on()) is False
        shared.judicators[0].do(outbox().handle(end_of(task, version)))
        assert shared.db.deliveries.count_documents({"hook": "late", "task": ObjectId(task)}) == 1


def test_a_webhook_is_told_of_what_ends_after_it_was_added(shared, people, executor, receiver):
    """While there is none the place in the log moves on by itself, some seconds late; what ends later is told."""
    assert people.call("webhooks", m.Empty(), WebhooksReply).webhooks == []

    def place():
        return shared.db.meta.find_one({"_id": POSITION})

    judge(people, executor, "AC")
    before = wait_for(place, what="a leader's place")
    wait_for(lambda: place()["at"] > before["at"], what="a place that moves on")
    judge(people, executor, "WA")
    with webhook(people, "late", receiver.url):
        (task,) = judge(people, executor, "AC")
        wait_for(receiver.successes, what="a call")
        assert [call.json["data"]["id"] for call in receiver.calls] == [task]


def test_a_delivery_of_an_earlier_webhook_of_the_name_is_not_sent(shared, people, receiver):
    """A delivery may come into the database just after its webhook was removed."""
    then = clock.wall() - datetime.timedelta(minutes=1)
    stale = delivery("again", "again/left", "submission.finished", "{}", then)
    shared.db.deliveries.insert_one({**stale, "_id": ObjectId.from_datetime(then)})
    with webhook(people, "again", receiver.url):
        people.call("webhook_ping", WebhookRef(name="again"), Delivery)
        wait_for(receiver.successes, what="a call")
        assert [call.json.get("type") for call in receiver.calls] == ["ping"]
        people.call("webhook_add", WebhookAdd(name="again", url=receiver.url), WebhookAdded)
        assert [item.event for item in deliveries(people, webhook="again")] == ["ping"], "a change loses nothing"
