"""Problems of Rime, which keeps inputs and generators, and makes all tests and answers in rime-out/."""

from __future__ import annotations

import re

from judge.problems.importers.draft import decode
from judge.problems.importers.pairs import find_pairs
from judge.problems.tree import Tree

_OUT = "rime-out/"
_MADE = "rime-out/tests/"
_TESTSET = "tests/TESTSET"
_PROBLEM = "PROBLEM"
_GENERATOR = re.compile(r"^[ \t]*[a-z]+_generator\(", re.MULTILINE)
# Solutions that must fail on some tests, or on any, say so; `None` is to be right, as nothing is.
_FAILS = re.compile(r"^[^#\n]*\bchallenge_cases[ \t]*=(?!=)(?![ \t]*None\b)", re.MULTILINE | re.IGNORECASE)
_MOST = 65536


def is_one(tree: Tree) -> bool:
    """Says whether it is a problem of Rime: PROBLEM beside tests/TESTSET, or one of them beside what it made."""
    return len(tree.files.keys() & {_PROBLEM, _TESTSET}) + bool(tree.below("rime-out")) > 1


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


def solutions(tree: Tree) -> dict[str, str]:
    """Programs that SOLUTION beside them says are wrong, and the folder of those: Rime calls any of them `main`."""
    found: dict[str, str] = {}
    said = [path for path in tree.files if path.endswith("/SOLUTION") and path.count("/") == 1] if is_one(tree) else []
    wrong = {
        path.rpartition("/")[0]
        for path in said
        if tree.files[path] <= _MOST and _FAILS.search(decode(tree.read(path, _MOST)))
    }
    for path in tree.files:
        if path.rpartition("/")[0] in wrong:
            found[path] = "rejected"
    return found
