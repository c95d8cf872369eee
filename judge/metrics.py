"""The Prometheus endpoint of a daemon."""

from __future__ import annotations

from prometheus_client import start_http_server

from judge.errors import RefusedError


def serve(address: str | None) -> None:
    """Serve /metrics on `host:port` from a thread; None means no metrics. RefusedError when the port is in use."""
    if address is None:
        return
    host, _, port = address.rpartition(":")
    try:
        start_http_server(int(port), addr=host)
    except OSError as exc:
        msg = f"metrics address {address} cannot be used: {exc.strerror}; choose a free port under 'metrics'"
        raise RefusedError(msg) from None
