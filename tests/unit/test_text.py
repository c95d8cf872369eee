"""Numbers as people see them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common.text import decimal, unequal


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (-0.0, "0"), (100, "100"), (100.0, "100"), (1234567.0, "1234567"), (1234568.0, "1234568"),
        (99.99999, "99.99999"), (99.999999999, "99.999999999"), (1e6, "1000000"), (1e15, "1000000000000000"),
        (0.1, "0.1"), (1 / 3, "0.333333333"), (-2.5, "-2.5"), (1e-10, "0"), (1e16, "1" + 16 * "0"),
        (12345678901234567890.0, "12345678901234567000"), (1e300, "1" + 300 * "0"), (-1e22, "-1" + 22 * "0"),
        (float("inf"), "inf"), (142857142.85714287, "142857142.85714287"),
    ],
)  # fmt: skip
def test_a_score_is_shown_in_full(value, text):
    assert decimal(value) == text


@given(st.decimals(min_value="-1e9", max_value="1e9", places=6))
def test_a_score_with_six_decimals_is_read_back(value):
    assert float(decimal(float(value))) == float(value)


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=3))
def test_numbers_that_differ_look_different(values):
    assert len(set(unequal(*values))) == len(set(values))
