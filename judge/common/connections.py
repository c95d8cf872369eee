"""The connections of a server: how many there may be, which one goes when another comes, and how one is ended."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import socket
import struct
from collections.abc import Iterator
from typing import Generic, TypeVar, cast

C = TypeVar("C")

_AT_ONCE = struct.pack("ii", 1, 0)


def hang_up(transport: asyncio.BaseTransport | None) -> None:
    """Reset a connection: what was not sent yet is forgotten, by the kernel, too. Nothing happens to a closed one."""
    if transport is None:
        return
    writes = cast("asyncio.WriteTransport", transport)  # TCP's and TLS's have this; uvloop's are of no such class
    try:
        sock = writes.get_extra_info("socket")
    except AttributeError:
        return  # asyncio's TLS transport, which knows nothing any more once it was closed twice
    if sock is not None:
        # ValueError: uvloop keeps the socket of a closed transport, without its descriptor.
        with contextlib.suppress(OSError, ValueError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    writes.abort()


@functools.lru_cache(4096)
def group(address: str) -> str:
    """The name of one stranger: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


class ConnectionLimiter(Generic[C]):
    """Connections by stranger. Those that wait for their client, the longest first, make room for new ones.

    So a client that sends at once is served, however many others send nothing.
    """

    def __init__(self, most: int, share: int) -> None:
        """At most `most` connections, at most `share` of one stranger."""
        self._most, self._share = most, share
        self._all: dict[C, str] = {}
        self._of: dict[str, dict[C, None]] = {}
        # In the order of their beginning to wait, which is the order of dicts.
        self._waiting: dict[C, None] = {}
        self._waiting_of: dict[str, dict[C, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[C]:
        """All of them, as they are now."""
        return iter(list(self._all))

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def enter(self, connection: C, stranger: str, *, counted: bool = True) -> tuple[bool, C | None]:
        """(whether it may come in, whom it replaces); it waits at first. Not `counted`: `share` does not apply."""
        victim: C | None = None
        own_full = counted and len(self._of.get(stranger, ())) >= self._share
        if own_full or len(self._all) >= self._most:
            victim = next(iter(self._waiting_of.get(stranger, ()) if own_full else self._waiting), None)
            if victim is None:
                return False, None
            self.leave(victim)
        self._all[connection] = stranger
        self._of.setdefault(stranger, {})[connection] = None
        self.waits(connection)
        return True, victim

    def waits(self, connection: C) -> None:
        """Its client has to do something now."""
        stranger = self._all.get(connection)
        if stranger is not None:
            self._waiting[connection] = None
            self._waiting_of.setdefault(stranger, {})[connection] = None

    def works(self, connection: C) -> None:
        """We have to do something now."""
        stranger = self._all.get(connection)
        if stranger is not None:
            self._waiting.pop(connection, None)
            self._drop(self._waiting_of, stranger, connection)

    def leave(self, connection: C) -> None:
        """It has ended; nothing happens when it has left before."""
        self.works(connection)
        stranger = self._all.pop(connection, None)
        if stranger is not None:
            self._drop(self._of, stranger, connection)

    @staticmethod
    def _drop(table: dict[str, dict[C, None]], stranger: str, connection: C) -> None:
        row = table.get(stranger)
        if row is not None:
            row.pop(connection, None)
            if not row:
                del table[stranger]
