"""Tests that a package of Polygon does not have: those of kind "standard" only say what makes them."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from judge.common.errors import PackageError
from judge.common.text import several
from judge.problems.importers import testlib
from judge.problems.importers.draft import Draft, Ref
from judge.problems.importers.making import MakingStep, Plan, UnmadeError, answer_step, arguments_of
from judge.problems.importers.polygon.document import PROBLEM_XML, path_of, runs, source
from judge.problems.tree import clean

_FULL = "take a full package from Polygon (Packages, linux)"


@dataclass(frozen=True)
class PolygonTest:
    """One test of a testset: its number, files, and what its element says."""

    __test__ = False  # not a pytest class

    index: int
    input: str
    answer: str
    element: Element

    @property
    def sample(self) -> bool:
        return (self.element.get("sample") or "").lower() == "true"


def check_files(draft: Draft, root: Element, tests: Sequence[PolygonTest]) -> None:
    """UnmadeError where inputs are to be made by generators, and answers by the main solution.

    PackageError where something is missing that nothing makes.
    """
    files = draft.tree.files
    if all(test.input in files and test.answer in files for test in tests):
        return
    raise _PolygonPlanning(draft, root).plan(tests)


class _PolygonPlanning:
    def __init__(self, draft: Draft, root: Element) -> None:
        self._draft = draft
        self._root = root
        self._where = draft.tree.where(PROBLEM_XML)
        self._plan = Plan(draft.tree)
        elements = (executable.find("source") for executable in root.iterfind("files/executables/executable"))
        self._sources = {
            posixpath.splitext(posixpath.basename(path_of(element)))[0]: element
            for element in elements
            if element is not None
        }

    def plan(self, tests: Sequence[PolygonTest]) -> UnmadeError:
        files = self._draft.tree.files
        for test in tests:
            steps = [] if test.input in files else [self._input(test)]
            if test.answer not in files:
                steps.append(self._answer(test))
            self._plan.add(*steps)
        missing = [(test.input, test.element.get("cmd") or "") for test in tests if test.input not in files]
        half = "input" if missing else "answer"
        missing = missing or [(test.answer, "") for test in tests if test.answer not in files]
        path, command = missing[0]
        maker = f", made by '{clean(command, 60)}'" if command.strip() else ""
        return self._plan.refuse(
            f"{self._where}: {len(missing)} of {several(len(tests), 'test')} have no {half} file (first: "
            f"{path[:60]}{maker}): this is a standard package"
        )

    def _input(self, test: PolygonTest) -> MakingStep:
        command = (test.element.get("cmd") or "").strip()
        where = f"{self._where}: test {test.index}"
        if not command:
            raise PackageError(f"{where}: has no input file {clean(test.input, 60)}, and no command; {_FULL}")
        name, *args = arguments_of(command, where)
        stem = posixpath.splitext(posixpath.basename(name.replace("\\", "/")))[0]
        element = self._sources.get(stem)
        path = path_of(element)
        if element is None or path not in self._draft.tree.files:
            raise PackageError(f"{where}: is made by '{clean(name, 60)}', whose source is not in the package; {_FULL}")
        key = self._plan.program(
            self._draft,
            f"generator {stem}",
            testlib.ProgramSource(Ref(self._draft.tree, path), element.get("type") or ""),
        )
        file = (test.element.get("from-file") or "").strip()
        if file and ("/" in file or file.startswith(".")):
            raise PackageError(f"{where}: from-file: '{clean(file, 60)}' is not the name of a file")
        return MakingStep(key, test.input, tuple(args), output_name=file)

    def _answer(self, test: PolygonTest) -> MakingStep:
        """By the main solution, which talks to the interactor where there is one."""
        draft = self._draft
        if runs(self._root, self._where) > 1:
            raise PackageError(f"{self._where}: answers of a solution that runs twice are not made here; {_FULL}")
        main_source = source(draft, self._root.find("assets/solutions/solution[@tag='main']"))
        if main_source is None:
            raise PackageError(f"{self._where}: has no answers, and no solution with tag main that makes them; {_FULL}")
        key = self._plan.solution(draft, main_source)
        talks_to = ""
        interactor = source(draft, self._root.find("assets/interactor"))
        if interactor is not None:
            talks_to = self._plan.program(draft, "interactor", interactor)
        return answer_step(draft, key, test.input, test.answer, talks_to=talks_to)
