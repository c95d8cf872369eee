"""Tests that a repository of TPS does not have: gen/data says what makes them, and which subtasks they are in."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from judge.common.errors import PackageError
from judge.common.text import several
from judge.problems.importers import testlib
from judge.problems.importers.draft import Draft
from judge.problems.importers.making import MOST, MakingStep, Plan, UnmadeError, answer_step, arguments_of
from judge.problems.tree import clean

DATA = "gen/data"
_SUFFIXES = (".cpp", ".cc", ".c", ".py", ".java", ".pas", ".sh")
# Solutions that are right by their names, where no solutions.json says which is the model.
_RIGHT = re.compile(r"(?:ac|correct|sol|solution|model|main|std|official)(?:[\W_\d].*)?")


@dataclass
class TpsLists:
    """The lists in gen/data: each test with its command, and the tests of each subtask or other set."""

    commands: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    sets: dict[str, dict[str, None]] = field(default_factory=dict)
    subtasks: list[str] = field(default_factory=list)
    _current: str = ""
    _prefix: str = ""
    _count: int = 0

    def read(self, line: str, number: int) -> None:
        """Note a line that says something; PackageError."""
        head, *arguments = line.split()
        if head in {"@subtask", "@testset"}:
            self._begin(head, *arguments[:1])
        elif not self._current:
            raise PackageError("begins no subtask; expected a line '@subtask NAME' before it")
        elif head == "@include":
            for name in arguments:
                if name not in self.sets:
                    raise PackageError(f"@include: there is no '{clean(name, 40)}' before it")
                self.sets[self._current].update(self.sets[name])
        elif not head.startswith("@"):  # others name validators, which are not run here
            self._count += 1
            test = f"{self._prefix}-{self._count:02d}"
            self.commands[test], self.lines[test] = line, number
            self.sets[self._current][test] = None
        if len(self.commands) > MOST or sum(map(len, self.sets.values())) > 20 * MOST:
            raise PackageError(f"there are more than {MOST} tests; remove some")

    def _begin(self, head: str, name: str = "") -> None:
        if not name:
            raise PackageError(f"{head}: has no name")
        if name in self.sets:
            raise PackageError(f"{head}: '{clean(name, 40)}' is there twice; rename one")
        self._current, self._count, self.sets[name] = name, 0, {}
        self._prefix = re.sub(r"[^A-Za-z0-9_]", "_", name)
        if head == "@subtask":
            self._prefix = str(len(self.subtasks))
            self.subtasks.append(name)


def read_data(text: str, where: str) -> TpsLists:
    """Read gen/data: `@subtask NAME` and `@testset NAME` begin a set, `@include NAME …` adds others to it.

    Every other line is a test, `manual FILE` or a generator with its arguments. PackageError.
    """
    lists = TpsLists()
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line and not line.startswith("#"):
            try:
                lists.read(line, number)
            except PackageError as exc:
                raise PackageError(f"{where}:{number}: {exc}") from exc
    return lists


def unmade(draft: Draft, solutions: Mapping[str, str], kind: str) -> UnmadeError:
    """The error to raise for a repository without tests. PackageError where something is missing that nothing makes.

    `solutions` are verdicts of solutions.json by file; `kind` is that of the task.
    """
    where = draft.tree.where(DATA)
    lists = read_data(draft.text(DATA), where)
    plan = Plan(draft.tree)
    if not lists.commands:
        raise PackageError(f"{where}: lists no tests; expected lines of generators with their arguments")
    # That system puts these two around every input, also around those that were written by hand.
    before, after = (path if path in draft.tree.files else "" for path in ("gen/input.header", "gen/input.footer"))
    around = " and ".join(part for part in (before, after) if part)
    if around:
        plan.notes.append((True, f"{around}, around every input"))
    model = _model(draft, plan, solutions) if kind in {"Batch", "TwoSteps"} else ""
    for name, command in lists.commands.items():
        target = f"tests/{name}.in"
        steps: list[MakingStep] = []
        head, *args = arguments_of(command, f"{where}:{lists.lines[name]}")
        if head == "manual":
            path = f"gen/manual/{args[0]}" if args else ""
            if path not in draft.tree.files:
                label = clean(path or command, 80)
                raise PackageError(f"{where}:{lists.lines[name]}: there is no {label} in the package")
            plan.copies[target] = tuple(part for part in (before, path, after) if part)
        else:
            program = _generator(draft, plan, head, f"{where}:{lists.lines[name]}")
            steps.append(MakingStep(program, target, tuple(args), before=before, after=after, unix=True))
        if model:
            steps.append(answer_step(draft, model, target, f"tests/{name}.out", two_steps=kind == "TwoSteps"))
        plan.add(*steps)
    mapping = "".join(f"{subtask} {test}\n" for subtask in lists.subtasks for test in lists.sets[subtask])
    plan.texts["tests/mapping"] = mapping.encode()
    first = next(iter(lists.commands.values()))
    count = several(len(lists.commands), "test")
    return plan.refuse(
        f"{draft.tree.label}: has no tests/NAME.in; {DATA} lists {count} to be made (first: '{clean(first, 60)}')"
    )


def _generator(draft: Draft, plan: Plan, head: str, where: str) -> str:
    stem = re.sub(r"\.(?:exe|cpp|py|sh)$", "", head)
    paths = [f"gen/{stem}{suffix}" for suffix in _SUFFIXES]
    path = next((candidate for candidate in paths if candidate in draft.tree.files), None)
    if path is None or "/" in stem:
        raise PackageError(f"{where}: there is no gen/{clean(stem, 60)}.cpp or .py that makes this test")
    return plan.program(draft, f"generator {stem}", testlib.ProgramSource(draft.ref(path)))


def right_by_name(draft: Draft) -> str:
    """The first solution whose name says that it is right; empty where none does."""
    for path in draft.tree.below("solution"):
        stem, suffix = posixpath.splitext(posixpath.basename(path))
        if suffix in _SUFFIXES and _RIGHT.fullmatch(stem.lower()):
            return path
    return ""


def _model(draft: Draft, plan: Plan, solutions: Mapping[str, str]) -> str:
    """The model solution: the one that is called so, else one that is right, by what is said or by its name."""
    files = draft.tree.files
    for verdict in ("model_solution", "correct"):
        for name, solution_verdict in solutions.items():
            if solution_verdict == verdict and f"solution/{name}" in files:
                return plan.solution(draft, testlib.ProgramSource(draft.ref(f"solution/{name}")))
    path = "" if solutions else right_by_name(draft)
    if path:
        plan.notes.append((False, f"the model solution: no solutions.json names one; {path} is right by its name"))
        return plan.solution(draft, testlib.ProgramSource(draft.ref(path)))
    msg = "expected one with verdict 'model_solution' in solutions.json"
    raise PackageError(f"{draft.tree.label}: has no model solution that makes the answers; {msg}")
