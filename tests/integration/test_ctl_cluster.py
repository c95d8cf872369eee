"""judgectl against a whole embedded cluster: every command, as a person or a script uses it."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import BIN, Cluster, judgectl, processes_of, running
from tests.support.servers import wait_for

pytestmark = pytest.mark.root
ROOT = Path(__file__).resolve().parents[2]
HELLO = ROOT / "examples/problems/hello/submissions"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("ctl") / "cluster", "--slots", "2") as cluster:
        yield cluster
    assert processes_of(str(cluster.directory)) == {}


def ctl(cluster: Cluster, *arguments: str, stdin: str = "", code: int = 0) -> str:
    """Run judgectl; returns stdout (stderr when it was to fail with 1 or 2)."""
    result = judgectl(cluster, *arguments, stdin=stdin, code=code)
    return result.stderr if code in {1, 2} and not result.stdout else result.stdout


def ctl_json(cluster: Cluster, *arguments: str, stdin: str = "", code: int = 0) -> Any:
    return json.loads(ctl(cluster, *arguments, "--output", "json", stdin=stdin, code=code))


def test_status_names_every_member(cluster: Cluster) -> None:
    text = ctl(cluster, "status")
    assert text.startswith("healthy")
    for word in ("judicator", "etcd", "mongodb", "executor", "gateway", "leader", "RUNNING"):
        assert word in text
    status = ctl_json(cluster, "status")
    assert status["cluster"]["faults"] == []
    assert {service["name"] for service in status["services"]} >= {"etcd", "mongodb", "judicator", "gateway"}


def test_import_then_submit_files_with_exit_codes_by_verdict(cluster: Cluster) -> None:
    info = ctl_json(cluster, "problem", "import", str(ROOT / "examples/problems/hello"))
    assert info[0]["name"] == "hello"
    assert "hello" in ctl(cluster, "problem", "list")
    assert ctl_json(cluster, "problem", "show", "hello")["hash"] == info[0]["hash"]
    assert "AC" in ctl(cluster, "submit", "--problem", "hello", str(HELLO / "accepted/hello.c"))
    assert "WA" in ctl(cluster, "submit", "-p", "hello", "--full", str(HELLO / "wrong_answer/lower_case.py"), code=10)
    text = ctl(cluster, "submit", "-p", "hello", str(HELLO / "compile_error/missing_semicolon.c"), code=15)
    assert "error:" in text, "the compiler's words are shown"
    several = [str(HELLO / "accepted/hello.py"), str(HELLO / "run_time_error/null_pointer.c")]
    assert ctl(cluster, "submit", "-p", "hello", "--each", *several, code=14).count("hello") >= 2


def test_a_problem_is_hidden_published_and_given_owners(cluster: Cluster, tmp_path: Path) -> None:
    for name in ("first", "second"):
        shutil.copytree(ROOT / "examples/problems/hello", tmp_path / name)
    imported = ctl_json(cluster, "problem", "import", "--no-check", str(tmp_path / "first"))[0]
    assert (imported["visibility"]["everyone"], imported["visibility"]["groups"]) == (False, [])
    assert ctl_json(cluster, "problem", "import", "--visible", str(tmp_path / "second"))[0]["visibility"]["everyone"]
    assert re.search(r"first .* hidden ", ctl(cluster, "problem", "list"))
    publish = ["problem", "publish", "first", "second", "--group", "cs101", "--from", "2100-01-31T09:00"]
    assert "groups cs101; from 2100-01-31 09:00 UTC" in ctl(cluster, *publish)
    ctl(cluster, "problem", "owners", "first", "ada", "bob")
    problem = ctl_json(cluster, "problem", "show", "first")
    assert problem["visibility"] == {"everyone": False, "groups": ["cs101"], "since": "2100-01-31T09:00:00Z"}
    assert problem["owners"] == ["ada", "bob"]
    assert "ada, bob" in ctl(cluster, "problem", "show", "first")
    again = ctl_json(cluster, "problem", "import", str(tmp_path / "first"))[0]
    assert (again["visibility"], again["owners"]) == (problem["visibility"], problem["owners"])
    assert ctl_json(cluster, "problem", "owners", "first")[0]["owners"] == []
    ctl(cluster, "problem", "publish", "first")
    hidden = ctl_json(cluster, "problem", "hide", "second")[0]
    assert (hidden["visibility"]["groups"], hidden["visibility"]["since"]) == ([], None)
    assert re.search(r"first .* to everyone ", ctl(cluster, "problem", "list"))
    ctl(cluster, "problem", "label", "first", "--tag", "Graphs,dp", "--difficulty", "2.5", "--order", "-1")
    assert re.search(r"first .* 2\.5 +graphs dp ", ctl(cluster, "problem", "list", "--tag", "graphs"))
    ctl(cluster, "problem", "publish", "second", "--order", "-2")
    names = [problem["name"] for problem in ctl_json(cluster, "problem", "list")["problems"]]
    assert names[:2] == ["second", "first"]
    assert ctl_json(cluster, "problem", "label", "first", "--tag", "")[0]["tags"] == []
    assert "there is no problem 'third'" in ctl(cluster, "problem", "hide", "third", code=2)
    assert "--from: 'soon' is no time" in ctl(cluster, "problem", "publish", "first", "--from", "soon", code=2)


def test_a_file_of_a_package_is_judged_against_its_problem(cluster: Cluster, tmp_path: Path) -> None:
    """Right after a deployment, before anything was imported; with limits or input of its own it is a free run."""
    package = tmp_path / "greeting"
    shutil.copytree(ROOT / "examples/problems/hello", package)
    accepted, wrong = package / "submissions/accepted/hello.c", package / "submissions/wrong_answer/lower_case.py"
    task = ctl_json(cluster, "submit", str(accepted))
    assert (task["submission"]["problem"], task["verdict"]) == ("greeting", "AC")
    assert "WA" in ctl(cluster, "submit", str(wrong), code=10), "now it is there"
    assert ctl_json(cluster, "submit", "--cpu", "1", str(accepted), code=14)["submission"].get("problem") is None


def test_standard_input_and_free_runs(cluster: Cluster) -> None:
    text = ctl(cluster, "submit", "-l", "python3", "-", stdin="print(6 * 7)\n")
    assert text.startswith("ran ") and "42" in text
    task = ctl_json(cluster, "submit", "--command", "tr a-z A-Z", "--stdin", str(ROOT / "pyproject.toml"))
    assert task["result"]["stdout"] == (ROOT / "pyproject.toml").read_text().upper()
    assert task["verdict"] == "AC"
    keyed = ["submit", "--command", "true", "--idempotency-key", "once"]
    assert ctl_json(cluster, *keyed)["id"] == ctl_json(cluster, *keyed)["id"]
    assert ctl_json(cluster, "submit", "--command", "sleep 60", "--cpu", "0.2", code=11)["verdict"] == "TLE"


def test_get_search_and_paging(cluster: Cluster) -> None:
    ids = [ctl_json(cluster, "submit", "--command", f"exit {code}", code=14)["id"] for code in (1, 2, 3)]
    text = ctl(cluster, "get", ids[0], "--full")
    assert "RTE" in text
    assert "attempt 1" in text
    first = ctl_json(cluster, "search", "--verdict", "RTE", "--limit", "2", "--done")
    assert [task["id"] for task in first["tasks"]] == [ids[2], ids[1]]
    second = ctl_json(cluster, "search", "--verdict", "RTE", "--limit", "2", "--before", first["next"])
    assert second["tasks"][0]["id"] == ids[0]
    assert "there is no submission" in ctl(cluster, "get", "0" * 24, code=2)
    assert ids[0] in ctl(cluster, "search")


def test_cancel_while_running(cluster: Cluster) -> None:
    task = ctl_json(cluster, "submit", "--no-wait", "--command", "sleep 50", "--cpu", "60")
    wait_for(lambda: ctl_json(cluster, "get", task["id"])["status"] == "running", what="running")
    assert ctl_json(cluster, "cancel", task["id"])[0]["status"] == "cancelled"
    wait_for(lambda: not _sleepers(), what="the end of the cancelled program")
    assert "nothing to cancel" in ctl(cluster, "cancel", ctl_json(cluster, "submit", "--command", "true")["id"], code=2)


def _sleepers() -> list[str]:
    result = subprocess.run(["pgrep", "-x", "-f", "sleep 50"], capture_output=True, text=True, check=False)
    return result.stdout.split()


def test_drain_and_resume(cluster: Cluster) -> None:
    name = ctl_json(cluster, "executors")["executors"][0]["name"]
    try:
        # It is still draining if the end of an earlier task has not been reported.
        assert re.search(r"drain(ed|ing)", ctl(cluster, "drain", name, "--reason", "new disk"))
        wait_for(lambda: "drained" in ctl(cluster, "executors"), what="a drained executor")
        assert "new disk" in ctl(cluster, "executors")
        text = ctl(cluster, "status", code=6)
        assert "all live executors are drained; nothing new is judged" in text and "slots 0/0 busy" in text
        task = ctl_json(cluster, "submit", "--no-wait", "--command", "true")
        assert ctl_json(cluster, "get", task["id"])["status"] == "pending"
    finally:
        ctl(cluster, "resume", name)
    wait_for(lambda: ctl_json(cluster, "get", task["id"])["verdict"] == "AC", what="a verdict after resume")
    assert "unknown-one" in ctl(cluster, "drain", "unknown-one", code=2)


def test_judicators_and_languages(cluster: Cluster) -> None:
    assert "leader, epoch" in ctl(cluster, "judicators")
    rows = {row["name"]: row for row in ctl_json(cluster, "languages")}
    assert {"c", "cpp", "python3", "java"} <= set(rows)
    assert ".py" in ctl(cluster, "languages")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["submit", "-p", "absent", str(HELLO / "accepted/hello.c")], "absent"),
        (["submit", "-l", "klingon", str(HELLO / "accepted/hello.c")], "'klingon' is not known"),
        (["problem", "import", str(ROOT / "judge")], "problem.yaml"),
        (["problem", "show", "absent"], "'absent' does not exist"),
        (["get", "nonsense"], "'nonsense'"),
        (["search", "--before", "nonsense"], "before"),
        (["cancel", "0" * 24], "there is no submission"),
        (["examples", "/nonexistent"], "nothing to judge"),
    ],
)
def test_bad_input_is_one_sentence(cluster: Cluster, arguments: list[str], sentence: str) -> None:
    text = ctl(cluster, *arguments, code=2)
    assert sentence in text
    assert text.startswith("judgectl: ")
    assert len(text.strip().splitlines()) == 1


def test_a_wrong_token_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_TOKEN", "wrong")
    assert "token" in ctl(cluster, "executors", code=2)


def test_a_wrong_folder_is_found_out(cluster: Cluster, tmp_path: Path) -> None:
    target = tmp_path / "examples/problems/hello"
    shutil.copytree(ROOT / "examples/problems/hello", target)
    wrong = next((target / "submissions/wrong_answer").iterdir())
    wrong.rename(target / "submissions/accepted" / wrong.name)
    text = ctl(cluster, "examples", str(tmp_path / "examples"), code=1)
    assert "✗" in text
    assert "1 not as expected" in text


def on_terminal(cluster: Cluster, *arguments: str) -> str:
    """What a terminal gets from judgectl."""
    result = subprocess.run(
        ["script", "-qec", shlex.join([f"{BIN}/judgectl", *arguments]), "/dev/null"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "JUDGE_CONTEXT": str(cluster.directory / "client.yml"), "TERM": "xterm"},
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_a_terminal_gets_a_live_table(cluster: Cluster) -> None:
    assert "seen" in on_terminal(cluster, "submit", "--command", "echo seen")


def test_what_a_command_printed_is_exact_in_a_pipe_and_harmless_on_a_terminal(cluster: Cluster) -> None:
    command = r"printf 'a\tb\033[31m\033]0;[/b]\a%0300d\n' 7"
    task = ctl_json(cluster, "submit", "--command", command)
    assert (
        ctl(cluster, "get", task["id"]).partition("\n")[2] == "a\tb\x1b[31m\x1b]0;[/b]\a" + "7".rjust(300, "0") + "\n"
    )
    assert "[/b]" in ctl(cluster, "search"), "and a table shows the command as it is"
    output = on_terminal(cluster, "get", task["id"])
    assert r"b\x1b[31m\x1b]0;[/b]" + "7".rjust(300, "0") in output


LARGE = 200 * 1024**2


def measured(cluster: Cluster, *arguments: str) -> int:
    """Run judgectl, which must succeed; the most bytes of memory that it had."""
    environment = {**os.environ, "JUDGE_CONTEXT": str(cluster.directory / "client.yml")}
    process = subprocess.Popen([str(BIN / "judgectl"), *arguments], env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * 1024


class Peaks:
    """The most memory that each daemon in Python has had since this was made, beyond what it had then."""

    def __init__(self, cluster: Cluster) -> None:
        self.before = {}
        for pid, command in processes_of(str(cluster.directory)).items():
            kind = next((name for name in ("judicator", "gateway", "executor") if name in command), None)
            if kind is not None:
                Path(f"/proc/{pid}/clear_refs").write_text("5")
                self.before[pid] = (kind, self._of(pid))

    @staticmethod
    def _of(pid: int) -> int:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)

    def grown(self) -> dict[str, int]:
        """Bytes by kind of daemon, of the process that grew the most."""
        growth: dict[str, int] = {}
        for pid, (kind, before) in self.before.items():
            if Path(f"/proc/{pid}").exists():
                growth[kind] = max(growth.get(kind, 0), self._of(pid) - before)
        return growth


def test_a_large_file_passes_through_all_without_being_in_memory(cluster: Cluster, tmp_path: Path) -> None:
    """Up from a package to the database, and down again: gateway, judicator and judgectl hold pieces of it."""
    package = tmp_path / "large"
    shutil.copytree(HELLO.parent, package)
    with (package / "data/secret/large.in").open("wb") as file:
        file.truncate(LARGE)
    shutil.copy(next((package / "data/secret").glob("*.ans")), package / "data/secret/large.ans")
    floor, peaks = measured(cluster, "whoami"), Peaks(cluster)
    assert measured(cluster, "problem", "import", str(package)) < floor + 64 * 1024**2
    assert measured(cluster, "problem", "export", "large", str(tmp_path / "folder")) < floor + 64 * 1024**2
    assert measured(cluster, "problem", "export", "large", str(tmp_path / "large.zip")) < floor + 64 * 1024**2
    assert (tmp_path / "folder/data/secret/large.in").stat().st_size == LARGE
    assert all(grown < 64 * 1024**2 for grown in peaks.grown().values()), peaks.grown()


def test_a_large_output_passes_through_the_executor_without_being_in_memory(cluster: Cluster) -> None:
    peaks = Peaks(cluster)
    task = ctl_json(cluster, "submit", "--command", "head -c 8000000 /dev/zero")
    assert task["result"]["stdout_blob"], task
    assert set(peaks.grown()) == {"judicator", "gateway", "executor"}
    assert all(grown < 32 * 1024**2 for grown in peaks.grown().values()), peaks.grown()


def test_webhooks(cluster: Cluster) -> None:
    """Added, listed, pinged, removed; what goes nowhere is refused with one sentence, a call that fails is listed."""
    assert ctl(cluster, "webhook", "add", "board", "http://none.invalid/x").startswith("secret: whsec_")
    # A cluster of one machine may call that one.
    assert "no public address" in ctl(cluster, "webhook", "add", "near", "http://10.1.2.3:1/", code=2)
    assert "submission.finished" in ctl(cluster, "webhook", "add", "b", "http://x.example/", "--event", "all", code=2)
    assert "board" in ctl(cluster, "webhook", "list")
    ping = ctl_json(cluster, "webhook", "ping", "board")

    def ping_text() -> str:
        """What is said of the ping; what ended shortly before may be told, too."""
        deliveries = ctl_json(cluster, "webhook", "deliveries", "--webhook", "board")["deliveries"]
        (text,) = [delivery["text"] for delivery in deliveries if delivery["id"] == ping["id"]]
        return str(text)

    wait_for(lambda: "stands for no address" in ping_text(), what="the first try")
    assert "1 sent again" in ctl(cluster, "webhook", "resend", ping["id"])
    assert "no delivery" in ctl(cluster, "webhook", "resend", "0" * 24, code=2)
    assert "give the ID" in ctl(cluster, "webhook", "resend", code=2)
    ctl(cluster, "webhook", "remove", "board")
    assert "no webhook 'board'" in ctl(cluster, "webhook", "remove", "board", code=2)
