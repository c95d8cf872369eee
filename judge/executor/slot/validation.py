"""Asks the package's own validators: each has a sandbox of its own, and is built once per executor.

An output validator may be interactive or ask for passes; of several (legacy packages) all must accept. A static
validator (format 2025-09) is asked about a submission's files, before the tests of a group.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from judge.common.text import decimal
from judge.executor.slot import truncation
from judge.executor.slot.packaged.built import MESSAGE_BYTES, BuiltProgram, Workshop, first_line
from judge.executor.slot.program import Program, shorter
from judge.executor.verdict import REJECTED, Validated, validator_fault
from judge.problems.validator import number
from judge.sandbox.box import Sandbox
from judge.sandbox.types import Command, RunOutcome

FEEDBACK = "feedback"
_SCORE_BYTES = 256
# An empty feedback directory for each test; between the passes of one only nextpass.in goes.
_FRESH = 'rm -rf /box/feedback && mkdir /box/feedback || exit 125; exec "$@"'
_AGAIN = 'rm -rf /box/feedback/nextpass.in || exit 125; exec "$@"'
_INPUT, _ANSWER, _SOURCE = "judge/input", "judge/answer", "judge/submission"
# The submission's files for a static validator, below /box; no file of a program can be called so.
_SUBMISSION = ".submission"
# A row for one standard or compiler of a language: the format has one code for the language.
_VARIANT = re.compile(r"(c|cpp|java|pascal)[0-9-].*")
_ALIASES = {"pypy3": "python3", "pypy": "python3"}


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


class Validator(BuiltProgram):
    """A program that answers by its exit code and by the files of its feedback directory."""

    rejection = "the output validator rejected the output"

    def asking(
        self, arguments: Sequence[str], *, first: bool = True, seconds: float = math.inf, cwd: str = "/scratch"
    ) -> Command:
        """The command that asks it; `first` unless it is another pass over the same test."""
        before = ["/bin/sh", "-c", _FRESH if first else _AGAIN, "validator"]
        return self.command(arguments, before=before, seconds=seconds, writable=True, cwd=cwd)

    def result(self, outcome: RunOutcome) -> ValidatorResult:
        """The finding, by the validator's end and the files that it left.

        These are read through the sandbox: never by a path, regular files only, and no more of them than is used.
        """
        message = self._text("judgemessage.txt")
        feedback = self._text("teammessage.txt")
        fault = validator_fault(outcome, self.program.limits, self.label)
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
            fault = f"{self.label} rejects the output and asks for another pass"
            return ValidatorResult(accepted=False, fault=fault, message=message, feedback=feedback)
        return ValidatorResult(
            accepted=not rejected,
            message=message,
            feedback=feedback,
            score=score,
            multiplier=multiplier,
            next_input=next_input,
            rejection=self.rejection,
        )

    def _read(self, name: str, limit: int) -> bytes | None:
        """The first `limit` bytes of a feedback file, None when it is absent or no regular file."""
        fd = self.box().get(f"{FEEDBACK}/{name}")
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
            msg = f"{self.label}'s {name} is not {expected}"
            raise FeedbackError(msg, f"{name}: '{truncation.clip(truncation.text(data[:80]), 80)}'")
        return value

    def _next_input(self) -> int | None:
        fd = self.box().get(f"{FEEDBACK}/nextpass.in")
        if fd is None:
            return None
        try:
            size = os.fstat(fd).st_size
            if size > self.program.limits.output:
                msg = f"{self.label}'s nextpass.in is longer than {self.program.limits.output} bytes"
                raise FeedbackError(msg, f"nextpass.in: {size} bytes")
            return truncation.sealed(os.pread(fd, size, 0))
        finally:
            os.close(fd)


@dataclass(frozen=True)
class Question:
    """One test as a validator sees it; `later`: the input has changed since the pass before."""

    input: bytes | Path
    answer: bytes | Path
    flags: Sequence[str]
    later: bool = False


class CustomValidator(Validator):
    """The output validator of one task. Not used before the submission has compiled."""

    def __init__(
        self, program: Program, workshop: Workshop, label: str = "the output validator", source: bytes | None = None
    ) -> None:
        """`source` is what was handed in, for one that looks at it."""
        super().__init__(label, program, workshop)
        self._shown = {} if source is None else {_SOURCE: source}

    def question(self, question: Question, *, first: bool) -> Command:
        """The command for one pass over a test, whose files are put into the sandbox now."""
        if first:
            self.put({_INPUT: question.input, _ANSWER: question.answer, **self._shown})
        elif question.later:
            self.put({_INPUT: question.input})
        paths = [f"/box/{_INPUT}", f"/box/{_ANSWER}", f"/box/{FEEDBACK}/"]
        return self.asking([*paths, *question.flags], first=first)

    def check(self, question: Question, output: int, *, first: bool, remaining: Callable[[], float]) -> ValidatorResult:
        """Ask about an output that a run left, `output` being its descriptor, within `remaining()` seconds.

        A validator that is ended by those has a fault; the caller knows how long it took.
        """
        os.lseek(output, 0, os.SEEK_SET)
        command = self.question(question, first=first)
        with self.run(replace(command, stdin=output, limits=shorter(command.limits, remaining()))) as outcome:
            return self.result(outcome)


class SeveralValidators(CustomValidator):
    """Several validators of a legacy package: the first that does not accept decides, and what all said is kept.

    The first one also talks to the submission of an interactive problem.
    """

    def __init__(self, programs: Sequence[tuple[str, Program]], workshop: Workshop) -> None:
        """`programs` with what to call each in sentences; at least one."""
        (name, program), *further = programs
        super().__init__(program, workshop, name)
        self._others = [CustomValidator(validator, workshop, label) for label, validator in further]

    def close(self) -> None:
        for validator in self._others:
            validator.close()
        super().close()

    def box(self) -> Sandbox:
        """The first one's sandbox, when all are built; BuildError as `CustomValidator.box`."""
        for validator in self._others:
            validator.box()
        return super().box()

    def check(self, question: Question, output: int, *, first: bool, remaining: Callable[[], float]) -> ValidatorResult:
        """As `CustomValidator.check`; the scores are those of the last one that gives any (problemtools)."""
        opinion = super().check(question, output, first=first, remaining=remaining)
        for validator in self._others:
            if not opinion.accepted:
                break
            opinion = _combined(opinion, validator.check(question, output, first=first, remaining=remaining))
        return opinion


def _combined(first: ValidatorResult, second: ValidatorResult) -> ValidatorResult:
    """The finding of two validators together, of which the earlier one accepts."""
    if first.next_input is not None and (second.next_input is not None or not second.accepted):
        first.close()
        first = replace(first, next_input=None)
    scored = first if second.score is None and second.multiplier is None and second.accepted else second
    return replace(
        second,
        message=_joined(first.message, second.message),
        feedback=_joined(first.feedback, second.feedback),
        score=scored.score,
        multiplier=scored.multiplier,
        next_input=second.next_input if second.next_input is not None else first.next_input,
    )


def _joined(*texts: str) -> str:
    return truncation.clip("\n".join(filter(None, texts)), MESSAGE_BYTES)


def format_code(language: str) -> str:
    """The format's code of a language of the table, which calls most languages the same: `cpp` for `cpp17`."""
    variant = _VARIANT.fullmatch(language)
    return variant[1] if variant is not None else _ALIASES.get(language, language)


class StaticValidator(Validator):
    """The static validator of one task. Nothing of the submission is run there."""

    rejection = "the static validator rejected the submission"

    def __init__(
        self, program: Program, workshop: Workshop, language: str, entry: str, files: Mapping[str, bytes]
    ) -> None:
        """The submission's `language` is the format's code, `entry` is what is started of its `files`."""
        super().__init__("the static validator", program, workshop)
        self._about = (language, entry)
        self._files = files
        self._files_put = False

    def check(self, arguments: Sequence[str], remaining: Callable[[], float]) -> ValidatorResult:
        """Run it with these arguments, for `remaining()` seconds at most, and read its finding.

        The submission's files lie alone in its working directory.
        """
        if not self._files_put:
            self.put({f"{_SUBMISSION}/{name}": data for name, data in self._files.items()})
            self._files_put = True
        command_line = [*self._about, f"/box/{FEEDBACK}/", *arguments]
        with self.run(self.asking(command_line, seconds=remaining(), cwd=f"/box/{_SUBMISSION}")) as outcome:
            result = self.result(outcome)
        if result.next_input is not None:
            result.close()
            fault = "the static validator asks for another pass"
            return ValidatorResult(accepted=False, fault=fault, message=truncation.clip(result.message, 1024))
        return result
