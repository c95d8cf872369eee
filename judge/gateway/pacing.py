"""The headers that tell clients how often they may still do something, and when to come back.

`RateLimit` and `RateLimit-Policy` are those of the draft of IETF's HTTPAPI group, the other three those of its earlier
versions, which more clients read.
"""

from __future__ import annotations

from judge.model.rate import Rate

_MINUTE = 60


def paced(rate: Rate | None, *, refused: bool = False) -> dict[str, str]:
    """The headers of an answer; none without a limit. `refused`: with Retry-After. Pure."""
    if rate is None:
        return {}
    headers = {
        "RateLimit-Policy": f'"submissions";q={rate.limit};w={_MINUTE}',
        "RateLimit": f'"submissions";r={rate.left};t={rate.seconds}',
        "RateLimit-Limit": str(rate.limit),
        "RateLimit-Remaining": str(rate.left),
        "RateLimit-Reset": str(rate.seconds),
    }
    return {**headers, "Retry-After": str(rate.seconds)} if refused else headers
