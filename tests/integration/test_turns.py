"""Submissions that want the executor for themselves: what the other slots notice of it."""

import contextlib
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from judge.common import clock
from judge.config.allowance import Allowance
from judge.executor.channel import Finished, Job
from judge.executor.slot.run_lock import SHARE, RunLock
from judge.executor.verdict import GRACE
from judge.model.messages import Test, Verdict
from tests.support import packages
from tests.support.executors import TwoSlots
from tests.support.sandbox import FULL_SANDBOX
from tests.support.servers import wait_for

pytestmark = [*FULL_SANDBOX, pytest.mark.timeout(600)]

# Uses so many milliseconds of CPU time, and sleeps for so many.
SPEND = """
#include <time.h>
#include <unistd.h>
int main(void) {
    struct timespec t;
    do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < %d);
    usleep(%d * 1000);
    return 0;
}
"""


# Uses so many milliseconds of CPU time, and sleeps until it has run for so many, however busy this machine is.
LAST = """
#include <time.h>
#include <unistd.h>
static long ms(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
int main(void) {
    long begin = ms(CLOCK_MONOTONIC);
    while (ms(CLOCK_PROCESS_CPUTIME_ID) < %d);
    while (ms(CLOCK_MONOTONIC) < begin + %d) usleep(1000);
    return 0;
}
"""


@pytest.fixture
def executor(work: Path) -> Iterator[TwoSlots]:
    executor = TwoSlots(work)
    yield executor
    executor.slots.close()
    executor.sharing.close()


@pytest.fixture
def closed(executor: TwoSlots, work: Path) -> Iterator[Callable[[Job], float]]:
    """Judges in slot 0, and says for how many seconds the gate was closed, as a third slot sees it."""
    observer = RunLock(work / "run_lock")

    def shut() -> bool:
        def no(_: float) -> None:
            raise InterruptedError

        with contextlib.suppress(InterruptedError), observer.shared(no):
            return False
        return True

    def judge(job: Job) -> float:
        executor.coordinator.give(job, clock.monotonic())
        seconds, last = 0.0, clock.monotonic()

        def over() -> bool:
            nonlocal seconds, last
            now = clock.monotonic()
            seconds += (now - last) * shut()
            last = now
            executor.read()
            return any(isinstance(event, Finished) for _, event in executor.events)

        wait_for(over, timeout=300, what="the end of the submission")
        return seconds

    yield judge
    observer.close()


def problem(work: Path, cpu: int, sleep: int, count: int, allowance: Allowance, source: str = SPEND) -> Job:
    """A submission in full mode to a problem whose limits are 0.5 s of CPU time and 2 s of wall time."""
    files = {"problem.yaml": "problem_format_version: 2025-09\nname: X\nlimits: {time_limit: 0.5, memory: 128}\n"}
    for number in range(count):
        files |= {f"data/secret/{number:03d}.in": "", f"data/secret/{number:03d}.ans": ""}
    data = packages.load(packages.write(work / "package", files), work / "blobs")
    job = packages.job(data, "c", source % (cpu, sleep), "full")
    job.assignment.allowance = allowance
    return job


def verdicts(executor: TwoSlots) -> list[tuple[Verdict, bool]]:
    """Of the finished job's tests, and whether each was repeated."""
    result = executor.next_event(Finished).completed.result
    assert result.tests, result
    return [(test.verdict, test.repeated is not None) for test in result.tests]


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "sleep 2.1", "limits": {"wall": 2}},
        {"language": "c", "source": SPEND % (520, 0), "limits": {"cpu": 0.5}},
    ],
    ids=["sleeping", "burning"],
)
def test_going_past_ones_own_limits_holds_nobody_up(executor, closed, fields):
    tests = [Test(name=str(number)) for number in range(3)]
    assert closed(packages.own(tests=tests, mode="full", **fields)) == 0.0
    assert verdicts(executor) == [(Verdict.TLE, False)] * 3


def test_sleeping_past_a_problems_wall_limit_holds_nobody_up(executor, closed, work):
    assert closed(problem(work, 0, 2050, 3, Allowance())) == 0.0
    assert verdicts(executor) == [(Verdict.TLE, False)] * 3


def test_burning_a_little_too_much_in_every_test_holds_others_up_only_so_often(executor, closed, work):
    allowance = Allowance(repeats=3, alone_seconds=2.0)
    seconds = closed(problem(work, 520, 0, 6, allowance))
    outcomes = verdicts(executor)
    assert {verdict for verdict, _ in outcomes} == {Verdict.TLE}
    assert sum(repeated for _, repeated in outcomes) <= 3
    # A look now and then sees a little more than there was.
    assert seconds < 2.0 + 1.0


def test_burning_and_sleeping_is_no_way_to_more_time_alone(executor, closed, work):
    """Busy enough to be repeated for its wall time, two seconds each; the slots have used most of their burst."""
    level = 2.5
    for _ in range(5):
        (work / "run_lock" / "turn").write_bytes(struct.pack("=dd", level, clock.monotonic()))
        begin = clock.monotonic()
        seconds = closed(problem(work, 300, 2005, 2, Allowance(repeats=None, alone_seconds=None), LAST))
        result = executor.next_event(Finished).completed.result
        # On a busy machine a run may be ended for its time, which is no reason to repeat it, or is given the time in
        # which others had the core.
        if all(
            test.verdict == Verdict.TLE and (test.repeated or test).wall < 2.0 * (1 + GRACE) for test in result.tests
        ):
            break
        executor.events.clear()
    assert [test.verdict for test in result.tests] == [Verdict.TLE] * 2
    # The level after the first repetition does not grow to a second one's need within PATIENCE.
    assert [test.repeated and test.repeated.exclusive for test in result.tests] == [True, False]
    assert 1.5 < seconds < level + SHARE * (clock.monotonic() - begin) + 1.0
