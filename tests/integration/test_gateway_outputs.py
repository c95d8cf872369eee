"""Outputs that are handed in to a submit-answer problem through a gateway to a real judicator: all ways, all bounds."""

import io
import json
import re
import zipfile

import httpx
import pytest

from judge.model.problem import ProblemImport, ProblemInfo, ProblemManifest, ProblemTest, ProblemType
from judge.problems.package import manifest_bytes
from tests.support.gateway import USER, Browser
from tests.support.judicators import module_world

world = module_world()

MIB = 1024**2
MOST = 4 * MIB


@pytest.fixture(scope="module")
def client(world):
    return world.client()


def imported(client, name, kind):
    tests = [
        ProblemTest(name=f"secret/{n}", input=client.put_blob(b"in"), answer=client.put_blob(b"out")) for n in "12"
    ]
    manifest = ProblemManifest(name=name, title=name, type=[ProblemType.PASS_FAIL, kind], tests=tests)
    request = ProblemImport(manifest=client.put_blob(manifest_bytes(manifest)), visible=True)
    return client.call("problem_import", request, ProblemInfo)


@pytest.fixture(scope="module")
def problem(client):
    return imported(client, "table", ProblemType.SUBMIT_ANSWER)


def packed(**files):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return target.getvalue()


def text(size):
    return "7" * (size - 1) + "\n"


def form(fields, *files):
    request = httpx.Request(
        "POST", "http://x", data=fields, files=[("file", part) for part in files] or {"x": ("", b"")}
    )
    return {"data": request.read(), "content_type": request.headers["Content-Type"]}


TABLE = {"problem": "table"}
NAMED = {**TABLE, "filename": "1.out"}
WAYS = {
    "source": lambda size: {"json": {**NAMED, "source": text(size)}},
    "file": lambda size: {"json": {**TABLE, "files": [{"name": "1.out", "text": text(size)}]}},
    "form": lambda size: form(TABLE, ("1.out", text(size).encode())),
    "field": lambda size: form({**NAMED, "source": text(size)}),
    "two": lambda size: form(TABLE, ("1.out", text(size - 9).encode()), ("2.out", b"12345678\n")),
    "archive": lambda size: {
        "query_string": TABLE, "data": packed(**{"1.out": text(size)}), "content_type": "application/zip"
    },
    "archive in a form": lambda size: form(TABLE, ("x.zip", packed(**{"1.out": text(size)}))),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_outputs_come_in_up_to_their_bound(ada, problem, way):
    for size, status in ((MOST, 201), (MOST + 1, 413)):
        answer = ada("POST", "/submissions", **WAYS[way](size))
        assert answer.status_code == status, answer.text[:500]
        if status == 413:
            assert re.search(r"4194304|at most 4 MiB", answer.json["error"]), answer.json
    task = ada("GET", "/submissions?limit=1").json["tasks"][0]
    stored = ada("GET", f"/submissions/{task['id']}/source", query_string={"file": "1.out"}).data
    assert stored == text(MOST - 9 if way == "two" else MOST).encode()


def test_every_way_to_send_an_output_makes_the_same_submission(ada, problem):
    ids = set()
    for way, form_of in WAYS.items():
        if way != "two":
            answer = ada("POST", "/submissions", headers={"Idempotency-Key": "same"}, **form_of(200_000))
            assert answer.status_code in {200, 201}, (way, answer.text[:500])
            ids.add(answer.json["id"])
    assert len(ids) == 1


def test_the_page_takes_a_long_output(app, problem):
    browser = Browser(app.test_client(), USER)
    data = text(3 * MIB).encode()
    fields = {**TABLE, "csrf": browser.csrf("/submit"), "language": "", "source": ""}
    answer = browser.client.post("/submit", **form(fields, ("1.out", data)))
    assert answer.status_code == 303, answer.text
    assert browser.get(f"/api/v1{answer.location}/source").data == data


def test_programs_keep_their_bounds(ada, client, problem):
    """Whoever names a language, or another problem, hands in no outputs."""
    imported(client, "plain", ProblemType.PASS_FAIL)
    long = text(300_000)
    for body in ({"problem": "table", "language": "c"}, {"problem": "plain", "language": "c"}, {"problem": "plain"}):
        answer = ada("POST", "/submissions", json={**body, "source": long})
        assert (answer.status_code, answer.json["field"]) in {(413, "source"), (400, "language")}, answer.text
    answer = ada("POST", "/submissions", json={"problem": "table", "source": "a\0b"})
    assert answer.status_code == 400 and "not text" in answer.json["error"]


def test_an_import_is_shown_at_once(ada, client, admin):
    for number in range(3):
        name = f"new{number}"
        imported(client, name, ProblemType.PASS_FAIL)
        assert name in [problem["name"] for problem in ada("GET", "/problems").json["problems"]]
        assert ada("GET", f"/problems/{name}").status_code == 200
        assert admin("DELETE", f"/problems/{name}").status_code == 200
        assert name not in json.dumps(ada("GET", "/problems").json)


@pytest.mark.parametrize("name", ["a.out", "readme.txt", "x/a.out"])
def test_outputs_for_no_test_are_refused_with_the_names_of_the_tests(ada, problem, name):
    ways = [
        {"json": {**TABLE, "files": [{"name": name, "text": "7\n"}]}},
        form(TABLE, ("x.zip", packed(**{name: "7\n"}))),
        {"query_string": TABLE, "data": packed(**{name: "7\n"}), "content_type": "application/zip"},
    ]
    for form_of in ways:
        answer = ada("POST", "/submissions", **form_of)
        assert answer.status_code == 400, answer.text[:500]
        assert f"'{name}'" in answer.json["error"] and "1.out, 2.out" in answer.json["error"], answer.json


@pytest.mark.parametrize("name", ["my answers/1.out", "out/of/me/1.txt"])
def test_a_folder_around_all_outputs_is_entered(ada, problem, name):
    mac = {f"__MACOSX/{name}": "x", f"{name.rpartition('/')[0]}/.DS_Store": "x"}
    ways = [
        {"json": {**TABLE, "files": [{"name": name, "text": "7\n"}]}},
        form(TABLE, ("x.zip", packed(**{name: "7\n", **mac}))),
    ]
    for form_of in ways:
        answer = ada("POST", "/submissions", **form_of)
        assert answer.status_code == 201, answer.text[:500]


def test_a_damaged_zip_is_refused(ada, problem):
    answer = ada("POST", "/submissions", **form(TABLE, ("html.zip", b"<html>not a zip</html>\n")))
    assert answer.status_code == 400 and "'html.zip' is no ZIP archive" in answer.json["error"], answer.text[:500]
