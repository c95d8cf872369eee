"""What one person may take of the cluster, by role: the limits that judicators and executors hold submissions to.

The judicators read them from `allowances` of judicator.yml and send them along with every assignment, so that
executors know nothing about roles. None means without a limit. docs/judging.md explains each.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Role = Literal["admin", "user"]

# How the reason begins of a verdict that comes of `own_seconds` or `problem_seconds`.
TOTAL_TIME = "total time exceeded"


class Allowance(BaseModel):
    """The limits of one role. Seconds are wall seconds, bytes are bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

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


UNLIMITED = Allowance(
    own_seconds=None,
    problem_seconds=None,
    repeats=None,
    alone_seconds=None,
    slot_share=1.0,
    waiting=None,
    stored_bytes=None,
)


class Allowances(BaseModel):
    """One allowance for each role; `allowances` of judicator.yml."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    user: Allowance = Allowance()
    admin: Allowance = UNLIMITED

    def of(self, role: Role) -> Allowance:
        """The allowance of a role."""
        return self.admin if role == "admin" else self.user
