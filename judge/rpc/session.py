"""Messages about the sessions of the pages: begun at a log-in, ended by a log-out for all gateways."""

from __future__ import annotations

from pydantic import Field

from judge.model.messages import Message, Sha256

# A session that nobody ends is over after so many seconds, on the cookie and in the database.
LIFETIME = 7 * 86400


class SessionRef(Message):
    """Names a session by the SHA-256 of the secret in its cookie, and whose it should be."""

    id: Sha256
    user: str = Field(min_length=1, max_length=64)


class SessionBegin(Message):
    """A person has logged in."""

    id: Sha256
    user: str = Field(min_length=1, max_length=64)


class SessionEnd(Message):
    """A person logs out of one session, or with `everywhere` of all that they have."""

    id: Sha256
    user: str = Field(min_length=1, max_length=64)
    everywhere: bool = False


class SessionState(Message):
    """`live`: begun and not ended."""

    live: bool
