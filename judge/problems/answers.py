"""Finds the file for each test, where what is handed in is the output for the tests (submit-answer). Pure.

The format leaves that to judges (docs/judging.md has the rule). A file is for a test when its name, without its last
suffix, is the end of the test's name: `1.out`, `easy/1.ans` and `secret/easy/1` are all for `secret/easy/1`. Folders
around all of the files are entered if no file is for a test otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath

_SUFFIXES = (".out", ".ans")
# CMS asks for output_000.txt where the test is called 000.
_PREFIX = "output_"
_SAMPLE = "sample/"
# So many names are in a refusal.
_EXAMPLES = 5


def outputs_for(tests: Sequence[str], files: Collection[str]) -> dict[str, str]:
    """The file that is judged for each test that has one, by their names; executors and verifying ask.

    Of several the one that says more of the test's name counts, then NAME.out, NAME.ans, and others by name. The same
    file may be for tests of several groups; for a sample it is only when it says so, or no secret test is called so.
    One file for one secret test may have any name.
    """
    outputs = _outputs_for(tests, {name: name for name in files})
    inner = {name: name for name in files}
    groups = {part for test in tests for part in test.split("/")[:-1]}
    while not outputs and len(tops := {name.partition("/")[0] for name in inner}) == 1:
        # A group of the problem is no folder around all: its outputs are for no other group.
        if tops <= groups or not all("/" in name for name in inner):
            break
        inner = {name.partition("/")[2]: value for name, value in inner.items()}
        outputs = _outputs_for(tests, inner)
    secret = [test for test in tests if not test.startswith(_SAMPLE)]
    if len(secret) == 1 and len(files) == 1 and not outputs:
        outputs[secret[0]] = next(iter(files))
    return outputs


def refusal(tests: Sequence[str], files: Collection[str]) -> str:
    """The reason why none of these files is for a test, to end a sentence with; empty when one is."""
    if not tests or outputs_for(tests, files):
        return ""
    names = sorted(files)
    examples = ", ".join(f"'{name[-60:]}'" for name in names[:_EXAMPLES]) + (", …" if len(names) > _EXAMPLES else "")
    secret = [test for test in tests if not test.startswith(_SAMPLE)] or list(tests)
    expected_names = [f"{test.removeprefix('secret/')}.out" for test in secret]
    expected = ", ".join(expected_names[:_EXAMPLES]) + (
        f" and {len(expected_names) - _EXAMPLES} more" if len(expected_names) > _EXAMPLES else ""
    )
    return f"are for no test of the problem ({examples}); call each output after its test: {expected}"


def _outputs_for(tests: Sequence[str], outputs: Mapping[str, str]) -> dict[str, str]:
    """The file for each test; `outputs` has what a file is called here, and what it was handed in as."""
    files = outputs.keys()
    ends = _ends(files)
    secret = [test for test in tests if not test.startswith(_SAMPLE)]
    matched_names = (
        {name for test in secret for end in _ends_of(test) for name in ends.get(end, ())} if secret else set()
    )
    first = {end: max(names, key=_preferred) for end, names in ends.items()}
    unmatched = {
        end: [name for name in names if name not in matched_names] for end, names in ends.items() if len(end) == 1
    }
    for_samples = dict(first)
    for_samples.update((end, max(names, key=_preferred, default="")) for end, names in unmatched.items())
    files_by_test: dict[str, str] = {}
    for test in tests:
        of_test = for_samples if test.startswith(_SAMPLE) else first
        name = next((of_test[end] for end in _ends_of(test) if of_test.get(end)), None)
        if name is not None:
            files_by_test[test] = outputs[name]
    return files_by_test


def _ends(files: Collection[str]) -> dict[tuple[str, ...], set[str]]:
    """The files by what may be the end of a test's name: each test then takes a look-up, not a look at every file."""
    names_by_end: dict[tuple[str, ...], set[str]] = {}
    for name in files:
        path = PurePosixPath(name)
        if path.parts[:1] == ("data",) and len(path.parts) > 1:
            path = path.relative_to("data")
        for stem in (path.name, path.stem, path.name.removeprefix(_PREFIX), path.stem.removeprefix(_PREFIX)):
            names_by_end.setdefault((*path.parts[:-1], stem), set()).add(name)
    return names_by_end


def _ends_of(test: str) -> list[tuple[str, ...]]:
    """The ends of a test's name, the longest first."""
    parts = tuple(test.split("/"))
    return [parts[start:] for start in range(len(parts))]


def _preferred(name: str) -> tuple[int, list[int]]:
    """Greater for what is taken first."""
    suffix = PurePosixPath(name).suffix
    rank = len(_SUFFIXES) - _SUFFIXES.index(suffix) if suffix in _SUFFIXES else 0
    return rank, [-ord(char) for char in name]
