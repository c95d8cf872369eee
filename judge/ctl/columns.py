"""Columns that fit a terminal: names stay whole, less important columns go first. The small client links here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

# The least that is left of a column that is cut, and between two columns, in characters.
LEAST = 8
GAP = 2
# A sentence is folded beside the names, unless it had less room than this.
_FOLDED = 16
Kind = Literal["plain", "whole", "text", "sentence"]
_MARKS: dict[str, Kind] = {"!": "whole", "…": "text", "¶": "sentence"}


class Column(NamedTuple):
    """One column. `whole` ones are never left out, `text` may be cut, `sentence` folds."""

    title: str
    kind: Kind = "plain"
    right: bool = False

    @classmethod
    def read(cls, name: str, *, first: bool = False) -> Column:
        """A column by its name and marks after it: `>` right, `!` whole, `…` may be cut, `¶` folds.

        The first column of a table names its rows, and is whole unless it is marked otherwise.
        """
        title = name.rstrip(">!…¶")
        marks = name[len(title) :]
        kinds = [_MARKS[mark] for mark in marks if mark in _MARKS]
        return cls(title, kinds[0] if kinds else "whole" if first else "plain", ">" in marks)

    def least(self, natural: int) -> int:
        room = {"text": LEAST, "sentence": _FOLDED}.get(self.kind, natural)
        return min(natural, max(room, len(self.title)))


def fit(columns: Sequence[Column], natural: Sequence[int], width: int) -> list[int]:
    """The width of each column so that all fit, 0 for those that are left out. Pure.

    Columns are left out from the right, sentences and cut ones last; then what may be cut shares what room there is.
    Whole columns are cut only where they alone are wider than `width`, the first one last.
    """
    visible = [*range(len(columns))]
    widths = {at: column.least(natural[at]) for at, column in enumerate(columns)}

    def room() -> int:
        return width - sum(widths[at] for at in visible) - GAP * (len(visible) - 1)

    for kind in ("plain", "sentence", "text"):
        for at in reversed([place for place in visible if columns[place].kind == kind]):
            if room() < 0:
                visible.remove(at)
    for at in [*sorted(visible[1:], key=lambda place: -widths[place]), *visible[:1]]:
        widths[at] = max(widths[at] + min(0, room()), min(widths[at], LEAST))
    # The narrowest get what they lack first, so that as many as possible are whole.
    growing = sorted((at for at in visible if natural[at] > widths[at]), key=lambda at: natural[at] - widths[at])
    for index, at in enumerate(growing):
        widths[at] += min(natural[at] - widths[at], max(0, room()) // (len(growing) - index))
    return [widths[at] if at in visible else 0 for at in range(len(columns))]
