"""Runs a package's own output validator: a sandbox of its own, built once per executor, asked once per test.

The files of its feedback directory are read through the sandbox (`Sandbox.get`): never by a path, regular files only,
and no more of them than is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from judge.executor.slot import builds, truncation
from judge.executor.slot.file_lock import Wait
from judge.executor.slot.program import Box, Program, shorter
from judge.executor.verdict import REJECTED, Checked, compile_verdict, validator_fault
from judge.languages.table import PATH
from judge.model.messages import Limits
from judge.problems.validator import number
from judge.sandbox.types import Command, Outcome

MESSAGE_BYTES = 4096
_SCORE_BYTES = 256
_FEEDBACK = "feedback"
_REJECTION = "the output validator rejected the output"
_INPUT, _ANSWER = "judge/input", "judge/answer"
# An empty feedback directory for each test; between the passes of one only nextpass.in goes.
_FRESH = 'rm -rf /box/feedback && mkdir /box/feedback || exit 125; exec "$@"'
_AGAIN = 'rm -rf /box/feedback/nextpass.in || exit 125; exec "$@"'


class BuildError(Exception):
    """The validator does not compile: every submission to this problem is a judge's error."""


class FeedbackError(Exception):
    """A feedback file is not what it must be; `quoted` is what it says instead, for judges."""

    def __init__(self, message: str, quoted: str) -> None:
        super().__init__(message)
        self.quoted = quoted


@dataclass(frozen=True)
class ValidatorResult:
    """What a validator found in one pass. `fault`: why it found nothing (the judge's error), without quoting it.

    `next_input` is a sealed descriptor of what the next pass reads; the caller closes it.
    """

    accepted: bool
    fault: str = ""
    message: str = ""
    feedback: str = ""
    score: float | None = None
    multiplier: float | None = None
    next_input: int | None = None

    def checked(self, *, first: bool = False) -> Checked:
        """The same for the verdict; `first`: the validator ended before the program that it talked to."""
        return Checked(self.accepted, "" if self.accepted else _REJECTION, self.fault, first)


@dataclass(frozen=True)
class Question:
    """One test as a validator sees it."""

    input: bytes | Path
    answer: bytes | Path
    flags: Sequence[str]


class CustomValidator:
    """The validator of one task. Not used before the submission has compiled."""

    def __init__(
        self,
        program: Program,
        take: Callable[[], Box],
        run: Callable[[Box, Command], Outcome],
        kept: builds.Builds,
        compile_limits: Limits,
        wait: Wait,
    ) -> None:
        """`run` runs a command in a box and raises when the task is cancelled, as `wait` does; `kept` has builds."""
        self._program = program
        self._take = take
        self._run = run
        self._kept = kept
        self._compile_limits = compile_limits
        self._wait = wait
        self._box: Box | None = None

    def close(self) -> None:
        """End the sandbox."""
        if self._box is not None:
            self._box.close()
            self._box = None

    @property
    def limits(self) -> Limits:
        """The limits of one run of the validator."""
        return self._program.limits

    def box(self) -> Box:
        """The sandbox with the validator built in it; BuildError when it does not compile."""
        if self._box is None:
            box = self._box = self._take()
            key = builds.key_of(self._program)
            data = self._kept.load(key)
            if data is None and self._program.compile is not None:
                with self._kept.building(key, self._wait):
                    data = self._kept.load(key)
                    if data is None:
                        self._build(box, key)
                        return box
            if data is None:
                self._put_files(box)
            else:
                failed = builds.unpack(lambda command: self._run(box, command), data)
                if failed:
                    raise BuildError(f"the output validator's build cannot be unpacked: {failed}")
        return self._box

    def _put_files(self, box: Box) -> None:
        for name, data in self._program.files.items():
            box.put(name, data, 0o755 if name in self._program.executables else 0o644)

    def _build(self, box: Box, key: str) -> None:
        self._put_files(box)
        argv = self._program.compile or ()
        command = Command(argv=argv, limits=self._compile_limits, env=self._program.env, writable=True, cwd="/box")
        with self._run(box, command) as outcome:
            failed = compile_verdict(outcome, self._compile_limits)
            if failed is not None:
                msg = f"the output validator does not compile: {failed.reason}: {_first_line(outcome)}"
                raise BuildError(truncation.clip(msg, MESSAGE_BYTES))
        with self._run(box, builds.packing()) as outcome:
            data = builds.packed(outcome)
        if data is not None:
            self._kept.save(key, data)

    def command(self, question: Question, *, first: bool) -> Command:
        """The command for one pass over a test, whose files are put into the sandbox now."""
        box = self.box()
        if first:
            box.put(_INPUT, _bytes(question.input))
            box.put(_ANSWER, _bytes(question.answer))
        script = ["/bin/sh", "-c", _FRESH if first else _AGAIN, "validator"]
        paths = [f"/box/{_INPUT}", f"/box/{_ANSWER}", f"/box/{_FEEDBACK}/"]
        return Command(
            argv=[*script, *self._program.run, *paths, *question.flags],
            limits=self._program.limits,
            env={"PATH": PATH, **self._program.env},
            writable=True,
        )

    def check(self, question: Question, output: int, *, first: bool, left: Callable[[], float]) -> ValidatorResult:
        """Ask about an output that a run left, `output` being its descriptor, within `left()` seconds.

        A validator that is ended by those has a fault; the caller knows how long it took.
        """
        os.lseek(output, 0, os.SEEK_SET)
        command = self.command(question, first=first)
        command = replace(command, stdin=output, limits=shorter(command.limits, left()))
        with self._run(self.box(), command) as outcome:
            return self.result(outcome)

    def result(self, outcome: Outcome) -> ValidatorResult:
        """What the validator found, by its end and by what it left in its feedback directory."""
        message = self._text("judgemessage.txt")
        feedback = self._text("teammessage.txt")
        fault = validator_fault(outcome, self._program.limits)
        if fault:
            # What a validator says as it dies is for judges: contestants see the reason, and it might quote secrets.
            said = "\n".join(filter(None, [message, _first_line(outcome)]))
            return ValidatorResult(accepted=False, fault=fault, message=said, feedback=feedback)
        rejected = outcome.exit_code == REJECTED
        next_input = None
        try:
            score = self._number("score.txt")
            multiplier = self._number("score_multiplier.txt", most=1.0)
            next_input = self._next_input()
        except FeedbackError as exc:
            said = "\n".join(filter(None, [message, exc.quoted]))
            return ValidatorResult(accepted=False, fault=str(exc), message=said, feedback=feedback)
        if rejected and next_input is not None:
            os.close(next_input)
            fault = "the output validator rejects the output and asks for another pass"
            return ValidatorResult(accepted=False, fault=fault, message=message, feedback=feedback)
        return ValidatorResult(
            accepted=not rejected,
            message=message,
            feedback=feedback,
            score=score,
            multiplier=multiplier,
            next_input=next_input,
        )

    def _read(self, name: str, limit: int) -> bytes | None:
        """The first `limit` bytes of a feedback file, None when it is absent or no regular file."""
        fd = self.box().get(f"{_FEEDBACK}/{name}")
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
            wanted = "one number" if most is None else f"one number from 0 to {most:g}"
            msg = f"the output validator's {name} is not {wanted}"
            raise FeedbackError(msg, f"{name}: '{truncation.clip(truncation.text(data[:80]), 80)}'")
        return value

    def _next_input(self) -> int | None:
        fd = self.box().get(f"{_FEEDBACK}/nextpass.in")
        if fd is None:
            return None
        try:
            size = os.fstat(fd).st_size
            if size > self._program.limits.output:
                msg = f"the output validator's nextpass.in is longer than {self._program.limits.output} bytes"
                raise FeedbackError(msg, f"nextpass.in: {size} bytes")
            return truncation.sealed(os.pread(fd, size, 0))
        finally:
            os.close(fd)


def _bytes(source: bytes | Path) -> bytes:
    return source if isinstance(source, bytes) else source.read_bytes()


def _first_line(outcome: Outcome) -> str:
    """The first line that a program wrote to its stderr, for people."""
    lines = truncation.text(outcome.read_stderr(1024)).strip().splitlines()
    return truncation.clip(lines[0], 200) if lines else ""
