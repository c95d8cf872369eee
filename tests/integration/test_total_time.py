"""All runs of a submission together may take only so long: where it is used up judging ends, with one sentence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge.common import clock
from judge.config.allowance import Allowance
from judge.executor.channel import Job
from judge.executor.slot.pipeline import Pipeline
from judge.model.messages import Completed, LimitsOverride, Test, Verdict
from tests.support import packages
from tests.support.sandbox import FULL_SANDBOX

pytestmark = [*FULL_SANDBOX, pytest.mark.timeout(600)]

# Nothing here takes a tenth of that by itself, and a run that is not ended takes ten times that.
TOTAL, LONG = 4.0, 40.0
PATIENT = LimitsOverride(wall=100)
WAITS = f"time.sleep({LONG})"
BURNS = f"while time.process_time() < {LONG}: pass"


def sentence(name: str) -> str:
    return f"total time exceeded: all runs of this submission together may take 4 s ({name}); later tests are not run"


OWN, PROBLEM = sentence("own_seconds"), sentence("problem_seconds")


@pytest.fixture
def judge(pipeline: Pipeline) -> Callable[[Job], Completed]:
    def judged(job: Job) -> Completed:
        begin = clock.monotonic()
        job.assignment.allowance = Allowance(own_seconds=TOTAL, problem_seconds=TOTAL)
        completed = pipeline.execute(job).completed
        assert completed is not None
        assert not completed.retry, completed.result.reason
        assert clock.monotonic() - begin < LONG, "nothing goes on for much longer than it may"
        return completed

    return judged


def own(**fields: Any) -> Job:
    return packages.own(**{"limits": PATIENT, **fields})


def test_a_single_run(judge):
    completed = judge(own(command=f"echo begun; sleep {LONG}"))
    (test,) = completed.result.tests
    assert (completed.verdict, test.reason, completed.result.reason) == (Verdict.TLE, OWN, f"test run: {OWN}")
    assert 1.0 < test.wall < LONG
    assert completed.result.stdout == "begun\n"


@pytest.mark.parametrize("mode", ["lazy", "full"])
def test_no_later_test_is_run(judge, mode):
    tests = [Test(name=str(number), input=text) for number, text in enumerate(["0.1", str(LONG), "0", "0"])]
    completed = judge(own(command="sleep $(cat)", tests=tests, mode=mode))
    assert completed.verdict is Verdict.TLE
    assert [test.verdict for test in completed.result.tests] == [Verdict.AC, Verdict.TLE]
    assert (completed.result.failed_test, completed.result.reason) == ("1", f"test 1: {OWN}")


def test_many_runs_of_no_great_length(judge):
    tests = [Test(name=f"{number:03d}") for number in range(100)]
    completed = judge(own(command="sleep 0.7", tests=tests, mode="full"))
    verdicts = [test.verdict for test in completed.result.tests]
    assert verdicts == [Verdict.AC] * (len(verdicts) - 1) + [Verdict.TLE]
    assert 2 <= len(verdicts) <= 6


def test_a_test_that_failed_before_decides(judge):
    tests = [Test(name="0", input="0", answer="other"), Test(name="1", input=str(LONG)), Test(name="2", input="0")]
    completed = judge(own(command="sleep $(cat)", tests=tests, mode="full"))
    assert [test.verdict for test in completed.result.tests] == [Verdict.WA, Verdict.TLE]
    assert (completed.verdict, completed.result.failed_test) == (Verdict.WA, "0")
    assert completed.result.reason.startswith("test 0: ")
    assert completed.result.reason.endswith(f"; {OWN}")


def test_a_compiler_that_uses_it_up(judge):
    completed = judge(own(command="true", compile=f"sleep {LONG}"))
    assert (completed.verdict, completed.result.reason) == (Verdict.CE, f"compilation failed: {OWN}")
    assert completed.result.tests == []


def package(work: Path, validator: str, extra: str, groups: dict[str, str] | None = None, count: int = 3) -> Any:
    passes = ", validation_passes: 200" if "multi-pass" in extra else ""
    yaml = f"problem_format_version: 2025-09\nname: X\nlimits: {{time_limit: 20, memory: 128{passes}}}\n"
    files = {"problem.yaml": yaml + extra, "output_validator/check.py": validator, **(groups or {})}
    for number in range(count):
        files |= {f"data/secret/{number}.in": "", f"data/secret/{number}.ans": ""}
    return packages.load(packages.write(work / "package", files), work / "blobs")


@pytest.mark.parametrize(
    ("validator", "kind", "source"),
    [
        ("import sys\nopen(sys.argv[3] + 'nextpass.in', 'w').close()\nsys.exit(42)\n", "multi-pass", "time.sleep(0.4)"),
        ("import sys\nsys.stdin.read()\nsys.exit(42)\n", "interactive", f"time.sleep({LONG})"),
        (f"import sys, time\n{WAITS}\nsys.exit(42)\n", "interactive", "pass"),
        (f"import sys, time\n{WAITS}\nsys.exit(42)\n", "interactive", "sys.stdin.read()"),
        (f"import sys, time\n{BURNS}\nsys.exit(42)\n", "interactive", "pass"),
        (f"import sys, time\n{BURNS}\nsys.exit(42)\n", "interactive", "sys.stdin.read()"),
    ],
)
def test_passes_and_interactions_are_ended(judge, work, validator, kind, source):
    """A validator's CPU time extends the submission's wall limit, and it may go on after the submission's end."""
    data = package(work, validator, f"type: {kind}\n")
    completed = judge(packages.job(data, "python3", f"import sys, time\n{source}\n", "full"))
    (test,) = completed.result.tests
    assert (completed.verdict, test.reason) == (Verdict.TLE, PROBLEM), "and not the judge's error"


def test_a_validators_time_counts(judge, work):
    data = package(work, "import sys, time\ntime.sleep(2.5)\nsys.exit(42)\n", "")
    completed = judge(packages.job(data, "python3", "", "full"))
    assert [test.verdict for test in completed.result.tests] == [Verdict.AC, Verdict.TLE]
    assert completed.result.tests[1].reason == PROBLEM


@pytest.mark.parametrize("delay", [WAITS, BURNS], ids=["waits", "burns"])
@pytest.mark.parametrize("passes", [1, 2])
def test_a_validator_that_an_output_makes_slow_is_ended(judge, work, delay, passes):
    """Whoever hands in chooses what the validator has to read, and so how long that takes."""
    again = "open(sys.argv[3] + 'nextpass.in', 'w').write('slow')\n" if passes == 2 else ""
    validator = f"import sys, time\nif sys.stdin.read() == 'slow':\n    {delay}\n{again}sys.exit(42)\n"
    data = package(work, validator, "type: multi-pass\n" if passes == 2 else "")
    print_it = "print('slow' if input() else '', end='')" if passes == 2 else "print('slow', end='')"
    source = f"try:\n    {print_it}\nexcept EOFError:\n    pass\n"
    completed = judge(packages.job(data, "python3", source, "full"))
    (test,) = completed.result.tests
    assert (completed.verdict, test.verdict, test.reason) == (Verdict.TLE, Verdict.TLE, PROBLEM), (
        "and not the judge's error"
    )


def test_points_of_groups_that_were_judged_before_stay(judge, work):
    groups = {}
    for name, points in (("a", 30), ("b", 70)):
        groups[f"data/secret/{name}/test_group.yaml"] = f"max_score: {points}\nscore_aggregation: pass-fail\n"
        for number in range(2):
            groups[f"data/secret/{name}/{number}.in"] = "0" if name == "a" else str(LONG)
            groups[f"data/secret/{name}/{number}.ans"] = ""
    data = package(work, "import sys\nsys.exit(42)\n", "type: scoring\n", groups, count=0)
    completed = judge(packages.job(data, "python3", "import time\ntime.sleep(float(input()))\n", "full"))
    result = completed.result
    assert [test.verdict for test in result.tests] == [Verdict.AC, Verdict.AC, Verdict.TLE]
    assert (completed.verdict, result.failed_test, result.score) == (Verdict.TLE, "secret/b/0", 30.0)
    assert {group.name: group.score for group in result.groups}["secret/b"] == 0.0
