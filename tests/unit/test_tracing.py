"""Spans for a receiver: what they are called, and that nothing waits for a receiver or needs one."""

import builtins
import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common import clock
from judge.common.errors import ConfigError
from judge.daemon import tracing
from judge.daemon.tracing import exporter
from tests.support.servers import free_port, wait_for

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A receiver that does not answer."""
    monkeypatch.setattr(exporter, "_TIMEOUT", 0.1)
    monkeypatch.setattr(exporter, "_LAST", 0.05)
    before = set(threading.enumerate())
    tracing.setup("judicator", "j1", f"http://127.0.0.1:{free_port()}/v1/traces")
    yield
    tracing.close()
    # Threads that still try to send would take memory and random numbers from the tests that come next.
    wait_for(lambda: set(threading.enumerate()) <= before, 120, "the end of those who send")


@given(st.text(min_size=1), st.lists(st.text(max_size=5), max_size=3))
def test_numbers_follow_from_their_keys(trace: str, key: list[str]) -> None:
    assert 0 < tracing.trace_number(trace) < 2**128
    assert tracing.trace_number(trace) == tracing.trace_number(trace)
    assert 0 < tracing.span_number(trace, *key) < 2**64
    assert tracing.span_number(trace, *key, "1") != tracing.span_number(trace, *key, "2")


def test_a_trace_of_w3c_keeps_its_number() -> None:
    assert tracing.trace_number(TRACE) == int(TRACE, 16)
    assert tracing.trace_number("0" * 32), "which is no trace there"
    assert tracing.caller_span(TRACE, f"00-{TRACE}-b7ad6b7169203331-01") == 0xB7AD6B7169203331
    assert tracing.caller_span("another", f"00-{TRACE}-b7ad6b7169203331-01") is None
    assert tracing.caller_span(TRACE, f"00-{TRACE}-0000000000000000-01") is None
    assert tracing.caller_span(TRACE, "nonsense") is None


def test_without_a_receiver_nothing_is_loaded_and_nothing_happens() -> None:
    tracing.setup("judicator", "j1", None)
    assert not tracing.enabled()
    tracing.emit("x", TRACE, 1, tracing.now())
    tracing.close()


def test_a_receiver_that_is_away_is_not_waited_for(away: None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    begin = clock.monotonic()
    for number in range(10_000):
        tracing.emit("x", TRACE, number + 1, tracing.now(), parent=None, verdict="AC", failed=False, nothing=None)
    assert clock.monotonic() - begin < 10
    tracing.emit("x", "", 1, tracing.now())
    tracing.emit("x", TRACE, -1, tracing.now())
    begin = clock.monotonic()
    tracing.close()
    assert clock.monotonic() - begin < 1, "the end waits for the last spans no longer than it should"
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) < 10, "no line for each span"


def test_what_is_missing_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError("none", name="opentelemetry")
        return real_import(name, *arguments, **options)

    for name in [name for name in sys.modules if name.startswith(("opentelemetry", "judge.daemon.tracing.exporter"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"opentelemetry is not installed; install judge\[otel\]"):
        tracing.setup("judicator", "j1", "http://127.0.0.1:1/v1/traces")
