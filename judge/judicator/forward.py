"""Passes on to the judicator that leads what it alone answers: the reports of executors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from judge.common.errors import UnavailableError
from judge.config import Tls
from judge.model.messages import Message
from judge.rpc.client import RpcClient

log = logging.getLogger(__name__)
M = TypeVar("M", bound=Message)

# Seconds for the leader's answer, beside the time for which it may hold the report.
_TIMEOUT: Final = 2.0
# Reports that are on their way, or held, at once. Executors go to the leader themselves once they have an answer of it.
_THREADS: Final = 128


class Forward:
    """The way to the leader."""

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
        """Close the connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._rpc.close()
