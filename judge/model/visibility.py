"""Who sees a problem (docs/problems.md, Visibility)."""

from __future__ import annotations

import datetime

from pydantic import Field

from judge.model.base import SearchTime
from judge.model.labels import TAGS, Difficulty, Order, Tag
from judge.model.messages import Identifier, Message
from judge.model.people import GROUPS, GroupName, UserName

OWNERS = 50


class Visibility(Message):
    """The users who see a problem beside judges, admins and its owners: everyone, members of `groups`, or nobody."""

    everyone: bool = False
    groups: list[GroupName] = Field(default_factory=list, max_length=GROUPS)
    since: SearchTime | None = Field(default=None, description="hidden from these users before this time")

    @property
    def hidden(self) -> bool:
        """Return whether no user ever sees it."""
        return not self.everyone and not self.groups

    def words(self, now: datetime.datetime) -> str:
        """The visibility for people; empty: everyone sees it now."""
        if self.hidden:
            return "hidden"
        parts = [] if self.everyone else [f"groups {', '.join(self.groups)}"]
        if self.since is not None and self.since > now:
            parts.append(f"from {self.since.astimezone(datetime.UTC):%Y-%m-%d %H:%M} UTC")
        return "; ".join(parts)


EVERYONE = Visibility(everyone=True)


class ProblemFields(Message):
    """The fields to change of a problem; what is left out stays."""

    visibility: Visibility | None = None
    owners: list[UserName] | None = Field(default=None, max_length=OWNERS, description="takes role judge")
    tags: list[Tag] | None = Field(default=None, max_length=TAGS, description="in place of the package's")
    difficulty: Difficulty | None = Field(default=None, description="in place of the package's")
    order: Order | None = Field(default=None, description="place in lists, by this number and then by name")


class ProblemChange(ProblemFields):
    """Changes of one problem."""

    name: Identifier
