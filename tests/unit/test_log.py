"""One record is one line, whoever's words are in it."""

import json
import logging
import subprocess
import sys

import pytest

from judge.daemon.log import _Formatter, _JsonFormatter


def formatted(message: str, *, journal: bool, fault: Exception | None = None) -> list[str]:
    exc_info = (type(fault), fault, None) if fault else None
    record = logging.LogRecord("judge.x", logging.INFO, __file__, 1, "executor drains: %s", (message,), exc_info)
    return _Formatter(journal=journal).format(record).split("\n")


@pytest.mark.parametrize("journal", [False, True])
def test_a_message_forges_no_line(journal):
    (line,) = formatted("a\n<3>judge.x: forged\x1b[2J\r", journal=journal)
    assert line.endswith(r"judge.x: executor drains: a\n<3>judge.x: forged\x1b[2J\r")
    assert line.startswith("<6>") == journal


@pytest.mark.parametrize("journal", [False, True])
def test_a_traceback_has_its_lines(journal):
    first, *lines = formatted("a", journal=journal, fault=ValueError("why"))
    assert first.endswith("executor drains: a")
    assert lines == [("<6>" if journal else "") + "ValueError: why"]


@pytest.mark.parametrize("journal", [False, True])
def test_a_line_of_json_has_the_trace_and_the_submission_in_fields(journal):
    record = logging.LogRecord(
        "judge.x", logging.WARNING, __file__, 1, "%s", (f"task {'a' * 24} ends\n, trace t-1",), None
    )
    line = _JsonFormatter(journal=journal).format(record)
    assert line.startswith("<4>{") == journal and "\n" not in line
    fields = json.loads(line.removeprefix("<4>"))
    assert fields.pop("time").endswith("Z")
    message = f"task {'a' * 24} ends\\n, trace t-1"
    assert fields == {"level": "warning", "logger": "judge.x", "message": message, "trace": "t-1", "task": "a" * 24}


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


def test_uncaught_exceptions_are_log_lines() -> None:
    process = subprocess.run([sys.executable, "-c", UNCAUGHT], capture_output=True, text=True, check=False)
    assert process.returncode == 1
    records = [json.loads(line) for line in process.stderr.splitlines()]
    assert sorted(record["level"] for record in records) == ["critical", "critical", "warning"]
    last = [record["traceback"].splitlines()[-1] for record in records if "traceback" in record]
    assert sorted(last) == ["ValueError: nobody catches it", "ZeroDivisionError: division by zero"]
