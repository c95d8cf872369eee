"""Text for terminals: verdicts in the colours of judgectl, and nothing that a program printed steers the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from judge_cli.errors import EXIT_FAILED

# Each verdict's colour (SGR codes) and exit code, as judgectl has them.
VERDICTS = {
    "AC": ("1;32", 0),
    "WA": ("1;31", 10),
    "TLE": ("1;33", 11),
    "MLE": ("1;33", 12),
    "OLE": ("1;33", 13),
    "RTE": ("1;35", 14),
    "CE": ("1;34", 15),
    "SV": ("1;31;7", 16),
    "JE": ("1;37;41", 17),
}


def exit_code(verdict: str) -> int:
    """The exit code that tells a script the verdict; 1 for a verdict that this client does not know."""
    return VERDICTS[verdict][1] if verdict in VERDICTS else EXIT_FAILED


def colour_codes(verdict: str) -> str:
    """The colour of a verdict, as parameters of SGR; empty for an unknown one."""
    return VERDICTS[verdict][0] if verdict in VERDICTS else ""


def visible(text: str) -> str:
    """A text of which a terminal obeys nothing: what does not show stands as its code; line ends and tabs stay."""
    if text.isprintable():
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line if line.isprintable() else "".join(map(_visible_character, line)) for line in lines)


def _visible_character(char: str) -> str:
    return char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode()


def prepare() -> None:
    """Replace characters that the terminal's encoding lacks; have the console of Windows obey colours."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if os.name == "nt":
        os.system("")  # noqa: S605 - an empty command switches the console's escape sequences on


def coloured(text: str, codes: str) -> str:
    """The text in a colour if standard output is a terminal and NO_COLOR is not set."""
    if not codes or not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{codes}m{text}\x1b[0m"


def say(text: str = "", codes: str = "") -> None:
    sys.stdout.write(coloured(visible(text), codes) + "\n")


def note(text: str) -> None:
    sys.stderr.write(visible(text) + "\n")


class Status:
    """One line on standard error that is overwritten, if that is a terminal; nothing otherwise."""

    def __init__(self) -> None:
        self._width = 0

    def show(self, text: str) -> None:
        """Put this text in the place of the one before; an empty text clears the line."""
        if sys.stderr.isatty():
            text = visible(text)
            width, self._width = self._width, cells(text)
            sys.stderr.write("\r" + padded(text, max(width, self._width)) + ("" if text else "\r"))
            sys.stderr.flush()


def seconds(value: float) -> str:
    """A duration: `12 ms`, `1.25 s`."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def score(value: float) -> str:
    """In full: up to nine decimals, no trailing zeros, no exponent."""
    return f"{value:.9f}".rstrip("0").rstrip(".")


def size(count: int) -> str:
    """Bytes: `512 MiB`, `1.5 KiB`, `12 bytes`."""
    for unit, factor in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if count >= factor:
            return f"{count / factor:.1f}".removesuffix(".0") + f" {unit}"
    return f"{count} byte{'s' if count != 1 else ''}"


def cells(text: str) -> int:
    """The cells of a terminal that a text takes: two for a wide character, none for a mark on another one."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width  # noqa: PLC0415 - most texts are ASCII

    return sum(0 if category(char) in {"Mn", "Me"} else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def padded(text: str, width: int) -> str:
    """The text with blanks up to so many cells; a longer one is cut and ends in `…`."""
    if cells(text) > width:
        while cells(text) > width - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (width - cells(text))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in columns, which fit a terminal; a cell that is a known verdict has its colour."""
    import shutil  # noqa: PLC0415 - most commands start without both

    from judge_cli.columns import Column, fit  # noqa: PLC0415

    columns = [Column.read(name, first=at == 0) for at, name in enumerate(head)]
    lines = [
        [column.title for column in columns],
        *([visible(cell).replace("\n", " ") for cell in row] for row in rows),
    ]
    widths = [max(cells(line[at]) for line in lines) for at in range(len(columns))]
    if sys.stdout.isatty():
        widths = fit(columns, widths, shutil.get_terminal_size().columns)
    for line in lines:
        shown = [
            coloured(padded(cell, width), colour_codes(cell)) for cell, width in zip(line, widths, strict=True) if width
        ]
        sys.stdout.write("  ".join(shown).rstrip() + "\n")
