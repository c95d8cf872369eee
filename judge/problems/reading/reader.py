"""Turns one tree of files into one package, or into everything that is wrong with it (docs/problems-format.md)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from judge.common import yamltext
from judge.common.errors import PackageError
from judge.common.text import decimal
from judge.languages.table import MIB, find, load_table
from judge.model.base import first_fault
from judge.model.messages import Limits
from judge.model.problem import DEFAULT_MEMORY, FileIndex, LimitOrigin, ProblemManifest, ProblemProgram
from judge.problems import checktestdata, ini, metadata, statements, testdata
from judge.problems.metadata import ProblemYaml
from judge.problems.programs import Finder, FoundProgram, several, substitute
from judge.problems.reading import formats, settings
from judge.problems.reading.findings import Findings
from judge.problems.reading.formats import DOMJUDGE, Dialect
from judge.problems.reading.held import Look, Package, TreeBlobs
from judge.problems.scoring import standing
from judge.problems.task import MANAGER, read_task
from judge.problems.timing import PROVISIONAL
from judge.problems.tree import TIME_LIMIT_FILE, Tree, clean
from judge.problems.validator import parse_flags

MAX_SOURCE_BYTES = 16 * MIB
# Of all files below submissions/ together: they are held in memory.
MAX_SUBMISSIONS_BYTES = 64 * MIB
_DOMJUDGE_SECONDS = 10.0  # of a problem there that says nothing
MAX_VALIDATORS = 10

PROBLEM_YAML = "problem.yaml"
INI = "domjudge-problem.ini"
ENTRIES = "submissions.json"
EXPECTATIONS = "submissions/submissions.yaml"
_TITLE = re.compile(rb"^[^%\n]*\\problemname\{([^{}\n$\\]+)\}|^%+\s*plainproblemname:\s*(.+)$", re.MULTILINE)
# Said at import, so that nobody believes that it was done.
_NOT_DONE = {
    "output_visualizer": "the output visualizer is not run here; verdicts do not depend on it",
    "input_visualizer": "the input visualizer is not run here; verdicts do not depend on it",
    "visualizers": "visualizers are not run here; verdicts do not depend on them",
}
# Folders that verdicts depend on: nothing in them may be missing.
_DECIDING = ("data/", "output_validator", "submissions/", "include/", "graders/", "static_validator/")
# The names of DOMjudge's own default programs; others are somewhere on a server of its own.
_DEFAULT_PROGRAMS = frozenset({"", "compare", "default", "run"})


@dataclass(frozen=True)
class Overrides:
    """The caller's words beside a package: see `read_package`; `origin` is the format that it was made from."""

    name: str | None = None
    time_limit: float | None = None
    dialect: Dialect = ""
    origin: str = ""


class Reader:
    """Reads one tree. Faults are in `findings`; `read` gives a package only when there are no errors."""

    def __init__(
        self, tree: Tree, name: str, overrides: Overrides, *, notes: list[str] | None = None, look: Look | None = None
    ) -> None:
        self.tree = tree
        self.findings = Findings()
        self.dialect: Dialect = ""
        self.yaml: metadata.SettingsSource[ProblemYaml] = metadata.SettingsSource(
            ProblemYaml(), tree.where(PROBLEM_YAML), {}
        )
        self.ini: dict[str, str] = {}
        self._is_of_kattis = False
        self.name = name
        self._overrides = overrides
        # Of another format: what was carried over, and what was not.
        self.notes = notes or []
        self._blobs = TreeBlobs(tree, look)
        self._table = load_table()
        self._finder = Finder(tree, self._table, self.findings)

    def read(self) -> Package | None:
        """Everything, or None with the errors in `findings` and no temporary file left."""
        package = None
        try:
            with self.findings.caught():
                package = self._read()
        finally:
            if package is None:
                self._blobs.close()
        return package

    def _read(self) -> Package | None:
        self._links()
        self._settings()
        self.dialect = self._detect()
        yaml = self.yaml.settings
        cpu, origin = self._time_limit()
        limits: dict[str, Any] = {
            "limits": self._limits(PROVISIONAL if cpu is None else cpu),
            "limit_origin": origin,
            "origin": self._overrides.origin,
        }
        fields = {**self._programs_and_tests(), **self._public_fields(), **limits}
        with self.findings.caught():
            fields["task"] = read_task(self.tree, fields, self._table, self._manager)
        submissions = self._submissions()
        entries = self._entries(submissions)
        for folder, text in _NOT_DONE.items():
            if self.tree.below(folder):
                self.findings.note(f"{self.tree.where(folder)}: {text}")
        if self.findings.errors:
            return None
        try:
            manifest = ProblemManifest(name=self.name, package=self._index(), **fields)
        except ValidationError as exc:
            raise PackageError(f"{self.tree.label}: {clean(str(first_fault(exc)), 300)}") from None
        self._check_counts(manifest)
        return Package(
            manifest=manifest,
            blobs=self._blobs.contents,
            submissions=submissions,
            yaml=yaml,
            expectations=self._small(EXPECTATIONS) if EXPECTATIONS in self.tree.files else None,
            entries=entries,
            notes=[*self.notes, *(finding.text for finding in self.findings.all)],
            findings=self.findings,
            infer=cpu is None,
            held=self._blobs,
        )

    def _check_counts(self, manifest: ProblemManifest) -> None:
        """PackageError when no secret test counts in DOMjudge's reading: all that is handed in would be accepted."""
        if self.dialect != DOMJUDGE or not manifest.traits.has_score:
            return
        samples = {test.name for test in manifest.tests if test.sample}
        if set(standing(manifest, {}).used_tests) <= samples:
            raise PackageError(
                f"{self.tree.where('data/secret')}: none of its tests counts as DOMjudge reads the groups, as they are "
                "in folders without testdata.yaml; give each such folder one, or say --dialect kattis"
            )

    def _programs_and_tests(self) -> dict[str, Any]:
        """The manifest's fields about what is run: tests, validators, graders."""
        validators = self._validators()
        inputs = [checker for folder in formats.INPUT_VALIDATORS for checker in self._finder.checkers(folder)]
        answers = [checker for folder in formats.ANSWER_VALIDATORS for checker in self._finder.checkers(folder)]
        names = {PurePosixPath(checker.main).name: checker.name for checker in inputs}
        tests = testdata.TestDataReader(
            self.tree, self.yaml.settings, self.dialect, names, self._blobs.of, self.findings
        )
        data = tests.read()
        self._check_flags(data, custom=bool(validators))
        return {
            "validators": [self._described(program) for program in validators],
            "input_validators": [self._described(program) for program in inputs],
            "answer_validators": [self._described(program) for program in answers],
            "static_validator": self._static(data),
            "static_tests": data.statics,
            "grader": self._grader(data),
            **self._tests(data),
        }

    def _public_fields(self) -> dict[str, Any]:
        """The manifest's fields about submissions, limits and what people see."""
        include = self._finder.include()
        return {
            "languages": self._languages(),
            "include": {name: self._program_files(files) for name, files in include.items()},
            "title": self._title() or self.name,
            **self._extras(),
            **self._statements(),
        }

    def _links(self) -> None:
        """Links that were not followed: an error where verdicts depend on what they lead to."""
        for path, reason in self.tree.links.items():
            decides = "/" not in path or path.startswith(_DECIDING)
            report = self.findings.error if decides else self.findings.warning
            report(f"{self.tree.where(path)}: {reason}" + ("" if decides else "; it is left out"))
        for path in self.tree.below("submissions"):
            if any(part.startswith("-") for part in path.split("/")):
                self.findings.error(f"{self.tree.where(path)}: begins with '-', as options of programs do; rename it")
        for path, reason in testdata.odd_names(self.tree.below("data")).items():
            self.findings.warning(f"{self.tree.where(path)}: {reason}")
        for path in self.tree.left_out:
            if path.startswith(_DECIDING):
                fault = "ends with '~'" if path.endswith("~") else "begins with '.'"
                self.findings.warning(
                    f"{self.tree.where(path)}: is left out, as its name {fault}; rename what is meant"
                )

    # --- settings --------------------------------------------------------------------------------------------------

    def _small(self, path: str) -> tuple[bytes, str]:
        return self.tree.read(path, metadata.YAML_BYTES), self.tree.where(path)

    def _settings(self) -> None:
        """problem.yaml and domjudge-problem.ini; DOMjudge needs one of the two."""
        if PROBLEM_YAML in self.tree.files:
            with self.findings.caught():
                document = settings.of_groups(metadata.read(*self._small(PROBLEM_YAML)), self.findings)
                self.yaml = metadata.load(ProblemYaml, document, self.findings)
                metadata.review(self.yaml, self.findings)
        elif INI in self.tree.files:
            self.findings.warning(
                f"{self.tree.label}: has no {PROBLEM_YAML}; it is read as DOMjudge does, by its {INI}"
            )
        else:
            self.findings.error(f"{self.tree.label}: has no {PROBLEM_YAML}; expected a package in Kattis/ICPC format")
        if INI in self.tree.files:
            try:
                self.ini = ini.parse_ini(*self._small(INI))
            except PackageError as exc:
                self.findings.warning(f"{exc}; it is left alone, as DOMjudge does")

    def _detect(self) -> Dialect:
        """The dialect, one of two, in which a legacy package is read; the reason is noted."""
        if not self.yaml.settings.legacy:
            if self._overrides.dialect:
                name = self.yaml.settings.format.name
                self.findings.note(f"{self.tree.label}: format {name} is read in one way; the dialect is left alone")
            return ""
        if self._overrides.dialect:
            self._is_of_kattis = self._overrides.dialect != DOMJUDGE
            return self._overrides.dialect
        raw = [self._raw(path) for path in [PROBLEM_YAML, *testdata.group_files(self.tree)]]
        sources = [
            self.tree.read(path, metadata.YAML_BYTES)
            for path in self.tree.below("submissions")
            if self.tree.files[path] <= metadata.YAML_BYTES and not path.startswith("submissions/accepted/")
        ]
        folders = {path.split("/")[1] for path in self.tree.below("output_validators") if path.count("/") > 1}
        signs = formats.SignsSeen(sorted(self.tree.files), raw[0], raw[1:], sources, len(folders))
        dialect, reason = formats.detect(signs)
        self._is_of_kattis = bool(reason) and dialect != DOMJUDGE
        if reason:
            self.findings.note(f"{self.tree.label}: is read as {_JUDGES[dialect]} reads it, as {reason}")
        return dialect

    def _raw(self, path: str) -> Mapping[Any, Any]:
        """The keys of a settings file as they are; what is wrong in it is said where it is read for good."""
        with contextlib.suppress(PackageError):
            if path in self.tree.files:
                value: Mapping[Any, Any] = metadata.read(*self._small(path), repeats=[]).value
                return value
        return {}

    # --- programs --------------------------------------------------------------------------------------------------

    def _validators(self) -> list[FoundProgram]:
        """The custom output validators; none: the default one."""
        yaml = self.yaml.settings
        expected, alternative = yaml.format.validators
        folder = expected if self.tree.below(expected) or not self.tree.below(alternative) else alternative
        if folder == alternative and self.dialect != DOMJUDGE:
            self.findings.warning(
                f"{self.tree.where(alternative)}: is called {expected} in format {yaml.format.name}; "
                "it is read all the same"
            )
        elif folder == expected and self.tree.below(alternative):
            self.findings.warning(f"{self.tree.where(alternative)}: is left alone, as there is {expected}/, too")
        programs = self._programs_in(folder)
        for key in ("special_compare", "special_run"):
            if self.ini.get(key, "") not in _DEFAULT_PROGRAMS and not programs:
                where = self.tree.where(INI)
                self.findings.error(f"{where}: {key}: programs outside the package cannot be run here")
        needing = [kind for kind in yaml.types if kind.traits.needs_validator]
        if programs and yaml.legacy and not yaml.custom and not needing:
            where = self.tree.where(folder)
            if self.dialect != DOMJUDGE:
                self.findings.warning(
                    f"{where}: is not used, as problem.yaml says validation: default; to use it say validation: custom"
                )
                return []
            self.findings.warning(f"{where}: is used although problem.yaml says validation: default, as DOMjudge does")
        if not programs and not self.findings.errors:
            where = self.yaml.at("validation")
            if yaml.custom:
                self.findings.error(f"{where}: validation: is custom, but {folder} has no program")
            elif needing:
                where = self.yaml.at("type")
                kind = needing[0]
                self.findings.error(f"{where}: type: {kind} problems need a custom output validator; there is none")
        return programs

    def _programs_in(self, folder: str) -> list[FoundProgram]:
        """The programs in a folder of output validators: one, or in the legacy format also several."""
        programs: list[FoundProgram] = []
        with self.findings.caught():
            if not self.yaml.settings.legacy:
                program = self._finder.single(folder, as_one=True)
                return [] if program is None else [program]
            programs = self._finder.all(folder, as_one=self.dialect == DOMJUDGE)
            if len(programs) > 1:
                sentence = f"{self.tree.where(folder)}: {several(programs)}"
                if self.dialect == DOMJUDGE or len(programs) > MAX_VALIDATORS:
                    raise PackageError(f"{sentence}; keep one, or put its files together")
                if self.yaml.settings.custom:
                    self.findings.warning(f"{sentence}; all of them must accept")
        return programs

    def _static(self, data: testdata.TestData) -> ProblemProgram | None:
        """The static validator, when some group asks for it."""
        program = None
        with self.findings.caught():
            if not self.yaml.settings.legacy:
                program = self._finder.single("static_validator", as_one=True)
        where = self.tree.where("static_validator")
        if program is None:
            if data.statics:
                group = self.tree.where(f"data/{data.statics[0].group}/test_group.yaml")
                self.findings.error(f"{group}: static_validation_score: there is no static_validator/ to run")
            return None
        if not self.yaml.settings.traits.has_program:
            self.findings.error(f"{where}: submit-answer problems have no source that it could look at; remove it")
        if not data.statics:
            self.findings.warning(f"{where}: is not run, as no test_group.yaml has a static_validation_score")
        return self._described(program)

    def _grader(self, data: testdata.TestData) -> ProblemProgram | None:
        """The legacy format's own grader, when some group asks for it."""
        has_custom = any(group.custom for group in data.graders)
        program = None
        where = self.tree.where("graders")
        with self.findings.caught():
            if has_custom:
                program = self._finder.single("graders", as_one=False)
                if program is None:
                    raise PackageError(f"{where}: has no program, but testdata.yaml says grading: custom")
            elif self.tree.below("graders"):
                self.findings.warning(f"{where}: is not used, as no testdata.yaml says grading: custom")
        return None if program is None else self._described(program)

    def _manager(self) -> ProblemProgram | None:
        program = self._finder.single(MANAGER, as_one=True)
        return None if program is None else self._described(program)

    def _described(self, program: FoundProgram) -> ProblemProgram:
        files = self._program_files(program.files)
        if program.main not in files:  # a description of inputs
            files |= {name: self._blobs.add_bytes(data) for name, data in checktestdata.program().items()}
        return ProblemProgram(name=program.name[:255], language=program.language, main=program.main, files=files)

    def _program_files(self, files: Mapping[str, str]) -> dict[str, str]:
        return {
            name: self._blobs.add_bytes(
                substitute(self.tree.read(path, MAX_SOURCE_BYTES), self.yaml.settings.constants)
            )
            for name, path in files.items()
        }

    def _check_flags(self, data: testdata.TestData, *, custom: bool) -> None:
        """Errors for flags that the default validator does not have; a custom one says so itself."""
        for flags, place in () if custom else data.flags.items():
            try:
                parse_flags(flags, strict=not self.yaml.settings.legacy)
            except PackageError as exc:
                key = "output_validator_args"
                if self.yaml.settings.legacy:
                    key = "validator_flags" if place == PROBLEM_YAML else "output_validator_flags"
                self.findings.error(f"{self.tree.where(place)}: {key}: {exc}")

    # --- the rest of the package -------------------------------------------------------------------------------------

    def _title(self) -> str:
        """The name for people: of problem.yaml, DOMjudge's file, a LaTeX statement; empty when none says it."""
        text = self.yaml.settings.title() or clean(self.ini.get("name", ""))
        for folder in self.yaml.settings.format.statements if not text else ():
            for path in self.tree.below(folder):
                if path.endswith(".tex") and "/problem." in path and self.tree.files[path] <= metadata.YAML_BYTES:
                    match = _TITLE.search(self.tree.read(path, metadata.YAML_BYTES))
                    if match is not None:
                        return clean((match[1] or match[2]).decode("utf-8", "replace"))
        return text

    def _statements(self) -> dict[str, Any]:
        """The manifest's fields about what people see of the problem."""
        yaml = self.yaml.settings
        titles = yaml.name if isinstance(yaml.name, dict) else {}
        only = next(iter(titles)) if len(titles) == 1 else None
        parts = statements.find(self.tree.files, legacy=yaml.legacy, only=only)
        for note in parts.notes:
            self.findings.warning(f"{self.tree.label}/{note}")

        def text(path: str) -> tuple[bytes, str]:
            data = statements.with_constants(self.tree.read(path, MAX_SOURCE_BYTES), yaml.constants)
            return data, self._blobs.add_bytes(data)

        names = {statements.language_of(code): clean(name) for code, name in titles.items()}
        return statements.fields(parts, names, self._blobs.of, text)

    def _submissions(self) -> dict[str, bytes]:
        """The files below `submissions/FOLDER/`, constants put in; they are small, so they are kept in memory."""
        paths = [path for path in self.tree.below("submissions") if path.count("/") > 1]
        if sum(self.tree.files[path] for path in paths) > MAX_SUBMISSIONS_BYTES:
            where = self.tree.where("submissions")
            self.findings.error(f"{where}: has more than {MAX_SUBMISSIONS_BYTES} bytes; remove what is no source")
            return {}
        sources = {}
        for path in paths:
            with self.findings.caught():
                sources[path] = substitute(self.tree.read(path, MAX_SOURCE_BYTES), self.yaml.settings.constants)
        return sources

    def _entries(self, sources: Mapping[str, bytes]) -> dict[str, str]:
        """The entry points by DOMjudge's submissions.json, by the submission's path (`submissions/FOLDER/NAME`)."""
        if ENTRIES not in self.tree.files:
            return {}
        data, where = self._small(ENTRIES)
        try:
            value = yamltext.from_json(data)
        except (ValueError, RecursionError):
            self.findings.warning(f"{where}: is no JSON, or has no plain texts; it is left alone")
            return {}
        folders = {"/".join(PurePosixPath(path).parts[:3]) for path in sources}
        entry_points = {}
        for path, submission in value.items() if isinstance(value, dict) else ():
            entry = submission.get("entry_point") if isinstance(submission, dict) else None
            if isinstance(entry, str) and path.rstrip("/") in folders:
                entry_points[path.rstrip("/")] = entry[:255]
        return entry_points

    def _tests(self, data: testdata.TestData) -> dict[str, Any]:
        """The manifest's fields about tests; flags that all tests share stand once."""
        shared = next(iter(data.flags)) if len(data.flags) == 1 else None
        tests = [
            test.model_copy(update={"flags": None}) if shared is not None or not test.flags else test
            for test in data.tests
        ]
        return {"tests": tests, "validator_flags": list(shared or ()), "groups": data.groups, "graders": data.graders}

    def _extras(self) -> dict[str, Any]:
        """The manifest's fields about limits and the kind of problem; what is not said stays at its default."""
        yaml = self.yaml.settings
        limits = yaml.limits
        extras: dict[str, Any] = {
            "format": yaml.format.name,
            "dialect": self.dialect,
            "memory_is_default": limits.memory is None,
            "validation_memory_is_default": "validation_memory" not in limits.model_fields_set,
            "type": yaml.types,
            "passes": (limits.validation_passes or yaml.traits.passes) if yaml.traits.passes > 1 else 1,
        }
        if limits.code is not None:
            extras["source_bytes"] = max(1, int(limits.code * 1024))
        if "compilation_time" in limits.model_fields_set:
            extras["compile_seconds"] = limits.compilation_time
        if "compilation_memory" in limits.model_fields_set:
            extras["compile_memory"] = int(limits.compilation_memory * MIB)
        if limits.model_fields_set & {"validation_time", "validation_memory", "validation_output"}:
            extras["validation"] = Limits(
                cpu=limits.validation_time,
                wall=1.5 * limits.validation_time,
                memory=int(limits.validation_memory * MIB),
                output=max(1, int(limits.validation_output * MIB)),
            )
        return extras

    def _time_limit(self) -> tuple[float | None, LimitOrigin | None]:
        """CPU seconds of a test and who says so; nobody: it is to be inferred."""
        if self._overrides.time_limit is not None:
            return self._overrides.time_limit, LimitOrigin(how="hand")
        sources: list[tuple[float, str]] = []
        if self.yaml.settings.limits.time_limit is not None:
            sources.append((self.yaml.settings.limits.time_limit, self.yaml.at("limits", "time_limit")))
        with self.findings.caught():
            if TIME_LIMIT_FILE in self.tree.files:
                data, where = self._small(TIME_LIMIT_FILE)
                sources.append((metadata.seconds(data.decode("ascii", "replace"), where), where))
            if self.ini.get("timelimit"):
                where = self.tree.where(INI) + ": timelimit"
                sources.append((metadata.seconds(self.ini["timelimit"], where), where))
        if not sources:
            return self._usual_limit()
        cpu, first = sources[0]
        for second_limit, where in sources[1:]:
            if second_limit != cpu:
                self.findings.warning(
                    f"{where}: says {decimal(second_limit)} s, but {first} says {decimal(cpu)} s; the latter is taken"
                )
        return cpu, LimitOrigin(how="package")

    def _usual_limit(self) -> tuple[float | None, LimitOrigin | None]:
        """DOMjudge's where there is nothing to infer one from: other tools refuse such a package."""
        if not self.yaml.settings.legacy or self._is_of_kattis or self.tree.below("submissions/accepted"):
            return None, None
        self.findings.warning(
            f"{self.tree.label}: says no time limit, and has no accepted submission to infer one from; "
            f"{decimal(_DOMJUDGE_SECONDS)} s are taken, as DOMjudge does"
        )
        return _DOMJUDGE_SECONDS, LimitOrigin(how="package")

    def _limits(self, cpu: float) -> Limits:
        limits = self.yaml.settings.limits
        output = {"output": max(1, int(limits.output * MIB))} if limits.output else {}
        return Limits(cpu=cpu, memory=int(limits.memory * MIB) if limits.memory else DEFAULT_MEMORY, **output)

    def _languages(self) -> list[str]:
        """The restriction to some languages; those that are not judged here at all do not matter."""
        codes = self.yaml.settings.languages
        if codes == ["all"]:
            return []
        where = self.yaml.at("languages")
        rows = {code: find(code, self._table) for code in codes}
        unknown = [code for code, row in rows.items() if row is None]
        if len(unknown) == len(codes):
            names = clean(", ".join(codes), 80)
            self.findings.error(
                f"{where}: languages: none of '{names}' is judged here; see the table in docs/languages.md"
            )
        elif unknown:
            self.findings.warning(f"{where}: languages: {clean(', '.join(unknown), 80)}: not judged here; left out")
        return sorted({row for row in rows.values() if row is not None})

    def _index(self) -> str:
        """A blob that lists every file of the package with its hash, so that it can be exported as it was."""
        files = {path: self._blobs.of(path) for path in sorted(self.tree.files)}
        return self._blobs.add_bytes(FileIndex(files=files).model_dump_json().encode())


_JUDGES = {"kattis": "Kattis", "domjudge": "DOMjudge"}
