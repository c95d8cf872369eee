"""Text that others wrote, made fit for a line of a log, a table or a refusal."""

from __future__ import annotations

import unicodedata


def one_line(text: str) -> str:
    """One line that forges no other and steers no terminal: what is not printable stands as its code, blanks as blanks.

    Used by refusals (`judge.errors`), logs and judgectl's screen.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _shown(char) for char in text)


def _shown(char: str) -> str:
    if char == "\t":
        return "    "
    if unicodedata.category(char) == "Zs":
        return " "
    return char.encode("unicode_escape").decode()
