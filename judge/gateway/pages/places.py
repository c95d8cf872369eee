"""Compilers' messages with links to the lines that they are about. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from markupsafe import Markup, escape

from judge.text import lines

# How compilers and interpreters name a place: `a.c:3`, `a.pas(3`, `File "a.py", line 3`, `in a.php on line 3`,
# `a.pl line 3`.
# A name is looked for from its beginning alone, else a long one would be tried from each of its characters.
_PLACE: Final = re.compile(
    r"(?<![\w./+-])(?P<name>[\w./+-]{1,200}\.\w{1,8})\"?(?::|\(|,? (?:on )?line |:line )(?P<line>[0-9]{1,6})(?![0-9])"
)


@dataclass(frozen=True)
class Shown:
    """A source that the page shows: its name, the id that its lines' ids begin with, and how many lines it has."""

    name: str
    anchor: str
    lines: int


def linked(text: str, sources: Sequence[Shown]) -> Markup:
    """The text, escaped, with a link at each place in a source that is shown; others stay text.

    One source alone is meant by every name with its suffix: compilers see it under a name of their own. Of several, the
    one whose path, or else whose last part alone, is named.
    """
    pieces, at = Markup(), 0
    for match in _PLACE.finditer(text):
        source = _meant(match["name"], sources)
        if source is None or not 1 <= int(match["line"]) <= source.lines:
            continue
        pieces += escape(lines(text[at : match.start()]))
        pieces += Markup('<a href="#{}-{}">{}</a>').format(source.anchor, int(match["line"]), lines(match[0]))
        at = match.end()
    return pieces + escape(lines(text[at:]))


def _meant(name: str, sources: Sequence[Shown]) -> Shown | None:
    path = PurePosixPath(name)
    if len(sources) == 1:
        only = sources[0]
        return only if not only.name or path.suffix == PurePosixPath(only.name).suffix else None
    exact = [
        one for one in sources if path.parts[-len(PurePosixPath(one.name).parts) :] == PurePosixPath(one.name).parts
    ]
    if exact:
        return max(exact, key=lambda one: len(PurePosixPath(one.name).parts))
    alike = [one for one in sources if PurePosixPath(one.name).name == path.name]
    return alike[0] if len(alike) == 1 else None
