"""Which file is for which test, where what is handed in is the output for the tests (submit-answer). Pure.

The format leaves that to judges (docs/problems.md has the rule). A file is for a test when its name, without its last
suffix, is the end of the test's name: `1.out`, `easy/1.ans` and `secret/easy/1` are all for `secret/easy/1`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import PurePosixPath

_SUFFIXES = (".out", ".ans")
# CMS asks for output_000.txt where the test is called 000.
_PREFIX = "output_"
_SAMPLE = "sample/"


def outputs_for(tests: Sequence[str], files: Collection[str]) -> dict[str, str]:
    """The file that is judged for each test that has one, by their names; executors and verifying ask.

    Of several the one that says more of the test's name counts, then NAME.out, NAME.ans, and others by name. The same
    file may be for tests of several groups; for a sample it is only when it says so, or no secret test is called so.
    One file for one secret test may have any name.
    """
    found: dict[str, str] = {}
    secret = [test for test in tests if not test.startswith(_SAMPLE)]
    taken = (
        {name for name in files if any(_fit(other, name) for other in secret)} if len(secret) < len(tests) else set()
    )
    for test in tests:
        fitting = [(_fit(test, name), name) for name in files]
        if test.startswith(_SAMPLE):
            fitting = [(fit, name) for fit, name in fitting if fit > 1 or name not in taken]
        best = max((one for one in fitting if one[0]), key=lambda one: (one[0], *_preferred(one[1])), default=None)
        if best is not None:
            found[test] = best[1]
    if len(secret) == 1 and len(files) == 1 and not found:
        found[secret[0]] = next(iter(files))
    return found


def _fit(test: str, name: str) -> int:
    """How many parts of the test's name a file's name has at its end; 0: it is for another test."""
    path = PurePosixPath(name)
    if path.parts[:1] == ("data",) and len(path.parts) > 1:
        path = path.relative_to("data")
    stems = {path.name, path.stem, path.name.removeprefix(_PREFIX), path.stem.removeprefix(_PREFIX)}
    parts = tuple(test.split("/"))
    return max((len(path.parts) for stem in stems if parts[-len(path.parts) :] == (*path.parts[:-1], stem)), default=0)


def _preferred(name: str) -> tuple[int, list[int]]:
    """Greater for what is taken first."""
    suffix = PurePosixPath(name).suffix
    rank = len(_SUFFIXES) - _SUFFIXES.index(suffix) if suffix in _SUFFIXES else 0
    return rank, [-ord(char) for char in name]
