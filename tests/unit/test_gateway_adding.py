"""Submissions that meet in a gateway: which go together, and that each has what comes of its own."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common.errors import (
    DeadlineError,
    JudgeError,
    LimitError,
    NotFoundError,
    OutcomeUnknownError,
    UnavailableError,
)
from judge.gateway import adding
from judge.gateway.adding import Adding, Again, _Waiting, next_group, parts, prepared
from judge.model.audit import By
from judge.model.messages import AddReply, ErrorBody, Submission
from judge.model.several import OneCall, OneOutcome, Outcomes, SeveralAdds

LARGE = "x" * 20_000


def submission(name: str, **options: Any) -> Submission:
    fields = {"language": "c", "source": "int x;", **options}
    return Submission(user=name, idempotency_key=f"key of {name}", **fields)


def call(name: str, **fields: Any) -> OneCall:
    return prepared(submission(name, **fields), By(actor=name))


def reply(name: str) -> AddReply:
    return AddReply.model_construct(task=name, created=True)


class Judicators:
    """Stands in for those at the other end: notes what is asked, and waits for `go` before it answers."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.go = threading.Event()
        self.alone: Callable[[str], AddReply] = reply
        self.outcome: Callable[[str], OneOutcome] = lambda name: OneOutcome.model_construct(reply=reply(name))
        self.several: Callable[[], None] = lambda: None

    def forward(self, method: str, request: Any, _: Any, *, by: By | None = None) -> Any:
        if method == "add":
            assert by is not None and by.actor == request.user and by.call
        else:
            assert all(entry.by.actor == entry.request.user and entry.by.call for entry in request.calls)
        return self.unchecked(method, request, _, by=by)

    def unchecked(self, method: str, request: Any, _: Any, *, by: By | None = None) -> Any:
        if method == "add":
            self.calls.append([request.user])
            assert self.go.wait(10)
            return self.alone(request.user)
        assert method == "adds" and isinstance(request, SeveralAdds)
        self.calls.append([entry.request.user for entry in request.calls])
        assert self.go.wait(10)
        self.several()
        return Outcomes.model_construct(outcomes=[self.outcome(str(entry.request.user)) for entry in request.calls])


class Meeting:
    """Threads that hand in while the call of the first one is under way."""

    def __init__(self, judicators: Judicators, pool: ThreadPoolExecutor) -> None:
        self.judicators, self.pool = judicators, pool
        self.adding = Adding(cast("Any", judicators))
        self.first = self.hand_in("first")
        self.wait(lambda: judicators.calls == [["first"]])

    def hand_in(self, name: str, **fields: Any) -> Future[AddReply]:
        return self.pool.submit(self.adding.send, call(name, **fields))

    def hand_in_all(self, *names: str) -> dict[str, Future[AddReply]]:
        futures = {}
        for count, name in enumerate(names, 1):
            futures[name] = self.hand_in(name)
            self.wait(lambda count=count: len(self.adding._waiting) == count)
        return futures

    @staticmethod
    def wait(condition: Callable[[], bool]) -> None:
        tick = threading.Event()
        for _ in range(5000):
            if condition():
                return
            tick.wait(0.002)
        raise AssertionError("did not come true")


@pytest.fixture
def judicators() -> Judicators:
    return Judicators()


@pytest.fixture
def meeting(judicators: Judicators, monkeypatch: pytest.MonkeyPatch) -> Iterator[Meeting]:
    """Nobody goes before the answer to the first call: the pace is an hour."""
    monkeypatch.setattr(adding, "_PACE", 3600.0)
    pool = ThreadPoolExecutor(8)
    try:
        yield Meeting(judicators, pool)
    finally:
        judicators.go.set()
        pool.shutdown()


def test_a_call_that_is_alone_goes_at_once_and_calls_that_come_meanwhile_together(meeting: Meeting) -> None:
    futures = meeting.hand_in_all("a", "b", "c")
    meeting.judicators.go.set()
    assert meeting.first.result(10).task == "first"
    assert [future.result(10).task for future in futures.values()] == ["a", "b", "c"]
    assert meeting.judicators.calls == [["first"], ["a", "b", "c"]]


def test_a_slow_call_holds_up_others_for_one_pace(meeting: Meeting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adding, "_PACE", 0.05)
    meeting.hand_in("a")
    meeting.wait(lambda: len(meeting.judicators.calls) == 2)
    assert not meeting.first.done()


def test_each_submission_gets_its_own_outcome(meeting: Meeting, judicators: Judicators) -> None:
    def outcome(name: str) -> OneOutcome:
        wrong = {"b": LimitError("too many"), "c": UnavailableError("no primary")}.get(name)
        return OneOutcome(error=ErrorBody.of(wrong)) if wrong else OneOutcome.model_construct(reply=reply(name))

    judicators.outcome = outcome
    futures = meeting.hand_in_all("a", "b", "c")
    judicators.go.set()
    assert futures["a"].result(10).task == "a"
    with pytest.raises(LimitError, match="too many"):
        futures["b"].result(10)
    assert futures["c"].result(10).task == "c"
    assert judicators.calls == [["first"], ["a", "b", "c"], ["c"]], "what one judicator cannot do, another one may"


@pytest.mark.parametrize("error", [DeadlineError, OutcomeUnknownError, UnavailableError])
def test_without_an_answer_each_submission_fails_once(
    meeting: Meeting, judicators: Judicators, error: type[JudgeError]
) -> None:
    def nobody() -> None:
        raise error("nobody answered")

    judicators.several = nobody
    futures = meeting.hand_in_all("a", "b")
    judicators.go.set()
    for future in futures.values():
        with pytest.raises(error, match="nobody answered"):
            future.result(10)
    assert judicators.calls == [["first"], ["a", "b"]]
    assert futures["a"].exception() is not futures["b"].exception(), "each thread has an exception of its own"


@pytest.mark.parametrize("wrong", [NotFoundError("there is no method 'adds'"), None])
def test_a_judicator_that_does_not_take_several_is_asked_for_each(
    meeting: Meeting, judicators: Judicators, wrong: JudgeError | None
) -> None:
    real = judicators.forward

    def forward(method: str, *arguments: Any, **options: Any) -> Any:
        answer = real(method, *arguments, **options)
        if method == "add":
            return answer
        if wrong is not None:
            raise wrong
        return Outcomes.model_construct(outcomes=answer.outcomes[:1])

    judicators.forward = forward  # type: ignore[method-assign]
    futures = meeting.hand_in_all("a", "b")
    judicators.go.set()
    assert [future.result(10).task for future in futures.values()] == ["a", "b"]
    assert sorted(judicators.calls[2:]) == [["a"], ["b"]]


def goes_on(meeting: Meeting, future: Future[AddReply], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waited beside what broke is handed in alone, and the next one as ever."""
    assert future.result(10).task == "b"
    monkeypatch.setattr(adding, "_PACE", 0.0)
    assert meeting.hand_in("later").result(10).task == "later"


@pytest.mark.parametrize("place", ["the call", "the choice of a group"])
def test_a_fault_of_the_gateway_leaves_nobody_waiting(
    meeting: Meeting, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def broken(*_: object) -> None:
        raise MemoryError

    futures = meeting.hand_in_all("a", "b")
    with monkeypatch.context() as patch:
        if place == "the call":
            patch.setattr(meeting.judicators, "several", broken)
        else:
            patch.setattr(adding, "next_group", broken)
        meeting.judicators.go.set()
        with pytest.raises(MemoryError):
            futures["a"].result(10)
    goes_on(meeting, futures["b"], monkeypatch)


def test_an_addition_that_may_have_been_done_is_never_told_as_not_done(
    meeting: Meeting, judicators: Judicators
) -> None:
    away: list[JudgeError] = []

    def outcome(name: str) -> OneOutcome:
        return OneOutcome(error=ErrorBody.of(OutcomeUnknownError("the primary went")))

    def alone(name: str) -> AddReply:
        if name == "first":
            return reply(name)
        raise away[0]

    judicators.outcome, judicators.alone = outcome, alone
    away.append(UnavailableError("nobody is there"))
    futures = meeting.hand_in_all("a", "b")
    judicators.go.set()
    for future in futures.values():
        with pytest.raises(OutcomeUnknownError, match="the primary went"):
            future.result(10)
    assert meeting.adding.together([call("a"), call("b")]) == [Again("the primary went")] * 2
    away[0] = LimitError("too many")
    with pytest.raises(LimitError):
        meeting.adding.alone(call("a"), Again("the primary went"))


NAMES = st.lists(st.sampled_from(["ann", "bob", "eve", "ian"]), min_size=1, max_size=150)


@given(NAMES)
def test_no_user_fills_a_call(names: list[str]) -> None:
    waiting = [_Waiting(call(name)) for name in names]
    group = next_group(waiting)
    assert group[0] is waiting[0] and len(group) <= 32
    assert [waiter for waiter in waiting if waiter in group] == group, "in their order"
    if len(set(names)) > 1:
        assert (
            max(names.count(name) and sum(waiter.call.by.actor == name for waiter in group) for name in set(names)) <= 2
        )
        assert {waiter.call.by.actor for waiter in group} == set(names), "everybody is in it"
    else:
        assert len(group) == min(len(names), 16), "who is alone holds up nobody"


def test_calls_beyond_a_user_s_share_go_with_the_next_one(
    meeting: Meeting, judicators: Judicators, monkeypatch: pytest.MonkeyPatch
) -> None:
    flood = []
    for count in range(1, 6):
        flood.append(meeting.pool.submit(meeting.adding.send, prepared(submission(f"f{count}"), By(actor="flood"))))
        meeting.wait(lambda count=count: len(meeting.adding._waiting) == count)
    late = meeting.hand_in("other")
    meeting.wait(lambda: len(meeting.adding._waiting) == 6)
    monkeypatch.setattr(adding, "_PACE", 0.0)
    monkeypatch.setattr(judicators, "forward", judicators.unchecked)
    judicators.go.set()
    assert late.result(10).task == "other"
    assert [future.result(10).task for future in flood] == ["f1", "f2", "f3", "f4", "f5"]
    assert judicators.calls == [["first"], ["f1", "f2", "other"], ["f3", "f4", "f5"]]


def test_a_large_submission_holds_up_nobody(meeting: Meeting) -> None:
    large = meeting.hand_in("large", source=LARGE)
    meeting.wait(lambda: ["large"] in meeting.judicators.calls)
    meeting.judicators.go.set()
    assert large.result(10).task == "large"


def test_a_repeated_call_has_the_same_key() -> None:
    bare = prepared(Submission(user="a"), None)
    assert bare.request.idempotency_key and bare.by.call
    keyed = prepared(submission("a"), By(call="c"))
    assert (keyed.request.idempotency_key, keyed.by.call) == ("key of a", "c")


ONES = st.lists(
    st.builds(
        lambda key, large: Submission(idempotency_key=key, source=LARGE if large else "x"),
        st.sampled_from([None, "a", "b", "c"]),
        st.booleans(),
    ),
    max_size=60,
)


@given(ONES)
def test_a_batch_is_split_in_order_with_each_key_once_per_part(submissions: list[Submission]) -> None:
    batches = parts(submissions)
    assert [place for part in batches for place in part] == list(range(len(submissions)))
    for part in batches:
        keys = [submissions[place].idempotency_key for place in part if submissions[place].idempotency_key]
        assert part and len(part) <= 16 and len(set(keys)) == len(keys)
        assert len(part) == 1 or all(submissions[place].source != LARGE for place in part)
