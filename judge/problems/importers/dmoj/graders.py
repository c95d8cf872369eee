"""Submissions in init.yml that do not run alone: graders compiled with them, managers, graders in Python."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from judge.common.errors import PackageError
from judge.languages import python
from judge.languages.entry import find_entry
from judge.problems.importers import ioi
from judge.problems.importers.dmoj import programs
from judge.problems.importers.draft import Draft, Ref, decode, read, slug
from judge.problems.tree import clean

_SIGNATURE = frozenset({"entry", "header", "allow_main", "java", "python", "writable", "fds"})
_COMMUNICATION = frozenset({"manager", "num_processes", "type", "signature", "entry", "header", "allow_main"})
# The word by which submissions know that they are judged so, and what their own main is called then.
_WORD, _MAIN = "SIGNATURE_GRADER", "#define main main_of_the_submission"
# Names by which a Python grader there finds the submission, and submissions that have a main find the grader.
_MODULE, _LIBRARY = "_submission", "_lib"
# Says by its exit code what managers elsewhere print as their outcome.
_RUN_PLAIN = '"${0%/*}/manager" "$@" > /dev/null\ncase $? in 0) echo 1 ;; 1) echo 0 ;; *) exit 1 ;; esac\n'


# --- graders that are compiled with submissions ----------------------------------------------------------------------


def put_signature(draft: Draft, signature: Any, label: str, where: str) -> None:
    """Have the files that are compiled with submissions, by language; `label` is the key that says so. PackageError."""
    if not isinstance(signature, dict) or not any(signature.get(key) for key in ("entry", "java", "python")):
        raise PackageError(f"{where}: {label}: expected a mapping with entry and header")
    draft.check_keys(signature, _SIGNATURE, f"{where}: {label}", strict=True)
    own_main = bool(signature.get("allow_main"))
    languages: list[str] = []
    if signature.get("entry"):
        languages += _put_native(draft, signature, f"{where}: {label}", own_main=own_main)
    if signature.get("java"):
        ref = _handler(draft, signature, "java", f"{where}: {label}")
        stem = find_entry(decode(read(ref)), posixpath.basename(ref.path))[0]
        draft.put(f"include/java/{stem}.java", ref)
        languages.append("java")
        if not own_main:
            draft.judge["entry"] = stem
    if signature.get("python"):
        ref = _handler(draft, signature, "python", f"{where}: {label}")
        name = _LIBRARY
        if not own_main:
            plain = re.sub(r"[^A-Za-z0-9_]", "_", posixpath.splitext(posixpath.basename(ref.path))[0])
            name = draft.judge.setdefault("entry", plain if re.match("[A-Za-z_]", plain) else "handler")
            draft.judge["source"] = _MODULE
        draft.put(f"include/python3/{name}.py", ref)
        languages.append("python3")
    draft.problem["languages"] = languages
    draft.report.took(f"{label}: what is compiled with submissions, in {', '.join(languages)}")


def _put_native(draft: Draft, signature: Mapping[str, Any], where: str, *, own_main: bool) -> list[str]:
    """In C and C++; what stands before submissions there does so here. Returns the languages."""
    entry = _source_ref(draft, signature["entry"], f"{where}: entry")
    headers = [_source_ref(draft, signature["header"], f"{where}: header")] if signature.get("header") else []
    languages = ["c", "cpp"] if entry.path.lower().endswith(".c") else ["cpp"]
    names = [slug(posixpath.basename(ref.path)) for ref in (*headers, entry)]
    for language in languages:
        for name, ref in zip(names, (*headers, entry), strict=True):
            draft.put(f"include/{language}/{name}", ref)
    before = [f'#include "{name}"' for name in names[:-1]] + ([] if own_main else [_MAIN])
    draft.judge["define"] = _WORD
    if before:
        draft.judge["before"] = "\n".join([*before, ""])
    return languages


def _source_ref(draft: Draft, name: Any, where: str) -> Ref:
    if not isinstance(name, str):
        raise PackageError(f"{where}: expected the name of a file")
    return draft.ref(name.removeprefix("./"))


def _handler(draft: Draft, handlers: Mapping[str, Any], language: str, where: str) -> Ref:
    """The grader in another language: `{entry: FILE}`, or the file itself."""
    handler = handlers[language]
    return _source_ref(
        draft, handler.get("entry") if isinstance(handler, dict) else handler, f"{where}: {language}: entry"
    )


# --- managers --------------------------------------------------------------------------------------------------------


def put_communication(draft: Draft, settings: Mapping[str, Any], where: str) -> bool:
    """The manager that talks to processes of the submission; whether it may give a part of the points. PackageError."""
    communication = settings["communication"]
    manager = communication.get("manager") if isinstance(communication, dict) else None
    if not isinstance(manager, dict):
        raise PackageError(f"{where}: communication: expected a mapping with manager and its files")
    programs.check_keys(communication, _COMMUNICATION, "communication", where)
    programs.check_keys(manager, programs.BRIDGED - {"type"}, "communication: manager", where)
    for key in ("interactive", "file_io", "io_redirects", "checker"):
        if settings.get(key) and settings[key] != "standard":
            raise PackageError(f"{where}: {key}: the manager of a communication task does this; remove it")
    count = ioi.processes(communication.get("num_processes", 1), f"{where}: communication")
    kind = str(communication.get("type") or "default")
    if kind not in {"cms", "default"}:
        raise PackageError(f"{where}: communication: type: '{clean(kind, 40)}' is none of cms, default")
    source = programs.source_of(draft, manager, "communication: manager", where)
    if any(not ref.path.lower().endswith(ioi.HEADERS) for ref in source.more):
        raise PackageError(f"{where}: communication: manager: files: is in several sources; join them into one")
    ioi.put_manager(draft, source.ref, *([_RUN_PLAIN] if kind == "default" else []))
    draft.judge.update({"kind": "communication", "processes": count, "io": "std"})
    signature = communication.get("signature") or {key: communication[key] for key in _SIGNATURE & communication.keys()}
    if signature:
        put_signature(draft, signature, "communication", where)
    return kind == "cms"


# --- graders in Python -----------------------------------------------------------------------------------------------

_GRADER = "InteractiveGrader"
# Modules of that judge that graders import, and the names in them that are here.
_MODULE_NAMES: Mapping[str, Collection[str]] = {
    "dmoj.graders": {_GRADER},
    "dmoj.graders.interactive": {_GRADER, "Interactor", "WrongAnswer"},
    "dmoj.problem": {"TestCase"},
    "dmoj.result": {"CheckerResult"},
    "dmoj.utils.unicode": {"utf8bytes", "utf8text"},
}
_OF_CASES = frozenset({"input_data", "output_data", "points", "free_data"})
_OF_INTERACTORS = frozenset({"read", "readln", "readtoken", "readint", "readfloat", "write", "writeln", "close"})
# Attributes that a grader has of that judge.
_OF_JUDGES = frozenset({
    "source", "language", "problem", "judge", "binary", "meta", "storage_namespace", "is_pretested", "_current_proc",
})  # fmt: skip
# Methods by which a grader does more than talk.
_RUNNING = frozenset({
    "__init__", "grade", "check_result", "cases", "populate_result", "generate_binary", "_generate_binary",
    "_launch_process", "_interact_with_process",
})  # fmt: skip
# Modules that only graders may use: what they say may depend on the time.
_FURTHER_MODULES = frozenset({"json", "os", "time", "traceback"})


def put_custom(draft: Draft, name: Any, where: str) -> bool:
    """A grader in Python that only talks to the submission; whether it may give a part of the points. PackageError."""
    label = clean(str(name), 80)
    ref = _source_ref(draft, name, f"{where}: custom_judge")
    text = draft.text(ref.path, limit=256 * 1024)
    reason = why_not(text)
    if reason:
        msg = f"custom_judge: '{label}' is a program for DMOJ's own judge that {reason}, and cannot be converted"
        raise PackageError(f"{where}: {msg}; rewrite it as an interactor in C++ (interactive), or make a package")
    draft.kind("interactive")
    programs.put_shims(draft, "grader_main", _MODULE_NAMES.keys() - {"dmoj.graders"})
    draft.put("output_validator/dmoj/graders/__init__.py", f"from dmoj.graders.interactive import {_GRADER}\n")
    draft.put("output_validator/dmoj_grader.py", ref)
    draft.report.took(f"custom_judge {label}, as an interactor that is asked as DMOJ asks it")
    return "CheckerResult" in text


def why_not(text: str) -> str:
    """The reason why a grader in Python cannot be asked here; empty when it can."""
    tree = python.program(text)
    if tree is None:
        return "is not written in Python 3"
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == "Grader"]
    bases = [getattr(base, "id", getattr(base, "attr", "")) for base in (classes[-1].bases if classes else [])]
    if bases != [_GRADER]:
        return f"is no {_GRADER}"
    methods = {statement.name: statement for statement in classes[-1].body if isinstance(statement, ast.FunctionDef)}
    running = sorted(methods.keys() & _RUNNING)
    if running or "interact" not in methods:
        return f"runs submissions in its own way ({', '.join(running) or 'without interact'})"
    return next(_needs(tree, methods), "")


def _needs(tree: ast.Module, methods: Mapping[str, ast.FunctionDef]) -> Iterator[str]:
    """The things that a grader needs and does not find here."""
    for module, names in programs.imports(tree):
        if names and module in _MODULE_NAMES:
            if missing_names := set(names) - set(_MODULE_NAMES[module]):
                yield f"needs '{min(missing_names)[:40]}' of {module}"
        elif module.partition(".")[0] not in programs.STANDARD | _FURTHER_MODULES:
            yield f"needs the module '{module[:40]}'"
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield f"keeps {node.names[0][:40]} from one case to the next"
    for method in methods.values():
        yield from _asks(method)


def _asks(method: ast.FunctionDef) -> Iterator[str]:
    """The things that a method lacks here: of its grader, and `interact` of the case and the interactor, too."""
    names = [argument.arg for argument in (*method.args.posonlyargs, *method.args.args)]
    attribute_lists = zip(names[1:], (_OF_CASES, _OF_INTERACTORS), strict=False) if method.name == "interact" else ()
    has = dict(attribute_lists)
    for node in ast.walk(method):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        name = node.value.id
        is_own = name in names[:1] and node.attr in _OF_JUDGES
        if is_own or (name in has and node.attr not in has[name]):
            yield f"asks for {name[:40]}.{node.attr[:40]}"
