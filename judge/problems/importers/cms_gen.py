"""Tests that a task in the Italian format does not have: gen/GEN gives its generator's arguments for each of them."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from judge.common.errors import PackageError
from judge.common.text import several
from judge.problems.importers import ioi, testlib
from judge.problems.importers.cases import ImportedCase, points
from judge.problems.importers.draft import Draft
from judge.problems.importers.making import MOST, MakingStep, Plan, UnmadeError, answer_step, arguments_of
from judge.problems.tree import Tree, clean

_GEN = "gen/GEN"
# As many as judge.yaml may have.
_SUBTASKS = 500
_GENERATORS = ("generatore", "generator", "gen")
_SUFFIXES = (".cpp", ".cc", ".c", ".py", ".pas", ".java", ".sh")


SOLUTIONS = re.compile(r"(?:soluzione|solution|sol|official|model_solution)")
# Other names of the right one where none is called so, as in sol_100 beside sol_40.
_RIGHT = re.compile(r"(?:.*[_-])?(?:100|full|ac|ok|accepted|correct|right|main|std|model)")
# Names of programs that make inputs or look at them: such a one is no solution, also where it is alone.
_NO_SOLUTIONS = re.compile(
    r"(?:gen|gengen|generat\w*|make_?(?:tests?|input)|rand(?:om)?_?gen|testgen|val|valid\w*|check|checker)"
    r"(?:[\W_\d].*)?"
)
# Names that say of a solution that it is no right one, or is for a part of the points.
_WRONG = re.compile(
    r"(?:.*[\W_])?(?:wrong\w*|wa|tle?|slow|brut\w*|naive|bf|partial|parcial\w*|random|greedy|bad|fail\w*|rte|mle)(?:[\W_\d].*)?"
    r"|.*[\W_][0-9]{1,2}"
)
_GRADERS = frozenset({"grader", "stub", "manager"})


@dataclass(frozen=True)
class GenLine:
    """One test of gen/GEN: the number of its line, and the generator's arguments, or the file (`copy`) that it is."""

    number: int
    arguments: str
    copy: str = ""


@dataclass
class GenSubtask:
    """One subtask of gen/GEN: its points, the number of its own tests, its name, and the names of those it contains."""

    points: Fraction
    count: int = 0
    name: str = ""
    requires: list[str] = field(default_factory=list)


@dataclass
class Gen:
    """gen/GEN: the subtasks (none: all tests are alike), and all tests."""

    subtasks: list[GenSubtask] = field(default_factory=list)
    lines: list[GenLine] = field(default_factory=list)

    def members(self, where: str) -> list[list[int]]:
        """The tests of each subtask, from 0, with those of the subtasks that it contains. PackageError."""
        numbers = {subtask.name: number for number, subtask in enumerate(self.subtasks) if subtask.name}
        within: list[set[int]] = [{number} for number in range(len(self.subtasks))]
        for subtask, members in zip(self.subtasks, within, strict=True):
            waiting = list(subtask.requires)
            while waiting:
                name = waiting.pop()
                number = numbers.get(name)
                if number is None:
                    raise PackageError(f"{where}: #STDEP: '{clean(name, 40)}' is no #STNAME of a subtask")
                if number not in members:
                    members.add(number)
                    waiting += self.subtasks[number].requires
        begins = itertools.accumulate((subtask.count for subtask in self.subtasks), initial=0)
        ranges = [range(begin, begin + subtask.count) for begin, subtask in zip(begins, self.subtasks, strict=False)]
        return [[test for number in sorted(members) for test in ranges[number]] for members in within]


def read_gen(text: str, where: str) -> Gen:
    """Read gen/GEN: a line is a test unless it is empty or a comment.

    `#ST: POINTS` begins a subtask, `#COPY: FILE` is a test; `#STNAME: NAME` and `#STDEP: NAME …` are task-maker's, for
    subtasks that contain the tests of others. PackageError for what these systems refuse as well.
    """
    gen = Gen()
    for number, raw in enumerate(text.splitlines(), 1):
        test, hash_, comment = raw.strip().partition("#")
        comment = comment.strip()
        begins, copies = comment.startswith("ST:"), comment.startswith("COPY:")
        if (test.strip() or copies) and begins:
            raise PackageError(f"{where}:{number}: has a test and begins a subtask; write them on two lines")
        if begins:
            if not gen.subtasks and gen.lines:
                raise PackageError(f"{where}:{number}: the first subtask begins after some tests; move it before them")
            if len(gen.subtasks) >= _SUBTASKS:
                raise PackageError(f"{where}: has more than {_SUBTASKS} subtasks; join some")
            gen.subtasks.append(GenSubtask(points(comment[3:].split("#")[0], f"{where}:{number}")))
        elif test.strip() or (hash_ and copies):
            source = "" if test.strip() else comment[len("COPY:") :].strip()
            gen.lines.append(GenLine(number, test.strip(), source))
            if len(gen.lines) > MOST:
                raise PackageError(f"{where}: has more than {MOST} tests; join some")
            if gen.subtasks:
                gen.subtasks[-1].count += 1
        elif comment.startswith(("STNAME:", "STDEP:")) and gen.subtasks:
            _describe(gen.subtasks, comment, f"{where}:{number}")
    return gen


def copied_from(draft: Draft, path: str) -> set[str]:
    lines = read_gen(draft.text(path), draft.tree.where(path)).lines if path in draft.tree.files else []
    return {posixpath.normpath(line.copy).partition("/")[0] for line in lines if line.copy}


def _describe(subtasks: Sequence[GenSubtask], comment: str, where: str) -> None:
    """Note the name of the last subtask, or which others it contains; PackageError for a name that is taken."""
    key, _, text = comment.partition(":")
    names = text.split("#")[0].replace(",", " ").split()
    if key == "STDEP":
        subtasks[-1].requires = list(dict.fromkeys([*subtasks[-1].requires, *names]))
    elif names:
        if any(subtask.name == names[0] for subtask in subtasks):
            raise PackageError(f"{where}: #STNAME: two subtasks are called {clean(names[0], 40)}; rename one")
        subtasks[-1].name = names[0]


def read_testcases(draft: Draft, raw: Any, where: str) -> list[ImportedCase]:
    """The tests that task.yaml itself lists, as `codename`, `input` and `output`; none where there is no list.

    PackageError.
    """
    if raw is None:
        return []
    if not isinstance(raw, list) or not raw or len(raw) > MOST:
        raise PackageError(f"{where}: testcases: expected a list of 1 to {MOST} tests")
    testcases: list[ImportedCase] = []
    for number, entry in enumerate(raw):
        files = [str(entry.get(key) or "") for key in ("input", "output")] if isinstance(entry, dict) else []
        if not files or not all(files):
            raise PackageError(f"{where}: testcases.{number}: expected a mapping with codename, input and output")
        input_ref, answer = map(draft.ref, files)
        testcases.append(ImportedCase(clean(str(entry.get("codename", number)), 60), input_ref, answer))
    if len({testcase.name for testcase in testcases}) < len(testcases):
        raise PackageError(f"{where}: testcases: two tests have the same codename; rename one")
    return testcases


def unmade(
    draft: Draft, inputs: Mapping[int, GenLine], answers: Sequence[int], solution: Sequence[str], *, two_steps: bool
) -> UnmadeError:
    """The error to raise for a task without some of its inputs (by number) and answers.

    `solution`: the sources of the program that makes answers (none: there is no official one). `two_steps`: it runs
    twice side by side, as submissions to the task do. PackageError where something is missing that nothing makes.
    """
    where, label = draft.tree.where(_GEN), draft.tree.label
    plan = Plan(draft.tree)
    if answers and not solution:
        raise PackageError(f"{label}: has no sol/solution.cpp or the like, which makes the answers; add it")
    sources = [draft.ref(path) for path in solution] if answers else []
    program = plan.solution(draft, testlib.ProgramSource(sources[0], more=tuple(sources[1:]))) if sources else ""
    for number in sorted({*inputs, *answers}):
        input_path = f"input/input{number}.txt"
        line = inputs.get(number)
        steps: list[MakingStep] = []
        if line is not None and line.copy:
            plan.copies[input_path] = _copied(draft, line.copy, f"{where}:{line.number}")
        elif line is not None:
            arguments = arguments_of(line.arguments, f"{where}:{line.number}")
            steps.append(MakingStep(_generator(draft, plan), input_path, tuple(arguments)))
        if number in answers:
            steps.append(answer_step(draft, program, input_path, f"output/output{number}.txt", two_steps=two_steps))
        plan.add(*steps)
    gaps = [several(len(paths), half) for paths, half in ((inputs, "input"), (answers, "answer")) if paths]
    return plan.refuse(f"{label}: still to be made: {' and '.join(gaps)}" + (f" of {_GEN}" if inputs else ""))


def _copied(draft: Draft, source: str, where: str) -> str:
    for path in (posixpath.normpath(source), posixpath.normpath(posixpath.join("gen", source))):
        if path in draft.tree.files:
            return path
    raise PackageError(f"{where}: there is no {clean(source, 80)} in the package")


def _generator(draft: Draft, plan: Plan) -> str:
    files = draft.tree.files
    paths = [f"gen/{stem}{suffix}" for stem in _GENERATORS for suffix in _SUFFIXES]
    path = next((file for file in paths if file in files), None)
    if path is None:
        raise PackageError(f"{draft.tree.label}: has no input/, and no gen/generator.cpp or the like that makes it")
    return plan.program(draft, "generator", testlib.ProgramSource(draft.ref(path)))


def solutions(tree: Tree) -> str:
    """The folder of solutions: `sol`, or `solution` where there is no such folder."""
    return "solution" if tree.below("solution") and not tree.below("sol") else "sol"


def official(tree: Tree, name: str) -> list[str]:
    """The official solutions, by their names; else one that is right by its name, or called as the task."""
    sources = _sources(tree)
    solutions = [path for path, stem in sources.items() if SOLUTIONS.fullmatch(stem)]
    right = [path for path, stem in sources.items() if _RIGHT.fullmatch(stem)]
    return solutions or right[:1] or [path for path, stem in sources.items() if stem == name.lower()]


def only(tree: Tree) -> list[str]:
    """The only solution of a task, whose name says nothing; nothing where there are several, or none.

    Programs that make or look at tests lie there as well. One whose name says that it is wrong is none either.
    """
    candidates = [path for path, stem in _sources(tree).items() if not _NO_SOLUTIONS.fullmatch(stem)]
    return candidates if len(candidates) == 1 and not _WRONG.fullmatch(_sources(tree)[candidates[0]]) else []


def may_be_solution(path: str) -> bool:
    stem, suffix = posixpath.splitext(posixpath.basename(path))
    return suffix in ioi.LANGUAGES and stem not in _GRADERS and not stem.endswith("lib")


def _sources(tree: Tree) -> dict[str, str]:
    paths = [path for path in tree.below(solutions(tree)) if path.count("/") == 1 and may_be_solution(path)]
    return {path: posixpath.splitext(posixpath.basename(path))[0].lower() for path in paths}


def in_two_files(tree: Tree, names: Sequence[str]) -> list[list[str]]:
    """The official solutions of a task of two steps whose halves are files of these names, side by side."""
    pairs: list[list[str]] = []
    for folder in sorted({posixpath.dirname(path) for path in tree.below("sol")}):
        name = posixpath.basename(folder).lower()
        if folder == "sol" or SOLUTIONS.fullmatch(name) or _RIGHT.fullmatch(name):
            halves = ([posixpath.join(folder, part + suffix) for part in names] for suffix in ioi.LANGUAGES)
            pairs += [paths for paths in halves if all(path in tree.files for path in paths)]
    return pairs
