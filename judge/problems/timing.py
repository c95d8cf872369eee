"""A time limit inferred from submissions: the arithmetic of the package format, as pure functions (docs/problems.md).

The limit is the smallest multiple of the package's resolution that leaves the slowest accepted submission its margin;
submissions that must be too slow have to be so by another margin. `judgectl problem import` brings the times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from typing import Final

from judge.problems.metadata import ProblemYaml, Section

# CPU seconds of a test while there is no limit yet. With the legacy format's multiplier 5 more cannot become a limit.
PROVISIONAL: Final = 120.0
# The highest limit that there is (judge.model.messages.Limits).
MOST: Final = 600.0
# The origin of a margin that the package says nothing of.
DEFAULT: Final = "by default"


@dataclass(frozen=True)
class Margins:
    """The factors that a package asks for: `to_limit` times the slowest accepted time, `to_slow` times the limit.

    `resolution` is in seconds: the limit is a multiple of it. `limit_by` and `slow_by` are the keys that say the
    factors, for people.
    """

    to_limit: float
    to_slow: float
    resolution: float
    limit_by: str = field(default=DEFAULT, compare=False)
    slow_by: str = field(default=DEFAULT, compare=False)

    def limit(self, slowest: float) -> float:
        """The limit in seconds for a slowest accepted submission of so many; at least one resolution.

        Rounded up, as problemtools and BAPCtools do; in decimals, so that 0.3 s of 0.1 s are three of them.
        """
        resolution = Decimal(repr(self.resolution))
        exact_limit = Decimal(repr(slowest)) * Decimal(repr(self.to_limit))
        steps = (exact_limit / resolution).to_integral_value(ROUND_CEILING)
        return float(max(steps, Decimal(1)) * resolution)

    def slow(self, limit: float) -> float:
        """The CPU seconds that a submission has to exceed which must be too slow for this limit."""
        return float(Decimal(repr(limit)) * Decimal(repr(self.to_slow)))


def margins(yaml: ProblemYaml) -> Margins:
    """The margins of a package, by the keys of its format or by those of another that it gives nevertheless."""
    limits = yaml.limits
    own_keys = {"time_multiplier", "time_safety_margin"} & limits.model_fields_set
    if own_keys or (yaml.legacy and "time_multipliers" not in limits.model_fields_set):
        return Margins(
            limits.time_multiplier,
            limits.time_safety_margin,
            limits.time_resolution,
            _setting_text(limits, "time_multiplier"),
            _setting_text(limits, "time_safety_margin"),
        )
    multipliers = limits.time_multipliers
    return Margins(
        multipliers.ac_to_time_limit,
        multipliers.time_limit_to_tle,
        limits.time_resolution,
        _setting_text(multipliers, "ac_to_time_limit", "time_multipliers."),
        _setting_text(multipliers, "time_limit_to_tle", "time_multipliers."),
    )


def _setting_text(section: Section, key: str, prefix: str = "") -> str:
    return prefix + key if key in section.model_fields_set else DEFAULT


def slowest(times: Mapping[str, float]) -> tuple[str, float]:
    """The submission with the largest CPU time, the first by name of several; ValueError when there is none."""
    return max(sorted(times.items()), key=lambda item: item[1])
