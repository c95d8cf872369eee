"""The Prometheus endpoint of a daemon: one thread, a bounded number of connections, and a bounded time for each."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from cryptography import x509
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from judge.common import clock, endpoint
from judge.common.connections import hang_up
from judge.common.errors import RefusedError
from judge.config import Tls

_CONNECTIONS = 64
_SECONDS = 10.0
_HEAD_BYTES = 16 * 1024
_LOOK = 30.0
# Of certificates whose holder may read metrics.
ROLE: Final = "monitor"

# Days before its end from which a certificate is worth a sentence: a renewal every month comes twice before that.
CERTIFICATE_DAYS = 30


def expiry(path: Path) -> datetime.datetime | None:
    """The time when the first certificate of a PEM file ends; None when it cannot be read."""
    try:
        return min(
            certificate.not_valid_after_utc for certificate in x509.load_pem_x509_certificates(path.read_bytes())
        )
    except (OSError, ValueError):
        return None


def expiring(paths: Iterable[Path], days: int = CERTIFICATE_DAYS) -> list[str]:
    """One sentence for each certificate that ends within so many days, or has."""
    now, sentences = clock.wall(), []
    for path in paths:
        end = expiry(path)
        remaining = None if end is None else (end - now).days
        if remaining is not None and remaining < days:
            state = f"expires in {remaining} days" if remaining >= 0 else f"expired on {end:%Y-%m-%d}"
            playbook = "rotate.yml with judge_rotate=ca" if path.name == "ca.crt" else "renew.yml"
            sentences.append(f"the certificate {path} {state}; run playbooks/{playbook}")
    return sentences


class _Certificates(Collector):
    """The ends of this daemon's certificates, read at each look: a renewal shows at once."""

    def __init__(self) -> None:
        self.paths: dict[Path, None] = {}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(
            "judge_certificate_expiry_timestamp_seconds", "When the certificate in a file ends", labels=["file"]
        )
        for path in self.paths:
            end = expiry(path)
            if end is not None:
                family.add_metric([path.name], end.timestamp())
        yield family


class _Disks(Collector):
    """The room on the file systems of this daemon's directories, read at each look."""

    def __init__(self) -> None:
        self.directories: dict[Path, None] = {}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        free = GaugeMetricFamily("judge_disk_free_bytes", "Room on a directory's file system", labels=["directory"])
        size = GaugeMetricFamily("judge_disk_bytes", "Size of a directory's file system", labels=["directory"])
        for directory in self.directories:
            with contextlib.suppress(OSError):  # it is not made yet
                room = os.statvfs(directory)
                free.add_metric([str(directory)], room.f_bavail * room.f_frsize)
                size.add_metric([str(directory)], room.f_blocks * room.f_frsize)
        yield from (free, size)


class _Clock(Collector):
    """The time of this host, which Prometheus compares with its own.

    It is no Gauge: each process of a gateway would report its own Gauge, which stays at 0.
    """

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily("judge_clock_timestamp_seconds", "The host's clock", clock.wall().timestamp())


_CERTIFICATES, _DISKS = _Certificates(), _Disks()
for _collector in (_CERTIFICATES, _DISKS, _Clock()):
    REGISTRY.register(_collector)


def watch_certificates(paths: Iterable[Path]) -> None:
    """Have the metrics of this process tell when these certificates end; called by what starts a daemon."""
    _CERTIFICATES.paths |= dict.fromkeys(paths)


def watch_disk(directory: Path | None) -> None:
    """Have the metrics of this process tell how much room there is for this directory."""
    if directory is not None:
        _DISKS.directories[directory] = None


def serve(address: str | None, tls: Tls | None = None) -> None:
    """Serve /metrics on `host:port` from a thread; None means no metrics.

    With `tls` only who has a certificate of the cluster's role `monitor` gets them; the files are read anew when they
    are replaced. RefusedError when the port is in use, or a certificate cannot be.
    """
    if address is None:
        return
    try:
        secured = None if tls is None else _Secured(tls)
    except (OSError, ValueError) as exc:
        raise RefusedError(
            f"metrics_tls cannot be used: {exc}; name a certificate and key that this user may read"
        ) from exc
    try:
        listener = endpoint.listen(address)
    except OSError as exc:
        reason = os.strerror(exc.errno) if exc.errno and exc.errno > 0 else str(exc)
        msg = f"metrics address {address} cannot be used: {reason}; choose a free port under 'metrics'"
        raise RefusedError(msg) from exc
    threading.Thread(target=lambda: asyncio.run(_serve(listener, secured)), name="metrics", daemon=True).start()


class _Secured:
    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._seen = self._stamp()
        self.context = self._latest = self._read()
        self.context.sni_callback = self._update

    def _read(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self._tls.ca))
        context.verify_mode = ssl.CERT_REQUIRED
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0  # nobody comes in by a handshake of before
        context.load_cert_chain(self._tls.cert, self._tls.key)
        return context

    def _update(self, connection: ssl.SSLObject, _name: str | None, _served: ssl.SSLContext) -> None:
        """Give a connection that begins what the files are now: a context that has an authority never forgets it."""
        connection.context = self._latest

    def _stamp(self) -> tuple[float, ...]:
        return tuple(path.stat().st_mtime for path in (self._tls.ca, self._tls.cert, self._tls.key))

    async def renew(self) -> None:
        """Look after the files; ends never."""
        while True:
            await asyncio.sleep(_LOOK)
            with contextlib.suppress(OSError, ValueError):  # half replaced: the next look finds all of it
                if (now := self._stamp()) != self._seen:
                    self._latest, self._seen = self._read(), now


def _is_monitor(writer: asyncio.StreamWriter) -> bool:
    """Return whether the client's certificate is of the role that reads metrics; True without TLS: there is none."""
    if writer.get_extra_info("sslcontext") is None:
        return True
    subject = (writer.get_extra_info("peercert") or {}).get("subject", ())
    return any(pair == ("organizationalUnitName", ROLE) for names in subject for pair in names)


class _ServedFigures:
    """The figures as served: who asks while they are collected shares the next, so a crowd costs two collections."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._began = -1.0
        self._body = b""

    async def latest(self) -> bytes:
        """The figures of a moment after this call."""
        begin = clock.monotonic()
        async with self._lock:
            if self._began < begin:
                began = clock.monotonic()
                self._body = await asyncio.to_thread(generate_latest, REGISTRY)
                self._began = began  # after it: who gives up meanwhile leaves the next ones to collect
            return self._body


async def _serve(listener: socket.socket, secured: _Secured | None) -> None:
    waiting: dict[asyncio.StreamWriter, None] = {}
    figures = _ServedFigures()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(waiting) >= _CONNECTIONS:  # the oldest goes: it has had the most time
            oldest = next(iter(waiting))
            del waiting[oldest]
            hang_up(oldest.transport)
        waiting[writer] = None
        try:
            async with asyncio.timeout(_SECONDS):
                await _answer(reader, writer, figures)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            waiting.pop(writer, None)
            hang_up(writer.transport)

    context = None if secured is None else secured.context
    patience = None if context is None else _SECONDS
    server = await asyncio.start_server(
        connection, sock=listener, limit=_HEAD_BYTES, ssl=context, ssl_handshake_timeout=patience
    )
    async with server, asyncio.TaskGroup() as group:
        if secured is not None:
            group.create_task(secured.renew())
        await server.serve_forever()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, figures: _ServedFigures) -> None:
    method, _, target = (await reader.readuntil(b"\r\n\r\n")).partition(b" ")
    path = target.partition(b" ")[0].partition(b"?")[0]
    if not _is_monitor(writer):
        status, kind, body = "403 Forbidden", "text/plain", b"metrics are for certificates of role monitor\n"
    elif method not in {b"GET", b"HEAD"} or path not in {b"/", b"/metrics"}:
        status, kind, body = "404 Not Found", "text/plain", b"metrics are at /metrics\n"
    else:
        status, kind = "200 OK", CONTENT_TYPE_LATEST
        body = await figures.latest()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + (b"" if method == b"HEAD" else body))
    await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
    else:
        writer.close()  # TLS has an end of its own
    with contextlib.suppress(OSError):
        while await reader.read(_HEAD_BYTES):
            pass
    writer.close()
    await writer.wait_closed()
