"""The quotas of a certificate at a judicator: open connections, and bytes of bodies on their way."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import weakref
from collections import Counter
from collections.abc import Iterator

from judge.common.connections import hang_up
from judge.common.errors import UnavailableError

log = logging.getLogger(__name__)

# A report carries the results of every slot of an executor, so it may be larger than one person's submission.
REPORT_BYTES = 64 * 1024**2
# A gateway has about one per thread, an executor a few.
_CONNECTIONS = 1024
# Bytes. A blob goes on in pieces and is not among them.
_BODIES = 4 * REPORT_BYTES


class Quotas:
    """Counts by the certificate's name; used in the server's event loop only."""

    def __init__(self) -> None:
        self._connections: dict[str, weakref.WeakSet[asyncio.Transport]] = {}
        self._coming: Counter[str] = Counter()

    def connected(self, name: str, transport: asyncio.Transport) -> None:
        """Cut off who opens connections and asks for nothing; up to twice as many as are served are told why."""
        if not self._count(name, transport, 2 * _CONNECTIONS):
            hang_up(transport)

    def admit(self, name: str, transport: asyncio.Transport | None) -> None:
        """Let a request of this connection in; UnavailableError when its certificate has too many others open."""
        if transport is not None and not self._count(name, transport, _CONNECTIONS):
            log.warning("'%s' has %d connections open, no more are taken", name, _CONNECTIONS)
            raise UnavailableError(f"the certificate of '{name}' has too many connections open; close some")

    @contextlib.contextmanager
    def body(self, name: str, length: int) -> Iterator[None]:
        """While a body of `length` bytes comes; UnavailableError when this certificate has too much on its way."""
        if self._coming[name] + length > _BODIES:
            raise UnavailableError(f"the certificate of '{name}' has too many large requests under way; wait")
        self._coming[name] += length
        try:
            yield
        finally:
            self._coming[name] -= length
            self._coming += Counter()  # nothing is kept of who has none

    def _count(self, name: str, transport: asyncio.Transport, most: int) -> bool:
        """Count a connection; False, and it is not counted, when this certificate has `most` others open."""
        of_peer = self._connections.setdefault(name, weakref.WeakSet())
        of_peer.add(transport)
        if len(of_peer) > most:
            for closed in [connection for connection in of_peer if connection.is_closing()]:
                of_peer.discard(closed)
        if len(of_peer) > most:
            of_peer.discard(transport)
            return False
        return True
