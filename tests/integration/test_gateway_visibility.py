"""A problem that is hidden from a user is answered as one that does not exist, by every route of a gateway."""

import datetime
import difflib
import re
from typing import Any
from unittest import mock

import pytest

from judge.common import clock
from judge.model import messages as m
from judge.model import people as p
from judge.model.audit import By
from judge.model.deleting import Deleted, ProblemName, PurgeRequest
from judge.model.labels import Labels
from judge.model.problem import ProblemImport, ProblemInfo, ProblemsReply
from judge.model.visibility import EVERYONE, ProblemChange, Visibility
from judge.problems.package import manifest_bytes
from judge.rpc.methods import METHODS
from tests.support.gateway import ADMIN, OTHER, USER, Browser, Person, check, gateway_config, serving_app, write_tokens
from tests.support.judicators import judge, module_world
from tests.support.pages import problem
from tests.support.servers import wait_for
from tests.support.statements import render_statements

world = module_world()

NAME = "caves"
JUDGE, OWNER, MEMBER = "judge-token-of-tests", "owner-token-of-tests", "member-token-of-tests"
PEOPLE = [
    ("root", "admin", ADMIN), ("jim", "judge", JUDGE), ("ada", "user", USER), ("bob", "user", OTHER),
    ("olga", "user", OWNER), ("mary", "user", MEMBER),
]  # fmt: skip
ROOT = By(actor="root", role="admin")
LATER = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)
GROUP = ["cs101"]
# Users of whom each is one for whom the problem is hidden: ada, who has handed in for it, bob, and a stranger.
USERS = {"ada": USER, "bob": OTHER, "stranger": None}
# Each state, and the tokens that see nothing in it.
HIDDEN = {
    "nobody": (Visibility(), {**USERS, "mary": MEMBER}),
    "group": (Visibility(groups=GROUP), USERS),
    "later": (Visibility(everyone=True, since=LATER), {"bob": OTHER}),
    "group later": (Visibility(groups=GROUP, since=LATER), {"mary": MEMBER}),
}
PROGRAM = {"language": "c", "source": "int main(){}", "problem": NAME}
# The bodies, queries and forms in which a route takes the name of a problem; all others go without.
BODIES: dict[str, dict[str, Any]] = {
    "api.submit": PROGRAM,
    "api.submit_batch": {"submissions": [PROGRAM]},
    "api.change_problem": {"visibility": {"everyone": True}},
    "api.import_problem": {"manifest": "0" * 64},
    "api.delete_preview": {"problem": NAME},
    "api.preview_rejudging": {"problem": [NAME]},
}
JUDGE0: dict[str, Any] = {
    "create": {"language_id": 50, "source_code": "int main(){}", "problem": NAME},
    "create_batch": {"submissions": [{"language_id": 50, "source_code": "int main(){}", "problem": NAME}]},
}
FORMS = {
    "submit": PROGRAM,
    "problem_submit": {**PROGRAM, "do": "samples"},
    "problem_change": {"to": "everyone"},
    "delete_go": {"problem": NAME},
}
TAG = "spelunking"
QUERY = {"problem": NAME, "tag": TAG}
# These end what the user came with, or make it; figures go on by themselves. None of them names a problem.
APART = {
    "login", "login_with", "login_back", "logout", "admission", "favicon", "static", "api.end_sessions", "password",
    "api.own_password", "api.make_token", "token_make", "api.figures",
}  # fmt: skip
# Differs from one answer to the next, whatever is asked: in heads, and in bodies.
HEADS = r"(?im)^(date|x-request-id|set-cookie): .*$"
LENGTHS = r"(?im)^(etag|content-length): .*$"
BODY = (
    r'name="(csrf|key)" value="[^"]*"|"trace":"[^"]*"|\btrace [A-Za-z0-9._-]+'
    r"|\d{4}-\d\d-\d\d[T ][0-9:.]+(Z| UTC)|\d+ (s|min) ago|just now"
)


@pytest.fixture(scope="module")
def people(world):
    client = world.client(timeout=20.0)
    client.call("user_add", p.UserAdd(name="mary", groups=["math", *GROUP]), p.User, by=ROOT)
    return client


@pytest.fixture(scope="module")
def app(world, tmp_path_factory):
    directory = tmp_path_factory.mktemp("gw")
    settings = gateway_config(world, directory, rpc_timeout=60.0)
    write_tokens(directory / "tokens.yml", PEOPLE)
    with serving_app(settings) as app:
        yield app


@pytest.fixture(scope="module")
def executor(world):
    executor = world.executor("e1", 2, languages=("c",))
    executor.report()
    with mock.patch("judge.judicator.executors._ASKED", 3600.0):  # it is taken for one that accepts work to the end
        yield executor


def bring(people, **fields: Any) -> ProblemInfo:
    request = ProblemImport(manifest=people.put_blob(manifest_bytes(problem(people.put_blob))), **fields)
    return people.call("problem_import", request, ProblemInfo, by=ROOT)


def change(people, **fields: Any) -> ProblemInfo:
    return people.call("problem_change", ProblemChange(name=NAME, **fields), ProblemInfo, by=ROOT)


def delete(people) -> None:
    for task in people.call("search", m.SearchRequest(problem=NAME, done=False, limit=100), m.SearchReply).tasks:
        people.call("cancel", m.TaskRef(id=task.id), m.Task, by=ROOT)
    people.call("delete_problem", ProblemName(name=NAME), Deleted, by=ROOT)


def routes(app, files: list[str], tasks: list[str]) -> list[tuple[str, str, str]]:
    """(method, path, endpoint) of every route, with the problem, each of its files and the user's submission."""
    calls = []
    for rule in app.url_map.iter_rules():
        if rule.endpoint in APART:
            continue
        values = {
            "name": [NAME], "sha": files, "id": tasks, "task_id": tasks, "token": ["0" * 16], "number": ["1"],
            "code": ["field"], "action": ["ping"],
        }  # fmt: skip
        assert rule.arguments <= set(values), f"say in this test what {rule.arguments - set(values)} of {rule} may be"
        paths = [rule.rule]
        for name in rule.arguments:
            paths = [path.replace(f"<{name}>", value) for path in paths for value in values[name]]
        calls += [(method, path, rule.endpoint) for method in sorted(rule.methods - {"OPTIONS"}) for path in paths]
    return calls


def answers(app, calls: list[tuple[str, str, str]], token: str | None) -> dict[str, str]:
    """The answer of each route to somebody with this token, as one text."""
    person, browser = Person(app.test_client(), token), Browser(app.test_client(), token)
    csrf = browser.csrf("/submit") if token else ""
    texts = {}
    for method, path, endpoint in calls:
        json = {"json": BODIES.get(endpoint, {})} if method in {"POST", "PUT", "DELETE"} else {}
        kind, _, call = endpoint.partition(".")
        if kind == "api":
            query = {"problem": NAME} if endpoint in {"api.search", "api.deliveries"} else None
            answer = person(method, path.removeprefix("/api/v1"), query_string=query, **json)
        elif kind == "judge0":
            json = {"json": JUDGE0.get(call.rpartition(".")[2], {})} if method in {"POST", "PUT"} else {}
            headers = {"X-Auth-Token": token} if token else {}
            answer = app.test_client().open(path, method=method, headers=headers, **json)
        elif method in {"GET", "HEAD"}:
            answer = browser.client.open(path, method=method, query_string=QUERY)
        else:
            answer = browser.client.open(path, method=method, data={"csrf": csrf, **FORMS.get(endpoint, {})})
        assert answer.status_code < 500 or endpoint == "api.health", (path, answer.text)
        body, volatile = re.subn(BODY, "…", answer.text)
        heads = re.sub(HEADS, r"\1: …", str(answer.headers))
        if volatile or method == "HEAD":
            heads = re.sub(LENGTHS, r"\1: …", heads)
        texts[f"{method} {path}"] = f"{answer.status}\n{heads}\n{body}"
    return texts


@pytest.fixture(scope="module")
def collected(app, world, people, executor):
    """By state and user the answers of all routes; those of `deleted` are what the others are held against."""
    info = bring(people, visible=True, labels=Labels(tags=[TAG], difficulty="hard"))
    change(people, tags=[TAG, "caverns"], order=7)
    render_statements(people, executor, info)
    problem = check(Person(app.test_client(), USER)("GET", f"/problems/{NAME}"), 200, "problem")
    parts = [*problem["statements"], *problem["attachments"]]
    files = sorted(
        {row["file"] for row in parts} | {row["input_file"] for row in problem["samples"] if row["input_file"]}
    )
    task = judge(people, executor, "AC", user="ada", problem=NAME)
    calls = routes(app, files[:4], task)
    collections: dict[str, dict[str, dict[str, str]]] = {}
    collections["visible"] = {"ada": answers(app, reading(calls), USER)}
    for state, (visibility, users) in HIDDEN.items():
        change(people, visibility=visibility)
        collections[state] = {user: answers(app, calls, token) for user, token in users.items()}
    delete(people)
    collections["deleted"] = {user: answers(app, calls, token) for user, token in {**USERS, "mary": MEMBER}.items()}
    return collections


def unlike(call: str, text: str, baseline: str) -> list[str]:
    """The lines in which two answers differ, each with the call."""
    lines = difflib.unified_diff(text.splitlines(), baseline.splitlines(), n=0, lineterm="")
    return [f"{call}: {line[:300]}" for line in lines if not line.startswith(("---", "+++", "@@"))]


def reading(calls: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return [call for call in calls if call[0] == "GET"]


@pytest.mark.parametrize(("state", "user"), [(state, user) for state, (_, users) in HIDDEN.items() for user in users])
def test_a_hidden_problem_is_answered_as_one_that_does_not_exist(collected, state, user):
    hidden, missing = collected[state][user], collected["deleted"][user]
    assert len(hidden) > 150
    different = [line for call, text in hidden.items() for line in unlike(call, text, missing[call])]
    assert not different, "\n".join(different)


def test_the_answers_that_are_compared_differ_where_the_problem_is_visible(collected):
    visible, missing = collected["visible"]["ada"], collected["deleted"]["ada"]
    different = {call for call, text in visible.items() if text != missing[call]}
    assert {f"GET /problems/{NAME}", f"GET /api/v1/problems/{NAME}", "GET /api/v1/problems", "GET /", "GET /problems",
            "GET /submit", f"GET /api/v1/problems/{NAME}/statement"} <= different  # fmt: skip
    assert sum("/files/" in call for call in different) > 3


# --- who sees it, and who may change that -------------------------------------------------------------------------


@pytest.fixture
def caves(people):
    """Hidden, and olga is its owner."""
    info = bring(people, visible=False)
    change(people, owners=["olga"])
    yield info
    delete(people)


def status(app, token: str, method: str = "GET", path: str = f"/problems/{NAME}", **body: Any) -> int:
    return Person(app.test_client(), token)(method, path, **body).status_code


@pytest.mark.parametrize("token", [ADMIN, JUDGE, OWNER])
def test_judges_admins_and_owners_see_and_try_a_hidden_problem(app, caves, token):
    person = Person(app.test_client(), token)
    assert [entry["name"] for entry in check(person("GET", "/problems"), 200, "problems")["problems"]] == [NAME]
    problem = check(person("GET", f"/problems/{NAME}"), 200, "problem")
    assert (problem["visibility"]["everyone"], problem["owners"]) == (False, ["olga"])
    assert status(app, token, path=f"/problems/{NAME}/statement") == 200
    assert status(app, token, path=f"/problems/{NAME}/files/{problem['attachments'][0]['file']}") == 200
    assert person("POST", "/submissions", json=PROGRAM).status_code == 201
    browser = Browser(app.test_client(), token)
    assert '<span class="badge warn small">hidden</span>' in browser.get("/problems").text
    page = browser.get(f"/problems/{NAME}").text
    assert 'id="visibility"' in page and ('name="owners"' in page) == (token != OWNER)


@pytest.mark.parametrize(("token", "sees"), [(OTHER, False), (USER, False), (OWNER, True), (JUDGE, True)])
def test_a_misspelt_name_is_compared_with_visible_problems_only(app, caves, token, sees):
    person = Person(app.test_client(), token)
    for answer in (
        person("POST", "/submissions", json={**PROGRAM, "problem": "cave"}),
        person("GET", "/problems/cave"),
    ):
        assert (answer.status_code, "did you mean 'caves'?" in answer.json["error"]) == (404, sees)
        assert sees or NAME not in answer.text


def test_users_of_a_visible_problem_do_not_learn_its_visibility(app, people, caves):
    change(people, visibility=Visibility(groups=GROUP))
    problem = check(Person(app.test_client(), MEMBER)("GET", f"/problems/{NAME}"), 200, "problem")
    assert (problem["visibility"], problem["owners"]) == (None, [])
    assert 'id="visibility"' not in Browser(app.test_client(), MEMBER).get(f"/problems/{NAME}").text
    assert status(app, OTHER) == 404


def test_owners_change_the_visibility_of_their_problem_and_nothing_else(app, caves):
    everyone, owners = {"visibility": {"everyone": True}}, {"owners": ["olga", "bob"]}
    assert status(app, OTHER, "PUT", json=everyone) == 404
    assert status(app, OWNER, "PUT", json=owners) == 403
    assert status(app, OTHER) == 404
    assert status(app, OWNER, "PUT", json=everyone) == 200
    assert status(app, OTHER) == 200
    assert status(app, OTHER, "PUT", json=everyone) == 403
    assert status(app, JUDGE, "PUT", json=owners) == 200
    assert status(app, OTHER, "PUT", json={"visibility": {}}) == 200, "bob is an owner now"
    assert status(app, USER) == 404


def test_labels_are_the_package_s_until_an_owner_sets_others(app, people, caves):
    bring(people, labels=Labels(tags=[TAG], difficulty="2.5"))
    owner = Person(app.test_client(), OWNER)

    def labels() -> tuple[list[str], str, int]:
        info = check(owner("GET", f"/problems/{NAME}"), 200, "problem")
        return info["tags"], info["difficulty"], info["order"]

    assert labels() == ([TAG], "2.5", 0)
    assert status(app, OTHER, "PUT", json={"tags": ["mine"]}) == 404
    assert status(app, OWNER, "PUT", json={"tags": ["Maps", "dp"], "order": -3}) == 200
    assert labels() == (["maps", "dp"], "2.5", -3)
    bring(people, labels=Labels(tags=["graphs"], difficulty="3"))
    assert labels() == (["maps", "dp"], "3", -3)
    bring(people)
    assert labels() == (["maps", "dp"], "3", -3)
    assert status(app, OWNER, "PUT", json={"tags": [], "difficulty": 4}) == 200
    assert labels() == ([], "4", -3)
    assert status(app, OWNER, "PUT", json={"tags": ["two words"]}) == 400
    change(people, visibility=EVERYONE)
    assert status(app, OTHER, "PUT", json={"tags": ["mine"]}) == 403


def test_lists_go_by_order_then_name_and_the_page_by_tag(app, people, caves):
    put = people.put_blob
    for name, order, tags in (("alps", 2, ["hills"]), ("beach", 1, ["sand"]), ("zoo", 1, ["sand", "hills"])):
        people.call("problem_import", ProblemImport(manifest=put(manifest_bytes(problem(put, name))), visible=True),
                    ProblemInfo, by=ROOT)  # fmt: skip
        people.call("problem_change", ProblemChange(name=name, order=order, tags=tags), ProblemInfo, by=ROOT)
    change(people, tags=["secret-tag"])
    names = [entry["name"] for entry in Person(app.test_client(), OTHER)("GET", "/problems").json["problems"]]
    assert names == ["beach", "zoo", "alps"]
    browser = Browser(app.test_client(), OTHER)

    def listed(path: str) -> list[str]:
        return re.findall(r'class="title" href="/problems/(\w+)"', browser.get(path).text)

    assert listed("/") == ["beach", "zoo", "alps"]
    assert listed("/?tag=hills") == listed("/problems?tag=HILLS") == ["zoo", "alps"]
    assert listed("/?tag=%3Cb%3E") == [] and "&lt;b&gt;" in browser.get("/?tag=%3Cb%3E").text
    assert "secret-tag" not in browser.get("/").text
    for name in ("alps", "beach", "zoo"):
        people.call("delete_problem", ProblemName(name=name), Deleted, by=ROOT)


def test_a_time_that_has_come_and_a_new_member_show_the_problem_soon(app, people, caves):
    change(people, visibility=Visibility(groups=GROUP, since=clock.wall() + datetime.timedelta(seconds=1)))
    assert status(app, OTHER) == 404
    wait_for(lambda: status(app, MEMBER) == 200, what="the time")
    people.call("user_add", p.UserAdd(name="bob"), p.User, by=ROOT)
    assert status(app, OTHER) == 404
    people.call("user_change", p.UserChange(name="bob", groups=GROUP), p.User, by=ROOT)
    wait_for(lambda: status(app, OTHER) == 200, what="the new member")
    people.call("user_change", p.UserChange(name="bob", groups=[]), p.User, by=ROOT)
    wait_for(lambda: status(app, OTHER) == 404, what="the end of the membership")


def test_a_new_problem_is_hidden_and_a_new_content_changes_nothing(world, people):
    def listed_names() -> list[str]:
        reply = people.call("problems", m.Empty(), ProblemsReply, by=By(actor="bob", role="user"))
        return [problem.name for problem in reply.problems]

    assert bring(people).visibility == Visibility() and listed_names() == []
    assert bring(people, visible=True).visibility == EVERYONE and listed_names() == [NAME]
    assert bring(people).visibility == EVERYONE
    later = change(people, visibility=Visibility(everyone=True, since=LATER), owners=["olga"])
    assert (bring(people).visibility, bring(people).owners) == (later.visibility, ["olga"])
    assert bring(people, visible=False).visibility == Visibility() and listed_names() == []
    # As releases before have stored it.
    world.db.problems.update_one({"_id": NAME}, {"$unset": {"visibility": "", "owners": ""}})
    assert listed_names() == [NAME]
    assert bring(people).visibility == EVERYONE and listed_names() == [NAME]
    delete(people)
    assert bring(people).visibility == Visibility(), "a deleted problem leaves nothing to its successor"
    delete(people)


def test_a_gateway_that_names_no_user_sees_public_problems_only(people, caves):
    assert people.call("problems", m.Empty(), ProblemsReply).problems == []


@pytest.mark.parametrize("end", ["user_delete", "purge"])
def test_the_next_user_of_a_name_owns_nothing(people, caves, end):
    people.call("user_add", p.UserAdd(name="zoe"), p.User, by=ROOT)
    assert change(people, owners=["olga", "zoe"]).owners == ["olga", "zoe"]
    request = p.UserRef(name="zoe") if end == "user_delete" else PurgeRequest(user="zoe")
    people.call(end, request, METHODS[end].reply, by=ROOT)
    assert change(people).owners == ["olga"]


def test_a_form_for_judges_changes_the_visibility_of_a_problem(app, caves):
    browser = Browser(app.test_client(), JUDGE)
    page, action = f"/problems/{NAME}", f"/problems/{NAME}/visibility"
    wrong = browser.post(page, action, to="groups", groups="", since="", owners="")
    assert wrong.status_code == 400 and "Groups: has no name" in wrong.text
    wrong = browser.post(page, action, to="everyone", since="tomorrow", owners="bob")
    assert wrong.status_code == 400 and 'value="tomorrow"' in wrong.text and 'value="bob"' in wrong.text
    assert browser.post(page, action, to="everyone", since="2100-01-01 09:00", owners="").status_code == 303
    assert "from 2100-01-01 09:00 UTC" in browser.get("/problems").text
    wrong = browser.post(page, action, to="everyone", order="first")
    assert wrong.status_code == 400 and 'value="first"' in wrong.text
    assert browser.post(page, action, to="nobody", tags="dp, maps", difficulty="hard", order="3").status_code == 303
    assert all(f'value="{value}"' in browser.get(page).text for value in ("dp maps", "hard", "3"))
    assert browser.post(page, action, to="everyone", since="2100-01-01 09:00").status_code == 303
    assert 'value="2100-01-01 09:00"' in browser.get(page).text
    assert browser.post(page, action, to="groups", groups="cs101, math", owners="bob").status_code == 303
    assert "groups cs101, math" in browser.get("/").text and "[groups cs101, math]" in browser.get("/submit").text
    assert status(app, MEMBER) == status(app, OTHER) == 200
    assert status(app, OWNER) == 404
