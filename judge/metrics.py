"""The Prometheus endpoint of a daemon: one thread, a bounded number of connections, and a bounded time for each."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

from judge import endpoint
from judge.errors import RefusedError
from judge.hangup import hang_up

_CONNECTIONS = 64
_SECONDS = 10.0
_HEAD_BYTES = 16 * 1024


def serve(address: str | None) -> None:
    """Serve /metrics on `host:port` from a thread; None means no metrics. RefusedError when the port is in use."""
    if address is None:
        return
    try:
        listener = endpoint.listen(address)
    except OSError as exc:
        reason = os.strerror(exc.errno) if exc.errno and exc.errno > 0 else str(exc)
        msg = f"metrics address {address} cannot be used: {reason}; choose a free port under 'metrics'"
        raise RefusedError(msg) from None
    threading.Thread(target=lambda: asyncio.run(_serve(listener)), name="metrics", daemon=True).start()


async def _serve(listener: socket.socket) -> None:
    waiting: dict[asyncio.StreamWriter, None] = {}

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(waiting) >= _CONNECTIONS:  # the oldest goes: it has had the most time
            oldest = next(iter(waiting))
            del waiting[oldest]
            hang_up(oldest.transport)
        waiting[writer] = None
        try:
            async with asyncio.timeout(_SECONDS):
                await _answer(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            waiting.pop(writer, None)
            hang_up(writer.transport)

    server = await asyncio.start_server(connection, sock=listener, limit=_HEAD_BYTES)
    async with server:
        await server.serve_forever()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    method, _, rest = (await reader.readuntil(b"\r\n\r\n")).partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method not in {b"GET", b"HEAD"} or path not in {b"/", b"/metrics"}:
        status, kind, body = "404 Not Found", "text/plain", b"metrics are at /metrics\n"
    else:
        status, kind = "200 OK", CONTENT_TYPE_LATEST
        body = await asyncio.to_thread(generate_latest, REGISTRY)
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + (b"" if method == b"HEAD" else body))
    await writer.drain()
    writer.write_eof()
    with contextlib.suppress(OSError):
        while await reader.read(_HEAD_BYTES):
            pass
    writer.close()
    await writer.wait_closed()
