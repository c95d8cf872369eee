"""The executor's main loop (seed: Main): takes in what slots and threads say, and lets everything else act.

One thread, which never waits for the network or a disk cache: threads do. It steps what has
times of its own: slots, the disk, tasks on their way to slots (`dispatch`), `uploads`, `reports`, and the status line.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
from collections.abc import Mapping
from typing import Protocol

from judge.common import clock
from judge.common.errors import JudgeError
from judge.daemon.notify import notify
from judge.executor import telemetry
from judge.executor.channel import Broken, Finished, Helped, Progress
from judge.executor.dispatch import STOPPING, Dispatcher
from judge.executor.parts import ExecutorParts
from judge.executor.reports import Reports
from judge.executor.slot_state import SlotState
from judge.executor.slots import Event, Slot
from judge.executor.uploads import SpoolWriter, Uploads

log = logging.getLogger(__name__)

# Seconds after which systemd or boot hears of the main loop again, at least and at most.
TELL_MIN = 0.5
TELL_MAX = 1.0


class Timed(Protocol):
    """A part of the main loop that acts by itself when its time has come. Times are monotonic seconds."""

    def next_due(self) -> float:
        """The time when `step` has something to do, unless an event comes first; infinity for never."""

    def step(self, now: float) -> object:
        """Act; called at every turn, also before it is due."""


class StatusLine:
    """The watchdog's sign of life, the line of `systemctl status`, and the gauges."""

    def __init__(self, parts: ExecutorParts, reports: Reports) -> None:
        """`reports` knows whether judicators take them."""
        self._parts = parts
        self._reports = reports
        self._notified_at = 0.0
        self._state = ""

    def next_due(self) -> float:
        return self._notified_at + TELL_MAX

    def step(self, now: float) -> None:
        slots = self._parts.slots
        telemetry.SLOTS.labels("busy").set(slots.busy)
        telemetry.SLOTS.labels("helping").set(slots.helping)
        telemetry.SLOTS.labels("all").set(len(slots.slots))
        telemetry.SPOOL.set(self._parts.spool.bytes)
        table = self._parts.table
        state = f", drained, {table.in_hand} tasks in hand" if table.idle else ""
        if self._parts.disk.full:
            state += ", disk full"
        if self._reports.connected is False:
            state += f", no judicator takes reports ({len(self._parts.spool)} results spooled)"
        if now < self._notified_at + TELL_MIN and state == self._state:
            return  # under load slots come and go with every task: systemd need not hear of each
        self._notified_at, self._state = now, state
        notify("WATCHDOG=1", f"STATUS=judging {slots.busy} of {len(slots.slots)} slots{state}")


class Loop:
    def __init__(self, parts: ExecutorParts) -> None:
        self.parts = parts
        self.dispatcher = Dispatcher(parts)
        self._writer = SpoolWriter(parts)
        self._reports = Reports(parts, self.dispatcher, self._writer)
        status = StatusLine(parts, self._reports)
        # In this order: what a step finds out is used by those after it in the same turn.
        self._timed: tuple[Timed, ...] = (
            parts.disk,
            self.dispatcher,
            Uploads(parts, self._writer),
            self._reports,
            status,
        )
        self._selector = selectors.DefaultSelector()
        self._selector.register(parts.mailbox, selectors.EVENT_READ, None)

    def stop(self) -> None:
        self.dispatcher.stopping = True
        self.parts.mailbox.wake()

    def rest(self, *, on: bool) -> None:
        """Take no more tasks and finish those in hand, or take tasks again; safe in a signal handler."""
        self.parts.table.resting = on
        self._reports.hurry()
        self.parts.mailbox.wake()

    def know_languages(self, languages: Mapping[str, str]) -> None:
        """The languages of this machine are known, so tasks can be taken."""
        self.dispatcher.languages = languages
        self._reports.hurry()

    def run(self) -> int:
        notify("READY=1")
        while not self.dispatcher.stopping:
            self._turn()
        notify("STOPPING=1")
        self._wind_up()
        return self.dispatcher.exit_code

    def _turn(self) -> None:
        due = min(self.parts.slots.next_due(), *(timed.next_due() for timed in self._timed))
        self._take_events(max(0.0, due - clock.monotonic()))
        now = clock.monotonic()
        self._kill_stuck(now)
        if not self.dispatcher.stopping:
            for slot in self.parts.slots.start_due(now):
                if slot.sock is not None:
                    self._selector.register(slot.sock, selectors.EVENT_READ, slot)
        for timed in self._timed:
            timed.step(now)

    def _kill_stuck(self, now: float) -> None:
        for slot in self.parts.slots.stuck(now):
            log.warning("slot %d does not answer; it is killed", slot.index)
            self.parts.slots.kill(slot)

    # --- what comes in -----------------------------------------------------------------------------------------

    def _take_events(self, seconds: float) -> None:
        """Wait up to `seconds` for mail or slots, and take in what came."""
        for key in list(self._selector.get_map().values()):
            events_mask = selectors.EVENT_READ | (
                selectors.EVENT_WRITE if key.data is not None and key.data.unsent else 0
            )
            if events_mask != key.events:
                self._selector.modify(key.fileobj, events_mask, key.data)
        for key, events in self._selector.select(seconds):
            if key.data is None:
                for mail in self.parts.mailbox.take():
                    if isinstance(mail, BaseException):
                        log.error("work in the background failed in an unforeseen way (%r); the executor ends", mail)
                        self.dispatcher.fail()
                    else:
                        mail()
                continue
            if events & selectors.EVENT_WRITE:
                with contextlib.suppress(OSError):  # it is gone, and reading says so
                    key.data.flush()
            if events & selectors.EVENT_READ:
                self._read_slot(key.data)

    def _read_slot(self, slot: Slot) -> None:
        sock, claim = slot.sock, slot.status.claim
        if sock is None:
            return
        now = clock.monotonic()
        try:
            events, alive = slot.read(now)
        except (JudgeError, ValueError) as exc:
            events, alive = [], False
            slot.ended(f"it talks nonsense: {exc}", now)
        for event in events:
            self._take_event(slot, event, now)
        if not alive:
            self._selector.unregister(sock)
            telemetry.RESTARTS.inc()
            entry = self.parts.table.tasks.get(claim) if claim is not None and slot.status.claim == claim else None
            if entry is not None:
                reason = f"slot {slot.index} ended while judging: {slot.status.reason}"
                self.dispatcher.give_back(entry.assignment, reason, now)
            self._reports.hurry()

    def _take_event(self, slot: Slot, event: Event, now: float) -> None:
        if isinstance(event, Progress):
            if slot.state is not SlotState.HELPING and self.dispatcher.progressed(event, now):
                self._reports.hurry()
        elif isinstance(event, Finished):
            self.dispatcher.finished(event, now)
        elif isinstance(event, Helped):
            self.dispatcher.helpers.helped(slot, event)
        elif isinstance(event, Broken):
            log.error("slot %d: %s", slot.index, event.reason)
        else:
            log.info("slot %d is ready on core %s", slot.index, slot.settings.core)
            self._reports.hurry()

    # --- the end -----------------------------------------------------------------------------------------------

    def _wind_up(self) -> None:
        """Stop taking, kill what runs and give it back at once, deliver what is finished, within stop_grace."""
        table, slots = self.parts.table, self.parts.slots
        self.dispatcher.first_word_by = 0.0
        deadline = clock.Deadline(self.parts.config.stop_grace * 0.8)
        self.dispatcher.give_all_back(clock.monotonic())
        while slots.busy and deadline.left() > 0.0:
            self._take_events(min(0.1, deadline.left()))
            self._kill_stuck(clock.monotonic())
        for entry in list(table.tasks.values()):
            self.dispatcher.give_back(entry.assignment, STOPPING, clock.monotonic(), penalty=False)
        slots.close()
        if self.dispatcher.exit_code == 0:
            self._last_report(deadline)
        for pending in table.completions.values():
            self._writer.write_now(pending)
        log.info("stopped; %d results are spooled", len(self.parts.spool))

    def _last_report(self, deadline: clock.Deadline) -> None:
        """Deliver what is finished and what is given back, unless no judicator answers."""
        if self._reports.held:  # it may be answered with work at this moment; another report ends it
            self._reports.hurry()
            self._reports.step(clock.monotonic())
        while self._reports.in_flight and deadline.left() > 0.0:
            self._take_events(deadline.left())
        while self.parts.table.urgent and self._reports.failures == 0 and deadline.left() > 0.0:
            self._reports.step(clock.monotonic())
            self._take_events(deadline.left())
