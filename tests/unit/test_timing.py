"""The arithmetic of inferred time limits."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.problems.metadata import ProblemYaml
from judge.problems.timing import Margins, margins, slowest

times = st.decimals(min_value=0, max_value=120, places=3).map(float)
multipliers = st.decimals(min_value=1, max_value=20, places=2).map(float)
resolutions = st.sampled_from([0.001, 0.01, 0.1, 0.25, 0.3, 0.5, 1.0, 2.0, 3.0])


@given(times, multipliers, resolutions)
def test_the_limit_is_the_smallest_multiple_that_leaves_the_margin(slow: float, factor: float, step: float) -> None:
    limit = Decimal(repr(Margins(factor, 1.5, step).limit(slow)))
    resolution, needed = Decimal(repr(step)), Decimal(repr(slow)) * Decimal(repr(factor))
    assert limit % resolution == 0
    assert limit >= needed
    assert limit > 0
    assert limit == resolution or limit - resolution < needed


@pytest.mark.parametrize(
    ("yaml", "expected"),
    [
        ({}, Margins(5, 2, 1)),
        ({"limits": {"time_multiplier": 3, "time_safety_margin": 1.5}}, Margins(3, 1.5, 1)),
        ({"limits": {"time_multipliers": {"ac_to_time_limit": 4}}}, Margins(4, 1.5, 1)),
        ({"problem_format_version": "legacy-icpc", "limits": {"time_resolution": 0.5}}, Margins(5, 2, 0.5)),
        ({"problem_format_version": "2025-09", "name": "x"}, Margins(2, 1.5, 1)),
        (
            {
                "problem_format_version": "2025-09",
                "name": "x",
                "limits": {"time_multipliers": {"time_limit_to_tle": 3}, "time_resolution": 0.1},
            },
            Margins(2, 3, 0.1),
        ),
    ],
)
def test_margins_by_format(yaml: dict[str, Any], expected: Margins) -> None:
    assert margins(ProblemYaml.model_validate(yaml)) == expected


@pytest.mark.parametrize(
    ("limits", "limit_by", "slow_by"),
    [
        ({}, "by default", "by default"),
        ({"time_multiplier": 3}, "time_multiplier", "by default"),
        ({"time_safety_margin": 3}, "by default", "time_safety_margin"),
        ({"time_multipliers": {"ac_to_time_limit": 4}}, "time_multipliers.ac_to_time_limit", "by default"),
        ({"time_multipliers": {"time_limit_to_tle": 4}}, "by default", "time_multipliers.time_limit_to_tle"),
    ],
)
def test_margins_name_their_key_of_the_package(limits: dict[str, Any], limit_by: str, slow_by: str) -> None:
    for head in ({}, {"problem_format_version": "2025-09", "name": "x"}):
        result = margins(ProblemYaml.model_validate({**head, "limits": limits}))
        assert (result.limit_by, result.slow_by) == (limit_by, slow_by)


def test_what_is_slow_and_what_is_not() -> None:
    assert slowest({"b": 1.0, "a": 1.0, "c": 0.5}) == ("a", 1.0)
    assert Margins(2, 1.5, 1).slow(3) == 4.5
