"""Spans on their way to a receiver, by OpenTelemetry's own library: loaded only where a config names a receiver."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Final, Literal

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

import judge

Kind = Literal["INTERNAL", "SERVER", "CLIENT"]

# Spans that wait for the receiver; further ones are lost while it does not answer. Sent once in so many milliseconds.
_QUEUE: Final = 4096
_BATCH: Final = 512
_EVERY: Final = 1000
_TIMEOUT: Final = 5.0
_LAST: Final = 3.0


class Exporter:
    """The sender of one process, with a thread of its own and a queue that is bounded."""

    def __init__(self, service: str, instance: str, address: str) -> None:
        """`address` is the receiver's; nothing is sent before the first span."""
        self._scope = InstrumentationScope("judge", judge.__version__)
        self._resource = Resource(
            {
                "service.name": f"judge-{service}",
                "service.instance.id": instance,
                "service.version": judge.__version__,
            }
        )
        self._processor = BatchSpanProcessor(
            OTLPSpanExporter(endpoint=address, timeout=_TIMEOUT),
            max_queue_size=_QUEUE,
            schedule_delay_millis=_EVERY,
            max_export_batch_size=_BATCH,
        )

    def _context(self, trace_id: int, span_id: int) -> Any:
        return trace.SpanContext(trace_id, span_id, is_remote=False, trace_flags=trace.TraceFlags(1))

    def emit(
        self, ids: tuple[int, int, int | None], times: tuple[int, int], name: str, kind: Kind, attributes: Any
    ) -> None:
        """Queue a finished span: (trace, span, parent), (begin, end) in nanoseconds of wall time."""
        trace_id, span_id, parent = ids
        failed = bool(attributes.pop("failed", False))
        self._processor.on_end(
            ReadableSpan(
                name,
                context=self._context(trace_id, span_id),
                parent=None if parent is None else self._context(trace_id, parent),
                resource=self._resource,
                attributes=attributes,
                kind=trace.SpanKind[kind],
                status=trace.Status(trace.StatusCode.ERROR if failed else trace.StatusCode.UNSET),
                start_time=times[0],
                end_time=max(times),
                instrumentation_scope=self._scope,
            )
        )

    def close(self) -> None:
        """Send the waiting spans, for a moment at most: a receiver that is away must not hold up a daemon's end."""
        last = threading.Thread(target=self._send_and_end, name="last spans", daemon=True)
        last.start()
        last.join(_LAST)

    def _send_and_end(self) -> None:
        with contextlib.suppress(Exception):
            self._processor.shutdown()  # type: ignore[no-untyped-call]
