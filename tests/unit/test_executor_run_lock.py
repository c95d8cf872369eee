"""Taking turns: runs side by side, and one alone; real locks, the slots are processes or descriptors of their own."""

import contextlib
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.executor.slot.run_lock import BURST, SHARE, RunLock, allowed
from tests.support.servers import wait_for


class UnwantedError(Exception):
    """What a wait raises when the task is cancelled."""


@pytest.fixture
def new_lock(work: Path) -> Iterator[Callable[..., RunLock]]:
    """Makes the parts of slots that share a directory."""
    with contextlib.ExitStack() as stack:

        def build(**options: float) -> RunLock:
            run_lock = RunLock(work / "run_lock", **options)
            stack.callback(run_lock.close)
            return run_lock

        yield build


def never(seconds: float) -> None:
    raise UnwantedError(seconds)


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def free(run_lock: RunLock) -> bool:
    """Whether a run may start now."""
    try:
        with run_lock.shared(never):
            return True
    except UnwantedError:
        return False


def test_runs_go_side_by_side(new_lock):
    first, second = new_lock(), new_lock()
    with first.shared(never), second.shared(never):
        assert free(new_lock())


def test_no_run_starts_beside_an_exclusive_one(new_lock):
    first, second = new_lock(), new_lock()
    with first.exclusive(never) as alone:
        assert alone
        assert not free(second)
        with pytest.raises(UnwantedError), second.exclusive(never):
            pytest.fail("two are alone")
        with first.shared(never), first.shared(never):
            assert not free(second)  # its own runs need no turn, and end nothing
        assert not free(second)
    assert free(second)
    with second.exclusive(never) as alone:
        assert alone


def test_an_exclusive_run_waits_for_others_and_lets_no_new_one_start(new_lock):
    running, new, run_lock = new_lock(), new_lock(), new_lock()
    free_before = []

    def wait(seconds: float) -> None:
        free_before.append(free(new))
        running_now.close()

    running_now = contextlib.ExitStack()
    running_now.enter_context(running.shared(never))
    with run_lock.exclusive(wait) as alone:
        assert alone
    assert free_before == [False], "a new run would put it off for ever"


def test_the_wait_for_runs_on_their_way_ends_and_the_gate_is_open_again(new_lock):
    running, run_lock = new_lock(), new_lock(drain=0.05)
    with running.shared(never):
        with run_lock.exclusive(pause) as alone:
            assert not alone
            assert free(new_lock()), "nobody else is held up by a run that takes its time"
            with run_lock.shared(never):
                assert free(new_lock())
        assert free(new_lock())
        assert 0.05 <= run_lock.closed < 5


def test_the_wait_leaves_time_for_the_repetition(new_lock):
    """Waiting with the gate closed is part of the time that a submission may have alone."""
    running, run_lock = new_lock(), new_lock()
    with running.shared(never), run_lock.exclusive(pause, needs=1.0, most=1.05) as alone:
        assert not alone
        assert run_lock.closed < 5
    with running.shared(never), run_lock.exclusive(never, needs=2.0, most=1.0) as alone:
        assert not alone


def level(work: Path) -> float:
    """For how many seconds the gate could have been closed when it was opened last."""
    seconds: float = struct.unpack("=dd", (work / "run_lock" / "turn").read_bytes())[0]
    return seconds


def test_time_with_the_gate_closed_is_paid_for_and_grows_back(new_lock, work):
    run_lock = new_lock()
    with run_lock.exclusive(never, needs=4.0):
        assert level(work) == BURST - 4, "whoever is killed meanwhile has paid"
    assert level(work) == BURST - run_lock.closed


def test_a_run_that_may_not_close_the_gate_soon_is_not_exclusive(new_lock, work, monkeypatch):
    """Others have used it up: the repetition is made beside them, and nobody is held up."""
    run_lock, neighbour = new_lock(patience=0.2), new_lock()
    monkeypatch.setattr("judge.executor.slot.run_lock.allowed", lambda *_: 1.0)
    (work / "run_lock" / "turn").write_bytes(struct.pack("=dd", 1.0, 0.0))
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        assert free(neighbour), "nobody waits meanwhile"
        pause(seconds)

    with run_lock.exclusive(wait, needs=1.5) as alone:
        assert not alone
        assert free(neighbour)
    assert waits
    with run_lock.exclusive(never, needs=0.9) as alone:
        assert alone


def test_the_wait_for_an_exclusive_run_ends(new_lock):
    holder, run_lock = new_lock(), new_lock(patience=0.05)
    with holder.exclusive(never), run_lock.exclusive(pause) as alone:
        assert not alone


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 60), st.floats(0, 1)), max_size=60))
def test_the_gate_is_closed_for_a_bounded_part_of_the_time(closings):
    """Whoever wants what and when: a tenth of the time, a burst, and what one repetition took longer than expected."""
    level, then, now, closed = BURST, 0.0, 0.0, 0.0
    over = 0.0
    for pause_, needs, part in closings:
        now += pause_
        if allowed(level, then, now) < min(needs, BURST):
            continue
        took = needs * part
        level = allowed(level, then, now) - took
        now = then = now + took
        closed += took
        over = max(over, took - min(needs, BURST))
        assert closed <= BURST + SHARE * now + over + 1e-6


def test_after_a_boot_the_clock_begins_anew():
    assert allowed(-50.0, 1e9, 5.0) == BURST
    assert allowed(-1.0, 0.0, 5.0) == -1.0 + SHARE * 5.0


def test_a_wait_that_is_cancelled_leaves_nothing_locked(new_lock):
    running, run_lock = new_lock(), new_lock()
    with running.shared(never):
        with pytest.raises(UnwantedError), run_lock.exclusive(never):
            pytest.fail("not alone")
        assert free(new_lock())
    with running.exclusive(never), pytest.raises(UnwantedError), run_lock.shared(never):
        pytest.fail("not its turn")
    assert free(new_lock())


def test_without_a_directory_there_is_no_wait():
    run_lock = RunLock(None)
    with run_lock.exclusive(never) as alone, run_lock.shared(never):
        assert alone
    run_lock.close()


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
def test_the_kernel_lets_go_for_a_slot_that_dies(new_lock, work, mode):
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom judge.executor.slot.run_lock import RunLock\n"
        f"with RunLock(Path(sys.argv[1])).{mode}(time.sleep):\n    print('in', flush=True)\n    time.sleep(600)\n"
    )
    run_lock = new_lock()
    with subprocess.Popen([sys.executable, "-c", script, work / "run_lock"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in\n"
        with pytest.raises(UnwantedError), run_lock.exclusive(never):
            pytest.fail("not alone")
        os.kill(process.pid, signal.SIGKILL)
    with run_lock.exclusive(pause) as alone:
        assert alone


def test_every_exclusive_run_gets_its_turn(new_lock):
    inside: list[int] = []
    crowded: list[int] = []

    def slot(number: int) -> None:
        run_lock = new_lock()
        for _ in range(20):
            with run_lock.shared(pause):
                pause(0.0005)
            with run_lock.exclusive(pause) as alone:
                inside.append(number)
                if len(inside) != 1 or not alone:
                    crowded.append(number)
                pause(0.0005)
                inside.remove(number)

    threads = [threading.Thread(target=slot, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    wait_for(lambda: not any(thread.is_alive() for thread in threads), what="all slots to be done")
    assert not crowded
