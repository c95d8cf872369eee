"""Server-sent events: one submission, one's own, all; gone on after a break and at another judicator; no threads."""

import asyncio
import contextlib
import datetime
import functools
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx
import pytest
from bson import ObjectId, Timestamp

from judge.judicator.events.streaming import ChangeLog, Numbering, end_of, place, position, too_old
from judge.model import messages as m
from judge.model import streaming as m_streaming
from tests.support.gateway import ADMIN, OTHER, PEOPLE, USER, connect, make_config, running_gateway, write_tokens
from tests.support.judicators import FAST, World, judge, rejudge, source
from tests.support.servers import wait_for

THREADS = 2


@pytest.fixture(scope="module")
def world(tmp_path_factory, etcd_endpoint, mongod_address):
    world = World(tmp_path_factory.mktemp("world"), etcd_endpoint, mongod_address)
    world.judicator("j1", **FAST)
    world.judicator("j2", **FAST)
    yield world
    world.close()


@pytest.fixture(scope="module")
def settings(world, tmp_path_factory):
    directory = tmp_path_factory.mktemp("gw")
    return make_config(directory, world.etcd_config, world.tls("gateway-1", "gateway"), threads=THREADS, processes=1)


@pytest.fixture(scope="module")
def address(settings):
    with running_gateway(settings, settings.run_dir.parent) as url:
        yield f"{url}/api/v1"


@pytest.fixture(scope="module")
def elsewhere(world, tmp_path_factory):
    """The address of another gateway of the same cluster."""
    directory = tmp_path_factory.mktemp("gw2")
    tls = world.tls("gateway-2", "gateway")
    settings = make_config(directory, world.etcd_config, tls, name="gateway-2", threads=THREADS, processes=1)
    with running_gateway(settings, directory) as url:
        yield f"{url}/api/v1"


@pytest.fixture(scope="module")
def people(world):
    return world.client(timeout=30.0)


@pytest.fixture(scope="module")
def executor(world):
    executor = world.executor(slots=8)
    executor.report(vacant=0)
    return executor


@dataclass
class Listening:
    """What a listener has heard."""

    status: int = 0
    events: list[tuple[str, str, dict]] = field(default_factory=list)
    begin: str = ""
    ended: bool = False
    headers: httpx.Headers = field(default_factory=httpx.Headers)
    odd: list[str] = field(default_factory=list)

    def ends(self, tasks: set[str]) -> bool:
        """Whether the verdicts of these submissions have come."""
        return {data["submission"] for _, _, data in self.events if data.get("done")} >= tasks

    def statuses(self, task: str) -> list[str]:
        return [data["status"] for _, _, data in self.events if data.get("submission") == task]


def _read(response: httpx.Response, into: Listening) -> None:
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line:
            name, _, value = line.partition(":")
            if name not in {"", "id", "event", "data", "retry"}:
                into.odd.append(line)
            fields[name] = value.removeprefix(" ")
        elif fields:
            if fields["event"] == "begin":
                into.begin = fields["id"]
            else:
                into.events.append((fields.get("id", ""), fields.get("event", ""), json.loads(fields["data"])))
            fields = {}


@contextlib.contextmanager
def listening(address: str, path: str, token: str = USER, cookie: str = "", **headers: str) -> Iterator[Listening]:
    """Somebody who listens in a thread, for the length of a `with`; with a session's cookie in place of a token."""
    listener = Listening()
    headers |= {"Cookie": f"judge={cookie}"} if cookie else {"Authorization": f"Bearer {token}"}
    with (
        httpx.Client(trust_env=False, timeout=httpx.Timeout(30)) as client,
        client.stream("GET", address + path, headers=headers) as answer,
    ):
        listener.status, listener.headers = answer.status_code, answer.headers

        def run() -> None:
            with contextlib.suppress(httpx.HTTPError, RuntimeError):
                _read(answer, listener)
            listener.ended = True

        thread = threading.Thread(target=run)
        thread.start()
        yield listener
        with contextlib.suppress(OSError):
            answer.extensions["network_stream"].get_extra_info("socket").shutdown(2)
        thread.join(20)


def test_one_submission_until_its_verdict(address, people, executor):
    task = people.call("add", source("int main(){}", user="ada"), m.AddReply).task
    with listening(address, f"/submissions/{task.id}/events") as listener:
        assert (listener.status, listener.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert "x-judge-listen" not in listener.headers and "content-length" not in listener.headers
        wait_for(lambda: listener.events, what="the submission as it is")
        assert listener.statuses(task.id) == ["pending"]
        rejudge(executor, {task.id: "AC"}, by_rerun=False)
        wait_for(lambda: listener.ended, what="the end of the stream")
    assert listener.statuses(task.id)[-1] == "success" and listener.events[-1][2]["verdict"] == "AC"
    versions = [int(number) for number, _, _ in listener.events]
    assert versions == sorted(set(versions))
    # Gone on: from an older event what is missing, from the last one nothing, which tells a browser to stop.
    with listening(address, f"/submissions/{task.id}/events", **{"Last-Event-ID": "0"}) as again:
        wait_for(lambda: again.ended, what="the end of the stream")
    assert [data["verdict"] for _, _, data in again.events] == ["AC"]
    with listening(address, f"/submissions/{task.id}/events?after={versions[-1]}") as over:
        assert over.status == 204


def test_a_user_hears_of_own_submissions_and_an_admin_of_all(address, people, executor):
    with (
        listening(address, "/events") as ada,
        listening(address, "/events", OTHER) as bob,
        listening(address, "/events", ADMIN) as root,
        listening(address, "/events?user=bob", ADMIN) as about,
    ):
        assert {listener.status for listener in (ada, bob, root, about)} == {200}
        (ada_task,) = judge(people, executor, "WA", user="ada")
        (two,) = judge(people, executor, "AC", user="bob")
        for listener, tasks in ((ada, {ada_task}), (bob, {two}), (root, {ada_task, two}), (about, {two})):
            wait_for(functools.partial(listener.ends, tasks), what="verdicts")
            assert {data["submission"] for _, _, data in listener.events} == tasks


def test_runs_of_imports_are_sent_on_demand(address, people, executor):
    with listening(address, "/events", ADMIN) as some, listening(address, "/events?system=true", ADMIN) as every:
        tasks = [judge(people, executor, "AC", role="judge", cause=cause)[0] for cause in ("import", "verification")]
        wait_for(lambda: every.ends({*tasks}) and some.ends({tasks[1]}), what="verdicts")
    assert {data["submission"]: data["cause"] for _, _, data in some.events} == {tasks[1]: "verification"}
    with listening(address, f"/events?after={some.begin}", ADMIN) as again:
        wait_for(lambda: again.ends({tasks[1]}), what="the verdict, once more")
    assert {data["submission"] for _, _, data in again.events} == {tasks[1]}


def test_forbidden_streams_are_refused(address, people):
    task = people.call("add", source("int main(){}", user="ada"), m.AddReply).task.id
    people.call("cancel", m.TaskRef(id=task), m.Task)
    with httpx.Client(trust_env=False, headers={"Authorization": f"Bearer {OTHER}"}) as bob:
        for path, status in (
            (f"/submissions/{task}/events", 404), ("/events?user=ada", 403), ("/events?after=x", 400),
            (f"/submissions/{task}/events?after=x", 404),
        ):  # fmt: skip
            assert bob.get(address + path).status_code == status, path
        assert bob.head(address + "/events").status_code == 200, "no stream for who asks for the head alone"
    assert httpx.get(address + "/events", trust_env=False).status_code == 401


def test_going_on_after_a_break(address, elsewhere, people, executor):
    """Whoever comes back, to another gateway, hears what has happened meanwhile, each once."""
    with listening(address, "/events", ADMIN) as first:
        (task,) = judge(people, executor, "AC", user="ada")
        wait_for(lambda: "success" in first.statuses(task), what="the verdict")
    last = first.events[-1][0]
    missed = judge(people, executor, "AC", "WA", user="ada")
    with listening(elsewhere, "/events", ADMIN, **{"Last-Event-ID": last}) as second:
        (new,) = judge(people, executor, "AC", user="ada")
        wait_for(lambda: "success" in second.statuses(new), what="the newest verdict")
    assert {data["submission"] for _, _, data in second.events} == {*missed, new}
    ids = [tuple(map(int, number.split("-"))) for number, _, _ in second.events]
    assert ids == sorted(set(ids)) and ids[0] > tuple(map(int, last.split("-")))


def opened(address: str) -> socket.socket:
    """A stream whose client reads no more than its beginning; listeners who hung up give their places back by then."""
    url = httpx.URL(address)

    def come() -> socket.socket | None:
        connection = connect((url.host, url.port or 80))
        connection.sendall(
            f"GET {url.path}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {USER}\r\n\r\n".encode()
        )
        received = b""
        while b"event: begin" not in received and (piece := connection.recv(4096)):
            received += piece
        if received.startswith(b"HTTP/1.1 200 "):
            return connection
        connection.close()
        assert received.startswith(b"HTTP/1.1 429 "), received
        return None

    listener = wait_for(come, what="a place")
    assert listener is not None
    return listener


@pytest.mark.parametrize("ending", ["an end", "a reset"])
def test_a_closed_stream_frees_its_place(address, people, executor, ending):
    """At once: who tries again and again had used up fifty places in the half minute until that was noticed."""
    for _ in range(2):
        for connection in [opened(address) for _ in range(50)]:
            if ending == "a reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()


def test_listeners_hold_no_thread_and_the_api_answers(address, people, executor):
    """Many more listeners than threads; all hear, and others are served meanwhile."""
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(listening(address, "/events", ADMIN)) for _ in range(10 * THREADS)]
        began = time.monotonic()
        for _ in range(5):
            assert (
                httpx.get(address + "/whoami", headers={"Authorization": f"Bearer {USER}"}, trust_env=False).status_code
                == 200
            )
        assert time.monotonic() - began < 10
        (task,) = judge(people, executor, "AC")
        wait_for(
            lambda: all("success" in listener.statuses(task) for listener in listeners), what="the verdict everywhere"
        )


def csrf_of(browser: httpx.Client, path: str) -> str:
    return re.search(r'name="csrf" value="([^"]+)"', browser.get(path).text)[1]


def log_out(browser: httpx.Client) -> None:
    assert browser.post("/logout", data={"csrf": csrf_of(browser, "/me")}).status_code == 303


@dataclass
class Root:
    """An admin, and whoever they let in."""

    address: str
    http: httpx.Client
    stack: contextlib.ExitStack

    def __call__(self, method: str, path: str, **body: object) -> dict:
        answer = self.http.request(method, self.address + path, **({"json": body} if body else {}))
        assert answer.status_code < 300, answer.text
        return answer.json()

    def add(self, name: str, role: str = "user") -> str:
        self("POST", "/users", name=name, role=role)
        return name

    def token(self, name: str, **body: object) -> dict:
        return self("POST", "/tokens", user=name, **{"scopes": ["read"], **body})

    def session(self, token: str) -> httpx.Client:
        """A browser of somebody who has logged in."""
        browser = self.stack.enter_context(httpx.Client(trust_env=False, base_url=self.address.removesuffix("/api/v1")))
        assert browser.post("/login", data={"token": token, "csrf": csrf_of(browser, "/login")}).status_code == 303
        return browser


@pytest.fixture(scope="module")
def root(address):
    with contextlib.ExitStack() as stack:
        http = stack.enter_context(httpx.Client(trust_env=False, headers={"Authorization": f"Bearer {ADMIN}"}))
        yield Root(address, http, stack)


def test_a_stream_ends_with_its_permission(address, settings, root, people, executor):
    """Each way in and each end of it: docs/people.md says two seconds."""
    for name in ("off", "off2", "revoked", "bound", "out", "fading", "eve"):
        root.add(name)
    root.add("fallen", "admin")
    root.add("listed")
    ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=6)
    tokens = {
        "revoked": root.token("revoked"),
        "bound": root.token("bound", scopes=["read", "account"]),
        "fading": root.token("fading", expires=ends.isoformat()),
        "fallen": root.token("fallen", scopes=["admin"]),
        **{name: root.token(name) for name in ("off", "off2", "out", "eve")},
    }
    descendant = httpx.post(
        f"{address}/tokens", json={"scopes": ["read"]}, headers=bearer(tokens["bound"]["token"]), trust_env=False
    ).json()
    write_tokens(settings.tokens, [*PEOPLE, ("gone", "user", "gone-token"), ("listed", "user", "listed-token")])
    browsers = {name: root.session(tokens[name]["token"]) for name in ("off2", "out")}

    acts = {
        "off": lambda: root("PUT", "/users/off", disabled=True),
        "off2": lambda: root("PUT", "/users/off2", disabled=True),
        "revoked": lambda: root("DELETE", f"/tokens/{tokens['revoked']['id']}"),
        "bound": lambda: root("DELETE", f"/tokens/{tokens['bound']['id']}"),
        "fading": lambda: None,
        "fallen": lambda: root("PUT", "/users/fallen", role="user"),
        "out": lambda: log_out(browsers["out"]),
        "listed": lambda: root("PUT", "/users/listed", disabled=True),
        "gone": lambda: write_tokens(settings.tokens, [*PEOPLE, ("listed", "user", "listed-token")]),
    }
    with contextlib.ExitStack() as stack:

        def listens(name: str, token: str = "", cookie: str = "") -> Listening:
            listener = stack.enter_context(listening(address, "/events", token or tokens[name]["token"], cookie))
            assert listener.status == 200, name
            return listener

        listeners = {
            **{name: listens(name) for name in ("off", "revoked", "fading", "fallen")},
            **{name: listens(name, cookie=browsers[name].cookies["judge"]) for name in ("off2", "out")},
            "bound": listens("bound", descendant["token"]),
            "gone": listens("gone", "gone-token"),
            "listed": listens("listed", "listed-token"),
        }
        stays = [listens("eve"), listens("root", ADMIN)]
        for name, act in acts.items():
            act()
            wait_for(lambda name=name: listeners[name].ended, 10 if name == "fading" else 4, what=f"the end of {name}")
        assert not [listener for listener in stays if listener.ended]
        (task,) = judge(people, executor, "AC", user="eve")
        wait_for(lambda: all(listener.ends({task}) for listener in stays), what="the verdict")
    assert not [name for name, listener in listeners.items() if listener.events]


# Two seconds in which every gateway hears of it; a question under way, and this machine, may take a little longer.
WITHIN = 2.5


@pytest.mark.parametrize("event", ["disabled", "revoked", "logged out"])
def test_a_lost_login_ends_at_every_gateway_within_two_seconds(event, address, elsewhere, root):
    """By requests, which come all the time, and by open streams, alike."""
    name = root.add(f"out-{event.replace(' ', '-')}")
    token = root.token(name)
    browser = root.session(token["token"]) if event == "logged out" else None
    came_with = {"cookie": browser.cookies["judge"]} if browser else {"token": token["token"]}
    headers = {"Cookie": f"judge={browser.cookies['judge']}"} if browser else bearer(token["token"])
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(listening(gateway, "/events", **came_with)) for gateway in (address, elsewhere)]
        http = stack.enter_context(httpx.Client(trust_env=False, headers=headers))

        def statuses() -> set[int]:
            return {http.get(f"{gateway}/whoami").status_code for gateway in (address, elsewhere)}

        for _ in range(20):  # their answers are of different ages
            assert statuses() == {200}
            time.sleep(0.1)
        assert not any(stream.ended for stream in streams)
        if event == "disabled":
            root("PUT", f"/users/{name}", disabled=True)
        elif event == "revoked":
            root("DELETE", f"/tokens/{token['id']}")
        else:
            log_out(browser)
        began = time.monotonic()
        wait_for(lambda: statuses() == {401} and all(stream.ended for stream in streams), what=f"the end of {name}")
        assert time.monotonic() - began < WITHIN


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    ("place", "events"), [("0-0", ["lost"]), ("1000000000-1", ["lost"]), ("9999999999-9999999999", [])]
)
def test_a_place_that_nobody_was_given_spoils_no_stream(address, people, executor, place, events):
    """It says that it cannot go on from there; a stream never has half of another answer in it."""
    with listening(address, "/events", OTHER, **{"Last-Event-ID": place}) as listener:
        assert listener.status == 200
        wait_for(lambda: [name for _, name, _ in listener.events] == events, what="that it does not reach back so far")
        (task,) = judge(people, executor, "AC", user="bob")
        if events:
            wait_for(lambda: listener.ends({task}), what="what happens from now on")
    assert not listener.odd


@pytest.mark.parametrize(("seconds", "too_far"), [(0, False), (3600, False), (3601, True), (1_800_000_000, True)])
def test_the_log_is_read_for_an_hour_back(seconds, too_far):
    begin = (1_800_000_000, 5, 0)
    assert too_old((begin[0] - seconds, 1, 0), begin) is too_far


def test_positions_of_one_time_are_told_apart():
    numbering = Numbering()
    times = [Timestamp(5, 1)] * 3 + [Timestamp(5, 2)] * 2 + [Timestamp(6, 1)]
    positions = [numbering.of(moment) for moment in times]
    assert positions == [(5, 1, 0), (5, 1, 1), (5, 1, 2), (5, 2, 0), (5, 2, 1), (6, 1, 0)] == sorted(positions)
    assert [position(place(numbered)) for numbered in positions] == positions
    assert position("5-1") == end_of(Timestamp(5, 1)) and positions[2] < position("5-1") < positions[3]
    assert position("9999999999-9999999999-9999999999") == (2**32 - 1,) * 3


@pytest.mark.parametrize("user", [None, "ada"])
def test_changes_of_one_time_are_never_cut_apart(world, people, executor, user):
    """A transaction gives all of its changes one time, as MongoDB 8 does for each insert of several documents."""
    (task,) = judge(people, executor, "AC")
    first, second = world.judicators[:2]
    changes, second_changes = first.judicator.changes, second.judicator.changes

    def ask(log, **fields):
        running = first if log is changes else second
        return running.do(log.read(m_streaming.ChangesRequest(user=user, **fields)))

    begin = ask(changes).place
    doc = world.db.tasks.find_one({"_id": ObjectId(task)})
    doc.pop("key", None)
    docs = [{**doc, "_id": ObjectId(), "user": "ada" if number % 3 else "eve"} for number in range(64)]
    expected = [str(doc["_id"]) for doc in docs if user in {None, doc["user"]}]
    stored = {str(doc["_id"]) for doc in docs}  # the change of what was judged before may come late
    with world.db.client.start_session() as session, session.start_transaction():
        world.db.tasks.insert_many(docs, session=session)
    fresh = ChangeLog(second_changes._db)  # it reads them from the database's log
    following = asyncio.run_coroutine_threadsafe(fresh.run(), second.loop)
    time.sleep(1)
    for log in (changes, fresh):
        for limit in (1, 7, 40, 1000):
            received, at = [], begin
            for _ in range(80):
                reply = ask(log, after=at, limit=limit, wait=0.2)
                assert position(at) <= position(reply.place) and not reply.lost
                at = reply.place
                received += [change.submission for change in reply.changes if change.submission in stored]
                if len(received) >= len(expected):
                    break
            assert received == expected, (log is changes, limit)
    # Who goes on at the other judicator, inside the time, hears the rest and nothing twice.
    part = ask(changes, after=begin, limit=20)
    remainder = ask(fresh, after=part.place, limit=1000)
    heard_by_both = [change.submission for change in [*part.changes, *remainder.changes]]
    assert [task for task in heard_by_both if task in stored][: len(expected)] == expected
    following.cancel()
    world.db.tasks.delete_many({"_id": {"$in": [doc["_id"] for doc in docs]}})


def test_a_judicator_dies(address, world, people, executor):
    """The stream goes on at another one; nothing is missing and nothing comes twice."""
    with listening(address, "/events", ADMIN) as listener:
        tasks = judge(people, executor, "AC", user="ada")
        wait_for(lambda: "success" in listener.statuses(tasks[0]), what="the first verdict")
        first = world.judicators.pop(0)
        first.stop()
        tasks += judge(people, executor, "AC", "AC", user="ada")
        wait_for(lambda: all("success" in listener.statuses(task) for task in tasks), what="the verdicts")
    versions = [(data["submission"], data["version"]) for _, _, data in listener.events]
    assert len(versions) == len(set(versions))
