"""What strangers' statements, formulas and pictures may cost, and that nothing of them leaves its place on the page."""

from __future__ import annotations

import io
import signal
import subprocess
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.errors import PackageError, UnavailableError
from judge.gateway.statements import child, formulas, pictures, renderer, shown
from judge.gateway.statements.fragment import StatementText, render
from judge.gateway.statements.pictures import harmless_svg, look_at

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


def made(text, kind="html", title="Title"):
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
    Balance(made(text))
    assert "<img" not in made(text).replace('title="', "").split('">')[0] or "<h2" in made(text)


def test_a_heading_with_inner_marks_still_goes():
    assert made('<h1 id="a"><b>Ti</b>tle</h1><p>x</p>') == "<p>x</p>"


PIECES = ["<h1>", "<h2>", "</h1>", "</h2>", "Title", "<div>", "</div>", "<section>", "<span>", "</span>", "<p>", "<b>",
          '<i title="</h2>">', "<table>", "<td>", "<ul><li>", "</ul>", "<pre>", "{{nextsample}}", "<br>", "x",
          "<math><mi>x</mi></math>", "<h2 title='>Title</h2><hr>'>", "<a href='#x'>", "<center>"]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=14))
def test_tags_balance_whatever_the_html(pieces):
    Balance(made("".join(pieces)))


def test_formulas_count_as_elements():
    with pytest.raises(PackageError, match="more than 30000 elements"):
        made(f"${'a' * 4900}$ " * 8, "md")


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
    for kept in ("-0.1667em", "2em", "50%", 'linethickness="0"', 'lspace="0em"', "0.2778em"):
        assert kept in built


# --- the process that makes them ------------------------------------------------------------------------------------


def _ends(monkeypatch, code=0, out=b"", error=None):
    def run(command, **_):
        if error is not None:
            raise error
        return subprocess.CompletedProcess(command, code, out, b"")

    monkeypatch.setattr(renderer.subprocess, "run", run)


@pytest.mark.parametrize(
    ("code", "error"),
    [(-signal.SIGKILL, None), (1, None), (0, None), (0, OSError("no process")),
     (0, subprocess.TimeoutExpired("python", 12))],
)  # fmt: skip
def test_what_passes_is_not_remembered(monkeypatch, code, error):
    one = renderer.Renderer()
    with monkeypatch.context() as patch:
        _ends(patch, code, error=error)
        with pytest.raises(UnavailableError):
            one.render(StatementText(kind="txt", text="x"))
    assert one.render(StatementText(kind="txt", text="x")).pieces


def test_too_much_time_is_remembered(monkeypatch):
    one = renderer.Renderer()
    with monkeypatch.context() as patch:
        _ends(patch, -signal.SIGXCPU)
        with pytest.raises(PackageError, match="takes too long"):
            one.render(StatementText(kind="txt", text="x"))
    with pytest.raises(PackageError, match="takes too long"):
        one.render(StatementText(kind="txt", text="x"))


def test_a_child_at_its_end_dies_by_the_signal_that_says_so(monkeypatch):
    bounds = {}
    monkeypatch.setattr(child.resource, "setrlimit", bounds.__setitem__)
    monkeypatch.setattr(child.sys, "stdin", None)
    with pytest.raises(AttributeError):
        child.main()
    soft, hard = bounds[child.resource.RLIMIT_CPU]
    assert soft == child.CPU_SECONDS < hard


def test_a_text_that_needs_too_much_memory_is_a_refusal(monkeypatch, capsys):
    monkeypatch.setattr(child.resource, "setrlimit", lambda *_: None)
    asked = StatementText(kind="txt", text="x").model_dump_json().encode()
    monkeypatch.setattr(child.sys, "stdin", type("In", (), {"buffer": io.BytesIO(asked)}))
    monkeypatch.setattr(child, "render", lambda _: (_ for _ in ()).throw(MemoryError))
    assert child.main() == 2
    assert "too much memory" in capsys.readouterr().out


# --- pictures -------------------------------------------------------------------------------------------------------


def test_a_deep_svg_is_refused():
    with pytest.raises(PackageError):
        harmless_svg(SVG.format("<g>" * 2000 + "</g>" * 2000).encode())


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
    assert not look_at("a.jpg", b"\xff\xd8" + b"\xff" * 16_000_000).shown
    assert not look_at("a.jpg", b"\xff\xd8" + b"\xff\xe0\0\0" * 4_000_000).shown
    harmless_svg(SVG.format("<x/>" * 29_000).encode())
    assert time.process_time() - begin < 2


def test_bytes_that_fill_a_jpeg_are_skipped():
    filled = b"\xff\xd8" + b"\xff" * 50 + b"\xe0\x00\x10" + b"\0" * 14 + b"\xff\xc0\x00\x11\x08\x00\x10\x00\x20\x03"
    assert look_at("a.jpg", filled + b"\0" * 20).shown


def test_an_svg_is_made_once(monkeypatch):
    one = shown.Shown(None)
    file = shown.PublicFile("a.svg", "statement")
    good, bad = SVG.format("<rect/>").encode(), b"<svg"
    first = one.picture(file, "a" * 64, io.BytesIO(good))
    assert first is not None and first.data
    assert one.picture(file, "b" * 64, io.BytesIO(bad)) is None
    monkeypatch.setattr(pictures, "look_at", lambda *_: pytest.fail("made again"))
    assert one.picture(file, "a" * 64, io.BytesIO(good)) == first
    assert one.picture(file, "b" * 64, io.BytesIO(bad)) is None
