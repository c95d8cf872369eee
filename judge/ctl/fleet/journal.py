"""Reading the journals of many hosts at once, over SSH: what there is, and then what comes, until Ctrl-C."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from judge.common import clock
from judge.common.errors import JudgeError, UnavailableError
from judge.common.text import one_line
from judge.ctl.fleet.logs import HEARTBEAT, JournalEntry, JournalQuery, batch, merge, parse_entry
from judge.ctl.fleet.machines import FleetHost
from judge.ctl.fleet.ssh import JumpHosts, SshConnection

AHEAD = 2000  # entries that are read before somebody takes them
_QUIET = 120.0  # seconds that a search through a large journal may take without a line
_SILENCE = 4 * HEARTBEAT  # without a sign of life for so long, a followed host is lost
_ORDER_SECONDS = 0.25  # seconds within which lines of different hosts are brought into order
_RETRY_MIN, _RETRY_MAX = 1.0, 10.0


@dataclass(frozen=True)
class HostNotice:
    """Something about a host that is not in its journal; `fault`: it gave no lines, or not all."""

    host: str
    text: str
    fault: bool = True


Item = JournalEntry | HostNotice


class Journal:
    """One host's journal, read by a thread of its own that ends with the process."""

    def __init__(
        self, member: FleetHost, jumps: JumpHosts, query: JournalQuery, timeout: float, live: queue.Queue[Item] | None
    ) -> None:
        """`timeout` in seconds is for the login; with `live`, what comes later goes there."""
        self._member = member
        self._jumps = jumps
        self._query = query
        self._timeout = timeout
        self._live = live
        self._past: queue.Queue[Item | None] = queue.Queue(AHEAD)
        self._cursor = ""
        self._started = clock.monotonic()
        threading.Thread(target=self._read, name=f"journal {member.name}", daemon=True).start()

    def past(self, notices: list[HostNotice]) -> Iterator[JournalEntry]:
        """The lines of the journal, oldest first. Faults go to `notices`."""
        while (item := self._past.get()) is not None:
            if isinstance(item, JournalEntry):
                yield item
            else:
                notices.append(item)

    def _read(self) -> None:
        disconnected = True
        try:
            with SshConnection(self._member.target, self._timeout, self._jumps) as connection:
                self._history(connection)
                disconnected = False
        except JudgeError as exc:
            self._past.put(HostNotice(self._member.name, str(exc)))
        self._past.put(None)
        if self._live is not None:
            self._follow(self._live, disconnected=disconnected)

    def _history(self, connection: SshConnection) -> None:
        stream = connection.stream(self._query.history(), self._timeout, root=True)
        newest_first: list[JournalEntry] = []
        for line in stream.lines(_QUIET):
            entry = parse_entry(line, self._member.name)
            if entry is None:
                continue
            if self._query.lines is not None:
                newest_first.append(entry)
            else:
                self._put_past(entry)
        for entry in reversed(newest_first):
            self._put_past(entry)
        code = stream.exit_code(self._timeout)
        message = _last_line(stream.errors())
        if code and message:  # a search that finds nothing also ends with 1
            raise UnavailableError(f"its journal cannot be read: {message}")

    def _put_past(self, entry: JournalEntry) -> None:
        self._cursor = entry.cursor or self._cursor
        self._past.put(entry)

    def _follow(self, live: queue.Queue[Item], *, disconnected: bool) -> None:
        """Connect, read until it breaks, and again; the cursor says where to go on, so nothing is shown twice."""
        pause = _RETRY_MIN
        while True:
            try:
                with SshConnection(self._member.target, self._timeout, self._jumps) as connection:
                    for entry in self._news(connection):
                        if disconnected:
                            live.put(HostNotice(self._member.name, "answers again", fault=False))
                        disconnected, pause = False, _RETRY_MIN
                        if entry:
                            self._cursor = entry.cursor or self._cursor
                            live.put(entry)
            except JudgeError as exc:
                if not disconnected:
                    live.put(HostNotice(self._member.name, f"{exc}; trying again"))
                disconnected = True
            clock.sleep(pause)
            pause = min(2 * pause, _RETRY_MAX)

    def _news(self, connection: SshConnection) -> Iterator[JournalEntry | None]:
        """Entries as they come, after one None once the host has taken the command; ends with UnavailableError."""
        script = self._query.follow(self._cursor or None, int(clock.monotonic() - self._started) + 1)
        stream = connection.stream(script, self._timeout, root=True)
        yield None
        with contextlib.closing(stream):
            for line in stream.lines(_SILENCE):
                entry = parse_entry(line, self._member.name)
                if entry:
                    yield entry
            stream.exit_code(self._timeout)
        raise UnavailableError(f"its journal ended: {_last_line(stream.errors()) or 'without a reason'}")


def _last_line(text: str) -> str:
    return one_line(text.strip().rpartition("\n")[2])


def history(journals: Sequence[Journal], lines: int | None, notices: list[HostNotice]) -> Iterator[JournalEntry]:
    """The lines of the hosts' journals in order of time; if `lines` is given, only the last ones of all together."""
    merged = merge([journal.past(notices) for journal in journals])
    return iter(deque(merged, maxlen=lines)) if lines is not None else merged


def news(live: queue.Queue[Item]) -> Iterator[Item]:
    """New lines, for ever: those that arrive together in order of time, then notices about hosts."""
    while True:
        items = [live.get()]
        clock.sleep(_ORDER_SECONDS)
        with contextlib.suppress(queue.Empty):
            while len(items) < AHEAD:
                items.append(live.get_nowait())
        yield from batch(item for item in items if isinstance(item, JournalEntry))
        yield from (item for item in items if isinstance(item, HostNotice))
