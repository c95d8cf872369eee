"""Checks of this machine: whether it can sandbox, and what makes timing unsteady (isolate-check-environment's list)."""

from __future__ import annotations

import enum
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judge.common.errors import SandboxError
from judge.model.messages import Limits
from judge.sandbox import drivers
from judge.sandbox.agent import BINARY
from judge.sandbox.pool import SandboxPool
from judge.sandbox.types import Command, Killed

MIB = 1024**2
_OLDEST_KERNEL = (5, 14)
# Its own pages, so that no system call is killed within the kernel: kernels of user-mode Linux do not survive that.
_KILLED_BY_MEMORY = ["/bin/sh", "-c", "a=xxxxxxxxxxxxxxxx; while :; do a=$a$a; done"]
_STOPPED_BY_PROCESSES = ["/bin/sh", "-c", "sleep 0 & sleep 0 & sleep 0 & sleep 0 & wait"]
_READS_PROC = ["/bin/cat", "/proc/self/mountinfo"]
_BURNS_CPU = ["/bin/sh", "-c", "while :; do :; done"]


class CheckLevel(enum.StrEnum):
    """PASS: as it should be. WARN: works, but timing or safety suffers. FAIL: no full sandbox."""

    PASS = "PASS"  # noqa: S105 - not a password
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True)
class CheckedItem:
    """One checked item, and a sentence that says what was found and what to do."""

    level: CheckLevel
    item: str
    text: str


def available(root: str = "judge", name: str = "check") -> str | None:
    """None when a full sandbox works here, tried for real (about 0.2 s); else the reason why it does not.

    Called by the executor at its start. `root` is `config.cgroup`; `name` should be the executor's.
    """
    return next((f"{f.item}: {f.text}" for f in _sandbox(root, name) if f.level is CheckLevel.FAIL), None)


def check_machine(root: str = "judge", name: str = "check", cores: Sequence[int] = ()) -> list[CheckedItem]:
    """Every item, in the order to read them. `cores`: the logical CPUs of the slots."""
    return [*_sandbox(root, name), *_timing(Path("/"), cores)]


def _sandbox(root: str, name: str) -> Iterable[CheckedItem]:
    """Check what a full sandbox needs; stop at the first thing without which the rest cannot be tried."""
    release = platform.release()
    version = tuple(int(part) for part in re.findall(r"\d+", release)[:2])
    if version < _OLDEST_KERNEL:
        oldest = ".".join(map(str, _OLDEST_KERNEL))
        yield CheckedItem(CheckLevel.FAIL, "kernel", f"{release} is too old; {oldest} or newer is needed")
        return
    yield CheckedItem(CheckLevel.PASS, "kernel", release)
    if os.geteuid() != 0:
        yield CheckedItem(
            CheckLevel.FAIL, "root", "the executor needs root to give each sandbox users and cgroups of its own"
        )
        return
    bubblewrap = shutil.which("bwrap", path="/usr/bin")
    if bubblewrap is None:
        yield CheckedItem(CheckLevel.FAIL, "bubblewrap", "/usr/bin/bwrap is missing; install the package bubblewrap")
        return
    answer = subprocess.run([bubblewrap, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    yield CheckedItem(CheckLevel.PASS, "bubblewrap", answer)
    if not BINARY.is_file():
        yield CheckedItem(
            CheckLevel.FAIL, "agent", f"{BINARY} is missing; install the package with pip or run make, with gcc"
        )
        return
    driver = drivers.find()
    if driver is None:
        text = "the controllers memory, pids and CPU accounting are not all at hand; boot with cgroups (version 2)"
        yield CheckedItem(CheckLevel.FAIL, "cgroups", text)
        return
    if driver.version == "v1":
        shares = "" if driver.shares else "; without the controller cpu, programs with many sessions may end late"
        yield CheckedItem(
            CheckLevel.WARN, "cgroups", f"version 1 works, version 2 is what new kernels care for{shares}"
        )
    else:
        yield CheckedItem(CheckLevel.PASS, "cgroups", "version 2")
    try:
        yield from _probe(root, name)
    except SandboxError as exc:
        yield CheckedItem(CheckLevel.FAIL, "sandbox", str(exc))


def _probe(root: str, name: str) -> list[CheckedItem]:
    """Pass every limit once: some hosts accept limits and do not enforce them (containers with a read-only /sys)."""
    pool = SandboxPool(f"{name}-probe", root)
    try:
        with pool.take() as sandbox:

            def run(argv: Sequence[str], limits: Limits) -> tuple[frozenset[Killed], bytes]:
                with sandbox.run(Command(argv, limits)) as outcome:
                    return outcome.killed, outcome.read_stderr(200)

            memory, _ = run(_KILLED_BY_MEMORY, Limits(cpu=5, memory=32 * MIB))
            _, refused = run(_STOPPED_BY_PROCESSES, Limits(cpu=5, processes=2))
            cpu, _ = run(_BURNS_CPU, Limits(cpu=0.05, wall=10))
            _, hidden = run(_READS_PROC, Limits(cpu=5))
    finally:
        pool.close()
    results = {
        "memory limit": Killed.MEMORY in memory,
        "process limit": b"fork" in refused.lower(),
        "CPU limit": Killed.CPU in cpu,
    }
    files = _rate(
        "files of /proc",
        b"denied" in hidden,
        "cannot be read by programs",
        "show programs what others on this host do: the kernel has no Landlock; boot with lsm=landlock,... "
        "(docs/sandbox.md)",
    )
    return [
        files,
        *_enforced(results),
    ]


def _enforced(results: Mapping[str, bool]) -> list[CheckedItem]:
    return [
        CheckedItem(CheckLevel.PASS, item, "enforced (a program over it was tried)")
        if enforced
        else CheckedItem(
            CheckLevel.FAIL, item, "accepted but not enforced; give this host real cgroups (see docs/sandbox.md)"
        )
        for item, enforced in results.items()
    ]


# Long, since it is a list: one finding after the other, none of which uses another.
def _timing(base: Path, cores: Sequence[int]) -> Iterable[CheckedItem]:
    def text(path: str) -> str | None:
        try:
            return (base / path).read_text().strip()
        except OSError:
            return None

    def chosen_option(path: str) -> str | None:
        """The word in brackets of a sysfs choice."""
        match = re.search(r"\[(\S+)\]", text(path) or "")
        return match[1] if match else None

    yield _rate(
        "swap",
        len((text("proc/swaps") or "").splitlines()) <= 1,
        "off",
        "is on; memory may hide there and timing suffers: swapoff -a",
    )
    siblings = [text(f"sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list") for core in sorted({*cores})]
    shared = [core for core in siblings if core is not None and siblings.count(core) > 1]
    yield _rate(
        "SMT",
        text("sys/devices/system/cpu/smt/active") != "1" or not shared,
        "no two slots share a core",
        f"is on: slots share a core (CPUs {shared[0] if shared else ''}); correct 'cores' or judge_executor_smt",
    )
    governors = {p.read_text().strip() for p in base.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")}
    yield _item(
        "frequency governor",
        " ".join(sorted(governors)) or None,
        lambda v: v == "performance",
        "is in force; cpupower frequency-set -g performance",
    )
    turbo = text("sys/devices/system/cpu/intel_pstate/no_turbo")
    boost = text("sys/devices/system/cpu/cpufreq/boost")
    steady = None if turbo is None and boost is None else str(int(turbo == "1" or boost == "0"))
    yield _item("turbo", steady, lambda v: v == "1", "is on: speed depends on temperature; switch it off")
    yield _item(
        "NUMA balancing",
        text("proc/sys/kernel/numa_balancing"),
        lambda v: v == "0",
        "moves pages of running programs; sysctl kernel.numa_balancing=0",
    )
    # It protects the host, so it is on unless the operator wants it off (judge_executor_aslr).
    yield CheckedItem(CheckLevel.PASS, "ASLR", "off" if text("proc/sys/kernel/randomize_va_space") == "0" else "on")
    for item, path, good in (
        ("THP", "sys/kernel/mm/transparent_hugepage/enabled", ("madvise", "never")),
        ("THP defrag", "sys/kernel/mm/transparent_hugepage/defrag", ("madvise", "never")),
    ):
        yield _item(item, chosen_option(path), good.__contains__, f"is in force; echo madvise > /{path}")
    yield _item(
        "khugepaged",
        text("sys/kernel/mm/transparent_hugepage/khugepaged/defrag"),
        lambda v: v == "0",
        "defragments in the background; echo 0 to its defrag file",
    )
    yield _item(
        "core pattern",
        text("proc/sys/kernel/core_pattern"),
        lambda v: not v.startswith("|"),
        "starts a program at every crash; sysctl kernel.core_pattern=core",
    )
    yield _item(
        "protected hardlinks",
        text("proc/sys/fs/protected_hardlinks"),
        lambda v: v == "1",
        "is the setting; sysctl fs.protected_hardlinks=1",
    )
    yield _rate(
        "pid counter",
        text("proc/sys/kernel/pid_max") is None or text("proc/sys/kernel/ns_last_pid") is not None,
        "set back before each run",
        "shows each test how many processes the tests before it made: the kernel lacks CONFIG_CHECKPOINT_RESTORE",
    )
    speeds = {p.read_text().strip() for p in base.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq/cpuinfo_max_freq")} | {
        p.read_text().strip() for p in base.glob("sys/devices/system/cpu/cpu[0-9]*/cpu_capacity")
    }
    yield _rate(
        "equal cores", len(speeds) <= 1, "all cores are alike", "cores differ in speed; list equal ones under 'cores'"
    )


def _rate(item: str, good: bool, well: str, badly: str) -> CheckedItem:
    return CheckedItem(CheckLevel.PASS, item, well) if good else CheckedItem(CheckLevel.WARN, item, badly)


def _item(item: str, value: str | None, good: Callable[[str], bool], badly: str) -> CheckedItem:
    """A setting that this machine may not have (virtual ones lack most), which is as good as a right one."""
    if value is None:
        return CheckedItem(CheckLevel.PASS, item, "not present on this machine")
    return (
        CheckedItem(CheckLevel.PASS, item, value)
        if good(value)
        else CheckedItem(CheckLevel.WARN, item, f"'{value}' {badly}")
    )
