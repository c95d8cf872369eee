"""stdout and stderr are streams by whatever name a program opens them: all that was written arrives, in order."""

import os
import time
from pathlib import Path

import pytest

from judge.model.messages import Limits
from judge.sandbox import Command, Killed
from tests.support.sandbox import MIB, need_sandbox, pool, run_c

C_AGAIN = """
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    const char *names[] = {"/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"}, *modes[] = {"w", "a", "r+", "w+"};
    printf("first\\n");
    fflush(stdout);
    for (int i = 0; i < 12; i++) {
        FILE *file = fopen(names[i % 3], modes[i / 3]);
        if (!file) { perror(names[i % 3]); return 1; }
        fprintf(file, "%s %s\\n", names[i % 3], modes[i / 3]);
        fclose(file);
    }
    if (!freopen("/dev/stdout", "w", stdout)) { perror("freopen"); return 1; }
    printf("last\\n");
    return 0;
}
"""
PYTHON = """
import os
for name in ("/dev/stdout", "/proc/self/fd/1"):
    for mode in ("w", "a", "wb"):
        with open(name, mode) as out:
            out.write("x\\n" if mode != "wb" else b"x\\n")
fd = os.open("/proc/self/fd/1", os.O_WRONLY | os.O_APPEND | os.O_TRUNC)
os.write(fd, b"y\\n")
print("z")
"""


@pytest.fixture(scope="module")
def box():
    need_sandbox()
    with pool("streams") as streams_pool, streams_pool.take() as sandbox:
        yield sandbox


def descriptors(process) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def descriptors_at_rest(process):
    """The agent answers first and closes its ends of the pipes then: counts until 50 ms have changed nothing."""
    count = None
    while count != (count := descriptors(process)):
        time.sleep(0.05)
    return count


def ran(box, argv, limits=None):
    with box.run(Command(argv, limits or Limits(cpu=20))) as outcome:
        return outcome.read_stdout(), outcome.read_stderr(), outcome


def test_c_opens_its_output_by_every_name(box):
    with run_c(box, C_AGAIN) as outcome:
        lines = outcome.read_stdout().decode().splitlines()
        assert outcome.read_stderr() == b""
        assert (lines[0], len(lines), lines[-1]) == ("first", 14, "last")


@pytest.mark.parametrize(
    ("argv", "stdout", "stderr"),
    [
        (["/bin/sh", "-c", "echo 1; echo 2 > /dev/stdout; echo 3 >> /dev/stdout; echo 4"], b"1\n2\n3\n4\n", b""),
        (["/bin/sh", "-c", "echo a >/dev/stderr; echo b >&2; echo c > /proc/self/fd/2"], b"", b"a\nb\nc\n"),
        (
            ["/bin/sh", "-c", "echo 1; sh -c 'echo 2 > /dev/stdout'; cat /etc/hostname 2>/dev/null; echo 3"],
            b"1\n2\n3\n",
            b"",
        ),
        (["/bin/sh", "-c", "exec 2>&1; echo a; echo b >/dev/stderr; echo c"], b"a\nb\nc\n", b""),
        (["/usr/bin/python3", "-c", PYTHON], b"x\n" * 6 + b"y\nz\n", b""),
        (
            ["/usr/bin/perl", "-e", '$|=1;print "1\n";open F,">/dev/stdout";print F "2\n";close F;print "3\n"'],
            b"1\n2\n3\n",
            b"",
        ),
    ],
)
def test_earlier_output_is_not_overwritten(box, argv, stdout, stderr):
    assert ran(box, argv)[:2] == (stdout, stderr)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    ("size", "over"), [(0, False), (1, False), (3 * MIB, False), (3 * MIB + 1, True), (40 * MIB, True)]
)
def test_exactly_the_limit_is_allowed(box, number, size, over):
    limits = Limits(cpu=20, output=3 * MIB)
    with box.run(Command(["/bin/sh", "-c", f"head -c {size} /dev/zero >&{number}"], limits)) as outcome:
        fd = outcome.stdout if number == 1 else outcome.stderr
        assert os.fstat(fd).st_size == min(size, 3 * MIB)
        assert (Killed.OUTPUT in outcome.killed) == over


def test_both_outputs_may_be_full_at_once_and_what_children_write_arrives(box):
    script = "for i in 1 2 3; do (head -c 2000000 /dev/zero; head -c 2000000 /dev/zero >&2) & done; wait"
    stdout, stderr, outcome = ran(box, ["/bin/sh", "-c", script])
    assert (len(stdout), len(stderr), outcome.exit_code) == (6_000_000, 6_000_000, 0)


def test_a_run_that_is_killed_leaves_what_it_wrote(box):
    script = "head -c 100000 /dev/zero; sleep 60"
    stdout, _, outcome = ran(box, ["/bin/sh", "-c", script], Limits(cpu=1, wall=0.5))
    assert len(stdout) == 100_000
    assert Killed.WALL in outcome.killed


def test_a_program_that_closes_its_outputs_takes_no_time_of_the_agent(box):
    def used() -> int:
        return sum(map(int, Path(f"/proc/{agent_of(box)}/stat").read_text().split()[13:15]))

    before = used()
    with box.run(Command(["/bin/sh", "-c", "exec >&- 2>&-; sleep 1"], Limits(cpu=1))) as outcome:
        assert outcome.exit_code == 0
    assert (used() - before) / os.sysconf("SC_CLK_TCK") < 0.3


def test_the_next_run_has_nothing_of_the_output_before(box):
    assert ran(box, ["/bin/echo", "one"])[0] == b"one\n"
    assert ran(box, ["/bin/true"])[0] == b""
    before = descriptors("self")
    for _ in range(20):
        ran(box, ["/bin/echo", "two"])
    assert descriptors("self") == before
    # Nor do descriptors stay in the agent.
    count = descriptors_at_rest(agent_of(box))
    for _ in range(20):
        ran(box, ["/bin/echo", "three"])
        ran(box, ["/bin/no-such-program"])
    assert descriptors_at_rest(agent_of(box)) == count


def agent_of(box) -> int:
    """The host's pid of process 1 of the container."""
    pid = box._container.pid
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


@pytest.mark.skipif(not Path("/usr/bin/node").exists(), reason="Node.js is not installed")
@pytest.mark.parametrize(
    "write", ["process.stdout.write(text); process.exit(0)", "require('fs').writeFileSync(1, text)"]
)
def test_node_writes_all_that_it_prints(box, write):
    argv = ["/usr/bin/node", "-e", f"process.stdout; const text = 'x'.repeat(5e6); {write}"]
    stdout, stderr, outcome = ran(box, argv, Limits(cpu=20, processes=128, memory=1024 * MIB))
    assert (len(stdout), stderr, outcome.exit_code) == (5_000_000, b"", 0)


def test_an_output_waits_for_its_reader_whatever_a_program_asks_for(box):
    script = """
import fcntl, os, sys
for fd in (1, 2):
    os.set_blocking(fd, False)
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
    for _ in range(50):
        assert os.write(fd, bytes(100_000)) == 100_000
reading, writing = os.pipe()
os.set_blocking(reading, False)
assert not os.get_blocking(reading)
"""
    stdout, stderr, outcome = ran(box, ["/usr/bin/python3", "-c", script])
    assert (len(stdout), len(stderr), outcome.exit_code) == (5_000_000, 5_000_000, 0)


def test_many_small_pieces_of_output_do_not_wake_the_agent_each(box):
    loop = 'for (int i = 0; i < 300000; i++) if (write(1, "x\\n", 2) != 2) return 1;'
    source = f"#include <unistd.h>\nint main(void) {{ {loop} }}"

    def switches() -> int:
        lines = Path(f"/proc/{agent_of(box)}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("voluntary"))

    before = switches()
    with run_c(box, source) as outcome:
        assert os.fstat(outcome.stdout).st_size == 600_000
        assert switches() - before < 1000 * outcome.wall + 300


# Its memory is locked nearly all the time, by changes of a mapping with many pages; each write and each look at a futex
# waits for that.
LOCKS = """
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static int word;
static void *wait_always(void *unused) {
    for (;;) syscall(SYS_futex, &word, FUTEX_WAIT, 0, 0, 0, 0);
    return unused;
}
static void *write_always(void *unused) {
    for (;;) {
        char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (write(1, page, 1) != 1) return unused;
        munmap(page, 4096);
    }
}
int main(int count, char **words) {
    size_t size = (size_t)8 << 30;
    char *pages = mmap(0, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    madvise(pages, size, MADV_NOHUGEPAGE);
    madvise(pages, size, 22);
    for (int i = 0; i < 200 && count > 1; i++) {
        pthread_t thread;
        pthread_attr_t small;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 65536);
        if (pthread_create(&thread, &small, atoi(words[1]) ? write_always : wait_always, NULL)) return 3;
    }
    for (;;) {
        mprotect(pages, size, PROT_NONE);
        mprotect(pages, size, PROT_READ);
    }
}
"""


@pytest.mark.parametrize("writes", ["0", "1"])
def test_a_program_that_locks_its_memory_does_not_keep_the_agent_from_its_end(box, writes):
    limits = Limits(cpu=2, wall=60, processes=256)
    with run_c(box, LOCKS, limits, writes) as outcome:
        assert Killed.CPU in outcome.killed
        assert outcome.cpu < 3
