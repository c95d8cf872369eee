"""All hostile programs in random order, four at a time, as often as wanted; and a look at everything after each round.

The tests do it in this repository's environment. On a deployed executor host (scripts/test-hostile-host) the release's
own Python does it, without pytest: python -m tests.hostile.rounds DIRECTORY [ROUNDS [SEED]].
"""

from __future__ import annotations

import itertools
import json
import os
import random
import selectors
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.cases import BY_NAME, CASES, WORKERS
from tests.hostile.host import Host, Traces, strays
from tests.hostile.runner import Report
from tests.support.servers import wait_for

ROOT = Path(__file__).resolve().parents[2]
# The factor by which the workers' memory may grow over the second half of the rounds, by its median step.
GROWTH = 1.01
BIGGEST = ("08_big_source", "42_bytes_long_line", "42_bytes_many_tokens", "57_digits_py", "38_deep_py")
SILENCE = 300.0  # seconds without an answer of any worker, after which one hangs
SECRET = "HOSTILE_SECRET"  # the variable of the judge's environment that has the token


def wait_for_end(users: set[int]) -> None:
    """No process of the containers lives; the kernel may need a moment to end those that were killed."""
    wait_for(lambda: not strays(users), what=f"the end of {strays(users)}")


@dataclass
class Worker:
    process: subprocess.Popen[str]

    @classmethod
    def start(cls, directory: Path, core: int, places: Mapping[str, str]) -> Worker:
        """`directory`: its own; `places`: what the programs are told of the bait."""
        arguments = [str(directory), str(core), json.dumps(places)]
        command = ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-m", "tests.hostile.runner", *arguments]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        return cls(process)

    def ask(self, name: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"a worker died with exit code {self.process.wait()}"
        return json.loads(line)

    def stop(self) -> int:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        try:
            return self.process.wait(30)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


@contextmanager
def crew(directory: Path, places: Mapping[str, str]) -> Iterator[list[Worker]]:
    """The workers, two or more on a core where there are less than four; all end well."""
    cores = sorted(os.sched_getaffinity(0))
    workers = [Worker.start(directory / f"w{n}", cores[n % len(cores)], places) for n in range(WORKERS)]
    try:
        yield workers
    finally:
        codes = [worker.stop() for worker in workers]
    assert codes == [0] * WORKERS, f"workers ended with {codes}"


def one_round(workers: list[Worker], names: list[str], token: str) -> list[str]:
    """Hand out the programs to whoever is free; all that is not as it should be."""
    faults, waiting, busy = [], list(reversed(names)), 0
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            assert worker.process.stdout is not None
            selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
            worker.ask(waiting.pop())
            busy += 1
        while busy:
            ready = selector.select(timeout=SILENCE)
            assert ready, f"no worker has answered for {SILENCE:g} s"
            for key, _ in ready:
                report = Report(**key.data.answer())
                wrong, case = report.faults(token), BY_NAME[report.name]
                if case.gap:
                    wrong = [] if wrong or not case.steady else ["passes, and is marked as a gap"]
                faults += [f"{report.name}: {text}" for text in wrong]
                busy -= 1
                if waiting:
                    key.data.ask(waiting.pop())
                    busy += 1
    return faults


def grows(memory: Sequence[int]) -> bool:
    """Whether there is a leak, from the bytes after each round.

    The first half of the rounds fills the allocator's arenas, and a round in which large programs meet takes 2 MiB
    once: a leak goes on.
    """
    later = memory[len(memory) // 2 :]
    steps = [after - before for before, after in itertools.pairwise(later)]
    return len(steps) > 1 and statistics.median(steps) * len(steps) > later[0] * (GROWTH - 1)


def rounds(host: Host, workers: list[Worker], count: int, seed: int, tell: Callable[[str], None]) -> list[str]:
    """`count` rounds; what was wrong in the first round in which anything was, or after the last one."""
    tell(f"JUDGE_HOSTILE_SEED={seed} JUDGE_HOSTILE_ROUNDS={count}")
    for case in CASES:
        if case.unless():
            tell(f"left out: {case.name}: {case.unless()}")
    names = sorted(name for name, case in BY_NAME.items() if not case.unless())
    order = random.Random(seed)
    memory: list[int] = []
    for worker in workers if count > 1 else ():
        for name in BIGGEST * 2:
            worker.ask(name)
            worker.answer()
    before = Traces.now()
    for number in range(count):
        faults = one_round(workers, order.sample(names, len(names)), host.token)
        for worker in workers:
            worker.ask("close")
        closed = [worker.answer() for worker in workers]
        wait_for_end({user for answer in closed for user in answer["users"]})
        faults += [text for answer in closed for text in answer["left"]]
        faults += Traces.now().new(before) + host.hits()
        if faults:
            return [f"round {number + 1}, seed {seed}: {fault}" for fault in faults]
        tell(f"round {number + 1}: {len(names)} programs, nothing wrong and nothing left")
        memory.append(sum(answer["rss"] for answer in closed))
    tell(f"memory of the workers after each round, in KiB: {[total // 1024 for total in memory]}")
    return [f"the workers' memory grows: {memory}"] if grows(memory) else []


def main(directory: Path, count: int, seed: int) -> int:
    """As a program: print what happens, and 1 when anything was wrong."""
    with Host(directory / "bait") as host:
        os.environ[SECRET] = host.token
        with crew(directory, host.places) as workers:
            faults = rounds(host, workers, count, seed, lambda text: print(text, flush=True))
    print("\n".join(faults) or "all clean")
    return 1 if faults else 0


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[2:]]
    sys.exit(main(Path(sys.argv[1]), *numbers[:1] or [1], *numbers[1:] or [random.SystemRandom().randrange(1 << 32)]))
