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

from judge.errors import JudgeError, UnavailableError
from judge.model.messages import ReportReply, ReportRequest, WaitReply, WaitRequest
from judge.rpc.client import RpcClient

log = logging.getLogger(__name__)

# Seconds that the judicators may hold a Wait, and that this side rests after one failed.
WAIT_SECONDS = 20.0
WAIT_REST = 0.5


@dataclass(frozen=True)
class Answered:
    """A report was answered."""

    reply: ReportReply


@dataclass(frozen=True)
class Unanswered:
    """A report got no answer, or was refused."""

    error: JudgeError


@dataclass(frozen=True)
class Woken:
    """A Wait came back with a hint that a report may be answered with work."""


@dataclass(frozen=True)
class Failed:
    """A piece of work failed in an unforeseen way: nobody knows what it has left undone."""

    error: BaseException


@dataclass(frozen=True)
class Done:
    """A piece of work ended: `then` takes its value, on the main thread."""

    then: Callable[[], None]


Mail = Answered | Unanswered | Woken | Done | Failed


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
    """Two threads that talk to the judicators: one reports, one parks Wait calls."""

    def __init__(self, rpc: RpcClient, mailbox: Mailbox, executor: str, incarnation: str) -> None:
        """Start both threads; nothing is sent before it is asked for."""
        self._rpc = rpc
        self._mailbox = mailbox
        self._executor = executor
        self._incarnation = incarnation
        self._requests: queue.SimpleQueue[ReportRequest] = queue.SimpleQueue()
        self._vacant = threading.Event()
        self._rest = threading.Event()
        threading.Thread(target=self._report, name="report", daemon=True).start()
        threading.Thread(target=self._wait, name="wait", daemon=True).start()

    def report(self, request: ReportRequest) -> None:
        """Send one report; its Answered or Unanswered comes by mail. One at a time."""
        self._requests.put(request)

    def vacant(self, vacant: bool) -> None:
        """Tell whether there is a free slot that is worth waiting for (docs/protocol.md, rule 5)."""
        if vacant:
            self._vacant.set()
        else:
            self._vacant.clear()

    def _report(self) -> None:
        while True:
            request = self._requests.get()
            try:
                reply = self._rpc.call("report", request, ReportReply)
            except JudgeError as exc:
                self._mailbox.post(Unanswered(exc))
            except Exception as exc:
                log.exception("a report failed in an unforeseen way")
                self._mailbox.post(Unanswered(UnavailableError(f"internal fault in the RPC client: {exc!r}")))
            else:
                self._mailbox.post(Answered(reply))

    def _wait(self) -> None:
        request = WaitRequest(executor=self._executor, incarnation=self._incarnation, timeout=WAIT_SECONDS)
        while True:
            self._vacant.wait()
            try:
                if self._rpc.call("wait", request, WaitReply).wake:
                    self._vacant.clear()  # the main loop raises it again when a slot is still free after its report
                    self._mailbox.post(Woken())
            except JudgeError as exc:
                log.debug("wait: %s", exc)
                self._rest.wait(WAIT_REST)
            except Exception:
                log.exception("a wait failed in an unforeseen way")
                self._rest.wait(WAIT_REST)
