"""Writes that run to their end although their caller has hung up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")


async def unhurried(work: Awaitable[T]) -> T:
    """Let a write run to its end although its caller has hung up (handlers are cancelled then)."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_ended_alone)
        raise


def _ended_alone(task: asyncio.Future[Any]) -> None:
    """The log has to say that a write failed: its caller is gone."""
    if not task.cancelled() and (failure := task.exception()) is not None:
        log.warning("a write whose caller had hung up failed, and may have been done: %s", failure)
