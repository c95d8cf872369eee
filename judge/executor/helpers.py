"""Main's side of shared tests: which idle slot helps with which job, and when it is called back (docs/executor.md).

A slot that helps counts as free: a task that comes has it at once, and what it was running is run again by the slot
that judges. So the judicators hear of it as vacant.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from judge.executor.channel import Help, Helped, Job
from judge.executor.slot.parallel.shared_queue import Sharing
from judge.executor.slot_state import CANCEL_GRACE, SlotState
from judge.executor.slots import Slot, Slots

log = logging.getLogger(__name__)


@dataclass
class _Offer:
    """A job with tests for others; `helpers` are the slots that have helped and found nothing more to do."""

    directory: Path
    helpers: set[int] = field(default_factory=set)


class HelperScheduler:
    """Decides which idle slots help which others."""

    def __init__(self, slots: Slots, sharing: Sharing | None) -> None:
        """`sharing` None: nobody helps."""
        self._slots = slots
        self._sharing = sharing
        self._offers: dict[str, _Offer] = {}
        self._idle = -1

    def _helping(self, claim: str | None = None) -> list[Slot]:
        return [
            slot
            for slot in self._slots.slots
            if slot.state is SlotState.HELPING and (claim is None or slot.status.helps == claim)
        ]

    @property
    def recalled(self) -> int:
        """The number of slots that were called back and are not free yet."""
        return sum(slot.status.stopping for slot in self._helping())

    def offered(self, claim: str) -> None:
        """The slot that judges this has tests for others."""
        if self._sharing is not None and claim not in self._offers:
            self._offers[claim] = _Offer(self._sharing.queue(claim))

    def ended(self, claim: str, now: float) -> None:
        """The job has left its slot, whatever way: nobody is to help any more."""
        offer = self._offers.pop(claim, None)
        if offer is None:
            return
        for slot in self._helping(claim):
            slot.recall(now)
        # Done by the slot already, unless that died.
        shutil.rmtree(offer.directory, ignore_errors=True)

    @property
    def patience(self) -> float:
        """For how many seconds more tasks should wait for slots: those that were called back end within them."""
        return CANCEL_GRACE if self.recalled else 0.0

    def helped(self, slot: Slot, event: Helped) -> None:
        """A slot has stopped helping; once called back it may help again."""
        log.debug("slot %d ran %d tests for another", slot.index, event.tests)
        offer = self._offers.get(event.claim)
        if offer is not None and event.recalled:
            offer.helpers.discard(slot.index)

    def arrange(self, waiting: int, job_of: Callable[[str], Job | None], now: float) -> None:
        """`job_of` says what a claim's slot was told; None when nobody wants it any more.

        Call back as many as `waiting` tasks need slots, or send out those that have nothing to do.
        """
        idle = [slot for slot in self._slots.slots if slot.state is SlotState.IDLE]
        busy = self._helping()
        needed = waiting - len(idle) - sum(slot.status.stopping for slot in busy)
        for slot in [slot for slot in busy if not slot.status.stopping][: max(0, needed)]:
            slot.recall(now)
        for slot in idle[waiting:]:
            self._send(slot, job_of, now)
        self._tell()

    def _send(self, slot: Slot, job_of: Callable[[str], Job | None], now: float) -> None:
        """Send an idle slot where the fewest help."""
        free = [claim for claim, offer in self._offers.items() if slot.index not in offer.helpers]
        for claim in sorted(free, key=lambda offered: len(self._helping(offered))):
            job = job_of(claim)
            if job is None:
                continue
            offer = self._offers[claim]
            offer.helpers.add(slot.index)
            log.debug("slot %d helps with task %s", slot.index, job.assignment.id)
            with contextlib.suppress(OSError):  # it is gone, and read() will say so
                slot.give(Help(job=job, directory=offer.directory), now)
            return

    def _tell(self) -> None:
        """Let the slots know whether it is worth to share."""
        idle = sum(slot.state is SlotState.IDLE for slot in self._slots.slots)
        if self._sharing is not None and idle != self._idle:
            self._idle = idle
            self._sharing.tell(idle)
