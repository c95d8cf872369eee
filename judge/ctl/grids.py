"""Tables that fit a terminal: ids stay whole, less important columns go first, cut cells end in `…`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

# The least that is left of a column that is cut, and between two columns, in characters.
_LEAST: Final = 8
_GAP: Final = 2
# A sentence is folded beside the names, unless it had less room than this.
_FOLDED: Final = 16


@dataclass(frozen=True)
class Column:
    """One column. `whole` ones are never cut and never left out, `text` may be cut, `sentence` folds."""

    title: str
    kind: Literal["plain", "whole", "text", "sentence"] = "plain"
    right: bool = False

    @classmethod
    def read(cls, name: str, *, first: bool = False) -> Column:
        """A column by its name and marks after it: `>` right, `!` whole, `…` may be cut, `¶` folds.

        The first column of a table names its rows, and is whole unless it is marked otherwise.
        """
        title = name.rstrip(">!…¶")
        marks = name[len(title) :]
        kinds: dict[str, Literal["whole", "text", "sentence"]] = {"!": "whole", "…": "text", "¶": "sentence"}
        marked = next((kinds[mark] for mark in marks if mark in kinds), None)
        return cls(title, marked or ("whole" if first else "plain"), ">" in marks)

    def least(self, natural: int) -> int:
        """The fewest characters in which the column is of use."""
        room = {"text": _LEAST, "sentence": _FOLDED}.get(self.kind, natural)
        return min(natural, max(room, len(self.title)))


def fit(columns: Sequence[Column], natural: Sequence[int], width: int) -> list[int]:
    """The width of each column so that all fit, 0 for those that are left out. Pure.

    Columns are left out from the right, sentences and cut ones last; then what may be cut shares what room there is.
    Only whole columns can be wider than `width` together.
    """
    visible = [*range(len(columns))]

    def total_width(widths: Iterable[int]) -> int:
        return sum(widths) + _GAP * (len(visible) - 1)

    for kinds in (("plain",), ("sentence",), ("text",)):
        for at in reversed([place for place in visible if columns[place].kind in kinds]):
            if total_width(columns[place].least(natural[place]) for place in visible) > width:
                visible.remove(at)
    widths = {at: columns[at].least(natural[at]) for at in visible}
    room = width - total_width(widths.values())
    # The narrowest get what they lack first, so that as many as possible are whole.
    growing = sorted((at for at in visible if natural[at] > widths[at]), key=lambda at: natural[at] - widths[at])
    for index, at in enumerate(growing):
        extra = min(natural[at] - widths[at], max(0, room) // (len(growing) - index))
        widths[at] += extra
        room -= extra
    return [widths.get(at, 0) for at in range(len(columns))]


@dataclass
class Grid:
    """A table in the house style, laid out when it is shown. On a pipe every cell is whole, each row on one line."""

    columns: list[Column]
    title: str | None = None
    rows: list[list[Text]] = field(default_factory=list)

    def add_row(self, *cells: str | Text) -> None:
        """One more row; cells that are left out at its end are empty."""
        texts = [Text(cell) if isinstance(cell, str) else cell.copy() for cell in cells]
        texts += [Text() for _ in self.columns[len(cells) :]]
        for text, column in zip(texts, self.columns, strict=True):
            if column.kind != "sentence":
                text.plain = " ".join(text.plain.split("\n"))
        self.rows.append(texts)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        natural = [
            max(len(column.title), *(line.cell_len for row in self.rows for line in row[at].split("\n") or [Text()]), 0)
            for at, column in enumerate(self.columns)
        ]
        limit = options.max_width if console.is_terminal else sum(natural) + _GAP * len(natural)
        widths = fit(self.columns, natural, limit)
        table = Table(
            title=self.title, title_justify="left", header_style="bold", box=None, pad_edge=False,
            padding=(0, _GAP, 0, 0), width=sum(widths) + _GAP * (sum(map(bool, widths)) - 1),
        )  # fmt: skip
        visible = [at for at, width in enumerate(widths) if width]
        for at in visible:
            column = self.columns[at]
            folds = column.kind == "sentence"
            table.add_column(
                column.title, justify="right" if column.right else "left", width=widths[at], no_wrap=not folds,
                overflow="fold" if folds else "ellipsis",
            )  # fmt: skip
        for row in self.rows:
            table.add_row(*(row[at] for at in visible))
        yield from console.render(table, options.update(width=max(limit, table.width or 0)))


def grid(*columns: str, title: str | None = None) -> Grid:
    """An empty table; a column's name ends in the marks of `Column.read`."""
    return Grid([Column.read(name, first=index == 0) for index, name in enumerate(columns)], title)
