"""Problems of SIO2 (sinolpack): in/abc1a.in and out/abc1a.out, programs in prog/ by their names, config.yml.

The number in a test's name is its group, which is won as its worst test is; group 0 and tests with `ocen` in their
names are examples. What builds or judges submissions in a way that is not here refuses the package.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from judge.common import yamltext
from judge.common.errors import PackageError
from judge.common.text import several
from judge.problems import metadata
from judge.problems.importers import ioi, testlib
from judge.problems.importers.cases import ImportedCase, points
from judge.problems.importers.draft import Draft, ImporterWords, as_number
from judge.problems.importers.making import MOST, MakingStep, Plan, UnmadeError
from judge.problems.importers.pairs import natural
from judge.problems.tree import Tree, clean

_CONFIGS = ("config.yml", "config.yaml")
_INPUT_NAME = re.compile(r"in/([A-Za-z_][A-Za-z0-9_]{0,40}?)([0-9]+[a-z]?[a-z0-9]*)\.in")
_TEST = re.compile(r"([0-9]+)([a-z]?[a-z0-9]*)")
_ENDINGS = (".cpp", ".cc", ".c", ".py", ".pas", ".java", ".rs")
_FULL_SCORE = 100
# That system's limits where a package says none.
_MILLISECONDS, _KIB = 10_000, 66_000
# Keys that say how submissions are built, which is not done here: with the reason.
_REFUSED = {
    "library": "names what submissions are compiled with",
    "extra_execution_files": "names files that lie beside submissions while they run",
}
_KEYS = frozenset({
    "title", "scores", "time_limit", "time_limits", "memory_limit", "memory_limits", "override_limits",
    "subtask_dependencies", "extra_compilation_files", "extra_compilation_args", "no_outgen", "testrun_soc",
    *_REFUSED,
})  # fmt: skip
_OTHER_KEYS = re.compile(r"title_[a-z]{2}|sinol_\w+")


def matches(tree: Tree) -> bool:
    """Return whether inputs in in/ are called alike, and something else is called so as that system has it."""
    return bool(_short_name(tree))


def convert(tree: Tree, options: ImporterWords) -> Draft:
    return _Sio2Conversion(tree, options).convert()


def _short_name(tree: Tree) -> str:
    """What all is called in such a package, `abc`; "" for others."""
    label = posixpath.basename(tree.label).lower().partition(".")[0]
    names = {hit[1] for path in tree.files if (hit := _INPUT_NAME.fullmatch(path)) is not None}
    if label and any(re.fullmatch(rf"in/{re.escape(label)}[0-9]+[a-z0-9]*\.in", path) for path in tree.files):
        names.add(label)
    programs = [posixpath.basename(path).lower() for path in tree.files if path.startswith(("prog/", "doc/"))]
    for name in sorted(names, key=lambda candidate: (candidate != label, len(candidate), candidate)):
        has_programs = any(program.startswith(name.lower()) for program in programs)
        if (
            has_programs
            or "makefile.in" in tree.files
            or (name == label and any(config in tree.files for config in _CONFIGS))
        ):
            return name
    # Without inputs, only programs that make them are there.
    hits = (re.fullmatch(r"prog/([A-Za-z0-9_]+)ingen\.\w+", path) for path in sorted(tree.files))
    return next((hit[1] for hit in hits if hit is not None), "")


@dataclass
class _Sio2Test:
    """One test by its name: `1a` of group 1; `sample`: it is an example."""

    name: str
    group: str
    sample: bool


class _Sio2Conversion:
    def __init__(self, tree: Tree, options: ImporterWords) -> None:
        self._tree, self._asked = tree, options
        self._draft = Draft(tree, "sio2")
        self._name = _short_name(tree)
        self._path = next((path for path in _CONFIGS if path in tree.files), "")
        self._where = tree.where(self._path or "config.yml")
        self._conf = yamltext.Fields()
        if self._path:
            self._conf = metadata.read(tree.read(self._path, metadata.YAML_BYTES), self._where).value or self._conf

    def convert(self) -> Draft:
        draft = self._draft
        if not self._name:
            raise PackageError(f"{self._tree.label}: has no in/NAME1.in beside prog/; expected a package of SIO2")
        draft.name = self._name
        draft.problem["name"] = clean(self._conf.text("title") or self._title() or self._name)
        self._refuse()
        keys = _KEYS | {key for key in map(str, self._conf) if _OTHER_KEYS.fullmatch(key)}
        draft.check_keys(self._conf, keys, self._where, strict=True)
        tests = self._tests()
        self._libraries()
        self._limits(tests)
        self._checker()
        solutions = self._solutions()
        self._write(tests)
        self._statements()
        folder = next((name for name in ("attachments", "dlazaw") if self._tree.below(name)), "")
        if folder:
            ioi.put_attachments(draft, folder)
        ioi.put_solutions(draft, solutions)
        if self._conf.get("override_limits"):
            draft.report.dropped("override_limits: a language has no limits of its own here")
        draft.report.dropped("rules of contests, such as points that shrink with the time that a program takes")
        for stem, action in (("inwer", "looks at inputs"), ("ingen", "makes inputs")):
            for path in self._programs(stem):
                draft.report.dropped(f"{path}: {action} there, and is not run here")
        exempt = {*self._programs("inwer"), *self._programs("ingen"), self._path, "makefile.in"}
        draft.unused(exempt=exempt)
        return draft

    def _programs(self, suffix: str) -> list[str]:
        """The programs in prog/ that are called `abc` with this behind it."""
        stem = f"prog/{self._name}{suffix}"
        return [path for path in self._tree.below("prog") if posixpath.splitext(path)[0].lower() == stem.lower()]

    def _title(self) -> str:
        path = f"doc/{self._name}zad.tex"
        if path not in self._tree.files:
            return ""
        title = re.search(r"^[^%\n]{0,200}\\title\{([^{}\n]{1,200})\}", self._draft.text(path), re.MULTILINE)
        return title[1] if title is not None else ""

    def _refuse(self) -> None:
        spoken = [path for path in self._tree.below("prog") if f"{self._name}soc".lower() in path.lower()]
        if spoken:
            raise PackageError(
                f"{self._tree.where(spoken[0])}: is an interactor of SIO2, which talks to submissions as only that "
                "system has it; make a package of it with output_validator/"
            )
        for key, reason in _REFUSED.items():
            if self._conf.get(key):
                raise PackageError(f"{self._where}: {key}: {reason}, as only that system has it; make a package of it")

    # --- tests ------------------------------------------------------------------------------------------------------

    def _tests(self) -> list[_Sio2Test]:
        tests = []
        for path in self._tree.below("in"):
            if not path.endswith(".in") or path.count("/") > 1:
                continue
            stem = posixpath.basename(path)[: -len(".in")]
            match = _TEST.fullmatch(stem.removeprefix(self._name)) if stem.startswith(self._name) else None
            if match is None:
                raise PackageError(
                    f"{self._tree.where(path)}: is not called as a test of this problem, such as {self._name}1a.in"
                )
            tests.append(_Sio2Test(match[0], match[1], match[1] == "0" or "ocen" in match[2]))
        if len(tests) > MOST:
            raise PackageError(f"{self._tree.label}/in: has more than {MOST} tests; join some")
        if all(test.sample for test in tests):
            maker = next(iter(self._programs("ingen")), "")
            hint = f"; {clean(maker, 60)} makes them: have it do so first, and import the folder then" if maker else ""
            raise PackageError(f"{self._tree.label}/in: has no tests but examples{hint}")
        return sorted(tests, key=lambda test: natural(test.name))

    def _write(self, tests: Sequence[_Sio2Test]) -> None:
        draft, files = self._draft, self._tree.files
        unanswered = [test for test in tests if f"out/{self._name}{test.name}.out" not in files]
        if unanswered:
            raise self._unmade(unanswered)
        cases = []
        for test in tests:
            name = f"{self._name}{test.name}"
            refs = draft.ref(f"in/{name}.in"), draft.ref(f"out/{name}.out")
            cases.append(ImportedCase(test.name, *refs, sample=test.sample))
        groups: dict[str, list[str]] = {}
        for test in tests:
            if not test.sample:
                groups.setdefault(test.group, []).append(test.name)
        scores = self._scores(list(groups))
        requires = self._requires(groups.keys())
        subtasks = [
            ioi.Scored(
                name,
                scores[name],
                list(dict.fromkeys(test for group in (*requires.get(name, ()), name) for test in groups[group])),
            )
            for name in groups
        ]
        samples = [test.name for test in tests if test.sample]
        if samples:
            subtasks.insert(0, ioi.Scored("examples", Fraction(0), samples))
        ioi.write_tests(draft, cases, subtasks)

    def _scores(self, groups: Sequence[str]) -> dict[str, Fraction]:
        """The points of each group: those of config.yml, else 100 in equal parts, the last ones with one more."""
        points_by_group = self._conf.get("scores")
        if not points_by_group:
            equal_share, extra = divmod(_FULL_SCORE, len(groups))
            order = sorted(groups, key=natural)
            self._draft.report.took(f"{_FULL_SCORE} points in equal parts: config.yml says none")
            return {name: Fraction(equal_share + (place >= len(order) - extra)) for place, name in enumerate(order)}
        if not isinstance(points_by_group, dict):
            raise PackageError(f"{self._where}: scores: expected a mapping of groups to points")
        values = {str(key): value for key, value in points_by_group.items()}
        unmatched = next((name for name in (*groups, *values) if name not in values or name not in groups), None)
        if unmatched is not None:
            lacks = "has no tests in in/" if unmatched in values else "has no points"
            raise PackageError(f"{self._where}: scores: group '{clean(unmatched, 40)}' {lacks}; each group needs both")
        return {name: points(value, f"{self._where}: scores: {clean(name, 40)}") for name, value in values.items()}

    def _requires(self, groups: Any) -> dict[str, list[str]]:
        dependencies = self._conf.get("subtask_dependencies") or {}
        where = f"{self._where}: subtask_dependencies"
        if not isinstance(dependencies, dict) or not all(isinstance(names, list) for names in dependencies.values()):
            raise PackageError(f"{where}: expected lists of groups")
        requirements = {str(key): yamltext.texts_of(dependencies, key) for key in dependencies}
        for name in (name for key, value in requirements.items() for name in (key, *value)):
            if name not in groups:
                raise PackageError(f"{where}: '{clean(name, 40)}' is no group with points")
        return requirements

    def _unmade(self, unanswered: Sequence[_Sio2Test]) -> UnmadeError:
        """The error to raise where outputs are to be made by the model solution, which is called as the problem."""
        model = next((path for path in self._programs("") if path.endswith(_ENDINGS)), None)
        first = f"out/{self._name}{unanswered[0].name}.out"
        if model is None:
            raise PackageError(
                f"{self._tree.where(first)}: is missing, and no prog/{self._name}.cpp or the like makes it"
            )
        plan = Plan(self._tree)
        program = plan.solution(self._draft, testlib.ProgramSource(self._draft.ref(model)))
        for test in unanswered:
            plan.add(MakingStep(program, f"out/{self._name}{test.name}.out", (), f"in/{self._name}{test.name}.in"))
        return plan.refuse(f"{self._tree.label}: still to be made: {several(len(unanswered), 'output')}")

    # --- limits -----------------------------------------------------------------------------------------------------

    def _limits(self, tests: Sequence[_Sio2Test]) -> None:
        for key, target, usual, unit in (
            ("time_limit", "time_limit", _MILLISECONDS, "ms"),
            ("memory_limit", "memory", self._stated_memory() or _KIB, "KiB"),
        ):
            limit = getattr(self._asked, target)
            if limit is not None:
                self._draft.limits[target] = as_number(limit)
                continue
            overall, single = self._conf.get(key), self._conf.get(f"{key}s") or {}
            if not isinstance(single, dict):
                raise PackageError(f"{self._where}: {key}s: expected a mapping of groups or tests to limits")
            limits = {str(name): value for name, value in single.items()}
            usual_here = usual if overall is None else overall
            values = {str(limits.get(test.name, limits.get(test.group, usual_here))): None for test in tests}
            if len(values) > 1:
                option = f"--{target.replace('_', '-')}"
                raise PackageError(
                    f"{self._where}: {key}s: tests have different ones ({', '.join(values)} {unit}), and a test has "
                    f"no limit of its own here; give one for all ({option})"
                )
            value = next(iter(values))
            if not re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", value) or not float(value):
                raise PackageError(f"{self._where}: {key}: '{clean(value, 40)}' is not a number of {unit} above 0")
            number = Fraction(value) / (1000 if unit == "ms" else 1024)
            highest = 600 if unit == "ms" else 65536
            if number > highest:
                raise PackageError(f"{self._where}: {key}: {clean(value, 40)} {unit} is more than a limit may be here")
            self._draft.limits[target] = as_number(float(number)) if unit == "ms" else max(4, -(-number // 1))
            if overall is None and not limits:
                self._draft.report.took(f"{key} {value} {unit}, which SIO2 has where config.yml says none")

    def _stated_memory(self) -> int:
        """The memory limit (KiB) of the statement, which counts there where config.yml has none; 0 for none."""
        path = f"doc/{self._name}zad.tex"
        if path not in self._tree.files:
            return 0
        ram = re.search(r"^[^%\n]{0,200}\\RAM\{([0-9]{1,6})\}", self._draft.text(path), re.MULTILINE)
        mib = int(ram[1]) if ram is not None else 0
        return (mib + (mib + 31) // 32) * 1000

    # --- programs ---------------------------------------------------------------------------------------------------

    def _libraries(self) -> None:
        """Files that submissions are compiled with: sources in C and C++ that are arguments, headers, modules."""
        draft, files = self._draft, self._tree.files
        arguments = self._conf.get("extra_compilation_args") or {}
        if not isinstance(arguments, dict):
            arguments = yamltext.merged({str(arguments): str(arguments)})
        args = {str(language): yamltext.texts_of(arguments, language) for language in arguments}
        names = yamltext.texts_of(self._conf, "extra_compilation_files")
        for language, word in ((language, word) for language, words in args.items() for word in words):
            if language not in {"c", "cpp", "cc"} or f"prog/{word}" not in files:
                raise PackageError(
                    f"{self._where}: extra_compilation_args: '{clean(word, 40)}' changes how submissions are compiled, "
                    "which is not done here; make a package of it"
                )
        sources = {word for words in args.values() for word in words}
        for name in dict.fromkeys([*sorted(sources), *names]):
            path, ending = f"prog/{name}", posixpath.splitext(name)[1].lower()
            if path not in files or "/" in name:
                raise PackageError(f"{self._where}: extra_compilation_files: there is no {clean(path, 60)}")
            compiled = {language for language, words in args.items() if name in words}
            if ending in (".c", ".cpp", ".cc", ".cxx") and name not in sources:
                raise PackageError(
                    f"{self._where}: extra_compilation_files: {clean(name, 60)} would be compiled with submissions, "
                    "and is only beside them there; call it .h, and include it so"
                )
            usual = ["c", "cpp"] if ending in ioi.HEADERS else ["python3"] if ending == ".py" else ["default"]
            for kind in sorted({"cpp" if compiler == "cc" else compiler for compiler in compiled}) or usual:
                draft.put(f"include/{kind}/{name}", draft.ref(path))
        if names or sources:
            draft.report.took(f"{several(len({*names, *sources}), 'file')} that submissions are compiled with")
            languages_with_files = {path.split("/")[1] for path in draft.files if path.startswith("include/")}
            if "default" not in languages_with_files:
                draft.problem["languages"] = sorted(languages_with_files)
                draft.report.dropped("submissions in other languages: there is no library for them")

    def _checker(self) -> None:
        checkers = self._programs("chk")
        path = next((path for path in checkers if path.endswith((".cpp", ".cc", ".c", ".py", ".pas"))), None)
        if not checkers:  # that system compares words, and capitals count
            return
        if path is None:
            reason = "is a checker that is no source in C, C++, Python or Pascal; add that"
            raise PackageError(f"{self._tree.where(checkers[0])}: {reason}")
        ref = self._draft.ref(path)
        # One that includes testlib.h speaks by its exit codes, or as its header has it.
        if path.endswith((".cpp", ".cc")) and testlib.uses_testlib(ref):
            testlib.put_checker(self._draft, testlib.ProgramSource(ref), style=testlib.CMS)
            self._draft.report.took(f"checker {path} (testlib)")
            return
        ioi.put_asked(self._draft, ref, "sio2_wrapper.sh", parts=True)
        self._draft.report.took(f"checker {path}, asked as SIO2 does; a part of the points is one of the group's")

    def _solutions(self) -> dict[str, str]:
        """Solutions by their names: `abc`, `abc2` are right, `abcs1` is slow, `abcb1` is wrong."""
        name = re.compile(rf"{re.escape(self._name)}([bs]?)[0-9]*(?:_.*)?")
        kinds = {"": "accepted", "s": "time_limit_exceeded", "b": "rejected"}
        programs = {}
        for path in self._tree.below("prog"):
            stem, ending = posixpath.splitext(posixpath.basename(path))
            match = name.fullmatch(stem) if ending.lower() in _ENDINGS and path.count("/") == 1 else None
            if match is not None:
                programs[path] = kinds[match[1]]
        return programs

    def _statements(self) -> None:
        stem = re.compile(rf"doc/{re.escape(self._name)}zad(?:-([a-z]{{2}}))?\.pdf")
        for path in self._tree.below("doc"):
            match = stem.fullmatch(path)
            if match is not None:
                ioi.put_statement(self._draft, path, match[1] or "pl")
        if not any(path.startswith("statement/") for path in self._draft.files):
            self._draft.report.dropped(f"a statement: there is no doc/{self._name}zad.pdf")
