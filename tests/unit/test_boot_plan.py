"""The pure decision of boot: every branch, and properties over long random histories."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.boot import plan
from judge.boot.plan import Action, Phase, Process, ServiceFacts, ServiceState, decide
from judge.config import BootService
from tests.support.examples import at_least

SPEC = BootService(
    name="one",
    kind="etcd",
    config=Path("one.yml"),
    serving="127.0.0.1:1",
    serving_failures=3,
    start_timeout=10,
    restart_min=0.5,
    restart_max=4,
    start_retries=2,
    healthy_after=20,
    stop_grace=5,
)
RUNNING = ServiceFacts(Process.RUNNING)
SERVING = ServiceFacts(Process.RUNNING, serving=True)
SILENT = ServiceFacts(Process.RUNNING, serving=False, trouble="refused")
ABSENT = ServiceFacts(Process.ABSENT)


def ended(code: int | None = 1, detail: str = "last words") -> ServiceFacts:
    return ServiceFacts(Process.EXITED, code=code, detail=detail)


def state(phase: Phase, **values) -> ServiceState:
    return ServiceState(phase, **values)


def test_first_start_and_serving():
    decision = decide(SPEC, ServiceState(), ABSENT, 100.0)
    assert decision.action is Action.START and decision.sentence == "starting"
    assert decision.state == ServiceState(Phase.STARTING, since=100.0, starts=1)
    decision = decide(SPEC, decision.state, RUNNING, 100.1)
    assert decision == plan.Decision(dataclasses.replace(decision.state))
    decision = decide(SPEC, decision.state, SERVING, 101.5)
    assert decision.state.phase is Phase.RUNNING and decision.sentence == "serves, 1.5 s after its start"


def test_a_service_waits_for_the_one_before_it():
    decision = decide(SPEC, ServiceState(), ServiceFacts(may_start=False), 1.0)
    assert decision.action is Action.NONE and decision.state.reason == "waits for the service before it"


def test_back_off_grows_and_gives_up():
    current = ServiceState()
    waits = []
    now = 0.0
    for _ in range(3):
        current = decide(SPEC, current, ABSENT, now).state
        assert current.phase is Phase.STARTING
        decision = decide(SPEC, current, ended(), now)
        current = decision.state
        waits.append(current.until - now)
        now = max(now, current.until)
    assert waits[:2] == [0.5, 1.0]
    assert current.phase is Phase.FATAL
    assert current.reason == "gave up after 3 failures in a row: ended with exit code 1: last words"
    assert decide(SPEC, current, ended(), now + 1000) == plan.Decision(current)
    renewed = decide(SPEC, current, dataclasses.replace(ended(), renewed=True), now)
    assert renewed.state.phase is Phase.STOPPED and renewed.state.crashes == renewed.state.failures == 0
    assert decide(SPEC, renewed.state, ended(), now).action is Action.START


def test_waiting_in_back_off_can_be_cut_short():
    waiting = state(Phase.BACKOFF, until=10.0, failures=1, starts=1)
    assert decide(SPEC, waiting, ended(), 9.9).action is Action.NONE
    assert decide(SPEC, waiting, dataclasses.replace(ended(), renewed=True), 1.0).action is Action.START
    assert decide(SPEC, waiting, ended(), 10.0).sentence == "starting again (1)"


@pytest.mark.parametrize("code", [2, 3])
@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.RUNNING])
def test_refusal_is_fatal_at_once(code, phase):
    decision = decide(SPEC, state(phase, starts=1), ended(code, "etcd.yml:1: wrong"), 5.0)
    assert decision.state.phase is Phase.FATAL
    assert decision.sentence == f"FATAL, a person has to act: ended with exit code {code}: etcd.yml:1: wrong"


def test_long_service_forgives():
    tired = state(Phase.RUNNING, since=0.0, failures=2, crashes=2, starts=3)
    assert decide(SPEC, tired, ended(), 19.0).state.phase is Phase.FATAL
    fresh = decide(SPEC, tired, ended(), 20.0).state
    assert fresh.phase is Phase.BACKOFF and fresh.crashes == 1
    assert decide(SPEC, tired, RUNNING, 20.0).state.crashes == 0
    assert decide(SPEC, tired, RUNNING, 19.0).state.crashes == 2


def test_not_serving_is_killed_and_restarted_for_ever():
    current = state(Phase.RUNNING, since=0.0, starts=1, crashes=2)
    first = decide(SPEC, current, SILENT, 1.0)
    assert first.sentence == "does not serve (refused), 1 of 3 checks" and first.action is Action.NONE
    assert decide(SPEC, first.state, SERVING, 2.0).sentence == "serves again"
    second = decide(SPEC, first.state, SILENT, 2.0)
    assert second.sentence == "" and second.state.missed == 2
    third = decide(SPEC, second.state, SILENT, 3.0)
    assert third.action is Action.KILL and third.state.phase is Phase.STOPPING
    assert decide(SPEC, third.state, RUNNING, 3.5).action is Action.NONE
    again = decide(SPEC, third.state, RUNNING, 4.1)
    assert again.action is Action.KILL and again.sentence == ""
    down = decide(SPEC, third.state, ended(-9), 3.1)
    assert down.state.phase is Phase.BACKOFF and down.state.crashes == 2 and down.state.failures == 1


def test_checks_do_not_count_before_the_start_timeout():
    starting = state(Phase.STARTING, since=0.0, starts=1, missed=2)
    patient = decide(SPEC, starting, SILENT, 9.9)
    assert patient.state.missed == 2 and patient.state.reason == "refused" and not patient.sentence
    assert decide(SPEC, starting, SILENT, 10.0).action is Action.KILL


def test_a_service_restarted_from_outside_gets_its_start_timeout_again():
    """Nobody saw the old process end: `systemctl restart` between two looks."""
    current = state(Phase.RUNNING, since=0.0, starts=1, missed=2)
    anew = decide(SPEC, current, dataclasses.replace(SILENT, another=True), 50.0)
    assert (anew.action, anew.state.phase, anew.state.missed) == (Action.NONE, Phase.STARTING, 0)
    assert anew.sentence == "was started anew, not by boot"
    assert decide(SPEC, anew.state, SILENT, 59.9).action is Action.NONE
    assert decide(SPEC, anew.state, SERVING, 60.0).sentence == "serves, 10.0 s after its start"
    old = decide(SPEC, current, ServiceFacts(Process.RUNNING, another=True, outdated=True), 50.0)
    assert old.action is Action.TERMINATE


def test_adoption_and_replacement():
    adopted = decide(SPEC, ServiceState(), RUNNING, 7.0)
    assert adopted.state.phase is Phase.STARTING and adopted.action is Action.NONE and adopted.state.starts == 1
    old = decide(SPEC, ServiceState(), ServiceFacts(Process.RUNNING, outdated=True), 7.0)
    assert old.action is Action.TERMINATE and old.state.phase is Phase.STOPPING and old.state.until == 12.0
    late = decide(SPEC, old.state, RUNNING, 12.0)
    assert late.action is Action.KILL and late.sentence == "did not end in time, killing it"
    final = decide(SPEC, late.state, ended(-9), 12.1)
    assert final.state.phase is Phase.STOPPED and final.sentence == "the old one has ended"
    assert decide(SPEC, final.state, ended(-9), 12.2).action is Action.START


def test_aliens_are_cleared_and_never_doubled():
    alien = ServiceFacts(Process.ALIEN, detail="process 3 holds it")
    first = decide(SPEC, ServiceState(), alien, 1.0)
    assert first.action is Action.CLEAR and first.sentence == "cannot be started: process 3 holds it"
    assert decide(SPEC, first.state, alien, 2.0).sentence == ""
    waiting = state(Phase.BACKOFF, until=10.0)
    assert decide(SPEC, waiting, alien, 5.0) == plan.Decision(waiting, Action.CLEAR)
    assert decide(SPEC, waiting, alien, 10.0).state.phase is Phase.STOPPED
    assert decide(SPEC, ServiceState(), dataclasses.replace(alien, ending=True), 1.0).action is Action.CLEAR


def test_hold():
    first = decide(SPEC, state(Phase.RUNNING), ServiceFacts(Process.RUNNING, held="held by ada"), 1.0)
    assert first.state.phase is Phase.HELD and first.sentence == "held by ada"
    again = decide(SPEC, first.state, ServiceFacts(Process.EXITED, code=2, held="held by ada"), 2.0)
    assert again.state == first.state and not again.sentence and again.action is Action.NONE
    renamed = decide(SPEC, first.state, ServiceFacts(held="held by bob"), 2.0)
    assert renamed.sentence == "held by bob" and renamed.state.since == 1.0
    assert decide(SPEC, first.state, ended(2), 3.0).state.phase is Phase.STOPPED
    assert decide(SPEC, first.state, RUNNING, 3.0).state.phase is Phase.STARTING


def test_orderly_stop():
    ending = ServiceFacts(Process.RUNNING, ending=True)
    running = state(Phase.RUNNING, since=1.0, starts=1)
    assert decide(SPEC, running, ending, 10.0) == plan.Decision(running)
    turn = dataclasses.replace(ending, turn=True)
    terminated = decide(SPEC, running, turn, 10.0)
    assert terminated.action is Action.TERMINATE and terminated.state.until == 15.0
    assert decide(SPEC, terminated.state, turn, 14.9).action is Action.NONE
    killed = decide(SPEC, terminated.state, turn, 15.0)
    assert killed.action is Action.KILL
    stopped = decide(SPEC, killed.state, ServiceFacts(Process.EXITED, code=-9, ending=True, turn=True), 15.1)
    assert stopped.state.phase is Phase.STOPPED and stopped.sentence == "stopped"
    assert decide(SPEC, stopped.state, ServiceFacts(ending=True, turn=True), 15.2).sentence == ""
    early = decide(SPEC, running, ServiceFacts(Process.EXITED, code=0, ending=True), 10.0)
    assert early.sentence == "stopped; ended with exit code 0 before it was asked to"
    fatal = state(Phase.FATAL, reason="why")
    assert decide(SPEC, fatal, ServiceFacts(ending=True), 10.0).state.reason == "why"


def test_orderly_stop_leaves_the_unkillable_behind():
    turn = ServiceFacts(Process.RUNNING, ending=True, turn=True)
    current, now, kills = state(Phase.RUNNING, starts=1), 0.0, 0
    while current.phase is not Phase.STOPPED:
        decision = decide(SPEC, current, turn, now)
        kills += decision.action is Action.KILL
        current, now = decision.state, now + 1
        assert now < 100
    assert kills == plan.KILLS and current.reason == "survived 5 SIGKILLs, left behind"
    assert decide(SPEC, current, turn, now) == plan.Decision(current)


@pytest.mark.parametrize(
    ("code", "detail", "text"),
    [
        (None, "", "ended"),
        (-9, "", "was killed by SIGKILL"),
        (-999, "x", "was killed by signal 999: x"),
        (0, "", "ended with exit code 0"),
        (1, "bad", "ended with exit code 1: bad"),
    ],
)
def test_how_it_ended(code, detail, text):
    assert plan.describe_end(code, detail) == text


def test_gates():
    timeouts = {"a": 10, "b": 20, "c": 20}
    specs = [SPEC.model_copy(update={"name": name, "start_timeout": limit}) for name, limit in timeouts.items()]
    stopped = [ServiceState(), ServiceState(), ServiceState()]
    gates, sentences = plan.open_gates(specs, stopped, [None, None, None], 1.0)
    assert gates == [1.0, None, None] and sentences == []
    gates, sentences = plan.open_gates(specs, stopped, gates, 10.9)
    assert gates == [1.0, None, None]
    late, sentences = plan.open_gates(specs, stopped, gates, 11.0)
    assert late == [1.0, 11.0, None], "the start_timeout of the service before it counts"
    assert sentences == ["b: starting although a does not serve after 10 s"]
    serving, sentences = plan.open_gates(specs, [state(Phase.RUNNING), ServiceState(), ServiceState()], gates, 2.0)
    assert serving == [1.0, 2.0, None] and sentences == []
    opened, sentences = plan.open_gates(specs, [state(Phase.RUNNING), state(Phase.FATAL), ServiceState()], gates, 2.0)
    assert opened == [1.0, 2.0, 2.0] and sentences == ["c: starting although b is FATAL"]
    assert plan.open_gates(specs, stopped, opened, 99.0) == (opened, [])


FACTS = st.builds(
    ServiceFacts,
    process=st.sampled_from(Process),
    code=st.sampled_from([None, 0, 1, 2, 3, -9]),
    detail=st.sampled_from(["", "last line"]),
    outdated=st.booleans(),
    another=st.booleans(),
    serving=st.sampled_from([None, True, False]),
    held=st.sampled_from(["", "", "", "held by ada"]),
    may_start=st.booleans(),
    renewed=st.booleans(),
    ending=st.sampled_from([False, False, False, True]),
    turn=st.booleans(),
)


@settings(max_examples=at_least(500))
@given(st.lists(st.tuples(FACTS, st.floats(0, 30)), max_size=40))
def test_every_history_is_safe(history):
    """Whatever is seen in whatever order: never two of a kind, hands off what is held, no endless quick restarts."""
    current, now = ServiceState(), 0.0
    for facts, passed in history:
        now += passed
        before = current
        decision = decide(SPEC, current, facts, now)
        current = decision.state
        if decision.action is Action.START:
            assert facts.process in {Process.ABSENT, Process.EXITED}
            assert not facts.held and not facts.ending and facts.may_start
            assert current.phase is Phase.STARTING and current.starts == before.starts + 1
            assert before.phase not in {Phase.FATAL, Phase.HELD}
            assert before.phase is not Phase.BACKOFF or now >= before.until or facts.renewed
        if decision.action in {Action.TERMINATE, Action.KILL}:
            assert facts.process is Process.RUNNING and not facts.held
            assert current.phase is Phase.STOPPING
        if decision.action is Action.CLEAR:
            assert facts.process is Process.ALIEN and not facts.held
        if facts.held:
            assert current.phase is Phase.HELD and decision.action is Action.NONE
        if current.phase is not before.phase:
            assert current.since == now
            # Every change is told, except the return to STOPPED that an alien's clearance makes.
            assert decision.sentence or facts.process is Process.ALIEN
        assert current.crashes <= SPEC.start_retries
        if current.phase is Phase.BACKOFF and before.phase is not Phase.BACKOFF:
            assert SPEC.restart_min - 1e-9 <= current.until - now <= SPEC.restart_max + 1e-9
        if current.phase is Phase.FATAL:
            assert current.reason


@given(st.integers(1, 10**6))
def test_delay_is_bounded_and_monotonic(failures):
    assert SPEC.restart_min <= plan.delay(SPEC, failures) <= plan.delay(SPEC, failures + 1) <= SPEC.restart_max
