"""Kept TLS connections of the RPC's client, and what one call does on them: a request and its answer in HTTP/1.1.

A call is about a kilobyte each way, and a general HTTP library takes longer for it than TLS does
(docs/decisions/044-handing-in.md). Answers are read as any HTTP/1.1 server may send them, without what the client never
asks for: redirects, compression, cookies.
"""

from __future__ import annotations

import contextlib
import math
import re
import select
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from judge.common import clock, endpoint
from judge.rpc.pki import peer_identity

# Connections that wait for their next call, of all addresses, and for how many seconds. The server waits 75.
_MOST_IDLE, _KEEP = 64, 60.0
# Seconds at most for TCP, and for TLS.
_CONNECT = 2.0
_LEAST = 0.01  # seconds that are left for a request when connecting took all of them
_HEAD = 100 * 1024
_READ = 64 * 1024
_WRITE = 256 * 1024
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_BROKEN = re.compile(r"[\r\n\0]")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")
# These have no body, whatever their heads say.
_BARE = {204, 304}


class TransportError(Exception):
    """A connection failed, or what came on it was no HTTP; the request may have been done."""


class NotSentError(TransportError):
    """No connection could be made, so nothing was sent."""


@dataclass(frozen=True)
class AnswerHead:
    """The head of an answer. `length` is None and `chunked` false: the body ends with the connection."""

    status: int
    length: int | None
    chunked: bool
    keep: bool


def read_head(head: bytes) -> AnswerHead:
    """Read a head, without the empty line after it; TransportError when it is none of HTTP/1.1."""
    first, *lines = head.split(b"\r\n")
    status = _STATUS.fullmatch(first)
    if status is None:
        raise TransportError("the answer is no HTTP/1.1")
    fields: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip():
            raise TransportError("the answer has a header that is none")
        name, value = name.lower(), value.strip().lower()
        # Two lengths are none.
        fields[name] = value if name not in fields else fields[name] + b", " + value
    length, coding = fields.get(b"content-length"), fields.get(b"transfer-encoding")
    if (length is not None and not _LENGTH.fullmatch(length)) or coding not in {None, b"chunked"}:
        raise TransportError("nobody can tell where the answer ends")
    options = {option.strip() for option in fields.get(b"connection", b"").split(b",")}
    return AnswerHead(
        status=int(status[2]),
        length=None if length is None or coding is not None else int(length),
        chunked=coding is not None,
        keep=status[1] == b"1" and b"close" not in options,
    )


class _RpcConnection:
    """One connection; one thread at a time uses it."""

    def __init__(self, address: str, context: ssl.SSLContext, seconds: float) -> None:
        """Connect, in two steps of so many seconds. NotSentError."""
        self.address = address
        self.until = 0.0
        host, port = endpoint.split(address)
        try:
            with socket.create_connection((host, port), seconds) as plain:  # TLS takes the descriptor out of it
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.tls = context.wrap_socket(plain, server_hostname=host)
        except OSError as exc:
            raise NotSentError(str(exc)) from exc
        try:
            self.role = peer_identity(self.tls.getpeercert() or {})[1]
        except OSError as exc:  # the other side has gone before TLS began
            self.close()
            raise NotSentError(f"hung up: {exc.strerror or exc}") from exc
        self._poll = select.poll()
        self._poll.register(self.tls, select.POLLIN)

    @property
    def fresh(self) -> bool:
        """Return whether it may serve another request: a server that says something unasked says goodbye."""
        return not self._poll.poll(0)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.tls.close()


def _pieces_of(content: bytes) -> Iterator[memoryview]:
    """Pieces of a large content, so that the time is looked at in between."""
    view = memoryview(content)
    return (view[at : at + _WRITE] for at in range(0, len(view), _WRITE))


class HttpAnswer:
    """The answer to a request: `status`, `length` of its body where the head says it, `role` of who answered."""

    def __init__(self, connection: _RpcConnection, deadline: clock.Deadline) -> None:
        self.role = connection.role
        self.status = 0
        self.length = 0
        self.whole = False  # everything was sent and read, so that another request may follow
        self._tls = connection.tls
        self._deadline = deadline
        self._silence = math.inf
        self._buffer = b""
        self._body: Iterator[bytes] = iter(())

    @property
    def success(self) -> bool:
        return 200 <= self.status < 300

    def read(self) -> bytes:
        return b"".join(self._body)

    def pieces(self, seconds: float) -> Iterator[bytes]:
        """The body, which may take `seconds` from now on, with no silence longer than what was left until now."""
        self._silence = max(self._deadline.left(), _LEAST)
        self._deadline = clock.Deadline(seconds)
        return self._body

    def exchange(self, verb: str, head: bytes, content: bytes | Iterator[bytes], length: int) -> None:
        complete = self._send(head, content, length)
        while self.status < 200:  # those below are news, and the answer follows
            answer_head = read_head(self._read_until(b"\r\n\r\n"))
            self.status = answer_head.status
        self.length = answer_head.length or 0
        self._body = self._frame(
            answer_head, bare=verb == "HEAD" or answer_head.status in _BARE, keep=complete and answer_head.keep
        )

    def _remaining(self) -> float:
        remaining = min(self._deadline.left(), self._silence)
        if remaining <= 0:
            raise TransportError("timed out")
        return remaining

    def _send(self, head: bytes, content: bytes | Iterator[bytes], length: int) -> bool:
        """Return whether all was sent: a server may answer and hang up before it has read everything."""
        if isinstance(content, bytes) and len(content) <= _READ:
            return self._write(head + content)
        if not self._write(head):
            return False
        for piece in _pieces_of(content) if isinstance(content, bytes) else content:
            length -= len(piece)
            if length < 0:
                break  # bytes beyond it would be read as another request
            if not self._write(piece):
                return False
        if length:
            raise TransportError("the content has another length than was said")
        return True

    def _write(self, data: bytes | memoryview) -> bool:
        while data:
            try:
                self._tls.settimeout(self._remaining())
                data = data[self._tls.send(data) :]
            except TimeoutError as exc:
                raise TransportError(str(exc)) from exc
            except OSError:
                return False
        return True

    def _receive(self) -> bytes:
        """The next bytes of the answer; empty at the end of the connection."""
        try:
            self._tls.settimeout(self._remaining())
            return self._tls.recv(_READ)
        except OSError as exc:
            raise TransportError(str(exc)) from exc

    def _read_until(self, mark: bytes) -> bytes:
        """All before the mark, which is taken, too."""
        while (end := self._buffer.find(mark)) < 0:
            if len(self._buffer) > _HEAD:
                raise TransportError(f"the answer has more than {_HEAD} bytes where a head should end")
            piece = self._receive()
            if not piece:
                raise TransportError("the server hung up without an answer")
            self._buffer += piece
        data, self._buffer = self._buffer[:end], self._buffer[end + len(mark) :]
        return data

    def _frame(self, answer_head: AnswerHead, *, bare: bool, keep: bool) -> Iterator[bytes]:
        if bare or answer_head.length is not None:
            yield from self._sized(0 if bare else answer_head.length or 0)
        elif answer_head.chunked:
            yield from self._chunks()
        else:
            keep = False
            while piece := self._buffer or self._receive():
                self._buffer = b""
                yield piece
        self.whole = keep and not self._buffer

    def _sized(self, length: int) -> Iterator[bytes]:
        while length:
            piece = self._buffer or self._receive()
            if not piece:
                raise TransportError("the server hung up in the middle of its answer")
            piece, self._buffer = piece[:length], piece[length:]
            length -= len(piece)
            yield piece

    def _chunks(self) -> Iterator[bytes]:
        while True:
            size = _SIZE.fullmatch(self._read_until(b"\r\n"))
            if size is None:
                raise TransportError("the answer has a chunk without a size")
            length = int(size[1], 16)
            if not length:
                break
            yield from self._sized(length)
            if self._read_until(b"\r\n"):
                raise TransportError("the answer has a chunk that does not end where it should")
        while self._read_until(b"\r\n"):  # headers after the body
            pass


class Connections:
    """The connections of one client, to all addresses; many threads use them."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._idle: list[_RpcConnection] = []  # the one that was used last is the last
        self._closed = False

    def close(self) -> None:
        """Close all; those in use follow with their answers."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextlib.contextmanager
    def request(
        self,
        address: str,
        verb: str,
        path: str,
        seconds: float,
        headers: Mapping[str, str],
        content: bytes | Iterator[bytes] = b"",
        length: int | None = None,
    ) -> Iterator[HttpAnswer]:
        """One request, and its answer without the body; all of it within `seconds`. TransportError.

        `length` are the bytes of a content that comes in pieces. A kept connection that broke is not replaced here: the
        caller knows what may be sent twice.
        """
        deadline = clock.Deadline(seconds)
        connection = self._take(address)
        if connection is None:
            connection = _RpcConnection(address, self._context, min(seconds / 2, _CONNECT))
            if deadline.over:
                deadline = clock.Deadline(_LEAST)
        answer = HttpAnswer(connection, deadline)
        try:
            size = len(content) if isinstance(content, bytes) else length or 0
            lines = [f"{verb} {quote(path)} HTTP/1.1", f"Host: {address}"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            if verb in {"POST", "PUT"}:
                lines.append(f"Content-Length: {size}")
            if any(_BROKEN.search(line) for line in lines):
                raise TransportError("a header of the request has a line's end in it")
            answer.exchange(verb, ("\r\n".join(lines) + "\r\n\r\n").encode("ascii"), content, size)
            yield answer
        finally:
            if answer.whole:
                self._keep(connection)
            else:
                connection.close()

    def _take(self, address: str) -> _RpcConnection | None:
        while True:
            now, old = clock.monotonic(), []
            with self._lock:
                while self._idle and self._idle[0].until <= now:
                    old.append(self._idle.pop(0))
                idle = next((connection for connection in reversed(self._idle) if connection.address == address), None)
                if idle is not None:
                    self._idle.remove(idle)
            for connection in old:
                connection.close()
            if idle is None or idle.fresh:
                return idle
            idle.close()

    def _keep(self, connection: _RpcConnection) -> None:
        connection.until = clock.monotonic() + _KEEP
        with self._lock:
            surplus = self._idle.pop(0) if len(self._idle) >= _MOST_IDLE else None
            if self._closed:
                surplus = connection
            else:
                self._idle.append(connection)
        if surplus is not None:
            surplus.close()
