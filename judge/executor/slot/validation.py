"""Asks the package's own output validators about one output: each in a sandbox of its own, built once per executor.

One of them may be interactive or ask for passes; of several (legacy packages) all must accept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from judge.executor.slot import truncation
from judge.executor.slot.packaged.built import MESSAGE_BYTES, BuiltProgram, Workshop
from judge.executor.slot.packaged.feedback import AGAIN, FEEDBACK, FRESH, Feedback, ValidatorResult
from judge.executor.slot.program import Box, Program, shorter
from judge.languages.table import PATH
from judge.sandbox.types import Command, RunOutcome

_REJECTION = "the output validator rejected the output"
_INPUT, _ANSWER, _SUBMISSION = "judge/input", "judge/answer", "judge/submission"


@dataclass(frozen=True)
class Question:
    """One test as a validator sees it; `later`: the input has changed since the pass before."""

    input: bytes | Path
    answer: bytes | Path
    flags: Sequence[str]
    later: bool = False


class CustomValidator:
    """The validator of one task. Not used before the submission has compiled."""

    def __init__(
        self, program: Program, workshop: Workshop, label: str = "the output validator", source: bytes | None = None
    ) -> None:
        """`what` names it in sentences, `source` is what was handed in, for one that looks at it."""
        self._built = BuiltProgram(label, program, workshop)
        self._shown = {} if source is None else {_SUBMISSION: source}
        self._feedback = Feedback(self._built)

    def close(self) -> None:
        """End the sandbox."""
        self._built.close()

    def box(self) -> Box:
        """The sandbox with the validator built in it; BuildError when it does not compile."""
        return self._built.box()

    def command(self, question: Question, *, first: bool) -> Command:
        """The command for one pass over a test, whose files are put into the sandbox now."""
        if first:
            self._built.put({_INPUT: question.input, _ANSWER: question.answer, **self._shown})
        elif question.later:
            self._built.put({_INPUT: question.input})
        program = self._built.program
        script = ["/bin/sh", "-c", FRESH if first else AGAIN, "validator"]
        paths = [f"/box/{_INPUT}", f"/box/{_ANSWER}", f"/box/{FEEDBACK}/"]
        return Command(
            argv=[*script, *program.run, *paths, *question.flags],
            limits=program.limits,
            env={"PATH": PATH, **program.env},
            writable=True,
        )

    def check(self, question: Question, output: int, *, first: bool, remaining: Callable[[], float]) -> ValidatorResult:
        """Ask about an output that a run left, `output` being its descriptor, within `left()` seconds.

        A validator that is ended by those has a fault; the caller knows how long it took.
        """
        os.lseek(output, 0, os.SEEK_SET)
        command = self.command(question, first=first)
        command = replace(command, stdin=output, limits=shorter(command.limits, remaining()))
        with self._built.run(command) as outcome:
            return self.result(outcome)

    def result(self, outcome: RunOutcome) -> ValidatorResult:
        """The finding, by the validator's end and by its feedback directory."""
        return self._feedback.result(outcome, _REJECTION)


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
        """End all sandboxes."""
        for validator in self._others:
            validator.close()
        super().close()

    def box(self) -> Box:
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
