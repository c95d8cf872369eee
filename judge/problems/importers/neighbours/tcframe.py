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
_POINTS = re.compile(r"\bvoid\s+Subtask([0-9]{1,3})\s*\(\s*\)\s*\{\s*Points\(\s*([0-9]{1,6})\s*\)")
_IN = re.compile(r"\bvoid\s+(TestGroup|SampleTestCase)([0-9]{1,3})\s*\(\s*\)\s*\{\s*Subtasks\(\s*\{([0-9,\s]{0,200})\}")
_NAME = re.compile(r".*_(sample|[0-9]{1,3})_([0-9]{1,5})\.[a-z]{1,9}")


def write_tests(draft: Draft, pairs: Sequence[Pair], cases: Sequence[Case]) -> bool:
    """Writes tests in the subtasks that spec.cpp gives points to; False where it gives none.

    PackageError for tests that are not called by their groups, as it is unknown what they are worth.
    """
    text = _COMMENT.sub(" ", draft.text(SPEC)) if SPEC in draft.tree.files else ""
    points = {int(number): Fraction(value) for number, value in _POINTS.findall(text)}
    if not any(points.values()):
        return False
    groups = {
        (what, int(number)): {int(one) for one in re.findall(r"[0-9]+", of)} for what, number, of in _IN.findall(text)
    }
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
