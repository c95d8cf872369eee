"""Statements in Markdown as HTML, in the dialect of the 2025-09 format: CommonMark with tables, footnotes and formulas.

The HTML is not fit for a page yet: the author's own markup is in it (judge.problems.rendering.fragment).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.attrs import attrs_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin

# A formula's TeX, and whether it stands on lines of its own, to the HTML that shows it.
Formula = Callable[[str, bool], str]

# Pandoc's way to size an image, `![](a.png){ width=50% }`; the plugin wants quotes around what is no word.
_SIZED = re.compile(r"(!\[[^\]\n]{0,500}\]\([^()\n]{1,500}\))\{([^{}\n]{1,200})\}")
_PAIR = re.compile(r"""\b(width|height)\s*=\s*["']?([0-9.]{1,8}(?:px|%)?)["']?""")
_ALIGNED = re.compile(r"text-align:\s*(left|right|center)")


def to_html(text: str, formula: Formula) -> str:
    """The HTML of a statement. Blocks in blocks go twenty deep, tables grow by 65 536 cells that nobody typed."""
    md = MarkdownIt("commonmark", {"html": True, "maxNesting": 20}).enable(["table", "strikethrough"])
    md.use(dollarmath_plugin, double_inline=True, allow_labels=False, allow_blank_lines=False)
    md.use(amsmath_plugin)
    md.use(footnote_plugin)
    md.use(attrs_plugin, after=("image",), allowed=("width", "height"))
    for name, display in (
        ("math_inline", False),
        ("math_inline_double", True),
        ("math_block", True),
        ("amsmath", True),
    ):
        md.add_render_rule(name, _renderer(formula, display=display))
    md.add_render_rule("footnote_block_open", _footnotes)
    tokens = md.parse(_SIZED.sub(_sizes, text))
    for token in tokens:
        if token.type in {"th_open", "td_open"}:
            _align(token)
    return str(md.renderer.render(tokens, md.options, {}))


def _renderer(formula: Formula, *, display: bool) -> Callable[..., str]:
    def rule(_self: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
        html = formula(tokens[index].content.strip(), display)
        return f"<p>{html}</p>\n" if tokens[index].block else html

    return rule


def _footnotes(*_: Any) -> str:
    return '<section class="footnotes">\n<ol>\n'


def _sizes(match: re.Match[str]) -> str:
    pairs = " ".join(f'{name}="{value}"' for name, value in _PAIR.findall(match[2]))
    return f"{match[1]}{{{pairs}}}" if pairs else match[1]


def _align(cell: Token) -> None:
    """A page's policy lets no attribute `style` through; the older one for a cell's side works."""
    side = _ALIGNED.search(str(cell.attrs.pop("style", "")))
    if side:
        cell.attrs["align"] = side[1]
