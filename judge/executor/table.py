"""The tasks that an executor has, and its reports of them: the report loop without any I/O (seed: Main).

The main loop feeds events in (a report's answer, a slot's event, a tick) and carries out what comes back. Everything is
keyed by claim: the same task may come back under a new claim while the old one is still being killed.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from judge.executor import spans
from judge.model import messages as m

# Completions of one report; the rest goes with the next. Well below the judicators' limit for a body.
REPORT_BYTES = 8 * 1024**2
# Seconds that a slot counts as nearly free, and that a task that was asked for ahead waits for it.
NEARLY = 0.25


class TaskPhase(enum.Enum):
    PREPARING = "its test data is being fetched"
    READY = "waits for a slot"
    RUNNING = "in a slot"


@dataclass
class TaskEntry:
    """One task in hand (seed: t, with t.cancel)."""

    assignment: m.Assignment
    phase: TaskPhase = TaskPhase.PREPARING
    status: m.Status = m.Status.COMPILING
    progress: str = ""
    slot: int | None = None
    cancelled: bool = False
    nearly_until: float = 0.0
    ready_at: float = 0.0
    marks: list[tuple[str, int]] = field(default_factory=list)  # the beginnings of its steps (judge.executor.spans)


@dataclass
class Pending:
    """One finished attempt that the judicators have not settled yet; `upload` is tried at `upload_at`, monotonic."""

    completed: m.Completed
    size: int
    upload: str | None = None
    upload_at: float = 0.0
    reported: bool = False
    spooled: bool = False
    spooling: bool = False


@dataclass
class Orders:
    """The orders in a report's answer: claims to kill, tasks to start, completions that are settled."""

    kill: list[str] = field(default_factory=list)
    start: list[m.Assignment] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)


class TaskTable:
    """The tasks in hand, the completions to deliver, and the report that tells of both."""

    def __init__(self, executor: str, incarnation: str) -> None:
        """Start empty; `incarnation` is fresh for every start of the process."""
        self.executor = executor
        self.incarnation = incarnation
        self.sequence = 0
        self.drained = False  # as the judicators say
        self.resting = False  # as this host says, for as long as this process lives
        self.tasks: dict[str, TaskEntry] = {}
        self.completions: dict[str, Pending] = {}

    # --- what happens here -------------------------------------------------------------------------------------

    def take(self, assignment: m.Assignment) -> bool:
        """Note an assigned task; False when this claim is in hand already (an answer came twice)."""
        if assignment.claim in self.tasks or assignment.claim in self.completions:
            return False
        self.tasks[assignment.claim] = entry = TaskEntry(assignment)
        spans.mark(entry.marks, spans.PREPARE)
        return True

    def prepared(self, claim: str, now: float) -> bool:
        """Its data is here; False when nobody wants the task any more."""
        entry = self.tasks.get(claim)
        if entry is None:
            return False
        entry.phase = TaskPhase.READY
        entry.ready_at = now
        spans.mark(entry.marks, spans.WAIT)
        return True

    def started(self, claim: str, slot: int) -> None:
        entry = self.tasks[claim]
        entry.phase = TaskPhase.RUNNING
        entry.slot = slot
        spans.mark(entry.marks, m.Status.COMPILING)

    def status(self, claim: str, status: m.Status, progress: str) -> None:
        """A slot told how far it is; ignored when the task is gone."""
        entry = self.tasks.get(claim)
        if entry is not None:
            spans.mark(entry.marks, status)
            entry.status = status
            entry.progress = progress

    def nearly(self, claim: str, now: float) -> None:
        """A slot expects to be free within moments, so the next task may be asked for.

        When it is still not free after NEARLY seconds the expectation was wrong, and is forgotten.
        """
        entry = self.tasks.get(claim)
        if entry is not None and not entry.cancelled:
            entry.nearly_until = now + NEARLY

    def cancel(self, claim: str) -> TaskEntry | None:
        """Nobody wants it any more (seed: t.cancel = true); its entry when a slot still has to be told."""
        entry = self.tasks.get(claim)
        if entry is None:
            return None
        entry.cancelled = True
        entry.nearly_until = 0.0
        if entry.phase is not TaskPhase.RUNNING:
            del self.tasks[claim]
            return None
        return entry

    def finished(self, completed: m.Completed, *, upload: str | None = None) -> bool:
        """It has left its slot with a result; False when it had been cancelled, so that the result is dropped.

        `upload` names the file of an output that goes to the blobs before the result may be reported.
        """
        entry = self.tasks.pop(completed.claim, None)
        if entry is None or entry.cancelled:
            return False
        self.hold(completed, upload=upload)
        return True

    def hold(self, completed: m.Completed, *, upload: str | None = None, spooled: bool = False) -> None:
        """Keep a completion until it is settled; also used for those of an earlier life, from the spool."""
        size = len(completed.model_dump_json())
        self.completions[completed.claim] = Pending(completed, size, upload=upload, spooled=spooled)

    def uploaded(self, claim: str, blob: str | None, reason: str = "") -> None:
        """The output is in the blobs under `blob` (None: it was refused, for `reason`); ignored when it is settled."""
        pending = self.completions.get(claim)
        if pending is None:
            return
        result = pending.completed.result.model_copy(update={"stdout_blob": blob})
        if blob is None:
            result.reason = f"{result.reason}; {reason}" if result.reason else reason
        pending.completed = pending.completed.model_copy(update={"result": result})
        pending.upload = None

    # --- what the main loop asks -------------------------------------------------------------------------------

    def waiting(self) -> list[str]:
        """Claims whose data is here and that need a slot, in the order they came."""
        return [claim for claim, entry in self.tasks.items() if entry.phase is TaskPhase.READY]

    @property
    def idle(self) -> bool:
        """Return whether no more tasks are taken; those in hand are finished."""
        return self.drained or self.resting

    @property
    def in_hand(self) -> int:
        """The number of tasks on this executor's hands: judged ones too, until a judicator has their result."""
        return len(self.tasks) + len(self.completions)

    @property
    def outside(self) -> int:
        """The number of tasks in hand without a slot: their data is on its way, or they wait for one."""
        return sum(entry.phase is not TaskPhase.RUNNING for entry in self.tasks.values())

    def overdue(self, now: float) -> list[str]:
        """Claims that were asked for ahead and still have no slot: somebody else may be free for them."""
        return [claim for claim in self.waiting() if now >= self.tasks[claim].ready_at + NEARLY]

    def next_overdue(self) -> float:
        """The time when the first waiting claim is overdue; infinity when nothing waits."""
        return min((self.tasks[claim].ready_at + NEARLY for claim in self.waiting()), default=float("inf"))

    def free(self, slots: int) -> int:
        """The number of `slots` working slots that have nothing to do."""
        return 0 if self.idle else max(0, slots - len(self.tasks))

    @staticmethod
    def most(slots: int) -> int:
        """The largest number of tasks in hand: one in each slot, and one that waits for each slot."""
        return 2 * slots

    def vacant(self, slots: int, now: float) -> int:
        """The number of tasks to ask for: one for each of `slots` working slots that is free, or nearly free."""
        nearly = sum(entry.nearly_until > now for entry in self.tasks.values())
        return 0 if self.idle else max(0, slots + nearly - len(self.tasks))

    @property
    def urgent(self) -> bool:
        """Return whether something is finished that was in no report yet."""
        return any(not pending.reported and pending.upload is None for pending in self.completions.values())

    def uploads(self) -> list[Pending]:
        """Completions whose output has to be in the blobs before they may be reported."""
        return [pending for pending in self.completions.values() if pending.upload is not None]

    def unsafe(self) -> list[Pending]:
        """Completions that were sent in vain, and are not in the spool; a request to be made again is not kept."""
        return [
            pending
            for pending in self.completions.values()
            if pending.reported and not pending.spooled and not pending.completed.retry
        ]

    # --- the report --------------------------------------------------------------------------------------------

    def request(
        self, vacant: int, info: m.ExecutorInfo | None, ahead: int = 0, *, hold: float = 0.0, pending: int = 0
    ) -> m.ReportRequest:
        """The next report (seed: `rpc.report(this.address, content, vacant)`); `ahead` is part of `vacant`.

        It may be held for `hold` seconds. `pending` is an earlier report that waits for its answer.

        Judged tasks whose output is still on its way are listed as executing, so that nobody gives them to others.
        A report without an answer needs no undoing: its completions go again with the next one.
        """
        self.sequence += 1
        executing = [
            m.Executing(
                id=entry.assignment.id,
                attempt=entry.assignment.attempt,
                claim=claim,
                status=entry.status,
                progress=entry.progress,
                waiting=entry.phase is not TaskPhase.RUNNING,
            )
            for claim, entry in self.tasks.items()
            if not entry.cancelled
        ]
        complete: list[m.Completed] = []
        budget = REPORT_BYTES
        for claim, completion in self.completions.items():
            fits = not complete or completion.size <= budget
            if completion.upload is None and fits:
                budget -= completion.size
                complete.append(completion.completed)
                completion.reported = True
            else:
                completed = completion.completed
                executing.append(
                    m.Executing(
                        id=completed.id,
                        attempt=completed.attempt,
                        claim=claim,
                        status=m.Status.RUNNING,
                        progress="judged",
                    )
                )
        return m.ReportRequest(
            executor=self.executor,
            incarnation=self.incarnation,
            sequence=self.sequence,
            vacant=vacant,
            ahead=ahead,
            executing=executing,
            complete=complete,
            info=info,
            hold=hold,
            pending=pending,
        )

    def answered(self, reply: m.ReportReply) -> Orders:
        """Take a report's answer in (seed: cancel_list, add_list).

        The order matters: a task that is dropped and assigned again in one answer comes under a new claim.
        """
        orders = Orders()
        self.drained = reply.drain
        for ref in reply.settled:
            if self.completions.pop(ref.claim, None) is not None:
                orders.settled.append(ref.claim)
        for ref in reply.drop:
            if self.completions.pop(ref.claim, None) is not None:
                orders.settled.append(ref.claim)
            if self.cancel(ref.claim) is not None:
                orders.kill.append(ref.claim)
        for assignment in reply.add:
            if self.take(assignment):
                orders.start.append(assignment)
        return orders
