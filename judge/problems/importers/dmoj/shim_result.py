"""The names that checkers and graders for DMOJ's judge import as dmoj.result. Goes into converted packages."""

from typing import Any


class CheckerResult:
    """The result of a case: passed or not, and its points."""

    def __init__(self, passed: bool, points: float, feedback: Any = None, extended_feedback: Any = None) -> None:
        self.passed = bool(passed)
        self.points = points
        self.feedback = feedback
        self.extended_feedback = extended_feedback
