"""Rejudgings through the RPC: what tests of the judicators and of the daemons share."""

from __future__ import annotations

import uuid
from typing import Any

from judge.model import messages as m
from judge.model.rejudging import (
    RejudgeAct,
    RejudgeDiff,
    RejudgeDiffRequest,
    RejudgeFilter,
    RejudgeStart,
    Rejudging,
    RejudgingRef,
)
from judge.rpc.client import RpcClient
from tests.support.judicators import Executor, accepted, source
from tests.support.servers import wait_for

STATUS = {"AC": m.Status.SUCCESS, "CE": m.Status.COMPILE_FAILED, "JE": m.Status.INTERNAL_ERROR}


def completed(one: m.Assignment, verdict: str, **result: Any) -> m.Completed:
    """A completion with this verdict."""
    status = STATUS.get(verdict, m.Status.RUN_FAILED)
    return accepted(one, status=status, verdict=m.Verdict[verdict], result=m.Result(**result))


def judge(people: RpcClient, executor: Executor, *verdicts: str, **fields: Any) -> list[str]:
    """Hand in one submission for each verdict and judge it so; their ids."""
    ids = [
        people.call("add", source(f"int main(){{}} // {index}", **fields), m.AddReply).task.id
        for index, _ in enumerate(verdicts)
    ]
    wanted = dict(zip(ids, verdicts, strict=True))
    rejudge(executor, wanted, by_rerun=False)
    return ids


def rejudge(executor: Executor, wanted: dict[str, str], *, by_rerun: bool = True, **result: Any) -> None:
    """Take and judge everything that waits, by the verdict wanted for each id (of the task, or of a run's source)."""
    left = len(wanted)

    def turn() -> bool:
        nonlocal left
        done = []
        for one in list(executor.work.values()):
            key = (one.submission.source or "") if by_rerun else one.id
            done.append(completed(one, wanted[key], cpu=0.5, memory=2048, **result))
        left -= len(done)
        executor.report(*done, vacant=executor.slots)
        return left <= 0 and not executor.work

    wait_for(turn, timeout=60, what="everything judged")


def get(people: RpcClient, task: str) -> m.Task:
    return people.call("get", m.GetRequest(id=task), m.Task)


def start(people: RpcClient, reason: str = "new test data", **conditions: Any) -> Rejudging:
    request = RejudgeStart(
        filter=RejudgeFilter.model_validate(conditions),
        reason=reason,
        user="root",
        trace="trace-of-the-rejudging",
        idempotency_key=uuid.uuid4().hex,
    )
    return people.call("rejudge_start", request, Rejudging)


def show(people: RpcClient, number: int) -> Rejudging:
    return people.call("rejudging", RejudgingRef(id=number), Rejudging)


def act(people: RpcClient, what: str, number: int, key: str | None = None) -> Rejudging:
    """Apply or cancel."""
    request = RejudgeAct(id=number, key=key or uuid.uuid4().hex, user="root")
    return people.call(f"rejudge_{what}", request, Rejudging)


def settled(people: RpcClient, number: int) -> Rejudging:
    """Wait until nothing is left to do for it."""
    wait_for(lambda: show(people, number).settled, timeout=60, what=f"rejudging {number} settled")
    return show(people, number)


def diff(people: RpcClient, number: int, **fields: Any) -> RejudgeDiff:
    return people.call("rejudge_diff", RejudgeDiffRequest(id=number, **fields), RejudgeDiff)


def sources(people: RpcClient, ids: list[str]) -> list[str]:
    """The source of each submission, by which a run of it is known."""
    return [get(people, one).submission.source or "" for one in ids]
