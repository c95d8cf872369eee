"""Packages of other formats, read as packages of format 2025-09 (docs/problems-import.md).

`open_package_tree` is all that others call. An importer is a module with two functions: `matches(tree)` says whether a
tree is of its format, `convert(tree, asked)` makes the draft, or raises PackageError with one sentence.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from judge.common.errors import PackageError, UsageError
from judge.problems.archives import open_tree
from judge.problems.importers import (
    bapctools,
    cms,
    directory,
    dmoj,
    gensh,
    hydro,
    line_ends,
    packed,
    polygon,
    sio2,
    tps,
)
from judge.problems.importers.draft import STARTS, Draft, ImporterWords, Report
from judge.problems.importers.hydro import syzoj, uoj
from judge.problems.importers.making import MadeTree, UnmadeError
from judge.problems.importers.pairs import NAMELESS, find_pairs
from judge.problems.pointers import refuse_pointers
from judge.problems.tree import Tree, clean

# The format of everything else here, as `--from` calls it.
PACKAGE = "package"
# In the order in which they are tried.
IMPORTERS: dict[str, ModuleType] = {
    "polygon": polygon, "dmoj": dmoj, "cms": cms, "tps": tps, "sio2": sio2, "hydro": hydro, "uoj": uoj, "syzoj": syzoj,
    "directory": directory,
}  # fmt: skip
FORMATS = (PACKAGE, *IMPORTERS)
# Folders that nothing but the package format has.
_PACKAGE_FOLDERS = frozenset({
    "problem_statement", "output_validators", "output_validator", "input_validators", "input_format_validators",
})  # fmt: skip
# A folder with one of these is a package of its own; a tree with such folders is a set of problems.
_OF_ONE = frozenset({"problem.yaml", "domjudge-problem.ini", "problem.xml", "init.yml", "task.yaml", "problem.json"})
_TCFRAME = re.compile(rb"tcframe|\bProblemSpec\b")
_OMEGAUP = re.compile(r"settings\.json|testplan|statements/[a-z]{2}\.markdown")


@dataclass
class Opened:
    """A tree in the Kattis/ICPC format. `folder`: the one folder that the package lay in, which was entered.

    `report` and `name` (what the package calls itself) are there when it was made from another format; `neighbours`
    lay beside that folder, and is no part of the package.
    """

    tree: Tree
    folder: str | None = None
    name: str = ""
    report: Report | None = None
    neighbours: list[str] = field(default_factory=list)


def open_package_tree(path: Path, options: ImporterWords | None = None) -> Opened:
    """The package at `path`, a directory or a ZIP archive, whatever its format; the caller closes its tree.

    PackageError for what cannot be read or be meant (UnmadeError for what is still to be made), UsageError for a
    `--from` that there is not.
    """
    settings = options or ImporterWords()
    if settings.format is not None and settings.format not in FORMATS:
        raise UsageError(f"--from: '{settings.format[:40]}' is not a format; choose one of {', '.join(FORMATS)}")
    tree = open_tree(path)
    try:
        return _open(tree, settings)
    except UnmadeError:
        raise
    except BaseException:
        tree.close()
        raise


def detect(tree: Tree) -> str | None:
    """The format of a tree by its files, None when it is of none."""
    if _is_package(tree):
        # Hydro's settings have the same name.
        return "hydro" if hydro.matches(tree) else PACKAGE
    return next((name for name, importer in IMPORTERS.items() if importer.matches(tree)), None)


def _open(tree: Tree, options: ImporterWords) -> Opened:
    folder = None
    while (detected := detect(tree)) in {None, "directory"} and (top := tree.only_folder()) is not None:
        # Archives often hold one folder of the package's name; it is looked at from there.
        tree.enter(top)
        folder = folder if top.lower() in NAMELESS else top
    neighbours: list[str] = []
    if options.format != "directory" and detected in {None, "directory"} and (inner := _inner(tree)) is not None:
        neighbours = sorted({path.split("/")[0] for path in tree.files if not path.startswith(inner + "/")})
        tree.enter(inner)
        folder, detected = posixpath.basename(inner), detect(tree)
    refuse_pointers(tree)
    _refuse_terry(tree, options, detected)
    _refuse_unsupported(tree, options, detected)
    importer = options.format or detected
    if importer is None:
        raise PackageError(_unknown(tree))
    if importer == PACKAGE and options.format is None and _without_data(tree):
        importer = "directory"
    if importer == PACKAGE:
        return Opened(_package(tree, options), folder, neighbours=neighbours)
    if not IMPORTERS[importer].matches(tree):
        raise PackageError(f"{tree.label}: has not the files of format {importer}, which --from says it is in")
    if importer != "directory":
        tree = packed.unpacked(tree)
    complete_tree = tree if options.products is None else MadeTree(tree, options.products)
    draft: Draft = IMPORTERS[importer].convert(complete_tree, options)
    for path in tree.left_out:
        draft.report.dropped(f"{tree.where(path)}: its name begins with '.' or ends with '~'; rename what is meant")
    _add_asked(draft, options)
    if importer != "polygon":  # it has said so itself
        line_ends.say_kept(draft)
    package = draft.finish()
    return Opened(package, folder, draft.name, draft.report, neighbours)


def _package(tree: Tree, options: ImporterWords) -> Tree:
    """A tree in the package format, with its tests made; PackageError, UsageError."""
    if options.memory is not None:
        raise UsageError(f"--memory: {tree.label} has its own; set limits.memory in problem.yaml")
    packed.refuse_packed(tree)
    maker = next((module for module in (bapctools, gensh) if module.is_unmade(tree)), None)
    if maker is not None:
        if options.products is None:
            raise maker.unmade(tree)
        tree = MadeTree(tree, options.products)
    _check_data(tree)
    return tree


def _add_asked(draft: Draft, options: ImporterWords) -> None:
    """Add what was made for the package, in words, and the memory limit that was asked for, whatever it says itself."""
    for carried, line in options.products.notes if options.products is not None else ():
        (draft.report.took if carried else draft.report.dropped)(line)
    package_memory = draft.limits.get("memory")
    if options.memory is not None and options.memory != package_memory:
        draft.limits["memory"] = options.memory
        instead = "" if package_memory is None else f", in place of {package_memory} MiB"
        draft.report.took(f"memory limit {options.memory} MiB, as --memory says{instead}")


def _inner(tree: Tree) -> str | None:
    """The folder of the one package in a tree that is none itself.

    PackageError for a set of problems: together their tests would be one problem that nobody meant.
    """
    if "contest.xml" in tree.files:
        raise PackageError(
            f"{tree.label}: is a contest of Polygon; import the problems in it one by one (problems/NAME)"
        )
    marked = {posixpath.dirname(path) for path in tree.files if posixpath.basename(path) in _OF_ONE}
    folders = sorted(
        candidate
        for candidate in marked
        if not any(candidate.startswith(outer + "/") for outer in marked - {candidate})
    )
    if not folders or "" in marked:
        return None
    outside = [path for path in tree.files if not path.startswith(folders[0] + "/")]
    if len(folders) == 1 and not any(pair.answer is not None for pair in find_pairs(outside)[0]):
        return folders[0]
    suffix = ", …" if len(folders) > 4 else ""
    examples = ", ".join(clean(folder, 40) for folder in folders[:4])
    raise PackageError(f"{tree.label}: is no package itself, but holds some ({examples}{suffix}); give one of them")


def _refuse_terry(tree: Tree, options: ImporterWords, detected: str | None) -> None:
    """PackageError for a task whose managers make the inputs and judge the outputs, as Italian contests have them."""
    stems = {posixpath.basename(path).partition(".")[0] for path in tree.below("managers")}
    format_known = options.format is not None or detected not in {None, "directory"}
    if format_known or "task.yaml" not in tree.files or not {"generator", "checker"} <= stems:
        return
    # Examples of the statement look like tests.
    if not find_pairs(path for path in tree.files if not path.startswith("statement/"))[0]:
        raise PackageError(
            f"{tree.where('task.yaml')}: is a task of Terry, whose inputs are made for each contestant by its "
            "managers; it has no tests, and cannot be judged here"
        )


def _refuse_unsupported(tree: Tree, options: ImporterWords, detected: str | None) -> None:
    """PackageError for a package of a format that is recognised and not imported."""
    system = next(_unsupported(tree), None) if options.format is None and detected in {None, "directory"} else None
    if system is not None:
        name, path = system
        raise PackageError(
            f"{tree.where(path)}: belongs to a package of {name}, a format that is not imported; give --from directory "
            "to import its pairs of tests alone, without its limits, points and checker"
        )


def _unsupported(tree: Tree) -> Iterator[tuple[str, str]]:
    """The systems that a tree may be of whose packages are not imported, each with the file that shows it."""
    files = sorted(tree.files)
    if "description/problem.info" in files:
        yield "BOCA", "description/problem.info"
    if "tests/TESTSET" in files:
        yield "Rime", "tests/TESTSET"
    if "PROBLEM" in files and any(path.endswith("/SOLUTION") or path.startswith("rime-out/") for path in files):
        yield "Rime", "PROBLEM"
    if "spec.cpp" in files and _TCFRAME.search(next(tree.chunks("spec.cpp"), b"")[:STARTS]):
        yield "tcframe", "spec.cpp"
    if any(path.startswith("cases/") for path in files):
        yield from (("omegaUp", path) for path in files if _OMEGAUP.fullmatch(path))


def _without_data(tree: Tree) -> bool:
    """Return whether there is a domjudge-problem.ini, and tests beside it: old contests, before there was data/."""
    only_settings = directory.INI in tree.files and not tree.files.keys() & {"problem.yaml"} and not tree.below("data")
    return only_settings and directory.matches(tree)


def _check_data(tree: Tree) -> None:
    """PackageError for another system's problem.yaml, whose tests lie where that system has them."""
    if any(path.startswith("data/") for path in tree.files):
        return
    if hydro.lacks_tests(tree):
        raise PackageError(f"{tree.label}: is a problem of Hydro without testdata/; export it with its tests")
    elsewhere = next((pair.input for pair in find_pairs(tree.files)[0] if pair.answer is not None), None)
    if elsewhere is not None:
        settings = "problem.yaml" if "problem.yaml" in tree.files else "domjudge-problem.ini"
        raise PackageError(
            f"{tree.label}: has {settings}, but no data/; its tests ({clean(elsewhere, 60)}) lie as other systems "
            "have them: move them to data/sample and data/secret, or take them alone (--from directory)"
        )


def _is_package(tree: Tree) -> bool:
    """The Kattis/ICPC format, also in DOMjudge's form, which may lack a problem.yaml."""
    if tree.files.keys() & {"problem.yaml", "domjudge-problem.ini"}:
        return True
    tops = {path.split("/")[0] for path in tree.files}
    return "data" in tops and bool(tops & _PACKAGE_FOLDERS)


def _unknown(tree: Tree) -> str:
    """The reason why nothing can be made of a tree, by what looks closest."""
    if "task.toml" in tree.files:
        return (
            f"{tree.label}/task.toml: is of task-maker, which makes input/, output/ and a task.yaml of it; have it do "
            "so first, and import the folder then"
        )
    task = next((name for name in ("task.yaml", "task.yml", "task.json", "problem.json") if name in tree.files), None)
    if task is not None:
        return (
            f"{tree.label}/{task}: is of a system that is not known here: neither of CMS, with input/ and output/ "
            "beside it, nor of TPS, with tests/; give the tests as pairs of files (--from directory), or make a package"
        )
    examples = ", ".join(clean(path, 40) for path in sorted(tree.files)[:4])
    return (
        f"{tree.label}: has no problem.yaml, and no other known format either ({examples or 'it is empty'}); "
        f"expected a package in Kattis/ICPC format, or one of {', '.join(IMPORTERS)}"
    )
