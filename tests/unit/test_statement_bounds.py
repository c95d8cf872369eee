"""What strangers' statements, formulas and pictures may cost, and that nothing of them leaves its place on the page."""

import contextlib
import io
import itertools
import json
import math
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common.errors import PackageError
from judge.executor.slot.packaged.rendering import SOURCE_BYTES
from judge.gateway.statements import pictures, shown, strokes
from judge.gateway.statements.pictures import harmless_svg, look_at
from judge.problems.importers import gensh
from judge.problems.latex import for_conversion
from judge.problems.rendering import formulas, fragment
from judge.problems.rendering.fragment import StatementText, render

EMPTY = {"br", "col", "hr", "img", "wbr"}
SVG = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">{}</svg>'


class Balance(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in EMPTY:
            assert self.open and self.open.pop() == tag


def html_of(text, kind="html", title="Title"):
    return "".join(render(StatementText(kind=kind, text=text, title=title)).pieces)


@pytest.mark.parametrize(
    "text",
    [
        "<h2><section><div><h2>Title</h2>x</div></section></h2><p>outside</p>",
        "<h2><span><h2>Title</h2>x</span></h2><p>outside</p>",
        '<h2 title="x>Title</h2><img src=x onerror=alert(1)>">y</h2>',
        '<h2><b title="</h2><i>">Title</b></h2>z',
    ],
)
def test_a_heading_goes_as_a_whole_or_stays(text):
    Balance(html_of(text))
    assert "<img" not in html_of(text).replace('title="', "").split('">')[0] or "<h2" in html_of(text)


def test_a_heading_with_inner_marks_still_goes():
    assert html_of('<h1 id="a"><b>Ti</b>tle</h1><p>x</p>') == "<p>x</p>"


PIECES = ["<h1>", "<h2>", "</h1>", "</h2>", "Title", "<div>", "</div>", "<section>", "<span>", "</span>", "<p>", "<b>",
          '<i title="</h2>">', "<table>", "<td>", "<ul><li>", "</ul>", "<pre>", "{{nextsample}}", "<br>", "x",
          "<math><mi>x</mi></math>", "<h2 title='>Title</h2><hr>'>", "<a href='#x'>", "<center>"]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=14))
def test_tags_balance_whatever_the_html(pieces):
    Balance(html_of("".join(pieces)))


def test_formulas_count_as_elements():
    with pytest.raises(PackageError, match="more than 30000 elements"):
        html_of(f"${'a' * 4900}$ " * 8, "md")


@pytest.mark.parametrize(
    "markup",
    [
        '<mpadded voffset="-500px" width="0"><mtext>x</mtext></mpadded>',
        '<mpadded voffset="-5em"><mtext>x</mtext></mpadded>',
        '<mpadded lspace="-5em"><mtext>x</mtext></mpadded>',
        '<mspace width="9999999px"/>',
        '<mspace width="100em"/>',
        '<mspace height="1000%"/>',
        '<mo minsize="9999pt">(</mo>',
    ],
)
def test_lengths_in_formulas_stay_small(markup):
    built = formulas.from_markup(f"<math>{markup}</math>")
    assert not any(word in built for word in ("voffset", "lspace", "px", "pt", "100"))


def test_lengths_of_honest_formulas_stay():
    built = formulas.from_markup(
        '<math><mspace width="-0.1667em"/><mspace width="2em"/><mpadded width="50%"/>'
        '<mfrac linethickness="0"><mi>a</mi><mi>b</mi></mfrac><mo lspace="0em" rspace="0.2778em">+</mo></math>'
    )
    for length in ("-0.1667em", "2em", "50%", 'linethickness="0"', 'lspace="0em"', "0.2778em"):
        assert length in built


# --- the program that renders them ----------------------------------------------------------------------------------


def test_a_text_that_needs_too_much_memory_is_a_refusal(monkeypatch, capsys):
    monkeypatch.setattr(fragment.sys, "stdin", io.StringIO(json.dumps({"kind": "txt", "text": "x"})))
    monkeypatch.setattr(fragment, "render", lambda _: (_ for _ in ()).throw(MemoryError))
    fragment.main()
    assert "too much memory" in json.loads(capsys.readouterr().out)["why"]


@pytest.mark.parametrize("kind", ["html", "md"])
@pytest.mark.parametrize(
    "part",
    ['<img src="', "<img src=", "<img ", "<img src=a ", "<embed src='x", "<p> ", "{{ ", "<p>{{", " style=",
     "style = 'width: ",
     'style="text-align:', "<img src='a' src", "&#x202e", "src=", "<img" + " " * 40],
)  # fmt: skip
def test_the_patterns_of_statements_take_no_time(kind, part):
    """The largest statement of a part again and again: what looks for drawings took the cube of its length."""
    text = (part * SOURCE_BYTES)[:SOURCE_BYTES]
    begin = time.process_time()
    raw = text
    for pattern in (fragment._SAMPLES, fragment._STYLED, fragment._SIZED):
        raw = pattern.sub("", raw)
    fragment._DRAWING.sub(lambda match: fragment._drawing(match[0], {}), text)
    assert time.process_time() - begin < 2


# --- pictures -------------------------------------------------------------------------------------------------------


def test_an_svg_that_draws_itself_over_and_over_is_refused():
    levels = '<g id="g0"><rect/></g>' + "".join(
        f'<g id="g{n}">' + f'<use href="#g{n - 1}"/>' * 10 + "</g>" for n in range(1, 12)
    )
    with pytest.raises(PackageError, match="100000"):
        harmless_svg(SVG.format(levels).encode())
    with pytest.raises(PackageError, match="itself"):
        harmless_svg(SVG.format('<g id="a"><use href="#a"/></g>').encode())
    nested = '<pattern id="p0"><rect/></pattern>' + "".join(
        f'<pattern id="p{n}">' + f'<rect fill="url(#p{n - 1})"/>' * 10 + "</pattern>" for n in range(1, 12)
    )
    with pytest.raises(PackageError, match="100000"):
        harmless_svg(SVG.format(nested).encode())


MASKS = ["mask", "clip-path", "fill", "stroke", "filter", "marker-start"]


def mask_nest(refer, *, levels=12, wide=10):
    """Masks of shapes, each of which refers to the next mask; `refer(n)` are a shape's attributes for that."""
    return "".join(f'<mask id="m{n}">' + f"<rect {refer(n - 1)}/>" * wide + "</mask>" for n in range(1, levels))


def is_refused_or_plain(inside):
    """Whether a picture is refused, for what it draws or refers to, or has no reference left."""
    try:
        output = harmless_svg(SVG.format(inside).encode())
    except PackageError as exc:
        return "100000" in str(exc) or "style sheet" in str(exc)
    return b"url" not in output.lower()


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize(
    "rule",
    [
        ".c{n} {{ {name}: url(#m{n}) }}",
        ".c{n} {{ {name} : URL( '#m{n}' ) }}",
        ".c{n}{{ fill: red; &amp; {{ {name}: url(#m{n}) }} }}",
        "mask {{ .c{n} {{ {name}: url(#m{n}) }} }}",
        ".c{n} {{ --x: url(#m{n}); {name}: var(--x) }}",
    ],
)
def test_an_svg_whose_sheet_refers_to_parts_draws_none_of_them(name, rule):
    sheet = "".join(rule.format(n=n, name=name) for n in range(12))
    nest = mask_nest(lambda n: f'class="c{n}"')
    text = f"<style>{sheet}</style>{nest}<rect class='c11'/>"
    assert len(text) < 10_000
    assert is_refused_or_plain(text)


@pytest.mark.parametrize(
    "sheet", ["@import '#a'; rect{fill:red}", "@media all{rect{fill:red}}", r"rect{mask:\75rl(#m1)}"]
)
def test_an_svg_s_sheet_without_sense_is_taken_out(sheet):
    assert b"style" not in harmless_svg(SVG.format(f"<style>{sheet}</style><rect/>").encode())


def test_an_svg_s_plain_sheet_stays():
    sheet = ".st0{fill:#FFF;stroke:rgb(1,2,3)} .st1, rect > g { opacity: .5 }"
    assert sheet.replace(">", "&gt;").encode() in harmless_svg(SVG.format(f"<style>{sheet}</style><rect/>").encode())


@pytest.mark.parametrize(
    "refer",
    ['{name}="url(#m{n})"', "{name}=\"url('#m{n}')\"", 'style="{name}:url( #m{n} )"', 'style="{name}:URL(#m{n})"'],
)
@pytest.mark.parametrize("name", MASKS)
def test_references_in_attributes_are_counted(name, refer):
    assert is_refused_or_plain(mask_nest(lambda n: refer.format(n=n, name=name)))


@pytest.mark.parametrize(
    "refer",
    ['mask="url(#%6d{n})"', "mask=\"url('#m {n}')\"", 'mask="url(#m{n}"', 'mask="url(#m{n}) url(#%6d{n})"',
     'style="mask:url(#%6d{n})"', 'href="#%6d{n}"', 'href="#m {n}"', 'href="#m{n}&#10;"'],
)  # fmt: skip
def test_references_by_names_that_would_be_decoded_are_taken_out(refer):
    output = harmless_svg(SVG.format(mask_nest(lambda n: refer.format(n=n))).encode())
    assert b"%6d" not in output and b"url(" not in output and b"href=" not in output


MARK = '<marker id="m">' + '<path d="M0 0"/>' * 99 + "</marker>"
BLUR = '<filter id="f"><feGaussianBlur stdDeviation="9"/></filter>'


@pytest.mark.parametrize(
    "inside",
    [
        MARK + f'<path d="M0 0{"h1" * 1000}" marker-mid="url(#m)"/>',
        MARK + f'<polyline points="{"1 2 " * 500}" style="marker/**/:url(#m)"/>',
        MARK + f'<g marker-mid="url(#m)"><g><path d="M0 0{"h1" * 1000}"/></g></g>',
        MARK + f'<path id="p" d="M0 0{"h1" * 100}"/><g marker-mid="url(#m)">' + '<use href="#p"/>' * 10 + "</g>",
        MARK + f'<g marker-end="url(#m)">{"<line/>" * 2000}</g>',
        MARK + '<use href="#p" style="marker-start:url(#m)"/>' + f'<g id="p">{"<line/>" * 2000}</g>',
        f'<path id="p" d="M0 0{"h1" * 50_000}"/>' + '<use href="#p"/>' * 200,
        BLUR + '<rect filter="url(#f)"/>' * 100,
        f'<filter id="f">{"<feGaussianBlur/>" * 60}</filter>',
        f'<filter id="f">{"<feOffset/>" * 2000}</filter>',
        "<g>" * 250 + "</g>" * 250,
        "<g>" * 2000 + "</g>" * 2000,
    ],
)
def test_an_svg_whose_parts_take_longer_than_shapes_is_refused(inside):
    """Markers at many points, lines of many points, filters: pictures of a megabyte kept a browser busy for minutes."""
    with pytest.raises(PackageError, match=r"100000 shapes|200 levels"):
        harmless_svg(SVG.format(inside).encode())


@pytest.mark.parametrize(
    "sheet",
    [
        "g:has(rect) rect{fill:red}", "rect:nth-last-child(2n){fill:red}", "g ~ rect{fill:red}", "[id*=a]{fill:red}",
        '"/*"{} g:has(rect){fill:red} /**/', 'a{x:"}";g:has(rect){fill:red}', "g{filter:blur(9px)}",
        "g{--x:drop-shadow(1px 1px 1px red);filter:var(--x)}", "rect{fill:red}" * 5000,
        "a," * 20_000 + "rect{fill:red}",
    ],
)  # fmt: skip
def test_an_svg_s_sheet_that_a_browser_searches_for_long_is_refused(sheet):
    with pytest.raises(PackageError, match="style sheet"):
        harmless_svg(SVG.format(f"<style>{sheet}</style>{'<rect/>' * 1000}").encode())


@pytest.mark.parametrize(
    "attribute", ['style="filter:blur(9px)"', 'filter="blur(9px) url(#f)"', 'style="filter:Blur (9px)"']
)
def test_filters_without_an_element_are_taken_out(attribute):
    assert b"lur" not in harmless_svg(SVG.format(f"<g {attribute}><rect/></g>").encode())


@pytest.mark.parametrize(
    "inside",
    [
        "<style>" + "/*" * 32_000 + "</style>", "<style>" + "/*" * 900_000 + "</style>",
        '<marker id="m"/><g style="' + "marker:url(#m);" * 100_000 + '"/>',
        '<linearGradient id="m"/><g style="' + "fill:url(#m);" * 100_000 + '"/>',
    ],
)  # fmt: skip
def test_counting_what_a_picture_draws_takes_no_time(inside):
    begin = time.process_time()
    with contextlib.suppress(PackageError):
        harmless_svg(SVG.format(inside).encode())
    assert time.process_time() - begin < 3


def test_arrows_shadows_and_long_lines_of_drawings_stay():
    arrow = '<marker id="a"><path d="M0 0L9 5L0 9z"/></marker>'
    long = f'<path d="M0 0{"l1.5 2.5" * 1000}" marker-end="url(#a)"/>' * 100
    shadow = '<filter id="s"><feGaussianBlur/><feOffset/><feMerge><feMergeNode/><feMergeNode/></feMerge></filter>'
    boxes = '<rect filter="url(#s)"/>' * 20
    sheet = "<style>*{stroke-linejoin:round} .a, g > .b #c{fill:#FFF; opacity:.5} /* a:b */</style>"
    output = harmless_svg(SVG.format(sheet + arrow + long + shadow + boxes).encode())
    assert (output.count(b"marker-end"), output.count(b"filter="), output.count(b"linejoin")) == (100, 20, 1)


def test_an_svg_of_many_uses_is_drawn():
    text = '<defs><g id="a"><path d="M0 0"/></g></defs>' + '<use xlink:href="#a"/>' * 5000
    assert harmless_svg(SVG.format(text).encode()).count(b"<use") == 5000


@pytest.mark.parametrize("word", ["image-set", "image", "src", "-webkit-image-set"])
def test_an_svg_loads_by_no_function(word):
    for inside in (f"<style>rect{{mask:{word}('//evil.example/x')}}</style>",
                   f"<rect style=\"mask:{word}('//evil.example/x')\"/>",
                   f"<rect mask=\"{word}('//evil.example/x')\"/>"):  # fmt: skip
        assert b"evil" not in harmless_svg(SVG.format(inside).encode())


def test_looking_at_a_picture_takes_no_time():
    begin = time.process_time()
    assert look_at("a.jpg", b"\xff\xd8" + b"\xff" * 16_000_000) is None
    assert look_at("a.jpg", b"\xff\xd8" + b"\xff\xe0\0\0" * 4_000_000) is None
    harmless_svg(SVG.format("<x/>" * 29_000).encode())
    assert time.process_time() - begin < 2


def test_bytes_that_fill_a_jpeg_are_skipped():
    filled = b"\xff\xd8" + b"\xff" * 50 + b"\xe0\x00\x10" + b"\0" * 14 + b"\xff\xc0\x00\x11\x08\x00\x10\x00\x20\x03"
    assert look_at("a.jpg", filled + b"\0" * 20) is not None


def test_an_svg_is_made_once(monkeypatch):
    statements = shown.Statements(None)
    file = shown.PublicFile("a.svg", "statement")
    good, bad = SVG.format("<rect/>").encode(), b"<svg"
    first = statements.picture(file, "a" * 64, io.BytesIO(good))
    assert first is not None and first.data
    assert statements.picture(file, "b" * 64, io.BytesIO(bad)) is None
    monkeypatch.setattr(pictures, "look_at", lambda *_: pytest.fail("made again"))
    assert statements.picture(file, "a" * 64, io.BytesIO(good)) == first
    assert statements.picture(file, "b" * 64, io.BytesIO(bad)) is None


SIZE = 64 * 1024
SECONDS = 1.0
BEGINNINGS = (
    r"\[", r"\(", "$$", "$", r"\$", r"\begin{verbatim}", r"\begin{lstlisting}", r"\begin{wrapfigure}",
    r"\begin{wrapfigure}[", r"\begin{wrapfigure}{r}{1}", r"\begin{example}", r"\begin{examplewide}", r"\Example ",
    r"\exmp{", r"\exmp{a}", r"\exmp ", r"\t{", r"\texttt{{a", r"\verb|", r"\verb", r"\documentclass",
    r"\documentclass\begin{document}", r"\begin{document}", r"\begin{problem}{", r"\begin{problem}", r"\begin{Input}",
    r"\caption{", r"\bf ", r"\def\htmlPixelsInCm{", r"\def ", "<<", r"\newcommand\a[", r"\newcommand\a[1][",
    r"\newcommand{\a}", "{", "}", "\\", "%",
)  # fmt: skip


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_a_statement_in_latex(beginning):
    repeated = beginning * (SIZE // len(beginning))
    texts = [repeated, rf"\documentclass{repeated}\begin{{document}}", rf"\begin{{document}}\documentclass{repeated}"]
    texts += [beginning + char * SIZE for char in " a{\\$"]
    for text in texts:
        begin = time.thread_time()
        for_conversion(text, "en")
        assert time.thread_time() - begin < SECONDS, text[:60]


@pytest.mark.parametrize("text", ["{" + "," * SIZE, "{," * SIZE, "{.." * SIZE, "{a,b}" * SIZE, "{" * SIZE])
def test_braces_of_a_shell(text):
    begin = time.thread_time()
    gensh._BRACES.search(text)
    assert time.thread_time() - begin < SECONDS


def svg(inner: str) -> bytes:
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100">{inner}</svg>'.encode()


LONG = "M0 0 H1e6"
TOO_MANY = [
    f'<path d="{LONG}" stroke="red" stroke-dasharray=".5"/>',
    f'<path d="{LONG}" style="stroke:red;stroke-dasharray:.5"/>',
    f'<path d="{LONG}" style="stroke:red;STROKE-DASHARRAY : 0.25px 0.25px"/>',
    f'<g stroke-dasharray="0.01 0.01" stroke="red"><g><path d="{LONG}"/></g></g>',
    f'<style>path {{stroke-dasharray: .1 .1}}</style><path d="{LONG}" stroke-dasharray="none"/>',
    f'<defs><path id="a" d="{LONG}"/></defs><use href="#a" stroke-dasharray="0.5" stroke="red"/>',
    '<g stroke="red" stroke-dasharray="1">' + '<path d="M0 0h9999v9999h-9999z"/>' * 60 + "</g>",
    '<rect width="1e6" height="1e6" stroke-dasharray="1e-3" stroke="red"/>',
    '<circle r="1e6" stroke-dasharray="1" stroke="red"/>',
    '<ellipse rx="1e7" ry="1" stroke-dasharray="1" stroke="red"/>',
    '<line x2="1e9" stroke-dasharray="1" stroke="red"/>',
    '<polyline points="0,0 1e7,0" stroke-dasharray="1" stroke="red"/>',
    '<polygon points="0 0 1e6 0 0 0 1e6 0" stroke-dasharray="1" stroke="red"/>',
    '<path d="m0 0a1e7 1e7 0 01 10 10" stroke-dasharray="1" stroke="red"/>',
    '<path d="M0 0C1e7 0 0 1e7 5 5" stroke-dasharray="1" stroke="red"/>',
    '<path d="M0 0h10" pathLength="1e9" stroke-dasharray="1" stroke="red"/>',
    '<text stroke-dasharray="1e-6" stroke="red">text</text>',
    '<g transform="scale(1e-6)"><line x2="1e9" stroke-dasharray="1" stroke="red"/></g>',
    '<line x2="1e999" stroke-dasharray="1" stroke="red"/>',
    '<path d="M0 0L1e999 -1e999Z" stroke-dasharray="1" stroke="red"/>',
]
FINE = [
    f'<path d="{LONG}" stroke="red"/>',
    f'<path d="{LONG}" stroke-dasharray="none"/>',
    f'<path d="{LONG}" stroke-dasharray="0 0"/>',
    '<g stroke-dasharray="2,2" stroke="#ccc">' + "".join(f'<path d="M0 {y}H800"/>' for y in range(0, 600, 5)) + "</g>",
    '<g stroke-dasharray="0.5 0.5"><rect width="800" height="600"/><circle r="300"/><text>Two words</text></g>',
    '<style>.grid {stroke-dasharray: 3px, 5px !important}</style><path class="grid" d="M0 0L500 500"/>',
]


@pytest.mark.parametrize("inner", TOO_MANY)
def test_a_picture_of_very_many_dashes_is_refused(inner):
    with pytest.raises(PackageError, match="draws more than 100000 shapes"):
        harmless_svg(svg(inner))


@pytest.mark.parametrize("inner", FINE)
def test_dashes_of_figures_are_drawn(inner):
    assert b"path" in harmless_svg(svg(inner)) or b"rect" in harmless_svg(svg(inner))


@pytest.mark.parametrize("value", ["calc(1px)", "var(--a)", "1 x", "1;2"])
def test_dashes_that_are_no_numbers_are_refused(value):
    with pytest.raises(PackageError, match="the picture has stroke-dasharray"):
        harmless_svg(svg(f'<path d="M0 0h1" stroke-dasharray="{value}"/>'))


COORDINATE = st.integers(-100, 100)


@given(st.lists(st.tuples(COORDINATE, COORDINATE), min_size=2, max_size=9), st.booleans())
def test_the_length_of_lines_is_exact(points, closed):
    data = "M" + " ".join(f"{x},{y}" for x, y in points) + ("z" if closed else "")
    corners = [*points, points[0]] if closed else points
    assert math.isclose(strokes.path_length(data), sum(map(math.dist, corners, corners[1:])), abs_tol=1e-9)
    relative = "m0 0" + "".join(
        f"l{x1 - x0} {y1 - y0}" for (x0, y0), (x1, y1) in zip([(0, 0), *points], points, strict=False)
    )
    start = math.dist((0, 0), points[0])
    assert math.isclose(strokes.path_length(relative), start + sum(map(math.dist, points, points[1:])), abs_tol=1e-9)


def bezier(points, at):
    while len(points) > 1:
        points = [tuple(a + (b - a) * at for a, b in zip(p, q, strict=True)) for p, q in itertools.pairwise(points)]
    return points[0]


@given(st.lists(st.tuples(COORDINATE, COORDINATE), min_size=6, max_size=6))
def test_a_curve_is_no_longer_than_is_said(points):
    a, b, c, d, e, f = points
    data = f"M{a[0]} {a[1]}C{b[0]} {b[1]} {c[0]} {c[1]} {d[0]} {d[1]}S{e[0]} {e[1]} {f[0]} {f[1]}"
    mirrored = (2 * d[0] - c[0], 2 * d[1] - c[1])
    steps = [step / 50 for step in range(51)]
    curves = [[bezier(curve, at) for at in steps] for curve in ([a, b, c, d], [d, mirrored, e, f])]
    drawn = sum(math.dist(start, end) for curve in curves for start, end in itertools.pairwise(curve))
    assert drawn <= strokes.path_length(data) + 1e-6


@given(st.text("MmLlHhVvCcSsQqTtAaZz0123456789.-+eE, ", max_size=60))
def test_any_text_has_a_length(data):
    assert strokes.path_length(data) >= 0 or math.isnan(strokes.path_length(data))


def test_a_long_path_takes_time_in_proportion():
    data = "M0 0" + "c1 1 2 2 3 3" * 100_000
    begin = time.thread_time()
    strokes.path_length(data)
    assert time.thread_time() - begin < 5
