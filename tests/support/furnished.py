"""A cluster with something on every page: accounts, webhooks, problems, submissions in every state, rejudgings."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from typing import Any

from judge import clock
from judge.allowance import Quota
from judge.gateway.auth import token_digest
from judge.judicator.figures.series import minute
from judge.model import messages as m
from judge.model import people as p
from judge.model.base import CoreSpeed
from judge.model.overview import DrainRequest, ExecutorState
from judge.model.problem import ProblemImport, ProblemInfo
from judge.model.verification import Verification, VerifiedRow
from judge.model.webhooks import DeliveriesReply, DeliveriesRequest, WebhookAdd, WebhookAdded
from judge.problems.package import manifest_bytes
from judge.rpc.client import RpcClient
from tests.support import rejudging
from tests.support.judicators import Executor, World, accepted
from tests.support.receiver import receiving
from tests.support.servers import wait_for
from tests.support.statements import interactive, problem

PASSWORD = "correct horse battery staple"
# The settings of such a world's judicator: it may call a receiver on this host.
SETTINGS: dict[str, Any] = {"webhooks": {"networks": ["127.0.0.0/8"]}}
LANGUAGES = ("c", "cpp", "python3")
PROGRAM = """#include <stdio.h>

int main(void) {
    int a, b; /* a comment so long that the line is wider than most screens: it has to be scrolled, not the page */
    if (scanf("%d %d", &a, &b) != 2)
        return 1;
    printf("%d\\n", a + b)
}
"""
MAIN = "a/long/way/down/to/main.c"
FILES = {"six.h": b"int six(void);\r\n", "six.c": b"int six(void) { return 6; } // caf\xe9\n", "notes.txt": b"",
         MAIN: b'#include "six.h"\nint main(void) {\n    return six();\n}\n'}  # fmt: skip


def busy_minute(begun: datetime.datetime, number: int) -> dict[str, object]:
    """A minute of a day with a rush in it, as judicators write it."""
    rush = math.exp(-(((number - 25) / 9) ** 2))
    done = round(20 + 160 * rush)
    return {
        "_id": begun, "begun": begun, "waiting": round(140 * rush**2), "slots": 8 if number > 12 else 6, "looks": 6,
        "busy": round(6 * min(8, 1 + 9 * rush)), "rejudged": 12 if 40 < number < 48 else 0,
        "verdicts": {"AC": done // 2, "WA": done // 4, "TLE": done // 9, "RTE": done // 12, "CE": done // 14, "SV": 1},
        "times": {"-3": done // 2, "1": done // 3, "5": max(1, round(9 * rush))},
    }  # fmt: skip


def furnish(world: World) -> dict[str, str]:
    """Fill a world with SETTINGS; names of what the pages are about, as `tests.support.pages` writes them."""
    client, executor = world.client(), world.executor("executor-1", slots=4, languages=LANGUAGES)
    executor.report(vacant=0)
    _people(client)
    _problems(client)
    _executors(world)
    now = minute(clock.wall())
    led = [number for number in range(2, 1440) if number not in range(30, 34)]  # the newest minute is still counted
    world.db.minutes.insert_many([busy_minute(now - datetime.timedelta(minutes=one), one % 90) for one in led])
    with receiving() as receiver:
        receiver.answer = lambda _, got: 410 if got.path.endswith("gone") else 204
        _webhook(client, "scores", receiver.url, user="mary")
        _webhook(client, "a-chat-of-an-organiser-with-a-long-name", f"{receiver.url}/{'very-long-way/' * 9}gone")
        named = _judged(client, executor)
        _told(client)
    return named | _rejudged(client, executor, named) | _unjudged(client, executor)


# --- people, problems, machines ------------------------------------------------------------------------------------


def _people(client: RpcClient) -> None:
    groups = ["cs101-autumn", "cs101-teachers", "algorithms-and-data-structures", "contest-2026"]
    quota = Quota(per_minute=30, waiting=20, slot_share=0.5, stored_bytes=10**9)
    for one in (
        p.UserAdd(name="grace", role="admin", password=PASSWORD),
        p.UserAdd(name="mary", groups=groups, password=PASSWORD, quota=quota),
        p.UserAdd(name="somebody-with-the-longest-name-that-an-account-may-have.b@b.edu"),
    ):
        client.call("user_add", one, p.User)
    client.call("user_add", p.UserAdd(name="linus"), p.User)
    client.call("user_change", p.UserChange(name="linus", disabled=True), p.User)
    for number, (user, label, scopes) in enumerate([
        ("grace", "laptop", p.USUAL), ("grace", "", p.SCOPES), ("mary", "the bot of our course's chat room", p.USUAL),
    ]):  # fmt: skip
        digest = token_digest(f"token {number}")
        ends = clock.wall() + datetime.timedelta(days=90) if label else None
        wanted = p.TokenNew(digest=digest, user=user, label=label, scopes=list(scopes), expires=ends)
        client.call("token_create", wanted, p.TokenInfo)


def _problems(client: RpcClient) -> None:
    def bring(manifest: object) -> ProblemInfo:
        blob = client.put_blob(manifest_bytes(manifest))
        return client.call("problem_import", ProblemImport(manifest=blob), ProblemInfo)

    caves = bring(problem(client.put_blob))
    bring(interactive(client.put_blob))
    rows = [
        VerifiedRow(submission="accepted/bfs.py", language="python3", verdict="AC", expected="AC", cpu=0.81,
                    limit=2.0, margin=2.5),
        VerifiedRow(submission="wrong_answer/greedy.cpp", language="cpp", verdict="AC", expected="WA", cpu=0.1,
                    limit=2.0, margin=20.0, wrong="no test is WA"),
    ]  # fmt: skip
    told = Verification(problem="caves", hash=caves.hash, rows=rows, left_out=["accepted/bfs.kt: nobody has kotlin"])
    client.call("problem_verified", told, m.Empty)


def _executors(world: World) -> None:
    one = world.executor("executor-2", slots=2)
    for number in range(4):
        one.restart()
        one.info.version = f"0.{number + 1}.0"
        one.info.languages = {"c": f"gcc 12.{number // 2}", "python3": "3.11"}
        one.info.checks = ["WARN hyper-threading is on, so the times of two runs on one core differ by a third"]
        slow = 0.02 * number
        one.info.calibration = [CoreSpeed(core=core, seconds=0.01 * (1 + slow * core), first=0.01) for core in (1, 2)]
        one.report(vacant=0)
    reason = "a new disk, and after that the cable to the switch, which was bent"
    wanted = DrainRequest(executor="executor-2", drain=True, reason=reason)
    world.client().call("drain", wanted, ExecutorState)


def _webhook(client: RpcClient, name: str, url: str, user: str | None = None) -> None:
    client.call("webhook_add", WebhookAdd(name=name, url=url, user=user), WebhookAdded)


def _told(client: RpcClient) -> None:
    """Wait until a call has arrived and another was given up."""

    def states() -> set[str]:
        reply = client.call("deliveries", DeliveriesRequest(), DeliveriesReply)
        return {one.state for one in reply.deliveries}

    wait_for(lambda: states() >= {"delivered", "failed"}, what="told webhooks")


# --- submissions ---------------------------------------------------------------------------------------------------


def results(*verdicts: str, names: Iterable[str] = (), **fields: object) -> m.Result:
    """A result with so many tests, the last of which was near the limit."""
    named = [*names] or [f"{'sample' if number == 1 else 'secret'}/{number}" for number, _ in enumerate(verdicts, 1)]
    tests = [
        m.TestResult(
            name=name, verdict=m.Verdict[verdict], cpu=0.0021 * number, wall=0.004 * number,
            memory=1_600_000 + 90_000 * number, output="1\n2 5\n" + "4 " * 200 + "\n", output_bytes=407, exit_code=0,
            message="" if verdict == "AC" else "token 1 on line 1: judge has 4, you have 3",
            output_sha256="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        )
        for number, (name, verdict) in enumerate(zip(named, verdicts, strict=True), 1)
    ]  # fmt: skip
    tests[-1].repeated = m.Repeated(cpu=1.0342, wall=1.0671, exclusive=True)
    values: dict[str, object] = {
        "tests": tests, "cpu": 0.01, "wall": 0.02, "memory": 1_800_000, "limits": m.Limits(), "judge_version": "0.1.0",
        "language_version": "gcc (Debian 12.2.0-14+deb12u1) 12.2.0", "sandbox": "slot 0, core 1",
        "compile": m.RunUsage(cpu=0.04, wall=0.06, memory=30_000_000, exit_code=0),
        "compile_log": "main.c:5:5: warning: ignoring return value of 'scanf' [-Wunused-result]\n",
        **fields,
    }  # fmt: skip
    return m.Result.model_validate(values)


def _add(client: RpcClient, **fields: object) -> str:
    values = {"user": "mary", "language": "c", **fields}
    return client.call("add", m.Submission.model_validate(values), m.AddReply).task.id


def _finish(executor: Executor, task: str, verdict: str, result: m.Result) -> None:
    wait_for(lambda: executor.report(vacant=1) and task in executor.work, what="the task at the executor")
    status = rejudging.STATUS.get(verdict, m.Status.RUN_FAILED)
    executor.report(accepted(executor.work[task], status=status, verdict=m.Verdict[verdict], result=result), vacant=0)


def _judged(client: RpcClient, executor: Executor) -> dict[str, str]:
    named = {}
    for verdict in ("AC", "TLE", "MLE", "RTE"):
        named[verdict] = _add(client, source=f"{PROGRAM}// {verdict}\n")
        _finish(executor, named[verdict], verdict, results("AC", "AC", verdict))
    named["problem"] = _add(client, problem="caves", source=PROGRAM)
    names = ["sample/1", "sample/2", "sample/3", "secret/1"]
    _finish(executor, named["problem"], "WA", results("AC", "WA", "AC", "AC", names=names))
    named["CE"] = _add(client, source=PROGRAM)
    complaint = "main.c:7:26: error: expected ';' before '}' token\n/usr/include/stdio.h:4:5: note: here\n"
    failed = m.Result(compile_log=complaint, reason="the compiler ended with exit code 1",
                      compile=m.RunUsage(cpu=0.1, wall=0.1, memory=9, exit_code=1))  # fmt: skip
    _finish(executor, named["CE"], "CE", failed)
    tests = [m.Test(name="one", input="", answer="1\n2 3\n" + "4 " * 200 + "\n")]
    named["diff"] = _add(client, source=PROGRAM, tests=tests)
    _finish(executor, named["diff"], "WA", results("WA", names=["one"]))
    files = [m.SourceFile.of(name, data) for name, data in FILES.items()]
    named["files"] = _add(client, files=files, entry=MAIN)
    _finish(executor, named["files"], "AC", results("AC"))
    named["command"] = _add(client, language=None, command="sort -n | uniq -c", stdin="3\n1\n2\n")
    _finish(executor, named["command"], "AC", m.Result(stdout="1 1\n1 2\n1 3\n", cpu=0.01, memory=10**6))
    return named


def _rejudged(client: RpcClient, executor: Executor, named: dict[str, str]) -> dict[str, str]:
    reason = "The answer of test 2 was wrong, as a contestant from Uppsala has shown with a program of four lines"
    numbers = {}
    for state, ids in [("applied", [named["TLE"]]), ("finished", [named["MLE"], named["RTE"]])]:
        begun = rejudging.start(client, reason, ids=ids)
        rejudging.rejudge(executor, dict.fromkeys(rejudging.sources(client, ids), "AC"), tests=results("AC").tests)
        wait_for(lambda number=begun.id: rejudging.show(client, number).state == "finished", what="its end")
        numbers[state] = begun.id
    rejudging.act(client, "apply", numbers["applied"])
    rejudging.settled(client, numbers["applied"])
    given_up = rejudging.start(client, reason, ids=[named["AC"]])
    rejudging.act(client, "cancel", given_up.id)
    rejudging.settled(client, given_up.id)
    numbers |= {"cancelled": given_up.id, "open": rejudging.start(client, reason, ids=[named["diff"]]).id}
    return {f"rejudging_{state}": str(number) for state, number in numbers.items()}


def _unjudged(client: RpcClient, executor: Executor) -> dict[str, str]:
    running = _add(client, source=PROGRAM, priority="high")
    wait_for(lambda: executor.report(vacant=1) and running in executor.work, what="the task at the executor")
    request = executor.request(vacant=0)
    for one in request.executing:
        one.status, one.progress = m.Status.RUNNING, "test 2 of 3"
    executor.send(request)
    cancelled = _add(client, source=PROGRAM)
    client.call("cancel", m.TaskRef(id=cancelled), m.Task)
    return {"running": running, "cancelled": cancelled, "waiting": _add(client, source=PROGRAM)}
