"""One request to uWSGI, by uWSGI's own protocol: a whole request goes there, a whole answer comes back."""

from __future__ import annotations

import asyncio
import contextlib
import http
import logging
import re
import socket

from judge.errors import OutcomeUnknownError, UnavailableError
from judge.gateway.front.room import Held

log = logging.getLogger(__name__)

_PIECE = 64 * 1024
# Bytes of a large body that are handed over at once.
_LARGE_PIECE = 256 * 1024
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


async def exchange(path: str, packet: bytes, body: Held | None, answer: Held, seconds: float) -> bytes:
    """Ask the uWSGI behind this socket; returns the start of its answer once its thread is free again.

    UnavailableError: uWSGI was not asked. OutcomeUnknownError: it was asked, and gave no answer within these seconds.
    """
    loop, start = asyncio.get_running_loop(), b""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.setblocking(False)
        try:
            # A local socket is connected at once or not at all.
            sock.connect(path)
        except OSError:
            raise UnavailableError("this gateway is starting; try again in a few seconds") from None
        rest = _begin(sock, packet, body)
        feeding = asyncio.create_task(_feed(sock, *rest)) if rest else None
        try:
            async with asyncio.timeout(seconds):
                piece, whole = await _first(sock)
                start = piece
                while piece:
                    await answer.append(piece)
                    piece = b"" if whole else await loop.sock_recv(sock, _PIECE)
        except (TimeoutError, ConnectionError) as exc:
            # An app that answers before it has read the body is cut off after its answer.
            if not answer.length:
                log.warning("uWSGI gave no answer: %s", exc or "in time")
        finally:
            if feeding is not None:
                feeding.cancel()
                await asyncio.wait([feeding])
    if not answer.length:
        msg = "this gateway's server ended before it answered; it may have been done or not, so look first"
        raise OutcomeUnknownError(msg)
    return start


def _begin(sock: socket.socket, packet: bytes, body: Held | None) -> tuple[bytes, Held | None] | None:
    """Send as much as the socket takes at once, for most requests all; returns the rest."""
    small = body.whole if body is not None else b""
    data = packet if small is None else packet + small
    try:
        sent = sock.send(data)
        if small is None or sent < len(data):
            return data[sent:], body if small is None else None
        # So the app does not wait for a body that the head announces and that is withheld from it.
        sock.shutdown(socket.SHUT_WR)
    except BlockingIOError:
        return data, body if small is None else None
    except OSError:  # uWSGI has hung up; the next read says so
        pass
    return None


async def _feed(sock: socket.socket, data: bytes, body: Held | None) -> None:
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):  # uWSGI has answered without reading all
        await loop.sock_sendall(sock, data)
        if body is not None:
            file = body.pieces()
            while piece := file.read(_LARGE_PIECE):
                await loop.sock_sendall(sock, piece)
        sock.shutdown(socket.SHUT_WR)


async def _first(sock: socket.socket) -> tuple[bytes, bool]:
    """(the first piece of the answer, whether that is all). A small answer costs one switch of tasks only."""
    loop, pieces = asyncio.get_running_loop(), bytearray()
    ended: asyncio.Future[bool] = loop.create_future()

    def ready() -> None:
        # To the end of what is there: of a peer that has closed without reading all, libuv tells once and never again.
        while not ended.done():
            try:
                piece = sock.recv(_PIECE)
            except BlockingIOError:
                return
            except OSError:
                piece = b""
            pieces.extend(piece)
            if not piece or len(pieces) >= _PIECE:
                ended.set_result(not piece)

    number = sock.fileno()  # asyncio takes its time to look up a socket
    loop.add_reader(number, ready)
    try:
        whole = await ended
    finally:
        loop.remove_reader(number)
    return bytes(pieces), whole


def status_of(start: bytes) -> int:
    """The status of an answer by its start; 0 for none."""
    found = _STATUS.match(start)
    return int(found[1]) if found else 0


def away(status: int) -> bool:
    """Says whether the app could not answer the question: the cluster is away, or too much is asked."""
    return status == http.HTTPStatus.TOO_MANY_REQUESTS or status >= http.HTTPStatus.INTERNAL_SERVER_ERROR
