"""The share of the cluster that one person may take, by role: the limits that judicators and executors keep.

The judicators read them from `allowances` of judicator.yml and send them along with every assignment, so that
executors know nothing about roles. None means without a limit. docs/judging.md explains each.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

# In the order of what they may: each may do all that those after it may.
Role = Literal["admin", "judge", "user"]

# The beginning of the reason of a verdict that comes of `own_seconds` or `problem_seconds`.
TOTAL_TIME = "total time exceeded"


class Allowance(BaseModel):
    """The limits of one role. Seconds are wall seconds, bytes are bytes."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, validate_default=True)

    own_tests: bool = Field(
        default=True, description="may hand in commands, runs without a problem, and tests of their own"
    )
    own_seconds: float | None = Field(
        default=300.0, gt=0, description="of all runs of a submission without a problem, compilation included"
    )
    problem_seconds: float | None = Field(
        default=3600.0,
        gt=0,
        description="of all runs of a submission to a problem, compilation and validators included",
    )
    repeats: int | None = Field(default=5, ge=0, description="tests of a submission that are run again near a limit")
    alone_seconds: float | None = Field(
        default=60.0, ge=0, description="for which a submission's repeated tests may have an executor to themselves"
    )
    slot_share: float = Field(
        default=0.75, gt=0, le=1, description="part of all live slots that one user's tasks hold at once, at least one"
    )
    waiting: int | None = Field(default=1000, ge=1, description="submissions of one user that wait at once")
    stored_bytes: int | None = Field(
        default=1024**3, ge=1, description="of one user's submissions and their results, as the database keeps them"
    )
    per_minute: int | None = Field(default=None, ge=1, le=10**6, description="submissions handed in within a minute")


UNLIMITED = Allowance(
    own_seconds=None,
    problem_seconds=None,
    repeats=None,
    alone_seconds=None,
    slot_share=1.0,
    waiting=None,
    stored_bytes=None,
)


class Quota(BaseModel):
    """One user's own limits, in place of the role's. None: the role's; 0: no limit."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    per_minute: int | None = Field(default=None, ge=0, le=10**6, description="submissions handed in within a minute")
    waiting: int | None = Field(default=None, ge=0, description="submissions that wait at once")
    slot_share: float | None = Field(default=None, ge=0, le=1, description="part of all live slots; 0: all of them")
    stored_bytes: int | None = Field(default=None, ge=0, description="of submissions and results")

    def instead(self) -> dict[str, int | float | None]:
        limits: dict[str, int | float | None] = {
            name: value or None for name, value in self if value is not None and name != "slot_share"
        }
        return limits if self.slot_share is None else {**limits, "slot_share": self.slot_share or 1.0}


class Allowances(BaseModel):
    """One allowance for each role; `allowances` of judicator.yml."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, validate_default=True)

    user: Allowance = Allowance()
    judge: Allowance = UNLIMITED
    admin: Allowance = UNLIMITED

    def of(self, role: Role, quota: Quota | None = None) -> Allowance:
        mine: Allowance = {"admin": self.admin, "judge": self.judge}.get(role, self.user)
        if quota is None:
            return mine
        return mine.model_copy(update=quota.instead())
