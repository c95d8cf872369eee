"""Messages about deleting: what would go, and what has gone (docs/protocol.md, Deleting)."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from judge.model.messages import Identifier, Message, TaskId

User = Annotated[str, StringConstraints(min_length=1, max_length=64)]


def _in_range(moment: str) -> str:
    if any(int(part) >= 2**32 for part in moment.split(".")):
        raise ValueError("has a number of more than 32 bits; send the `until` of the previous answer")
    return moment


# The database's logical time at which a purge began; what comes in later is new data.
Moment = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,10}\.[0-9]{1,10}$"), AfterValidator(_in_range)]


class DeletionWanted(Message):
    """One thing that somebody thinks of deleting."""

    submission: TaskId | None = None
    problem: Identifier | None = None
    user: User | None = Field(default=None, description="all data of this person")

    @model_validator(mode="after")
    def _exactly_one_target(self) -> Self:
        if sum(target is not None for target in (self.submission, self.problem, self.user)) != 1:
            raise ValueError("name one submission, problem or user")
        return self


class DeletionPreview(Message):
    """The effects of a deletion: what goes, what stays, a sentence each. `refusal`: why nothing can be deleted now."""

    goes: list[str]
    stays: list[str]
    refusal: str | None = None
    submissions: int = 0
    bytes: int = 0


class ProblemName(Message):
    """Names one problem."""

    name: Identifier


class Deleted(Message):
    """The submissions or problems that have gone, and the bytes that they took in the database."""

    deleted: int
    bytes: int = 0


class PurgeRequest(Message):
    """Delete a person's data, as much as one call may. `until` is the reply's of the call before."""

    user: User
    until: Moment | None = None


class Purged(Message):
    """The data that one call has deleted. While `left` is not 0 the call is repeated, with its `until`."""

    deleted: int
    bytes: int = 0
    left: int
    until: Moment
