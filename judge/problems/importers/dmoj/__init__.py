"""Problems of DMOJ: init.yml, the archive and the programs that it names (https://docs.dmoj.ca)."""

from __future__ import annotations

import math
import re
from typing import Any

from judge import yamltext
from judge.errors import PackageError
from judge.problems import metadata
from judge.problems.importers.dmoj import generation, graders, programs, tests
from judge.problems.importers.draft import Draft, ImporterWords, Ref, as_number
from judge.problems.tree import Tree, clean

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
_KNOWN = _QUIET | {
    "archive", "test_cases", "pretest_test_cases", "checker", "checker_args", "custom_judge", "interactive", "points",
    "signature_grader", "generator", "generator_args", "unbuffered", "output_limit_length", "file_io", "in", "out",
    "io_redirects", "time_limit", "memory_limit", "dependencies", "grader", "grader_args", "output_only",
    "communication", "io_mode", "input_file", "output_file",
}  # fmt: skip


def matches(tree: Tree) -> bool:
    """Says whether there is an init.yml."""
    return INIT in tree.files


def convert(tree: Tree, asked: ImporterWords) -> Draft:
    """The package of one problem of DMOJ; PackageError."""
    draft = Draft(tree, "dmoj")
    where = tree.where(INIT)
    said = metadata.read(tree.read(INIT, 4 * _MIB), where).value
    for key in said:
        if str(key).endswith("+"):
            raise PackageError(f"{where}: {key}: is made by Python code, which is not run; write its value out")
    tests.refuse_links(said, where)
    draft.check_keys(said, _KNOWN, where, strict=True)
    if said.get("output_only"):
        _output_only(draft, said, where)
    archive = _archive(draft, said)
    partial = _programs(draft, said, where)
    tests.put(draft, said, where, archive, asked, partial=partial)
    if said.get("communication"):
        # A manager says which part of the points; validators are told how many there are.
        for settings in draft.groups.values():
            settings.pop("output_validator_args", None)
    _limits(draft, said, asked, where)
    _file_io(draft, said, where)
    _solutions(draft)
    # Nobody wrote what generators make, and an empty standard error is no answer: none of it is named as left out.
    draft.unused(spared={INIT, *_named(said), *tree.below(generation.MADE)})
    return draft


def _named(said: Any) -> set[str]:
    """The names in init.yml: a program that it names may be in the package in other words."""
    found: set[str] = set()
    waiting = [said]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, str):
            found.add(one.removeprefix("./"))
    return found


def _programs(draft: Draft, said: dict[str, Any], where: str) -> bool:
    """All that runs beside submissions, in the order in which that judge looks for it; whether it may give a part."""
    custom = said.get("custom_judge") or said.get("grader")
    if said.get("signature_grader"):
        graders.put_signature(draft, said["signature_grader"], "signature_grader", where)
    if custom:
        for key in ("interactive", "communication", "checker"):
            if said.get(key):
                draft.report.dropped(f"{key}: custom_judge decides")
        return graders.put_custom(draft, custom, where)
    if said.get("communication"):
        return graders.put_communication(draft, said, where)
    return programs.put(draft, said, where)


def _output_only(draft: Draft, said: dict[str, Any], where: str) -> None:
    """Have a file handed in for each test, called as its answer: as sites have it that were made from DMOJ."""
    for key in ("signature_grader", "interactive", "communication", "custom_judge", "grader"):
        if said.get(key):
            raise PackageError(f"{where}: output_only: there is no program that {key} could be for; remove one of them")
    draft.kind("submit-answer")
    draft.limits["time_limit"] = 1
    draft.report.took("output only: a file for each test is handed in, called as the test's answer")


def _archive(draft: Draft, said: dict[str, Any]) -> Tree | None:
    """The archive of the tests. Where it was unpacked, in place or in a folder, the cases must be listed."""
    name = said.get("archive")
    if not name:
        return None
    where = draft.tree.where(INIT)
    if not isinstance(name, str) or name not in draft.tree.files:
        listed = isinstance(name, str) and isinstance(said.get("test_cases"), list)
        if not listed:
            raise PackageError(f"{where}: archive: '{str(name)[:80]}' is not in the package")
        draft.report.took(f"tests beside init.yml, as the archive {name} is not there")
        return None
    draft.report.took(f"tests of the archive {name}")
    return draft.nested(name)


def _limits(draft: Draft, said: dict[str, Any], asked: ImporterWords, where: str) -> None:
    """Limits are in the site's database; some people write them into init.yml as well, memory in KiB."""
    for key, ours, factor in (("time_limit", "time_limit", 1.0), ("memory_limit", "memory", 1 / 1024)):
        value = said.get(key)
        if value is None:
            continue
        most, unit = (_MOST_SECONDS, "seconds") if key == "time_limit" else (_MOST_KIB, "KiB")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            raise PackageError(f"{where}: {key}: '{str(value)[:40]}' is not a number of {unit} above 0, up to {most}")
        draft.limits[ours] = as_number(value) if ours == "time_limit" else max(4, math.ceil(value * factor))
    if asked.memory is not None:
        draft.limits["memory"] = asked.memory
    lacking = [name for key, name in (("time_limit", "time"), ("memory", "memory")) if key not in draft.limits]
    if lacking:
        draft.report.dropped(
            f"{' and '.join(lacking)} limit: the site's database has it; --time-limit and --memory set them"
        )
    output = said.get("output_limit_length")
    if isinstance(output, int) and not isinstance(output, bool) and 0 < output <= 1024 * _MIB:
        draft.limits["output"] = max(1, -(-output // _MIB))
    if said.get("unbuffered"):
        draft.report.dropped("unbuffered: submissions have to flush what they print")


def _file_io(draft: Draft, said: dict[str, Any], where: str) -> None:
    """Files in place of standard input and output, in the site's two ways of saying it, and in another site's."""
    given = said.get("file_io") or _io_mode(said, where)
    redirects = said.get("io_redirects") or {}
    if not isinstance(given, dict) or not isinstance(redirects, dict):
        raise PackageError(f"{where}: file_io: expected a mapping with input and output")
    names = {key: yamltext.optional_text(given, key) for key in ("input", "output")}
    for name, how in redirects.items():
        number = how.get("fd") if isinstance(how, dict) else None
        key = {"0": "input", "stdin": "input", "1": "output", "stdout": "output"}.get(str(number))
        if key is not None:
            names[key] = name
    for key, name in names.items():
        if name and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", str(name)):
            raise PackageError(f"{where}: {key} file: '{clean(str(name), 40)}' is not the name of a file; correct it")
        if name:
            draft.judge[f"{key}_file"] = str(name)
            draft.report.took(f"{key} file {name}")


def _io_mode(said: dict[str, Any], where: str) -> dict[str, Any]:
    """`io_mode: file` with `input_file` and `output_file`, as sites made from DMOJ have it."""
    mode = said.get("io_mode")
    if mode not in (None, "std", "file"):
        raise PackageError(f"{where}: io_mode: '{str(mode)[:40]}' is neither std nor file")
    names = {key: yamltext.optional_text(said, f"{key}_file") for key in ("input", "output")}
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
    taken = {content.path for content in draft.files.values() if isinstance(content, Ref)}
    for path in () if count else sorted(draft.tree.files.keys() - taken):
        if _SOLUTION.fullmatch(path.lower()):
            draft.put(f"submissions/accepted/{path}", Ref(draft.tree, path))
            draft.report.took(f"solution {path} as accepted, by its name")
    for ending in ("pdf", "md", "html"):
        for name in (f"statement.{ending}", f"problem.{ending}"):
            if name in draft.tree.files and f"statement/problem.en.{ending}" not in draft.files:
                draft.put(f"statement/problem.en.{ending}", Ref(draft.tree, name))
                draft.report.took(f"statement {name}")
