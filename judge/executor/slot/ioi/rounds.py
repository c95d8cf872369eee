"""Runs a submission to an IOI task on one test: by files, in two steps, or as processes with a manager."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from judge.common.errors import UnfitError, UsageError
from judge.common.files import in_memory
from judge.executor.slot import builds, truncation
from judge.executor.slot.ioi.manager import Manager
from judge.executor.slot.program import Program
from judge.executor.slot.validation import ValidatorResult
from judge.executor.verdict import Ruling, Validated, run_fault, run_verdict
from judge.model.messages import Limits, Verdict
from judge.model.problem import IoiTask
from judge.sandbox.box import Sandbox
from judge.sandbox.meeting import Actor, Link, path_of
from judge.sandbox.types import Command, Killed, RunOutcome

# Seconds that a manager may live longer than all processes together, beside its own limits.
_LATER = 1.0
_MOST = 3600.0
# A process that talks by its standard streams. Opened in this order, as elsewhere: input, then output.
_STREAMS = 'exec <"$1" >"$2" 3<&- 4<&-; shift 2; exec "$@"'

Run = Callable[[Sandbox, Command], RunOutcome]
Meet = Callable[[Sequence[Actor], Sequence[Link], Callable[[int, RunOutcome, bool], bool], float], Sequence[RunOutcome]]


class Processes:
    """The sandboxes of a submission's processes: its own, and others in which the same was built."""

    def __init__(self, first: Sandbox, program: Program, count: int, take: Callable[[], Sandbox], run: Run) -> None:
        """`first` has in it what the compiler made of `program`; `run` as `Runner.run`."""
        self._program = program
        self._take = take
        self._run = run
        self._count = count
        self._boxes = [first]

    def close(self) -> None:
        """End all but the first, which is not ours."""
        while len(self._boxes) > 1:
            self._boxes.pop().close()

    def boxes(self) -> Sequence[Sandbox]:
        """As many as there are processes. UnfitError when what was built is too big to be taken along."""
        if len(self._boxes) == self._count:
            return self._boxes
        if self._program.compile is None:
            self._fill(None)
            return self._boxes
        with self._run(self._boxes[0], builds.packing()) as outcome:
            archive = builds.packed(outcome)
        if archive is None:
            raise UnfitError("what was built is too big to be run as several processes")
        try:
            self._fill(archive)
        finally:
            os.close(archive)
        return self._boxes

    def _fill(self, archive: int | None) -> None:
        """Take the other sandboxes, with what was built in them, or else the files."""
        while len(self._boxes) < self._count:
            box = self._take()
            self._boxes.append(box)
            if archive is not None:
                failed = builds.unpack(functools.partial(self._run, box), archive)
                if failed:
                    raise UnfitError(f"what was built cannot be unpacked: {failed}")
            else:
                for name, data in self._program.files.items():
                    box.put(name, data, 0o755 if name in self._program.executables else 0o644)


@dataclass(frozen=True)
class Round:
    """One run of a submission on one test. `ruling` is there where its output need not be looked at any more.

    `limits` are those that it had.
    """

    outcome: RunOutcome
    limits: Limits
    ruling: Ruling | None = None
    validated: ValidatorResult | None = None


@dataclass(frozen=True)
class Rounds:
    """Runs submissions to one task. `meet` lets programs talk (`Runner.meet`), `scoring`: there are scores."""

    task: IoiTask
    program: Program
    processes: Processes
    run: Run
    meet: Meet
    manager: Manager | None = None
    scoring: bool = False

    def close(self) -> None:
        self.processes.close()
        if self.manager is not None:
            self.manager.close()

    def prepare(self) -> None:
        """Have everything ready, so that it is not a test's time.

        BuildError when the manager does not compile, UnfitError as `Processes.boxes`.
        """
        if self.manager is not None:
            self.manager.box()
        self.processes.boxes()

    def play(self, command: Command, source: bytes | Path, remaining: float) -> Round:
        """Run it. `command` runs the submission, `source` is the test's input; `left` seconds remain for everything."""
        if self.task.kind == "batch":
            return self._with_files(command, source)
        stdin = truncation.sealed(source)
        try:
            if self.task.kind == "two-steps":
                return self._two_steps(command, stdin, remaining)
            return self._communicate(command, source, stdin, remaining)
        finally:
            os.close(stdin)

    def _with_files(self, command: Command, source: bytes | Path) -> Round:
        """Input and output by files, or one of them."""
        task, box = self.task, self.processes.boxes()[0]
        if task.input_file:
            command = replace(command, files={**command.files, task.input_file: source})
        command = replace(command, output=task.output_file or None)
        stdin = truncation.sealed(b"" if task.input_file else source)
        try:
            outcome = self.run(box, replace(command, stdin=stdin))
        finally:
            os.close(stdin)
        limits = self.program.limits
        if not task.output_file:
            return Round(outcome, limits)
        os.close(outcome.stdout)
        if outcome.file is not None:
            return Round(replace(outcome, stdout=outcome.file, file=None), limits)
        outcome = replace(outcome, stdout=in_memory("output"))
        absent = Validated(accepted=False, message=f"the program left no regular file '{task.output_file}'")
        return Round(outcome, limits, run_verdict(outcome, limits, absent, heap_full=self.program.heap_full(outcome)))

    def _extra(self, command: Command, remaining: float) -> float:
        """By how much the wall limit of one process may grow for the others' sake."""
        return max(0.0, remaining - command.enforced.wall_seconds)

    def _limits(self, outcomes: Sequence[RunOutcome], number: int | None, beside: float = 0.0) -> Limits:
        """Of one process, or of the account of all: its wall time grows by the CPU time of all others.

        `beside` is what others than these used.
        """
        own_cpu = outcomes[number].cpu if number is not None else 0.0
        other_cpu = beside + sum(outcome.cpu for outcome in outcomes) - own_cpu
        limits = self.program.limits
        return limits.model_copy(update={"wall": limits.wall_seconds + other_cpu})

    def _failed(self, outcomes: Sequence[RunOutcome], beside: float = 0.0) -> list[int]:
        """The processes that did wrong by themselves."""
        return [
            number
            for number, outcome in enumerate(outcomes)
            if Killed.CANCELLED not in outcome.killed
            and run_fault(outcome, self._limits(outcomes, number, beside), heap_full=self.program.heap_full(outcome))
            is not None
        ]

    def _ended_badly(self, outcome: RunOutcome) -> bool:
        """Return whether a process has decided the matter by its end."""
        limits = self.program.limits.model_copy(update={"wall": _MOST})
        cancelled = Killed.CANCELLED in outcome.killed
        return not cancelled and run_fault(outcome, limits, heap_full=self.program.heap_full(outcome)) is not None

    def _two_steps(self, command: Command, stdin: int, remaining: float) -> Round:
        """The first process reads the input and tells the second something, whose output is judged."""
        boxes = self.processes.boxes()
        commands = [replace(command, argv=[*command.argv, str(step), path_of(0)]) for step in (0, 1)]
        actors = [Actor(boxes[0], replace(commands[0], stdin=stdin)), Actor(boxes[1], commands[1])]
        outcomes = self.meet(
            actors,
            [Link(0, 1)],
            lambda _, outcome_of_step, __: self._ended_badly(outcome_of_step),
            self._extra(command, remaining),
        )
        failed = next(iter(self._failed(outcomes)), None)
        limits = self._limits(outcomes, failed)
        outcome = merged(outcomes, 1 if failed is None else failed)
        return Round(outcome, limits, run_fault(outcome, limits, heap_full=self.program.heap_full(outcome)))

    def _process(self, command: Command, number: int) -> Command:
        """One of the processes, which has the names of its two pipes in the other order than the manager."""
        first, second = path_of(0), path_of(1)
        index = [str(number)] if self.task.processes > 1 else []
        if self.task.io == "fifo":
            return replace(command, argv=[*command.argv, second, first, *index])
        shell = ["/bin/sh", "-c", _STREAMS, "sh", *((first, second) if self.task.writes_first else (second, first))]
        return replace(command, argv=[*shell, *command.argv, *index])

    def _communicate(self, command: Command, source: bytes | Path, stdin: int, remaining: float) -> Round:
        """All processes and the manager at once; who ends badly first, or the manager, decides."""
        manager, count = self.manager, self.task.processes
        if manager is None:
            raise UsageError("the problem's task needs a manager, and has none")
        wall = manager.program.limits.wall_seconds + count * command.enforced.wall_seconds + _LATER
        data = source if isinstance(source, bytes) else source.read_bytes()
        manager_command = manager.call(data, stdin, count, min(_MOST, wall, max(remaining, 0.01)))
        actors = [Actor(manager.box(), manager_command, counted=False)]
        actors += [Actor(box, self._process(command, number)) for number, box in enumerate(self.processes.boxes())]
        order = -1 if self.task.writes_first else 1
        pairs = ((Link(number, 0, held=True), Link(0, number)) for number in range(1, count + 1))
        links = [link for pair in pairs for link in pair[::order]]
        forsaken: set[int] = set()

        def over(number: int, outcome: RunOutcome, remaining: bool) -> bool:
            if remaining and number > 0 and not outcome.killed and outcome.signal is None:
                forsaken.add(number - 1)
                return False
            return self._over(number, outcome)

        outcomes = self.meet(actors, links, over, self._extra(command, remaining))
        with outcomes[0] as manager_outcome:
            opinion = manager.opinion(manager_outcome, scoring=self.scoring)
        return self._ruled(outcomes[1:], opinion, manager_outcome, forsaken)

    def _over(self, number: int, outcome: RunOutcome) -> bool:
        """Return whether an end settles the matter: a process that did wrong, or a manager that does not say yes."""
        if number > 0:
            return self._ended_badly(outcome)
        opinion = self.manager.opinion(outcome, scoring=self.scoring) if self.manager is not None else None
        return opinion is None or not opinion.accepted

    def _ruled(
        self,
        processes: Sequence[RunOutcome],
        opinion: ValidatorResult | None,
        manager: RunOutcome,
        forsaken: Collection[int],
    ) -> Round:
        """The verdict of a communication: what a process did wrong by itself comes before the manager's word.

        Unless the manager had said no before: then a process that ends badly at the end of its input is no wonder. An
        interpreter closes its pipes some time before it ends: `forsaken` processes ended in between, by no
        signal. A manager that fails after a process did is not at fault.
        """
        failed = self._failed(processes, manager.cpu)
        first = min(failed, key=lambda number: processes[number].ended, default=None)
        limits = self._limits(processes, first, manager.cpu)
        index = first
        if index is None:
            index = next(
                (number for number, outcome in enumerate(processes) if Killed.CANCELLED not in outcome.killed), 0
            )
        before = opinion is not None and (manager.ended < processes[index].ended or index in forsaken)
        outcome = merged(processes, index)
        if opinion is None or (opinion.fault and first is not None and not manager.ended < processes[first].ended):
            opinion, before = ValidatorResult(accepted=True), False
        validated = opinion.checked(first=before)
        ruling = run_verdict(outcome, limits, validated, heap_full=self.program.heap_full(outcome))
        if ruling.verdict is not Verdict.AC:
            opinion = replace(opinion, score=None, multiplier=None)
        return Round(outcome, limits, ruling, opinion)


def merged(outcomes: Sequence[RunOutcome], number: int) -> RunOutcome:
    """The account of several processes that ran side by side, in the shape of one of them, whose outputs it has.

    CPU time is that of all, memory that of the largest, wall time that of the one when it was ended badly, else the
    longest. The others' outputs are closed.
    """
    main = outcomes[number]
    for outcome in outcomes:
        if outcome is not main:
            outcome.close()
    alone = main.killed or main.signal is not None or main.exit_code != 0
    return replace(
        main,
        cpu=sum(outcome.cpu for outcome in outcomes),
        wall=main.wall if alone else max(outcome.wall for outcome in outcomes),
        memory=max(outcome.memory for outcome in outcomes),
        processes=sum(outcome.processes for outcome in outcomes),
    )
