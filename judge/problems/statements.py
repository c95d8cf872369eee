"""Finds what a package has for the people who solve its problem: statements, attachments, and how samples are shown.

Pure functions of a package's list of files; the package reader turns the paths into blobs. Nothing here is a fault that
makes a package unfit to be judged: what cannot be used is left out, with a note for the person who imports it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from judge.model.problem import ProblemManifest, Statement
from judge.problems.tree import clean, is_file_name

# By preference when a language has several: what reads well on any screen first, then as its author drew it.
KINDS = ("md", "html", "pdf", "tex", "txt")
STATEMENT_FILES = 500
_SUFFIXES = {"htm": "html", "markdown": "md"}
_LEGACY, _CURRENT = "problem_statement", "statement"
_AT_ROOT = {"pdf", "html", "txt"}
_ATTACHMENTS = "attachments"
_SAMPLES = "data/sample"
DEFAULT_LANGUAGE = "en"
_MAIN = re.compile(
    r"problem(?:[._-](?P<language>[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})?))?"
    r"\.(?P<kind>md|markdown|html?|pdf|tex|txt)"
)
_CONSTANT = re.compile(rb"\{\{([a-zA-Z_][a-zA-Z0-9_]*)\}\}|\\constant\{([a-zA-Z_][a-zA-Z0-9_]*)\}")
_TITLE = re.compile(
    rb"\\problemname\s*\{([^{}\n]*)\}|^%+\s*plainproblemname:([^\n]*)$|\\begin\{problem\}\s*\{([^{}\n]*)\}",
    re.MULTILINE,
)
_TITLE_WITHIN = 65_536
# The files of a sample that say what people are shown, or get to download, in place of its input and answer.
SUFFIXES = ("in.statement", "ans.statement", "out", "in.download", "ans.download", "interaction")
_ALIASES = {"out.statement": "ans.statement", "out.download": "ans.download"}


@dataclass(frozen=True)
class FoundStatement:
    """One statement: its language, its main file's name, and all files that go with it (name to path)."""

    language: str
    main: str
    files: Mapping[str, str]

    @property
    def kind(self) -> str:
        return kind_of(self.main)


@dataclass
class PublicParts:
    """The parts of a package for people, as paths into it.

    `samples` has what replaces a sample's input and answer on the page: the sample's name, one of SHOWN, a path.
    `statements` are ordered by language and, in one language, by preference.
    """

    statements: list[FoundStatement] = field(default_factory=list)
    attachments: dict[str, str] = field(default_factory=dict)
    samples: dict[str, dict[str, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def find(paths: Iterable[str], *, legacy: bool, only: str | None = None) -> PublicParts:
    """Statements, attachments and shown samples among a package's files, given as relative POSIX paths.

    `legacy` says which of two names the statements' folder should have; `only` is the language of a package whose
    problem.yaml names one alone, for files that name none (else English). The package reader calls this.
    """
    files = sorted(paths)
    parts = PublicParts()
    _statements(files, parts, legacy=legacy, language=only or DEFAULT_LANGUAGE)
    _attachments(files, parts)
    _samples(files, parts)
    return parts


def kind_of(name: str) -> str:
    """The one of KINDS that a statement is, by its main file's name."""
    suffix = name.rpartition(".")[2].lower()
    return _SUFFIXES.get(suffix, suffix)


def text_of(statement: Statement) -> str | None:
    """The blob of the text of which a page is made; None for a statement that is only a file to look at or to keep."""
    kind = kind_of(statement.main)
    if kind == "pdf":
        return None
    return statement.html or (statement.files.get(statement.main) if kind != "tex" else None)


def address(problem: str, sha: str) -> str:
    """The address at which gateways hand out a file of a problem."""
    return f"/api/v1/problems/{problem}/files/{sha}"


def question(manifest: ProblemManifest, statement: Statement, data: bytes) -> bytes:
    """The input of the program that renders a statement, whose text this is: the fields of `StatementText` as JSON."""
    kind = kind_of(statement.main)
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        # Old packages have Latin-1; a wrong letter is better than no statement.
        text = data.decode("latin-1")
    asked = {
        "kind": "html" if kind == "tex" else kind,
        "text": text,
        "title": statement.title or manifest.title or manifest.name,
        "files": {name: address(manifest.name, sha) for name, sha in statement.files.items()},
    }
    return json.dumps(asked).encode()


def language_of(code: str) -> str:
    """A language code as it is written: `en`, `pt-BR`, `zh-Hans`."""
    first, _, subtag = code.replace("_", "-").partition("-")
    return f"{first.lower()}-{subtag.upper() if len(subtag) == 2 else subtag.title()}" if subtag else first.lower()


def with_constants(data: bytes, constants: Mapping[str, str | int | float] | None) -> bytes:
    r"""A statement with the constants of problem.yaml in place of `{{name}}` and `\constant{name}`.

    Names that are no constants stay, such as `{{nextsample}}`.
    """
    if not constants:
        return data

    def value(match: re.Match[bytes]) -> bytes:
        name = (match[1] or match[2]).decode()
        return str(constants[name]).encode() if name in constants else match[0]

    return _CONSTANT.sub(value, data)


def fields(
    parts: PublicParts, names: Mapping[str, str], blob: Callable[[str], str], text: Callable[[str], tuple[bytes, str]]
) -> dict[str, Any]:
    """The manifest's fields about what people see. `names` are the problem's names by language.

    `blob` notes a file of the package and returns its hash; `text` does so with its constants put in, and returns the
    content as well.
    """
    statements = []
    for statement in parts.statements:
        files = {name: blob(path) for name, path in statement.files.items() if name != statement.main}
        title = names.get(statement.language, "")
        if statement.kind in {"pdf", "txt"}:
            files[statement.main] = blob(statement.files[statement.main])
        else:
            data, files[statement.main] = text(statement.files[statement.main])
            title = title or title_in(data)
        statements.append(Statement(language=statement.language, main=statement.main, files=files, title=title))
    return {
        "statements": statements,
        "attachments": {name: blob(path) for name, path in parts.attachments.items()},
        "interactions": {
            name: blob(sample["interaction"]) for name, sample in parts.samples.items() if "interaction" in sample
        },
        "sample_files": {
            name: blobs
            for name, sample in parts.samples.items()
            if (blobs := {suffix: blob(path) for suffix, path in sample.items() if suffix != "interaction"})
        },
    }


def title_in(data: bytes) -> str:
    r"""The name that a statement in LaTeX gives its problem; empty when it has none, or one with formulas.

    Old packages have it nowhere else.
    """
    match = _TITLE.search(data[:_TITLE_WITHIN])
    title = (match[1] or match[2] or match[3] or b"").decode("utf-8", "replace").strip() if match else ""
    return clean(title) if not set(title) & set("\\${}~") else ""


def _statements(files: list[str], parts: PublicParts, *, legacy: bool, language: str) -> None:
    expected, alternative = (_LEGACY, _CURRENT) if legacy else (_CURRENT, _LEGACY)
    folder = next((candidate for candidate in (expected, alternative) if _mains(files, candidate)), None)
    if folder == alternative:
        parts.notes.append(
            f"{alternative}: this version of the format calls the folder {expected}; it is read all the same"
        )
    if folder is not None:
        companions = _companion_files(files, folder, parts)
        for name, code in _mains(files, folder).items():
            # Inclusions and images; of other languages and kinds only what this one may include.
            extra = companions if kind_of(name) not in {"pdf", "txt"} else {}
            parts.statements.append(FoundStatement(code or language, name, {**extra, name: f"{folder}/{name}"}))
    for name, code in _mains(files, "").items():
        statement = FoundStatement(code or language, name, {name: name})
        if not any(
            (previous.language, previous.kind) == (statement.language, statement.kind) for previous in parts.statements
        ):
            parts.statements.append(statement)
    parts.statements.sort(key=lambda statement: (statement.language, KINDS.index(statement.kind), statement.main))


def _mains(files: list[str], folder: str) -> dict[str, str | None]:
    mains = {}
    prefix = f"{folder}/" if folder else ""
    for path in files:
        match = _MAIN.fullmatch(path.removeprefix(prefix)) if path.startswith(prefix) else None
        # At the root only what other judges look for there: a readme may be called problem.md.
        if match is not None and (folder or match["kind"] in _AT_ROOT):
            mains[match[0]] = language_of(match["language"]) if match["language"] else None
    return mains


def _companion_files(files: list[str], folder: str, parts: PublicParts) -> dict[str, str]:
    companions: dict[str, str] = {}
    mains = _mains(files, folder)
    for path in files:
        name = path.removeprefix(folder + "/")
        if not path.startswith(folder + "/") or name in mains:
            continue
        if len(companions) >= STATEMENT_FILES:
            parts.notes.append(f"{folder}: has more than {STATEMENT_FILES} files; the rest are not shown")
            break
        if is_file_name(name):
            companions[name] = path
        else:
            parts.notes.append(f"{path[:200]}: its name has more than letters, digits and _ . + -; it is not shown")
    return companions


def _attachments(files: list[str], parts: PublicParts) -> None:
    for path in files:
        name = path.removeprefix(_ATTACHMENTS + "/")
        if name == path:
            continue
        if is_file_name(name):
            parts.attachments[name] = path
        else:
            parts.notes.append(f"{path[:200]}: its name has more than letters, digits and _ . + -; it is not offered")


def _samples(files: list[str], parts: PublicParts) -> None:
    for path in files:
        if not path.startswith(_SAMPLES + "/"):
            continue
        place = PurePosixPath(path.removeprefix("data/"))
        suffix = next((candidate for candidate in (*SUFFIXES, *_ALIASES) if place.name.endswith("." + candidate)), None)
        if suffix is None or place.name == "." + suffix:
            continue
        name = place.with_name(place.name.removesuffix("." + suffix)).as_posix()
        if is_file_name(name):
            parts.samples.setdefault(name, {}).setdefault(_ALIASES.get(suffix, suffix), path)
