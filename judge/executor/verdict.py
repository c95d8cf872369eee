"""Which verdict a run, a test and a task get: pure functions, nothing else decides (docs/judging.md).

Order for one run, first match wins (docs/judging.md):

1. what made the sandbox end the run: forbidden act SV, memory MLE, CPU time TLE, wall time TLE, output OLE;
2. a limit that the numbers show to be passed though nothing was killed: CPU time TLE, wall time TLE, memory MLE (the
   times also of a run that was ended for its output, since a run may go on for a tenth beyond its time limits);
3. the kernel's own signals for limits: SIGSYS SV, SIGXCPU TLE, SIGXFSZ OLE;
4. an abnormal end with all of the memory used, or the exit code by which the language's runtime says that its heap is
   full (`memory_exit` of the language table): MLE, never RTE;
5. any other signal, or an exit code other than 0: RTE;
6. the validator's word: AC or WA; without an answer to compare with, AC.

The output limit is last of the limits because a program that loops while printing is, for its author, a loop.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Protocol

from judge.model.messages import Limits, RunUsage, Verdict
from judge.sandbox.types import Killed


class Facts(Protocol):
    """What the verdict needs to know of a run; `judge.sandbox.types.Outcome` has it all."""

    @property
    def exit_code(self) -> int | None:
        """The exit code, or None when a signal ended the program."""

    @property
    def signal(self) -> int | None:
        """The number of the signal that ended the program, or None."""

    @property
    def killed(self) -> Killed:
        """Why the sandbox ended the run."""

    @property
    def cpu(self) -> float:
        """CPU seconds used."""

    @property
    def wall(self) -> float:
        """Wall seconds used."""

    @property
    def memory(self) -> int:
        """Bytes of memory used at the peak."""


class Timed(Facts, Protocol):
    """Facts of one of two programs that ran side by side."""

    @property
    def ended(self) -> float:
        """When it ended, on the clock of the other one."""


class Checked(Protocol):
    """What the verdict needs to know of a validation; `judge.problems.validator.Validation` has it."""

    @property
    def accepted(self) -> bool:
        """Whether the output is right."""

    @property
    def message(self) -> str:
        """What the validator has to say about it."""


# A test's run may pass its time limits by this part of them before it is ended; then it is near() them.
GRACE = 0.1
# A run over its wall limit that used less than this part of its CPU limit was idle: no quieter machine changes that.
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


def size(count: int) -> str:
    """Bytes for people: `512 MiB`, `1.5 KiB`, `12 bytes`."""
    for unit, name in ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB")):
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count} bytes"


def _cpu(facts: Facts, limits: Limits) -> tuple[Verdict, str]:
    return Verdict.TLE, f"CPU time limit exceeded: used {facts.cpu:.3f} s, the limit is {limits.cpu:g} s"


def _wall(facts: Facts, limits: Limits) -> tuple[Verdict, str]:
    reason = (
        f"wall time limit exceeded: ran for {facts.wall:.3f} s with {facts.cpu:.3f} s of CPU time, "
        f"the limit is {limits.wall_seconds:g} s"
    )
    return Verdict.TLE, reason


def _memory(facts: Facts, limits: Limits) -> tuple[Verdict, str]:
    return Verdict.MLE, f"memory limit exceeded: used {size(facts.memory)}, the limit is {size(limits.memory)}"


def _output(_: Facts, limits: Limits) -> tuple[Verdict, str]:
    return Verdict.OLE, f"output limit exceeded: wrote more than {size(limits.output)}"


def _forbidden(_: Facts, __: Limits) -> tuple[Verdict, str]:
    return Verdict.SV, "did something that submissions must not do (a forbidden system call)"


_Fault = Callable[[Facts, Limits], tuple[Verdict, str]]
# What ended the run, for the sandbox (step 1) and for the kernel (step 3).
_KILLED = {
    Killed.FORBIDDEN: _forbidden,
    Killed.MEMORY: _memory,
    Killed.CPU: _cpu,
    Killed.WALL: _wall,
    Killed.OUTPUT: _output,
}
_LIMIT_SIGNALS: dict[int | None, _Fault] = {
    signal.SIGSYS: _forbidden,
    signal.SIGXCPU: _cpu,
    signal.SIGXFSZ: _output,
}


def run_fault(facts: Facts, limits: Limits, memory_exit: int | None = None) -> tuple[Verdict, str] | None:
    """What is wrong with a run by itself, or None when it ended well; steps 1 to 5 of the order above.

    Also used for compilations. `memory_exit` is the exit code with which a runtime says that its heap is full. A
    cancelled run has no verdict: ValueError.
    """
    if facts.killed is Killed.CANCELLED:
        msg = "a cancelled run has no verdict"
        raise ValueError(msg)
    late = _late(facts, limits)
    if facts.killed in _KILLED:
        fault = late if late is not None and facts.killed in {Killed.WALL, Killed.OUTPUT} else _KILLED[facts.killed]
        return fault(facts, limits)
    if late is not None:
        return late(facts, limits)
    if facts.memory > limits.memory:
        return _memory(facts, limits)
    if facts.signal in _LIMIT_SIGNALS:
        return _LIMIT_SIGNALS[facts.signal](facts, limits)
    if facts.signal is None and facts.exit_code == 0:
        return None
    return _abnormal(facts, limits, memory_exit)


def _late(facts: Facts, limits: Limits) -> _Fault | None:
    """The time limit that the numbers show to be passed."""
    if facts.cpu > limits.cpu:
        return _cpu
    return _wall if facts.wall > limits.wall_seconds else None


def near(facts: Facts, limits: Limits) -> bool:
    """Whether a run is TLE by so little that a quieter machine may say otherwise: its test may be repeated.

    So it is when the run ended before the sandbox ended it for its time (it had GRACE more of that than the limits
    say), unless it passed only its wall limit and was idle (BUSY).
    """
    if facts.killed not in {Killed.NONE, Killed.OUTPUT} or facts.signal in {signal.SIGSYS, signal.SIGXCPU}:
        return False
    late = _late(facts, limits)
    return late is _cpu or (late is _wall and facts.cpu >= BUSY * limits.cpu)


def _abnormal(facts: Facts, limits: Limits, memory_exit: int | None) -> tuple[Verdict, str]:
    """Steps 4 and 5: the program crashed, or said by its exit code that it failed."""
    if facts.memory >= limits.memory:
        return _memory(facts, limits)
    if memory_exit is not None and facts.exit_code == memory_exit:
        return Verdict.MLE, f"memory limit exceeded: the heap is full, the limit is {size(limits.memory)}"
    if facts.signal is not None:
        return Verdict.RTE, f"ended by {signal_name(facts.signal)}"
    return Verdict.RTE, f"ended with exit code {facts.exit_code}"


def run_verdict(
    facts: Facts, limits: Limits, validation: Checked | None, memory_exit: int | None = None
) -> tuple[Verdict, str]:
    """The verdict of one test and its reason in one sentence (empty for AC).

    `validation` is None when there is no answer to compare with (the seed's command task), or when the run failed.
    """
    fault = run_fault(facts, limits, memory_exit)
    if fault is not None:
        return fault
    if validation is None or validation.accepted:
        return Verdict.AC, ""
    return Verdict.WA, validation.message or "wrong answer"


ACCEPTED, REJECTED = 42, 43


def validator_fault(facts: Facts, limits: Limits) -> str | None:
    """Why a validator's run says nothing about the output, or None when it ended with 42 or 43.

    Every limit that it passes, every signal and any other exit code, 0 included, is the judge's error (Kattis).
    """
    if facts.signal is None and facts.exit_code in {ACCEPTED, REJECTED} and facts.killed is Killed.NONE:
        return None
    if facts.signal is None and facts.exit_code == 0 and facts.killed is Killed.NONE:
        return "the output validator ended with exit code 0; it must be 42 or 43"
    fault = run_fault(facts, limits)
    return f"the output validator failed: {fault[1] if fault else 'it did not end with 42 or 43'}"


def interaction_verdict(
    submission: Timed, validator: Timed, limits: Limits, validation: Limits, memory_exit: int | None = None
) -> tuple[Verdict, str]:
    """The verdict of one interaction, and its reason; first match wins (docs/judging.md).

    1. the validator failed: JE; 2. it ended first with 43: WA, whatever became of the submission then; 3. what is
    wrong with the submission's run by itself; 4. the validator's word. `limits.wall` already has the time in it that
    the validator used.
    """
    fault = validator_fault(validator, validation)
    if fault is not None:
        return Verdict.JE, fault
    rejected = validator.exit_code == REJECTED
    if rejected and validator.ended < submission.ended:
        return Verdict.WA, _REJECTED
    own = run_fault(submission, limits, memory_exit)
    if own is not None:
        return own
    return (Verdict.WA, _REJECTED) if rejected else (Verdict.AC, "")


_REJECTED = "the output validator rejected the output"


def compile_verdict(facts: Facts, limits: Limits) -> tuple[Verdict, str] | None:
    """CE with its reason, or None when the compilation went well. Every limit that a compiler passes is CE."""
    fault = run_fault(facts, limits)
    if fault is None:
        return None
    return Verdict.CE, f"compilation failed: {fault[1]}"


def usage(facts: Facts) -> RunUsage:
    """The numbers of a run as they travel."""
    return RunUsage(
        cpu=round(facts.cpu, 6),
        wall=round(facts.wall, 6),
        memory=facts.memory,
        exit_code=facts.exit_code,
        signal=facts.signal,
    )
