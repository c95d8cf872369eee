"""Problems of tcframe: the subtasks of spec.cpp, whose tests are called by their groups (`NAME_2_3` of TestGroup2)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from fractions import Fraction

from judge.errors import PackageError
from judge.problems.importers import ioi
from judge.problems.importers.cases import Case
from judge.problems.importers.draft import Draft
from judge.problems.importers.pairs import Pair
from judge.problems.tree import clean

SPEC = "spec.cpp"
# One that does not end goes to the end of the text: looked for from each of its beginnings, that would take for ever.
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_HEAD = re.compile(r"\bvoid\s+(Subtask|TestGroup|SampleTestCase)([0-9]{1,3})\s*\(\s*\)")
_POINTS = re.compile(r"\bPoints\(\s*([0-9]{1,6})\s*\)")
# Older versions say `assignToSubtasks`.
_IN = re.compile(r"\b(?:Subtasks|assignToSubtasks)\(\s*\{([0-9,\s]{0,200})\}")
_NAME = re.compile(r".*_(sample|[0-9]{1,3})_([0-9]{1,5})\.[a-z]{1,9}")


def write_tests(draft: Draft, pairs: Sequence[Pair], cases: Sequence[Case]) -> bool:
    """Writes tests in the subtasks that spec.cpp gives points to; False where it gives none.

    PackageError for tests that are not called by their groups, as it is unknown what they are worth.
    """
    if SPEC not in draft.tree.files:
        return False
    for pair, case in zip(pairs, cases, strict=True):
        named = _NAME.fullmatch(posixpath.basename(pair.input))
        case.sample = case.sample or (named is not None and named[1] == "sample")
    points, groups = _read(without_comments(draft.text(SPEC)))
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
        case.sample = sample
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
    """C++ without its comments, in which many keep what they have tried."""
    return _COMMENT.sub(" ", text)


def _read(text: str) -> tuple[dict[int, Fraction], dict[tuple[str, int], set[int]]]:
    """The points of subtasks, and the subtasks of groups and samples, wherever in its function each says it."""
    points: dict[int, Fraction] = {}
    groups: dict[tuple[str, int], set[int]] = {}
    heads = list(_HEAD.finditer(text))
    for head, after in zip(heads, [*(one.start() for one in heads[1:]), len(text)], strict=False):
        found = (_POINTS if head[1] == "Subtask" else _IN).search(text, head.end(), after)
        if found is None:
            continue
        if head[1] == "Subtask":
            points[int(head[2])] = Fraction(found[1])
        else:
            groups[head[1], int(head[2])] = {int(one) for one in re.findall(r"[0-9]+", found[1])}
    return points, groups
