"""A receiver of OTLP/HTTP, as a collector is one: keeps the spans that daemons send."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import threading
from collections.abc import Iterator

from judge.etcd import wire  # noqa: F401 - the first to import protobuf, whose implementation it chooses

# isort: split
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Receiver(http.server.ThreadingHTTPServer):
    """Takes spans as a collector does, and keeps them by the service that they are from."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.spans: list[tuple[str, Span]] = []
        self.bodies: list[bytes] = []
        super().__init__((host, port), _Handler)

    @property
    def address(self) -> str:
        """What a config names."""
        return "http://{}:{}/v1/traces".format(*self.server_address[:2])

    def named(self, name: str) -> list[tuple[str, Span]]:
        """Its spans of this name."""
        return [(service, span) for service, span in self.spans if span.name == name]


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        assert self.path == "/v1/traces"
        told = ExportTraceServiceRequest.FromString(body)
        assert isinstance(self.server, Receiver)
        self.server.bodies.append(body)
        for resource in told.resource_spans:
            service = {one.key: one.value.string_value for one in resource.resource.attributes}["service.name"]
            self.server.spans += [(service, span) for scope in resource.scope_spans for span in scope.spans]
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def receiving(receiver: Receiver | None = None) -> Iterator[Receiver]:
    """A receiver for the length of a `with`; one that was made elsewhere has its socket in the network there."""
    with receiver or Receiver() as one:
        thread = threading.Thread(target=one.serve_forever, daemon=True)
        thread.start()
        yield one
        one.shutdown()
        thread.join()
