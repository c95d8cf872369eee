"""Charts as shapes for an SVG: figures over time in, places and sentences out. Pure; the templates draw them.

A chart is drawn in units of its own, `WIDTH` by `HEIGHT`, and scales with the page. Every value is also in a table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from judge.gateway.pages import views
from judge.model.figures import FiguresReply, Point, Start
from judge.model.verdicts import Verdict

WIDTH: Final = 440
HEIGHT: Final = 190
LEFT_MARGIN: Final = 54
RIGHT: Final = 8
TOP: Final = 10
BOTTOM: Final = 24
_SPANS: Final = {"hour": ("60 min ago", "30 min ago", "now"), "day": ("24 h ago", "12 h ago", "now")}
# The top of a scale: halves of these are whole, from ten on.
_TWO: Final = 2
_DRIFT: Final = 0.1  # beyond it the machine check warns (judge/executor/calibration.py)
_LEAST: Final = 1e-6  # below it all is nothing
_STEPS: Final = (1, 2, 4, 6, 8, 10)

Series = Sequence[float | None]


@dataclass(frozen=True)
class Bar:
    """One rectangle; `words` show when it is pointed at."""

    x: float
    y: float
    width: float
    height: float
    look: str
    words: str


@dataclass(frozen=True)
class ChartLine:
    """A line through the values of a series, with the area below it where there is one; dots stand alone."""

    look: str
    path: str
    area: str = ""
    dots: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Key:
    """One entry of a legend; `words` are figures of the whole span."""

    look: str
    name: str
    words: str = ""


@dataclass(frozen=True)
class Chart:
    """One chart: `id` for the page, a title, what a person who does not see it is told, ticks as (place, text)."""

    id: str
    title: str
    told: str
    ticks: list[tuple[float, str]]
    times: tuple[str, str, str]
    bars: list[Bar] = field(default_factory=list)
    lines: list[ChartLine] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    empty: str = ""


def top_of(most: float) -> float:
    """The end of a scale from 0 on which `most` has its place."""
    if not most > _LEAST:
        return 1.0
    decade = 10.0 ** math.floor(math.log10(most))
    return next(step * decade for step in _STEPS if step * decade >= most * (1 - 1e-9))


def _height(value: float, top: float) -> float:
    return round((HEIGHT - TOP - BOTTOM) * min(value / top, 1.0), 1)


def _y(value: float, top: float) -> float:
    return round(HEIGHT - BOTTOM - _height(value, top), 1)


def _x(at: float, count: int) -> float:
    return round(LEFT_MARGIN + (WIDTH - LEFT_MARGIN - RIGHT) * at / count, 1)


def integer(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def brief(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:g} ms"
    return f"{seconds:g} s" if seconds < 600 else f"{seconds / 60:.3g} min"


def share(value: float) -> str:
    return f"{value * 100:.3g} %"


def _ticks(top: float, format_value: Callable[[float], str], *, counts: bool) -> list[tuple[float, str]]:
    at = [0.0, top] if counts and top < 2 else [0.0, top / 2, top]
    return [(_y(value, top), format_value(value)) for value in at]


def _line(values: Series, top: float, look: str, *, area: bool = False) -> ChartLine:
    """A series as a line; where values are missing it breaks off."""
    count = len(values)
    points, below, dots = [], [], []
    for present, group in itertools.groupby(enumerate(values), key=lambda pair: pair[1] is not None):
        if not present:
            continue
        places = [(_x(at + 0.5, count), _y(value or 0.0, top)) for at, value in group]
        text = " L".join(f"{x:g} {y:g}" for x, y in places)
        if len(places) == 1:
            dots += places
            continue
        points.append(f"M{text}")
        below.append(f"M{places[0][0]:g} {HEIGHT - BOTTOM} L{text} L{places[-1][0]:g} {HEIGHT - BOTTOM}Z")
    return ChartLine(look, " ".join(points), " ".join(below) if area else "", dots)


def _bars(rows: Sequence[Sequence[tuple[str, float, str]]], top: float) -> list[Bar]:
    """Columns, one for each row; the parts of a row (look, value, words) stand on each other."""
    bars = []
    width = round((WIDTH - LEFT_MARGIN - RIGHT) / max(1, len(rows)) * 0.8, 2)
    for at, row in enumerate(rows):
        below = 0.0
        for look, value, text in row:
            if value > 0:
                y = _y(below + value, top)
                bars.append(Bar(_x(at + 0.1, len(rows)), y, width, round(_y(below, top) - y, 1), look, text))
                below += value
    return bars


def _most(*series: Series) -> float:
    return max((value for values in series for value in values if value is not None), default=0.0)


def clock(at: str) -> str:
    return at[11:16]


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def waiting(reply: FiguresReply) -> Chart:
    values = [point.waiting for point in reply.points]
    top = top_of(_most(values))
    most = int(_most(values))
    last = next((value for value in reversed(values) if value is not None), None)
    summary = f"At most {_plural(most, 'submission')} waited{'' if last is None else f', {last:,} now'}."
    return Chart(
        "waiting", "Waiting", summary, _ticks(top, integer, counts=True), _SPANS[reply.span],
        lines=[_line(values, top, "live", area=True)], keys=[Key("live", "most waiting at once")],
        empty="" if last is not None else "There are no figures yet; the first come within seconds.",
    )  # fmt: skip


def judged(reply: FiguresReply) -> Chart:
    top = top_of(max((point.judged + point.rejudged for point in reply.points), default=0))
    rows = [
        [
            ("good", point.judged, f"{clock(point.at)} UTC: {_plural(point.judged, 'submission')} judged"),
            ("size", point.rejudged, f"{clock(point.at)} UTC: {_plural(point.rejudged, 'run')} of rejudgings"),
        ]
        for point in reply.points
    ]
    total, again = (sum(getattr(point, name) for point in reply.points) for name in ("judged", "rejudged"))
    summary = f"{_plural(total, 'submission')} got a verdict, and {_plural(again, 'run')} of rejudgings."
    keys = [Key("good", "submissions", f"{total:,}"), *([Key("size", "rejudgings", f"{again:,}")] if again else [])]
    unit = "a minute" if reply.span == "hour" else f"in {reply.seconds // 60} minutes"
    return Chart(
        "judged", f"Judged {unit}", summary, _ticks(top, integer, counts=True), _SPANS[reply.span],
        bars=_bars(rows, top), keys=keys,
    )  # fmt: skip


def slots(reply: FiguresReply) -> Chart:
    busy, total = [point.busy for point in reply.points], [point.slots for point in reply.points]
    top = top_of(_most(busy, total))
    pairs = [(point.busy, point.slots) for point in reply.points if point.busy is not None and point.slots]
    use = sum(min(b, s) for b, s in pairs) / sum(s for _, s in pairs) if pairs else 0.0
    summary = (
        f"{share(use)} of the slots were busy, on average; at most {integer(_most(busy))} of {integer(_most(total))}."
    )
    return Chart(
        "slots", "Busy slots", summary, _ticks(top, integer, counts=True), _SPANS[reply.span],
        lines=[_line(busy, top, "live", area=True), _line(total, top, "soft")],
        keys=[Key("live", "busy", share(use)), Key("soft", "all slots")],
    )  # fmt: skip


def times(reply: FiguresReply) -> Chart:
    half, most = [point.half for point in reply.points], [point.most for point in reply.points]
    top = top_of(_most(half, most))
    summary = (
        f"Half of the submissions had their verdict within at most {views.seconds(_most(half) or None)} in any step, "
    )
    summary += f"95 of 100 within {views.seconds(_most(most) or None)}."
    return Chart(
        "times", "Time to the verdict", summary, _ticks(top, brief, counts=False), _SPANS[reply.span],
        lines=[_line(most, top, "time"), _line(half, top, "live")],
        keys=[Key("live", "50 % of submissions"), Key("time", "95 % of submissions")],
    )  # fmt: skip


def verdicts(reply: FiguresReply) -> Chart:
    shown_verdicts = [verdict for verdict in Verdict if any(verdict in point.verdicts for point in reply.points)]
    top = top_of(max((sum(point.verdicts.values()) for point in reply.points), default=0))
    rows = [
        [
            (f"{verdict.about.tone} v{verdict.value}", n, f"{clock(point.at)} UTC: {n:,} {verdict.value}")
            for verdict in shown_verdicts
            if (n := point.verdicts.get(verdict, 0))
        ]
        for point in reply.points
    ]
    sums = {verdict: sum(point.verdicts.get(verdict, 0) for point in reply.points) for verdict in shown_verdicts}
    total = sum(sums.values())
    keys = [
        Key(
            f"{verdict.about.tone} v{verdict.value}",
            f"{verdict.value} {verdict.about.title}",
            f"{n:,}, {share(n / total)}",
        )
        for verdict, n in sums.items()
    ]
    summary = "; ".join(f"{verdict.about.title}: {n:,}" for verdict, n in sums.items()) or "No verdicts"
    return Chart(
        "verdicts", "Verdicts", f"{summary}.", _ticks(top, integer, counts=True), _SPANS[reply.span],
        bars=_bars(rows, top), keys=keys,
    )  # fmt: skip


def drift(starts: Iterable[Start]) -> Chart | None:
    """By what part the slowest core was slower than at first, at each start; None without two to compare."""
    calibrated = [start for start in reversed(list(starts)) if start.calibration]
    if len(calibrated) < _TWO:
        return None
    values = [max(core.drift for core in start.calibration) for start in calibrated]
    top = top_of(max(0.1, *(abs(value) for value in values)))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    half = (HEIGHT - TOP - BOTTOM) / 2
    width = round(min(28.0, (WIDTH - LEFT_MARGIN - RIGHT) / len(calibrated) * 0.8), 2)
    bars = [
        Bar(
            round(_x(at + 0.5, len(calibrated)) - width / 2, 1),
            round(middle - max(value, 0) / top * half, 1),
            width,
            round(max(abs(value) / top * half, 0.8), 1),
            "warn" if abs(value) > _DRIFT else "live",
            f"{views.utc(start.at)}: {value:+.1%}",
        )
        for at, (start, value) in enumerate(zip(calibrated, values, strict=True))
    ]
    ticks = [(middle - part * half, f"{part * top * 100:+.3g} %" if part else "0 %") for part in (-1, 0, 1)]
    summary = (
        f"At the last of {_plural(len(calibrated), 'start')}, the slowest core took {values[-1]:+.1%} of its first "
        "time."
    )
    ends = ("first of these", "", "last")
    return Chart(
        "drift", "Drift of the slowest core", summary, ticks, ends, bars=bars,
        keys=[Key("live", "within a tenth"), Key("warn", "beyond: time limits are not what they were")],
    )  # fmt: skip


def all_of(reply: FiguresReply) -> list[Chart]:
    return [waiting(reply), judged(reply), slots(reply), times(reply), verdicts(reply)]


def rows(reply: FiguresReply) -> list[Point]:
    """The table beside the charts, the newest step first; steps in which nothing was seen are left out."""
    return [point for point in reversed(reply.points) if point.waiting is not None or point.judged or point.rejudged]
