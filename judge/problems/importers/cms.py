"""Tasks in the Italian format of the Contest Management System: task.yaml, gen/GEN, input/ and output/.

What the files mean is what that system's loader makes of them (docs/problems-import.md). Inputs and outputs that
are still to be made are the matter of cms_gen.py.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from judge.common import yamltext
from judge.common.errors import PackageError
from judge.problems import metadata
from judge.problems.importers import cms_gen, ioi
from judge.problems.importers.cases import points
from judge.problems.importers.draft import Draft, ImporterWords, file_name, slug
from judge.problems.importers.making import MOST
from judge.problems.importers.pairs import find_pairs
from judge.problems.importers.spoken import language_of
from judge.problems.tree import Tree, clean

_SETTINGS = ("task.yaml", "task.yml", "task.json")
_GEN = "gen/GEN"
_RULES: dict[str, ioi.Rule] = {
    "groupmin": "min", "groupmul": "mul", "groupthreshold": "threshold", "groupsum": "sum",
}  # fmt: skip
# Keys that say nothing about how a submission is judged.
_CONTEST = re.compile(
    r"token_.*|(?:max|min)_(?:submission|user_test)_.*|feedback_level|score_mode|score_precision|.*tags?"
)
# Keys that are read, and what may stand in a group of score_type_parameters that is a mapping.
_KEYS = frozenset({
    "title", "nome", "name", "nome_breve", "time_limit", "timeout", "memory_limit", "memlimit", "task_type",
    "output_only", "time_limit_ms", "testcases", "input_file", "output_file", "submission_format",
    "task_type_parameters", "num_processes", "user_io", "infile", "outfile", "n_input", "score_type",
    "score_type_parameters", "total_value", "primary_language", "public_testcases", "risultati",
})  # fmt: skip
_OF_GROUPS = frozenset({"max_score", "points", "testcases", "tests", "threshold", "name", "depends_on"})
_OF_PROGRAMS = ("checker", "managers", "graders")


def matches(tree: Tree) -> bool:
    """Return whether there is a task.yaml of that system, and not only one of something else."""
    if not any(name in tree.files for name in _SETTINGS):
        return False
    return any(path.startswith(("input/", "gen/", "sol/", "output/", "cor/", "check/", "att/")) for path in tree.files)


def convert(tree: Tree, options: ImporterWords) -> Draft:
    return _CmsConversion(tree, options).convert()


def score_groups(kind: str, raw: Any, names: Sequence[str], where: str) -> list[ioi.Scored]:
    """The subtasks of a score type with its parameters. `names` are the tests' codenames, in order. PackageError.

    Sum: points of one test. Groups: `[points, number of tests or regular expression, …]`, of threshold with a limit.
    """
    if kind.lower() == "sum":
        test_points = points(raw, where)
        return [ioi.Scored("all", test_points * len(names), list(names), "sum")]
    rule = _RULES.get(kind.lower())
    if rule is None:
        types = "Sum, GroupMin, GroupMul, GroupThreshold, GroupSum"
        raise PackageError(f"{where}: score_type: '{clean(kind, 40)}' is not known here; expected one of {types}")
    if not isinstance(raw, list) or not raw:
        raise PackageError(f"{where}: score_type_parameters: expected a list of [points, tests] for {clean(kind, 40)}")
    groups: list[ioi.Scored] = []
    begin = 0
    for number, group in enumerate(raw):
        scored = _group(group, f"{where}: score_type_parameters.{number}", rule)
        if isinstance(scored.tests, int):
            tests, begin = list(names[begin : begin + scored.tests]), begin + scored.tests
            if begin > len(names):
                raise PackageError(
                    f"{where}: score_type_parameters: name {begin} tests or more; there are {len(names)}"
                )
        else:
            tests = _matching(scored.tests, names, f"{where}: score_type_parameters.{number}")
        for required in scored.requires:
            # A required group that fails makes it worth nothing: so do its tests among these.
            if required >= number or rule != "min":
                raise PackageError(
                    f"{where}: score_type_parameters.{number}: depends_on: expected numbers of groups before this one, "
                    "of GroupMin"
                )
            tests = list(dict.fromkeys([*groups[required].tests, *tests]))
        name = scored.name or f"subtask {number}"
        if any(name == previous.name for previous in groups):
            name = f"{name} ({number})"
        groups.append(ioi.Scored(name, scored.points, tests, rule, scored.threshold))
    return groups


@dataclass
class _CmsGroup:
    points: Fraction
    tests: int | str
    threshold: float | None = None
    name: str = ""
    requires: list[int] = field(default_factory=list)


def _group(group: Any, where: str, rule: ioi.Rule) -> _CmsGroup:
    """One of `score_type_parameters`: a list, or a mapping with names for the same."""
    requires: Any = []
    if isinstance(group, dict):
        requires = group.get("depends_on") or []
        value = group.get("max_score", group.get("points"))
        tests, limit, name = group.get("testcases", group.get("tests")), group.get("threshold"), group.get("name", "")
    elif isinstance(group, list) and len(group) >= 2:
        value, tests = group[:2]
        extras = group[2:]
        limit = extras[0] if rule == "threshold" and extras else None
        name = next((part for part in extras if isinstance(part, str)), "")
    else:
        raise PackageError(f"{where}: expected [points, tests]")
    if isinstance(tests, bool) or not isinstance(tests, int | str) or (isinstance(tests, int) and tests < 0):
        raise PackageError(f"{where}: the tests must be a number of tests or a regular expression of their names")
    if rule == "threshold" and (isinstance(limit, bool) or not isinstance(limit, int | float) or limit <= 0):
        raise PackageError(f"{where}: GroupThreshold needs a number above 0 after the tests, the largest good outcome")
    most = float(limit) if rule == "threshold" and limit is not None else None
    if not isinstance(requires, list) or any(
        isinstance(number, bool) or not isinstance(number, int) or number < 0 for number in requires
    ):
        raise PackageError(f"{where}: depends_on: expected a list of numbers of groups")
    return _CmsGroup(points(value, where), tests, most, clean(str(name), 80), requires)


# Characters of expressions of tests' names: of Python's language all that is matched. Others could take for ever.
_SIMPLE = re.compile(r"[A-Za-z0-9_. ()|?^$*+\[\]{},\\-]{1,100000}")
_UNSAFE = re.compile(r"\(\?|\\[0-9]|\)[*+{]|[*+}?][*+{]")
_REPEATS = 2


def _matching(pattern: str, names: Sequence[str], where: str) -> list[str]:
    """The names that an expression matches from their beginning, as that system does it."""
    label = clean(pattern, 60)
    parts = [pattern] if "(" in pattern else pattern.split("|")
    repeats = max(len(re.findall(r"[*+{]", part)) for part in parts)
    if not _SIMPLE.fullmatch(pattern) or _UNSAFE.search(pattern) or repeats > _REPEATS or pattern.count("?") > 8:
        raise PackageError(f"{where}: '{label}' is too complicated for a regular expression of tests' names")
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as exc:
        raise PackageError(f"{where}: '{label}' is no regular expression: {exc}") from exc
    matching = [name for name in names if compiled.match(name[:100])]
    if not matching:
        raise PackageError(f"{where}: no test's name matches '{label}'; they are called {', '.join(names[:3])} …")
    return matching


class _CmsConversion:
    def __init__(self, tree: Tree, options: ImporterWords) -> None:
        self._tree = tree
        self._draft = Draft(tree, "cms")
        path = next((name for name in _SETTINGS if name in tree.files), "")
        if not path:
            if "contest.yaml" in tree.files:
                raise PackageError(f"{tree.label}: is a contest; import its tasks one by one")
            raise PackageError(f"{tree.label}: has no task.yaml; expected a task of the Contest Management System")
        self._where = tree.where(path)
        self._conf: yamltext.Fields = metadata.read(tree.read(path, metadata.YAML_BYTES), self._where).value
        if options.memory is not None:
            self._draft.limits["memory"] = options.memory
        self._sol = cms_gen.solutions(tree)
        self._kind = self._kind_of_task()

    def convert(self) -> Draft:
        draft, name = self._draft, self._name()
        draft.name = name
        draft.problem["name"] = clean(self._conf.text("title", "nome") or name)
        memory = self._get("memory_limit", "memlimit")
        milliseconds = metadata.number(self._get("time_limit_ms"))
        seconds = self._get("time_limit", "timeout") if milliseconds is None else milliseconds / 1000
        ioi.limits(draft, seconds, memory, self._where)
        self._programs(name)
        self._tests()
        self._statements()
        folders = [folder for folder in ("att", "attachments") if ioi.put_attachments(draft, folder)][:1]
        self._solutions()
        tops = {"gen", "input", "output", self._sol, "check", "cor", "statement", "testo", *_OF_PROGRAMS, *folders}
        tops |= cms_gen.copied_from(draft, _GEN)
        self._drop_unused(tops)
        return draft

    # --- what task.yaml says ----------------------------------------------------------------------------------------

    def _get(self, *names: str) -> Any:
        return next((self._conf[name] for name in names if self._conf.get(name) is not None), None)

    def _name(self) -> str:
        return clean(self._conf.text("name", "nome_breve") or self._tree.label.rpartition("/")[2], 60)

    def _kind_of_task(self) -> str:
        """Batch, Communication, TwoSteps or OutputOnly: what is said, or what the files show."""
        task_type = str(self._get("task_type") or "")
        if self._conf.get("output_only"):
            return "OutputOnly"
        self._check_unknown()
        managers = ioi.find_program(self._draft, ("check", "cor"), ("manager",))
        shown = "Communication" if managers is not None else "Batch"
        return ioi.kind_of_task(task_type or shown, f"{self._where}: task_type")

    def _check_unknown(self) -> None:
        for key in ("output_only_testcases", "output_optional_testcases"):
            if self._conf.get(key) not in (None, ""):
                msg = "a task is judged either by programs or by their outputs here, not test by test; remove it"
                raise PackageError(f"{self._where}: {key}: {msg}")
        controller = ioi.find_program(self._draft, ("check", "cor"), ("controller",))
        if controller is not None:
            msg = "is the controller of an interactive task of task-maker, which is not judged here"
            raise PackageError(f"{controller.where}: {msg}; write an interactive output validator instead")

    # --- programs ---------------------------------------------------------------------------------------------------

    def _programs(self, name: str) -> None:
        draft, entry = self._draft, ""
        formats = self._conf.get("submission_format")
        format_name = str(formats[0]) if isinstance(formats, list) and len(formats) == 1 else ""
        source = format_name.removesuffix(".%l") if format_name.endswith(".%l") else name
        if self._kind in ioi.STEMS:
            entry = ioi.put_graders(draft, ("sol", "managers", "graders"), ioi.STEMS[self._kind], source)
        if self._kind == "Communication":
            self._communication(single=not entry)
        elif self._kind == "TwoSteps":
            ioi.put_two_steps(draft, entry)
        elif self._kind == "Batch":
            self._files(graded=bool(entry))
        if self._kind == "OutputOnly":
            ioi.put_outputs_only(draft)
        else:
            ioi.put_define(draft, (self._sol, "managers", "graders", "att"))
        self._checker()

    def _checker(self) -> None:
        """Have outputs judged by the task's own program, where that is not the default comparison."""
        draft = self._draft
        checker = ioi.find_program(draft, ("check", "cor", "checker"), ("checker", "correttore"))
        second_checker = ioi.other_checker(draft, ("check", "cor"), checker) if self._kind == "Batch" else None
        if second_checker is not None:
            decider = checker.where if checker is not None else "the default comparison"
            draft.report.dropped(
                f"{second_checker.where}: looks like a checker, and the Contest Management System does not use one of "
                f"this name: {decider} decides"
            )
        parameters = self._parameters()[:1] if self._kind == "TwoSteps" else []
        if parameters not in ([], ["diff"], ["comparator"]):
            raise PackageError(f"{self._where}: task_type_parameters: expected diff or comparator for two steps")
        if parameters == ["comparator"] and checker is None:
            msg = "say comparator, and there is no check/checker.cpp or the like; add it, or say diff"
            raise PackageError(f"{self._where}: task_type_parameters: {msg}")
        if checker is not None and parameters == ["diff"]:
            draft.report.dropped(f"{checker.where}: task_type_parameters say diff, so outputs are compared")
        elif checker is not None and self._kind != "Communication":
            ioi.put_checker(draft, checker)
        elif checker is not None:
            draft.report.dropped(f"{checker.where}: the manager decides in a communication task")

    def _parameters(self) -> list[Any]:
        value = self._conf.get("task_type_parameters")
        return value if isinstance(value, list) else []

    def _communication(self, *, single: bool) -> None:
        parameters, folders = self._parameters(), ("check", "cor", "managers")
        count = self._get("num_processes") or (parameters[0] if parameters else 1)
        way = str(self._get("user_io") or (parameters[2] if len(parameters) > 2 else "std_io" if single else "fifo_io"))
        ioi.put_communication(self._draft, folders, "check/manager.cpp", count, way, self._where)
        if single and way == "fifo_io":
            self._draft.report.dropped(
                "stubs: there are none, so submissions get the names of their pipes as arguments"
            )

    def _files(self, *, graded: bool) -> None:
        """The files for input and output. Where nothing is said, input.txt and output.txt, if sources use them."""
        for plain, alternative, usual in (
            ("infile", "input_file", "input.txt"),
            ("outfile", "output_file", "output.txt"),
        ):
            key = plain if plain in self._conf else alternative
            name = self._conf.text(key)
            if key not in self._conf:
                name = usual if self._mentions(usual, graded=graded) else ""
            if name:
                self._draft.judge[alternative] = file_name(name, f"{self._where}: {key}")

    def _mentions(self, name: str, *, graded: bool) -> bool:
        for path in self._tree.below(self._sol):
            stem, suffix = posixpath.splitext(posixpath.basename(path))
            relevant = stem == "grader" if graded else cms_gen.SOLUTIONS.match(stem) is not None
            if suffix in ioi.LANGUAGES and relevant and self._tree.files[path] <= metadata.YAML_BYTES:
                return name.encode() in self._tree.read(path, metadata.YAML_BYTES)
        return not self._tree.below(self._sol)

    # --- tests ------------------------------------------------------------------------------------------------------

    def _tests(self) -> None:
        exists = _GEN in self._tree.files
        gen = cms_gen.read_gen(self._draft.text(_GEN), self._tree.where(_GEN)) if exists else cms_gen.Gen()
        if cases := cms_gen.read_testcases(self._draft, self._conf.get("testcases"), self._where):
            subtasks = self._subtasks(cms_gen.Gen(), [case.name for case in cases])
            ioi.write_tests(self._draft, cases, subtasks)
            return
        count = self._count(gen)
        self._check_made(gen, count)
        names = [f"{number:03d}" for number in range(count)]
        subtasks = self._subtasks(gen, names)
        first = subtasks[0] if subtasks else None
        sample_names = set(first.tests) if first is not None and not first.points and len(subtasks) > 1 else set()
        sample_names -= {name for subtask in subtasks if subtask.points for name in subtask.tests}
        files = [(f"input/input{number}.txt", f"output/output{number}.txt") for number in range(count)]
        cases = [
            ioi.case(self._draft, self._kind, name, *paths, sample=name in sample_names)
            for name, paths in zip(names, files, strict=True)
        ]
        if sample_names:
            self._draft.report.took(f"{len(sample_names)} tests of the first subtask as samples: it has no points")
        ioi.write_tests(self._draft, cases, [subtask for subtask in subtasks if subtask.tests])

    def _check_made(self, gen: cms_gen.Gen, count: int) -> None:
        """UnmadeError where inputs are to be made by the generator, or answers by the official solution."""
        files = self._tree.files
        inputs = [number for number in range(count) if f"input/input{number}.txt" not in files]
        answers = [number for number in range(count) if f"output/output{number}.txt" not in files]
        # A few answers that are missing have got lost.
        complete = inputs or len(answers) == count
        answers = answers if complete and self._kind in {"Batch", "TwoSteps"} else []
        two_steps = self._kind == "TwoSteps"
        halves = self._halves() if two_steps else []
        paths = halves[0] if halves else cms_gen.official(self._tree, self._draft.name)[:1]
        if not inputs and not (answers and paths):
            solutions = cms_gen.only(self._tree)
            if answers and solutions:
                raise PackageError(
                    f"{self._tree.label}: has no answers, and {solutions[0]}, the only program, is not called as the "
                    "right one; add output/, or call it solution"
                )
            return
        if inputs and not gen.lines:
            self._draft.ref(f"input/input{inputs[0]}.txt")
        lines = {number: gen.lines[number] for number in inputs}
        raise cms_gen.unmade(self._draft, lines, answers, paths, two_steps=two_steps)

    def _halves(self) -> list[list[str]]:
        """Official solutions in two files, as submissions to a task of two steps are in that system."""
        formats = self._conf.get("submission_format")
        format_names = [str(pair).removesuffix(".%l") for pair in formats] if isinstance(formats, list) else []
        headers = [
            posixpath.splitext(posixpath.basename(path))[0]
            for path in self._tree.below("sol")
            if path.endswith(".h") and path != "sol/manager.h"
        ]
        names = next(
            (pair for pair in (format_names, headers) if len(pair) == 2 and all(map(ioi.source_stem, pair))), None
        )
        languages = self._draft.problem.get("languages", [])
        halves = cms_gen.in_two_files(self._tree, names or ("encoder", "decoder"))
        return [paths for paths in halves if ioi.LANGUAGES[posixpath.splitext(paths[0])[1]] in languages]

    def _count(self, gen: cms_gen.Gen) -> int:
        raw_count = self._conf.get("n_input")
        numbers = {int(path[11:-4]) for path in self._tree.files if re.fullmatch(r"input/input\d{1,4}\.txt", path)}
        if not numbers and not gen.lines:
            msg = "has no input/input0.txt; tests that generators make must be there (cmsMake, task-maker)"
            pair = next((entry.input for entry in find_pairs(self._tree.files)[0] if entry.answer is not None), "")
            hint = f"; pairs of files such as {clean(pair, 60)} are taken alone by --from directory" if pair else ""
            raise PackageError(f"{self._tree.label}: {msg}{hint}")
        if raw_count is not None and (
            isinstance(raw_count, bool) or not str(raw_count).isdecimal() or not 0 < int(raw_count) <= MOST
        ):
            raise PackageError(f"{self._where}: n_input: '{clean(str(raw_count), 40)}' is not a number of tests")
        if gen.lines and raw_count is not None and int(raw_count) != len(gen.lines):
            raise PackageError(f"{self._where}: n_input: is {int(raw_count)}, but {_GEN} has {len(gen.lines)} tests")
        count = len(gen.lines) or (int(raw_count) if raw_count is not None else max(numbers) + 1)
        extra = sum(number >= count for number in numbers)
        if extra:
            self._draft.report.dropped(f"{extra} files in input/ beyond the {count} tests")
        return count

    def _subtasks(self, gen: cms_gen.Gen, names: Sequence[str]) -> list[ioi.Scored]:
        kind, raw = self._conf.get("score_type"), self._conf.get("score_type_parameters")
        if kind is not None and raw is not None:
            for number, group in enumerate(raw if isinstance(raw, list) else []):
                if isinstance(group, dict):
                    self._draft.check_keys(group, _OF_GROUPS, f"{self._where}: score_type_parameters.{number}")
            return score_groups(str(kind), raw, names, self._where)
        if kind is not None and str(kind).lower() not in {"groupmin", "sum"} and not gen.subtasks:
            raise PackageError(f"{self._where}: score_type: has no score_type_parameters")
        if not gen.subtasks:
            total = points(self._get("total_value") or 100, self._where)
            return [ioi.Scored("all", total, list(names), "sum")]
        rule: ioi.Rule = _RULES.get(str(kind or "GroupMin").lower(), "min")
        if rule == "threshold":
            raise PackageError(f"{self._where}: score_type: GroupThreshold needs score_type_parameters")
        return [
            ioi.Scored(subtask.name or f"subtask {number}", subtask.points, [names[test] for test in tests], rule)
            for number, (subtask, tests) in enumerate(
                zip(gen.subtasks, gen.members(self._tree.where(_GEN)), strict=True)
            )
        ]

    # --- the rest ---------------------------------------------------------------------------------------------------

    def _statements(self) -> None:
        language = clean(self._conf.text("primary_language") or "it", 10)
        for path in ("statement/statement.pdf", "testo/testo.pdf", "statement/testo.pdf"):
            if path in self._tree.files:
                ioi.put_statement(self._draft, path, language)
                self._written(language)
                return
        pdfs = [path for path in self._tree.files if re.fullmatch(r"(?:statement|testo)/[^/]+\.pdf", path)]
        languages = {path: code for path in pdfs if (code := language_of(path, self._name()))}
        own_pdfs = [path for path in pdfs if posixpath.basename(path).lower() == f"{self._name()}.pdf".lower()]
        if not own_pdfs and not languages and len(pdfs) == 1:
            own_pdfs = pdfs
        for path, code in {**languages, **dict.fromkeys(own_pdfs, language)}.items():
            ioi.put_statement(self._draft, path, code)
        self._written(language)

    def _written(self, language: str) -> None:
        """Statements in Markdown, of the languages that have none in PDF; what names none is of the task's."""
        for path in self._tree.files:
            match = re.fullmatch(
                r"(?:statement|testo)/(?:statement|testo|index)?\.?([A-Za-z]{2}(?:[_-]\w{2,4})?)?\.md", path
            )
            written = re.fullmatch(r"(?:statement|testo)/[^/]+\.md", path) and language_of(path, self._name())
            code = (match[1] or language) if match is not None else str(written or "")
            if code and f"statement/problem.{code}.pdf" not in self._draft.files:
                ioi.put_statement(self._draft, path, code)
        if not any(path.startswith("statement/") for path in self._draft.files):
            self._draft.report.dropped("a statement: there is no statement/statement.pdf, and none in Markdown")
            return
        for folder in ("statement", "testo"):
            ioi.put_pictures(self._draft, folder)

    def _solutions(self) -> None:
        """The official solution; of the others nothing says what they do."""
        halves = self._halves() if self._kind == "TwoSteps" else []
        solutions = dict.fromkeys(
            [path for half in halves for path in half] or cms_gen.official(self._tree, self._draft.name), "accepted"
        )
        if not solutions:
            solutions = dict.fromkeys(cms_gen.only(self._tree), "accepted")
            for path in solutions:
                note = "as it is the only program; its name says nothing"
                self._draft.report.took(f"solution {path} as accepted, {note}")
        remaining = [
            path for path in self._tree.below(self._sol) if path not in solutions and cms_gen.may_be_solution(path)
        ]
        for paths in halves:
            folder, suffix = posixpath.splitext(paths[0])
            name = slug(f"{posixpath.basename(posixpath.dirname(folder))}_{suffix[1:]}")
            for path in paths:
                self._draft.put(f"submissions/accepted/{name}/{posixpath.basename(path)}", self._draft.ref(path))
        if halves:
            self._draft.report.took(f"{len(halves)} submissions of two files")
        elif self._kind != "OutputOnly":
            ioi.put_solutions(self._draft, solutions)
        if remaining:
            self._draft.report.dropped(
                f"{len(remaining)} files in {self._sol}/: nothing says how they should be judged"
            )

    def _drop_unused(self, used_tops: set[str]) -> None:
        ignored = sorted(key for key in map(str, self._conf) if _CONTEST.fullmatch(key))
        self._draft.check_keys(self._conf, _KEYS | set(ignored), self._where)
        self._draft.unused(("check", "cor", *_OF_PROGRAMS))
        if ignored:
            self._draft.report.dropped(f"{', '.join(ignored)}: rules of a contest, not of the task")
        if self._get("public_testcases", "risultati"):
            self._draft.report.dropped("public_testcases: which results contestants see is the cluster's own rule")
        folders = sorted({path.partition("/")[0] for path in self._tree.files if "/" in path} - used_tops)
        if folders:
            self._draft.report.dropped(
                f"{', '.join(f'{folder}/' for folder in folders[:5])}: nothing says what they are for"
            )
