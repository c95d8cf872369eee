"""Messages that only the HTTP API speaks; the others are those of judge.model.messages."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from judge.model import messages as m
from judge.model.deleting import Moment
from judge.model.overview import JudicatorState, MemberState
from judge.model.people import Password
from judge.model.rejudging import RejudgeFilter


class Alive(m.Message):
    """The gateway answers; says nothing about the cluster behind it."""

    alive: bool = True
    version: str


class Health(m.Message):
    """The health of the cluster. `faults` says that there are some; `GET /status` tells judges and admins which."""

    healthy: bool
    faults: list[str] = Field(default_factory=list)


class LanguageInfo(m.Message):
    """One language that some executor of the cluster judges now."""

    name: str
    title: str
    suffixes: list[str] = Field(default_factory=list)
    version: str = Field(default="", description="as the executors report it; all versions if they differ")
    executors: int = Field(default=0, description="how many live executors have it")


class LanguagesReply(m.Message):
    """All languages of the live executors, by name."""

    languages: list[LanguageInfo]


class JudicatorsReply(m.Message):
    """The judicators and the members of the servers under them."""

    leader: str | None
    epoch: int | None
    judicators: list[JudicatorState]
    etcd: list[MemberState]
    mongodb: list[MemberState]


class SourceQuery(m.Message):
    """The query of a call for a submission's files: the name of one; without it the call is for all of them."""

    file: str | None = Field(default=None, max_length=255, description="its name, with its folders")


class SubmitQuery(m.Message):
    """The query of handing in. An archive's fields are in it as well."""

    model_config = ConfigDict(extra="ignore")

    wait: float = Field(default=0.0, ge=0, le=30, description="seconds to wait for the end")


class TaskQuery(m.Message):
    """The query of a get that may wait: how long the answer is held; see GetRequest."""

    wait: float = Field(default=0.0, ge=0, le=30, description="seconds to wait for a change past `version`, or the end")
    version: int | None = Field(default=None, description="the version that the caller has seen")


class DrainBody(m.Message):
    """The body of a drain: the reason, which people are shown."""

    reason: str = Field(default="", max_length=500)


class PackReply(m.Message):
    """The answer to a pack: the number of bytes that were taken; its blobs are stored."""

    bytes: int = Field(ge=0)


class BlobReply(m.Message):
    """One stored blob."""

    sha: m.Sha256
    bytes: int = Field(ge=0)


class PurgeQuery(m.Message):
    """The query of a purge that goes on where an earlier call ended; see PurgeRequest."""

    until: Moment | None = Field(default=None, description="the `until` of the previous answer, while `left` is not 0")


class HoldNote(m.Message):
    """A hold or release that judgectl has made on a host, as it tells it afterwards."""

    action: Literal["hold.place", "hold.release"]
    host: str = Field(min_length=1, max_length=120)
    service: str = Field(min_length=1, max_length=64)
    reason: str = Field(default="", max_length=300)
    seconds: int = Field(default=0, ge=0, le=10**8, description="the longest time of the hold")


class RejudgeBody(m.Message):
    """The body that starts a rejudging: the judged submissions to judge again, and the reason."""

    filter: RejudgeFilter
    reason: str = Field(min_length=1, max_length=500, description="everybody who sees a changed verdict sees it")
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=128)


class RejudgeDiffQuery(m.Message):
    """The part of a comparison that is wanted; see RejudgeDiffRequest."""

    all: bool = Field(default=False, description="also those whose verdict is unchanged or not available yet")
    limit: int = Field(default=100, ge=1, le=500)
    after: m.TaskId | None = Field(default=None, description="the `next` of the previous page")


class PasswordBody(m.Message):
    """A new password for somebody, set by an admin."""

    password: Password


class OwnPasswordBody(m.Message):
    """A new password of one's own, and the present one."""

    old: Password
    password: Password
