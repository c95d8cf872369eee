"""Durations, times and sizes, as people read and write them."""

from __future__ import annotations

import datetime
import re

from judge.common.errors import UsageError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def age(seconds: float | None) -> str:
    """The time since something, with the two largest units: `3d 4h`, `12m 5s`, `0s`; empty when it is not known."""
    if seconds is None:
        return ""
    rest = max(0, int(seconds))
    parts: list[tuple[int, str]] = []
    for unit, length in reversed(UNITS.items()):
        count, rest = divmod(rest, length)
        if count or parts or unit == "s":
            parts.append((count, unit))
    units = [f"{count}{unit}" for index, (count, unit) in enumerate(parts[:2]) if count or index == 0]
    return " ".join(units)


def duration(text: str, option: str) -> int:
    """`90s`, `30m`, `2h`, `1d` as seconds; UsageError names the option and what is expected."""
    match = re.fullmatch(r"([0-9]{1,9})([smhd])", text.strip())
    if not match or int(match[1]) == 0:
        raise UsageError(f"{option}: '{text}' is not a duration; expected a number with s, m, h or d, such as 30m")
    return int(match[1]) * UNITS[match[2]]


def moment(option: str, text: str | None, now: datetime.datetime) -> datetime.datetime | None:
    """`2h` before `now`, or a date and time in ISO 8601, in UTC unless it says otherwise; else UsageError."""
    if text is None:
        return None
    ago = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    try:
        if ago:
            return now - datetime.timedelta(seconds=int(ago[1]) * UNITS[ago[2]])
        moment = datetime.datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError) as exc:
        msg = f"--{option}: '{text}' is no time; expected 2h, 30m, 1d (ago), 2026-01-31 or 2026-01-31T12:00"
        raise UsageError(msg) from exc
    return moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment


def size(text: str, option: str) -> int:
    """`64M`, `1G`, `262144` as bytes; UsageError names the option and what is expected."""
    match = re.fullmatch(r"(\d+)\s*([KMG]?)i?B?", text.strip(), re.IGNORECASE)
    if not match:
        raise UsageError(f"{option}: '{text}' is not a size; expected a number with K, M or G, such as 256M")
    return int(match[1]) * {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}[match[2].upper()]
