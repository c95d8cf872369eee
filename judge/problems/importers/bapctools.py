"""Tests that generators/generators.yaml makes, as BAPCtools has it: for packages whose data/ was never handed in.

The package is one of the format as it stands; only what is missing below data/sample and data/secret is planned here.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from judge.errors import PackageError
from judge.languages.table import guess, load_table
from judge.problems import metadata
from judge.problems.importers import testlib
from judge.problems.importers.draft import Draft, Ref, dump
from judge.problems.importers.making import MOST, Plan, Step, UnmadeError, several, words
from judge.problems.tree import Tree, clean

SETTINGS = "generators/generators.yaml"
_GROUPS = frozenset({"testdata.yaml", "test_group.yaml"})
# Of each directory, beside tests.
_FOLDERS = ("sample", "secret")
_HELD = ("in", "ans", "out", "hint", "desc", "interaction")
_DEEP = 20


@dataclass(frozen=True)
class _Test:
    """One test: its path without a suffix, the command that makes it, or what it is."""

    path: str
    command: str = ""
    copy: str = ""
    texts: tuple[tuple[str, str], ...] = ()
    salt: str = ""


def is_unmade(tree: Tree) -> bool:
    """Whether there are no secret tests, but settings that say how they are made."""
    return SETTINGS in tree.files and not any(path.endswith(".in") for path in tree.below("data/secret"))


def unmade(tree: Tree) -> UnmadeError:
    """What is raised for such a package. PackageError for what is not understood, or is missing itself."""
    return _Planning(tree).plan()


def _numbered(content: Any, deep: int = 0) -> int:
    """How many entries stand in lists: these are numbered, all with as many digits."""
    if deep > 3 * _DEEP:
        return 0
    if isinstance(content, list):
        return sum(len(part) + _numbered(part, deep + 1) for part in content if isinstance(part, dict))
    return sum(_numbered(part, deep + 1) for part in content.values()) if isinstance(content, dict) else 0


class _Planning:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._where = tree.where(SETTINGS)
        self._conf: Mapping[str, Any] = metadata.read(tree.read(SETTINGS, metadata.YAML_BYTES), self._where).value
        self._draft = Draft(tree, "package")
        self._draft.files |= {path: Ref(tree, path) for path in tree.below("include")}
        self._plan = Plan(tree)
        self._digits = 1
        said = tree.read("problem.yaml", metadata.YAML_BYTES) if "problem.yaml" in tree.files else b""
        problem = metadata.read(said, tree.where("problem.yaml")).value
        kinds = f"{problem.get('type', '')} {problem.get('validation', '')}"
        # Nothing prints the answers of these: the validator finds out.
        self._answers = not re.search(r"interactive|multi-?pass", kinds)

    def plan(self) -> UnmadeError:
        data = self._conf.get("data")
        self._digits = len(str(_numbered(data)))
        found: list[_Test] = []
        for folder in _FOLDERS:
            content = data.get(folder) if isinstance(data, dict) else None
            if content is not None:
                found += self._directory(f"data/{folder}", content, str(self._conf.get("random_salt") or ""), 0)
        for test in found:
            self._add(test)
        if not any(test.path.startswith("data/secret/") for test in found):
            raise PackageError(f"{self._where}: data.secret: has no tests; expected some that generators make")
        return self._plan.refuse(f"{self._tree.label}: {several(len(found), 'test')} of {SETTINGS} still to be made")

    # --- what is listed ---------------------------------------------------------------------------------------------

    def _directory(self, path: str, content: Any, salt: str, deep: int) -> Iterator[_Test]:
        """The tests of a directory and of those below it; its settings are written beside them."""
        where = f"{self._where}: {clean(path.removeprefix('data/'), 60)}"
        if not isinstance(content, dict) or deep > _DEEP:
            raise PackageError(f"{where}: expected a mapping with 'data'")
        salt += str(content.get("random_salt") or "") if deep else ""
        for name in _GROUPS & content.keys():
            if isinstance(content[name], dict):
                self._plan.texts[f"{path}/{name}"] = dump(content[name])
        data = content.get("data") or {}
        parts = data if isinstance(data, list) else [data]
        if not all(isinstance(part, dict) for part in parts):
            raise PackageError(f"{where}: data: expected a mapping of tests and directories, or a list of such")
        number = 0
        for part in parts:
            for raw, entry in part.items():
                number += 1
                name = "" if raw is None else str(raw)
                if isinstance(data, list):
                    name = "-".join(one for one in (f"{number:0{self._digits}d}", name) if one)
                if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,254}", name):
                    raise PackageError(f"{where}: '{clean(name, 40)}' is not the name of a test or directory")
                if isinstance(entry, dict) and ("data" in entry or entry.get("type") == "directory"):
                    yield from self._directory(f"{path}/{name}", entry, salt, deep + 1)
                else:
                    yield from self._tests(f"{path}/{name}", entry, salt, where)

    def _tests(self, path: str, entry: Any, salt: str, where: str) -> Iterator[_Test]:
        """One entry: a test, or as many as its `count` says. One without anything is written by hand: it is there."""
        if entry is None:
            return
        if isinstance(entry, str):
            entry = {"copy": entry.removesuffix(".in")} if entry.endswith(".in") else {"generate": entry}
        if not isinstance(entry, dict):
            raise PackageError(f"{where}: {clean(posixpath.basename(path), 40)}: expected a command, or a mapping")
        count = entry.get("count", 1)
        count = len(count) if isinstance(count, list) else count
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST:
            raise PackageError(f"{where}: {clean(posixpath.basename(path), 40)}: count: expected from 1 to {MOST}")
        command, copied = str(entry.get("generate") or ""), str(entry.get("copy") or "")
        texts = tuple((key, str(entry[key])) for key in _HELD if isinstance(entry.get(key), str | int | float))
        if not command and not copied and "in" not in dict(texts):
            raise PackageError(
                f"{where}: {clean(posixpath.basename(path), 40)}: has none of 'generate', 'copy' and 'in'"
            )
        salt += str(entry.get("random_salt") or "")
        one = _Test(path, command, copied, texts, salt)
        for number in range(1, count + 1):
            # Each of several has a seed, and a name, of its own.
            yield one if count == 1 else replace(one, path=f"{path}-{number}", salt=f"{salt}:{number}")

    # --- what makes them --------------------------------------------------------------------------------------------

    def _add(self, test: _Test) -> None:
        plan, given = self._plan, f"{test.path}.in"
        if {given, f"{test.path}.ans"} <= self._tree.files.keys():
            return
        steps: list[Step] = []
        for suffix, text in test.texts:
            plan.texts[f"{test.path}.{suffix}"] = (text if text.endswith("\n") else text + "\n").encode()
        if test.copy:
            self._copy(test)
        if test.command and given not in plan.texts:
            steps.append(self._generate(test, given))
        if f"{test.path}.ans" not in {**plan.texts, **plan.copies}:
            if not self._answers:
                plan.texts[f"{test.path}.ans"] = b""
            else:
                self._solution()
                steps.append(Step("solution", f"{test.path}.ans", (), given))
        plan.add(*steps)

    def _copy(self, test: _Test) -> None:
        """The files of this name below generators/."""
        base = posixpath.normpath(posixpath.join("generators", test.copy.lstrip("/")))
        found = [suffix for suffix in _HELD if f"{base}.{suffix}" in self._tree.files]
        if "in" not in found and not test.command and not dict(test.texts).get("in"):
            raise PackageError(f"{self._where}: copy: there is no {clean(base, 80)}.in in the package")
        for suffix in found:
            self._plan.copies[f"{test.path}.{suffix}"] = f"{base}.{suffix}"

    def _generate(self, test: _Test, given: str) -> Step:
        digest = hashlib.sha512((test.salt + test.command.strip()).encode()).hexdigest()
        seed = str(int(digest, 16) % 2**31)
        filled = re.sub(r"\{seed(?::[0-9]+)?\}", seed, test.command)
        filled = filled.replace("{name}", posixpath.basename(test.path))
        filled = filled.replace("{count}", test.salt.rpartition(":")[2] or "1")
        name, *arguments = words(filled, f"{self._where}: {clean(test.path, 60)}")
        key = self._plan.program(self._draft, f"generator {name}", self._program(name))
        return Step(key, given, tuple(arguments))

    def _program(self, name: str) -> testlib.Source:
        """A generator: a file, a folder of files, the files that `generators` lists, or a file of this name."""
        files, base = self._tree.files, posixpath.normpath(posixpath.join("generators", name.lstrip("/")))
        listed = self._conf.get("generators")
        said = listed.get(name) if isinstance(listed, dict) else None
        paths = [posixpath.normpath(posixpath.join("generators", str(one))) for one in said or ()]
        paths = paths or [path for path in sorted(files) if posixpath.dirname(path) == base]
        paths = [base] if base in files else paths or [
            path for path in sorted(files) if posixpath.splitext(path)[0] == base
        ]  # fmt: skip
        known = load_table()
        sources = [path for path in paths if path in files and guess(path, known)]
        if not sources:
            raise PackageError(f"{self._where}: '{clean(name, 60)}': there is no such program in generators/")
        stems = (posixpath.basename(base), "main", "__main__")
        main = next((one for one in sources if posixpath.splitext(posixpath.basename(one))[0] in stems), sources[0])
        more = tuple(Ref(self._tree, path) for path in paths if path != main and path in files)
        return testlib.Source(Ref(self._tree, main), more=more if len(paths) > 1 else ())

    def _solution(self) -> None:
        """The submission that makes the answers: the one that is named, or the first that is accepted."""
        if "solution" in self._plan.programs:
            return
        said = str(self._conf.get("solution") or "")
        path = posixpath.normpath(said.lstrip("/") if said.startswith("/") else f"generators/{said}")
        if not said:
            known = load_table()
            there = [one for one in self._tree.below("submissions/accepted") if one.count("/") == 2]
            path = next((one for one in sorted(there) if guess(one, known)), "")
        if path not in self._tree.files:
            what = (
                f"'{clean(said, 60)}' is not in the package" if said else "there is no accepted submission of one file"
            )
            raise PackageError(f"{self._where}: solution: {what}; it makes the answers")
        self._plan.solution(self._draft, testlib.Source(Ref(self._tree, path)))
