"""The sandbox's parts that need no container."""

import errno
import operator
import os
import platform
import select
import signal
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common import procfs
from judge.common.errors import SandboxError
from judge.sandbox import cgroup, cgroup_v2, check, drivers, meeting, seccomp
from judge.sandbox.agent import BINARY
from judge.sandbox.cgroup_v1 import DriverV1
from judge.sandbox.check import CheckLevel
from judge.sandbox.container import uid_window
from judge.sandbox.meeting import judged_by_own_end
from judge.sandbox.types import Killed, RunOutcome
from tests.support.ansible import GROUPS, render, variables
from tests.support.packages import write

FILTER = seccomp.build()
ALLOWED, KILLED, NOT_THERE, DONE = 0x7FFF0000, 0x80000000, 0x00050000 | errno.ENOSYS, 0x00050000
REFUSALS = {0x00050000 | error for error in (errno.EPERM, errno.EINVAL, errno.ENOTTY, errno.EAFNOSUPPORT)}
WHOLE = "         0          0 4294967295\n"
# Of linux/audit.h, and of BPF what libseccomp makes.
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
LOAD, AND, ALWAYS, RETURN = 0x20, 0x54, 0x05, 0x06
JUMPS = {0x15: operator.eq, 0x25: operator.gt, 0x35: operator.ge, 0x45: operator.and_}


def test_containers_get_users_far_from_all_others():
    assert uid_window(WHOLE) == (1_900_000_000, 4_194_304)


@given(st.integers(0, 3_000_000_000), st.integers(65536, 2**31))
def test_the_users_of_a_window_are_always_mapped(start, length):
    first, pairs = uid_window(f"{start} 100000 {length}\n5 6 7\n")
    assert start <= first and first + 2 * pairs <= start + length and pairs >= 1


def test_the_driver_is_found_by_mounts(work):
    v1 = "".join(f"cgroup {work}/{key} cgroup rw,{key} 0 0\n" for key in ("memory", "pids", "cpuacct"))
    own = drivers.find(v1 + f"cgroup {work}/cpu cgroup rw,cpu 0 0\n")
    assert isinstance(own, DriverV1) and own.shares
    joined = f"cgroup {work}/cpu cgroup rw,cpu,cpuacct 0 0\n"
    assert drivers.find(v1).version == drivers.find(v1.replace("cpuacct", "cpuset") + joined).version == "v1"
    assert drivers.find(v1.replace("pids", "freezer")) is None
    assert drivers.find("") is None
    unified = f"cgroup2 {work} cgroup2 rw 0 0\n"
    assert drivers.find(unified) is None
    (work / "cgroup.controllers").write_text("cpuset cpu io\n")
    assert drivers.find(unified) is None
    (work / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    assert drivers.find(unified + v1).version == "v2"


def test_counter_files_are_read_by_whole_keys():
    text = b"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"
    assert cgroup.field(text, b"oom_kill") == 3 and cgroup.field(text, b"oom") == 0
    assert cgroup.field(b"total_cache 7\ncache 5\n", b"cache") == 5 and cgroup.field(b"a 1", b"a") == 1
    assert cgroup.field(b"total_cache 7\n", b"cache") == cgroup.field(b"", b"cache") == 0
    assert cgroup.cache(b"inactive_file 8192\nactive_file 4096\nfile 99\n") == 12288


@given(*[st.integers(0, 1 << 30)] * 5)
def test_reading_never_hides_memory(own, before, after, files, room):
    """At its own peak a group had its files, the program's memory, and cache: less only at the limit."""
    peak = files + max(own + min(before, after), before, after)
    limit = peak + room
    assert cgroup.programs(peak, limit, files, (before, after)) >= own
    at_limit = cgroup.programs(max(files + own, limit - 100_000), limit, files, (before, after))
    assert at_limit >= min(own, limit - files - 1)
    assert cgroup.programs(files + own + before, 1 << 40, files, (before, before)) == own


@given(*[st.integers(0, 1 << 30)] * 3, st.integers(0, 1 << 20))
def test_page_cache_does_not_count_as_memory(own, files, before, forced):
    """The kernel may charge some pages beyond the limit; whoever needs more of their own is killed for it."""
    limit = own + files + (8 << 20)
    used = cgroup.programs(limit + forced, limit, files, (before, 8 << 20))
    assert own <= used < limit - files
    assert cgroup.programs(limit + forced, limit, files, (before, 1 << 20)) >= limit - files


def test_a_process_is_named_by_pid_and_start():
    assert cgroup.owned_name("x") == f"x.{os.getpid()}.{procfs.start_time(os.getpid())}"
    assert procfs.start_time(4194304) is None


def test_only_trees_of_dead_processes_are_abandoned(work, monkeypatch):
    for name in (cgroup.owned_name("live"), "dead.4194304.1", f"reused.{os.getpid()}.1", "foreign", "odd.x.y"):
        (work / name).mkdir()
    assert [path.name for path in cgroup.abandoned(work)] == ["dead.4194304.1", f"reused.{os.getpid()}.1"]
    assert list(cgroup.abandoned(work / "none")) == []
    owned = cgroup.owned_name("live")
    monkeypatch.setattr(procfs, "read", lambda *_: None)
    assert owned not in {path.name for path in cgroup.abandoned(work)}, "its process cannot be read"


def test_a_group_that_cannot_be_removed_is_left_with_a_warning(work, caplog):
    (work / "stuck" / "inner").mkdir(parents=True)
    (work / "stuck" / "inner" / "file").write_text("")
    cgroup.remove(work / "stuck", 0.05)
    assert "stuck cannot be removed" in caplog.text


@pytest.fixture
def kernel(monkeypatch, work):
    """Plain files where a kernel would make a version 2 group's: what is written and read can be seen."""

    def new(directory: Path) -> None:
        directory.mkdir()
        for name, text in {
            "cgroup.procs": "", "memory.current": "1000\n", "memory.peak": "9000000\n", "memory.swap.max": "max\n",
            "memory.stat": "shmem 4096\nactive_file 10\ninactive_file 20\n", "memory.events": "oom 0\noom_kill 0\n",
            "cpu.stat": "usage_usec 1500000\n", "pids.peak": "7\n", "pids.max": "max\n", "memory.max": "max\n",
            "memory.oom.group": "0\n",
        }.items():  # fmt: skip
            (directory / name).write_text(text)

    monkeypatch.setattr(cgroup_v2, "_new", new)
    monkeypatch.setattr(cgroup, "remove", lambda directory: directory.rename(directory.with_suffix(".gone")))
    return work


def test_version_2_groups_limit_and_count(kernel):
    group = cgroup_v2.GroupV2(kernel / "1", keeps=True)
    group.watch(1)
    leaf = kernel / "1-1"
    assert (leaf / "memory.oom.group").read_text() == "1" and (leaf / "memory.swap.max").read_text() == "0"
    group.begin(1 << 24, 5)
    assert (leaf / "memory.max").read_text() == str((1 << 24) + 4096) and (leaf / "pids.max").read_text() == "5"
    assert (leaf / "memory.peak").read_text().startswith("reset") and group.resettable
    (leaf / "memory.peak").write_text("5000000\n")
    (leaf / "cpu.stat").write_text("usage_usec 1750000\nuser_usec 1\n")
    (leaf / "memory.events").write_text("oom 1\noom_kill 1\n")
    assert group.cpu() == 0.25 and group.over_memory()
    assert group.finish() == cgroup.MeasuredUsage(0.25, 5_000_000 - 4096 - 30, 7, oom=True)
    group.begin(1 << 24, 5)
    assert Path(f"/proc/self/fd/{group.run_fd}").readlink() == kernel / "1-1" and (kernel / "1-1").exists()
    assert group.spec() == "-" and group.event_fd is None
    group.close()
    assert (kernel / "1-1.gone").exists()
    with pytest.raises(SandboxError, match="closed"):
        group.begin(1, 1)


def test_kernels_that_cannot_reset_their_peaks_get_a_leaf_for_each_run(kernel, monkeypatch):
    monkeypatch.setattr(cgroup_v2.GroupV2, "_optional", lambda self, path, flags=0: self._fd(path))  # refuses the write
    group = cgroup_v2.GroupV2(kernel / "1", keeps=True)
    group.begin(1 << 24, 5)
    assert group.finish().memory == 9_000_000 - 4096 - 30
    group.begin(1 << 24, 5)
    assert (kernel / "1-1.gone").exists() and (kernel / "1-2").exists()
    group.close()


def test_kernels_without_a_peak_are_watched(kernel, monkeypatch):
    monkeypatch.setattr(cgroup_v2.GroupV2, "_optional", lambda self, path, flags=0: None)
    group = cgroup_v2.GroupV2(kernel / "1", keeps=True)
    group.begin(1 << 24, 5)
    (kernel / "1-1" / "memory.current").write_text("700000\n")
    group.cpu()
    (kernel / "1-1" / "memory.current").write_text("100\n")
    assert group.finish().memory == 700_000 - 4096 - 30 and group.finish().processes == 0
    group.close()


def test_version_2_trees_lie_below_the_service_or_the_root(work, monkeypatch):
    service = work / "system.slice" / "judge-executor.service"
    service.mkdir(parents=True)
    (service / "cgroup.procs").write_text("")
    monkeypatch.setattr(cgroup_v2, "own_path", lambda: "/system.slice/judge-executor.service")
    monkeypatch.setattr(cgroup, "remove", lambda directory: None)
    driver = cgroup_v2.DriverV2(work)
    real = cgroup.make

    def make(path: Path) -> None:
        real(path)
        (path.parent / "cgroup.procs").touch()

    monkeypatch.setattr(cgroup, "make", make)
    tree = driver.tree("judge", "e-0")
    assert [path.name for path in tree.joins] == ["cgroup.procs"] and not tree.namespace
    assert tree.joins[0].is_relative_to(service / "judge") and (service / "daemon").is_dir()
    assert (service / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    tree.close()
    monkeypatch.setattr(cgroup_v2, "own_path", lambda: "/system.slice/judge-executor.service/daemon")
    assert driver.tree("judge", "e-1").joins[0].is_relative_to(service / "judge")
    monkeypatch.setattr(cgroup_v2, "own_path", lambda: "/user.slice/session-1.scope")
    assert driver.tree("judge", "e-2").joins[0].is_relative_to(work / "judge")
    assert driver.tree("/deep/judge", "e-3").joins[0].is_relative_to(work / "deep" / "judge")
    with pytest.raises(SandboxError, match="Delegate=yes"):
        cgroup_v2.DriverV2(Path("/proc/no")).tree("judge", "e-4")


def test_own_path_is_read_from_proc():
    assert cgroup_v2.own_path().startswith("/")


def evaluated(
    program: bytes,
    number: int,
    arch: int = AUDIT_ARCH[platform.machine()],
    words: Mapping[int, int] = MappingProxyType({}),
) -> tuple[int, int]:
    """The instructions passed, and what the filter says: an action of linux/seccomp.h.

    `words` are halves of arguments by their places in struct seccomp_data; the others are 0.
    """
    data = bytearray(struct.pack("=iIQ6Q", number, arch, 0, *[0] * 6))
    for place, word in words.items():
        struct.pack_into("=I", data, place, word)
    loaded = at = count = 0
    while True:
        code, yes, no, value = struct.unpack_from("=HBBI", program, 8 * at)
        at, count = at + 1, count + 1
        if code == LOAD:
            (loaded,) = struct.unpack_from("=I", data, value)
        elif code == AND:
            loaded &= value
        elif code == ALWAYS:
            at += value
        elif code in JUMPS:
            at += yes if JUMPS[code](loaded, value) else no
        else:
            assert code == RETURN, hex(code)
            return count, value


@given(st.integers(0, 0x3FFFFFFF))
def test_unknown_system_calls_do_not_exist(number):
    action = evaluated(FILTER, number)[1]
    assert action == NOT_THERE if number > seccomp.NEWEST else action in {ALLOWED, NOT_THERE, KILLED, DONE, *REFUSALS}


@given(st.integers(-(2**31), seccomp.NEWEST))
def test_another_architecture_is_killed(number):
    assert evaluated(FILTER, number, AUDIT_ARCH["x86_64"] ^ 1)[1] == KILLED


def test_x32_calls_are_killed():
    if platform.machine() == "x86_64":
        assert {evaluated(FILTER, 0x40000000 + number)[1] for number in (*range(600), 0x3FFFFFFF)} == {KILLED}


def test_the_filter_is_a_search_tree():
    """The kernel tries all numbers when a filter is set: as a list that cost every run 0.1 ms (docs/decisions/004)."""
    program = seccomp.build()
    passed = [evaluated(program, number)[0] for number in range(470)]
    assert max(passed) < len(program) // 8 / 3
    assert sum(passed) / len(passed) < 20


def test_the_agent_refuses_what_it_does_not_know():
    for arguments in ([], ["serve"], ["launch", "-x"], ["launch"], ["other"]):
        process = subprocess.run([BINARY, *arguments], capture_output=True, check=False)
        assert process.returncode == 64, arguments
    process = subprocess.run([BINARY, "launch", "-n", "x", "--", "/bin/true"], capture_output=True, check=False)
    assert process.returncode == 70 and process.stderr == b"agent: x: Invalid argument\n"
    process = subprocess.run([BINARY, "launch", "--", "/no/program"], capture_output=True, check=False)
    assert process.returncode == 70 and b"/no/program: No such file" in process.stderr


FILES = {
    "proc/swaps": "Filename\n/dev/sda2\n",
    "sys/devices/system/cpu/smt/active": "1\n",
    "sys/devices/system/cpu/cpu0/topology/thread_siblings_list": "0-1\n",
    "sys/devices/system/cpu/cpu1/topology/thread_siblings_list": "0-1\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "3000\n",
    "sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq": "2000\n",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "0\n",
    "proc/sys/kernel/numa_balancing": "1\n",
    "proc/sys/kernel/randomize_va_space": "2\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    "sys/kernel/mm/transparent_hugepage/defrag": "[always] defer madvise never\n",
    "sys/kernel/mm/transparent_hugepage/khugepaged/defrag": "1\n",
    "proc/sys/kernel/core_pattern": "|/usr/bin/apport\n",
    "proc/sys/fs/protected_hardlinks": "0\n",
    "proc/sys/kernel/pid_max": "32768\n",
}
GOOD = {
    "proc/swaps": "Filename\n",
    "sys/devices/system/cpu/smt/active": "0\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/cpu/cpufreq/boost": "0\n",
    "proc/sys/kernel/numa_balancing": "0\n",
    "proc/sys/kernel/randomize_va_space": "0\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/kernel/mm/transparent_hugepage/defrag": "always [never]\n",
    "sys/kernel/mm/transparent_hugepage/khugepaged/defrag": "0\n",
    "proc/sys/kernel/core_pattern": "core\n",
    "proc/sys/fs/protected_hardlinks": "1\n",
    "proc/sys/kernel/pid_max": "32768\n",
    "proc/sys/kernel/ns_last_pid": "1\n",
}


@pytest.mark.parametrize(("files", "level"), [(FILES, CheckLevel.WARN), (GOOD, CheckLevel.PASS), ({}, CheckLevel.PASS)])
def test_settings_that_disturb_timing_are_warned_about(work, files, level):
    write(work, files)
    findings = list(check._timing(work, [0, 1]))
    assert {finding.level for finding in findings if finding.item != "ASLR"} == {level}, findings
    assert len(findings) == 13 and all(finding.text for finding in findings)
    (smt,) = (finding for finding in check._timing(work, [1]) if finding.item == "SMT")
    assert smt.level is CheckLevel.PASS


def test_a_deployed_executor_has_nothing_to_warn_of(work):
    """With the role's own defaults: a column that always warns is not read."""
    files = {name: text for name, text in FILES.items() if name in GOOD} | {"proc/sys/kernel/ns_last_pid": "1\n"}
    files["proc/swaps"] = "Filename\n"  # the role's tasks switch it off
    values = variables("e1", GROUPS, formed=True)
    for line in render("executor", "tmpfiles.conf.j2", values).splitlines():
        if line.startswith("w"):
            path, value = line.split()[1].strip("/").replace("cpu*", "cpu0"), line.split()[-1]
            choice = "transparent_hugepage" in path and "khugepaged" not in path
            files[path] = f"always [{value}]\n" if choice else f"{value}\n"
    for line in render("executor", "sysctl.conf.j2", values).splitlines():
        if " = " in line:
            key, value = line.removeprefix("-").split(" = ")
            files[f"proc/sys/{key.replace('.', '/')}"] = f"{value}\n"
    write(work, files)
    assert [finding for finding in check._timing(work, [0, 1]) if finding.level is not CheckLevel.PASS] == []


def test_an_old_kernel_and_missing_parts_are_named(monkeypatch, work):
    monkeypatch.setattr("platform.release", lambda: "5.10.0-1-amd64")
    assert "too old" in (check.available() or "")
    monkeypatch.setattr("platform.release", lambda: "6.1.0-1-amd64")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name, path: None)
    assert "install the package bubblewrap" in (check.available() or "")
    monkeypatch.undo()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(check, "BINARY", work / "agent")
    assert "run make" in (check.available() or "")


@pytest.mark.parametrize(
    ("ended", "killed"),
    [(1.0, {Killed.MEMORY}), (2.0, {Killed.MEMORY}), (2.1, {Killed.MEMORY, Killed.CANCELLED})],
)
def test_a_run_that_ended_first_was_not_killed(ended, killed):
    """An agent needs a moment to report an end, in which the other program's end may come first."""
    kinds = frozenset({Killed.MEMORY, Killed.CANCELLED})
    outcome = RunOutcome(None, signal.SIGKILL, kinds, 0.1, 0.1, 0, 1, -1, -1, ended=ended)
    assert judged_by_own_end(outcome, 2.0).killed == killed


def test_an_endless_pipe_does_not_block_the_loop(monkeypatch):
    """Else the limits of who fills it were looked at only when it pauses."""
    pipe = meeting._Pipe(meeting.Link(writer=0, reader=1))
    reads = []

    def read(_: int, count: int) -> bytes:
        reads.append(count)
        assert len(reads) < 10
        return b"x"

    try:
        with monkeypatch.context() as patched:
            patched.setattr(os, "read", read)
            patched.setattr(pipe, "_full", lambda: True)
            assert pipe.stand_in([None, RunOutcome(0, None, frozenset(), 0.0, 0.0, 0, 1, 1, 2)], select.poll())
    finally:
        pipe.close()
    assert reads
