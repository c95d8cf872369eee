"""One connection of a client: the head of a request, the body piece by piece on demand, the answer, the end."""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Callable
from typing import Protocol, cast

from judge.crowd import hang_up
from judge.errors import UsageError
from judge.gateway.front.head import HEAD_BYTES

PIECE = 8 * 1024


class ClientGone(Exception):  # noqa: N818 - no error: nobody is left who could be told
    """The client has hung up, or takes too long."""


class CutShortError(UsageError):
    """The client has ended what it sends within a body, and may still read why that is refused."""


class Keeper(Protocol):
    """The front, as far as one of its connections needs it."""

    buffer: memoryview

    def enters(self, client: Client) -> bool:
        """A client has connected; the answer says whether it may stay."""

    def asks(self, client: Client, head: bytes | None) -> None:
        """The head of a request has come as a whole; None stands for one that is too large."""

    def dawdles(self, client: Client) -> None:
        """The head has not come in time; the connection is closed next."""

    def holds(self, more: int) -> None:
        """The connection holds this number of bytes more (or less) in memory."""

    def leaves(self, client: Client) -> None:
        """The connection has ended."""


class _ConnectionState(enum.Enum):
    HEAD = enum.auto()
    REQUEST = enum.auto()
    LISTEN = enum.auto()
    LINGER = enum.auto()


class Client(asyncio.BufferedProtocol):
    """One connection. It reads only while a task waits for bytes, so it never holds more than a piece."""

    def __init__(self, keeper: Keeper, head: float, linger: float, linger_bytes: int) -> None:
        """A head may take `head` seconds. After an answer it reads and drops `linger_bytes`, for `linger` seconds."""
        self.peer = ""
        # Bytes that are read at once; more while the client has a place among the large transfers.
        self.piece = PIECE
        self._keeper, self._linger, self._left, self._patience = keeper, linger, linger_bytes, head
        self._loop = asyncio.get_running_loop()
        self._state = _ConnectionState.HEAD
        self._transport: asyncio.Transport | None = None
        self._pending = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._interruption: Exception | None = None
        self._goes: Callable[[bool], None] | None = None
        self._weight = 0
        self._blocked = self._ended = self._lost = False
        self.began = False  # to be answered

    # --- called by the event loop --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = transport = cast("asyncio.Transport", transport)  # TCP's; uvloop's is of no such class
        transport.set_write_buffer_limits(high=0)
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if isinstance(peer, tuple) else ""
        if self._keeper.enters(self):
            self._timer = self._loop.call_later(self._patience, self._too_slow)
        else:
            self.abort()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's interface
        """The buffer for the next bytes; the loop fills it and empties it at once, so all may share one."""
        return self._keeper.buffer[: self.piece]

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._state in {_ConnectionState.LINGER, _ConnectionState.LISTEN}:
            self._left -= nbytes
            if self._left < 0:
                transport.close()
            return
        seen = max(0, len(self._pending) - 3)
        self._pending += self._keeper.buffer[:nbytes]
        self.weigh(nbytes)
        if self._state is _ConnectionState.REQUEST:
            transport.pause_reading()
            self._wake()
        elif not transport.is_closing():  # `weigh` may have ended this very connection to make room
            self._look(transport, seen)

    def _look(self, transport: asyncio.Transport, seen: int) -> None:
        end = self._pending.find(b"\r\n\r\n", seen) + 4
        if end < 4 and len(self._pending) <= HEAD_BYTES:
            return
        self._stop_timer()
        transport.pause_reading()
        self._state = _ConnectionState.REQUEST
        self._keeper.asks(self, self._take(end) if 4 <= end <= HEAD_BYTES else None)

    def eof_received(self) -> bool:
        """The client sends no more, but may still want its answer."""
        self._ended = True
        self._wake()
        if self._goes is not None:
            self._goes(False)
        return self._state in {_ConnectionState.REQUEST, _ConnectionState.LISTEN}

    def pause_writing(self) -> None:
        """The client does not take what was written."""
        self._blocked = True

    def resume_writing(self) -> None:
        """The client has taken all that was written."""
        self._blocked = False
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's interface
        """The connection is closed."""
        self._lost = True
        self._stop_timer()
        self._wake()
        if self._goes is not None:
            self._goes(True)
        self._release()
        self._keeper.leaves(self)

    # --- called by the front -------------------------------------------------------------------------------------

    async def read(self, most: int, until: float) -> bytes:
        """The next bytes of the body. TimeoutError when none come by `until`; ClientGone, CutShortError.

        `until` is in the loop's time.
        """
        while not self._pending:
            if self._lost or self._transport is None:
                raise ClientGone
            if self._ended:
                raise CutShortError("the body ends before all that was announced has come; send all of it")
            self._transport.resume_reading()
            await self._wait(until)
        return self._take(most)

    def write(self, data: bytes) -> None:
        """Begin to send; `sent` waits for the end."""
        if self._transport is not None and not self._lost:
            self.began = True
            self._transport.write(data)

    async def sent(self, until: float) -> None:
        """Wait until the client has taken all. TimeoutError when it has not by `until`; ClientGone."""
        while self._blocked and not self._lost:
            await self._wait(until)
        if self._lost:
            raise ClientGone

    def listens(self, goes: Callable[[bool], None]) -> None:
        """The client only hears from now on: what it sends is dropped, up to a bound, and `goes` is told of its end.

        With True when the connection has ended. With False when the client sends no more, whether it still reads or
        not; only who writes can find out.
        """
        self._take(len(self._pending))
        if self._lost or self._ended or self._transport is None:
            goes(self._lost)
            return
        self._goes, self._state = goes, _ConnectionState.LISTEN
        self._transport.resume_reading()

    def finish(self) -> None:
        """End after the answer. Go on reading for a while: a close with bytes unread could destroy the answer."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._ended:
            self._transport.close()
            return
        with contextlib.suppress(OSError):
            self._transport.write_eof()
        self._take(len(self._pending))
        self._state = _ConnectionState.LINGER
        self._timer = self._loop.call_later(self._linger, self._transport.close)
        self._transport.resume_reading()

    @property
    def weight(self) -> int:
        """The bytes in memory that this connection takes."""
        return self._weight

    def weigh(self, more: int) -> None:
        """Add a number of bytes, which may be negative, to those that this connection takes until it ends."""
        if not self._lost:
            self._weight += more
            self._keeper.holds(more)

    def interrupt(self, reason: Exception | None) -> None:
        """Raise `reason` in the task that waits for the client, or will wait next; None takes it back."""
        self._interruption = reason
        self._wake()

    def abort(self) -> None:
        """Hang up at once."""
        self._release()
        hang_up(self._transport)

    # --- in here -------------------------------------------------------------------------------------------------

    async def _wait(self, until: float) -> None:
        self._waiter = waiter = self._loop.create_future()
        timer = self._loop.call_at(until, self._wake, TimeoutError())
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None
        if self._interruption is not None:
            reason, self._interruption = self._interruption, None
            raise reason

    def _wake(self, error: Exception | None = None) -> None:
        if self._waiter is not None and not self._waiter.done():
            if error is None:
                self._waiter.set_result(None)
            else:
                self._waiter.set_exception(error)

    def _take(self, most: int) -> bytes:
        taken = bytes(self._pending[:most])
        if taken:
            del self._pending[:most]
            self.weigh(-len(taken))
        return taken

    def _release(self) -> None:
        self._pending.clear()
        self._keeper.holds(-self._weight)
        self._weight = 0

    def _too_slow(self) -> None:
        self._keeper.dawdles(self)
        self.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
