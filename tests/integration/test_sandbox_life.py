"""Containers come, serve and go: nothing is left behind, whoever dies; test_languages.py has compilers."""

import contextlib
import errno
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from judge.common import clock
from judge.common.errors import SandboxError, UnfitError, UsageError
from judge.executor.slot import leavings
from judge.languages import handed
from judge.model.messages import Limits
from judge.sandbox import Command, Killed, SandboxPool, available, check_machine, drivers
from judge.sandbox.cgroup import remove
from tests.support.sandbox import (
    CGROUP,
    MIB,
    cgroup_roots,
    cgroups,
    containers,
    descriptors,
    helpers,
    kill_and_wait,
    missing,
    mounts,
    need_sandbox,
    pool,
    run_c,
    shell,
    text,
)
from tests.support.servers import frozen, wait_for

pytestmark = pytest.mark.root
needs_helpers = pytest.mark.skipif(
    not missing() and drivers.find().version != "v1",
    reason="version 2 of cgroups: runs are cloned into their group, nobody waits there",
)
ENV = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


@pytest.fixture(autouse=True)
def _full() -> None:
    need_sandbox()


@pytest.fixture
def sandboxes() -> Iterator[SandboxPool]:
    with pool("life") as new:
        yield new


def test_nothing_is_left_after_many_sandboxes():
    with pool("warm") as new, new.take() as box:
        shell(box, "true").close()
    gc.collect()  # for all that earlier tests dropped
    before, mounted, groups = descriptors(), mounts(), cgroups()
    with pool("many") as new:
        for _ in range(5):
            new.prepare()
            with new.take() as box:
                box.put("f", b"x")
                shell(box, "sleep 100 & setsid sleep 100 & echo x > /tmp/f").close()
        new.prepare()
        wait_for(lambda: len(containers()) == 1, what="the prepared container")
    assert cgroups() == groups
    assert containers() == []
    # threads that earlier tests left in this process have descriptors of their own, for moments
    wait_for(lambda: descriptors() <= before, what=f"no descriptors but {before}, there are {descriptors()}")
    wait_for(lambda: mounts() == mounted, what=f"no mounts but {mounted}, there are {mounts()}")


def test_a_left_container_ends_when_the_next_is_prepared():
    with pool("leave") as new:
        box = new.take()
        shell(box, "setsid sleep 100 & echo x > /tmp/f").close()
        new.leave(box)
        assert len(containers()) == 1  # nobody waits for its end
        new.prepare()
        assert new.prepared
        wait_for(lambda: len(containers()) == 1, what="the next container alone")
        new.leave(new.take())
        assert not new.prepared
    assert containers() == []
    assert cgroups() == []


def test_something_else_is_done_while_a_command_runs():
    with pool("meanwhile") as new, new.take() as box:
        read, write = os.pipe()
        command = Command(["/bin/cat"], Limits(cpu=10, wall=10), stdin=read)
        with box.run(command, None, lambda: os.close(write)) as outcome:  # it ends only then
            assert outcome.exit_code == 0
        os.close(read)


def test_containers_are_made_and_ended_away_from_the_core_on_which_they_are_used():
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("this machine has one core")
    core, maker = cores[0], cores[1]
    with pool("places", makers=[maker]) as new, new.take() as box:
        assert os.sched_getaffinity(0) == {core}
        outer = box._container.pid
        inside = [int(pid) for pid in Path(f"/proc/{outer}/task/{outer}/children").read_text().split()]
        assert len(inside) == 1
        assert os.sched_getaffinity(outer) == {maker}
        assert os.sched_getaffinity(inside[0]) == {core}
        for writable in (True, False):
            allowed = text(shell(box, "exec grep Cpus_allowed_list /proc/self/status", writable=writable))
            assert allowed.split()[-1] == str(core)

        def ended() -> list[str]:
            return Path(f"/proc/{inside[0]}/stat").read_text().rsplit(")", 1)[1].split()

        with frozen(outer):  # so that what is dead stays visible
            box._container.agent.channel.close()
            wait_for(lambda: ended()[0] == "Z", what="the agent's end")
            last = ended()[36]  # the field `processor`, proc(5)
        assert last == str(maker)


def test_the_cgroups_root_goes_with_its_last_pool():
    with pool("one"), pool("two"):
        assert len(cgroups()) >= 2
    assert cgroup_roots() == []


OWNER = f"""
import os, sys
from judge.model.messages import (Limits)
from judge.sandbox import Command, SandboxPool
pool = SandboxPool("owner", "{CGROUP}")
box = pool.take()
pool.prepare()
print(os.getpid(), flush=True)
box.run(Command(["/bin/sh", "-c", "setsid sleep 1000 & exec sleep 1000"], Limits(cpu=5, wall=1000)))
"""


def _sleepers() -> set[str]:
    pids = set()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            zombie = "State:\tZ" in (path / "status").read_text()
            if (path / "cmdline").read_bytes() == b"sleep\x001000\x00" and not zombie:
                pids.add(path.name)
    return pids


def test_everything_dies_with_an_owner_that_is_killed_and_the_next_pool_tidies_up():
    before = _sleepers()
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    with owner.stdout:
        pid = int(owner.stdout.readline())
        wait_for(lambda: len(_sleepers() - before) == 2, what="the run")
        assert any(f"owner.{pid}." in path for path in cgroups())
        os.kill(pid, signal.SIGKILL)
        owner.wait()
    wait_for(lambda: not _sleepers() - before, timeout=20, what="the end of the run")
    with pool("next"):
        assert not any("owner." in path for path in cgroups())


def test_stale_cgroups_with_processes_are_emptied():
    driver = drivers.find()
    assert driver is not None
    process = subprocess.Popen(["sleep", "1000"])
    tree = driver.tree(CGROUP, "living")
    for path in tree.joins:
        stale = next(parent for parent in path.parents if parent.name == CGROUP) / "stale.4194303.1"
        stale.mkdir(exist_ok=True)
        (stale / "cgroup.procs").write_text(str(process.pid))
    with pool("next"):
        assert process.wait(5) == -9
        assert not any("stale." in path for path in cgroups())
        assert any("living." in path for path in cgroups())
    tree.close()


def test_a_prepared_container_that_died_is_an_error_and_the_next_works(sandboxes):
    sandboxes.prepare()
    assert sandboxes._next is not None
    os.kill(sandboxes._next.pid, signal.SIGKILL)
    with pytest.raises(SandboxError, match="ended by itself"):
        sandboxes.take()
    with sandboxes.take() as box:
        assert text(shell(box, "echo fine")) == "fine\n"


def test_a_container_that_dies_during_a_run_breaks_only_its_sandbox(sandboxes):
    box = sandboxes.take()
    script = Command(["/bin/sh", "-c", "sleep 100"], Limits(cpu=1, wall=100))
    victim = containers()[0]
    killer = subprocess.Popen(["/bin/sh", "-c", f"sleep 0.2; kill -9 {victim}"])
    try:
        with pytest.raises(SandboxError, match="ended by itself"):
            box.run(script)
    finally:
        killer.wait()
    with pytest.raises(SandboxError):
        box.run(script)
    with pytest.raises(SandboxError):
        box.put("x", b"")
    box.close()
    assert containers() == []
    with sandboxes.take() as second:
        assert text(shell(second, "echo fine")) == "fine\n"


@pytest.mark.parametrize("moment", ["before", "during"])
def test_an_agent_that_does_not_answer_is_killed(sandboxes, moment, monkeypatch):
    monkeypatch.setattr("judge.sandbox.box.START_SECONDS", 0.3)
    monkeypatch.setattr("judge.sandbox.box.KILL_SECONDS", 1.0)
    box = sandboxes.take()
    bwrap = containers()[0]
    agent = int(Path(f"/proc/{bwrap}/task/{bwrap}/children").read_text())

    def stop() -> None:
        if moment == "during":
            wait_for(lambda: box._container.began() is not None)
            os.kill(agent, signal.SIGSTOP)

    if moment == "before":
        os.kill(agent, signal.SIGSTOP)
    began = clock.monotonic()
    with pytest.raises(SandboxError, match="did not"):
        box.run(Command(["/usr/bin/sleep", "10"], Limits(cpu=0.3, wall=0.4)), None, stop)
    assert clock.monotonic() - began < 5
    box.close()
    assert containers() == [] and not any(Path(path).joinpath("1").exists() for path in cgroups())


@needs_helpers
def test_the_helper_that_starts_runs_is_replaced(sandboxes):
    """The kernel may kill it for want of memory after the run that took it; the next one does not notice."""
    with sandboxes.take() as box:
        for _ in range(3):
            assert text(shell(box, "echo $$")) == "10\n"
            waiting = helpers(box)
            assert waiting
            kill_and_wait(waiting)


@needs_helpers
def test_a_run_is_started_again_if_its_helper_dies_before_the_exec(sandboxes):
    """The kernel may choose the helper after the run before, and end it only when the next run has been asked for."""
    with sandboxes.take() as box:
        for _ in range(3):
            dying = helpers(box)
            for pid in dying:
                os.kill(pid, signal.SIGSTOP)
            death = threading.Timer(0.2, kill_and_wait, [dying])
            death.start()
            assert text(shell(box, "echo $$")) == "10\n"
            death.join()


SLOW_TO_END = """
#include <sys/mman.h>
#include <unistd.h>
int main(void) { /* page tables of many processes: the kernel empties them page by page when these are killed */
    size_t size = (size_t)32 << 20;
    int file = memfd_create("pages", 0);
    if (ftruncate(file, (off_t)size) < 0) return 1;
    for (int i = 0; i < 128; i++) {
        volatile char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
        for (size_t page = 4096; page < size; page += 4096) (void)at[page];
        at[0] = 1; /* with a page of its own, so that its children's tables are filled at once */
    }
    for (;;)
        if (fork() == 0) pause();
}
"""


def test_a_run_whose_end_takes_the_kernel_long_is_no_failure_of_the_sandbox(sandboxes):
    with sandboxes.take() as box:
        with run_c(
            box, SLOW_TO_END, Limits(cpu=6, wall=200, memory=2048 * MIB, output=64 * MIB, processes=200)
        ) as outcome:
            assert Killed.CPU in outcome.killed
        assert text(shell(box, "echo fine")) == "fine\n"


def test_a_busy_group_of_a_dead_pool_stops_no_start(sandboxes, monkeypatch, caplog):
    stale = [root / "gone.1.1" for root in cgroup_roots()]
    for path in stale:
        (path / "dying").mkdir(parents=True)
    real = Path.rmdir

    def rmdir(path: Path) -> None:
        if "gone.1.1" in path.parts:
            raise OSError(errno.EBUSY, "it has processes")
        real(path)

    monkeypatch.setattr(Path, "rmdir", rmdir)
    with pool("other") as newer, newer.take() as box:
        assert text(shell(box, "echo fine")) == "fine\n"
    assert "the next sandbox pool removes it" in caplog.text
    monkeypatch.undo()
    with pool("another"):
        assert stale and not any(path.exists() for path in stale)


def test_bwrap_complaints_are_passed_on(sandboxes):
    sandboxes._paths.append("/no/such/path")
    with pytest.raises(SandboxError, match="no/such/path"):
        sandboxes.take()


def test_a_missing_agent_is_named(sandboxes, monkeypatch, tmp_path):
    monkeypatch.setattr("judge.sandbox.container.BINARY", tmp_path / "agent")
    before = descriptors()
    with pytest.raises(SandboxError, match="agent: No such file"):
        sandboxes.take()
    assert descriptors() == before


def names(directory: int) -> set[str]:
    with os.scandir(directory) as entries:
        return {entry.name for entry in entries}


def test_files_of_a_run_can_be_read_and_no_later_run_sees_them(sandboxes):
    with sandboxes.take() as box:
        script = "mkdir d; echo made > d/f; ln -s /etc/passwd link; (sleep 100; echo late > f) & exit 3"
        command = Command(["/bin/sh", "-c", script], Limits(cpu=5), ENV, keep_scratch=True)
        with box.run(command) as outcome:
            assert outcome.exit_code == 3 and names(outcome.scratch) == {"d", "link"}
            assert text(shell(box, "ls -A; touch later")) == ""
            leaving = leavings.gather(outcome.scratch, {})
            assert handed.unpack(leaving.archive, leavings.BYTES) == {"d/f": b"made\n"}
        open_files = descriptors()
        for _ in range(3):  # nothing was made: the mount stays
            with box.run(Command(["/bin/true"], Limits(cpu=5), ENV, keep_scratch=True)) as outcome:
                assert names(outcome.scratch) == set()
        assert descriptors() == open_files
        with pytest.raises(UsageError, match="one of them"):
            box.run(Command(["/bin/true"], Limits(cpu=5), ENV, keep_scratch=True, output="f"))


def test_too_long_arguments_are_refused_and_long_ones_work(sandboxes):
    box = sandboxes.take()
    with box.run(Command(["/bin/echo", "x" * 100_000], Limits(cpu=20))) as outcome:
        assert len(outcome.read_stdout()) == 100_001
    with pytest.raises(UnfitError, match="words of 200020 bytes"):
        box.run(Command(["/bin/echo", "x" * 200_000], Limits(cpu=20)))
    with pytest.raises(UnfitError, match="no Unicode text"):
        box.run(Command(["/bin/echo", "\ud800"], Limits(cpu=20)))
    with pytest.raises(UnfitError, match="has 10001 words"):
        box.run(Command(["/bin/echo", *["x"] * 9_999], Limits(cpu=20)))
    assert text(box.run(Command(["/bin/echo", "well"], Limits(cpu=20)))) == "well\n"
    box.close()


def test_a_bad_directory_is_the_sandboxs_error(sandboxes):
    box = sandboxes.take()
    with pytest.raises(SandboxError, match="chdir: No such file"):
        box.run(Command(["/bin/true"], Limits(cpu=20), cwd="/nowhere"))
    box.close()


def test_python(sandboxes):
    imports = "import decimal, json, math, multiprocessing, random, sqlite3, ssl, subprocess, threading"
    code = f"{imports}; print(sum(map(int, input().split())))"
    read, write = os.pipe()
    os.write(write, b"1 2 3\n")
    os.close(write)
    with sandboxes.take() as box:
        box.put("main.py", code.encode())
        with box.run(Command(["/usr/bin/python3", "/box/main.py"], Limits(cpu=60), ENV, stdin=read)) as outcome:
            assert outcome.read_stdout() == b"6\n", outcome.read_stderr()
        pooled = "from multiprocessing import Pool\nwith Pool(3) as p: print(p.map(abs, [-1, -2]))"
        with box.run(Command(["/usr/bin/python3", "-c", pooled], Limits(cpu=60), ENV)) as outcome:
            assert outcome.read_stdout() == b"[1, 2]\n", outcome.read_stderr()
    os.close(read)


def test_the_machine_check_tries_the_limits_and_lists_every_item():
    assert available(CGROUP) is None
    findings = {finding.item: finding for finding in check_machine(CGROUP)}
    for item in ("memory limit", "process limit", "CPU limit"):
        assert findings[item].level == "PASS" and "tried" in findings[item].text
    items = {"kernel", "bubblewrap", "cgroups", "swap", "SMT", "frequency governor", "turbo", "ASLR", "THP",
             "THP defrag", "khugepaged", "core pattern", "protected hardlinks", "equal cores"}  # fmt: skip
    assert items <= findings.keys()
    assert cgroups() == []


def test_a_tree_that_accepts_limits_without_enforcing_them_is_found_out(monkeypatch):
    class Sham:
        version = "v2"

        def tree(self, root: str, name: str):
            from judge.sandbox.weak import WeakTree

            tree = WeakTree()
            monkeypatch.setattr(tree, "group", lambda **_: ShamGroup())
            return tree

    from judge.sandbox.weak import WeakGroup

    class ShamGroup(WeakGroup):
        def over_memory(self) -> bool:
            return False

    monkeypatch.setattr(drivers, "find", Sham)
    reason = available(CGROUP)
    assert reason is not None and "memory limit" in reason and "not enforced" in reason


def test_a_tree_that_several_remove_at_once_is_gone_for_all():
    """Slots that start together all find the trees of their predecessors."""
    driver = drivers.find()
    assert driver is not None
    tree = driver.tree(CGROUP, "shared")
    roots = [next(parent for parent in path.parents if parent.parent.name == CGROUP) for path in tree.joins]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(30):
            for root in roots:
                for number in range(8):
                    (root / f"{number}" / "below").mkdir(parents=True)
                # their exceptions are raised here
                list(threads.map(remove, [root] * 4))
                assert not root.exists()
                root.mkdir()
    tree.close()
    assert cgroup_roots() == []
