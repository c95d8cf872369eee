"""The fuzzers' targets on their corpus, on everything that they once found, and for a moment on more."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.__main__ import known
from tests.fuzz.foreign import BASES
from tests.fuzz.targets import ALL, CORPUS, FILE, TARGETS, seeds

PAGE = Path(__file__).resolve().parents[2] / "docs/fuzzing.md"


def test_the_page_has_all_targets_and_no_others():
    rows = re.findall(r"^\| (`[^|]+`) \|", PAGE.read_text(), re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert sorted(names) == sorted(known())
    assert {path.name for path in CORPUS.iterdir()} == set(ALL)


def test_check_is_fed_packages_of_every_format():
    formats = {data.partition(FILE)[0].decode("utf-8", "replace") for data in seeds("check")}
    assert set(BASES) <= formats


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
