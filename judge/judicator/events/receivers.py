"""How many calls may be under way to each receiver. A receiver that fails gets one call at a time, after a pause.

The state is in the leader's memory: the next leader learns it by its first calls. No input or output here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from judge.common import clock
from judge.common.webhooks import tries

# So many receivers that fail are remembered; those that may be called soonest are forgotten first.
_REMEMBERED = 1000


@dataclass
class _State:
    under_way: int = 0
    failures: int = 0  # one after another
    until: float = 0.0  # no call before


K = TypeVar("K", bound=Hashable)


class Receivers(Generic[K]):
    def __init__(self, limit: int, now: Callable[[], float] = clock.monotonic) -> None:
        """`limit` calls may be under way to a receiver that answers."""
        self._limit = limit
        self._now = now
        self._states: dict[K, _State] = {}

    def room(self, key: K) -> int:
        """The number of further calls that may be made to a receiver now."""
        receiver = self._states.get(key)
        if receiver is None:
            return self._limit
        if not receiver.failures:
            return self._limit - receiver.under_way
        return int(receiver.under_way == 0 and self._now() >= receiver.until)

    def closed(self) -> list[K]:
        return [key for key in self._states if self.room(key) <= 0]

    def failing(self, key: K) -> bool:
        receiver = self._states.get(key)
        return receiver is not None and receiver.failures > 0

    def begin(self, key: K) -> int:
        """Count a call that begins; what it returns is for `end`."""
        receiver = self._states.setdefault(key, _State())
        receiver.under_way += 1
        return receiver.failures

    def end(self, key: K, begun: int, *, failed: bool | None, retry_after: float | None = None) -> None:
        """Count a call that has ended. `failed` is None if nothing was learned about the receiver.

        `retry_after` is the receiver's Retry-After in seconds. Calls that ran beside each other count as one failure.
        """
        receiver = self._states[key]
        receiver.under_way -= 1
        if failed and receiver.failures <= begun:
            receiver.failures += 1
            pause = tries.probe_pause(receiver.failures, random.random(), retry_after)  # noqa: S311 - it spreads calls
            receiver.until = self._now() + pause
        elif failed is False:
            receiver.failures = 0
        if not receiver.failures and not receiver.under_way:
            del self._states[key]
        self._forget()

    def reset(self, key: K) -> None:
        """Have this receiver called now, whatever it answered before."""
        receiver = self._states.get(key)
        if receiver is not None:
            receiver.failures = 0

    def _forget(self) -> None:
        if len(self._states) > _REMEMBERED:
            idle = [key for key, receiver in self._states.items() if not receiver.under_way]
            for key in sorted(idle, key=lambda key: self._states[key].until)[: len(self._states) - _REMEMBERED]:
                del self._states[key]
