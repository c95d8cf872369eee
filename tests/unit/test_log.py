"""One record is one line, whoever's words are in it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest

from judge.daemon.log import _Formatter, _JsonFormatter


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


@pytest.mark.parametrize("journal", [False, True])
def test_a_line_of_json_has_the_trace_and_the_submission_in_fields(journal):
    record = logging.LogRecord(
        "judge.x", logging.WARNING, __file__, 1, "%s", (f"task {'a' * 24} ends\n, trace t-1",), None
    )
    line = _JsonFormatter(journal=journal).format(record)
    assert line.startswith("<4>{") == journal and "\n" not in line
    found = json.loads(line.removeprefix("<4>"))
    assert found.pop("time").endswith("Z")
    said = f"task {'a' * 24} ends\\n, trace t-1"
    assert found == {"level": "warning", "logger": "judge.x", "message": said, "trace": "t-1", "task": "a" * 24}


def test_a_traceback_is_a_field():
    fault = ValueError("why")
    record = logging.LogRecord("judge.x", logging.ERROR, __file__, 1, "a", (), (ValueError, fault, None))
    assert json.loads(_JsonFormatter(journal=False).format(record))["traceback"] == "ValueError: why"


UNCAUGHT = """
import threading, warnings
from judge.daemon import log, main as daemon

def run(config):
    threading.Thread(target=lambda: 1 / 0).start()
    warnings.warn("is old")
    raise ValueError("nobody catches it")

daemon.begin = lambda *_: log.setup("info", form="json")
daemon.run = run
daemon.start("boot", None)
"""


def test_what_nobody_has_caught_is_a_line_like_any_other() -> None:
    done = subprocess.run([sys.executable, "-c", UNCAUGHT], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    told = [json.loads(line) for line in done.stderr.splitlines()]
    assert sorted(one["level"] for one in told) == ["critical", "critical", "warning"]
    last = [one["traceback"].splitlines()[-1] for one in told if "traceback" in one]
    assert sorted(last) == ["ValueError: nobody catches it", "ZeroDivisionError: division by zero"]
