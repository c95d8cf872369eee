"""Numbers and sentences as people see them."""

import datetime
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError

from judge.common.text import decimal, suggestion, unequal
from judge.model.base import first_fault
from judge.model.messages import TaskId


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


class _Sample(BaseModel):
    count: int = Field(default=1, ge=0, le=9)
    name: str = Field(default="a", min_length=1, max_length=3)
    task: TaskId = "0" * 24
    kind: Literal["a", "b"] = "a"
    items: list[int] = Field(default=[], max_length=1)
    moment: datetime.datetime | None = None
    speed: float = 1.0
    on: bool = True


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"count": -1}, "count: expected at least 0"), ({"count": 10}, "count: expected at most 9"),
        ({"count": "x"}, "count: expected an integer"), ({"count": 1.5}, "count: expected an integer"),
        ({"name": ""}, "name: expected at least 1 character"),
        ({"name": "long"}, "name: expected at most 3 characters"),
        ({"name": 7}, "name: expected a text"), ({"task": "x"}, "task: expected an id of 24 hexadecimal digits"),
        ({"kind": "c"}, "kind: expected 'a' or 'b'"), ({"items": [1, 2]}, "items: expected at most 1 item"),
        ({"items": 5}, "items: expected a list"), ({"speed": "fast"}, "speed: expected a number"),
        ({"on": "maybe"}, "on: expected true or false"), ({"moment": "soon"}, "moment: expected a valid datetime"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_told_in_plain_words(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        _Sample(**fields)
    assert str(first_fault(caught.value)).startswith(sentence)


def test_a_name_is_compared_with_those_that_are_there() -> None:
    assert suggestion("helo", ["world", "hello"], "look") == "did you mean 'hello'?"
    assert suggestion("helo", ["world"], "look") == suggestion("helo", [], "look") == "look"
