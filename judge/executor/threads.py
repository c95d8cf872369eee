"""The executor's threads: everything that waits for the network or reads big files, so that the main loop never does.

Threads put what they find into the main loop's Mailbox; only the main loop changes state.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)


# What the main loop does next with the value of a piece of work, or an unforeseen error that leaves work undone.
Mail = Callable[[], None] | BaseException


class Mailbox:
    """Carries events from threads and signal handlers to the main loop, which selects on its descriptor."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Mail] = queue.SimpleQueue()
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def fileno(self) -> int:
        """The descriptor that is readable when there is mail."""
        return self._fd

    def wake(self) -> None:
        """Make the main loop turn once more; safe in a signal handler."""
        os.eventfd_write(self._fd, 1)

    def post(self, mail: Mail) -> None:
        self._queue.put(mail)
        self.wake()

    def take(self) -> list[Mail]:
        """Everything that has come, oldest first."""
        try:
            os.eventfd_read(self._fd)
        except BlockingIOError:
            return []
        return [self._queue.get_nowait() for _ in range(self._queue.qsize())]


class ThreadPool:
    """A few threads that take pieces of work in turn; they end with the process."""

    def __init__(self, mailbox: Mailbox, threads: int) -> None:
        self._mailbox = mailbox
        self._work: queue.SimpleQueue[Callable[[], Callable[[], None]]] = queue.SimpleQueue()
        for index in range(threads):
            threading.Thread(target=self._run, name=f"pool-{index}", daemon=True).start()

    def do(self, work: Callable[[], Callable[[], None]]) -> None:
        """Have `work` done in some thread; what it returns is then called on the main thread."""
        self._work.put(work)

    def _run(self) -> None:
        while True:
            work = self._work.get()
            try:
                self._mailbox.post(work())
            except BaseException as exc:
                log.exception("a piece of work failed in an unforeseen way")
                self._mailbox.post(exc)
