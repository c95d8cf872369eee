"""Several submissions in one call: handing them in, and looking at them.

Each is taken or refused by itself, as if it had come alone: it counts alone against quotas and rates, has an
idempotency key of its own, and an answer or an error of its own, in the order in which they were sent. They go to the
judicators in parts, each of which is one call (judge.gateway.adding).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Annotated, Any, Final, cast

from flask import request
from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from judge.common import clock
from judge.common.errors import DeadlineError, FieldError, JudgeError, OutcomeUnknownError, UnavailableError
from judge.gateway import submit, trace
from judge.gateway.adding import Again, Outcome, parts
from judge.gateway.api.answers import paced
from judge.gateway.api.routes import Call, Reply, Route, field_error, with_hint
from judge.gateway.api.seen import is_id, may_see, show
from judge.model import messages as m
from judge.model.base import Rate, rate_of
from judge.model.several import MOST, ROOM, OneCall, TasksReply, TasksRequest

log = logging.getLogger(__name__)

# Bytes of JSON of one answer with several submissions.
BYTES: Final = ROOM
# Seconds that handing in a batch may take: what is left then is not tried.
SECONDS: Final = 20.0
_KEY: Final = 120  # characters of the header's key, which leaves room for the place


def _validate_item(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """A submission, or what is wrong with it: the others of its batch are taken all the same."""
    try:
        return check(value)
    except ValidationError as exc:
        return exc


class Batch(m.Message):
    """Several submissions; each is taken or refused by itself."""

    submissions: list[Annotated[m.Submission, WrapValidator(_validate_item)]] = Field(min_length=1, max_length=MOST)


class BatchAnswer(m.Message):
    """The outcome of one submission of a batch: `status` is what the call for it alone would have answered."""

    status: int = Field(
        description="201: accepted; 200: accepted before with this key; else refused, with the reason in `error`"
    )
    task: m.Task | None = None
    error: m.ErrorBody | None = None


class BatchReply(m.Message):
    """The outcome of each submission of a batch, in the order in which they were sent."""

    results: list[BatchAnswer]


class SeveralQuery(m.Message):
    """The query of a call that reads several submissions."""

    ids: str = Field(min_length=1, max_length=MOST * 64, description=f"up to {MOST} ids, separated by commas")


class SeveralReply(m.Message):
    """The submissions that there are, in the order in which they were asked for.

    `missing` are those that there are not, or that are somebody else's. `left` are those for which this answer has no
    room: ask again for them.
    """

    tasks: list[m.Task]
    missing: list[str] = Field(default_factory=list)
    left: list[str] = Field(default_factory=list)


def _keyed(submission: m.Submission, place: int) -> str | None:
    """The key of the submission at this place: its own, else one made of the header's."""
    key = request.headers.get("Idempotency-Key")
    if submission.idempotency_key or key is None:
        return submission.idempotency_key
    if not 1 <= len(key) <= _KEY:
        raise FieldError("Idempotency-Key", f"has {len(key)} characters; send 1 to {_KEY} with a batch")
    return f"{key}/{place}"


class _Handing:
    """The submissions of one batch on their way to the judicators."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._end = clock.monotonic() + SECONDS
        self._down: JudgeError | None = None
        self._reached = False
        self.rate: Rate | None = None
        self.retry = 0

    def answers(self, items: Sequence[m.Submission | ValidationError]) -> list[BatchAnswer]:
        answers: dict[int, BatchAnswer] = {}
        ready: dict[int, OneCall] = {}
        for place, item in enumerate(items):
            try:
                ready[place] = self._admitted(place, item)
            except JudgeError as exc:
                answers[place] = self._refused(exc)
        places = list(ready)
        for part in parts([item.request for item in ready.values()]):
            group = [ready[places[index]] for index in part]
            for index, call, outcome in zip(part, group, self._together(group), strict=True):
                answers[places[index]] = self._answer(call, outcome)
        return [answers[place] for place in range(len(items))]

    def _admitted(self, place: int, item: m.Submission | ValidationError) -> OneCall:
        if isinstance(item, ValidationError):
            raise with_hint(field_error(item, "the submission"), m.Submission) from None
        call = self._call
        key = _keyed(item, place)
        return call.cluster.prepared(
            submit.admit(item, call.principal, call.services.config.limits, key, trace.current())
        )

    def _together(self, group: list[OneCall]) -> list[Outcome]:
        if len(group) == 1 or self._down is not None or clock.monotonic() > self._end:
            return [Again()] * len(group)
        outcomes = self._call.cluster.add_together(group)
        self._reached |= any(
            isinstance(outcome, m.AddReply) or (isinstance(outcome, Again) and outcome.unknown) for outcome in outcomes
        )
        return outcomes

    def _answer(self, call: OneCall, outcome: Outcome) -> BatchAnswer:
        try:
            if isinstance(outcome, JudgeError):
                raise outcome
            reply = self._alone(call, outcome) if isinstance(outcome, Again) else outcome
        except JudgeError as exc:
            if isinstance(exc, UnavailableError):
                if not self._reached:
                    raise  # nothing is known to be done yet, so the whole call may be made again
                self._down = self._down or exc
            return self._refused(exc)
        self._reached = True
        user, again = call.request.user, "" if reply.created else " again"
        log.info("%s handed in %s%s in a batch, trace %s", user, reply.task.id, again, reply.task.trace)
        self._note(reply.rate)
        task = show(self._call.cluster, self._call.principal, reply.task)
        return BatchAnswer(status=201 if reply.created else 200, task=task, error=None)

    def _alone(self, call: OneCall, again: Again) -> m.AddReply:
        late = clock.monotonic() > self._end
        if again.unknown and (self._down is not None or late):
            raise OutcomeUnknownError(
                f"the outcome is unknown; with the same Idempotency-Key it is safe to try again ({again.unknown})"
            )
        if self._down is not None:
            # One that may have been done or not says nothing of the next, which was not tried.
            text = "" if isinstance(self._down, OutcomeUnknownError) else f" ({self._down})"
            raise UnavailableError(f"not tried, because the judge's servers do not answer; try again{text}")
        if late:
            raise DeadlineError(f"not tried, because the batch had already taken {SECONDS:g} s; hand it in again")
        return self._call.cluster.add_alone(call, again)

    def _note(self, rate: Rate | None) -> None:
        """Keep what is left at the end: those that go together are not counted in their order."""
        if rate is not None and (self.rate is None or rate.left <= self.rate.left):
            self.rate = rate

    def _refused(self, exc: JudgeError) -> BatchAnswer:
        self._note(rate_of(exc))
        if exc.http_status in {429, 503, 504}:
            self.retry = max(self.retry, self.rate.seconds if self.rate else 0, 2)
        return BatchAnswer(status=exc.http_status, error=m.ErrorBody.of(exc))


def _hand_in(call: Call) -> Reply:
    handing = _Handing(call)
    items = cast("list[m.Submission | ValidationError]", call.body.submissions)
    results = handing.answers(items)
    headers = paced(handing.rate)
    if handing.retry:
        headers["Retry-After"] = str(handing.retry)
    return Reply(BatchReply(results=results), headers=headers)


def _several(call: Call) -> m.Message:
    ids = list(dict.fromkeys(task_id.strip() for task_id in call.query.ids.split(",") if task_id.strip()))
    if not 1 <= len(ids) <= MOST:
        raise FieldError("ids", f"are {len(ids)}; name 1 to {MOST} submissions, separated by commas")
    valid_ids = [task_id for task_id in ids if is_id(task_id)]
    reply = TasksReply(tasks=[])
    if valid_ids:
        user = None if call.principal.judges else call.principal.user
        reply = call.cluster.call("tasks", TasksRequest(ids=valid_ids, room=BYTES, user=user), TasksReply)
    mine = {task.id: task for task in reply.tasks if may_see(call.principal, task)}
    return SeveralReply(
        tasks=[show(call.cluster, call.principal, mine[task_id]) for task_id in ids if task_id in mine],
        missing=[task_id[:64] for task_id in ids if task_id not in mine and task_id not in reply.left],
        left=reply.left,
    )


_KEYS = {"Idempotency-Key": "1 to 120 characters; submissions without a key of their own get KEY/0, KEY/1 and so on"}
ROUTES: list[Route] = [
    Route("POST", "/submissions/batch", "submit_batch", "Hand in several submissions; each is accepted or "
                                                        "refused separately", _hand_in,
          "user", BatchReply, body=Batch, headers=_KEYS, calls=("add",), batch=True),
    Route("GET", "/submissions/batch", "get_batch", "Several submissions at once", _several, "user", SeveralReply,
          query=SeveralQuery, calls=("tasks",), batch=True),
]  # fmt: skip
