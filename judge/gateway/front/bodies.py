"""Bodies of requests: with a length that the client said, or in chunks (RFC 9112, 7.1), which are joined."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from typing import Final, Protocol

from judge.errors import TooLargeError, UsageError
from judge.gateway.front.connection import Client
from judge.gateway.front.room import Held
from judge.gateway.front.turns import Pace

_READ: Final = 64 * 1024
# A chunk's size with what may follow it, and all that may follow the last chunk.
_LINE, _TRAILER = 1024, 8 * 1024
# A body of more than so many chunks is refused when they have fewer bytes than this on average: small ones cost a lot.
_LEAST, _FREE = 64, 4096
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,12})[ \t]*(?:;[^\r\n]*)?")


class SlowError(UsageError):
    """The client does not send the body that it announced."""

    http_status = 408
    code = "slow"


class Framing(Protocol):
    """Turns the bytes of a connection into the bytes of a body."""

    @property
    def wants(self) -> int:
        """The number of bytes that may be read from the connection now; 0 when the body is whole."""

    def feed(self, data: bytes) -> bytes:
        """The part of these bytes that belongs to the body; UsageError when they cannot be understood."""


class Whole:
    """A body whose length the client said."""

    def __init__(self, length: int) -> None:
        self.wants = length

    def feed(self, data: bytes) -> bytes:
        """All of it."""
        self.wants -= len(data)
        return data


class Chunks:
    """A body in chunks. Strict: a server that read it in another way would see another request behind it."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._left = 0  # of the chunk's bytes
        self._inside = self._last = self._done = False
        self._trailer = self._count = self._length = 0

    @property
    def wants(self) -> int:
        """The number of bytes that may be read now; 0 when the body is whole."""
        return 0 if self._done else _READ

    def feed(self, data: bytes) -> bytes:
        """The content of the chunks among these bytes; UsageError."""
        self._pending += data
        found = bytearray()
        while not self._done:
            if self._left:
                piece = self._pending[: self._left]
                del self._pending[: len(piece)]
                self._left -= len(piece)
                found += piece
                if self._left:
                    break
            line = self._line()
            if line is None:
                break
            self._read(line)
        return bytes(found)

    def _line(self) -> bytes | None:
        """The next line without its end; None while it is not here."""
        end = self._pending.find(b"\n")
        if end < 0 and len(self._pending) <= _LINE:
            return None
        if not 0 < end <= _LINE or self._pending[end - 1] != 0x0D:
            raise UsageError("the chunks of the body cannot be understood; lines end with CR LF")
        line = bytes(self._pending[: end - 1])
        del self._pending[: end + 1]
        return line

    def _read(self, line: bytes) -> None:
        if self._last:
            self._trailer += len(line) + 2
            if self._trailer > _TRAILER:
                raise UsageError("too much follows the last chunk of the body")
            self._done = not line
        elif self._inside:
            if line:
                raise UsageError("a chunk of the body is longer than it says")
            self._inside = False
        else:
            size = _SIZE.fullmatch(line)
            if size is None:
                raise UsageError("a chunk of the body does not begin with its size in hexadecimal digits")
            self._left = int(size[1], 16)
            self._count += 1
            self._length += self._left
            if self._count > _FREE + self._length // _LEAST:
                raise UsageError(f"the body comes in too many chunks; send {_LEAST} bytes at least in each")
            self._inside, self._last = self._left > 0, self._left == 0


async def receive(
    client: Client, framing: Framing, body: Held, most: int, pace: Pace, large: int, grown: Callable[[], None]
) -> None:
    """Read all of a body. TooLargeError beyond `most` bytes, SlowError, UsageError, ClientGone, and what `body` raises.

    `grown` is called once there are more than `large` bytes.
    """
    loop = asyncio.get_running_loop()
    while framing.wants:
        until = pace.until(loop.time(), body.length)
        if until is None:
            raise SlowError(f"the body came too slowly; send at least {pace.rate / 1024:g} KiB each second")
        with contextlib.suppress(TimeoutError):
            content = framing.feed(await client.read(framing.wants, until))
            if body.length + len(content) > most:
                raise TooLargeError(f"the body is too large; at most {most} bytes are taken")
            if body.length <= large < body.length + len(content):
                grown()
            if content:
                await body.append(content)
