"""Two ways of awaiting work: in a thread where it is long, and to its end although the caller has hung up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")

# Tests of a message from which on its work takes a thread: less is done sooner than a thread begins.
_MANY: Final = 200


async def in_thread_if_large(tests: int, work: Callable[[], T]) -> T:
    """The result of work over a message with so many tests; the event loop goes on answering meanwhile."""
    return await asyncio.to_thread(work) if tests > _MANY else work()


async def to_completion(work: Awaitable[T]) -> T:
    """Let a write run to its end although its caller has hung up (handlers are cancelled then)."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_log_failure)
        raise


def _log_failure(task: asyncio.Future[Any]) -> None:
    """The log has to say that a write failed: its caller is gone."""
    if not task.cancelled() and (failure := task.exception()) is not None:
        log.warning("a write whose caller had hung up failed, and may have been done: %s", failure)
