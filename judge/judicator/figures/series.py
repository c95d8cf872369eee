"""Figures of minutes, and the points of a chart that are made of them; pure functions."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from judge.judicator.documents import MinuteDocument, iso
from judge.model.figures import STEPS, FiguresReply, Point, Span
from judge.model.verdicts import Verdict

# Times to a verdict are counted in classes, six in each decade from 10 ms to some hours: a chart shows no more.
_CLASSES: Final = 6
_LEAST: Final = -2 * _CLASSES
_MOST: Final = 4 * _CLASSES


def minute(moment: datetime.datetime) -> datetime.datetime:
    return moment.replace(second=0, microsecond=0)


def class_of(seconds: float) -> int:
    if not seconds > 0:
        return _LEAST
    return min(max(math.floor(_CLASSES * math.log10(seconds)), _LEAST), _MOST)


def bounds(number: int) -> tuple[float, float]:
    return 10 ** (number / _CLASSES), 10 ** ((number + 1) / _CLASSES)


def within(times: Mapping[int, int], part: float) -> float | None:
    """The seconds within which this part (0 to 1) of the times lies, spread evenly in each class; None of none."""
    rank = part * sum(times.values())
    below = 0
    for number, count in sorted(times.items()):
        if count and below + count >= rank:
            low, high = bounds(number)
            return float(f"{low * (high / low) ** max(0.0, (rank - below) / count):.3g}")
        below += count
    return None


def series(minutes: Iterable[MinuteDocument], span: Span, now: datetime.datetime) -> FiguresReply:
    """The points of a span that ends with the step in which `now` lies, out of the minutes in it."""
    seconds, count = STEPS[span]
    first = math.floor(now.timestamp() / seconds) - count + 1
    steps: list[list[MinuteDocument]] = [[] for _ in range(count)]
    for minute in minutes:
        at = math.floor(minute["_id"].timestamp() / seconds) - first
        if 0 <= at < count:
            steps[at].append(minute)
    begins = [datetime.datetime.fromtimestamp((first + at) * seconds, datetime.UTC) for at in range(count)]
    points = [_point(begin, docs) for begin, docs in zip(begins, steps, strict=True)]
    return FiguresReply(span=span, seconds=seconds, points=points)


def oldest(span: Span, now: datetime.datetime) -> datetime.datetime:
    """Before this moment no minute is part of a span that ends now."""
    seconds, count = STEPS[span]
    return now - datetime.timedelta(seconds=seconds * count)


def _sums(docs: Sequence[MinuteDocument], name: str) -> dict[str, int]:
    sums: dict[str, int] = {}
    for doc in docs:
        counts: Mapping[str, int] = doc.get(name) or {}  # type: ignore[assignment]
        for key, value in counts.items():
            sums[key] = sums.get(key, 0) + value
    return sums


def _point(begin: datetime.datetime, docs: Sequence[MinuteDocument]) -> Point:
    looks = sum(doc.get("looks", 0) for doc in docs)
    observed = [doc for doc in docs if doc.get("looks")]
    verdicts = _sums(docs, "verdicts")
    times = {int(number): count for number, count in _sums(docs, "times").items()}
    return Point(
        at=iso(begin),
        waiting=max((doc.get("waiting", 0) for doc in observed), default=None),
        busy=round(sum(doc.get("busy", 0) for doc in observed) / looks, 2) if looks else None,
        slots=max((doc.get("slots", 0) for doc in observed), default=None),
        judged=sum(verdicts.values()),
        rejudged=sum(doc.get("rejudged", 0) for doc in docs),
        half=within(times, 0.5),
        most=within(times, 0.95),
        # A newer release may count verdicts that this one does not know.
        verdicts={verdict: verdicts[verdict.value] for verdict in Verdict if verdicts.get(verdict.value)},
    )
