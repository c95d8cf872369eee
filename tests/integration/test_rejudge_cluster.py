"""judgectl rejudge and the evidence of a judging, against a whole embedded cluster with its real sandbox."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from judge.model import messages as m
from judge.model.problem import ProblemImport, ProblemInfo, ProblemManifest, ProblemTest
from tests.support.cluster import Cluster, judgectl, processes_of, running
from tests.support.servers import wait_for

pytestmark = pytest.mark.root

PRINTS = "n = int(input())\nprint(n + n)\nimport sys\nprint('a word on stderr', file=sys.stderr)\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("rejudge") / "cluster", "--slots", "1") as cluster:
        yield cluster
    assert processes_of(str(cluster.directory)) == {}


def ctl(cluster: Cluster, *arguments: str, code: int = 0) -> str:
    result = judgectl(cluster, *arguments, code=code)
    return result.stderr if code else result.stdout


def ctl_json(cluster: Cluster, *arguments: str) -> Any:
    return json.loads(ctl(cluster, *arguments, "--output", "json"))


def publish(cluster: Cluster, answer: str) -> None:
    """A problem with one secret test that wants the double of 7, or whatever `answer` says."""
    with cluster.api() as api:
        test = ProblemTest(
            name="secret/1", input=api.put_content(b"7\n"), answer=api.put_content(f"{answer}\n".encode())
        )
        manifest = ProblemManifest(name="double", tests=[test])
        sha = api.put_content(manifest.model_dump_json().encode())
        api.call(ProblemInfo, "POST", "/problems", body=ProblemImport(manifest=sha, visible=True))


def submit(cluster: Cluster, trace: str) -> m.Task:
    """Hand in with a trace id of the client's own, and follow it to its verdict."""
    body = {"language": "python3", "source": PRINTS, "filename": "double.py", "problem": "double"}
    with cluster.api() as api:
        answer = api.request("POST", "/submissions", json=body, headers={"X-Request-Id": trace})
        task = m.Task.model_validate_json(answer.content)
        while not task.done:
            task = api.get(task.id, wait=20, version=task.version)
    return task


def logs(cluster: Cluster) -> str:
    files = [path for path in cluster.directory.rglob("*") if path.suffix == ".log" and path.is_file()]
    return "\n".join(path.read_text(errors="replace") for path in files)


def test_from_a_wrong_answer_file_to_the_right_verdict(cluster: Cluster) -> None:
    publish(cluster, "13")
    before = submit(cluster, "trace-of-a-judging")
    assert before.verdict == "WA"
    publish(cluster, "14")
    text = ctl(cluster, "rejudge", "start", "--problem", "double", "--verdict", "WA", "--dry-run")
    assert "1 submissions would be judged again: WA 1" in text
    assert before.id in text
    assert ctl_json(cluster, "rejudge", "list") == []
    words = ["--problem", "double", "--verdict", "WA", "--since", "1d", "--reason", "the answer was 13"]
    arguments = ["rejudge", "start", *words]
    assert "--yes: is missing" in ctl(cluster, *arguments, code=2)
    rejudging = ctl_json(cluster, *arguments, "--yes", "--wait")
    assert (rejudging["state"], rejudging["done"], rejudging["changed"], rejudging["user"]) == (
        "finished",
        1,
        1,
        "admin",
    )
    number = str(rejudging["id"])
    assert ctl_json(cluster, "get", before.id)["verdict"] == "WA"
    text = ctl(cluster, "rejudge", "diff", number)
    for word in ("finished", "old \\ new", "WA", "AC", before.id, "the answer was 13"):
        assert word in text
    assert "finished" in ctl(cluster, "rejudge", "show", number)
    assert "applied" in ctl(cluster, "rejudge", "apply", number)
    text = ctl(cluster, "get", before.id, "--full")
    assert text.startswith("AC")
    assert f"before rejudging {number}: WA" in text
    assert "trace trace-of-a-judging" in text
    assert "applied already" in ctl(cluster, "rejudge", "apply", number, code=2)
    assert "applied already" in ctl(cluster, "rejudge", "cancel", number, code=2)
    assert "there is no rejudging 99" in ctl(cluster, "rejudge", "show", "99", code=2)
    assert "no judged submission" in ctl(
        cluster, "rejudge", "start", "--user", "nobody", "--reason", "r", "--yes", code=2
    )
    assert "no condition" in ctl(cluster, "rejudge", "preview", code=2)
    assert ctl_json(cluster, "rejudge", "diff", number)["matrix"] == {"WA": {"AC": 1}}


def test_cancelling_a_running_one_ends_what_runs(cluster: Cluster) -> None:
    with cluster.api() as api:
        body = m.Submission(command="sleep 0.1; test -e /never || exit 1")
        tasks = [api.submit(body.model_copy(update={"idempotency_key": f"c{index}"})) for index in range(3)]
        for task in tasks:
            latest = task
            while not latest.done:
                latest = api.get(task.id, wait=20, version=latest.version)
    rejudging = ctl_json(cluster, "rejudge", "start", "--yes", "--reason", "r", *(task.id for task in tasks))
    assert ctl_json(cluster, "rejudge", "cancel", str(rejudging["id"]))["state"] == "cancelled"
    wait_for(lambda: ctl_json(cluster, "rejudge", "show", str(rejudging["id"]))["settled"], what="the end of its runs")
    assert {ctl_json(cluster, "get", task.id)["verdict"] for task in tasks} == {"RTE"}
    assert "cancelled" in ctl(cluster, "rejudge", "list")


def test_the_evidence_of_one_judging(cluster: Cluster) -> None:
    publish(cluster, "13")
    task = submit(cluster, "evidence.42")
    assert task.result is not None
    assert task.trace == "evidence.42"
    assert task.result.judge_version
    assert task.result.sandbox.startswith("slot 0")
    assert task.result.limits is not None
    (test,) = task.result.tests
    assert (test.verdict, test.exit_code, test.output, test.error) == ("WA", 0, "14\n", "a word on stderr\n")
    assert test.cpu > 0
    assert test.wall > 0
    assert test.memory > 0
    text = ctl(cluster, "get", task.id, "--full")
    for words in (
        "trace: evidence.42",
        "Python 3",
        "executor: ",
        "version ",
        "limits: cpu ",
        "secret/1",
        "a word on stderr",
        "14",
        "problem: double, content ",
        "attempt 1",
    ):
        assert words in text, text

    def everywhere() -> bool:
        lines = [line for line in logs(cluster).splitlines() if "evidence.42" in line]
        phrases = ("gateway", "added", "handed to", "taken", "enters the sandbox", "leaves the sandbox", "is WA on")
        return all(any(words in line for line in lines) for words in phrases)

    wait_for(everywhere, what="the trace in the log of every daemon from the gateway to the sandbox")
