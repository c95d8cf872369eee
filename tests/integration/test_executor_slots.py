"""Real slot processes under their main-side handle: jobs, cancelling, crashes, back-off."""

import os
import select
import signal
import subprocess
import sys
from weakref import WeakKeyDictionary

import pytest

from judge.common import clock
from judge.executor import slots as slots_module
from judge.executor.channel import Broken, Finished, Progress, Ready, Settings
from judge.executor.slot_state import RESTART_MIN, SlotState, SlotStatus
from judge.executor.slots import Event, Slots
from judge.model.messages import Verdict
from tests.support.packages import own as job
from tests.support.sandbox import FULL_SANDBOX
from tests.support.servers import wait_for

pytestmark = FULL_SANDBOX


def settings(work, **fields) -> Settings:
    core = max(os.sched_getaffinity(0))
    defaults = {"index": 0, "core": core, "executor": f"test-{os.getpid()}", "outputs": work, "cgroup": "judge"}
    return Settings.model_validate({**defaults, **fields})


@pytest.fixture
def slots(work):
    slots = Slots([settings(work)])
    yield slots
    slots.close()


unread: WeakKeyDictionary[Slots, list[Event]] = WeakKeyDictionary()


def until(slots: Slots, kind: type, timeout: float = 20.0):
    """Read the only slot until an event of this kind comes; those that came with it are for the next call."""
    slot = slots.slots[0]
    events = unread.setdefault(slots, [])
    deadline = clock.Deadline(timeout)
    while True:
        while events:
            event = events.pop(0)
            if isinstance(event, kind):
                return event
        assert slot.sock is not None, slot.status.reason
        slot.flush()  # a large job does not fit into the socket at once
        writers = [slot.sock] if slot.unsent else []
        readable, _, _ = select.select([slot.sock], writers, [], deadline.check("the slot"))
        if readable:
            events += slot.read(clock.monotonic())[0]


def ready(slots: Slots, now: float | None = None):
    assert slots.start_due(clock.monotonic() if now is None else now)
    until(slots, Ready)
    return slots.slots[0]


def test_a_job(slots):
    slot = ready(slots)
    assert slots.idle() is slot
    assert (slots.working, slots.busy) == (1, 0)
    assert os.sched_getaffinity(slot.process.pid) == {slot.settings.core}
    slot.give(job(command="echo hello"), clock.monotonic())
    assert (slots.idle(), slots.busy) == (None, 1)
    assert until(slots, Progress).progress == "0/1"
    finished = until(slots, Finished)
    assert finished.completed.result.stdout == "hello\n"
    assert finished.runs == 1
    assert 0 < finished.overhead <= finished.seconds
    assert slots.idle() is slot
    assert slots.next_due() == float("inf")


def test_cancel(slots):
    slot = ready(slots)
    slot.give(job(command="sleep 60", limits={"wall": 90}), clock.monotonic())
    until(slots, Progress)
    slot.cancel("another", clock.monotonic())
    began = clock.monotonic()
    slot.cancel("c1", began)
    finished = until(slots, Finished)
    assert finished.completed is None
    assert clock.monotonic() - began < 1
    # A cancellation that comes too late is ignored.
    slot.status = SlotStatus(SlotState.BUSY, claim="c1")
    slot.cancel("c1", clock.monotonic())
    slot.give(job(claim="c2", command="echo next"), clock.monotonic())
    assert until(slots, Finished).completed.result.stdout == "next\n"


def test_a_slot_that_ended_starts_again_when_it_is_due(slots):
    slot = ready(slots)
    now = 1000.0
    for _ in range(2):
        slot.ended("test", now)
    assert slots.start_due(now) == []
    assert slots.next_due() == slot.status.start_at == now + RESTART_MIN
    assert slots.start_due(slot.status.start_at) == [slot]
    until(slots, Ready)
    slot.give(job(command="true"), clock.monotonic())
    until(slots, Finished)
    assert slot.status.failures == 0


def test_a_sandbox_that_cannot_be_made(work, monkeypatch):
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    slots = Slots([settings(work, languages=work / "missing.yml")])
    try:
        slots.start_due(clock.monotonic())
        assert "missing.yml: cannot be read" in until(slots, Broken).reason
        slot = slots.slots[0]
        wait_for(lambda: not slot.read(clock.monotonic())[1], what="the end of the slot")
        assert "missing.yml" in slot.status.reason
        assert slot.read(clock.monotonic()) == ([], False)
        with pytest.raises(OSError, match="not running"):
            slot.give(job(), 0.0)
    finally:
        slots.close()


def test_a_program_that_cannot_be_started(work, monkeypatch):
    slots = Slots([settings(work)])
    monkeypatch.setattr(slots_module.subprocess, "Popen", lambda *_, **__: (_ for _ in ()).throw(OSError("no setpriv")))
    assert slots.start_due(0.0) == []
    assert "cannot be started: no setpriv" in slots.slots[0].status.reason


def test_the_end_of_main_ends_the_job(slots):
    slot = ready(slots)
    slot.give(job(command="sleep 61.5", limits={"wall": 90}), clock.monotonic())
    until(slots, Progress)
    process = slot.process
    began = clock.monotonic()
    slots.close()
    assert process.poll() == 0
    assert clock.monotonic() - began < 1


def test_signals_of_the_terminal_do_not_end_a_slot(slots):
    slot = ready(slots)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(slot.process.pid, number)
    slot.give(job(command="true"), clock.monotonic())
    assert until(slots, Finished).completed.verdict is Verdict.AC


def test_a_weak_sandbox_says_so_in_every_result(work):
    slots = Slots([settings(work, weak=True)])
    try:
        slot = ready(slots)
        slot.give(job(command="echo weak"), clock.monotonic())
        result = until(slots, Finished).completed.result
        assert (result.stdout, result.weak_sandbox) == ("weak\n", True)
    finally:
        slots.close()


def test_usage():
    result = subprocess.run(
        [sys.executable, "-m", "judge.executor.slot.main"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "started by the executor" in result.stderr
