"""Messages of the audit trail: who asks, what is noted, and how it is searched (docs/protocol.md, Audit)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from judge.config.allowance import Role
from judge.model.messages import Message, SearchTime, TaskId, Trace

# Carries `By` beside the body of every call that a gateway makes for somebody.
HEADER = "Judge-By"

Fingerprint = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{1,64}$")]
Action = Literal[
    "login",
    "login.failed",
    "logout",
    "tokens.change",
    "problem.import",
    "problem.change",
    "problem.delete",
    "problem.verify",
    "submission.behalf",
    "submission.cancel",
    "submission.delete",
    "user.purge",
    "user.add",
    "user.import",
    "user.change",
    "user.disable",
    "user.enable",
    "user.password",
    "user.delete",
    "token.create",
    "token.revoke",
    "rejudging.start",
    "rejudging.apply",
    "rejudging.cancel",
    "executor.drain",
    "executor.resume",
    "hold.place",
    "hold.release",
    "webhook.add",
    "webhook.remove",
    "webhook.ping",
    "webhook.resend",
]
Outcome = Literal["begun", "done", "refused", "failed"]


class By(Message):
    """The person for whom a gateway makes a call. Empty texts: the gateway itself, or from where is not known."""

    actor: str = Field(default="", max_length=64)
    role: str = Field(default="", max_length=16)
    origin: str = Field(default="", max_length=64, description="the client's address")
    trace: Trace = ""
    call: str = Field(default="", max_length=64, description="the same for every try of one call")


class Note(Message):
    """Something that happened at a gateway, or is told by a person's command, to be kept in the trail."""

    action: Literal["login", "login.failed", "logout", "hold.place", "hold.release"]
    object: str = Field(default="", max_length=200)
    details: dict[str, str | int] = Field(default_factory=dict, max_length=16)


class TokenSeen(Message):
    """One line of a gateway's tokens.yml, without what would give the token away."""

    user: str = Field(max_length=64)
    role: Role
    fingerprint: Fingerprint


class TokensSeen(Message):
    """All of a gateway's tokens, as its daemon has read them; what is new to the trail is noted."""

    tokens: list[TokenSeen] = Field(max_length=100_000)


class AuditEntry(Message):
    """One line of the trail. `call` is common to the entries of one action: `begun`, and what became of it."""

    id: TaskId
    at: str = Field(description="UTC, ISO 8601, by the judicator's clock")
    actor: str
    role: str
    action: Action
    object: str = Field(description="a submission's id, the name of a problem, user, executor, gateway, service …")
    origin: str = Field(description="the client's address, as the gateway saw it")
    gateway: str = Field(description="by its certificate")
    trace: str
    call: str
    outcome: Outcome
    details: dict[str, Any] = Field(default_factory=dict)

    @property
    def words(self) -> str:
        """The details as one sentence, for people."""
        parts = []
        for name, value in self.details.items():
            text = (", ".join(map(str, value)) or "none") if isinstance(value, list) else str(value)
            parts.append(f"{name} {text}")
        return "; ".join(parts)


def folded(entries: Iterable[AuditEntry]) -> list[AuditEntry]:
    """Entries, newest first, without the beginnings of what is seen to have ended; pure."""
    ended: set[tuple[str, str]] = set()
    entries_shown = []
    for entry in entries:
        mark = (entry.call, entry.action)
        if entry.outcome == "begun" and mark in ended:
            continue
        if entry.outcome != "begun" and entry.call:
            ended.add(mark)
        entries_shown.append(entry)
    return entries_shown


class AuditQuery(Message):
    """Search the trail, newest first. `before` pages: the `next` of the answer before."""

    actor: str | None = Field(default=None, max_length=64)
    action: str | None = Field(default=None, pattern=r"^[a-z.]{1,40}$", description="`login`, or `problem.` for all")
    object: str | None = Field(default=None, max_length=200)
    origin: str | None = Field(default=None, max_length=64)
    since: SearchTime | None = None
    until: SearchTime | None = None
    limit: int = Field(default=50, ge=1, le=500)
    before: TaskId | None = None


class AuditReply(Message):
    """The entries, newest first; `next` is None on the last page."""

    entries: list[AuditEntry]
    next: TaskId | None = None
