"""Tests that generators/generators.yaml makes, as BAPCtools has it: for packages whose data/ was never handed in.

The package is one of the format as it stands; only what is missing below data/sample and data/secret is planned here.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from judge.common import yamltext
from judge.common.errors import PackageError
from judge.common.text import several
from judge.languages.table import guess, load_table
from judge.problems import metadata
from judge.problems.importers import testlib
from judge.problems.importers.draft import Draft, Ref, dump, read
from judge.problems.importers.making import MOST, SOLUTION, MakingStep, Plan, UnmadeError, arguments_of
from judge.problems.programs import substitute
from judge.problems.tree import Tree, clean

SETTINGS = "generators/generators.yaml"
# In the order in which their tests are numbered.
_FOLDERS = ("sample", "secret")
# The name of each test where generators run, and write files themselves.
_STEM = "testcase"
# So many tests are looked at for all `include` together: a few lines may name the same thousands over and over.
_LOOKS = 100 * MOST
# Directories may lie so deep in others.
_DEEP = 20
_GROUPS = frozenset({"testdata.yaml", "test_group.yaml"})
# Keys of these on which points depend, even without tests.
_POINTS = frozenset({
    "max_score", "static_validation_score", "require_pass", "grading", "grader_flags", "accept_score", "reject_score",
    "range", "on_reject",
})  # fmt: skip
# Files of a test that may stand in the settings, or beside the one that is copied.
_SUFFIXES = (
    "in", "ans", "out", "in.statement", "ans.statement", "in.download", "ans.download", "interaction", "yaml", "hint",
    "desc",
)  # fmt: skip
# A mapping with one of the first is a test, any other is a directory.
_OF_TEST = frozenset({"generate", "copy", "count", "match", *_SUFFIXES})
_OF_GROUP = frozenset({"data", "include", *_GROUPS})
_OF_BOTH = frozenset({"solution", "random_salt", "type", "visualizer"})
_OF_ROOT = frozenset({"generators", "version", "gitignore_generated", "parallel"})
# Keys that decide something, and the likeness from which an unknown key is taken for a slip of the pen for one of them.
_DECIDES = sorted({"generate", "copy", "count", "yaml", "solution", "random_salt", *_OF_GROUP})
_SIMILARITY = 0.8
_RANGE = re.compile(r"(-?[0-9]{1,9})\.\.=(-?[0-9]{1,9})")


@dataclass(frozen=True)
class _DirectorySettings:
    """The settings that tests get from the directories that they are in; the innermost says it.

    `solution` makes the answers: "" is the first accepted one, None says that nothing makes them.
    """

    salt: str = ""
    solution: str | None = ""


@dataclass(frozen=True)
class _BapctoolsTest:
    """One test: its path without a suffix, and the command that makes it, what it is copied from, or what it is.

    `links` are files of it that are the same as another one; `at` is where it stands, for people.
    """

    path: str
    at: str
    level: _DirectorySettings
    command: str = ""
    copy: str = ""
    texts: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)

    def has(self, *suffixes: str) -> bool:
        return any(suffix in self.texts or suffix in self.links for suffix in suffixes)


@dataclass
class _DirectoryTests:
    """A directory, with all tests in it and below it so far."""

    path: str
    tests: dict[str, _BapctoolsTest] = field(default_factory=dict)


def is_unmade(tree: Tree) -> bool:
    """Return whether there are no secret tests, but settings that say how they are made."""
    return SETTINGS in tree.files and not any(path.endswith(".in") for path in tree.below("data/secret"))


def unmade(tree: Tree) -> UnmadeError:
    """The error to raise for such a package. PackageError for what is not understood, or is missing itself."""
    return _BapctoolsPlanning(tree).plan()


class _BapctoolsPlanning:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._where = tree.where(SETTINGS)
        self._conf: Mapping[str, Any] = metadata.read(tree.read(SETTINGS, metadata.YAML_BYTES), self._where).value
        self._draft = Draft(tree, "package")
        self._draft.files |= {path: Ref(tree, path) for path in tree.below("include")}
        self._plan = Plan(tree)
        self._solutions: dict[str, str] = {}
        # All tests by the path that they are found under: those of other groups by several.
        self._tests: dict[str, _BapctoolsTest] = {}
        # By the key that `include` names them by.
        self._keys: dict[str, list[_BapctoolsTest | _DirectoryTests]] = {}
        self._most = self._number = self._looks = 0
        self._unknown: set[str] = set()
        data = tree.read("problem.yaml", metadata.YAML_BYTES) if "problem.yaml" in tree.files else b""
        problem = metadata.read(data, tree.where("problem.yaml")).value
        constants = problem.get("constants")
        self._constants = {
            str(name): yamltext.text_of(constant, "value")
            if isinstance(constant, dict)
            else yamltext.text_of(constants, name)
            for name, constant in (constants.items() if isinstance(constants, dict) else ())
            if not isinstance(constant, dict) or "value" in constant
        }
        kinds = f"{problem.get('type', '')} {problem.get('validation', '')}"
        # Nothing prints the answers of these: the validator finds out.
        self._answers = not re.search(r"interactive|multi-?pass", kinds)

    def plan(self) -> UnmadeError:
        data = self._conf.get("data")
        if self._conf.get("include"):
            raise PackageError(f"{self._where}: include: belongs to a directory below data.secret")
        level = self._settings("data", self._conf, _DirectorySettings(), self._where, _OF_ROOT)
        self._most = _numbered(self._conf)
        for folder in _FOLDERS:
            content = data.get(folder) if isinstance(data, dict) else None
            if content is not None:
                self._group(f"data/{folder}", folder, content, level, 0)
        for path, test in self._tests.items():
            if path == test.path:
                self._add(test)
        self._share_all()
        if not any(path.startswith("data/secret/") for path in self._tests):
            raise PackageError(f"{self._where}: data.secret: has no tests; expected some that generators make")
        count = several(len(self._tests), "test")
        return self._plan.refuse(f"{self._tree.label}: {count} of {SETTINGS} still to be made")

    # --- what is listed ----------------------------------------------------------------------------------------------

    def _settings(
        self,
        path: str,
        content: Mapping[Any, Any],
        above: _DirectorySettings,
        where: str,
        more: frozenset[str] = frozenset(),
    ) -> _DirectorySettings:
        """A directory's settings beside its tests; its own settings of the format are written beside them."""
        self._check_keys(content, _OF_GROUP | _OF_BOTH | more, where)
        for name in sorted(_GROUPS & content.keys()):
            if isinstance(content[name], dict) and content[name]:
                self._plan.texts[f"{path}/{name}"] = dump(content[name])
            elif content[name]:
                raise PackageError(f"{where}: {name}: expected a mapping of settings")
        return _level_of(content, above, where)

    def _check_keys(self, content: Mapping[Any, Any], allowed_keys: frozenset[str], where: str) -> None:
        """Say which keys are left alone; PackageError for a misspelt one, as verdicts may depend on it."""
        for name in _unknown_keys(content, allowed_keys, where):
            if name not in self._unknown and len(self._unknown) < _DEEP:
                self._unknown.add(name)
                self._plan.notes.append((False, f"{where}: {name}: is no key that is known here, and is left alone"))

    def _group(self, path: str, key: str, content: Any, above: _DirectorySettings, deep: int) -> _DirectoryTests:
        where = f"{self._where}: {clean(path.removeprefix('data/'), 60)}"
        if not isinstance(content, dict) or _is_test(content) or deep > _DEEP:
            raise PackageError(f"{where}: expected a mapping with 'data'")
        level = self._settings(path, content, above, where)
        group = _DirectoryTests(path)
        self._keys.setdefault(key, []).append(group)
        # Before the directory's own: it can only have others.
        members = self._included(content.get("include"), where)
        parts = _parts_of(content.get("data"), where)
        is_list = isinstance(content.get("data"), list)
        groups = sum(isinstance(entry, dict) and not _is_test(entry) for part in parts for entry in part.values())
        number = 0
        for part in parts:
            for raw in sorted(part, key=lambda entry_key: "" if entry_key is None else str(entry_key)):
                name, entry = "" if raw is None else str(raw), part[raw]
                if _is_test(entry):
                    for test in self._entry_tests(path, name, entry, level, where, is_list=is_list):
                        group.tests[test.path] = test
                    continue
                _check_group(entry, f"{where}: {clean(name, 40)}")
                number += 1
                full = self._name(_prefixed(number, groups, name) if is_list else name, where)
                group.tests |= self._group(f"{path}/{full}", name, entry, level, deep + 1).tests
        for test in members:
            self._know(f"{path}/{posixpath.basename(test.path)}", test, where)
            group.tests[test.path] = test
        if not group.tests and not _has_points(content):
            # They would be for nothing, and a package is asked for the tests that they are for.
            for name in _GROUPS:
                self._plan.texts.pop(f"{path}/{name}", None)
        return group

    def _included(self, include: Any, where: str) -> list[_BapctoolsTest]:
        """The tests of `include`: each entry is the key of one test, or of one directory, that stands before it."""
        tests: list[_BapctoolsTest] = []
        for key in include if isinstance(include, list) else [] if include is None else [include]:
            candidates = self._keys.get(str(key), []) if isinstance(key, str | int) else []
            name = clean(str(key), 40)
            if not candidates:
                raise PackageError(
                    f"{where}: include: '{name}' is not the key of a test or directory that stands before it"
                )
            if len(candidates) > 1:
                raise PackageError(f"{where}: include: '{name}' is the key of several; give each a key of its own")
            entry = candidates[0]
            tests += [entry] if isinstance(entry, _BapctoolsTest) else entry.tests.values()
            self._looks += len(tests)
            if self._looks > _LOOKS:
                raise PackageError(f"{where}: include: is too much; include fewer directories of so many tests")
        return tests

    def _know(self, path: str, test: _BapctoolsTest, where: str) -> None:
        """Have a test at a path. PackageError for two there, and for too many."""
        if self._tests.setdefault(path, test).path != test.path:
            previous_path = clean(self._tests[path].path, 60)
            raise PackageError(
                f"{where}: {clean(test.path, 60)} and {previous_path} are both to be {clean(path, 60)}; rename one"
            )
        if len(self._tests) > MOST:
            raise PackageError(f"{self._where}: has more than {MOST} tests; remove some")

    def _name(self, name: str, where: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,254}", name):
            raise PackageError(f"{where}: '{clean(name, 40)}' is not the name of a test or directory")
        return name

    def _entry_tests(
        self, folder: str, key: str, entry: Any, level: _DirectorySettings, where: str, *, is_list: bool
    ) -> Iterator[_BapctoolsTest]:
        """The tests of one entry, as many as its `count` says. Each of several has a name and a seed of its own."""
        at = f"{where}: {clean(key, 40)}" if key else where
        values = _values_of(entry, at)
        case = self._test(entry, level, at, sample=folder.startswith("data/sample"))
        # Values that follow one another have as many digits.
        follow = values is not None and max(values) - min(values) == len(values) - 1
        width = max(len(str(value)) for value in values) if values is not None and follow else 0
        for value in [1] if values is None else values:
            name, command = key, case.command
            if is_list:
                self._number += 1
                name = _prefixed(self._number, self._most, key)
            if values is not None:
                name += f"-{value:0{width}d}"
                command = command.replace("{count}", str(value))
            elif "{count}" in command:
                self._plan.notes.append((False, f"{at}: has {{count}} in its command, and no 'count'; it stays so"))
            # The first keeps the seed that it had alone.
            salt = case.level.salt if value == 1 else f"{case.level.salt}:{value - 1}"
            path = f"{folder}/{self._name(name, where)}"
            if path in self._tests:
                raise PackageError(f"{where}: there are two tests {clean(path, 60)}; rename one")
            test = replace(case, path=path, command=command, level=replace(case.level, salt=salt))
            self._know(path, test, where)
            self._keys.setdefault(key, []).append(test)
            yield test

    def _test(self, entry: Any, above: _DirectorySettings, at: str, *, sample: bool) -> _BapctoolsTest:
        """The test of one entry. One without anything is written by hand: it is there."""
        if entry is None:
            return _BapctoolsTest("", at, above)
        if isinstance(entry, str):
            entry = {"copy": entry.removesuffix(".in")} if entry.endswith(".in") else {"generate": entry}
        if conflicting := sorted(_OF_GROUP & entry.keys()):
            raise PackageError(f"{at}: has '{conflicting[0]}' of a directory, and keys of a test; give it those of one")
        self._check_keys(entry, _OF_TEST | _OF_BOTH, at)
        texts, links = _files_of(entry, at)
        # The seed is made of the command with the constants in it.
        command = substitute(_text_of(entry, "generate", at).encode(), self._constants).decode()
        copied = _text_of(entry, "copy", at)
        test = _BapctoolsTest("", at, _level_of(entry, above, at), command, copied, texts, links)
        has_sample = sample and test.has("in.statement", "interaction")
        if not command and not copied and "in" not in texts and not has_sample:
            raise PackageError(f"{at}: has none of 'generate', 'copy' and 'in'")
        return test

    # --- what makes them ---------------------------------------------------------------------------------------------

    def _add(self, test: _BapctoolsTest) -> None:
        plan, input_path, answer = self._plan, f"{test.path}.in", f"{test.path}.ans"
        exists = {input_path, answer} <= self._tree.files.keys()
        for suffix, text in test.texts.items():
            if not exists or f"{test.path}.{suffix}" not in self._tree.files:
                plan.texts[f"{test.path}.{suffix}"] = text
        if exists:
            return
        if test.copy:
            self._copy(test)
        steps: list[MakingStep] = []
        if test.command and not self._has(input_path):
            steps.append(self._generate(test, input_path))
        if not steps and not self._has(input_path) and input_path not in self._tree.files:
            if test.copy or test.texts or test.links:
                # It is only shown, not judged.
                return
            raise PackageError(
                f"{test.at}: says nothing, so {clean(input_path, 60)} must be in the package; hand it in as well"
            )
        # An answer that was handed in belongs to an input that was.
        if not self._has(answer) and (steps or self._has(input_path) or answer not in self._tree.files):
            steps = self._answered(test, steps, input_path, answer)
        plan.add(*steps)

    def _has(self, path: str) -> bool:
        """Return whether a file needs no program."""
        return path in self._plan.texts or path in self._plan.copies

    def _answered(
        self, test: _BapctoolsTest, steps: Sequence[MakingStep], input_path: str, answer: str
    ) -> list[MakingStep]:
        """The steps with what makes the answer: the generator if it writes one as well, else a solution."""
        if not steps:
            if self._answers:
                return [self._answer(test, input_path, answer)]
            self._plan.texts[answer] = b""
            return []
        if not self._answers:
            return [replace(steps[0], answer=answer, unmade_reason="empty")]
        if test.level.solution is None:
            return [replace(steps[0], answer=answer, unmade_reason="refused")]
        return [replace(steps[0], answer=answer), replace(self._answer(test, input_path, answer), spare=True)]

    def _share_all(self) -> None:
        """Have the files of tests in each other group that they are in, and those that are the same as another."""
        products = {file for steps in self._plan.tests for step in steps for file in step.products}
        for path, test in self._tests.items():
            for suffix in _SUFFIXES if path != test.path else ():
                self._share(f"{test.path}.{suffix}", f"{path}.{suffix}", products)
            for suffix, target_suffix in test.links.items():
                self._share(f"{test.path}.{target_suffix}", f"{path}.{suffix}", products)

    def _share(self, source: str, target: str, products: set[str]) -> None:
        """Have a file under another name as well, wherever it comes from."""
        plan = self._plan
        if target in self._tree.files or self._has(target):
            return
        if source in plan.texts:
            plan.texts[target] = plan.texts[source]
        elif source in plan.copies:
            plan.copies[target] = plan.copies[source]
        elif source in products:
            plan.repeats[target] = source
        elif source in self._tree.files:
            plan.copies[target] = source

    def _copy(self, test: _BapctoolsTest) -> None:
        base = posixpath.normpath(posixpath.join("generators", test.copy.lstrip("/")))
        suffixes = [suffix for suffix in _SUFFIXES if f"{base}.{suffix}" in self._tree.files]
        has_sample = test.path.startswith("data/sample/") and {*suffixes} & {"in.statement", "interaction"}
        if "in" not in suffixes and not test.command and not test.has("in") and not has_sample:
            raise PackageError(f"{test.at}: copy: there is no {clean(base, 80)}.in in the package")
        for suffix in suffixes:
            self._plan.copies[f"{test.path}.{suffix}"] = f"{base}.{suffix}"

    def _generate(self, test: _BapctoolsTest, input_path: str) -> MakingStep:
        digest = hashlib.sha512((test.level.salt + test.command).encode()).hexdigest()
        seed = str(int(digest, 16) % 2**31)
        filled = re.sub(r"\{seed(?::[0-9]+)?\}", seed, test.command)
        filled = filled.replace("{name}", _STEM)
        name, *arguments = arguments_of(filled, test.at)
        key = f"generator {name}"
        if key not in self._plan.programs:
            self._fill(self._plan.program(self._draft, key, self._generator(name, test.at)))
        return MakingStep(key, input_path, tuple(arguments), stem=_STEM)

    def _fill(self, key: str) -> str:
        """Put the constants of problem.yaml into a program's files, as it is done with others; returns its key."""
        program = self._plan.programs[key]
        if self._constants:
            files = {name: substitute(read(content), self._constants) for name, content in program.files.items()}
            self._plan.programs[key] = replace(program, files=files)
        return key

    def _generator(self, name: str, at: str) -> testlib.ProgramSource:
        """A generator: the files that `generators` lists, of which the first starts it, a file, or a folder."""
        files, base = self._tree.files, posixpath.normpath(posixpath.join("generators", name.lstrip("/")))
        generators = self._conf.get("generators")
        source_paths = generators.get(name) if isinstance(generators, dict) else None
        if source_paths is not None and not isinstance(source_paths, list):
            raise PackageError(f"{self._where}: generators: {clean(name, 40)}: expected a list of the program's files")
        paths = [posixpath.normpath(posixpath.join("generators", str(part))) for part in source_paths or ()]
        languages = load_table()
        if paths:
            if missing_path := next((path for path in paths if path not in files), ""):
                raise PackageError(
                    f"{self._where}: generators: {clean(name, 40)}: {clean(missing_path, 80)} is not in the package"
                )
            main = next((path for path in paths if guess(path, languages)), None)
            program = self._program(main, paths) if main is not None else None
        elif base in files and guess(base, languages):
            program = self._program(base)
        else:
            matches = (path for path in sorted(files) if posixpath.splitext(path)[0] == base and guess(path, languages))
            program = self._folder(base)
            if program is None and (path := next(matches, None)) is not None:
                program = self._program(path)
        if program is None:
            raise PackageError(f"{at}: '{clean(name, 60)}': there is no such program in generators/")
        return program

    def _folder(self, base: str) -> testlib.ProgramSource | None:
        """A program that is a folder of files; None where there is none."""
        languages = load_table()
        paths = [path for path in sorted(self._tree.files) if posixpath.dirname(path) == base]
        sources = [path for path in paths if guess(path, languages)]
        stems = (posixpath.basename(base), "main", "__main__")
        main = next((path for path in sources if posixpath.splitext(path)[0].rpartition("/")[2] in stems), None)
        return self._program(main or sources[0], paths) if sources else None

    def _program(self, main: str, paths: Sequence[str] = ()) -> testlib.ProgramSource:
        references = (Ref(self._tree, path) for path in paths if path != main)
        return testlib.ProgramSource(Ref(self._tree, main), more=tuple(references))

    def _answer(self, test: _BapctoolsTest, input_path: str, answer: str) -> MakingStep:
        """The step that makes the answer: by the submission that is named, with arguments, or the first accepted."""
        command = test.level.solution
        if command is None:
            raise PackageError(
                f"{test.at}: solution: is empty, so nothing makes {clean(answer, 60)}; name a submission, or give 'ans'"
            )
        name, *arguments = arguments_of(command, f"{test.at}: solution") if command else [""]
        if name not in self._solutions:
            self._solutions[name] = self._solution(name, test.at)
        return MakingStep(self._solutions[name], answer, tuple(arguments), input_path)

    def _solution(self, name: str, at: str) -> str:
        """Have a program that makes answers; its key. PackageError."""
        path = posixpath.normpath(name.lstrip("/") if name.startswith("/") else f"generators/{name}")
        if not name:
            languages = load_table()
            candidates = [file for file in self._tree.below("submissions/accepted") if file.count("/") == 2]
            path = next((candidate for candidate in sorted(candidates) if guess(candidate, languages)), "")
        source = self._program(path) if path in self._tree.files else self._folder(path)
        if source is None:
            fault = (
                f"'{clean(name, 60)}' is not in the package" if name else "there is no accepted submission of one file"
            )
            raise PackageError(f"{at}: solution: {fault}; it makes the answers")
        key = f"{SOLUTION} {path}"
        if source.more:
            return self._fill(self._plan.program(self._draft, key, source))
        return self._fill(
            self._plan.solution(self._draft, source, key if SOLUTION in self._plan.programs else SOLUTION)
        )


# --- entries of the settings -----------------------------------------------------------------------------------------


def _is_test(entry: Any) -> bool:
    """Return whether an entry is a test; of mappings the keys say it."""
    return entry is None or isinstance(entry, str) or (isinstance(entry, dict) and bool(_OF_TEST & entry.keys()))


def _check_group(entry: Any, at: str) -> None:
    """PackageError for what is neither a test nor a directory, of which it may be a slip of the pen."""
    if not isinstance(entry, dict):
        raise PackageError(f"{at}: expected a command, or a mapping")
    if entry.get("type") == "testcase" or (entry and not entry.keys() & (_OF_GROUP | _OF_BOTH)):
        raise PackageError(f"{at}: has none of 'generate', 'copy' and 'in' of a test, and is no directory with 'data'")


def _has_points(content: Mapping[Any, Any]) -> bool:
    """Return whether the settings of a directory say something of points."""
    return any(key in _POINTS and value for name in _GROUPS for key, value in (content.get(name) or {}).items())


def _unknown_keys(content: Mapping[Any, Any], allowed_keys: frozenset[str], where: str) -> Iterator[str]:
    """The keys that are not known. PackageError for one that is alike to one that decides something."""
    for key in sorted(str(key)[:40] for key in content.keys() - allowed_keys):
        suggestions = difflib.get_close_matches(key, _DECIDES, n=1, cutoff=_SIMILARITY)
        if suggestions:
            raise PackageError(
                f"{where}: '{clean(key, 40)}' is no key that is known here; did you mean {suggestions[0]}?"
            )
        yield clean(key, 40)


def _level_of(content: Mapping[Any, Any], above: _DirectorySettings, where: str) -> _DirectorySettings:
    """The settings that are inherited, with those of one more directory, or of a test. PackageError."""
    salt, solution = content.get("random_salt"), content.get("solution", above.solution)
    if isinstance(salt, list | dict):
        raise PackageError(f"{where}: random_salt: expected text, on which all seeds depend")
    if salt is not None:
        salt = yamltext.text_of(content, "random_salt")
    if solution is not None and not isinstance(solution, str):
        raise PackageError(f"{where}: solution: expected the path of a submission, such as /submissions/accepted/a.py")
    if "solution" in content and not (solution or "").strip():
        solution = None
    return _DirectorySettings(above.salt if salt is None else salt, solution)


def _parts_of(data: Any, where: str) -> list[dict[Any, Any]]:
    """The mappings of `data`: one, or those of a list. PackageError."""
    parts = data if isinstance(data, list) else [] if data is None else [data]
    if not all(isinstance(part, dict) for part in parts):
        raise PackageError(f"{where}: data: expected a mapping of tests and directories, or a list of such")
    return parts


def _values_of(entry: Any, at: str) -> Sequence[int] | None:
    """The values that `count` gives a test, one for each of several; None without it. PackageError."""
    count = entry.get("count") if isinstance(entry, dict) else None
    if count is None:
        return None
    numbers: Sequence[int] = ()
    if isinstance(count, int) and not isinstance(count, bool):
        numbers = range(1, min(count, MOST + 1) + 1)
    elif isinstance(count, str) and (match := _RANGE.fullmatch(count)):
        numbers = range(int(match[1]), int(match[2]) + 1)
    elif isinstance(count, list) and all(
        isinstance(number, int) and not isinstance(number, bool) and abs(number) < 10**9 for number in count
    ):
        numbers = count
    if not 1 <= len(numbers) <= MOST or len(set(numbers)) < len(numbers):
        raise PackageError(
            f"{at}: count: expected from 1 to {MOST} tests: their number, a list of different numbers, or a range "
            "such as 3..=7"
        )
    return numbers


def _numbered(content: Any, deep: int = 0) -> int:
    """The number of tests in lists: these are numbered through all directories, all with as many digits."""
    data = content.get("data") if isinstance(content, dict) and deep <= _DEEP + 1 else None
    number = 0
    for part in data if isinstance(data, list) else [data]:
        for entry in part.values() if isinstance(part, dict) else ():
            if not _is_test(entry):
                number += _numbered(entry, deep + 1)
            elif isinstance(data, list):
                # A fault there is told later, with its name.
                with contextlib.suppress(PackageError):
                    number += len(_values_of(entry, "") or [1]) - 1
                number += 1
    return number


def _prefixed(number: int, most: int, name: str) -> str:
    return "-".join(part for part in (f"{number:0{len(str(most))}d}", name) if part)


def _text_of(entry: Mapping[Any, Any], key: str, at: str) -> str:
    """A command or path of a test, "" where there is none. PackageError."""
    value = entry.get(key)
    if value is not None and not isinstance(value, str | int | float):
        raise PackageError(f"{at}: {key}: expected text, found {yamltext.kind_of(value)}; put it in quotes")
    return "" if value is None else yamltext.text_of(entry, key).strip()


def _files_of(entry: Mapping[Any, Any], at: str) -> tuple[dict[str, bytes], dict[str, str]]:
    """The files of a test that stand in the settings, and those that are the same as another. PackageError."""
    texts: dict[str, bytes] = {}
    links: dict[str, str] = {}
    for key in _SUFFIXES:
        value = entry.get(key)
        if isinstance(value, dict) and key == "yaml":
            texts[key] = dump(value)
        elif isinstance(value, dict) and "." in key and value.keys() == {"link"}:
            links[key] = str(value["link"])
            if links[key] not in {suffix for suffix in _SUFFIXES if suffix.split(".")[0] == key.split(".")[0]} - {key}:
                raise PackageError(f"{at}: {key}: link: '{clean(links[key], 40)}' is not a file that it may be")
        elif isinstance(value, str | int | float):
            text = yamltext.text_of(entry, key)
            texts[key] = (text if not text or text.endswith("\n") else text + "\n").encode()
        elif value is not None:
            raise PackageError(f"{at}: {key}: expected text, found {yamltext.kind_of(value)}; put it in quotes")
    return texts, links
