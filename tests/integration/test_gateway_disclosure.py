"""No way out of the gateway shows a submitter what secret tests are about: every route, with marks in every field."""

import logging
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judge.config.allowance import Allowance
from judge.gateway import disclosure
from judge.gateway.api.handlers import ROUTES
from judge.gateway.pages import views
from judge.model import messages as m
from judge.model import people
from judge.model.figures import FiguresReply, HistoryReply, Point, Start, VersionChange
from judge.model.overview import (
    ExecutorsReply,
    ExecutorState,
    MarksReply,
    StatusReply,
    UsageReply,
)
from judge.model.problem import LimitOrigin, ProblemInfo, ProblemManifest, ProblemsReply, ProblemTest, Statement
from judge.model.several import TasksReply
from tests.support.gateway import ADMIN, ID, USER, Browser, Person, Prepared, gateway_config, serving_app
from tests.support.judicators import Marks

# Fields that submitters may see, one by one, decided here a second time and by hand.
PUBLIC: dict[tuple[type[Any], str], Any] = {
    (m.Task, "id"): ID,
    (m.Task, "submission"): m.Submission(user="ada", language="c", source="int x;", problem="hello", filename="x.c"),
    (m.Task, "executor"): "e7",
    (m.Task, "judged_by"): "e7",
    (m.Task, "attempt"): 2,
    (m.Task, "created"): "2026-01-31T12:00:05Z",
    (m.Task, "started"): "2026-01-31T12:00:06Z",
    (m.Task, "finished"): "2026-01-31T12:00:07Z",
    (m.Task, "latency"): 2.0,
    (m.Task, "version"): 9,
    (m.Task, "trace"): "t1",
    (m.Task, "waits"): m.Waits(reason="all slots are busy", seconds=30.0),
    (m.Task, "rejudging"): 4711,
    (m.Task, "rerun_of"): None,
    (m.Result, "compile_log"): "warnings of the compiler",
    (m.Result, "compile"): m.RunUsage(cpu=1.0, wall=1.0, memory=2**20, exit_code=0),
    (m.Result, "language_version"): "gcc 12",
    (m.Result, "judge_version"): "0.1.0",
    (m.Result, "sandbox"): "slot 1",
    (m.Result, "limits"): m.Limits(),
    (m.Result, "failed_test"): "secret/1",
    (m.Result, "score"): 50.0,
    (m.Result, "groups"): [m.GroupScore(name="secret/one", verdict="AC", score=50.0, max_score=50.0)],
    (m.TestResult, "feedback"): "the author to the submitter",
    (m.TestResult, "score"): 25.0,
    (m.PastVerdict, "rejudging"): 3,
    (m.PastVerdict, "why"): "the reason of an admin",
    (m.PastVerdict, "score"): 25.0,
    (m.PastVerdict, "failed_test"): "secret/1",
    (m.PastVerdict, "judged_by"): "e6",
    (m.PastVerdict, "finished"): "2026-01-31T12:00:06Z",
    (m.PastVerdict, "trace"): "t0",
    (m.Attempt, "attempt"): 1,
    (m.Attempt, "executor"): "e6",
    (m.Attempt, "rejudging"): None,
    (ExecutorState, "name"): "e7",
    (ExecutorState, "drain_reason"): "",
    (ExecutorState, "executing"): 1,
    (ExecutorState, "vacant"): 1,
    (ExecutorState, "reported"): "2026-01-31T12:00:06Z",
    (m.ExecutorInfo, "slots"): 2,
    (m.ExecutorInfo, "slot_memory"): 2**30,
    (m.ExecutorInfo, "languages"): {"c": "gcc 12"},
    (m.ExecutorInfo, "version"): "0.1.0",
    (m.ExecutorInfo, "abilities"): ["manifests"],
    (LimitOrigin, "how"): "inferred",
    (LimitOrigin, "slowest_cpu"): 0.7,
    (LimitOrigin, "multiplier"): 2.0,
    (LimitOrigin, "resolution"): 1.0,
    **{(Point, name): None for name in ("waiting", "busy", "slots", "half", "most")},
    (Point, "at"): "2026-01-31T12:00:00Z",
    (Point, "judged"): 1,
    (Point, "rejudged"): 1,
    (Start, "at"): "2026-01-31T12:00:00Z",
    (Start, "version"): "0.1.0",
    (Start, "slots"): 2,
    (Start, "changes"): [VersionChange(language="c", before="gcc 12", after="gcc 13")],
    (StatusReply, "leader"): "judicator-1",
    (StatusReply, "epoch"): 1,
    (StatusReply, "queued"): {"normal": 1},
    (StatusReply, "running"): 1,
    (StatusReply, "finished"): 1,
    (StatusReply, "slots"): 2,
    (StatusReply, "vacant"): 1,
    (StatusReply, "versions"): {},
    (StatusReply, "waits"): ["2 submissions wait: all slots are busy"],
}
TOKEN = people.TokenInfo(id="0" * 16, user="ada", scopes=["read"], created="2026-01-31T12:00:05Z")
# Bodies, queries and forms with which a call works; all others are made without.
BODIES: dict[str, dict[str, Any]] = {
    "api.submit": {"language": "c", "source": "int x;", "problem": "hello"},
    "api.own_password": {"old": "present phrase", "password": "another phrase"},
    "api.submit_batch": {"submissions": [{"language": "c", "source": "int x;", "problem": "hello"}]},
}
QUERIES = {"api.get_batch": {"ids": ID}}
FORMS: dict[str, dict[str, str]] = {
    "submit": {"language": "c", "source": "int x;", "problem": "hello"},
    "problem_submit": {"language": "c", "source": "int x;", "problem": "hello"},
    "problem_change": {"to": "everyone"},
    "token_make": {"scopes": "read"},
    "password": {"old": "present phrase", "password": "another phrase", "again": "another phrase"},
}
# Answers other than success, for all but these: to admins only (403).
OTHER_STATUS = {"api.health": 503, "api.output": 404, "api.problem_file": 404, "api.revoke_token": 404}
# Answers when the problem's manifest cannot be read.
UNKNOWN_STATUS = {"api.problem": 404, "api.statement": 404, "problem": 404}
# The least that two calls of Judge0's API need. It knows no problems, so it refuses most of what is asked here.
_PROGRAM = {"language_id": 50, "source_code": "x"}
JUDGE0 = {"create": _PROGRAM, "create_batch": {"submissions": [_PROGRAM]}}
# Without a session, or the end of it.
UNMARKED = {"admission", "login", "login_with", "login_back", "logout", "api.end_sessions", "favicon", "docs"}


@pytest.fixture(scope="module")
def judicator(tmp_path_factory, etcd_endpoint):
    with Prepared(tmp_path_factory.mktemp("judicator"), etcd_endpoint).serving() as judicator:
        yield judicator


@pytest.fixture(scope="module")
def app(judicator, tmp_path_factory):
    with serving_app(gateway_config(judicator, tmp_path_factory.mktemp("gw"))) as app:
        yield app


def marked_task(marks: Marks, ref: m.ProblemRef, *, exists: bool) -> m.Task:
    """A task of ada with marks wherever she must see nothing: of the sample only when it is `known` to be one."""
    open_marks = Marks(marks.draw, PUBLIC, count=1000) if exists else marks
    tests = [
        open_marks.message(m.TestResult, name="sample/1", message=marks.message(m.TestResult).message),
        marks.message(m.TestResult, name="secret/1"),
        marks.message(m.TestResult, name="secret/2"),
    ]
    verdict = marks.draw(st.sampled_from([verdict_ for verdict_ in m.Verdict if verdict_ is not m.Verdict.CE]))
    result = marks.message(m.Result, tests=tests)
    past = [marks.message(m.PastVerdict, problem=ref)]
    ended = marks.draw(st.booleans())
    status = m.Status.RUN_FAILED if ended else m.Status.RUNNING
    return marks.message(m.Task, problem=ref, result=result, past=past, verdict=verdict, done=ended, status=status)


def prepare(judicator: Prepared, marks: Marks, *, exists: bool) -> None:
    """Answers full of marks for all that a user's routes ask the judicators."""
    output, secret = judicator.put(b"1\n"), judicator.put(marks.text("the data of a test").encode())
    tests = [ProblemTest(name="sample/1", input=output, answer=output, sample=True)]
    tests += [ProblemTest(name=name, input=secret, answer=secret) for name in ("secret/1", "secret/2")]
    statement = Statement(language="en", main="problem.en.md", files={"problem.en.md": judicator.put(b"# Hello\n")})
    manifest = ProblemManifest(
        name="hello", tests=tests, statements=[statement], limit_origin=marks.message(LimitOrigin)
    )
    stored = judicator.put(manifest.model_dump_json().encode())
    ref = m.ProblemRef(name="hello", hash=stored if exists else "f" * 64)
    task = marked_task(marks, ref, exists=exists)
    executors = ExecutorsReply(executors=[marks.message(ExecutorState)])
    problem = ProblemInfo(name="hello", title="Hello", hash=ref.hash, tests=3, limits=m.Limits())
    judicator.answers |= {
        "get": task,
        "cancel": task,
        "tasks": TasksReply.model_construct(tasks=[task], left=[]),
        "add": m.AddReply.model_construct(task=task, created=True),
        "search": m.SearchReply.model_construct(tasks=[task], next=None),
        "executors": executors,
        "figures": FiguresReply.model_construct(span="hour", seconds=60, points=[marks.message(Point)]),
        "executor_history": HistoryReply.model_construct(executor="executor-1", starts=[marks.message(Start)]),
        "status": marks.message(StatusReply, executors=executors.executors),
        "problems": ProblemsReply(problems=[problem]),
        "problem_change": problem,
        "usage": UsageReply(allowance=Allowance(), waiting=0, running=0),
        "marks": MarksReply(),
        "user": people.User(name="ada", role="user", password=True, created="2026-01-31T12:00:05Z"),
        "names": people.NamesReply(),
        "user_password": m.Empty(),
        "tokens": people.TokensReply(tokens=[TOKEN]),
        "token_create": TOKEN,
        "token_revoke": m.Empty(),
    }


def calls(app: Any) -> list[tuple[str, str, str]]:
    """(method, path, endpoint) of every rule of the app."""
    rules = []
    for rule in app.url_map.iter_rules():
        if rule.endpoint not in UNMARKED:
            name = "hello" if "/problems/" in rule.rule else "executor-1"
            values = {
                "id": ID,
                "task_id": ID,
                "name": name,
                "number": "1",
                "sha": "a" * 64,
                "action": "ping",
                "code": "field",
                "token": ID if "/judge0" in rule.rule else "0" * 16,
            }
            unknown = rule.arguments - set(values)
            assert not unknown, f"say in this test what {unknown} of {rule.rule} may be"
            path = re.sub(r"<(\w+)>", lambda part, values=values: values[part[1]], rule.rule)
            if rule.endpoint.startswith("api.rejudg"):
                path = path.replace(ID, "1")
            rules += [(method, path, rule.endpoint) for method in sorted(rule.methods - {"OPTIONS"})]
    return rules


def answers(app: Any, person: Person, browser: Browser, *, exists: bool) -> Any:
    admins = {f"api.{route.name}" for route in ROUTES if route.role in {"judge", "admin"}}
    csrf = browser.csrf("/submit")
    for method, path, endpoint in calls(app):
        if endpoint.startswith("api."):
            body = {"json": BODIES.get(endpoint, {})} if method in {"POST", "PUT", "DELETE", "PATCH"} else {}
            answer = person(method, path.removeprefix("/api/v1"), query_string=QUERIES.get(endpoint), **body)
        elif endpoint.startswith("judge0."):
            body = {"json": JUDGE0.get(endpoint.rpartition(".")[2], {})} if method == "POST" else {}
            answer = browser.client.open(path, method=method, headers={"X-Auth-Token": USER}, **body)
            assert answer.status_code < 500, (path, answer.text)
            yield f"{method} {path}", answer
            continue
        elif method in {"GET", "HEAD"}:
            answer = browser.client.open(path, method=method, headers={"X-Live": "1"})
        else:
            form = {"csrf": csrf, **FORMS.get(endpoint, {})}
            answer = browser.client.open(path, method=method, data=form)
        allowed = OTHER_STATUS if exists else OTHER_STATUS | UNKNOWN_STATUS
        expected = answer.status_code < 400 or allowed.get(endpoint) == answer.status_code
        only_admins = answer.status_code == 403 and (endpoint in admins or not endpoint.startswith("api."))
        assert expected or only_admins, f"{method} {path}: {answer.text}; prepare what it needs in this test"
        yield f"{method} {path}", answer


def leaks(marks: Marks, text: str) -> dict[str, str]:
    """The marks in an answer, also times and sizes as the pages write them."""
    leaks = marks.matches(text)
    rounded = {views.seconds(disclosure.seconds(float(mark))) for mark in marks.words if mark.startswith("0.")}
    for mark, place in marks.words.items():
        seconds = views.seconds(float(mark)) if mark.startswith("0.") else ""
        if seconds and seconds not in rounded and re.search(rf"(?<![\d.]){re.escape(seconds)}", text):
            leaks[seconds] = place
    return leaks


@given(st.data(), st.booleans())
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_route_shows_a_user_secret_fields(app, judicator, caplog, data, exists):
    caplog.set_level(logging.DEBUG, logger="judge")
    caplog.clear()
    marks = Marks(data.draw, PUBLIC)
    prepare(judicator, marks, exists=exists)
    for name, answer in answers(app, Person(app.test_client(), USER), Browser(app.test_client(), USER), exists=exists):
        text = answer.text + "\n".join(f"{key}: {value}" for key, value in answer.headers.items())
        assert not leaks(marks, text), name
        assert '"rejudging":4711' not in text and "rejudging 4711" not in text.lower(), name
    assert not marks.matches(caplog.text), "nor does the log"


@given(st.data())
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
def test_admins_see_the_secret_fields(app, judicator, data):
    """So the marks are where they can be found."""
    marks = Marks(data.draw, PUBLIC)
    prepare(judicator, marks, exists=True)
    of_admin = Person(app.test_client(), ADMIN)("GET", f"/submissions/{ID}").text
    places = set(marks.matches(of_admin).values())
    assert places >= {f"TestResult.{name}" for name in ("reason", "message", "output", "error", "output_bytes", "cpu")}
    assert places >= {"Result.reason", "PastVerdict.reason", "Attempt.reason", "Task.progress"}
    page = Browser(app.test_client(), ADMIN).get(f"/submissions/{ID}").text
    assert {"TestResult.output", "TestResult.message", "PastVerdict.reason"} <= set(marks.matches(page).values())
    assert "ExecutorInfo.checks" in marks.matches(Browser(app.test_client(), ADMIN).get("/executors").text).values()


HIDDEN = [
    (model, name)
    for table in (disclosure.COMPUTED_FIELDS, disclosure.WITHHELD)
    for model, names in table.items()
    for name in sorted(names)
    # A field that is no text and no figure has no mark; rejudging is looked for by itself, the score is public there.
    if (model, name) not in PUBLIC
    and name not in {"withheld", "info", "executors", "signal"} | {"tests", "result", "changes"}
]


@pytest.mark.parametrize(("model", "name"), HIDDEN, ids=lambda value: getattr(value, "__name__", value))
def test_each_hide_that_is_taken_away_is_noticed(app, judicator, monkeypatch, model, name):
    listed = disclosure._listed

    def careless(message: Any, /, **fields: Any) -> Any:
        return listed(message, **fields | ({name: getattr(message, name)} if type(message) is model else {}))

    monkeypatch.setattr(disclosure, "_listed", careless)

    @given(st.data())
    @settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))
    def search(data: st.DataObject) -> None:
        marks = Marks(data.draw, PUBLIC)
        prepare(judicator, marks, exists=True)
        person = Person(app.test_client(), USER)
        text = "".join(
            person("GET", path).text
            for path in (
                f"/submissions/batch?ids={ID}",
                "/problems/hello",
                "/executors",
                "/status",
                "/figures",
                "/executors/executor-1/history",
            )
        )
        assert leaks(marks, text)

    search()
