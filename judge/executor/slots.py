"""The main process's side of the slots: start them, give them jobs, notice their end, start them again.

All methods are called by the main thread: `setpriv --pdeathsig` ties a slot's life to the thread that started it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field, replace

from judge.common import clock
from judge.executor.channel import (
    Broken,
    Cancel,
    Finished,
    Help,
    Helped,
    Job,
    MessageReader,
    Progress,
    Ready,
    Settings,
    frame,
)
from judge.executor.slot_state import Ended, SlotState, SlotStatus, Started, cancels, next_state
from judge.executor.slot_state import Event as Change

log = logging.getLogger(__name__)

Event = Ready | Progress | Finished | Helped | Broken

# A slot that has not read its job after so long is stuck.
SEND_TIMEOUT = 10.0
# Bytes that are written to a slot at once.
_PIECE = 1 << 20


@dataclass
class Slot:
    settings: Settings
    status: SlotStatus = field(default_factory=SlotStatus)
    process: subprocess.Popen[bytes] | None = None
    sock: socket.socket | None = None
    reader: MessageReader | None = None
    unsent: bytearray = field(default_factory=bytearray)
    send_by: float = 0.0

    @property
    def index(self) -> int:
        return self.settings.index

    @property
    def state(self) -> SlotState:
        return self.status.state

    def note(self, event: Change, now: float) -> None:
        self.status = next_state(self.status, event, now)

    def start(self, now: float) -> None:
        """Start the process; it says Ready when its sandbox works."""
        own_end, slot_end = socket.socketpair()
        try:
            self.process = subprocess.Popen(
                [
                    "setpriv", "--pdeathsig", "KILL", "--",
                    sys.executable, "-m", "judge.executor.slot.main",
                    str(slot_end.fileno()), self.settings.model_dump_json(),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=[slot_end.fileno()],
                cwd="/",
            )  # fmt: skip
        except OSError as exc:
            own_end.close()
            self.ended(f"it cannot be started: {exc}", now)
            return
        finally:
            slot_end.close()
        self.sock = own_end
        self.reader = MessageReader(own_end)
        self.note(Started(), now)

    def give(self, work: Job | Help, now: float) -> None:
        """Hand an idle slot a job, or tests of one that another slot judges, without waiting for it to read.

        OSError when the slot is gone, which `read` says too.
        """
        if self.sock is None:
            raise OSError(f"slot {self.index} is not running")
        self._say(work, now)

    def _say(self, message: Job | Help | Cancel, now: float) -> None:
        self.note(message, now)
        if not self.unsent:
            self.send_by = now + SEND_TIMEOUT
        self.unsent += frame(message)
        self.flush()

    def flush(self) -> None:
        """Write as much of what it has not been told as it takes now; OSError when it is gone."""
        while self.unsent and self.sock is not None:
            try:
                count = self.sock.send(self.unsent[:_PIECE], socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            del self.unsent[:count]

    @property
    def due(self) -> float:
        """The time (monotonic) when it is stuck: it has not said or read something that it should have."""
        return min(self.status.deadline, self.send_by) if self.unsent else self.status.deadline

    def recall(self, now: float) -> None:
        """Call a helping slot back at once: what it runs is run again by another."""
        if self.state is SlotState.HELPING:
            self.cancel(self.status.helps or "", now)

    def cancel(self, claim: str, now: float) -> None:
        """Ask a slot to kill what it runs for this claim (seed: `tasks.t.proc.kill()`)."""
        if self.sock is not None and cancels(self.status, claim):
            with contextlib.suppress(OSError):  # it is gone, and read() will say so
                self._say(Cancel(claim=claim), now)

    def read(self, now: float) -> tuple[list[Event], bool]:
        """The events that the slot has sent since the last call, and whether it still lives."""
        if self.reader is None:
            return [], False
        events, alive = self.reader.for_main()
        for event in events:
            self.note(event, now)
        if not alive:
            self.ended("", now)
        return events, alive

    def ended(self, reason: str, now: float) -> None:
        """Join a process that is over or has to be, and plan its restart."""
        if self.process is not None:
            self.process.kill()
            code = self.process.wait()
            reason = reason or self.status.reason
            if not reason:
                ending = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
                reason = f"it {ending}"
        if self.sock is not None:
            self.sock.close()
        self.process = self.sock = self.reader = None
        self.unsent.clear()
        self.note(Ended(reason), now)
        delay = self.status.start_at - now
        log.error("slot %d ended: %s; it is started again in %.1f s", self.index, reason, delay)


class Slots:
    def __init__(self, settings: list[Settings]) -> None:
        self.slots = [Slot(setting) for setting in settings]

    def start_due(self, now: float) -> list[Slot]:
        """Start every slot that is down and whose back-off is over; returns those that came to life."""
        due = [slot for slot in self.slots if slot.state is SlotState.DOWN and slot.status.start_at <= now]
        for slot in due:
            slot.start(now)
        return [slot for slot in due if slot.sock is not None]

    def stuck(self, now: float) -> list[Slot]:
        """Slots that have been silent for too long, or did not end a cancelled job in time."""
        return [slot for slot in self.slots if slot.due <= now]

    def kill(self, slot: Slot) -> None:
        """End a stuck slot's process; its end is then read like any other's."""
        if slot.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(slot.process.pid, signal.SIGKILL)
        slot.send_by = float("inf")
        slot.status = replace(slot.status, deadline=float("inf"))

    def next_due(self) -> float:
        """Monotonic seconds at which `start_due` or `stuck` has something to do."""
        starts = [slot.status.start_at for slot in self.slots if slot.state is SlotState.DOWN]
        return min([*starts, *(slot.due for slot in self.slots)])

    def idle(self) -> Slot | None:
        return next((slot for slot in self.slots if slot.state is SlotState.IDLE), None)

    @property
    def working(self) -> int:
        """The number of slots that can judge now: idle (or helping, which is as good) or busy."""
        return sum(slot.state in {SlotState.IDLE, SlotState.BUSY, SlotState.HELPING} for slot in self.slots)

    @property
    def helping(self) -> int:
        return sum(slot.state is SlotState.HELPING for slot in self.slots)

    @property
    def busy(self) -> int:
        return sum(slot.state is SlotState.BUSY for slot in self.slots)

    def close(self) -> None:
        """End all slots at once and join them; their sandboxes end with them."""
        for slot in self.slots:
            if slot.sock is not None:
                slot.sock.close()  # the slot sees the end of main, and kills what it runs
        for slot in self.slots:
            if slot.process is not None:
                try:
                    slot.process.wait(timeout=1.0)
                except subprocess.TimeoutExpired:
                    slot.process.kill()
                    slot.process.wait()
                slot.process = None
        log.debug("all slots ended at %.3f", clock.monotonic())
