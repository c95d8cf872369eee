"""The machine under an executor: which cores its slots get, and whether its disk has room."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Literal

from judge.common.errors import RefusedError
from judge.common.text import size
from judge.executor.slot.memory_budget import BUILT
from judge.sandbox.check import CheckedItem, CheckLevel

log = logging.getLogger(__name__)

_TOPOLOGY = Path("/sys/devices/system/cpu")
_SLOTS_PER_SPARE = 4
# After the disk said "no space", believe the free-space figure again only after this many seconds: quotas and reserved
# blocks make it say more than can be written.
_DISTRUST = 5.0
# A full disk has room again only this fraction of the bound above it (a tenth), so that the state does not flap.
_HYSTERESIS = 10
# Seconds between two looks while nothing happens.
LOOK = 1.0
_FOR_SLOTS = Fraction(7, 8)


def parse_cpu_list(text: str) -> list[int]:
    """The kernel's list format: `0-2,5` is [0, 1, 2, 5]."""
    cpus: list[int] = []
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            cpus.extend(range(int(first), int(last or first) + 1))
    return cpus


def usable_cores(topology: Path = _TOPOLOGY) -> list[int]:
    """One logical CPU of every physical core that this process may use, in ascending order."""
    allowed = os.sched_getaffinity(0)
    siblings: dict[int, Iterable[int]] = {}
    for cpu in sorted(allowed):
        try:
            text = (topology / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text(encoding="ascii")
        except OSError:
            text = str(cpu)  # containers may hide the topology; then every CPU counts as a core
        siblings[cpu] = parse_cpu_list(text)
    return first_of_each(siblings)


def first_of_each(siblings: Mapping[int, Iterable[int]]) -> list[int]:
    """Out of `CPU -> the CPUs of its core`, the lowest known CPU of each core."""
    covered_cpus: set[int] = set()
    firsts = []
    for cpu in sorted(siblings):
        if cpu not in covered_cpus:
            firsts.append(cpu)
            covered_cpus.update(siblings[cpu])
            covered_cpus.add(cpu)
    return firsts


def plan_slots(slots: int | Literal["auto"], cores: list[int], usable: list[int]) -> list[int]:
    """The core of every slot (docs/executor.md).

    `auto` is one slot per physical core, but on machines with more than two cores one is left for the rest. Without a
    list of cores the last ones are used, because interrupts and daemons favour the first. More slots than cores share
    cores. RefusedError when a listed core cannot be used.
    """
    allowed = os.sched_getaffinity(0)
    forbidden = sorted(set(cores) - allowed)
    if forbidden:
        raise RefusedError(
            f"cores: core {forbidden[0]} is not one that this process may use; it may use {sorted(allowed)}"
        )
    spare = 1 if len(usable) > 2 else 0
    count = (len(cores) or len(usable) - spare) if slots == "auto" else slots
    pool = cores or usable[-count:]
    return [pool[index % len(pool)] for index in range(count)]


def plan_memory(memory: int | Literal["auto"], slots: int, total: int) -> int:
    """Bytes that each slot keeps for its runs, so that all slots together never need more than the machine has.

    `total` is the machine's; `auto` leaves an eighth of it to the rest, and BUILT beside each share for what is built.
    RefusedError when it is not there.
    """
    if memory == "auto":
        return max(0, min(total * _FOR_SLOTS // slots, total // slots - BUILT))
    if (memory + BUILT) * slots > total:
        slot_text = f"{size(memory)} each, with {size(BUILT)} beside for what they build,"
        msg = f"slot_memory: {slots} slots of {slot_text} want more than the {size(total)} of this machine"
        raise RefusedError(msg)
    return memory


def memory_finding(share: int, default: int) -> CheckedItem:
    """The line of the start gate about a slot's memory; `default` is what problems get that do not say."""
    item, text = "memory per slot", size(share)
    if share >= default:
        return CheckedItem(CheckLevel.PASS, item, text)
    less = (
        f"problems without a limit of their own get this instead of {size(default)}, those that want more go elsewhere"
    )
    return CheckedItem(CheckLevel.WARN, item, f"{text}: {less}; use fewer slots, or a bigger machine")


def spare_cores(slots: Sequence[int], usable: Sequence[int]) -> list[int]:
    """The cores without a slot on which sandboxes are made; none when they are too few for so many slots.

    Making one takes about a tenth of the time in which a small submission is judged, so a spare core serves some slots
    beside its other work; with more of them each makes its own.
    """
    spare = sorted(set(usable) - set(slots))
    return spare if len(slots) <= _SLOTS_PER_SPARE * len(spare) else []


def for_want_of_space(error: BaseException | None) -> bool:
    """Return whether an error, or one that it was made from, says that a disk is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
            return True
        error = error.__cause__ or error.__context__
    return False


class Disk:
    """Watches whether the work directory has room for judging: hears of failures, and looks in each turn of a loop."""

    def __init__(self, directory: Path, min_free: int) -> None:
        """`min_free` bytes must stay free under `directory`."""
        self._directory = directory
        self._min = min_free
        self._distrust_until = 0.0
        self._checked_at = 0.0
        self.full = False

    def failed(self, now: float) -> None:
        """Note that a write failed for want of space. `now` is monotonic seconds."""
        self._distrust_until = now + _DISTRUST

    def next_due(self) -> float:
        return self._checked_at + LOOK

    def step(self, now: float) -> None:
        """Look how much is free; `full` then says whether there is room. It logs each change once. `now`: monotonic."""
        self._checked_at = now
        try:
            stat = os.statvfs(self._directory)
            free = stat.f_bavail * stat.f_frsize
        except OSError as exc:
            log.warning("%s cannot be asked for its free space: %s", self._directory, exc.strerror)
            free = 0
        need = self._min + self._min // _HYSTERESIS if self.full else self._min
        full = free < need or now < self._distrust_until
        if full and not self.full:
            log.error(
                "no room under %s: %d bytes free, min_free_bytes is %d; no tasks are taken until there is room",
                self._directory,
                free,
                self._min,
            )
        elif self.full and not full:
            log.info("room again under %s: %d bytes free; tasks are taken again", self._directory, free)
        self.full = full

    def finding(self) -> str | None:
        """The sentence for ExecutorInfo.checks while the disk is full."""
        if not self.full:
            return None
        return f"FAIL disk: less than {self._min} bytes free under {self._directory}; no tasks are taken"
