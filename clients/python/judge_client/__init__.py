"""A typed client of Judge's HTTP API: `Judge` and `AsyncJudge`, the messages in `judge_client.models`."""

from __future__ import annotations

from judge_client.aio import AsyncJudge
from judge_client.errors import (
    ConflictError,
    ForbiddenError,
    JudgeError,
    LimitError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
)
from judge_client.models import Batch, RejudgeBody, RejudgeFilter, SourceFile, Submission, Task
from judge_client.models import LimitsOverride as Limits
from judge_client.models import Test as Test
from judge_client.streams import Event
from judge_client.sync import Judge

__all__ = [
    "AsyncJudge", "Batch", "ConflictError", "Event", "ForbiddenError", "Judge", "JudgeError", "LimitError", "Limits",
    "NotFoundError", "RejudgeBody", "RejudgeFilter", "SourceFile", "Submission", "Task", "Test", "UnauthorizedError",
    "UnavailableError",
]  # fmt: skip
