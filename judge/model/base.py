"""The base of all messages, kinds of fields that several have, and the sentence that says what is wrong with one."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from judge.common.errors import JudgeError, LimitError
from judge.common.text import expected

# More than anybody makes by mistake. A list of all faults takes a thousand times the memory of what was sent.
_MANY: Final = 1000
_NAME: Final = 100


def _within_ids(moment: datetime.datetime) -> datetime.datetime:
    # Ids begin with their second in 32 bits; searches by time go by ids, up to a second beyond.
    if not 0 <= moment.timestamp() < 2**32 - 1:
        raise ValueError("must lie between 1970 and 2106")
    return moment


# A time that something is searched by.
SearchTime = Annotated[AwareDatetime, AfterValidator(_within_ids)]


class Message(BaseModel):
    """Base of every message. Unknown keys are refused, as a person's mistake must be; `received` ignores them."""

    # Built when first used: to build all of them is a fifth of the start of every command and daemon.
    model_config = ConfigDict(defer_build=True, extra="forbid")

    @classmethod
    def received(cls, body: bytes) -> Self:
        """Read what another host wrote, whose release may know more fields (docs/decisions/012-mixed-releases.md).

        Raises pydantic's ValidationError. For every reply, for executors' reports and for what waits in their spool.
        """
        return cls.model_validate_json(body, extra="ignore")

    @classmethod
    def stored(cls, document: dict[str, Any]) -> Self:
        """The same for what is in the database, which judicators of two releases write while a cluster is upgraded."""
        return cls.model_validate(document, extra="ignore")


@dataclass(frozen=True)
class FieldFault:
    """One fault that a model finds; its text is a sentence. `field` is dotted, and empty when all of it is at fault."""

    field: str
    kind: str
    text: str
    given: Any = None

    def __str__(self) -> str:
        return f"{self.field}: {self.text}" if self.field else self.text


def first_fault(exc: ValidationError, *, with_input: bool = False) -> FieldFault:
    """The first fault that a model found, with what was given on demand. Very many faults are counted, not listed."""
    if exc.error_count() > _MANY:
        return FieldFault("", "too_many", f"has {exc.error_count()} errors, too many to list")
    error = exc.errors(include_url=False, include_input=with_input)[0]
    # A name may be the sender's own, of any length.
    field = ".".join(str(part)[:_NAME] for part in error["loc"])
    text = "is missing" if error["type"] == "missing" else expected(error)
    return FieldFault(field, error["type"], text, error.get("input"))


class CoreSpeed(Message):
    """The calibration program's seconds on one core: at an executor's start, and first on this machine."""

    core: int = Field(ge=0, lt=2**63)
    seconds: float = Field(gt=0, description="CPU seconds")
    first: float = Field(gt=0, description="CPU seconds when the core was first measured")

    @property
    def drift(self) -> float:
        """By what part it is slower than at first: 0.1 is a tenth."""
        return self.seconds / self.first - 1


class Rate(Message):
    """A limit and what is left of it: `left` times in the next `seconds`, then `limit` times again."""

    limit: int = Field(description="times in one minute")
    left: int
    seconds: int = Field(description="until it starts again")


def rate_of(error: JudgeError) -> Rate | None:
    """The rate that a refusal tells of, for its message."""
    rate = error.rate if isinstance(error, LimitError) else None
    return None if rate is None else Rate(limit=rate[0], left=rate[1], seconds=rate[2])
