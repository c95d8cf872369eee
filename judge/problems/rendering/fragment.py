"""One statement as what a page puts between its own lines: harmless HTML, cut where samples come in.

Markdown is that of the 2025-09 format: CommonMark with tables, footnotes and formulas. Pure functions, but for `main`.

Formulas never pass through the sanitizer: the author's markup is cleaned with marks in their places, and what stands
for a mark is built by judge.problems.rendering.formulas. A mark is an element with a class that no author can guess,
and it is found by its exact text, quotes included, which the sanitizer writes in no attribute and no text.
"""

from __future__ import annotations

import html
import json
import re
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html.parser import HTMLParser
from typing import Any, Final, Literal
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.attrs import attrs_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin

from judge.common.errors import PackageError
from judge.common.text import undirected
from judge.problems.rendering import formulas, sanitize

MOST_ELEMENTS: Final = 30_000
# More of a sign than anybody writes; it takes a parser long before it is anything.
_MOST_SIGNS: Final = {"<": 2 * MOST_ELEMENTS, "[": 20_000, "$": 10_000}
_DEEPEST: Final = 200
_MOST_HTML: Final = 4 * 1024**2
_EMPTY = frozenset({"br", "col", "hr", "img", "wbr"})
_SAMPLES = re.compile(r"(<p>\s*)?\{\{\s*(nextsample|remainingsamples|samples)\s*\}\}(\s*</p>)?")
_STYLED = re.compile(r"""\bstyle\s*=\s*["']\s*text-align:\s*(left|right|center);?\s*["']""", re.IGNORECASE)
_SIZED = re.compile(
    r"""\bstyle\s*=\s*["']\s*(width|height)\s*:\s*([0-9.]{1,8})(%|px|cm|mm|in|pt|em)\s*;?\s*["']""", re.IGNORECASE
)
# Pixels of a page in each unit of length.
_PIXELS = {"px": 1.0, "cm": 37.8, "mm": 3.78, "in": 96.0, "pt": 1.33, "em": 16.0}
# Each tag is looked at once, and then its own text: one pattern for both takes the cube of the statement's length.
_DRAWING = re.compile(r"<(?:img|embed)\b[^<>]*>", re.IGNORECASE)
_SOURCE = re.compile(r"""\bsrc\s*=\s*["']([^"'<>]{1,250})["']""", re.IGNORECASE)
_MATH = re.compile(r"<math\b[^>]*>.*?</math\s*>", re.DOTALL | re.IGNORECASE)
_HEADING = re.compile(r"<(/?)h1\b")
# Elements of a line alone: what holds others may end elsewhere than it seems to.
_TAG = re.compile(
    r'</?(?:a|abbr|b|br|cite|code|em|i|img|kbd|q|s|samp|small|span|strong|sub|sup|tt|u|var)(?: [a-z]+="[^"]*")*>'
)
_FIRST = re.compile(rf'\s*<h2(?: [a-z]+="[^"]*")*>((?:[^<]|{_TAG.pattern})*)</h2>\s*')
# Pictures that a page can show, by the ends of their files' names.
IMAGES: Final = (".png", ".jpg", ".jpeg", ".gif", ".svg")

# Pandoc's way to size an image, `![](a.png){ width=50% }`; the plugin wants quotes around what is no word.
_SIZED_IMAGE = re.compile(r"(!\[[^\]\n]{0,500}\]\([^()\n]{1,500}\))\{([^{}\n]{1,200})\}")
_PAIR = re.compile(r"""\b(width|height)\s*=\s*["']?([0-9.]{1,8}(?:px|%)?)["']?""")
_ALIGNED = re.compile(r"text-align:\s*(left|right|center)")

Kind = Literal["md", "html", "txt"]


@dataclass(frozen=True)
class StatementText:
    """A statement to make a fragment of: the text, its kind, the problem's title, and its files' addresses by name."""

    kind: Kind
    text: str
    title: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Fragment:
    """HTML in pieces. Between piece n and the next comes `samples[n]`: the next sample, or all that are left.

    `missing` are names of pictures that the statement wants and its package does not have.
    """

    pieces: list[str]
    samples: list[Literal["next", "rest"]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def main() -> None:
    """Render one statement: the fields of `StatementText` on stdin, those of `judge.model.statements.Page` on stdout.

    A text that cannot be shown is no failure, its page says why.
    """
    try:
        page = asdict(render(StatementText(**json.load(sys.stdin))))
    except PackageError as exc:
        page = {"why": str(exc)}
    except (MemoryError, RecursionError):
        page = {"why": "the statement takes too much memory to be rendered; read its source"}
    json.dump(page, sys.stdout)


def render(statement: StatementText) -> Fragment:
    """The fragment of a statement; PackageError when it is too much for a page.

    The caller bounds time and memory.
    """
    if statement.kind == "txt":
        return Fragment(pieces=[f'<pre class="box">{html.escape(undirected(statement.text))}</pre>'])
    for sign, most in _MOST_SIGNS.items():
        if statement.text.count(sign) > most:
            raise PackageError(f"the statement has '{sign}' more than {most} times; read its source")
    marks = _Marks()
    missing: list[str] = []
    raw = _markdown(statement.text, marks.formula) if statement.kind == "md" else marks.marked(statement.text)
    raw = _SIZED.sub(_size, _STYLED.sub(r'align="\1"', _SAMPLES.sub(marks.sample, raw)))
    raw = _DRAWING.sub(lambda match: _drawing(match[0], statement.files), raw)
    cleaned = sanitize.clean(raw, _resolver(statement.files, missing), marks.names())
    _check(cleaned)
    cleaned = _without_title(_HEADING.sub(r"<\1h2", cleaned), statement.title)
    pieces, amounts = marks.cut(cleaned)
    _check_amount(pieces)
    return Fragment(pieces=[undirected(piece) for piece in pieces], samples=amounts, missing=missing[:20])


def _markdown(text: str, formula: Callable[[str, bool], str]) -> str:
    """The HTML of a statement in Markdown, in which the author's own markup still is.

    `formula` makes HTML of a formula's TeX, and of whether it stands on lines of its own. Blocks in blocks go twenty
    deep, tables grow by 65 536 cells that nobody typed.
    """
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
    md.add_render_rule("footnote_block_open", lambda *_: '<section class="footnotes">\n<ol>\n')
    tokens = md.parse(_SIZED_IMAGE.sub(_sizes, text))
    for token in tokens:
        if token.type in {"th_open", "td_open"}:
            _align(token)
    return str(md.renderer.render(tokens, md.options, {}))


def _renderer(formula: Callable[[str, bool], str], *, display: bool) -> Callable[..., str]:
    def rule(_self: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
        mark = formula(tokens[index].content.strip(), display)
        return f"<p>{mark}</p>\n" if tokens[index].block else mark

    return rule


def _sizes(match: re.Match[str]) -> str:
    pairs = " ".join(f'{name}="{value}"' for name, value in _PAIR.findall(match[2]))
    return f"{match[1]}{{{pairs}}}" if pairs else match[1]


def _align(cell: Token) -> None:
    """A page's policy lets no attribute `style` through; the older one for a cell's side works."""
    side = _ALIGNED.search(str(cell.attrs.pop("style", "")))
    if side:
        cell.attrs["align"] = side[1]


class _Marks:
    """Elements that stand for a formula or for samples while the author's markup is cleaned."""

    def __init__(self) -> None:
        self._token = f"x{secrets.token_hex(12)}"
        self._shown: list[str] = []
        self._next, self._rest = f"{self._token}-next", f"{self._token}-rest"

    def names(self) -> frozenset[str]:
        """The classes that the sanitizer lets through."""
        return frozenset({self._next, self._rest, *(f"{self._token}-{at}" for at in range(len(self._shown)))})

    def formula(self, tex: str, display: bool) -> str:
        """A mark for a formula; as its TeX where that cannot be shown as a formula."""
        formula = formulas.from_tex(tex, display=display)
        return self._mark(formula or f'<code class="formula">{html.escape(tex)}</code>')

    def marked(self, text: str) -> str:
        """A stranger's HTML with a mark in place of each formula; one that is none goes."""
        pieces, last = [], 0
        for match in _MATH.finditer(text):
            pieces += [text[last : match.start()], self._mark(formulas.from_markup(match[0]) or "")]
            last = match.end()
        return "".join([*pieces, text[last:]])

    def sample(self, match: re.Match[str]) -> str:
        """A mark for a sample, or for all that are left."""
        before, word, after = match.groups()
        mark = _span(self._next if word == "nextsample" else self._rest)
        # A sample is no part of a paragraph; alone in one it takes its place.
        return mark if before and after else f"{before or ''}{mark}{after or ''}"

    def cut(self, cleaned: str) -> tuple[list[str], list[Literal["next", "rest"]]]:
        """The HTML with its formulas in, in pieces between the samples' marks."""
        pattern = re.compile(f'<span class="{self._token}-([0-9]+|next|rest)"></span>')
        pieces: list[str] = []
        amounts: list[Literal["next", "rest"]] = []
        here: list[str] = []
        for at, part in enumerate(pattern.split(cleaned)):
            if at % 2 == 0:
                here.append(part)
            elif part in {"next", "rest"}:
                pieces.append("".join(here))
                here = []
                amounts.append("next" if part == "next" else "rest")
            else:
                here.append(self._shown[int(part)])
        return [*pieces, "".join(here)], amounts

    def _mark(self, html: str) -> str:
        self._shown.append(html)
        return _span(f"{self._token}-{len(self._shown) - 1}")


def _span(name: str) -> str:
    return f'<span class="{name}"></span>'


def _file(address: str, files: Mapping[str, str]) -> str | None:
    """The name of the file that an address in a statement means: one beside it, whose ending LaTeX may leave out."""
    name = unquote(address.partition("#")[0].partition("?")[0]).removeprefix("./")
    endings = ("", ".png", *IMAGES, ".pdf.png", ".pdf")
    return next((name + end for end in endings if name + end in files), None) if name else None


def _resolver(files: Mapping[str, str], missing: list[str]) -> sanitize.Resolve:
    def resolve(address: str) -> str | None:
        name = _file(address, files)
        if name is None and address not in missing:
            missing.append(address[:100])
        return files[name] if name is not None else None

    return resolve


def _drawing(tag: str, files: Mapping[str, str]) -> str:
    """A drawing in PDF is a picture where import made one of it, else a link: browsers show none among text."""
    source = _SOURCE.search(tag)
    if source is None:
        return tag
    name = _file(html.unescape(source[1]), files)
    if name is None or not name.lower().endswith(".pdf"):
        return tag if not tag.lower().startswith("<embed") else f'<img src="{source[1]}" alt="{source[1]}">'
    if f"{name}.png" in files:
        return tag.replace(source[1], f"{html.escape(name)}.png").replace("<embed", "<img")
    return f'<a href="{html.escape(name)}">{html.escape(name)}</a>'


def _size(match: re.Match[str]) -> str:
    """A picture's size as an attribute, as a page's policy lets no `style` through."""
    name, number, unit = match[1].lower(), match[2], match[3].lower()
    try:
        value = f"{float(number):g}%" if unit == "%" else f"{round(float(number) * _PIXELS[unit])}"
    except ValueError:
        return ""
    return f'{name}="{value}"'


class _Depth(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.depth = self.deepest = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - the base class calls it
        if tag not in _EMPTY:
            self.depth += 1
            self.deepest = max(self.deepest, self.depth)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _EMPTY:
            self.depth -= 1


def _check_amount(pieces: Sequence[str]) -> None:
    if sum(map(len, pieces)) > _MOST_HTML or sum(piece.count("<") for piece in pieces) > 2 * MOST_ELEMENTS:
        raise PackageError(f"the statement has more than {MOST_ELEMENTS} elements, or more than 4 MiB of HTML")


def _check(cleaned: str) -> None:
    """PackageError for what would keep a browser busy."""
    _check_amount([cleaned])
    depth = _Depth()
    depth.feed(cleaned)
    if depth.deepest > _DEEPEST:
        raise PackageError(f"the statement has elements in elements, more than {_DEEPEST} deep")


def _without_title(cleaned: str, title: str) -> str:
    """Without a first heading that repeats the page's own."""
    first = _FIRST.match(cleaned)
    if first and html.unescape(_TAG.sub("", first[1])).split() == title.split():
        return cleaned[first.end() :]
    return cleaned
