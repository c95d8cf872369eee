"""The lines of a benchmark: every figure with its target, and how many targets were missed."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass
class Ledger:
    """Prints each line as soon as it is known."""

    missed: list[str] = field(default_factory=list)

    def line(self, label: str, value: str, target: str, *, ok: bool) -> None:
        """One figure and whether it meets its target."""
        print(f"{label:<68} {value:>32}   {target:<18} {'ok' if ok else 'MISSED'}", flush=True)
        if not ok:
            self.missed.append(label)

    def note(self, label: str, value: str) -> None:
        print(f"{label:<68} {value:>32}", flush=True)


def timed(action: Callable[[], object]) -> float:
    start = time.monotonic()
    action()
    return time.monotonic() - start


def percentile(values: Sequence[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * int(percent) // 100) - 1))]


def spread(values: Sequence[float]) -> float:
    return statistics.stdev(values) / statistics.mean(values)
