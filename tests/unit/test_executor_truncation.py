"""Excerpts are bounded whatever programs print, and inputs are sealed."""

import errno
import hashlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.executor.slot import truncation
from judge.executor.table import REPORT_BYTES
from judge.model.messages import TestResult, Verdict
from judge.sandbox.types import RunOutcome


def outcome(out: bytes = b"", err: bytes = b"") -> RunOutcome:
    fds = []
    for data in (out, err):
        fd = os.memfd_create("test")
        os.write(fd, data)
        fds.append(fd)
    return RunOutcome(0, None, frozenset(), 0.0, 0.0, 0, 1, fds[0], fds[1])


@given(st.binary(max_size=3000), st.binary(max_size=3000), st.integers(0, 20_000))
def test_the_budget_holds(out, err, total):
    with outcome(out, err) as run:
        first, second = truncation.printed(run)
    assert (first, second) == (truncation.text(out[:1024]), truncation.text(err[:1024]))
    budget = truncation.OutputBudget(total, total)
    for verdict in (Verdict.AC, Verdict.WA):
        used = 0
        for _ in range(4):
            test = TestResult(name="1", verdict=verdict, output=first, error=second, message=first, feedback=second)
            budget.trim(test)
            texts = (test.output, test.error, test.message, test.feedback)
            used += sum(truncation.json_size(text) for text in texts if text)
            assert (test.output, test.error) in {(first, second), ("", "")}, "both or none"
        assert used <= total


def test_thousands_of_failing_tests_fit_into_a_report():
    budget = truncation.OutputBudget()
    noise = "\x01" * truncation.SHOWN
    tests = [TestResult(name=f"{n}", verdict=Verdict.WA, output=noise, error=noise) for n in range(10_000)]
    for test in tests:
        budget.trim(test)
    assert tests[0].output == noise
    assert sum(len(test.model_dump_json()) for test in tests) < REPORT_BYTES


def test_build_log():
    with outcome(b"note\n", b"error\n") as run:
        assert truncation.build_log(run, str.upper) == "ERROR\n\nNOTE\n"
    with outcome(b"", b"\xff" * truncation.LOG * 5) as run:
        log = truncation.build_log(run, lambda log: log * 2)
        assert log.endswith(f"… cut after {truncation.LOG} characters\n")
        assert len(log) < truncation.LOG + 100


def test_clip():
    assert truncation.clip("abc", 3) == "abc"
    assert truncation.clip("abcd", 3) == "ab…"


def test_digest():
    data = os.urandom(3 << 20)
    with outcome(data) as run:
        assert truncation.digest(run.stdout, len(data)) == hashlib.sha256(data).hexdigest() == truncation.sha256(data)
        assert truncation.digest(run.stdout, len(data) + 10) == truncation.sha256(data), "shorter than told"


def test_sealed(work):
    (work / "blob").write_bytes(b"x" * 100_000)
    for source, expected in ((b"abc", b"abc"), (work / "blob", b"x" * 100_000), (b"", b"")):
        fd = truncation.sealed(source)
        try:
            assert os.read(fd, 200_000) == expected
            with pytest.raises(OSError, match="not permitted") as caught:
                os.write(fd, b"y")
            assert caught.value.errno == errno.EPERM
        finally:
            os.close(fd)
    with pytest.raises(FileNotFoundError):
        truncation.sealed(work / "missing")
