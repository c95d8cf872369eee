"""What a run in the sandbox costs over a bare fork and exec, measured in the same run on the same core."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from judge.rpc.messages import Limits
from judge.sandbox import Command, SandboxPool

RUNS = 300
CONTAINERS = 40


def _series(action: Callable[[], object], count: int) -> list[float]:
    """Milliseconds of each call, sorted."""
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        action()
        times.append((time.perf_counter() - begin) * 1000)
    return sorted(times)


def _bare(path: str) -> None:
    """The cheapest that Python can do: vfork, exec, wait."""
    os.waitpid(os.posix_spawn(path, [path], {}), 0)


def measure() -> dict[str, float]:
    """Milliseconds (medians and p99) and ratios; needs root.

    `over_bare` is the median cost of start to finish in a sandbox, counters read, above the bare fork/exec.
    """
    cores = os.sched_getaffinity(0)
    limits = Limits(cpu=5)
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "trivial")
        subprocess.run(["gcc", "-O1", "-x", "c", "-", "-o", path], input=b"int main(){return 0;}", check=True)
        binary = Path(path).read_bytes()
        try:
            with SandboxPool("bench", core=max(cores)) as pool:
                sandbox = pool.take()
                sandbox.put("trivial", binary, 0o755)

                def boxed() -> None:
                    sandbox.run(Command(["/box/trivial"], limits)).close()

                bare, inside = [], []
                for _ in range(10):  # taken in turns, so that a noisy machine is noisy for both
                    bare += _series(lambda: _bare(path), RUNS // 10)
                    inside += _series(boxed, RUNS // 10)
                sandbox.close()

                def whole() -> None:
                    pool.take().close()

                fresh = _series(whole, CONTAINERS)
                prepared = []
                for _ in range(CONTAINERS):
                    pool.prepare()
                    time.sleep(0.02)
                    begin = time.perf_counter()
                    taken = pool.take()
                    prepared.append((time.perf_counter() - begin) * 1000)
                    taken.close()
        finally:
            os.sched_setaffinity(0, cores)
    bare.sort()
    inside.sort()
    return {
        "bare fork/exec, median ms": statistics.median(bare),
        "run in a sandbox, median ms": statistics.median(inside),
        "run in a sandbox, p99 ms": inside[len(inside) * 99 // 100],
        "over_bare": statistics.median(inside) - statistics.median(bare),
        "ratio": statistics.median(inside) / statistics.median(bare),
        "container made and removed, median ms": statistics.median(fresh),
        "prepared container taken, median ms": statistics.median(prepared),
    }


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:<45} {value:8.3f}")
