"""Of a submission's files: which are compiled, and which one (or which of their classes) is started.

A language's row says how, as data (docs/languages.md, "Several files"). Pure functions; they never refuse: a program
that cannot be started so fails in its own language's words. `entry_fault` says beforehand what cannot be meant.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from judge import config
from judge.languages.entry import Kind, default_class, main_classes

Suffix = Annotated[str, StringConstraints(pattern=r"^\.[A-Za-z0-9+_-]+$")]
_CLASS = re.compile(r"[^\W\d][\w$]*(\.[^\W\d][\w$]*)*")


def with_own_name(text: str, judged: str, own: str) -> str:
    """A compiler's words, with the only source under its author's name for it in place of the judge's."""
    return re.sub(rf"(?<![\w./+-])(?:/box/)?{re.escape(judged)}(?![\w/+-]|\.\w)", lambda _: own, text)


class EntryRules(config.Model):
    suffixes: list[Suffix] = Field(default_factory=list)
    entry: Literal["file", "class", "kotlin"] = "file"
    entry_files: list[str] = Field(default_factory=list, description="of several files, which is started: the first")
    entry_pattern: str = Field(default="", description="a regular expression, of the source that is started")
    sources: list[Suffix] = Field(default_factory=list, description="beside `suffixes`: what `{sources}` names")


@dataclass(frozen=True)
class Chosen:
    """`main` is the file that is started (or has the class), `sources` are compiled, `main` first."""

    main: str
    sources: list[str]
    entry: str


def is_source(name: str, row: EntryRules) -> bool:
    """Return whether a file is a source of this language by its suffix, in any case."""
    suffix = PurePosixPath(name).suffix
    suffixes = {*row.suffixes, *row.sources}
    return bool(suffix) and (suffix in suffixes or suffix.lower() in suffixes)


def choose(files: Mapping[str, bytes], row: EntryRules, entry: str | None = None) -> Chosen:
    """The sources among `files` (at least one), and what is started: `entry`, a file or a class, where it is given."""
    names = [name for name in files if is_source(name, row)] or list(files)
    entry_file = file_named(files, entry) if entry is not None else None
    if row.entry == "file":
        entry_file = entry_file or (stem_named(names, entry) if entry is not None else None)
        main = entry_file or _main_file(names, files, row)
        started = PurePosixPath(main).stem
    elif entry_file:
        main, started = _main_class([entry_file], files, row.entry, None)
    else:
        main, started = _main_class(names, files, row.entry, entry)
    return Chosen(main, [main, *(name for name in names if name != main)], started)


def file_named(names: Collection[str], entry: str) -> str | None:
    """The file that somebody means: by its whole name, or else by its last part, where only one has that."""
    return entry if entry in names else _only([name for name in names if PurePosixPath(name).name == entry])


def stem_named(names: Collection[str], entry: str) -> str | None:
    """The same by its name without suffix, as other judges' entry points are written."""
    return _only([name for name in names if PurePosixPath(name).stem == entry])


def _only(names: Sequence[str]) -> str | None:
    return names[0] if len(names) == 1 else None


def entry_fault(names: Collection[str], row: EntryRules, entry: str | None) -> str:
    """The reason why a program cannot be started so, to end a sentence about the entry; empty when it may be."""
    if entry is None or file_named(names, entry) is not None:
        return ""
    examples = ", ".join(sorted(names)[:5]) + (", …" if len(names) > 5 else "")
    if row.entry == "file":
        if stem_named([name for name in names if is_source(name, row)], entry) is not None:
            return ""
        return f"'{entry}' is none of the files ({examples}); name the file to start"
    if not _CLASS.fullmatch(entry):
        return f"'{entry}' is no class and none of the files ({examples}); name the class with main, such as app.Main"
    return ""


def name_conflict(own_files: Collection[str], include: Collection[str]) -> tuple[str, str] | None:
    """The first file of a submission whose name is that of a folder in which another file lies, or the other way round.

    Returns the name and a reason. `include` are files of the problem that lie beside the submission's own.
    """
    names = {*own_files, *include}
    for name in (*own_files, *include):
        for folder in map(str, PurePosixPath(name).parents):
            if folder not in names:
                continue
            if name in include:
                return folder, f"is a folder of the problem's files ('{name}'); rename your file"
            description = "is a file of the problem" if folder in include else "is a file"
            return name, f"lies in '{folder}', which {description}; rename your folder"
    return None


def _main_file(names: Sequence[str], files: Mapping[str, bytes], row: EntryRules) -> str:
    for entry_file in row.entry_files:
        if matches := [name for name in names if PurePosixPath(name).name.lower() == entry_file.lower()]:
            return min(matches, key=lambda name: name.count("/"))
    if row.entry_pattern and len(names) > 1:
        pattern = re.compile(row.entry_pattern, re.MULTILINE)
        return next((name for name in names if pattern.search(_text(files[name]))), names[0])
    return names[0]


def _main_class(names: Sequence[str], files: Mapping[str, bytes], kind: Kind, entry: str | None) -> tuple[str, str]:
    """The file and the class: the wanted one, or one that is called Main, or the first that can be started."""
    classes = [(name, class_name) for name in names for class_name in main_classes(_text(files[name]), name, kind)]
    if entry is not None:
        exact = [pair for pair in classes if pair[1] == entry]
        matches = exact or [pair for pair in classes if pair[1].rpartition(".")[2] == entry]
        return matches[0] if matches else (names[0], entry)
    if not classes:
        return names[0], default_class(_text(files[names[0]]), names[0], kind)
    usual = {"Main", "MainKt"}
    return next((pair for pair in classes if pair[1].rpartition(".")[2] in usual), classes[0])


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
