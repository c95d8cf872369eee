"""What this machine is like, tried with C programs outside of any sandbox; for expectations that depend on it.

Nothing here needs pytest: the hostile programs also run on deployed hosts, which have none.
"""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path


@functools.cache
def program(source: str, *flags: str) -> bytes:
    """A C program, compiled by the host's compiler."""
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
    """Run a C program on this machine as it is, without a sandbox."""
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
