"""The controller's record of removed hosts: what a run that was cut off finds, and what a later one does not."""

from pathlib import Path

import pytest

from judge.common.pki.authority import CaError
from judge.common.pki.removed import FILE, Removed, RemovedName


def test_a_replacement_is_under_way_until_it_is_settled(tmp_path: Path) -> None:
    record = Removed(tmp_path)
    before = record.note("e1", replacing=True)
    record.returned("e1")
    assert record.read() == {"e1": RemovedName(before, back=True, replacing=True)}
    assert record.settled("e1")
    assert record.read() == {"e1": RemovedName(before, back=True, replaced=True)}
    assert not record.settled("e1")
    assert not record.settled("e2")


def test_a_removal_ends_a_replacement(tmp_path: Path) -> None:
    record = Removed(tmp_path)
    record.note("e1", replacing=True)
    before = record.note("e1")
    assert record.read() == {"e1": RemovedName(before)}
    record.note("e1", replacing=True)
    assert record.settled("e1")
    before = record.note("e1")
    assert record.read() == {"e1": RemovedName(before)}, "and what is known of one that has ended"


def test_a_record_of_before_replacements_is_read(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("e1: {before: 1.5, back: true}\n")
    assert Removed(tmp_path).read() == {"e1": RemovedName(1.5, back=True)}


@pytest.mark.parametrize("text", ["e1: 3", "- e1", "e1: {back: true}", "e1: {before: x, back: true}", "{"])
def test_a_broken_record_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(CaError, match="is no record of removed hosts; restore it from a backup"):
        Removed(tmp_path).read()
