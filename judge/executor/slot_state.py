"""The state of one slot as main knows it, and how events change it. Pure; slots.py acts on it.

Every event replaces the whole state, so that no branch forgets a field: a slot that became idle has neither job, nor
deadline, nor failures.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace

from judge.executor.channel import (
    COMPILE_LIMITS,
    Broken,
    Cancel,
    Finished,
    Help,
    Helped,
    Job,
    Progress,
    Ready,
    limits_of,
)

# After a slot's end without a job: at once, then after 0.5, 1, 2 … seconds, at most RESTART_MAX. A finished job starts
# over. A slot that ends while it judges starts at once: the task may be at fault, and the start tries out a sandbox.
RESTART_MIN = 0.5
RESTART_MAX = 30.0
# A cancelled job that has not ended after this long is ended with its slot.
CANCEL_GRACE = 0.7
# A slot that does not come up, or says nothing for this long beyond what its limits allow, is stuck.
START_GRACE = 60.0
SILENCE = 120.0
# Languages multiply a test's limits, by no more than this.
LANGUAGE_FACTOR = 10
# Each program of the package is compiled as well, perhaps after another slot has compiled it.
VALIDATOR_COMPILATIONS = 2
# Both compilations again, under the package's own limit: its wall time is half as long again as its CPU time.
PACKAGE_COMPILATIONS = 4


class SlotState(enum.Enum):
    DOWN = "down"
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    HELPING = "helping"


@dataclass(frozen=True)
class Started:
    """Main has started the slot's process."""


@dataclass(frozen=True)
class Ended:
    reason: str


Event = Started | Ended | Job | Help | Cancel | Ready | Progress | Finished | Helped | Broken


@dataclass(frozen=True)
class SlotStatus:
    """One slot. Times are monotonic seconds; `deadline`: it is stuck when it has said nothing until then.

    `claim` is the job that it judges, `helps` the one with which it helps; `stopping`: main has cancelled that.
    `silence`: for how many seconds it may say nothing, 0 when no sign of life counts any more. `failures` are its ends
    in a row without a job done, `reason` why it ended last, or is about to.
    """

    state: SlotState = SlotState.DOWN
    claim: str | None = None
    helps: str | None = None
    stopping: bool = False
    silence: float = 0.0
    deadline: float = math.inf
    failures: int = 0
    start_at: float = 0.0
    reason: str = ""


def longest_step(job: Job) -> float:
    """For how many seconds one step of this job (a compilation, a test) can keep a slot from saying anything."""
    run = LANGUAGE_FACTOR * limits_of(job).wall_seconds
    step = COMPILE_LIMITS.wall_seconds + run
    manifest = job.data.manifest if job.data is not None else None
    programs = len(manifest.programs(job.assignment.submission.check)) if manifest is not None else 0
    if manifest is not None and programs:
        step += programs * VALIDATOR_COMPILATIONS * COMPILE_LIMITS.wall_seconds
        step += manifest.passes * (programs * manifest.validation.wall_seconds + run)
    if manifest is not None and manifest.task is not None:
        step += 2 * manifest.task.processes * run
    if manifest is not None and manifest.compile_seconds is not None:
        step += PACKAGE_COMPILATIONS * max(1, programs) * manifest.compile_seconds
    return step


def next_state(slot: SlotStatus, event: Event, now: float) -> SlotStatus:  # noqa: PLR0911 - one line for each kind of event
    match event:
        case Started():
            return SlotStatus(SlotState.STARTING, deadline=now + START_GRACE, failures=slot.failures)
        case Ready():
            return SlotStatus(SlotState.IDLE, failures=slot.failures)
        case Finished() | Helped():
            return SlotStatus(SlotState.IDLE)
        case Job() | Help():
            return _working(slot, event, now)
        case Progress() if slot.silence:
            return replace(slot, deadline=now + slot.silence)
        case Cancel() if cancels(slot, event.claim):
            return replace(slot, stopping=True, silence=0.0, deadline=min(slot.deadline, now + CANCEL_GRACE))
        case Broken():
            return replace(slot, reason=event.reason)
        case Ended():
            return _down(slot, event.reason, now)
    return slot


def _working(slot: SlotStatus, event: Job | Help, now: float) -> SlotStatus:
    job = event if isinstance(event, Job) else event.job
    claim = job.assignment.claim
    silence = SILENCE + longest_step(job)
    working = SlotStatus(silence=silence, deadline=now + silence, failures=slot.failures)
    if isinstance(event, Job):
        return replace(working, state=SlotState.BUSY, claim=claim)
    return replace(working, state=SlotState.HELPING, helps=claim)


def _down(slot: SlotStatus, reason: str, now: float) -> SlotStatus:
    # Nobody can keep slots away by tasks that end them, or that take long to cancel.
    failed = slot.state not in {SlotState.BUSY, SlotState.HELPING}
    delay = min(RESTART_MAX, RESTART_MIN * 2 ** (slot.failures - 1)) if failed and slot.failures else 0.0
    # The claim stays: main gives the task back.
    return SlotStatus(claim=slot.claim, failures=slot.failures + failed, start_at=now + delay, reason=reason)


def cancels(slot: SlotStatus, claim: str) -> bool:
    """Return whether cancelling this claim ends the slot's work; False when it does something else, or was told."""
    return not slot.stopping and claim == (slot.helps if slot.state is SlotState.HELPING else slot.claim)
