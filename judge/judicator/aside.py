"""Work over big messages in a thread, so that the event loop goes on answering."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

# Tests of a message from which on its work takes a thread: less is done sooner than a thread begins.
_MANY: Final = 200


async def aside(tests: int, work: Callable[[], T]) -> T:
    """What `work` returns for a message with so many tests; with many of them it runs in a thread."""
    return await asyncio.to_thread(work) if tests > _MANY else work()
