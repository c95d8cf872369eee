"""Changes of submissions as they travel to who listens."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from judge.config.allowance import Role
from judge.model.cause import Cause
from judge.model.messages import Message, TaskId, Verdict
from judge.model.people import Credential

# A place in the log of changes: seconds and a count, as the database's clock has them, and a number among the changes
# of that time. Places of earlier releases have no number.
Place = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,10}-[0-9]{1,10}(-[0-9]{1,10})?$")]


class Change(Message):
    """A submission as it is after a change, or a little later. `id` is the change's place in the log."""

    id: Place
    submission: TaskId
    version: int
    user: str
    problem: str | None = None
    language: str | None = None
    status: str
    verdict: Verdict | None = None
    done: bool
    cause: Cause = "person"


class ChangesRequest(Message):
    """The changes after a place; without one the newest place alone. `wait` seconds when there are none yet."""

    after: Place | None = None
    user: str | None = Field(default=None, max_length=64)
    wait: float = Field(default=0.0, ge=0, le=30)
    limit: int = Field(default=1000, ge=1, le=1000)


class ChangesReply(Message):
    """Changes in their order, and the place up to which they are all. `lost`: the log does not reach back so far."""

    changes: list[Change] = Field(default_factory=list)
    place: Place
    lost: bool = False


class Wish(Message):
    """The changes that the application allows a listener: of one submission, of a user, or of all, and from where on.

    `after` is a place; `system`: runs of imports and of statements as well; `version` is the last version of one
    submission that the listener has.
    """

    key: str = Field(description="the user or address whose share of listeners it uses")
    credential: Credential
    submission: TaskId | None = None
    user: str | None = None
    after: Place | None = None
    system: bool = False
    version: int = -1
    role: Role = Field(description="in which the listener acts; another one ends the stream")
