"""The verdict function: a table of cases, and what must hold for every outcome."""

import ast
import signal
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import judge
from judge.executor.verdict import (
    BUSY,
    PRECEDENCE,
    Ruling,
    Validated,
    checked_verdict,
    compile_verdict,
    judge_error,
    near,
    rendered_verdict,
    run_fault,
    run_verdict,
    signal_name,
    total_time_verdict,
    unfit_verdict,
    usage,
    validator_fault,
)
from judge.model.messages import Limits, Verdict
from judge.sandbox.types import Killed

LIMITS = Limits(cpu=1, wall=3, memory=64 * 1024**2, output=1024)


@dataclass(frozen=True)
class Facts:
    exit_code: int | None = 0
    signal: int | None = None
    killed: Collection[Killed] = ()
    cpu: float = 0.1
    wall: float = 0.2
    memory: int = 10 * 1024**2
    ended: float = 0.0


OK = Facts()
REASONS = st.sets(st.sampled_from(sorted(set(Killed) - {Killed.NONE, Killed.CANCELLED})))
MIB64 = LIMITS.memory


@pytest.mark.parametrize(
    ("facts", "verdict", "words"),
    [
        (replace(OK, killed={Killed.FORBIDDEN}, signal=31, exit_code=None), Verdict.SV, "forbidden system call"),
        (replace(OK, signal=signal.SIGSYS, exit_code=None), Verdict.SV, "forbidden system call"),
        (replace(OK, killed={Killed.MEMORY}, signal=9, exit_code=None), Verdict.MLE, "the limit is 64 MiB"),
        (replace(OK, killed={Killed.CPU}, signal=9, exit_code=None, cpu=1.01), Verdict.TLE, "CPU time limit exceeded"),
        (
            replace(OK, killed={Killed.WALL}, signal=9, exit_code=None, wall=3.01),
            Verdict.TLE,
            "wall time limit exceeded",
        ),
        (replace(OK, killed={Killed.OUTPUT}, signal=9, exit_code=None), Verdict.OLE, "more than 1 KiB"),
        # One step below and above each limit, without the sandbox's help.
        (replace(OK, cpu=1.001), Verdict.TLE, "used 1.001 s, the limit is 1 s"),
        (replace(OK, wall=3.001), Verdict.TLE, "ran for 3.001 s with 0.100 s of CPU time, the limit is 3 s"),
        (replace(OK, memory=MIB64 + 1), Verdict.MLE, "memory limit exceeded"),
        (replace(OK, signal=signal.SIGXCPU, exit_code=None), Verdict.TLE, "CPU time limit exceeded"),
        (replace(OK, signal=signal.SIGXFSZ, exit_code=None), Verdict.OLE, "output limit exceeded"),
        # An abnormal end at the memory limit is MLE, never RTE.
        (replace(OK, signal=signal.SIGSEGV, exit_code=None, memory=MIB64), Verdict.MLE, "memory limit exceeded"),
        (replace(OK, exit_code=1, memory=MIB64), Verdict.MLE, "memory limit exceeded"),
        # Exit code 3 means a full heap where the language says so, as in this test.
        (replace(OK, exit_code=3), Verdict.MLE, "the heap is full"),
        (replace(OK, signal=signal.SIGSEGV, exit_code=None), Verdict.RTE, "ended by SIGSEGV (invalid memory access"),
        (replace(OK, signal=signal.SIGUSR1, exit_code=None), Verdict.RTE, "ended by SIGUSR1"),
        (replace(OK, exit_code=1), Verdict.RTE, "ended with exit code 1"),
        # The sandbox's own reason beats what else is true.
        (replace(OK, killed={Killed.MEMORY}, cpu=5, wall=9), Verdict.MLE, "memory"),
        (replace(OK, killed={Killed.OUTPUT}, memory=MIB64 * 2), Verdict.OLE, "output"),
        # A run may go on beyond its time limits for a while: that was passed first.
        (replace(OK, killed={Killed.OUTPUT}, cpu=1.05), Verdict.TLE, "CPU time limit exceeded: used 1.050 s"),
        (replace(OK, killed={Killed.OUTPUT}, wall=3.1), Verdict.TLE, "wall time limit exceeded"),
        (replace(OK, killed={Killed.WALL}, cpu=1.05, wall=3.3), Verdict.TLE, "CPU time limit exceeded"),
        (replace(OK, killed={Killed.FORBIDDEN}, memory=MIB64 * 2), Verdict.SV, "forbidden"),
    ],
)
def test_faults(facts, verdict, words):
    fault = run_fault(facts, LIMITS, heap_full=facts.exit_code == 3)
    assert fault is not None
    assert fault[0] is verdict
    assert words in fault[1]
    for validation in (None, Validated(accepted=True), Validated(accepted=False)):
        assert run_verdict(facts, LIMITS, validation, heap_full=facts.exit_code == 3) == fault


def test_a_run_at_the_limit_is_within_it():
    at = replace(OK, cpu=1.0, wall=3.0, memory=MIB64)
    assert run_fault(at, LIMITS) is None
    assert not near(at, LIMITS)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (OK, False),
        (replace(OK, cpu=1.001), True),
        (replace(OK, wall=3.001), False),
        (replace(OK, wall=3.001, cpu=0.5), True),
        (replace(OK, wall=3.001, cpu=0.499), False),
        (replace(OK, wall=3.29, cpu=0.002, exit_code=1), False),
        (replace(OK, cpu=1.05, exit_code=1), True),
        (replace(OK, cpu=1.05, exit_code=None, signal=signal.SIGSEGV), True),
        (replace(OK, cpu=1.05, killed={Killed.OUTPUT}), True),
        (replace(OK, cpu=1.1, killed={Killed.CPU}), False),
        (replace(OK, wall=3.3, killed={Killed.WALL}), False),
        (replace(OK, cpu=1.05, killed={Killed.MEMORY}), False),
        (replace(OK, cpu=1.05, killed={Killed.FORBIDDEN}), False),
        (replace(OK, cpu=1.05, exit_code=None, signal=signal.SIGXCPU), False),
    ],
)
def test_runs_near_the_limit(facts, expected):
    assert near(facts, LIMITS) is expected


@given(
    st.builds(
        Facts,
        exit_code=st.sampled_from([0, 1]),
        signal=st.sampled_from([None, signal.SIGSEGV, signal.SIGXCPU]),
        killed=REASONS,
        cpu=st.floats(0, 1.2),
        wall=st.floats(0, 3.6),
        memory=st.sampled_from([0, MIB64, MIB64 + 1]),
    )
)
def test_only_runs_beyond_a_time_limit_are_near(facts):
    fault = run_fault(facts, LIMITS)
    if near(facts, LIMITS):
        assert fault is not None
        assert fault[0] is Verdict.TLE
    if fault is not None and fault[0] is Verdict.TLE and set(facts.killed) <= {Killed.OUTPUT}:
        idle = facts.cpu < BUSY * LIMITS.cpu
        assert near(facts, LIMITS) or facts.signal == signal.SIGXCPU or idle


@given(st.floats(0, 0.499), st.floats(0, 4), REASONS)
def test_an_idle_run_is_never_near(cpu, wall, killed):
    """Sleeping costs nothing: it must not bring a run alone about."""
    assert not near(replace(OK, cpu=cpu, wall=wall, killed=killed), LIMITS)


def test_a_run_without_faults_is_decided_by_validation():
    assert run_verdict(OK, LIMITS, None) == Ruling(Verdict.AC, "")
    assert run_verdict(OK, LIMITS, Validated(accepted=True, message="close enough")) == Ruling(Verdict.AC, "")
    assert run_verdict(OK, LIMITS, Validated(accepted=False, message="line 1")) == Ruling(Verdict.WA, "line 1")
    assert run_verdict(OK, LIMITS, Validated(accepted=False)) == Ruling(Verdict.WA, "wrong answer")
    assert run_verdict(replace(OK, exit_code=3), LIMITS, None) == Ruling(Verdict.RTE, "ended with exit code 3")


def test_compilation():
    assert compile_verdict(OK, LIMITS) is None
    failed = compile_verdict(replace(OK, killed={Killed.WALL}), LIMITS)
    assert failed.verdict is Verdict.CE
    assert failed.reason.startswith("compilation failed: wall time")
    assert compile_verdict(OK, LIMITS, "no time is left") == Ruling(Verdict.CE, "compilation failed: no time is left")


def test_rulings_without_a_run_of_the_submission():
    assert checked_verdict(Validated(accepted=True, message="all lines")) == Ruling(Verdict.AC, "")
    assert checked_verdict(Validated(accepted=False, message="line 1")) == Ruling(Verdict.WA, "line 1")
    assert checked_verdict(Validated(accepted=False)) == Ruling(Verdict.WA, "wrong answer")
    # A validator that failed has not found anything, whatever else it says.
    assert checked_verdict(Validated(accepted=False, fault="it crashed")) == Ruling(Verdict.JE, "it crashed")
    assert unfit_verdict("too big") == Ruling(Verdict.CE, "compilation failed: too big")
    assert total_time_verdict("no time is left") == Ruling(Verdict.TLE, "no time is left")
    assert rendered_verdict() is Verdict.AC
    assert judge_error("its validator does not compile") == Ruling(Verdict.JE, "its validator does not compile")


def test_a_cancelled_run_has_no_verdict():
    with pytest.raises(ValueError, match="cancelled"):
        run_fault(replace(OK, killed={Killed.CANCELLED}), LIMITS)


def test_signal_names():
    assert signal_name(signal.SIGABRT).startswith("SIGABRT (abort")
    assert signal_name(signal.SIGTERM) == "SIGTERM"
    assert signal_name(99) == "signal 99"


def test_usage_keeps_microseconds():
    used = usage(replace(OK, cpu=0.12345678))
    assert used.cpu == 0.123457
    assert used.exit_code == 0


FACTS = st.builds(
    Facts,
    exit_code=st.none() | st.integers(0, 255),
    signal=st.none() | st.integers(1, 64),
    killed=REASONS,
    cpu=st.floats(0, 10),
    wall=st.floats(0, 10),
    memory=st.integers(0, 2**28),
)
CHECKED = st.none() | st.builds(Validated, accepted=st.booleans(), message=st.text(max_size=5))


@given(FACTS, CHECKED, st.booleans())
def test_every_outcome_has_one_verdict(facts, validation, heap_full):
    verdict, reason, _ = run_verdict(facts, LIMITS, validation, heap_full=heap_full)
    assert verdict in set(Verdict) - {Verdict.CE, Verdict.JE}
    assert bool(reason) == (verdict is not Verdict.AC)
    # Only a program that ended well, within its limits, can be right or wrong.
    if verdict in {Verdict.AC, Verdict.WA}:
        assert facts.exit_code == 0
        assert facts.signal is None
        assert not facts.killed
        assert facts.cpu <= LIMITS.cpu
        assert facts.wall <= LIMITS.wall_seconds
        assert facts.memory <= LIMITS.memory
    # A submitter whose program had all the memory is never told that it crashed.
    if verdict is Verdict.RTE:
        assert facts.memory < LIMITS.memory
        assert not facts.killed


@given(FACTS, CHECKED)
def test_the_validator_never_saves_a_bad_run(facts, validation):
    fault = run_fault(facts, LIMITS)
    if fault is not None:
        assert run_verdict(facts, LIMITS, validation) == fault


SAID_YES, SAID_NO = replace(OK, exit_code=42, ended=2.0), replace(OK, exit_code=43, ended=2.0)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (SAID_YES, None),
        (SAID_NO, None),
        (OK, "exit code 0; it must be 42 or 43"),
        (replace(OK, exit_code=1), "failed: ended with exit code 1"),
        (replace(OK, exit_code=None, signal=signal.SIGSEGV), "SIGSEGV"),
        (replace(SAID_YES, killed={Killed.OUTPUT}), "output limit exceeded"),
        (replace(SAID_YES, killed={Killed.CPU}, cpu=2), "CPU time limit exceeded"),
        (replace(OK, exit_code=None, signal=9, killed={Killed.MEMORY}), "memory limit exceeded"),
    ],
)
def test_faults_of_a_validator(facts, words):
    fault = validator_fault(facts, LIMITS)
    assert bool(fault) == (words is not None)
    assert (words or "") in fault


CRASH = replace(OK, exit_code=3)


@pytest.mark.parametrize(
    ("submission", "validator", "verdict"),
    [
        (replace(OK, ended=1), SAID_YES, Verdict.AC),
        (replace(OK, ended=3), SAID_YES, Verdict.AC),
        (replace(OK, ended=1), SAID_NO, Verdict.WA),
        (replace(OK, ended=3), SAID_NO, Verdict.WA),
        # The first to end decides between the validator's no and the submission's crash; a yes never saves a crash.
        (replace(CRASH, ended=1), SAID_NO, Verdict.RTE),
        (replace(CRASH, ended=3), SAID_NO, Verdict.WA),
        (replace(CRASH, ended=1), SAID_YES, Verdict.RTE),
        (replace(CRASH, ended=3), SAID_YES, Verdict.RTE),
        (replace(OK, cpu=9, killed={Killed.CPU}, ended=3), SAID_YES, Verdict.TLE),
        (replace(OK, killed={Killed.CANCELLED}, ended=3), SAID_NO, Verdict.WA),
        # A validator that fails is the judge's error, whatever the submission did.
        (replace(CRASH, ended=1), replace(CRASH, ended=2), Verdict.JE),
        (replace(OK, ended=1), replace(OK, ended=2), Verdict.JE),
    ],
)
def test_interaction(submission, validator, verdict):
    checked = Validated(
        accepted=validator.exit_code == 42,
        message="no",
        fault=validator_fault(validator, LIMITS),
        first=validator.ended < submission.ended,
    )
    assert run_verdict(submission, LIMITS, checked).verdict is verdict


LATER = {
    "judge": (OK, Validated(accepted=False, fault="broken", first=True), Verdict.JE),
    "first": (replace(OK, killed={Killed.FORBIDDEN}), Validated(accepted=False, first=True), Verdict.WA),
    "act": (replace(OK, killed=set(Killed) - {Killed.NONE, Killed.CANCELLED}), None, Verdict.SV),
    "memory": (replace(OK, killed={Killed.MEMORY, Killed.CPU, Killed.WALL, Killed.OUTPUT}), None, Verdict.MLE),
    "cpu": (replace(OK, killed={Killed.CPU, Killed.WALL, Killed.OUTPUT}), None, Verdict.TLE),
    "wall": (replace(OK, killed={Killed.WALL, Killed.OUTPUT}), None, Verdict.TLE),
    "output": (replace(OK, killed={Killed.OUTPUT}, signal=11, exit_code=None, memory=2 * MIB64), None, Verdict.OLE),
    "numbers": (replace(OK, memory=MIB64 + 1), Validated(accepted=False), Verdict.MLE),
    "crash": (replace(OK, exit_code=3, memory=MIB64), None, Verdict.MLE),
    "heap": (replace(OK, exit_code=3), None, Verdict.MLE),
    "end": (replace(OK, exit_code=1), Validated(accepted=False), Verdict.RTE),
    "rejected": (OK, Validated(accepted=False), Verdict.WA),
}


def test_the_rows_of_the_table_in_their_order():
    """Each run meets its own row and later ones too; the first of them decides."""
    for (facts, checked, verdict), row in zip(LATER.values(), PRECEDENCE, strict=True):
        assert row[0] is verdict
        ruling = run_verdict(facts, LIMITS, checked, heap_full=facts.exit_code == 3)
        assert ruling.verdict is verdict


def test_only_verdict_py_chooses_verdicts():
    root = Path(judge.__file__).parent
    for path in (*root.glob("executor/**/*.py"), *root.glob("sandbox/**/*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        compared = {part for node in ast.walk(tree) if isinstance(node, ast.Compare) for part in ast.walk(node)}
        attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node not in compared]
        lines = [node.lineno for node in attributes if ast.unparse(node.value) == "Verdict"]
        assert path.name == "verdict.py" or not lines, f"{path}:{lines}"
