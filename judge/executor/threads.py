"""The executor's threads: everything that waits for the network or reads big files, so that the main loop never does.

Threads put what they find into the main loop's Mailbox; only the main loop changes state.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from judge.common.errors import JudgeError, UnavailableError
from judge.model.messages import ReportReply, ReportRequest
from judge.rpc.client import RpcClient

log = logging.getLogger(__name__)

# One report may be held by the leader while another one goes.
_REPORTING = 2


@dataclass(frozen=True)
class Answered:
    """A report was answered."""

    reply: ReportReply
    sequence: int


@dataclass(frozen=True)
class Unanswered:
    """A report got no answer, or was refused."""

    error: JudgeError
    sequence: int


@dataclass(frozen=True)
class Failed:
    """A piece of work failed in an unforeseen way: nobody knows what it has left undone."""

    error: BaseException


@dataclass(frozen=True)
class Done:
    """A piece of work ended: `then` takes its value, on the main thread."""

    then: Callable[[], None]


Mail = Answered | Unanswered | Done | Failed


class Mailbox:
    """Carries events from threads and signal handlers to the main loop, which selects on its descriptor."""

    def __init__(self) -> None:
        """Make the descriptor."""
        self._queue: queue.SimpleQueue[Mail] = queue.SimpleQueue()
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def fileno(self) -> int:
        """The descriptor that is readable when there is mail."""
        return self._fd

    def wake(self) -> None:
        """Make the main loop turn once more; safe in a signal handler."""
        os.eventfd_write(self._fd, 1)

    def post(self, mail: Mail) -> None:
        """Leave something for the main loop."""
        self._queue.put(mail)
        self.wake()

    def take(self) -> list[Mail]:
        """Everything that has come, oldest first."""
        try:
            os.eventfd_read(self._fd)
        except BlockingIOError:
            return []
        mail = []
        while True:
            try:
                mail.append(self._queue.get_nowait())
            except queue.Empty:
                return mail


class ThreadPool:
    """A few threads that take pieces of work in turn; they end with the process."""

    def __init__(self, mailbox: Mailbox, threads: int) -> None:
        """Start `threads` threads."""
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
                self._mailbox.post(Done(work()))
            except BaseException as exc:
                log.exception("a piece of work failed in an unforeseen way")
                self._mailbox.post(Failed(exc))


class JudicatorCalls:
    """Two threads that send reports to the judicators."""

    def __init__(self, rpc: RpcClient, mailbox: Mailbox) -> None:
        """Start both threads; nothing is sent before it is asked for."""
        self._rpc = rpc
        self._mailbox = mailbox
        self._requests: queue.SimpleQueue[ReportRequest] = queue.SimpleQueue()
        for index in range(_REPORTING):
            threading.Thread(target=self._report, name=f"report-{index}", daemon=True).start()

    def report(self, request: ReportRequest) -> None:
        """Send one report; its Answered or Unanswered comes by mail."""
        self._requests.put(request)

    def _report(self) -> None:
        while True:
            request = self._requests.get()
            try:
                reply = self._rpc.call("report", request, ReportReply)
            except JudgeError as exc:
                self._mailbox.post(Unanswered(exc, request.sequence))
            except Exception as exc:
                log.exception("a report failed in an unforeseen way")
                fault = UnavailableError(f"internal fault in the RPC client: {exc!r}")
                self._mailbox.post(Unanswered(fault, request.sequence))
            else:
                if reply.leader:
                    self._rpc.first = reply.leader
                self._mailbox.post(Answered(reply, request.sequence))
