"""Submissions to communication and two-step tasks that end, or break off, as nastily as they can: no end of one of them
is the judge's error, and none makes an answer right that is not."""

from __future__ import annotations

import pytest

from judge.executor.slot.pipeline import Pipeline
from judge.languages.table import load_table
from tests.support import packages
from tests.support.sandbox import AS_ROOT, language_pool

pytestmark = AS_ROOT
TABLE = load_table()
YAML = "problem_format_version: 2025-09\nname: X\nuuid: 1\nlimits: {time_limit: 0.5, memory: 64, output: 1}\n"
TESTS = {"problem.yaml": YAML, "data/secret/1.in": "5\n", "data/secret/1.ans": "5\n"}


@pytest.fixture(scope="module")
def pool():
    with language_pool("ends") as pool:
        yield pool


@pytest.fixture
def judge(pool, work):
    def judge(files, source):
        pipeline = Pipeline(take=pool.take, tell=lambda _: None, table=TABLE, outputs=work)
        data = packages.load(packages.write(work / "package", {**TESTS, **files}), work / "blobs")
        return packages.judged(pipeline, packages.job(data, "python3", source, "full"))

    return judge


# Sends a number, expects twice of it, says more than fits into a pipe, and hears to the end.
MANAGER = """
import sys
out, heard = open(sys.argv[2], "wb", buffering=0), open(sys.argv[1], "rb")
out.write(b"21\\n")
said = heard.readline()
out.write(b"x" * 300000)
out.close()
heard.read()
print(float(said == b"42\\n"))
"""
PROCESS = """
import os, signal, sys, time
down, up = sys.argv[1:3]
heard, out = os.open(down, os.O_RDONLY), os.open(up, os.O_WRONLY)
def right():
    os.read(heard, 3)
    os.write(out, b"42\\n")
def forever(write, fd):
    while True:
        write(fd, b"x" * 65536)
"""


@pytest.mark.parametrize(
    ("end", "verdict"),
    [
        ("right()", "AC"),
        ("os.write(out, b'42\\n')", "AC"),
        ("right(); os.close(heard); os.close(out); time.sleep(0.1)", "AC"),
        ("right(); os.close(out); out = os.open(up, os.O_WRONLY); os.write(out, b'more')", "AC"),
        ("os.write(os.open(down, os.O_WRONLY), b'42\\n'); right()", "AC"),
        ("right(); os.fork() or forever(os.write, out)", "AC"),
        ("right(); os.fork() or time.sleep(60)", "AC"),
        ("os.write(out, b'\\xff\\0' * 1000 + b'42\\n')", "WA"),
        ("os.write(out, b'42')", "WA"),
        ("os.closerange(0, 99); time.sleep(0.1); os._exit(0)", "WA"),
        ("os._exit(0)", "WA"),
        ("right(); forever(os.write, out)", "TLE"),
        ("right(); time.sleep(60)", "TLE"),
        ("right(); os.kill(os.getpid(), signal.SIGSTOP)", "TLE"),
        ("right(); os.kill(0, signal.SIGKILL)", "RTE"),
        ("right(); os._exit(3)", "RTE"),
        ("right(); forever(os.write, 1)", "OLE"),
        ("right(); forever(os.write, 2)", "OLE"),
        ("right(); os.chroot('/')", "SV"),
    ],
)
def test_an_end_in_a_communication(judge, end, verdict):
    files = {"judge.yaml": "kind: communication\nio: fifo\n", "manager/manager.py": MANAGER}
    judged = judge(files, PROCESS + end)
    assert judged.verdict == verdict, judged.result.reason


STEPS = """
import os, signal, sys, time
name = sys.argv[2]
def forever(write, fd):
    while True:
        write(fd, b"x" * 65536)
def first():
    pipe, data = os.open(name, os.O_WRONLY), sys.stdin.buffer.read()
    FIRST
def second():
    pipe = os.open(name, os.O_RDONLY)
    SECOND
second() if int(sys.argv[1]) else first()
"""
SAY, PRINT = "os.write(pipe, data)", "print(os.read(pipe, 9).decode())"


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        (SAY, PRINT, "AC"),
        ("os.write(pipe, data * 100000)", "os._exit(print(5, flush=True) or 0)", "AC"),
        (f"time.sleep(0.1); {SAY}", "print(5, flush=True); os.close(pipe); time.sleep(0.2)", "AC"),
        ("os.close(pipe); p = os.open(name, os.O_WRONLY); os.write(p, data)", f"time.sleep(0.2); {PRINT}", "AC"),
        ("os.fork() or forever(os.write, pipe)", "print(5)", "AC"),
        ("os._exit(0)", PRINT, "WA"),
        ("os.close(pipe); time.sleep(0.1)", PRINT, "WA"),
        ("forever(os.write, pipe)", "time.sleep(60)", "TLE"),
        ("os.kill(os.getpid(), signal.SIGSTOP)", PRINT, "TLE"),
        (SAY, "os.read(os.open(name, os.O_RDWR), 9); os.read(os.open(name, os.O_RDWR), 9)", "TLE"),
        ("time.sleep(60)", "os.abort()", "RTE"),
        ("os.abort()", "time.sleep(60)", "RTE"),
        (f"{SAY}; os.close(pipe); time.sleep(0.2); os._exit(4)", PRINT, "RTE"),
        (SAY, "forever(os.write, 1)", "OLE"),
        ("forever(os.write, 1)", "print(5)", "OLE"),
        (f"{SAY}; os.chroot('/')", PRINT, "SV"),
    ],
)
def test_an_end_in_two_steps(judge, first, second, verdict):
    source = STEPS.replace("FIRST", first).replace("SECOND", second)
    judged = judge({"judge.yaml": "kind: two-steps\nsource: steps\n"}, source)
    assert judged.verdict == verdict, judged.result.reason
