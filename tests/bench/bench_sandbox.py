"""What a sandbox costs over a bare fork and exec, and by how much a killed run passes its limits."""

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from judge.model.messages import Limits
from judge.sandbox import Command, Killed, Sandbox, SandboxPool
from tests.bench.ledger import Ledger, percentile

RUNS = 300
CONTAINERS = 40
KILLS = 12
TRIVIAL = "int main(void) { return 0; }"
# Two processes: the second one's time is as much the submission's.
BURN = "#include <unistd.h>\nint main(void) { fork(); for (volatile long i = 0;; i++) {} }"
# Each in a session of its own, to which the kernel would give a share of its own.
SESSIONS = """#include <unistd.h>
int main(void) { for (int i = 0; i < 59 && fork() != 0; i++) { } setsid(); for (volatile long i = 0;; i++) { } }"""
SLEEP = "#include <unistd.h>\nint main(void) { for (;;) pause(); }"


def _series(action: Callable[[], object], count: int) -> list[float]:
    """Milliseconds of each call."""
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        action()
        times.append((time.perf_counter() - begin) * 1000)
    return times


def _bare(path: str) -> None:
    """The cheapest that Python can do: vfork, exec, wait."""
    os.waitpid(os.posix_spawn(path, [path], {}), 0)


def _built(directory: str, name: str, source: str) -> str:
    path = str(Path(directory) / name)
    subprocess.run(["gcc", "-O1", "-x", "c", "-", "-o", path], input=source.encode(), check=True)
    return path


def _overshoot(box: Sandbox, name: str, limits: Limits, killed: Killed) -> list[float]:
    """Milliseconds beyond the limit, of CPU time or wall time."""
    overshoots = []
    for _ in range(KILLS):
        with box.run(Command([f"/box/{name}"], limits)) as outcome:
            assert killed in outcome.killed, outcome
            used = outcome.cpu - limits.cpu if killed is Killed.CPU else outcome.wall - limits.wall_seconds
            overshoots.append(used * 1000)
    return overshoots


def measure(ledger: Ledger) -> None:
    cores = os.sched_getaffinity(0)
    core = max(cores)
    with tempfile.TemporaryDirectory() as directory:
        path = _built(directory, "trivial", TRIVIAL)
        programs = {
            name: Path(_built(directory, name, source)).read_bytes()
            for name, source in {
                "trivial": TRIVIAL,
                "burn": BURN,
                "sleep": SLEEP,
                "sessions": SESSIONS,
            }.items()
        }
        try:
            with SandboxPool("bench", core=core, makers=sorted(cores - {core})) as pool:
                with pool.take() as box:
                    for name, data in programs.items():
                        box.put(name, data, 0o755)
                    _cost(ledger, box, path)
                    cpu = _overshoot(box, "burn", Limits(cpu=0.2, wall=5), Killed.CPU)
                    forked = _overshoot(box, "sessions", Limits(cpu=0.3, wall=20, processes=64), Killed.CPU)
                    wall = _overshoot(box, "sleep", Limits(cpu=1, wall=0.2), Killed.WALL)
                _containers(ledger, pool)
        finally:
            os.sched_setaffinity(0, cores)
    for kind, values, top in (("CPU time", cpu, 20), ("CPU time of 60 sessions", forked, 20), ("wall time", wall, 50)):
        ledger.line(
            f"{kind} of a killed run beyond its limit, most of {KILLS}",
            f"+{max(values):.1f} ms",
            f"<= {top} ms",
            ok=max(values) <= top,
        )


def _cost(ledger: Ledger, box: Sandbox, path: str) -> None:
    bare: list[float] = []
    inside: list[float] = []
    for _ in range(10):  # taken in turns, so that a noisy machine is noisy for both
        bare += _series(lambda: _bare(path), RUNS // 10)
        inside += _series(lambda: box.run(Command(["/box/trivial"], Limits(cpu=5))).close(), RUNS // 10)
    middle = statistics.median(bare)
    over, tail = statistics.median(inside) - middle, percentile(inside, 99) - middle
    ledger.note("bare fork and exec, median", f"{middle:.2f} ms")
    ledger.line("a trivial run in a sandbox, over that", f"+{over:.2f} ms", "<= 1.2 ms", ok=over <= 1.2)
    ledger.line("the same, p99 over the bare median", f"+{tail:.2f} ms", "<= 5 ms", ok=tail <= 5)


def _containers(ledger: Ledger, pool: SandboxPool) -> None:
    fresh = statistics.median(_series(lambda: pool.take().close(), CONTAINERS))
    prepared = []
    for _ in range(CONTAINERS):
        pool.prepare()
        time.sleep(0.02)
        begin = time.perf_counter()
        sandboxes = pool.take()
        prepared.append((time.perf_counter() - begin) * 1000)
        sandboxes.close()
    ledger.note("a container made and removed, median", f"{fresh:.2f} ms")
    ledger.note("a prepared container taken, median", f"{statistics.median(prepared):.2f} ms")
