"""Finds the programs of a package that judging needs: the output validator, and files that go with submissions.

Programs are described, not built: executors compile them in a sandbox (judge.executor.slot.program).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from judge.errors import PackageError
from judge.languages.table import Language, guess
from judge.problems.tree import Tree

MAX_PROGRAM_BYTES = 16 * 1024**2
MAX_PROGRAM_FILES = 200
C_LANGUAGES = ("c", "cpp")
PYTHON = "python3"
_OWN = ("build", "run")
# What a validator is given lies under these names beside its files (judge.executor.slot.validation).
GIVEN = ("judge", "feedback")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_CONSTANT = re.compile(r"\{\{([a-zA-Z_][a-zA-Z0-9_]*)\}\}")


@dataclass(frozen=True)
class Found:
    """A program in the package: its name, what starts it, and its files (name below its folder to path)."""

    name: str
    language: str | None
    main: str
    files: Mapping[str, str]


def substitute(data: bytes, constants: Mapping[str, str | int | float] | None) -> bytes:
    """A file with the constants of problem.yaml put in place of `{{name}}`; what is not text stays as it is."""
    if not constants or b"{{" not in data:
        return data
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data
    return _CONSTANT.sub(lambda match: str(constants.get(match[1], match[0])), text).encode()


def find_validator(tree: Tree, *, legacy: bool, custom: bool, table: Mapping[str, Language]) -> Found | None:
    """The custom output validator, or None for the default one. PackageError when it cannot be used as it is meant.

    `custom`: whether the legacy format's problem.yaml announces one.
    """
    folder, other = ("output_validators", "output_validator") if legacy else ("output_validator", "output_validators")
    for path in tree.below(other)[:1]:
        wanted = "the legacy format" if legacy else "format 2025-09"
        raise PackageError(f"{tree.where(path)}: in {wanted} the folder is called {folder}; rename it")
    paths = tree.below(folder)
    if not paths:
        if custom:
            raise PackageError(f"{tree.where('problem.yaml')}: validation: is custom, but {folder} has no program")
        return None
    if legacy and not custom:
        msg = f"{tree.where(paths[0])}: is a validator, but problem.yaml says validation: default; say custom"
        raise PackageError(msg)
    tops = sorted({path.split("/")[1] for path in paths if path.count("/") > 1})
    direct = [path for path in paths if path.count("/") == 1]
    if len(tops) == 1 and not any(guess(path, table) or PurePosixPath(path).name in _OWN for path in direct):
        folder = f"{folder}/{tops[0]}"
        return _program(tree, tops[0], folder, tree.below(folder), table)
    if tops:
        names = ", ".join([*tops, *(PurePosixPath(path).name for path in direct)][:4])
        raise PackageError(f"{tree.where(folder)}: has several programs ({names}); this version runs one validator")
    own = {PurePosixPath(path).name for path in direct} & set(_OWN)
    sources = [path for path in direct if guess(path, table)]
    if legacy and not own and len(sources) > 1:
        names = ", ".join(PurePosixPath(path).name for path in sources[:4])
        msg = f"{tree.where(folder)}: has several programs ({names}); put the files of one into a folder of their own"
        raise PackageError(msg)
    name = PurePosixPath(sources[0]).stem if len(sources) == 1 else folder
    return _program(tree, name, folder, direct, table)


def _program(tree: Tree, name: str, folder: str, paths: Sequence[str], table: Mapping[str, Language]) -> Found:
    """One program from the files of one folder."""
    files = _named(tree, folder, paths)
    for file, path in files.items():
        if file.split("/")[0] in GIVEN:
            msg = f"{tree.where(path)}: '{file.split('/')[0]}' is where a validator finds what it is given; rename it"
            raise PackageError(msg)
    for own in _OWN:
        if own in files:
            return Found(name, None, own, files)
    languages = {file: language for file in files if (language := guess(file, table)) is not None}
    kinds = set(languages.values())
    if kinds and kinds <= set(C_LANGUAGES):
        kind = "cpp" if "cpp" in kinds else "c"
        return Found(name, kind, min(languages), files)
    if kinds == {PYTHON}:
        main = next((file for file in ("__main__.py", "main.py") if file in files), None)
        if len(languages) == 1 or main is not None:
            return Found(name, PYTHON, main or min(languages), files)
        raise PackageError(f"{tree.where(folder)}: has several Python files and no __main__.py; name the one to start")
    if len(languages) == 1:
        file, language = next(iter(languages.items()))
        return Found(name, language, file, files)
    if not languages:
        raise PackageError(f"{tree.where(paths[0])}: no language of the table has this suffix, and there is no 'run'")
    raise PackageError(f"{tree.where(folder)}: is in several languages; a program without 'run' must be in one")


def _named(tree: Tree, folder: str, paths: Sequence[str]) -> dict[str, str]:
    """The files of a folder by their names in it; PackageError for too many, too big, or names that cannot be."""
    files = {path.removeprefix(folder + "/"): path for path in paths}
    for name, path in files.items():
        if not all(_NAME.fullmatch(part) for part in name.split("/")) or len(name) > 255:
            raise PackageError(f"{tree.where(path)}: a program's file must be named with letters, digits and _ . + -")
    if len(files) > MAX_PROGRAM_FILES or sum(tree.files[path] for path in paths) > MAX_PROGRAM_BYTES:
        msg = f"{tree.where(folder)}: has more than {MAX_PROGRAM_FILES} files or {MAX_PROGRAM_BYTES} bytes"
        raise PackageError(msg)
    return files


def find_include(tree: Tree, aliases: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Files that go with submissions: by our language (or `default`), name to path."""
    found: dict[str, dict[str, str]] = {}
    for path in tree.below("include"):
        if path.count("/") == 1:
            raise PackageError(f"{tree.where(path)}: lies in no language's folder; expected include/LANGUAGE/FILE")
    for language in sorted({path.split("/")[1] for path in tree.below("include")}):
        folder = f"include/{language}"
        if language != "default" and language not in aliases:
            raise PackageError(f"{tree.where(folder)}: '{language}' is no language that is judged here")
        found[aliases.get(language, language)] = _named(tree, folder, tree.below(folder))
    return found
