"""Ending a connection whose other side does not do its part."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

_AT_ONCE = struct.pack("ii", 1, 0)


def hang_up(transport: asyncio.BaseTransport | None) -> None:
    """Reset a connection: what was not sent yet is forgotten, by the kernel, too. Nothing happens to a closed one."""
    if not isinstance(transport, asyncio.WriteTransport):
        return
    try:
        sock = transport.get_extra_info("socket")
    except AttributeError:
        return  # asyncio's TLS transport, which knows nothing any more once it was closed twice
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    transport.abort()
