"""Every hostile program gets its verdict, and nothing of it is left or was touched (docs/hostile.md).

`JUDGE_HOSTILE_ROUNDS` rounds (1 by default) of the whole set run at the end, in random order, four at a time;
`JUDGE_HOSTILE_SEED` repeats an order.
"""

from __future__ import annotations

import json
import os
import random
import selectors
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.hostile.cases import BY_NAME, CASES, rows
from tests.hostile.host import MARK, Host, Traces, strays
from tests.hostile.runner import Judge, Report
from tests.support.sandbox import need_sandbox
from tests.support.servers import wait_for

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="the full sandbox needs root here: run as root"),
]

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = int(os.environ.get("JUDGE_HOSTILE_ROUNDS", "1"))
WORKERS = 4
# How much the workers' memory may grow over the second half of the rounds.
GROWTH = 1.01
BIGGEST = ("08_big_source", "42_bytes_long_line", "42_bytes_many_tokens", "57_digits_py", "38_deep_py")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def host(directory: Path) -> Iterator[Host]:
    need_sandbox()
    # Every directory above the bait is open to everybody, or that alone would protect it.
    for parent in directory.parents:
        if parent.stat().st_uid == os.geteuid() and parent.name.startswith("pytest-"):
            parent.chmod(0o755)
    with Host(directory) as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOSTILE_SECRET", made.token)
        yield made


@pytest.fixture(scope="module")
def judge(host: Host, directory: Path) -> Iterator[Judge]:
    made = Judge("one", directory / "one", host.places)
    made.run("11_name_none")  # opens and imports what a process needs only once
    yield made
    made.close()


def gone(users: set[int]) -> None:
    """No process of the containers lives; the kernel may need a moment to end those that were killed."""
    wait_for(lambda: not strays(users), timeout=10, what=f"the end of {strays(users)}")


@pytest.mark.parametrize("name", [
    pytest.param(case.name, marks=pytest.mark.xfail(reason=case.gap, strict=case.steady)) if case.gap else case.name
    for case in CASES
])  # fmt: skip
def test_verdict(name: str, host: Host, judge: Judge) -> None:
    if BY_NAME[name].unless():
        pytest.skip(BY_NAME[name].unless())
    judge.users.clear()
    before = Traces.now(judge.outputs)
    report = judge.run(name)
    left = Traces.now(judge.outputs).new(before)
    gone(judge.users)
    assert report.faults(host.token) == []
    assert left == []
    assert host.hits() == []


def test_the_page_lists_every_program() -> None:
    assert rows() in (ROOT / "docs/hostile.md").read_text(), "put `python -m tests.hostile.cases` into docs/hostile.md"


def test_the_checks_see(tmp_path: Path) -> None:
    """Checks that never fail prove nothing: each is given something to find."""
    before = Traces.now(tmp_path)
    with Host(tmp_path / "bait") as bait:
        assert bait.hits() == []
        bait.secret.read_bytes()
        assert "opened" in bait.hits()[0]
        bait.victim.write_text("changed")
        assert len(bait.hits()) == 2
        socket.create_connection((bait.address, int(bait.places["@PORT@"])), 5).close()
        assert any("connected" in hit for hit in bait.hits())
        user = 1_800_000_000 + os.getpid()
        with subprocess.Popen(["sleep", "60"], user=user) as process:
            mark = Path("/tmp") / f"{MARK}-{os.getpid()}"
            mark.touch()
            try:
                left = Traces.now(tmp_path).new(before)
                assert strays({user}) != [] and strays({user + 1}) == []
            finally:
                mark.unlink()
                process.kill()
    for kind in ("descriptors", "children", "files"):
        assert any(text.startswith(kind) for text in left), left
    wrong = Report("15_setsid_c", "WA", "", "", bait.token)
    assert len(wrong.faults(bait.token)) == 2


@dataclass
class Worker:
    """A process with a slot's pipeline in it."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls, directory: Path, core: int, places: dict[str, str]) -> Worker:
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


@pytest.fixture
def workers(host: Host, directory: Path) -> Iterator[list[Worker]]:
    cores = sorted(os.sched_getaffinity(0))
    made = [Worker.start(directory / f"w{n}", cores[n % len(cores)], host.places) for n in range(WORKERS)]
    try:
        yield made
    finally:
        codes = [worker.stop() for worker in made]
    assert codes == [0] * WORKERS


def one_round(workers: list[Worker], names: list[str], token: str) -> list[str]:
    """Hand out the programs to whoever is free; all that is not as it should be."""
    faults, waiting, busy = [], list(reversed(names)), 0
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
            worker.ask(waiting.pop())
            busy += 1
        while busy:
            for key, _ in selector.select(timeout=120) or pytest.fail("no worker has answered for two minutes"):
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


@pytest.mark.timeout(300 + 200 * ROUNDS)
def test_all_in_random_order_four_at_a_time(host: Host, workers: list[Worker]) -> None:
    seed = int(os.environ.get("JUDGE_HOSTILE_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"JUDGE_HOSTILE_SEED={seed} JUDGE_HOSTILE_ROUNDS={ROUNDS}")
    for case in CASES:
        if case.unless():
            print(f"left out: {case.name}: {case.unless()}")
    order = random.Random(seed)
    names = sorted(name for name, case in BY_NAME.items() if not case.unless())
    memory: list[int] = []
    for worker in workers if ROUNDS > 1 else ():
        for name in BIGGEST * 2:
            worker.ask(name)
            worker.answer()
    before = Traces.now()
    for number in range(ROUNDS):
        faults = one_round(workers, order.sample(names, len(names)), host.token)
        for worker in workers:
            worker.ask("close")
        closed = [worker.answer() for worker in workers]
        gone({user for answer in closed for user in answer["users"]})
        faults += [text for answer in closed for text in answer["left"]]
        faults += Traces.now().new(before) + host.hits()
        assert not faults, f"round {number + 1}, seed {seed}:\n" + "\n".join(faults)
        memory.append(sum(answer["rss"] for answer in closed))
    print("memory of the workers after each round, in KiB:", [total // 1024 for total in memory])
    # The first rounds fill the allocator's arenas; a leak goes on.
    assert memory[-1] <= memory[ROUNDS // 2] * GROWTH
