"""Messages with figures over time: of the cluster's work, and of one executor's machine."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from judge.model.base import CoreSpeed, Message
from judge.model.messages import Identifier
from judge.model.verdicts import Verdict

Span = Literal["hour", "day"]
# Seconds that one point of a span stands for, and the number of points.
STEPS: Final[dict[Span, tuple[int, int]]] = {"hour": (60, 60), "day": (900, 96)}


class FiguresRequest(Message):
    """Over which time up to now."""

    span: Span = Field(default="hour", description="the last hour, a minute a point; or the last day, 15 minutes")


class Point(Message):
    """The events of one step of time. What nobody has looked at is null: no judicator led then."""

    at: str = Field(description="when it began, UTC")
    waiting: int | None = Field(default=None, ge=0, description="the most submissions that waited")
    busy: float | None = Field(default=None, ge=0, description="busy slots, on average")
    slots: int | None = Field(default=None, ge=0, description="the largest number of slots")
    judged: int = Field(default=0, ge=0, description="submissions that got their verdict")
    rejudged: int = Field(default=0, ge=0, description="runs of rejudgings that got their verdict")
    half: float | None = Field(default=None, ge=0, description="seconds within which half of them had their verdict")
    most: float | None = Field(default=None, ge=0, description="seconds within which 95 of 100 had their verdict")
    verdicts: dict[Verdict, int] = Field(default_factory=dict, description="how many of each; for judges")


class FiguresReply(Message):
    """The steps of a span, the oldest first; the last one has not ended yet."""

    span: Span
    seconds: int = Field(description="of one step")
    points: list[Point]


class VersionChange(Message):
    """A language of an executor whose version is another than at its start before; empty: it was not there."""

    language: str
    before: str = ""
    after: str = ""


class Start(Message):
    """One start of an executor. `calibration` is for admins."""

    at: str = Field(description="of its first report, UTC")
    version: str = ""
    slots: int = 0
    weak_sandbox: bool = False
    changes: list[VersionChange] = Field(default_factory=list)
    calibration: list[CoreSpeed] = Field(default_factory=list)


class HistoryRequest(Message):
    """The executor whose history is wanted."""

    executor: Identifier


class HistoryReply(Message):
    """The last starts of an executor, the newest first."""

    executor: str
    starts: list[Start]
