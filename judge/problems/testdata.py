"""The tests of a package and how they are grouped: everything below `data/` (docs/problems.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from judge.errors import PackageError
from judge.model.problem import LegacyGroup, ProblemTest, TestGroup
from judge.problems import metadata
from judge.problems.programs import substitute
from judge.problems.tree import Tree

MAX_TESTS = 5000
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
SAMPLE_FOLDER, SECRET_FOLDER = "data/sample", "data/secret"
_SCORING_KEYS = ("max_score", "score_aggregation", "require_pass")


@dataclass(frozen=True)
class _Inherited:
    """What a test gets from the folders above it. `place` is the file that set the flags, for people."""

    flags: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    place: str = "problem.yaml"
    legacy: Mapping[str, object] = field(default_factory=dict)


@dataclass
class TestData:
    """All tests in judging order, the groups of either format, and where each list of validator flags was set."""

    __test__ = False  # not a pytest class

    tests: list[ProblemTest] = field(default_factory=list)
    groups: list[TestGroup] = field(default_factory=list)
    graders: list[LegacyGroup] = field(default_factory=list)
    flags: dict[tuple[str, ...], str] = field(default_factory=dict)


def read_tests(tree: Tree, yaml: metadata.ProblemYaml, blob: Callable[[str], str]) -> TestData:
    """Everything below `data/`; `blob` notes a file and returns its hash. Raises PackageError."""
    return _Reader(tree, yaml, blob).read()


class _Reader:
    def __init__(self, tree: Tree, yaml: metadata.ProblemYaml, blob: Callable[[str], str]) -> None:
        self._tree = tree
        self._yaml = yaml
        self._blob = blob
        self._found = TestData()
        self._own = tuple(yaml.validator_flags)

    def read(self) -> TestData:
        """Samples, then secret tests, each folder in name order; then the rules of scoring."""
        top = self._enter("data", _Inherited()) if self._yaml.legacy else _Inherited()
        for folder, sample in ((SAMPLE_FOLDER, True), (SECRET_FOLDER, False)):
            for test in self._folder(folder, self._tree.below(folder), top, sample=sample):
                self._found.tests.append(test)
                if len(self._found.tests) > MAX_TESTS:
                    raise PackageError(f"{self._tree.where('data')}: has more than {MAX_TESTS} tests; join some")
        if not any(not test.sample for test in self._found.tests):
            where = self._tree.where(SECRET_FOLDER)
            raise PackageError(f"{where}: has no tests; expected pairs of files NAME.in and NAME.ans")
        if self._yaml.legacy:
            self._need_graders()
        else:
            self._check_groups()
        return self._found

    # --- folders -------------------------------------------------------------------------------------------------

    def _settings(self, path: str) -> tuple[bytes, str] | None:
        if path not in self._tree.files:
            return None
        data = self._tree.read(path, metadata.YAML_BYTES)
        return substitute(data, self._yaml.constants), self._tree.where(path)

    def _enter(self, folder: str, above: _Inherited) -> _Inherited:
        """What a folder's own settings file makes of what it inherits; the folder's group is noted."""
        name = "testdata.yaml" if self._yaml.legacy else "test_group.yaml"
        given = self._settings(f"{folder}/{name}")
        if self._yaml.legacy:
            return self._enter_legacy(folder, above, given)
        if given is None:
            self._note_group(folder, metadata.TestSettings())
            return above
        settings = metadata.parse(metadata.TestSettings, *given)
        self._check_settings(folder, settings, given[1])
        self._note_group(folder, settings)
        return _changed(above, settings, f"{folder}/{name}")

    def _enter_legacy(self, folder: str, above: _Inherited, given: tuple[bytes, str] | None) -> _Inherited:
        found = above
        if given is not None:
            settings = metadata.parse(metadata.LegacyTestSettings, *given)
            keys = {key: getattr(settings, key) for key in settings.model_fields_set}
            if not self._yaml.scoring:
                wrong = sorted(keys.keys() & {"accept_score", "reject_score", "range"})
                if wrong:
                    raise PackageError(f"{given[1]}: {wrong[0]}: is for scoring problems; say type: scoring")
            found = replace(above, legacy={**above.legacy, **keys})
            flags = settings.flags()
            if flags is not None:
                found = replace(found, flags=tuple(flags), place=f"{folder}/testdata.yaml")
        self._found.graders.append(_grader(folder.removeprefix("data").strip("/"), found.legacy))
        return found

    def _folder(self, folder: str, paths: Sequence[str], above: _Inherited, *, sample: bool) -> Iterator[ProblemTest]:
        """The tests of one folder; tests and folders in it take turns by name. `paths` are all files below it."""
        if not paths:
            return
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
        inherited = self._enter(folder, above)
        self._check_shape(folder, here, folders)
        for name in sorted(here.keys() | folders.keys()):
            if name in here:
                yield self._test(prefix + name, here[name], inherited, sample=sample)
            if name in folders:
                yield from self._folder(prefix + name, folders[name], inherited, sample=sample)

    def _check_shape(self, folder: str, here: Mapping[str, object], folders: Mapping[str, object]) -> None:
        for name in folders:
            if name.endswith(".files"):
                where = self._tree.where(f"{folder}/{name}")
                raise PackageError(f"{where}: are files for submissions to read: this version cannot provide them")
        if self._yaml.legacy:
            return
        both = sorted(here.keys() & folders.keys())
        if both:
            raise PackageError(f"{self._tree.where(f'{folder}/{both[0]}')}: is both a test and a folder; rename one")
        if folder == SECRET_FOLDER and here and folders:
            msg = f"{self._tree.where(folder)}: has both tests and groups of tests; format 2025-09 allows one of them"
            raise PackageError(msg)
        deep = folder.count("/") > 2
        if deep and f"{folder}/test_group.yaml" in self._tree.files:
            where = self._tree.where(f"{folder}/test_group.yaml")
            raise PackageError(f"{where}: is a group inside a group; format 2025-09 has one level of groups")

    def _test(self, base: str, suffixes: set[str], inherited: _Inherited, *, sample: bool) -> ProblemTest:
        """One pair of files."""
        if "ans" not in suffixes:
            raise PackageError(f"{self._tree.where(base + '.in')}: has no answer; expected {base}.ans beside it")
        if "in" not in suffixes:
            raise PackageError(f"{self._tree.where(base + '.ans')}: is an answer without input; expected {base}.in")
        given = None if self._yaml.legacy else self._settings(base + ".yaml")
        if given is not None:
            settings = metadata.parse(metadata.TestSettings, *given)
            wrong = sorted(settings.model_fields_set & set(_SCORING_KEYS))
            if wrong:
                raise PackageError(f"{given[1]}: {wrong[0]}: belongs to a group's test_group.yaml, not to a test")
            inherited = _changed(inherited, settings, base + ".yaml")
        flags = (*self._own, *inherited.flags)
        self._found.flags.setdefault(flags, inherited.place)
        return ProblemTest(
            name=base.removeprefix("data/"),
            input=self._blob(base + ".in"),
            answer=self._blob(base + ".ans"),
            sample=sample,
            flags=list(flags),
            args=list(inherited.args),
        )

    # --- groups ----------------------------------------------------------------------------------------------------

    def _check_settings(self, folder: str, settings: metadata.TestSettings, where: str) -> None:
        keys = sorted(key for key in _SCORING_KEYS if getattr(settings, key) is not None)
        if keys and not self._yaml.scoring:
            raise PackageError(f"{where}: {keys[0]}: is for scoring problems; say type: scoring in problem.yaml")
        if keys and folder == SAMPLE_FOLDER:
            raise PackageError(f"{where}: {keys[0]}: samples give no score; remove it")

    def _note_group(self, folder: str, settings: metadata.TestSettings) -> None:
        if not self._yaml.scoring or not folder.startswith(SECRET_FOLDER) or folder.count("/") > 2:
            return
        secret = folder == SECRET_FOLDER
        most = settings.max_score if settings.max_score is not None else (100 if secret else "unbounded")
        self._found.groups.append(
            TestGroup(
                name=folder.removeprefix("data/"),
                max_score=None if most == "unbounded" else float(most),
                aggregation=settings.score_aggregation or ("sum" if secret else "pass-fail"),
                require_pass=settings.require_pass or [],
            )
        )

    def _check_groups(self) -> None:
        """The rules of 2025-09 that groups must keep among themselves."""
        groups = self._found.groups
        secret = next((group for group in groups if group.name == "secret"), None)
        if secret is None:
            return
        earlier = {"sample": "pass-fail"}
        for group in groups:
            where = self._tree.where(f"data/{group.name}/test_group.yaml")
            if group.max_score is None and group.aggregation == "pass-fail":
                raise PackageError(f"{where}: max_score: a group with aggregation pass-fail needs a maximum score")
            if group.max_score is None and secret.max_score is not None:
                raise PackageError(f"{where}: max_score: is unbounded, but that of secret is {secret.max_score:g}")
            if secret.aggregation == "pass-fail" and group.aggregation != "pass-fail":
                raise PackageError(f"{where}: score_aggregation: must be pass-fail, as it is for secret")
            for name in group.require_pass:
                if name not in earlier or (group.name == "secret" and name != "sample"):
                    raise PackageError(f"{where}: require_pass: '{name[:80]}' is no group that comes before this one")
                if earlier[name] != "pass-fail":
                    raise PackageError(f"{where}: require_pass: '{name[:80]}' must have aggregation pass-fail")
            earlier[group.name] = group.aggregation
            if not any(test.name.startswith(group.name + "/") for test in self._found.tests):
                raise PackageError(f"{where}: its group has no tests; add some, or remove the folder")

    def _need_graders(self) -> None:
        """Keep the legacy grader's settings where they can make a difference to the first failing test's verdict."""
        plain = all(
            group.on_reject == "break" or group.verdict == "first_error"
            for group in self._found.graders
            if group.verdict != "always_accept" and not group.accept_if_any and not group.ignore_sample
        ) and not any(
            group.verdict == "always_accept" or group.accept_if_any or group.ignore_sample
            for group in self._found.graders
        )
        if plain and not self._yaml.scoring:
            self._found.graders = []


def _changed(above: _Inherited, settings: metadata.TestSettings, place: str) -> _Inherited:
    found = above
    if settings.output_validator_args is not None:
        found = replace(found, flags=tuple(settings.output_validator_args), place=place)
    if settings.args is not None:
        found = replace(found, args=tuple(settings.args))
    return found


def _grader(name: str, keys: Mapping[str, object]) -> LegacyGroup:
    """The default grader's settings of one folder, out of the keys that it and the folders above it set."""
    raw = keys.get("grader_flags", [])
    flags = [str(flag) for flag in raw] if isinstance(raw, list) else []
    chosen: dict[str, object] = {"name": name}
    for flag in flags:
        if flag in metadata.VERDICT_MODES:
            chosen["verdict"] = flag
        elif flag in metadata.SCORE_MODES:
            chosen["score"] = flag
    chosen["ignore_sample"] = "ignore_sample" in flags
    chosen["accept_if_any"] = "accept_if_any_accepted" in flags
    for key in ("on_reject", "accept_score", "reject_score"):
        if keys.get(key) is not None:
            chosen[key] = keys[key]
    bounds = keys.get("range")
    if isinstance(bounds, tuple):
        chosen["low"], chosen["high"] = bounds
    return LegacyGroup.model_validate(chosen)
