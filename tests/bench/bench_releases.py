"""An older release and this one in turns, on the same machine in the same run: what a user's submission costs.

    .venv/bin/python -m tests.bench releases --release PATH

PATH is a checkout of the older release in which `make setup` has run. Both are driven through `judge up` and HTTP only.
"""

import concurrent.futures
import contextlib
import dataclasses
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml

from judge.config import MongodbClient
from judge.mongodb.store import connect
from tests.bench.bench_cluster import HELLO, SUM, bare, files, moment, plain
from tests.bench.ledger import Ledger, percentile, timed
from tests.support.cluster import Cluster, running

USERS = 8
_TICK = os.sysconf("SC_CLK_TCK")
# Background work: questions that mongod and the daemons ask without any submission.
_IDLE_SECONDS = 4.0
_FULL, _ALONE, _TESTS = 240, 40, 48
_BARE_LOOPS = 40


@dataclasses.dataclass
class Figures:
    """What was measured of one release, each figure a list with one value a round."""

    values: dict[str, list[float]] = dataclasses.field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        self.values.setdefault(name, []).append(value)


@dataclasses.dataclass
class Person:
    http: httpx.Client

    def submit(self, submission: dict[str, Any]) -> str:
        answer = self.http.post("/submissions", json=submission)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["task"]["id"] if "task" in answer.json() else answer.json()["id"])

    def wait(self, task: str) -> dict[str, Any]:
        while True:
            body: dict[str, Any] = self.http.get(f"/submissions/{task}", params={"wait": 20}).json()
            body = body.get("task", body)
            if body["done"]:
                assert body["verdict"] == "AC", body
                return body


@contextlib.contextmanager
def _people(cluster: Cluster) -> Iterator[list[Person]]:
    context = yaml.safe_load((cluster.directory / "client.yml").read_text())
    base = context["server"] + "/api/v1"
    admin = {"Authorization": "Bearer " + (cluster.directory / context["token_file"]).read_text().strip()}
    with contextlib.ExitStack() as stack:
        people = []
        for number in range(USERS):
            name = f"user{number}"
            httpx.post(f"{base}/users", json={"name": name}, headers=admin, trust_env=False).raise_for_status()
            body = {"label": "bench", "scopes": ["read", "submit"], "days": 1, "user": name}
            token = httpx.post(f"{base}/tokens", json=body, headers=admin, trust_env=False).raise_for_status().json()
            headers = {"Authorization": f"Bearer {token['token']}"}
            client = httpx.Client(base_url=base, headers=headers, timeout=60, trust_env=False)
            people.append(Person(stack.enter_context(client)))
        yield people


class Meter:
    """Counts the commands of mongod and the CPU time of each part of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        config = yaml.safe_load((cluster.directory / "etc" / "judicator.yml").read_text())["mongodb"]
        self._mongodb = MongodbClient.model_validate(config)
        self.idle_commands = self.idle_cpu = 0.0
        before, start = self.commands(), self.cpu()
        time.sleep(_IDLE_SECONDS)
        self.idle_commands = (self.commands() - before).total() / _IDLE_SECONDS
        self.idle_cpu = (sum(self.cpu().values()) - sum(start.values())) / _IDLE_SECONDS

    def commands(self) -> Counter[str]:
        """Commands of the product that mongod has had up to now, by kind."""
        with connect(self._mongodb, asynchronous=False) as client:
            totals = client.admin.command("serverStatus")["metrics"]["commands"]
        kinds = ("find", "insert", "update", "delete", "findAndModify", "getMore", "aggregate", "count", "distinct")
        return Counter({kind: totals[kind]["total"] for kind in kinds})

    def cpu(self) -> Counter[str]:
        """Seconds of CPU of each part up to now; `slot` is what compiles and runs programs."""
        parents: dict[int, int] = {}
        used: dict[int, float] = {}
        parts: dict[int, str] = {}
        root = str(self._cluster.directory)
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # the process has just ended
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                pid = int(entry.name)
                parents[pid] = int(fields[1])
                own, children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
                command = (entry / "cmdline").read_text(errors="replace").replace("\0", " ")
                part = _part(command, root)
                if part:
                    parts[pid] = part
                used[pid] = (own + (children if part == "slot" else 0)) / _TICK
        result: Counter[str] = Counter()
        for pid in parents:
            ancestor = pid
            while ancestor not in parts and ancestor > 1:
                ancestor = parents.get(ancestor, 0)
            if ancestor in parts:
                result[parts[ancestor]] += used[pid]
        return result

    def measure(self, work: Callable[[], int]) -> tuple[dict[str, float], dict[str, float], float]:
        """Run `work`, which returns a number of submissions: commands and CPU ms of each one, and seconds."""
        commands, cpu, start = self.commands(), self.cpu(), time.monotonic()
        count = work()
        seconds = time.monotonic() - start
        after, used = self.commands(), self.cpu()
        by_kind = {kind: (after[kind] - commands[kind]) / count for kind in after}
        by_kind["all"] = sum(by_kind.values()) - self.idle_commands * seconds / count
        by_part = {part: (used[part] - cpu[part]) / count * 1000 for part in used}
        return by_kind, by_part, seconds


def _part(command: str, root: str) -> str:
    if "judge.executor.slot.main" in command or "judge.executor.slot " in command:
        return "slot" if root in command else ""
    if root not in command:
        return ""
    for text, part in (
        ("judge.cli judicator", "judicator"),
        ("judge.cli executor", "executor"),
        ("judge.cli gateway", "gateway"),
        ("/mongod ", "mongod"),
        ("/etcd ", "etcd"),
        ("judge.cli mongodb", "members"),
        ("judge.cli etcd", "members"),
        ("judge up", "members"),
    ):
        if text in command:
            return part
    return ""


def _true() -> dict[str, Any]:
    return {"command": "true"}


def _ten_tests(work: Path) -> dict[str, Any]:
    tests = [{"name": test.name, "input": test.input, "answer": test.answer} for test in files(work)]
    return {"language": "c", "source": SUM, "filename": "main.c", "tests": tests}


def _all_at_once(people: Sequence[Person], submission: dict[str, Any], count: int) -> int:
    def share(person: Person) -> None:
        tasks = [person.submit(submission) for _ in range(count // len(people))]
        for task in reversed(tasks):  # most have ended when the newest has, so few of these questions wait
            person.wait(task)

    with concurrent.futures.ThreadPoolExecutor(len(people)) as pool:
        list(pool.map(share, people))
    return count // len(people) * len(people)


def _one_by_one(people: Sequence[Person], submission: dict[str, Any], count: int) -> list[dict[str, Any]]:
    return [
        person.wait(person.submit(submission)) for person in (people[number % len(people)] for number in range(count))
    ]


def _round(figures: Figures, judge: Path, work: Path) -> None:
    with (
        running(work / "cluster", "--slots", "2", judge=judge) as cluster,
        _people(cluster) as people,
    ):
        ten = _ten_tests(work)
        _all_at_once(people, _true(), 4 * USERS)
        _all_at_once(people, ten, USERS)
        meter = Meter(cluster)
        commands, cpu, seconds = meter.measure(lambda: _all_at_once(people, _true(), _FULL))
        figures.add("`true`, full queue: commands", commands["all"])
        figures.add("`true`, full queue: rate /s", _FULL / seconds)
        _add_cpu(figures, "`true`, full queue", cpu)
        tasks: list[dict[str, Any]] = []

        def alone() -> int:
            tasks.extend(_one_by_one(people, _true(), _ALONE))
            return _ALONE

        commands, cpu, seconds = meter.measure(alone)
        figures.add("`true`, alone: commands", commands["all"])
        figures.add("`true`, alone: whole ms", seconds / _ALONE * 1000)
        starts = [(moment(task["started"]) - moment(task["created"])) * 1000 for task in tasks]
        figures.add("`true`, alone: submit to start ms, p95", percentile(starts, 95))
        _add_cpu(figures, "`true`, alone", cpu)
        cores = sorted(os.sched_getaffinity(0))[-2:]
        loops = bare(work, _BARE_LOOPS, cores) / _BARE_LOOPS
        _, cpu, seconds = meter.measure(lambda: _all_at_once(people, ten, _TESTS))
        _add_cpu(figures, "C, ten tests", cpu)
        figures.add("C, ten tests: % of two bare loops", loops / (seconds / _TESTS) * 100)
        figures.add("C hello world: ms over bare", _over_bare(people, work))


def _add_cpu(figures: Figures, label: str, cpu: dict[str, float]) -> None:
    for part, used in cpu.items():
        figures.add(f"{label}: CPU ms of {part}", used)
    figures.add(f"{label}: CPU ms without the slot", sum(used for part, used in cpu.items() if part != "slot"))


def _over_bare(people: Sequence[Person], work: Path) -> float:
    submission = {
        "language": "c", "source": HELLO, "filename": "main.c",
        "tests": [{"name": "1", "input": "", "answer": "hello\n"}],
    }  # fmt: skip
    alone, in_cluster = [], []
    for _ in range(20):
        alone.append(timed(lambda: plain(work)))
        in_cluster.append(timed(lambda: _one_by_one(people, submission, 1)))
    return (statistics.median(in_cluster) - statistics.median(alone)) * 1000


# The goals of this release.
_GOALS: dict[str, tuple[str, Callable[[float], bool]]] = {
    "`true`, full queue: commands": ("<= 6", lambda value: value <= 6),
    "`true`, alone: commands": ("<= 10", lambda value: value <= 10),
    "`true`, full queue: CPU ms without the slot": ("<= 7", lambda value: value <= 7),
    "C, ten tests: CPU ms without the slot": ("<= 7", lambda value: value <= 7),
    "`true`, full queue: CPU ms of slot": ("<= 9", lambda value: value <= 9),
    "`true`, full queue: rate /s": (">= 100", lambda value: value >= 100),
    "C, ten tests: % of two bare loops": (">= 80", lambda value: value >= 80),
    "C hello world: ms over bare": ("<= 25", lambda value: value <= 25),
    "`true`, alone: submit to start ms, p95": ("<= 15", lambda value: value <= 15),
}


def measure(ledger: Ledger, work: Path, release: Path | None, rounds: int) -> None:
    """Both releases in turns, `rounds` times; the older one is left out if there is no checkout of it."""
    releases = {"this release": Path(sys.executable).parent / "judge"}
    if release is None:
        ledger.note("an older release", "not measured: no --release")
    else:
        releases = {"the older release": release / ".venv" / "bin" / "judge", **releases}
    figures = {name: Figures() for name in releases}
    for number in range(rounds):
        for name, judge in releases.items():
            directory = work / f"{number}-{len(name)}"
            directory.mkdir()
            _round(figures[name], judge, directory)
    current = figures["this release"]
    older = figures.get("the older release", Figures())
    for name, values in current.values.items():
        value = f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"
        if name in older.values:
            value = f"{statistics.median(older.values[name]):.1f} -> {value}"
        if name in _GOALS:
            goal, met = _GOALS[name]
            ledger.line(name, value, goal, ok=met(statistics.median(values)))
        else:
            ledger.note(name, value)
