"""Strangers' HTML made harmless: a list of what is allowed, and every address in it looked up. Pure functions.

What a statement may show is text, tables and pictures of its own package. It cannot style the page, name parts of it,
load anything from elsewhere, or take input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from typing import Final

import nh3

# An address of a statement (of an image, of a link to a file) as the page's; None: there is no such file.
Resolve = Callable[[str], str | None]

_TAGS: Final = frozenset({
    "a", "abbr", "b", "bdi", "bdo", "blockquote", "br", "caption", "center", "cite", "code", "col", "colgroup",
    "dd", "del", "dfn", "div", "dl", "dt", "em", "figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr",
    "i", "img", "ins", "kbd", "li", "ol", "p", "pre", "q", "rp", "rt", "ruby", "s", "samp", "section", "small",
    "span", "strike", "strong", "sub", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "tt", "u", "ul",
    "var", "wbr",
})  # fmt: skip
# Elements that go with all that is in them; of other elements that are not allowed the text stays.
_REMOVED: Final = frozenset({
    "script", "style", "title", "iframe", "object", "embed", "applet", "noscript", "noembed", "noframes",
    "template", "textarea", "select", "option", "xmp", "plaintext", "svg", "math", "audio", "video", "canvas",
    "map",
})  # fmt: skip
_ATTRIBUTES: Final[dict[str, set[str]]] = {
    "*": {"class", "id", "dir", "lang", "title"},
    "a": {"href"},
    "img": {"src", "alt", "width", "height"},
    "ol": {"start", "type", "reversed"},
    "li": {"value"},
    "td": {"align", "colspan", "rowspan"},
    "th": {"align", "colspan", "rowspan", "scope"},
    "tr": {"align"},
    "col": {"align", "span"},
    "colgroup": {"span"},
}
# Of MathML; formulas are built of these alone (judge.problems.rendering.formulas).
MATH_LEAVES: Final = frozenset({"mi", "mn", "mo", "ms", "mtext", "mspace"})
MATH_TREES: Final = frozenset({
    "math", "mrow", "mfrac", "msqrt", "mroot", "mstyle", "mpadded", "mphantom", "msub", "msup", "msubsup", "munder",
    "mover", "munderover", "mmultiscripts", "mprescripts", "none", "mtable", "mtr", "mtd", "menclose",
})  # fmt: skip
MATH_ATTRIBUTES: Final = frozenset({
    "display", "stretchy", "fence", "separator", "form", "lspace", "rspace", "minsize", "maxsize", "symmetric",
    "largeop", "movablelimits", "accent", "accentunder", "linethickness", "width", "height", "depth", "voffset",
    "displaystyle", "scriptlevel", "columnspan", "rowspan", "notation",
})  # fmt: skip
MATH_VALUE: Final = re.compile(r"[A-Za-z0-9.%+ -]{1,40}")
_MATH: Final = MATH_LEAVES | MATH_TREES
# Attributes that formulas have of our own.
_MATH_OTHERS: Final = {
    "class": re.compile("left|right"), "mathvariant": re.compile("normal"), "tabindex": re.compile("0"),
}  # fmt: skip
# Classes that the style sheet knows; other ones would take the looks of the page's own parts.
CLASSES: Final = frozenset({"formula", "left", "right", "center", "wrapped", "footnotes", "smallcaps", "underline"})
_PREFIX: Final = "st-"
# As nh3 writes it; a quotation mark inside a value is an entity there.
_PICTURE = re.compile(r'<img((?:\s+[a-z]+="[^"]*")*)>')
_WEB = re.compile(r"(https?://|mailto:)[^\s]", re.IGNORECASE)


def clean(html: str, files: Resolve, marks: frozenset[str] = frozenset()) -> str:
    """HTML of which only what is allowed is left. `marks` are classes of our own that stay on `span`."""

    def keep(tag: str, name: str, value: str) -> str | None:
        if tag == "span" and name == "class" and value in marks:
            return value
        return _clean_value(name, value, files)

    cleaned = nh3.clean(
        html,
        tags=set(_TAGS),
        clean_content_tags=set(_REMOVED),
        attributes=_ATTRIBUTES,
        attribute_filter=keep,
        link_rel="noopener noreferrer nofollow",
        url_schemes={"http", "https", "mailto"},
    )
    # A picture without words for those who do not see it is at least told to be one.
    return _PICTURE.sub(lambda match: match[0] if ' alt="' in match[0] else f'<img alt="Picture"{match[1]}>', cleaned)


def shield(piece: str, addresses: Set[str]) -> str:
    """A rendered piece of a statement, of which only is left what a renderer writes that keeps the rules.

    Pages are made on a host that strangers' code runs on, so gateways do not trust them. `addresses` are those of the
    problem's files. Each piece is complete on its own afterwards.
    """

    def keep(tag: str, name: str, value: str) -> str | None:
        if tag in _MATH:
            pattern = _MATH_OTHERS.get(name, MATH_VALUE)
            return value if pattern.fullmatch(value) else None
        if name == "src":
            return value if value in addresses else None
        if name == "href":
            return value if value.startswith(f"#{_PREFIX}") or value in addresses or _WEB.match(value) else None
        if name == "id":
            return value if value.startswith(_PREFIX) and _SLUG(value) else None
        if (tag, name, value) == ("pre", "class", "box"):
            return value
        rule = _RULES.get(name)
        return value[:500] if rule is None else rule(value)

    return nh3.clean(
        piece,
        tags=_TAGS | _MATH,
        clean_content_tags=_REMOVED - _MATH,
        attributes=_ATTRIBUTES | {tag: {*MATH_ATTRIBUTES, *_MATH_OTHERS} for tag in _MATH},
        attribute_filter=keep,
        link_rel="noopener noreferrer nofollow",
        url_schemes={"http", "https", "mailto"},
    )


def _one_of(*values: str) -> Callable[[str], str | None]:
    return lambda value: value if value in values else None


def _like(pattern: str) -> Callable[[str], str | None]:
    compiled = re.compile(pattern)
    return lambda value: value if compiled.fullmatch(value) else None


_SLUG = _like(r"[A-Za-z0-9_:.-]{1,80}")
_SPAN = _like(r"[1-9][0-9]?")
_LENGTH = _like(r"[0-9]{1,4}(\.[0-9]{1,4})?(px|%)?")
_NUMBER = _like(r"-?[0-9]{1,6}")
_ALIGN = _one_of("left", "right", "center", "justify")
# Attributes, and the values that they may have; of those not named here the text stays as it is.
_RULES: Final[dict[str, Callable[[str], str | None]]] = {
    "align": _ALIGN,
    "class": lambda value: " ".join(name for name in value.split() if name in CLASSES) or None,
    "colspan": _SPAN,
    "dir": _one_of("ltr", "rtl", "auto"),
    "height": _LENGTH,
    "id": lambda value: _PREFIX + value if _SLUG(value) else None,
    "rowspan": _SPAN,
    "scope": _one_of("row", "col"),
    "span": _SPAN,
    "start": _NUMBER,
    "type": _one_of("1", "a", "A", "i", "I"),
    "value": _NUMBER,
    "width": _LENGTH,
}


def _clean_value(name: str, value: str, files: Resolve) -> str | None:
    """An attribute's value as it may stand, or None when it may not."""
    if name == "src":
        return files(value)
    if name == "href":
        if value.startswith("#"):
            return f"#{_PREFIX}{value[1:]}" if _SLUG(value[1:]) else None
        return value if _WEB.match(value) else files(value)
    rule = _RULES.get(name)
    return value[:500] if rule is None else rule(value)
