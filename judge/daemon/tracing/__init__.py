"""Spans of what a submission goes through, for an OpenTelemetry receiver; nothing at all unless a config names one.

The trace of a submission is the id that it has anyway, in every log line of every daemon (messages.Trace). What a span
is called follows from the trace, the submission and the step, so each daemon knows the span that its own belongs to
without being told, and a span that is sent twice is the same one. Nothing of a submission's content is in a span, and
nobody's name.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import time
from typing import TYPE_CHECKING, Final

from judge.common.errors import ConfigError

if TYPE_CHECKING:
    from judge.daemon.tracing.exporter import Exporter, Kind

log = logging.getLogger(__name__)

Value = str | int | float | bool

_HEX: Final = re.compile(r"[0-9a-f]{32}")
_PARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")


_exporter: Exporter | None = None


def setup(service: str, instance: str, address: str | None) -> None:
    """Send this process's spans to an OTLP/HTTP receiver's address; None: make none. Called once, after the last fork.

    ConfigError when the packages for it are not installed.
    """
    global _exporter  # noqa: PLW0603 - one for the process, as of the logs
    if address is None:
        return
    # OpenTelemetry would log a line for each try while the receiver is away; one of ours says it.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    # Its own settings out of the environment are no part of a daemon's config.
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        del os.environ[name]
    try:
        from judge.daemon.tracing.exporter import Exporter  # noqa: PLC0415 - its library is an optional dependency

        _exporter = Exporter(service, instance, address)
    except ImportError as exc:
        msg = f"otlp is set, but {exc.name or 'OpenTelemetry'} is not installed; install judge[otel], or remove 'otlp'"
        raise ConfigError(msg) from exc
    log.info("spans go to %s", address)


def close() -> None:
    """Send the waiting spans, for a moment, and make no more."""
    global _exporter
    exporter, _exporter = _exporter, None
    if exporter is not None:
        exporter.close()


def enabled() -> bool:
    """Return whether spans are made. Where they are not, callers leave out the work for them."""
    return _exporter is not None


def now() -> int:
    """The time of day as spans have it, nanoseconds."""
    return time.time_ns()


def trace_number(trace: str) -> int:
    """The number of a trace: its id where that is one of W3C's, else one that follows from it. Never 0."""
    if _HEX.fullmatch(trace) and int(trace, 16):
        return int(trace, 16)
    return int.from_bytes(hashlib.sha256(trace.encode()).digest()[:16], "big") or 1


def span_number(trace: str, *key: object) -> int:
    """The number of a span: the same wherever it is asked for. `key` names the submission and the step. Never 0."""
    text = "\0".join([trace, *map(str, key)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") or 1


def fresh() -> int:
    """The number of a span that nobody else has to know."""
    return secrets.randbits(64) or 1


def caller_span(trace: str, traceparent: str) -> int | None:
    """The caller's span by the header of the request; None when the header is not about this trace."""
    match = _PARENT.fullmatch(traceparent)
    return int(match[2], 16) or None if match and match[1] == trace else None


def emit(
    name: str,
    trace: str,
    span: int,
    begin: int,
    *,
    parent: int | None = None,
    end: int | None = None,
    kind: Kind = "INTERNAL",
    **attributes: Value | None,
) -> None:
    """Tell of a step that is over; `begin` and `end` are nanoseconds of wall time, without an end it is now.

    Attributes are told as `judge.NAME`, those that are None are left out; `failed` marks the span as an error. Without
    a receiver, or a trace, nothing happens. Nothing is raised and nothing is waited for.
    """
    if _exporter is None or not trace:
        return
    further: dict[str, Value] = {
        (key if key == "failed" else f"judge.{key}"): value for key, value in attributes.items() if value is not None
    }
    further["judge.trace"] = trace
    try:
        ids = (trace_number(trace), span, parent)
        _exporter.emit(ids, (begin, now() if end is None else end), name, kind, further)
    except Exception as exc:  # noqa: BLE001 - what people look at must not stop what is looked at
        log.warning("a span is lost: %s", exc)
