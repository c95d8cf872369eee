"""The gateway's front: takes connections, has patience with slow ones, and hands whole requests to uWSGI.

One event loop in a thread of the daemon. A thread of uWSGI is taken only by a request that is here as a whole, and is
free again as soon as it has answered, however slowly the client sends or reads. Each connection carries one request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import resource
import socket
import tempfile
import threading
from dataclasses import dataclass
from typing import IO

from prometheus_client import Counter, Gauge

import judge
from judge import clock
from judge.config import GatewayConfig
from judge.errors import JudgeError, LimitError, OutcomeUnknownError, UnavailableError
from judge.gateway import head as heads
from judge.gateway import models, trace
from judge.gateway.crowd import Crowd, group
from judge.gateway.gate import Caller, Gate
from judge.gateway.head import HEAD_BYTES, Head, HeadTooLargeError
from judge.gateway.turns import Few, Turns
from judge.gateway.uwsgi import HARAKIRI, socket_name
from judge.hangup import hang_up
from judge.rpc.messages import ErrorBody

log = logging.getLogger(__name__)

CONNECTIONS = Gauge("judge_gateway_connections", "Connections to this gateway", ["state"])
TURNED_AWAY = Counter("judge_gateway_turned_away_total", "Connections ended or refused by the front", ["reason"])

ALIVE = "/api/v1/alive"
_PIECE = 64 * 1024
_LARGE = 1024 * 1024
_IN_MEMORY = 64 * 1024
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_BEAT = 1.0
_SPARE_FILES = 512
_START_WAIT = 5.0


@dataclass(frozen=True)
class Bounds:
    """What a client may take. Times in seconds, rates in bytes per second.

    A body or an answer of N bytes may take `body` or `answer` seconds plus N divided by the rate.
    """

    connections: int = 12_000
    connections_each: int = 1_000
    head: float = 10.0
    body: float = 10.0
    answer: float = 20.0
    rate: float = 64 * 1024
    linger: float = 2.0
    linger_bytes: int = 16 * 1024**2
    turn: float = 20.0
    queue: int = 2_000
    queue_each: int = 200
    large: int = 16
    large_each: int = 4


class _Gone(Exception):  # noqa: N818 - no error: there is nobody left to tell one
    """The client has hung up, or takes too long."""


class _Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        peer = writer.get_extra_info("peername")
        self.peer = str(peer[0]) if isinstance(peer, tuple) else ""

    def abort(self) -> None:
        hang_up(self.writer.transport)


class Front:
    """The front of one gateway. `serving` is whether uWSGI answers, which its checker says."""

    def __init__(
        self, config: GatewayConfig, gate: Gate, listener: socket.socket, bounds: Bounds | None = None
    ) -> None:
        """`listener` is a listening socket, which the front closes at its end."""
        self.serving = False
        self.beat = clock.monotonic()
        self._config, self._gate, self._listener = config, gate, listener
        self._bounds = bounds or Bounds()
        self._slots = config.processes * config.threads
        self._address = listener.getsockname()[:2]
        self._directory = os.open(config.run_dir, os.O_PATH | os.O_DIRECTORY)
        # By the descriptor, since the name of a socket has room for 107 bytes only.
        self._uwsgi = f"/proc/self/fd/{self._directory}/{socket_name(config)}"
        self._crowd: Crowd[_Client] = Crowd(0, 0)
        self._turned: dict[str, int] = {}
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="front", daemon=True)

    @property
    def uwsgi(self) -> str:
        """The path of uWSGI's socket, for this process."""
        return self._uwsgi

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()
        self._ready.wait(_START_WAIT)

    def stop(self) -> None:
        """End all connections and the thread, which is joined."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # the loop may just have ended
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_START_WAIT)
        self._listener.close()
        os.close(self._directory)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception:
            # The checker notices the missing beat, and the daemon ends.
            log.exception("the front has ended")

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        bounds = self._bounds
        # A connection may need a second file, for a body or an answer that is not small.
        most = min(bounds.connections, (open_files(2 * bounds.connections + _SPARE_FILES) - _SPARE_FILES) // 2)
        self._crowd = Crowd(most, bounds.connections_each)
        self._turns = Turns(self._slots, bounds.queue, bounds.queue_each)
        self._few = Few(bounds.large, bounds.large_each)
        server = await asyncio.start_server(self._connection, sock=self._listener, limit=HEAD_BYTES, backlog=4096)
        log.debug("at most %d connections, %d requests at once", most, self._slots)
        self._ready.set()
        async with server:
            while not self._stop.is_set():
                self.beat = clock.monotonic()
                self._report()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), _BEAT)
            server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            if others:
                await asyncio.wait(others, timeout=_BEAT)

    def _report(self) -> None:
        CONNECTIONS.labels("all").set(len(self._crowd))
        CONNECTIONS.labels("waiting for the client").set(self._crowd.waiting)
        if self._turned:
            said = ", ".join(f"{count} {reason}" for reason, count in sorted(self._turned.items()))
            log.info("connections turned away in the last second: %s; %d are open", said, len(self._crowd))
            self._turned.clear()

    def _turn_away(self, reason: str) -> None:
        TURNED_AWAY.labels(reason).inc()
        self._turned[reason] = self._turned.get(reason, 0) + 1

    # --- one connection ------------------------------------------------------------------------------------------

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Client(reader, writer)
        writer.transport.set_write_buffer_limits(high=_PIECE)
        counted = not self._gate.proxied(client.peer)
        welcome, replaced = self._crowd.enter(client, group(client.peer), counted=counted)
        if replaced is not None:
            self._turn_away("to make room")
            replaced.abort()
        if not welcome:
            self._turn_away("for want of room")
            client.abort()
            return
        try:
            await self._request(client)
        except (_Gone, OSError, TimeoutError, asyncio.IncompleteReadError):
            pass
        except Exception:
            log.exception("internal error in the front")
        finally:
            self._crowd.leave(client)
            client.abort()

    async def _request(self, client: _Client) -> None:
        head: Head | None = None
        retry = 2.0
        try:
            head = await self._head(client)
            if head.path == ALIVE and head.method in {"GET", "HEAD"}:
                await self._alive(client, head)
                return
            caller = self._gate.caller(head, client.peer)
            if caller.retry_after > 0:
                self._turn_away("after failed log-ins")
                retry = caller.retry_after
                raise LimitError(f"too many failed log-ins from {caller.address}; try again in {_whole(retry)} s")
            await self._serve(client, head, caller)
        except JudgeError as exc:
            await self._refuse(client, head, exc, retry)

    async def _head(self, client: _Client) -> Head:
        try:
            async with asyncio.timeout(self._bounds.head):
                raw = await client.reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise HeadTooLargeError(f"the request's head is larger than {HEAD_BYTES} bytes") from None
        except TimeoutError:
            self._turn_away("for a slow head")
            raise
        return heads.parse(raw)

    async def _serve(self, client: _Client, head: Head, caller: Caller) -> None:
        packet = heads.packet(head, caller.address, self._gate.scheme(head, client.peer), self._address)
        most = max(1, self._slots * 3 // 4 if caller.known else self._slots // 4)
        with contextlib.ExitStack() as stack:
            if _LARGE < head.length <= caller.body_bytes:
                stack.enter_context(self._few.one(caller.key, "large uploads"))
            body = await self._body(client, head, caller, stack)
            self._crowd.works(client)
            async with self._turns.turn(caller.key, most, self._bounds.turn):
                answer, length, start = await self._exchange(packet, body, stack)
            found = _STATUS.match(start)
            self._gate.answered(caller, int(found[1]) if found else 0)
            if length > _LARGE:
                stack.enter_context(self._few.one(caller.key, "large downloads"))
            self._crowd.waits(client)
            await self._deliver(client, answer, length)

    async def _body(self, client: _Client, head: Head, caller: Caller, stack: contextlib.ExitStack) -> IO[bytes] | None:
        """The whole body; None for one that this caller may not send: the app then says so without reading it."""
        if head.chunked or head.length > caller.body_bytes:
            return None
        if not head.length:
            return None
        if head.fields.get("expect", "").lower() == "100-continue":
            client.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = self._spool(stack)
        left = head.length
        seconds = self._bounds.body + head.length / self._bounds.rate
        try:
            async with asyncio.timeout(seconds):
                while left:
                    piece = await client.reader.read(min(left, _PIECE))
                    if not piece:
                        raise _Gone
                    left -= len(piece)
                    await _write(body, piece, head.length)
        except TimeoutError:
            self._turn_away("for a slow body")
            raise
        body.seek(0)
        return body

    def _spool(self, stack: contextlib.ExitStack) -> IO[bytes]:
        made: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=str(self._config.spool_dir))  # noqa: SIM115
        stack.callback(made.close)
        return made

    # --- uWSGI ---------------------------------------------------------------------------------------------------

    async def _exchange(
        self, packet: bytes, body: IO[bytes] | None, stack: contextlib.ExitStack
    ) -> tuple[IO[bytes], int, bytes]:
        """Give uWSGI a request: (its answer, how long that is, how it starts). Ends when its thread is free again."""
        loop = asyncio.get_running_loop()
        answer, length, start = self._spool(stack), 0, b""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.setblocking(False)
            try:
                await loop.sock_connect(sock, self._uwsgi)
            except OSError:
                raise UnavailableError("this gateway is starting; try again in a few seconds") from None
            feeding = asyncio.create_task(_feed(sock, packet, body))
            try:
                async with asyncio.timeout(HARAKIRI + 30):
                    while piece := await loop.sock_recv(sock, _PIECE):
                        start = start or piece
                        length += len(piece)
                        await _write(answer, piece, length)
            except (TimeoutError, ConnectionError) as exc:
                # An app that answers before it has read the body is cut off after its answer.
                if not length:
                    log.warning("uWSGI gave no answer: %s", exc or "in time")
            finally:
                feeding.cancel()
                await asyncio.wait([feeding])
        if not length:
            msg = "this gateway's server ended before it answered; it may have been done or not, so look first"
            raise OutcomeUnknownError(msg)
        answer.seek(0)
        return answer, length, start

    # --- answers -------------------------------------------------------------------------------------------------

    async def _deliver(self, client: _Client, answer: IO[bytes], length: int) -> None:
        try:
            async with asyncio.timeout(self._bounds.answer + length / self._bounds.rate):
                while piece := answer.read(_PIECE):
                    client.writer.write(piece)
                    await client.writer.drain()
                client.writer.write_eof()
                await self._linger(client)
                client.writer.close()
                await client.writer.wait_closed()
        except TimeoutError:
            self._turn_away("for reading slowly")
            raise

    async def _linger(self, client: _Client) -> None:
        """Read what the client still sends, for a while: closed with unread data, it might never see its answer."""
        left = self._bounds.linger_bytes
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(self._bounds.linger):
                while left > 0 and (piece := await client.reader.read(_PIECE)):
                    left -= len(piece)

    async def _alive(self, client: _Client, head: Head) -> None:
        if not self.serving:
            raise UnavailableError("this gateway's server does not answer; try again in a few seconds")
        await self._say(
            client, head, 200, models.Alive(version=judge.__version__).model_dump_json(), "application/json"
        )

    async def _refuse(self, client: _Client, head: Head | None, error: JudgeError, retry: float) -> None:
        """Say a sentence; programs get it as the API's JSON."""
        extra = f"Retry-After: {_whole(retry)}\r\n" if error.http_status in {429, 503} else ""
        if head is None or head.path.startswith("/api/"):
            text, kind = ErrorBody(code=error.code, error=str(error), field=None).model_dump_json(), "application/json"
        else:
            text, kind = f"{error}\n", "text/plain; charset=utf-8"
        await self._say(client, head, error.http_status, text, kind, extra)

    async def _say(
        self, client: _Client, head: Head | None, status: int, text: str, kind: str, extra: str = ""
    ) -> None:
        body = text.encode()
        fields = head.fields if head else {}
        request_id = trace.trace_of(fields.get(trace.HEADER.lower(), ""), fields.get("traceparent", ""))
        lines = (
            f"HTTP/1.1 {status} {_REASONS.get(status, 'Error')}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\nCache-Control: no-store\r\n"
            f"X-Content-Type-Options: nosniff\r\n{trace.HEADER}: {request_id}\r\n{extra}\r\n"
        )
        whole = lines.encode("latin-1") + (b"" if head and head.method == "HEAD" else body)
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as answer:
            answer.write(whole)
            answer.seek(0)
            self._crowd.waits(client)
            await self._deliver(client, answer, len(whole))


_REASONS = {
    200: "OK",
    400: "Bad Request",
    413: "Content Too Large",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


def _whole(seconds: float) -> int:
    return max(1, round(seconds + 0.5))


async def _write(file: IO[bytes], piece: bytes, length: int) -> None:
    """Append; what goes to a disk must not hold up the loop. UnavailableError when the disk takes no more."""
    if length <= _IN_MEMORY:
        file.write(piece)
        return
    try:
        await asyncio.to_thread(file.write, piece)
    except OSError as exc:
        log.error("spool_dir cannot be written: %s", exc.strerror)  # noqa: TRY400 - the disk's fault, not the code's
        raise UnavailableError("this gateway has no room for large transfers; tell its operator") from None


async def _feed(sock: socket.socket, packet: bytes, body: IO[bytes] | None) -> None:
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):  # it has answered without reading all
        await loop.sock_sendall(sock, packet)
        while body is not None and (piece := body.read(_PIECE)):
            await loop.sock_sendall(sock, piece)
        # No more comes: who reads a body that was announced and withheld must not wait for it.
        sock.shutdown(socket.SHUT_WR)


def open_files(wanted: int) -> int:
    """How many files this process may have open, after it has asked for as many as it wants."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        soft = min(wanted, hard) if hard != resource.RLIM_INFINITY else wanted
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft
