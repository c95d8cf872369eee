"""Webhooks as they travel: who receives what, and what became of each delivery."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from judge.common.webhooks import signing
from judge.common.webhooks.addresses import MOST
from judge.model.cause import Cause
from judge.model.messages import Identifier, Message, Sha256, TaskId, Verdict

Event = Literal["submission.finished", "submission.rejudged", "ping"]
# Events that a webhook may receive; `ping` is sent when somebody asks for it.
EVENTS: Final[tuple[Event, ...]] = ("submission.finished", "submission.rejudged")
State = Literal["waiting", "delivered", "failed"]


def _secret(text: str) -> str:
    signing.key_of(text)
    return text


class SubmissionEvent(Message):
    """The content of a call about a submission. Times are UTC, ISO 8601; `cpu` in seconds, `memory` in bytes.

    `version` grows with every change of the submission, so that a receiver knows the newer of two calls.
    """

    id: TaskId
    version: int
    user: str
    problem: str | None
    problem_hash: Sha256 | None
    language: str | None
    status: str
    verdict: Verdict | None
    score: float | None
    cpu: float | None
    memory: int | None
    created: str
    finished: str | None
    cause: Cause = Field(default="person", description="import and statement: only for a webhook with `system`")
    rejudging: int | None = Field(default=None, description="the rejudging that has replaced the verdict")


class Payload(Message):
    """The body of a call; `data` is a SubmissionEvent, or names the webhook in a ping."""

    type: Event
    timestamp: str = Field(description="when it happened: UTC, ISO 8601")
    data: SubmissionEvent | dict[str, str]


class WebhookAdd(Message):
    """A new webhook; the same name again replaces what it says, and keeps its secret unless one is given."""

    name: Identifier
    url: str = Field(min_length=1, max_length=MOST)
    events: list[Event] = Field(default_factory=lambda: list(EVENTS), min_length=1, max_length=len(EVENTS))
    user: str | None = Field(default=None, min_length=1, max_length=64, description="only of this user's submissions")
    problem: Identifier | None = Field(default=None, description="only of submissions to this problem")
    system: bool = Field(default=False, description="runs of imports and of statements as well")
    secret: Annotated[str, AfterValidator(_secret)] | None = Field(
        default=None, max_length=128, description="`whsec_` and Base64 of 24 to 64 bytes; a fresh one unless given"
    )


class Webhook(Message):
    """A webhook and how it goes: deliveries that wait, that were given up, and what the last try came to."""

    name: str
    url: str
    events: list[str]
    user: str | None = None
    problem: str | None = None
    system: bool = False
    created: str
    waiting: int = 0
    failed: int = 0
    last: str = Field(default="", description="of the last try: its time and its answer")
    dropped: int = Field(default=0, description="deliveries that were dropped unsent because too many waited")


class WebhookAdded(Message):
    """A webhook with its secret, which is shown only once."""

    webhook: Webhook
    secret: str


class WebhooksReply(Message):
    """All webhooks, by name."""

    webhooks: list[Webhook]


class WebhookRef(Message):
    """One webhook."""

    name: Identifier


class DeliveriesRequest(Message):
    """The deliveries that are wanted; newest first, the next page begins `before` an id."""

    webhook: Identifier | None = None
    state: State | None = None
    submission: TaskId | None = None
    limit: int = Field(default=50, ge=1, le=500)
    before: TaskId | None = None


class Delivery(Message):
    """One call that a receiver should get, and what became of it. `id` is its `webhook-id` in every try."""

    id: TaskId
    webhook: str
    event: str
    submission: TaskId | None
    version: int
    state: State
    tries: int
    created: str
    next: str | None = Field(default=None, description="when it is tried next")
    ended: str | None = None
    status: int = Field(default=0, description="the HTTP status of the last answer; 0: none")
    text: str = Field(default="", description="the beginning of that answer, or why there was none")


class DeliveriesReply(Message):
    """Deliveries, newest first; `next` begins the next page."""

    deliveries: list[Delivery]
    next: str | None = None


class Resend(Message):
    """One delivery, whatever became of it, or all of a webhook that were given up."""

    delivery: TaskId | None = None
    webhook: Identifier | None = None


class Resent(Message):
    """The number of deliveries that wait again."""

    count: int
