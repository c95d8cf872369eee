"""Batches, bulk get, tags, pages, both shapes of errors, calls that will go: over a real judicator, etcd and mongod."""

import re
import threading
from types import SimpleNamespace

import jsonschema
import pytest
from pymongo.errors import AutoReconnect

from judge.common import clock
from judge.common.errors import OutcomeUnknownError, UnavailableError
from judge.config.allowance import Allowance, Allowances
from judge.gateway.api import answers, batches
from judge.model import messages as m
from judge.model.messages import ErrorBody
from judge.model.several import OneOutcome
from tests.support.gateway import DOCUMENT, check, gateway_config
from tests.support.judicators import World, accepted
from tests.support.servers import wait_for

SOURCE = {"language": "c", "source": "int main(){}"}
OFTEN = 40
UNKNOWN = "f" * 24


@pytest.fixture(scope="module")
def world(tmp_path_factory, etcd_endpoint, mongod_address):
    world = World(tmp_path_factory.mktemp("world"), etcd_endpoint, mongod_address)
    world.judicator(allowances=Allowances(user=Allowance(per_minute=OFTEN)))
    yield world
    world.close()


@pytest.fixture(scope="module")
def settings(world, tmp_path_factory):
    directory = tmp_path_factory.mktemp("gw")
    return gateway_config(world, directory, limits={"source_bytes": 1000})


def batch(person, *submissions, status=200, **headers):
    return check(
        person("POST", "/submissions/batch", json={"submissions": submissions}, headers=headers), status, "submit_batch"
    )


# --- batches ---------------------------------------------------------------------------------------------------


def test_each_of_a_batch_has_its_own_answer_or_error(admin):
    results = batch(
        admin,
        SOURCE,
        {**SOURCE, "sourc": "x"},
        {**SOURCE, "language": "klingon"},
        {**SOURCE, "source": "x" * 2000},
        [],
        {**SOURCE, "problem": "none"},
        {**SOURCE, "user": "bob"},
    )["results"]
    assert [row["status"] for row in results] == [201, 400, 400, 413, 400, 404, 201]
    errors = [row["error"] and (row["error"]["code"], row["error"]["field"]) for row in results]
    assert errors[:4] == [None, ("field", "sourc"), ("field", "language"), ("too_large", "source")]
    assert "did you mean 'source'" in results[1]["error"]["error"] and "JSON object" in results[4]["error"]["error"]
    assert [row["task"]["submission"]["user"] for row in results if row["task"]] == ["root", "bob"]


def test_a_batch_answers_each_submission_as_a_call_for_it_alone(ada):
    for submission in (
        {**SOURCE, "sourc": "x"},
        {**SOURCE, "user": "bob"},
        {**SOURCE, "priority": "high"},
        {"problem": ""},
    ):
        alone = ada("POST", "/submissions", json=submission)
        (result,) = batch(ada, submission)["results"]
        assert (result["status"], result["error"]["code"]) == (alone.status_code, alone.json["code"])
        assert result["error"]["field"] == alone.json["field"]


def test_a_batch_may_be_repeated(admin):
    own = {**SOURCE, "idempotency_key": "own"}
    first = batch(admin, SOURCE, own, SOURCE, **{"Idempotency-Key": "all"})["results"]
    again = batch(admin, SOURCE, own, SOURCE, **{"Idempotency-Key": "all"})["results"]
    assert [row["status"] for row in first] == [201] * 3 and [row["status"] for row in again] == [200] * 3
    assert [row["task"]["id"] for row in first] == [row["task"]["id"] for row in again]
    assert len({row["task"]["id"] for row in first}) == 3, "two of the same content are two"
    changed = batch(admin, {**SOURCE, "source": "other"}, {**own, "source": "other"}, **{"Idempotency-Key": "all"})
    assert [row["status"] for row in changed["results"]] == [409, 409]
    twice = batch(admin, {**SOURCE, "idempotency_key": "t"}, {**SOURCE, "idempotency_key": "t"})["results"]
    assert [row["status"] for row in twice] == [201, 200]


def test_a_batch_is_bounded(admin):
    for several, field in ([], "submissions"), ([SOURCE] * (batches.MOST + 1), "submissions"), ({}, "submissions"):
        answer = admin("POST", "/submissions/batch", json={"submissions": several})
        assert (answer.status_code, answer.json["field"]) == (400, field)
    (result,) = batch(admin, SOURCE, **{"Idempotency-Key": "k" * 121})["results"]
    assert result["status"] == 400 and result["error"]["field"] == "Idempotency-Key"


def test_each_of_a_batch_counts_against_the_rate(bob):
    answer = bob("POST", "/submissions/batch", json={"submissions": [SOURCE] * (OFTEN + 3)})
    statuses = [row["status"] for row in check(answer, 200, "submit_batch")["results"]]
    assert statuses == [201] * OFTEN + [429] * 3
    assert answer.headers["RateLimit-Remaining"] == "0" and 0 < int(answer.headers["Retry-After"]) <= 60
    assert answer.json["results"][-1]["error"]["rate"]["limit"] == OFTEN


def test_a_batch_whose_cluster_goes_away_lists_the_stored_submissions(app, admin, monkeypatch):
    cluster = app.extensions["judge"].cluster
    call, calls = cluster.forward, []

    def failing(error, after, *, spoilt=None):
        """From the call after so many on nobody answers; of the first one `spoilt` is what could not be done there."""

        def act(name, *arguments, **options):
            if name not in {"add", "adds"}:
                return call(name, *arguments, **options)
            calls.append(name)
            if len(calls) > after:
                raise error
            reply = call(name, *arguments, **options)
            if spoilt is not None:
                reply.outcomes[spoilt] = OneOutcome(error=ErrorBody.of(UnavailableError("no primary")))
            return reply

        calls.clear()
        monkeypatch.setattr(cluster, "forward", act)

    failing(UnavailableError("nobody answers"), 1)
    results = batch(admin, *[SOURCE] * 18)["results"]
    assert [row["status"] for row in results] == [201] * 16 + [503] * 2
    assert calls == ["adds", "adds"], "no further one is tried"
    failing(OutcomeUnknownError("perhaps"), 1)
    results = batch(admin, *[SOURCE] * 33)["results"]
    codes = [row["error"] and row["error"]["code"] for row in results]
    assert codes == [None] * 16 + ["outcome_unknown"] * 16 + ["unavailable"]
    assert "not tried" in results[-1]["error"]["error"]
    failing(UnavailableError("nobody answers"), 1, spoilt=1)
    results = batch(admin, *[SOURCE] * 3)["results"]
    assert [row["status"] for row in results] == [201, 503, 201] and calls == ["adds", "add"], "it is tried elsewhere"
    for several in [SOURCE], [SOURCE, SOURCE], [{"sourc": ""}, SOURCE]:
        failing(UnavailableError("nobody answers"), 0)
        answer = admin("POST", "/submissions/batch", json={"submissions": several})
        assert answer.status_code == 503 and answer.headers["Retry-After"], "nothing was done, so all of it is repeated"


def test_a_batch_that_takes_too_long_lists_the_untried_submissions(app, admin, monkeypatch):
    cluster = app.extensions["judge"].cluster
    call = cluster.forward

    def slow(name, *arguments, **options):
        reply = call(name, *arguments, **options)
        if name == "adds":  # not a look at the languages or the person before the batch begins
            late = SimpleNamespace(monotonic=lambda: clock.monotonic() + batches.SECONDS)
            monkeypatch.setattr(batches, "clock", late)
        return reply

    monkeypatch.setattr(cluster, "forward", slow)
    results = batch(admin, *[SOURCE] * 17, {"sourc": ""})["results"]
    assert [row["status"] for row in results] == [201] * 16 + [504, 400]
    assert "not tried" in results[16]["error"]["error"]


def test_a_batch_whose_outcome_is_unknown_is_not_stored_twice(admin, world, monkeypatch):
    service = world.judicators[0].judicator.service
    real, dropped = service._add, []

    async def add(*arguments):
        reply = await real(*arguments)
        if len(dropped) < 4:
            dropped.append(reply)
            raise AutoReconnect("the primary went after the insert")
        return reply

    monkeypatch.setattr(service, "_add", add)
    before = world.db.tasks.count_documents({})
    results = batch(admin, *[SOURCE] * 4)["results"]
    assert [row["status"] for row in results] == [200] * 4, "the second try finds what the first has stored"
    assert world.db.tasks.count_documents({}) == before + 4


def test_submissions_of_a_batch_with_the_same_key_are_stored_once(admin):
    another = {**SOURCE, "source": "int other;"}
    keyed = [{**submission, "idempotency_key": "k"} for submission in (SOURCE, SOURCE, another)]
    results = batch(admin, *keyed, another)["results"]
    assert [row["status"] for row in results] == [201, 200, 409, 201]
    assert results[0]["task"]["id"] == results[1]["task"]["id"] and "idempotency key" in results[2]["error"]["error"]


# --- bulk get --------------------------------------------------------------------------------------------------


def several(person, *ids):
    return check(person("GET", "/submissions/batch", query_string={"ids": ",".join(ids)}), 200, "get_batch")


def test_several_submissions_at_once_as_each_may_be_seen(ada, admin, executor):
    of_ada = ada("POST", "/submissions", json=SOURCE).json["id"]
    theirs = [row["task"]["id"] for row in batch(admin, SOURCE, SOURCE)["results"]]
    executor.judge_all()
    reply = several(ada, theirs[0], of_ada, UNKNOWN, "no-id", of_ada)
    assert [row["id"] for row in reply["tasks"]] == [of_ada] and reply["missing"] == [theirs[0], UNKNOWN, "no-id"]
    reply = several(admin, theirs[1], of_ada, theirs[0])
    assert [row["id"] for row in reply["tasks"]] == [theirs[1], of_ada, theirs[0]], "in the order of the question"
    assert reply["tasks"][1] == admin("GET", f"/submissions/{of_ada}").json


def test_a_bulk_get_takes_one_call_and_hidden_submissions_take_no_room(app, ada, admin, monkeypatch):
    cluster = app.extensions["judge"].cluster
    call, calls = cluster.call, []
    own = [row["task"]["id"] for row in batch(ada, *[SOURCE] * 3)["results"]]
    (theirs,) = [row["task"]["id"] for row in batch(admin, SOURCE)["results"]]

    def counted(name, *arguments, **options):
        calls.append(name)
        return call(name, *arguments, **options)

    monkeypatch.setattr(cluster, "call", counted)
    assert len(several(ada, *own)["tasks"]) == 3
    assert calls.count("tasks") == 1
    assert "get" not in calls
    monkeypatch.setattr(batches, "BYTES", 1)
    reply = several(ada, theirs, *own)
    assert (reply["missing"], [row["id"] for row in reply["tasks"]], reply["left"]) == ([theirs], own[:1], own[1:])


def test_a_bulk_get_is_bounded_by_the_size_of_its_answer(admin, monkeypatch):
    ids = [row["task"]["id"] for row in batch(admin, *[SOURCE] * 4)["results"]]
    monkeypatch.setattr(batches, "BYTES", 1)
    reply = several(admin, *ids)
    assert [row["id"] for row in reply["tasks"]] == ids[:1] and reply["left"] == ids[1:]
    for wrong in ("", ",", ",".join(f"{number:024x}" for number in range(batches.MOST + 1))):
        assert admin("GET", "/submissions/batch", query_string={"ids": wrong}).json["field"] == "ids"


# --- tags ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/submissions", "/problems", "/languages", "/whoami", "/executors", "/openapi.json"])
def test_an_unchanged_answer_is_not_sent_again(ada, path):
    first = ada("GET", path)
    assert first.status_code == 200 and re.fullmatch(r'"[0-9a-f]{32}"', first.headers["ETag"])
    assert first.headers["Cache-Control"] == "private, no-cache" and "Authorization" in first.headers["Vary"]

    def same_answer():  # an answer that tells how long something lasts changes by itself
        tag = ada("GET", path).headers["ETag"]
        return ada("GET", path, headers={"If-None-Match": f'"other", W/{tag}'})

    wait_for(lambda: same_answer().status_code == 304, what="the same twice")
    again = same_answer()
    assert (again.data, again.status_code) == (b"", 304) and again.headers["ETag"] and "X-Request-Id" in again.headers
    assert ada("GET", path, headers={"If-None-Match": '"other"'}).data


def test_a_submissions_tag_changes_with_its_state(ada, admin, executor):
    task = ada("POST", "/submissions", json=SOURCE).json["id"]
    path = f"/submissions/{task}"
    for address in (path, f"/submissions/batch?ids={task}"):
        tag = ada("GET", address).headers["ETag"]
        assert ada("GET", address, headers={"If-None-Match": tag}).status_code == 304
        assert ada("HEAD", address).headers["ETag"] == tag
    answers_: list[int] = []
    thread = threading.Thread(
        target=lambda: answers_.append(
            ada("GET", f"{path}?wait=20", headers={"If-None-Match": tag}).status_code,
        )
    )
    tag = ada("GET", path).headers["ETag"]
    thread.start()
    executor.judge_all()
    thread.join(20)
    assert answers_ == [200]
    assert ada("GET", path, headers={"If-None-Match": tag}).json["done"]


def test_an_output_and_a_source_have_tags(ada, admin, executor):
    task = ada("POST", "/submissions", json=SOURCE).json["id"]
    executor.report()
    sha = executor.rpc.put_blob(b"x" * 300_000)
    executor.report(accepted(executor.work[task], result=m.Result(stdout_blob=sha)), vacant=0)
    for path, person in (
        (f"/submissions/{task}/output", ada),
        (f"/submissions/{task}/source", ada),
        (f"/blobs/{sha}", admin),
    ):
        first = person("GET", path)
        again = person("GET", path, headers={"If-None-Match": first.headers["ETag"]})
        assert first.data and (again.status_code, again.data) == (304, b""), path
    missing = "0" * 64
    assert admin("GET", f"/blobs/{missing}", headers={"If-None-Match": f'"{missing}"'}).status_code == 404


def test_a_browsers_answers_are_not_kept(app, nobody):
    assert nobody("GET", "/openapi.json").headers["Cache-Control"] == "no-store"
    assert nobody("GET", "/openapi.json").headers["ETag"]


# --- errors ----------------------------------------------------------------------------------------------------

PROBLEM = "application/problem+json"


@pytest.mark.parametrize(
    ("accept", "problem"),
    [
        (PROBLEM, True),
        ("application/json, application/problem+json", True),
        ("application/problem+json;q=0.5, application/json", False),
        ("application/problem+json;q=0", False),
        ("*/*", False),
        ("", False),
        ("application/*", False),
        ("APPLICATION/PROBLEM+JSON; charset=utf-8", True),
        ("text/html, application/problem+json;q=0.9, */*;q=0.8", True),
    ],
)
def test_problem_json_is_sent_on_request(ada, accept, problem):
    answer = ada("GET", f"/submissions/{UNKNOWN}", headers={"Accept": accept} if accept else {})
    assert answer.status_code == 404 and answer.headers["Vary"] == "Accept"
    assert answer.mimetype == (PROBLEM if problem else "application/json")
    assert ("detail" in answer.json, "error" in answer.json) == (problem, not problem)


def test_a_problem_says_all_that_an_error_says(ada, nobody):
    wrong = {**SOURCE, "sourc": ""}
    plain = ada("POST", "/submissions", json=wrong)
    problem = ada("POST", "/submissions", json=wrong, headers={"Accept": PROBLEM})
    schema = DOCUMENT["paths"]["/api/v1/submissions"]["post"]["responses"]["400"]["content"][PROBLEM]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(problem.json)
    body = problem.json
    assert (body["detail"], body["code"], body["field"]) == (plain.json["error"], "field", "sourc")
    assert body["status"] == problem.status_code == 400
    kind = check(nobody("GET", body["type"].removeprefix("/api/v1")), 200, "error_kind")
    assert kind == {"type": body["type"], "code": "field", "title": body["title"]}
    assert nobody("GET", "/errors/none").status_code == 404
    for path, method in (("/nothing", "GET"), ("/submissions", "PUT")):
        assert ada(method, path, headers={"Accept": PROBLEM}).mimetype == PROBLEM


# --- pages -----------------------------------------------------------------------------------------------------


def test_a_list_leads_to_its_next_page(admin):
    batch(admin, *[SOURCE] * 5)
    path, ids = "/submissions?limit=2&user=root&verdict=", []
    for _ in range(2):
        answer = admin("GET", path)
        ids += [task["id"] for task in answer.json["tasks"]]
        link = re.fullmatch(r'<(/api/v1/submissions\?[^>]*)>; rel="next"', answer.headers["Link"])
        path = link[1].removeprefix("/api/v1")
        batch(admin, SOURCE)  # a new one does not shift the pages
    assert path == f"/submissions?limit=2&user=root&before={ids[-1]}"
    assert len(set(ids)) == 4 and ids == sorted(ids, reverse=True)
    assert "Link" not in admin("GET", "/submissions?limit=500&user=root").headers


def test_every_error_code_has_a_title():
    assert all(answers.kind(code) for code in answers.TITLES)
