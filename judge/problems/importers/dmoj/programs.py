"""Checkers and interactors of init.yml as programs of the package format."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from judge.common.errors import PackageError
from judge.languages import python
from judge.problems.importers import testlib
from judge.problems.importers.draft import Draft
from judge.problems.tree import clean

# The stand-in for the site's checkers that compare line by line.
_TO_WHICH = "the default validator, to which line breaks are blanks"
_FLOATS = {"default": "float_tolerance", "absolute": "float_absolute_tolerance", "relative": "float_relative_tolerance"}
_STYLES = {
    "default": testlib.PLAIN,
    "testlib": testlib.TESTLIB,
    "coci": testlib.COCI,
    "peg": testlib.PEG,
    "lqdoj": testlib.LQDOJ,
    "themis": testlib.THEMIS,
}
# Those that compare.py does; the last gives parts of the points.
_COMPARED = ("identical", "rstripped", "sorted", "unordered", "easy", "linecount")
# The argument of a checker in Python for which judge.yaml says `show_source`.
_SOURCE = "submission_source"
# Arguments that nobody here can give: they are known to the site alone.
_UNKNOWN = frozenset({
    "case_position", "batch", "submission_language", "execution_time", "problem_id", "result",
    "binary_data", "case",
})  # fmt: skip
# Arguments that a built-in checker may get; those that only change the feedback, or a program's time, are left out.
_ARGUMENTS = {
    "floats": {"precision", "error_mode"},
    "floatsabs": {"precision"},
    "floatsrel": {"precision"},
    "identical": {"pe_allowed"},
    "sorted": {"split_on"},
    "linecount": {"feedback"},
}
BRIDGED = frozenset({
    "files", "lang", "type", "feedback", "cached", "time_limit", "memory_limit", "compiler_time_limit",
    "preprocessing_time", "unbuffered", "treat_checker_points_as_percentage",
})  # fmt: skip
_DEEP = 32
# Modules of DMOJ's judge, and what stands for them here.
_SHIMS = {
    "dmoj.graders.interactive": "shim_interactive",
    "dmoj.problem": "shim_problem",
    "dmoj.result": "shim_result",
    "dmoj.utils.unicode": "shim_unicode",
}
_SHIM = ("dmoj.result", "dmoj.utils.unicode")


def put(draft: Draft, settings: Mapping[str, Any], where: str) -> bool:
    """The output validator; whether it may give a part of a case's points."""
    _check_one(settings, where)
    if settings.get("interactive"):
        if settings.get("checker") not in (None, "standard"):
            draft.report.dropped(
                "checker: the interactor decides, as in DMOJ; some sites made from it ask a checker, too"
            )
        return _put_bridged(draft, settings["interactive"], "interactive", where)
    checker: Any = settings.get("checker") or "standard"
    args: Any = settings.get("checker_args") or {}
    if isinstance(checker, dict):
        checker, args = checker.get("name") or "standard", checker.get("args") or args
    if not isinstance(checker, str) or not isinstance(args, dict):
        raise PackageError(f"{where}: checker: expected a name, or a mapping with name and args")
    return _put_checker(draft, checker, args, where)


def _check_one(settings: Mapping[str, Any], where: str) -> None:
    """All cases must have the same checker: a package has one validator."""
    for key in ("test_cases", "pretest_test_cases"):
        entries = settings.get(key)
        for entry in entries if isinstance(entries, list) else []:
            inner = entry.get("batched") if isinstance(entry, dict) else None
            for case in (entry, *(inner if isinstance(inner, list) else [])):
                if isinstance(case, dict) and case.get("checker", settings.get("checker")) != settings.get("checker"):
                    raise PackageError(
                        f"{where}: {key}: a case has a checker of its own; a package has one for all tests"
                    )


def check_keys(args: Mapping[str, Any], allowed: Collection[str], label: str, where: str) -> None:
    """Refuse arguments that are not known and not empty, as they may decide what is right; PackageError."""
    for key, value in args.items():
        if key not in allowed and value not in (None, "", [], {}):
            raise PackageError(f"{where}: {label}: '{clean(str(key), 40)}' cannot be converted; leave it out")


def _put_checker(draft: Draft, name: str, args: Mapping[str, Any], where: str) -> bool:
    if name != "bridged" and not name.endswith(".py"):
        check_keys(args, _ARGUMENTS.get(name, ()), f"checker {clean(name, 40)}", where)
    if name == "standard":
        _flags(draft, ["case_sensitive"])
        draft.report.took(f"checker standard as {_TO_WHICH}")
        return False
    if name in {"floats", "floatsabs", "floatsrel"}:
        mode = {"floatsabs": "absolute", "floatsrel": "relative"}.get(name) or str(args.get("error_mode") or "default")
        precision = args.get("precision", 6)
        if isinstance(precision, str) and re.fullmatch(r" *[0-9]{1,3} *", precision):
            precision = int(precision)  # as that judge does
        if (
            mode not in _FLOATS
            or isinstance(precision, bool)
            or not isinstance(precision, int)
            or not 0 <= precision <= 300
        ):
            raise PackageError(f"{where}: checker: floats: expected a precision from 0 to 300, and a known error_mode")
        _flags(draft, ["case_sensitive", _FLOATS[mode], f"1e-{precision}"])
        draft.report.took(f"checker {name} with {_FLOATS[mode]} 1e-{precision} as {_TO_WHICH}")
        return False
    if name in _COMPARED:
        if name == "sorted" and str(args.get("split_on", "lines")) not in {"lines", "whitespace"}:
            raise PackageError(f"{where}: checker sorted: split_on: expected lines or whitespace")
        comparison = "unordered" if name == "sorted" and args.get("split_on") == "whitespace" else name
        draft.put("output_validator/compare.py", resource("compare.py"))
        _flags(draft, [comparison])
        draft.report.took(f"checker {name}")
        return name == "linecount"
    if name == "bridged":
        return _put_bridged(draft, args, "checker", where)
    if name.endswith(".py"):
        return _put_python(draft, name, args, where)
    names = ", ".join(["standard", "floats", *_COMPARED, "bridged"])
    raise PackageError(f"{where}: checker: '{name[:40]}' is not known; expected one of {names}, or a file")


def _flags(draft: Draft, flags: Sequence[str]) -> None:
    for folder in ("data/sample", "data/secret"):
        draft.group(folder, {"output_validator_args": list(flags)})


def resource(name: str) -> bytes:
    return resources.files(__package__).joinpath(name).read_bytes()


def source_of(draft: Draft, settings: Mapping[str, Any], label: str, where: str) -> testlib.ProgramSource:
    """The files of a bridged program; the first source is the main one."""
    names = settings.get("files")
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise PackageError(f"{where}: {label}: files: expected a file, or a list of files")
    refs = [draft.ref(name.removeprefix("./")) for name in names]
    main = next((ref for ref in refs if not ref.path.lower().endswith((".h", ".hpp"))), refs[0])
    return testlib.ProgramSource(main, str(settings.get("lang") or ""), tuple(ref for ref in refs if ref is not main))


def _style(settings: Mapping[str, Any], label: str, where: str) -> testlib.Style:
    kind = str(settings.get("type") or "default")
    if kind not in _STYLES:
        raise PackageError(
            f"{where}: {label}: type: '{clean(kind, 40)}' is not known; expected one of {', '.join(_STYLES)}"
        )
    if not settings.get("treat_checker_points_as_percentage"):
        return _STYLES[kind]
    if kind != "testlib":
        raise PackageError(f"{where}: {label}: treat_checker_points_as_percentage: is for type testlib")
    return testlib.PERCENT


def _put_bridged(draft: Draft, settings: Any, label: str, where: str) -> bool:
    """A checker or interactor (`interactive`) that is compiled; whether it may give a part of the points."""
    if not isinstance(settings, dict):
        raise PackageError(f"{where}: {label}: expected a mapping with files and type")
    check_keys(settings, BRIDGED, "checker bridged" if label == "checker" else label, where)
    source, style = source_of(draft, settings, label, where), _style(settings, label, where)
    if label == "checker":
        testlib.put_checker(draft, source, style=style)
    elif style is testlib.THEMIS:
        raise PackageError(f"{where}: interactive: type: themis is for checkers; expected lqdoj, default, or testlib")
    else:
        draft.kind("interactive")
        testlib.put_checker(draft, None, source, style)
    role = "checker" if label == "checker" else "interactor"
    draft.report.took(f"{role} {source.ref.path} ({settings.get('type') or 'default'})")
    return style is not testlib.PLAIN and (
        style not in {testlib.TESTLIB, testlib.PERCENT} or testlib.gives_points(source.ref)
    )


# --- checkers in Python ----------------------------------------------------------------------------------------------


def _put_python(draft: Draft, name: str, args: Mapping[str, Any], where: str) -> bool:
    """A checker in Python that needs nothing but what it is told here; PackageError for any other."""
    if not _is_literal(dict(args)):
        msg = "args: expected texts, numbers, booleans, lists and mappings of these"
        raise PackageError(f"{where}: checker {clean(name, 80)}: {msg}")
    ref = draft.ref(name.removeprefix("./"))
    text = draft.text(ref.path, limit=256 * 1024)
    if reason := _why_not(text):
        msg = f"checker: '{name[:80]}' is a program for DMOJ's own judge that {reason}"
        raise PackageError(f"{where}: {msg}; rewrite it in C++ (bridged), or make a package with an output validator")
    put_shims(draft, "checker_main", _SHIM)
    draft.put("output_validator/dmoj_checker.py", ref)
    reads_source = _looks_at_source(text)
    draft.put("output_validator/arguments.py", f"ARGUMENTS = {dict(args)!r}\nSOURCE = {reads_source!r}\n")
    if reads_source:
        draft.judge["show_source"] = True
        draft.report.took("checker: is shown what was handed in, as it asks for that")
    draft.report.took(f"checker {name}, asked as DMOJ asks it")
    return "CheckerResult" in text


def put_shims(draft: Draft, main: str, modules: Iterable[str]) -> None:
    """The program of ours that asks the package's, with what stands for these modules of DMOJ's judge."""
    for name, content in (("__main__", main), ("said", "said"), *((name, _SHIMS[name]) for name in modules)):
        draft.put(f"output_validator/{name.replace('.', '/')}.py", resource(f"{content}.py"))
    for folder in ("dmoj", "dmoj/utils"):
        draft.put(f"output_validator/{folder}/__init__.py", b"")


def _is_literal(value: Any, depth: int = 0) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if value is None or isinstance(value, str | bool | int):
        return True
    if depth >= _DEEP or not isinstance(value, list | dict):
        return False
    inner = value if isinstance(value, list) else [*value, *value.values()]
    return all(_is_literal(item, depth + 1) for item in inner)


def _asks_for(function: ast.FunctionDef, tree: ast.Module) -> set[str]:
    """The arguments that a checker looks at and DMOJ's judge alone has: as parameters, or in its **kwargs.

    Many name all that they are told, and use little of it: checker_main.py gives the others an empty value.
    """
    of = function.args
    parameters = [*of.posonlyargs, *of.args, *of.kwonlyargs]
    names = {parameter.arg for parameter in parameters} & {
        node.id for node in ast.walk(function) if isinstance(node, ast.Name)
    }
    if of.kwarg is not None:
        uses, first_uses = 0, 0
        for node in ast.walk(function):
            uses += isinstance(node, ast.Name) and node.id == of.kwarg.arg
            key: ast.expr | None = None
            match node:
                case ast.Subscript(value=ast.Name(id=name), slice=key):
                    pass
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get" | "pop"), args=[key, *_]):
                    pass
                case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[ast.Name(id=name)]):
                    pass
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and name == of.kwarg.arg:
                first_uses += 1
                names.add(key.value)
        if uses > first_uses:
            # They are handed on whole: any word of the program may be the key.
            names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg) and node not in parameters}
            constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
            names |= {value for value in constants if isinstance(value, str)}
    return names & {*_UNKNOWN, _SOURCE}


def _looks_at_source(text: str) -> bool:
    """Return whether a checker that can be asked looks at what was handed in."""
    tree = python.program(text)
    return tree is not None and _SOURCE in _asks_for(_checks(tree)[-1], tree)


def _checks(tree: ast.Module) -> list[ast.FunctionDef]:
    """The functions that DMOJ's judge may call; the last of them is the one that it calls."""
    return [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"]


def imports(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """The modules that a program imports, each with the names that it takes out of it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ".", [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)


def _why_not(text: str) -> str:
    """The reason why a checker in Python cannot be asked here; empty when it can."""
    tree = python.program(text)
    if tree is None:
        return "is not written in Python 3"
    if not _checks(tree):
        return "has no function check"
    for module, _ in imports(tree):
        if module not in _SHIM and module.partition(".")[0] not in STANDARD:
            return f"needs the module '{module[:40]}'"
    unavailable = _asks_for(_checks(tree)[-1], tree) - {_SOURCE}
    return f"asks for {min(unavailable)}" if unavailable else ""


# Modules of Python that a checker may use; none of them matters to the sandbox.
STANDARD = frozenset({
    "__future__", "abc", "array", "ast", "base64", "binascii", "bisect", "cmath", "collections", "contextlib", "copy",
    "csv", "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions", "functools", "hashlib", "heapq",
    "html", "io", "itertools", "json", "math", "numbers", "operator", "queue", "random", "re", "statistics", "string",
    "struct", "sys", "textwrap", "time", "traceback", "types", "typing", "unicodedata", "zlib",
})  # fmt: skip
