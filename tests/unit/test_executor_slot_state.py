"""What main knows of a slot: whatever happens in whatever order, no field of what is over stays behind."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.executor.channel import COMPILE_LIMITS, Broken, Cancel, Data, Finished, Help, Helped, Job, Progress, Ready
from judge.executor.slot_state import (
    CANCEL_GRACE,
    LANGUAGE_FACTOR,
    RESTART_MAX,
    RESTART_MIN,
    SILENCE,
    START_GRACE,
    Ended,
    SlotState,
    SlotStatus,
    Started,
    longest_step,
    next_state,
)
from judge.languages.table import load_table
from judge.model.messages import Assignment, Limits, Status, Submission
from judge.model.problem import ProblemManifest, ProblemProgram

NOW = 1000.0


def job(claim: str = "a", **manifest: object) -> Job:
    data = None
    if manifest:
        data = Data(manifest=ProblemManifest.model_validate({"name": "p", "tests": [], **manifest}), files={})
    submission = Submission(command="true")
    return Job(assignment=Assignment(id="1" * 24, attempt=1, claim=claim, submission=submission), data=data)


EVENTS = st.one_of(
    st.sampled_from([Started(), Ready(), Broken(reason="no memory"), Ended("gone")]),
    st.builds(job, st.sampled_from("ab")),
    st.builds(lambda claim: Help(job=job(claim), directory=Path("/x")), st.sampled_from("ab")),
    st.builds(Cancel, claim=st.sampled_from("ab")),
    st.builds(Progress, claim=st.sampled_from("ab"), status=st.just(Status.RUNNING)),
    st.builds(Finished, claim=st.sampled_from("ab")),
    st.builds(Helped, claim=st.sampled_from("ab")),
)


def after(*events: object, status: SlotStatus | None = None) -> SlotStatus:
    status = status or SlotStatus()
    for event in events:
        status = next_state(status, event, NOW)
    return status


@given(st.lists(EVENTS, max_size=12))
def test_every_state_is_consistent(events):
    status = after(*events)
    assert (status.helps is not None) == (status.state is SlotState.HELPING)
    assert status.claim is None or status.state in {SlotState.BUSY, SlotState.DOWN}
    assert status.claim is not None or status.state is not SlotState.BUSY
    if status.state in {SlotState.IDLE, SlotState.DOWN}:
        assert (status.deadline, status.silence, status.stopping) == (math.inf, 0.0, False)
    else:
        assert status.deadline < math.inf
    if status.stopping:
        assert status.silence == 0.0
        assert status.deadline <= NOW + CANCEL_GRACE


@given(st.lists(EVENTS, max_size=12), EVENTS)
def test_a_sign_of_life_never_brings_the_end_nearer_and_a_cancelled_slot_gets_no_time(events, last):
    status = after(*events)
    later = next_state(status, last, NOW + 1)
    if isinstance(last, Progress):
        assert later.deadline >= status.deadline
        assert not status.stopping or later.deadline == status.deadline
    if isinstance(last, Cancel):
        assert later.deadline <= status.deadline


@pytest.mark.parametrize("work", [job("a"), Help(job=job("a"), directory=Path("/x"))])
@given(st.floats(0, 1e6))
def test_a_sign_of_life_begins_the_silence_anew(work, later):
    working = after(Started(), Ready(), work)
    assert working.deadline == NOW + working.silence
    alive = next_state(working, Progress(claim="a", status=Status.RUNNING), NOW + later)
    assert alive == replace(working, deadline=NOW + later + working.silence)


@given(st.lists(EVENTS, max_size=12), st.sampled_from([Finished(claim="a"), Helped(claim="a")]))
def test_the_end_of_work_leaves_no_field_behind(events, end):
    assert after(*events, end) == SlotStatus(SlotState.IDLE)


def test_only_the_current_work_is_cancelled():
    busy = after(Started(), Ready(), job("a"))
    assert after(Cancel(claim="b"), status=busy) == busy
    assert after(Cancel(claim="a"), status=busy).deadline == NOW + CANCEL_GRACE
    helping = after(Started(), Ready(), Help(job=job("a"), directory=Path("/x")))
    assert after(Cancel(claim="a"), status=helping).stopping


def test_ends_in_a_row_wait_longer_and_longer_unless_main_asked_for_them():
    status, delays = SlotStatus(), []
    for _ in range(9):
        status = after(Ended("x"), status=status)
        delays.append(status.start_at - NOW)
    assert delays[:4] == [0.0, RESTART_MIN, 2 * RESTART_MIN, 4 * RESTART_MIN]
    assert delays[-1] == RESTART_MAX
    assert after(Started(), Ready(), job(), Finished(claim="a"), status=status).failures == 0
    assert after(Ended("x"), status=SlotStatus(SlotState.IDLE, failures=3)).start_at == NOW + 4 * RESTART_MIN
    cancelled = after(Started(), Ready(), job(), Cancel(claim="a"), Ended("killed"))
    assert (cancelled.failures, cancelled.start_at, cancelled.claim) == (0, NOW, "a")


@pytest.mark.parametrize("work", [job(), Help(job=job(), directory=Path("/x"))], ids=["job", "help"])
def test_tasks_that_end_their_slot_do_not_delay_its_next_start(work):
    status = SlotStatus()
    for _ in range(9):
        status = after(Started(), Ready(), work, Ended("it was killed by SIGKILL"), status=status)
        assert (status.start_at, status.failures) == (NOW, 0)
    # A slot that does not even start waits longer and longer, whatever ended it before.
    for delay in (0.0, RESTART_MIN, 2 * RESTART_MIN):
        status = after(Started(), Ended("no sandbox"), status=status)
        assert status.start_at - NOW == delay


def test_the_reason_of_an_end_is_forgotten_at_the_next_start():
    assert after(Broken(reason="no memory")).reason == "no memory"
    assert after(Ended("gone"), Started()) == SlotStatus(SlotState.STARTING, deadline=NOW + START_GRACE, failures=1)


@pytest.mark.parametrize("name", sorted(load_table()))
def test_no_language_takes_longer_than_a_step_allows(name):
    limits = Limits(cpu=2, wall=5)
    assert load_table()[name].limits(limits).wall_seconds <= LANGUAGE_FACTOR * limits.wall_seconds


def test_a_slot_may_be_silent_as_long_as_one_step_takes():
    assert longest_step(job()) == COMPILE_LIMITS.wall_seconds + LANGUAGE_FACTOR * Limits().wall_seconds
    program = ProblemProgram(name="check", language="c", main="check", files={})
    problem = {
        "validators": [program],
        "passes": 3,
        "limits": Limits(cpu=1, wall=3),
        "validation": Limits(cpu=5, wall=7),
    }
    step = COMPILE_LIMITS.wall_seconds + 30 + 2 * COMPILE_LIMITS.wall_seconds + 3 * (7 + 30)
    assert longest_step(job(**problem)) == step
    assert longest_step(job(**problem, compile_seconds=100.0)) == step + 400
    assert after(job(**problem)).deadline == NOW + SILENCE + step
