"""What limits end, how soon, and the account of what was used; test_limits_truth.py has each from both sides."""

import os
import threading
import time
from collections.abc import Iterator

import pytest

from judge.common.errors import UsageError
from judge.model.messages import Limits
from judge.sandbox import Command, Killed, Sandbox
from tests.support.sandbox import MIB, need_sandbox, pool, run_c, shell, slowness, text

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    need_sandbox()
    with pool("limits") as sandboxes, sandboxes.take() as box:
        yield box


BURN = """
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static double cpu(void) {
    struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9;
}
int main(int argc, char **argv) {
    double seconds = atof(argv[1]);
    int children = atoi(argv[2]), reap = atoi(argv[3]);
    int done[2]; char c; pipe(done);
    for (int i = 0; i < children; i++)
        if (fork() == 0) { while (cpu() < seconds / children) ; write(done[1], "x", 1); _exit(0); }
    if (!children) while (cpu() < seconds) ;
    for (int i = 0; i < children; i++) read(done[0], &c, 1);
    if (reap) while (wait(NULL) > 0) ;
    return 0;
}
"""


@pytest.mark.parametrize(("children", "reap"), [(0, 1), (3, 1), (3, 0)])
def test_cpu_of_all_processes_counts_also_of_unreaped_ones(sandbox, children, reap):
    with run_c(sandbox, BURN, Limits(cpu=2, wall=10), "0.3", str(children), str(reap)) as outcome:
        assert not outcome.killed and outcome.exit_code == 0
        assert 0.29 <= outcome.cpu <= 0.36 + 30 * children * slowness()


@pytest.mark.parametrize("children", [0, 4])
def test_cpu_limit_ends_a_run_within_20_ms(sandbox, children):
    for limit in (0.1, 0.25):
        with run_c(sandbox, BURN, Limits(cpu=limit, wall=20), "9", str(children), "1") as outcome:
            assert Killed.CPU in outcome.killed and outcome.signal == 9
            assert limit < outcome.cpu <= limit + 0.02 + 5 * slowness()


def test_wall_limit_ends_a_sleeper_within_50_ms(sandbox):
    late = []
    for _ in range(3):  # a machine busy with other suites may be late once
        with shell(sandbox, "echo 42; sleep 60", Limits(cpu=1, wall=0.3)) as outcome:
            assert Killed.WALL in outcome.killed and outcome.read_stdout() == b"42\n"
            assert outcome.wall >= 0.3 and outcome.cpu < 0.2 + 10 * slowness()
            late.append(outcome.wall - 0.3)
    assert min(late) <= 0.05 + 5 * slowness(), late


MEMORY = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static void fill(int fd, size_t size) {
    static char block[65536]; memset(block, 1, sizeof block);
    for (size_t n = 0; n < size; n += sizeof block) if (write(fd, block, sizeof block) < 0) exit(3);
}
static size_t deep(size_t size) {
    volatile char here[4096]; memset((char *)here, 1, sizeof here);
    return size > sizeof here ? deep(size - sizeof here) + here[7] : 0;
}
int main(int argc, char **argv) {
    const char *how = argv[1];
    size_t size = strtoul(argv[2], NULL, 10);
    if (!strcmp(how, "heap")) { char *p = malloc(size); memset(p, 1, size); }
    if (!strcmp(how, "static")) {
        char *p = mmap(0, size, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        for (size_t i = 0; i < size; i += 4096) p[i] = 1; }
    if (!strcmp(how, "shared")) { char *p = mmap(0, size, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0); memset(p, 1, size); }
    if (!strcmp(how, "work")) fill(open("/scratch/f", O_CREAT | O_WRONLY, 0600), size);
    if (!strcmp(how, "tmp")) fill(open("/tmp/f", O_CREAT | O_WRONLY, 0600), size);
    if (!strcmp(how, "shm")) fill(open("/dev/shm/f", O_CREAT | O_WRONLY, 0600), size);
    if (!strcmp(how, "memfd")) fill(memfd_create("x", 0), size);
    if (!strcmp(how, "stack")) deep(size);
    if (!strcmp(how, "children")) {
        int done[2]; char c; pipe(done);
        for (int i = 0; i < 4; i++) if (fork() == 0) {
            char *p = malloc(size / 4); memset(p, 1, size / 4); write(done[1], "x", 1); pause();
        }
        for (int i = 0; i < 4; i++) read(done[0], &c, 1);
    }
    puts("done");
    return 0;
}
"""
WAYS = ["heap", "static", "shared", "work", "tmp", "shm", "memfd", "stack", "children"]


@pytest.mark.parametrize("kibibytes", range(64, 209, 24))
def test_no_room_to_start_is_mle_and_the_next_run_starts(kibibytes):
    """The kernel may kill the agent's own process in the group, too, at any moment until it waits for the next run."""
    need_sandbox()
    tiny = Limits().model_copy(update={"memory": kibibytes << 10})  # as little as earlier runs may have left
    with pool("room") as sandboxes:
        for _ in range(3):
            with sandboxes.take() as fresh:
                with shell(fresh, "echo here", tiny) as outcome:
                    assert Killed.MEMORY in outcome.killed and outcome.read_stdout() == b"", outcome
                with shell(fresh, "echo here") as outcome:
                    assert not outcome.killed and outcome.read_stdout() == b"here\n", outcome


@pytest.mark.parametrize("kind", WAYS)
def test_memory_below_the_limit_is_fine_and_counted(sandbox, kind):
    limits = Limits(cpu=60, memory=48 * MIB, output=256 * MIB)
    with run_c(sandbox, MEMORY, limits, kind, str(44 * MIB)) as outcome:
        assert not outcome.killed and outcome.read_stdout() == b"done\n", outcome
        assert 44 * MIB <= outcome.memory <= 48 * MIB


def test_a_small_program_after_a_big_one_is_counted_for_itself(sandbox):
    run_c(sandbox, MEMORY, Limits(cpu=60, memory=256 * MIB), "heap", str(128 * MIB)).close()
    with run_c(sandbox, "int main(){return 0;}") as outcome:
        assert outcome.memory < 2 * MIB


def test_what_the_compiler_left_in_box_is_not_the_programs_memory(sandbox):
    big = "dd if=/dev/zero of=/box/big bs=1M count=64"
    with shell(sandbox, big, Limits(cpu=60, memory=128 * MIB, output=128 * MIB), writable=True) as outcome:
        assert outcome.exit_code == 0 and outcome.memory >= 64 * MIB
    with shell(sandbox, "cat /box/big | wc -c", Limits(cpu=60, memory=16 * MIB)) as outcome:
        assert outcome.read_stdout() == b"67108864\n" and outcome.memory < 8 * MIB
    with shell(sandbox, "rm /box/big; dd if=/dev/zero of=/box/b bs=1M count=24; rm /box/b",
               Limits(cpu=60, memory=32 * MIB, output=128 * MIB), writable=True) as outcome:  # fmt: skip
        assert outcome.exit_code == 0, outcome.read_stderr()


def test_a_flood_that_ignores_the_signal_is_ended(sandbox):
    script = "trap '' XFSZ; while :; do echo xxxxxxxxxxxxxxx; done 2>/dev/null"
    with shell(sandbox, script, Limits(cpu=0.5, wall=4, output=4096)) as outcome:
        assert outcome.killed & {Killed.OUTPUT, Killed.CPU} and outcome.read_stdout(4) == b"xxxx"
        assert os.fstat(outcome.stdout).st_size == 4096


def test_open_files_limit_and_core_size(sandbox):
    with shell(sandbox, "ulimit -n; ulimit -c; ulimit -s", Limits(cpu=60, files=77, stack=8 * MIB)) as outcome:
        assert outcome.read_stdout() == b"77\n0\n8192\n"


RAISED = """
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
int main(void) {
    struct { const char *name; int resource; } all[] = {{"stack", RLIMIT_STACK}, {"cpu", RLIMIT_CPU}, {"as", RLIMIT_AS},
        {"data", RLIMIT_DATA}, {"rss", RLIMIT_RSS}, {"core", RLIMIT_CORE}};
    for (int i = 0; i < 6; i++) {
        struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
        int failed = setrlimit(all[i].resource, &limit);
        printf("%s %s\\n", all[i].name, failed ? strerror(errno) : "raised");
    }
    return 0;
}
"""
PYTHON = """
import resource as r
r.setrlimit(r.RLIMIT_STACK, (r.RLIM_INFINITY, r.RLIM_INFINITY))
r.setrlimit(r.RLIMIT_CPU, (r.RLIM_INFINITY, r.RLIM_INFINITY))
print("unlimited")
"""
TO_THE_HARD_LIMITS = "for x in c d f l m n s t u v; do ulimit -$x $(ulimit -H$x) || exit 1; done; echo unlimited"
SCRIPTS = {
    "shell": ["/bin/sh", "-c", "ulimit -s unlimited && ulimit -s"],
    "core": ["/bin/sh", "-c", "ulimit -c unlimited && echo unlimited"],
    "hard limits": ["/bin/bash", "-c", TO_THE_HARD_LIMITS],
    "python": ["/usr/bin/python3", "-c", PYTHON],
}
DEEP = """
#include <sys/resource.h>
int deep(volatile char *up) { volatile char room[4096]; room[0] = *up; return deep(room) + 1; }
int main(void) {
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    char c = 1;
    return setrlimit(RLIMIT_STACK, &all) + setrlimit(RLIMIT_CORE, &all) + deep(&c);
}
"""


def test_limits_that_the_cgroup_keeps_may_be_raised(sandbox):
    with run_c(sandbox, RAISED) as outcome:
        lines = outcome.read_stdout().decode().splitlines()
        assert lines == [f"{name} raised" for name in ("stack", "cpu", "as", "data", "rss", "core")]


@pytest.mark.parametrize("name", SCRIPTS)
def test_programs_may_ask_for_an_unlimited_stack(sandbox, name):
    with sandbox.run(Command(SCRIPTS[name], Limits(cpu=20))) as outcome:
        assert (outcome.read_stdout(), outcome.read_stderr(), outcome.exit_code) == (b"unlimited\n", b"", 0)


def test_a_stack_that_was_asked_for_is_a_limit(sandbox):
    with sandbox.run(Command(SCRIPTS["shell"], Limits(cpu=20, stack=8 * MIB))) as outcome:
        assert outcome.exit_code != 0
        assert b"unlimited" not in outcome.read_stdout()


def test_an_unlimited_stack_ends_at_the_memory_limit(sandbox):
    with run_c(sandbox, DEEP, Limits(cpu=20, memory=64 * MIB)) as outcome:
        assert Killed.MEMORY in outcome.killed


def test_fewer_open_files_than_process_1_has_are_a_limit_of_the_program_only(sandbox):
    limits = Limits(cpu=60, files=8)
    with shell(sandbox, "ulimit -n; read line; ls /proc/self/fd", limits) as outcome:
        assert outcome.read_stdout() == b"8\n0\n1\n2\n3\n", outcome
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as pipe:
        try:
            outcome = shell(sandbox, "echo here >&9", Limits(cpu=60, files=16), pipes=(writer,) * 7)
        finally:
            os.close(writer)
        with outcome:
            assert pipe.read() == b"here\n", outcome


FORK_BOMB = "#include <unistd.h>\nint main() { for (;;) fork(); }"


@pytest.mark.parametrize(("processes", "overshoot"), [(64, 0.02), (512, 0.08)])  # ending 512 processes costs CPU too
def test_fork_bomb_is_stopped_and_gone(sandbox, processes, overshoot):
    over = []
    for _ in range(3):  # a machine busy with other suites may be late once
        began = time.monotonic()
        with run_c(sandbox, FORK_BOMB, Limits(cpu=0.3, wall=60, processes=processes)) as outcome:
            assert Killed.CPU in outcome.killed and outcome.processes >= processes
            over.append(outcome.cpu - 0.3)
        assert time.monotonic() - began < 8 + 5000 * slowness()
    assert min(over) <= overshoot + processes * slowness(), over
    with shell(sandbox, "ls /proc | grep -c '^[0-9]'") as outcome:
        assert int(outcome.read_stdout()) <= 3


def test_cancelling_ends_a_run_at_once(sandbox):
    read, write = os.pipe()
    timer = threading.Timer(0.1, os.write, (write, b"x"))
    timer.start()
    try:
        began = time.monotonic()
        outcome = sandbox.run(Command(["/bin/sh", "-c", "sleep 60 & wait"], Limits(cpu=20, wall=30)), read)
        with outcome:
            assert Killed.CANCELLED in outcome.killed and time.monotonic() - began < 10
    finally:
        timer.join()
        os.close(read)
        os.close(write)
    assert text(shell(sandbox, "echo fine")) == "fine\n"


def test_stdin_and_exit_codes_and_signals(sandbox):
    read, write = os.pipe()
    os.write(write, b"in\n")
    os.close(write)
    try:
        with shell(sandbox, "cat; exit 7", stdin=read) as outcome:
            assert (outcome.exit_code, outcome.signal, outcome.read_stdout()) == (7, None, b"in\n")
    finally:
        os.close(read)
    with shell(sandbox, "cat; kill -SEGV $$") as outcome:
        assert (outcome.exit_code, outcome.signal, outcome.read_stdout()) == (None, 11, b"")


def test_programs_that_cannot_be_executed(sandbox):
    with sandbox.run(Command(["/box/none"], Limits(cpu=20))) as outcome:
        assert outcome.exit_code == 127 and b"No such file" in outcome.read_stderr()
    sandbox.put("data", b"\x7fELF broken", 0o755)
    with sandbox.run(Command(["/box/data"], Limits(cpu=20))) as outcome:
        assert outcome.exit_code == 126 and outcome.read_stderr()
    sandbox.put("plain", b"#!/bin/sh\n", 0o644)
    with sandbox.run(Command(["/box/plain"], Limits(cpu=20))) as outcome:
        assert outcome.exit_code == 126 and b"Permission denied" in outcome.read_stderr()
    with sandbox.run(Command(["true"], Limits(cpu=20))) as outcome:
        assert outcome.exit_code == 0


@pytest.mark.parametrize("argv", [[], ["a\0b"]])
def test_bad_commands_are_refused(sandbox, argv):
    with pytest.raises(UsageError):
        sandbox.run(Command(argv, Limits(cpu=20)))
