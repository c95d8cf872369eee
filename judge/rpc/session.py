"""Messages about the sessions of the pages: begun at a log-in, ended by a log-out for all gateways."""

from __future__ import annotations

from pydantic import Field

from judge.model.messages import Message, Sha256
from judge.model.people import TokenId

# A session that nobody ends is over after so many seconds, on the cookie and in the database.
LIFETIME = 7 * 86400


class SessionBegin(Message):
    """A person has logged in. `account`: into one of the database's; `token`: with this token of it."""

    id: Sha256
    user: str = Field(min_length=1, max_length=64)
    account: bool = False
    token: TokenId | None = None
    arrival: str = Field(default="", max_length=64, description="of the account, as the log-in was answered")


class SessionEnd(Message):
    """A person logs out of one session, or with `everywhere` of all that they have."""

    id: Sha256
    user: str = Field(min_length=1, max_length=64)
    everywhere: bool = False
