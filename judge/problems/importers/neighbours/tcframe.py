"""Problems of tcframe: the subtasks of spec.cpp, whose tests are called by their groups (`NAME_2_3` of TestGroup2)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from judge.errors import PackageError
from judge.problems.importers import ioi
from judge.problems.importers.cases import ImportedCase
from judge.problems.importers.draft import Draft, decode
from judge.problems.importers.pairs import Pair
from judge.problems.tree import clean

SPEC = "spec.cpp"
_SPEC_BYTES = 1024**2
# One that does not end goes to the end of the text: looked for from each of its beginnings, that would take for ever.
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
# Each part up to the next one, or the brace that ends it; within it the first call counts, wherever it stands.
_PART = re.compile(r"\bvoid\s+(Subtask|TestGroup|SampleTestCase)([0-9]{1,3})\s*\(\s*\)[\w\s]{0,40}\{")
_BRACE = re.compile(r"[{}]")
_POINTS = re.compile(r"\bPoints\s*\(\s*(?:([0-9]{1,6})\s*\))?")
# Older versions say `assignToSubtasks`.
_IN = re.compile(r"\b(?:Subtasks|assignToSubtasks)\s*\(\s*(?:\{([0-9,\s]{0,400})\}\s*\))?")
_NAME = re.compile(r".*_(sample|[0-9]{1,3})_([0-9]{1,5})\.[a-z]{1,9}")


def write_tests(draft: Draft, pairs: Sequence[Pair], cases: Sequence[ImportedCase]) -> bool:
    """Writes tests in the subtasks that spec.cpp gives points to; False where it gives none.

    PackageError for tests that are not called by their groups, as it is unknown what they are worth.
    """
    if SPEC not in draft.tree.files:
        return False
    for pair, case in zip(pairs, cases, strict=True):
        named = _NAME.fullmatch(posixpath.basename(pair.input))
        case.sample = case.sample or (named is not None and named[1] == "sample")
    points, groups = _read(draft)
    if not any(points.values()):
        return False
    subtasks = {number: ioi.Scored(f"Subtask{number}", points[number], []) for number in sorted(points)}
    for pair, case in zip(pairs, cases, strict=True):
        named = _NAME.fullmatch(posixpath.basename(pair.input))
        if named is None:
            raise PackageError(
                f"{draft.tree.where(pair.input)}: is not called by its group, as NAME_1_2.in, so its subtasks in "
                f"{SPEC} are unknown; have tcframe make the tests, or have them compared alone (--from directory)"
            )
        sample = named[1] == "sample"
        key = ("SampleTestCase", int(named[2])) if sample else ("TestGroup", int(named[1]))
        if not sample and key not in groups:
            raise PackageError(
                f"{draft.tree.where(SPEC)}: does not say the subtasks of TestGroup{key[1]}, whose tests are there; "
                "call Subtasks({...}) in it, or have the tests compared alone (--from directory)"
            )
        for number in sorted(groups.get(key, set()) & subtasks.keys()):
            subtasks[number].tests.append(case.name)
    empty = next((one for one in subtasks.values() if one.points and not one.tests), None)
    if empty is not None:
        raise PackageError(
            f"{draft.tree.where(SPEC)}: {clean(empty.name)} has points, and no tests; have tcframe make them, or have "
            "those that are there compared alone (--from directory)"
        )
    task = ioi.TaskKeys()
    ioi.write_tests(draft, task, cases, [one for one in subtasks.values() if one.tests])
    task.put(draft)
    return True


def without_comments(text: str) -> str:
    """A source in C++ without its comments."""
    return _COMMENT.sub(" ", text)


def _read(draft: Draft) -> tuple[dict[int, Fraction], dict[tuple[str, int], set[int]]]:
    """The points of subtasks, and the subtasks of groups and samples; PackageError where they are no numbers."""
    text = without_comments(decode(draft.tree.read(SPEC, _SPEC_BYTES)))
    points: dict[int, Fraction] = {}
    groups: dict[tuple[str, int], set[int]] = {}
    for what, number, body in _parts(text):
        found = (_POINTS if what == "Subtask" else _IN).search(body)
        if found is None:
            continue
        if found[1] is None:
            meant = "its points, as Points(30)" if what == "Subtask" else "its subtasks, as Subtasks({1, 2})"
            raise PackageError(f"{draft.tree.where(SPEC)}: {what}{number}: expected {meant}; write the numbers there")
        if what == "Subtask":
            points[number] = Fraction(found[1])
        else:
            groups[what, number] = {int(one) for one in re.findall(r"[0-9]{1,9}", found[1])}
    return points, groups


def _parts(text: str) -> Iterator[tuple[str, int, str]]:
    """The functions that say something of tests: what they are of, its number, and what they do."""
    starts = list(_PART.finditer(text))
    for place, part in enumerate(starts):
        end = starts[place + 1].start() if place + 1 < len(starts) else len(text)
        depth = 1
        for brace in _BRACE.finditer(text, part.end(), end):
            depth += 1 if brace[0] == "{" else -1
            if not depth:
                end = brace.start()
                break
        yield part[1], int(part[2]), text[part.end() : end]
