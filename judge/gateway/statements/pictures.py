"""Pictures and other files of a problem as they are handed to browsers: what they are is looked up, not believed.

Pure functions. A picture that is not what its name says, or too large to be drawn, is handed out as a file to keep.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree as ET

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring as parse

from judge.errors import PackageError

MOST_BYTES: Final = 16 * 1024**2
_MOST_PIXELS: Final = 50_000_000
_SVG_BYTES: Final = 2 * 1024**2
_SVG_ELEMENTS: Final = 30_000
_SVG_SHAPES: Final = 100_000  # with those that are drawn anew by `use`, patterns, markers and the like
# A part of the picture by its name. Names of other characters would need to be decoded as browsers do.
_NAME = r"[\w.:-]+"
_PART = re.compile(f"#({_NAME})")
_INNER = re.compile(rf"""url\s*\(\s*(["']?)#({_NAME})\1\s*\)""", re.IGNORECASE)
_URL = re.compile(r"url\s*\(", re.IGNORECASE)
# What a sheet refers to cannot be counted, as a rule may be for any number of elements.
_SHEET_BAD = re.compile(r"url\s*\(|&|\{[^}]*\{", re.IGNORECASE)
_JPEG_HEAD: Final = 1024**2
_FILL = re.compile(rb"\xff+")
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "{http://www.w3.org/1999/xlink}href"
FILE: Final = "application/octet-stream"
PDF: Final = "application/pdf"
_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# A picture needs nothing from anywhere, whoever opens it.
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
    """A file for a browser: its media type, its bytes (an SVG's are not those it came with), whether it is shown."""

    media: str
    data: bytes
    shown: bool


def look_at(name: str, data: bytes) -> Picture:
    """A statement's file as a browser gets it; PackageError for an SVG that cannot be made harmless."""
    if data.startswith(b"%PDF-"):
        return Picture(PDF, data, shown=True)
    if name.lower().endswith(".svg"):
        return Picture("image/svg+xml", harmless_svg(data), shown=True)
    size = None
    media = FILE
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        media, size = "image/png", _pair(data, 16, 4, "big")
    elif data.startswith((b"GIF87a", b"GIF89a")):
        media, size = "image/gif", _pair(data, 6, 2, "little")
    elif data.startswith(b"\xff\xd8\xff"):
        media, size = "image/jpeg", _jpeg_size(data)
    if size is None or not 0 < size[0] * size[1] <= _MOST_PIXELS:
        return Picture(FILE, data, shown=False)
    return Picture(media, data, shown=True)


def _pair(data: bytes, at: int, width: int, order: str) -> tuple[int, int] | None:
    if len(data) < at + 2 * width:
        return None
    end = at + width
    if order == "big":
        return int.from_bytes(data[at:end], "big"), int.from_bytes(data[end : end + width], "big")
    return int.from_bytes(data[at:end], "little"), int.from_bytes(data[end : end + width], "little")


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
            raise PackageError(f"the picture has more than {_SVG_ELEMENTS} elements; draw it simpler")
        if root.tag != f"{{{_SVG}}}svg":
            raise PackageError("the picture is no SVG; its root element must be svg")
        _strip(root)
        _count(root)
        ET.register_namespace("", _SVG)
        ET.register_namespace("xlink", "http://www.w3.org/1999/xlink")
        made: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    except DefusedXmlException:
        raise PackageError("the picture declares entities; save it as plain SVG") from None
    except (ET.ParseError, RecursionError, ValueError, LookupError) as exc:
        raise PackageError(f"the picture is no SVG that can be read: {str(exc)[:80]}") from None
    return made


def _strip(element: ET.Element) -> None:
    """Take out of an element, and of all below it, what is not drawn."""
    waiting = [element]
    while waiting:
        one = waiting.pop()
        for key, value in list(one.attrib.items()):
            if not _may_stay(key, value):
                del one.attrib[key]
        one[:] = [child for child in one if _drawn(child)]
        waiting += one


def _count(root: ET.Element) -> None:
    """PackageError for a picture that draws too much, because its parts refer to others that refer to others."""
    named: dict[str, ET.Element] = {}
    for one in root.iter():
        named.setdefault(one.get("id", ""), one)
    known: dict[ET.Element, int] = {}

    def count(one: ET.Element) -> int:
        if one not in known:
            known[one] = 0  # as long as it is being counted
            total = 1
            referred = [named[name] for name in _referred(one) if name in named]
            for other in (*one, *referred):
                total += count(other)
                if total > _SVG_SHAPES:
                    raise PackageError(f"the picture draws more than {_SVG_SHAPES} shapes; draw it simpler")
            known[one] = total
        if not known[one]:
            raise PackageError("the picture has a part that refers to itself")
        return known[one]

    count(root)


def _referred(one: ET.Element) -> Iterator[str]:
    for key, value in one.items():
        if key in {_XLINK, "href"}:
            yield value[1:]
        else:
            yield from (name for _, name in _INNER.findall(value))


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
        return not _CSS_BAD.search(value)
    return "}" not in key and not _ADDRESS.search(value)


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
    return [one for one in passes if one]


def _spoken(text: str) -> Iterator[tuple[str, str]]:
    for line in text.replace("\r\n", "\n").rstrip("\n").split("\n"):
        if line.startswith("---"):
            yield "-", ""
        elif line[:1] in {"<", ">"}:
            yield line[0], line[1:].removeprefix(" ")
        elif line.strip():
            yield "", line
