"""Reads a problem package in Kattis/ICPC format into the manifest and blobs that executors judge by (DESIGN 6).

Pass-fail problems with the default output validator; everything else is refused at import with one sentence that names
file and field, as the format asks of systems that cannot keep a package's guarantees.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from judge.errors import PackageError
from judge.problems import metadata
from judge.problems.languages import Language, guess, load_table
from judge.problems.tree import TIME_LIMIT_FILE, Tree, clean, open_tree
from judge.problems.validator import parse_flags
from judge.rpc.messages import Limits, ProblemManifest, ProblemTest, Verdict

MIB = 1024**2
MAX_TESTS = 5000
MAX_SOURCE_BYTES = 16 * MIB
# Files of an archive up to this size stay in memory, bigger ones wait in a temporary directory.
_IN_MEMORY = 256 * 1024

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,62}")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_PROBLEM_YAML = "problem.yaml"
_INI = "domjudge-problem.ini"
_SETTINGS = ("testdata.yaml", "test_group.yaml")

# A folder of submissions: what it stands for, and what else the whole submission's verdict may be. Kattis knows no
# MLE and SV: packages that are made for it file such programs under run-time errors.
EXPECTED: Mapping[str, tuple[str, frozenset[Verdict]]] = {
    "accepted": ("AC", frozenset({Verdict.AC})),
    "wrong_answer": ("WA", frozenset({Verdict.WA})),
    "time_limit_exceeded": ("TLE", frozenset({Verdict.TLE})),
    "run_time_error": ("RTE", frozenset({Verdict.RTE, Verdict.MLE, Verdict.SV})),
    "memory_limit_exceeded": ("MLE", frozenset({Verdict.MLE})),
    "output_limit_exceeded": ("OLE", frozenset({Verdict.OLE})),
    "compile_error": ("CE", frozenset({Verdict.CE})),
    "compiler_error": ("CE", frozenset({Verdict.CE})),
    "brute_force": ("TLE or RTE", frozenset({Verdict.TLE, Verdict.RTE, Verdict.MLE})),
    "rejected": ("not AC", frozenset({Verdict.WA, Verdict.TLE, Verdict.RTE, Verdict.MLE, Verdict.OLE, Verdict.SV})),
}


@dataclass(frozen=True)
class ExampleSubmission:
    """One program of a package's `submissions/`. `language` is None when no suffix of the table fits.

    The verdict must be one of `expected`; `says` is what the folder stands for, in a word for people.
    """

    path: str
    expected: frozenset[Verdict]
    says: str
    language: str | None
    source: bytes


@dataclass
class Package:
    """A package that has been read. `blobs` holds every test file once, as bytes or as a file to read from.

    Files of an archive live in a temporary directory that goes away with this object, or with `close`.
    """

    manifest: ProblemManifest
    blobs: dict[str, Path | bytes]
    submissions: dict[str, bytes] = field(default_factory=dict)
    _cleanup: weakref.finalize[..., Package] | None = None

    def read(self, sha: str) -> bytes:
        """A blob's content, checked against its name; PackageError when its file has changed since it was read."""
        blob = self.blobs[sha]
        if isinstance(blob, bytes):
            return blob
        try:
            data = blob.read_bytes()
        except OSError as exc:
            raise PackageError(f"{blob}: cannot be read: {exc.strerror}") from None
        if hashlib.sha256(data).hexdigest() != sha:
            raise PackageError(f"{blob}: changed while the package was imported; import it again")
        return data

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


def read_package(path: Path, *, name: str | None = None, time_limit: float | None = None) -> Package:
    """Read the package at `path`, a directory or a ZIP archive of one; `judgectl problem import` calls this.

    `name` replaces the directory's name, `time_limit` (seconds) what the package says. Raises PackageError.
    """
    with contextlib.closing(open_tree(path)) as tree:
        inner = tree.descend()
        found = name or inner or (path.resolve().name if path.is_dir() else path.stem)
        if not _NAME.fullmatch(found):
            msg = (
                f"{path}: '{clean(found, 80)}' cannot be a problem's name; use letters, digits and . _ + - (at most 63)"
            )
            raise PackageError(msg)
        if _PROBLEM_YAML not in tree.files:
            raise PackageError(f"{tree.label}: has no {_PROBLEM_YAML}; expected a package in Kattis/ICPC format")
        return _Reader(tree, found).read(time_limit)


def list_submissions(package: Package, table: Mapping[str, Language] | None = None) -> list[ExampleSubmission]:
    """The package's own submissions in name order, with the verdicts that their folders stand for.

    Folders whose name stands for no verdict, and programs of several files, are left out.
    """
    languages = load_table() if table is None else table
    found = []
    for path in sorted(package.submissions):
        parts = PurePosixPath(path).parts
        if len(parts) == 3 and parts[1] in EXPECTED:
            says, expected = EXPECTED[parts[1]]
            found.append(
                ExampleSubmission(
                    path=path,
                    expected=expected,
                    says=says,
                    language=guess(parts[2], languages),
                    source=package.submissions[path],
                )
            )
    return found


class _Reader:
    """Turns one tree into one package."""

    def __init__(self, tree: Tree, name: str) -> None:
        self._tree = tree
        self._name = name
        self._blobs: dict[str, Path | bytes] = {}
        self._temporary: str | None = None
        self._yaml = metadata.parse(metadata.ProblemYaml, *self._small(_PROBLEM_YAML))
        self._model: type[metadata.LegacyTestSettings | metadata.TestSettings] = (
            metadata.LegacyTestSettings if self._yaml.legacy else metadata.TestSettings
        )
        # The flags that some test wants, and the first test that does.
        self._flags: dict[tuple[str, ...], str] = {}

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
                raise PackageError(f"{self._tree.where(_INI)}: {key}: this version has the default validator only")
        limits = self._limits(ini, time_limit)
        tests = list(self._tests())
        if not any(not test.sample for test in tests):
            where = self._tree.where("data/secret")
            raise PackageError(f"{where}: has no tests; expected pairs of files NAME.in and NAME.ans")
        code = self._yaml.limits.code
        manifest = ProblemManifest(
            name=self._name,
            title=self._yaml.title() or clean(ini.get("name", "")) or self._name,
            limits=limits,
            validator_flags=self._validator_flags(),
            tests=tests,
            **({} if code is None else {"source_bytes": max(1, int(code * 1024))}),
        )
        return Package(manifest=manifest, blobs=self._blobs, submissions=self._submissions())

    def _small(self, path: str) -> tuple[bytes, str]:
        """A settings file and its name for people."""
        return self._tree.read(path, metadata.YAML_BYTES), self._tree.where(path)

    def _refuse_programs(self) -> None:
        """Programs of the package that would have to run, and cannot in this version."""
        for folder, what in (
            ("output_validator", "is a custom output validator"),
            ("output_validators", "is a custom output validator"),
            ("static_validator", "is a static validator"),
            ("graders", "is a custom grader"),
            ("include", "goes with every submission"),
        ):
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
        if cpu is None:
            where = self._tree.where(_PROBLEM_YAML)
            raise PackageError(f"{where}: limits: time_limit is missing; add the CPU seconds that a test may take")
        asked = {
            "memory": None if given.memory is None else int(given.memory * MIB),
            "output": None if given.output is None else max(1, int(given.output * MIB)),
        }
        return Limits(cpu=cpu, **{key: value for key, value in asked.items() if value is not None})

    def _validator_flags(self) -> list[str]:
        """The one list of flags of all tests; PackageError when tests differ, or for flags that do not exist."""
        if len(self._flags) > 1:
            first, second = list(self._flags.values())[:2]
            msg = (
                f"{self._tree.where(second)}: has other validator flags than {first}: "
                "this version has one set of flags for a problem"
            )
            raise PackageError(msg)
        flags = next(iter(self._flags))
        try:
            parse_flags(flags, strict=not self._yaml.legacy)
        except PackageError as exc:
            field_name = "validator_flags" if self._yaml.legacy else "output_validator_args"
            raise PackageError(f"{self._tree.where(_PROBLEM_YAML)}: {field_name}: {exc}") from None
        return list(flags)

    def _tests(self) -> Iterator[ProblemTest]:
        """All tests in judging order: samples, then secret ones, each folder in name order."""
        own = self._yaml.validator_flags
        top = self._settings("data")
        count = 0
        for folder, sample in (("data/sample", True), ("data/secret", False)):
            paths = self._tree.below(folder)
            for test in self._folder(folder, paths, own, top, sample=sample):
                count += 1
                if count > MAX_TESTS:
                    raise PackageError(f"{self._tree.where('data')}: has more than {MAX_TESTS} tests; join some")
                yield test

    def _settings(self, folder: str) -> list[str] | None:
        """The validator flags that a folder's own settings file sets; None when it sets none."""
        name = _SETTINGS[0] if self._yaml.legacy else _SETTINGS[1]
        path = f"{folder}/{name}"
        return metadata.parse(self._model, *self._small(path)).flags() if path in self._tree.files else None

    def _folder(
        self, folder: str, paths: Sequence[str], own: list[str], inherited: list[str] | None, *, sample: bool
    ) -> Iterator[ProblemTest]:
        """The tests of one folder; tests and folders in it take turns by name. `paths` are all files below it."""
        prefix = folder + "/"
        here: dict[str, set[str]] = {}
        folders: dict[str, list[str]] = {}
        for path in paths:
            first, slash, _ = path.removeprefix(prefix).partition("/")
            if slash:
                folders.setdefault(first, []).append(path)
            elif first.endswith((".in", ".ans")):
                base, _, suffix = first.rpartition(".")
                if not _FILE_NAME.fullmatch(first):
                    raise PackageError(f"{self._tree.where(path)}: a test's name must be of letters, digits and _ . -")
                here.setdefault(base, set()).add(suffix)
        own_flags = self._settings(folder) if paths else None
        flags = inherited if own_flags is None else own_flags
        if not self._yaml.legacy and not sample and folder == "data/secret" and here and folders:
            msg = f"{self._tree.where(folder)}: has both tests and groups of tests; format 2025-09 allows one of them"
            raise PackageError(msg)
        for name in sorted(here.keys() | folders.keys()):
            if name in here:
                yield self._test(prefix + name, here[name], own, flags, sample=sample)
            if name in folders:
                if name.endswith(".files"):
                    where = self._tree.where(prefix + name)
                    raise PackageError(f"{where}: are files for submissions to read: this version cannot provide them")
                yield from self._folder(prefix + name, folders[name], own, flags, sample=sample)

    def _test(
        self, base: str, suffixes: set[str], own: list[str], flags: list[str] | None, *, sample: bool
    ) -> ProblemTest:
        """One pair of files."""
        if "ans" not in suffixes:
            raise PackageError(f"{self._tree.where(base + '.in')}: has no answer; expected {base}.ans beside it")
        if "in" not in suffixes:
            raise PackageError(f"{self._tree.where(base + '.ans')}: is an answer without input; expected {base}.in")
        single = base + ".yaml"
        if not self._yaml.legacy and single in self._tree.files:
            set_here = metadata.parse(self._model, *self._small(single)).flags()
            flags = flags if set_here is None else set_here
        self._flags.setdefault((*own, *(flags or ())), base)
        return ProblemTest(
            name=base.removeprefix("data/"),
            input=self._blob(base + ".in"),
            answer=self._blob(base + ".ans"),
            sample=sample,
        )

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
            path: self._tree.read(path, MAX_SOURCE_BYTES)
            for path in self._tree.below("submissions")
            if path.count("/") == 2
        }
