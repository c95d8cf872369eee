"""Submissions that meet in a gateway: which go together, and that each has what comes of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
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


def submission(name: str, **more: Any) -> Submission:
    fields = {"language": "c", "source": "int x;", **more}
    return Submission(user=name, idempotency_key=f"key of {name}", **fields)


def call(name: str, **more: Any) -> OneCall:
    return prepared(submission(name, **more), By(actor=name))


def reply(name: str) -> AddReply:
    return AddReply.model_construct(task=name, created=True)


class Judicators:
    """Stands in for those at the other end: notes what is asked, and waits for `go` before it answers."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.go = threading.Event()
        self.alone: Callable[[str], AddReply] = reply
        self.one: Callable[[str], OneOutcome] = lambda name: OneOutcome.model_construct(reply=reply(name))
        self.several: Callable[[], None] = lambda: None

    def forward(self, method: str, request: Any, _: Any, *, by: By | None = None) -> Any:
        if method == "add":
            assert by is not None and by.actor == request.user and by.call
        else:
            assert all(one.by.actor == one.request.user and one.by.call for one in request.calls)
        return self.unchecked(method, request, _, by=by)

    def unchecked(self, method: str, request: Any, _: Any, *, by: By | None = None) -> Any:
        if method == "add":
            self.asked.append([request.user])
            assert self.go.wait(10)
            return self.alone(request.user)
        assert method == "adds" and isinstance(request, SeveralAdds)
        self.asked.append([one.request.user for one in request.calls])
        assert self.go.wait(10)
        self.several()
        return Outcomes.model_construct(outcomes=[self.one(str(one.request.user)) for one in request.calls])


class Meeting:
    """Threads that hand in while the call of the first one is under way."""

    def __init__(self, there: Judicators, pool: ThreadPoolExecutor) -> None:
        self.there, self.pool = there, pool
        self.adding = Adding(cast("Any", there))
        self.first = self.hand_in("first")
        self.wait(lambda: there.asked == [["first"]])

    def hand_in(self, name: str, **more: Any) -> Future[AddReply]:
        return self.pool.submit(self.adding.send, call(name, **more))

    def others(self, *names: str) -> dict[str, Future[AddReply]]:
        made = {}
        for count, name in enumerate(names, 1):
            made[name] = self.hand_in(name)
            self.wait(lambda count=count: len(self.adding._waiting) == count)
        return made

    @staticmethod
    def wait(condition: Callable[[], bool]) -> None:
        tick = threading.Event()
        for _ in range(5000):
            if condition():
                return
            tick.wait(0.002)
        raise AssertionError("did not come true")


@contextmanager
def meeting(there: Judicators) -> Iterator[Meeting]:
    pool = ThreadPoolExecutor(8)
    try:
        yield Meeting(there, pool)
    finally:
        there.go.set()
        pool.shutdown()


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adding, "_PACE", 3600.0)


def test_who_is_alone_goes_at_once_and_who_comes_meanwhile_together() -> None:
    there = Judicators()
    with meeting(there) as met:
        others = met.others("a", "b", "c")
        there.go.set()
        assert met.first.result(10).task == "first"
        assert [one.result(10).task for one in others.values()] == ["a", "b", "c"]
    assert there.asked == [["first"], ["a", "b", "c"]]


def test_a_slow_call_holds_up_others_for_one_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adding, "_PACE", 0.05)
    there = Judicators()
    with meeting(there) as met:
        met.hand_in("a")
        met.wait(lambda: len(there.asked) == 2)
        assert not met.first.done()


def test_each_has_what_comes_of_its_own() -> None:
    there = Judicators()

    def one(name: str) -> OneOutcome:
        wrong = {"b": LimitError("too many"), "c": UnavailableError("no primary")}.get(name)
        return OneOutcome(error=ErrorBody.of(wrong)) if wrong else OneOutcome.model_construct(reply=reply(name))

    there.one = one
    with meeting(there) as met:
        others = met.others("a", "b", "c")
        there.go.set()
        assert others["a"].result(10).task == "a"
        with pytest.raises(LimitError, match="too many"):
            others["b"].result(10)
        assert others["c"].result(10).task == "c"
    assert there.asked == [["first"], ["a", "b", "c"], ["c"]], "what one judicator cannot do, another one may"


@pytest.mark.parametrize("error", [DeadlineError, OutcomeUnknownError, UnavailableError])
def test_when_nobody_answers_each_hears_of_that_once(error: type[JudgeError]) -> None:
    there = Judicators()

    def nobody() -> None:
        raise error("nobody answered")

    there.several = nobody
    with meeting(there) as met:
        others = met.others("a", "b")
        there.go.set()
        for one in others.values():
            with pytest.raises(error, match="nobody answered"):
                one.result(10)
    assert there.asked == [["first"], ["a", "b"]]
    assert others["a"].exception() is not others["b"].exception(), "each thread has an exception of its own"


@pytest.mark.parametrize("wrong", [NotFoundError("there is no method 'adds'"), None])
def test_a_judicator_that_does_not_take_several_is_asked_for_each(wrong: JudgeError | None) -> None:
    there = Judicators()
    real = there.forward

    def forward(method: str, *rest: Any, **more: Any) -> Any:
        answer = real(method, *rest, **more)
        if method == "add":
            return answer
        if wrong is not None:
            raise wrong
        return Outcomes.model_construct(outcomes=answer.outcomes[:1])

    there.forward = forward  # type: ignore[method-assign]
    with meeting(there) as met:
        others = met.others("a", "b")
        there.go.set()
        assert [one.result(10).task for one in others.values()] == ["a", "b"]
    assert sorted(there.asked[2:]) == [["a"], ["b"]]


def goes_on(met: Meeting, other: Future[AddReply], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waited beside what broke is handed in alone, and the next one as ever."""
    assert other.result(10).task == "b"
    monkeypatch.setattr(adding, "_PACE", 0.0)
    assert met.hand_in("later").result(10).task == "later"


def test_what_fails_in_here_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Judicators()

    def broken() -> None:
        raise ZeroDivisionError

    there.several = broken
    with meeting(there) as met:
        others = met.others("a", "b")
        there.go.set()
        with pytest.raises(ZeroDivisionError):
            others["a"].result(10)
        goes_on(met, others["b"], monkeypatch)


def test_when_its_leader_dies_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Judicators()

    def dies(_: object) -> list[_Waiting]:
        raise MemoryError

    with meeting(there) as met:
        others = met.others("a", "b")
        monkeypatch.setattr(adding, "next_group", dies)
        there.go.set()
        with pytest.raises(MemoryError):
            others["a"].result(10)
        monkeypatch.undo()
        goes_on(met, others["b"], monkeypatch)


def test_what_may_be_done_already_is_never_told_as_not_done() -> None:
    there = Judicators()
    away: list[JudgeError] = []

    def one(name: str) -> OneOutcome:
        return OneOutcome(error=ErrorBody.of(OutcomeUnknownError("the primary went")))

    def alone(name: str) -> AddReply:
        if name == "first":
            return reply(name)
        raise away[0]

    there.one, there.alone = one, alone
    away.append(UnavailableError("nobody is there"))
    with meeting(there) as met:
        others = met.others("a", "b")
        there.go.set()
        for one_of in others.values():
            with pytest.raises(OutcomeUnknownError, match="the primary went"):
                one_of.result(10)
    assert Adding(cast("Any", there)).together([call("a"), call("b")]) == [Again("the primary went")] * 2
    away[0] = LimitError("too many")
    with pytest.raises(LimitError):
        Adding(cast("Any", there)).alone(call("a"), Again("the primary went"))


NAMES = st.lists(st.sampled_from(["ann", "bob", "eve", "ian"]), min_size=1, max_size=150)


@given(NAMES)
def test_nobody_fills_the_call_of_others(names: list[str]) -> None:
    waiting = [_Waiting(call(name)) for name in names]
    group = next_group(waiting)
    assert group[0] is waiting[0] and len(group) <= 32
    assert [one for one in waiting if one in group] == group, "in their order"
    if len(set(names)) > 1:
        assert max(names.count(name) and sum(one.call.by.actor == name for one in group) for name in set(names)) <= 2
        assert {one.call.by.actor for one in group} == set(names), "everybody is in it"
    else:
        assert len(group) == min(len(names), 16), "who is alone holds up nobody"


def test_who_is_left_goes_with_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Judicators()
    with meeting(there) as met:
        flood = []
        for count in range(1, 6):
            flood.append(met.pool.submit(met.adding.send, prepared(submission(f"f{count}"), By(actor="flood"))))
            met.wait(lambda count=count: len(met.adding._waiting) == count)
        other = met.hand_in("other")
        met.wait(lambda: len(met.adding._waiting) == 6)
        monkeypatch.setattr(adding, "_PACE", 0.0)
        monkeypatch.setattr(there, "forward", there.unchecked)
        there.go.set()
        assert other.result(10).task == "other"
        assert [one.result(10).task for one in flood] == ["f1", "f2", "f3", "f4", "f5"]
    assert there.asked == [["first"], ["f1", "f2", "other"], ["f3", "f4", "f5"]]


def test_a_large_one_holds_up_nobody() -> None:
    there = Judicators()
    with meeting(there) as met:
        large = met.hand_in("large", source=LARGE)
        met.wait(lambda: ["large"] in there.asked)
        there.go.set()
        assert large.result(10).task == "large"


def test_a_call_that_may_be_made_again_is_the_same_call() -> None:
    bare = prepared(Submission(user="a"), None)
    assert bare.request.idempotency_key and bare.by.call
    kept = prepared(submission("a"), By(call="c"))
    assert (kept.request.idempotency_key, kept.by.call) == ("key of a", "c")


ONES = st.lists(
    st.builds(
        lambda key, large: Submission(idempotency_key=key, source=LARGE if large else "x"),
        st.sampled_from([None, "a", "b", "c"]),
        st.booleans(),
    ),
    max_size=60,
)


@given(ONES)
def test_a_batch_is_parted_in_order_and_of_one_key_one_goes_at_a_time(ones: list[Submission]) -> None:
    found = parts(ones)
    assert [place for part in found for place in part] == list(range(len(ones)))
    for part in found:
        keys = [ones[place].idempotency_key for place in part if ones[place].idempotency_key]
        assert part and len(part) <= 16 and len(set(keys)) == len(keys)
        assert len(part) == 1 or all(ones[place].source != LARGE for place in part)
