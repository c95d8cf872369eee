"""Compilers' messages with links to the lines that they are about. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from markupsafe import Markup, escape

from judge.common.text import lines

# Places as compilers and interpreters name them: `a.c:3`, `a.pas(3`, `File "a.py", line 3`, `in a.php on line 3`,
# `a.pl line 3`.
# A name is looked for from its beginning alone, else a long one would be tried from each of its characters.
_PLACE: Final = re.compile(
    r"(?<![\w./+-])(?P<name>[\w./+-]{1,200}\.\w{1,8})\"?(?::|\(|,? (?:on )?line |:line )(?P<line>[0-9]{1,6})(?![0-9])"
)


@dataclass(frozen=True)
class ShownSource:
    """A source that the page shows: its name, the id that its lines' ids begin with, and how many lines it has."""

    name: str
    anchor: str
    lines: int


def linked(text: str, sources: Sequence[ShownSource]) -> Markup:
    """The text, escaped, with a link at each place in a source that is shown; others stay text.

    One source alone is meant by every name with its suffix: compilers see it under a name of their own, and the page
    names it as the person does. Of several, the one whose path, or else whose last part alone, is named.
    """
    pieces, at = [], 0
    named = _SourceNames(sources)
    for match in _PLACE.finditer(text):
        source = named.lookup(match["name"])
        if source is None or not 1 <= int(match["line"]) <= source.lines:
            continue
        pieces.append(escape(lines(text[at : match.start()])))
        link = Markup('<a href="#{}-{}">{}</a>')
        place = match[0].replace(match["name"], source.name, 1) if len(sources) == 1 and source.name else match[0]
        pieces.append(link.format(source.anchor, int(match["line"]), lines(place)))
        at = match.end()
    return Markup("").join([*pieces, escape(lines(text[at:]))])


class _SourceNames:
    """The sources by their names. A log may name thousands of places, so each of its names is looked up once."""

    def __init__(self, sources: Sequence[ShownSource]) -> None:
        self._only = sources[0] if len(sources) == 1 else None
        self._known: dict[str, ShownSource | None] = {}
        # By the last part of the name, with all its parts.
        self._alike: dict[str, list[tuple[tuple[str, ...], ShownSource]]] = {}
        for source in sources:
            path = PurePosixPath(source.name)
            self._alike.setdefault(path.name, []).append((path.parts, source))

    def lookup(self, name: str) -> ShownSource | None:
        """The source that a place with this name is in; None for another file, or when that cannot be told."""
        if name not in self._known:
            self._known[name] = self._match(PurePosixPath(name))
        return self._known[name]

    def _match(self, path: PurePosixPath) -> ShownSource | None:
        if (only := self._only) is not None:
            return only if not only.name or path.suffix == PurePosixPath(only.name).suffix else None
        alike = self._alike.get(path.name, [])
        exact = [(parts, source) for parts, source in alike if path.parts[-len(parts) :] == parts]
        if exact:
            return max(exact, key=lambda pair: len(pair[0]))[1]
        return alike[0][1] if len(alike) == 1 else None
