"""Sources on this machine: what is handed in is read, and what was handed in is written."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from judge.common.errors import FieldError, UsageError
from judge.ctl import submit
from judge.languages import handed, rules
from judge.languages import table as languages
from judge.model.messages import Submission
from judge.model.names import name_fault

_STDIN = "-"


def read_programs(
    paths: Sequence[Path], *, language: str | None, entry: str | None, each: bool, problem: str | None = None
) -> list[tuple[Path, dict[str, Any]]]:
    """The programs in these files, directories and archives: all of them are one, or with `each` one each.

    Each with the path that it is from and the fields of its Submission; UsageError when it cannot be judged. To a
    `problem` they may be outputs, in no language.
    """
    programs = [[path] for path in paths] if each else [paths]
    return [
        (paths_of_program[0], _program(paths_of_program, language, entry, answers=problem is not None))
        for paths_of_program in programs
    ]


def _program(paths: Sequence[Path], language: str | None, entry: str | None, *, answers: bool) -> dict[str, Any]:
    first = paths[0]
    if len(paths) == 1 and not first.is_dir() and not _is_archive(first):
        return _single(first, language, entry, answers=answers)
    if any(str(path) == _STDIN for path in paths):
        raise UsageError("-: standard input is a program of its own; hand in files, or standard input alone")
    table = languages.load_table(None)
    language_name = None if language is None else submit.language_of(first, language)
    called = first.resolve().name if len(paths) == 1 else None
    files = _gathered_files(paths)
    try:
        return handed.program(files, table, language=language_name, entry=entry, filename=called, answers=answers)
    except FieldError as exc:
        if exc.field == "language" and len(paths) > 1:
            raise FieldError("language", f"{exc.message} with --entry; --each hands in every file by itself") from exc
        raise


def _single(path: Path, language: str | None, entry: str | None, *, answers: bool) -> dict[str, Any]:
    data = read_bytes(path)
    name = None if str(path) == _STDIN else path.name
    try:
        (name or "").encode()
    except UnicodeEncodeError as exc:
        raise UsageError(f"{path}: the file name is not UTF-8; rename the file") from exc
    if language is None and answers and name is not None and not languages.guess(name, languages.load_table(None)):
        return handed.program({name: data}, languages.load_table(None), entry=entry, answers=True)
    language_name = submit.language_of(path, language)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        if b"\0" in data or name_fault(name or "main"):
            rules.decoded(data, str(path))
        return handed.program({name or "main": data}, languages.load_table(None), language=language_name, entry=entry)
    rules.check_source(text, None, str(path))
    return {"language": language_name, "source": text, "filename": name, "entry": entry}


def _gathered_files(paths: Sequence[Path]) -> dict[str, bytes]:
    """The files by their names below what all paths have in common; those of an only directory by their names in it."""
    top = _common(paths)
    items: list[tuple[str, bytes]] = []
    for path in paths:
        name = "" if len(paths) == 1 and path.is_dir() else _below(path, top)
        if path.is_dir():
            files = handed.read_directory(path)
            items += [(f"{name}/{inner}" if name else inner, data) for inner, data in files.items()]
        else:
            items.append((name, read_bytes(path)))
    return handed.gather(items)


def _common(paths: Sequence[Path]) -> Path | None:
    """The directory below which all paths lie; None when that is the root, which says nothing."""
    top = Path(os.path.commonpath([path.absolute().parent for path in paths]))
    return None if top == Path(top.anchor) else top


def _below(path: Path, top: Path | None) -> str:
    return path.name if top is None else os.path.normpath(path.absolute().relative_to(top)).replace(os.sep, "/")


def _is_archive(path: Path) -> bool:
    return path.suffix.lower() == ".zip" and path.is_file()


def read_bytes(path: Path) -> bytes:
    """A file (or `-`, standard input), no larger than anybody may hand in; UsageError."""
    most = max(handed.ARCHIVE_BYTES, handed.Bounds().bytes) + 1
    try:
        if str(path) == _STDIN:
            data = sys.stdin.buffer.read(most)
        else:
            with path.open("rb") as file:
                data = file.read(most)
    except OSError as exc:
        raise UsageError(f"{path}: cannot be read: {exc.strerror}") from exc
    rules.check_size(len(data), most - 1, str(path))
    return data


def select_files(submission: Submission, name: str | None) -> dict[str, bytes]:
    """The files of a submission, or the one with this name; UsageError when there is none."""
    files = handed.contents(submission)
    if not files:
        raise UsageError("this submission has no source; it is a command")
    if name is None:
        return files
    if name not in files:
        raise FieldError("FILE", f"'{name}' is none of its files: {', '.join(files)}")
    return {name: files[name]}


def save(files: dict[str, bytes], target: Path) -> int:
    """Write files below a directory, or into a ZIP archive when the target is called so; returns how many.

    UsageError for what is there already, and for a name that leads elsewhere, whatever the cluster has answered.
    """
    for name in files:
        if name_fault(name):
            raise UsageError(f"the file '{name}' {name_fault(name)}")
    places = {target: handed.pack(files)} if target.suffix.lower() == ".zip" else {}
    places = places or {target / name: data for name, data in files.items()}
    for place in places:
        if place.exists():
            raise UsageError(f"{place}: is there already; name another place with --to")
    try:
        for place, data in places.items():
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as file:
                file.write(data)
    except OSError as exc:
        raise UsageError(f"{exc.filename or target}: cannot be written: {exc.strerror}") from exc
    return len(files)
