"""Rejudgings and trace ids through the gateway, API and pages, over a real judicator; no browser."""

import html
import re

import pytest

from judge.model import messages as m
from tests.support.gateway import ADMIN, USER, Browser, check
from tests.support.judicators import completed, module_world
from tests.support.servers import wait_for

world = module_world()


def judged(executor, verdict):
    """Judge whatever waits so."""

    def turn():
        executor.report(*[completed(assignment, verdict) for assignment in list(executor.work.values())])
        return not executor.work and not executor.report().add

    wait_for(turn, what="everything judged")


def hand_in(ada, executor, verdict, text):
    task = ada("POST", "/submissions", json={"language": "c", "source": text}).json["id"]
    judged(executor, verdict)
    return task


def test_a_whole_rejudging_over_the_api(admin, ada, executor):
    task = hand_in(ada, executor, "WA", "api")
    condition = {"ids": [task]}
    preview = check(admin("POST", "/rejudgings/preview", json=condition), 200, "rejudge_preview")
    assert preview["count"] == 1
    headers = {"Idempotency-Key": "once", "X-Request-Id": "rejudge-trace"}
    body = {"filter": condition, "reason": "new data"}
    answer = admin("POST", "/rejudgings", json=body, headers=headers)
    rejudging = check(answer, 201, "rejudge_start")
    assert answer.headers["Location"] == f"/api/v1/rejudgings/{rejudging['id']}"
    assert (rejudging["user"], rejudging["trace"], rejudging["total"]) == ("root", "rejudge-trace", 1)
    assert admin("POST", "/rejudgings", json=body, headers=headers).json["id"] == rejudging["id"], "the same key"
    path = f"/rejudgings/{rejudging['id']}"
    assert admin("POST", f"{path}/apply").status_code == 409
    run = check(admin("GET", f"{path}/diff?all=true"), 200, "rejudge_diff")["changes"][0]["rerun"]
    assert admin("GET", f"/submissions/{run}").json["rerun_of"] == task
    assert ada("GET", f"/submissions/{run}").status_code == 404, "a run is the judges' own"
    judged(executor, "AC")
    assert check(admin("GET", path), 200, "rejudging")["state"] == "finished"
    assert ada("GET", f"/submissions/{task}").json["verdict"] == "WA"
    key = {"Idempotency-Key": "apply-once"}
    for _ in range(2):
        assert check(admin("POST", f"{path}/apply", headers=key), 200, "rejudge_apply")["state"] == "applied"
    after = ada("GET", f"/submissions/{task}").json
    assert (after["verdict"], after["trace"]) == ("AC", "rejudge-trace")
    assert after["past"][0]["verdict"] == "WA"
    again = admin("POST", f"{path}/apply")
    assert (again.status_code, again.json["code"]) == (409, "conflict")
    assert "applied already" in again.json["error"]
    listed = check(admin("GET", "/rejudgings?limit=5"), 200, "rejudgings")
    assert listed["rejudgings"][0]["id"] == rejudging["id"]
    body = {"filter": {"user": ["ada"]}, "reason": "another"}
    newer = check(admin("POST", "/rejudgings", json=body), 201, "rejudge_start")["id"]
    first = check(admin("GET", "/rejudgings?limit=1"), 200, "rejudgings")
    assert ([row["id"] for row in first["rejudgings"]], first["next"]) == ([newer], newer)
    second = check(admin("GET", f"/rejudgings?limit=1&before={newer}"), 200, "rejudgings")
    assert ([row["id"] for row in second["rejudgings"]], second["next"]) == ([rejudging["id"]], None)
    admin("POST", f"/rejudgings/{newer}/cancel")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "/rejudgings", {"filter": {"user": ["nobody"]}, "reason": "r"}, 422, "no judged submission"),
        ("POST", "/rejudgings", {"filter": {}, "reason": "r"}, 400, "no condition"),
        ("POST", "/rejudgings", {"filter": {"verdict": ["WA"]}}, 400, "reason: is missing"),
        ("POST", "/rejudgings", {"filter": {"verdict": ["OK"]}, "reason": "r"}, 400, "filter.verdict.0"),
        ("POST", "/rejudgings", {"filter": {"verdikt": ["WA"]}, "reason": "r"}, 400, "verdikt"),
        ("POST", "/rejudgings", {"filter": {"since": "2026-01-01T00:00:00"}, "reason": "r"}, 400, "timezone"),
        ("POST", "/rejudgings", {"filter": {"ids": ["0" * 24]}, "reason": "r"}, 404, "no submission"),
        ("GET", "/rejudgings/99999", None, 404, "no rejudging 99999"),
        ("GET", "/rejudgings/nonsense", None, 404, "no rejudging 'nonsense'"),
        ("GET", "/rejudgings/99999/diff?limit=0", None, 400, "limit"),
        ("POST", "/rejudgings/99999/apply", None, 404, "no rejudging"),
        ("POST", "/rejudgings/99999/cancel", None, 404, "no rejudging"),
    ],
)
def test_bad_calls_are_one_sentence(admin, method, path, body, status, words):
    answer = admin(method, path, json=body) if body is not None else admin(method, path)
    assert answer.status_code == status, answer.text
    assert words in m.ErrorBody.model_validate_json(answer.data).error


def test_a_trace_id_goes_with_the_task(ada, executor, caplog):
    headers = {"X-Request-Id": "contest-7.42"}
    answer = ada("POST", "/submissions", json={"language": "c", "source": "trace"}, headers=headers)
    assert answer.headers["X-Request-Id"] == answer.json["trace"] == "contest-7.42"
    assert "trace" not in answer.json["submission"] or answer.json["submission"]["trace"] == ""
    executor.report()
    assert executor.work[answer.json["id"]].trace == "contest-7.42"
    judged(executor, "AC")
    untraced = ada("POST", "/submissions", json={"language": "c", "source": "trace 2", "trace": "ignored"})
    assert untraced.headers["X-Request-Id"] == untraced.json["trace"]
    assert re.fullmatch("[0-9a-f]{32}", untraced.json["trace"])
    judged(executor, "AC")


def test_the_same_key_with_another_trace_is_the_same_submission(ada, executor):
    ids = set()
    for trace in ("first", "second"):
        headers = {"Idempotency-Key": "traced", "X-Request-Id": trace}
        ids.add(ada("POST", "/submissions", json={"language": "c", "source": "x"}, headers=headers).json["id"])
    assert len(ids) == 1
    judged(executor, "AC")


def text_of(page):
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page.text)))


def test_the_pages_refuse(app, ada, executor):
    task = hand_in(ada, executor, "WA", "refuse")
    person = Browser(app.test_client(), USER)
    assert "Rejudgings" not in person.get("/").text
    for page in ("/rejudgings", "/rejudgings/1"):
        assert person.get(page).status_code == 403
    assert person.post("/", "/rejudgings/1/apply").status_code == 403
    browser = Browser(app.test_client(), ADMIN)
    assert browser.client.post("/rejudgings/start", data={"ids": task, "reason": "r"}).status_code == 400, "no CSRF"
    assert browser.get("/rejudgings/99999").status_code == 404
    assert browser.get("/rejudgings/x").status_code == 404
    answer = browser.post("/rejudgings", "/rejudgings/start", ids=task, reason=" ")
    assert answer.status_code == 400
    assert "reason" in text_of(answer).lower()
    assert "OK" in text_of(browser.get("/rejudgings?verdict=OK"))
    answer = browser.post("/rejudgings", "/rejudgings/start", user="nobody", reason="r")
    assert answer.status_code == 422
    assert browser.post("/rejudgings", "/rejudgings/start", ids=task, reason="to cancel").status_code == 303
    number = browser.get("/rejudgings").text.split('href="/rejudgings/')[1].split('"')[0]
    assert browser.post(f"/rejudgings/{number}", f"/rejudgings/{number}/cancel").status_code == 303
    assert "Cancelled; every verdict stays" in text_of(browser.get(f"/rejudgings/{number}"))
    assert browser.post(f"/rejudgings/{number}", f"/rejudgings/{number}/apply").status_code == 409
