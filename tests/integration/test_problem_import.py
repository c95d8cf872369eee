"""`judgectl problem import` against a whole embedded cluster: blobs, checks, time limits, and nothing half-imported."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from judge.common.errors import EXIT_LEFT_OUT, EXIT_USAGE
from judge.ctl.problem import verifying
from judge.ctl.problem.importing import Reading, import_package, try_out
from judge.ctl.problem.trial import present
from judge.languages.table import load_table
from judge.model.overview import ExecutorsReply
from judge.problems.timing import Margins
from tests.support import packages
from tests.support.cluster import BIN, Cluster, processes_of, running
from tests.support.cluster import judgectl as ctl
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
    with running(tmp_path_factory.mktemp("import") / "cluster", "--slots", "2") as cluster, cluster.api() as api:

        def languages() -> bool:
            executors = api.call(ExecutorsReply, "GET", "/executors").executors
            return any(executor.info is not None and executor.info.languages for executor in executors)

        wait_for(languages, what="the languages of the executor")
        yield cluster
    assert processes_of(str(cluster.directory)) == {}


def environment(cluster: Cluster) -> dict[str, str]:
    return {**os.environ, "JUDGE_CONTEXT": str(cluster.directory / "client.yml")}


def problems(cluster: Cluster) -> dict[str, Any]:
    return {row["name"]: row for row in json.loads(ctl(cluster, "problem", "list", "-o", "json").stdout)["problems"]}


def open_tasks(cluster: Cluster, problem: str) -> list[str]:
    with cluster.api() as api:
        return [task.id for task in api.search(problem=problem, done=False).tasks]


def test_a_limit_is_inferred_shown_and_kept(cluster: Cluster, tmp_path: Path) -> None:
    times = burning(accepted__quick=0.05, accepted__slow=0.35, time_limit_exceeded__naive=9)
    limits = YAML + "limits: {time_multipliers: {ac_to_time_limit: 3}, time_resolution: 0.5}\n"
    root = package(tmp_path / "inferred", times, yaml=limits)
    output = ctl(cluster, "problem", "import", root, "--output", "json")
    (answer,) = json.loads(output.stdout)
    origin = answer["limit_origin"]
    assert (origin["how"], origin["slowest"]) == ("inferred", "accepted/slow.py")
    assert 0.35 <= origin["slowest_cpu"] < 2
    limit = Margins(3, 1.5, 0.5).limit(origin["slowest_cpu"])
    assert answer["limits"]["cpu"] == limit
    assert origin["too_slow"]["time_limit_exceeded/naive.py"] > 0.35
    assert answer["warnings"] == [] and answer["left_out"] == {}
    listing = ctl(cluster, "problem", "show", "inferred").stdout
    assert f"{limit:g} s CPU" in listing
    assert "inferred: 3 times the" in listing and "accepted/slow.py, rounded up to a multiple of 0.5 s" in listing
    assert "time_limit_exceeded/naive.py" in listing
    verified = json.loads(ctl(cluster, "problem", "verify", "inferred", "-o", "json").stdout)
    rows = {row["submission"]: row for row in verified}
    assert all(row["right"] and row["limit"] == limit for row in rows.values())
    assert rows["time_limit_exceeded/naive.py"]["excess"] >= 1.5


def test_the_table_says_how_the_limit_came_about(cluster: Cluster, tmp_path: Path) -> None:
    legacy = "name: Burn\nlimits: {time_multiplier: 2, time_safety_margin: 3}\n"
    root = package(tmp_path / "quick", burning(accepted__a=0.02, time_limit_exceeded__b=1.2), yaml=legacy)
    output = ctl(cluster, "problem", "import", root)
    assert "quick: time limit 1 s, inferred: 2 times the 0." in output.stderr
    assert "uploaded" in output.stderr and ("MiB" in output.stderr or "KiB" in output.stderr)
    row = r"! time_limit_exceeded/b\.py: takes [12]\..*only [12]\..*the package wants more than 3 times it"
    assert re.search(row, output.stderr, re.DOTALL), output.stderr
    verified = ctl(cluster, "problem", "verify", root)
    assert "the package wants more than 3 times it (time_safety_margin)" in verified.stdout
    assert problems(cluster)["quick"]["limits"]["cpu"] == 1


def test_a_limit_by_hand_and_inferred_again(cluster: Cluster, tmp_path: Path) -> None:
    root = package(tmp_path / "hand", burning(accepted__a=0.02))
    ctl(cluster, "problem", "import", root, "--time-limit", "2.5")
    assert problems(cluster)["hand"]["limits"]["cpu"] == 2.5
    assert "set by hand" in ctl(cluster, "problem", "show", "hand").stdout
    output = ctl(cluster, "problem", "verify", "hand", "--infer").stdout
    assert "time limit 1 s, inferred" in output
    assert problems(cluster)["hand"]["limits"]["cpu"] == 1
    for wrong in ("0", "-1", "601"):
        assert "--time-limit: " in ctl(cluster, "problem", "import", root, "--time-limit", wrong, code=2).stderr


def test_nothing_to_infer_from(cluster: Cluster, tmp_path: Path) -> None:
    root = package(tmp_path / "nothing", burning(wrong_answer__a=0.02))
    text = ctl(cluster, "problem", "import", root, code=EXIT_USAGE).stderr
    assert "nothing: has no time limit, and no accepted submission to infer one from; give it with --time-limit" in text
    liar = package(tmp_path / "liar", {"submissions/accepted/a.py": "print(8)"})
    text = ctl(cluster, "problem", "import", liar, code=EXIT_USAGE).stderr
    assert "none can be inferred (accepted/a.py: test secret/1 is WA, which is not permitted)" in text
    assert not {"nothing", "liar"} & problems(cluster).keys()


TASK = {"judge.yaml": "kind: communication\nprocesses: 1\n", "data/secret/1.ans": ""}
LEGACY = "problem_format_version: legacy\nname: Burn\ntype: scoring\ngrading: {custom: true}\n"


@pytest.mark.parametrize(
    ("kind", "path", "extra", "yaml"),
    [
        ("the output validator", "output_validator/check.c", {}, YAML),
        ("the output validator 'check'", "output_validator/check.c", {}, YAML + "type: interactive\n"),
        ("the manager", "manager/manager.c", TASK, YAML),
        ("the grader", "graders/own.c", {"data/testdata.yaml": "grading: custom\n", ".timelimit": "1"}, LEGACY),
    ],
)
def test_a_program_that_judges_and_does_not_compile(
    cluster: Cluster, tmp_path: Path, kind: str, path: str, extra: dict[str, str], yaml: str
) -> None:
    name = path.partition("/")[0].replace("_", "-") + ("-talks" if "interactive" in yaml else "")
    limits = "" if yaml is LEGACY else "limits: {time_limit: 1}\n"
    root = package(tmp_path / name, {path: "int main(void) { return 42 }\n"}, extra, yaml=yaml + limits)
    output = ctl(cluster, "problem", "import", root, code=EXIT_USAGE).stderr
    assert f"{name}: is not imported: {kind} does not compile" in output
    assert name not in problems(cluster)
    ctl(cluster, "problem", "import", root, "--no-check")
    assert name in problems(cluster)
    (root / path).write_text("int main(void) { return 42; }\n")
    process = ctl(cluster, "problem", "import", root)
    assert (
        path.startswith("output")
        or "the package's programs that judge submissions compile" in process.stdout + process.stderr
    )


def test_a_submission_that_does_not_count(cluster: Cluster, tmp_path: Path) -> None:
    times = burning(accepted__a=0.02, accepted__b=1.2)
    extra = {
        "submissions/accepted/broken.py": "raise SystemExit(1)",
        "submissions/submissions.yaml": "accepted/b.py: {use_for_time_limit: false}\n",
    }
    output = ctl(cluster, "problem", "import", package(tmp_path / "counted", times, extra), "-o", "json")
    (answer,) = json.loads(output.stdout)
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
    times_ = {f"accepted__a{number}": 40.0 for number in range(4)}
    # SIGINT may be ignored by whatever started the tests.
    command = ["env", "--default-signal=INT", str(BIN / "judgectl"), "problem", "import"]
    command.append(str(package(tmp_path / name, burning(**times_))))
    with subprocess.Popen(command, env=environment(cluster), stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: len(open_tasks(cluster, name)) == 4)
        with cluster.api() as api:
            handed_in = [api.get(task).submission for task in open_tasks(cluster, name)]
        process.send_signal(sig)
        output = process.communicate(timeout=30)[1]
    assert process.returncode != 0
    assert "Traceback" not in output
    assert open_tasks(cluster, name) == []
    assert name not in problems(cluster)
    assert {(submission.priority, submission.mode) for submission in handed_in} == {("low", "full")}


def absent_language(cluster: Cluster) -> tuple[str, str]:
    with cluster.api() as api:
        available = present(api).languages
    missing = [(name, row.suffixes[0]) for name, row in load_table().items() if name not in available and row.suffixes]
    if not missing:
        pytest.skip("this machine has every language of the table")
    return missing[0]


def test_a_language_that_nobody_has_is_left_out_and_named(cluster: Cluster, tmp_path: Path) -> None:
    language, suffix = absent_language(cluster)
    root = package(tmp_path / "absent", burning(accepted__a=0.02), {f"submissions/accepted/b{suffix}": "x"})
    output = ctl(cluster, "problem", "import", root, code=EXIT_LEFT_OUT)
    assert f"left out accepted/b{suffix}: no executor has {language}" in output.stderr
    assert "absent" in problems(cluster)
    began = time.monotonic()
    verified = ctl(cluster, "problem", "verify", "absent", code=4)
    assert f"left out accepted/b{suffix}: no executor has {language}" in verified.stdout
    assert "1 submission, all as expected; 1 left out" in verified.stdout
    rows = json.loads(ctl(cluster, "problem", "verify", "absent", "-o", "json", code=4).stdout)
    assert [row["left_out"] for row in rows if row["right"] is None] == [f"no executor has {language}"]
    assert time.monotonic() - began < 60
    only = package(tmp_path / "only", {f"submissions/accepted/b{suffix}": "x"})
    output = ctl(cluster, "problem", "import", only, code=EXIT_USAGE)
    assert f"none can be inferred (accepted/b{suffix}: no executor has {language})" in output.stderr


def test_a_problem_that_needs_more_memory_than_any_slot_has_is_warned_of(cluster: Cluster, tmp_path: Path) -> None:
    root = package(tmp_path / "large", burning(accepted__a=0.02), yaml=YAML + "limits: {memory: 60000}\n")
    warning = "the problem needs a slot with 58.6 GiB of memory, and the largest slot of an executor has"
    imported = ctl(cluster, "problem", "import", root, "--time-limit", "1")
    assert warning in " ".join(imported.stdout.split()) + " ".join(imported.stderr.split())
    (verified,) = json.loads(ctl(cluster, "problem", "verify", "large", "-o", "json", code=1).stdout)
    assert verified["verdict"] == "JE"
    text = ctl(cluster, "problem", "verify", "large", code=1)
    assert warning in " ".join(text.stdout.split())
    with cluster.api() as api:
        (executor,) = api.working()
    assert executor.info is not None
    assert executor.info.slot_memory is not None
    assert 0 < executor.info.slot_memory < 60000 * 1024**2


def test_when_no_executor_takes_work_any_more(cluster: Cluster, tmp_path: Path) -> None:
    with cluster.api() as api:
        (executor,) = (executor["name"] for executor in api.request("GET", "/executors").json()["executors"])
    # Two slots: the third waits as long as the first two run, which is long enough for a drain.
    root = package(tmp_path / "drained", burning(accepted__a=8, accepted__b=8, accepted__c=8))
    ctl(cluster, "problem", "import", root, "--time-limit", "60")
    command = [str(BIN / "judgectl"), "problem", "verify", "drained"]
    with subprocess.Popen(command, env=environment(cluster), stdout=subprocess.PIPE, text=True) as process:
        try:
            wait_for(lambda: len(open_tasks(cluster, "drained")) == 3)
            ctl(cluster, "drain", executor)
            output = process.communicate(timeout=120)[0]
            assert process.returncode == 4
            assert "left out accepted/c.py: no executor takes work" in output
            verified = ctl(cluster, "problem", "verify", "drained", code=4).stdout
            assert "0 submissions, all as expected; 3 left out" in verified
        finally:
            process.kill()
            ctl(cluster, "resume", executor)
    assert open_tasks(cluster, "drained") == []


@contextlib.contextmanager
def killed_whenever_it_starts(cluster: Cluster) -> Iterator[None]:
    """The cluster's one executor, which is started again and again, does not live for long enough to take work."""
    over = threading.Event()

    def kill() -> None:
        while not over.wait(0.2):
            for pid, command in processes_of(str(cluster.directory)).items():
                if "judge.cli executor " in command or "judge.executor.slot" in command:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_when_the_executor_is_killed_and_stays_away(cluster: Cluster, tmp_path: Path) -> None:
    root = package(tmp_path / "killed", burning(accepted__a=40, accepted__b=40))
    ctl(cluster, "problem", "import", root, "--time-limit", "90")
    command = [str(BIN / "judgectl"), "problem", "verify", "killed"]
    with subprocess.Popen(command, env=environment(cluster), stdout=subprocess.PIPE, text=True) as process:
        try:
            wait_for(lambda: len(open_tasks(cluster, "killed")) == 2)
            with killed_whenever_it_starts(cluster):
                output = process.communicate(timeout=120)[0]
        finally:
            process.kill()
    with cluster.api() as api:
        wait_for(lambda: present(api).any)
    assert process.returncode == EXIT_LEFT_OUT, output
    assert "left out accepted/a.py: no executor takes work" in output
    assert "0 submissions, all as expected; 2 left out" in output
    assert open_tasks(cluster, "killed") == []


def test_the_same_content_is_uploaded_once(cluster: Cluster, tmp_path: Path) -> None:
    data = {f"data/secret/{number:03}.{end}": f"{number}\n" for number in range(300) for end in ("in", "ans")}
    root = package(tmp_path / "twice", data, burning(accepted__a=0.02), yaml=YAML + "limits: {time_limit: 2}\n")
    (root / "data/secret/large.in").write_bytes(os.urandom(9_000_000))
    (root / "data/secret/large.ans").write_text("x")
    with Reading().read(root) as package_, cluster.api() as api:
        first = try_out(api, package_).uploaded
        assert first.bytes > 9_000_000 and first.blobs > 300
        second = try_out(api, package_).uploaded
        assert (second.blobs, second.present_count) == (0, first.blobs + first.present_count)
        info = import_package(api, package_)
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
    process = subprocess.run(command, capture_output=True, text=True, env=environment(cluster), check=False)
    assert process.returncode == 0, process.stderr
    assert int(process.stderr.split()[-1]) < 200 * 1024


def test_a_check_that_runs_the_validators(cluster: Cluster, tmp_path: Path) -> None:
    validator = {"input_validators/seven.py": "import sys\nsys.exit(42 if input() == '7' else 43)\n"}
    root = package(tmp_path / "fussy", validator, {"submissions/accepted/a.py": "print(input())"})
    assert "1 input checked" in ctl(cluster, "problem", "check", "--run", root).stdout
    (root / "data/secret/2.in").write_text("8\n", encoding="utf-8")
    (root / "data/secret/2.ans").write_text("8\n", encoding="utf-8")
    output = ctl(cluster, "problem", "check", "--run", root, code=1).stdout
    assert "error: fussy: test secret/2: its input is refused" in output
    assert "fussy" not in problems(cluster)


@pytest.mark.parametrize(
    ("folder", "source", "sentence"),
    [
        ("input_validators", "import sys\nsys.exit(43)\n", "test secret/1: its input is refused by"),
        (
            "answer_validators",
            "import sys\nprint('no seven')\nsys.exit(43)\n",
            "test secret/1: its answer is refused by the package's own validator 'no': no seven",
        ),
    ],
)
def test_a_package_whose_own_validators_refuse_it(
    cluster: Cluster, tmp_path: Path, folder: str, source: str, sentence: str
) -> None:
    name = folder.replace("_", "-")
    limits = YAML + "limits: {time_limit: 1}\n"
    root = package(tmp_path / name, {f"{folder}/no.py": source}, burning(accepted__a=0.02), yaml=limits)
    refused = ctl(cluster, "problem", "import", root, code=EXIT_USAGE).stderr
    assert f"{name}: is not imported: its own validators refuse 1 of its tests; --no-check does not ask them" in refused
    assert refused.count(sentence) == 1
    assert name not in problems(cluster)


def test_a_check_in_a_language_that_nobody_has(cluster: Cluster, tmp_path: Path) -> None:
    language, suffix = absent_language(cluster)
    limits = YAML + "limits: {time_limit: 1}\n"
    root = package(tmp_path / "unasked", {f"input_validators/v{suffix}": "x"}, burning(accepted__a=0.02), yaml=limits)
    output = ctl(cluster, "problem", "check", "--run", root, code=EXIT_LEFT_OUT).stdout
    assert f"warning: unasked: check of inputs: not done: no executor has {language}" in output
    assert "unasked" not in problems(cluster)
    output = ctl(cluster, "problem", "import", root, code=EXIT_LEFT_OUT).stderr
    assert f"left out check of inputs: no executor has {language}" in output
    assert "unasked" in problems(cluster)


def test_a_submission_too_slow_whose_language_goes_away_is_left_out(cluster: Cluster, tmp_path: Path) -> None:
    root = package(tmp_path / "beyond", burning(accepted__a=0.02, time_limit_exceeded__b=9))
    options = verifying.VerifyOptions(time_limit=1.0, quiet=True)
    expected = ([], {"time_limit_exceeded/b.py": "no executor has python3"})
    with cluster.api() as api, pytest.MonkeyPatch.context() as patch:
        patch.setattr("judge.ctl.problem.inferring.over_limit", lambda *_, **__: expected)
        verified = verifying.verify(api, str(root), options)
    assert verified.left_out == {"time_limit_exceeded/b.py": "beyond the limit: no executor has python3"}
    assert (verified.right, verified.exit_code) == (True, EXIT_LEFT_OUT)


# Each is refused, or judged otherwise, as the other judge reads it; nothing in it says so.
HALF = {"data/secret/2.in": "8\n", "submissions/accepted/a.py": "print(input())"}
UNSCORED = {
    "submissions.json": "{}",
    "data/secret/g/1.in": "7\n",
    "data/secret/g/1.ans": "7\n",
    "submissions/accepted/a.py": "print(input())",
}


@pytest.mark.parametrize(
    ("dialect", "files", "extra", "reason"),
    [
        ("domjudge", HALF, "", "2.in: has no answer"),
        ("kattis", UNSCORED, "type: scoring\n", "none of its tests counts as DOMjudge reads the groups"),
    ],
)
def test_a_dialect_that_was_said_stays_with_the_problem(
    cluster: Cluster, tmp_path: Path, dialect: str, files: dict[str, str], extra: str, reason: str
) -> None:
    yaml = f"problem_format_version: legacy\nname: A\nlimits: {{time_limit: 1}}\n{extra}"
    root = package(tmp_path / f"said-{dialect}", files, yaml=yaml)
    if dialect == "kattis":
        (root / "data/secret/1.in").unlink()
        (root / "data/secret/1.ans").unlink()
    assert reason in ctl(cluster, "problem", "import", root, code=EXIT_USAGE).stderr
    ctl(cluster, "problem", "import", root, "--dialect", dialect)
    assert f"legacy, read as {dialect} reads it" in ctl(cluster, "problem", "show", root.name).stdout
    output = ctl(cluster, "problem", "verify", root.name).stdout
    assert f"{root.name}: 1 submission, all as expected" in output
    for option, value in (("--dialect", dialect), ("--from", "package"), ("--memory", "64"), ("--as", "other")):
        output = ctl(cluster, "problem", "verify", root.name, option, value, code=EXIT_USAGE).stderr
        assert f"{option}: is for packages that are imported; leave it out for a problem of the cluster" in output


VALIDATORS = {
    "input_validators/digits.py": "import sys\nsys.exit(42 if input().isdigit() else 43)\n",
    "answer_validators/digits.py": "import sys\nsys.exit(42 if input().isdigit() else 43)\n",
    "output_validator/same.py": "import sys\nsys.exit(42 if int(input()) == int(open(sys.argv[2]).read()) else 43)\n",
}
CASES = {
    "data/invalid_input/word.in": "seven\n",
    "data/invalid_answer/word.in": "7\n",
    "data/invalid_answer/word.ans": "x\n",
    **{f"data/{kind}/one.{suffix}": "7\n" for kind in ("invalid_output", "valid_output") for suffix in ("in", "ans")},
    "data/invalid_output/one.out": "8\n",
    "data/valid_output/one.out": "07\n",
}


def test_cases_for_the_validators_themselves(cluster: Cluster, tmp_path: Path) -> None:
    limits = YAML + "limits: {time_limit: 1}\n"
    root = package(tmp_path / "cases", VALIDATORS, CASES, burning(accepted__a=0.02), yaml=limits)
    output = ctl(cluster, "problem", "check", "--run", root).stdout
    for folder in ("invalid_input", "invalid_answer", "invalid_output", "valid_output"):
        assert f"note: cases: 1 case of data/{folder} tried" in output
    for path, text in (
        ("invalid_input/two.in", "2\n"),
        ("invalid_answer/word.ans", "7\n"),
        ("invalid_output/one.out", "7\n"),
        ("valid_output/one.out", "8\n"),
    ):
        (root / "data" / path).write_text(text)
    output = ctl(cluster, "problem", "check", "--run", root, code=1).stdout
    accepted = "is accepted; a case of this folder must be refused by a validator"
    assert f"error: cases: data/invalid_input/two.in: {accepted}" in output
    assert "data/invalid_input/word.in" not in output
    assert f"error: cases: data/invalid_answer/word.ans: {accepted}" in output
    assert f"error: cases: data/invalid_output/one.out: {accepted}" in output
    assert "error: cases: data/valid_output/one.out: is not accepted, as a case of this folder must be" in output
    assert output.count("error: ") == 4


def test_cases_that_cannot_be_tried_are_named(cluster: Cluster, tmp_path: Path) -> None:
    talks = {"output_validator/same.py": "import sys\nsys.exit(42)\n"}
    yaml = YAML + "type: interactive\nlimits: {time_limit: 1}\n"
    root = package(tmp_path / "untried", CASES, talks, burning(accepted__a=0.02), yaml=yaml)
    output = ctl(cluster, "problem", "check", "--run", root).stdout
    assert "1 case of data/invalid_input is kept and not run: no validator looks at them" in output
    assert "1 case of data/valid_output is kept and not run: the output validator speaks with programs here" in output
