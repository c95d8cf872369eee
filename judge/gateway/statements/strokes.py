"""How many dashes a browser draws for an SVG picture: each is as much work as a line of its own. Pure functions.

Lengths are upper bounds in the units of the element. A scale changes lines and dashes alike.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Final

from judge.common.errors import PackageError

_NUMBER: Final = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_PROPERTY: Final = "stroke-dasharray"
_DECLARED = re.compile(rf"{_PROPERTY}\s*:([^;}}]*)", re.IGNORECASE)
_LENGTH = re.compile(rf"({_NUMBER})(px|pt|pc|mm|cm|in|em|ex|rem|%)?", re.IGNORECASE)
_SPACE: Final = re.compile(r"[\s,]+")
# The smallest size of a unit that a picture may have in its own units. Percents are those of a picture of one unit.
_UNITS: Final = {"": 1.0, "px": 1.0, "pt": 1.3, "pc": 16.0, "mm": 3.7, "cm": 37.0, "in": 96.0, "em": 1.0, "ex": 0.5,
                 "rem": 1.0, "%": 0.01}  # fmt: skip
# Of lengths of lines a percent may be of a large picture.
_LARGE_PERCENT: Final = 100.0
# The outline of one byte of text.
_GLYPH: Final = 1000.0
_NOT_DASHED: Final = frozenset({"none", "inherit", "initial", "unset"})
_COMMAND = re.compile(r"[\s,]*([MLHVCSQTAZ])", re.IGNORECASE)
_COORDINATE = re.compile(rf"[\s,]*({_NUMBER})")
_FLAG = re.compile(r"[\s,]*([01])")
# The arguments of a command: a point, a coordinate of one, a number, a flag.
_ARGUMENTS: Final = {"M": "xy", "L": "xy", "H": "x", "V": "y", "C": "xyxyxy", "S": "xyxy", "Q": "xyxy", "T": "xy",
                     "A": "nnnffxy"}  # fmt: skip


def period(attributes: Mapping[str, str]) -> float | None:
    """The length after which the dashes of an element repeat; None if it says nothing of dashes."""
    declared = [text for text in (attributes.get(_PROPERTY),) if text is not None]
    return _shortest([*declared, *_DECLARED.findall(attributes.get("style", ""))])


def period_of_sheet(sheet: str) -> float | None:
    """The shortest period of a style sheet's dashes; None if it says nothing of dashes."""
    return _shortest(_DECLARED.findall(sheet))


def _shortest(values: list[str]) -> float | None:
    """The shortest of several periods; infinity for lines without gaps."""
    return min(map(_period, values), default=None)


def _period(value: str) -> float:
    text = value.strip().lower().removesuffix("!important").strip()
    if text in _NOT_DASHED:
        return math.inf
    total = 0.0
    for word in _SPACE.split(text):
        match = _LENGTH.fullmatch(word)
        if match is None:
            raise PackageError(f"the picture has {_PROPERTY} '{text[:40]}'; write it as numbers, or as none")
        total += float(match[1]) * _UNITS[match[2] or ""]
    return total if total > 0 else math.inf


def length(name: str, attributes: Mapping[str, str], text: int) -> float:
    """An upper bound of the length of an element's outline; `text` is the number of its characters."""
    sizes = {key: _size(value) for key, value in attributes.items() if key not in {"d", "points", "style"}}
    size = {key: value for key, value in sizes.items() if value is not None}
    outline = _GLYPH * text if name in {"text", "tspan", "textPath"} else 0.0
    if name == "path":
        outline = path_length(attributes.get("d", ""))
    elif name in {"polyline", "polygon"}:
        outline = path_length("M" + attributes.get("points", "") + "Z")
    elif name == "line":
        outline = math.dist((size.get("x1", 0), size.get("y1", 0)), (size.get("x2", 0), size.get("y2", 0)))
    elif name == "rect":
        outline = 2 * (size.get("width", 0) + size.get("height", 0))
    elif name in {"circle", "ellipse"}:
        outline = 2 * math.pi * max(size.get(key, 0) for key in ("r", "rx", "ry"))
    return max(outline, size.get("pathLength", 0))


def _size(value: str) -> float | None:
    match = _LENGTH.fullmatch(value.strip())
    if match is None:
        return None
    unit = (match[2] or "").lower()
    large = {"%": _LARGE_PERCENT, "em": 100.0, "ex": 100.0, "rem": 100.0}
    return float(match[1]) * large.get(unit, 1.1 * _UNITS[unit])


def path_length(data: str) -> float:
    """An upper bound of the length of a path, up to the first fault in it, where browsers end it as well."""
    total, position, start, control = 0.0, (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)
    for command, points, radii in _segments(data):
        if command == "M":
            position = start = points[-1]
        elif command == "Z":
            total, position = total + math.dist(position, start), start
        elif command == "A":
            total += _arc(math.dist(position, points[-1]), *radii)
            position = points[-1]
        else:
            # A curve is no longer than the lines between its points. The first one may be the last one's, mirrored.
            total += math.dist(position, control) if command in {"S", "T"} else 0.0
            mirrored = (2 * position[0] - control[0], 2 * position[1] - control[1])
            corners = [position, *([mirrored] if command in {"S", "T"} else []), *points]
            total += sum(math.dist(a, b) for a, b in itertools.pairwise(corners))
            position, control = points[-1], mirrored if command == "T" else corners[-2]
            continue
        control = position
    return total


def _arc(chord: float, first: float, second: float) -> float:
    short, long = sorted((abs(first), abs(second)))
    if not short:
        return chord
    return 2 * math.pi * long * max(1.0, chord / (2 * short))


def _segments(data: str) -> Iterator[tuple[str, list[tuple[float, float]], tuple[float, float]]]:
    """The commands of a path in capitals, with their points from the origin, and the radii of an arc."""
    position, letter, point, start = 0, "", (0.0, 0.0), (0.0, 0.0)
    while True:
        match = _COMMAND.match(data, position)
        if match is not None:
            position, letter = match.end(), match[1]
        elif not letter or letter in "Zz":
            return
        command = letter.upper()
        if command == "Z":
            point = start
            yield "Z", [start], (0.0, 0.0)
            continue
        values: list[float] = []
        for kind in _ARGUMENTS[command]:
            match = (_FLAG if kind == "f" else _COORDINATE).match(data, position)
            if match is None:
                return
            position = match.end()
            values.append(float(match[1]))
        points = _points(command, values, point, relative=letter.islower())
        point = points[-1]
        if command == "M":
            start, letter = point, "l" if letter.islower() else "L"
        yield command, points, (values[0], values[1]) if command == "A" else (0.0, 0.0)


def _points(
    command: str, values: list[float], position: tuple[float, float], *, relative: bool
) -> list[tuple[float, float]]:
    left, top = position if relative else (0.0, 0.0)
    if command == "H":
        return [(left + values[0], position[1])]
    if command == "V":
        return [(position[0], top + values[0])]
    pairs = values[5:] if command == "A" else values
    return [(left + across, top + down) for across, down in zip(pairs[::2], pairs[1::2], strict=True)]
