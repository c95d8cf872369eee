"""The slices of long groups: together they are the whole group, and every group exists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.lab import ROOT
from tests.tiers import LONG_GROUPS, group_of, in_slice


@given(st.sampled_from(sorted(LONG_GROUPS)), st.integers(0, 400), st.integers(0, 16**11))
def test_each_test_runs_in_exactly_one_of_the_slices(group: str, index: int, first: int) -> None:
    commits = [f"{first + step:012x}" for step in range(LONG_GROUPS[group])]
    assert sum(in_slice(group, index, commit) for commit in commits) == 1


@pytest.mark.parametrize("group", LONG_GROUPS)
def test_every_group_has_tests(group: str) -> None:
    path, _, test = group.partition("::")
    assert (ROOT / "tests" / path).exists()
    assert not test or f"def {test}" in (ROOT / "tests" / path).read_text()


def test_the_longest_name_decides_the_group() -> None:
    assert group_of("tests/integration/test_demo.py::test_x") == "integration/test_demo.py"
    assert group_of("tests/unit/test_docs.py::test_help") is None
    assert group_of("tests/hostile/test_hostile.py::test_x[1]") == "hostile/"
