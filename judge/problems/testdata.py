"""The tests of a package and how they are grouped: everything below `data/` (docs/problems-format.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from judge.common import yamltext
from judge.common.errors import PackageError
from judge.model.problem import LegacyGroup, ProblemTest, StaticTest, TestGroup
from judge.problems import metadata
from judge.problems.programs import substitute
from judge.problems.reading import groups, settings
from judge.problems.reading.findings import Findings
from judge.problems.reading.formats import DOMJUDGE, DRAFT, Dialect
from judge.problems.tree import Tree, clean, is_file_name

MAX_TESTS = 5000
SAMPLE_FOLDER, SECRET_FOLDER = "data/sample", "data/secret"
FILES = ".files"
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
# Files that make tests, in packages that keep none.
_GENERATORS = re.compile(r"^(?:generators/.+|data/(?:.*/)?gen[^/]*\.(?:sh|py|cpp|bash))$", re.MULTILINE)
# What looks like a file of a test.
_NEARLY = re.compile(r"\.(in|ans)(?:\.txt)?$", re.IGNORECASE)


@dataclass(frozen=True)
class _Inherited:
    """The settings that a test gets from the folders above it. `place` is the file that set the flags, for people."""

    flags: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    inputs: tuple[str, ...] | Mapping[str, tuple[str, ...]] = ()
    place: str = "problem.yaml"
    legacy: Mapping[str, object] = field(default_factory=dict)


@dataclass
class TestData:
    """All tests in judging order, the groups of either format, and where each list of validator flags was set."""

    __test__ = False  # not a pytest class

    tests: list[ProblemTest] = field(default_factory=list)
    groups: list[TestGroup] = field(default_factory=list)
    graders: list[LegacyGroup] = field(default_factory=list)
    statics: list[StaticTest] = field(default_factory=list)
    flags: dict[tuple[str, ...], str] = field(default_factory=dict)


def group_files(tree: Tree) -> list[str]:
    return [path for path in tree.below("data") if path.rpartition("/")[2] in {"testdata.yaml", "test_group.yaml"}]


def odd_names(paths: Iterable[str]) -> dict[str, str]:
    """Files and folders of samples and secret tests by whose names their author may mean more than is read. Pure."""
    faults: dict[str, str] = {}
    for path in paths:
        parts = path.split("/")
        if not path.startswith((f"{SAMPLE_FOLDER}/", f"{SECRET_FOLDER}/")) or any(
            part.endswith(FILES) for part in parts
        ):
            continue
        if (ending := _NEARLY.search(path)) is not None and ending[0] not in {".in", ".ans"}:
            faults[path] = f"is no test, as its name ends with {ending[0]}; let it end with .{ending[1].lower()}"
        for index, part in enumerate(parts):
            if part.startswith("-") and (index < len(parts) - 1 or part.endswith(".in")):
                faults["/".join(parts[: index + 1])] = "begins with '-'; the format wants a letter or a digit first"
    return faults


class TestDataReader:
    """Reads everything below `data/`; faults go to `findings`.

    `names` are what flags may call input validators, by what these are called; `blob` notes a file: its hash.
    """

    __test__ = False  # not a pytest class

    def __init__(
        self,
        tree: Tree,
        yaml: metadata.ProblemYaml,
        dialect: Dialect,
        names: Mapping[str, str],
        blob: Callable[[str], str],
        findings: Findings,
    ) -> None:
        self._tree = tree
        self._yaml = yaml
        self._dialect = dialect
        self._names = names
        self._blob = blob
        self._findings = findings
        self._data = TestData()
        self._said_out = False
        self._default_flags = tuple(metadata.split(yaml.validator_flags, dialect))
        # DOMjudge's groups are the folders with settings; the others between them and the root are needed, too.
        self._above = {"data", SECRET_FOLDER}
        for path in group_files(tree):
            self._above |= {str(folder) for folder in PurePosixPath(path).parents}
        # problemtools reads testdata.yaml with the legacy grader's keys in drafts, too.
        is_draft = yaml.format.name == DRAFT
        self._legacy = yaml.legacy or (is_draft and any(self._is_graded(path) for path in group_files(tree)))

    def _is_graded(self, path: str) -> bool:
        try:
            document = metadata.read(self._tree.read(path, metadata.YAML_BYTES), self._tree.where(path))
        except PackageError:
            return False
        return settings.graded(document.value)

    def read(self) -> TestData:
        """Samples, then secret tests, each folder in name order; then the rules of scoring.

        PackageError where reading on makes no sense.
        """
        top = self._enter("data", _Inherited())
        for folder, sample in ((SAMPLE_FOLDER, True), (SECRET_FOLDER, False)):
            for test in self._folder(folder, self._tree.below(folder), top, sample=sample):
                self._data.tests.append(test)
                if len(self._data.tests) > MAX_TESTS:
                    raise PackageError(f"{self._tree.where('data')}: has more than {MAX_TESTS} tests; join some")
        if not any(not test.sample for test in self._data.tests) and not self._data.statics:
            where = self._tree.where(SECRET_FOLDER)
            only_warn = self._dialect == DOMJUDGE and self._data.tests and not self._yaml.scoring
            report = self._findings.warning if only_warn else self._findings.error
            only = ", so the samples alone are judged" if only_warn else ""
            report(f"{where}: has no tests{only}; expected pairs of files NAME.in and NAME.ans{self._hint()}")
        if self._legacy and not self._yaml.scoring and not groups.decisive(self._data.graders):
            self._data.graders = []
        elif not self._legacy and self._yaml.scoring:
            with self._findings.caught():
                if self._yaml.format.name == DRAFT:
                    self._data.groups = groups.shared(self._data.groups, self._where)
                data = self._data
                groups.check(data.groups, data.tests, data.statics, self._where, self._findings.warning)
        return self._data

    def _hint(self) -> str:
        """The probable source of the tests of a package that has none."""
        match = _GENERATORS.search("\n".join(sorted(self._tree.files)))
        return f"; run its generators first ({clean(match[0], 60)}), which is not done here" if match else ""

    def _where(self, group: str) -> str:
        return self._tree.where(f"data/{group}/{self._yaml.format.groups[0]}")

    # --- folders -------------------------------------------------------------------------------------------------

    def _raw(self, path: str) -> tuple[Any, str] | None:
        """A settings file's document with the constants put in, and its name for people; None when it is unreadable."""
        where = self._tree.where(path)
        # gen.sh repeats keys, and the legacy format's tools take the last one.
        repeats: list[str] | None = [] if self._legacy else None
        with self._findings.caught():
            data = substitute(self._tree.read(path, metadata.YAML_BYTES), self._yaml.constants)
            document = metadata.read(data, where, repeats)
            for sentence in repeats or ():
                self._findings.warning(f"{sentence}; the last one counts, as for Kattis")
            return document, where
        return None

    def _group_file(self, folder: str) -> str | None:
        """The file that configures a folder: by the version's own name, else by another's."""
        expected, alternative = (f"{folder}/{name}" for name in self._yaml.format.groups)
        if expected in self._tree.files:
            if alternative in self._tree.files:
                self._findings.warning(
                    f"{self._tree.where(alternative)}: is left alone, as {expected.rpartition('/')[2]} is beside it"
                )
            return expected
        if alternative not in self._tree.files:
            return None
        version = self._yaml.format
        if version.name != DRAFT and self._dialect != DOMJUDGE:
            where = self._tree.where(alternative)
            sentence = f"is called {version.groups[0]} in format {version.name}; it is read all the same"
            self._findings.warning(f"{where}: {sentence}")
        return alternative

    def _enter(self, folder: str, above: _Inherited) -> _Inherited:
        """Apply a folder's own settings file to what it inherits, and note the folder's group."""
        path = self._group_file(folder)
        source = None if path is None else self._raw(path)
        if self._legacy:
            return self._enter_legacy(folder, above, source, path or "")
        settings_source = metadata.SettingsSource(settings.TestSettings(), "", {})
        if source is not None:
            settings_source = self._current(*source)
            self._check_settings(folder, settings_source)
        self._note_group(folder, settings_source)
        return self._changed(above, settings_source.settings, path or "")

    def _current(self, document: Any, where: str) -> metadata.SettingsSource[settings.TestSettings]:
        value = document.value
        with self._findings.caught():
            value, sentences = settings.current(document.value, where)
            for sentence in sentences if self._yaml.format.name != DRAFT else ():
                self._findings.warning(f"{where}: {sentence}")
        return metadata.load(settings.TestSettings, replace(document, value=value), self._findings)

    def _enter_legacy(self, folder: str, above: _Inherited, source: tuple[Any, str] | None, path: str) -> _Inherited:
        inherited = above
        own_score = False
        if source is not None:
            document, where = source
            older = metadata.load(settings.LegacyTestSettings, _older(document), self._findings)
            keys = {key: getattr(older.settings, key) for key in older.settings.model_fields_set}
            own_score = keys.get("accept_score") is not None
            misplaced = sorted(keys.keys() & {"accept_score", "reject_score", "range"})
            if misplaced and not self._yaml.scoring:
                self._findings.error(
                    f"{older.at(misplaced[0])}: {misplaced[0]}: is for scoring problems; say type: scoring"
                )
            # DOMjudge's groups stand for themselves.
            previous_keys = {} if self._dialect == DOMJUDGE else above.legacy
            inherited = replace(above, legacy={**previous_keys, **keys})
            if "output_validator_flags" in keys:
                flags = self._output_flags(keys["output_validator_flags"], older.at("output_validator_flags"))
                inherited = replace(inherited, flags=tuple(flags), place=path)
            if "input_validator_flags" in keys:
                inherited = replace(inherited, inputs=self._input_flags(keys["input_validator_flags"]))
        if source is not None or self._dialect != DOMJUDGE or folder in self._above:
            # A fault that is inherited has been complained of above.
            unknown = self._findings.warning if source is not None else lambda _: None
            where = self._tree.where(path or "data/testdata.yaml")
            name = folder.removeprefix("data").strip("/")
            group = groups.grader(name, inherited.legacy, self._yaml.grading, where, unknown)
            self._data.graders.append(group.model_copy(update={"own_score": own_score}))
        return inherited

    def _output_flags(self, value: Any, where: str) -> list[str]:
        """Flags of all output validators; those for one by its name go to all of them, as there is one, mostly."""
        flags = settings.by_validator(value, self._dialect)
        if isinstance(flags, list):
            return flags
        self._findings.warning(f"{where}: output_validator_flags: names a validator; its flags go to all of them")
        return next(iter(flags.values()), [])

    def _input_flags(self, value: Any) -> tuple[str, ...] | dict[str, tuple[str, ...]]:
        """Flags of all input validators, or of each by its name."""
        by_name = settings.by_validator(value, self._dialect)
        if isinstance(by_name, list):
            return tuple(by_name)
        return {self._names.get(name, name): tuple(flags) for name, flags in by_name.items()}

    def _folder(self, folder: str, paths: Sequence[str], above: _Inherited, *, sample: bool) -> Iterator[ProblemTest]:
        """The tests of one folder; tests and folders in it take turns by name. `paths` are all files below it."""
        if not paths:
            return
        prefix = folder + "/"
        suffixes_by_base: dict[str, set[str]] = {}
        folders: dict[str, list[str]] = {}
        for path in paths:
            first, slash, _ = path.removeprefix(prefix).partition("/")
            if slash:
                folders.setdefault(first, []).append(path)
            elif first.endswith((".in", ".ans", ".out")):
                base, _, suffix = first.rpartition(".")
                if suffix == "out" and not self._answers(path.removesuffix(".out")):
                    continue
                if self._fits(path, first):
                    suffixes_by_base.setdefault(base, set()).add(suffix)
        files = {} if self._yaml.legacy else self._files(suffixes_by_base, folders)
        inherited = self._enter(folder, above)
        self._check_shape(folder, suffixes_by_base, folders)
        for name in sorted(suffixes_by_base.keys() | folders.keys()):
            if name in suffixes_by_base:
                with self._findings.caught():
                    yield from self._test(
                        prefix + name, suffixes_by_base[name], files.get(name, []), inherited, sample=sample
                    )
            if name in folders:
                yield from self._folder(prefix + name, folders[name], inherited, sample=sample)

    def _answers(self, base: str) -> bool:
        """Return whether NAME.out is an answer: without NAME.ans. DOMjudge knows no such thing beside real answers."""
        files = self._tree.files
        if base + ".in" not in files or base + ".ans" in files:
            return False
        return self._dialect != DOMJUDGE or not any(path.endswith(".ans") for path in self._tree.below("data"))

    def _fits(self, path: str, name: str) -> bool:
        """Whether a test may be called so. Format 2025-09 wants others to be treated as if they were not there."""
        if _FILE_NAME.fullmatch(name):
            return True
        sentence = f"{self._tree.where(path)}: a test's name should be of letters, digits and _ . -"
        is_accepted = self._yaml.legacy and name.isprintable()
        self._findings.warning(sentence if is_accepted else f"{sentence}; it is left out")
        return is_accepted

    def _files(self, tests: dict[str, set[str]], folders: dict[str, list[str]]) -> dict[str, list[str]]:
        """The files of NAME.files/ by the test's name; they are no folders of tests."""
        names = [name for name in folders if name.endswith(FILES)]
        file_folders = {name.removesuffix(FILES): folders.pop(name) for name in names}
        for name, paths in file_folders.items():
            if name not in tests:
                self._findings.warning(
                    f"{self._tree.where(paths[0])}: belongs to test {name}, which has neither input nor answer"
                )
        return file_folders

    def _check_shape(self, folder: str, tests: Mapping[str, object], folders: Mapping[str, object]) -> None:
        if self._legacy:
            return
        # The grouping of tests decides nothing where nothing is scored.
        report = self._findings.error if self._yaml.scoring else self._findings.warning
        ambiguous = sorted(tests.keys() & folders.keys())
        if ambiguous:
            report(f"{self._tree.where(f'{folder}/{ambiguous[0]}')}: is both a test and a folder; rename one")
        if folder == SECRET_FOLDER and tests and folders:
            name = self._yaml.format.name
            report(f"{self._tree.where(folder)}: has both tests and groups of tests; format {name} allows one of them")

    def _test(
        self, base: str, suffixes: set[str], files: Sequence[str], inherited: _Inherited, *, sample: bool
    ) -> Iterator[ProblemTest]:
        """One pair of files, with all that goes with them; nothing where it is left out."""
        if not self._complete(base, suffixes, files):
            return
        source = None if self._yaml.legacy or base + ".yaml" not in self._tree.files else self._raw(base + ".yaml")
        if source is not None:
            settings_source = self._current(*source)
            for key in sorted(settings_source.settings.model_fields_set & set(settings.SCORING_KEYS)):
                self._findings.error(
                    f"{settings_source.at(key)}: {key}: belongs to a group's test_group.yaml, not to a test"
                )
            inherited = self._changed(inherited, settings_source.settings, base + ".yaml")
        flags = (*self._default_flags, *inherited.flags)
        self._data.flags.setdefault(flags, inherited.place)
        yield ProblemTest(
            name=base.removeprefix("data/"),
            input=self._blob(base + ".in" if "in" in suffixes else ""),
            answer=self._blob(next((f"{base}.{suffix}" for suffix in ("ans", "out") if suffix in suffixes), "")),
            sample=sample,
            flags=list(flags),
            args=list(inherited.args),
            files=self._inner(base + FILES, files),
            input_flags=self._inputs(inherited),
        )

    def _inputs(self, inherited: _Inherited) -> list[str] | dict[str, list[str]]:
        """The arguments of input validators: their flags and, in the newer formats, the submission's arguments."""
        args = () if self._yaml.legacy else inherited.args
        if isinstance(inherited.inputs, tuple):
            return [*inherited.inputs, *args]
        return {name: [*flags, *args] for name, flags in inherited.inputs.items()}

    def _complete(self, base: str, suffixes: set[str], files: Sequence[str]) -> bool:
        """Return whether there is a test by this name. DOMjudge leaves out what is half a test."""
        if suffixes >= {"in", "ans"}:
            return True
        if "out" in suffixes:
            if not self._said_out:
                self._findings.warning(f"{self._tree.where(base + '.out')}: is read as the answer, as there is no .ans")
            self._said_out = True
            return True
        if "ans" not in suffixes:
            where, lacks = self._tree.where(base + ".in"), f"has no answer; expected {base}.ans beside it"
        else:
            where, lacks = self._tree.where(base + ".ans"), f"is an answer without input; expected {base}.in"
        if self._dialect == DOMJUDGE:
            self._findings.warning(f"{where}: {lacks}; the test is left out, as DOMjudge does")
            return False
        if "ans" not in suffixes and self._yaml.traits.needs_validator:
            self._findings.warning(f"{where}: {lacks}; the problem's validator gets an empty one")
            return True
        if "in" not in suffixes and files:
            self._findings.warning(f"{where}: {lacks}; the input is empty, and the files are beside the program")
            return True
        self._findings.error(f"{where}: {lacks}")
        return False

    def _inner(self, folder: str, paths: Sequence[str]) -> dict[str, str]:
        """The files that lie in a run's working directory, by their names in it. PackageError for an unusable name."""
        files = {}
        for path in paths:
            name = path.removeprefix(folder + "/")
            if not is_file_name(name):
                raise PackageError(
                    f"{self._tree.where(path)}: the name must be of letters, digits and _ . + -; rename it"
                )
            files[name] = self._blob(path)
        return files

    def _changed(self, above: _Inherited, changes: settings.TestSettings, place: str) -> _Inherited:
        inherited = above
        if changes.output_validator_args is not None:
            inherited = replace(inherited, flags=tuple(metadata.split(changes.output_validator_args)), place=place)
        if changes.args is not None:
            inherited = replace(inherited, args=tuple(metadata.split(changes.args)))
        if changes.input_validator_args is not None:
            inherited = replace(inherited, inputs=self._input_flags(changes.input_validator_args))
        return inherited

    # --- groups ----------------------------------------------------------------------------------------------------

    def _check_settings(self, folder: str, settings_source: metadata.SettingsSource[settings.TestSettings]) -> None:
        group_settings = settings_source.settings
        keys = sorted(key for key in settings.SCORING_KEYS if getattr(group_settings, key) is not None)
        if keys and not self._yaml.scoring:
            self._findings.error(
                f"{settings_source.at(keys[0])}: {keys[0]}: is for scoring problems; say type: scoring in problem.yaml"
            )
        elif keys and folder == SAMPLE_FOLDER:
            self._findings.error(f"{settings_source.at(keys[0])}: {keys[0]}: samples give no score; remove it")
        elif keys and folder == "data":
            self._findings.warning(f"{settings_source.at(keys[0])}: {keys[0]}: data/ is no group; it is left alone")
        elif keys and folder.count("/") > 2:
            name = self._yaml.format.name
            self._findings.error(
                f"{settings_source.at(keys[0])}: is a group inside a group; format {name} has one level of groups here"
            )
        elif folder.count("/") > 2:
            self._findings.warning(
                f"{settings_source.where}: is a group inside a group; what it says of tests is read, "
                "but it gives no score"
            )

    def _note_group(self, folder: str, settings_source: metadata.SettingsSource[settings.TestSettings]) -> None:
        group_settings = settings_source.settings
        static_score = group_settings.static_validation_score
        if static_score is not None and folder != "data":
            score = None if static_score == "pass-fail" else float(static_score)
            args = metadata.split(group_settings.static_validator_args or [])
            self._data.statics.append(StaticTest(group=folder.removeprefix("data/"), score=score, args=args))
            if score is not None and (not self._yaml.scoring or folder == SAMPLE_FOLDER):
                place = settings_source.at("static_validation_score")
                self._findings.error(f"{place}: static_validation_score: no score is given here; say pass-fail")
        elif group_settings.static_validator_args is not None and static_score is None:
            place = settings_source.at("static_validator_args")
            self._findings.warning(
                f"{place}: static_validator_args: nothing is validated without static_validation_score"
            )
        if not self._yaml.scoring or not folder.startswith(SECRET_FOLDER) or folder.count("/") > 2:
            return
        secret = folder == SECRET_FOLDER
        most = group_settings.max_score if group_settings.max_score is not None else (100 if secret else "unbounded")
        self._data.groups.append(
            TestGroup(
                name=folder.removeprefix("data/"),
                max_score=None if most == "unbounded" else float(most),
                aggregation=group_settings.score_aggregation or ("sum" if secret else "pass-fail"),
                require_pass=group_settings.require_pass or [],
            )
        )


def _older(document: Any) -> Any:
    """testdata.yaml of a draft that 2025-09's words have got into."""
    names = {"output_validator_args": "output_validator_flags", "input_validator_args": "input_validator_flags"}
    value = yamltext.Fields({names.get(key, key): item for key, item in document.value.items()})
    value.written = {names.get(key, key): item for key, item in document.value.written.items()}
    return replace(document, value=value)
