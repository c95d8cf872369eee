"""The main process's side of the slots: start them, give them jobs, notice their end, start them again.

All methods are called by the main thread: `setpriv --pdeathsig` ties a slot's life to the thread that started it.
"""

from __future__ import annotations

import contextlib
import enum
import logging
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field

from judge import clock
from judge.executor.channel import (
    Broken,
    Cancel,
    Finished,
    Help,
    Helped,
    Job,
    Progress,
    Reader,
    Ready,
    Settings,
    frame,
    limits_of,
)
from judge.executor.slot.program import COMPILE_LIMITS
from judge.model.messages import Message

log = logging.getLogger(__name__)

Event = Ready | Progress | Finished | Helped | Broken

# After a slot's end: at once, then after 0.5, 1, 2 … seconds, at most RESTART_MAX; a finished job starts over.
RESTART_MIN = 0.5
RESTART_MAX = 30.0
# A cancelled job that has not ended after this long is ended with its slot.
CANCEL_GRACE = 0.7
# A slot that does not come up, or says nothing for this long beyond what its limits allow, is stuck.
START_GRACE = 60.0
SILENCE = 120.0
# A slot that has not read its job after so long is stuck as well.
SEND_TIMEOUT = 10.0
# How much is written to a slot at once, in bytes.
_PIECE = 1 << 20


class SlotState(enum.Enum):
    """What a slot is doing."""

    DOWN = "down"
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    HELPING = "helping"


@dataclass
class Slot:
    """One slot process and what main knows of it."""

    settings: Settings
    state: SlotState = SlotState.DOWN
    claim: str | None = None
    helps: str | None = None
    recalled: bool = False
    cancelled: bool = False
    process: subprocess.Popen[bytes] | None = None
    sock: socket.socket | None = None
    reader: Reader | None = None
    failures: int = 0
    start_at: float = 0.0
    deadline: float = field(default=float("inf"))
    silence: float = 0.0
    unsent: bytearray = field(default_factory=bytearray)
    send_by: float = 0.0
    last_reason: str = ""

    @property
    def index(self) -> int:
        """Its number, from 0."""
        return self.settings.index

    def start(self, now: float) -> None:
        """Start the process; it says Ready when its sandbox works."""
        ours, theirs = socket.socketpair()
        try:
            self.process = subprocess.Popen(
                [
                    "setpriv", "--pdeathsig", "KILL", "--",
                    sys.executable, "-m", "judge.executor.slot.main",
                    str(theirs.fileno()), self.settings.model_dump_json(),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd="/",
            )  # fmt: skip
        except OSError as exc:
            ours.close()
            self.ended(f"it cannot be started: {exc}", now)
            return
        finally:
            theirs.close()
        self.sock = ours
        self.reader = Reader(ours)
        self.state = SlotState.STARTING
        self.deadline = now + START_GRACE

    def give(self, job: Job, now: float) -> None:
        """Hand an idle slot a job, without waiting for it to read; OSError when it is gone, which `read` says too."""
        if self.sock is None:
            msg = f"slot {self.index} is not running"
            raise OSError(msg)
        self.state = SlotState.BUSY
        self.claim = job.assignment.claim
        self.quiet_until(job, now)
        self._say(job, now)

    def help(self, help_: Help, now: float) -> None:
        """Send an idle slot to run tests of a job that another one judges; OSError as in `give`."""
        if self.sock is None:
            msg = f"slot {self.index} is not running"
            raise OSError(msg)
        self.state = SlotState.HELPING
        self.helps = help_.job.assignment.claim
        self.recalled = False
        self.quiet_until(help_.job, now)
        self._say(help_, now)

    def _say(self, message: Message, now: float) -> None:
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
        """When it is stuck: it has not said or read something that it should have, in monotonic seconds."""
        return min(self.deadline, self.send_by) if self.unsent else self.deadline

    def recall(self, now: float) -> None:
        """Call a helping slot back at once: what it runs is run again by another."""
        if self.state is SlotState.HELPING and self.sock is not None and not self.recalled:
            self.recalled = True
            self.silence = 0.0
            self.deadline = min(self.deadline, now + CANCEL_GRACE)
            with contextlib.suppress(OSError):  # it is gone, and read() will say so
                self._say(Cancel(claim=self.helps or ""), now)

    def quiet_until(self, job: Job, now: float) -> None:
        """Allow silence for as long as one step of this job can take; every sign of life begins it anew."""
        # Languages multiply a test's limits; 10 covers every row of the table with room to spare.
        step = COMPILE_LIMITS.wall_seconds + 10 * limits_of(job).wall_seconds
        manifest = job.data.manifest if job.data is not None else None
        if manifest is not None and manifest.validator is not None:
            # It is compiled first, perhaps after another slot has; and one test may take several passes.
            step += 2 * COMPILE_LIMITS.wall_seconds
            step += manifest.passes * (manifest.validation.wall_seconds + 10 * limits_of(job).wall_seconds)
        if manifest is not None and manifest.compile_seconds is not None:
            step += 4 * manifest.compile_seconds
        self.silence = SILENCE + step
        self.deadline = now + self.silence

    def cancel(self, claim: str, now: float) -> None:
        """Ask a busy slot to kill what it runs (seed: `tasks.t.proc.kill()`)."""
        if self.state is SlotState.BUSY and self.claim == claim and self.sock is not None:
            self.cancelled = True
            self.deadline = min(self.deadline, now + CANCEL_GRACE)
            self.silence = 0.0
            with contextlib.suppress(OSError):  # it is gone, and read() will say so
                self._say(Cancel(claim=claim), now)

    def read(self, now: float) -> tuple[list[Event], bool]:
        """What the slot has said since, and whether it still lives."""
        if self.reader is None:
            return [], False
        events, alive = self.reader.for_main()
        for event in events:
            if isinstance(event, Ready):
                self.state = SlotState.IDLE
                self.deadline = float("inf")
            elif isinstance(event, Progress) and self.silence:
                self.deadline = now + self.silence
            elif isinstance(event, Finished):
                self.silence = 0.0
                self.state = SlotState.IDLE
                self.claim = None
                self.cancelled = False
                self.failures = 0
                self.deadline = float("inf")
            elif isinstance(event, Helped):
                self.helps, self.recalled = None, False
                self.silence = 0.0
                self.state = SlotState.IDLE
                self.failures = 0
                self.deadline = float("inf")
            elif isinstance(event, Broken):
                self.last_reason = event.reason
        if not alive:
            self.ended("", now)
        return events, alive

    def ended(self, reason: str, now: float) -> None:
        """Join a process that is over or has to be, and plan its restart."""
        if self.process is not None:
            self.process.kill()
            code = self.process.wait()
            if not reason:
                reason = self.last_reason or (
                    f"it was killed by {signal.Signals(-code).name}" if code < 0 else f"it ended with exit code {code}"
                )
        if self.sock is not None:
            self.sock.close()
        self.process = self.sock = self.reader = None
        self.unsent.clear()
        # What a submission does may take long to end: nobody can keep slots away by having such jobs cancelled.
        failed = not (self.cancelled or self.recalled)
        self.helps, self.recalled, self.cancelled = None, False, False
        self.state = SlotState.DOWN
        delay = min(RESTART_MAX, RESTART_MIN * 2 ** (self.failures - 1)) if failed and self.failures else 0.0
        self.failures += failed
        self.start_at = now + delay
        self.deadline = float("inf")
        self.last_reason = reason
        log.error("slot %d ended: %s; it is started again in %.1f s", self.index, reason, delay)


class Slots:
    """All slots of this executor."""

    def __init__(self, settings: list[Settings]) -> None:
        """One slot per settings; nothing is started yet."""
        self.slots = [Slot(one) for one in settings]

    def start_due(self, now: float) -> list[Slot]:
        """Start every slot that is down and whose back-off is over; returns those that came to life."""
        due = [slot for slot in self.slots if slot.state is SlotState.DOWN and slot.start_at <= now]
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
        slot.deadline = slot.send_by = float("inf")

    def next_due(self) -> float:
        """Monotonic seconds at which `start_due` or `stuck` has something to do."""
        starts = [slot.start_at for slot in self.slots if slot.state is SlotState.DOWN]
        return min([*starts, *(slot.due for slot in self.slots)])

    def idle(self) -> Slot | None:
        """A slot that can take a job."""
        return next((slot for slot in self.slots if slot.state is SlotState.IDLE), None)

    @property
    def working(self) -> int:
        """How many slots can judge now: idle (or helping, which is as good) or busy."""
        return sum(slot.state in {SlotState.IDLE, SlotState.BUSY, SlotState.HELPING} for slot in self.slots)

    @property
    def helping(self) -> int:
        """How many slots run tests of what another slot judges."""
        return sum(slot.state is SlotState.HELPING for slot in self.slots)

    @property
    def busy(self) -> int:
        """How many slots are judging now."""
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
