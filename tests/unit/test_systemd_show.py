"""What `systemctl show` prints, and what boot makes of it: pure functions."""

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.boot import backend_systemd, systemd
from judge.boot.plan import Process
from judge.boot.systemd import ShownUnit
from judge.common.errors import EXIT_FAILED, RefusedError

ACTIVE = ("active", "reloading", "inactive", "failed", "activating", "deactivating", "maintenance", "refreshing")
RESULTS = (
    "success", "protocol", "timeout", "exit-code", "signal", "core-dump", "watchdog", "start-limit-hit", "oom-kill",
    "resources", "exec-condition",
)  # fmt: skip
line = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp")), max_size=60)
units = st.builds(
    ShownUnit,
    name=st.from_regex(r"judge-[a-z]{1,8}\.service", fullmatch=True),
    load=st.sampled_from(("loaded", "not-found", "masked", "bad-setting", "error")),
    active=st.sampled_from(ACTIVE),
    result=st.sampled_from(RESULTS),
    code=st.sampled_from(("0", "1", "2", "3")),
    status=st.integers(0, 255),
    pid=st.none() | st.integers(1, 4194304),
    invocation=st.just("") | st.from_regex(r"[0-9a-f]{32}", fullmatch=True),
    text=line,
    job=st.booleans(),
)


def block(unit: ShownUnit) -> str:
    """As systemctl prints it: Job only when there is one."""
    lines = [
        f"MainPID={unit.pid or 0}", f"Result={unit.result}", f"ExecMainCode={unit.code}",
        f"ExecMainStatus={unit.status}", f"StatusText={unit.text}", f"Id={unit.name}", f"LoadState={unit.load}",
        f"ActiveState={unit.active}", f"InvocationID={unit.invocation}", *(["Job=471"] if unit.job else []),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


@given(st.lists(units, max_size=6, unique_by=lambda unit: unit.name))
def test_parse_reads_what_systemctl_prints(printed):
    assert systemd.parse("\n".join(map(block, printed))) == {unit.name: unit for unit in printed}


@given(st.text(max_size=300))
def test_parse_takes_any_text(text):
    for name, unit in systemd.parse(text).items():
        assert name == unit.name


def test_a_status_cannot_pose_as_another_property():
    text = "Id=judge-etcd.service\nActiveState=active\nMainPID=7\nStatusText=MainPID=1 Id=judge-x.service\n"
    parsed = systemd.parse(text)
    assert list(parsed) == ["judge-etcd.service"]
    assert parsed["judge-etcd.service"].pid == 7
    assert parsed["judge-etcd.service"].text == "MainPID=1 Id=judge-x.service"


@given(units)
def test_living_units_run_and_are_ready_when_they_said_so(unit):
    state = systemd.living(unit, outdated=False, inherited=False)
    assert state.process is Process.RUNNING
    assert state.pid == unit.pid
    assert (state.ready is True) == (unit.active in {"active", "reloading", "refreshing"})
    assert state.status == (unit.text if unit.pid else "")


@given(units)
def test_the_exit_code_is_the_programs_own_or_a_failure(unit):
    code = systemd.exit_code(unit)
    if unit.code == "1":
        assert code == unit.status
    elif unit.code in {"2", "3"}:
        assert code == -unit.status
    else:
        assert code is (None if unit.result == "success" else EXIT_FAILED)


@given(units)
def test_a_reason_is_one_line(unit):
    assert "\n" not in systemd.reason(unit)


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (ShownUnit("u", active="failed", result="watchdog", code="2", status=signal.SIGABRT), "watchdog ended it"),
        (ShownUnit("u", active="failed", result="oom-kill", code="2", status=9), "want of memory"),
        (ShownUnit("u", active="failed", result="timeout", code="2", status=9), "a time limit"),
        (ShownUnit("u", active="failed", result="start-limit-hit"), "StartLimitIntervalSec=0"),
        (ShownUnit("u", active="failed", result="resources"), "could not provide"),
        (ShownUnit("u", active="failed", result="protocol", code="1"), "before it said that it was ready"),
        (ShownUnit("u", active="failed", result="exit-code", code="1", status=203), "could not start its program"),
        (ShownUnit("u", active="failed", result="exit-code"), "ExecStartPre="),
        (ShownUnit("u", active="failed", result="exit-code", code="1", status=3), ""),
        (ShownUnit("u", active="failed", result="signal", code="2", status=9), ""),
    ],
)
def test_reasons(unit, words):
    assert words in systemd.reason(unit)
    assert words or not systemd.reason(unit)


@pytest.mark.parametrize(
    ("active", "job", "lives"),
    [("inactive", False, False), ("failed", False, False), ("inactive", True, True), ("failed", True, True)]
    + [(state, False, True) for state in ("active", "activating", "deactivating", "reloading")],
)
def test_a_unit_lives_while_it_has_processes_or_a_job(active, job, lives):
    assert ShownUnit("u", active=active, job=job).lives is lives


def test_a_queued_start_is_not_ready():
    assert systemd.living(ShownUnit("u", job=True), outdated=False, inherited=False).ready is False


def test_the_backend_is_refused_without_systemd_or_root(monkeypatch):
    monkeypatch.setattr(backend_systemd.Path, "is_dir", lambda self: False)
    with pytest.raises(RefusedError, match="another; set 'process'"):
        backend_systemd.check_host()
    monkeypatch.setattr(backend_systemd.Path, "is_dir", lambda self: True)
    monkeypatch.setattr(backend_systemd.os, "geteuid", lambda: 1000)
    with pytest.raises(RefusedError, match=r"judge-boot\.service"):
        backend_systemd.check_host()
    monkeypatch.setattr(backend_systemd.os, "geteuid", lambda: 0)
    backend_systemd.check_host()


def test_a_program_of_systemd_that_fails_is_a_sentence():
    call = backend_systemd._call
    assert call("false", "x") == "false x ended with exit code 1"
    assert call("/nonexistent/systemctl", "show") == "/nonexistent/systemctl: No such file or directory"
    assert call("sh", "-c", "echo Unit x is masked. >&2; exit 1") == "Unit x is masked"
