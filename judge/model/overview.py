"""Messages about the cluster itself: its hosts, what they are doing, and how an executor is drained."""

from __future__ import annotations

from pydantic import Field

from judge.config.allowance import Allowance, Role
from judge.model.base import Rate
from judge.model.messages import ExecutorInfo, Identifier, Message


class ExecutorState(Message):
    """One executor as the cluster sees it."""

    name: str
    alive: bool
    drain: bool = False
    drain_reason: str = ""
    executing: int = 0
    vacant: int = 0
    incarnation: str = ""
    reported: str = Field(default="", description="UTC, for people")
    info: ExecutorInfo | None = None


class ExecutorsReply(Message):
    """All known executors, by name."""

    executors: list[ExecutorState]


class DrainRequest(Message):
    """Drain (finish the work in hand, take no more) or resume one executor."""

    executor: Identifier
    drain: bool
    reason: str = Field(default="", max_length=500)


class JudicatorState(Message):
    """One registered judicator."""

    name: str
    address: str
    leader: bool = False
    epoch: int | None = None


class MemberState(Message):
    """One member of etcd or of the replica set."""

    name: str
    address: str
    role: str
    healthy: bool


class UsageRequest(Message):
    """The person whose usage is wanted; the role is the one that the gateway knows."""

    user: str = Field(min_length=1, max_length=64)
    role: Role = "user"


class MarksRequest(Message):
    """The person whose problems are marked."""

    user: str = Field(min_length=1, max_length=64)


class MarksReply(Message):
    """Names of the problems that a person has handed in to: those that were accepted once, and the others."""

    solved: list[str] = Field(default_factory=list)
    tried: list[str] = Field(default_factory=list)


class UsageReply(Message):
    """The quota of a person and what they take of it now: submissions that wait and run, bytes that are kept."""

    allowance: Allowance
    waiting: int = Field(description="submissions that wait")
    running: int = Field(description="submissions that executors have in hand")
    stored_bytes: int = Field(default=0, description="of submissions and their results, as the database keeps them")
    rate: Rate | None = Field(default=None, description="of handing in; None without a limit")


class Whoami(UsageReply):
    """The owner of a token, what they may take of the cluster, and what they take now."""

    user: str
    role: Role


class StatusReply(Message):
    """The cluster at a glance. `faults` is empty when it is healthy; each is one sentence."""

    leader: str | None
    epoch: int | None
    judicators: list[JudicatorState]
    etcd: list[MemberState]
    mongodb: list[MemberState]
    executors: list[ExecutorState]
    queued: dict[str, int] = Field(description="tasks waiting, by priority")
    running: int
    finished: int
    slots: int = Field(description="of live executors that are not drained")
    vacant: int
    judging: bool = Field(default=True, description="an executor takes new submissions")
    versions: dict[str, str] = Field(default_factory=dict)
    warnings: list[str] = Field(default_factory=list)
    faults: list[str] = Field(default_factory=list)
    waits: list[str] = Field(default_factory=list, description="why submissions have waited for some seconds")
