"""Deleting and the audit trail as people use them: API, pages without a browser, judgectl at a real gateway."""

import html
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from judge.model.audit import AuditEntry, folded
from tests.support.cluster import judgectl
from tests.support.gateway import ADMIN, USER, Browser, check, running_gateway
from tests.support.judicators import completed, imported, module_world
from tests.support.servers import wait_for

world = module_world()


def hand_in(person, executor, **fields: Any) -> str:
    """Hand in and have it judged."""
    body = {"language": "c", "source": f"int main(){{}} // {uuid.uuid4().hex}", **fields}
    answer = person("POST", "/submissions", json=body)
    assert answer.status_code == 201, answer.text
    task = answer.json["id"]

    def turn() -> bool:
        executor.report(*[completed(assignment, "AC") for assignment in list(executor.work.values())])
        return person("GET", f"/submissions/{task}").json["done"]

    wait_for(turn, what="a verdict")
    return str(task)


def test_the_api_deletes_for_admins_only(admin, ada, executor):
    task = hand_in(ada, executor)
    preview = check(admin("POST", "/deletions/preview", json={"submission": task}), 200, "delete_preview")
    assert preview["submissions"] == 1
    assert preview["refusal"] is None
    assert ada("DELETE", f"/submissions/{task}").status_code == 403
    assert ada("GET", f"/submissions/{task}").status_code == 200
    check(admin("DELETE", f"/submissions/{task}"), 200, "delete_submission")
    assert ada("GET", f"/submissions/{task}").status_code == 404
    assert admin("DELETE", f"/submissions/{task}").status_code == 404
    assert admin("DELETE", "/submissions/nonsense").status_code == 404
    assert admin("DELETE", "/problems/none").status_code == 404
    ambiguous = {"submission": task, "user": "ada"}
    for body in ({"json": ambiguous}, {"json": {}}, {}):
        answer = admin("POST", "/deletions/preview", **body)
        assert (answer.status_code, "name one submission, problem or user" in answer.text) == (400, True)
    waiting = ada("POST", "/submissions", json={"language": "java", "source": "x"})
    if waiting.status_code == 201:
        refused = admin("DELETE", f"/submissions/{waiting.json['id']}")
        assert (refused.status_code, refused.json["code"]) == (409, "conflict")


def test_a_person_is_purged_over_the_api_and_may_come_again(admin, ada, executor):
    for _ in range(3):
        hand_in(ada, executor)
    answer = check(admin("DELETE", "/users/ada/data"), 200, "purge")
    assert answer["left"] == 0
    assert ada("GET", "/submissions").json["tasks"] == []
    new = hand_in(ada, executor)
    again = check(admin("DELETE", f"/users/ada/data?until={answer['until']}"), 200, "purge")
    assert (again["deleted"], again["left"]) == (0, 0)
    assert ada("GET", f"/submissions/{new}").status_code == 200
    for wrong in ("yesterday", "9999999999.1", "1.4294967296"):
        assert admin("DELETE", f"/users/ada/data?until={wrong}").status_code == 400


def test_pages_preview_and_delete(world, app, ada, executor):
    root, person = Browser(app.test_client(), ADMIN), Browser(app.test_client(), USER)
    imported(world.client(), "hello")
    task = hand_in(ada, executor, problem="hello")
    assert f"/delete?submission={task}" in root.get(f"/submissions/{task}").text
    assert "/delete?" not in person.get(f"/submissions/{task}").text
    for page in (f"/delete?submission={task}", "/audit"):
        assert person.get(page).status_code == 403
    assert person.client.post("/delete/go", data={"csrf": person.csrf("/"), "submission": task}).status_code == 403
    problems = root.get("/problems").text
    assert "/delete?problem=hello" in problems
    assert "Its 1 submissions" in html.unescape(root.get("/delete?problem=hello").text)
    assert root.client.post("/delete/go", data={"problem": "hello"}).status_code == 400, "without its CSRF token"
    answer = root.post("/delete?problem=hello", "/delete/go", problem="hello")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/problems")
    assert "hello" not in root.get("/problems").text.replace("Deleted: problem hello.", "")
    assert root.get(f"/submissions/{task}").status_code == 200
    assert root.post(f"/delete?submission={task}", "/delete/go", submission=task).status_code == 303
    assert root.get(f"/submissions/{task}").status_code == 404
    assert root.get("/delete").status_code == 404
    assert root.get("/delete?user=nobody-here").status_code == 404
    hand_in(ada, executor)
    assert "All data of user ada" in html.unescape(root.get("/delete?user=ada").text).replace("all data", "All data")
    assert root.post("/delete?user=ada", "/delete/go", user="ada").headers["Location"] == "/audit"
    trail = root.get("/audit?action=problem.").text
    assert "problem.delete" in trail
    assert "login" not in trail.split("<tbody>")[1]
    assert root.get("/audit?since=never").status_code == 400
    assert root.get("/audit?since=2001-01-31&until=2001-02-01T10:00").status_code == 200


def test_hostile_words_in_the_trail_are_text(world, app, admin):
    reason = "</td><script>alert(1)</script>\u202e\x1b[31m"
    world.executor("e9").report(vacant=0)
    assert admin("POST", "/executors/e9/drain", json={"reason": reason}).status_code == 200
    page = Browser(app.test_client(), ADMIN).get("/audit?object=e9").text
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert admin("POST", "/executors/e9/resume", json={}).status_code == 200


def entry(call: str, outcome: str, action: str = "login") -> AuditEntry:
    texts = dict.fromkeys(("at", "actor", "role", "object", "origin", "gateway", "trace"), "")
    return AuditEntry.model_validate({**texts, "id": "0" * 24, "action": action, "call": call, "outcome": outcome})


def test_a_begun_act_is_shown_unless_its_end_is() -> None:
    ended, begun, unended, alone = entry("1", "done"), entry("1", "begun"), entry("2", "begun"), entry("", "done")
    assert folded([alone, ended, unended, begun, alone]) == [alone, ended, unended, alone]


@pytest.fixture(scope="module")
def context(world, settings, tmp_path_factory):
    directory = tmp_path_factory.mktemp("ctl")
    with running_gateway(settings, directory) as url:
        (directory / "token").write_text(ADMIN)
        (directory / "token").chmod(0o600)
        path = directory / "client.yml"
        path.write_text(f"server: {url}\ntoken_file: token\nrun_dir: {directory / 'run'}\n")
        yield path


def ctl(context: Path, *arguments: str, code: int = 0, **env: str) -> tuple[str, str]:
    result = judgectl(context, *arguments, code=code, **env)
    return result.stdout, result.stderr


def test_judgectl_previews_and_deletes(context, ada, executor, world):
    first, second = hand_in(ada, executor), hand_in(ada, executor)
    assert "--yes: is missing" in ctl(context, "delete", "submission", first, code=2)[1]
    output, _ = ctl(context, "delete", "submission", first, "--dry-run")
    assert "goes:" in output
    assert "stays:" in output
    assert ada("GET", f"/submissions/{first}").status_code == 200
    waiting = ada("POST", "/submissions", json={"language": "c", "source": "y"}).json["id"]
    _, error = ctl(context, "delete", "submission", first, waiting, "--yes", code=2)
    assert "cancel it first" in error
    assert ada("GET", f"/submissions/{first}").status_code == 200, "all or none"
    out, _ = ctl(context, "delete", "submission", first, second, "--yes", "-o", "json")
    assert [reply["deleted"] for reply in json.loads(out)] == [1, 1]
    imported(world.client(), "gone")
    assert "problem gone" in ctl(context, "delete", "problem", "gone", "--yes")[0]
    assert "there is no problem 'gone'" in ctl(context, "delete", "problem", "gone", "--yes", code=2)[1]
    out, _ = ctl(context, "purge", "--user", "ada", "--yes")
    assert "of them wait or run" in out
    assert ada("GET", "/submissions").json["tasks"] == []
    assert "nothing of user 'ada' is stored" in ctl(context, "purge", "--user", "ada", "--yes", code=2)[1]
    table, _ = ctl(context, "audit", "--action", "user.purge")
    assert "ada" in table
    rows = json.loads(ctl(context, "audit", "--object", first, "-o", "json")[0])["entries"]
    assert [entry["outcome"] for entry in rows] == ["done", "begun"]
    assert "problem.delete" in ctl(context, "audit", "--since", "1h", "--actor", "root", "--limit", "200")[0]
    assert "is no time" in ctl(context, "audit", "--since", "never", code=2)[1]


def test_holds_are_reported_to_the_trail_or_a_warning_is_printed(context):
    run = context.parent / "run"
    run.mkdir(exist_ok=True)
    (run / "boot.json").write_text(json.dumps({"services": [{"name": "etcd"}]}))
    _, error = ctl(context, "hold", "etcd", "--reason", "a new disk", "--for", "10m")
    assert error == ""
    ctl(context, "release", "etcd")
    rows = json.loads(ctl(context, "audit", "--action", "hold.", "-o", "json")[0])["entries"]
    assert [(entry["action"], entry["object"].partition("/")[2]) for entry in rows] == [
        ("hold.release", "etcd"),
        ("hold.place", "etcd"),
    ]
    assert rows[1]["details"] == {"reason": "a new disk", "seconds": 600, "told by": "judgectl"}
    unreachable = context.parent / "gone.yml"
    unreachable.write_text(f"server: http://127.0.0.1:9\ntoken_file: token\nrun_dir: {run}\n")
    out, error = ctl(unreachable, "hold", "etcd", "--reason", "a new disk", "--for", "10m")
    assert "is held for" in out
    assert "the audit trail does not know of this" in error
