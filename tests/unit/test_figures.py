"""Minutes into points, points into charts: pure functions, tried with whatever may be in them."""

import datetime
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common import clock
from judge.gateway.pages import charts
from judge.judicator.documents import MinuteDocument
from judge.judicator.figures.machines import changes
from judge.judicator.figures.minutes import Counts
from judge.judicator.figures.series import bounds, class_of, minute, oldest, series, within
from judge.model.base import CoreSpeed
from judge.model.figures import STEPS, FiguresReply, Span, Start
from judge.model.verdicts import Verdict

NOW = datetime.datetime(2026, 11, 23, 18, 7, 33, tzinfo=datetime.UTC)
counts = st.integers(0, 10**6)


def minutes() -> st.SearchStrategy[list[MinuteDocument]]:
    def at(back: int) -> datetime.datetime:
        return minute(NOW) - datetime.timedelta(minutes=back)

    document = st.fixed_dictionaries(
        {"_id": st.integers(-3, 1600).map(at)},
        optional={
            "waiting": counts,
            "slots": counts,
            "busy": counts,
            "looks": st.integers(0, 6),
            "rejudged": counts,
            "verdicts": st.dictionaries(st.sampled_from([*Verdict, "FUTURE"]).map(str), counts),
            "times": st.dictionaries(st.integers(-12, 24).map(str), counts),
        },
    )
    return st.lists(document, max_size=40, unique_by=lambda doc: doc["_id"])  # type: ignore[arg-type, return-value]


@given(st.floats(0, 1e7))
def test_a_time_lies_in_its_class(seconds: float) -> None:
    low, high = bounds(class_of(seconds))
    assert seconds < 0.0101 or seconds > 9000 or low * 0.999999 <= seconds <= high * 1.000001


@given(st.lists(st.floats(0.011, 9000), min_size=1, max_size=50), st.floats(0.01, 1))
def test_quantiles_are_right_to_a_class(times: list[float], part: float) -> None:
    classes: dict[int, int] = {}
    for time in times:
        classes[class_of(time)] = classes.get(class_of(time), 0) + 1
    exact = sorted(times)[math.ceil(part * len(times) - 1e-9) - 1]
    near = within(classes, part)
    assert near is not None
    assert exact / 1.5 <= near <= exact * 1.5
    assert within({}, part) is None


@given(minutes(), st.sampled_from(["hour", "day"]))
def test_every_minute_of_the_span_is_in_one_point(docs: list[MinuteDocument], span: Span) -> None:
    reply = series(docs, span, NOW)
    seconds, count = STEPS[span]
    assert len(reply.points) == count
    begins = [datetime.datetime.fromisoformat(item.at) for item in reply.points]
    assert begins == sorted(begins) and begins[-1] <= NOW < begins[-1] + datetime.timedelta(seconds=seconds)
    assert begins[0] > oldest(span, NOW)
    inside = [item for item in docs if begins[0] <= item["_id"] < begins[-1] + datetime.timedelta(seconds=seconds)]
    assert sum(item.rejudged for item in reply.points) == sum(item.get("rejudged", 0) for item in inside)
    assert sum(item.judged for item in reply.points) == sum(sum(item.get("verdicts", {}).values()) for item in inside)
    looked = [item.get("waiting", 0) for item in inside if item.get("looks")]
    assert max((item.waiting for item in reply.points if item.waiting is not None), default=None) == max(
        looked, default=None
    )


@given(minutes(), st.sampled_from(["hour", "day"]))
def test_charts_stay_within_their_bounds(docs: list[MinuteDocument], span: Span) -> None:
    reply = series(docs, span, NOW)
    for chart in charts.all_of(reply):
        assert chart.told.endswith(".")
        for bar in chart.bars:
            assert charts.LEFT_MARGIN <= bar.x <= bar.x + bar.width <= charts.WIDTH
            assert bar.y - charts.TOP >= -0.2 and bar.y + bar.height <= charts.HEIGHT - charts.BOTTOM + 0.2
            assert bar.height >= -0.01 and bar.words
        for line in chart.lines:
            numbers = [float(number) for number in re.findall(r"[\d.]+", line.path + line.area)]
            assert all(0 <= number <= charts.WIDTH for number in numbers)
        assert all(charts.TOP <= y <= charts.HEIGHT - charts.BOTTOM for y, _ in chart.ticks)
    assert len(charts.all_of(reply)) == 5


@given(st.floats(0, 1e12))
def test_the_top_of_a_scale_is_near(value: float) -> None:
    top = charts.top_of(value)
    assert value <= top * 1.000001
    assert top <= 2 * value * 1.0001 or (top == 1 and value <= 1e-6)


def test_a_line_has_gaps_where_values_are_missing() -> None:
    line = charts._line([1, 2, None, 3, None, 4, 5], 5.0, "live", area=True)
    assert line.path.count("M") == 2 and len(line.dots) == 1


def test_counts_wait_for_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = Counts()
    counter.ended("AC", 0.2, rerun=False)
    counter.ended("AC", 0.2, rerun=False)
    counter.ended("WA", 3.0, rerun=True)
    totals = counter.take()
    total = {key: sum(added[key] for added in totals.values()) for added in totals.values() for key in added}
    assert total == {"verdicts.AC": 2, f"times.{class_of(0.2)}": 2, "rejudged": 1}
    assert counter.take() == {}
    for number in range(100):
        counter.add(minute(NOW) + datetime.timedelta(minutes=number), {"rejudged": 1})
    later = counter.take()
    assert len(later) == 60 and max(later) == minute(NOW) + datetime.timedelta(minutes=99), "the oldest go first"


def test_the_drift_of_starts() -> None:
    def start(*speeds: float) -> Start:
        cores = [CoreSpeed(core=core, seconds=seconds, first=0.01) for core, seconds in enumerate(speeds)]
        return Start(at=clock.wall().isoformat(), calibration=cores)

    assert charts.drift([start(), start(0.01)]) is None
    chart = charts.drift([start(0.012, 0.01), start(0.0105), start()])
    assert chart is not None
    assert [bar.look for bar in chart.bars] == ["live", "warn"], "the oldest first"
    assert "+20.0%" in chart.told


def test_changes_between_two_starts() -> None:
    differences = changes({"c": "gcc 12", "ada": "1"}, {"c": "gcc 13", "cpp": "13"})
    assert [(change["language"], change["before"], change["after"]) for change in differences] == [
        ("ada", "1", ""), ("c", "gcc 12", "gcc 13"), ("cpp", "", "13"),
    ]  # fmt: skip


def test_an_empty_reply_has_its_sentences() -> None:
    reply = FiguresReply(span="hour", seconds=60, points=series([], "hour", NOW).points)
    assert charts.waiting(reply).empty
    assert charts.rows(reply) == []


def test_legends_are_words_of_their_own() -> None:
    """Read without the title, as by a screen reader."""
    reply = FiguresReply(span="hour", seconds=60, points=series([], "hour", NOW).points)
    keys = [key for chart in (charts.waiting, charts.slots, charts.times) for key in chart(reply).keys]
    assert [key.name for key in keys] == [
        "most waiting at once", "busy", "all slots", "50 % of submissions", "95 % of submissions",
    ]  # fmt: skip
