r"""The pictures and placeholders of a statement, against what the package has: what a page would show in vain.

Pure functions of texts. `judge.gateway.statements` makes the page; here is only what its author can mend.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterator
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.rules_block.table import escapedSplit

# Longer statements have no page.
MOST_BYTES: Final = 512 * 1024
HEAD_BYTES: Final = 64 * 1024
# Samples take the place of these.
_SAMPLES: Final = frozenset({"nextsample", "remainingsamples", "samples"})
_SIGNATURES: Final = (b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"\xff\xd8\xff")
_PICTURES: Final = (".png", ".jpg", ".jpeg", ".gif")
# Endings that an address may leave out, for a page or for LaTeX.
_ENDINGS: Final = ("", *_PICTURES, ".svg", ".pdf", ".eps", ".ps")
_IN_MARKDOWN = re.compile(r"!\[[^\]\n]{0,200}\]\(\s*<?([^()<>\s]{1,500})")
_IN_HTML = re.compile(r"""<(?:img|embed)\b[^<>]{0,1000}?\bsrc\s*=\s*["']([^"'<>]{1,500})["']""", re.IGNORECASE)
_IN_LATEX = re.compile(
    r"\\includegraphics\*?\s{0,9}(?:\[[^\[\]]{0,500}\]\s{0,9})?\{([^{}\\#]{1,500})\}"
    r"|\\illustration\s{0,9}\{[^{}]{0,50}\}\s{0,9}\{([^{}\\#]{1,500})\}"
)
_INCLUDED = re.compile(r"\\(?:input|include)\s*\{\s*([^{}\s]{1,200})\s*\}")
_PLACES = re.compile(r"\\graphicspath\b")
# Two braces behind these are of a formula.
_BRACES = re.compile(r"(?<![\\\w^{}$])\{\{([a-zA-Z_][a-zA-Z0-9_]{0,100})\}\}(?!\})")
_CONSTANT = re.compile(r"\\constant\{([a-zA-Z_][a-zA-Z0-9_]{0,100})\}")
_FENCED = re.compile(r"^(```|~~~)[^\n]*\n(?:(?!\1)[^\n]*\n)*(?:\1[^\n]*)?", re.MULTILINE)
_CODE = re.compile(r"`[^`\n]{0,1000}`")
_REMARK = re.compile(r"(?<!\\)%[^\n]*")
_QUOTED = re.compile(r"^[ >]+")
# Reads blocks only, as the page's reader does (judge.problems.rendering.fragment).
_TABLES: Final = MarkdownIt("commonmark", {"maxNesting": 20}).enable("table").disable("inline")


def is_picture(name: str, head: bytes) -> bool:
    """Return whether a file that is called like a picture is one, by its beginning; true of all other names."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in _PICTURES:
        return head.startswith(_SIGNATURES)
    return suffix != ".svg" or b"<svg" in head or b":svg" in head


def missing_pictures(kind: str, text: str, names: Collection[str]) -> Iterator[str]:
    """The pictures that a statement of this kind shows and that are not among the files beside it, each once."""
    if kind == "tex" and _PLACES.search(text):
        return  # they are where only LaTeX looks
    pattern = _IN_LATEX if kind == "tex" else _IN_HTML
    visible_text = _visible_text(kind, text)
    pictures = [match[match.lastindex or 1].strip() for match in pattern.finditer(visible_text)]
    pictures += [match[1] for match in _IN_MARKDOWN.finditer(visible_text)] if kind == "md" else []
    for address in dict.fromkeys(pictures):
        if not address.lower().startswith("data:") and not _is_there(address, names):
            yield address


def unknown_placeholders(kind: str, text: str) -> Iterator[str]:
    """The names that still stand in a text whose constants have been put in, and are no samples'; each once."""
    visible_text = _visible_text(kind, text)
    # Two braces are nothing special in LaTeX.
    names = [] if kind == "tex" else [match[1] for match in _BRACES.finditer(visible_text)]
    names += [match[1] for match in _CONSTANT.finditer(visible_text)]
    yield from dict.fromkeys(name for name in names if name not in _SAMPLES)


def included(text: str) -> list[str]:
    return [match[1].removeprefix("./") for match in _INCLUDED.finditer(_visible_text("tex", text))]


def _visible_text(kind: str, text: str) -> str:
    """A text without what is no part of what it tells: remarks, and examples of code."""
    if kind == "tex":
        return _REMARK.sub("", text)
    return _CODE.sub("", _FENCED.sub("", text)) if kind == "md" else text


def _is_there(address: str, names: Collection[str]) -> bool:
    name = unquote(html.unescape(address).partition("#")[0].partition("?")[0]).removeprefix("./")
    return not name or any(name + ending in names for ending in _ENDINGS)


def wide_rows(text: str) -> Iterator[tuple[int, int, int]]:
    """(line, cells, columns) of each row of a Markdown table that has more cells than the table has columns."""
    lines = text.replace("\r\n", "\n").split("\n")
    columns, row = 0, -1
    for token in _TABLES.parse(text):
        if token.type == "tr_open" and token.map is not None:
            row = token.map[0]
        elif token.type == "thead_open":
            columns = 0
        elif token.type == "th_open":
            columns += 1
        elif token.type == "td_open" and row >= 0:
            cells = escapedSplit(_QUOTED.sub("", lines[row]).strip())
            count = len(cells) - (cells[0] == "") - (cells[-1] == "")
            if count > columns:
                yield row + 1, count, columns
            row = -1
