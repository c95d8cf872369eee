"""Reads a validator's finding: its exit code, and the files of its feedback directory.

These are read through the sandbox (`Sandbox.get`): never by a path, regular files only, and no more of them than is
used.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from judge.common.text import decimal
from judge.executor.slot import truncation
from judge.executor.slot.packaged.built import MESSAGE_BYTES, BuiltProgram, first_line
from judge.executor.verdict import REJECTED, Validated, validator_fault
from judge.problems.validator import number
from judge.sandbox.types import RunOutcome

FEEDBACK = "feedback"
_SCORE_BYTES = 256
# An empty feedback directory for each test; between the passes of one only nextpass.in goes.
FRESH = 'rm -rf /box/feedback && mkdir /box/feedback || exit 125; exec "$@"'
AGAIN = 'rm -rf /box/feedback/nextpass.in || exit 125; exec "$@"'


class FeedbackError(Exception):
    """A feedback file is not what it must be; `quoted` is what it says instead, for judges."""

    def __init__(self, message: str, quoted: str) -> None:
        super().__init__(message)
        self.quoted = quoted


@dataclass(frozen=True)
class ValidatorResult:
    """A validator's finding in one pass. `fault`: why there is none (the judge's error), without quoting it.

    `rejection` is the reason of a rejection. `next_input` is a sealed descriptor of what the next pass reads; the
    caller closes it.
    """

    accepted: bool
    fault: str = ""
    message: str = ""
    feedback: str = ""
    score: float | None = None
    multiplier: float | None = None
    next_input: int | None = None
    rejection: str = "the output validator rejected the output"

    def checked(self, *, first: bool = False) -> Validated:
        """The same for the verdict; `first`: the validator ended before the program that it talked to."""
        return Validated(self.accepted, "" if self.accepted else self.rejection, self.fault, first)

    def close(self) -> None:
        """Close what the next pass would have read."""
        if self.next_input is not None:
            os.close(self.next_input)


class Feedback:
    """The feedback directory of one built validator."""

    def __init__(self, program: BuiltProgram) -> None:
        """`program` has run with `/box/feedback/` as its feedback directory."""
        self._built = program

    def result(self, outcome: RunOutcome, rejection: str) -> ValidatorResult:
        """The finding, by the validator's end and the files that it left; `rejection` is the reason when it rejects."""
        message = self._text("judgemessage.txt")
        feedback = self._text("teammessage.txt")
        label = self._built.label
        fault = validator_fault(outcome, self._built.limits, label)
        if fault:
            # A validator's words as it dies are for judges, as they might quote secrets: contestants see the reason.
            message_text = "\n".join(filter(None, [message, first_line(outcome)]))
            return ValidatorResult(accepted=False, fault=fault, message=message_text, feedback=feedback)
        rejected = outcome.exit_code == REJECTED
        next_input = None
        try:
            score = self._number("score.txt")
            multiplier = self._number("score_multiplier.txt", most=1.0)
            next_input = self._next_input()
        except FeedbackError as exc:
            message_text = "\n".join(filter(None, [message, exc.quoted]))
            return ValidatorResult(accepted=False, fault=str(exc), message=message_text, feedback=feedback)
        if rejected and next_input is not None:
            os.close(next_input)
            fault = f"{label} rejects the output and asks for another pass"
            return ValidatorResult(accepted=False, fault=fault, message=message, feedback=feedback)
        return ValidatorResult(
            accepted=not rejected,
            message=message,
            feedback=feedback,
            score=score,
            multiplier=multiplier,
            next_input=next_input,
            rejection=rejection,
        )

    def _read(self, name: str, limit: int) -> bytes | None:
        """The first `limit` bytes of a feedback file, None when it is absent or no regular file."""
        fd = self._built.box().get(f"{FEEDBACK}/{name}")
        if fd is None:
            return None
        try:
            return os.pread(fd, limit, 0)
        finally:
            os.close(fd)

    def _text(self, name: str) -> str:
        data = self._read(name, MESSAGE_BYTES + 1) or b""
        return truncation.clip(truncation.text(data).strip(), MESSAGE_BYTES)

    def _number(self, name: str, most: float | None = None) -> float | None:
        data = self._read(name, _SCORE_BYTES + 1)
        if data is None:
            return None
        value = number(data.strip()) if len(data) <= _SCORE_BYTES else None
        if value is None or (most is not None and not 0 <= value <= most):
            expected = "one number" if most is None else f"one number from 0 to {decimal(most)}"
            msg = f"{self._built.label}'s {name} is not {expected}"
            raise FeedbackError(msg, f"{name}: '{truncation.clip(truncation.text(data[:80]), 80)}'")
        return value

    def _next_input(self) -> int | None:
        fd = self._built.box().get(f"{FEEDBACK}/nextpass.in")
        if fd is None:
            return None
        try:
            size = os.fstat(fd).st_size
            if size > self._built.limits.output:
                msg = f"{self._built.label}'s nextpass.in is longer than {self._built.limits.output} bytes"
                raise FeedbackError(msg, f"nextpass.in: {size} bytes")
            return truncation.sealed(os.pread(fd, size, 0))
        finally:
            os.close(fd)
