"""How fast two submissions that run side by side could talk to each other, by the fastest channel that stays open.

A page of a file of /usr is the same page in all sandboxes, and so is a futex on it: one side waits on one of two words
for each bit, and wakes a third for "go on". docs/sandbox.md says what else is open.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from judge.model.messages import Limits
from judge.sandbox import Command, Sandbox, SandboxPool
from tests.bench.ledger import Ledger

BITS = 4000
TALK = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static int *words, count, got;
static char said[1 << 16];
static int bit(int k) { return (int)((k * 2654435761u) >> 13 & 1); }
static void wake(int word) {
    while (syscall(SYS_futex, words + word, FUTEX_WAKE, 1, NULL, NULL, 0) != 1) sched_yield();
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
int main(int argc, char **argv) {
    pthread_t thread;
    count = atoi(argv[2]);
    words = mmap(NULL, 4096, PROT_READ, MAP_SHARED, open("/usr/bin/env", O_RDONLY), 4096);
    if (argv[1][0] == 'r') { pthread_create(&thread, NULL, listen, (void *)1); listen(NULL); }
    for (int k = 0; k < count; k++) { wake(bit(k)); while (!wait_for(2)) { } }
    return 0;
}
"""


def talk(sender: Sandbox, receiver: Sandbox) -> tuple[float, int]:
    """Bits per second, and how many of the bits were right."""
    said: list[bytes] = []

    def listen() -> None:
        command = Command(["/box/talk", "r", str(BITS)], Limits(cpu=30, wall=60, output=1 << 16))
        with receiver.run(command) as outcome:
            said.append(outcome.read_stdout())

    thread = threading.Thread(target=listen)
    thread.start()
    began = time.monotonic()
    sender.run(Command(["/box/talk", "s", str(BITS)], Limits(cpu=30, wall=60))).close()
    thread.join()
    sent = b"".join(b"%d" % ((k * 2654435761 & 0xFFFFFFFF) >> 13 & 1) for k in range(BITS))
    right = sum(one == other for one, other in zip(said[0], sent, strict=False))
    return right / (time.monotonic() - began), right


def measure(ledger: Ledger) -> None:
    """Print what the channel carried; needs root."""
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "talk"
        subprocess.run(["gcc", "-O1", "-w", "-x", "c", "-", "-o", path], input=TALK.encode(), check=True)
        try:
            with SandboxPool("bench-s", core=cores[0]) as one, one.take() as sender:
                os.sched_setaffinity(0, cores)
                with SandboxPool("bench-r", core=cores[-1]) as two, two.take() as receiver:
                    os.sched_setaffinity(0, cores)
                    for box in (sender, receiver):
                        box.put("talk", path.read_bytes(), 0o755)
                    rate, right = talk(sender, receiver)
        finally:
            os.sched_setaffinity(0, cores)
    what = "two submissions side by side, by a shared futex on a page of /usr"
    ledger.note(what, f"{rate:,.0f} bits/s, {right} of {BITS} right")
