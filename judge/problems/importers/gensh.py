"""Tests that a script in data/ makes with testdata_tools' gen.sh, as Swedish and Nordic olympiads and courses have it.

The script is not run: its commands (`compile`, `group`, `tc` …) are read, with simple loops, and become a plan. One
that does more is refused.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import operator
import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from judge.common.errors import PackageError
from judge.common.text import several
from judge.languages import python
from judge.problems import metadata
from judge.problems.importers import testlib
from judge.problems.importers.draft import Draft, Ref
from judge.problems.importers.making import MOST, MakingStep, Plan, UnmadeError
from judge.problems.tree import Tree, clean

_SOURCED = re.compile(rb"^[ \t]*(?:\.|source)[ \t]+(\S*gen\.sh)\b", re.MULTILINE)
# The lines that gen.sh writes for samples, and for a group of tests.
_SAMPLE_LINES = ("on_reject: continue", "range: 0 0", "accept_score: 0", "grader_flags: first_error")
_GROUP_LINES = ("on_reject: break", "accept_score: {score}", "range: 0 {score}", "grader_flags: min")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_LOOP = re.compile(r"for[ \t]+([A-Za-z_][A-Za-z0-9_]*)[ \t]+in[ \t]+(.*?)[ \t]*(?:;[ \t]*(do)?)?[ \t]*")
_RANGE = re.compile(r"\{(-?[0-9]{1,9})\.\.(-?[0-9]{1,9})\}")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
# Arithmetic that a shell computes.
_COMPUTED = re.compile(r"\$\(\(([A-Za-z0-9_+*/% ()-]{1,200})\)\)")
# A comment begins where a word may; the rest are quoted and bare parts of words.
_PARTS = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|(?<!\S)#.*|(?:\\.|[^'"#\\]|(?<=\S)#)+""")
_SHELL_SYNTAX = re.compile(r"[$`;|&<>()*?]|(?<!\S)~")
_BRACES = re.compile(r"\{(?=[^{}\s]*\})[^{}\s]*?(?:,|\.\.)[^{}\s]*\}")
_IN_QUOTES = re.compile(r"[$`]")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,200}")
_SILENT = frozenset({"set", "echo", "hint", "desc", "cd", "wait", "ulimit"})  # they say nothing about the tests
_STEPS = 20 * MOST
# Commands of a block `if … fi` that makes tests, or may; one without only draws pictures of them, or speaks.
_MAKING = re.compile(
    r"(?:^|[;&|({]|\b(?:then|do|else|if)\b|!)[ \t]*(?:tc|tc_manual|tg_manual|group|include_group|sample|sample_manual"
    r"|samplegroup|limits|output_validator_flags|use_solution|compile\w*|add_program|solve|mv|cp|ln|rm|tee|sed|dd"
    r"|install|exit|return)\b"
    r"|>(?!&[12]\b|>?[ \t]*(?:/dev/null\b|\S*\.(?:png|svg|pdf|dot)\b))"
)
# Characters of all its lines as they are done, with variables and settings of groups written out.
_CHARACTERS = 2 * 1024**2


def _number(node: ast.expr | None, variables: Mapping[str, str]) -> int:
    """The whole number that a shell computes of `$((…))`; ValueError or ArithmeticError for what is none."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        value = node.value
    elif isinstance(node, ast.Name):
        value = int(variables.get(node.id, ""))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = -_number(node.operand, variables)
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        value = _OPERATORS[type(node.op)](_number(node.left, variables), _number(node.right, variables))
    else:
        raise ValueError("is no sum or product of whole numbers")
    if abs(value) >= 2**63:
        raise ValueError("is too large for a shell")
    return value


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    # A shell leaves the fraction of a quotient out.
    ast.Div: lambda dividend, divisor: int(Fraction(dividend, divisor)),
    ast.Mod: lambda dividend, divisor: dividend - int(Fraction(dividend, divisor)) * divisor,
}


def _without_comment(line: str, *, ranges: bool) -> str | None:
    """The words of a line as they stand; None when a shell would do more with them than take off quotes.

    `ranges`: `{1..3}` may stand among them.
    """
    end = 0
    for part in _PARTS.finditer(line):
        if part.start() != end:  # a quote without its other one
            return None
        if part[0][0] == "#" and (end == 0 or line[end - 1].isspace()):
            return line[:end]
        if part[0][0] != "'" and (_IN_QUOTES if part[0][0] == '"' else _SHELL_SYNTAX).search(part[0]):
            return None
        if part[0][0] not in "'\"" and not ranges and _BRACES.search(part[0]):
            return None
        end = part.end()
    return line if end == len(line) else None


@dataclass(frozen=True)
class _ShCase:
    """A test by its name: its path without a suffix, the folder it was in last, the generator and its arguments."""

    path: str
    generator: str = ""
    arguments: tuple[str, ...] = ()
    copy: str = ""


def _scripts(tree: Tree) -> Iterator[str]:
    """All scripts in data/ that make tests with gen.sh; the first one counts."""
    for path in tree.below("data"):
        small = path.endswith(".sh") and path.count("/") == 1 and tree.files[path] <= metadata.YAML_BYTES
        if small and _SOURCED.search(tree.read(path, metadata.YAML_BYTES)):
            yield path


def is_unmade(tree: Tree) -> bool:
    """Return whether there are no secret tests, but a script that makes them."""
    return not any(path.endswith(".in") for path in tree.below("data/secret")) and any(_scripts(tree))


def unmade(tree: Tree) -> UnmadeError:
    """The error to raise for such a package. PackageError for a script that does more than is understood."""
    return _Script(tree, next(_scripts(tree))).plan()


class _Script:
    def __init__(self, tree: Tree, path: str) -> None:
        self._tree, self._path, self._where = tree, path, tree.where(path)
        self._draft = Draft(tree, "package")
        self._draft.files |= {file: Ref(tree, file) for file in tree.below("include")}
        self._plan = Plan(tree)
        self._variables = {"PROBLEM_PATH": "..", "SOLUTION_BASE": "../submissions/accepted"}
        self._programs: dict[str, str] = {}
        self._solution = ""
        self._folder = "secret"
        self._index, self._steps, self._score = 1, 0, 0
        self._room = _CHARACTERS
        self._cases: dict[str, _ShCase] = {}
        # The names in each group, and what is in which folder already.
        self._groups: dict[str, list[str]] = {}
        self._settings: dict[str, list[str]] = {}

    def plan(self) -> UnmadeError:
        data = self._tree.read(self._path, metadata.YAML_BYTES)
        sourced = _SOURCED.search(data)
        own = posixpath.normpath(posixpath.join("data", sourced[1].decode("utf-8", "replace"))) if sourced else ""
        if own in self._tree.files and own != self._path:
            # It may write other settings than the usual one.
            raise PackageError(
                f"{self._tree.where(own)}: is a gen.sh of the package's own, which is not read; run {self._path} "
                "first, and import the package with its tests"
            )
        text = data.decode("utf-8", "replace").replace("\\\n", " ")
        try:
            self._run([(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)])
        except RecursionError as exc:
            raise PackageError(f"{self._where}: has too many loops in loops; run it first") from exc
        if not any(step.output.startswith("data/secret/") for test in self._plan.tests for step in test):
            raise PackageError(f"{self._where}: makes no secret tests; expected some ('tc NAME GENERATOR')")
        self._settle()
        scripts = [clean(path, 60) for path in _scripts(self._tree) if path != self._path]
        if scripts:
            self._plan.notes.append((False, f"{', '.join(scripts[:3])}: makes tests, too; those of {self._path} count"))
        count = sum(len(names) for names in self._groups.values())
        return self._plan.refuse(f"{self._tree.label}: {several(count, 'test')} of {self._path} still to be made")

    @property
    def _scoring(self) -> bool:
        return self._variables.get("USE_SCORING") != "0"

    def _settle(self) -> None:
        if self._scoring:
            settings = f"on_reject: continue\nrange: 0 {self._score}\ngrader_flags: "
            self._settings["sample"] = list(_SAMPLE_LINES)
            self._settings["secret"] = [settings + "first_error accept_if_any_accepted"]
            self._settings[""] = [settings + "ignore_sample"]
        for folder, lines in self._settings.items():
            self._plan.texts[posixpath.join("data", folder, "testdata.yaml")] = ("\n".join(lines) + "\n").encode()

    # --- the script -------------------------------------------------------------------------------------------------

    def _run(self, lines: Sequence[tuple[int, str]]) -> None:
        position = 0
        while position < len(lines):
            number, line = lines[position]
            loop = _LOOP.fullmatch(line.partition(" #")[0].strip())
            if line.startswith("if "):
                position = self._end_of_if(lines, position)
            elif loop is not None:
                begin, end = self._body(lines, position, started=loop[3] is not None)
                for value in self._values(loop[2], number):
                    self._variables[loop[1]] = value
                    self._run(lines[begin:end])
                position = end + 1
            else:
                self._line(number, line)
                position += 1

    def _end_of_if(self, lines: Sequence[tuple[int, str]], begin: int) -> int:
        """The place behind a block `if … fi` that makes no tests; PackageError for one that may."""
        depth = 0
        for position in range(begin, len(lines)):
            number, line = lines[position][0], lines[position][1].partition(" #")[0].strip()
            if _MAKING.search(line):
                raise self._refusal(number, line)
            depth += line.startswith("if ") - (line == "fi" or line.endswith("; fi"))
            if not depth:
                return position + 1
        raise self._refusal(*lines[begin])

    def _body(self, lines: Sequence[tuple[int, str]], head: int, *, started: bool) -> tuple[int, int]:
        """The places of the first line in a loop and of its `done`; `started`: its `do` stands in its first line."""
        begin = head + 1 if started else head + 2
        depth = 1 if started or (head + 1 < len(lines) and lines[head + 1][1] == "do") else 0
        for position in range(begin, len(lines) if depth else begin):
            depth += {"for": 1, "done": -1}.get(lines[position][1].split(" ")[0], 0)
            if not depth:
                return begin, position
        raise self._refusal(lines[head][0], "for")

    def _values(self, text: str, number: int) -> list[str]:
        """The values that a loop goes through: words, and ranges of numbers."""
        values: list[str] = []
        for word in self._split(number, text, ranges=True):
            numbers = _RANGE.fullmatch(word)
            if numbers is None:
                values.append(word)
                continue
            first, last = int(numbers[1]), int(numbers[2])
            # All ranges of a loop together: a line may have thousands of them.
            if len(values) + abs(last - first) >= MOST:
                raise PackageError(f"{self._where}:{number}: goes through more than {MOST} values")
            # A shell writes all numbers as long as the longer end, if one begins with a zero.
            long = max(map(len, numbers.groups())) if any(re.match("-?0[0-9]", end) for end in numbers.groups()) else 0
            values += (f"{value:0{long}d}" for value in range(first, last + 1))
            values += (f"{value:0{long}d}" for value in range(first, last - 1, -1) if first > last)
        return values

    def _split(self, number: int, line: str, *, ranges: bool = False) -> list[str]:
        self._expand_text(line)
        filled = _VARIABLE.sub(
            lambda match: self._expand_text(self._variables.get(match[1] or match[2], match[0])), line
        )
        try:
            bare = _without_comment(_COMPUTED.sub(self._computed, filled), ranges=ranges)
            if bare is not None:
                return shlex.split(bare)
        except (ValueError, ArithmeticError):
            pass
        raise self._refusal(number, line) from None

    def _computed(self, match: re.Match[str]) -> str:
        return self._expand_text(str(_number(python.expression(match[1]), self._variables)))

    def _expand_text(self, text: str) -> str:
        """The text, which is counted: a few lines could stand for any number of characters."""
        self._room -= len(text)
        if self._room < 0:
            raise PackageError(f"{self._where}: its lines come to too much text; run it first")
        return text

    def _refusal(self, number: int, line: str) -> PackageError:
        return PackageError(
            f"{self._where}:{number}: '{clean(line, 60)}' is more than commands of gen.sh and simple loops, which are "
            "all that is read here; run it first"
        )

    def _line(self, number: int, line: str) -> None:
        self._steps += 1
        if self._steps > _STEPS:
            raise PackageError(f"{self._where}: does more than {_STEPS} steps; run it first")
        assigned = _ASSIGNED.fullmatch(line)
        if assigned is not None:
            value = assigned[2].partition(" #")[0].strip()
            above = value in {"$(realpath ..)", "`realpath ..`", '"$(realpath ..)"'}
            self._variables[assigned[1]] = ".." if above else " ".join(self._split(number, value))
            return
        if _SOURCED.match(line.encode()) or line.split(" ", maxsplit=1)[0] in _SILENT:
            return
        parts = self._split(number, line)
        if not parts:
            return
        command = getattr(self, f"_do_{parts[0]}", None) if parts[0].isidentifier() else None
        if command is None:
            raise self._refusal(number, line)
        try:
            inspect.signature(command).bind(*parts[1:])
        except TypeError as exc:
            raise self._refusal(number, line) from exc
        try:
            command(*parts[1:])
        except PackageError as exc:
            raise PackageError(f"{self._where}:{number}: {exc}") from exc

    # --- its commands -----------------------------------------------------------------------------------------------

    def _file(self, name: str, folder: str = "data") -> str:
        path = posixpath.normpath(posixpath.join(folder, name))
        if path not in self._tree.files:
            raise PackageError(f"there is no {clean(path, 80)} in the package")
        return path

    def _do_use_solution(self, name: str, _option: str = "") -> None:
        path = self._file(name, posixpath.join("data", self._variables["SOLUTION_BASE"]))
        self._solution = self._plan.solution(self._draft, testlib.ProgramSource(Ref(self._tree, path)))

    def _do_compile(self, name: str, _option: str = "") -> None:
        self._programs[posixpath.splitext(posixpath.basename(name))[0]] = self._file(name)

    def _do_samplegroup(self) -> None:
        self._folder = "sample"

    def _do_sample(self, name: str) -> None:
        self._use_name(name)
        case = _ShCase(f"sample/{name}", copy=self._file(f"sample/{name}.in"))
        self._index += 1
        self._have("sample", name, case)

    _do_sample_manual = _do_sample

    def _do_group(self, name: str, score: str) -> None:
        self._use_name(name)
        if not re.fullmatch(r"[0-9]{1,9}", score):
            raise PackageError(f"'{clean(score, 20)}' is not a number of points")
        self._folder = f"secret/{name}"
        self._score += int(score)
        self._settings[self._folder] = [self._expand_text(line).format(score=score) for line in _GROUP_LINES]

    def _flags(self, key: str, flags: Sequence[str]) -> None:
        self._settings.setdefault(self._folder if self._scoring else "", []).append(f"{key}: {' '.join(flags)}")

    def _do_limits(self, *flags: str) -> None:
        self._flags("input_validator_flags", flags)

    def _do_output_validator_flags(self, *flags: str) -> None:
        self._flags("output_validator_flags", flags)

    def _do_tc(self, name: str, generator: str = "", *arguments: str) -> None:
        self._use_name(name)
        if not generator:
            self._use_again(name)
            return
        if name in self._cases:
            raise PackageError(f"there are two tests called '{clean(name, 60)}'")
        if generator == "cat" and len(arguments) == 1:
            self._new(name, copy=self._file(arguments[0]))
        elif generator in self._programs:
            # gen.sh appends a seed, made of the test's name.
            seed = int(hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()[:6], 16)
            self._new(name, generator, (*arguments, str(seed)))
        else:
            raise PackageError(f"there is no 'compile' for the generator '{clean(generator, 60)}'")

    def _do_tc_manual(self, path: str) -> None:
        name = posixpath.splitext(posixpath.basename(path))[0]
        if name in self._cases and self._cases[name].copy == self._file(path):
            self._use_again(name)
        else:
            self._do_tc(name, "cat", path)

    def _do_tg_manual(self, folder: str) -> None:
        inside = posixpath.normpath(posixpath.join("data", folder))
        for path in self._tree.below(inside):
            if posixpath.dirname(path) == inside and path.endswith(".in"):
                self._do_tc_manual(posixpath.relpath(path, "data"))

    def _do_include_group(self, *names: str) -> None:
        for group in names:
            if f"secret/{group}" not in self._groups and group not in self._groups:
                raise PackageError(f"there is no group '{clean(group, 60)}' before this")
            for name in list(self._groups.get(f"secret/{group}", self._groups.get(group, []))):
                self._use_again(name)

    # --- tests ------------------------------------------------------------------------------------------------------

    def _use_name(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise PackageError(f"'{clean(name, 40)}' is not the name of a test or group")

    def _new(self, name: str, generator: str = "", arguments: tuple[str, ...] = (), copy: str = "") -> None:
        path = f"{self._folder}/{self._index:03d}-{name}"
        self._index += 1
        self._have(self._folder, name, _ShCase(path, generator, arguments, copy))

    def _use_again(self, name: str) -> None:
        """A test of another group in this one, too: made again, as it comes out the same."""
        case = self._cases.get(name)
        if case is None:
            raise PackageError(f"there is no test '{clean(name, 60)}' before this")
        if name not in self._groups.get(self._folder, []):
            path = f"{self._folder}/{posixpath.basename(case.path)}"
            self._have(self._folder, name, replace(case, path=path))

    def _have(self, folder: str, name: str, case: _ShCase) -> None:
        self._groups.setdefault(folder, []).append(name)
        self._cases.setdefault(name, case)
        input_path, answer = f"data/{case.path}.in", f"data/{case.path}.ans"
        steps: list[MakingStep] = []
        if case.copy:
            if case.copy != input_path:
                self._plan.copies[input_path] = case.copy
        else:
            source = testlib.ProgramSource(Ref(self._tree, self._programs[case.generator]))
            key = self._plan.program(self._draft, f"generator {case.generator}", source)
            steps.append(MakingStep(key, input_path, case.arguments))
        answer_path = f"{case.copy[:-3]}.ans" if case.copy.startswith("data/sample/") else ""
        if answer_path in self._tree.files:
            if answer_path != answer:
                self._plan.copies[answer] = answer_path
        elif not self._solution:
            raise PackageError("there is no 'use_solution' before it, which makes the answers")
        else:
            steps.append(MakingStep(self._solution, answer, (), input_path))
        self._plan.add(*steps)
