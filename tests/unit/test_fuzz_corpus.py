"""The fuzzers' targets on their corpus, on everything that they once found, and for a moment on more."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, seeds


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_corpus(target: str):
    for data in seeds(target):
        TARGETS[target](data)


@pytest.mark.parametrize("target", sorted(TARGETS))
@given(st.data())
@settings(max_examples=25)
def test_a_little_more(target: str, data: st.DataObject):
    start = data.draw(st.sampled_from(seeds(target)))
    place, length = data.draw(st.integers(0, len(start))), data.draw(st.integers(0, 30))
    TARGETS[target](start[:place] + data.draw(st.binary(max_size=30)) + start[place + length :])
