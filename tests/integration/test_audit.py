"""The audit trail: who had what done from where; over the real API, pages and RPC, with a real database."""

import concurrent.futures
import datetime
import json
import uuid
from typing import Any

import httpx
import pytest
from bson import ObjectId

from judge.common.errors import JudgeError
from judge.gateway.notes import BURST, TokenWatch
from judge.model import messages as m
from judge.model.audit import HEADER, AuditEntry, AuditQuery, AuditReply, By, Note, TokenSeen, TokensSeen
from judge.model.deleting import Deleted, ProblemName
from judge.model.overview import DrainRequest, ExecutorState
from judge.model.problem import ProblemInfo
from judge.rpc.pki import client_context
from tests.support.gateway import ADMIN, USER, Browser, check, make_config, running_gateway, serving_app, write_tokens
from tests.support.judicators import World, imported, judge, manifest, upload
from tests.support.servers import wait_for

PATIENT = {"executor_expiry": 3600.0, "executor_forget": 7200.0, "task_expiry": 3600.0}


@pytest.fixture
def settings(world, tmp_path):
    return make_config(tmp_path / "gw", world.etcd_config, world.tls("gateway-1", "gateway"), rpc_timeout=20.0)


@pytest.fixture
def judicator(world):
    return world.judicator(**PATIENT)


@pytest.fixture
def app(world, judicator, settings):
    with serving_app(settings) as app:
        yield app


def trail(world: World, **conditions: Any) -> list[AuditEntry]:
    """Oldest first."""
    reply = world.client().call("audit", AuditQuery(limit=500, **conditions), AuditReply)
    return reply.entries[::-1]


def lines(world: World, **conditions: Any) -> list[tuple[str, str, str, str]]:
    return [(entry.actor, entry.action, entry.object, entry.outcome) for entry in trail(world, **conditions)]


def steps(*acts: tuple[str, str], actor: str = "root") -> list[tuple[str, str, str, str]]:
    """The lines of acts, each an action and its object: their beginnings and their ends."""
    return [(actor, action, about, outcome) for action, about in acts for outcome in ("begun", "done")]


def test_acts_of_admins_are_noted_with_actor_origin_and_outcome(world, app, admin, judicator):
    people, executor = world.client(), world.executor()
    executor.report()
    problem = manifest(people, tests=1)
    sha = people.put_blob(problem.model_dump_json().encode())
    headers = {"X-Request-Id": "trace-of-root"}
    assert admin("POST", "/problems", json={"manifest": sha}, headers=headers).status_code == 201
    assert admin("POST", "/executors/e1/drain", json={"reason": "disk\nfull"}).status_code == 200
    assert admin("POST", "/executors/e1/resume", json={}).status_code == 200
    assert admin("POST", "/executors/ghost/drain", json={}).status_code == 404
    hook = {"name": "h", "url": "https://receiver.example/"}
    assert admin("POST", "/webhooks", json=hook).status_code == 201
    assert admin("DELETE", "/webhooks/h").status_code < 300
    assert lines(world) == [
        ("root", "problem.import", "", "begun"),
        ("root", "problem.import", problem.name, "done"),
        *steps(("executor.drain", "e1"), ("executor.resume", "e1")),
        ("root", "executor.drain", "ghost", "begun"),
        ("root", "executor.drain", "ghost", "refused"),
        *steps(("webhook.add", "h"), ("webhook.remove", "h")),
    ]
    assert admin("GET", "/audit?limit=500").status_code == 200
    entries = trail(world)[:8]
    assert {(entry.role, entry.origin, entry.gateway) for entry in entries} == {("admin", "127.0.0.1", "gateway-1")}
    assert entries[0].trace == "trace-of-root"
    assert entries[0].call == entries[1].call != entries[2].call
    assert entries[1].details["manifest"] == sha
    assert entries[2].details == {"reason": "disk\\nfull"}, "on one line"
    assert "there is no executor 'ghost'" in entries[-1].details["error"]


def test_rejudgings_cancels_and_submissions_for_others(world, app, admin, ada, judicator):
    people, executor = world.client(), world.executor(slots=8)
    executor.report(vacant=0)
    own = ada("POST", "/submissions", json={"language": "c", "source": "x"}).json["id"]
    assert ada("POST", f"/submissions/{own}/cancel").status_code == 200
    assert lines(world) == [], "what people do with their own is nobody's business"
    body = {"language": "c", "source": "x", "user": "ada"}
    theirs = admin("POST", "/submissions", json=body).json["id"]
    assert admin("POST", f"/submissions/{theirs}/cancel").status_code == 200
    assert lines(world) == steps(("submission.behalf", "ada"), ("submission.cancel", theirs))
    assert trail(world)[1].details["submission"] == theirs
    judged = judge(people, executor, "WA")
    for path, json_body in (
        ("/rejudgings", {"filter": {"ids": judged}, "reason": "why"}),
        ("/rejudgings/1/apply", None),
        ("/rejudgings/1/cancel", None),
    ):
        admin("POST", path, json=json_body)
    assert lines(world, action="rejudging.") == [
        ("root", "rejudging.start", "", "begun"),
        ("root", "rejudging.start", "1", "done"),
        ("root", "rejudging.apply", "1", "begun"),
        ("root", "rejudging.apply", "1", "refused"),
        ("root", "rejudging.cancel", "1", "begun"),
        ("root", "rejudging.cancel", "1", "done"),
    ]


def test_an_act_that_cannot_be_noted_is_not_done(world, app, admin, judicator, settings):
    """MongoDB itself refuses the entries here."""
    executor = world.executor()
    executor.report()
    world.db.command("collMod", "audit", validator={"never": True}, validationLevel="strict")
    answer = admin("POST", "/executors/e1/drain", json={})
    assert answer.status_code >= 500
    assert world.db.executors.find_one({"_id": "e1"})["drain"] is False
    body = {"language": "c", "source": "x", "user": "ada"}
    assert admin("POST", "/submissions", json=body).status_code >= 500
    assert world.db.tasks.count_documents({}) == 0
    browser = Browser(app.test_client())
    answer = browser.post("/login", "/login", token=ADMIN)
    assert answer.status_code >= 500
    assert browser.get("/").status_code == 303, "no session"
    world.db.command("collMod", "audit", validator={})
    assert admin("POST", "/executors/e1/drain", json={}).status_code == 200


def test_tries_of_one_call_are_one_action(world, judicator):
    """The answer of the first try is lost; the second one comes to another judicator."""
    executor = world.executor()
    executor.report()
    by = By(actor="root", role="admin", call="the-call")
    for _ in range(3):
        world.client().call("drain", DrainRequest(executor="e1", drain=True), ExecutorState, by=by)
    assert [outcome for *_, outcome in lines(world)] == ["begun", "done"]


def test_an_action_does_not_hide_behind_another_of_the_same_call(world, judicator):
    """A gateway that somebody has taken over makes up the ids of calls."""
    executor = world.executor()
    executor.report()
    by = By(actor="root", role="admin", call="the-call")
    for reason in ("cleaning", "sabotage"):
        request = DrainRequest(executor="e1", drain=True, reason=reason)
        world.client().call("drain", request, ExecutorState, by=by)
    assert [(entry.outcome, entry.details["reason"]) for entry in trail(world)] == [
        *(("begun", "cleaning"), ("done", "cleaning")),
        *(("begun", "sabotage"), ("done", "sabotage")),
    ]


def test_an_act_that_is_repeated_after_its_reversal_is_noted_again(world, judicator):
    """Also under the id of the call that had done it first, and where its beginning does not know what it is about."""
    people, executor = world.client(), world.executor()
    executor.report()
    by = By(actor="root", role="admin", call="the-call")
    for drain in (True, False, True):
        people.call("drain", DrainRequest(executor="e1", drain=drain), ExecutorState, by=by)
    acts = [(entry.action, entry.outcome) for entry in trail(world)]
    names = ("executor.drain", "executor.resume", "executor.drain")
    assert acts == [(name, outcome) for name in names for outcome in ("begun", "done")]
    small = upload(people, manifest(people, "small"))
    people.call("problem_import", small, ProblemInfo, by=by)
    people.call("delete_problem", ProblemName(name="small"), Deleted, by=by)
    people.call("problem_import", small, ProblemInfo, by=by)
    acts = [(entry.action, entry.outcome) for entry in trail(world)][6:]
    names = ("problem.import", "problem.delete", "problem.import")
    assert acts == [(name, outcome) for name in names for outcome in ("begun", "done")]


def test_only_gateways_say_for_whom_they_ask(world, judicator):
    """An executor may not put words into the trail, and a gateway no nonsense."""
    world.executor().report()
    tls = world.tls("gw", "gateway")
    with httpx.Client(verify=client_context(tls)) as client:
        answer = client.post(
            f"https://{judicator.address}/rpc/drain",
            json={"executor": "e1", "drain": True},
            headers={HEADER: json.dumps({"actor": ["x"]})},
        )
    assert answer.status_code == 400
    with pytest.raises(JudgeError):
        world.client("e1", "executor").call("audit_note", Note(action="login", object="root"), m.Empty)
    with pytest.raises(JudgeError):
        world.client("e1", "executor").call("audit", AuditQuery(), AuditReply)
    assert lines(world) == []


def test_logins_and_logouts(world, app):
    browser = Browser(app.test_client())
    assert browser.post("/login", "/login", token="wrong").status_code == 401
    assert browser.post("/login", "/login", token=USER).status_code == 303
    assert browser.post("/", "/logout").status_code == 303
    assert lines(world) == [
        ("", "login.failed", "page", "done"),
        ("ada", "login", "ada", "done"),
        ("ada", "logout", "ada", "done"),
    ]
    assert "wrong" not in json.dumps([entry.model_dump() for entry in trail(world)])


def test_ending_all_sessions_is_noted_by_whichever_way(world, app, ada):
    """As other acts are, with their beginning; the page notes it no second time."""
    browser = Browser(app.test_client())
    assert browser.post("/login", "/login", token=USER).status_code == 303
    assert ada("DELETE", "/sessions").status_code == 200
    assert browser.post("/login", "/login", token=USER).status_code == 303
    assert browser.post("/", "/logout", everywhere="yes").status_code == 303
    assert lines(world, action="logout") == steps(("logout", "ada"), actor="ada") * 2
    assert [entry.details for entry in trail(world, action="logout")] == [{"everywhere": True}] * 4
    assert {entry.origin for entry in trail(world, action="logout")} == {"127.0.0.1"}


def test_verifications_and_calls_to_webhooks_are_noted(world, app, admin, judicator):
    people = world.client()
    small = imported(people, "small")
    verification = {"problem": "small", "hash": small.hash, "faults": ["no solution is right"]}
    assert admin("POST", "/problems/small/verification", json=verification).status_code == 201
    hook = {"name": "h", "url": "https://receiver.example/"}
    assert admin("POST", "/webhooks", json=hook).status_code == 201
    ping = admin("POST", "/webhooks/h/ping").json["id"]
    assert admin("POST", "/deliveries/resend", json={"delivery": ping}).status_code == 200
    assert admin("POST", "/deliveries/resend", json={"webhook": "h"}).status_code == 200
    completed = [entry for entry in trail(world, actor="root") if entry.outcome == "done"]
    assert [(entry.action, entry.object) for entry in completed] == [
        ("problem.verify", "small"),
        ("webhook.add", "h"),
        ("webhook.ping", "h"),
        ("webhook.resend", ping),
        ("webhook.resend", "h"),
    ]
    assert completed[0].details == {"hash": small.hash, "right": False}


def test_a_flood_of_wrong_tokens_cannot_fill_the_database(world, app):
    """From as many addresses, at the page and at the API, for as many names."""
    client = app.test_client()
    for index in range(80):
        remote = {"REMOTE_ADDR": f"10.0.0.{index}"}
        header = {"Authorization": f"Bearer wrong-{index}"}
        assert client.get("/api/v1/whoami", headers=header, environ_base=remote).status_code == 401
    count = len(lines(world, action="login.failed"))
    assert count <= BURST + 2, "all strangers have one bucket"
    assert client.get("/api/v1/whoami").status_code == 401
    assert len(lines(world)) == count, "no token is no try"


def test_a_flood_of_logins_of_one_user_cannot_fill_the_database(world, app):
    for _ in range(BURST + 15):
        browser = Browser(app.test_client())
        assert browser.post("/login", "/login", token=USER).status_code == 303
    assert len(lines(world, action="login")) <= BURST + 2


@pytest.mark.parametrize(
    ("proxied", "headers", "origin"),
    [
        (True, {"X-Forwarded-For": "192.0.2.7"}, "192.0.2.7"),
        (True, {"X-Forwarded-For": "1.1.1.1, 2001:db8::1", "X-Real-IP": "1.1.1.1"}, "2001:db8::1"),
        (True, {}, "127.0.0.1"),
        (False, {"X-Forwarded-For": "192.0.2.7", "X-Real-IP": "192.0.2.7", "Forwarded": "for=192.0.2.7"}, "127.0.0.1"),
    ],
)
def test_an_address_is_believed_from_the_proxy_of_this_host_only(world, judicator, tmp_path, proxied, headers, origin):
    tls = world.tls("gateway-1", "gateway")
    settings = make_config(tmp_path / "gw", world.etcd_config, tls, proxied=proxied, rpc_timeout=20.0)
    world.executor().report()
    words = {"Authorization": f"Bearer {ADMIN}", "Judge-By": '{"actor":"ada"}', "Remote-Addr": "192.0.2.9", **headers}
    with running_gateway(settings, tmp_path) as url:
        answer = httpx.post(f"{url}/api/v1/executors/e1/drain", json={}, headers=words, trust_env=False)
    assert answer.status_code == 200, answer.text
    assert {(entry.actor, entry.origin) for entry in trail(world, action="executor.drain")} == {("root", origin)}


def tokens(*names: str) -> TokensSeen:
    return TokensSeen(tokens=[TokenSeen(user=user, role="user", fingerprint=f"{ord(user[0]):x}") for user in names])


def test_changes_of_tokens_are_noted_once_whoever_reports_them(world):
    for name in ("j1", "j2"):
        world.judicator(name)
    clients = [world.client(timeout=30.0) for _ in range(4)]

    def tell(present: TokensSeen) -> None:
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda n: clients[n % 4].call("audit_tokens", present, m.Empty), range(32)))

    tell(tokens("ada", "bob"))
    tell(tokens("ada", "cid"))
    details = [entry.details for entry in trail(world)]
    assert details == [
        {"tokens": 2, "appeared": ["ada user 61", "bob user 62"], "vanished": []},
        {"tokens": 2, "appeared": ["cid user 63"], "vanished": ["bob user 62"]},
    ]
    second = world.client("gw-2")
    second.call("audit_tokens", tokens("ada"), m.Empty)
    assert [entry.gateway for entry in trail(world)] == ["gw", "gw", "gw-2"]


def test_the_daemon_tells_what_its_file_of_tokens_has_become(world, judicator, settings):
    watch = TokenWatch(settings)
    watch.start()
    try:
        wait_for(lambda: len(trail(world)) == 1, what="the first entry")
        write_tokens(settings.tokens, [("root", "admin", ADMIN), ("eve", "admin", "a new token")])
        wait_for(lambda: len(trail(world)) == 2, what="the change")
    finally:
        watch.stop(5)
    last = trail(world)[-1]
    assert last.object == last.gateway == "gateway-1"
    assert [token.split()[0] for token in last.details["vanished"]] == ["ada", "bob"]
    assert last.details["appeared"][0].startswith("eve admin ")
    assert "a new token" not in json.dumps([entry.model_dump() for entry in trail(world)])


def test_the_trail_is_searched_by_admins(world, app, admin, ada, judicator):
    world.executor().report()
    for verb in ("drain", "resume", "drain"):
        assert admin("POST", f"/executors/e1/{verb}", json={}).status_code == 200
    assert ada("GET", "/audit").status_code == 403
    everything = check(admin("GET", "/audit"), 200, "audit")["entries"]
    assert len(everything) == 6
    assert [entry["id"] for entry in everything] == sorted((entry["id"] for entry in everything), reverse=True)
    pages, before = [], ""
    while True:
        answer = check(admin("GET", f"/audit?limit=4{before}"), 200, "audit")
        pages += answer["entries"]
        if answer["next"] is None:
            break
        before = f"&before={answer['next']}"
    assert pages == everything
    assert {entry["action"] for entry in admin("GET", "/audit?action=executor.resume").json["entries"]} == {
        "executor.resume"
    }
    assert len(admin("GET", "/audit?action=executor.").json["entries"]) == 6
    assert len(admin("GET", "/audit?actor=root&object=e1").json["entries"]) == 6
    assert admin("GET", "/audit?actor=ada").json["entries"] == []
    tomorrow = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)).isoformat().replace("+", "%2B")
    assert admin("GET", f"/audit?since={tomorrow}").json["entries"] == []
    assert len(admin("GET", f"/audit?until={tomorrow}").json["entries"]) == 6
    assert admin("GET", "/audit?action=%24where").status_code == 400
    for moment in (
        "1969-12-31T23:59:59Z",
        "2106-02-07T06:28:15Z",
        "9999-12-31T23:59:59.9Z",
        "0001-01-01T00:00:00%2B14:00",
    ):
        for name in ("since", "until"):
            answer = check(admin("GET", f"/audit?{name}={moment}"), 400, "audit")
            assert answer["field"] == name and "between 1970 and 2106" in answer["error"]


def test_holds_are_noted(world, app, admin, ada):
    body = {"action": "hold.place", "host": "h1", "service": "etcd", "reason": "disk", "seconds": 60}
    assert ada("POST", "/audit/holds", json=body).status_code == 403
    check(admin("POST", "/audit/holds", json=body), 201, "audit_hold")
    assert lines(world) == [("root", "hold.place", "h1/etcd", "done")]
    assert trail(world)[0].details == {"reason": "disk", "seconds": 60, "told by": "judgectl"}
    assert admin("POST", "/audit/holds", json={**body, "action": "login"}).status_code == 400


def test_only_age_removes_entries(world):
    """And what the present tokens are compared with stays however old it is."""
    running = world.judicator(audit_days=10)
    people = world.client()
    people.call("audit_tokens", tokens("ada"), m.Empty)
    people.call("audit_note", Note(action="login", object="old"), m.Empty)
    moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=11)
    for doc in list(world.db.audit.find()):
        world.db.audit.delete_one({"_id": doc["_id"]})
        old = ObjectId(ObjectId.from_datetime(moment).binary[:4] + doc["_id"].binary[4:])
        world.db.audit.insert_one({**doc, "_id": old, "at": moment})
    people.call("audit_note", Note(action="login", object="new"), m.Empty)
    assert running.do(running.judicator.retention.once(lambda: True))
    assert [(entry.action, entry.object) for entry in trail(world)] == [("tokens.change", "gw"), ("login", "new")]
    people.call("audit_tokens", tokens("ada"), m.Empty)
    assert len(trail(world)) == 2


def test_entries_stay_small_and_on_one_line(world, judicator):
    people = world.client()
    by = By(actor="ann", role="admin", origin="::1", call=uuid.uuid4().hex)
    long = "\u202e\x1b[2J\n" + "x" * 500
    world.executor().report()
    people.call("drain", DrainRequest(executor="e1", drain=True, reason=long[:500]), ExecutorState, by=by)
    reason = trail(world)[0].details["reason"]
    assert reason.isprintable()
    assert len(reason) <= 300
