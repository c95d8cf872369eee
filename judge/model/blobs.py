"""Messages about blobs, beside their contents, which travel as bodies."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from judge.model.messages import Message, Sha256

# Names in one question: those of all files of a package, and of all its tests.
BLOBS: Final = 30_000


class BlobsWanted(Message):
    """A question for blobs that are not stored. Those that are stay for a while, as if each had been asked for."""

    blobs: list[Sha256] = Field(max_length=BLOBS)


class BlobsMissing(Message):
    """Those to be uploaded. Right after a change of the database's primary one may be among them that is stored."""

    missing: list[Sha256] = Field(max_length=BLOBS)
