"""The Python client without a gateway: what is generated, how messages become JSON and back, what is tried again."""

import asyncio
import dataclasses
import importlib.machinery
import importlib.util
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import judge_client
from judge.gateway.api.handlers import ROUTES
from judge.model import messages as m
from judge_client import AsyncJudge, Judge, coding, models
from judge_client.streams import Parser
from tests.support.gateway import DOCUMENT, make_task

ROOT = Path(__file__).parents[2]
INSTALLED = Path(judge_client.__file__).parent


def test_the_installed_client_is_built_from_this_tree() -> None:
    loader = importlib.machinery.SourceFileLoader("make_clients", str(ROOT / "scripts/make-clients"))
    spec = importlib.util.spec_from_loader("make_clients", loader)
    assert spec is not None
    script = importlib.util.module_from_spec(spec)
    loader.exec_module(script)
    modules = {path.name: path.read_text() for path in (ROOT / "clients/python/judge_client").glob("*.py")}
    for name, text in {**modules, **script.generated()}.items():
        assert (INSTALLED / name).read_text() == text, f"{name}: run `make clients`"


def test_other_generators_can_read_the_document() -> None:
    """Those of Go and a linter stumbled over objects as defaults, no server, and `ids` that one had to know of."""
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for key, field in schema.get("properties", {}).items():
            assert not isinstance(field.get("default"), dict), f"{name}.{key}"
    assert DOCUMENT["servers"][0]["url"] == "/"
    assert DOCUMENT["info"]["license"]["identifier"] == "Apache-2.0"
    (ids,) = DOCUMENT["paths"]["/api/v1/submissions/batch"]["get"]["parameters"][:1]
    assert ids["name"] == "ids"
    assert ids["required"] is True


@pytest.mark.parametrize("client", [Judge, AsyncJudge])
def test_every_call_is_a_method_of_both_clients(client: type) -> None:
    for route in ROUTES:
        method = getattr(client, route.name)
        streams = route.name in {"events", "follow"}
        assert inspect.iscoroutinefunction(method) == (client is AsyncJudge and not streams), route.name


def test_the_collection_has_every_call() -> None:
    collection = json.loads((INSTALLED / "judge.postman.json").read_text())
    for folder in collection["item"]:
        deletes = [item["request"]["method"] == "DELETE" for item in folder["item"]]
        assert deletes == sorted(deletes), f"{folder['name']} runs from its beginning to its end"
    items = [item for folder in collection["item"] for item in folder["item"]]
    assert sorted(item["name"] for item in items) == sorted(route.name for route in ROUTES)
    for item in items:
        url = item["request"]["url"]
        assert url["raw"].startswith("{{judge}}/api/v1/")
        parameters = {part[1:] for part in url["path"] if part.startswith(":")}
        assert parameters == {variable["key"] for variable in url.get("variable", [])}, item["name"]
        if item["request"].get("body", {}).get("mode") == "raw":
            json.loads(item["request"]["body"]["raw"])
    assert "token" not in re.sub(r"\{\{token\}\}", "", json.dumps([v["value"] for v in collection["variable"]]))


TEXTS = st.text(max_size=8)


@given(
    st.builds(
        models.Submission,
        source=TEXTS | st.none(),
        language=TEXTS | st.none(),
        tests=st.lists(st.builds(models.Test, name=TEXTS, input=TEXTS), max_size=3),
        limits=st.builds(models.LimitsOverride, cpu=st.floats(0, 100) | st.none()),
        told=st.dictionaries(TEXTS, TEXTS | st.integers() | st.booleans(), max_size=3),
    )
)
def test_a_message_becomes_json_and_the_same_message_again(message: models.Submission) -> None:
    encoded = json.loads(json.dumps(coding.encode(message)))
    assert coding.decode(models.Submission, encoded) == message
    assert not {key for key, value in encoded.items() if value is None or value == []}, "what is by default is left out"


def test_a_task_of_the_cluster_is_decoded_completely() -> None:
    result = m.Result(
        tests=[m.TestResult(name="a", verdict=m.Verdict.WA, cpu=1)], groups=[m.GroupScore(name="g", verdict="WA")]
    )
    task = make_task(result=result, verdict=m.Verdict.WA, done=True)
    read = coding.decode(models.Task, json.loads(task.model_dump_json()))
    assert isinstance(read.result.tests[0], models.TestResult) and isinstance(read.submission, models.Submission)
    assert isinstance(read.result.tests[0].cpu, float) and read.result.groups[0].name == "g"
    back = m.Task.model_validate_json(json.dumps(dataclasses.asdict(read)))
    assert back == task


def test_a_newer_cluster_does_no_harm() -> None:
    read = coding.decode(models.Alive, {"version": "9", "alive": True, "mood": {"new": 1}})
    assert read == models.Alive(version="9")
    error = coding.decode(models.ErrorBody, {"code": "brand_new", "error": "x", "rate": None})
    assert error.code == "brand_new"
    with pytest.raises(TypeError):
        coding.decode(models.Alive, {})
    with pytest.raises(TypeError):
        coding.decode(models.Alive, [])


def test_events_out_of_lines() -> None:
    parser = Parser()
    lines = ': hello\n\nid: 7\nevent: submission\ndata: {"a":\ndata: 1}\n\ndata: plain\n\ndata: [1]\n\n'
    events = [event for line in lines.split("\n") if (event := parser.line(line)) is not None]
    assert [(event.id, event.event, event.data) for event in events] == [
        ("7", "submission", {"a": 1}), ("7", "message", {"text": "plain"}), ("7", "message", {"value": [1]}),
    ]  # fmt: skip


ALIVE = {"version": "1"}


def answering(*answers: Any) -> tuple[httpx.MockTransport, list[httpx.Request]]:
    """A gateway that gives these answers, one after the other, and what it was asked."""
    remaining: Iterator[Any] = iter(answers)
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        reply = next(remaining)
        if isinstance(reply, Exception):
            raise reply
        return reply

    return httpx.MockTransport(answer), requests


def busy(status: int = 503, **headers: str) -> httpx.Response:
    body = {"code": "unavailable", "error": "try again"}
    return httpx.Response(status, json=body, headers={"Retry-After": "0", **headers})


def test_a_failed_submission_is_retried_with_the_same_key() -> None:
    task = json.loads(make_task().model_dump_json())
    unreachable = httpx.ConnectError("no")
    transport, requests = answering(busy(), unreachable, busy(429), httpx.Response(201, json=task))
    with Judge("http://j", "t", transport=transport, pace=0.001) as judge:
        assert judge.submit(models.Submission(command="true")).id == task["id"]
    assert len(requests) == 4 and len({request.headers["Idempotency-Key"] for request in requests}) == 1
    assert {request.headers["Authorization"] for request in requests} == {"Bearer t"}
    assert json.loads(requests[0].content) == {"command": "true"}


def test_retries_end_and_long_pauses_are_errors() -> None:
    transport, requests = answering(*[busy()] * 3, busy(429, **{"Retry-After": "3600"}), httpx.ConnectError("no"))
    with Judge("http://j", transport=transport, pace=0.001, tries=3) as judge:
        with pytest.raises(judge_client.UnavailableError, match="try again") as refused:
            judge.whoami()
        assert (refused.value.status, refused.value.code, refused.value.retry) == (503, "unavailable", 0.0)
        assert len(requests) == 3
        with pytest.raises(judge_client.LimitError) as limited:
            judge.whoami()
        assert limited.value.retry == 3600 and len(requests) == 4
    transport, _ = answering(httpx.ConnectError("no"))
    with Judge("http://j", transport=transport, tries=1) as judge, pytest.raises(judge_client.UnavailableError):
        judge.whoami()


def test_an_unhealthy_cluster_is_an_answer() -> None:
    transport, requests = answering(httpx.Response(503, json={"healthy": False, "faults": ["x"]}))
    with Judge("http://j", transport=transport) as judge:
        assert judge.health().faults == ["x"]
    assert len(requests) == 1


def test_an_unchanged_answer_is_cached() -> None:
    tagged = httpx.Response(200, json=ALIVE, headers={"ETag": '"1"'})
    transport, requests = answering(tagged, httpx.Response(304), httpx.Response(200, json={"version": "2"}))
    with Judge("http://j", transport=transport) as judge:
        assert judge.alive() == judge.alive() == models.Alive(version="1")
        assert judge.alive().version == "2"
    assert [request.headers.get("If-None-Match") for request in requests] == [None, '"1"', '"1"']


def test_the_asynchronous_client_does_the_same() -> None:
    tagged = httpx.Response(200, json=ALIVE, headers={"ETag": '"1"'})
    transport, requests = answering(busy(), tagged, httpx.Response(304), httpx.Response(404, text="gone"))

    async def ask() -> None:
        async with AsyncJudge("http://j", transport=transport, pace=0.001) as judge:
            assert await judge.alive() == await judge.alive() == models.Alive(version="1")
            with pytest.raises(judge_client.NotFoundError, match="404 Not Found"):
                await judge.get("x/y")

    asyncio.run(ask())
    assert len(requests) == 4 and requests[-1].url.raw_path == b"/api/v1/submissions/x%2Fy"


def test_a_foreign_answer_is_an_error_with_a_sentence() -> None:
    transport, _ = answering(httpx.Response(200, text="<html>"), httpx.Response(200, json={}))
    with Judge("http://j", transport=transport) as judge:
        for _ in range(2):
            with pytest.raises(judge_client.JudgeError, match="is not what this client knows"):
                judge.alive()
