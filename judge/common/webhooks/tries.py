"""The patience of calls: how long an answer is waited for, and when a failed one is tried again; pure functions."""

from __future__ import annotations

import datetime
import email.utils
from typing import Final

# Seconds that one call may take.
SECONDS: Final = 10.0
_FIRST: Final = 2.0
_MOST: Final = 3600.0
# Of a receiver that fails, whatever it is sent: it is called again soon after it is back.
_PROBE_FIRST: Final = 0.5
_PROBE_MOST: Final = 30.0
# 2 s, 4 s … 34 min, then each hour: three days in all.
TRIES: Final = 84
_HTTP_GONE: Final = 410


def delivered(status: int) -> bool:
    """Return whether an answer says that the receiver has it."""
    return 200 <= status < 300


def hopeless(status: int) -> bool:
    """Return whether an answer says that the receiver is gone for good, so that no other try is worth it (RFC 9110)."""
    return status == _HTTP_GONE


def pause(tries: int, chance: float, wait_asked: float | None = None) -> float:
    """Seconds until the next try after `tries` (from 1) that failed.

    `chance` from 0 to 1 spreads them by a quarter, so that receivers that come back are not met by all at once;
    `wait_asked` is what the receiver's Retry-After says.
    """
    wait = min(_MOST, _FIRST * 2.0 ** min(tries - 1, 20)) * (0.75 + 0.5 * chance)
    return max(wait, min(wait_asked, _MOST)) if wait_asked is not None else wait


def probe_pause(failures: int, chance: float, wait_asked: float | None = None) -> float:
    """Seconds until the next call to a receiver after `failures` calls (from 1) in a row that failed; see `pause`."""
    wait = min(_PROBE_MOST, _PROBE_FIRST * 2.0 ** min(failures - 1, 20)) * (0.75 + 0.5 * chance)
    return max(wait, min(wait_asked, _MOST)) if wait_asked is not None else wait


def retry_after(text: str, now: datetime.datetime) -> float | None:
    """A header Retry-After in seconds from now; None when it says nothing that can be understood."""
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return float(text)
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return max(0.0, (moment - now).total_seconds())
