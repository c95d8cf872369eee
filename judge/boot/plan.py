"""The next step of boot for one service: a pure function of its state, the facts and the monotonic time.

Seeds: the body of the loop of Boot (`IF NOT s.process.running: s.process = subprocess.run(s)`), with what the seeds
leave open: explicit states after supervisor's, back-off, giving up with a reason, holds, and checks that it serves.
"""

from __future__ import annotations

import dataclasses
import enum
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from judge.common.errors import EXIT_REFUSED, EXIT_USAGE
from judge.config import BootService

KILL_AGAIN = 1.0  # seconds between two SIGKILLs of something that does not die
KILLS = 5  # after so many, an orderly stop leaves it behind and says so


class Phase(enum.StrEnum):
    """The phase of a service, as `judgectl status` shows it."""

    STOPPED = "STOPPED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    BACKOFF = "BACKOFF"
    FATAL = "FATAL"
    HELD = "HELD"
    STOPPING = "STOPPING"


class Process(enum.StrEnum):
    """The process of a service. ALIEN: another process than the recorded one has the service's lock."""

    ABSENT = "absent"
    RUNNING = "running"
    EXITED = "exited"
    ALIEN = "alien"


class Action(enum.StrEnum):
    """The backend's next act. CLEAR: kill processes with the service's marks, so that it can be started."""

    NONE = "none"
    START = "start"
    TERMINATE = "terminate"
    KILL = "kill"
    CLEAR = "clear"


@dataclass(frozen=True)
class ServiceState:
    """The memory that boot has of a service. Times are monotonic seconds.

    `failures` counts ends in a row for the back-off, `crashes` those that count towards giving up: a service that
    runs but does not serve often waits for another host, so it is restarted for ever. `kills` counts SIGKILLs since
    it was asked to end.
    """

    phase: Phase = Phase.STOPPED
    since: float = 0.0
    reason: str = ""
    starts: int = 0
    failures: int = 0
    crashes: int = 0
    missed: int = 0
    until: float = 0.0
    kills: int = 0
    again: bool = False

    @property
    def restarts(self) -> int:
        """The number of its starts after the first one."""
        return max(0, self.starts - 1)


@dataclass(frozen=True)
class ServiceFacts:
    """The facts about a service now.

    `serving` is the result of a check that ended since the last decision, None when none did. `turn` says that an
    orderly stop (`ending`) has come to this service. `renewed`: released by a person, or its config has changed.
    `another`: somebody has started it anew since the last look.
    """

    process: Process = Process.ABSENT
    code: int | None = None
    detail: str = ""
    outdated: bool = False
    another: bool = False
    serving: bool | None = None
    trouble: str = ""
    held: str = ""
    may_start: bool = True
    renewed: bool = False
    ending: bool = False
    turn: bool = False


@dataclass(frozen=True)
class Decision:
    """The next state, the act, and the sentence for the log (empty: nothing worth a line)."""

    state: ServiceState
    action: Action = Action.NONE
    sentence: str = ""


def decide(spec: BootService, state: ServiceState, facts: ServiceFacts, now: float) -> Decision:
    """The next single step for one service. Called by boot's loop, under the lock of the service's pid file."""
    if facts.held or state.phase is Phase.HELD:
        return _decide_held(state, facts, now)
    if facts.ending:
        return _ending(spec, state, facts, now)
    if state.phase is Phase.FATAL:
        return _fatal(state, facts, now)
    handle = {Process.RUNNING: _running, Process.ALIEN: _alien}.get(facts.process, _down)
    return handle(spec, state, facts, now)


def delay(spec: BootService, failures: int) -> float:
    """Seconds to wait before the next start after so many failures in a row (at least 1): doubled up to the maximum."""
    return float(min(spec.restart_max, spec.restart_min * 2.0 ** min(failures - 1, 30)))


def describe_end(code: int | None, detail: str) -> str:
    """The end of a service, with its last log line: `ended with exit code 2: etcd.yml:3: unknown key 'x'`."""
    if code is None:
        ending = "ended"
    elif code < 0:
        try:
            ending = f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            ending = f"was killed by signal {-code}"
    else:
        ending = f"ended with exit code {code}"
    return f"{ending}: {detail}" if detail else ending


def open_gates(
    specs: Sequence[BootService], states: Sequence[ServiceState], opened: Sequence[float | None], now: float
) -> tuple[list[float | None], list[str]]:
    """Since when each service may start, and sentences for those that no longer wait for the one before.

    A service may start once the former one serves, or cannot be waited for: its start_timeout is over, or it is
    FATAL or held. An open gate stays open, so that later restarts do not wait for each other.
    """
    gates: list[float | None] = []
    sentences: list[str] = []
    for index, spec in enumerate(specs):
        before = opened[index]
        if before is None and index == 0:
            before = now
        elif before is None and gates[index - 1] is not None:
            former, phase = specs[index - 1], states[index - 1].phase
            waited = now - (gates[index - 1] or 0.0)
            if phase is Phase.RUNNING:
                before = now
            elif phase in {Phase.FATAL, Phase.HELD}:
                before = now
                sentences.append(f"{spec.name}: starting although {former.name} is {phase}")
            elif waited >= former.start_timeout:
                before = now
                sentences.append(
                    f"{spec.name}: starting although {former.name} does not serve after {former.start_timeout:g} s"
                )
        gates.append(before)
    return gates, sentences


def _enter(
    state: ServiceState, phase: Phase, now: float, reason: str = "", **changes: int | float | bool
) -> ServiceState:
    """The state with another phase; `since` moves only when the phase does."""
    since = state.since if phase is state.phase else now
    return dataclasses.replace(state, phase=phase, since=since, reason=reason, **changes)  # type: ignore[arg-type]


def _fresh(state: ServiceState, now: float) -> ServiceState:
    """Stopped, with a clean record: a person has acted."""
    return _enter(state, Phase.STOPPED, now, failures=0, crashes=0, missed=0, kills=0)


def _decide_held(state: ServiceState, facts: ServiceFacts, now: float) -> Decision:
    if facts.held:
        changed = state.phase is not Phase.HELD or state.reason != facts.held
        return Decision(_enter(state, Phase.HELD, now, facts.held), sentence=facts.held if changed else "")
    if facts.process is Process.RUNNING:
        state = _enter(_fresh(state, now), Phase.STARTING, now)
        return Decision(state, sentence="no longer held; it runs and is watched again")
    return Decision(_fresh(state, now), sentence="no longer held")


def _fatal(state: ServiceState, facts: ServiceFacts, now: float) -> Decision:
    if not facts.renewed:
        return Decision(state)
    return Decision(_fresh(state, now), sentence="released or reconfigured, so it is tried again")


def _alien(_spec: BootService, state: ServiceState, facts: ServiceFacts, now: float) -> Decision:
    """Never two of a kind: it is not started before what holds its lock is gone."""
    if state.phase is Phase.BACKOFF and now < state.until:
        return Decision(state, Action.CLEAR)
    sentence = f"cannot be started: {facts.detail}" if state.reason != facts.detail else ""
    return Decision(_enter(state, Phase.STOPPED, now, facts.detail), Action.CLEAR, sentence)


def _ending(spec: BootService, state: ServiceState, facts: ServiceFacts, now: float) -> Decision:
    """An orderly stop (seeds: `s.process.kill()`, `s.process.join()`), in reverse order of the services."""
    if facts.process is Process.ALIEN:
        return Decision(_enter(state, Phase.STOPPED, now, facts.detail), Action.CLEAR)
    if facts.process is not Process.RUNNING:
        sentence = "" if state.phase is Phase.STOPPED else "stopped"
        if state.phase in {Phase.STARTING, Phase.RUNNING}:
            sentence = f"stopped; {describe_end(facts.code, facts.detail)} before it was asked to"
        return Decision(_enter(state, Phase.STOPPED, now, state.reason), sentence=sentence)
    if not facts.turn or (state.phase is Phase.STOPPED and state.kills >= KILLS):
        return Decision(state)
    if state.phase is not Phase.STOPPING:
        state = _enter(state, Phase.STOPPING, now, "boot stops", until=now + spec.stop_grace, kills=0)
        return Decision(state, Action.TERMINATE, f"stopping, within {spec.stop_grace:g} s")
    if state.kills >= KILLS and now >= state.until:
        reason = f"survived {KILLS} SIGKILLs, left behind"
        return Decision(_enter(state, Phase.STOPPED, now, reason), sentence=reason)
    return _stopping(state, now)


def _stopping(state: ServiceState, now: float) -> Decision:
    """It was asked to end, or killed, and still runs."""
    if now < state.until:
        return Decision(state)
    sentence = "" if state.kills else "did not end in time, killing it"
    return Decision(dataclasses.replace(state, until=now + KILL_AGAIN, kills=state.kills + 1), Action.KILL, sentence)


def _running(spec: BootService, state: ServiceState, facts: ServiceFacts, now: float) -> Decision:
    if state.phase is Phase.STOPPING:
        return _stopping(state, now)
    if state.phase is Phase.RUNNING and facts.another and not facts.outdated:
        # It has to start like any other: what it does not serve yet is no miss.
        return Decision(_enter(state, Phase.STARTING, now, missed=0), sentence="was started anew, not by boot")
    if state.phase in {Phase.STOPPED, Phase.BACKOFF}:
        state = _enter(state, Phase.STARTING, now, missed=0, kills=0, starts=max(state.starts, 1))
        if not facts.outdated:
            return Decision(state, sentence="found running from before, adopted")
    if facts.outdated:
        reason = "runs with an older config, replacing it"
        state = _enter(state, Phase.STOPPING, now, reason, until=now + spec.stop_grace, kills=0, again=True)
        return Decision(state, Action.TERMINATE, reason)
    if state.phase is Phase.RUNNING and now - state.since >= spec.healthy_after:
        state = dataclasses.replace(state, failures=0, crashes=0)
    if facts.serving is None:
        return Decision(state)
    return _serves(state, now) if facts.serving else _missed(spec, state, facts, now)


def _serves(state: ServiceState, now: float) -> Decision:
    if state.phase is Phase.STARTING:
        sentence = f"serves, {now - state.since:.1f} s after its start"
        return Decision(_enter(state, Phase.RUNNING, now, missed=0), sentence=sentence)
    sentence = "serves again" if state.missed else ""
    return Decision(dataclasses.replace(state, missed=0, reason=""), sentence=sentence)


def _missed(spec: BootService, state: ServiceState, facts: ServiceFacts, now: float) -> Decision:
    """A check found it running but not serving; after enough of them it is killed and started again."""
    if state.phase is Phase.STARTING and now - state.since < spec.start_timeout:
        return Decision(dataclasses.replace(state, reason=facts.trouble))
    missed = state.missed + 1
    reason = f"does not serve ({facts.trouble}), {missed} of {spec.serving_failures} checks"
    if missed < spec.serving_failures:
        sentence = reason if missed == 1 else ""
        return Decision(dataclasses.replace(state, missed=missed, reason=reason), sentence=sentence)
    state = _enter(state, Phase.STOPPING, now, reason, until=now + KILL_AGAIN, kills=1, again=False)
    return Decision(state, Action.KILL, f"{reason}: killing it")


def _down(spec: BootService, state: ServiceState, facts: ServiceFacts, now: float) -> Decision:
    if state.phase in {Phase.STARTING, Phase.RUNNING}:
        return _ended(spec, state, facts, now)
    if state.phase is Phase.STOPPING:
        if state.again:
            return Decision(_enter(state, Phase.STOPPED, now, state.reason), sentence="the old one has ended")
        return _back_off(spec, state, now, state.reason, crashes=state.crashes)
    if state.phase is Phase.BACKOFF and now < state.until and not facts.renewed:
        return Decision(state)
    if not facts.may_start:
        return Decision(_enter(state, state.phase, now, "waits for the service before it"))
    state = _enter(state, Phase.STARTING, now, missed=0, kills=0, starts=state.starts + 1)
    return Decision(state, Action.START, "starting" if state.starts == 1 else f"starting again ({state.restarts})")


def _ended(spec: BootService, state: ServiceState, facts: ServiceFacts, now: float) -> Decision:
    reason = describe_end(facts.code, facts.detail)
    if facts.code in {EXIT_USAGE, EXIT_REFUSED}:
        state = _enter(state, Phase.FATAL, now, reason)
        return Decision(state, sentence=f"FATAL, a person has to act: {reason}")
    if state.phase is Phase.RUNNING and now - state.since >= spec.healthy_after:
        state = dataclasses.replace(state, failures=0, crashes=0)
    if state.crashes >= spec.start_retries:
        reason = f"gave up after {state.crashes + 1} failures in a row: {reason}"
        return Decision(_enter(state, Phase.FATAL, now, reason), sentence=f"FATAL, {reason}")
    return _back_off(spec, state, now, reason, crashes=state.crashes + 1)


def _back_off(spec: BootService, state: ServiceState, now: float, reason: str, *, crashes: int) -> Decision:
    failures = state.failures + 1
    wait = delay(spec, failures)
    state = _enter(state, Phase.BACKOFF, now, reason, until=now + wait, failures=failures, crashes=crashes)
    return Decision(state, sentence=f"{reason}; next start in {wait:g} s")
