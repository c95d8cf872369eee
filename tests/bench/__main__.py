"""`make bench`: what judging costs over the bare commands. Every line is measured in this one run."""

from __future__ import annotations

import argparse
import datetime
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from judge.ctl.api import Api
from judge.rpc import messages as m
from tests.bench import bench_sandbox
from tests.support.cluster import running

SOURCE = """\
#include <stdio.h>
int main(void) {
    long n, sum = 0, x;
    if (scanf("%ld", &n) != 1) return 1;
    while (n-- > 0 && scanf("%ld", &x) == 1) sum += x;
    printf("%ld\\n", sum);
    return 0;
}
"""
TESTS = 10
_LOOP = """
cd "$1"
for s in $(seq "$2"); do
  gcc -O2 -o run-"$3" main.c -lm
  for t in $(seq 10); do ./run-"$3" < "$t.in" > out-"$3"; done
done
"""


def _line(what: str, value: str, target: str, ok: bool) -> None:
    print(f"{what:<62} {value:>26}   {target:<18} {'ok' if ok else 'MISSED'}", flush=True)


def _timed(action: Callable[[], object]) -> float:
    start = time.monotonic()
    action()
    return time.monotonic() - start


def _files(directory: Path) -> list[m.Test]:
    """The same program and inputs for the bare loop (as files) and for the cluster (as tests)."""
    (directory / "main.c").write_text(SOURCE)
    tests = []
    for index in range(1, TESTS + 1):
        numbers = list(range(index * 100))
        text = f"{len(numbers)}\n" + " ".join(map(str, numbers)) + "\n"
        (directory / f"{index}.in").write_text(text)
        tests.append(m.Test(name=f"{index:02}", input=text, answer=f"{sum(numbers)}\n"))
    return tests


def _bare(directory: Path, count: int, cores: list[int]) -> float:
    """Seconds that plain shell loops need for `count` submissions, one loop pinned to each core."""
    share = count // len(cores)

    def loops() -> None:
        started = [
            subprocess.Popen(
                ["taskset", "-c", str(core), "bash", "-c", _LOOP, "loop", str(directory), str(share), str(core)]
            )
            for core in cores
        ]
        for loop in started:
            assert loop.wait() == 0

    return _timed(loops)


def _submission(tests: list[m.Test]) -> m.Submission:
    return m.Submission(language="c", source=SOURCE, filename="main.c", tests=tests)


def _judge_all(api: Api, tests: list[m.Test], count: int) -> float:
    """Seconds from the first hand-out of `count` queued submissions to the last verdict."""
    executor = api.call(m.ExecutorsReply, "GET", "/executors").executors[0].name
    api.request("POST", f"/executors/{executor}/drain", json={"reason": "the queue is being filled"})
    tasks = [api.submit(_submission(tests)).id for _ in range(count)]
    api.request("POST", f"/executors/{executor}/resume", json={})
    done = []
    for task in tasks:
        now = api.get(task, wait=20)
        while not now.done:
            now = api.get(task, wait=20, version=now.version)
        assert now.verdict == m.Verdict.AC, now
        done.append(now)
    start = min(datetime.datetime.fromisoformat(task.started or "") for task in done)
    end = max(datetime.datetime.fromisoformat(task.finished or "") for task in done)
    return (end - start).total_seconds()


def latency(work: Path, rounds: int) -> None:
    """Submit-to-verdict and submit-to-start of a C hello world on an idle cluster."""
    source = '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n'
    (work / "hello.c").write_text(source)
    binary = work / "hello"
    compile_run = statistics.median(
        _timed(lambda: subprocess.run(["gcc", "-O2", "-o", binary, work / "hello.c", "-lm"], check=True))
        + _timed(lambda: subprocess.run([binary], check=True, stdout=subprocess.DEVNULL))
        for _ in range(rounds)
    )
    verdicts, starts = [], []
    test = m.Test(name="1", input="", answer="hello\n")
    with running(work / "idle") as cluster, cluster.api() as api:
        for index in range(rounds + 3):
            begin = time.monotonic()
            task = api.submit(m.Submission(language="c", source=source, filename="hello.c", tests=[test]))
            while not task.done:
                task = api.get(task.id, wait=20, version=task.version)
            took = time.monotonic() - begin
            assert task.verdict == m.Verdict.AC, task
            if index >= 3:  # the first ones warm the page cache
                verdicts.append(took)
                started = datetime.datetime.fromisoformat(task.started or "")
                starts.append((started - datetime.datetime.fromisoformat(task.created)).total_seconds())
    over = (statistics.median(verdicts) - compile_run) * 1000
    ratio = statistics.median(verdicts) / compile_run
    value = f"{statistics.median(verdicts) * 1000:.0f} ms = {ratio:.2f} x bare, +{over:.0f} ms"
    _line("submit to verdict of a C hello world, idle, median", value, "<= bare + 60 ms", over <= 60)
    p95 = sorted(starts)[int(len(starts) * 0.95) - 1] * 1000
    _line("submit to start, idle, p95", f"{p95:.0f} ms", "<= 100 ms", p95 <= 100)


def throughput(work: Path, count: int) -> None:
    """A queue through pinned slots against bare shell loops on the same cores."""
    tests = _files(work)
    last = (os.cpu_count() or 1) - 1
    bare = _bare(work, count, [last])
    with (
        running(work / "one", "--slots", "1", "--core", str(last)) as cluster,
        cluster.api() as api,
    ):
        _judge_all(api, tests, 4)
        judged = _judge_all(api, tests, count)
    share = bare / judged * 100
    value = f"{share:.0f} % ({count / judged:.1f}/s vs {count / bare:.1f}/s)"
    _line(f"{count} C submissions, {TESTS} tests each, one pinned slot vs loop", value, ">= 60 %", share >= 60)
    if last < 1:
        print("two slots against two loops: skipped, this machine has one core")
        return
    bare = _bare(work, count, [last - 1, last])
    with running(work / "two", "--slots", "2") as cluster, cluster.api() as api:
        _judge_all(api, tests, 4)
        judged = _judge_all(api, tests, count)
    share = bare / judged * 100
    value = f"{share:.0f} % ({count / judged:.1f}/s vs {count / bare:.1f}/s)"
    _line("two slots vs two loops (the cluster shares their cores)", value, "printed", ok=True)


def main() -> None:
    """Run the parts asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=["sandbox", "latency", "throughput", []], default=[])
    parser.add_argument("--count", type=int, default=200, help="submissions in the throughput part")
    parser.add_argument("--rounds", type=int, default=40, help="rounds in the latency part")
    options = parser.parse_args()
    parts = options.parts or ["sandbox", "latency", "throughput"]
    with tempfile.TemporaryDirectory(prefix="judge-bench-") as name:
        work = Path(name)
        if "sandbox" in parts:
            figures = bench_sandbox.measure()
            for key, value in figures.items():
                print(f"sandbox {key:<54} {value:>26.3f}")
            over = figures["over_bare"]
            _line("a trivial program over bare fork/exec, median", f"+{over:.2f} ms", "<= 6 ms", over <= 6)
        if "latency" in parts:
            latency(work, options.rounds)
        if "throughput" in parts:
            throughput(work, options.count)


if __name__ == "__main__":
    main()
