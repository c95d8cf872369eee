"""The wire: mutual TLS, roles, identity, bad input, blobs, failover. Real judicators, and sockets that misbehave."""

import asyncio
import contextlib
import gc
import hashlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from bson import ObjectId
from pymongo.errors import AutoReconnect

from judge.common.errors import (
    DeadlineError,
    FieldError,
    ForbiddenError,
    JudgeError,
    NotFoundError,
    OutcomeUnknownError,
    RefusedError,
    TooLargeError,
    UnavailableError,
)
from judge.common.pki.refused import DOCUMENT
from judge.config import SubmissionLimits
from judge.judicator.coroutines import to_completion
from judge.judicator.dispatch import Entry
from judge.model import messages as m
from judge.model.audit import AuditQuery, AuditReply, By
from judge.model.messages import BlobsMissing, BlobsWanted
from judge.model.problem import ProblemImport, ProblemInfo, ProblemsReply
from judge.model.several import OneCall, Outcomes, SeveralAdds
from judge.rpc import packs, pki
from judge.rpc.client import RpcClient, error_from
from judge.rpc.methods import BLOB_ROLES, METHODS
from judge.rpc.server import Server
from tests.support.etcd import ROLES
from tests.support.judicators import World, accepted, source, waiters
from tests.support.servers import Acceptor, wait_for


@pytest.fixture
def world(tmp_path: Path, etcd_endpoint: str, mongod_address: str) -> Iterator[World]:
    world = World(tmp_path, etcd_endpoint, mongod_address)
    world.judicator(limits=SubmissionLimits(blob_bytes=1_000_000, body_bytes=100_000))
    yield world
    world.close()


def raw(
    world: World, verb: str, path: str, body: bytes = b"", *, name: str = "gw", role: str = "gateway"
) -> tuple[int, dict[str, str]]:
    """One request without the client's own checks: (HTTP status, the error's JSON)."""
    host, port = world.judicators[0].address.split(":")
    context = pki.client_context(world.tls(name, role))
    connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=10)
    with contextlib.closing(connection):
        connection.request(verb, path, body=body)
        answer = connection.getresponse()
        data = answer.read()
        return answer.status, json.loads(data) if data else {}


def serve_raw(world: World, answer: bytes | None, role: str = "judicator") -> str:
    """A TLS server of the cluster's CA that gives every request this answer, or none at all; its address."""
    context = pki.server_context(world.tls(f"odd-{role}", role))

    def serve_one(sock: socket.socket) -> None:
        with contextlib.suppress(OSError), context.wrap_socket(sock, server_side=True) as tls:
            while tls.recv(65536):
                if answer is not None:
                    tls.sendall(answer)

    acceptor = Acceptor(lambda sock: threading.Thread(target=serve_one, args=(sock,), daemon=True).start())
    world.stack.callback(acceptor.close)
    return f"127.0.0.1:{acceptor.port}"


def http_answer(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def client_of(world: World, *addresses: str, timeout: float = 3.0) -> RpcClient:
    first = addresses[0] if addresses else None
    return world.stack.enter_context(RpcClient(lambda: list(addresses), world.tls("gw", "gateway"), timeout, first))


def test_no_client_certificate_is_refused(world: World) -> None:
    host, port = world.judicators[0].address.split(":")
    context = ssl.create_default_context(cafile=str(world.pki / "ca.crt"))
    connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=10)

    def ask() -> None:
        connection.request("POST", "/rpc/ping", body=b"{}")
        connection.getresponse()

    with contextlib.closing(connection), pytest.raises((ssl.SSLError, ConnectionError)):
        ask()


def test_a_certificate_of_another_ca_is_refused(world: World, tmp_path: Path) -> None:
    pki.make_ca(tmp_path / "other")
    foreign = pki.issue(tmp_path / "other", "gw", "gateway", ["127.0.0.1"])
    mixed = foreign.model_copy(update={"ca": world.pki / "ca.crt"})
    with RpcClient(lambda: [world.judicators[0].address], mixed, 1.0) as client, pytest.raises(UnavailableError):
        client.call("ping", m.Empty(), m.Pong)
    # And the other way round: a client of another cluster does not believe this judicator.
    with RpcClient(lambda: [world.judicators[0].address], foreign, 1.0) as client, pytest.raises(UnavailableError):
        client.call("ping", m.Empty(), m.Pong)


def test_a_role_may_call_only_its_methods(world: World) -> None:
    executor = world.client("e1", "executor")
    with pytest.raises(ForbiddenError, match="role 'executor' may not call 'add'"):
        executor.call("add", source(), m.AddReply)
    with pytest.raises(ForbiddenError, match="may not call 'report'"):
        world.client().call(
            "report", m.ReportRequest(executor="gw", incarnation="i", sequence=1, vacant=0), m.ReportReply
        )
    stranger = world.client("x", "janitor")
    with pytest.raises(ForbiddenError):
        stranger.call("ping", m.Empty(), m.Pong)
    with pytest.raises(ForbiddenError, match="blobs"):
        stranger.put_blob(b"x")
    assert raw(world, "POST", "/rpc/ping", b"{}", name="x", role="judicator")[0] == 200


@pytest.mark.parametrize("role", [*ROLES, "Executor", "executor ", "executor,gateway", "root", " "])
def test_every_method_and_blob_by_role(world: World, role: str) -> None:
    """A request that is empty is refused with 400 where the role may make it, and with 403 where it may not."""
    for name, method in METHODS.items():
        status, _ = raw(world, "POST", f"/rpc/{name}", b"{}", name="x", role=role)
        assert (status != 403) == (role in method.roles), (name, status)
    sha = "0" * 64
    for verb in ("GET", "PUT"):
        status, _ = raw(world, verb, f"/blobs/{sha}", b"x", name="x", role=role)
        assert (status != 403) == (role in BLOB_ROLES), (verb, status)


def test_an_executor_speaks_only_for_itself(world: World) -> None:
    executor = world.client("e1", "executor")
    report = m.ReportRequest(executor="e2", incarnation="i", sequence=1, vacant=1)
    with pytest.raises(ForbiddenError, match="'e1' may not speak for executor 'e2'"):
        executor.call("report", report, m.ReportReply)
    assert world.db.executors.count_documents({}) == 0


def test_only_a_judicator_may_answer(world: World) -> None:
    address = serve_raw(world, http_answer(b'{"name": "x", "version": "1", "leader": true}'), role="executor")
    with pytest.raises(ForbiddenError, match="role 'executor', not of a judicator"):
        client_of(world, address).call("ping", m.Empty(), m.Pong)


@pytest.mark.parametrize(
    ("path", "body", "status", "code", "words"),
    [
        ("/rpc/add", b"{", 400, "usage", "not JSON"),
        ("/rpc/add", b"", 400, "usage", "not JSON"),
        ("/rpc/add", b'"text"', 400, "usage", "not what this method takes"),
        ("/rpc/add", b"\xff\xfe", 400, "usage", "not JSON"),
        ("/rpc/add", b'{"source": "\\ud800"}', 400, "usage", "not JSON"),
        ("/rpc/add", b'{"colour": 1}', 400, "field", "colour: is not a field"),
        ("/rpc/add", b'{"priority": "urgent"}', 400, "field", "priority"),
        ("/rpc/add", b'{"tests": [{"name": "../x"}]}', 400, "field", "tests.0.name"),
        ("/rpc/get", b"{}", 400, "field", "id: is missing"),
        ("/rpc/get", b'{"id": "zz"}', 400, "field", "id"),
        ("/rpc/nothing", b"{}", 404, "not_found", "no method 'nothing'"),
        ("/elsewhere", b"{}", 404, "not_found", "does not exist"),
        ("/blobs/" + "a" * 64, b"{}", 400, "usage", "Method Not Allowed"),
        ("/rpc/add", b'{"source": "' + b"x" * 200_000 + b'"}', 413, "too_large", "at most 100000"),
        ("/rpc/add", b"[" * 50_000, 400, "usage", "not JSON"),
    ],
)  # fmt: skip
def test_bad_requests_get_one_sentence(world, path, body, status, code, words) -> None:
    actual, error = raw(world, "POST", path, body)
    assert (actual, error["code"]) == (status, code)
    assert words in error["error"]
    assert "\n" not in error["error"]


def test_an_internal_error_shows_only_a_trace_id(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def broken(_: object) -> m.Message:
        raise RuntimeError("secret")

    world.judicators[0].judicator.tasks.reader.search = broken
    with pytest.raises(JudgeError, match="internal error") as caught:
        world.client().call("search", m.SearchRequest(), m.SearchReply)
    assert "secret" not in str(caught.value)
    trace = str(caught.value).split("trace ")[1].split(")")[0]
    assert any(trace in record.getMessage() for record in caplog.records)


def test_a_database_that_fails_is_unavailable_not_internal(world: World) -> None:
    async def away(_: object) -> m.Message:
        raise AutoReconnect("connection closed")

    people = world.client(timeout=0.5)
    world.judicators[0].judicator.tasks.reader.search = away
    with pytest.raises(UnavailableError, match="MongoDB did not confirm"):
        people.call("search", m.SearchRequest(), m.SearchReply)
    world.judicators[0].judicator.dispatcher.ready = False
    with pytest.raises(UnavailableError, match="no database yet"):
        people.call("problems", m.Empty(), ProblemsReply)
    assert people.call("ping", m.Empty(), m.Pong).name == "j1"


def test_blobs_go_and_come(world: World, work: Path) -> None:
    people = world.client()
    for data in (b"", b"x", bytes(range(256)) * 3000):
        sha = people.put_blob(data)
        assert sha == hashlib.sha256(data).hexdigest()
        assert people.put_blob(data) == sha
        assert people.has_blob(sha)
        people.get_blob(sha, work / sha)
        assert (work / sha).read_bytes() == data
    assert not [path.name for path in work.iterdir() if path.name.startswith(".")]
    assert world.db["fs.files"].count_documents({}) == 3
    assert not people.has_blob("0" * 64)
    with pytest.raises(NotFoundError, match="no blob"):
        people.get_blob("0" * 64, work / "none")
    assert not (work / "none").exists()


def test_a_blob_that_is_not_what_it_says_is_not_stored(world: World) -> None:
    status, error = raw(world, "PUT", "/blobs/" + "0" * 64, b"x" * 300_000)
    assert (status, error["code"], error["field"]) == (400, "field", "sha")
    assert raw(world, "PUT", "/blobs/nonsense", b"x")[0] == 400
    assert world.db["fs.files"].count_documents({}) == 0
    assert world.db["fs.chunks"].count_documents({}) == 0


def test_many_blobs_go_at_once(world: World, work: Path) -> None:
    people = world.client()
    contents = [b"", b"x", bytes(range(256)) * 3000, *(f"{number}\n".encode() * 50 for number in range(40))]
    blobs = [(hashlib.sha256(data).hexdigest(), data) for data in contents]
    stored_sha = people.put_blob(contents[1])
    query = BlobsWanted(blobs=[sha for sha, _ in blobs])
    assert set(people.call("blobs_missing", query, BlobsMissing).missing) == {sha for sha, _ in blobs} - {stored_sha}
    for _ in range(2):
        people.put_pack(packs.pack(blobs))
        assert people.call("blobs_missing", query, BlobsMissing).missing == []
        assert world.db["fs.files"].count_documents({}) == len(blobs), "nothing is stored twice"
    for sha, data in blobs:
        people.get_blob(sha, work / sha)
        assert (work / sha).read_bytes() == data


def test_a_pack_that_is_not_what_it_says_is_not_stored(world: World) -> None:
    good = (hashlib.sha256(b"good").hexdigest(), b"good")
    for body, field in ((packs.pack([good, ("0" * 64, b"bad")]), "sha"), (packs.pack([good])[:-1], "body")):
        status, error = raw(world, "PUT", "/blobs", body)
        assert (status, error["code"], error["field"]) == (400, "field", field)
    large = b"x" * 1_000_001
    assert raw(world, "PUT", "/blobs", packs.pack([good, (hashlib.sha256(large).hexdigest(), large)]))[0] == 413
    assert raw(world, "PUT", "/blobs", b"x", name="j9", role="judicator")[0] == 403
    assert world.db["fs.files"].count_documents({}) == 0
    assert world.db["fs.chunks"].count_documents({}) == 0


def test_a_blob_over_the_limit(world: World) -> None:
    with pytest.raises(TooLargeError, match="limit is 1000000"):
        world.client().put_blob(b"x" * 1_000_001)
    host, port = world.judicators[0].address.split(":")
    connection = http.client.HTTPSConnection(
        host, int(port), context=pki.client_context(world.tls("gw", "gateway")), timeout=10
    )
    with contextlib.closing(connection):
        connection.request("PUT", "/blobs/" + "0" * 64, body=iter([b"x" * 600_000] * 2), encode_chunked=True)
        assert connection.getresponse().status == 413
    assert world.db["fs.chunks"].count_documents({}) == 0


@pytest.mark.parametrize("damage", ["flip", "lose"])
def test_a_damaged_blob_never_arrives(world: World, work: Path, damage: str) -> None:
    people = world.client(timeout=1.0)
    sha = people.put_blob(b"a" * 600_000)
    if damage == "flip":
        world.db["fs.chunks"].update_one({"n": 2}, {"$set": {"data": b"b" * (600_000 - 2 * 261_120)}})
    else:
        world.db["fs.chunks"].delete_one({"n": 1})
    with pytest.raises(UnavailableError):
        people.get_blob(sha, work / "blob")
    assert list(work.glob("blob*")) == []


def test_the_same_blob_from_many_at_once(world: World) -> None:
    data = b"z" * 700_000
    clients = [world.client() for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        (sha,) = set(pool.map(lambda client: client.put_blob(data), clients))
    assert world.client().has_blob(sha)
    ids = {doc["_id"] for doc in world.db["fs.files"].find({"filename": sha})}
    assert {doc["files_id"] for doc in world.db["fs.chunks"].find()} == ids


def test_a_damaged_manifest_is_not_read(world: World) -> None:
    people = world.client(timeout=4.0)
    sha = people.put_blob(b'{"name": "x", "tests": []}')
    world.db["fs.chunks"].update_one({}, {"$set": {"data": b'{"name": "y", "tests": []}'}})
    with pytest.raises(UnavailableError, match="damaged"):
        people.call("problem_import", ProblemImport(manifest=sha), ProblemInfo)


def test_a_dead_endpoint_costs_nothing_and_the_good_one_is_remembered(world: World) -> None:
    client = client_of(world, "127.0.0.1:9", world.judicators[0].address)
    started = time.monotonic()
    client.call("ping", m.Empty(), m.Pong)
    assert time.monotonic() - started < 2.0
    assert client.first == world.judicators[0].address


def test_a_silent_endpoint_gets_only_its_share_of_the_deadline(world: World) -> None:
    silent = serve_raw(world, None)
    client = client_of(world, silent, world.judicators[0].address, timeout=4.0)
    started = time.monotonic()
    task = client.call("add", source(), m.AddReply)
    assert task.created
    assert 1.8 < time.monotonic() - started < 3.8


def test_an_add_whose_answer_got_lost_is_not_doubled(world: World) -> None:
    """A proxy passes the request on and breaks off the answer; the client repeats it at the judicator itself."""
    real = world.judicators[0].address
    direct = client_of(world, real)

    client = client_of(world, real)
    original = client._check_server
    endpoints: list[str] = []

    def lossy(endpoint: str, answer: object) -> None:
        original(endpoint, answer)
        endpoints.append(endpoint)
        if len(endpoints) == 1:
            raise UnavailableError("the answer got lost")

    client._check_server = lossy
    assert not client.call("add", source(), m.AddReply).created
    assert len(endpoints) == 2
    assert len(direct.call("search", m.SearchRequest(), m.SearchReply).tasks) == 1


def test_several_adds_are_each_what_they_would_be_alone(world, monkeypatch, caplog) -> None:
    table = world.judicators[0].judicator.dispatcher.table
    real = table["add"]

    async def add(request: m.Submission) -> m.Message:
        return await real.handler(request) if request.user != "broken" else 1 / 0

    monkeypatch.setitem(table, "add", Entry(add, real.describe))
    requests = [
        (By(), source(idempotency_key="k")),
        (By(), source(idempotency_key="k", user="bob", language="klingon")),
        (By(actor="root", role="admin", call="b" * 32), source(idempotency_key="k", user="ada")),
        (By(), source(idempotency_key="k", user="broken")),
        (By(), source(idempotency_key="k", user="eve")),
    ]
    calls = [OneCall(by=by, request=request) for by, request in requests]
    first, unknown, behalf, broken, last = world.client().call("adds", SeveralAdds(calls=calls), Outcomes).outcomes
    assert all(
        outcome.reply is not None and outcome.reply.created and outcome.error is None
        for outcome in (first, behalf, last)
    )
    assert unknown.error is not None and (unknown.error.code, unknown.error.field) == ("field", "language")
    assert broken.error is not None and "internal error (trace" in broken.error.error
    assert "ZeroDivisionError" in caplog.text
    again = world.client().call("adds", SeveralAdds(calls=calls[:1]), Outcomes).outcomes[0].reply
    assert again is not None and not again.created and first.reply is not None
    assert again.task.id == first.reply.task.id
    trail = world.client().call("audit", AuditQuery(), AuditReply).entries
    assert [(entry.actor, entry.action, entry.call) for entry in trail if entry.outcome == "done"] == [
        ("root", "submission.behalf", "b" * 32)
    ]


def test_several_adds_are_answered_within_bounds_and_need_keys(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    table = world.judicators[0].judicator.dispatcher.table
    real = table["add"]

    async def add(request: m.Submission) -> m.Message:
        reply = await real.handler(request)
        assert isinstance(reply, m.AddReply)
        reply.task.submission.source = "x" * 400_000  # as one that is judged already, and has a large result
        return reply

    monkeypatch.setitem(table, "add", Entry(add, real.describe))
    calls = [OneCall(by=By(), request=source(idempotency_key=str(number))) for number in range(9)]
    outcomes = world.client().call("adds", SeveralAdds(calls=calls), Outcomes).outcomes
    assert [outcome.error for outcome in outcomes] == [None] * 9
    assert sum(outcome.reply is not None for outcome in outcomes) == 2, "the others are asked for alone"
    status, error = raw(world, "POST", "/rpc/adds", b'{"calls": [{"by": {}, "request": {"source": "x"}}]}')
    assert status == 400 and "needs an idempotency_key" in error["error"]


def test_when_nobody_answers(world: World, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"no judicator answered 'ping' within 0\.3 s") as caught:
        client_of(world, "127.0.0.1:9", timeout=0.3).call("ping", m.Empty(), m.Pong)
    assert type(caught.value) is UnavailableError
    with pytest.raises(UnavailableError, match="no judicator is registered"):
        client_of(world, timeout=0.2).call("ping", m.Empty(), m.Pong)
    silent = serve_raw(world, None)
    with pytest.raises(DeadlineError):
        client_of(world, silent, timeout=0.3).call("search", m.SearchRequest(), m.SearchReply)
    with pytest.raises(OutcomeUnknownError, match="may have been done"):
        client_of(world, silent, timeout=0.3).call("cancel", m.TaskRef(id=str(ObjectId())), m.Task)
    for call in (lambda c: c.has_blob("0" * 64), lambda c: c.get_blob("0" * 64, tmp_path / "x")):
        with pytest.raises(UnavailableError):
            call(client_of(world, "127.0.0.1:9", timeout=0.2))
    with pytest.raises(UnavailableError):
        client_of(world, "127.0.0.1:9", timeout=0.2).put_blob(b"x")


def test_a_long_poll_is_not_cut_by_the_share(world: World) -> None:
    task = world.client().call("add", source(), m.AddReply).task
    client = client_of(world, world.judicators[0].address, "127.0.0.1:9", timeout=1.0)
    started = time.monotonic()
    assert client.call("get", m.GetRequest(id=task.id, wait=2.5), m.Task) == task
    assert time.monotonic() - started > 2.3


def test_a_stopping_judicator_sends_clients_away(world: World) -> None:
    first = world.judicators[0]
    second = world.judicator("j2")
    client = client_of(world, first.address, second.address)
    assert client.call("ping", m.Empty(), m.Pong).name == "j1"
    first.judicator.server.refuse()
    assert client.call("ping", m.Empty(), m.Pong).name == "j2"
    first.stop()
    assert client.call("ping", m.Empty(), m.Pong).name == "j2"


def test_a_stop_lets_go_of_those_who_wait(world: World) -> None:
    people = world.client()
    task = people.call("add", source(language="java"), m.AddReply).task
    with ThreadPoolExecutor(1) as pool:
        reply = pool.submit(people.call, "get", m.GetRequest(id=task.id, wait=20), m.Task)
        wait_for(lambda: waiters("people") == 1, what="someone who waits")
        started = time.monotonic()
        world.judicators[0].stop()
        assert reply.result() == task
    assert time.monotonic() - started < 15


def test_malformed_answers_are_errors(world: World) -> None:
    with pytest.raises(JudgeError, match="no Pong"):
        client_of(world, serve_raw(world, http_answer(b'{"who": 1}'))).call("ping", m.Empty(), m.Pong)
    with pytest.raises(JudgeError, match="HTTP 418 without a reason"):
        client_of(world, serve_raw(world, http_answer(b"<html>", "418 x"))).call("ping", m.Empty(), m.Pong)
    with pytest.raises(UnavailableError, match="HTTP 502"):
        client_of(world, serve_raw(world, http_answer(b"", "502 x")), timeout=1.0).call("ping", m.Empty(), m.Pong)


def test_a_release_of_the_future_is_understood(world: World) -> None:
    """While a cluster is upgraded two releases speak with each other (docs/decisions/012-mixed-releases.md)."""
    executor = world.executor()
    task = world.client().call("add", source(), m.AddReply).task
    (work,) = executor.report(vacant=1).add
    completion = accepted(work).model_dump(mode="json")
    completion["result"]["colour"] = "blue"
    completion["result"]["tests"] = [{"name": "1", "verdict": "AC", "taste": "sweet"}]
    report = {"executor": executor.name, "incarnation": executor.incarnation, "sequence": executor.sequence + 1}
    body = json.dumps({**report, "vacant": 0, "complete": [completion], "mood": "good"}).encode()
    assert raw(world, "POST", "/rpc/report", body, name=executor.name, role="executor")[0] == 200
    world.db["tasks"].update_one({}, {"$set": {"result.smell": "none", "submission.shape": "round"}})
    read = world.client().call("get", m.GetRequest(id=task.id), m.Task)
    assert (read.verdict, [test.name for test in read.result.tests]) == (m.Verdict.AC, ["1"])
    pong = http_answer(b'{"name": "j9", "version": "99", "leader": false, "weather": "fine"}')
    assert client_of(world, serve_raw(world, pong)).call("ping", m.Empty(), m.Pong).name == "j9"


@pytest.mark.parametrize("failure", [UnavailableError("no primary"), None])
async def test_a_write_whose_caller_hung_up_ends_in_one_line(failure, caplog) -> None:
    """And not in a traceback of asyncio, whatever became of it."""
    going = asyncio.Event()

    async def work() -> m.Message:
        await going.wait()
        if failure is not None:
            raise failure
        return m.Empty()

    caller = asyncio.ensure_future(to_completion(work()))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    going.set()
    del caller
    tasks = {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
    await asyncio.wait(tasks)
    tasks.clear()
    gc.collect()
    message = ["a write whose caller had hung up failed, and may have been done: no primary"]
    assert [record.getMessage() for record in caplog.records] == message * (failure is not None)


def test_errors_come_back_as_their_class() -> None:
    for cls in (NotFoundError, TooLargeError, OutcomeUnknownError):
        body = m.ErrorBody(code=cls.code, error="why").model_dump_json().encode()
        assert type(error_from(cls.http_status, body)) is cls
    field = error_from(400, b'{"code": "field", "error": "source: is empty", "field": "source"}')
    assert isinstance(field, FieldError)
    assert (field.field, str(field)) == ("source", "source: is empty")
    assert type(error_from(400, b'{"code": "field", "error": "x"}')) is FieldError
    assert type(error_from(500, b'{"code": "of_the_future", "error": "x"}')) is JudgeError


async def test_a_port_in_use_is_refused(world: World) -> None:
    running = world.judicators[0]
    server = Server(running.judicator.dispatcher, running.judicator.blobs, body_bytes=1, blob_bytes=1)
    with pytest.raises(RefusedError, match="cannot listen on"):
        await server.start(running.address, pki.server_context(running.config.tls), 1.0)


def test_a_stop_does_not_mind_a_caller_who_has_not_said_goodbye(world: World) -> None:
    (running,) = world.judicators
    host, port = running.address.split(":")
    context = pki.client_context(world.tls("gw", "gateway"))
    plain = socket.create_connection((host, int(port)), timeout=10)
    with context.wrap_socket(plain, server_hostname=host) as tls:
        tls.sendall(
            f"POST /rpc/ping HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}".encode()
        )
        assert tls.recv(1000).startswith(b"HTTP/1.1 200 ")
        running.stop()


def test_a_removed_host_is_refused_with_its_old_certificates_and_let_in_with_new_ones(world: World) -> None:
    """The list is in the database; which certificate is old, its first moment says."""
    blob = hashlib.sha256(b"x").hexdigest()
    for name, role in (("gw", "gateway"), ("e1", "executor")):
        assert raw(world, "POST", "/rpc/ping", b"{}", name=name, role=role)[0] == 200
    context = pki.client_context(world.tls("e1", "executor"))
    connection = http.client.HTTPSConnection(world.judicators[0].address, timeout=10, context=context)
    with contextlib.closing(connection):
        connection.connect()
        names = [{"name": name, "before": time.time()} for name in ("gw", "e1")]
        world.db.meta.insert_one({"_id": DOCUMENT, "names": names})
        for name, role, path, body in (
            ("gw", "gateway", "/rpc/ping", b"{}"),
            ("gw", "gateway", f"/blobs/{blob}", b"x"),
            ("e1", "executor", "/rpc/ping", b"{}"),
            ("e1", "executor", f"/blobs/{blob}", b"x"),
        ):
            verb = "PUT" if "blobs" in path else "POST"
            wait_for(lambda: raw(world, verb, path, body, name=name, role=role)[0] == 403, what="a refusal")  # noqa: B023
        status, error = raw(world, "POST", "/rpc/report", b"{}", name="e1", role="executor")
        assert (status, error["code"]) == (403, "forbidden")
        assert "was removed from this cluster" in error["error"]
        connection.request("POST", "/rpc/ping", b"{}")  # a connection of before opens nothing either
        assert connection.getresponse().status == 403
    assert raw(world, "POST", "/rpc/ping", b"{}", name="e2", role="executor")[0] == 200
    issued = time.time() - 3600  # as the authority dates its certificates
    world.db.meta.update_one({"_id": DOCUMENT}, {"$set": {"names.$[].before": issued - 10}})
    wait_for(lambda: raw(world, "POST", "/rpc/ping", b"{}", name="e1", role="executor")[0] == 200, what="a welcome")
