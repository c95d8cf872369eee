"""The one way from the RPC server to what answers a method: a table, and a function that acts by its rows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from judge.common.errors import UnavailableError
from judge.config import Tls
from judge.judicator.audit import Audit, Describe
from judge.judicator.coroutines import to_completion
from judge.model.messages import Message
from judge.rpc.client import RpcClient
from judge.rpc.methods import JUDICATOR, METHODS
from judge.rpc.server import Peer

log = logging.getLogger(__name__)
M = TypeVar("M", bound=Message)

# Seconds for the leader's answer, beside the time for which it may hold the report.
_TIMEOUT: Final = 2.0
# Reports that are on their way, or held, at once. Executors go to the leader themselves once they have an answer of it.
_THREADS: Final = 128


class Forward:
    def __init__(self, tls: Tls, leader: Callable[[], str | None]) -> None:
        """`leader` is the leader's address; None while nobody else leads."""
        self._leader = leader
        self._rpc = RpcClient(lambda: [address] if (address := leader()) else [], tls, _TIMEOUT)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="forward")

    async def call(self, method: str, request: Message, reply: type[M]) -> M | None:
        """The leader's answer; None if nobody leads, or the leader does not answer. Raises what the leader refuses."""
        if self._leader() is None:
            return None
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._rpc.call, method, request, reply)
        except UnavailableError as exc:
            log.debug("the leader does not take '%s': %s", method, exc)
            return None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._rpc.close()


@dataclass(frozen=True)
class Entry:
    """What answers a method; its row of METHODS has the messages, who may call it and whether only the leader answers.

    `handler` takes the request, with `peer` also who calls. `describe` says what a call is for the audit trail.
    `early`: it answers before the database is ready, too.
    """

    handler: Callable[..., Awaitable[Message]]
    describe: Describe | None = None
    peer: bool = False
    early: bool = False

    def call(self, request: Any, peer: Peer) -> Awaitable[Message]:
        return self.handler(request, peer) if self.peer else self.handler(request)


class Dispatcher:
    """Answers all methods of one judicator. Until `ready` is set, most are refused."""

    def __init__(self, table: Mapping[str, Entry], audit: Audit, forward: Forward, leads: Callable[[], bool]) -> None:
        """ValueError unless the table has the methods of METHODS."""
        methods = {name for name, row in METHODS.items() if row.each is None}
        if set(table) != methods:
            raise ValueError(f"the judicator's table and METHODS differ: {sorted(set(table) ^ methods)}")
        self.table = dict(table)
        self.ready = False
        self._audit = audit
        self._forward = forward
        self._leads = leads

    async def __call__(self, name: str, request: Any, peer: Peer) -> Message:
        """Answer one call; raises what the caller is to hear."""
        row, entry = METHODS[name], self.table[name]
        if not (self.ready or entry.early):
            raise UnavailableError("this judicator has no database yet; ask another one, or again later")
        # One hop: what a judicator has passed on is answered here, also if another one leads by now.
        if row.leader and peer.role != JUDICATOR and not self._leads():
            reply = await self._forward.call(name, request, row.reply)
            if reply is not None:
                return reply
        if entry.describe is None:
            work = entry.call(request, peer)
        else:
            work = self._audit.record(entry.describe, entry.call, request, peer)
        # A caller who hangs up ends a wait, which is for nobody else, and nothing that may be half done.
        return await (work if row.hold else to_completion(work))
