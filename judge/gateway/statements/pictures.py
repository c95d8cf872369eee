"""Pictures and other files of a problem as they are handed to browsers: what they are is looked up, not believed.

Pure functions. A picture that is not what its name says, or too large to be drawn, is handed out as a file to keep.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal
from xml.etree import ElementTree as ET

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring as parse

from judge.common.errors import PackageError
from judge.gateway.statements import strokes

MOST_BYTES: Final = 16 * 1024**2
_MOST_PIXELS: Final = 50_000_000
_SVG_BYTES: Final = 2 * 1024**2
_SVG_ELEMENTS: Final = 30_000
_SVG_SHAPES: Final = 100_000  # with those that are drawn anew by `use`, patterns, markers and the like
# A part counts as one shape more for so many of its bytes, and for each step of a filter, of which blurs take longest.
_SHAPE_BYTES: Final = 100
_STEP_SHAPES: Final = {"feGaussianBlur": 2000}
_OTHER_STEP: Final = 100
# So many dashes take as long as a shape.
_DASHES: Final = 10
# A browser tries the selectors of a sheet with all elements, and looks for some of them in all that are around these.
_SHEET_BYTES: Final = 64 * 1024
_SELECTIONS: Final = 10_000_000
_SVG_DEEPEST: Final = 200
# A part of the picture by its name. Names of other characters would need to be decoded as browsers do.
_NAME = r"[\w.:-]+"
_PART = re.compile(f"#({_NAME})")
_INNER = re.compile(rf"""url\s*\(\s*(["']?)#({_NAME})\1\s*\)""", re.IGNORECASE)
_URL = re.compile(r"url\s*\(", re.IGNORECASE)
# What a sheet refers to cannot be counted, as a rule may be for any number of elements.
_SHEET_BAD = re.compile(r"url\s*\(|&|\{[^}]*\{", re.IGNORECASE)
# Filters that are no element, of which none could be counted either.
_FILTERS = re.compile(
    r"\b(blur|brightness|contrast|drop-shadow|grayscale|hue-rotate|invert|opacity|saturate|sepia)\s*\(", re.IGNORECASE
)
_RULE = re.compile(r"\{[^}]*\}?|/\*(?:.*?\*/|.*)", re.DOTALL)
_SELECTORS = re.compile(r"[\w\s.#*,>-]*")
# A marker that is drawn at each point of a line, not at its ends alone.
_AT_POINTS = re.compile(r"\bmarker\b(?!-start|-end)", re.IGNORECASE)
_LINES: Final = frozenset({"path", "line", "polyline", "polygon"})
_JPEG_HEAD: Final = 1024**2
_FILL = re.compile(rb"\xff+")
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "{http://www.w3.org/1999/xlink}href"
PDF: Final = "application/pdf"
_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# A picture loads nothing, also if somebody opens it as a page.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'self'"
# A browser's viewer of PDF files is a page of its own, which does not start in a sandbox.
PDF_POLICY: Final = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'"

_SVG_TAGS: Final = frozenset({
    "svg", "g", "defs", "symbol", "use", "title", "desc", "path", "rect", "circle", "ellipse", "line", "polyline",
    "polygon", "text", "tspan", "textPath", "marker", "linearGradient", "radialGradient", "stop", "clipPath", "mask",
    "pattern", "style", "switch", "filter", "feGaussianBlur", "feOffset", "feMerge", "feMergeNode", "feFlood",
    "feComposite", "feColorMatrix", "feBlend",
})  # fmt: skip
_CSS_BAD = re.compile(r"@|\\|expression|javascript|(image-set|image|src)\s*\(|url\s*\(\s*(?![\"']?#)|</", re.IGNORECASE)
_ADDRESS = re.compile(r"(image-set|image|src)\s*\(|url\s*\(\s*(?![\"']?#)|javascript|\\", re.IGNORECASE)


@dataclass(frozen=True)
class Picture:
    """A file that a browser shows: its media type and bytes, of an SVG not those it came with."""

    media: str
    data: bytes


def look_at(name: str, data: bytes) -> Picture | None:
    """A statement's file as a browser shows it, None for another; PackageError for an SVG that cannot be made harmless.

    A PDF is one under any name.
    """
    if data.startswith(b"%PDF-"):
        return Picture(PDF, data)
    if name.lower().endswith(".svg"):
        return Picture("image/svg+xml", harmless_svg(data))
    media, size = "", None
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        media, size = "image/png", _pair(data, 16, 4, "big")
    elif data.startswith((b"GIF87a", b"GIF89a")):
        media, size = "image/gif", _pair(data, 6, 2, "little")
    elif data.startswith(b"\xff\xd8\xff"):
        media, size = "image/jpeg", _jpeg_size(data)
    return Picture(media, data) if size is not None and 0 < size[0] * size[1] <= _MOST_PIXELS else None


def _pair(data: bytes, at: int, width: int, order: Literal["big", "little"]) -> tuple[int, int] | None:
    middle, end = at + width, at + 2 * width
    if len(data) < end:
        return None
    return int.from_bytes(data[at:middle], order), int.from_bytes(data[middle:end], order)


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Width and height of a JPEG: they stand in its first frame's header."""
    at = 2
    data = data[:_JPEG_HEAD]
    while at + 9 <= len(data):
        if data[at] != 0xFF:
            return None
        # Any number of these bytes may stand before a marker.
        at = _FILL.match(data, at).end() - 1  # type: ignore[union-attr]
        marker = data[at + 1] if at + 1 < len(data) else 0
        if marker in _START_OF_FRAME:
            return _pair(data, at + 5, 2, "big")
        at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    return None


def harmless_svg(data: bytes) -> bytes:
    """An SVG picture with nothing left in it that runs, loads or leads anywhere; PackageError when it is none."""
    if len(data) > _SVG_BYTES:
        raise PackageError(f"the picture has {len(data)} bytes; an SVG may have at most {_SVG_BYTES}")
    try:
        root = parse(data)
        if sum(1 for _ in root.iter()) > _SVG_ELEMENTS:
            raise PackageError(f"the picture has more than {_SVG_ELEMENTS} elements; simplify it")
        if root.tag != f"{{{_SVG}}}svg":
            raise PackageError("the picture is not an SVG; its root element must be svg")
        _strip(root)
        _count(root)
        _check_sheets(root)
        ET.register_namespace("", _SVG)
        ET.register_namespace("xlink", "http://www.w3.org/1999/xlink")
        cleaned: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    except DefusedXmlException as exc:
        raise PackageError("the picture declares entities; save it as plain SVG") from exc
    except (ET.ParseError, RecursionError, ValueError, LookupError) as exc:
        raise PackageError(f"the picture is not a readable SVG: {str(exc)[:80]}") from exc
    return cleaned


def _strip(element: ET.Element) -> None:
    """Take out of an element, and of all below it, what is not drawn."""
    waiting = [element]
    while waiting:
        part = waiting.pop()
        for key, value in list(part.attrib.items()):
            if not _may_stay(key, value):
                del part.attrib[key]
        part[:] = [child for child in part if _drawn(child)]
        waiting += part


@dataclass
class _Drawn:
    """What drawing a part takes: the shapes, and of them the lines and the points of these, at which markers are."""

    shapes: int
    lines: int = 0
    points: int = 0

    def add(self, part: _Drawn, times: int = 1) -> None:
        """Draw another part, too; PackageError if that is too much."""
        self.shapes += part.shapes * times
        self.lines += part.lines * times
        self.points += part.points * times
        if self.shapes > _SVG_SHAPES:
            raise PackageError(f"the picture draws more than {_SVG_SHAPES} shapes; simplify it")


def _count(root: ET.Element) -> None:
    """PackageError for a picture that draws too much, because its parts refer to others that refer to others."""
    named: dict[str, ET.Element] = {}
    for part in root.iter():
        named.setdefault(part.get("id", ""), part)
    dashes = _Dashes.of(root)
    costs: dict[ET.Element, _Drawn | None] = {}

    def count(part: ET.Element, deep: int) -> _Drawn:
        if deep > _SVG_DEEPEST:
            raise PackageError(f"the picture has more than {_SVG_DEEPEST} levels of nested parts; simplify it")
        if part not in costs:
            costs[part] = None  # as long as it is being counted
            total = _alone(part)
            total.add(_Drawn(dashes.shapes(part)))
            for child in part:
                total.add(count(child, deep + 1))
            drawn, markers = _parts(part, named)
            for referred in drawn:
                total.add(count(referred, deep + 1))
            # Last, as all that is drawn by this part may have them.
            lines, points = total.lines, total.points
            for referred, at_points in markers:
                total.add(count(referred, deep + 1), points if at_points else lines)
            costs[part] = total
        cost = costs[part]
        if cost is None:
            raise PackageError("the picture has a part that refers to itself")
        return cost

    count(root, 0)


def _alone(part: ET.Element) -> _Drawn:
    """A part without those in it, and those that it refers to."""
    name = _name(part)
    bytes_ = sum(map(len, part.attrib.values())) + len(part.text or "") + len(part.tail or "")
    step = _STEP_SHAPES.get(name, _OTHER_STEP) if name.startswith("fe") else 1
    line = name in _LINES
    return _Drawn(step + bytes_ // _SHAPE_BYTES, int(line), len(part.get("d", "") + part.get("points", "")) + 2 * line)


@dataclass(frozen=True)
class _Dashes:
    """The shortest periods of dashes: in the style sheets, and of elements that hand theirs down to others."""

    sheet: float
    inherited: float

    @classmethod
    def of(cls, root: ET.Element) -> _Dashes:
        sheets = "".join(text for part in root.iter(f"{{{_SVG}}}style") for text in part.itertext())
        periods = [strokes.period(part.attrib) for part in root.iter() if len(part) or _name(part) == "use"]
        sheet = strokes.period_of_sheet(sheets)
        inherited = min((period for period in periods if period is not None), default=math.inf)
        return cls(math.inf if sheet is None else sheet, inherited)

    def shapes(self, part: ET.Element) -> int:
        """The shapes that are as much work as the dashes of a part."""
        part_period = strokes.period(part.attrib)
        period = min(self.sheet, self.inherited if part_period is None else part_period)
        text = len(part.text or "") + sum(len(child.tail or "") for child in part)
        if math.isinf(period):
            return 0
        count = strokes.length(_name(part), part.attrib, text) / period / _DASHES
        return int(count) if count <= _SVG_SHAPES else _SVG_SHAPES + 1


def _name(part: ET.Element) -> str:
    return str(part.tag).rpartition("}")[2]


def _parts(part: ET.Element, named: dict[str, ET.Element]) -> tuple[list[ET.Element], list[tuple[ET.Element, bool]]]:
    """(what a part refers to, the markers among it, each with whether it is drawn at all points of lines)."""
    at_points = {key: bool(_AT_POINTS.search(value if key == "style" else key)) for key, value in part.items()}
    references = [(key, named[name]) for key, name in _referred(part) if name in named]
    drawn = [referred for _, referred in references if _name(referred) != "marker"]
    return drawn, [(referred, at_points[key]) for key, referred in references if _name(referred) == "marker"]


def _referred(part: ET.Element) -> Iterator[tuple[str, str]]:
    """The attributes that refer to a part, and the part's name."""
    for key, value in part.items():
        if key in {_XLINK, "href"}:
            yield key, value[1:]
        else:
            yield from ((key, name) for _, name in _INNER.findall(value))


def _check_sheets(root: ET.Element) -> None:
    """PackageError for style sheets that keep a browser busy."""
    sheets = "".join(text for part in root.iter(f"{{{_SVG}}}style") for text in part.itertext())
    if not sheets:
        return
    too_much = PackageError("the picture's style sheet has too many rules for its number of elements; use attributes")
    if len(sheets) > _SHEET_BYTES:
        raise too_much
    selectors, rules = _RULE.subn(" ", sheets)
    if not _SELECTORS.fullmatch(selectors) or _FILTERS.search(sheets):
        raise PackageError("the picture's style sheet has filters, or selectors other than plain names; use attributes")
    if (rules + selectors.count(",")) * sum(1 for _ in root.iter()) > _SELECTIONS:
        raise too_much


def _drawn(element: ET.Element) -> bool:
    space, _, name = element.tag.rpartition("}") if isinstance(element.tag, str) else ("", "", "")
    if space != "{" + _SVG or name not in _SVG_TAGS:
        return False
    if name != "style":
        return True
    sheet = "".join(element.itertext())
    if _CSS_BAD.search(sheet):
        return False
    if _SHEET_BAD.search(sheet):
        raise PackageError("the picture's style sheet has url(), & or nested rules; write these as attributes")
    return True


def _may_stay(key: str, value: str) -> bool:
    name = key.rpartition("}")[2]
    if name.lower().startswith("on"):
        return False
    if key == _XLINK or name == "href":
        return bool(_PART.fullmatch(value))
    if len(_URL.findall(value)) != len(_INNER.findall(value)):
        return False
    if name == "style":
        return not _CSS_BAD.search(value) and not _FILTERS.search(value)
    return "}" not in key and not _ADDRESS.search(value) and not (name == "filter" and _FILTERS.search(value))


def interaction(text: str) -> list[list[tuple[str, str]]]:
    """A sample interaction: passes of (who, what) in turns; who is `<` for the judge and `>` for the submission.

    Lines of one side that follow each other are one turn. Lines of neither side are remarks, whose side is empty.
    """
    passes: list[list[tuple[str, str]]] = [[]]
    for side, line in _spoken(text):
        if side == "-":
            passes.append([])
        elif passes[-1] and passes[-1][-1][0] == side:
            passes[-1][-1] = (side, f"{passes[-1][-1][1]}\n{line}")
        else:
            passes[-1].append((side, line))
    return [messages for messages in passes if messages]


def _spoken(text: str) -> Iterator[tuple[str, str]]:
    for line in text.replace("\r\n", "\n").rstrip("\n").split("\n"):
        if line.startswith("---"):
            yield "-", ""
        elif line[:1] in {"<", ">"}:
            yield line[0], line[1:].removeprefix(" ")
        elif line.strip():
            yield "", line
