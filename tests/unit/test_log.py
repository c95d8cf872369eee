"""One record is one line, whoever's words are in it."""

from __future__ import annotations

import logging

import pytest

from judge.log import _Formatter


def formatted(message: str, *, journal: bool, fault: Exception | None = None) -> list[str]:
    found = (type(fault), fault, None) if fault else None
    record = logging.LogRecord("judge.x", logging.INFO, __file__, 1, "executor drains: %s", (message,), found)
    return _Formatter(journal=journal).format(record).split("\n")


@pytest.mark.parametrize("journal", [False, True])
def test_nobody_forges_a_line(journal):
    (line,) = formatted("a\n<3>judge.x: forged\x1b[2J\r", journal=journal)
    assert line.endswith(r"judge.x: executor drains: a\n<3>judge.x: forged\x1b[2J\r")
    assert line.startswith("<6>") == journal


@pytest.mark.parametrize("journal", [False, True])
def test_a_traceback_has_its_lines(journal):
    first, *rest = formatted("a", journal=journal, fault=ValueError("why"))
    assert first.endswith("executor drains: a")
    assert rest == [("<6>" if journal else "") + "ValueError: why"]
