"""What is submitted, and to which problem: by options, a judge.toml, or the names of file and folder."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from judge_cli.access import read_text
from judge_cli.errors import UsageError

FILE = "judge.toml"
SAMPLES = "samples"
_KEYS = {"problem": str, "language": str, "entry": str, "files": list, "time_limit": float}
_EXPECTED = {str: 'a text in "quotes"', list: 'file names as ["a.cpp", "b.cpp"]', float: "a number, such as 2.0"}
# In a folder with a judge.toml these come with the problem, and are no part of the program.
_NOT_THE_PROGRAM = {FILE, SAMPLES, "attachments", "statement.html", "statement.pdf", "statement.md", "statement.tex"}
_LEFT_BEHIND = {"__MACOSX", "__pycache__", "Thumbs.db", "desktop.ini"}


class Project(NamedTuple):
    """The settings of a judge.toml; `folder` is where it lies, or would lie."""

    folder: Path
    problem: str = ""
    language: str = ""
    entry: str = ""
    files: Sequence[str] = ()
    time_limit: float = 0.0


def project_at(path: Path = Path()) -> Project:
    """The project of a file or folder: the nearest judge.toml in its folder or one above."""
    start = path.resolve() if path.is_dir() else path.resolve().parent
    for folder in (start, *start.parents):
        if (folder / FILE).is_file():
            return Project(folder, **parse(read_text(folder / FILE), str(folder / FILE)))
    return Project(start)


def parse(text: str, name: str) -> dict[str, Any]:
    """The settings of a judge.toml: lines `key = value` with a text, a number, or texts in brackets; UsageError."""
    settings: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), 1):
        key, equals, value = (part.strip() for part in line.partition("="))
        if not key or key.startswith("#"):
            continue
        kind = _KEYS.get(key)
        if kind is None or not equals:
            raise UsageError(f"{name}:{number}: '{key[:40]}' is no setting; expected one of {', '.join(_KEYS)} = VALUE")
        setting = _value(value)
        if kind is float and type(setting) is int:
            setting = float(setting)
        if type(setting) is not kind or (
            isinstance(setting, list) and not all(isinstance(item, str) for item in setting)
        ):
            raise UsageError(f"{name}:{number}: {key}: expected {_EXPECTED[kind]}")
        settings[key] = setting
    return settings


def _value(text: str) -> Any:
    """A value as TOML and JSON both have it, or a 'literal text' of TOML; None for any other."""
    if text.startswith("'"):
        value, quote, rest = text[1:].partition("'")
        return value if quote and rest.strip()[:1] in {"", "#"} else None
    with contextlib.suppress(ValueError):
        value, end = json.JSONDecoder().raw_decode(text)
        return value if text[end:].strip()[:1] in {"", "#"} else None
    return None


def guess_problem(path: Path, problems: Iterable[str]) -> str:
    """The problem that a file or one of its folders is called like, without regard to case; UsageError."""
    by_name = {name.lower(): name for name in problems}
    first = path.resolve()
    stem = first.name if first.is_dir() else first.stem
    beginnings = [stem[:place] for place, char in reversed(list(enumerate(stem))) if char in "-_. ("]
    for candidate in [stem, *beginnings, *(folder.name for folder in list(first.parents)[:2])]:
        if candidate.lower() in by_name:
            return by_name[candidate.lower()]
    names = ", ".join(sorted(by_name.values())[:20]) or "none"
    raise UsageError(f"{path}: no problem is called like the file or its folder; name it with --problem ({names})")


def program_files(paths: Sequence[Path], project: Project) -> dict[str, Path]:
    """The files of a program by their names below what all have in common: of files, of a folder, or of judge.toml."""
    if not paths and not project.files:
        raise UsageError("name a file or folder, or have 'files = [...]' in judge.toml")
    top = project.folder if not paths else paths[0].resolve() if paths[0].is_dir() else None
    if paths:
        files = [file for path in paths for file in (sorted(_below(path)) if path.is_dir() else [path])]
    else:
        files = [project.folder / name for name in project.files]
    if not files:
        raise UsageError(f"{paths[0]}: has no files of a program")
    absolute = [file.resolve() for file in files]
    if top is None or len(paths) > 1:
        top = Path(os.path.commonpath([file.parent for file in absolute]))
    try:
        return {path.relative_to(top).as_posix(): path for path in absolute}
    except ValueError:
        raise UsageError(f"{project.folder / FILE}: files: expected names of files in this folder") from None


def read_bytes(path: Path) -> bytes:
    """A file; UsageError."""
    try:
        return path.read_bytes()
    except OSError as exc:
        raise UsageError(f"{path}: cannot be read: {exc.strerror}") from None


def _below(folder: Path) -> Iterable[Path]:
    """The files of a folder without what is hidden, what tools leave behind, and what comes with a problem."""
    left_out = _LEFT_BEHIND | (_NOT_THE_PROGRAM if (folder / FILE).is_file() else set())
    for path in folder.iterdir():
        if path.name.startswith(".") or path.name in left_out or path.name.endswith(("~", ".pyc")):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)
        elif path.is_symlink():
            raise UsageError(f"{path}: is a link; copy the file into the folder")
        elif path.is_file():
            yield path
