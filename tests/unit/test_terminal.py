"""Commands in terminals, pipes and files of all kinds: no traceback, and the exit code is that of the answer."""

import atexit
import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

PROGRAM = """
import sys
from typing import Annotated
from pydantic import Field, TypeAdapter
from judge.common import terminal
from judge.ctl import show
from judge.common.errors import UsageError

def command():
    terminal.settle(14)
    what = sys.argv[1]
    if what == "words":
        show.out.say("naïve · é \\u4e2d")
    elif what == "much":
        for _ in range(20000):
            show.out.say("x" * 100)
    elif what == "json":
        show.print_data(show.OutputFormat.JSON, {"a": "é" * 100000})
    elif what == "error":
        raise UsageError("näive · is wrong")
    elif what == "name":
        show.out.say(sys.argv[2])
    elif what == "path":
        sys.argv[2].encode()
    elif what == "model":
        TypeAdapter(Annotated[str, Field(max_length=9)]).validate_python(sys.argv[2])
    elif what == "unforeseen":
        raise ZeroDivisionError("ouch")
    raise SystemExit(14)

sys.exit(terminal.guard("test", command))
"""
PLAIN = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])}
LOCALES = [
    {},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"PYTHONIOENCODING": "latin-1"},
    {"PYTHONIOENCODING": "cp1252:strict"},
]


@functools.cache
def _program() -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".py", encoding="utf-8", delete=False) as file:
        file.write(PROGRAM)
    atexit.register(os.unlink, file.name)
    return file.name


def run(*words: str | bytes, env: dict[str, str] | None = None, **streams) -> subprocess.CompletedProcess[bytes]:
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.run(
        [sys.executable, _program(), *words], env={**PLAIN, **(env or {})}, timeout=60, check=False, **streams
    )


@pytest.mark.parametrize("env", LOCALES, ids=str)
@pytest.mark.parametrize(("case", "code"), [("words", 14), ("json", 14), ("error", 2), ("unforeseen", 1)])
def test_any_encoding(env, case, code):
    process = run(case, env=env)
    assert process.returncode == code, process
    assert b"Traceback" not in process.stderr
    assert (code == 14) == (not process.stderr)


@pytest.mark.parametrize("env", LOCALES, ids=str)
def test_a_name_that_is_no_utf_8(env):
    process = run("name", b"a\xff.py", env=env)
    assert (process.returncode, process.stderr) == (14, b"")
    assert process.stdout.startswith(b"a") and process.stdout.rstrip().endswith(b".py")


@pytest.mark.parametrize("env", LOCALES, ids=str)
@pytest.mark.parametrize("case", ["path", "model"])
def test_a_name_that_has_to_be_utf_8_is_said(case, env):
    process = run(case, b"a\xff", env=env)
    assert process.returncode == 2
    assert process.stderr.startswith(b"test: 'a") and process.stderr.endswith(
        b"is not UTF-8; rename it, or correct it\n"
    ), process


@pytest.mark.parametrize("case", ["words", "much", "json"])
def test_a_full_disk_is_one_sentence_and_an_exit_code_of_its_own(case):
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        process = run(case, stdout=full)
    assert process.returncode == 5
    assert process.stderr.count(b"\n") == 1 and b"No space left on device" in process.stderr, process.stderr


def test_a_full_disk_for_errors_changes_nothing():
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        assert run("error", stderr=full).returncode == 2
        assert run("words", stderr=full).returncode == 14


@pytest.mark.parametrize("case", ["words", "much", "json"])
def test_a_pipe_that_nobody_reads_keeps_the_verdicts_exit_code(case):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        process = run(case, stdout=writing)
    finally:
        os.close(writing)
    assert (process.returncode, process.stderr) == (14, b"")


@pytest.mark.parametrize("closed", ["1", "2"])
@pytest.mark.parametrize(("case", "code"), [("words", 14), ("error", 2)])
def test_a_stream_that_is_closed_from_the_start(closed, case, code):
    shell = f'exec {closed}>&-; exec "$@"'
    process = subprocess.run(
        ["/bin/bash", "-c", shell, "sh", sys.executable, _program(), case],
        env=PLAIN, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert process.returncode == code
    assert b"Traceback" not in process.stderr


COMMANDS = [
    ["-m", "judge.ctl.main", "--help"],
    ["-m", "judge.ctl.main", "contexts"],
    ["-m", "judge.cli", "--help"],
    ["-m", "judge.languages", "--release", "bookworm"],
    ["-m", "judge.backup", "--help"],
    ["-m", "judge.deploy.bundle", "--help"],
    ["-m", "judge.deploy.recovery", "--help"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[1])
def test_every_command(command, tmp_path):
    env = {**PLAIN, "HOME": str(tmp_path), "PYTHONIOENCODING": "ascii"}
    run = functools.partial(
        subprocess.run, [sys.executable, *command], stderr=subprocess.PIPE, env=env, timeout=60, check=False
    )
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        process = run(stdout=full)
    assert b"Traceback" not in process.stderr, process.stderr
    if "--help" in command or "judge.languages" in command:
        assert process.returncode == 5 and b"No space left on device" in process.stderr, process
    reading, writing = os.pipe()
    os.close(reading)
    process = run(stdout=writing)
    os.close(writing)
    assert b"Traceback" not in process.stderr and b"BrokenPipe" not in process.stderr, process.stderr
