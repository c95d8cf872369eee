"""The programs and files of a problem of Polygon: checker, interactor, validators, solutions, resources (<assets>)."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any
from xml.etree.ElementTree import Element

from judge.common.errors import PackageError
from judge.languages.table import load_table
from judge.problems.importers import testlib
from judge.problems.importers.draft import Draft, Ref, slug
from judge.problems.importers.polygon.document import PROBLEM_XML, path_of, runs, source

# A tag, the folder for it, and what its tests may be and what one must be, where the folder does not say just that.
_ANY = ["AC", "WA", "TLE", "RTE"]
_TAGS: dict[str, tuple[str, dict[str, list[str]] | None]] = {
    "main": ("accepted", None),
    "accepted": ("accepted", None),
    "wrong-answer": ("wrong_answer", {"permitted": _ANY, "required": ["WA"]}),
    "presentation-error": ("wrong_answer", {"permitted": _ANY, "required": ["WA"]}),
    "time-limit-exceeded": ("time_limit_exceeded", {"permitted": _ANY, "required": ["TLE"]}),
    "time-limit-exceeded-or-accepted": ("time_limit_exceeded_or_accepted", {"permitted": ["AC", "TLE"]}),
    "time-limit-exceeded-or-memory-limit-exceeded": (
        "time_or_memory_limit_exceeded",
        {"permitted": _ANY, "required": ["TLE", "RTE"]},
    ),
    "memory-limit-exceeded": ("memory_limit_exceeded", {"permitted": _ANY, "required": ["RTE"]}),
    "runtime-error": ("run_time_error", {"permitted": _ANY, "required": ["RTE"]}),
    "run-time-error": ("run_time_error", {"permitted": _ANY, "required": ["RTE"]}),
    "rejected": ("rejected", None),
    "failed": ("rejected", None),
}
_CLASSES = {
    "accepted": ["AC"],
    "wrong-answer": ["WA"],
    "time-limit-exceeded": ["TLE"],
    "memory-limit-exceeded": ["RTE"],
}
# Polygon's name of a language begins with this, and a file's ending does not say it: here it is called so.
_ENDINGS = {"python.2": ".py2", "python.pypy2": ".py2"}
_GRADED = {"cpp": "cpp", "c": "c", "java": "java", "python": "python3", "pas": "pascal", "kotlin": "kotlin"}
# Files that Polygon puts into every package, and files that its own tools need.
_OWN_FILES = frozenset({"olymp.sty", "problem.tex", "statements.ftl", "testlib.h", "tutorial.tex"})


@dataclass(frozen=True)
class Programs:
    """The programs' part in scoring: says whether a test's points may be given in part."""

    partial: bool = False
    interactive: bool = False


def put_programs(draft: Draft, root: Element) -> Programs:
    """Checker, interactor and input validators; PackageError when one cannot be used."""
    count = runs(root, draft.tree.where(PROBLEM_XML))
    twice = count > 1
    element = root.find("assets/checker")
    name = "" if element is None else (element.get("name") or "")
    standard = name.removeprefix("std::").partition(".")[0] if name.startswith("std::") else ""
    interactor = source(draft, root.find("assets/interactor"))
    for position, validator in enumerate(root.iterfind("assets/validators/validator"), 1):
        _put_validator(draft, validator, position)
    if interactor is None and not twice and standard in testlib.CHECKERS:
        flags = testlib.CHECKERS[standard]
        _put_flags(draft, flags)
        draft.report.took(f"checker {name} as the default validator {' '.join(flags)}".rstrip())
        return Programs()
    checker = _checker(draft, element, standard, only_checker=interactor is None and not twice)
    if checker is None and interactor is None:
        return Programs()
    style = _style(root, count, interactor is not None, draft)
    draft.kind(*(kind for kind, present in (("interactive", interactor is not None), ("multi-pass", twice)) if present))
    testlib.put_checker(draft, checker, interactor, style)
    for role, program in (("checker", checker), ("interactor", interactor)):
        if program is not None:
            draft.report.took(f"{role} {program.ref.path} (testlib)")
    partial = any(program is not None and testlib.gives_points(program.ref) for program in (checker, interactor))
    return Programs(partial, interactor is not None)


def _style(root: Element, count: int, interactive: bool, draft: Draft) -> testlib.Style:
    """The way in which programs are asked: points as percents, and submissions that run twice."""
    defines: list[str] = []
    judging = root.find("judging")
    if judging is not None and (judging.get("treat-points-from-checker-as-percent") or "").lower() == "true":
        defines.append("PERCENT")
    if count > 1:
        where = draft.tree.where(PROBLEM_XML)
        if count > 2:
            raise PackageError(
                f"{where}: run-count: '{count}' runs of a submission are more than the two that are known"
            )
        runs_element = root.find("assets/interactor/runs")
        run_numbers = (
            {(run.text or "").strip() for run in runs_element.iterfind("run")} if runs_element is not None else set()
        )
        if run_numbers and "1" not in run_numbers:
            raise PackageError(f"{where}: interactor: is there for the second run alone, which is not done here")
        two_runs = (
            "2" in run_numbers if run_numbers else runs_element is not None or root.find("judging[@run-count]") is None
        )
        defines.append(f"RUNS={2 if interactive and two_runs else 1}")
        draft.report.took(
            "submissions run twice, as a multi-pass problem; answers are the package's, and are there in both runs"
        )
    return replace(testlib.TESTLIB, defines=tuple(defines))


def _checker(
    draft: Draft, element: Element | None, standard: str, *, only_checker: bool
) -> testlib.ProgramSource | None:
    """The checker's source; None for one of testlib's own whose source is absent, and where there is none at all."""
    if element is None:
        draft.report.dropped("the checker: there is none; tokens are compared")
        return None
    kind = element.get("type") or "testlib"
    if kind != "testlib":
        raise PackageError(
            f"{draft.tree.where(PROBLEM_XML)}: checker: type '{kind[:40]}' is not known; expected testlib"
        )
    try:
        return source(draft, element, "check.cpp")
    except PackageError:
        if not only_checker or standard not in testlib.CLOSE_CHECKERS:
            raise
    flags = testlib.CLOSE_CHECKERS[standard]
    _put_flags(draft, flags)
    draft.report.dropped(f"checker std::{standard}: without its source it is the default validator {flags}")
    return None


def _put_flags(draft: Draft, flags: list[str]) -> None:
    if flags:
        for folder in ("data/sample", "data/secret"):
            draft.group(folder, {"output_validator_args": list(flags)})


def _put_validator(draft: Draft, element: Element, position: int) -> None:
    try:
        program = source(draft, element)
        if program is not None:
            testlib.put_input_validator(draft, f"validator{position}" if position > 1 else "validator", program)
            draft.report.took(f"input validator {program.ref.path} (testlib)")
    except PackageError as exc:
        # No verdict depends on it.
        draft.report.dropped(f"input validator: {exc}")


# --- solutions -------------------------------------------------------------------------------------------------------


def put_solutions(draft: Draft, root: Element, *, partial: bool = False) -> None:
    """Solutions in the folders that their tags mean, and submissions.yaml for what folders cannot say.

    `partial`: every test of a solution can be right, and yet not have all of its points.
    """
    rules: dict[str, Any] = {"rejected": {"permitted": _ANY, "required": _ANY}} if partial else {}
    counts: Counter[str] = Counter()
    for element in root.iterfind("assets/solutions/solution"):
        path = path_of(element.find("source"))
        if path not in draft.tree.files:
            draft.report.dropped(f"solution {path}: it is not in the package")
            continue
        tag = (element.get("tag") or "").lower()
        folder, rule = _TAGS.get(tag, ("", None))
        if not folder:
            draft.report.dropped(f"solution {path}: nothing is known of its tag '{tag}'")
            continue
        target = _place(draft, folder, path, (element.find("source") or Element("x")).get("type") or "")
        draft.put(target, Ref(draft.tree, path))
        counts[tag] += 1
        if rule is not None:
            rules[folder] = rule
        extra = _extra(element)
        if extra:
            rules[target.removeprefix("submissions/")] = {**(rule or {}), **extra}
    if rules:
        draft.put_yaml("submissions/submissions.yaml", rules)
    if counts:
        draft.report.took("solutions: " + ", ".join(f"{count} {tag}" for tag, count in counts.items()))


def _place(draft: Draft, folder: str, path: str, kind: str) -> str:
    stem, ending = posixpath.splitext(posixpath.basename(path))
    ending = next((new for begin, new in _ENDINGS.items() if kind.startswith(begin)), ending.lower())
    return draft.free(f"submissions/{folder}/{slug(stem)}{ending}")


def _extra(solution: Element) -> dict[str, Any]:
    """The outcome that is expected of a solution in single groups, as submissions.yaml says it."""
    demands: dict[str, Any] = {}
    for tag in solution.iterfind("extra-tags/extra-tag"):
        group, classes = tag.get("group"), _CLASSES.get((tag.get("tag") or "").lower())
        if group and classes:
            demands[f"secret/*_{slug(group)}"] = {
                "permitted": list(dict.fromkeys(["AC", *classes])),
                "required": classes,
            }
    return demands


# --- other files -----------------------------------------------------------------------------------------------------


def put_files(draft: Draft, root: Element) -> None:
    """Resources that are compiled with solutions, attachments, and the sources of generators."""
    graders = sum(_put_grader(draft, file) for file in root.iterfind("files/resources/file"))
    if graders:
        draft.report.took(f"{graders} files that are compiled with submissions")
    for place in ("files/attachments/file", "attachments/attachment", "materials/material"):
        for file in root.iterfind(place):
            path = path_of(file)
            is_public = (file.get("publish") or "with-statement").lower().replace("_", "-") == "with-statement"
            if path in draft.tree.files and is_public:
                draft.put(f"attachments/{slug(posixpath.basename(path))}", Ref(draft.tree, path))
                draft.report.took(f"attachment {path}")
    programs = draft.used()
    for executable in root.iterfind("files/executables/executable"):
        path = path_of(executable.find("source"))
        if path in draft.tree.files and path not in programs:
            target = f"generators/{slug(posixpath.basename(path))}"
            if target not in draft.files:
                draft.put(target, Ref(draft.tree, path))


def _put_grader(draft: Draft, file: Element) -> int:
    """A resource for solutions, as a file that goes with submissions; the number of languages that it is for."""
    path = path_of(file)
    assets = {(asset.get("name") or "").lower() for asset in file.iterfind("assets/asset")}
    stages = {(stage.get("name") or "").lower() for stage in file.iterfind("stages/stage")}
    name = posixpath.basename(path)
    if "solution" not in assets or name in _OWN_FILES or path not in draft.tree.files:
        return 0
    if stages and "compile" not in stages:
        draft.report.dropped(f"resource {path}: is for solutions while they run; files of tests are not made of it")
        return 0
    types = [kind for kind in re.split(r"[;,\s]+", (file.get("for-types") or "").lower()) if kind]
    kinds = {
        language
        for prefix, language in _GRADED.items()
        if any(
            fnmatch.fnmatchcase(f"{prefix}.x", kind) or kind.split(".")[0] in {prefix, prefix + "*"} for kind in types
        )
    }
    if not types:
        kinds = {"cpp", "c"} if name.endswith((".h", ".hpp")) else {"cpp"} if name.endswith((".cpp", ".cc")) else set()
    kinds &= load_table().keys()
    for language in sorted(kinds):
        draft.put(f"include/{language}/{slug(name)}", Ref(draft.tree, path))
        if language not in {"c", "cpp"}:
            draft.judge["entry"] = posixpath.splitext(name)[0]
    if not kinds:
        draft.report.dropped(f"resource {path}: it is for solutions in languages that are not known")
    return len(kinds)
