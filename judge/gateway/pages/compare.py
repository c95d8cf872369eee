"""The comparison of a program's output with the answer, line by line, differences marked. Pure; for a template."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Final

_LINES: Final = 200
_CHARS: Final = 500
_AROUND: Final = 3
_TOKENS = re.compile(r"\s+|\S+")


@dataclass(frozen=True)
class Part:
    """Some characters of a line, and whether the other side lacks them."""

    text: str
    differs: bool = False


@dataclass(frozen=True)
class ComparedLine:
    """A line of each side with its number, counted from 1; None where a side has none. `gap`: equal lines left out."""

    left: int | None = None
    right: int | None = None
    printed: tuple[Part, ...] = ()
    answer: tuple[Part, ...] = ()
    gap: int = 0

    @property
    def differs(self) -> bool:
        """Says whether this line decides anything."""
        return not self.gap and [part.text for part in self.printed] != [part.text for part in self.answer]


@dataclass(frozen=True)
class Comparison:
    """The rows; `whole`: nothing of either side was left out for its length."""

    rows: list[ComparedLine]
    whole: bool

    @property
    def same(self) -> bool:
        """Says whether every shown line is equal, so that what differs is where nothing is shown, or is space."""
        return not any(row.differs for row in self.rows)


def compare(printed: str, answer: str, *, whole: bool = True) -> Comparison:
    """Output and answer side by side. At most 200 lines of each and 500 characters of a line are compared.

    Long stretches of equal lines become one row with `gap`. `whole` says whether both texts are all that there is.
    """
    left, left_whole = _cut(printed)
    right, right_whole = _cut(answer)
    rows: list[ComparedLine] = []
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag == "equal":
            rows += [
                ComparedLine(i + k + 1, j + k + 1, (Part(left[i + k]),), (Part(right[j + k]),))
                for k in range(i_end - i)
            ]
        else:
            for k in range(max(i_end - i, j_end - j)):
                a = left[i + k] if i + k < i_end else None
                b = right[j + k] if j + k < j_end else None
                rows.append(_pair(i + k + 1, a, j + k + 1, b))
    return Comparison(_folded(rows), whole and left_whole and right_whole)


def _cut(text: str) -> tuple[list[str], bool]:
    lines = text.splitlines()
    whole = len(lines) <= _LINES and all(len(line) <= _CHARS for line in lines)
    return [line[:_CHARS] for line in lines[:_LINES]], whole


def _pair(i: int, left: str | None, j: int, right: str | None) -> ComparedLine:
    if left is None or right is None:
        return ComparedLine(
            None if left is None else i,
            None if right is None else j,
            () if left is None else (Part(left, differs=True),),
            () if right is None else (Part(right, differs=True),),
        )
    a, b = _TOKENS.findall(left), _TOKENS.findall(right)
    printed: list[Part] = []
    answer: list[Part] = []
    for tag, m, m_end, n, n_end in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        for parts, text in ((printed, a[m:m_end]), (answer, b[n:n_end])):
            if text:
                parts.append(Part("".join(text), differs=tag != "equal"))
    return ComparedLine(i, j, tuple(printed), tuple(answer))


def _folded(rows: list[ComparedLine]) -> list[ComparedLine]:
    """Rows without long stretches of equal ones: three stay on each side of what differs."""
    near = {k for at, row in enumerate(rows) if row.differs for k in range(at - _AROUND, at + _AROUND + 1)}
    if not near:
        near = set(range(_AROUND * 2))
    shown: list[ComparedLine] = []
    gap = 0
    for at, row in enumerate(rows):
        if at in near:
            if gap:
                shown.append(ComparedLine(gap=gap))
            gap = 0
            shown.append(row)
        else:
            gap += 1
    return [*shown, ComparedLine(gap=gap)] if gap else shown
