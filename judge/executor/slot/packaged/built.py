"""A program of the package in a sandbox of its own, built once per executor (judge.executor.slot.builds)."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judge.common.text import size
from judge.executor.slot import builds, truncation
from judge.executor.slot.made import made_fault
from judge.executor.slot.memory_budget import BUILT_MOST
from judge.executor.slot.program import Program, shorter
from judge.executor.slot.run_lock import Wait
from judge.executor.verdict import compile_verdict
from judge.model.messages import Limits
from judge.sandbox.box import Sandbox
from judge.sandbox.types import Command, RunOutcome

MESSAGE_BYTES = 4096


class BuildError(Exception):
    """A program of the package does not compile: every submission to this problem is a judge's error."""


@dataclass(frozen=True)
class Workshop:
    """The means to build a program and to run it.

    `take` hands out a sandbox, `run` runs a command in one and raises when the task is cancelled, as `wait` does;
    `kept` has builds, `compile_limits` are those of compilers.
    """

    take: Callable[[], Sandbox]
    run: Callable[[Sandbox, Command], RunOutcome]
    kept: builds.Builds
    compile_limits: Limits
    wait: Wait


class BuiltProgram:
    """One program, built when its sandbox is first asked for. Not used before the submission has compiled."""

    def __init__(self, label: str, program: Program, workshop: Workshop) -> None:
        """`label` names it in sentences: `the output validator`."""
        self.label = label
        self.program = program
        self._workshop = workshop
        self._box: Sandbox | None = None

    def close(self) -> None:
        if self._box is not None:
            self._box.close()
            self._box = None

    def command(
        self,
        arguments: Sequence[str],
        *,
        before: Sequence[str] = (),
        seconds: float = math.inf,
        stdin: int | None = None,
        files: Mapping[str, bytes | Path] | None = None,
        writable: bool = False,
        cwd: str = "/scratch",
    ) -> Command:
        """The command that runs it for so many seconds at most; the words in `before` start it."""
        return Command(
            argv=[*before, *self.program.run, *arguments],
            limits=shorter(self.program.limits, seconds),
            env=self.program.env,
            stdin=stdin,
            files=files or {},
            writable=writable,
            cwd=cwd,
        )

    def run(self, command: Command) -> RunOutcome:
        """Run a command in its sandbox; raises when the task is cancelled."""
        return self._workshop.run(self.box(), command)

    def box(self) -> Sandbox:
        """The sandbox with the program built in it; BuildError when it does not compile."""
        if self._box is None:
            box = self._box = self._workshop.take()
            store, key = self._workshop.kept, builds.key_of(self.program)
            data = store.load(key)
            if data is None and self.program.compile is not None:
                with store.building(key, self._workshop.wait):
                    data = store.load(key)
                    if data is None:
                        self._build(box, key)
                        return box
            if data is None:
                self._put_files(box)
            else:
                try:
                    failed = builds.unpack(lambda command: self._workshop.run(box, command), data)
                finally:
                    os.close(data)
                if failed:
                    raise BuildError(f"{self.label}'s build cannot be unpacked: {failed}")
        return self._box

    def put(self, files: Mapping[str, bytes | Path]) -> None:
        box = self.box()
        for name, source in files.items():
            box.put(name, source)

    def _put_files(self, box: Sandbox) -> None:
        for name, data in self.program.files.items():
            box.put(name, data, 0o755 if name in self.program.executables else 0o644)

    def _build(self, box: Sandbox, key: str) -> None:
        self._put_files(box)
        limits, run = self._workshop.compile_limits, self._workshop.run
        command = Command(
            argv=self.program.compile or (), limits=limits, env=self.program.env, writable=True, cwd="/box"
        )
        with run(box, command) as outcome:
            failed = compile_verdict(outcome, limits)
            if failed is not None:
                msg = f"{self.label} does not compile: {failed.reason}: {first_line(outcome)}"
                raise BuildError(truncation.clip(msg, MESSAGE_BYTES))
        fault = made_fault(self.program, box.get)
        if box.built() > BUILT_MOST:
            fault = f"left {size(box.built())} in /box, the limit is {size(BUILT_MOST)}"
        if fault:
            raise BuildError(f"{self.label} does not compile: the compiler {fault}")
        with run(box, builds.packing()) as outcome:
            data = builds.packed(outcome)
        if data is not None:
            try:
                self._workshop.kept.save(key, data)
            finally:
                os.close(data)


def first_line(outcome: RunOutcome) -> str:
    lines = truncation.text(outcome.read_stderr(1024)).strip().splitlines()
    return truncation.clip(lines[0], 200) if lines else ""
