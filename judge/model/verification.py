"""The outcome of verifying a problem: its package's own submissions, judged and compared with what the package says."""

from __future__ import annotations

from pydantic import Field

from judge.model.messages import Identifier, Message, Sha256, TaskId
from judge.model.verdicts import Verdict


class VerifiedRow(Message):
    """One submission of the package. `margin`: how many times its CPU time the limit is, where that says something."""

    submission: str = Field(max_length=300)
    language: str = Field(default="", max_length=64)
    verdict: Verdict | None = None
    score: float | None = None
    expected: str = Field(default="", max_length=300)
    wrong: str = Field(default="", max_length=1000, description="why it is not as expected; empty: it is")
    cpu: float = Field(default=0.0, description="the largest CPU time of a test, in seconds")
    limit: float = Field(default=0.0, description="the CPU limit in its language, in seconds")
    margin: float | None = None
    task: TaskId | None = None


class Verification(Message):
    """The last verification of a problem at its present content, kept with it for those who run the contest."""

    problem: Identifier
    hash: Sha256
    rows: list[VerifiedRow] = Field(default_factory=list, max_length=1000)
    left_out: list[str] = Field(default_factory=list, max_length=1000, description="submissions that were not judged")
    warnings: list[str] = Field(default_factory=list, max_length=1000)
    faults: list[str] = Field(default_factory=list, max_length=1000)
    verified: str = Field(default="", description="UTC, ISO 8601; set by the judicator")

    @property
    def right(self) -> bool:
        """Return whether everything is as the package says."""
        return not self.faults and not any(row.wrong for row in self.rows)


class VerificationReply(Message):
    """The last verification of a problem, or None when its present content was never verified."""

    verification: Verification | None = None
