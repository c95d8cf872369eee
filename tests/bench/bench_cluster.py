"""What whole clusters make of the machine: latency, throughput, steadiness, many tests, live judging beside others."""

import datetime
import os
import statistics
import subprocess
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from bson import ObjectId

from judge.config import MongodbClient
from judge.ctl.api import Api
from judge.ctl.problem.importing import Reading, import_package
from judge.model import messages as m
from judge.model.overview import ExecutorsReply
from judge.model.rejudging import RejudgeFilter, RejudgeStart, Rejudging
from judge.mongodb.store import connect
from tests.bench.ledger import Ledger, percentile, spread, timed
from tests.support.cluster import Cluster, running
from tests.support.servers import wait_for

SUM = """\
#include <stdio.h>
int main(void) {
    long n, sum = 0, x;
    if (scanf("%ld", &n) != 1) return 1;
    while (n-- > 0 && scanf("%ld", &x) == 1) sum += x;
    printf("%ld\\n", sum);
    return 0;
}
"""
HELLO = '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n'
# About a tenth of a second of work that no compiler takes away.
_STEADY = """\
#include <stdio.h>
int main(void) {
    volatile unsigned x = 1;
    for (long i = 0; i < @TIMES@; i++) x = x * 1664525u + 1013904223u;
    printf("%u\\n", x & 0u);
    return 0;
}
"""
STEADY = _STEADY.replace("@TIMES@", "90000000")
PACKAGE_SOURCE = _STEADY.replace("@TIMES@", "6000000")
TESTS = 10
PACKAGE_TESTS = 100
TURNS = 10
LIVE = 40
_LOOP = """
cd "$1"
for s in $(seq "$2"); do
  gcc -O2 -o run-"$3" main.c -lm
  for t in $(seq 10); do ./run-"$3" < "$t.in" > out-"$3"; done
done
"""


def files(directory: Path) -> list[m.Test]:
    """The same program and inputs for the bare loop (as files) and for the cluster (as tests)."""
    (directory / "main.c").write_text(SUM)
    tests = []
    for index in range(1, TESTS + 1):
        numbers = list(range(index * 100))
        text = f"{len(numbers)}\n" + " ".join(map(str, numbers)) + "\n"
        (directory / f"{index}.in").write_text(text)
        tests.append(m.Test(name=f"{index:02}", input=text, answer=f"{sum(numbers)}\n"))
    return tests


def bare(directory: Path, count: int, cores: Sequence[int]) -> float:
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

    return timed(loops)


def plain(work: Path) -> None:
    """Compile the C hello world and run it, without a sandbox."""
    binary = work / "hello"
    (work / "hello.c").write_text(HELLO)
    subprocess.run(["gcc", "-O2", "-o", binary, work / "hello.c", "-lm"], check=True)
    subprocess.run([binary], check=True, stdout=subprocess.DEVNULL)


def program(source: str, tests: Sequence[m.Test] = (), problem: str | None = None) -> m.Submission:
    return m.Submission(language="c", source=source, filename="main.c", tests=list(tests), problem=problem)


def judged(api: Api, task: m.Task) -> m.Task:
    while not task.done:
        task = api.get(task.id, wait=20)
    assert task.verdict == m.Verdict.AC, task
    return task


def judge_all(api: Api, submission: m.Submission, count: int) -> float:
    """Seconds that `count` submissions take out of a queue: as its verdicts follow each other, first to last."""

    def first() -> str:
        return next((executor.name for executor in api.call(ExecutorsReply, "GET", "/executors").executors), "")

    executor = wait_for(first, what="the executor's first report")
    api.request("POST", f"/executors/{executor}/drain", json={"reason": "the queue is being filled"})
    tasks = [api.submit(submission) for _ in range(count)]
    api.request("POST", f"/executors/{executor}/resume", json={})
    # Newest first: whoever waits for the last one asks seldom, and takes little of the cores that are measured.
    ends = [moment(judged(api, task).finished) for task in reversed(tasks)]
    return (max(ends) - min(ends)) * count / (count - 1)


def moment(text: str | None) -> float:
    return datetime.datetime.fromisoformat(text or "").timestamp()


def to_start(task: m.Task) -> float:
    return moment(task.started) - moment(task.created)


def latency(ledger: Ledger, work: Path, rounds: int) -> None:
    """Submit-to-verdict and submit-to-start of a C hello world on an idle cluster."""
    submission = program(HELLO, [m.Test(name="1", input="", answer="hello\n")])
    alone, verdicts, starts = [], [], []
    with running(work / "idle") as cluster, cluster.api() as api:
        for index in range(rounds + 3):
            alone_now = timed(lambda: plain(work))
            begin = time.monotonic()
            task = judged(api, api.submit(submission))
            took = time.monotonic() - begin
            if index >= 3:  # the first ones warm the page cache
                alone.append(alone_now)
                verdicts.append(took)
                starts.append(to_start(task) * 1000)
    full, base = statistics.median(verdicts) * 1000, statistics.median(alone) * 1000
    value = f"{full:.0f} ms = {full / base:.2f} x bare, +{full - base:.0f} ms"
    ledger.line("submit to verdict of a C hello world, idle, median", value, "<= bare + 60 ms", ok=full - base <= 60)
    p95 = percentile(starts, 95)
    ledger.line("submit to start, idle, p95", f"{p95:.0f} ms", "<= 100 ms", ok=p95 <= 100)


def alternating(api: Api, work: Path, count: int, cores: Sequence[int]) -> tuple[float, float]:
    """Seconds of the loops and of the cluster for `count` submissions each, in turns: a noisy machine hits both."""
    submission = program(SUM, files(work))
    judge_all(api, submission, 6)
    loops = cluster = 0.0
    for _ in range(TURNS):
        loops += bare(work, count // TURNS, cores)
        cluster += judge_all(api, submission, count // TURNS)
    return loops, cluster


def one_slot(ledger: Ledger, work: Path, count: int) -> float:
    """A queue through one pinned slot against a bare loop on its core; returns the seconds of the package."""
    core = max(os.sched_getaffinity(0))
    with running(work / "one", "--slots", "1", "--core", str(core)) as cluster, cluster.api() as api:
        loops, took = alternating(api, work, count, [core])
        share = loops / took * 100
        value = f"{share:.0f} % ({count / took:.1f}/s vs {count / loops:.1f}/s)"
        label = f"{count} C submissions, {TESTS} tests each, one pinned slot vs loop"
        ledger.line(label, value, ">= 85 %", ok=share >= 85)
        return package(api, work)


def two_slots(ledger: Ledger, work: Path, count: int, alone: float) -> None:
    """The same with two slots and loops on the cores that the cluster runs on too; steadiness with all slots busy."""
    cores = sorted(os.sched_getaffinity(0))[-2:]
    if len(cores) < 2:
        ledger.note("two slots against two loops", "skipped: this machine has one core")
        return
    with running(work / "two", "--slots", "2") as cluster, cluster.api() as api:
        loops, took = alternating(api, work, count, cores)
        value = f"{loops / took * 100:.0f} % ({count / took:.1f}/s vs {count / loops:.1f}/s)"
        ledger.note("two slots vs two loops (the cluster shares their cores)", value)
        steady(ledger, api)
        doubled = package(api, work)
        value = f"{alone:.2f} s and {doubled:.2f} s = {alone / doubled:.2f} x"
        ledger.note(f"a package with {PACKAGE_TESTS} tests on one slot and on two", value)


def steady(ledger: Ledger, api: Api) -> None:
    """CPU time of the same program over 100 runs while every slot judges it."""
    tests = [m.Test(name=f"{index:02}", input="", answer="0\n") for index in range(TESTS)]
    tasks = [api.submit(program(STEADY, tests)) for _ in range(12)]
    results = [judged(api, task).result for task in reversed(tasks)]
    # Those in the middle: at both ends of the queue a slot may be alone.
    used = [test.cpu for result in results[1:-1] if result is not None for test in result.tests]
    share = spread(used) * 100
    value = f"{share:.2f} % ({min(used) * 1000:.0f} to {max(used) * 1000:.0f} ms)"
    ledger.line(f"CPU time of one program over {len(used)} runs, all slots busy", value, "<= 2 %", ok=share <= 2)


def package(api: Api, work: Path) -> float:
    """Seconds from the start of a submission to a problem with 100 tests to its verdict, the second time."""
    root = work / "hundred"
    secret = root / "data" / "secret"
    secret.mkdir(parents=True, exist_ok=True)
    accepted = root / "submissions" / "accepted"
    accepted.mkdir(parents=True, exist_ok=True)
    (accepted / "steady.c").write_text(PACKAGE_SOURCE)
    (root / "problem.yaml").write_text("name: A hundred tests\nlicense: public domain\nlimits:\n  time_limit: 1\n")
    (root / "problem_statement").mkdir(exist_ok=True)
    (root / "problem_statement" / "problem.en.tex").write_text("\\problemname{A hundred tests}\nWrite 0.\n")
    for index in range(PACKAGE_TESTS):
        (secret / f"{index:03}.in").write_text(f"{index}\n")
        (secret / f"{index:03}.ans").write_text("0\n")
    import_package(api, Reading().read(root))
    for _ in range(2):  # the first one fetches the tests
        task = judged(api, api.submit(program(PACKAGE_SOURCE, problem="hundred")))
    assert task.result is not None and len(task.result.tests) == PACKAGE_TESTS
    return moment(task.finished) - moment(task.started)


def _multiply(cluster: Cluster, task: str, count: int) -> None:
    """Old submissions, finished like this one, straight into the database: handing them in would take minutes."""
    config = MongodbClient.model_validate(cluster.config("judicator")["mongodb"])
    with connect(config, asynchronous=False) as client:
        tasks = client[config.database].tasks
        document = tasks.find_one({"_id": ObjectId(task)}) or {}
        document.pop("key", None)
        for start in range(0, count, 1000):
            size = min(1000, count - start)
            tasks.insert_many([{**document, "_id": ObjectId(), "user": "old"} for _ in range(size)])


def rejudge(ledger: Ledger, work: Path, count: int) -> None:
    """Live submissions while many old ones are judged again, and how long it takes to cancel that."""
    submission = program(HELLO, [m.Test(name="1", input="", answer="hello\n")])
    with running(work / "again") as cluster, cluster.api(timeout=120) as api:
        for _ in range(5):
            first = judged(api, api.submit(submission))
        _multiply(cluster, first.id, count)
        body = RejudgeStart(filter=RejudgeFilter(user=["old"]), reason="a benchmark")
        call = body.model_dump(mode="json", include={"filter", "reason"}, exclude_none=True)
        key = {"Idempotency-Key": uuid.uuid4().hex}
        rejudging = Rejudging.received(api.request("POST", "/rejudgings", json=call, headers=key).content)

        def look() -> Rejudging:
            return api.call(Rejudging, "GET", f"/rejudgings/{rejudging.id}")

        wait_for(lambda: look().state == "running", timeout=120, what="queued runs")
        begin = time.monotonic()
        starts = [to_start(judged(api, api.submit(submission))) * 1000 for _ in range(LIVE)]
        seconds, during = time.monotonic() - begin, look()
        assert during.total == count and during.waiting > 0, during
        value = f"{percentile(starts, 95):.0f} ms (median {statistics.median(starts):.0f} ms)"
        ledger.note(f"live submit to start beside a rejudging of {count}, p95", value)
        ledger.note(f"runs of it judged meanwhile, in {seconds:.1f} s", f"{during.done} of {during.total}")

        def cancel() -> None:
            api.call(Rejudging, "POST", f"/rejudgings/{rejudging.id}/cancel", key=uuid.uuid4().hex)
            wait_for(lambda: look().settled, timeout=120, what="the end of the rejudging")

        ledger.note("to cancel it until nothing of it is left", f"{timed(cancel):.1f} s")
