"""The queue on which slots share tests: real files, locks and pipes; helpers are processes, since locks are theirs."""

import contextlib
import multiprocessing
import os
import select
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from judge.executor.slot.parallel.coordinator import Coordinator, SupersededError
from judge.executor.slot.parallel.schedule import Schedule
from judge.executor.slot.parallel.shared_queue import CoordinatorQueue, HelperQueue, JudgedTest, Sharing, clear
from judge.model.messages import TestResult, Verdict
from tests.support.servers import wait_for

SPAWN = multiprocessing.get_context("fork")


def judged(index: int, verdict: Verdict = Verdict.AC) -> JudgedTest:
    return JudgedTest(test=TestResult(name=str(index), verdict=verdict))


@pytest.fixture
def coordinator(work: Path) -> Iterator[CoordinatorQueue]:
    with contextlib.closing(CoordinatorQueue(work / "queue", None)) as queue:
        yield queue


@pytest.fixture
def helper(work: Path) -> Iterator[Callable[..., Any]]:
    """Runs a function with a helper's queue in a process of its own; the answer is what it returns."""
    with contextlib.ExitStack() as stack:

        def start(job: Callable[[HelperQueue], Any], *, hang: bool = False) -> tuple[Any, int]:
            own_end, helper_end = SPAWN.Pipe()

            def body() -> None:
                with contextlib.closing(HelperQueue(work / "queue")) as queue:
                    helper_end.send(job(queue))
                    if hang:
                        signal.pause()

            process = SPAWN.Process(target=body, daemon=True)
            process.start()
            stack.callback(process.join)
            stack.callback(process.kill)
            assert own_end.poll(30), "the helper says nothing"
            answer = own_end.recv()
            if not hang:
                process.join()
            return answer, process.pid or 0

        yield start


def rings(queue: CoordinatorQueue) -> bool:
    return bool(select.select([queue.interrupt_fd], [], [], 0)[0])


def test_no_test_is_taken_twice(coordinator, helper):
    coordinator.publish([0, 1, 2], stops=True)
    assert coordinator.take([0, 1, 2]) == 0
    (answer, pid) = helper(lambda queue: (queue.candidates().tests, queue.take()), hang=True)
    assert answer == ([0, 1, 2], 1)
    assert coordinator.take([1]) is None
    assert helper(HelperQueue.take)[0] == 2
    os.kill(pid, signal.SIGKILL)
    # A test that a dead helper was running is free again.
    wait_for(lambda: coordinator.take([1]) == 1, what="a test that is free again")


def test_a_helper_s_result_arrives_once_and_ends_the_test(coordinator, helper):
    coordinator.publish([0, 1], stops=True)
    coordinator.take([0])

    def work(queue: HelperQueue) -> int | None:
        index = queue.take()
        queue.put(1, judged(1))
        return index

    assert helper(work)[0] == 1
    assert coordinator.take([1]) is None
    assert [result.test.name for result in coordinator.collect()] == ["1"]
    assert list(coordinator.collect()) == []
    assert helper(HelperQueue.take)[0] is None


@pytest.mark.parametrize(
    ("runs", "verdict", "stops", "rung"),
    [
        (None, Verdict.AC, True, True),  # it waits
        (2, Verdict.WA, True, True),  # its test is of no use any more
        (2, Verdict.AC, True, False),
        (2, Verdict.WA, False, False),
        (0, Verdict.WA, True, False),  # it runs what comes before
    ],
)
def test_the_coordinator_is_woken_when_it_matters(coordinator, helper, runs, verdict, stops, rung):
    coordinator.publish([0, 1, 2], stops=stops)
    if runs is not None:
        assert coordinator.take([runs]) == runs
    helper(lambda queue: queue.put(1, judged(1, verdict)))
    assert rings(coordinator) is rung
    assert len(list(coordinator.collect())) == 1
    assert not rings(coordinator)


def test_a_coordinators_cancellation_interrupts_it_too(work):
    read, write = os.pipe()
    with contextlib.closing(CoordinatorQueue(work / "other", read)) as queue:
        assert not rings(queue)
        os.write(write, b"x")
        assert rings(queue)
    os.close(read)
    os.close(write)


def test_the_end_of_the_coordinator_is_the_end_of_the_queue(work, coordinator):
    coordinator.publish([0], stops=True)
    helper = HelperQueue(work / "queue")
    coordinator.close()
    assert not (work / "queue").exists()
    with contextlib.closing(helper), pytest.raises(FileNotFoundError):
        helper.take()
    with pytest.raises(FileNotFoundError):
        HelperQueue(work / "queue")


def noting(schedule: Schedule) -> Callable[[JudgedTest], None]:
    """Tells a schedule what a test came to."""

    def note(result: JudgedTest) -> None:
        schedule.note(result.test.name, result.judged)
        while (due := schedule.due) is not None:
            schedule.count(schedule._results[due])

    return note


def test_a_run_that_is_useless_is_given_up(coordinator, helper):
    """The coordinator runs test 2 while a helper finds that test 1 fails; test 0 is still to be run."""
    names = ["0", "1", "2"]
    schedule = Schedule(None, names, full=False)
    names_noted: list[str] = []
    ran: list[str] = []

    def note(result: JudgedTest) -> None:
        names_noted.append(result.test.name)
        noting(schedule)(result)

    def run(name: str) -> JudgedTest:
        ran.append(name)
        if name == "0":
            # Both others are run meanwhile: one fails, the other is still on its way.
            helper(lambda queue: queue.put(1, judged(1, Verdict.WA)))
        if name == "2":
            raise SupersededError
        return judged(int(name))

    Coordinator(coordinator, schedule, names, run, note).until_over(lambda _: pytest.fail("nothing to wait for"))
    assert (ran, names_noted) == (["0"], ["0", "1"])
    assert (schedule.stand.failed, schedule.stand.verdict) == ("1", Verdict.WA)


def test_a_result_that_arrives_while_a_test_is_taken_counts(coordinator, helper, monkeypatch):
    """Nobody rings for it. Helpers run tests 0 and 1; as the coordinator takes test 2, test 1 turns out to fail."""
    names = ["0", "1", "2"]
    schedule = Schedule(None, names, full=False)
    take = coordinator.take

    def taking(indices: list[int]) -> int | None:
        index = take(indices)
        if index == 2:
            helper(lambda queue: queue.put(1, judged(1, Verdict.WA)))
        return index

    def wait(_: float) -> None:
        helper(lambda queue: queue.put(0, judged(0)))

    def run(name: str) -> JudgedTest:
        pytest.fail(f"test {name} is of no use")

    coordination = Coordinator(coordinator, schedule, names, run, noting(schedule))
    helper(lambda queue: [queue._lock(queue._taken, index) for index in (0, 1)], hang=True)
    monkeypatch.setattr(coordinator, "take", taking)
    coordination.until_over(wait)
    assert (schedule.stand.failed, list(schedule.counted)) == ("1", ["0", "1"])


def test_an_interrupted_run_that_is_needed_is_run_again(coordinator):
    schedule = Schedule(None, ["0", "1"], full=False)
    ran: list[str] = []

    def run(name: str) -> JudgedTest:
        ran.append(name)
        if len(ran) == 1:
            raise SupersededError
        return judged(int(name))

    coordination = Coordinator(coordinator, schedule, ["0", "1"], run, noting(schedule))
    coordination.until_over(lambda _: pytest.fail("nothing to wait for"))
    assert ran == ["0", "0", "1"]
    assert schedule.stand.verdict is Verdict.AC


def test_idle_slots_are_told(work):
    clear(work / "sharing")
    main, slot = Sharing(work / "sharing"), Sharing(work / "sharing")
    assert slot.idle() == 0
    main.tell(3)
    assert slot.idle() == 3
    main.close()
    slot.close()
    (main.queue("c1")).mkdir()
    clear(work / "sharing")
    assert list((work / "sharing").iterdir()) == []
