"""What people bring to the API, against a whole cluster: the Python client as a wheel, the commands of the cookbook."""

import importlib.metadata
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from judge.boot.embedded.cluster import EXECUTOR
from judge.gateway.api.handlers import ROUTES
from judge.model.people import SCOPES
from tests.support.clients import Collection, installed
from tests.support.cluster import Cluster, judgectl, running
from tests.support.sandbox import need_sandbox

pytestmark = pytest.mark.root
ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients/python"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_sandbox()
    with running(tmp_path_factory.mktemp("cluster") / "up") as cluster:
        judgectl(cluster, "problem", "import", "--visible", ROOT / "examples/problems/hello")
        yield cluster


@pytest.fixture(scope="module")
def access(cluster: Cluster) -> dict[str, str]:
    """What a client finds in its environment."""
    context = yaml.safe_load((cluster.directory / "client.yml").read_text())
    token = (cluster.directory / "admin.token").read_text().strip()
    return {"JUDGE": context["server"], "TOKEN": token, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


def recipes() -> list[tuple[str, str, str | None]]:
    """(title, commands, what they print) of each block of commands."""
    text = (ROOT / "docs/cookbook.md").read_text()
    blocks = re.findall(r"^## (.*?)$|^```sh\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", text, re.MULTILINE | re.DOTALL)
    title, several = "", []
    for heading, commands, prints in blocks:
        title = heading or title
        if commands and "TOKEN=…" not in commands:
            several.append((title, commands, prints or None))
    return several


def test_the_cookbook_has_ten_tasks() -> None:
    titles = list(dict.fromkeys(title for title, _, _ in recipes() if title))
    assert [title.partition(".")[0] for title in titles] == [str(number) for number in range(1, 11)]


def test_every_command_of_the_cookbook_does_what_it_says(access: dict[str, str], tmp_path: Path) -> None:
    """All of them in one shell, as somebody who reads the page from its top."""
    script = "set -euo pipefail\n"
    for place, (_, commands, _) in enumerate(recipes()):
        script += f"{{\n{commands}}} > out.{place}\n"
    shell = ["bash", "-c", script]
    result = subprocess.run(shell, env=access, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200)
    for place, (title, _, prints) in enumerate(recipes()):
        out = tmp_path / f"out.{place}"
        assert out.exists(), (title, result.stderr)
        if prints is not None:
            lines = [line for line in out.read_text().splitlines() if line]
            pattern = re.escape(prints.strip()).replace("…", ".+")
            assert re.fullmatch(pattern, "\n".join(lines)), (title, lines, result.stderr)
    assert result.returncode == 0, result.stderr


# Calls that are not answered with 2xx as the collection stands, and the reason.
REFUSED = {
    "cancel": 409,  # it is judged by then
    "import_problem": 400,  # its manifest is for somebody to fill in
    "put_pack": 400,  # so is the file
    "verified": 400,  # and what came of a verification
    "problem_file": 404,  # no file of this problem is empty
    "rejudge_apply": 409,  # it was cancelled
    "delete_user": 404,  # the purge before it takes the account along
    "own_password": 401,  # the old one is for somebody to fill in
}


def test_the_collection_runs_as_it_stands(cluster: Cluster, access: dict[str, str]) -> None:
    """Every request of every folder, in their order; a problem and an executor are all that somebody names."""
    judgectl(cluster, "problem", "import", "--visible", ROOT / "examples/problems/average")
    judgectl(cluster, "user", "add", "walker", "--role", "admin")
    scopes = [word for scope in SCOPES for word in ("--scope", scope)]
    token = judgectl(cluster, "token", "create", "--user", "walker", *scopes).stdout.strip()
    collection = Collection(judge=access["JUDGE"], token=token, problem="average", executor=EXECUTOR)
    answers: dict[str, int] = {}
    for name, items in collection.folders.items():
        for item in items:
            answers[item["name"]] = collection.run(item)
        if name == "submissions":  # the last of these has deleted its own
            for item in items[:2]:
                collection.run(item)
    assert {name: status for name, status in answers.items() if not 200 <= status < 300} == REFUSED
    assert answers.keys() == {route.name for route in ROUTES}


def wheels_of(name: str, target: Path, copied: set[str]) -> None:
    """Copy an installed package, and what it says that it needs, into another place."""
    if name.lower() in copied:
        return
    copied.add(name.lower())
    package = importlib.metadata.distribution(name)
    for file in package.files or []:
        if ".." not in file.parts:
            place = target / file
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file.locate(), place)
    for requirement in map(Requirement, package.requires or []):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            wheels_of(requirement.name, target, copied)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a venv with the client's wheel, and of all else only what the wheel asks for."""
    interpreter = installed(CLIENT, tmp_path_factory.mktemp("wheel"), "--no-deps") / "python"
    query = (
        "import importlib.metadata as m, sysconfig; print(sysconfig.get_path('purelib'), *m.requires('judge-client'))"
    )
    answer = subprocess.run([interpreter, "-c", query], check=True, capture_output=True, text=True).stdout.split()
    for needed in answer[1:]:
        wheels_of(Requirement(needed).name, Path(answer[0]), set())
    return interpreter


SYNC = """
import json, threading
from judge_client import Batch, Judge, NotFoundError, JudgeError, Submission, Test, Limits

with Judge() as judge:
    task = judge.run(Submission(language="python3", source="print(6 * 7)"), timeout=60)
    assert (task.verdict, task.result.stdout.strip()) == ("AC", "42"), task
    assert judge.get(task.id) == judge.get(task.id)
    tests = [Test(name="1", input="2\\n", answer="5\\n")]
    wrong = judge.run(Submission(language="python3", source="print(4)", tests=tests, limits=Limits(cpu=1)), timeout=60)
    assert wrong.verdict == "WA" and wrong.result.tests[0].name == "1" and wrong.result.limits.cpu == 1.0
    first = judge.submit(Submission(command="true"), idempotency_key="k")
    assert judge.submit(Submission(command="true"), idempotency_key="k").id == first.id
    two = [Submission(command="true"), Submission(language="klingon", source="x")]
    told = judge.submit_batch(Batch(submissions=two))
    assert [one.status for one in told.results] == [201, 400] and told.results[1].error.field == "language"
    ids = [first.id, told.results[0].task.id, "f" * 24]
    several = judge.get_batch(ids=",".join(ids))
    assert [one.id for one in several.tasks] == ids[:2] and several.missing == ids[2:]
    listed = [one.id for one in judge.each_search(limit=2)]
    assert len(listed) == len(set(listed)) >= 4 and task.id in listed
    assert judge.source(task.id) == b"print(6 * 7)"
    events = list(judge.follow(first.id))
    assert events[-1].data["done"] is True and events[-1].data["submission"] == first.id
    assert "hello" in [one.name for one in judge.problems().problems]
    assert judge.problem("hello").samples and judge.health().healthy and judge.whoami().role == "admin"
    sha = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
    assert judge.put_blob(sha, b"foo").bytes == 3 and judge.head_blob(sha) and judge.get_blob(sha) == b"foo"
    try:
        judge.get("f" * 24)
    except NotFoundError as error:
        assert (error.status, error.code) == (404, "not_found") and error.request
    else:
        raise AssertionError
    try:
        judge.search(limit=501)
    except JudgeError as error:
        assert (error.status, error.field) == (400, "limit")
    else:
        raise AssertionError
print("good")
"""
ASYNC = """
import asyncio
from judge_client import AsyncJudge, Submission, UnavailableError

async def main():
    async with AsyncJudge() as judge:
        wanted = [Submission(language="python3", source=f"print({number})") for number in range(4)]
        tasks = await asyncio.gather(*(judge.run(one, timeout=60) for one in wanted))
        assert [task.result.stdout.strip() for task in tasks] == ["0", "1", "2", "3"]
        listed = [one.id async for one in judge.each_search(limit=2)]
        assert {task.id for task in tasks} <= set(listed)
        seen = [event async for event in judge.follow(tasks[0].id)]
        assert seen[-1].data["done"] is True
    async with AsyncJudge("http://127.0.0.1:9", "x", tries=2, pace=0.01) as nobody:
        try:
            await nobody.whoami()
        except UnavailableError as error:
            assert "does not answer" in str(error)
        else:
            raise AssertionError
    print("good")

asyncio.run(main())
"""


@pytest.mark.parametrize("program", [SYNC, ASYNC], ids=["sync", "async"])
def test_the_client_from_its_wheel_alone(python: Path, access: dict[str, str], program: str) -> None:
    result = subprocess.run(
        [python, "-I", "-c", program], env=access, capture_output=True, text=True, check=False, timeout=200
    )
    assert (result.returncode, result.stdout.strip()) == (0, "good"), result.stderr
    installed = subprocess.run(
        [python, "-I", "-c", "import importlib.metadata as m; print(*[one.name for one in m.distributions()])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "judge" not in installed.stdout.split(), "the client needs nothing of the cluster"
