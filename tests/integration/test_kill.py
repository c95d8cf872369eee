"""SIGKILL of each process kind, one at a time and in pairs, during two streams of 100 submissions.

A third of the pairs, so that each kind is in three of them; all 45 with JUDGE_TEST_KILLS=all (`make test-kills`).

Nothing acknowledged may be lost or doubled, every verdict must be the oracle's, and a verdict never changes.
"""

import contextlib
import itertools
import os
import random
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from judge.common.errors import UnavailableError
from judge.model import messages as m
from judge.model.overview import StatusReply
from tests.support.cluster import Cluster, processes_of
from tests.support.servers import wait_for

pytestmark = [pytest.mark.root, pytest.mark.timeout(1200)]

# Each of the two halves: in a class of its own, so that they run side by side.
TOTAL = 100
SEED = 20260131

# kind of process -> how its command line is told apart (arguments of /proc/PID/cmdline, joined by spaces)
KINDS: dict[str, Callable[[str], bool]] = {
    "boot": lambda c: " up --dir " in c,
    "etcd daemon": lambda c: "judge.cli etcd " in c,
    "etcd": lambda c: "/etcd " in c.split("--name")[0] + " " and "--data-dir" in c,
    "mongodb daemon": lambda c: "judge.cli mongodb " in c,
    "mongod": lambda c: "mongod " in c and "--replSet" in c,
    "judicator": lambda c: "judge.cli judicator " in c,
    "executor": lambda c: "judge.cli executor " in c,
    "slot": lambda c: "judge.executor.slot.main" in c,
    "gateway daemon": lambda c: "judge.cli gateway " in c,
    "uwsgi": lambda c: "uwsgi" in c and "judge.cli" not in c,
}

# (source, inline test, right verdict): the oracle of the stream
CASES = [
    ("n = int(input())\nprint(n * n)\n", m.Verdict.AC),
    ("n = int(input())\nprint(n + n)\n", m.Verdict.WA),
    ("import sys\nsys.exit(3)\n", m.Verdict.RTE),
    ("def broken(:\n", m.Verdict.CE),
]


def _submission(index: int) -> m.Submission:
    source, verdict = CASES[index % len(CASES)]
    number = index + 3
    return m.Submission(
        language="python3",
        source=source + f"# {index} {verdict}\n",
        filename=f"s{index}.py",
        tests=[m.Test(name="1", input=f"{number}\n", answer=f"{number * number}\n")],
        idempotency_key=f"kill-{index}",
    )


class _Stream(threading.Thread):
    """Hands in all submissions, a few after each kill, repeating each until it is acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self.cluster = cluster
        self.ids: list[str] = []
        self.allowed = threading.Semaphore(0)
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with self.cluster.api(timeout=120) as api:
                for index in range(TOTAL):
                    self.allowed.acquire()
                    self.ids.append(api.submit(_submission(index)).id)
        except BaseException as exc:
            self.failure = exc
            raise


def _alive(cluster: Cluster) -> dict[str, set[int]]:
    """Process ids by kind, of this cluster only."""
    commands = processes_of(str(cluster.directory))
    return {kind: {pid for pid, command in commands.items() if match(command)} for kind, match in KINDS.items()}


def _kill(pids: set[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _recovered(cluster: Cluster, killed: dict[str, set[int]]) -> bool:
    now = _alive(cluster)
    if not all(now[kind] for kind in KINDS) or any(now[kind] & pids for kind, pids in killed.items()):
        return False
    try:
        with cluster.api(timeout=0.1) as api:
            return not api.call(StatusReply, "GET", "/status").faults
    except UnavailableError:
        return False


def _targets() -> list[tuple[str, ...]]:
    """Each kind, then pairs of kinds."""
    kinds = list(KINDS)
    pairs = list(itertools.combinations(kinds, 2))
    if os.environ.get("JUDGE_TEST_KILLS") != "all":
        # The kinds in a circle: with the next one, and with the opposite one.
        apart = {1, len(kinds) // 2, len(kinds) - 1}
        pairs = [(first, second) for first, second in pairs if kinds.index(second) - kinds.index(first) in apart]
    random.Random(SEED).shuffle(pairs)
    return [*((kind,) for kind in kinds), *pairs]


class TestOneHalf:
    def test_kills_lose_and_double_nothing(self, tmp_path: Path) -> None:
        _kill_all(tmp_path, _targets()[::2])


class TestTheOtherHalf:
    def test_kills_lose_and_double_nothing(self, tmp_path: Path) -> None:
        _kill_all(tmp_path, _targets()[1::2])


def _kill_all(directory: Path, targets: Sequence[tuple[str, ...]]) -> None:
    cluster = Cluster(directory / "cluster", ["--slots", "2"])
    cluster.start()
    stream = _Stream(cluster)
    stream.start()
    settled: set[str] = set()
    before_last_kill: list[str] = []
    try:
        for step, kinds in enumerate(targets):
            # A task that three executors in a row died with counts as the cause and ends as JE (docs/protocol.md), so
            # what was in hand at the kill before is judged before the next one. New ones are on their way all the time.
            _judged(cluster, before_last_kill, settled)
            before_last_kill = list(stream.ids)
            for _ in range(TOTAL * (step + 1) // len(targets) - TOTAL * step // len(targets)):
                stream.allowed.release()
            wait_for(lambda: all(_alive(cluster).values()), what="one process of every kind")
            before = _alive(cluster)
            killed = {kind: before[kind] for kind in kinds}
            for pids in killed.values():
                _kill(pids)
            if "boot" in kinds:
                assert cluster.process is not None
                cluster.process.wait()
                cluster.start()
            wait_for(lambda k=killed: _recovered(cluster, k), 90, f"recovery from killing {' and '.join(kinds)}")
            assert stream.failure is None, stream.failure
        wait_for(lambda: len(stream.ids) == TOTAL or stream.failure, 120, "all submissions acknowledged")
        assert stream.failure is None, stream.failure
        _check_verdicts(cluster, stream.ids)
    finally:
        cluster.stop()
    assert processes_of(str(cluster.directory)) == {}


def _judged(cluster: Cluster, ids: list[str], settled: set[str]) -> None:
    """Wait until all of these are done; `settled` remembers those that are."""
    with cluster.api(timeout=60) as api:
        for task_id in ids:
            task = None if task_id in settled else api.get(task_id)
            while task is not None and not task.done:
                task = api.get(task_id, wait=20, version=task.version)
            settled.add(task_id)


def _check_verdicts(cluster: Cluster, ids: list[str]) -> None:
    with cluster.api(timeout=60) as api:
        first = {}
        for task_id in ids:
            task = api.get(task_id, wait=20)
            while not task.done:
                task = api.get(task_id, wait=20, version=task.version)
            first[task_id] = task
        listed: list[str] = []
        before: str | None = None
        while True:
            page = api.search(limit=100, before=before)
            listed += [task.id for task in page.tasks]
            before = page.next
            if before is None:
                break
        assert sorted(listed) == sorted(ids), "a submission is lost or doubled"
        assert len(set(ids)) == TOTAL
        wrong = {
            index: (first[task_id].verdict, first[task_id].result)
            for index, task_id in enumerate(ids)
            if first[task_id].verdict != CASES[index % len(CASES)][1]
        }
        assert not wrong, wrong
        again = {task_id: api.get(task_id) for task_id in ids}
        assert again == first, "a verdict changed after it was final"
