"""The calls of people that wait in this judicator for a task to change."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from bson import ObjectId
from prometheus_client import Gauge

PARKED = Gauge("judge_waiters", "Calls that wait in this judicator", ["kind"])


@dataclass(eq=False)
class TaskWatch:
    """Somebody who waits for a task to change, or with `end` to be done.

    `version` was read last, `done` is the version that is known to end the task.
    """

    end: bool
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    version: int = -1
    done: int | None = None


class Hub:
    """Wakes the callers that watch a task when it changes."""

    def __init__(self) -> None:
        self._watched: dict[ObjectId, set[TaskWatch]] = {}
        self.closed = False  # nobody may wait any more

    def changed(self, task: ObjectId, version: int | None = None, *, done: bool = False) -> None:
        """A task changed visibly, or is `done`: wake those who wait for that and have not read this version yet.

        A version of None is not known. They read a change once that comes twice, from here and by the change stream.
        """
        for watch in self._watched.get(task, ()):
            if done:
                watch.done = version
            if (done or not watch.end) and (version is None or version > watch.version):
                watch.changed.set()

    def everyone(self) -> None:
        """Wake all: nobody can tell who is meant while the change stream is away, or when this judicator stops."""
        for watches in self._watched.values():
            for watch in watches:
                watch.changed.set()

    def close(self) -> None:
        """Let everyone go, and nobody wait any more."""
        self.closed = True
        self.everyone()

    @contextlib.contextmanager
    def watching(self, task: ObjectId, *, end: bool = False) -> Iterator[TaskWatch]:
        """A watch whose event is set at every change of the task, or at its `end`; the caller clears it."""
        watch = TaskWatch(end)
        self._watched.setdefault(task, set()).add(watch)
        try:
            with PARKED.labels("people").track_inprogress():
                yield watch
        finally:
            self._watched[task].discard(watch)
            if not self._watched[task]:
                del self._watched[task]
