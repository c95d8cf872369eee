"""Formats of other systems that are recognised, and not imported: their tests are imported by `--from directory`."""

from __future__ import annotations

import re

from judge.problems.tree import Tree

_STATEMENT = re.compile(r"statements/[a-z]{2}\.markdown")
_SPEC_BYTES = 65536


def system(tree: Tree) -> tuple[str, str] | None:
    """The system of a tree and the file that shows it; None for a tree of another format."""
    files = tree.files
    if "description/problem.info" in files:
        return "BOCA", "description/problem.info"
    if "tests/TESTSET" in files:
        return "Rime", "tests/TESTSET"
    if "PROBLEM" in files and any(path.endswith("/SOLUTION") or path.startswith("rime-out/") for path in files):
        return "Rime", "PROBLEM"
    if "spec.cpp" in files and re.search(rb"tcframe|\bProblemSpec\b", next(tree.chunks("spec.cpp"), b"")[:_SPEC_BYTES]):
        return "tcframe", "spec.cpp"
    if any(path.startswith("cases/") for path in files):
        signs = (path for path in sorted(files) if path in {"settings.json", "testplan"} or _STATEMENT.fullmatch(path))
        return next((("omegaUp", path) for path in signs), None)
    return None
