"""Writes that run to their end although their caller has hung up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from judge.model.messages import Message

log = logging.getLogger(__name__)


async def unhurried(work: Awaitable[Message]) -> Message:
    """Let a write run to its end although its caller has hung up (handlers are cancelled then)."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_ended_alone)
        raise


def _ended_alone(task: asyncio.Future[Message]) -> None:
    """The log has to say that a write failed: its caller is gone."""
    if not task.cancelled() and (failure := task.exception()) is not None:
        log.warning("a write whose caller had hung up failed, and may have been done: %s", failure)
