"""Packages of other formats, read as packages of format 2025-09 (docs/problems.md).

`open_package_tree` is all that others call. An importer is a module with two functions: `matches(tree)` says whether a
tree is of its format, `convert(tree, asked)` makes the draft, or raises PackageError with one sentence.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from judge.errors import PackageError, UsageError
from judge.problems.importers import cms, directory, dmoj, polygon, tps
from judge.problems.importers.draft import Asked, Draft, Report
from judge.problems.tree import Tree, clean, open_tree

# The format of everything else here, as `--from` calls it.
PACKAGE = "package"
# In the order in which they are tried.
IMPORTERS: dict[str, ModuleType] = {"polygon": polygon, "dmoj": dmoj, "cms": cms, "tps": tps, "directory": directory}
FORMATS = (PACKAGE, *IMPORTERS)
# Folders that nothing but the package format has.
_PACKAGE_FOLDERS = frozenset({
    "problem_statement", "output_validators", "output_validator", "input_validators", "input_format_validators",
})  # fmt: skip
# A folder with one of these is a package of its own; a tree with such folders is a set of problems.
_OF_ONE = frozenset({"problem.yaml", "domjudge-problem.ini", "problem.xml", "init.yml", "task.yaml", "problem.json"})
# Folders of tests, whose names say nothing about the problem.
_NAMELESS = frozenset({"data", "test", "tests", "testcase", "testcases", "testdata", "test_data", "cases", "io"})


@dataclass
class Opened:
    """A tree in the Kattis/ICPC format. `folder`: the one folder that all of the input lay in, which was entered.

    `report` and `name` (what the package calls itself) are there when it was made from another format.
    """

    tree: Tree
    folder: str | None = None
    name: str = ""
    report: Report | None = None


def open_package_tree(path: Path, asked: Asked | None = None) -> Opened:
    """The package at `path`, a directory or a ZIP archive, whatever its format; the caller closes its tree.

    PackageError for what cannot be read or be meant, UsageError for a `--from` that there is not.
    """
    said = asked or Asked()
    if said.format is not None and said.format not in FORMATS:
        raise UsageError(f"--from: '{said.format[:40]}' is not a format; choose one of {', '.join(FORMATS)}")
    tree = open_tree(path)
    try:
        return _open(tree, said)
    except BaseException:
        tree.close()
        raise


def detect(tree: Tree) -> str | None:
    """The format of a tree by its files, None when it is of none."""
    if _is_package(tree):
        return PACKAGE
    return next((name for name, importer in IMPORTERS.items() if importer.matches(tree)), None)


def _open(tree: Tree, asked: Asked) -> Opened:
    folder = None
    while (found := detect(tree)) in {None, "directory"} and (top := tree.only_folder()) is not None:
        # Archives often hold one folder of the package's name; it is looked at from there.
        tree.enter(top)
        folder = folder if top.lower() in _NAMELESS else top
    if asked.format is None and found in {None, "directory"}:
        _check_alone(tree)
    chosen = asked.format or found
    if chosen is None:
        raise PackageError(_unknown(tree))
    if chosen == PACKAGE:
        return Opened(tree, folder)
    if not IMPORTERS[chosen].matches(tree):
        raise PackageError(f"{tree.label}: has not the files of format {chosen}, which --from says it is in")
    draft: Draft = IMPORTERS[chosen].convert(tree, asked)
    try:
        made = draft.finish()
    except BaseException:
        draft.held.close()
        raise
    return Opened(made, folder, draft.name, draft.report)


def _check_alone(tree: Tree) -> None:
    """PackageError for a set of problems: together their tests would be one problem that nobody meant."""
    if "contest.xml" in tree.files:
        raise PackageError(
            f"{tree.label}: is a contest of Polygon; import the problems in it one by one (problems/NAME)"
        )
    within = sorted({posixpath.dirname(path) for path in tree.files if posixpath.basename(path) in _OF_ONE})
    if within and within != [""]:
        more = ", …" if len(within) > 4 else ""
        shown = ", ".join(clean(folder, 40) for folder in within[:4])
        raise PackageError(f"{tree.label}: is no package itself, but holds some ({shown}{more}); give one of them")


def _is_package(tree: Tree) -> bool:
    """The Kattis/ICPC format, also in DOMjudge's form, which may lack a problem.yaml."""
    if tree.files.keys() & {"problem.yaml", "domjudge-problem.ini"}:
        return True
    tops = {path.split("/")[0] for path in tree.files}
    return "data" in tops and bool(tops & _PACKAGE_FOLDERS)


def _unknown(tree: Tree) -> str:
    """Why nothing can be made of a tree, by what looks closest."""
    seen = ", ".join(clean(path, 40) for path in sorted(tree.files)[:4])
    return (
        f"{tree.label}: has no problem.yaml, and no other known format either ({seen or 'it is empty'}); "
        f"expected a package in Kattis/ICPC format, or one of {', '.join(IMPORTERS)}"
    )
