"""The sheet on which slots share tests: real files, locks and pipes; helpers are processes, since locks are theirs."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import select
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from judge.executor.slot.parallel.course import Course
from judge.executor.slot.parallel.leading import Lead, SupersededError
from judge.executor.slot.parallel.sheet import Found, HelperSheet, LeaderSheet, Sharing, clear
from judge.model.messages import TestResult, Verdict
from tests.support.servers import wait_for

SPAWN = multiprocessing.get_context("fork")


def found(index: int, verdict: Verdict = Verdict.AC) -> Found:
    return Found(test=TestResult(name=str(index), verdict=verdict))


@pytest.fixture
def leader(work: Path) -> Iterator[LeaderSheet]:
    with contextlib.closing(LeaderSheet(work / "sheet", None)) as sheet:
        yield sheet


@pytest.fixture
def helper(work: Path) -> Iterator[Callable[..., Any]]:
    """Runs a function with a helper's sheet in a process of its own; the answer is what it returns."""
    with contextlib.ExitStack() as stack:

        def start(job: Callable[[HelperSheet], Any], *, hang: bool = False) -> tuple[Any, int]:
            ours, theirs = SPAWN.Pipe()

            def body() -> None:
                with contextlib.closing(HelperSheet(work / "sheet")) as sheet:
                    theirs.send(job(sheet))
                    if hang:
                        signal.pause()

            process = SPAWN.Process(target=body, daemon=True)
            process.start()
            stack.callback(process.join)
            stack.callback(process.kill)
            assert ours.poll(30), "the helper says nothing"
            answer = ours.recv()
            if not hang:
                process.join()
            return answer, process.pid or 0

        yield start


def rings(sheet: LeaderSheet) -> bool:
    return bool(select.select([sheet.interrupt_fd], [], [], 0)[0])


def test_no_test_is_taken_twice(leader, helper):
    leader.want([0, 1, 2], stops=True)
    assert leader.take([0, 1, 2]) == 0
    (answer, pid) = helper(lambda sheet: (sheet.plan().wanted, sheet.take()), hang=True)
    assert answer == ([0, 1, 2], 1)
    assert leader.take([1]) is None
    assert helper(HelperSheet.take)[0] == 2
    os.kill(pid, signal.SIGKILL)
    # What a dead helper was running is free again.
    wait_for(lambda: leader.take([1]) == 1, what="a test that is free again")


def test_what_a_helper_found_out_arrives_once_and_the_test_is_done(leader, helper):
    leader.want([0, 1], stops=True)
    leader.take([0])

    def work(sheet: HelperSheet) -> int | None:
        index = sheet.take()
        sheet.put(1, found(1))
        return index

    assert helper(work)[0] == 1
    assert leader.take([1]) is None
    assert [one.test.name for one in leader.collect()] == ["1"]
    assert list(leader.collect()) == []
    assert helper(HelperSheet.take)[0] is None


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
def test_who_is_woken(leader, helper, runs, verdict, stops, rung):
    leader.want([0, 1, 2], stops=stops)
    if runs is not None:
        assert leader.take([runs]) == runs
    helper(lambda sheet: sheet.put(1, found(1, verdict)))
    assert rings(leader) is rung
    assert len(list(leader.collect())) == 1
    assert not rings(leader)


def test_a_leaders_cancellation_interrupts_it_too(work):
    read, write = os.pipe()
    with contextlib.closing(LeaderSheet(work / "other", read)) as sheet:
        assert not rings(sheet)
        os.write(write, b"x")
        assert rings(sheet)
    os.close(read)
    os.close(write)


def test_the_end_of_the_leader_is_the_end_of_the_sheet(work, leader):
    leader.want([0], stops=True)
    helper = HelperSheet(work / "sheet")
    leader.close()
    assert not (work / "sheet").exists()
    with contextlib.closing(helper), pytest.raises(FileNotFoundError):
        helper.take()
    with pytest.raises(FileNotFoundError):
        HelperSheet(work / "sheet")


def noting(course: Course) -> Callable[[Found], None]:
    """Tells a course what a test came to."""

    def note(one: Found) -> None:
        course.note(one.test.name, one.judged)
        while (due := course.due) is not None:
            course.count(course._known[due])

    return note


def test_a_run_that_is_useless_is_given_up(leader, helper):
    """The leader runs test 2 while a helper finds that test 1 fails; test 0 is still to be run."""
    names = ["0", "1", "2"]
    course = Course(None, names, full=False)
    noted: list[str] = []
    ran: list[str] = []

    def note(one: Found) -> None:
        noted.append(one.test.name)
        noting(course)(one)

    def run(name: str) -> Found:
        ran.append(name)
        if name == "0":
            # Both others are run meanwhile: one fails, the other is still on its way.
            helper(lambda sheet: sheet.put(1, found(1, Verdict.WA)))
        if name == "2":
            raise SupersededError
        return found(int(name))

    Lead(leader, course, names, run, note).until_over(lambda _: pytest.fail("nothing to wait for"))
    assert (ran, noted) == (["0"], ["0", "1"])
    assert (course.stand.failed, course.stand.verdict) == ("1", Verdict.WA)


def test_what_comes_in_before_others_see_what_the_leader_runs_is_heard(leader, helper, monkeypatch):
    """Nobody rings for it. Helpers run tests 0 and 1; as the leader takes test 2, test 1 turns out to fail."""
    names = ["0", "1", "2"]
    course = Course(None, names, full=False)
    take = leader.take

    def taking(wanted: list[int]) -> int | None:
        taken = take(wanted)
        if taken == 2:
            helper(lambda sheet: sheet.put(1, found(1, Verdict.WA)))
        return taken

    def wait(_: float) -> None:
        helper(lambda sheet: sheet.put(0, found(0)))

    def run(name: str) -> Found:
        pytest.fail(f"test {name} is of no use")

    lead = Lead(leader, course, names, run, noting(course))
    helper(lambda sheet: [sheet._lock(sheet._taken, index) for index in (0, 1)], hang=True)
    monkeypatch.setattr(leader, "take", taking)
    lead.until_over(wait)
    assert (course.stand.failed, list(course.counted)) == ("1", ["0", "1"])


def test_an_interrupted_run_that_is_needed_is_run_again(leader):
    course = Course(None, ["0", "1"], full=False)
    ran: list[str] = []

    def run(name: str) -> Found:
        ran.append(name)
        if len(ran) == 1:
            raise SupersededError
        return found(int(name))

    lead = Lead(leader, course, ["0", "1"], run, noting(course))
    lead.until_over(lambda _: pytest.fail("nothing to wait for"))
    assert ran == ["0", "0", "1"]
    assert course.stand.verdict is Verdict.AC


def test_idle_slots_are_told(work):
    clear(work / "sharing")
    main, slot = Sharing(work / "sharing"), Sharing(work / "sharing")
    assert slot.idle() == 0
    main.tell(3)
    assert slot.idle() == 3
    main.close()
    slot.close()
    (main.sheet("c1")).mkdir()
    clear(work / "sharing")
    assert list((work / "sharing").iterdir()) == []
