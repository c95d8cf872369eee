"""Submissions of several files through a whole cluster: judgectl, API and page hand them in, the real executor judges
them, and what was handed in comes back byte by byte.
"""

import base64
import io
import json
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from judge.ctl.context import from_file
from judge.gateway.auth import token_digest
from judge.languages import handed
from tests.support.cluster import Cluster, judgectl_bytes, processes_of, running
from tests.support.packages import write
from tests.support.servers import wait_for

pytestmark = pytest.mark.root

ADA = "token-of-ada"
SUM = {
    "add.h": b"#pragma once\r\nint add(int a, int b);\r\n",
    "lib/add.cpp": b'#include "../add.h" // caf\xe9\nint add(int a, int b) { return a + b; }\n',
    "main.cpp": b'\xef\xbb\xbf#include <iostream>\n#include "add.h"\n'
    b'int main() { int a, b; std::cin >> a >> b; std::cout << add(a, b) << "\\n"; }\n',
    "empty.txt": b"",
}
PACKAGE = {
    "problem.yaml": "problem_format_version: 2025-09\nname: Sum\nlimits: {time_limit: 5}\n",
    "data/secret/1.in": "20 22\n",
    "data/secret/1.ans": "42\n",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("files") / "cluster", "--slots", "2") as cluster:
        tokens = Path(cluster.config("gateway")["tokens"])
        rows = yaml.safe_load(tokens.read_text())
        rows["tokens"].append({"user": "ada", "role": "user", "sha256": token_digest(ADA)})
        tokens.write_text(yaml.safe_dump(rows))
        package = write(tmp_path_factory.mktemp("package") / "sum", PACKAGE)
        run(cluster, "problem", "import", "--visible", str(package))
        yield cluster
    assert processes_of(str(cluster.directory)) == {}


def run(cluster: Cluster, *arguments: str, code: int = 0) -> bytes:
    """Run judgectl; returns stdout, or stderr when it was to fail."""
    result = judgectl_bytes(cluster, *arguments, code=code)
    return result.stderr if code in {1, 2} else result.stdout


def handed_in(cluster: Cluster, *arguments: str, code: int = 0) -> Any:
    return json.loads(run(cluster, "submit", "--output", "json", *arguments, code=code))


@pytest.fixture
def http(cluster: Cluster) -> Iterator[httpx.Client]:
    """The API as ada, who is no admin."""
    server = from_file(cluster.directory / "client.yml").server
    headers = {"Authorization": f"Bearer {ADA}"}
    with httpx.Client(base_url=f"{server}/api/v1", headers=headers, trust_env=False, timeout=60) as client:
        wait_for(lambda: client.get("/whoami").status_code == 200, what="the token of ada")
        yield client


@pytest.fixture
def folder(work: Path) -> Path:
    for name, data in SUM.items():
        place = work / "sum" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return work / "sum"


def archive(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in files.items():
            file.writestr(name, data)
    return target.getvalue()


def unpacked(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def judged(http: httpx.Client, answer: httpx.Response) -> Any:
    """A submission that was taken, with its verdict."""
    assert answer.status_code in {200, 201}, answer.text
    task = answer.json()
    while not task["done"]:
        task = http.get(f"/submissions/{task['id']}", params={"wait": 20, "version": task["version"]}).json()
    return task


def test_a_directory_and_what_comes_back(cluster: Cluster, folder: Path, work: Path) -> None:
    task = handed_in(cluster, "-p", "sum", str(folder))
    assert (task["verdict"], task["submission"]["filename"]) == ("AC", "sum")
    run(cluster, "source", task["id"], "--to", str(work / "back"))
    assert handed.read_directory(work / "back") == SUM
    run(cluster, "source", task["id"], "--to", str(work / "back.zip"))
    assert unpacked((work / "back.zip").read_bytes()) == SUM
    assert run(cluster, "source", task["id"], "lib/add.cpp") == SUM["lib/add.cpp"]
    assert b"is there already" in run(cluster, "source", task["id"], "--to", str(work / "back"), code=2)
    text = run(cluster, "get", "--source", task["id"]).decode()
    assert "main.cpp" in text and "int add(int a, int b);" in text and "no UTF-8 text" in text


def test_files_of_one_program_and_programs_of_one_file(cluster: Cluster, folder: Path) -> None:
    names = [str(folder / name) for name in ("main.cpp", "lib/add.cpp", "add.h")]
    task = handed_in(cluster, "-p", "sum", *names)
    assert task["verdict"] == "AC"
    assert [file["name"] for file in task["submission"]["files"]] == ["main.cpp", "lib/add.cpp", "add.h"]
    tasks = handed_in(cluster, "-p", "sum", "--each", *names[:2], code=15)
    assert [row["verdict"] for row in tasks] == ["CE", "CE"], "neither is a program"


def test_an_archive_and_an_entry(cluster: Cluster, work: Path) -> None:
    files = {"a.py": b"print(1)\n", "b.py": b"import c\nprint(c.X)\n", "c.py": b"X = 42\n"}
    (work / "x.zip").write_bytes(archive(files))
    assert handed_in(cluster, "-p", "sum", str(work / "x.zip"), code=10)["verdict"] == "WA"
    task = handed_in(cluster, "-p", "sum", "--entry", "b.py", str(work / "x.zip"))
    assert (task["verdict"], task["submission"]["entry"], task["submission"]["filename"]) == ("AC", "b.py", "x.zip")


def test_bytes_that_are_no_utf8(cluster: Cluster, work: Path) -> None:
    source = b'#include <stdio.h>\nint main(void) { puts("42"); } // \xe9\r\n'
    (work / "latin.c").write_bytes(source)
    task = handed_in(cluster, "-p", "sum", str(work / "latin.c"))
    assert task["verdict"] == "AC"
    assert run(cluster, "source", task["id"]) == source


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["a.c", "b.py"],
            "could be c or python3 by the files' names; name it, or the file to start with --entry; --each",
        ),
        (["a.c", "absent.c"], "absent.c: cannot be read: No such file"),
        (["--entry", "x.c", "a.c", "a2.c"], "entry: 'x.c' is none of the files"),
        (["bomb.zip"], "bytes together"),
        (["empty"], "files: are none"),
        (["a.c", "-"], "standard input is a program of its own"),
    ],
)
def test_bad_sources_are_refused_with_one_sentence(cluster, work, arguments, sentence) -> None:
    for name in ("a.c", "a2.c", "b.py"):
        (work / name).write_text("int main(void) { return 0; }\n")
    (work / "bomb.zip").write_bytes(archive({"a.c": bytes(9 * 1024**2)}))
    (work / "empty").mkdir()
    paths = [word if word.startswith("-") or word == "x.c" else str(work / word) for word in arguments]
    error = run(cluster, "submit", "-p", "sum", *paths, code=2).decode()
    assert sentence in error.replace("\n", " ")


def test_a_directory_in_a_packages_submissions(cluster: Cluster, folder: Path, work: Path) -> None:
    kind = work / "adding/submissions/accepted"
    kind.mkdir(parents=True)
    folder.rename(kind / "several")
    write(work / "adding", PACKAGE)
    assert handed_in(cluster, str(kind / "several"))["submission"]["problem"] == "adding"
    assert handed_in(cluster, *(str(kind / "several" / name) for name in SUM))["verdict"] == "AC"


INCLUDE = {"include/cpp/lib/x.h": "", "include/default/top.h": "", "include/cpp/top.hpp": ""}


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["lib", "main.cpp"], "'lib' is a folder of the problem's files ('lib/x.h'); rename your file"),
        (["main.cpp", "top.hpp/a.cpp"], "'top.hpp/a.cpp' lies in 'top.hpp', which is a file of the problem"),
        (["main.cpp", "lib/x.h", "top.h/a.h"], ""),
    ],
)
def test_names_that_conflict_with_files_of_the_problem_are_refused(cluster, http, work, names, sentence) -> None:
    """A file of the same name is replaced, and the files for other languages are not there."""
    if not any(task["name"] == "with-include" for task in http.get("/problems").json()["problems"]):
        run(cluster, "problem", "import", "--visible", str(write(work / "with-include", {**PACKAGE, **INCLUDE})))
    files = dict.fromkeys(names, b"int main() {}\n")
    for name, data in files.items():
        (work / "own" / name).parent.mkdir(parents=True, exist_ok=True)
        (work / "own" / name).write_bytes(data)
    body = {"problem": "with-include", "language": "cpp", "files": as_json(files)}
    answer = http.post("/submissions", json=body)
    if not sentence:
        assert answer.status_code == 201, answer.text
        return
    assert answer.status_code == 400
    assert sentence in answer.json()["error"]
    error = run(cluster, "submit", "-p", "with-include", "-l", "cpp", str(work / "own"), code=2).decode()
    assert sentence in error.replace("\n", " ")


def as_json(files: dict[str, bytes]) -> list[dict[str, str]]:
    return [{"name": name, "base64": base64.b64encode(data).decode()} for name, data in files.items()]


def test_json_form_and_archive_are_one_submission(http: httpx.Client) -> None:
    """However the files come, the key sees the same; others are another submission."""
    key = {"Idempotency-Key": "one"}
    fields = {"language": "cpp", "problem": "sum", "filename": "sum.zip"}
    first = http.post("/submissions", json={**fields, "files": as_json(SUM)}, headers=key)
    assert first.status_code == 201, first.text
    form = http.post(
        "/submissions", data=fields, files=[("files", (name, data)) for name, data in SUM.items()], headers=key
    )
    packed = http.post("/submissions", data=fields, files=[("code[]", ("sum.zip", archive(SUM)))], headers=key)
    body = http.post(
        "/submissions", params=fields, content=archive(SUM), headers={**key, "Content-Type": "application/zip"}
    )
    assert [answer.status_code for answer in (form, packed, body)] == [200, 200, 200], (
        form.text,
        packed.text,
        body.text,
    )
    assert {answer.json()["id"] for answer in (first, form, packed, body)} == {first.json()["id"]}
    conflicting = http.post("/submissions", json={**fields, "files": as_json({**SUM, "x.h": b""})}, headers=key)
    assert conflicting.status_code == 409
    assert judged(http, first)["verdict"] == "AC"


def test_files_are_shown_and_downloaded(cluster: Cluster, http: httpx.Client) -> None:
    parts = [("sub_file[]", (name, data)) for name, data in SUM.items()]
    task = judged(http, http.post("/submissions", data={"problem_id": "sum", "mainclass": "main.cpp"}, files=parts))
    assert (task["verdict"], task["submission"]["language"], task["submission"]["entry"]) == ("AC", "cpp", "main.cpp")
    download = http.get(f"/submissions/{task['id']}/source")
    assert unpacked(download.content) == SUM and f"filename={task['id']}.zip" in download.headers["Content-Disposition"]
    for name, data in SUM.items():
        download_one = http.get(f"/submissions/{task['id']}/source", params={"file": name})
        assert download_one.content == data and "attachment" in download_one.headers["Content-Disposition"]
    assert http.get(f"/submissions/{task['id']}/source", params={"file": "x"}).status_code == 404
    listed = next(row for row in http.get("/submissions").json()["tasks"] if row["id"] == task["id"])
    assert listed["submission"]["files"] == [] and listed["submission"]["source"] is None


def test_the_source_of_another_user_is_hidden(cluster: Cluster, http: httpx.Client, folder: Path) -> None:
    task = handed_in(cluster, "-p", "sum", str(folder))
    for path in ("", "/source", "/source?file=main.cpp"):
        assert http.get(f"/submissions/{task['id']}{path}").status_code == 404


def test_what_the_api_refuses(http: httpx.Client) -> None:
    too_many = {f"{n}.c": b"int x;" for n in range(101)}
    big = {"a.c": b"x" * 200_000, "b.c": b"x" * 100_000}
    for files, status, sentence in ((too_many, 400, "100"), (big, 413, "262144")):
        answers = [
            http.post("/submissions", json={"language": "c", "files": as_json(files)}),
            http.post("/submissions", data={"language": "c"}, files=[("files", item) for item in files.items()]),
            http.post("/submissions", data={"language": "c"}, files=[("file", ("x.zip", archive(files)))]),
        ]
        for answer in answers:
            assert answer.status_code == status and sentence in answer.json()["error"], answer.text
            assert answer.json()["field"] in {"files", None}
    for name in ("../x.c", "/etc/x.c", ".x.c"):
        answer = http.post("/submissions", json={"language": "c", "files": as_json({name: b"x", "b.c": b"y"})})
        assert (answer.status_code, answer.json()["field"]) == (400, "files.0.name"), answer.text
        answer = http.post("/submissions", data={"language": "c"}, files=[("files", (name, b"x"))])
        assert answer.status_code == 400, answer.text
    answer = http.post("/submissions", data={"langauge": "c"}, files=[("files", ("a.c", b"x"))])
    assert answer.status_code == 400 and "did you mean" not in answer.text and "langauge" in answer.json()["error"]
    answer = http.post("/submissions", content=b"PK", headers={"Content-Type": "application/zip"})
    assert answer.status_code == 400 and "not a ZIP archive" in answer.json()["error"]


def test_files_count_as_stored_bytes(http: httpx.Client) -> None:
    before = http.get("/whoami").json()["stored_bytes"]
    files = {"main.py": b"print(42)\n", "data.txt": os.urandom(50_000).hex().encode()}
    judged(http, http.post("/submissions", json={"language": "python3", "files": as_json(files)}))
    wait_for(lambda: http.get("/whoami").json()["stored_bytes"] >= before + 100_000, what="the bytes of the files")


def test_a_submission_is_judged_again_with_its_files(cluster: Cluster, folder: Path) -> None:
    task = handed_in(cluster, "-p", "sum", str(folder))
    started = ("rejudge", "start", task["id"], "--reason", "test", "--yes", "--wait", "--output", "json")
    run(cluster, "rejudge", "apply", str(json.loads(run(cluster, *started))["id"]))
    now = json.loads(run(cluster, "get", task["id"], "--output", "json"))
    assert now["verdict"] == "AC" and len(now["past"]) == 1


def csrf_of(page: str) -> str:
    return re.findall(r'name="csrf" value="([^"]+)"', page)[0]


def test_the_page_takes_and_shows_files(cluster: Cluster) -> None:
    server = from_file(cluster.directory / "client.yml").server
    with httpx.Client(base_url=server, trust_env=False, follow_redirects=True, timeout=60) as browser:
        browser.post("/login", data={"csrf": csrf_of(browser.get("/login").text), "token": ADA})
        page = browser.get("/submit").text
        assert '<input type="file" name="file" multiple>' in page
        fields = {"csrf": csrf_of(page), "key": "k" * 20, "problem": "sum", "language": "", "source": "", "entry": ""}
        bad = browser.post("/submit", data=fields, files=[("file", ("a.c", b"x")), ("file", ("a.c", b"y"))])
        assert bad.status_code == 400 and "is the name of two files" in bad.text.replace("&#39;", "'")
        page_after = browser.post("/submit", data=fields, files=[("file", ("sum.zip", archive(SUM)))])
        assert page_after.status_code == 200 and "/submissions/" in str(page_after.url), page_after.text
        task = str(page_after.url).rpartition("/")[2]
        for name in SUM:
            assert f"<h3>{name}" in page_after.text
        assert (
            "4 files of sum.zip" in page_after.text
            and "It is empty." in page_after.text
            and "not UTF-8 text" in page_after.text
        )
        links = re.findall(rf'href="(/api/v1/submissions/{task}/source[^"]*)"', page_after.text)
        assert len(links) == len(SUM) + 1
        assert unpacked(browser.get(links[0]).content) == SUM
        assert [browser.get(link).content for link in links[1:]] == list(SUM.values())
