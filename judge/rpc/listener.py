"""Takes TLS connections: handshakes that do not end are counted by address, and the oldest make room for new ones."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import Callable

from judge.common.connections import ConnectionLimiter, group

log = logging.getLogger(__name__)

# Seconds for a TLS handshake and for its end.
_HANDSHAKE, _GOODBYE = 10.0, 2.0
# Handshakes under way, of all and of one address.
_SHAKING, _SHAKING_EACH = 2048, 256
_BACKLOG = 1024
_REPORT, _REST = 1.0, 1.0
_NO_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class TlsListener:
    """Listens at one address; a peer with a certificate gets a protocol of `factory`."""

    def __init__(self, factory: Callable[[], asyncio.BaseProtocol], context: ssl.SSLContext) -> None:
        self._factory, self._context = factory, context
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._shaking: ConnectionLimiter[asyncio.Task[None]] = ConnectionLimiter(_SHAKING, _SHAKING_EACH)
        self._replaced = 0
        self._reported = 0.0

    async def start(self, host: str, port: int) -> None:
        """Listen; OSError when the address cannot be had."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        addresses = await asyncio.get_running_loop().getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        self._socket = socket.create_server(addresses[0][4][:2], family=addresses[0][0], backlog=_BACKLOG)
        self._socket.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(self._socket))

    def close(self) -> None:
        """Take no more, and end the handshakes."""
        for task in (self._accepting, *self._shaking):
            if task is not None:
                task.cancel()
        if self._socket is not None:
            self._socket.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(listening)
            except OSError as exc:  # the client has gone again, or there is no room for it
                if exc.errno in _NO_ROOM:
                    log.error("no connection can be taken: %s", exc.strerror)  # noqa: TRY400 - not the code's fault
                    await asyncio.sleep(_REST)
                continue
            task = asyncio.create_task(self._shake(sock))
            _, replaced = self._shaking.enter(task, group(str(address[0])))
            task.add_done_callback(self._shaking.leave)
            if replaced is not None:
                replaced.cancel()
                self._log_replaced(str(address[0]))
            # Each has begun before the next is taken, however many come, and others have the loop in between.
            await asyncio.sleep(0)

    async def _shake(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError, TimeoutError):  # a stranger; ssl.SSLError is an OSError
            await asyncio.get_running_loop().connect_accepted_socket(
                self._factory, sock, ssl=self._context, ssl_handshake_timeout=_HANDSHAKE, ssl_shutdown_timeout=_GOODBYE
            )

    def _log_replaced(self, address: str) -> None:
        self._replaced += 1
        now = asyncio.get_running_loop().time()
        if now - self._reported >= _REPORT:
            log.warning("%d TLS handshakes made room for others, at last for one from %s", self._replaced, address)
            self._replaced, self._reported = 0, now
