"""Failed log-ins by address: some are free, then each costs time. Not thread-safe."""

from __future__ import annotations

from collections import OrderedDict

_MOST_ADDRESSES = 10_000


class AddressThrottle:
    """Addresses that failed, and who has come in from where: they are not shut out when their neighbours fail."""

    def __init__(self, burst: int, seconds: float) -> None:
        """`burst` failures at once are free; `seconds` pay for one."""
        self._burst, self._seconds = burst, seconds
        self._debts: OrderedDict[str, tuple[float, float]] = OrderedDict()  # address: failures, as of when
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def wait(self, address: str, now: float) -> float:
        """Seconds until this address may try again; 0 when it may now."""
        return max(0.0, (self._debt(address, now) - self._burst + 1) * self._seconds)

    def failed(self, address: str, now: float) -> None:
        """Somebody there sent a token that is not known, or none."""
        self._debts[address] = (min(self._debt(address, now) + 1, self._burst), now)
        self._debts.move_to_end(address)
        if len(self._debts) > _MOST_ADDRESSES:
            self._debts.popitem(last=False)

    def forgive(self, address: str, now: float) -> None:
        """Take back a failure that was none."""
        self._debts[address] = (max(0.0, self._debt(address, now) - 1), now)

    def came_in(self, address: str, fingerprint: str) -> None:
        """A token was right."""
        self._known[address, fingerprint] = None
        self._known.move_to_end((address, fingerprint))
        if len(self._known) > _MOST_ADDRESSES:
            self._known.popitem(last=False)

    def knows(self, address: str, fingerprint: str) -> bool:
        """Return whether this token has been right from this address before."""
        return (address, fingerprint) in self._known

    def _debt(self, address: str, now: float) -> float:
        count, counted_at = self._debts.get(address, (0.0, now))
        return max(0.0, count - (now - counted_at) / self._seconds)
