"""Formulas as MathML: made of TeX, or taken from HTML, and built anew from what is allowed in them.

MathML has places in which HTML may stand again; nothing that a stranger wrote as markup gets through: a formula is a
tree of the elements below, with text in its leaves, whatever it was made of. Pure functions.
"""

from __future__ import annotations

import contextlib
import functools
import html
import re
import unicodedata
from html.entities import html5
from typing import Final
from xml.etree import ElementTree as ET

from latex2mathml import converter

from judge.problems.rendering.sanitize import MATH_ATTRIBUTES, MATH_LEAVES, MATH_TREES, MATH_VALUE

LONGEST: Final = 8000  # characters of TeX
_NODES: Final = 5000
_DEPTH: Final = 60
# Lengths that move nothing out of its line, and those of which only some elements may have negative ones.
_LENGTH = re.compile(r"0(?:px)?|(?:\d{1,2}(?:\.\d{1,4})?|\.\d{1,4})(?:em|ex)|\d{1,3}%")
_SIGNED = re.compile(rf"{_LENGTH.pattern}|-(?:\d(?:\.\d{{1,4}})?|\.\d{{1,4}})(?:em|ex)")
_LENGTHS: Final = frozenset({
    "lspace", "rspace", "minsize", "maxsize", "linethickness", "width", "height", "depth", "voffset",
})  # fmt: skip
_MOVING: Final = frozenset({"mo", "mspace"})
_BARS: Final = frozenset({"|", "\N{DOUBLE VERTICAL LINE}"})
_SPAN = re.compile(r"[1-9][0-9]?")
_SPANS = frozenset({"columnspan", "rowspan"})
_ENTITY = re.compile(r"&([A-Za-z][A-Za-z0-9]*);")
_XML_ENTITIES = frozenset({"amp", "lt", "gt", "quot", "apos"})

# The converter writes an ampersand of the TeX as it is.
_BARE = re.compile(r"&(?!#?[A-Za-z0-9]+;)")
_ENVIRONMENTS: Final = {
    "aligned": "split", "alignedat": "split", "eqnarray": "align", "eqnarray*": "align*", "gathered": "gather*",
    "dcases": "cases", "displaymath": "equation*", "math": "equation*",
}  # fmt: skip
# Commands that label a formula for elsewhere or steer its lines; and a font of text in text.
_UNSEEN = re.compile(r"\\(?:label\s*\{[^{}]*\}|nonumber\b|notag\b|allowbreak\b|centering\b)")
_IN_TEXT = re.compile(r"\\text\s*\{\s*(\\text(?:tt|bf|it|rm|sf)\s*\{[^{}]*\})\s*\}")
# Widths that have names where browsers want numbers.
_SPACES: Final = {
    name: f"{sign}{width / 18:.4f}em"
    for width, names in enumerate(
        ("veryverythin", "verythin", "thin", "medium", "thick", "verythick", "veryverythick"), 1
    )
    for name, sign in ((f"{names}mathspace", ""), (f"negative{names}mathspace", "-"))
}  # fmt: skip

# Browsers' MathML has no variants but `normal`; Unicode has the letters of the others, under these words.
_VARIANTS: Final = {
    "bold": "BOLD", "bold-italic": "BOLD ITALIC", "script": "SCRIPT", "bold-script": "BOLD SCRIPT",
    "fraktur": "FRAKTUR", "double-struck": "DOUBLE-STRUCK", "sans-serif": "SANS-SERIF",
    "bold-sans-serif": "SANS-SERIF BOLD", "monospace": "MONOSPACE",
}  # fmt: skip


class _NotAFormulaError(Exception):
    """A tree that is no formula, or too much of one."""


def from_tex(tex: str, *, display: bool) -> str | None:
    """A formula's MathML, or None if there is none: the caller shows the TeX instead."""
    if len(tex) > LONGEST:
        return None
    try:
        converted = converter.convert(_plain(tex), display="block" if display else "inline")
    except Exception:  # noqa: BLE001 - the library raises what its author did not foresee; the TeX is shown then
        return None
    return _built(_BARE.sub("&amp;", converted))


def _plain(tex: str) -> str:
    """TeX in the words that the converter knows."""
    for old, new in _ENVIRONMENTS.items():
        tex = tex.replace(f"\\begin{{{old}}}", f"\\begin{{{new}}}").replace(f"\\end{{{old}}}", f"\\end{{{new}}}")
    return _IN_TEXT.sub(r"\1", _UNSEEN.sub("", tex))


def from_markup(markup: str) -> str | None:
    """A `<math>` element of a stranger's HTML built anew, or None when it is none that can be shown."""
    return _built(_ENTITY.sub(_character, markup))


def _character(match: re.Match[str]) -> str:
    """HTML's names of characters are not XML's."""
    name = match[1]
    if name in _XML_ENTITIES:
        return match[0]
    return html.escape(html.unescape(match[0])) if f"{name};" in html5 else ""


def _built(markup: str) -> str | None:
    try:
        # An entity could only be declared before the root element, and the text begins with that.
        root = ET.fromstring(markup)  # noqa: S314
        budget = [_NODES]
        tree = _copied(root, budget, 0)
    except (ET.ParseError, _NotAFormulaError, RecursionError, ValueError):
        return None
    if tree.tag != "math":
        return None
    if tree.get("display") == "block":
        tree.set("tabindex", "0")  # a wide one is scrolled, and by the keyboard, too
    return ET.tostring(tree, encoding="unicode", short_empty_elements=False)


def _copied(old: ET.Element, budget: list[int], depth: int) -> ET.Element:
    """The allowed part of an element. Elements that are not known are rows of their children."""
    budget[0] -= 1
    if budget[0] < 0 or depth > _DEPTH:
        raise _NotAFormulaError
    name = old.tag.rpartition("}")[2].lower() if isinstance(old.tag, str) else ""
    if name == "semantics":
        # The formula itself comes first, after it notes about it, such as its TeX.
        return _copied(old[0], budget, depth + 1) if len(old) else ET.Element("mrow")
    if name in MATH_LEAVES:
        text = _described("".join(old.itertext()))
        # A sign that is no letter stands between others, and gets its room as an operator.
        new = ET.Element("mo" if name == "mi" and _sign(text) else name, _attributes(old))
        new.text = _letters(text, old.get("mathvariant", ""), new)
        if text in _BARS and new.tag == "mo" and old.get("stretchy") != "true":
            # One bar of a pair: which side it closes is not said, so it keeps no distance from either.
            new.attrib |= {"lspace": "0em", "rspace": "0em", "stretchy": "false"}
        return new
    if name.startswith("annotation"):
        return ET.Element("mrow")
    new = ET.Element(name if name in MATH_TREES else "mrow", _attributes(old))
    for child in old:
        new.append(_copied(child, budget, depth + 1))
    if name == "mtable":
        _align(old, new)
    if not len(old) and (text := (old.text or "").strip()):
        ET.SubElement(new, "mtext").text = text
    return new


def _described(text: str) -> str:
    """A leaf's text. The converter leaves commands that it does not know as they are, and some escaped signs too."""
    if not text.startswith("\\") or len(text) == 1:
        return text
    if len(text) == 2 and not text[1].isalpha():
        return text[1]
    raise _NotAFormulaError


def _sign(text: str) -> bool:
    return len(text) == 1 and unicodedata.category(text) == "Sm"


def _attributes(old: ET.Element) -> dict[str, str]:
    attributes = ((key, _SPACES.get(value, value)) for key, value in old.items() if key in MATH_ATTRIBUTES)
    tag = old.tag.rpartition("}")[2].lower()
    return {key: value for key, value in attributes if _rule(tag, key).fullmatch(value)}


def _rule(tag: str, key: str) -> re.Pattern[str]:
    if key in _LENGTHS:
        return _SIGNED if tag in _MOVING else _LENGTH
    return _SPAN if key in _SPANS else MATH_VALUE


def _align(old: ET.Element, new: ET.Element) -> None:
    """Columns' sides as classes of the cells: browsers know no columnalign, and the page's style sheet does."""
    sides = old.get("columnalign", "").split()
    for row, new_row in zip(old, new, strict=True):
        for number, (cell, new_cell) in enumerate(zip(row, new_row, strict=True)):
            side = cell.get("columnalign") or (sides[min(number, len(sides) - 1)] if sides else "")
            if side in {"left", "right"}:
                new_cell.set("class", side)


def _letters(text: str, variant: str, leaf: ET.Element) -> str:
    if variant == "normal" and leaf.tag == "mi":
        leaf.set("mathvariant", "normal")
    word = _VARIANTS.get(variant)
    return text if word is None else "".join(_letter(char, word) for char in text)


@functools.cache
def _letter(char: str, word: str) -> str:
    """A letter or digit in a variant; some letters were in Unicode before the others, under names of their own."""
    if not (char.isascii() and char.isalnum()):
        return char
    kind = unicodedata.name(char).replace("LATIN ", "").replace(" LETTER ", " ")
    for name in (f"MATHEMATICAL {word} {kind}", f"{word} {kind}", f"{word.replace('FRAKTUR', 'BLACK-LETTER')} {kind}"):
        with contextlib.suppress(KeyError):
            return unicodedata.lookup(name)
    return char
