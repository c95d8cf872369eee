"""Submissions that are handed in while others are on their way go to a judicator together, as the next call.

Who is alone has a call at once, and waits for nothing. When many come, a call carries as many as came during the one
before: half of what an add costs a gateway and a judicator is the call itself (docs/decisions/044-handing-in.md).
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from judge import clock
from judge.errors import JudgeError, UnavailableError
from judge.model.audit import By
from judge.model.messages import AddReply, Message, Submission
from judge.model.several import OneCall, Outcomes, SeveralAdds
from judge.rpc.client import told

M = TypeVar("M", bound=Message)

# Bytes of JSON up to which a submission goes along with others: a large one would hold them up.
_SMALL: Final = 16 * 1024
# Submissions of one batch that go together: more of them would be a long pause for everybody else's.
_TOGETHER: Final = 16
# Seconds after which the next call begins although one is under way, and before which none follows one of several. A
# little more than the judicators' own pace (judge.judicator.gathering.Cohorts), so that calls seldom wait there again.
_PACE: Final = 0.06


class Caller(Protocol):
    """The way to the judicators: judge.gateway.cluster.Cluster."""

    def forward(self, method: str, request: Message, reply: type[M], *, by: By | None = None) -> M:
        """Call a method; raises what the judicators answer."""


def prepared(submission: Submission, by: By | None) -> OneCall:
    """A call that may be made again: with a key, and an id of its own."""
    by = by or By()
    return OneCall.model_construct(
        by=by if by.call else by.model_copy(update={"call": uuid.uuid4().hex}),
        request=submission
        if submission.idempotency_key is not None
        else submission.model_copy(update={"idempotency_key": uuid.uuid4().hex}),
    )


@dataclass(eq=False)
class _Waiting:
    """A call that waits to be made, or for its outcome. None: it is to be made alone."""

    call: OneCall
    known: threading.Event = field(default_factory=threading.Event)
    outcome: AddReply | JudgeError | None = None


class Adding:
    """All adds of one process, which come from several threads."""

    def __init__(self, caller: Caller) -> None:
        """Nothing is under way."""
        self._caller = caller
        self._turn = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._under_way = 0
        self._began = -_PACE
        self._crowded = False

    def one(self, call: OneCall) -> AddReply:
        """Hand in one; raises what comes of it."""
        if not _small(call.request):
            return self._alone(call)
        mine = _Waiting(call)
        with self._turn:
            self._waiting.append(mine)
            group = self._gathered() if len(self._waiting) == 1 else None
        if group is None:
            mine.known.wait()
        else:
            self._make(group)
        if mine.outcome is None:
            return self._alone(call)
        if isinstance(mine.outcome, JudgeError):
            raise mine.outcome
        return mine.outcome

    def _alone(self, call: OneCall) -> AddReply:
        return self._caller.forward("add", call.request, AddReply, by=call.by)

    def _gathered(self) -> list[_Waiting]:
        """Those that wait by the time that the next call may begin, this thread's own among them."""
        left = self._began + _PACE - clock.monotonic()
        if left > 0:
            self._turn.wait_for(lambda: not self._under_way and not self._crowded, left)
        group, self._waiting = self._waiting, []
        self._under_way += 1
        self._began, self._crowded = clock.monotonic(), len(group) > 1
        return group

    def _make(self, group: list[_Waiting]) -> None:
        """Make the calls, and tell everybody what came of theirs."""
        try:
            if len(group) > 1:  # one alone is made by whoever waits for it
                outcomes = self.together([one.call for one in group])
                for one, outcome in zip(group, outcomes, strict=True):
                    one.outcome = outcome
                    one.known.set()
                return
            try:
                group[0].outcome = self._alone(group[0].call)
            except JudgeError as exc:
                group[0].outcome = exc
        finally:
            for one in group:
                one.known.set()
            with self._turn:
                self._under_way -= 1
                self._turn.notify()

    def together(self, calls: Sequence[OneCall]) -> list[AddReply | JudgeError | None]:
        """The outcomes of calls that are made as one; None of those that are to be made alone.

        That is what a judicator could not do at the moment, as another one may, and all of them when their judicator
        is of a release that does not take several.
        """
        if len(calls) == 1:
            return [None]
        try:
            said = self._caller.forward("adds", SeveralAdds.model_construct(calls=list(calls)), Outcomes)
        except UnavailableError as exc:
            return [type(exc)(str(exc)) for _ in calls]
        except JudgeError:
            return [None] * len(calls)
        if len(said.outcomes) != len(calls):
            return [None] * len(calls)
        errors = [None if one.error is None else told(one.error) for one in said.outcomes]
        return [
            None if isinstance(error, UnavailableError) else error or one.reply
            for one, error in zip(said.outcomes, errors, strict=True)
        ]


def _small(submission: Submission) -> bool:
    return len(submission.model_dump_json(exclude_defaults=True)) <= _SMALL


def parts(submissions: Sequence[Submission]) -> list[list[int]]:
    """The places of the submissions of one batch in groups that go together: of one key only one. Pure."""
    found: list[list[int]] = []
    keys: set[str] = set()
    for place, one in enumerate(submissions):
        key, large = one.idempotency_key, not _small(one)
        if not found or large or len(found[-1]) == _TOGETHER or key in keys:
            found.append([])
            keys = set()
        found[-1].append(place)
        keys |= set() if key is None else {key}
        if large:  # nothing goes along with it
            found.append([])
    return [part for part in found if part]
