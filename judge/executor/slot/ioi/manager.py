"""The manager of a communication task: a program of the package that talks to the submission's processes and judges.

It is called as the Contest Management System calls it: `manager FROM_0 TO_0 FROM_1 TO_1 …` are the names of the pipes
from and to each process, the test's input is its standard input and `input.txt`. The first line of its standard output
is the outcome, a number, the first line of standard error is said to the submitter.
"""

from __future__ import annotations

import math
from dataclasses import replace

from judge.executor.slot import truncation
from judge.executor.slot.packaged.built import BuiltProgram, Workshop
from judge.executor.slot.program import Program
from judge.executor.slot.validation import ValidatorResult
from judge.executor.verdict import run_fault
from judge.problems.validator import number
from judge.sandbox.meeting import path_of
from judge.sandbox.types import Command, Killed, RunOutcome

INPUT = "input.txt"
_LINE_BYTES = 4096
# Messages of managers and checkers in the words of that system, which it translates.
_MESSAGES = {
    "translate:success": "Output is correct",
    "translate:partial": "Output is partially correct",
    "translate:wrong": "Output isn't correct",
}


def message_of(data: bytes) -> str:
    """The sentence for the submitter: the first line."""
    line = truncation.text(data[:_LINE_BYTES]).strip().partition("\n")[0].strip()
    return truncation.clip(_MESSAGES.get(line, line.removeprefix("translate:")), truncation.MESSAGE)


def opinion_of(stdout: bytes, stderr: bytes, *, scoring: bool) -> ValidatorResult:
    """The finding of a manager that ended well. Where submissions get no score, only an outcome of 1 is right."""
    first = stdout[:_LINE_BYTES].strip().partition(b"\n")[0].strip()
    value = number(first)
    message = message_of(stderr)
    if value is None or value < 0 or not math.isfinite(value):
        excerpt = truncation.clip(truncation.text(first[:80]), 80)
        fault = "the first line that the manager prints is not its outcome, a number from 0 on"
        return ValidatorResult(accepted=False, fault=fault, message=f"printed '{excerpt}'; {message}")
    accepted = value > 0 if scoring else value >= 1
    has_points = value > 1
    return ValidatorResult(
        accepted=accepted,
        rejection=message or "the manager says no",
        message=message,
        feedback=message,
        score=value if accepted and has_points else None,
        multiplier=value if accepted and not has_points else None,
    )


class Manager(BuiltProgram):
    def __init__(self, program: Program, workshop: Workshop) -> None:
        super().__init__("the manager", program, workshop)

    def call(self, data: bytes, stdin: int, processes: int, wall: float) -> Command:
        """The command for one test; `stdin` is a descriptor of the input `data`, `wall` the seconds it may take."""
        self.put({INPUT: data})
        command = self.command([path_of(pipe) for pipe in range(2 * processes)], stdin=stdin, writable=True, cwd="/box")
        return replace(command, limits=command.limits.model_copy(update={"wall": wall}))

    def opinion(self, outcome: RunOutcome, *, scoring: bool) -> ValidatorResult | None:
        """The manager's finding; None when it was ended before it could say so."""
        if Killed.CANCELLED in outcome.killed:
            return None
        failed = run_fault(outcome, self.program.limits.model_copy(update={"wall": math.inf}))
        if failed is not None:
            message = message_of(outcome.read_stderr(_LINE_BYTES))
            return ValidatorResult(accepted=False, fault=f"the manager failed: {failed.reason}", message=message)
        return opinion_of(outcome.read_stdout(_LINE_BYTES), outcome.read_stderr(_LINE_BYTES), scoring=scoring)
