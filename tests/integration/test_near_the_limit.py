"""A run that is a little over its time limit is repeated once, alone, and the second run decides."""

import contextlib
import dataclasses
import os
import select
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from judge.common import clock
from judge.config.allowance import Allowance
from judge.executor.channel import Finished, Job, Progress, Ready, Settings
from judge.executor.slot.pipeline import Pipeline
from judge.executor.slot.run_lock import RunLock
from judge.executor.slots import Slots
from judge.executor.verdict import GRACE
from judge.languages.table import extra_paths, load_table
from judge.model.messages import Assignment, Limits, LimitsOverride, Submission, Test, TestResult, Verdict
from judge.sandbox import Command, Killed, Sandbox, SandboxPool
from tests.support import packages
from tests.support.sandbox import AS_ROOT, need_sandbox, pool, run_c
from tests.support.servers import wait_for

pytestmark = [*AS_ROOT, pytest.mark.timeout(600)]

TABLE = load_table()
LIMIT = 1.0
NEAR, FAR, WELL = "1.03", "1.3", "0.2"
# A busy machine may count so much for a near run that it is a far one; then the kernel is asked again, so often.
DISTURBED = 10
BURN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static double cpu(void) {
    struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9;
}
static double now(void) {
    struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9;
}
int main(int argc, char **argv) {
    static char block[1 << 16];
    double seconds = atof(argv[1]), begin = now();
    if (argc > 2 && !strcmp(argv[2], "sleep")) usleep(seconds * 1e6);
    else while (cpu() < seconds) ;
    while (argc > 3 && now() - begin < atof(argv[3])) usleep(1000);
    if (argc > 2 && !strcmp(argv[2], "exit")) return 3;
    if (argc > 2 && !strcmp(argv[2], "flood")) for (;;) write(1, block, sizeof block);
    if (fgets(block, 100, stdin)) fputs(block, stdout);
    return 0;
}
"""


@pytest.fixture(scope="module")
def boxes() -> Iterator[SandboxPool]:
    need_sandbox()
    paths = extra_paths(TABLE.values())
    with contextlib.closing(SandboxPool(f"test-near-{os.getpid()}", paths=paths)) as boxes:
        yield boxes


class Scripted:
    """A real sandbox that appends words to each run of the submission, one list after another; counts them."""

    def __init__(self, box: Sandbox, words: list[Sequence[str]], ran: list[Sequence[str]]) -> None:
        self._box = box
        self._words = words
        self._ran = ran

    def __getattr__(self, name: str) -> Any:
        return getattr(self._box, name)

    def _with(self, command: Command) -> Command:
        if command.argv[0] != "/box/run":
            return command
        self._ran.append(self._words.pop(0))
        return dataclasses.replace(command, argv=[*command.argv, *self._ran[-1]])

    def run(self, command: Command, *options: Any) -> Any:
        return self._box.run(self._with(command), *options)

    def start(self, command: Command) -> Any:
        return self._box.start(self._with(command))


@pytest.fixture
def judged(boxes: SandboxPool, work: Path) -> Callable[..., tuple[list[TestResult], int]]:
    """Judges a program whose runs burn as scripted; returns the tests and how often the program ran."""

    def judge(job: Job, *script: Sequence[str], check: bool = True) -> tuple[list[TestResult], int]:
        ran: list[Sequence[str]] = []
        words = list(script)
        pipeline = Pipeline(
            take=lambda: Scripted(boxes.take(), words, ran),  # type: ignore[arg-type,return-value]
            tell=lambda _: None,
            table=TABLE,
            outputs=work,
            run_lock=RunLock(work / "run_lock", patience=0.1),
        )
        judged = pipeline.execute(job).completed
        pipeline.run_lock.close()
        assert judged is not None
        assert not judged.retry, judged.result.reason
        if check:
            assert judged.verdict == (judged.result.tests[-1].verdict if judged.result.tests else judged.verdict)
        assert judged.result.cpu == max(test.cpu for test in judged.result.tests)
        return judged.result.tests, len(ran)

    return judge


YAML = "problem_format_version: 2025-09\nname: X\nlimits: {time_limit: %s, validation_time: 20, memory: 128%s}\n%s"
# The format's wall limit of 2 x CPU + 1 s is too short for a machine that is busy with other things.
PATIENT: dict[str, float] = {"wall": 60.0, "output": 100_000}


def package(
    work: Path,
    validator: str | None = None,
    tail: str = "",
    extra: str = "",
    *,
    count: int = 1,
    mode: str = "lazy",
    source: str = BURN,
    allowance: Allowance | None = None,
    **limits: float,
) -> Job:
    """A submission to a problem whose program prints what it reads."""
    files = {"problem.yaml": YAML % (limits.get("cpu", LIMIT), tail, extra)}
    for number in range(count):
        files |= {f"data/secret/{number:04d}.in": "same\n", f"data/secret/{number:04d}.ans": "same\n"}
    if validator is not None:
        files["output_validator/check.py"] = validator
    data = packages.load(packages.write(work / "package", files), work / "blobs")
    limits_ = data.manifest.limits.model_copy(update={**PATIENT, **limits})
    data = data.model_copy(update={"manifest": data.manifest.model_copy(update={"limits": limits_})})
    job = packages.job(data, "c", source, mode)
    if allowance is not None:
        job.assignment.allowance = allowance
    return job


def own(wall: float = 60.0, cpu: float = LIMIT, **fields: Any) -> Job:
    submission = Submission(
        language="c",
        source=BURN,
        tests=[Test(name="1", input="same\n", answer="same\n")],
        limits=LimitsOverride(cpu=cpu, wall=wall),
    )
    return Job(assignment=Assignment(id="1" * 24, attempt=1, claim="c1", submission=submission, **fields))


def undisturbed(judge: Callable[[], tuple[list[TestResult], int]]) -> tuple[list[TestResult], int]:
    """Judge until the first run was counted as what it is: over the limit by less than the grace."""
    for _ in range(DISTURBED):
        tests, runs = judge()
        if tests[0].repeated is not None:
            return tests, runs
        assert tests[0].cpu > LIMIT * (1 + GRACE), "it was not repeated, and the account does not say why"
    pytest.fail("this machine is too busy to stay near any time limit")


def test_the_second_run_decides(judged, work):
    tests, runs = undisturbed(lambda: judged(package(work), [NEAR], [WELL]))
    (test,) = tests
    assert runs == 2
    assert (test.verdict, test.reason, test.output) == (Verdict.AC, "", "same\n")
    assert str(test.cpu) >= WELL
    assert test.cpu <= LIMIT < test.repeated.cpu <= LIMIT * (1 + GRACE)
    assert test.repeated.exclusive


@pytest.mark.parametrize(
    ("second", "verdict", "words"),
    [
        ([NEAR], Verdict.TLE, "CPU time limit exceeded"),
        ([WELL, "exit"], Verdict.RTE, "exit code 3"),
        ([WELL, "flood"], Verdict.OLE, "output limit exceeded"),
    ],
)
def test_the_second_run_decides_also_when_it_fails(judged, work, second, verdict, words):
    (test,), runs = undisturbed(lambda: judged(package(work), [NEAR], second))
    assert runs == 2, "once, and not again"
    assert test.verdict is verdict
    assert words in test.reason


@pytest.mark.parametrize("way", ["exit", "flood"])
def test_the_second_run_decides_after_any_end_of_the_first(judged, work, way):
    (test,), runs = undisturbed(lambda: judged(package(work), [NEAR, way], [WELL]))
    assert (runs, test.verdict) == (2, Verdict.AC)


def test_far_runs_are_ended_and_not_repeated(judged, work):
    (test,), runs = judged(package(work), [FAR], [WELL])
    assert (runs, test.verdict, test.repeated) == (1, Verdict.TLE, None)
    assert test.cpu > LIMIT * (1 + GRACE)
    assert "the limit is 1 s" in test.reason


def test_runs_within_the_limit_are_not_repeated(judged, work):
    for _ in range(DISTURBED):
        (test,), runs = judged(package(work), [WELL], [WELL])
        assert test.verdict is Verdict.AC
        if test.repeated is None:
            assert runs == 1
            return
        assert test.repeated.cpu > LIMIT
    pytest.fail("this machine is too busy to stay below any time limit")


def test_the_wall_limit_is_a_time_limit_too(judged, work):
    """It slept and burnt: more than half of its CPU limit."""
    job = package(work, cpu=1.0, wall=4.0)
    for _ in range(DISTURBED):
        (test,), runs = judged(job, ["0.6", "late", "4.05"], [WELL, "sleep"])
        if test.repeated is not None:
            assert (runs, test.verdict) == (2, Verdict.AC) or "wall time limit exceeded" in test.reason
            assert test.repeated.wall > 4.0
            return
        assert test.wall > 4.4
    pytest.fail("this machine is too busy to stay near any time limit")


def test_a_run_that_slept_past_the_wall_limit_is_not_repeated(judged, work):
    (test,), runs = judged(package(work, cpu=1.0, wall=2.0), ["2.05", "sleep"], [WELL])
    assert (runs, test.verdict, test.repeated) == (1, Verdict.TLE, None)
    assert "wall time limit exceeded" in test.reason


@pytest.mark.parametrize(("job", "words"), [(own(), [NEAR]), (own(wall=2.0), ["2.05", "sleep"])])
def test_a_submission_without_a_problem_is_never_repeated(judged, job, words):
    (test,), runs = judged(job, words, [WELL])
    assert (runs, test.verdict, test.repeated) == (1, Verdict.TLE, None)
    assert "not repeated" not in test.reason
    assert test.cpu < LIMIT * (1 + GRACE) or "sleep" in words


def test_so_many_tests_are_repeated_and_no_more(judged, work):
    job = package(work, count=5, mode="full", allowance=Allowance(repeats=2))
    script = [[NEAR], [WELL], [NEAR], [WELL], [NEAR], [NEAR], [WELL]]
    for _ in range(DISTURBED):
        tests, runs = judged(job, *script, check=False)
        if [test.repeated is not None for test in tests] == [True, True, False, False, False] and runs == 7:
            break
        assert any(test.cpu > LIMIT * (1 + GRACE) for test in tests) or runs != 7
    else:
        pytest.fail("this machine is too busy to stay near any time limit")
    assert [test.verdict for test in tests] == [Verdict.AC] * 2 + [Verdict.TLE] * 2 + [Verdict.AC]
    for test in tests[2:4]:
        assert test.reason.startswith("CPU time limit exceeded")
        assert test.reason.endswith("not repeated: 2 of its tests have been repeated, which is the limit (repeats)")


def test_a_repetition_has_only_so_much_time_alone(judged, work):
    job = package(work, allowance=Allowance(alone_seconds=0.5))
    for _ in range(DISTURBED):
        (test,), runs = judged(job, [NEAR], [WELL])
        assert (runs, test.verdict, test.repeated) == (1, Verdict.TLE, None)
        if "not repeated" in test.reason:
            break
        assert test.cpu > LIMIT * (1 + GRACE)
    assert test.reason.endswith("not repeated: its repeated tests may have 0.5 s to themselves (alone_seconds)")


def test_a_repetition_that_takes_longer_than_the_time_alone_ends_there(judged, work):
    """It is near with its CPU time and then, alone, sleeps: the first run counts."""
    job = package(work, allowance=Allowance(alone_seconds=3.0))
    for _ in range(DISTURBED):
        (test,), runs = judged(job, [NEAR], ["55", "sleep"])
        assert (test.verdict, test.repeated) == (Verdict.TLE, None)
        assert test.wall < 20
        if runs == 2:
            break
    assert test.reason.startswith("CPU time limit exceeded: used 1.")
    assert test.reason.endswith("not repeated: its repeated tests may have 3 s to themselves (alone_seconds)")


def test_a_test_is_repeated_beside_others_when_the_gate_was_closed_for_long(judged, work):
    (work / "run_lock").mkdir()
    (work / "run_lock" / "turn").write_bytes(struct.pack("=dd", -1e6, clock.monotonic()))
    (test,), runs = undisturbed(lambda: judged(package(work), [NEAR], [WELL]))
    assert (runs, test.verdict, test.repeated.exclusive) == (2, Verdict.AC, False)


def test_all_passes_are_repeated(judged, work):
    validator = (
        "import os, sys\nd = sys.argv[3]\nif os.path.exists(d + 'seen'): sys.exit(42)\n"
        "open(d + 'seen', 'w').close()\nopen(d + 'nextpass.in', 'w').write('more')\nsys.exit(42)\n"
    )
    job = package(work, validator, ", validation_passes: 2", "type: multi-pass\n")
    (test,), runs = undisturbed(lambda: judged(job, [WELL], [NEAR], [WELL], [WELL]))
    assert (runs, test.verdict, test.passes) == (4, Verdict.AC, 2), test
    assert test.repeated.cpu > LIMIT > test.cpu


def test_an_interaction_is_repeated_and_the_validators_time_is_its_own(judged, work):
    validator = (
        "import sys, time\nwhile time.process_time() < 1.5: pass\nprint('word', flush=True)\n"
        "sys.exit(42 if sys.stdin.read() == 'word\\n' else 43)\n"
    )
    job = package(work, validator, "", "type: interactive\n")
    (test,), runs = undisturbed(lambda: judged(job, [NEAR], [WELL]))
    assert (runs, test.verdict) == (2, Verdict.AC), test
    assert test.cpu <= LIMIT < test.repeated.cpu
    (test,), runs = judged(job, [FAR], [WELL])
    assert (runs, test.verdict, test.repeated) == (1, Verdict.TLE, None)


def test_a_sandbox_ends_a_run_where_its_grace_ends():
    need_sandbox()
    limits = Limits(cpu=LIMIT, wall=60, output=1000)
    with pool("grace") as grace_pool, grace_pool.take() as box:
        for grace, killed in ((0.0, {Killed.CPU}), (1.0, set())):
            with run_c(box, BURN, limits, FAR, grace=grace) as outcome:
                assert outcome.killed == killed or outcome.cpu > LIMIT * (1 + grace), outcome
                assert outcome.cpu > LIMIT
        with run_c(box, BURN, Limits(cpu=30, wall=0.5), FAR, grace=0.1) as outcome:
            assert Killed.WALL in outcome.killed
            assert outcome.wall >= 0.55


# --- with other slots ----------------------------------------------------------------------------------------------


@pytest.fixture
def slots(work: Path) -> Iterator[Slots]:
    fields = {"index": 0, "core": max(os.sched_getaffinity(0)), "executor": f"near-{os.getpid()}", "outputs": work}
    slots = Slots([Settings.model_validate({**fields, "cgroup": "judge", "run_lock": work / "run_lock"})])
    yield slots
    slots.close()


def next_event(slots: Slots, kind: type, timeout: float = 60.0) -> Any:
    slot = slots.slots[0]
    deadline = clock.Deadline(timeout)
    while True:
        assert slot.sock is not None, slot.status.reason
        select.select([slot.sock], [], [], deadline.check("the slot"))
        for event in slot.read(clock.monotonic())[0]:
            if isinstance(event, kind):
                return event


def held_up(waits_for: RunLock) -> bool:
    def no(_: float) -> None:
        raise InterruptedError

    try:
        with waits_for.shared(no):
            return False
    except InterruptedError:
        return True


def test_the_repetition_waits_for_other_slots_and_they_for_it(slots, work):
    assert slots.start_due(clock.monotonic())
    next_event(slots, Ready)
    slot = slots.slots[0]
    running, starting = RunLock(work / "run_lock"), RunLock(work / "run_lock")
    wait = contextlib.ExitStack()
    with contextlib.closing(running), contextlib.closing(starting), wait:
        for _ in range(DISTURBED):
            wait.enter_context(running.shared(lambda _: None))
            # Its own command language: the program finds its time by itself, in the slot's real sandbox.
            slot.give(_self_timed(work), clock.monotonic())
            wait_for(lambda: held_up(starting) or _over(slot), what="a slot that wants to be alone")
            if slot.status.claim is not None and not _over(slot):
                break
            wait.close()
            next_event(slots, Finished)
        silent = slot.status.deadline
        for _ in range(2):
            assert next_event(slots, Progress).claim == "c1", "a slot that waits says that it lives"
        assert slot.status.deadline > silent
        assert held_up(starting), "no run starts meanwhile"
        wait.close()
        finished = next_event(slots, Finished)
    (test,) = finished.completed.result.tests
    assert test.repeated is not None
    assert test.repeated.exclusive
    assert finished.runs == 3  # the compiler, and twice the program


def _over(slot: Any) -> bool:
    """Whether the slot has something to say that is no sign of life."""
    data = slot.sock.recv(1 << 16, socket.MSG_PEEK | socket.MSG_DONTWAIT) if _readable(slot) else b""
    return b'"kind":"finished"' in data


def _readable(slot: Any) -> bool:
    return bool(select.select([slot.sock], [], [], 0)[0])


def _self_timed(work: Path) -> Job:
    return package(work, source=BURN.replace("atof(argv[1])", NEAR))


def test_a_slot_that_waits_can_be_cancelled(slots, work):
    assert slots.start_due(clock.monotonic())
    next_event(slots, Ready)
    slot = slots.slots[0]
    with contextlib.closing(RunLock(work / "run_lock")) as other_lock:
        with other_lock.exclusive(lambda _: None):
            slot.give(_self_timed(work), clock.monotonic())
            assert slot.status.silence > 0
            slot.cancel("c1", clock.monotonic())
            assert next_event(slots, Finished).completed is None
        assert not held_up(other_lock)
