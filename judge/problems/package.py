"""Reads a Kattis/ICPC problem package into the manifest and blobs that executors judge by (docs/problems-format.md).

What cannot be judged as its author meant is refused at import with one sentence that names file and field, as the
format asks of systems that cannot keep a package's guarantees.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from judge.common.errors import PackageError
from judge.model.problem import ProblemManifest
from judge.problems.archives import stem
from judge.problems.importers import open_package_tree
from judge.problems.importers.draft import ImporterWords, slug
from judge.problems.reading.formats import Dialect
from judge.problems.reading.held import Look
from judge.problems.reading.held import Package as Package  # noqa: PLC0414 - what reading makes
from judge.problems.reading.reader import Overrides, Reader
from judge.problems.tree import Tree, clean

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,62}")


def read_package(
    path: Path,
    *,
    name: str | None = None,
    time_limit: float | None = None,
    dialect: Dialect = "",
    options: ImporterWords | None = None,
) -> Package:
    """Read the package at `path`, a directory or a ZIP archive of one; `judgectl problem import` calls this.

    `name` replaces the directory's name, `time_limit` (seconds) what the package says, `dialect` what is detected in a
    legacy package; `options` is for packages of other formats, which are read as what their importer makes of them.
    Raises PackageError for the first thing that is wrong.
    """
    with contextlib.ExitStack() as stack:
        reader = open_reader(stack, path, Overrides(name, time_limit, dialect), options)
        package = reader.read()
        reader.findings.refuse()
        if package is None:
            raise PackageError(f"{path}: cannot be read as a package")
        return package


def check_name(path: Path, name: str) -> None:
    """PackageError unless the problem of the package at `path` may have this name."""
    if not _NAME.fullmatch(name):
        raise PackageError(
            f"{path}: '{clean(name, 80)}' cannot be a problem's name; use letters, digits and . _ + - (at most 63)"
        )


def open_reader(
    stack: contextlib.ExitStack,
    path: Path,
    overrides: Overrides,
    options: ImporterWords | None = None,
    look: Look | None = None,
) -> Reader:
    """The reader of the package at `path`, open for as long as the stack is; `look` sees every file. PackageError."""
    opened = open_package_tree(path, options)
    tree: Tree = stack.enter_context(contextlib.closing(opened.tree))
    package_name = (
        overrides.name or opened.name or opened.folder or (path.resolve().name if path.is_dir() else stem(path))
    )
    if opened.report is not None and overrides.name is None:
        package_name = slug(package_name)[:63]
    check_name(path, package_name)
    if opened.report is None:
        reader = Reader(tree, package_name, overrides, look=look)
        # In packages of other formats these are among the notes.
        for carried, line in options.products.notes if options is not None and options.products is not None else ():
            (reader.findings.note if carried else reader.findings.warning)(f"{tree.label}: {line}" if carried else line)
    else:
        completed = replace(overrides, origin=opened.report.origin)
        reader = Reader(tree, package_name, completed, notes=opened.report.lines(), look=look)
    if opened.neighbours:
        examples = ", ".join(clean(neighbour, 40) for neighbour in opened.neighbours[:4]) + (
            ", …" if len(opened.neighbours) > 4 else ""
        )
        reader.findings.warning(f"{tree.label}: {examples} beside the package's folder: no part of it, and left out")
    return reader


# Fields that every manifest has. Others are left out where they say nothing: an executor of an earlier release judges
# what it understands, and refuses what it does not (docs/decisions/012-mixed-releases.md).
_ALWAYS = frozenset({"name", "title", "limits", "validator_flags", "tests", "source_bytes"})


def manifest_bytes(manifest: ProblemManifest) -> bytes:
    """The manifest as it is stored; its hash is the problem's content hash."""
    data = manifest.model_dump(mode="json")
    plain = ProblemManifest(name="x", tests=[]).model_dump(mode="json")
    for key in data.keys() - _ALWAYS:
        if data[key] == plain[key]:
            del data[key]
    silent: tuple[tuple[str, dict[str, Any]], ...] = (
        ("tests", {"flags": None, "args": [], "files": {}, "input_flags": []}),
        ("graders", {"custom": False, "flags": [], "own_score": False}),
        ("statements", {"why": ""}),
    )
    for field_name, defaults in silent:
        for part in data.get(field_name, []):
            for key in [key for key, value in defaults.items() if part[key] == value]:
                del part[key]
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()
