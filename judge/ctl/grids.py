"""Tables in the house style: they fit the terminal, and cut cells end in `…`."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from judge.ctl.columns import GAP, Column, fit


@dataclass
class Grid:
    """A table, laid out when it is shown. On a pipe every cell is whole, each row on one line."""

    columns: list[Column]
    title: str | None = None
    rows: list[list[Text]] = field(default_factory=list)

    def add_row(self, *cells: str | Text) -> None:
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
        limit = options.max_width if console.is_terminal else sum(natural) + GAP * len(natural)
        widths = fit(self.columns, natural, limit)
        table = Table(
            title=self.title, title_justify="left", header_style="bold", box=None, pad_edge=False,
            padding=(0, GAP, 0, 0), width=sum(widths) + GAP * (sum(map(bool, widths)) - 1),
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
