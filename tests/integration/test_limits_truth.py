"""Verdicts at the limits: one step below is right, one step above gets that limit's verdict and no other.

`JUDGE_TRUTH_TIMES` says how often each (3 by default, 50 for the record). What is asserted are verdicts; how late a run
is ended is measured by `make bench`. On a machine that is busy with other things the kernel itself may count a step
more for a run that stayed below; the account says so then, and that run is taken again.
"""

import os
from collections.abc import Iterator

import pytest

from judge.executor.verdict import run_verdict
from judge.model.messages import Limits, Verdict
from judge.sandbox import RunOutcome, Sandbox
from tests.support.sandbox import AS_ROOT, MIB, fork_cost, need_sandbox, pool, run_c

pytestmark = [*AS_ROOT, pytest.mark.timeout(900)]

TIMES = int(os.environ.get("JUDGE_TRUTH_TIMES", "3"))
# Times that a run may be disturbed before the machine is no place to measure.
DISTURBED = 20


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    need_sandbox()
    with pool("truth") as box_pool, box_pool.take() as box:
        yield box


def verdict_of(outcome: RunOutcome, limits: Limits) -> tuple[Verdict, str]:
    """The verdict of a run without answer, and its reason; the run's own complaint where it has one."""
    with outcome:
        stderr = outcome.read_stderr(2000).decode(errors="replace")
        verdict, reason, _ = run_verdict(outcome, limits, None)
        return verdict, f"{reason}; {stderr}" if stderr else reason


def right_below(sandbox: Sandbox, source: str, limits: Limits, *args: str) -> None:
    """TIMES undisturbed runs that are AC; a disturbed one is one whose account is over a time limit."""
    completed = disturbed = 0
    while completed < TIMES:
        outcome = run_c(sandbox, source, limits, *args)
        over_cpu, over_wall = outcome.cpu > limits.cpu, outcome.wall > limits.wall_seconds
        verdict, reason = verdict_of(outcome, limits)
        if over_cpu or over_wall:
            assert verdict is Verdict.TLE and ("CPU" if over_cpu else "wall") in reason, (verdict, reason, outcome)
            disturbed += 1
            assert disturbed <= DISTURBED + TIMES, "this machine is too busy to stay below any time limit"
            continue
        assert (verdict, reason) == (Verdict.AC, ""), outcome
        completed += 1
    if disturbed:
        print(f"{disturbed} runs were disturbed")


def right_above(sandbox: Sandbox, source: str, limits: Limits, verdict: Verdict, words: str, *args: str) -> None:
    """TIMES runs with this verdict, whose reason begins with the words."""
    for _ in range(TIMES):
        outcome = run_c(sandbox, source, limits, *args)
        outcome_verdict, reason = verdict_of(outcome, limits)
        assert outcome_verdict is verdict and reason.startswith(words), (outcome_verdict, reason, outcome)


BURN = """
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static double cpu(void) {
    struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9;
}
static void burn(double seconds) { while (cpu() < seconds) ; }
static void system_calls(double seconds) { while (cpu() < seconds) getppid(); }
static void child(double seconds, int done) { burn(seconds); write(done, "x", 1); _exit(0); }
int main(int argc, char **argv) {
    double seconds = atof(argv[2]);
    const char *how = argv[1];
    int done[2]; char c;
    pipe(done);
    if (!strcmp(how, "alone")) burn(seconds);
    if (!strcmp(how, "kernel")) system_calls(seconds);
    if (!strcmp(how, "reaped")) for (int i = 0; i < 4; i++) {
        if (fork() == 0) child(seconds / 4, done[1]);
        wait(NULL);
    }
    if (!strcmp(how, "unreaped")) {
        for (int i = 0; i < 4; i++) if (fork() == 0) child(seconds / 4, done[1]);
        for (int i = 0; i < 4; i++) read(done[0], &c, 1);
    }
    if (!strcmp(how, "orphans")) { /* of a parent that is dead, in a session of their own */
        for (int i = 0; i < 4; i++) if (fork() == 0) {
            setsid();
            if (fork() == 0) child(seconds / 4, done[1]);
            _exit(0);
        }
        for (int i = 0; i < 4; i++) read(done[0], &c, 1);
    }
    return 0;
}
"""
HOW_CPU = ["alone", "kernel", "reaped", "unreaped", "orphans"]


@pytest.mark.parametrize("program", HOW_CPU)
def test_cpu(sandbox: Sandbox, program: str) -> None:
    cpu = max(0.3, 500 * fork_cost())  # the cost of making the processes is no part of the step
    limits = Limits(cpu=cpu, wall=120, processes=16)
    right_below(sandbox, BURN, limits, program, f"{cpu * 0.9}")
    right_above(sandbox, BURN, limits, Verdict.TLE, "CPU time limit exceeded", program, f"{cpu * 1.1}")


SLEEP = """
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int ms = atoi(argv[2]);
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    if (argv[1][0] == 's') nanosleep(&t, NULL);
    if (argv[1][0] == 'p') poll(NULL, 0, ms);
    if (argv[1][0] == 'c') { if (fork() == 0) { nanosleep(&t, NULL); _exit(0); } wait(NULL); }
    write(1, "right\\n", 6);
    return 0;
}
"""
WALL = Limits(cpu=10, wall=0.6)


@pytest.mark.parametrize("program", ["sleep", "poll", "child"])
def test_wall(sandbox: Sandbox, program: str) -> None:
    right_below(sandbox, SLEEP, WALL, program, "500")
    right_above(sandbox, SLEEP, WALL, Verdict.TLE, "wall time limit exceeded", program, "700")


MEMORY = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static void fill(int fd, size_t size) {
    static char block[65536];
    memset(block, 1, sizeof block);
    for (size_t n = 0; n < size; n += sizeof block) if (write(fd, block, sizeof block) < 0) exit(3);
}
static size_t deep(size_t size) {
    volatile char here[4096];
    memset((char *)here, 1, sizeof here);
    return size > sizeof here ? deep(size - sizeof here) + here[7] : 0;
}
int main(int argc, char **argv) {
    const char *how = argv[1];
    size_t size = strtoul(argv[2], NULL, 10);
    if (!strcmp(how, "heap")) { char *p = malloc(size); if (!p) return 4; memset(p, 1, size); }
    if (!strcmp(how, "blocks")) for (size_t n = 0; n < size; n += 4096) memset(malloc(4080), 1, 4080);
    if (!strcmp(how, "shared")) memset(mmap(0, size, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 1, size);
    if (!strcmp(how, "scratch")) fill(open("/scratch/f", O_CREAT | O_WRONLY, 0600), size);
    if (!strcmp(how, "tmp")) fill(open("/tmp/f", O_CREAT | O_WRONLY, 0600), size);
    if (!strcmp(how, "shm")) fill(open("/dev/shm/f", O_CREAT | O_WRONLY, 0600), size);
    if (!strcmp(how, "memfd")) fill(memfd_create("x", 0), size);
    if (!strcmp(how, "stack")) deep(size);
    if (!strcmp(how, "children")) { /* and the parent looks away from what becomes of them */
        int done[2]; char c;
        pipe(done);
        for (int i = 0; i < 4; i++) if (fork() == 0) {
            char *p = malloc(size / 4);
            memset(p, 1, size / 4);
            write(done[1], "x", 1);
            pause();
        }
        for (int i = 0; i < 4; i++) read(done[0], &c, 1);
    }
    if (!strcmp(how, "status")) { /* a child that is killed is the whole run's end, whatever its parent says then */
        if (fork() == 0) { char *p = malloc(size); memset(p, 1, size); _exit(0); }
        int status = 0;
        wait(&status);
        return status != 0;
    }
    return 0;
}
"""
HOW_MEMORY = ["heap", "blocks", "shared", "scratch", "tmp", "shm", "memfd", "stack", "children", "status"]
SPACE = Limits(cpu=60, wall=120, memory=64 * MIB, output=256 * MIB, processes=16)


@pytest.mark.parametrize("program", HOW_MEMORY)
def test_memory(sandbox: Sandbox, program: str) -> None:
    right_below(sandbox, MEMORY, SPACE, program, str(61 * MIB))
    right_above(sandbox, MEMORY, SPACE, Verdict.MLE, "memory limit exceeded", program, str(66 * MIB))


READ = """
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(void) { /* more than the limit in clean pages: the kernel gives them up */
    static char block[1 << 16];
    char path[512];
    size_t total = 0;
    DIR *all = opendir("/usr/bin");
    for (struct dirent *one; all && total < (96u << 20) && (one = readdir(all));) {
        snprintf(path, sizeof path, "/usr/bin/%s", one->d_name);
        int fd = open(path, O_RDONLY);
        for (ssize_t n; fd >= 0 && (n = read(fd, block, sizeof block)) > 0;) total += (size_t)n;
        close(fd);
    }
    return total < (96u << 20);
}
"""


def test_page_cache_is_nobodys_memory(sandbox: Sandbox) -> None:
    right_below(sandbox, READ, Limits(cpu=60, wall=120, memory=16 * MIB))


FORGE = """
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static char block[1 << 16];
static size_t pull(const char *path, size_t total, size_t most, int depth) {
    char name[4096];
    DIR *all = opendir(path);
    for (struct dirent *one; all && total < most && (one = readdir(all));) {
        if (one->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "%s/%s", path, one->d_name);
        if (one->d_type == DT_DIR && depth) total = pull(name, total, most, depth - 1);
        if (one->d_type != DT_REG) continue;
        int fd = open(name, O_RDONLY);
        for (ssize_t n; fd >= 0 && (n = read(fd, block, sizeof block)) > 0;) total += (size_t)n;
        close(fd);
    }
    if (all) closedir(all);
    return total;
}
int main(int argc, char **argv) {
    size_t used = strtoul(argv[1], NULL, 10) << 20, read = strtoul(argv[2], NULL, 10) << 20;
    if (argc > 3) pull("/usr", 0, read, 4); /* before, too: what is there at both ends may have been away between */
    char *memory = mmap(NULL, used, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, used);
    munmap(memory, used);
    return pull("/usr", 0, read, 4) < read;
}
"""


def forget(place: str, depth: int) -> None:
    """Have the host drop the files that programs pull in, so that they are charged to the next reader."""
    for entry in os.scandir(place):
        if entry.is_dir(follow_symlinks=False) and depth:
            forget(entry.path, depth - 1)
        elif entry.is_file(follow_symlinks=False):
            fd = os.open(entry.path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


@pytest.mark.parametrize(("limit", "args"), [(256, []), (256, ["before"]), (160, ["before"])])
def test_peak_memory_is_reported_despite_later_reads_of_files(sandbox: Sandbox, limit: int, args: list[str]) -> None:
    limits = Limits(cpu=60, wall=120, memory=limit * MIB)
    forget("/usr", 4)
    for _ in range(TIMES):
        with run_c(sandbox, FORGE, limits, "150", "160", *args) as outcome:
            assert outcome.exit_code == 0 and 150 * MIB <= outcome.memory <= limit * MIB, outcome


def test_a_failure_after_much_reading_is_no_memory_limit_verdict(sandbox: Sandbox) -> None:
    """Page cache may fill the group to its limit; whether it does depends on who has read those files before."""
    limits = Limits(cpu=60, wall=120, memory=32 * MIB)
    for read, verdict, lowest in (("64", Verdict.AC, 0), ("1000000", Verdict.RTE, 16 * MIB)):  # others may hold 64 MiB
        forget("/usr/lib", 2)
        with run_c(sandbox, FORGE.replace('"/usr"', '"/usr/lib/x86_64-linux-gnu"'), limits, "1", read) as outcome:
            assert run_verdict(outcome, limits, None)[0] is verdict, outcome
            assert lowest < outcome.memory < limits.memory


MESSAGES = """
#include <stdlib.h>
#include <sys/msg.h>
int main(int argc, char **argv) {
    struct { long kind; char text[8000]; } message = {1};
    for (int left = atoi(argv[1]); left > 0; left--) {
        int queue = msgget(IPC_PRIVATE, 0600 | IPC_CREAT);
        if (msgsnd(queue, &message, 8000, IPC_NOWAIT) < 0 || msgsnd(queue, &message, 8000, IPC_NOWAIT) < 0) return 1;
    }
    return 0;
}
"""


def test_messages_of_the_run_before_do_not_count(sandbox: Sandbox) -> None:
    """The kernel frees what was queued some time after the run's end."""
    limits = Limits(cpu=60, wall=120, memory=16 * MIB)
    for _ in range(5 * TIMES):
        with run_c(sandbox, MESSAGES, limits, "838") as outcome:
            assert run_verdict(outcome, limits, None).verdict is Verdict.AC and outcome.memory > 12 * MIB, outcome


WRITE = """
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    long size = atol(argv[2]);
    int fd = argv[1][0] == 'o' ? 1 : argv[1][0] == 'e' ? 2 : open("/scratch/f", O_CREAT | O_WRONLY, 0600);
    if (argv[3][0] == 'i') signal(SIGXFSZ, SIG_IGN);
    char *data = calloc(1, (size_t)size);
    for (long n = 0, more; n < size; n += more) if ((more = write(fd, data + n, (size_t)(size - n))) <= 0) break;
    return 0;
}
"""
OUTPUT = Limits(cpu=60, wall=120, output=100_000)


@pytest.mark.parametrize("stream", ["output", "error"])
@pytest.mark.parametrize("signal", ["killed", "ignored"])
def test_output(sandbox: Sandbox, stream: str, signal: str) -> None:
    for size in ("99999", "100000"):
        for _ in range(TIMES):
            outcome = run_c(sandbox, WRITE, OUTPUT, stream, size, signal)
            with outcome:
                assert run_verdict(outcome, OUTPUT, None).verdict is Verdict.AC
                assert len(outcome.read_stdout() + outcome.read_stderr()) == int(size)
    for _ in range(TIMES):
        outcome = run_c(sandbox, WRITE, OUTPUT, stream, "100001", signal)
        with outcome:
            assert run_verdict(outcome, OUTPUT, None)[0] is Verdict.OLE
            assert len(outcome.read_stdout() + outcome.read_stderr()) == 100_000


def test_files(sandbox: Sandbox) -> None:
    right_below(sandbox, WRITE, OUTPUT, "file", "100000", "killed")
    right_above(sandbox, WRITE, OUTPUT, Verdict.OLE, "output limit exceeded", "file", "100002", "killed")


COUNT = """
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *rest(void *unused) { pause(); return unused; }
int main(int argc, char **argv) {
    for (int i = 1; i < atoi(argv[2]); i++) {
        pthread_t thread;
        if (argv[1][0] == 't') { if (pthread_create(&thread, NULL, rest, NULL)) return 9; continue; }
        int pid = fork();
        if (pid < 0) return 9;
        if (pid == 0) { pause(); _exit(0); }
    }
    return 0;
}
"""


@pytest.mark.parametrize("kind", ["processes", "threads"])
@pytest.mark.parametrize("limit", [1, 2, 16])
def test_processes(sandbox: Sandbox, kind: str, limit: int) -> None:
    limits = Limits(cpu=60, wall=120, processes=limit)
    right_below(sandbox, COUNT, limits, kind, str(limit))
    right_above(sandbox, COUNT, limits, Verdict.RTE, "ended with exit code 9", kind, str(limit + 1))
