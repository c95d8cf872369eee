"""The HTTP API over a real judicator, etcd and mongod; the executor is a client of the real protocol."""

import codecs
import contextlib
import functools
import hashlib
import json
import re
import threading
from pathlib import Path

import jsonschema
import pytest

from judge.common.errors import JudgeError, OutcomeUnknownError, UnavailableError
from judge.config.allowance import UNLIMITED, Allowance
from judge.gateway.api import routes, seen
from judge.gateway.api.handlers import ROUTES
from judge.gateway.api.routes import PREFIX
from judge.gateway.cluster import Cluster
from judge.languages import handed
from judge.model import messages as m
from judge.model.overview import JudicatorState, MemberState
from judge.model.problem import ProblemManifest, ProblemTest
from judge.rpc import packs
from tests.support.gateway import (
    ADMIN,
    DOCUMENT,
    ID,
    PEOPLE,
    USER,
    Browser,
    Person,
    Prepared,
    check,
    gateway_config,
    healthy,
    make_config,
    serving_app,
    write_tokens,
)
from tests.support.judicators import World, accepted, module_world
from tests.support.servers import wait_for

world = module_world()

SOURCE = {"language": "c", "source": "int main(){}"}


@pytest.fixture(scope="module")
def settings(world, tmp_path_factory):
    limits = {"body_bytes": 300_000, "blob_bytes": 400_000, "source_bytes": 1000}
    return gateway_config(world, tmp_path_factory.mktemp("gw"), threads=4, limits=limits)


def error(answer, status, code, text, field=None):
    assert answer.status_code == status, answer.text
    body = m.ErrorBody.model_validate_json(answer.data)
    assert (body.code, body.field) == (code, field), body
    assert re.search(text, body.error), body.error
    return answer


# --- submissions -----------------------------------------------------------------------------------------------


def test_from_submit_to_verdict(ada, executor):
    answer = ada("POST", "/submissions", json=SOURCE)
    task = check(answer, 201, "submit")
    assert task["status"] == "pending" and task["submission"]["user"] == "ada"
    assert answer.headers["Location"] == f"/api/v1/submissions/{task['id']}"
    assert ada("GET", answer.headers["Location"].removeprefix(PREFIX)).json["id"] == task["id"]
    executor.judge_all()
    judged = check(ada("GET", f"/submissions/{task['id']}"), 200, "get")
    assert (judged["status"], judged["verdict"], judged["done"]) == ("success", "AC", True)
    assert judged["version"] > task["version"]


def test_the_same_key_gives_the_same_task(ada, bob):
    key = {"Idempotency-Key": "once"}
    first = check(ada("POST", "/submissions", json=SOURCE, headers=key), 201, "submit")
    again = check(ada("POST", "/submissions", json=SOURCE, headers=key), 200, "submit")
    assert again["id"] == first["id"]
    error(ada("POST", "/submissions", json={**SOURCE, "source": "other"}, headers=key), 409, "conflict", "once")
    assert bob("POST", "/submissions", json=SOURCE, headers=key).json["id"] != first["id"], "each has keys of their own"


def test_wait_answers_as_soon_as_the_task_is_done(ada, executor):
    task = ada("POST", "/submissions", json=SOURCE).json
    answers = []
    waiting = threading.Thread(
        target=lambda: answers.append(ada("GET", f"/submissions/{task['id']}?wait=30&version={task['version'] + 50}"))
    )
    waiting.start()
    executor.judge_all()
    waiting.join(20)
    assert check(answers[0], 200, "get")["verdict"] == "AC"


def test_wait_ends_in_time_and_notices_an_old_version_at_once(ada, executor):
    task = ada("POST", "/submissions", json=SOURCE).json
    version = task["version"]
    assert ada("GET", f"/submissions/{task['id']}?wait=0.3&version={version}").json["version"] == version
    assert ada("GET", f"/submissions/{task['id']}?wait=30&version={version - 1}").json["version"] == version
    executor.judge_all()
    assert ada("GET", f"/submissions/{task['id']}?wait=30").json["done"]


def test_handing_in_may_wait_for_the_verdict(ada, executor):
    answers = []
    path, key = "/submissions?wait=30", {"Idempotency-Key": "waits"}
    waiting = threading.Thread(target=lambda: answers.append(ada("POST", path, json=SOURCE, headers=key)))
    waiting.start()
    wait_for(lambda: ada("GET", "/submissions?done=false").json["tasks"], what="the submission")
    executor.judge_all()
    waiting.join(20)
    task = check(answers[0], 201, "submit")
    assert (task["verdict"], task["done"]) == ("AC", True)
    assert check(ada("POST", path, json=SOURCE, headers=key), 200, "submit") == task, "the same, at once"
    late = check(ada("POST", "/submissions?wait=0.2", json=SOURCE), 201, "submit")
    assert not late["done"], "as it is when the time is over"
    error(ada("POST", "/submissions?wait=31", json=SOURCE), 400, "field", "expected at most 30, not", "wait")
    archive = {"data": handed.pack({"main.c": b"int main(){}"}), "content_type": "application/zip"}
    sent = ada("POST", "/submissions?wait=0.1&filename=sum.c", **archive)
    assert check(sent, 201, "submit")["submission"]["filename"] == "sum.c", "the rest of the query is the submission"
    executor.judge_all()


def test_a_submission_whose_end_cannot_be_waited_for_is_taken(ada, executor, monkeypatch):
    def fails(*_):
        raise UnavailableError("no judicator answers")

    monkeypatch.setattr(Cluster, "wait", fails)
    task = check(ada("POST", "/submissions?wait=30", json=SOURCE), 201, "submit")
    assert not task["done"]
    monkeypatch.setattr(
        Cluster, "wait", lambda self, task, *_: (self.call("get", m.GetRequest(id=task), m.Task), False)
    )
    answer = ada("POST", "/submissions?wait=30", json=SOURCE)
    assert (answer.status_code, answer.headers["Retry-After"]) == (201, "1"), "too many wait already"
    problem = {"name": "hello", "hash": "0" * 64}
    done = {**task, "status": "success", "verdict": "AC", "done": True, "result": {}, "problem": problem}
    monkeypatch.setattr(Cluster, "wait", lambda *_: (m.Task.model_validate(done), True))
    monkeypatch.setattr(seen, "_own_tests", lambda _, __, tasks: fails() if tasks[0].result else True)
    assert not check(ada("POST", "/submissions?wait=30", json=SOURCE), 201, "submit")["done"], "nor shown"
    executor.judge_all()


def test_too_many_waiting_calls_do_not_block_other_calls(app, ada, executor):
    task = ada("POST", "/submissions", json=SOURCE).json
    path = f"/submissions/{task['id']}?wait=30&version={task['version']}"

    def follow():
        person = Person(app.test_client(), USER)
        while not (reply := person("GET", path)).json.get("done"):
            # The person's other requests may have the share of the moment: such a client asks again.
            assert reply.status_code in {200, 429}, reply.text

    waiting = [threading.Thread(target=follow) for _ in range(3)]
    for call in waiting:
        call.start()
    wait_for(lambda: ada("GET", f"{path}".replace("wait=30", "wait=0.05")).headers.get("Retry-After") == "1")
    assert ada("GET", f"/submissions/{task['id']}").status_code == 200
    executor.judge_all()
    for call in waiting:
        call.join(20)
        assert not call.is_alive()


def test_cancel(ada, bob, executor):
    task = ada("POST", "/submissions", json=SOURCE).json
    error(bob("POST", f"/submissions/{task['id']}/cancel"), 404, "not_found", "there is no submission")
    assert check(ada("POST", f"/submissions/{task['id']}/cancel"), 200, "cancel")["status"] == "cancelled"
    assert ada("POST", f"/submissions/{task['id']}/cancel").json["status"] == "cancelled"


def test_users_see_their_own(ada, bob, admin, executor):
    task = ada("POST", "/submissions", json=SOURCE).json
    executor.judge_all()
    error(bob("GET", f"/submissions/{task['id']}"), 404, "not_found", "there is no submission")
    assert admin("GET", f"/submissions/{task['id']}").status_code == 200
    tasks = check(bob("GET", "/submissions"), 200, "search")["tasks"]
    assert {task["submission"]["user"] for task in tasks} <= {"bob"}
    error(bob("GET", "/submissions?user=ada"), 403, "forbidden", "their own")
    assert task["id"] in {task["id"] for task in admin("GET", "/submissions?user=ada").json["tasks"]}


def test_search_pages_through_all(ada, executor):
    for _ in range(5):
        ada("POST", "/submissions", json=SOURCE)
    executor.judge_all()
    ids, before = [], ""
    while True:
        page = check(ada("GET", f"/submissions?limit=2&done=true&verdict=AC&before={before}"), 200, "search")
        ids += [task["id"] for task in page["tasks"]]
        assert all(task["verdict"] == "AC" and not task["submission"]["source"] for task in page["tasks"])
        before = page["next"]
        if before is None:
            break
    assert ids == sorted(ids, reverse=True) and len(ids) == len(set(ids)) >= 5


def test_the_full_output_can_be_downloaded(ada, executor):
    task = ada("POST", "/submissions", json=SOURCE).json
    error(ada("GET", f"/submissions/{task['id']}/output"), 404, "not_found", "has no output")
    executor.report()
    executor.report(accepted(executor.work[task["id"]], result=m.Result(stdout="4\u00b2\n")), vacant=0)
    answer = ada("GET", f"/submissions/{task['id']}/output")
    assert answer.data == "4\u00b2\n".encode()
    assert answer.headers["Content-Disposition"].startswith("attachment")
    large = ada("POST", "/submissions", json={**SOURCE, "stdin": "big"}).json
    sha = executor.rpc.put_blob(b"x" * 300_000)
    executor.report()
    executor.report(accepted(executor.work[large["id"]], result=m.Result(stdout_blob=sha)), vacant=0)
    assert ada("GET", f"/submissions/{large['id']}/output").data == b"x" * 300_000


# --- bad input -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "code", "field", "text"),
    [
        ({**SOURCE, "source": ""}, 400, "field", "source", "is empty"),
        ({**SOURCE, "source": "a\0b"}, 400, "field", "source", "NUL"),
        ({**SOURCE, "source": "x" * 1001}, 413, "too_large", "source", "too large, 1001 bytes; at most 1000"),
        ({**SOURCE, "source": 7}, 400, "field", "source", "expected a text, not 7"),
        ({**SOURCE, "langauge": "c"}, 400, "field", "langauge", "did you mean 'language'"),
        ({**SOURCE, "priority": "top"}, 400, "field", "priority", "expected 'high', 'normal' or 'low', not 'top'"),
        ({**SOURCE, "priority": "high"}, 403, "forbidden", None, "role judge"),
        ({**SOURCE, "language": "klingon"}, 400, "field", "language", "'klingon' is unknown"),
        ({**SOURCE, "problem": "nothing"}, 404, "not_found", None, "nothing"),
        ({**SOURCE, "tests": [{"name": "1", "input": 5}]}, 400, "field", "tests.0.input", "expected a text"),
        ({**SOURCE, "tests": [{}]}, 400, "field", "tests.0.name", "is missing"),
        ({**SOURCE, "user": "bob"}, 403, "forbidden", None, "may not hand in for 'bob'"),
        ({"source": "x"}, 400, "field", "language", "is missing"),
        ([], 400, "usage", None, "the body must be a JSON object"),
        (None, 400, "usage", None, "the body must be a JSON object"),
    ],
)
def test_submissions_that_are_refused(ada, body, status, code, field, text):
    before = len(ada("GET", "/submissions?limit=500").json["tasks"])
    answer = ada("POST", "/submissions", data=json.dumps(body), content_type="application/json")
    error(answer, status, code, text, field)
    assert len(ada("GET", "/submissions?limit=500").json["tasks"]) == before, "everything is as it was"


@pytest.mark.parametrize(
    ("data", "kind", "status", "code", "text"),
    [
        (b'{"language": "c",', "application/json", 400, "usage", "the body is not JSON: EOF"),
        (b'{"language": "\xff"}', "application/json", 400, "usage", "the body is not JSON"),
        (b'{"source": "\\ud800"}', "application/json", 400, "usage", "the body is not JSON"),
        (b"[" * 100_000, "application/json", 400, "usage", "the body is not JSON: recursion"),
        (
            '{"command": "true"}'.encode("utf-16"),
            "application/json",
            400,
            "usage",
            "the body is UTF-16; send JSON as UTF-8",
        ),
        (b"language=c", "application/x-www-form-urlencoded", 415, "media_type", "this call takes application/json"),
        (b"{}", None, 415, "media_type", "'not set'"),
        (b"x" * 300_001, "application/json", 413, "too_large", "the body is too large; at most 293 KiB"),
    ],
)
def test_bodies_that_are_no_submission(ada, data, kind, status, code, text):
    error(ada("POST", "/submissions", data=data, content_type=kind), status, code, text)


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b'{"command": "true", "tests": [%s{}]}' % (b"{}," * 20_000), 400, "at most 10000 items"),
        (b'{"command": "true", "tests": [%s{}]}' % (b"{}," * 60_000), 413, "the body has more than 100000 values"),
        (b"{%s}" % b",".join(b'"no%d":1' % number for number in range(2_000)), 400, "the body has 2000 errors"),
        (b'{"%s": 1}' % (b"n" * 200_000), 400, "nnn: is not a known field"),
    ],
)
def test_bodies_of_very_many_parts_get_one_sentence(ada, monkeypatch, body, status, text):
    monkeypatch.setattr(routes, "_VALUES", 100_000)
    answer = ada("POST", "/submissions", data=body, content_type="application/json")
    assert answer.status_code == status
    assert text in answer.json["error"]
    assert len(answer.data) < 1000


def test_json_may_begin_with_a_byte_order_mark(ada):
    """PowerShell and other tools on Windows put one in front."""
    body = codecs.BOM_UTF8 + b'{"command": "true"}'
    answer = ada("POST", "/submissions", data=body, content_type="application/json; charset=utf-8")
    assert answer.status_code == 201, answer.text
    assert answer.json["submission"]["command"] == "true"


def test_an_empty_body_is_an_empty_submission(ada):
    error(ada("POST", "/submissions"), 400, "field", "is missing", "language")
    error(
        ada("POST", "/submissions", data=b"", content_type="application/json"), 400, "field", "is missing", "language"
    )


@pytest.mark.parametrize(
    ("path", "field", "text"),
    [
        ("/submissions?verdict=XX", "verdict", "expected 'AC'"),
        ("/submissions?limit=0", "limit", "expected at least 1"),
        ("/submissions?limit=many", "limit", "expected an integer"),
        ("/submissions?done=perhaps", "done", "expected true or false"),
        ("/submissions?before=x", "before", "expected an id"),
        ("/submissions?verdit=AC", "verdit", "did you mean 'verdict'"),
        ("/submissions?verdict=AC&verdict=WA", "verdict", "more than once"),
        *((f"/submissions/{ID}?wait={wait}", "wait", "wait") for wait in ("-1", "31", "nan", "x")),
    ],
)
def test_queries_that_are_refused(ada, path, field, text):
    error(ada("GET", path), 400, "field", text, field)


@pytest.mark.parametrize(
    "path", [f"/submissions/{ID}", "/submissions/x", "/submissions/%00", "/problems/none", "/none"]
)
def test_missing_objects_are_answered_with_404(ada, path):
    error(ada("GET", path), 404, "not_found", "there is no")


def test_chunked_bodies_are_refused_in_words(ada, admin):
    chunked = {"headers": {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}}
    error(admin("PUT", f"/blobs/{'0' * 64}", **chunked), 411, "length", "Content-Length")
    error(ada("POST", "/submissions", **chunked), 411, "length", "has no Content-Length")
    error(ada("GET", "/none", **chunked), 404, "not_found", "there is no")


def test_methods_that_a_path_does_not_have(ada):
    answer = error(ada("DELETE", "/submissions"), 405, "method", "does not take DELETE")
    assert set(answer.headers["Allow"].split(", ")) >= {"GET", "POST"}
    error(ada("OPTIONS", "/submissions"), 405, "method", "does not take OPTIONS")


# --- who -------------------------------------------------------------------------------------------------------


def test_whoami(ada, admin):
    """The answer names the person, what they may take, and what they take now."""
    before = check(ada("GET", "/whoami"), 200, "whoami")
    assert (before["user"], before["role"]) == ("ada", "user")
    share = before["allowance"]["slot_share"]
    assert before["allowance"] == Allowance(slot_share=share, stored_bytes=None).model_dump(mode="json")
    task = check(ada("POST", "/submissions", json=SOURCE), 201, "submit")
    after = check(ada("GET", "/whoami"), 200, "whoami")
    assert (after["waiting"], after["running"]) == (before["waiting"] + 1, before["running"])
    assert after["stored_bytes"] > before["stored_bytes"]
    check(ada("POST", f"/submissions/{task['id']}/cancel"), 200, "cancel")
    assert check(ada("GET", "/whoami"), 200, "whoami")["waiting"] == before["waiting"]
    root = check(admin("GET", "/whoami"), 200, "whoami")
    assert (root["user"], root["role"], root["allowance"]) == ("root", "admin", UNLIMITED.model_dump(mode="json"))


def test_a_user_without_the_right_to_own_tests_is_refused(tmp_path_factory, etcd_endpoint, mongod_address):
    with contextlib.ExitStack() as stack:
        world = World(tmp_path_factory.mktemp("modest"), etcd_endpoint, mongod_address)
        stack.callback(world.close)
        world.judicator(allowances={"user": {"own_tests": False}})
        settings = gateway_config(world, tmp_path_factory.mktemp("gw"), threads=2)
        client = stack.enter_context(serving_app(settings)).test_client()
        for body in (SOURCE, {"command": "cat"}, {**SOURCE, "tests": [{"name": "1"}]}):
            answer = client.post("/api/v1/submissions", json=body, headers={"Authorization": f"Bearer {USER}"})
            error(answer, 403, "forbidden", "'ada' may hand in programs to problems only")
        body = {"command": "cat"}
        answer = client.post("/api/v1/submissions", json=body, headers={"Authorization": f"Bearer {ADMIN}"})
        assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("route", [row for row in ROUTES if row.role != "none"], ids=lambda row: row.name)
def test_every_call_takes_a_token(app, route):
    path = re.sub(r"<\w+>", ID, route.path)
    address = f"10.0.0.{ROUTES.index(route) % 250}"  # each has some wrong tokens for free
    client = app.test_client()
    for header in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {USER}"},
        {"Authorization": "Bearer"},
    ):
        answer = client.open(
            f"/api/v1{path}", method=route.method, headers=header, environ_base={"REMOTE_ADDR": address}
        )
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        if route.method != "HEAD":
            error(answer, 401, "unauthorized", "Authorization: Bearer TOKEN|unknown token")


@pytest.mark.parametrize("route", [row for row in ROUTES if row.role in {"judge", "admin"}], ids=lambda row: row.name)
def test_calls_for_judges_and_admins_refuse_users(ada, route):
    answer = ada(route.method, re.sub(r"<\w+>", "a" * 64, route.path))
    assert answer.status_code == 403
    if route.method != "HEAD":
        error(answer, 403, "forbidden", f"requires a token of role {route.role}")


def test_answers_are_not_cached_and_carry_security_headers(nobody):
    headers = nobody("GET", "/alive").headers
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in headers["Content-Security-Policy"]


# --- machines --------------------------------------------------------------------------------------------------


def test_executors_drain_and_resume(admin, ada, executor):
    executors = check(ada("GET", "/executors"), 200, "executors")["executors"]
    assert [executor["name"] for executor in executors] == ["e1"]
    state = check(admin("POST", "/executors/e1/drain", json={"reason": "new disk"}), 200, "drain")
    assert state["drain"] and state["drain_reason"] == "new disk"
    assert check(admin("POST", "/executors/e1/drain"), 200, "drain")["drain"], "the reason may be left out"
    state = check(admin("POST", "/executors/e1/resume"), 200, "resume")
    assert not state["drain"]
    error(admin("POST", "/executors/e1/drain", json={"reasno": ""}), 400, "field", "did you mean 'reason'", "reasno")
    error(admin("POST", "/executors/e9/drain"), 404, "not_found", "e9")
    error(admin("POST", "/executors/%20/drain"), 404, "not_found", "there is no executor")


def test_a_language_by_the_name_that_another_judge_has_for_it(ada):
    """It is stored, shown and searched for as the row that is meant."""
    submitted = ada("POST", "/submissions", json={**SOURCE, "language": "GNU C"}).json
    assert submitted["submission"]["language"] == "c", submitted
    for name in ("c", "GNU%20c", "C%20(GCC%209.2.0)"):
        tasks = ada("GET", f"/submissions?language={name}&limit=500").json["tasks"]
        assert submitted["id"] in [task["id"] for task in tasks], name


def test_status_judicators_languages_health(admin, ada, nobody, executor, world):
    wait_for(lambda: ada("GET", "/status").json["leader"] == "j1", what="a leader")
    status = check(ada("GET", "/status"), 200, "status")
    assert status["slots"] == 50
    assert status["judicators"] == status["etcd"] == status["mongodb"] == []
    members = check(admin("GET", "/judicators"), 200, "judicators")
    assert [(judicator["name"], judicator["leader"]) for judicator in members["judicators"]] == [("j1", True)]
    assert members["mongodb"] and members["etcd"]
    (language,) = check(ada("GET", "/languages"), 200, "languages")["languages"]
    assert language == {"name": "c", "title": "C", "suffixes": [".c"], "version": "1.0", "executors": 1}
    healthy = check(nobody("GET", "/health"), 200 if not status["faults"] else 503, "health")
    assert healthy == {"healthy": not status["faults"], "faults": status["faults"]}
    assert check(nobody("GET", "/alive"), 200, "alive")["alive"]


# --- problems and blobs ----------------------------------------------------------------------------------------


def put(person, data):
    sha = hashlib.sha256(data).hexdigest()
    return sha, person("PUT", f"/blobs/{sha}", data=data)


def test_import_a_problem_and_judge_it_without_showing_its_secrets(admin, ada, executor):
    blobs = {}
    for data in (b"1\n", b"one\n", b"2\n", b"two\n"):
        blobs[data], answer = put(admin, data)
        assert check(answer, 201, "put_blob") == {"sha": blobs[data], "bytes": len(data)}
    manifest = ProblemManifest(
        name="count",
        title="Counting",
        tests=[
            ProblemTest(name="sample/1", input=blobs[b"1\n"], answer=blobs[b"one\n"], sample=True),
            ProblemTest(name="secret/1", input=blobs[b"2\n"], answer=blobs[b"two\n"]),
        ],
    )
    sha, _ = put(admin, manifest.model_dump_json().encode())
    info = check(admin("POST", "/problems", json={"manifest": sha, "visible": True}), 201, "import_problem")
    assert (info["name"], info["tests"], info["hash"]) == ("count", 2, sha)
    assert info["visibility"] == {"everyone": True, "groups": [], "since": None}
    info["visibility"] = None  # others do not hear of it
    assert check(ada("GET", "/problems"), 200, "problems")["problems"] == [info]
    problem = check(ada("GET", "/problems/count"), 200, "problem")
    assert {key: problem[key] for key in info} == info and problem["samples"][0]["answer"] == "one\n"

    task = ada("POST", "/submissions", json={**SOURCE, "problem": "count"}).json
    executor.report()
    tests = [
        m.TestResult(name="sample/1", verdict="AC", output="one"),
        m.TestResult(name="secret/1", verdict="WA", output="2", message="judge has two"),
    ]
    completed = accepted(executor.work[task["id"]], status="run_failed", verdict="WA", result=m.Result(tests=tests))
    executor.report(completed, vacant=0)
    tests_of_user = ada("GET", f"/submissions/{task['id']}").json["result"]["tests"]
    assert [test["output"] for test in tests_of_user] == ["one", ""] and tests_of_user[1]["message"] == ""
    (several,) = ada("GET", f"/submissions/batch?ids={task['id']}").json["tasks"]
    assert several == ada("GET", f"/submissions/{task['id']}").json, "several at once say no more"
    full = admin("GET", f"/submissions/{task['id']}").json["result"]["tests"]
    assert [test["output"] for test in full] == ["one", "2"] and full[1]["message"] == "judge has two"


def test_blobs(admin):
    data = b"some data" * 1000
    sha, answer = put(admin, data)
    assert answer.status_code == 201
    head = admin("HEAD", f"/blobs/{sha}")
    assert (head.status_code, head.data) == (200, b"")
    blob = admin("GET", f"/blobs/{sha}")
    assert blob.data == data and blob.content_length == len(data)
    assert blob.mimetype == "application/octet-stream"
    assert admin("HEAD", f"/blobs/{'0' * 64}").status_code == 404
    error(admin("GET", f"/blobs/{'0' * 64}"), 404, "not_found", "0000")
    error(admin("GET", "/blobs/xyz"), 400, "field", "64 lower-case hex", "sha")
    error(admin("PUT", f"/blobs/{'0' * 64}", data=b"x"), 400, "field", "arrived damaged", "sha")
    assert put(admin, b"x" * 350_000)[1].status_code == 201, "blobs may be larger than other bodies"
    error(put(admin, b"x" * 400_001)[1], 413, "too_large", "at most 400000")
    error(admin("POST", "/problems", json={"manifest": "x"}), 400, "field", "expected a SHA-256", "manifest")
    assert admin("POST", "/problems", json={"manifest": "0" * 64}).status_code in {400, 404}
    assert admin("POST", "/problems", json={"manifest": sha}).status_code == 400, "not a manifest"


# --- no judicator ----------------------------------------------------------------------------------------------


def test_without_judicators_each_call_says_so(tmp_path, world, caplog):
    lonely = world.etcd_config.model_copy(update={"prefix": "/nobody/"})
    settings = make_config(tmp_path, lonely, world.tls("gateway-1", "gateway"), rpc_timeout=0.3)
    with serving_app(settings) as app:
        ada, nobody = Person(app.test_client(), USER), Person(app.test_client(), None)
        admin = Person(app.test_client(), ADMIN)
        for method, path, body in [
            ("POST", "/submissions", SOURCE),
            ("GET", "/status", None),
            ("GET", "/problems", None),
        ]:
            answer = error(ada(method, path, json=body), 503, "unavailable", "do not answer at the moment, try again")
            assert int(answer.headers["Retry-After"]) > 0
            number = answer.headers["X-Request-Id"]
            assert answer.json["error"].endswith(f"try again in a few seconds (trace {number})")
            assert re.search(rf"trace {number}: no judicator answered '\w+'", caplog.text)
            assert "no judicator answered" in admin(method, path, json=body).json["error"]
        health = check(nobody("GET", "/health"), 503, "health")
        assert not health["healthy"]
        assert health["faults"] == ["the judge's servers do not answer at the moment, try again in a few seconds"]
        assert nobody("GET", "/alive").status_code == 200


INNER = ["etcd member etcd-1 (10.0.0.1:2379) is not healthy", "executor 'e1.example' does not report"]
MEMBER = {"name": "10.0.0.1:27017", "address": "10.0.0.1:27017"}


def test_contestants_learn_no_name_or_address_of_a_host(tmp_path, etcd_endpoint):
    with Prepared(tmp_path / "judicator", etcd_endpoint).serving() as judicator:
        inner = re.compile(r"10\.0\.0\.1|etcd-1|e1\.example|mongod ")
        judicator.answers["status"] = healthy().model_copy(
            update={
                "faults": INNER,
                "judicators": [JudicatorState(**MEMBER)],
                "etcd": [MemberState(**MEMBER, role="leader", healthy=False)],
                "mongodb": [MemberState(**MEMBER, role="primary", healthy=True)],
            }
        )
        settings = gateway_config(judicator, tmp_path)
        write_tokens(settings.tokens, [*PEOPLE, ("jo", "judge", "judge-token-of-tests")])
        with serving_app(settings) as app:
            ada, admin = Person(app.test_client(), USER), Person(app.test_client(), ADMIN)
            judge, nobody = Person(app.test_client(), "judge-token-of-tests"), Person(app.test_client(), None)
            for person in (nobody, ada):
                answer = person("GET", "/health")
                assert answer.status_code == 503
                assert len(answer.json["faults"]) == 1 and not inner.search(answer.text)
            assert not inner.search(ada("GET", "/status").text) and ada("GET", "/status").json["faults"]
            assert ada("GET", "/judicators").status_code == 403
            for person in (judge, admin):
                assert person("GET", "/status").json["faults"] == INNER
                assert person("GET", "/judicators").json["mongodb"][0]["address"] == MEMBER["address"]

            def fail(failure, _):
                raise failure

            for failure in (
                JudgeError("MongoDB refused this call: mongod 10.0.0.1:27017 failed"),
                UnavailableError("MongoDB does not serve this call now: 10.0.0.1:27017: closed"),
                OutcomeUnknownError("MongoDB did not confirm this call: 10.0.0.1:27017: closed"),
            ):
                judicator.answers["search"] = functools.partial(fail, failure)
                answer = ada("GET", "/submissions")
                assert answer.status_code >= 500 and not inner.search(answer.text), answer.text
                assert answer.headers["X-Request-Id"] in answer.json["error"]
                assert inner.search(admin("GET", "/submissions").text)
                assert not inner.search(Browser(app.test_client(), USER).get("/submissions").text)


def test_health_costs_the_cluster_one_question_at_a_time(tmp_path, world):
    with serving_app(gateway_config(world, tmp_path)) as app:
        cluster = app.extensions["judge"].cluster
        with cluster._asking:
            assert cluster.faults() == ["the state of the cluster is not known yet"]
        faults = cluster.faults()
        assert cluster.faults() is faults


def test_an_internal_error_is_a_number_and_not_a_traceback(app, ada, monkeypatch, caplog):
    monkeypatch.setattr(app.extensions["judge"].cluster, "call", lambda *_: 1 / 0)
    answer = error(ada("GET", "/status"), 500, "error", r"internal error [0-9a-f]{32}; the gateway's log")
    assert "ZeroDivision" not in answer.text
    assert re.search(r"[0-9a-f]{32}", answer.text)[0] in caplog.text


REQUESTS = {
    "submit": {"json": SOURCE},
    "submit_batch": {"json": {"submissions": [SOURCE]}},
    "get_batch": {"query_string": {"ids": ID}},
    "import_problem": {"json": {"manifest": "0" * 64}},
    "put_blob": {"data": b""},
    "verified": {"json": {"problem": "none", "hash": "0" * 64}},
    "put_pack": {"data": packs.pack([(hashlib.sha256(b"").hexdigest(), b"")])},
    "missing_blobs": {"json": {"blobs": ["0" * 64]}},
    "rejudge_preview": {"json": {"user": ["nobody"]}},
    "rejudge_start": {"json": {"filter": {"user": ["nobody"]}, "reason": "r"}},
    "delete_preview": {"json": {"user": "nobody"}},
    "audit_hold": {"json": {"action": "hold.place", "host": "h", "service": "s"}},
    "add_webhook": {"json": {"name": "none", "url": "https://receiver.example/hook"}},
    "resend": {"json": {"webhook": "none"}},
    "add_user": {"json": {"name": "newcomer"}},
    "add_users": {"json": {"users": [{"name": "newcomer"}]}},
    "set_password": {"json": {"password": "a long one, of words"}},
    "own_password": {"json": {"old": "a long one, of words", "password": "another long one"}},
}


def test_each_route_makes_the_calls_and_gives_the_statuses_of_its_row(app, admin, monkeypatch):
    task = admin("POST", "/submissions", json=SOURCE).json["id"]
    cluster = app.extensions["judge"].cluster
    call, made_calls = cluster.forward, []
    recording = lambda name, *arguments, **options: (made_calls.append(name), call(name, *arguments, **options))[1]  # noqa: E731
    monkeypatch.setattr(cluster, "forward", recording)
    for route in ROUTES:
        made_calls.clear()
        ids = {"rejudgings": "1", "tokens": "0" * 16}
        names = {"id": ids.get(route.path.split("/")[1], task), "name": "none", "sha": "0" * 64, "code": "field"}
        path = re.sub(r"<(\w+)>", lambda match, names=names: names[match[1]], route.path)
        answer = admin(route.method, path, **REQUESTS.get(route.name, {"json": {}} if route.body else {}))
        assert answer.status_code in {route.status, *route.also, *route.refusals()}, (route.name, answer.text)
        assert answer.status_code not in {400, 415} or route.name == "put_blob", (route.name, answer.text)
        cached = route.name == "health"  # a moment ago somebody else has asked
        # Another process asks for what listeners hear (judge/gateway/events.py).
        calls = set(route.calls) - ({"changes"} if route.name in {"events", "follow"} else set())
        calls -= {"problem_statements"} if route.name == "statement" else set()  # of a problem that is there
        # People and problems are asked for if a submission counts.
        calls -= {"names", "users"} - set(made_calls) if route.name == "results" else set()
        # Now and then the caller's account is looked at again, whatever is called.
        assert set(made_calls) - {"credentials"} == calls or (cached and not made_calls), route.name


# --- OpenAPI ---------------------------------------------------------------------------------------------------


def test_the_document_is_served_without_a_token(nobody):
    answer = nobody("GET", "/openapi.json")
    assert answer.status_code == 200 and answer.mimetype == "application/json"
    assert answer.json == json.loads(json.dumps(DOCUMENT))


def test_every_route_is_in_the_document_and_the_other_way_round(app):
    served = set()
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith(PREFIX):
            path = re.sub(r"<(\w+)>", r"{\1}", rule.rule)
            methods = rule.methods - {"HEAD"} if "GET" in rule.methods else rule.methods
            served |= {(path, method.lower()) for method in methods}
    documented = {(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert documented == served
    assert len(documented) == len(ROUTES)


def test_the_document_is_sound():
    assert DOCUMENT["openapi"].startswith("3.1")
    text = json.dumps(DOCUMENT)
    for ref in set(re.findall(r'"#/components/schemas/([^"]+)"', text)):
        assert ref in DOCUMENT["components"]["schemas"], ref
    for name, schema in DOCUMENT["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert re.fullmatch(r"[A-Za-z0-9._-]+", name)
    names = []
    for path, methods in DOCUMENT["paths"].items():
        for operation in methods.values():
            names.append(operation["operationId"])
            documented = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
            assert documented == set(re.findall(r"{(\w+)}", path))
            assert all(parameter["required"] for parameter in operation["parameters"] if parameter["in"] == "path")
            assert operation["summary"] and operation["responses"]
    assert len(names) == len(set(names))


def test_the_page_about_the_api_names_every_route():
    text = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    for route in ROUTES:
        path = re.sub(r"<(\w+)>", lambda match: match[1].upper(), route.path)
        assert re.search(rf"`{route.method} {re.escape(path)}[?`]", text), f"{route.method} {path}"
