"""Tests of one submission run side by side in real slots: the same account as in one slot alone, whatever happens."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from judge.common import clock
from judge.config.allowance import Allowance
from judge.executor.channel import Finished, Helped, Job, Progress
from judge.executor.slot.run_lock import BURST
from judge.executor.slot_state import SlotState
from judge.executor.slots import Slot
from judge.model.messages import LimitsOverride, Result, Test, Verdict
from tests.support import packages
from tests.support.executors import HEAR, TwoSlots
from tests.support.sandbox import FULL_SANDBOX
from tests.support.servers import wait_for

pytestmark = [*FULL_SANDBOX, pytest.mark.timeout(600)]

# Answers what it reads; sleeps as long as the second word says, so that the order of ends is not that of names.
ECHO = (
    "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
    'int main(void){int a,ms;if(scanf("%d%d",&a,&ms)!=2)return 1;'
    'usleep(ms*1000);printf("%d\\n",a);fprintf(stderr,"said");return a==77?3:0;}'
)
PATIENT = LimitsOverride(cpu=20, wall=100)


@pytest.fixture
def executor(work: Path) -> Iterator[TwoSlots]:
    executor = TwoSlots(work)
    yield executor
    executor.slots.close()
    executor.sharing.close()
    assert [path.name for path in (work / "sharing").iterdir()] == ["idle"], "no queue is left"


def echo(tests: list[tuple[int, int, int]], mode: str = "lazy", **fields: Any) -> Job:
    """Tests as (what it prints, what is right, milliseconds)."""
    cases = [
        Test(name=f"{index:02d}", input=f"{says} {ms}\n", answer=f"{right}\n")
        for index, (says, right, ms) in enumerate(tests)
    ]
    return packages.own(language="c", source=ECHO, tests=cases, limits=PATIENT, mode=mode, **fields)


def account(result: Result) -> dict[str, Any]:
    """A result without what a clock or the place says."""
    fields = result.model_dump()
    for part in (fields, fields["compile"] or {}, *fields["tests"]):
        for name in ("cpu", "wall", "memory", "sandbox", "repeated"):
            part.pop(name, None)
    return fields


def same_by_both(executor: TwoSlots, job: Job) -> Result:
    """Judged by two slots and by one: the same account; returns it."""
    finished, helped = executor.shared(job)
    alone = executor.alone(job)
    assert finished.completed is not None
    assert alone.completed is not None
    assert finished.completed.verdict is alone.completed.verdict
    assert account(finished.completed.result) == account(alone.completed.result)
    assert helped.tests > 0, "the helper ran nothing"
    return finished.completed.result


def test_all_tests_pass(executor):
    result = same_by_both(executor, echo([(n, n, 150) for n in range(12)]))
    assert [test.name for test in result.tests] == [f"{n:02d}" for n in range(12)]
    assert {test.verdict for test in result.tests} == {Verdict.AC}


@pytest.mark.parametrize("mode", ["lazy", "full"])
def test_the_first_failing_test_in_name_order_decides(executor, mode):
    # A later one fails first: test 5 at once, test 4 (RTE) after it has slept.
    tests = [(n, n, 100) for n in range(4)] + [(77, 77, 1500), (1, 2, 0)] + [(n, n, 50) for n in range(8)]
    result = same_by_both(executor, echo(tests, mode))
    assert (result.failed_test, result.tests[4].verdict) == ("04", Verdict.RTE)
    assert len(result.tests) == (5 if mode == "lazy" else 14)


def test_a_later_run_of_the_coordinator_is_cancelled(executor):
    """The helper sleeps in test 1 and then fails it, while the coordinator sleeps for ever in test 2."""
    job = echo([(0, 0, 400), (1, 2, 4000), (2, 2, 90_000), (3, 3, 90_000)])
    begin = clock.monotonic()
    finished, helped = executor.shared(job)
    result = finished.completed.result
    assert (result.failed_test, finished.completed.verdict, len(result.tests)) == ("01", Verdict.WA, 2)
    assert helped.tests >= 1
    assert clock.monotonic() - begin < 80, "it did not wait for the sleeper"


def test_validators_scores_and_interaction(executor, work):
    validator = (
        "import sys\ngiven = open(sys.argv[1]).read().split()[0]\nprint(given, flush=True)\n"
        "open(sys.argv[3] + 'judgemessage.txt', 'w').write('asked ' + given)\n"
        "sys.exit(42 if sys.stdin.readline().strip() == given else 43)\n"
    )
    yaml = "problem_format_version: 2025-09\nname: X\ntype: interactive\nlimits: {time_limit: 20, memory: 128}\n"
    files = {"problem.yaml": yaml, "output_validator/check.py": validator}
    for number in range(8):
        files |= {f"data/secret/{number}.in": f"{number}\n", f"data/secret/{number}.ans": f"{number}\n"}
    data = packages.load(packages.write(work / "package", files), work / "blobs")
    # The validator ends a wrong one, which does not end by itself just before: both accounts say so.
    source = "import time\nline = input()\ntime.sleep(0.2)\nprint(line if line != '6' else 'no', flush=True)\n"
    source += "time.sleep(60 * (line == '6'))\n"
    result = same_by_both(executor, packages.job(data, "python3", source, "full"))
    assert [test.verdict for test in result.tests] == [*[Verdict.AC] * 6, Verdict.WA, Verdict.AC]
    assert [test.message for test in result.tests] == [f"asked {n}" for n in range(8)]


def test_a_killed_helper_loses_nothing(executor):
    job = echo([(n, n, 300) for n in range(10)])
    executor.helper.give(executor.lead(job), clock.monotonic())
    executor.next_event(Progress, share=False)
    wait_for(lambda: executor.read() or any(slot == 1 for slot, _ in executor.events), timeout=HEAR, what="some help")
    os.kill(executor.helper.process.pid, signal.SIGKILL)
    finished = executor.next_event(Finished)
    assert finished.completed.verdict is Verdict.AC
    assert [test.name for test in finished.completed.result.tests] == [f"{n:02d}" for n in range(10)]
    wait_for(lambda: executor.read() or executor.helper.state is SlotState.DOWN, what="the end of the helper")
    executor.start()


def test_a_helper_that_is_called_back_comes_at_once(executor):
    """Its test would take longer than anybody waits; the coordinator runs it again, and so does not end here."""
    job = echo([(0, 0, 300), (1, 1, 95_000), (2, 2, 95_000)])
    executor.helper.give(executor.lead(job), clock.monotonic())
    wait_for(lambda: _sleeping(executor.helper), timeout=HEAR, what="a test in the helper")
    executor.helper.recall(clock.monotonic())
    assert executor.next_event(Helped).recalled
    assert executor.helper.state is SlotState.IDLE
    executor.helper.give(packages.own(claim="c2", command="true"), clock.monotonic())
    assert executor.next_event(Finished).claim == "c2"
    executor.coordinator.cancel("c1", clock.monotonic())
    assert executor.next_event(Finished).completed is None


def _sleeping(slot: Slot) -> bool:
    """Whether a slot runs a program of the submission: some process below it is that program."""
    todo = [slot.process.pid] if slot.process is not None else []
    while todo:
        pid = todo.pop()
        with contextlib.suppress(OSError):
            if b"/box/" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return True
            todo += [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return False


BURN = (
    "#include <time.h>\nint main(void){struct timespec t;do clock_gettime(CLOCK_PROCESS_CPUTIME_ID,&t);"
    "while(t.tv_sec+t.tv_nsec/1e9<0.52);return 0;}"
)


@pytest.mark.parametrize("name", ["packed.tar", "box.tar", "source", "-"])
def test_no_name_in_box_is_anybody_elses(executor, name):
    """Whatever a compiler leaves there, every slot finds it."""
    tests = [Test(name=str(number), answer="hi\n") for number in range(6)]
    job = packages.own(
        command=f"sleep 0.1; cat /box/{name}", compile=f"echo hi > ./{name}", source="x", tests=tests, limits=PATIENT
    )
    result = same_by_both(executor, job)
    assert [test.verdict for test in result.tests] == [Verdict.AC] * 6


def burning(work: Path, count: int, allowance: Allowance) -> Job:
    """A program that is near its limit in every test of a problem, in full mode."""
    files = {"problem.yaml": "problem_format_version: 2025-09\nname: X\nlimits: {time_limit: 0.5, memory: 128}\n"}
    for number in range(count):
        files |= {f"data/secret/{number}.in": "", f"data/secret/{number}.ans": ""}
    data = packages.load(packages.write(work / "package", files), work / "blobs")
    limits = data.manifest.limits.model_copy(update={"wall": 100.0})
    data = data.model_copy(update={"manifest": data.manifest.model_copy(update={"limits": limits})})
    job = packages.job(data, "c", BURN, "full")
    job.assignment.allowance = allowance
    return job


def test_the_slot_that_judges_repeats_the_first_tests_that_are_near(executor, work):
    """Whoever ran a test first, and whatever came in first: the allowance is used in the order of the tests."""
    job = burning(work, 5, Allowance(repeats=3))
    for finished in (executor.shared(job)[0], executor.alone(job)):
        tests = finished.completed.result.tests
        assert [test.verdict for test in tests] == [Verdict.TLE] * 5
        # On a busy machine the kernel may count so much that a run was not near the limit.
        near = [test for test in tests if test.repeated is not None or "not repeated" in test.reason]
        assert {test.name for test in tests if test not in near} == {test.name for test in tests if test.cpu > 0.55}
        assert [test.repeated is not None for test in near] == [index < 3 for index in range(len(near))]
        # So busy that one repetition takes many seconds: then the others need not wait for the next one.
        if sum(test.wall + test.repeated.wall for test in near[:3]) < BURST:
            assert all(test.repeated.exclusive for test in near[:3])


def test_the_total_time_is_what_one_slot_would_have_used(executor):
    tests = [Test(name=str(number), input="same", answer="same") for number in range(9)]
    fields = {"command": "sleep 1; cat", "mode": "full", "limits": {"wall": 60}}
    result = same_by_both(executor, packages.own(tests=tests, allowance=Allowance(own_seconds=4.5), **fields))
    assert [test.verdict for test in result.tests] == [*[Verdict.AC] * 4, Verdict.TLE]
    sentence = (
        "total time exceeded: all runs of this submission together may take 4.5 s (own_seconds); "
        "later tests are not run"
    )
    assert (result.failed_test, result.tests[4].reason, result.reason) == ("4", sentence, f"test 4: {sentence}")


def test_one_long_run_of_a_helper_is_ended_where_the_total_time_is(executor):
    """The helper takes test 1, which would go on for a minute, while test 0 holds the coordinator."""
    tests = [Test(name="0", input="1", answer=""), Test(name="1", input="60", answer=""), Test(name="2", answer="")]
    fields = {"command": "sleep $(cat)", "limits": {"wall": 100}}
    begin = clock.monotonic()
    result = same_by_both(executor, packages.own(tests=tests, allowance=Allowance(own_seconds=3), **fields))
    assert [test.verdict for test in result.tests] == [Verdict.AC, Verdict.TLE]
    assert clock.monotonic() - begin < 40


def test_nobody_idle_means_nothing_shared(executor, work):
    finished = executor.alone(echo([(n, n, 50) for n in range(6)]))
    assert finished.completed.verdict is Verdict.AC
    assert not any(isinstance(event, Progress) and event.share for _, event in executor.events)
