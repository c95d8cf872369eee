"""The tests of init.yml: cases, batches and what they depend on, listed or found in the archive by patterns."""

from __future__ import annotations

import json
import posixpath
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from judge.common import yamltext
from judge.common.errors import PackageError
from judge.common.text import decimal
from judge.problems.importers import line_ends
from judge.problems.importers.cases import ImportedCase, ImportedSubtask, Rule, points, write_plain, write_scored
from judge.problems.importers.dmoj.generation import FOLDER, DmojGeneration
from judge.problems.importers.draft import Content, Draft, ImporterWords, Ref
from judge.problems.importers.pairs import is_sample
from judge.problems.tree import Tree, clean

_MOST = 20_000
# The site's own patterns, for an init.yml that lists nothing.
_PATTERN = r"^(?=.*?\.WORD|WORD).*?(?:(?:^|\W)(?P<batch>\d+)[^\d\s]+)?(?P<case>\d+)[^\d\s]*$"
_PATTERN_BYTES, _NAME_CHARS = 500, 300
_SECONDS = 10.0
_MATCH = """
import json, re, sys
pattern, names = json.load(sys.stdin)
found = re.compile(pattern, re.IGNORECASE)
has = [name for name in ("batch", "case") if name in found.groupindex]
print(json.dumps([[name, {one: hit[one] for one in has}] for name in names if (hit := found.match(name))]))
"""
# Keys that a case has from its batch, or from the whole file, unless it says otherwise.
_INHERITED = ("in", "out", "points", "checker", "checker_args", "generator", "generator_args", "binary_data")


# Keys of a case or batch. Those after the first line say how a case is shown or run, not whether it is right.
_OF_CASES = frozenset({
    *_INHERITED, "batched", "dependencies", "requirements", "time_limit", "memory_limit",
    "output_prefix_length", "output_limit_length", "wall_time_factor", "is_pretest", "feedback",
})  # fmt: skip
_OF_PATTERNS = frozenset({"input_format", "output_format", "case_points"})


@dataclass
class _TestsSource:
    """The place of the tests' files: beside init.yml, else in the archive, or in `folder` where it was unpacked."""

    draft: Draft
    archive: Tree | None
    where: str
    generation: DmojGeneration
    folder: str = ""
    # The time and memory limit that the person who imports it gave for all tests.
    options: ImporterWords = field(default_factory=ImporterWords)
    # Cases whose files are texts for that judge.
    texts: list[ImportedCase] = field(default_factory=list)

    def find(self, name: str | None, label: str) -> Content:
        """The file of this name; nothing is said of a file that a case does not have."""
        if name is None:
            return b""
        path = name.replace("\\", "/").removeprefix("./")
        for tree in (self.draft.tree, self.archive):
            if tree is not None and path in tree.files:
                return Ref(tree, path)
        if self.folder and f"{self.folder}/{path}" in self.draft.tree.files:
            return Ref(self.draft.tree, f"{self.folder}/{path}")
        raise PackageError(f"{self.where}: {label}: '{clean(path, 80)}' is neither beside init.yml nor in the archive")


def put(
    draft: Draft,
    settings: Mapping[str, Any],
    where: str,
    archive: Tree | None,
    options: ImporterWords,
    *,
    partial: bool,
) -> None:
    """All tests. `partial`: a checker or interactor may give a part of a case's points."""
    name = yamltext.optional_text(settings, "archive") or ""
    generation = DmojGeneration(draft, where)
    source = _TestsSource(draft, archive, where, generation, "" if archive else posixpath.splitext(name)[0], options)
    test_cases = settings.get("test_cases")
    pretests = settings.get("pretest_test_cases") or []
    if not isinstance(pretests, list):
        raise PackageError(f"{where}: pretest_test_cases: expected a list of cases")
    if test_cases is None and pretests and archive is None:
        test_cases, pretests = pretests, []  # a problem with pretests alone is judged by them
    listed = test_cases if isinstance(test_cases, list) else _matched(draft, test_cases, source)
    top = _inherited(settings)
    subtasks: list[ImportedSubtask] = []
    batches: list[str] = []
    entries = [(entry, True) for entry in pretests] + [(entry, False) for entry in listed]
    for number, (entry, first) in enumerate(entries, 1):
        if not isinstance(entry, dict):
            raise PackageError(f"{where}: test_cases: {number}: expected a mapping with in, out and points")
        subtasks.append(_subtask(entry, top, number, source, batches, first=first, partial=partial))
    cases = [case for subtask in subtasks for case in subtask.cases]
    if not 0 < len(cases) <= _MOST:
        count = f"more than {_MOST}" if cases else "no"
        raise PackageError(f"{where}: test_cases: has {count} cases")
    generation.check()
    printed = {Ref(draft.tree, path) for path in draft.tree.below(FOLDER) if path.endswith(".in")}
    line_ends.change(draft, source.texts, line_ends.dmoj, "DMOJ's judge does it (LF, also at the end)", printed)
    spoken = "points" in settings or any("points" in entry for entry, _ in entries) or settings.get("case_points")
    scored = spoken and sum(subtask.points for subtask in subtasks)
    if scored:
        _require_nothing_failed(subtasks)
        subtasks = _joined(subtasks)
    if settings.get("output_only"):
        _name_by_answers(cases)
    if scored:
        write_scored(draft, subtasks, partial=partial)
    else:
        write_plain(draft, cases)
    draft.report.took(f"{len(cases)} cases, {len(batches)} batches, {len(pretests)} pretests")


def _subtask(
    entry: Mapping[str, Any],
    top: Mapping[str, Any],
    number: int,
    source: _TestsSource,
    batches: list[str],
    *,
    first: bool,
    partial: bool,
) -> ImportedSubtask:
    """A batch, or a case of its own, which is a batch of one for the score."""
    _check_keys(entry, source)
    keys = yamltext.merged(top, _inherited(entry))
    worth = Fraction(0) if first else points(keys.get("points", 1), f"{source.where}: test_cases: {number}: points")
    name = f"{number:02d}"
    batched = entry.get("batched")
    if batched is None:
        return ImportedSubtask(name, [_case(keys, name, source)], worth, "each" if partial else "all")
    if not isinstance(batched, list) or any(not isinstance(case, dict) or "batched" in case for case in batched):
        raise PackageError(f"{source.where}: test_cases: {number}: batched: expected a list of cases")
    batches.append(name)
    for case in batched:
        _check_keys(case, source)
    cases = [_case(yamltext.merged(keys, case), f"{name}_{place:02d}", source) for place, case in enumerate(batched, 1)]
    if not cases:
        raise PackageError(f"{source.where}: test_cases: {number}: batched: has no cases")
    rule: Rule = "min" if partial else "all"
    return ImportedSubtask(name, cases, worth, rule, _dependencies(entry, number, source, batches))


def refuse_links(settings: Mapping[str, Any], where: str) -> None:
    if settings.get("symlinks"):
        msg = "programs find files of DMOJ's own machine beside them, which no package has"
        raise PackageError(f"{where}: symlinks: {msg}; give such files with the tests (NAME.files/ in format 2025-09)")


def _check_keys(entry: Mapping[str, Any], source: _TestsSource) -> None:
    refuse_links(entry, f"{source.where}: test_cases")
    source.draft.check_keys(entry, _OF_CASES, f"{source.where}: test_cases", strict=True)
    for limit, option, override in (
        ("time_limit", "--time-limit", source.options.time_limit),
        ("memory_limit", "--memory", source.options.memory),
    ):
        if limit in entry and override is None:
            msg = f"a test has no limit of its own here; remove it, or give one for all ({option})"
            raise PackageError(f"{source.where}: test_cases: {limit}: {msg}")
        if limit in entry:
            source.draft.report.dropped(f"{limit} of single cases: {option} is for all")


def _dependencies(entry: Mapping[str, Any], number: int, source: _TestsSource, batches: Sequence[str]) -> list[str]:
    """The names of the batches that one depends on; they are counted from 1, without the cases between them."""
    dependencies = entry.get("dependencies") or entry.get("requirements") or []  # the second is the older name
    valid = isinstance(dependencies, list) and all(
        isinstance(index, int) and not isinstance(index, bool) and 1 <= index < len(batches) for index in dependencies
    )
    if not valid:
        msg = f"test_cases: {number}: dependencies: expected numbers of batches that come before this one"
        raise PackageError(f"{source.where}: {msg}")
    return [batches[index - 1] for index in dependencies]


def _inherited(settings: Mapping[str, Any]) -> yamltext.Fields:
    keys = yamltext.merged(settings)
    for key in [key for key in keys if key not in _INHERITED]:
        del keys[key]
    return keys


def _case(keys: Mapping[str, Any], name: str, source: _TestsSource) -> ImportedCase:
    input_content = source.find(yamltext.optional_text(keys, "in"), "in")
    answer = source.find(yamltext.optional_text(keys, "out"), "out")
    if source.generation.applies(keys):
        input_content, printed = source.generation.files(keys, name, input_content)
        answer = printed if keys.get("out") is None else answer
    sample = isinstance(input_content, Ref) and is_sample(input_content.path)
    case = ImportedCase(name, input_content, answer, sample=sample)
    if not keys.get("binary_data"):
        source.texts.append(case)
    return case


def _name_by_answers(cases: Iterable[ImportedCase]) -> None:
    """Name tests as their answers, where outputs are handed in: their files are called so."""
    for case in cases:
        if isinstance(case.answer, Ref):
            case.name = posixpath.splitext(posixpath.basename(case.answer.path))[0]


def _require_nothing_failed(subtasks: Sequence[ImportedSubtask]) -> None:
    """A case or batch of 0 points that fails ends everything: all that comes later requires it.

    Each requires the last of them alone, which has required those before it: with thousands, all of all would be
    millions. Samples require nothing themselves, as they become one group, so one of them stands for all.
    """
    samples: list[str] = []
    last: list[str] = []
    for subtask in subtasks:
        subtask.requires = list(dict.fromkeys([*samples, *last, *subtask.requires]))
        if not subtask.points:
            subtask.rule = "all"
            if all(case.sample for case in subtask.cases):
                samples = samples or [subtask.name]
            else:
                last = [subtask.name]


def _joined(subtasks: Sequence[ImportedSubtask]) -> list[ImportedSubtask]:
    """Single cases of equal worth in a row as one group that shares its points, where nothing depends on them."""
    required = {name for subtask in subtasks for name in subtask.requires}
    joined: list[ImportedSubtask] = []
    for subtask in subtasks:
        last = joined[-1] if joined else None
        mergeable = subtask.cases[0].name == subtask.name and subtask.points and subtask.name not in required
        if (
            mergeable
            and last is not None
            and last.rule == "each"
            and last.requires == subtask.requires
            and last.points == subtask.points * len(last.cases)
        ):
            last.cases += subtask.cases
            last.points += subtask.points
        elif mergeable:
            joined.append(ImportedSubtask(subtask.name, list(subtask.cases), subtask.points, "each", subtask.requires))
        else:
            joined.append(subtask)
    return joined


# --- patterns --------------------------------------------------------------------------------------------------------


def _matched(draft: Draft, patterns: Any, source: _TestsSource) -> list[dict[str, Any]]:
    """Cases by patterns of file names, as the site orders them: numbers after words, batches by their cases."""
    where = source.where
    if patterns is not None and not isinstance(patterns, dict):
        raise PackageError(f"{where}: test_cases: expected a list of cases, or a mapping with patterns")
    if source.archive is None:
        fault = "has patterns" if patterns else "is missing"
        raise PackageError(f"{where}: test_cases: {fault}; without an archive every case must be listed")
    settings = patterns or {}
    draft.check_keys(settings, _OF_PATTERNS, f"{where}: test_cases", strict=True)
    names = sorted(name for name in source.archive.files if len(name) <= _NAME_CHARS)
    files, batched = _grouped(settings, names, where)
    worth = settings.get("case_points")
    if worth is not None and (not isinstance(worth, list) or len(worth) < len(files)):
        raise PackageError(
            f"{where}: test_cases: case_points: expected a list with one number for each of {len(files)}"
        )
    entries: list[dict[str, Any]] = []
    for place, name in enumerate(sorted(files, key=_order)):
        cases = [files[name][case] for case in sorted(files[name], key=_order)]
        if name not in batched and len(cases) > 1:
            raise PackageError(f"{where}: test_cases: several cases are called '{clean(str(name), 40)}'")
        entry: dict[str, Any] = {"batched": cases} if name in batched else dict(cases[0])
        entries.append({**entry, **({"points": worth[place]} if worth is not None else {})})
    if not entries:
        raise PackageError(f"{where}: test_cases: no file of the archive is called as a case; list them")
    draft.report.took(f"{len(entries)} cases and batches by the names of their files")
    return entries


_Files = dict[int | str, dict[int | str, dict[str, str]]]


def _grouped(settings: Mapping[str, Any], names: Sequence[str], where: str) -> tuple[_Files, set[int | str]]:
    files: _Files = {}
    batched: set[int | str] = set()
    for half in ("in", "out"):
        key = f"{half}put_format"
        pattern = settings.get(key) or _PATTERN.replace("WORD", half)
        for name, hit in _search(pattern, names, f"{where}: test_cases: {key}"):
            case, batch = _key(hit.get("case")), _key(hit.get("batch"))
            if case is None:
                raise PackageError(
                    f"{where}: test_cases: {key}: has no group 'case' that matches in '{clean(name, 80)}'"
                )
            if batch is not None:
                batched.add(batch)
            files.setdefault(case if batch is None else batch, {}).setdefault(case, {})[half] = name
    return files, batched


def _order(key: int | str) -> tuple[bool, int | str]:
    return isinstance(key, int), key


def _key(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 100 else text


def _search(pattern: Any, names: Sequence[str], where: str) -> list[tuple[str, dict[str, str | None]]]:
    """The names that a pattern matches, with its groups. A stranger's pattern can take for ever, so others run it."""
    if not isinstance(pattern, str) or len(pattern.encode("utf-8", "replace")) > _PATTERN_BYTES:
        raise PackageError(f"{where}: expected a regular expression of at most {_PATTERN_BYTES} bytes")
    try:
        result = subprocess.run(
            [sys.executable, "-I", "-c", _MATCH],
            input=json.dumps([pattern, list(names)]).encode(),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise PackageError(f"{where}: takes longer than {decimal(_SECONDS)} s; write a simpler one") from exc
    if result.returncode != 0:
        raise PackageError(f"{where}: '{clean(pattern, 80)}' is not a regular expression of Python")
    matches: list[tuple[str, dict[str, str | None]]] = json.loads(result.stdout)
    return matches
