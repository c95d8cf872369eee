"""Messages about rejudging: judging a set of finished submissions again (docs/rejudge.md)."""

from __future__ import annotations

import enum

from pydantic import Field

from judge.model.messages import Identifier, LanguageName, Message, SearchTime, Task, TaskId, Trace, Verdict


class RejudgeFilter(Message):
    """The finished submissions to judge again: those that meet every condition given.

    A condition with several values is met by any of them.
    """

    ids: list[TaskId] = Field(default_factory=list, max_length=20_000)
    user: list[str] = Field(default_factory=list, max_length=100)
    problem: list[Identifier] = Field(default_factory=list, max_length=100)
    language: list[LanguageName] = Field(default_factory=list, max_length=100)
    verdict: list[Verdict] = Field(default_factory=list, max_length=100)
    executor: list[str] = Field(default_factory=list, max_length=100, description="judged by one of these")
    since: SearchTime | None = Field(default=None, description="handed in at this time or later")
    until: SearchTime | None = Field(default=None, description="handed in before this time")


class RejudgeStart(Message):
    """Judge again what the filter finds. `user` and `trace` are the gateway's to set."""

    filter: RejudgeFilter
    reason: str = Field(min_length=1, max_length=500, description="the reason, shown to everybody who sees the change")
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=128)
    user: str = Field(default="", max_length=64)
    trace: Trace = ""


class RejudgePreview(Message):
    """The extent of a rejudging before its start: `count` submissions, of them the first few, newest first.

    `skipped`: they match, but are part of an open rejudging already.
    """

    count: int
    skipped: int
    verdicts: dict[str, int] = Field(description="how many of each verdict")
    tasks: list[Task]


class RejudgeState(enum.StrEnum):
    """The state of a rejudging. Applied and cancelled are final."""

    STARTING = "starting"
    RUNNING = "running"
    FINISHED = "finished"
    APPLYING = "applying"
    APPLIED = "applied"
    CANCELLED = "cancelled"


class Rejudging(Message):
    """A set of submissions that are judged again. Their verdicts change all at once when it is applied, or never."""

    id: int
    filter: RejudgeFilter
    reason: str
    user: str
    created: str
    state: RejudgeState
    settled: bool = Field(description="the judicators have nothing left to do for it")
    total: int
    skipped: int = Field(default=0, description="matched, but were part of another open rejudging")
    waiting: int = 0
    running: int = 0
    done: int = 0
    changed: int = Field(default=0, description="finished submissions with a changed verdict or score")
    finished: str | None = Field(default=None, description="when the last one was judged")
    ended: str | None = Field(default=None, description="when it was applied or cancelled")
    ended_by: str | None = None
    trace: str = ""


class RejudgingRef(Message):
    """Names one rejudging."""

    id: int = Field(ge=1, le=2**31)


class RejudgingsRequest(Message):
    """List rejudgings, newest first. `before` pages: the `next` of the answer before."""

    limit: int = Field(default=50, ge=1, le=500)
    before: int | None = Field(default=None, ge=1, le=2**31)


class RejudgingsReply(Message):
    """The rejudgings, newest first; `next` is None on the last page."""

    rejudgings: list[Rejudging]
    next: int | None = None


class RejudgeAct(Message):
    """Apply or cancel one. The same `key` again is the same call again."""

    id: int = Field(ge=1, le=2**31)
    key: str = Field(min_length=1, max_length=128)
    user: str = Field(default="", max_length=64)


class RejudgeDiffRequest(Message):
    """Compare old and new verdicts, page by page: `after` is the `next` of the previous page."""

    id: int = Field(ge=1, le=2**31)
    all: bool = Field(default=False, description="also those whose verdict is unchanged or not available yet")
    limit: int = Field(default=100, ge=1, le=500)
    after: TaskId | None = None


class Outcome(Message):
    """The result of one judging of a submission."""

    verdict: Verdict | None = None
    cpu: float = 0.0
    memory: int = 0
    score: float | None = None
    failed_test: str | None = None
    judged_by: str | None = None


class RejudgeChange(Message):
    """One submission of a rejudging. `after` is None while it is not judged again yet.

    `rerun` names the run as a task, whose evidence `get` shows until the rejudging is applied or cancelled.
    """

    id: TaskId
    rerun: TaskId | None = None
    user: str = ""
    problem: str | None = None
    language: str | None = None
    before: Outcome
    after: Outcome | None = None


class RejudgeDiff(Message):
    """Old against new. `matrix[old][new]` counts submissions; new is `-` for those not judged again (yet)."""

    rejudging: Rejudging
    matrix: dict[str, dict[str, int]]
    changes: list[RejudgeChange]
    next: TaskId | None = None
