"""Tasks of TPS, in which IOI tasks are prepared: problem.json, tests by name (`2-03.in`), subtasks with lists of tests.

Read are a task's repository, with its tests made (`tps gen`) or with what makes them (tps_gen.py), and what TPS exports
for the Contest Management System.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from judge.common.errors import PackageError
from judge.common.yamltext import from_json
from judge.problems import metadata
from judge.problems.importers import ioi, line_ends, tps_gen
from judge.problems.importers.cases import ImportedCase, points
from judge.problems.importers.draft import Draft, ImporterWords, Ref, decode, file_name
from judge.problems.importers.making import MOST, UnmadeError
from judge.problems.tree import Tree, clean

_PROBLEM = "problem.json"
_DEPTH = 20
# Memory limits are MiB in repositories, bytes in exports, and sometimes KiB: the least and most that one can be,
# and from how many on it is doubted.
_LEAST_MIB, _MOST_MIB, _MUCH_MIB = 4, 65536, 8192
_MIB = 1024**2
_KEYS = frozenset({
    "code", "name", "title", "memory_limit", "time_limit", "task_type", "type", "task_type_parameters",
    "task_type_params", "type_params", "has_grader", "has_checker", "grader_name", "num_processes", "user_io",
    "score_type",
})  # fmt: skip
# Keys that say nothing about how a submission is judged.
_IGNORED_KEYS = frozenset({
    "description", "difficulty", "web_url", "web-url", "has_manager", "has_markdown_statement", "has_invocations",
    "java_enabled",
    "python_enabled", "solution_compiler_options", "score_precision", "feedback_level", "cpp_enabled", "author",
    "authors", "cpp_std_opt", "pascal_enabled", "version", "statement_languages", "has_validator", "score_mode",
    "tps_web_url", "max_submission_number", "max_user_test_number", "min_submission_interval", "min_user_test_interval",
})  # fmt: skip
# Rules by which the outcomes of a subtask's tests become its own.
_SCORES: dict[str, ioi.Rule] = {"GroupMin": "min", "GroupMul": "mul", "GroupSum": "sum"}
# The folder of a submission, by the verdict that solutions.json asks of it; nothing where no folder says the same.
_VERDICTS = {
    "model_solution": "accepted",
    "correct": "accepted",
    "incorrect": "wrong_answer",
    "time_limit": "time_limit_exceeded",
    "memory_limit": "run_time_error",
    "runtime_error": "run_time_error",
    "time_limit_and_runtime_error": "brute_force",
    "protocol_violation": "wrong_answer",
    "failed": "rejected",
    "partially_correct": "",
}


# Folders that are read, and those that are never in the package.
_FOLDERS = frozenset({
    "tests", "subtasks", "statement", "statements", "solution", "grader", "graders", "checker", "manager",
})  # fmt: skip
_LOSSES = {
    "gen": "what makes tests is not kept with them",
    "validator": "its programs do not look at the tests",
    "scripts": "is of that system alone",
}


def matches(tree: Tree) -> bool:
    folders = ("subtasks/", "gen/", "grader/", "graders/", "checker/", "solution/")
    return _PROBLEM in tree.files and any(
        path == "subtasks.json"
        or path.startswith(folders)
        or re.fullmatch(r"tests/[^/]+\.(?:in|ans)|tests/mapping", path)
        for path in tree.files
    )


def convert(tree: Tree, options: ImporterWords) -> Draft:
    return _TpsConversion(tree, options).convert()


def parse(data: bytes, where: str) -> dict[str, Any]:
    text = decode(data)
    depth = deepest = 0
    for char in text:
        depth += (char in "[{") - (char in "]}")
        deepest = max(deepest, depth)
    try:
        value = from_json(text) if deepest <= _DEPTH else None
    except (ValueError, RecursionError) as exc:
        raise PackageError(f"{where}: is no JSON: {clean(str(exc))}") from exc
    if not isinstance(value, dict):
        raise PackageError(f"{where}: expected a JSON object, nested at most {_DEPTH} deep")
    return value


class _TpsConversion:
    def __init__(self, tree: Tree, options: ImporterWords) -> None:
        self._tree = tree
        self._draft = Draft(tree, "tps")
        if _PROBLEM not in tree.files:
            raise PackageError(f"{tree.label}: has no {_PROBLEM}; expected a task of TPS")
        self._where = tree.where(_PROBLEM)
        self._conf: Mapping[str, Any] = self._json(_PROBLEM)
        self._options = options
        if options.memory is not None:
            self._draft.limits["memory"] = options.memory

    def _json(self, path: str) -> dict[str, Any]:
        return parse(self._tree.read(path, 4 * metadata.YAML_BYTES), self._tree.where(path))

    def _get(self, *names: str) -> Any:
        return next((self._conf[name] for name in names if self._conf.get(name) is not None), None)

    def _memory(self) -> Any:
        """The memory limit in MiB; the number alone tells bytes and KiB from it, as no other reading is a limit."""
        limit = self._get("memory_limit")
        if self._options.memory is not None or isinstance(limit, bool) or not isinstance(limit, int | float):
            return None if self._options.memory is not None else limit
        if limit >= _LEAST_MIB * _MIB:
            return limit / _MIB
        if limit > _MOST_MIB:
            self._draft.report.took(f"memory limit: {limit} is read as KiB")
            return limit / 1024
        if limit >= _MUCH_MIB:
            self._draft.report.took(f"memory limit: {limit} is read as MiB; --memory sets it if KiB were meant")
        return limit

    def convert(self) -> Draft:
        draft = self._draft
        # In an export `code` is the short name and `name` the title; in a repository they are `name` and `title`.
        code = clean(str(self._get("code", "name") or draft.tree.label.rpartition("/")[2]), 60)
        draft.name = code
        draft.problem["name"] = clean(str(self._get("title", "name") or code))
        unmade = not any(re.fullmatch(r"tests/[^/]+\.in", path) for path in self._tree.files)
        if unmade and tps_gen.DATA not in self._tree.files:
            raise PackageError(f"{self._tree.label}: has no tests/NAME.in; make the tests first (tps gen)")
        ioi.limits(
            draft, self._get("time_limit"), self._memory(), self._where, f", or of bytes from {_LEAST_MIB * _MIB} on"
        )
        self._programs(code)
        if unmade:
            raise self._unmade()
        self._tests()
        self._statements()
        attached = next((candidate for candidate in ("attachments", "public") if self._tree.below(candidate)), None)
        if attached is not None:
            ioi.put_attachments(draft, attached)
        self._solutions()
        draft.check_keys(self._conf, _KEYS | _IGNORED_KEYS, self._where)
        draft.unused(("grader", "graders", "checker", "manager"))
        for folder, reason in _LOSSES.items():
            if self._tree.below(folder):
                draft.report.dropped(f"{folder}/: {reason}")
        tops = {path.partition("/")[0] for path in self._tree.files if "/" in path}
        other_folders = sorted(tops - _FOLDERS - _LOSSES.keys() - {attached})
        if other_folders:
            examples = ", ".join(f"{clean(folder, 40)}/" for folder in other_folders[:5])
            draft.report.dropped(f"{examples}{', …' if len(other_folders) > 5 else ''}: nothing says what they are for")
        return draft

    # --- programs -----------------------------------------------------------------------------------------------------

    def _kind(self) -> str:
        return ioi.kind_of_task(str(self._get("task_type", "type") or "Batch"), f"{self._where}: type")

    def _parameter(self, kind: str, name: str, position: int) -> Any:
        """A parameter of the task's type, which are a list, or a mapping with long names; None when it is not said."""
        raw = self._get("task_type_parameters", "task_type_params", "type_params")
        if isinstance(raw, str) and raw.strip():
            raw = parse(f'{{"x": {raw}}}'.encode(), f"{self._where}: type_params")["x"]
        if isinstance(raw, list):
            return raw[position] if len(raw) > position else None
        if isinstance(raw, dict):
            return raw.get(f"task_type_parameters_{kind}_{name}", raw.get(name))
        return None

    def _programs(self, code: str) -> None:
        draft, kind, entry = self._draft, self._kind(), ""
        if kind in ioi.STEMS and self._get("has_grader") is not False:
            main_stem = ioi.source_stem(str(self._get("grader_name") or ""))
            stems = (main_stem, *ioi.STEMS[kind]) if main_stem else ioi.STEMS[kind]
            entry = ioi.put_graders(draft, ("graders", "grader"), stems, code)
        if kind == "Communication":
            self._communication()
        elif kind == "TwoSteps":
            ioi.put_two_steps(draft, entry)
        elif kind == "OutputOnly":
            ioi.put_outputs_only(draft)
        else:
            self._files()
        if kind != "OutputOnly":
            ioi.put_define(draft, ("graders", "grader", "solution", "solutions", "public"))
        checker = ioi.find_program(draft, ("checker",), ("checker",))
        if checker is not None and kind != "Communication" and self._get("has_checker") is not False:
            ioi.put_checker(draft, checker)

    def _files(self) -> None:
        parameter = self._parameter("Batch", "io", 1)
        names = parameter if isinstance(parameter, list) and len(parameter) == 2 else [None, None]
        for position, (key, long) in enumerate((("input_file", "io_0_inputfile"), ("output_file", "io_1_outputfile"))):
            if name := str(names[position] or self._parameter("Batch", long, 99) or ""):
                self._draft.judge[key] = file_name(name, f"{self._where}: {key}")

    def _communication(self) -> None:
        folders = ("graders", "grader", "manager", "grader/manager", "grader/cpp", "graders/cpp")
        count = self._parameter("Communication", "num_processes", 0) or self._get("num_processes") or 1
        count = int(count) if str(count).isdecimal() and len(str(count)) < 4 else count
        way = str(self._parameter("Communication", "user_io", 2) or self._get("user_io") or "std_io")
        ioi.put_communication(self._draft, folders, "manager.cpp", count, way, self._where)

    def _unmade(self) -> UnmadeError:
        solutions = self._json("solutions.json") if "solutions.json" in self._tree.files else {}
        verdicts = {name: str(entry.get("verdict")) for name, entry in solutions.items() if isinstance(entry, dict)}
        return tps_gen.unmade(self._draft, verdicts, self._kind())

    # --- tests --------------------------------------------------------------------------------------------------------

    def _tests(self) -> None:
        tree = self._tree
        names = sorted(path[6:-3] for path in tree.files if re.fullmatch(r"tests/[^/]+\.in", path))
        if len(names) > MOST:
            raise PackageError(f"{tree.label}/tests: has more than {MOST} tests; join some")
        subtasks = self._subtasks(names)
        kind = str(self._get("score_type") or "")
        if kind and kind not in _SCORES:
            kinds = ", ".join(_SCORES)
            raise PackageError(f"{self._where}: score_type: '{clean(kind, 40)}' is not one of {kinds}")
        for subtask in subtasks if kind else ():
            subtask.rule = _SCORES[kind]
        first = subtasks[0]
        sample_names = set() if first.points or len(subtasks) == 1 else set(first.tests)
        # A sample that counts elsewhere as well is still a sample: everybody has it.
        cases = [self._case(name, sample=name in sample_names) for name in names]
        answers = [case.answer for case in cases if isinstance(case.answer, Ref)]
        line_ends.change(self._draft, cases, line_ends.unix, "TPS does it to inputs (dos2unix)", answers)
        ioi.write_tests(self._draft, cases, [subtask for subtask in subtasks if subtask.tests])

    def _case(self, name: str, *, sample: bool) -> ImportedCase:
        answers = (f"tests/{name}.out", f"tests/{name}.ans")
        answer = next((path for path in answers if path in self._tree.files), answers[0])
        return ioi.case(self._draft, self._kind(), name, f"tests/{name}.in", answer, sample=sample)

    def _subtasks(self, names: Sequence[str]) -> list[ioi.Scored]:
        """From an export's subtasks/, or from subtasks.json with tests/mapping or the tests' names."""
        files = [path for path in self._tree.below("subtasks") if path.endswith(".json")]
        test_names = frozenset(names)
        if files:
            return [self._subtask(path, test_names) for path in files]
        if "subtasks.json" not in self._tree.files:
            return [ioi.Scored("all", Fraction(100), list(names), "sum")]
        return self._of_one_file(names, test_names)

    def _subtask(self, path: str, test_names: frozenset[str]) -> ioi.Scored:
        fields, where = self._json(path), self._tree.where(path)
        tests = fields.get("testcases")
        if not isinstance(tests, list) or not all(isinstance(name, str) for name in tests):
            raise PackageError(f"{where}: testcases: expected a list of tests' names")
        missing = next((name for name in tests if name not in test_names), None)
        if missing is not None:
            raise PackageError(f"{where}: testcases: there is no tests/{clean(missing, 60)}.in")
        title = posixpath.basename(path)[:-5]
        return ioi.Scored(title, points(fields.get("score"), where), list(dict.fromkeys(tests)))

    def _of_one_file(self, names: Sequence[str], test_names: frozenset[str]) -> list[ioi.Scored]:
        where = self._tree.where("subtasks.json")
        entries = self._json("subtasks.json").get("subtasks")
        if not isinstance(entries, dict) or {isinstance(entry, dict) for entry in entries.values()} != {True}:
            raise PackageError(f"{where}: subtasks: expected an object with a subtask under each name")
        indexes = {name: _index(entries[name], f"{where}: {clean(name, 40)}") for name in entries}
        order = sorted(entries, key=lambda name: (indexes[name], name))
        mapping = self._mapping(test_names)
        subtasks = []
        for name in order:
            tests = mapping.get(name, [])
            if not mapping:
                tests = [test for test in names if test.startswith(f"{indexes[name]}-")]
            if not tests:
                self._draft.report.dropped(f"subtask {clean(name, 60)}: it has no tests")
            value = points(entries[name].get("score", 0), f"{where}: {clean(name, 40)}")
            subtasks.append(ioi.Scored(name, value, tests))
        if not any(subtask.tests for subtask in subtasks):
            raise PackageError(f"{where}: no test belongs to any subtask; tests/mapping says which do")
        return subtasks

    def _mapping(self, test_names: frozenset[str]) -> dict[str, list[str]]:
        """The tests of each subtask, by tests/mapping: lines `SUBTASK TEST`; else by gen/data, of which it is made."""
        if "tests/mapping" not in self._tree.files:
            return self._generated_mapping(test_names)
        tests_of: dict[str, dict[str, None]] = {}
        text = decode(self._tree.read("tests/mapping", 16 * metadata.YAML_BYTES))
        for number, line in enumerate(text.splitlines(), 1):
            parts = line.split()
            if not parts:
                continue
            if len(parts) != 2 or parts[1] not in test_names:
                msg = "expected the names of a subtask and of a test in tests/"
                raise PackageError(f"{self._tree.where('tests/mapping')}:{number}: {msg}")
            tests_of.setdefault(parts[0], {})[parts[1]] = None
        return {name: list(tests) for name, tests in tests_of.items()}

    def _generated_mapping(self, test_names: frozenset[str]) -> dict[str, list[str]]:
        """The tests of each subtask by gen/data, if they are the tests that are there; else none, which is said."""
        if tps_gen.DATA not in self._tree.files:
            return {}
        try:
            lists = tps_gen.read_data(self._draft.text(tps_gen.DATA), self._tree.where(tps_gen.DATA))
        except PackageError:
            lists = tps_gen.TpsLists()
        if not lists.commands or not lists.commands.keys() <= test_names:
            self._draft.report.dropped(f"{tps_gen.DATA}: lists other tests than there are; their names tell subtasks")
            return {}
        self._draft.report.took(f"the tests of subtasks by {tps_gen.DATA}, as there is no tests/mapping")
        return {name: list(lists.sets[name]) for name in lists.subtasks}

    # --- the rest -----------------------------------------------------------------------------------------------------

    def _statements(self) -> None:
        for folder in ("statements", "statement"):
            for path in self._tree.below(folder):
                if re.fullmatch(rf"{folder}/[A-Za-z_-]{{2,12}}\.pdf", path):
                    ioi.put_statement(self._draft, path, posixpath.basename(path)[:-4].replace("_", "-"))
        written = [path for path in self._tree.below("statement") if re.fullmatch(r"statement/[^/]+\.md", path)]
        if len(written) == 1 or "statement/index.md" in written:
            ioi.put_statement(self._draft, written[0] if len(written) == 1 else "statement/index.md", "en")
            ioi.put_pictures(self._draft, "statement")
        if not any(path.startswith("statement/") for path in self._draft.files):
            self._draft.report.dropped("a statement: there is no statement/index.md, and no statements/LANGUAGE.pdf")

    def _solutions(self) -> None:
        if "solutions.json" not in self._tree.files:
            self._solution_by_name()
            return
        folders: dict[str, str] = {}
        solutions = self._json("solutions.json")
        unsaid = [path for path in self._tree.below("solution") if path.removeprefix("solution/") not in solutions]
        if unsaid:
            examples = ", ".join(clean(path, 60) for path in unsaid[:3])
            suffix = f" and {len(unsaid) - 3} more" if len(unsaid) > 3 else ""
            self._draft.report.dropped(f"{examples}{suffix}: solutions.json does not say what they should do")
        for name, entry in solutions.items():
            path = f"solution/{name}"
            verdict = str(entry.get("verdict")) if isinstance(entry, dict) else ""
            folder = _VERDICTS.get(verdict, "")
            exceptions = entry.get("except") if isinstance(entry, dict) else None
            if isinstance(exceptions, dict) and any(exception != "correct" for exception in exceptions.values()):
                # A test that it fails is one that is not accepted; a part of the points need not be.
                fails = folder not in {"", "accepted"} or any(
                    _VERDICTS.get(str(other)) for other in exceptions.values()
                )
                folder = "rejected" if fails and folder else ""
            if path in self._tree.files and folder:
                folders[path] = folder
            else:
                extent = "with exceptions" if isinstance(exceptions, dict) and exceptions else "for all of its tests"
                self._draft.report.dropped(f"solution {clean(name, 60)}: '{clean(verdict, 40)}' {extent}")
        ioi.put_solutions(self._draft, folders)

    def _solution_by_name(self) -> None:
        """The one that is trusted to make the answers is one to be accepted; nothing says what the others should do."""
        solutions = tps_gen.right_by_name(self._draft)
        if solutions:
            ioi.put_solutions(self._draft, {solutions: "accepted"})
        further = [path for path in self._tree.below("solution") if path != solutions]
        if further:
            subject = "the others" if solutions else "each"
            self._draft.report.dropped(f"solution/: there is no solutions.json that says what {subject} should do")


def _index(subtask: Mapping[str, Any], where: str) -> int:
    index = subtask.get("index", 0)
    if type(index) is not int or not 0 <= index < 10_000:
        raise PackageError(f"{where}: index: '{clean(str(index), 40)}' is not a whole number from 0 to 9999")
    return index
