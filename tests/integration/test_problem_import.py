"""`judgectl problem import` against a whole embedded cluster: blobs, checks, time limits, and nothing half-imported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from judge.ctl.problem.importing import Reading, import_package, try_out
from judge.ctl.problem.trial import present
from judge.errors import EXIT_USAGE
from judge.languages.table import load_table
from judge.problems.timing import Margins
from tests.support import packages
from tests.support.cluster import BIN, Cluster, processes_of, running
from tests.support.servers import wait_for

pytestmark = pytest.mark.root

YAML = "problem_format_version: 2025-09\nname: Burn\nuuid: 0bf1d986-afc4-4475-a696-3bfca6276b12\n"
BURN = """import time
while time.process_time() < {seconds}:
    pass
print(input())
"""


def burning(**seconds: float) -> dict[str, str]:
    """Submissions of these folders and names (`accepted__slow`) that take so many CPU seconds."""
    return {f"submissions/{name.replace('__', '/')}.py": BURN.format(seconds=time) for name, time in seconds.items()}


def package(root: Path, *parts: dict[str, str], yaml: str = YAML) -> Path:
    data = {"problem.yaml": yaml, "data/secret/1.in": "7\n", "data/secret/1.ans": "7\n"}
    for part in parts:
        data |= part
    return packages.write(root, data)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("import") / "cluster", "--slots", "2") as found:
        yield found
    assert processes_of(str(found.directory)) == {}


def environment(cluster: Cluster) -> dict[str, str]:
    return {**os.environ, "JUDGE_CONTEXT": str(cluster.directory / "client.yml")}


def ctl(cluster: Cluster, *arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [str(BIN / "judgectl"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(cluster), check=False)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done


def problems(cluster: Cluster) -> dict[str, Any]:
    return {one["name"]: one for one in json.loads(ctl(cluster, "problem", "list", "-o", "json").stdout)["problems"]}


def open_tasks(cluster: Cluster, problem: str) -> list[str]:
    with cluster.api() as api:
        return [task.id for task in api.search(problem=problem, done=False).tasks]


def test_a_limit_is_inferred_shown_and_kept(cluster: Cluster, tmp_path: Path) -> None:
    times = burning(accepted__quick=0.05, accepted__slow=0.35, time_limit_exceeded__naive=9)
    limits = YAML + "limits: {time_multipliers: {ac_to_time_limit: 3}, time_resolution: 0.5}\n"
    root = package(tmp_path / "inferred", times, yaml=limits)
    said = ctl(cluster, "problem", "import", root, "--output", "json")
    (answer,) = json.loads(said.stdout)
    origin = answer["limit_origin"]
    assert (origin["how"], origin["slowest"]) == ("inferred", "accepted/slow.py")
    assert 0.35 <= origin["slowest_cpu"] < 2
    limit = Margins(3, 1.5, 0.5).limit(origin["slowest_cpu"])
    assert answer["limits"]["cpu"] == limit
    assert origin["too_slow"]["time_limit_exceeded/naive.py"] > 0.35
    assert answer["warnings"] == [] and answer["left_out"] == {}
    shown = ctl(cluster, "problem", "show", "inferred").stdout
    assert f"{limit:g} s CPU" in shown
    assert "inferred: 3 times the" in shown and "accepted/slow.py, rounded up to a multiple of 0.5 s" in shown
    assert "time_limit_exceeded/naive.py" in shown
    verified = json.loads(ctl(cluster, "problem", "verify", "inferred", "-o", "json").stdout)
    rows = {row["submission"]: row for row in verified}
    assert all(row["right"] and row["limit"] == limit for row in rows.values())
    assert rows["time_limit_exceeded/naive.py"]["excess"] >= 1.5


def test_the_table_says_how_the_limit_came_about(cluster: Cluster, tmp_path: Path) -> None:
    legacy = "name: Burn\nlimits: {time_multiplier: 2, time_safety_margin: 3}\n"
    root = package(tmp_path / "quick", burning(accepted__a=0.02, time_limit_exceeded__b=1.2), yaml=legacy)
    said = ctl(cluster, "problem", "import", root)
    assert "quick: time limit 1 s, inferred: 2 times the 0." in said.stderr
    assert ("uploaded" in said.stderr and "MiB" in said.stderr) or "KiB" in said.stderr
    assert "! time_limit_exceeded/b.py: takes 1." in said.stderr
    assert "only 1." in said.stderr and "the package wants more than 3 times it" in said.stderr
    verified = ctl(cluster, "problem", "verify", root)
    assert "the package wants more than 3 times it (time_safety_margin)" in verified.stdout
    assert problems(cluster)["quick"]["limits"]["cpu"] == 1


def test_a_limit_by_hand_and_inferred_again(cluster: Cluster, tmp_path: Path) -> None:
    root = package(tmp_path / "hand", burning(accepted__a=0.02))
    ctl(cluster, "problem", "import", root, "--time-limit", "2.5")
    assert problems(cluster)["hand"]["limits"]["cpu"] == 2.5
    assert "set by hand" in ctl(cluster, "problem", "show", "hand").stdout
    said = ctl(cluster, "problem", "verify", "hand", "--infer").stdout
    assert "time limit 1 s, inferred" in said
    assert problems(cluster)["hand"]["limits"]["cpu"] == 1
    for wrong in ("0", "-1", "601"):
        assert "--time-limit: " in ctl(cluster, "problem", "import", root, "--time-limit", wrong, code=2).stderr


def test_nothing_to_infer_from(cluster: Cluster, tmp_path: Path) -> None:
    root = package(tmp_path / "nothing", burning(wrong_answer__a=0.02))
    said = ctl(cluster, "problem", "import", root, code=EXIT_USAGE).stderr
    assert "nothing: has no time limit, and no accepted submission to infer one from; give it with --time-limit" in said
    liar = package(tmp_path / "liar", {"submissions/accepted/a.py": "print(8)"})
    said = ctl(cluster, "problem", "import", liar, code=EXIT_USAGE).stderr
    assert "none can be inferred (accepted/a.py: test secret/1 is WA, which is not permitted)" in said
    assert not {"nothing", "liar"} & problems(cluster).keys()


TASK = {"judge.yaml": "kind: communication\nprocesses: 1\n", "data/secret/1.ans": ""}
LEGACY = "problem_format_version: legacy\nname: Burn\ntype: scoring\ngrading: {custom: true}\n"


@pytest.mark.parametrize(
    ("what", "path", "more", "yaml"),
    [
        ("the output validator", "output_validator/check.c", {}, YAML),
        ("the output validator 'check'", "output_validator/check.c", {}, YAML + "type: interactive\n"),
        ("the manager", "manager/manager.c", TASK, YAML),
        ("the grader", "graders/own.c", {"data/testdata.yaml": "grading: custom\n", ".timelimit": "1"}, LEGACY),
    ],
)
def test_a_program_that_judges_and_does_not_compile(
    cluster: Cluster, tmp_path: Path, what: str, path: str, more: dict[str, str], yaml: str
) -> None:
    name = path.partition("/")[0].replace("_", "-") + ("-talks" if "interactive" in yaml else "")
    limits = "" if yaml is LEGACY else "limits: {time_limit: 1}\n"
    root = package(tmp_path / name, {path: "int main(void) { return 42 }\n"}, more, yaml=yaml + limits)
    said = ctl(cluster, "problem", "import", root, code=EXIT_USAGE).stderr
    assert f"{name}: is not imported: {what} does not compile" in said
    assert name not in problems(cluster)
    ctl(cluster, "problem", "import", root, "--no-check")
    assert name in problems(cluster)
    (root / path).write_text("int main(void) { return 42; }\n")
    done = ctl(cluster, "problem", "import", root)
    assert (
        path.startswith("output")
        or "the package's programs that judge submissions compile" in done.stdout + done.stderr
    )


def test_a_submission_that_does_not_count(cluster: Cluster, tmp_path: Path) -> None:
    times = burning(accepted__a=0.02, accepted__b=1.2)
    extra = {
        "submissions/accepted/broken.py": "raise SystemExit(1)",
        "submissions/submissions.yaml": "accepted/b.py: {use_for_time_limit: false}\n",
    }
    said = ctl(cluster, "problem", "import", package(tmp_path / "counted", times, extra), "-o", "json")
    (answer,) = json.loads(said.stdout)
    assert answer["limits"]["cpu"] == 1
    assert answer["limit_origin"]["slowest"] == "accepted/a.py"
    assert answer["limit_origin"]["left_out"] == ["accepted/broken.py"]
    assert "accepted/broken.py: does not count for the time limit: test secret/1 is RTE" in answer["warnings"][0]


def test_importing_again_replaces_at_once_or_not_at_all(cluster: Cluster, tmp_path: Path) -> None:
    good = package(tmp_path / "one/again", burning(accepted__a=0.02))
    ctl(cluster, "problem", "import", good, "--time-limit", "3")
    before = problems(cluster)["again"]
    bad = package(tmp_path / "two/again", {"submissions/accepted/a.py": "print(8)", "data/secret/2.in": "1\n"})
    (bad / "data/secret/2.ans").write_text("1\n")
    ctl(cluster, "problem", "import", bad, code=EXIT_USAGE)
    assert problems(cluster)["again"] == before
    ctl(cluster, "problem", "verify", bad, code=EXIT_USAGE)
    assert problems(cluster)["again"] == before


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_import_leaves_nothing_behind(cluster: Cluster, tmp_path: Path, sig: signal.Signals) -> None:
    name = f"interrupted{sig}"
    many = {f"accepted__a{number}": 40.0 for number in range(4)}
    # Whatever started the tests may have SIGINT ignored.
    command = ["env", "--default-signal=INT", str(BIN / "judgectl"), "problem", "import"]
    command.append(str(package(tmp_path / name, burning(**many))))
    with subprocess.Popen(command, env=environment(cluster), stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: len(open_tasks(cluster, name)) == 4, 30)
        process.send_signal(sig)
        said = process.communicate(timeout=30)[1]
    assert process.returncode != 0
    assert "Traceback" not in said
    assert open_tasks(cluster, name) == []
    assert name not in problems(cluster)


def absent_language(cluster: Cluster) -> tuple[str, str]:
    """A language of the table that this machine does not have, and its suffix."""
    with cluster.api() as api:
        there = present(api).languages
    found = [(name, row.suffixes[0]) for name, row in load_table().items() if name not in there and row.suffixes]
    if not found:
        pytest.skip("this machine has every language of the table")
    return found[0]


def test_a_language_that_nobody_has_is_left_out_and_named(cluster: Cluster, tmp_path: Path) -> None:
    language, suffix = absent_language(cluster)
    root = package(tmp_path / "absent", burning(accepted__a=0.02), {f"submissions/accepted/b{suffix}": "x"})
    said = ctl(cluster, "problem", "import", root)
    assert f"left out accepted/b{suffix}: no executor has {language}" in said.stderr
    began = time.monotonic()
    verified = ctl(cluster, "problem", "verify", "absent", code=4)
    assert f"left out accepted/b{suffix}: no executor has {language}" in verified.stdout
    assert "1 submissions, all as expected; 1 left out" in verified.stdout
    rows = json.loads(ctl(cluster, "problem", "verify", "absent", "-o", "json", code=4).stdout)
    assert [row["left_out"] for row in rows if row["right"] is None] == [f"no executor has {language}"]
    assert time.monotonic() - began < 60
    only = package(tmp_path / "only", {f"submissions/accepted/b{suffix}": "x"})
    said = ctl(cluster, "problem", "import", only, code=EXIT_USAGE)
    assert f"none can be inferred (accepted/b{suffix}: no executor has {language})" in said.stderr


def test_when_no_executor_takes_work_any_more(cluster: Cluster, tmp_path: Path) -> None:
    with cluster.api() as api:
        (executor,) = (one["name"] for one in api.request("GET", "/executors").json()["executors"])
    # Two slots: the third waits as long as the first two run, which is long enough for a drain.
    root = package(tmp_path / "drained", burning(accepted__a=20, accepted__b=20, accepted__c=20))
    ctl(cluster, "problem", "import", root, "--time-limit", "60")
    command = [str(BIN / "judgectl"), "problem", "verify", "drained"]
    with subprocess.Popen(command, env=environment(cluster), stdout=subprocess.PIPE, text=True) as process:
        try:
            wait_for(lambda: len(open_tasks(cluster, "drained")) == 3, 30)
            ctl(cluster, "drain", executor)
            said = process.communicate(timeout=120)[0]
            assert process.returncode == 4
            assert "left out accepted/c.py: no executor takes work" in said
            verified = ctl(cluster, "problem", "verify", "drained", code=4).stdout
            assert "0 submissions, all as expected; 3 left out" in verified
        finally:
            process.kill()
            ctl(cluster, "resume", executor)
    assert open_tasks(cluster, "drained") == []


def test_the_same_content_is_uploaded_once(cluster: Cluster, tmp_path: Path) -> None:
    data = {f"data/secret/{number:03}.{end}": f"{number}\n" for number in range(300) for end in ("in", "ans")}
    root = package(tmp_path / "twice", data, burning(accepted__a=0.02), yaml=YAML + "limits: {time_limit: 2}\n")
    (root / "data/secret/large.in").write_bytes(os.urandom(9_000_000))
    (root / "data/secret/large.ans").write_text("x")
    with Reading().read(root) as one, cluster.api() as api:
        first = try_out(api, one).uploaded
        assert first.bytes > 9_000_000 and first.blobs > 300
        second = try_out(api, one).uploaded
        assert (second.blobs, second.known) == (0, first.blobs + first.known)
        info = import_package(api, one)
        assert info.tests == 302
    ctl(cluster, "problem", "export", "twice", tmp_path / "out")
    assert (tmp_path / "out/data/secret/large.in").read_bytes() == (root / "data/secret/large.in").read_bytes()


def test_an_import_takes_little_memory(cluster: Cluster, tmp_path: Path) -> None:
    root = package(tmp_path / "large", burning(accepted__a=0.02), yaml=YAML + "limits: {time_limit: 2}\n")
    for number in range(12):
        (root / f"data/secret/b{number}.in").write_bytes(os.urandom(20_000_000))
        (root / f"data/secret/b{number}.ans").write_text("x")
    # Not ru_maxrss: Linux hands the parent's own over an exec.
    script = (
        "import re, sys; sys.argv[0] = 'judgectl'; from judge.ctl.main import main\n"
        "try: main()\n"
        "finally: print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1], file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", script, "problem", "import", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(cluster), check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stderr.split()[-1]) < 200 * 1024


def test_a_file_that_changes_on_the_way_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    root = package(tmp_path / "changes", burning(accepted__a=0.02), {"data/secret/1.in": "never seen\n"})
    with Reading().read(root) as one, cluster.api() as api:
        (root / "data/secret/1.in").write_text("8\n")
        with pytest.raises(Exception, match=r"changed while the package was imported"):
            try_out(api, one)


def test_a_check_that_runs_the_validators(cluster: Cluster, tmp_path: Path) -> None:
    validator = {"input_validators/seven.py": "import sys\nsys.exit(42 if input() == '7' else 43)\n"}
    root = package(tmp_path / "fussy", validator, {"submissions/accepted/a.py": "print(input())"})
    assert "1 inputs checked" in ctl(cluster, "problem", "check", "--run", root).stdout
    (root / "data/secret/2.in").write_text("8\n", encoding="utf-8")
    (root / "data/secret/2.ans").write_text("8\n", encoding="utf-8")
    said = ctl(cluster, "problem", "check", "--run", root, code=1).stdout
    assert "error: fussy: test secret/2: its input is refused" in said
    assert "fussy" not in problems(cluster)
