"""Problems of DMOJ: init.yml, the archive and the programs that it names (https://docs.dmoj.ca)."""

from __future__ import annotations

import math
import re
from typing import Any

from judge.common import yamltext
from judge.common.errors import PackageError
from judge.problems import metadata
from judge.problems.importers.dmoj import generation, graders, programs, tests
from judge.problems.importers.draft import Draft, ImporterWords, Ref, as_number, file_name
from judge.problems.tree import Tree

INIT = "init.yml"
_MIB = 1024**2
# The largest limits that there are here.
_MOST_SECONDS, _MOST_KIB = 600, 64 * 1024**2
# Names of a right solution beside init.yml.
_SOLUTION = re.compile(r"(?:sol|solution|std|model_solution|ac)\.(?:c|cc|cpp|py|java|pas|rs|go|hs|kt|cs|rb|js)")
# Keys that only say how the site shows a judging, or that its judge does something that is done here anyway.
_QUIET = frozenset({
    "hints", "output_prefix_length", "short_circuit", "wall_time_factor", "binary_data", "feedback",
    "output_size_limit", "binary_answer_data",
})  # fmt: skip
_KEYS = _QUIET | {
    "archive", "test_cases", "pretest_test_cases", "checker", "checker_args", "custom_judge", "interactive", "points",
    "signature_grader", "generator", "generator_args", "unbuffered", "output_limit_length", "file_io", "in", "out",
    "io_redirects", "time_limit", "memory_limit", "dependencies", "grader", "grader_args", "output_only",
    "communication", "io_mode", "input_file", "output_file",
}  # fmt: skip


def matches(tree: Tree) -> bool:
    return INIT in tree.files


def convert(tree: Tree, options: ImporterWords) -> Draft:
    draft = Draft(tree, "dmoj")
    where = tree.where(INIT)
    init = metadata.read(tree.read(INIT, 4 * _MIB), where).value
    for key in init:
        if str(key).endswith("+"):
            raise PackageError(f"{where}: {key}: is made by Python code, which is not run; write its value out")
    tests.refuse_links(init, where)
    draft.check_keys(init, _KEYS, where, strict=True)
    if init.get("output_only"):
        _output_only(draft, init, where)
    archive = _archive(draft, init)
    partial = _programs(draft, init, where)
    tests.put(draft, init, where, archive, options, partial=partial)
    if init.get("communication"):
        # A manager says which part of the points; validators are told how many there are.
        for settings in draft.groups.values():
            settings.pop("output_validator_args", None)
    _limits(draft, init, options, where)
    _file_io(draft, init, where)
    _solutions(draft)
    # Nobody wrote what generators make, and an empty standard error is no answer: none of it is named as left out.
    draft.unused(exempt={INIT, *_paths_in(init), *tree.below(generation.FOLDER)})
    return draft


def _paths_in(settings: Any) -> set[str]:
    """The names in init.yml: a program that it names may be in the package in other words."""
    paths: set[str] = set()
    waiting = [settings]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            paths.add(value.removeprefix("./"))
    return paths


def _programs(draft: Draft, settings: dict[str, Any], where: str) -> bool:
    """All that runs beside submissions, in the order in which that judge looks for it; whether it may give a part."""
    custom = settings.get("custom_judge") or settings.get("grader")
    if settings.get("signature_grader"):
        graders.put_signature(draft, settings["signature_grader"], "signature_grader", where)
    if custom:
        for key in ("interactive", "communication", "checker"):
            if settings.get(key):
                draft.report.dropped(f"{key}: custom_judge decides")
        return graders.put_custom(draft, custom, where)
    if settings.get("communication"):
        return graders.put_communication(draft, settings, where)
    return programs.put(draft, settings, where)


def _output_only(draft: Draft, settings: dict[str, Any], where: str) -> None:
    """Have a file handed in for each test, called as its answer: as sites have it that were made from DMOJ."""
    for key in ("signature_grader", "interactive", "communication", "custom_judge", "grader"):
        if settings.get(key):
            raise PackageError(f"{where}: output_only: there is no program that {key} could be for; remove one of them")
    draft.kind("submit-answer")
    draft.limits["time_limit"] = 1
    draft.report.took("output only: a file for each test is handed in, called as the test's answer")


def _archive(draft: Draft, settings: dict[str, Any]) -> Tree | None:
    """The archive of the tests. Where it was unpacked, in place or in a folder, the cases must be listed."""
    name = settings.get("archive")
    if not name:
        return None
    where = draft.tree.where(INIT)
    if not isinstance(name, str) or name not in draft.tree.files:
        has_list = isinstance(name, str) and isinstance(settings.get("test_cases"), list)
        if not has_list:
            raise PackageError(f"{where}: archive: '{str(name)[:80]}' is not in the package")
        draft.report.took(f"tests beside init.yml, as the archive {name} is not there")
        return None
    draft.report.took(f"tests of the archive {name}")
    return draft.nested(name)


def _limits(draft: Draft, settings: dict[str, Any], options: ImporterWords, where: str) -> None:
    """Limits are in the site's database; some people write them into init.yml as well, memory in KiB."""
    for key, most, unit in (("time_limit", _MOST_SECONDS, "seconds"), ("memory_limit", _MOST_KIB, "KiB")):
        value = settings.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            raise PackageError(f"{where}: {key}: '{str(value)[:40]}' is not a number of {unit} above 0, up to {most}")
        if key == "time_limit":
            draft.limits["time_limit"] = as_number(value)
        else:
            draft.limits["memory"] = max(4, math.ceil(value / 1024))
    if options.memory is not None:
        draft.limits["memory"] = options.memory
    missing_limits = [name for key, name in (("time_limit", "time"), ("memory", "memory")) if key not in draft.limits]
    if missing_limits:
        draft.report.dropped(
            f"{' and '.join(missing_limits)} limit: the site's database has it; --time-limit and --memory set them"
        )
    output = settings.get("output_limit_length")
    if isinstance(output, int) and not isinstance(output, bool) and 0 < output <= 1024 * _MIB:
        draft.limits["output"] = max(1, -(-output // _MIB))
    if settings.get("unbuffered"):
        draft.report.dropped("unbuffered: submissions have to flush what they print")


def _file_io(draft: Draft, settings: dict[str, Any], where: str) -> None:
    """Files in place of standard input and output, in the site's two ways of saying it, and in another site's."""
    file_io = settings.get("file_io") or _io_mode(settings, where)
    redirects = settings.get("io_redirects") or {}
    if not isinstance(file_io, dict) or not isinstance(redirects, dict):
        raise PackageError(f"{where}: file_io: expected a mapping with input and output")
    names = {key: yamltext.optional_text(file_io, key) for key in ("input", "output")}
    for name, redirect in redirects.items():
        number = redirect.get("fd") if isinstance(redirect, dict) else None
        key = {"0": "input", "stdin": "input", "1": "output", "stdout": "output"}.get(str(number))
        if key is not None:
            names[key] = name
    for key, name in names.items():
        if name:
            draft.judge[f"{key}_file"] = file_name(str(name), f"{where}: {key} file")
            draft.report.took(f"{key} file {name}")


def _io_mode(settings: dict[str, Any], where: str) -> dict[str, Any]:
    """`io_mode: file` with `input_file` and `output_file`, as sites made from DMOJ have it."""
    mode = settings.get("io_mode")
    if mode not in (None, "std", "file"):
        raise PackageError(f"{where}: io_mode: '{str(mode)[:40]}' is neither std nor file")
    names = {key: yamltext.optional_text(settings, f"{key}_file") for key in ("input", "output")}
    if mode == "file" and not all(names.values()):
        raise PackageError(f"{where}: io_mode: is file, so input_file and output_file must be names of files; add them")
    return names if mode == "file" else {}


def _solutions(draft: Draft) -> None:
    """DMOJ has no place for solutions: those in folders of the package format, else one beside init.yml by its name."""
    count = 0
    for path in draft.tree.below("submissions"):
        if path.count("/") == 2:
            draft.put(path, Ref(draft.tree, path))
            count += 1
    if count:
        draft.report.took(f"{count} solutions of submissions/")
    for path in () if count else sorted(draft.tree.files.keys() - draft.used()):
        if _SOLUTION.fullmatch(path.lower()):
            draft.put(f"submissions/accepted/{path}", Ref(draft.tree, path))
            draft.report.took(f"solution {path} as accepted, by its name")
    for ending in ("pdf", "md", "html"):
        for name in (f"statement.{ending}", f"problem.{ending}"):
            if name in draft.tree.files and f"statement/problem.en.{ending}" not in draft.files:
                draft.put(f"statement/problem.en.{ending}", Ref(draft.tree, name))
                draft.report.took(f"statement {name}")
