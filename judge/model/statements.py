"""Statements as pages show them: what an executor makes of a problem's, and how gateways get it."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from judge.model.messages import Identifier, Message, Sha256

# A change of how statements are rendered or sanitised raises it: all are rendered again, on their next view.
RENDERING: Final = 1


class Page(Message):
    """One statement as harmless HTML in pieces, or the reason why it has none.

    Between piece n and the next comes `samples[n]`: the next sample, or all that are left. `missing` are names of
    pictures that the statement wants and its package does not have.
    """

    pieces: list[str] = Field(default_factory=list)
    samples: list[Literal["next", "rest"]] = Field(default_factory=list)
    missing: list[str] = Field(default_factory=list)
    why: str = ""

    @model_validator(mode="after")
    def _check_samples(self) -> Self:
        if len(self.samples) != max(0, len(self.pieces) - 1):
            raise ValueError("between two pieces there must be one place for samples")
        return self


class Pages(Message):
    """The statements of one content of a problem, by the names of their main files; kept as a blob."""

    pages: dict[str, Page]


class PagesRequest(Message):
    """The pages of a problem's statements at one content are asked for."""

    problem: Identifier
    hash: Sha256


class PagesReply(Message):
    """The blob that has the pages; without it the reason why there is none; with neither they are being made."""

    pages: Sha256 | None = None
    why: str = ""
