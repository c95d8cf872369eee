"""Programs for sandboxes, and C programs that show what this machine can do."""

import contextlib
import functools
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from judge.languages.table import extra_paths, load_table
from judge.model.messages import Limits
from judge.sandbox import Command, RunOutcome, Sandbox, SandboxPool, drivers
from judge.sandbox.cgroup_v1 import GroupV1
from tests.support.servers import wait_for

# For modules whose tests need the full sandbox.
AS_ROOT = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="the full sandbox needs root here: run as root"),
]


@contextlib.contextmanager
def language_pool(name: str) -> Iterator[SandboxPool]:
    """A pool of sandboxes in which all languages of this machine run."""
    paths = extra_paths(load_table().values())
    with contextlib.closing(SandboxPool(f"test-{name}-{os.getpid()}", paths=paths)) as pool:
        yield pool


@functools.cache
def program(source: str, *flags: str) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        binary = Path(directory) / "run"
        command = ["gcc", "-O1", "-w", "-o", str(binary), "-x", "c", "-", *flags]
        subprocess.run(command, input=source.encode(), check=True, timeout=60)
        return binary.read_bytes()


_FORKS = """
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    struct timespec t;
    for (int i = 0; i < 20; i++) { if (fork() == 0) _exit(0); wait(NULL); }
    clock_gettime(CLOCK_MONOTONIC, &t);
    double began = t.tv_sec + t.tv_nsec / 1e9;
    for (int i = 0; i < 20; i++) { if (fork() == 0) _exit(0); wait(NULL); }
    clock_gettime(CLOCK_MONOTONIC, &t);
    printf("%.9f", (t.tv_sec + t.tv_nsec / 1e9 - began) / 20);
    return 0;
}
"""
_OLD_CALL = """
#include <unistd.h>
int main(void) { int r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory"); return r != getpid(); }
"""


def _outside(source: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as directory:
        binary = Path(directory) / "run"
        binary.write_bytes(program(source))
        binary.chmod(0o755)
        return subprocess.run([str(binary)], capture_output=True, text=True, check=False, timeout=60)


@functools.cache
def fork_cost() -> float:
    """Seconds that a small process takes to come and go: 0.0002 on a usual machine, 0.01 under user-mode Linux.

    What a test expects of programs that make processes grows with it.
    """
    return float(_outside(_FORKS).stdout)


def slowness() -> float:
    """What bounds allow beyond a usual machine's, in seconds: 0 there, so that they stay as they are.

    On a kernel that is slow by its nature it is three times what a process costs: its pace wavers by as much.
    """
    return 3 * fork_cost() if fork_cost() > 0.002 else 0.0


@functools.cache
def no_32_bit_calls() -> str:
    """Why 32-bit system calls cannot be tried here; empty when this kernel has them, or a filter ends who makes one."""
    return "this kernel has no 32-bit system calls (int 0x80)" if _outside(_OLD_CALL).returncode == 1 else ""


MIB = 1024**2
# The marks of a module that needs the full sandbox.
FULL_SANDBOX = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="the full sandbox needs root here: run as root"),
]
CGROUP = f"judge-test-{os.getpid()}"  # suites may run side by side


def missing() -> str | None:
    """Why this machine cannot run the sandbox tests, or None. What is ours to get right is not asked: it must fail."""
    if os.geteuid() != 0:
        return "not root"
    if drivers.find() is None:
        return "no cgroups for memory, pids and CPU time"
    return None if Path("/usr/bin/bwrap").exists() else "bubblewrap is not installed"


def need_sandbox() -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(f"no full sandbox here: {reason}")


def run_c(sandbox: Sandbox, source: str, limits: Limits | None = None, *args: str, **options: object) -> RunOutcome:
    """Put a C program into /box and run it."""
    sandbox.put("run", program("#define _GNU_SOURCE\n" + source), 0o755)
    cancel_fd = options.pop("cancel_fd", None)
    command = Command(["/box/run", *args], limits or Limits(cpu=20), **options)
    return sandbox.run(command, cancel_fd)


def shell(sandbox: Sandbox, script: str, limits: Limits | None = None, **options: object) -> RunOutcome:
    return sandbox.run(Command(["/bin/sh", "-c", script], limits or Limits(cpu=20), **options))


def text(outcome: RunOutcome) -> str:
    with outcome:
        return (outcome.read_stdout() + outcome.read_stderr()).decode(errors="replace")


@contextlib.contextmanager
def pool(name: str = "t", **options: object) -> Iterator[SandboxPool]:
    cores, nice = os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)
    try:
        with SandboxPool(name, CGROUP, core=min(cores), **options) as pool_made:
            yield pool_made
    finally:
        os.sched_setaffinity(0, cores)
        os.setpriority(os.PRIO_PROCESS, 0, nice)


def helpers(box: Sandbox) -> list[int]:
    """The processes of version 1 that wait in the groups of a sandbox and clone its runs."""
    pids = []
    for group in (box._container.build, box._container.runs):
        if isinstance(group, GroupV1):
            pids += [int(pid) for pid in (group._dirs["memory"] / "cgroup.procs").read_text().split()]
    return pids


def kill_and_wait(pids: Iterable[int]) -> None:
    """SIGKILL, until each of them is gone, or is waited for by nobody yet."""

    def dead(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return True

    for pid in (targets := list(pids)):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: all(map(dead, targets)), what="killed processes to end")


def cgroup_roots() -> list[Path]:
    """The test tree's root in every hierarchy that has one.

    Not by a glob: that fails on groups of other suites that go away meanwhile.
    """
    return [Path(top) / CGROUP for top, folders, _ in os.walk("/sys/fs/cgroup") if CGROUP in folders]


def cgroups() -> list[str]:
    """The test tree's directories that exist in any hierarchy."""
    paths = []
    for root in cgroup_roots():
        with contextlib.suppress(FileNotFoundError):
            paths += [str(path) for path in root.iterdir() if path.is_dir()]
    return sorted(paths)


def containers() -> list[int]:
    """Processes below bwrap whose parent is this process."""
    pids = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (path / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[1]) == os.getpid() and (path / "comm").read_text().strip() == "bwrap":
                pids.append(int(path.name))
    return pids


def descriptors() -> set[str]:
    """This process's open descriptors."""
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only


def mounts() -> list[str]:
    """This machine's mounts, but for those below /run, where sessions and networks of others come and go."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line for line in lines if not line.split()[1].startswith("/run/")]
