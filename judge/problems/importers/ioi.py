"""Shared parts of importers of IOI tasks, whichever system made them: checkers, managers, graders and subtasks.

The Contest Management System calls `checker INPUT ANSWER OUTPUT` and reads the outcome, a number from 0 to 1, from the
first line of its standard output, and a sentence for the contestant from that of standard error. cms_wrapper.sh makes
an output validator of it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import resources
from typing import Any, Literal

from judge.common.errors import PackageError
from judge.common.text import decimal
from judge.model.problem import PROCESSES
from judge.problems import metadata
from judge.problems.importers import testlib
from judge.problems.importers.cases import ImportedCase, write_scored
from judge.problems.importers.cases import ImportedSubtask as Group
from judge.problems.importers.cases import Rule as GroupRule
from judge.problems.importers.draft import TEXT_BYTES, Draft, Ref, as_number, read, unique
from judge.problems.tree import clean

HEADERS = (".h", ".hpp", ".hh")
# Beside a statement in Markdown, which shows them by name.
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".svg")
_C_FAMILY = (".c", ".cpp", ".cc", ".cxx")
# A suffix, the language here, and what makes a program of such a source (`{}` is its name without the suffix).
LANGUAGES = {
    ".c": "c",
    ".cpp": "cpp",
    ".cc": "cpp",
    ".cxx": "cpp",
    ".java": "java",
    ".pas": "pascal",
    ".py": "python3",
    ".rs": "rust",
    ".cs": "csharp",
    ".php": "php",
    ".hs": "haskell",
    ".kt": "kotlin",
    ".go": "go",
}
_BUILD = {
    ".cpp": "c++ -std=gnu++17 -O2 -w -DEVAL -o {0} {0}.cpp",
    ".cc": "c++ -std=gnu++17 -O2 -w -DEVAL -o {0} {0}.cc",
    ".cxx": "c++ -std=gnu++17 -O2 -w -DEVAL -o {0} {0}.cxx",
    ".c": "cc -std=gnu11 -O2 -w -DEVAL -o {0} {0}.c -lm",
    ".pas": "fpc -l- -v0 -O2 -dEVAL -o{0} {0}.pas",
    ".py": testlib.PYTHON,
    "": "chmod 755 {0}",
}
# The formats whose systems define EVAL, by which sources know who compiles them.
DEFINING = ("cms", "tps")
_ASKS_EVAL = re.compile(
    rb"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b[^\n]*\bEVAL\b|\{\$ifn?def[ \t]+EVAL\b", re.MULTILINE | re.IGNORECASE
)
_ELF, _SCRIPT = b"\x7fELF", b"#!"
# A few lines can put thousands of tests into each of thousands of subtasks.
_MEMBERS = 200_000
# The call of a manager that speaks as the Contest Management System wants it.
_RUN = 'exec "${0%/*}/manager" "$@"\n'

Rule = Literal["sum", "min", "mul", "threshold"]
KINDS = ("Batch", "Communication", "TwoSteps", "OutputOnly")
# What a grader may be called, the likeliest first.
STEMS = {"Batch": ("grader",), "Communication": ("stub", "grader"), "TwoSteps": ("manager", "grader")}


@dataclass
class Scored:
    """One subtask: `tests` are names of cases; a case may be in several."""

    name: str
    points: Fraction
    tests: list[str]
    rule: Rule = "min"
    threshold: float | None = None


# --- programs --------------------------------------------------------------------------------------------------------


def find_program(draft: Draft, folders: Sequence[str], names: Sequence[str]) -> Ref | None:
    """The source of a checker or manager; else the program itself, a script or, at worst, a binary."""
    files = draft.tree.files
    places = [(folder, name) for folder in folders for name in names]
    for folder, name in places:
        for suffix in (".cpp", ".cc", ".cxx", ".c", ".py", ".pas"):
            path = posixpath.join(folder, name + suffix)
            if path in files:
                return draft.ref(path)
    return next((draft.ref(path) for path in (posixpath.join(*place) for place in places) if path in files), None)


def other_checker(draft: Draft, folders: Sequence[str], first_checker: Ref | None) -> Ref | None:
    """A second program that looks like a checker by its name, or by what it asks of testlib; else None."""
    used_stem = posixpath.splitext(first_checker.path)[0] if first_checker is not None else ""
    for path in sorted(draft.tree.files):
        stem, ending = posixpath.splitext(path)
        folder, _, name = stem.rpartition("/")
        if folder not in folders or stem == used_stem or name in ("checker", "correttore", "manager"):
            continue
        source = draft.ref(path)
        if name == "check" or (ending in (".cpp", ".cc", ".cxx") and testlib.is_checker(source)):
            candidate = find_program(draft, (folder,), (name,))
            return source if candidate is None else candidate
    return None


def put_checker(draft: Draft, source: Ref) -> None:
    headers = dict(testlib.included(draft, source)) if source.path.lower().endswith(_C_FAMILY) else {}
    translated = testlib.TRANSLATES in read(source)
    if testlib.HEADER in headers and not translated and not testlib.prints_outcome(draft, source):
        testlib.put_checker(draft, testlib.ProgramSource(source), style=testlib.CMS)
        draft.report.took(f"checker: {draft.tree.where(source.path)}, made with testlib")
        return
    put_asked(draft, source, "cms_wrapper.sh")
    draft.report.took(f"checker: {draft.tree.where(source.path)}, asked as the Contest Management System does")


def put_asked(draft: Draft, source: Ref, wrapper: str, *, parts: bool = False) -> None:
    """Have a program as the output validator that one of our scripts asks, as `checker`.

    `parts`: it may give a part of the points, where the script can tell both (`parts=no`).
    """
    folder = "output_validator"
    build = _put_program(draft, folder, "checker", source)
    script = resources.files(__package__).joinpath(wrapper).read_bytes()
    draft.put(f"{folder}/run", script.replace(b"parts=no\n", b"parts=yes\n") if parts else script)
    draft.put(f"{folder}/build", f"#!/bin/sh\nset -e\n{build}\n")


def processes(count: Any, where: str) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= PROCESSES:
        found = clean(str(count), 40)
        raise PackageError(f"{where}: num_processes: must be from 1 to {PROCESSES}, found '{found}'")
    return count


def put_communication(draft: Draft, folders: Sequence[str], example: str, count: Any, way: str, where: str) -> None:
    """Have the kind of task whose manager, in one of these folders, talks to `count` processes. PackageError."""
    manager = find_program(draft, folders, ("manager",))
    if manager is None:
        raise PackageError(f"{draft.tree.label}: is a communication task without a manager; expected {example}")
    put_manager(draft, manager)
    count = processes(count, where)
    if way not in {"fifo_io", "std_io"}:
        raise PackageError(f"{where}: user_io: '{clean(way, 40)}' is neither fifo_io nor std_io")
    draft.judge.update({"kind": "communication", "processes": count, "io": way.removesuffix("_io")})
    if _writes_first(manager):
        draft.judge["writes_first"] = True


def put_manager(draft: Draft, source: Ref, run: str = _RUN) -> None:
    """Have the manager of a communication task; `run` is the script that calls it, as `manager` beside it."""
    folder = "manager"
    build = _put_program(draft, folder, "manager", source)
    draft.put(f"{folder}/run", f"#!/bin/sh\n{run}")
    draft.put(f"{folder}/build", f"#!/bin/sh\nset -e\n{build}\n")
    draft.report.took(f"manager: {draft.tree.where(source.path)}")


def asks_eval(text: bytes) -> bool:
    return _ASKS_EVAL.search(text) is not None


def put_define(draft: Draft, folders: Sequence[str]) -> None:
    """Have EVAL defined, as that system does, where a source of the task in these folders asks for it."""
    for path in draft.below(*folders):
        small = draft.tree.files[path] <= TEXT_BYTES
        if path.lower().endswith((*_C_FAMILY, *HEADERS, ".pas")) and small and asks_eval(read(draft.ref(path))):
            draft.judge["define"] = "EVAL"
            draft.report.took(f"EVAL is defined, as {draft.tree.where(path)} asks for it")
            return


def _writes_first(source: Ref) -> bool:
    """Return whether a manager opens its first pipe to write, and the second to read, as those of old tasks do."""
    text = read(source)
    return bool(_opens(1, b"w").search(text) and _opens(2, b"r").search(text))


def _opens(number: int, way: bytes) -> re.Pattern[bytes]:
    """The pattern of code that opens an argument: in C, by streams, by the system call, and in Python."""
    argument = rb"(?:\w+\.)?\w+\s*\[\s*%d\s*\]" % number
    stream, flag = {b"w": (rb"ofstream", rb"O_WRONLY"), b"r": (rb"ifstream", rb"O_RDONLY")}[way]
    called = rb"open\s*\(\s*" + argument + rb"\s*,\s*(?:[\"']" + way + rb"|" + flag + rb")"
    return re.compile(called + rb"|" + stream + rb"\s+\w+\s*[({]\s*" + argument)


def _put_program(draft: Draft, folder: str, name: str, source: Ref) -> str:
    """The files of a program; returns the command that makes it."""
    suffix = posixpath.splitext(source.path)[1]
    if suffix not in _BUILD:
        suffix = ""
    if not suffix:
        head = read(source)[:4]
        if head.startswith(_ELF):
            draft.report.dropped(
                f"{source.where}: is a compiled program without its source; it runs in the sandbox as it is, "
                "where the executors have what it was linked with"
            )
        elif not head.startswith(_SCRIPT):
            raise PackageError(f"{source.where}: is neither a source nor a program; expected {name}.cpp beside it")
    draft.put(f"{folder}/{name}{suffix}", testlib.flat(source) if suffix in _C_FAMILY else source)
    needed = testlib.included(draft, source) if suffix in _C_FAMILY else testlib.modules(source)
    for file_name, ref in needed:
        draft.files.setdefault(f"{folder}/{file_name}", ref)
    return _BUILD[suffix].format(name)


# --- graders ---------------------------------------------------------------------------------------------------------


def put_graders(draft: Draft, folders: Sequence[str], stems: Sequence[str], source: str) -> str:
    """Have graders with submissions, by language; returns the stem of those that were found, or nothing.

    `stems` are what a grader may be called, the likeliest first, `source` is what that system calls a submission's
    file beside them. Headers go with C and C++, `*lib.pas` with Pascal.
    """
    paths = draft.below(*folders)
    entry = next((stem for stem in stems if any(_stem(path) == stem and _language(path) for path in paths)), "")
    if not entry:
        _put_headers(draft)
        return ""
    mains = {language: path for path in reversed(paths) if _stem(path) == entry and (language := _language(path))}
    for language, main in sorted(mains.items()):
        sources: dict[str, str] = {posixpath.basename(main): main}
        for path in paths:
            base = posixpath.basename(path)
            header = language in {"c", "cpp"} and path.endswith(HEADERS)
            library = language == "pascal" and base.endswith("lib.pas")
            if (header or library) and _is_manager(path):
                sources.setdefault(base, path)
        for base, path in sources.items():
            draft.put(f"include/{language}/{base}", draft.ref(path))
    draft.problem["languages"] = sorted(mains)
    draft.report.took(f"graders '{entry}', compiled with submissions, in {', '.join(sorted(mains))}")
    draft.report.dropped("submissions in other languages: there is no grader for them, so they are refused")
    if source_stem(source):
        draft.judge["source"] = source
    draft.judge["entry"] = entry
    return entry


def _put_headers(draft: Draft) -> None:
    """Have the headers of managers/ with submissions in C and C++, as that system has them without a grader, too."""
    headers = [path for path in draft.below("managers") if path.endswith(HEADERS) and _is_manager(path)]
    for path in headers:
        for language in ("c", "cpp"):
            draft.put(f"include/{language}/{posixpath.basename(path)}", draft.ref(path))
    if headers:
        draft.report.took(f"{len(headers)} headers of managers/, which go with submissions in C and C++")


def put_two_steps(draft: Draft, entry: str) -> None:
    """Have the kind of task whose grader `entry` calls one part of a submission or the other. PackageError."""
    if not entry:
        msg = "is a task of two steps without the manager that is compiled with submissions; expected sol/manager.cpp"
        raise PackageError(f"{draft.tree.label}: {msg}, or grader/cpp/manager.cpp in TPS")
    draft.judge["kind"] = "two-steps"


def put_outputs_only(draft: Draft) -> None:
    draft.problem["type"] = ["scoring", "submit-answer"]
    draft.limits.setdefault("time_limit", 1)


def _stem(path: str) -> str:
    return posixpath.splitext(posixpath.basename(path))[0]


def _language(path: str) -> str | None:
    return LANGUAGES.get(posixpath.splitext(path)[1])


def _is_manager(path: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", posixpath.basename(path)) is not None


def kind_of_task(text: str, where: str) -> str:
    """The one of KINDS that a task says that it is of; PackageError for another."""
    for kind in KINDS:
        if re.sub(r"[^a-z]", "", text.lower()) == kind.lower():
            return kind
    raise PackageError(f"{where}: '{clean(text, 40)}' is not one of {', '.join(KINDS)}")


def source_stem(name: str) -> str:
    """The name of a submission's file beside graders: the task's, if a file of a program can be called so."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", name) else ""


# --- tests and subtasks ----------------------------------------------------------------------------------------------


def case(draft: Draft, kind: str, name: str, input_path: str, answer: str, *, sample: bool) -> ImportedCase:
    """A test by its files; it may lack the answer where only programs judge what is printed."""
    unanswered = answer not in draft.tree.files and kind in {"Communication", "OutputOnly"}
    return ImportedCase(name, draft.ref(input_path), b"" if unanswered else draft.ref(answer), sample)


def write_tests(draft: Draft, cases: Sequence[ImportedCase], subtasks: Sequence[Scored]) -> None:
    """Tests with their subtasks: as groups of the format where it has what they need, else in judge.yaml."""
    count = sum(len(subtask.tests) for subtask in subtasks)
    if count > _MEMBERS:
        raise PackageError(
            f"{draft.tree.label}: its subtasks have {count} tests together, each counted in all that it is in; at most "
            f"{_MEMBERS} are accepted, so join subtasks or remove tests"
        )
    settings = _settings(draft)
    kinds = draft.problem.get("type", "scoring")
    by_name = {case.name: case for case in cases}
    used_names = [name for subtask in subtasks for name in subtask.tests]
    if len(set(used_names)) == len(used_names) and all(subtask.rule in {"min", "sum"} for subtask in subtasks):
        groups = []
        for subtask in subtasks:
            group_cases = [by_name[name] for name in subtask.tests]
            rule: GroupRule = "min" if subtask.rule == "min" else "each"
            groups.append(Group(subtask.name, group_cases, subtask.points, rule))
        draft.group("data/secret", settings)
        write_scored(draft, groups)
    else:
        _write_flat(draft, cases, subtasks, settings)
    draft.problem["type"] = kinds
    if any(case.sample for case in cases):
        draft.group("data/sample", settings)
    unused_names = sorted(by_name.keys() - set(used_names))
    if unused_names:
        draft.report.dropped(f"{len(unused_names)} tests that are in no subtask, such as {clean(unused_names[0], 60)}")
    rules = ", ".join(sorted({subtask.rule for subtask in subtasks}))
    draft.report.took(f"{len(set(used_names))} tests in {len(subtasks)} subtasks ({rules})")


def _settings(draft: Draft) -> dict[str, Any]:
    """The arguments of the default validator: that system compares words, and a letter's case counts.

    None where something else has said already how outputs are compared.
    """
    has_program = any(path.startswith(("output_validator/", "manager/")) for path in draft.files)
    has_arguments = "output_validator_args" in draft.groups.get("data/secret", {})
    return {} if has_program or has_arguments else {"output_validator_args": ["case_sensitive"]}


def _write_flat(
    draft: Draft, cases: Sequence[ImportedCase], subtasks: Sequence[Scored], settings: Mapping[str, Any]
) -> None:
    """Tests without groups; which of them are in which subtask is said beside the format."""
    used_names = {name for subtask in subtasks for name in subtask.tests}
    used_cases = [case for case in cases if case.name in used_names]
    plain = unique(case.name for case in used_cases)
    path_of = {case.name: f"{'sample' if case.sample else 'secret'}/{plain[case.name]}" for case in used_cases}
    for case in used_cases:
        draft.put(f"data/{path_of[case.name]}.in", case.input)
        draft.put(f"data/{path_of[case.name]}.ans", case.answer)
    if all(case.sample for case in used_cases):
        raise PackageError(f"{draft.tree.label}: all tests are samples; expected some in a subtask with points")
    total = sum((subtask.points for subtask in subtasks), Fraction(0))
    draft.problem.setdefault("type", "scoring")
    draft.group("data/secret", {"max_score": max(1, round(total)), "score_aggregation": "sum", **settings})
    names = unique((subtask.name for subtask in subtasks), lambda name: clean(name, 80) or "subtask")
    draft.judge["subtasks"] = [
        {
            "name": names[subtask.name],
            "points": as_number(float(subtask.points)),
            "rule": subtask.rule,
            **({"threshold": as_number(subtask.threshold)} if subtask.threshold is not None else {}),
            "tests": [path_of[name] for name in subtask.tests],
        }
        for subtask in subtasks
    ]
    draft.report.dropped(
        "subtasks that share tests, or multiply outcomes: the format has none, so they stand in judge.yaml, which "
        "other judges ignore"
    )


def put_pictures(draft: Draft, folder: str) -> list[str]:
    """Have the pictures beside a statement and below, by the names that it has for them ("": of all); returns them."""
    pictures = []
    for path in draft.tree.below(folder) if folder else sorted(draft.tree.files):
        target = f"statement/{path.removeprefix(folder).lstrip('/')}"
        if path.lower().endswith(PICTURES) and target not in draft.files:
            draft.put(target, draft.ref(path))
            pictures.append(path)
    return pictures


def put_statement(draft: Draft, path: str, language: str) -> bool:
    """Have a statement in a language, by its code; False where there is one of that language and kind."""
    suffix = posixpath.splitext(path)[1].lower()
    code = re.sub(r"[^A-Za-z0-9-]", "-", language).strip("-") or "en"
    target = f"statement/problem.{code}{suffix}"
    if target in draft.files:
        return False
    draft.put(target, draft.ref(path))
    draft.report.took(f"statement ({code}): {draft.tree.where(path)}")
    return True


def put_attachments(draft: Draft, folder: str) -> int:
    paths = {path: path.removeprefix(folder + "/").replace("/", "_") for path in draft.tree.below(folder)}
    names = unique(paths.values())
    for path, name in paths.items():
        draft.put(f"attachments/{names[name]}", draft.ref(path))
    if names:
        draft.report.took(f"{len(names)} attachments")
    return len(names)


def put_solutions(draft: Draft, folders: Mapping[str, str]) -> None:
    """Have submissions: path in the input to the folder below `submissions`."""
    for path, folder in folders.items():
        draft.put(draft.free(f"submissions/{folder}/{posixpath.basename(path)}"), draft.ref(path))
    if folders:
        draft.report.took(f"{len(folders)} submissions")


def limits(draft: Draft, seconds: Any, mib: Any, where: str, suffix: str = "") -> None:
    """Time and memory limits; what is absent stays unsaid. PackageError; `suffix` says what else memory may be in.

    A time limit of 1000 and more is one in milliseconds: nobody's task runs for a quarter of an hour.
    """
    for key, target, value, unit, least, most in (
        ("time_limit", "time_limit", seconds, "seconds", 0.0, 600.0),
        ("memory_limit", "memory", mib, "MiB", 4.0, 65536.0),
    ):
        if value is None:
            continue
        number = metadata.number(value)
        number = -1.0 if number is None else number
        if unit == "seconds" and number >= 1000:
            number /= 1000
            draft.report.took(f"time limit: {clean(str(value), 40)} is read as milliseconds")
        if not least <= number <= most or number == 0:
            ending = suffix if unit == "MiB" else ""
            raise PackageError(
                f"{where}: {key}: '{str(value)[:40]}' is not a number of {unit} "
                f"from {decimal(least)} to {decimal(most)}{ending}"
            )
        draft.limits[target] = as_number(number)
