"""Every verdict of the executor: one table, PRECEDENCE, whose first row that applies decides. Pure (docs/judging.md).

The sandbox and the validators report facts, without an order among them; no other module here names a verdict but to
compare it, which tests/unit/test_executor_verdict.py checks.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from judge.common.text import decimal, size
from judge.model.messages import Limits, RunUsage
from judge.model.verdicts import Verdict
from judge.sandbox.types import Killed, RunOutcome


@dataclass(frozen=True)
class Validated:
    """A validator's finding. `fault`: why it could not find any; `message`: what is wrong with the output.

    `first`: the validator ended before the program that it talked to, so its rejection counts whatever followed.
    """

    accepted: bool
    message: str = ""
    fault: str = ""
    first: bool = False


class Ruling(NamedTuple):
    """A verdict, and its reason in one sentence (empty for AC). `near`: a repetition may find otherwise; see `near`."""

    verdict: Verdict
    reason: str
    near: bool = False


# A test's run may pass its time limits by this part of them before it is ended; then it is near() them.
GRACE = 0.1
# A run over its wall limit that used less than this part of its CPU limit was idle: a repetition would change nothing.
BUSY = 0.5

_SIGNALS = {
    signal.SIGSEGV: "invalid memory access, or a stack deeper than its limit",
    signal.SIGABRT: "abort: a failed assertion or an uncaught exception",
    signal.SIGFPE: "arithmetic error such as a division by zero",
    signal.SIGBUS: "invalid memory access",
    signal.SIGILL: "illegal instruction",
    signal.SIGPIPE: "wrote to a closed pipe",
    signal.SIGKILL: "killed",
    signal.SIGTRAP: "trap: a failed run-time check",
}


def signal_name(number: int) -> str:
    """`SIGSEGV (invalid memory access …)`; a number without a name stays a number."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    text = _SIGNALS.get(signal.Signals(number))
    return f"{name} ({text})" if text else name


@dataclass(frozen=True)
class _RunFacts:
    """One run as the table sees it; `heap_full`: its runtime says that it found no more memory."""

    facts: RunOutcome
    limits: Limits
    heap_full: bool = False
    checked: Validated = Validated(accepted=True)

    def ended(self, reason: Killed, number: signal.Signals | None = None) -> bool:
        """Return whether the sandbox ended it for this reason, or the kernel by this signal."""
        if Killed.CANCELLED in self.facts.killed:
            raise ValueError("a cancelled run has no verdict")
        return reason in self.facts.killed or (number is not None and self.facts.signal == number)

    @property
    def crashed(self) -> bool:
        """Return whether it ended by a signal, or with an exit code other than 0."""
        return self.facts.signal is not None or self.facts.exit_code != 0


def _cpu(run: _RunFacts) -> str:
    return f"CPU time limit exceeded: used {run.facts.cpu:.3f} s, the limit is {decimal(run.limits.cpu)} s"


def _wall(run: _RunFacts) -> str:
    return (
        f"wall time limit exceeded: ran for {run.facts.wall:.3f} s with {run.facts.cpu:.3f} s of CPU time, "
        f"the limit is {decimal(run.limits.wall_seconds)} s"
    )


def _memory(run: _RunFacts) -> str:
    return f"memory limit exceeded: used {size(run.facts.memory)}, the limit is {size(run.limits.memory)}"


def _heap(run: _RunFacts) -> str:
    return f"memory limit exceeded: the heap is full, the limit is {size(run.limits.memory)}"


def _output(run: _RunFacts) -> str:
    return f"output limit exceeded: wrote more than {size(run.limits.output)}"


def _forbidden(_: _RunFacts) -> str:
    return "did something that submissions must not do (a forbidden system call)"


def _end(run: _RunFacts) -> str:
    number = run.facts.signal
    return f"ended with exit code {run.facts.exit_code}" if number is None else f"ended by {signal_name(number)}"


def _rejection(run: _RunFacts) -> str:
    return run.checked.message or "wrong answer"


# A row: the verdict, whether it applies, and the reason.
_Row = tuple[Verdict, Callable[[_RunFacts], bool], Callable[[_RunFacts], str]]

# Faults that a run has by itself. Output comes last of the limits that end a run: a program that loops while it prints
# is, for its author, a loop. A crash with all of the memory used, or with a full heap, is MLE and never RTE.
_RUN: tuple[_Row, ...] = (
    (Verdict.SV, lambda run: run.ended(Killed.FORBIDDEN, signal.SIGSYS), _forbidden),
    (Verdict.MLE, lambda run: run.ended(Killed.MEMORY), _memory),
    (Verdict.TLE, lambda run: run.ended(Killed.CPU, signal.SIGXCPU) or run.facts.cpu > run.limits.cpu, _cpu),
    (Verdict.TLE, lambda run: run.ended(Killed.WALL) or run.facts.wall > run.limits.wall_seconds, _wall),
    (Verdict.OLE, lambda run: run.ended(Killed.OUTPUT, signal.SIGXFSZ), _output),
    (Verdict.MLE, lambda run: run.facts.memory > run.limits.memory, _memory),
    (Verdict.MLE, lambda run: run.crashed and run.facts.memory >= run.limits.memory, _memory),
    (Verdict.MLE, lambda run: run.heap_full and run.crashed, _heap),
    (Verdict.RTE, lambda run: run.crashed, _end),
)

PRECEDENCE: tuple[_Row, ...] = (
    (Verdict.JE, lambda run: bool(run.checked.fault), lambda run: run.checked.fault),
    (Verdict.WA, lambda run: not run.checked.accepted and run.checked.first, _rejection),
    *_RUN,
    (Verdict.WA, lambda run: not run.checked.accepted, _rejection),
)

# A test that is not run, since the submission's total time is used up, counts as this.
NOT_RUN = Verdict.TLE


def _first(rows: Sequence[_Row], run: _RunFacts) -> Ruling | None:
    for verdict, applies, reason in rows:
        if applies(run):
            return Ruling(verdict, reason(run), verdict is Verdict.TLE and near(run.facts, run.limits))
    return None


def run_fault(facts: RunOutcome, limits: Limits, *, heap_full: bool = False) -> Ruling | None:
    """The ruling on a run by itself; None when it ended well.

    `heap_full`: its runtime says that its heap is full (`judge.languages.table.HeapSign`). A cancelled run has no
    verdict: ValueError.
    """
    return _first(_RUN, _RunFacts(facts, limits, heap_full))


def run_verdict(facts: RunOutcome, limits: Limits, checked: Validated | None, *, heap_full: bool = False) -> Ruling:
    """The verdict of one test; `facts` and the rest as for `run_fault`.

    `checked` is None when there is no answer to compare with (the seed's command task), or when the run failed. In an
    interaction `limits.wall` includes the time that the validator used.
    """
    run = _RunFacts(facts, limits, heap_full, checked or Validated(accepted=True))
    return _first(PRECEDENCE, run) or Ruling(Verdict.AC, "")


def checked_verdict(checked: Validated) -> Ruling:
    """The verdict of a test for which nothing of the submission runs: a validator's word alone."""
    if checked.fault:
        return Ruling(Verdict.JE, checked.fault)
    return Ruling(Verdict.AC, "") if checked.accepted else Ruling(Verdict.WA, checked.message or "wrong answer")


def near(facts: RunOutcome, limits: Limits) -> bool:
    """Return whether a run is TLE by so little that its test may be repeated.

    So it is when the run ended before the sandbox ended it for its time (it had GRACE more of that than the limits
    say), unless it passed only its wall limit and was idle (BUSY).
    """
    if set(facts.killed) - {Killed.OUTPUT} or facts.signal in {signal.SIGSYS, signal.SIGXCPU}:
        return False
    return facts.cpu > limits.cpu or (facts.wall > limits.wall_seconds and facts.cpu >= BUSY * limits.cpu)


def compile_verdict(facts: RunOutcome, limits: Limits, used_up: str = "") -> Ruling | None:
    """CE with its reason, or None when the compilation went well. Every limit that a compiler passes is CE.

    `used_up` says that the compiler has used up the submission's total time.
    """
    fault = run_fault(facts, limits)
    reason = used_up or (fault.reason if fault is not None else "")
    return Ruling(Verdict.CE, f"compilation failed: {reason}") if reason else None


def unfit_verdict(reason: str) -> Ruling:
    """CE of what compiled and still cannot be judged (too big to run as several processes), for the reason given."""
    return Ruling(Verdict.CE, f"compilation failed: {reason}")


def total_time_verdict(reason: str) -> Ruling:
    """The verdict of a test during which the submission's total time was used up, whatever else became of it."""
    return Ruling(NOT_RUN, reason)


def rendered_verdict() -> Verdict:
    """The verdict of statements that were rendered: their pages say themselves what could not be."""
    return Verdict.AC


def judge_error(reason: str) -> Ruling:
    """The verdict where the problem is at fault: its validator does not compile, or asks for too many passes."""
    return Ruling(Verdict.JE, reason)


ACCEPTED, REJECTED = 42, 43


def validator_fault(facts: RunOutcome, limits: Limits, label: str = "the output validator") -> str:
    """The reason why a validator's run says nothing about the output; empty when it ended with 42 or 43.

    Every limit that it passes, every signal and any other exit code, 0 included, is the judge's error (Kattis). `what`
    names it in the sentence.
    """
    if facts.signal is None and not facts.killed:
        if facts.exit_code in {ACCEPTED, REJECTED}:
            return ""
        if facts.exit_code == 0:
            return f"{label} ended with exit code 0; it must be 42 or 43"
    fault = run_fault(facts, limits)
    return f"{label} failed: {fault.reason if fault else 'it did not end with 42 or 43'}"


def usage(facts: RunOutcome) -> RunUsage:
    return RunUsage(
        cpu=round(facts.cpu, 6),
        wall=round(facts.wall, 6),
        memory=facts.memory,
        exit_code=facts.exit_code,
        signal=facts.signal,
    )
