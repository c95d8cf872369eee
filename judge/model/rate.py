"""The number of times that something may be done within a minute, and those left: in answers, and with refusals."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from judge.common.errors import JudgeError, LimitError


class Rate(BaseModel):
    """A limit and what is left of it: `left` times in the next `seconds`, then `limit` times again."""

    model_config = ConfigDict(defer_build=True, extra="forbid")

    limit: int = Field(description="times in one minute")
    left: int
    seconds: int = Field(description="until it starts again")


def rate_of(error: JudgeError) -> Rate | None:
    """The rate that a refusal tells of, for its message."""
    rate = error.rate if isinstance(error, LimitError) else None
    return None if rate is None else Rate(limit=rate[0], left=rate[1], seconds=rate[2])
