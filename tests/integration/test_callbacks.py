"""Callbacks of Judge0's API at the judicators: tried again, through fail-over, once for each submission."""

import contextlib
import datetime
import json
import socket
import threading
import time

import pytest

from judge.common.errors import FieldError
from judge.judge0.tokens import token_of
from judge.model import messages as m
from judge.model.webhooks import Delivery, WebhookAdd, WebhookAdded, WebhookRef
from tests.support.judicators import FAST, accepted, act, judge, rejudge, show, source, start
from tests.support.receivers import HOOKS, telling
from tests.support.servers import wait_for


@pytest.fixture(scope="module")
def shared(tmp_path_factory, etcd_endpoint, mongod_address):
    with telling(tmp_path_factory.mktemp("world"), etcd_endpoint, mongod_address) as world:
        yield world


@pytest.fixture(scope="module")
def executor(shared):
    executor = shared.executor(slots=8)
    executor.report(vacant=0)
    return executor


@pytest.fixture
def people(shared):
    return shared.client(timeout=30.0)


def callback(url):
    return {"told": {"callback_url": url}}


def due(world):
    return list(world.db.tasks.find({"callback": {"$exists": True}}))


def hurry(world):
    """Whatever waits for its next try is due now."""
    world.db.tasks.update_many(
        {"callback": {"$exists": True}}, {"$min": {"callback": world.db.command("hello")["localTime"]}}
    )


def test_a_verdict_is_called_back_once_whatever_a_rejudging_brings(shared, people, executor, receiver):
    (task,) = judge(people, executor, "WA", **callback(receiver.url))
    wait_for(lambda: not due(shared), what="the callback")
    rejudging = start(people, ids=[task])
    rejudge(executor, {"int main(){} // 0": "AC"})
    wait_for(lambda: show(people, rejudging.id).state == "finished", what="a finished rejudging")
    act(people, "apply", rejudging.id)
    (newer,) = judge(people, executor, "AC", **callback(receiver.url))
    wait_for(lambda: not due(shared), what="the other callback")
    assert [(call.json["token"], call.json["status"]["id"]) for call in receiver.calls] == [
        (token_of(task), 4),
        (token_of(newer), 3),
    ]


def test_a_waiting_submission_is_not_called_back(shared, people, executor, receiver):
    task = people.call("add", source(**callback(receiver.url)), m.AddReply).task.id
    (assignment,) = executor.report(vacant=1).add
    assert assignment.submission.told == {}, "executors need no address"
    assert len(due(shared)) == 1 and not receiver.calls
    executor.report(accepted(assignment), vacant=0)
    wait_for(lambda: receiver.calls, what="the callback")
    assert (receiver.calls[0].method, receiver.calls[0].json["token"]) == ("PUT", token_of(task))
    wait_for(lambda: not due(shared), what="the note of it")


def test_errors_are_tried_again_by_whoever_leads(shared, people, executor, receiver):
    receiver.answer = lambda number, _: (503, {"Retry-After": "3600" if number == 1 else "1"}) if number < 3 else 200
    judge(people, executor, "AC", **callback(receiver.url))
    wait_for(lambda: receiver.calls and due(shared)[0]["callback_tries"] == 1, what="the first try")
    first = shared.judicators[0]
    second = shared.judicator("j2", **HOOKS)
    first.stop()
    wait_for(lambda: second.judicator.lead.leading, what="another leader")

    def over():
        hurry(shared)
        return not due(shared)

    wait_for(over, what="the callback")
    assert [call.status for call in receiver.calls] == [503, 503, 200]
    assert len({call.body for call in receiver.calls}) == 1
    assert "callback_tries" not in shared.db.tasks.find_one({"done": True}, sort=[("_id", -1)])


@pytest.mark.parametrize("users", [1, 2, 5])
def test_users_with_many_names_of_a_slow_receiver_keep_nobody_waiting(shared, people, executor, receiver, users):
    """Of a user's calls so many are under way at once, whatever hosts they go to; others are told meanwhile."""
    with socket.create_server(("", 0), backlog=64) as slow:
        connections: list[socket.socket] = []

        def hold() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connections.append(slow.accept()[0])

        holding = threading.Thread(target=hold, daemon=True)
        holding.start()
        port = slow.getsockname()[1]
        for number in range(40 if users == 1 else 20 * users):
            url = f"http://127.0.{1 + number // users}.{number % 200 + 1}:{port}/"
            judge(people, executor, "AC", user=f"eve{number % users}", **callback(url))
        fewest, limit = {1: (16, 16), 2: (32, 32), 5: (50, 63)}[users]
        wait_for(lambda: len(connections) >= fewest, what="as many as are under way at once")
        (task,) = judge(people, executor, "AC", user="bob", **callback(receiver.url))
        wait_for(lambda: receiver.calls, what="the callback of somebody else")
        assert json.loads(receiver.calls[0].body)["token"] == token_of(task)
        assert fewest <= len(connections) <= limit, "all of the slow receiver's are held still"
        shared.db.tasks.update_many({}, {"$unset": {"callback": ""}})
        slow.shutdown(socket.SHUT_RDWR)
        for connection in connections:
            connection.close()


def test_a_receiver_that_fails_is_called_for_one_submission_at_a_time(shared, people, executor, receiver):
    """Nothing is written about the callbacks that wait for it, another user's at the same host goes out."""
    receiver.answer = lambda _, call: 503 if call.path == "/dead" else 200
    dead = receiver.url.replace("/hook", "/dead")
    judge(people, executor, *["AC"] * 40, user="eve", **callback(dead))
    wait_for(lambda: len(receiver.calls) >= 3, what="a few calls")
    judge(people, executor, "AC", user="bob", **callback(receiver.url))
    wait_for(lambda: any(call.path == "/hook" for call in receiver.calls), what="the other user's callback")
    before, calls = shared.db.command("serverStatus"), len(receiver.calls)
    time.sleep(3)
    after = shared.db.command("serverStatus")
    tries = len(receiver.calls) - calls
    assert tries <= 3, "each pause is longer than the last one"
    assert updates(after) - updates(before) <= 45, "what waits is not written again and again"
    # What was not tried for long is given up; the receiver's return is noticed by the next call.
    long_ago = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    untried = {"callback": {"$exists": True}, "callback_tries": {"$exists": False}}
    assert shared.db.tasks.update_many(untried, {"$min": {"callback": long_ago}}).modified_count >= 10
    wait_for(lambda: len(due(shared)) < 30, what="that the others are given up")
    shared.db.tasks.update_many({}, {"$unset": {"callback": "", "callback_host": ""}})


def updates(status):
    """Updates and finds-and-modifies of documents so far."""
    return status["metrics"]["document"]["updated"]


def test_private_addresses_are_not_called(shared, people, executor, receiver):
    with pytest.raises(FieldError) as refused:
        people.call("add", source(**callback("http://10.0.0.1/")), m.AddReply)
    assert refused.value.field == "callback_url"
    (task,) = judge(people, executor, "AC", **callback(f"http://localhost:{receiver.port}/"))
    wait_for(lambda: not due(shared), what="a name of an allowed network")
    assert json.loads(receiver.calls[0].body)["token"] == token_of(task)


SPELLINGS = [
    *("127.0.0.1", "localhost", "localhost.", "127.1", "0", "0.0.0.0", "2130706433", "0x7f000001", "0177.0.0.1"),
    *("0x7f.1", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[0:0:0:0:0:ffff:7f00:1]"),
]  # fmt: skip


def test_networks_of_webhooks_are_not_those_of_callbacks(world, receiver):
    """An admin's webhook may call this machine, as in `judge up`; no user has it called, however they write it."""
    world.judicator(**FAST, webhooks={"networks": ["127.0.0.0/8", "::1/128"]})
    people, executor = world.client(timeout=30.0), world.executor(slots=1)
    executor.report(vacant=0)
    accepted_count = 0
    for host in SPELLINGS:
        with contextlib.suppress(FieldError):
            judge(people, executor, "AC", **callback(f"http://{host}:{receiver.port}/"))
            accepted_count += 1  # a name, or a spelling that the resolver reads: it is looked at when it is called
    people.call("webhook_add", WebhookAdd(name="mine", url=receiver.url), WebhookAdded)
    people.call("webhook_ping", WebhookRef(name="mine"), Delivery)
    wait_for(lambda: receiver.calls, what="the admin's call")
    assert accepted_count
    wait_for(lambda: all(doc.get("callback_tries") for doc in due(world)), what="a try of each")
    assert {call.json["type"] for call in receiver.calls} == {"ping"}


def test_a_name_is_resolved_when_it_is_called(world, receiver):
    world.judicator(**FAST)
    judge(world.client(), world.executor(), "AC", **callback(f"http://localhost:{receiver.port}/"))
    wait_for(lambda: hurry(world) or due(world)[0].get("callback_tries", 0) >= 3, what="tries")
    assert not receiver.calls
