"""How fast two programs in containers that live at the same time can talk to each other.

Three ways: a futex on a page of a file of /usr, which the sandbox answers itself (docs/decisions/006); the processor's
caches, as that page is the same memory in all containers; and the core that the processes of one submission share.
docs/sandbox.md says what else is open.
"""

import math
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from judge.model.messages import Limits
from judge.sandbox import Command, Sandbox, SandboxPool
from tests.bench.ledger import Ledger

BITS = 2000
# Nanoseconds for a bit.
CACHE_SLOT, CORE_SLOT = 20_000, 10_000_000
LIMITS = Limits(cpu=20, wall=40, output=1 << 16)
SHARED = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int count;
static int bit(int k) { return (int)((k * 2654435761u) >> 13 & 1); }
static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}
static char *page(void) { return mmap(NULL, 4096, PROT_READ, MAP_SHARED, open("/usr/bin/env", O_RDONLY), 4096); }
"""
FUTEX = (
    SHARED
    + r"""
static int *words, got;
static char said[1 << 16];
static uint64_t end;
static void wake(int word) {
    while (syscall(SYS_futex, words + word, FUTEX_WAKE, 1, NULL, NULL, 0) != 1) {
        if (now() > end) exit(0);
        sched_yield();
    }
}
static int wait_for(int word) { return syscall(SYS_futex, words + word, FUTEX_WAIT, words[word], NULL, NULL, 0) == 0; }
static void *listen(void *which) {
    for (;;)
        if (wait_for((int)(long)which)) {
            int at = got++;
            said[at] = which ? '1' : '0';
            wake(2);
            if (at + 1 == count) { write(1, said, (size_t)count); _exit(0); }
        }
    return NULL;
}
static void *stop(void *unused) {
    while (now() < end) usleep(1000);
    write(1, said, (size_t)got);
    _exit(0);
    return unused;
}
int main(int argc, char **argv) {
    pthread_t thread;
    count = atoi(argv[2]);
    end = now() + 5000000000u;
    words = (int *)page();
    pthread_create(&thread, NULL, stop, NULL);
    if (argv[1][0] == 'r') { pthread_create(&thread, NULL, listen, (void *)1); listen(NULL); }
    for (int k = 0; k < count; k++) { wake(bit(k)); while (!wait_for(2)) { } }
    return 0;
}
"""
)
# One loads a line of the page, or does not; the other has flushed it and times its own load.
CACHE = (
    SHARED
    + r"""
#include <x86intrin.h>
int main(int argc, char **argv) {
    uint64_t slot = strtoull(argv[3], NULL, 10), start = strtoull(argv[4], NULL, 10), sum[2] = {0}, limit;
    volatile char *line = page() + 192;
    char *said = malloc((size_t)(count = atoi(argv[2])));
    unsigned unused;
    for (int i = 0; i < 400; i++) {
        uint64_t began = __rdtscp(&unused);
        (void)*line;
        sum[i & 1] += __rdtscp(&unused) - began;
        if ((i & 1) == 0) _mm_clflush((void *)line);
        _mm_mfence();
    }
    limit = (sum[0] + sum[1]) / 400;
    for (int k = 0; k < count; k++) {
        uint64_t begin = start + (uint64_t)k * slot, fast = 0, all = 0;
        while (now() < begin + slot / 8) { }
        while (now() < begin + slot - slot / 8) {
            if (argv[1][0] == 's') {
                if (bit(k)) (void)*line;
                continue;
            }
            _mm_clflush((void *)line);
            _mm_mfence();
            for (uint64_t until = __rdtscp(&unused) + 600; __rdtscp(&unused) < until;) { }
            uint64_t began = __rdtscp(&unused);
            (void)*line;
            fast += __rdtscp(&unused) - began < limit;
            all++;
        }
        said[k] = fast * 2 > all ? '1' : '0';
    }
    return argv[1][0] == 's' ? 0 : (int)write(1, said, (size_t)count) < 0;
}
"""
)
# One computes, or sleeps; the other counts for how much of the time it had the core: more than usual, or less.
CORE = (
    SHARED
    + r"""
static int by_size(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}
int main(int argc, char **argv) {
    uint64_t slot = strtoull(argv[3], NULL, 10), start = strtoull(argv[4], NULL, 10);
    char *said = malloc((size_t)(count = atoi(argv[2])));
    uint64_t *had = calloc((size_t)count, sizeof *had), *sorted = calloc((size_t)count, sizeof *had);
    for (int k = 0; k < count; k++) {
        uint64_t begin = start + (uint64_t)k * slot, end = begin + slot, last, at;
        if (argv[1][0] == 's' && !bit(k)) {
            if (now() < end) usleep((unsigned)((end - now()) / 1000));
            continue;
        }
        while (now() < begin) { }
        for (last = now(); last < end; last = at)
            if ((at = now()) - last < 100000) had[k] += at - last;
    }
    memcpy(sorted, had, (size_t)count * sizeof *had);
    qsort(sorted, (size_t)count, sizeof *had, by_size);
    for (int k = 0; k < count; k++) said[k] = had[k] < sorted[count / 2] ? '1' : '0';
    return argv[1][0] == 's' ? 0 : (int)write(1, said, (size_t)count) < 0;
}
"""
)


def _talk(sender: Sandbox, receiver: Sandbox, bits: int, *words: str) -> tuple[float, bytes]:
    bits_got: list[bytes] = []
    start = str(time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 500_000_000)

    def listen() -> None:
        with receiver.run(Command(["/box/talk", "r", str(bits), *words, start], LIMITS)) as outcome:
            bits_got.append(outcome.read_stdout())

    thread = threading.Thread(target=listen)
    thread.start()
    began = time.monotonic()
    sender.run(Command(["/box/talk", "s", str(bits), *words, start], LIMITS)).close()
    thread.join()
    return time.monotonic() - began, bits_got[0]


def _figures(seconds: float, got: bytes, bits: int) -> str:
    """Bits per second, less what errors take (a binary symmetric channel)."""
    expected = b"".join(b"%d" % ((k * 2654435761 & 0xFFFFFFFF) >> 13 & 1) for k in range(bits))
    if not got:
        return "nothing came through"
    right = sum(digit == sent_digit for digit, sent_digit in zip(got, expected, strict=False))
    wrong = min(max(1 - right / len(got), 1e-9), 1 - 1e-9)
    capacity = 1 + wrong * math.log2(wrong) + (1 - wrong) * math.log2(1 - wrong)
    return f"{capacity * len(got) / seconds:,.0f} bits/s, {right} of {len(got)} right"


def measure(ledger: Ledger) -> None:
    cores = sorted(os.sched_getaffinity(0))
    ways = (
        ("a shared futex on a page of /usr, two cores", FUTEX, cores[-1], BITS, 0),
        ("the caches, by a page of /usr, two cores", CACHE, cores[-1], BITS, CACHE_SLOT),
        ("the time that the other has the core, one core", CORE, cores[0], BITS // 4, CORE_SLOT),
    )
    for label, source, core, bits, slot in ways:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "talk"
            command = ["gcc", "-O1", "-w", "-pthread", "-x", "c", "-", "-o", str(path)]
            subprocess.run(command, input=source.encode(), check=True)
            program = path.read_bytes()
        try:
            with SandboxPool("bench-s", core=cores[0]) as pool, pool.take() as sender:
                os.sched_setaffinity(0, cores)
                with SandboxPool("bench-r", core=core) as two, two.take() as receiver:
                    os.sched_setaffinity(0, cores)
                    for box in (sender, receiver):
                        box.put("talk", program, 0o755)
                    seconds, bits_got = _talk(sender, receiver, bits, str(slot))
        finally:
            os.sched_setaffinity(0, cores)
        ledger.note(
            f"two containers at once, by {label}", _figures(bits * slot / 1e9 if slot else seconds, bits_got, bits)
        )
