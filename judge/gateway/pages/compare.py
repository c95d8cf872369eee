"""The comparison of a program's output with the answer, line by line, differences marked. Pure; for a template."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
        """Return whether this line decides anything."""
        return not self.gap and [part.text for part in self.printed] != [part.text for part in self.answer]


@dataclass(frozen=True)
class Comparison:
    """The rows; `whole`: nothing of either side was left out for its length."""

    rows: list[ComparedLine]
    whole: bool


def compare(printed: str, answer: str, *, whole: bool = True) -> Comparison:
    """Output and answer side by side. At most 200 lines of each and 500 characters of a line are compared.

    Long stretches of equal lines become one row with `gap`. `whole` says whether both texts are all that there is.
    """
    left, left_whole = _cut(printed)
    right, right_whole = _cut(answer)
    rows = [
        _pair(None if i is None else (i + 1, left[i]), None if j is None else (j + 1, right[j]))
        for i, j in aligned(left, right)
    ]
    return Comparison(_folded(rows), whole and left_whole and right_whole)


def aligned(left: Sequence[str], right: Sequence[str]) -> list[tuple[int | None, int | None]]:
    """Pairs of places: the common beginning, the common end, and between these one by one. In linear time.

    A longest common subsequence takes quadratic time, and these texts are of strangers.
    """
    shorter, longer = sorted((len(left), len(right)))
    begin = next((k for k in range(shorter) if left[k] != right[k]), shorter)
    end = next((k for k in range(shorter - begin) if left[-1 - k] != right[-1 - k]), shorter - begin)
    between = [
        (k if k < len(left) - end else None, k if k < len(right) - end else None) for k in range(begin, longer - end)
    ]
    return [
        *((k, k) for k in range(begin)),
        *between,
        *((len(left) - k, len(right) - k) for k in range(end, 0, -1)),
    ]


def _cut(text: str) -> tuple[list[str], bool]:
    lines = text.splitlines()
    complete = len(lines) <= _LINES and all(len(line) <= _CHARS for line in lines)
    return [line[:_CHARS] for line in lines[:_LINES]], complete


def _pair(left: tuple[int, str] | None, right: tuple[int, str] | None) -> ComparedLine:
    """A row of two lines with their numbers, or of one."""
    if left is None or right is None:
        return ComparedLine(
            left and left[0],
            right and right[0],
            () if left is None else (Part(left[1], differs=True),),
            () if right is None else (Part(right[1], differs=True),),
        )
    a, b = _TOKENS.findall(left[1]), _TOKENS.findall(right[1])
    printed: list[Part] = []
    answer: list[Part] = []
    for i, j in aligned(a, b):
        differs = i is None or j is None or a[i] != b[j]
        _append(printed, "" if i is None else a[i], differs=differs)
        _append(answer, "" if j is None else b[j], differs=differs)
    return ComparedLine(left[0], right[0], tuple(printed), tuple(answer))


def _append(parts: list[Part], token: str, *, differs: bool) -> None:
    """Append a token of a line, to the last part if that differs as much."""
    if parts and parts[-1].differs == differs:
        parts[-1] = Part(parts[-1].text + token, differs)
    elif token:
        parts.append(Part(token, differs))


def _folded(rows: list[ComparedLine]) -> list[ComparedLine]:
    """Rows without long stretches of equal ones: three stay on each side of what differs."""
    near = {k for at, row in enumerate(rows) if row.differs for k in range(at - _AROUND, at + _AROUND + 1)}
    if not near:
        near = set(range(_AROUND * 2))
    folded: list[ComparedLine] = []
    gap = 0
    for at, row in enumerate(rows):
        if at in near:
            if gap:
                folded.append(ComparedLine(gap=gap))
            gap = 0
            folded.append(row)
        else:
            gap += 1
    return [*folded, ComparedLine(gap=gap)] if gap else folded
