"""Reads a problem package in Kattis/ICPC format into the manifest and blobs that executors judge by (docs/problems.md).

What cannot be judged as its author meant is refused at import with one sentence that names file and field, as the
format asks of systems that cannot keep a package's guarantees.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from judge.errors import PackageError
from judge.languages.table import load_table
from judge.model.messages import Limits
from judge.model.problem import FileIndex, ProblemManifest, ProblemProgram, ProblemType
from judge.problems import metadata
from judge.problems.importers import open_package_tree
from judge.problems.importers.draft import Asked, slug
from judge.problems.programs import find_include, find_validator, substitute
from judge.problems.testdata import TestData, read_tests
from judge.problems.timing import PROVISIONAL
from judge.problems.tree import TIME_LIMIT_FILE, Tree, clean
from judge.problems.validator import parse_flags

MIB = 1024**2
MAX_SOURCE_BYTES = 16 * MIB
# The format's "typical system default"; a host with less memory gives what it has.
DEFAULT_MEMORY = 2048 * MIB
PASSES = 2
# Files of an archive up to this size stay in memory, bigger ones wait in a temporary directory.
_IN_MEMORY = 256 * 1024

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,62}")
_PROBLEM_YAML = "problem.yaml"
_INI = "domjudge-problem.ini"
_EXPECTATIONS = "submissions/submissions.yaml"
# What the format's language codes are called here, where it is not the same word.
ALIASES = {"python": "python3", "c++": "cpp"}
# Said at import, so that nobody believes that it was done.
_NOT_DONE = {
    "input_validators": "input validators are not run here; check the input files with the package's own tools",
    "input_format_validators": "input validators are not run here; check the input files with the package's own tools",
    "output_visualizer": "the output visualizer is not run here; verdicts do not depend on it",
    "input_visualizer": "the input visualizer is not run here; verdicts do not depend on it",
}


@dataclass
class Package:
    """A package that has been read. `blobs` holds every test file once, as bytes or as a file to read from.

    `expectations` is submissions.yaml and its name for people, `notes` are sentences for whoever imports it. `infer`:
    the package has no time limit, and the manifest's is `timing.PROVISIONAL` until one is inferred. Files of an archive
    live in a temporary directory that goes away with this object, or with `close`.
    """

    manifest: ProblemManifest
    blobs: dict[str, Path | bytes]
    submissions: dict[str, bytes] = field(default_factory=dict)
    yaml: metadata.ProblemYaml = field(default_factory=metadata.ProblemYaml)
    expectations: tuple[bytes, str] | None = None
    notes: list[str] = field(default_factory=list)
    infer: bool = False
    _cleanup: weakref.finalize[..., Package] | None = None

    def read(self, sha: str) -> bytes:
        """A whole blob; errors as `open`."""
        with self.open(sha) as file:
            return file.read()

    def open(self, sha: str) -> IO[bytes]:
        """A blob's content, checked against its name; PackageError when its file has changed since it was read."""
        blob = self.blobs[sha]
        if isinstance(blob, bytes):
            return io.BytesIO(blob)
        try:
            file = blob.open("rb")
        except OSError as exc:
            raise PackageError(f"{blob}: cannot be read: {exc.strerror}") from None
        if hashlib.file_digest(file, "sha256").hexdigest() != sha:
            file.close()
            raise PackageError(f"{blob}: changed while the package was imported; import it again")
        file.seek(0)
        return file

    def close(self) -> None:
        """Remove the temporary files of an archive; blobs that are paths into it are gone then."""
        if self._cleanup is not None:
            self._cleanup()

    def __enter__(self) -> Package:
        """Use as a context manager to have the temporary files removed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the temporary files."""
        self.close()


def read_package(
    path: Path, *, name: str | None = None, time_limit: float | None = None, asked: Asked | None = None
) -> Package:
    """Read the package at `path`, a directory or a ZIP archive of one; `judgectl problem import` calls this.

    `name` replaces the directory's name, `time_limit` (seconds) what the package says; `asked` is for packages of other
    formats, which are read as what their importer makes of them. Raises PackageError.
    """
    opened = open_package_tree(path, asked)
    with contextlib.closing(opened.tree) as tree:
        found = name or opened.name or opened.folder or (path.resolve().name if path.is_dir() else path.stem)
        if opened.report is not None and name is None:
            found = slug(found)[:63]
        if not _NAME.fullmatch(found):
            raise PackageError(
                f"{path}: '{clean(found, 80)}' cannot be a problem's name; use letters, digits and . _ + - (at most 63)"
            )
        if _PROBLEM_YAML not in tree.files:
            raise PackageError(f"{tree.label}: has no {_PROBLEM_YAML}; expected a package in Kattis/ICPC format")
        package = _Reader(tree, found).read(time_limit)
        package.notes[:0] = opened.report.lines() if opened.report is not None else []
        return package


class _Reader:
    """Turns one tree into one package."""

    def __init__(self, tree: Tree, name: str) -> None:
        self._tree = tree
        self._name = name
        self._blobs: dict[str, Path | bytes] = {}
        self._temporary: str | None = None
        self._infer = False
        self._yaml = metadata.parse(metadata.ProblemYaml, *self._small(_PROBLEM_YAML))
        self._table = load_table()

    def read(self, time_limit: float | None) -> Package:
        """Everything, or a PackageError and no temporary file left."""
        try:
            package = self._read(time_limit)
        except BaseException:
            if self._temporary:
                shutil.rmtree(self._temporary, ignore_errors=True)
            raise
        if self._temporary:
            package._cleanup = weakref.finalize(package, shutil.rmtree, self._temporary, ignore_errors=True)  # noqa: SLF001 - our own
        return package

    def _read(self, time_limit: float | None) -> Package:
        self._refuse_programs()
        ini = metadata.parse_ini(*self._small(_INI)) if _INI in self._tree.files else {}
        for key in ("special_run", "special_compare"):
            if ini.get(key):
                raise PackageError(f"{self._tree.where(_INI)}: {key}: programs outside the package cannot be run here")
        limits = self._limits(ini, time_limit)
        data = read_tests(self._tree, self._yaml, self._blob)
        validator = self._validator()
        self._check_flags(data, custom=validator is not None)
        manifest = ProblemManifest(
            name=self._name,
            title=self._yaml.title() or clean(ini.get("name", "")) or self._name,
            limits=limits,
            validators=[] if validator is None else [validator],
            languages=self._languages(),
            include={name: self._program_files(files) for name, files in self._include().items()},
            package=self._index(),
            **self._tests(data),
            **self._extras(),
        )
        return Package(
            manifest=manifest,
            blobs=self._blobs,
            submissions=self._submissions(),
            yaml=self._yaml,
            expectations=self._small(_EXPECTATIONS) if _EXPECTATIONS in self._tree.files else None,
            notes=[f"{self._tree.where(name)}: {text}" for name, text in _NOT_DONE.items() if self._tree.below(name)],
            infer=self._infer,
        )

    def _tests(self, data: TestData) -> dict[str, Any]:
        """The manifest's fields about tests; flags that all tests share stand once."""
        shared = next(iter(data.flags)) if len(data.flags) == 1 else None
        tests = [
            test.model_copy(update={"flags": None}) if shared is not None or not test.flags else test
            for test in data.tests
        ]
        return {"tests": tests, "validator_flags": list(shared or ()), "groups": data.groups, "graders": data.graders}

    def _extras(self) -> dict[str, Any]:
        """The manifest's fields about limits and the kind of problem; what is not said stays at its default."""
        given = self._yaml.limits
        extras: dict[str, Any] = {
            "memory_is_default": given.memory is None,
            "validation_memory_is_default": "validation_memory" not in given.model_fields_set,
            "type": self._yaml.types,
            "passes": (given.validation_passes or PASSES) if ProblemType.MULTI_PASS in self._yaml.types else 1,
        }
        if given.code is not None:
            extras["source_bytes"] = max(1, int(given.code * 1024))
        if "compilation_time" in given.model_fields_set:
            extras["compile_seconds"] = given.compilation_time
        if "compilation_memory" in given.model_fields_set:
            extras["compile_memory"] = int(given.compilation_memory * MIB)
        if given.model_fields_set & {"validation_time", "validation_memory", "validation_output"}:
            extras["validation"] = Limits(
                cpu=given.validation_time,
                wall=1.5 * given.validation_time,
                memory=int(given.validation_memory * MIB),
                output=max(1, int(given.validation_output * MIB)),
            )
        return extras

    def _validator(self) -> ProblemProgram | None:
        """The custom output validator with its files noted as blobs."""
        yaml = self._yaml
        found = find_validator(self._tree, legacy=yaml.legacy, custom=yaml.custom, table=self._table)
        if found is None:
            for kind in (one for one in yaml.types if one.needs_validator):
                where = self._tree.where(_PROBLEM_YAML)
                raise PackageError(f"{where}: type: {kind} problems need a custom output validator; there is none")
            return None
        files = self._program_files(found.files)
        return ProblemProgram(name=found.name, language=found.language, main=found.main, files=files)

    def _program_files(self, files: Mapping[str, str]) -> dict[str, str]:
        """Files of a program as blobs, constants put in."""
        noted = {}
        for name, path in files.items():
            data = substitute(self._tree.read(path, MAX_SOURCE_BYTES), self._yaml.constants)
            noted[name] = self._note(hashlib.sha256(data).hexdigest(), data)
        return noted

    def _aliases(self) -> dict[str, str]:
        """The format's language codes, and what they are called here."""
        return {**{name: name for name in self._table}, **{k: v for k, v in ALIASES.items() if v in self._table}}

    def _include(self) -> dict[str, dict[str, str]]:
        return find_include(self._tree, self._aliases())

    def _languages(self) -> list[str]:
        """The restriction to some languages; those that are not judged here at all do not matter."""
        if self._yaml.languages == ["all"]:
            return []
        aliases = self._aliases()
        known = sorted({aliases[code] for code in self._yaml.languages if code in aliases})
        if not known:
            where, asked = self._tree.where(_PROBLEM_YAML), ", ".join(self._yaml.languages)[:80]
            raise PackageError(f"{where}: languages: none of '{asked}' is judged here; known are {', '.join(aliases)}")
        return known

    def _index(self) -> str:
        """A blob that lists every file of the package with its hash, so that it can be exported as it was."""
        files = {path: self._blob(path) for path in sorted(self._tree.files)}
        data = FileIndex(files=files).model_dump_json().encode()
        return self._note(hashlib.sha256(data).hexdigest(), data)

    def _small(self, path: str) -> tuple[bytes, str]:
        """A settings file and its name for people."""
        return self._tree.read(path, metadata.YAML_BYTES), self._tree.where(path)

    def _refuse_programs(self) -> None:
        """Programs of the package that would have to run, and cannot in this version."""
        for folder, what in (("static_validator", "is a static validator"), ("graders", "is a custom grader")):
            for path in self._tree.below(folder)[:1]:
                msg = f"{self._tree.where(path)}: {what}: this version cannot judge such a problem as its author meant"
                raise PackageError(msg)

    def _limits(self, ini: Mapping[str, str], time_limit: float | None) -> Limits:
        given = self._yaml.limits
        cpu = time_limit or given.time_limit
        if cpu is None and TIME_LIMIT_FILE in self._tree.files:
            data, where = self._small(TIME_LIMIT_FILE)
            cpu = metadata.seconds(data.decode("ascii", "replace"), where)
        if cpu is None and ini.get("timelimit"):
            cpu = metadata.seconds(ini["timelimit"], self._tree.where(_INI) + ": timelimit")
        self._infer = cpu is None
        asked = {
            "memory": DEFAULT_MEMORY if given.memory is None else int(given.memory * MIB),
            "output": None if given.output is None else max(1, int(given.output * MIB)),
        }
        return Limits(
            cpu=PROVISIONAL if cpu is None else cpu, **{key: value for key, value in asked.items() if value is not None}
        )

    def _check_flags(self, data: TestData, *, custom: bool) -> None:
        """PackageError for flags that the default validator does not have; a custom one says so itself."""
        if custom:
            return
        for flags, place in data.flags.items():
            try:
                parse_flags(flags, strict=not self._yaml.legacy)
            except PackageError as exc:
                field_name = "output_validator_args"
                if self._yaml.legacy:
                    field_name = "validator_flags" if place == _PROBLEM_YAML else "output_validator_flags"
                raise PackageError(f"{self._tree.where(place)}: {field_name}: {exc}") from None

    def _blob(self, path: str) -> str:
        """Hash a file in pieces and note where its content can be had from; its name is the hash."""
        local = self._tree.local(path)
        digest = hashlib.sha256()
        if local is not None:
            for chunk in self._tree.chunks(path):
                digest.update(chunk)
            return self._note(digest.hexdigest(), local)
        if self._tree.files[path] <= _IN_MEMORY:
            data = self._tree.read(path, _IN_MEMORY)
            return self._note(hashlib.sha256(data).hexdigest(), data)
        if self._temporary is None:
            self._temporary = tempfile.mkdtemp(prefix="judge-package-")
        handle, name = tempfile.mkstemp(dir=self._temporary)
        try:
            with os.fdopen(handle, "wb") as file:
                for chunk in self._tree.chunks(path):
                    digest.update(chunk)
                    file.write(chunk)
        except OSError as exc:
            raise PackageError(f"{self._tree.where(path)}: cannot be unpacked: {exc.strerror}") from None
        return self._note(digest.hexdigest(), Path(name))

    def _note(self, sha: str, blob: Path | bytes) -> str:
        self._blobs.setdefault(sha, blob)
        return sha

    def _submissions(self) -> dict[str, bytes]:
        """The sources of `submissions/`; they are small, so they are kept in memory."""
        return {
            path: substitute(self._tree.read(path, MAX_SOURCE_BYTES), self._yaml.constants)
            for path in self._tree.below("submissions")
            if path.count("/") == 2
        }


# Fields that every manifest has. Others are left out where they say nothing: an executor of an earlier release judges
# what it understands, and refuses what it does not (docs/decisions/012-mixed-releases.md).
_ALWAYS = frozenset({"name", "title", "limits", "validator_flags", "tests", "source_bytes"})


def manifest_bytes(manifest: ProblemManifest) -> bytes:
    """The manifest as it is stored; its hash is the problem's content hash."""
    data = manifest.model_dump(mode="json")
    plain = ProblemManifest(name="x", tests=[]).model_dump(mode="json")
    for key in data.keys() - _ALWAYS:
        if data[key] == plain[key]:
            del data[key]
    silent: tuple[tuple[str, dict[str, Any]], ...] = (
        ("tests", {"flags": None, "args": [], "files": {}, "input_flags": []}),
        ("graders", {"custom": False, "flags": []}),
    )
    for field_name, nothing in silent:
        for part in data.get(field_name, []):
            for key in [key for key, value in nothing.items() if part[key] == value]:
                del part[key]
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()
