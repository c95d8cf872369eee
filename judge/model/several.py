"""Several submissions at once: asked for, and handed in."""

from __future__ import annotations

from typing import Final

from pydantic import Field, field_validator

from judge.model.audit import By
from judge.model.messages import AddReply, ErrorBody, Message, Submission, Task, TaskId

MOST: Final = 100
# Bytes of JSON of one answer: a large result may have some MiB.
ROOM: Final = 8 * 1024**2


class TasksRequest(Message):
    """Get several tasks, as many as have room in so many bytes of JSON; the first has in any case.

    With `user` only this one's, and no runs of rejudgings: others take no room, so nobody hears of them by that.
    """

    ids: list[TaskId] = Field(min_length=1, max_length=MOST)
    room: int = Field(default=ROOM, ge=1, le=ROOM)
    user: str | None = Field(default=None, min_length=1, max_length=64)


class TasksReply(Message):
    """The tasks that there are, in the order of the question; `left` are those that had no room or no time."""

    tasks: list[Task]
    left: list[TaskId] = Field(default_factory=list)


class OneCall(Message):
    """One of several adds, and for whom it is."""

    by: By
    request: Submission

    @field_validator("request")
    @classmethod
    def _keyed(cls, request: Submission) -> Submission:
        # Without a key, a call that is repeated at another judicator would store the submission twice.
        if request.idempotency_key is None:
            raise ValueError("needs an idempotency_key")
        return request


class SeveralAdds(Message):
    """Adds that come together; each has an outcome of its own, as if it had come alone."""

    calls: list[OneCall] = Field(min_length=1, max_length=MOST)


class OneOutcome(Message):
    """The outcome of one: a reply, or an error. Neither: there is no room for it, so ask for it alone."""

    reply: AddReply | None = None
    error: ErrorBody | None = None


class Outcomes(Message):
    """The outcome of each, in the order of the question."""

    outcomes: list[OneOutcome]
