"""The leader's sweep with an injected clock (docs/protocol.md, rule 6)."""

import datetime

from bson import ObjectId
from hypothesis import example, given
from hypothesis import strategies as st

from judge.judicator.leader.sweep import ExecutorMark, Notes, SilenceLimits, SweepDecision, decide, observed
from judge.judicator.tasks.forms import HandOut

LIMITS = SilenceLimits(task_expiry=8.0, executor_expiry=6.0, executor_forget=100.0)
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
TASK = ObjectId()


def assigned(executor: str = "e1", attempt: int = 1, heartbeat: int = 0) -> HandOut:
    return HandOut(TASK, executor, "i", attempt, "c", heartbeat, 1, 0, False, "running", "", (), NOW)


def mark(sequence: int = 1, *, alive: bool = True, name: str = "e1", incarnation: str = "i") -> ExecutorMark:
    return ExecutorMark(name, incarnation, sequence, alive)


def test_a_first_look_decides_nothing() -> None:
    decision = decide({}, [assigned()], [mark()], 1e9, LIMITS)
    assert (decision.expired, decision.orphaned, decision.dead, decision.forgotten) == ([], [], [], [])


def test_a_heartbeat_or_a_new_attempt_starts_the_clock_again() -> None:
    notes = decide({}, [assigned()], [], 0.0, LIMITS).notes
    for renewed in (assigned(heartbeat=1), assigned(attempt=2)):
        later = decide(notes, [renewed], [], 7.0, LIMITS)
        assert decide(later.notes, [renewed], [], 14.0, LIMITS).expired == []
        assert decide(later.notes, [renewed], [], 15.0, LIMITS).expired == [renewed]


def test_a_silent_executor_dies_and_its_tasks_go_back_at_once() -> None:
    notes = decide({}, [], [mark()], 0.0, LIMITS).notes
    second = assigned(executor="e2")
    decision = decide(notes, [assigned(heartbeat=3), second], [mark()], 6.0, LIMITS)
    assert decision.dead == [mark()]
    assert decision.orphaned == [assigned(heartbeat=3)]
    assert decision.expired == []


def test_a_dead_executor_is_forgotten_later_and_a_reporting_one_is_not() -> None:
    notes = decide({}, [], [mark()], 0.0, LIMITS).notes
    dead = decide(notes, [], [mark(alive=False)], 50.0, LIMITS)
    assert dead.forgotten == []
    assert decide(dead.notes, [], [mark(alive=False)], 100.0, LIMITS).forgotten == [mark(alive=False)]
    assert decide(dead.notes, [], [mark(2)], 100.0, LIMITS).dead == []
    assert decide(dead.notes, [], [mark(1, incarnation="j")], 100.0, LIMITS).dead == []


def test_notes_of_ended_tasks_are_dropped() -> None:
    notes = decide({}, [assigned()], [mark()], 0.0, LIMITS).notes
    assert len(notes) == 2
    assert decide(notes, [], [], 1.0, LIMITS).notes == {}


@given(st.floats(0, 1e6), st.floats(-1e6, 1e6), st.floats(0.01, 100))
def test_observed_time_never_goes_back_and_a_blind_spell_counts_little(before: float, gap: float, step: float) -> None:
    after = observed(before, gap, step)
    assert before <= after <= before + 2 * step + 1e-6 * before


@given(st.lists(st.tuples(st.floats(0.1, 3.0), st.booleans()), max_size=60))
@example([(2.0, True), (3.0, False), (3.0, False), (2.0, False)])  # ends at the limit
def test_only_silence_of_the_full_length_expires_and_always_does(steps: list[tuple[float, bool]]) -> None:
    """Against a model: time since the last heartbeat that the leader saw."""
    notes: Notes = {}
    now, beat, since = 0.0, 0, None
    for gap, beats in steps:
        now += gap
        beat += int(beats)
        if since is None or beats:
            since = now
        decision: SweepDecision = decide(notes, [assigned(heartbeat=beat)], [], now, LIMITS)
        notes = decision.notes
        assert bool(decision.expired) == (now - since >= LIMITS.task_expiry)
