"""What all messages have in common, and kinds of fields that several have."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field


def _within_ids(moment: datetime.datetime) -> datetime.datetime:
    # Ids begin with their second in 32 bits; searches by time go by ids, up to a second beyond.
    if not 0 <= moment.timestamp() < 2**32 - 1:
        raise ValueError("must lie between 1970 and 2106")
    return moment


# A time that something is searched by.
SearchTime = Annotated[AwareDatetime, AfterValidator(_within_ids)]


class Message(BaseModel):
    """Base of every message. Unknown keys are refused, as a person's mistake must be; `received` ignores them."""

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def received(cls, body: bytes) -> Self:
        """What another host wrote, whose release may know more fields (docs/decisions/012-mixed-releases.md).

        Raises pydantic's ValidationError. For every reply, for executors' reports and for what waits in their spool.
        """
        return cls.model_validate_json(body, extra="ignore")

    @classmethod
    def stored(cls, document: dict[str, Any]) -> Self:
        """The same for what is in the database, which judicators of two releases write while a cluster is upgraded."""
        return cls.model_validate(document, extra="ignore")


class CoreSpeed(Message):
    """What the calibration program took on one core at an executor's start, and when it first ran on this machine."""

    core: int = Field(ge=0)
    seconds: float = Field(gt=0, description="CPU seconds")
    first: float = Field(gt=0, description="CPU seconds when the core was first measured")

    @property
    def drift(self) -> float:
        """By what part it is slower than at first: 0.1 is a tenth."""
        return self.seconds / self.first - 1
