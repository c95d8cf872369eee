"""Submissions that are handed in while others are on their way go to a judicator together, as the next call.

Who is alone has a call at once, and waits for nothing. When many come, a call carries as many as came during the one
before: half of what an add costs a gateway and a judicator is the call itself (docs/decisions/044-handing-in.md).
"""

from __future__ import annotations

import http
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Final, Protocol, TypeVar

from judge.common import clock
from judge.common.errors import JudgeError, OutcomeUnknownError, UnavailableError
from judge.model.audit import By
from judge.model.messages import AddReply, Message, Submission
from judge.model.several import OneCall, OneOutcome, Outcomes, SeveralAdds
from judge.rpc.client import error_of, with_call_id

M = TypeVar("M", bound=Message)

# Characters up to which a submission goes along with others: a large one would hold them up.
_SMALL: Final = 16 * 1024
# Submissions that go together: of a batch, as more would be a long pause for everybody else's; of those that meet; and
# of one person among these, as they take turns with one another where the person has about as many as may wait.
_OF_BATCH: Final = 16
_MEETING: Final = 64
_PERSON_CALLS: Final = 2
# Seconds from the beginning of one call of several to that of the next; and at most, when one takes longer: what comes
# meanwhile goes together, which is the cheaper the slower everything is.
_PACE: Final = 0.05
_PATIENCE: Final = 0.1


class ClusterCalls(Protocol):
    """The way to the judicators: judge.gateway.cluster.Cluster."""

    def forward(self, method: str, request: Message, reply: type[M], *, by: By | None = None) -> M:
        """Call a method; raises what the judicators answer."""


@dataclass(frozen=True)
class Again:
    """A call that is to be made alone. `unknown`: why nobody knows whether it is done already."""

    unknown: str = ""


Outcome = AddReply | JudgeError | Again


def prepared(submission: Submission, by: By | None) -> OneCall:
    """A call that may be made again: with a key, and an id of its own."""
    return OneCall.model_construct(by=with_call_id(by or By()), request=submission.keyed())


@dataclass(eq=False)
class _Waiting:
    """A call that waits for its outcome, or with `leads` for its thread to make the next call of several."""

    call: OneCall
    # Has something once there is an outcome, or this leads; an Event is made of three locks and some Python.
    answered: SimpleQueue[None] = field(default_factory=SimpleQueue)
    outcome: Outcome = Again()
    leads: bool = False


class Adding:
    """All adds of one process, which come from several threads. The first of those that wait leads."""

    def __init__(self, caller: ClusterCalls) -> None:
        self._caller = caller
        self._turn = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._under_way = 0
        self._began = -_PACE
        self._crowded = False

    def send(self, call: OneCall) -> AddReply:
        """Hand in one; raises what comes of it."""
        if not _small(call.request):
            return self.alone(call)
        mine = _Waiting(call)
        with self._turn:
            self._waiting.append(mine)
            mine.leads = len(self._waiting) == 1
        if not mine.leads:
            mine.answered.get()
        if mine.leads:
            self._make(self._gathered())
        if isinstance(mine.outcome, JudgeError):
            raise mine.outcome
        return self.alone(call, mine.outcome) if isinstance(mine.outcome, Again) else mine.outcome

    def alone(self, call: OneCall, again: Again | None = None) -> AddReply:
        """Make one call; OutcomeUnknownError also where an earlier try may have done it, and nobody answers now."""
        try:
            return self._caller.forward("add", call.request, AddReply, by=call.by)
        except UnavailableError as exc:
            if again is not None and again.unknown and not isinstance(exc, OutcomeUnknownError):
                raise OutcomeUnknownError(again.unknown) from exc
            raise

    def _gathered(self) -> list[_Waiting]:
        """Those that go together by the time that the next call may begin; who is left is led by the first of them."""
        with self._turn:
            try:
                while (remaining := self._remaining()) > 0:
                    self._turn.wait(remaining)
                group = next_group(self._waiting)
                remainder = [waiting_call for waiting_call in self._waiting if waiting_call not in group]
            except BaseException:
                for waiting_call in self._waiting:  # else they would wait for somebody who leads no more
                    waiting_call.answered.put(None)
                self._waiting = []
                raise
            self._waiting = remainder
            if remainder:
                remainder[0].leads = True
                remainder[0].answered.put(None)
            self._under_way += 1
            self._began, self._crowded = clock.monotonic(), len(group) > 1
            return group

    def _remaining(self) -> float:
        """Seconds until the next call may begin."""
        elapsed = clock.monotonic() - self._began
        if self._under_way:
            return _PATIENCE - elapsed
        return _PACE - elapsed if self._crowded else 0.0

    def _make(self, group: list[_Waiting]) -> None:
        """Make the calls, and tell everybody what came of theirs."""
        try:
            if len(group) == 1:
                try:
                    group[0].outcome = self.alone(group[0].call)
                except JudgeError as exc:
                    group[0].outcome = exc
            else:
                outcomes = self.together([waiting_call.call for waiting_call in group])
                for waiting_call, outcome in zip(group, outcomes, strict=True):
                    waiting_call.outcome = outcome
        finally:
            for waiting_call in group:
                waiting_call.answered.put(None)
            with self._turn:
                self._under_way -= 1
                self._turn.notify()

    def together(self, calls: Sequence[OneCall]) -> list[Outcome]:
        """The outcomes of calls that are made as one.

        To be made alone is what a judicator could not do at the moment, as another one may; what its answer had no
        room for; and all of them when their judicator is of a release that does not take several.
        """
        try:
            reply = self._caller.forward("adds", SeveralAdds.model_construct(calls=list(calls)), Outcomes)
        except UnavailableError as exc:
            return [type(exc)(str(exc)) for _ in calls]
        except JudgeError as exc:
            return [Again(str(exc) if exc.http_status >= http.HTTPStatus.INTERNAL_SERVER_ERROR else "")] * len(calls)
        if len(reply.outcomes) != len(calls):
            return [Again("a judicator's answer was about other submissions")] * len(calls)
        return [_outcome(answer) for answer in reply.outcomes]


def _outcome(answer: OneOutcome) -> Outcome:
    if answer.reply is not None:
        return answer.reply
    if answer.error is None:
        return Again("a judicator's answer had no room for it")
    error = error_of(answer.error)
    if not isinstance(error, UnavailableError):
        return error
    return Again(str(error) if isinstance(error, OutcomeUnknownError) else "")


def _small(submission: Submission) -> bool:
    return submission.characters <= _SMALL


def next_group(waiting: Sequence[_Waiting]) -> list[_Waiting]:
    """Those of the waiting that go together, the first among them: few of each person, unless nobody else waits."""
    people = {waiting_call.call.by.actor for waiting_call in waiting}
    if len(people) == 1:
        return list(waiting[:_OF_BATCH])
    group: list[_Waiting] = []
    calls: Counter[str] = Counter()
    for waiting_call in waiting:
        calls[waiting_call.call.by.actor] += 1
        if calls[waiting_call.call.by.actor] <= _PERSON_CALLS:
            group.append(waiting_call)
    return group[:_MEETING]


def parts(submissions: Sequence[Submission]) -> list[list[int]]:
    """The places of the submissions of one batch in groups that go together: of one key only one. Pure."""
    groups: list[list[int]] = []
    keys: set[str] = set()
    for place, submission in enumerate(submissions):
        key, large = submission.idempotency_key, not _small(submission)
        if not groups or large or len(groups[-1]) == _OF_BATCH or key in keys:
            groups.append([])
            keys = set()
        groups[-1].append(place)
        keys |= set() if key is None else {key}
        if large:  # nothing goes along with it
            groups.append([])
    return [part for part in groups if part]
