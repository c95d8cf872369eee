"""Problems of Rime, which keeps inputs and generators, and makes all tests and answers in rime-out/."""

from __future__ import annotations

import ast
import posixpath
import re

from judge.languages import python
from judge.problems.importers.draft import Draft, decode
from judge.problems.importers.pairs import find_pairs
from judge.problems.tree import Tree

_OUT = "rime-out/"
_MADE = "rime-out/tests/"
_TESTSET = "tests/TESTSET"
_PROBLEM = "PROBLEM"
_GENERATOR = re.compile(r"^[ \t]*[a-z]+_generator\(", re.MULTILINE)
_MOST = 65536
# Real ones have one call, and a page of examples that are comments.
_SOLUTION = "SOLUTION"
_SOLUTION_BYTES, _SOLUTIONS = 16384, 200


def is_one(tree: Tree) -> bool:
    """Says whether it is a problem of Rime: two of PROBLEM, tests/TESTSET, a SOLUTION, and what it made."""
    told = any(path.endswith("/" + _SOLUTION) for path in tree.files)
    return len(tree.files.keys() & {_PROBLEM, _TESTSET}) + told + bool(tree.below("rime-out")) > 1


def leave_out(tree: Tree) -> list[str]:
    """Takes what would be there twice out of the tree, and says what that is.

    All tests with their answers are among those that it has made; their sources are no tests beside them.
    """
    if not is_one(tree):
        return []
    pairs = find_pairs(path for path in tree.files if path.startswith(_MADE))[0]
    made = {path for pair in pairs if pair.answer for path in (pair.input, pair.answer)}
    inputs = {path for path in tree.below("tests") if path.endswith((".in", ".diff"))} if made else set()
    there = tree.files.keys()
    tree.files = {
        path: size for path, size in tree.files.items() if path in made or not (path.startswith(_OUT) or path in inputs)
    }
    said = []
    if made:
        said.append(f"tests/: Rime has made all tests of it, which are taken from {_MADE}")
    if there - tree.files.keys() - inputs:
        said.append(f"{_OUT}: what Rime has made beside tests is only compiled or copied")
    if not made and _makes_more(tree):
        said.append(f"tests that the generators of {_TESTSET} make: there is no {_MADE}; have Rime make them first")
    return said


def _makes_more(tree: Tree) -> bool:
    if _TESTSET not in tree.files or tree.files[_TESTSET] > _MOST:
        return False
    return _GENERATOR.search(decode(tree.read(_TESTSET, _MOST))) is not None


def used_by(tree: Tree) -> set[str]:
    """The files that say what solutions are meant to do."""
    return {path for path in tree.files if path.endswith("/" + _SOLUTION)} if is_one(tree) else set()


def solutions(draft: Draft) -> dict[str, str]:
    """Solutions and their folders, as SOLUTION beside each says: one with `challenge_cases` must not be right."""
    found: dict[str, str] = {}
    for path in sorted(used_by(draft.tree))[:_SOLUTIONS]:
        if draft.tree.files[path] > _SOLUTION_BYTES:
            continue
        for name, wrong in _calls(draft.start(path)):
            source = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
            if source in draft.tree.files:
                found[source] = "rejected" if wrong else "accepted"
    return found


def _calls(text: str) -> list[tuple[str, bool]]:
    """The sources that calls such as `cxx_solution(src='main.cc')` name, and whether they are meant to fail."""
    tree = python.program(text)
    found = []
    for one in tree.body if tree else []:
        call = one.value if isinstance(one, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        keys = {key.arg: key.value for key in call.keywords}
        source = call.args[0] if call.args else keys.get("src", keys.get("src_name"))
        if call.func.id.endswith("_solution") and isinstance(source, ast.Constant) and isinstance(source.value, str):
            cases = keys.get("challenge_cases")
            wrong = cases is not None and not (isinstance(cases, ast.Constant) and cases.value is None)
            found.append((source.value, wrong))
    return found
