"""Finds the programs of a package: validators, graders, and files that go with submissions.

Programs are described, not built: executors compile them in a sandbox (judge.executor.slot.program).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from judge.common.errors import PackageError
from judge.languages.table import Language, find, guess
from judge.problems import checktestdata
from judge.problems.reading.findings import Findings
from judge.problems.tree import Tree, is_file_name

MAX_PROGRAM_BYTES = 16 * 1024**2
MAX_PROGRAM_FILES = 200
C_LANGUAGES = ("c", "cpp")
PYTHON = "python3"
_ENTRY_NAMES = ("build", "run")
# Things that a validator is given lie under these names beside its files (judge.executor.slot.validation).
RESERVED_FOLDERS = ("judge", "feedback")
# Other languages of their own for input validators; there is nothing here that runs them.
_GRAMMARS = {".viva": "VIVA", ".cue": "CUE"}
_NO_LANGUAGE = "no language of the table has this suffix, and there is no 'run'"
_CONSTANT = re.compile(r"\{\{([a-zA-Z_][a-zA-Z0-9_]*)\}\}")
# Signs of a source that is started itself, beside others that it uses.
_STARTS = re.compile(
    rb"^[ \t]*if\s{1,99}__name__\s{0,99}=="
    rb"|\bint\s{1,99}main\s{0,99}\(|static\s{1,99}(public\s{1,99})?void\s{1,99}main\s{0,99}\("
    rb"|\bfun\s{1,99}main\s{0,99}\(|\bfn\s{1,99}main\s{0,99}\("
    rb"|\bfunc\s{1,99}main\s{0,99}\(",
    re.MULTILINE,
)


@dataclass(frozen=True)
class FoundProgram:
    """A program in the package: its name, what starts it, and its files (name below its folder to path).

    One that is started by what is not among them is a description, which checktestdata.program() goes with.
    """

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


def several(programs: Sequence[FoundProgram]) -> str:
    """The sentence about programs in one place, of which there may be one."""
    names = ", ".join(program.name for program in programs[:4])
    return f"has several programs ({names})"


class Finder:
    """Looks for the programs of one package; what is left out is noted in `findings`."""

    def __init__(self, tree: Tree, table: Mapping[str, Language], findings: Findings) -> None:
        self._tree = tree
        self._table = table
        self._findings = findings

    def single(self, folder: str, *, as_one: bool) -> FoundProgram | None:
        """The program that a folder is, or that its only folder is; None when it has no files.

        `as_one`: sources beside each other are one program. PackageError when there are several, or none at all.
        """
        programs, paths = self.all(folder, as_one=as_one), self._tree.below(folder)
        if len(programs) > 1:
            raise PackageError(f"{self._tree.where(folder)}: {several(programs)}; keep one, or put its files together")
        if not programs and paths:
            raise PackageError(f"{self._tree.where(paths[0])}: {_NO_LANGUAGE}")
        return programs[0] if programs else None

    def all(self, folder: str, *, as_one: bool) -> list[FoundProgram]:
        """The programs in a folder, in name order: its folders, and the sources that lie directly in it.

        `as_one`: sources that lie beside each other are one program, with all that is below. PackageError for a
        program that cannot be started.
        """
        paths = self._tree.below(folder)
        direct = [path for path in paths if path.count("/") == folder.count("/") + 1]
        tops = sorted({path.removeprefix(folder + "/").split("/")[0] for path in set(paths) - set(direct)})
        sources = [path for path in direct if self._starts(path)]
        entry_names = {PurePosixPath(path).name for path in direct} & set(_ENTRY_NAMES)
        inner = [top for top in tops if any(self._starts(path) for path in self._tree.below(f"{folder}/{top}"))]
        if entry_names or (sources and (as_one or (not inner and self._is_one(sources)))):
            is_file = len(sources) == 1 and not entry_names
            name = PurePosixPath(sources[0]).stem if is_file else PurePosixPath(folder).name
            return [self._program(name, folder, paths)]
        programs = [self._program(top, f"{folder}/{top}", self._tree.below(f"{folder}/{top}")) for top in inner]
        # A file that is no source by itself, such as a header, goes with each of the sources beside it.
        extra_files = [path for path in direct if path not in sources]
        programs += [self._program(PurePosixPath(path).stem, folder, [path, *extra_files]) for path in sources]
        for top in sorted(set(tops) - set(inner)):
            if all(path.endswith(checktestdata.SUFFIX) for path in self._tree.below(f"{folder}/{top}")):
                continue
            self._warn(f"{folder}/{top}", "has no source in a language of the table, and no 'run'; it is no program")
        return sorted(programs, key=lambda program: program.name)

    def checkers(self, folder: str) -> list[FoundProgram]:
        """The input or answer validators that can be run; what cannot is a warning, as no verdict depends on it."""
        programs: list[FoundProgram] = []
        for path in self._tree.below(folder):
            name = PurePosixPath(path).name
            if name.endswith(checktestdata.SUFFIX) and is_file_name(name):
                programs.append(FoundProgram(name, checktestdata.LANGUAGE, checktestdata.MAIN, {name: path}))
            kind = _GRAMMARS.get(PurePosixPath(path).suffix)
            if kind is not None:
                self._warn(path, f"is a {kind} file; it is not run here, and no verdict depends on it")
        try:
            programs += self.all(folder, as_one=False)
        except PackageError as exc:
            self._findings.warning(f"{exc}; it is not run, and no verdict depends on it")
        return sorted(programs, key=lambda program: program.name)

    def _is_one(self, sources: Sequence[str]) -> bool:
        """Whether sources in one place must be one program: one alone, or C and C++ with one start among them."""
        if len(sources) == 1:
            return True
        if any(guess(path, self._table) not in C_LANGUAGES for path in sources):
            return False
        return sum(bool(_STARTS.search(self._tree.read(path, MAX_PROGRAM_BYTES))) for path in sources) == 1

    def _starts(self, path: str) -> bool:
        return PurePosixPath(path).name in _ENTRY_NAMES or guess(path, self._table) is not None

    def _program(self, name: str, folder: str, paths: Sequence[str]) -> FoundProgram:
        files = self._by_name(folder, paths)
        for file, path in list(files.items()):
            if file.split("/")[0] in RESERVED_FOLDERS:
                msg = f"'{file.split('/')[0]}' is where a validator finds what it is given"
                if "/" in file:
                    raise PackageError(f"{self._tree.where(path)}: {msg}; rename it")
                # Mostly judge.cpp, compiled by its author.
                self._warn(path, f"{msg}; it is left out")
                del files[file]
        for entry_name in _ENTRY_NAMES:
            if entry_name in files:
                return FoundProgram(name, None, entry_name, files)
        languages = {file: language for file in files if (language := guess(file, self._table)) is not None}
        kinds = set(languages.values())
        if not languages:
            raise PackageError(f"{self._tree.where(paths[0])}: {_NO_LANGUAGE}")
        if kinds <= set(C_LANGUAGES):
            return FoundProgram(name, "cpp" if "cpp" in kinds else "c", min(languages), files)
        if len(kinds) > 1:
            where = self._tree.where(folder)
            raise PackageError(f"{where}: is in several languages; a program without 'run' must be in one")
        kind = kinds.pop()
        return FoundProgram(name, kind, self._main(name, folder, files, sorted(languages), kind), files)

    def _main(self, name: str, folder: str, files: Mapping[str, str], sources: Sequence[str], kind: str) -> str:
        """The source that is started: the one with the name, else the only one that has what a start looks like."""
        if len(sources) == 1:
            return sources[0]
        stems = ["__main__", "main", "Main", name]
        matching = [file for candidate in stems for file in sources if PurePosixPath(file).stem == candidate]
        if matching:
            return matching[0]
        able = [file for file in sources if _STARTS.search(self._tree.read(files[file], MAX_PROGRAM_BYTES))]
        if len(able) == 1:
            return able[0]
        label, start = ("Python", "__main__.py") if kind == PYTHON else (kind, "file called main")
        sentence = f"has several {label} files and no {start}; name the one to start"
        raise PackageError(f"{self._tree.where(folder)}: {sentence}")

    def _by_name(self, folder: str, paths: Sequence[str]) -> dict[str, str]:
        """The files of a folder by their names in it, without those whose names cannot be; PackageError for many."""
        files = {}
        for path in paths:
            name = path.removeprefix(folder + "/")
            if not is_file_name(name):
                rule = "a program's file must be named with letters, digits and _ . + -"
                if self._starts(path):
                    raise PackageError(f"{self._tree.where(path)}: {rule}")
                self._warn(path, f"{rule}; it is left out")
            else:
                files[name] = path
        if len(files) > MAX_PROGRAM_FILES or sum(self._tree.files[path] for path in files.values()) > MAX_PROGRAM_BYTES:
            msg = f"{self._tree.where(folder)}: has more than {MAX_PROGRAM_FILES} files or {MAX_PROGRAM_BYTES} bytes"
            raise PackageError(msg)
        return files

    def include(self) -> dict[str, dict[str, str]]:
        """Files that go with submissions: by our language (or `default`), name to path. PackageError as `all`."""
        include: dict[str, dict[str, str]] = {}
        paths = self._tree.below("include")
        for path in paths:
            if path.count("/") == 1:
                sentence = "lies in no language's folder, expected include/LANGUAGE/FILE; it goes with no submission"
                self._warn(path, sentence)
        for language in sorted({path.split("/")[1] for path in paths if path.count("/") > 1}):
            folder = f"include/{language}"
            name = "default" if language == "default" else find(language, self._table)
            if name is None:
                self._warn(folder, f"'{language}' is no language that is judged here; its files are left out")
                continue
            if name in include:
                self._warn(folder, f"is for '{name}' as another folder is; its files count")
            include[name] = self._by_name(folder, self._tree.below(folder))
        return include

    def _warn(self, path: str, sentence: str) -> None:
        self._findings.warning(f"{self._tree.where(path)}: {sentence}")
