"""Looks up the names of receivers, in threads of its own.

A receiver's name may take a minute to look up, and a thread that looks one up cannot be interrupted. In
the event loop's own threads a few of these would hold up all else that the process does there.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import threading
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult

# Threads: more than one person's calls can keep busy, of which each gives up after seconds and its lookup later.
MOST: Final = 256


class TooManyLookupsError(OSError):
    """So many names are being looked up that this one is not."""


class Lookups(AbstractResolver):
    """The lookups of one event loop. None that is still under way keeps the process from ending."""

    def __init__(self) -> None:
        self._under_way = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a name; OSError for none, TooManyLookupsError."""
        if self._under_way >= MOST:
            raise TooManyLookupsError(errno.EAGAIN, "too many names are being looked up; it is tried again")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Any]] = loop.create_future()

        def ended(infos: list[Any], error: OSError | None) -> None:
            self._under_way -= 1
            if future.done():  # nobody waits any more
                return
            if error is None:
                future.set_result(infos)
            else:
                future.set_exception(error)

        def look() -> None:
            infos, error = _resolve(host, port, family)
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(ended, infos, error)

        threading.Thread(target=look, name="lookup", daemon=True).start()
        self._under_way += 1
        return [_result(host, info) for info in await future]

    async def close(self) -> None:
        """Nothing is waited for."""


def _resolve(host: str, port: int, family: int) -> tuple[list[Any], OSError | None]:
    try:
        return socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG), None
    except OSError as exc:
        return [], exc
    except ValueError as exc:  # a name that cannot be written as one
        return [], OSError(errno.EINVAL, str(exc))


def _result(host: str, info: Any) -> ResolveResult:
    family, _, proto, _, address = info
    return ResolveResult(
        hostname=host,
        host=str(address[0]),
        port=int(address[1]),
        family=family,
        proto=proto,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )
