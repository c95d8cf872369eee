"""Searches that find nothing for long, and numbers and times at the ends of what can be written: a sentence each."""

import contextlib
import datetime
import itertools
import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from judge.common import clock
from judge.common.errors import UsageError
from judge.judicator.tasks import reading
from judge.model import messages as m
from judge.rpc.methods import METHODS
from judge.rpc.pki import client_context
from tests.support.judicators import World, accepted, finished, patient_world, source, write

HISTORY = 30_000
NEVER = {"user": "old", "verdict": "WA"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, etcd_endpoint: str, mongod_address: str) -> Iterator[World]:
    with patient_world(tmp_path_factory.mktemp("world"), etcd_endpoint, mongod_address) as world:
        # Each condition is met by many, both together by none.
        write(world.db, finished(HISTORY, user="old", verdict="AC"))
        write(world.db, finished(HISTORY, user="new", verdict="WA"))
        yield world


def test_a_search_that_finds_nothing_for_long_ends_with_a_sentence(world, monkeypatch) -> None:
    people = world.client()
    assert people.call("search", m.SearchRequest(**NEVER), m.SearchReply).tasks == [], "it ends if it is let"
    monkeypatch.setattr(reading, "_PATIENCE", 0.01)
    with pytest.raises(UsageError) as caught:
        people.call("search", m.SearchRequest(**NEVER, limit=7), m.SearchReply)
    assert str(caught.value) == (
        "this search has looked for 0.01 s and not found 8 submissions that meet all its conditions; leave a condition "
        "out, or ask for fewer"
    )
    assert (caught.value.http_status, caught.value.exit_code) == (400, 2)
    monkeypatch.undo()
    assert people.call("search", m.SearchRequest(user="old", limit=7), m.SearchReply).next is not None
    assert reading._PATIENCE == 3.0, "what docs/protocol.md says"


def test_long_searches_keep_nobody_from_work(world: World) -> None:
    """More of them at a time than the database has cores, without a pause."""
    people, executor = world.client(), world.executor()
    executor.report(vacant=0)
    stop = threading.Event()
    clients = [world.client(f"gw{number}", timeout=30.0) for number in range(6)]

    def look(number: int) -> int:
        for count in itertools.count():
            if stop.is_set():
                return count
            with contextlib.suppress(UsageError):  # on a busy machine it is ended
                clients[number].call("search", m.SearchRequest(**NEVER), m.SearchReply)
        return 0

    with ThreadPoolExecutor(len(clients)) as pool:
        looking = [pool.submit(look, number) for number in range(len(clients))]
        try:
            for _ in range(10):
                task = people.call("add", source(), m.AddReply).task.id
                assert task in executor.work or executor.report(vacant=1).add
                executor.report(*map(accepted, list(executor.work.values())), vacant=0)
                assert people.call("get", m.GetRequest(id=task, wait=5.0), m.Task).done
        finally:
            stop.set()
    assert all(future.result() for future in looking)


ID = "0" * 24
# The least request of each method.
BODIES: dict[str, dict[str, Any]] = {
    "add": {"user": "ann", "language": "c", "source": "x"},
    "adds": {"calls": [{"by": {}, "request": {"user": "ann", "source": "x", "idempotency_key": "k"}}]},
    "get": {"id": ID},
    "tasks": {"ids": [ID]},
    "search": {},
    "rejudge_preview": {"user": ["nobody"]},
    "rejudge_start": {"filter": {"user": ["nobody"]}, "reason": "r", "user": "root"},
    "rejudgings": {},
    "rejudging": {"id": 1},
    "rejudge_diff": {"id": 1},
    "rejudge_apply": {"id": 1, "user": "root", "key": "k"},
    "rejudge_cancel": {"id": 1, "user": "root", "key": "k"},
    "audit": {},
    "problem_change": {"name": "p"},
    "report": {"executor": "e1", "incarnation": "i", "sequence": 1, "vacant": 0},
    "wait": {"executor": "e1", "incarnation": "i"},
    "changes": {},
    "deliveries": {},
    "users": {},
    "user_add": {"name": "newcomer"},
    "users_add": {"users": [{"name": "newcomer"}]},
    "names": {"users": []},
    "user_change": {"name": "newcomer"},
    "tokens": {},
    "token_create": {"user": "newcomer"},
}
NUMBERS: list[Any] = [2**63 - 1, 2**63, 2**64, 10**400, -1, -(2**63) - 1, 1e308, "1e400"]
TIMES = [
    f"{date}T{time}{zone}"
    for date in ("0001-01-01", "1969-12-31", "2106-02-07", "9999-12-31")
    for time in ("00:00:00", "23:59:59.999999")
    for zone in ("Z", "+23:59", "-23:59", "+00:01")
]  # fmt: skip
TIMES += ["9999-12-31", "10000-01-01T00:00:00Z", "2026-01-01T00:00:00", "-0001-01-01T00:00:00Z", "1e999"]


def fields(schema: dict[str, Any], all_of: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[Any, str]]:
    """The numbers and times of a message, by their paths; not those in lists."""
    if "$ref" in schema:
        schema = all_of[schema["$ref"].rpartition("/")[2]]
    for variant in schema.get("anyOf", []):
        yield from fields(variant, all_of, path)
    if schema.get("type") in {"integer", "number"} or schema.get("format") == "date-time":
        yield path, "time" if "format" in schema else "number"
    for name, inner in schema.get("properties", {}).items():
        yield from fields(inner, all_of, (*path, name))


def extremes() -> list[tuple[str, tuple[str, ...], str]]:
    cases = []
    for name, method in METHODS.items():
        schema = method.request.model_json_schema()
        cases += [(name, path, kind) for path, kind in fields(schema, schema.get("$defs", {}))]
    return cases


def post(world: World, role: str, method: str, body: bytes) -> tuple[int, dict[str, Any]]:
    context: ssl.SSLContext = client_context(world.tls("e1" if role == "executor" else "gw", role))
    request = urllib.request.Request(f"https://{world.judicators[0].address}/rpc/{method}", body)
    try:
        with urllib.request.urlopen(request, context=context, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as exc:
        return exc.code, json.load(exc)


def test_no_number_or_time_is_an_internal_error(world: World) -> None:
    for method, path, kind in extremes():
        role = "gateway" if "gateway" in METHODS[method].roles else "executor"
        for value in TIMES if kind == "time" else NUMBERS:
            body = json.loads(json.dumps(BODIES[method]))
            inner = body
            for name in path[:-1]:
                inner = inner.setdefault(name, {})
            inner[path[-1]] = value
            text = json.dumps(body).replace('"1e400"', "1e400")
            status, answer = post(world, role, method, text.encode())
            assert status < 500, (method, path, value, answer)
            assert status == 200 or len(answer["error"]) > 10, (method, path, value, answer)


def test_a_time_within_reason_is_taken(world: World) -> None:
    now = clock.wall()
    for zone in (datetime.UTC, datetime.timezone(datetime.timedelta(hours=14))):
        moment = (now + datetime.timedelta(days=1)).astimezone(zone).isoformat()
        body = json.dumps({"user": ["old"], "until": moment}).encode()
        assert post(world, "gateway", "rejudge_preview", body)[1]["count"] == HISTORY
