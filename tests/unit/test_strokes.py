"""Dashes of SVG pictures count for what drawing them takes."""

import itertools
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common.errors import PackageError
from judge.gateway.statements import strokes
from judge.gateway.statements.pictures import harmless_svg


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
