"""Cores for slots, and room on the disk."""

import errno
import os
from collections import namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common.errors import RefusedError, UnavailableError
from judge.common.procfs import machine_memory
from judge.executor import machine
from judge.executor.machine import (
    Disk,
    first_of_each,
    for_want_of_space,
    memory_finding,
    parse_cpu_list,
    plan_memory,
    plan_slots,
    spare_cores,
    usable_cores,
)
from judge.executor.slot.memory_budget import BUILT
from judge.sandbox.check import CheckLevel


@pytest.mark.parametrize(("text", "cpus"), [("0", [0]), ("0-2,5\n", [0, 1, 2, 5]), ("", []), ("3,7", [3, 7])])
def test_cpu_lists(text, cpus):
    assert parse_cpu_list(text) == cpus


def test_one_cpu_per_core():
    assert first_of_each({0: [0, 4], 1: [1, 5], 4: [0, 4], 5: [1, 5]}) == [0, 1]
    assert first_of_each({4: [0, 4], 5: [1, 5]}) == [4, 5], "a core whose first CPU is not ours"


def test_topology(work, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    for cpu, siblings in ((0, "0-1"), (1, "0-1")):
        (work / f"cpu{cpu}" / "topology").mkdir(parents=True)
        (work / f"cpu{cpu}" / "topology" / "thread_siblings_list").write_text(siblings + "\n")
    assert usable_cores(work) == [0, 2]


@pytest.mark.parametrize(
    ("slots", "cores", "usable", "plan"),
    [
        ("auto", [], [0], [0]),
        ("auto", [], [0, 1], [0, 1]),
        ("auto", [], [0, 1, 2], [1, 2]),
        ("auto", [], list(range(8)), list(range(1, 8))),
        ("auto", [1, 3], list(range(8)), [1, 3]),
        (1, [], [0, 1], [1]),
        (2, [0, 1], [0, 1], [0, 1]),
        (4, [], [0, 1], [0, 1, 0, 1]),
    ],
)
def test_plans(slots, cores, usable, plan, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(usable))
    assert plan_slots(slots, cores, usable) == plan


@given(st.integers(1, 64), st.just("auto") | st.integers(1, 64))
def test_every_slot_has_a_core(count, slots):
    plan = plan_slots(slots, [], list(range(count)))
    assert len(plan) >= 1
    assert set(plan) <= set(range(count))
    if slots == "auto":
        assert len(plan) == len(set(plan))
        assert count <= 2 or 0 not in plan


def test_a_core_that_is_not_ours():
    with pytest.raises(RefusedError, match="core 4096 is not one"):
        plan_slots("auto", [4096], usable_cores())


@given(st.integers(1, 256), st.integers(2**28, 2**44), st.one_of(st.just("auto"), st.integers(2**26, 2**40)))
def test_the_slots_together_never_want_more_than_there_is(slots, total, memory):
    if memory != "auto" and (memory + BUILT) * slots > total:
        with pytest.raises(RefusedError, match="want more than"):
            plan_memory(memory, slots, total)
        return
    share = plan_memory(memory, slots, total)
    assert share == 0 or (share + BUILT) * slots <= total
    assert memory in {"auto", share}


def test_the_memory_of_a_container_is_its_limit(work):
    total = machine_memory(work)
    assert total == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    (work / "sys/fs/cgroup/memory").mkdir(parents=True)
    limit = work / "sys/fs/cgroup/memory/memory.limit_in_bytes"
    for text, memory in (("9223372036854771712\n", total), ("1048576\n", 1048576)):
        limit.write_text(text)
        assert machine_memory(work) == memory
    limit.unlink()
    for text, memory in (("max\n", total), ("4096\n", 4096)):
        (work / "sys/fs/cgroup/memory.max").write_text(text)
        assert machine_memory(work) == memory


def test_a_slot_with_little_memory_is_a_warning():
    assert memory_finding(2**31, 2**31).level is CheckLevel.PASS
    assert memory_finding(2**30, 2**31).level is CheckLevel.WARN


Stat = namedtuple("Stat", "f_bavail f_frsize")


def test_disk(work, monkeypatch, caplog):
    caplog.set_level("INFO")
    free = [100]
    monkeypatch.setattr(machine.os, "statvfs", lambda _: Stat(free[0], 1))
    disk = Disk(work, 100)

    def room(now: float) -> bool:
        disk.step(now)
        assert disk.next_due() > now
        return not disk.full

    assert room(0.0)
    assert disk.finding() is None
    free[0] = 99
    assert not room(1.0)
    assert not room(2.0)
    assert disk.finding().startswith("FAIL disk: less than 100 bytes")
    free[0] = 105
    assert not room(3.0), "just above the bound the state does not flap"
    free[0] = 110
    assert room(4.0)
    disk.failed(5.0)
    assert not room(5.0), "after a failed write the figure is not believed"
    assert room(10.0)
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO", "ERROR", "INFO"]


def test_a_directory_that_is_gone_has_no_room(work):
    for needed in (0, 1):
        disk = Disk(work / "missing", needed)
        disk.step(0.0)
        assert disk.full == (needed > 0)


def test_want_of_space_is_found_behind_other_errors():
    assert for_want_of_space(OSError(errno.ENOSPC, "x"))
    assert not for_want_of_space(OSError(errno.EACCES, "x"))
    assert not for_want_of_space(None)

    def write() -> None:
        try:
            raise OSError(errno.EDQUOT, "x")
        except OSError:
            raise UnavailableError("the disk is full") from None

    with pytest.raises(UnavailableError) as caught:
        write()
    assert for_want_of_space(caught.value)


@pytest.mark.parametrize(
    ("slots", "usable", "spare"),
    [
        ([1], [0, 1], [0]),
        ([0, 1], [0, 1], []),
        ([1, 2, 3], [0, 1, 2, 3], [0]),
        ([4, 5, 6, 7], [0, 1, 4, 5, 6, 7], [0, 1]),
        ([1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5], []),  # one core would be too slow for five slots
        ([1, 1], [0, 1], [0]),
    ],
)
def test_spare_cores_make_sandboxes_when_they_are_not_too_few(slots, usable, spare):
    assert spare_cores(slots, usable) == spare
