"""boot with real small services: start order, restarts, FATAL, holds, adoption, orderly stop, never two of a kind."""

import fcntl
import json
import os
import signal
import subprocess

import pytest

from judge.boot import holds, pidfile, procs, status
from judge.common import procfs
from judge.common.errors import RefusedError
from tests.support.boot import BootHarness
from tests.support.servers import wait_for


@pytest.fixture
def harness(tmp_path):
    harness = BootHarness(tmp_path)
    yield harness
    harness.close()


def test_starts_in_order_and_stops_in_reverse(harness):
    boot = harness.running("one", "two", "three")
    assert status.read(harness.run_dir).state == "running"
    text = harness.output
    assert text.index("one: serves") < text.index("two: starting") < text.index("two: serves") < text.index("three: st")
    assert harness.stop(boot) == 0
    text = harness.output
    assert text.index("three: stopped") < text.index("two: stopping") < text.index("two: stopped")
    assert text.index("two: stopped") < text.index("one: stopping") < text.index("one: stopped")
    assert status.read(harness.run_dir).state == "stopped"
    for name in ("one", "two", "three"):
        assert len(harness.starts(name)) == 1
        assert not harness.marked(name)


def test_services_get_a_clean_environment(harness):
    harness.running("one")
    environment = procs.environment(harness.of("one").pid)
    assert "SECRET" not in environment
    assert environment[procs.INCARNATION] == harness.record("one").incarnation
    assert set(environment) <= {
        "PATH", "LANG", "LC_ALL", "TZ", "JOURNAL_STREAM", "NOTIFY_SOCKET", "JUDGE_ALIVE_FD", procs.INCARNATION,
        procs.SERVICE,
    }  # fmt: skip


def test_restart_after_an_end(harness):
    harness.running("one")
    first = harness.of("one").pid
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: harness.of("one").pid not in {None, first} and harness.of("one").state == "RUNNING")
    assert harness.of("one").restarts == 1
    assert "was killed by SIGKILL" in harness.output


def test_gives_up_with_the_last_line_and_is_released(harness):
    port = harness.service("one", control={"say": "2026-01-01T00:00:00.000Z ERROR judge: no luck today", "exit": 1})
    harness.start()
    harness.wait_states(one="FATAL")
    assert len(harness.starts("one")) == 3
    reason = harness.of("one").reason
    assert reason == "gave up after 3 failures in a row: ended with exit code 1: judge: no luck today"
    harness.set_control("one", exit=None, port=port)
    assert holds.release(harness.run_dir, "one") is False
    harness.wait_states(one="RUNNING")


@pytest.mark.parametrize("code", [2, 3])
def test_refusal_is_fatal_at_once_until_the_config_changes(harness, code):
    port = harness.service("one", control={"say": "etcd.yml:1: wrong", "exit": code})
    harness.service("two")
    harness.start()
    harness.wait_states(one="FATAL", two="RUNNING")
    assert len(harness.starts("one")) == 1
    assert harness.of("one").reason == f"ended with exit code {code}: etcd.yml:1: wrong"
    assert "two: starting although one is FATAL" in harness.output
    harness.set_control("one", exit=None, port=port)
    (harness.root / "one.yml").write_text("name: 12 [")
    wait_for(lambda: "the changed config is not used" in harness.output)
    assert harness.states()["one"] == "FATAL"
    harness.write_config("one", log_level="debug")
    harness.wait_states(one="RUNNING")
    assert "log_level: debug" in (harness.run_dir / "one.yml").read_text()


def test_frozen_service_is_killed_and_restarted(harness):
    harness.running("one", serving="http")
    first = harness.of("one").pid
    os.kill(first, signal.SIGSTOP)
    wait_for(lambda: harness.of("one").pid not in {None, first} and harness.of("one").state == "RUNNING")
    assert "did not answer within 1 s" in harness.output
    harness.starts("one")


def test_bad_answers_count_and_recovery_is_told(harness):
    harness.running("one", serving="http", serving_failures=1000)
    harness.set_control("one", status=503)
    wait_for(lambda: "answered 503" in harness.of("one").reason)
    harness.set_control("one", status=200)
    wait_for(lambda: harness.of("one").reason == "")
    assert "one: serves again" in harness.output
    assert len(harness.starts("one")) == 1


def test_next_service_starts_when_the_first_is_late(harness):
    harness.service("one", serving="http", start_timeout=0.3, serving_failures=10000, control={"status": 500})
    harness.service("two")
    harness.start()
    harness.wait_states(one="STARTING", two="RUNNING")
    assert "two: starting although one does not serve after 0.3 s" in harness.output


def test_service_without_an_address_says_ready(harness):
    harness.service("one", serving=None, control={"notify": ["STATUS=warming up"]})
    boot = harness.start()
    wait_for(lambda: harness.states() and harness.of("one").status == "warming up")
    assert harness.of("one").state == "STARTING"
    pid = harness.of("one").pid
    harness.set_control("one", notify=["READY=1\nSTATUS=2 of 2 slots"])
    os.kill(pid, signal.SIGKILL)
    harness.wait_states(one="RUNNING")
    assert harness.of("one").status == "2 of 2 slots"
    assert harness.stop(boot) == 0


def test_kill_after_grace_and_leftover_children(harness):
    boot = harness.running("one", stop_grace=0.3, control={"ignore_term": True, "children": [1000, 1000]})
    assert len(harness.marked("one")) == 3
    assert harness.stop(boot, signal.SIGINT) == 0
    assert "one: did not end in time, killing it" in harness.output
    wait_for(lambda: not harness.marked("one"))


def test_children_left_behind_end_before_the_next_start(harness):
    harness.running("one", control={"children": [1000]})
    first = harness.marked("one")
    os.kill(harness.of("one").pid, signal.SIGKILL)
    wait_for(lambda: len(harness.starts("one")) == 2)
    harness.wait_states(one="RUNNING")
    assert not set(first) & set(harness.marked("one"))


def test_second_signal_hurries(harness):
    boot = harness.running("one", stop_grace=60, control={"ignore_term": True})
    boot.send_signal(signal.SIGINT)
    harness.wait_states(one="STOPPING")
    assert harness.stop(boot, signal.SIGINT, timeout=10) == 0


def test_second_boot_is_refused(harness):
    first = harness.running("one")
    second = harness.start()
    assert second.wait(20) == RefusedError.exit_code
    assert f"is already managed by boot, process {first.pid} (python" in harness.output
    assert harness.states() == {"one": "RUNNING"}


def test_killed_boot_is_succeeded_by_one_that_adopts(harness):
    harness.service("one")
    harness.service("two", serving=None, control={"notify": ["READY=1"]})
    boot = harness.start()
    harness.wait_states(one="RUNNING", two="RUNNING")
    before = {name: harness.of(name).pid for name in ("one", "two")}
    harness.kill(boot)
    assert status.read(harness.run_dir).state == "dead"
    boot = harness.start()
    wait_for(lambda: status.read(harness.run_dir).state == "running")
    harness.wait_states(one="RUNNING", two="RUNNING")
    assert {name: harness.of(name).pid for name in ("one", "two")} == before
    assert len(harness.starts("one")) == len(harness.starts("two")) == 1
    os.kill(before["one"], signal.SIGKILL)
    wait_for(lambda: len(harness.starts("one")) == 2, what="an adopted service's end noticed")
    harness.wait_states(one="RUNNING")
    harness.kill(boot)
    os.kill(harness.of("one").pid, signal.SIGKILL)
    boot = harness.start()
    wait_for(lambda: len(harness.starts("one")) == 3, what="a service that ended without boot")
    harness.wait_states(one="RUNNING", two="RUNNING")
    assert harness.stop(boot) == 0
    assert not harness.marked("one") + harness.marked("two")


def test_adopted_service_with_an_old_config_is_replaced(harness):
    boot = harness.running("one")
    first = harness.of("one").pid
    harness.kill(boot)
    harness.start("one.log_level=debug")
    wait_for(lambda: len(harness.starts("one")) == 2)
    harness.wait_states(one="RUNNING")
    assert harness.of("one").pid != first
    assert "runs with an older config, replacing it" in harness.output


@pytest.mark.parametrize(
    "failpoint",
    ["boot.start.recorded", "boot.start.spawned", "boot.start.written", "file.written", "file.renamed"],
)
def test_boot_killed_between_any_two_steps_of_a_start(harness, failpoint):
    harness.service("one", control={"children": [1000]})
    boot = harness.start(failpoint=failpoint)
    assert boot.wait(20) == -signal.SIGKILL
    boot = harness.start()
    harness.wait_states(one="RUNNING")
    harness.starts("one")  # fails when two ever lived
    assert not list(harness.run_dir.glob(".*.tmp"))
    assert harness.stop(boot) == 0
    wait_for(lambda: not harness.marked("one"))


def test_pid_file_of_another_process_is_never_signalled(harness):
    """The recorded pid now belongs to somebody else, and so does the lock: boot kills by marks only."""
    harness.service("one")
    harness.run_dir.mkdir()
    stranger = subprocess.Popen(["sleep", "1000"])
    lock = pidfile.try_lock(harness.run_dir / "one.alive")
    try:
        start = procfs.start_time(stranger.pid)
        pidfile.write(harness.run_dir / "one.pid", pidfile.PidRecord(stranger.pid, start, "f" * 32, "x"))
        harness.start()
        wait_for(lambda: "an instance that is not the recorded one still holds" in harness.output)
        harness.wait_states(one="STOPPED")
        assert stranger.poll() is None
        os.close(lock)
        lock = None
        harness.wait_states(one="RUNNING")
        assert stranger.poll() is None
    finally:
        if lock is not None:
            os.close(lock)
        stranger.kill()
        stranger.wait()


def test_lost_pid_file_is_found_by_marks(harness):
    boot = harness.running("one")
    harness.kill(boot)
    for name in ("one.pid", "one.alive"):
        (harness.run_dir / name).unlink()
    harness.start()
    wait_for(lambda: len(harness.starts("one")) == 2)
    harness.wait_states(one="RUNNING")
    assert len(harness.marked("one")) == 1


def test_hold_keeps_boot_away_until_released(harness):
    boot = harness.running("one")
    holds.hold(harness.run_dir, "one", "disk swap", 600, "ada")
    harness.wait_states(one="HELD")
    assert harness.of("one").reason.startswith("held by ada until ")
    os.kill(harness.of("one").pid, signal.SIGKILL)
    wait_for(lambda: harness.of("one").pid is None)
    assert harness.states()["one"] == "HELD"
    assert holds.release(harness.run_dir, "one") is True
    harness.wait_states(one="RUNNING")
    assert len(harness.starts("one")) == 2
    holds.hold(harness.run_dir, "one", "left running", 600, "ada")
    harness.wait_states(one="HELD")
    assert harness.stop(boot) == 0
    assert len(harness.marked("one")) == 1, "a held service is not stopped either"


def test_hold_expires(harness):
    harness.running("one")
    holds.hold(harness.run_dir, "one", "short", 0.5, "ada")
    harness.wait_states(one="HELD")
    harness.wait_states(one="RUNNING")
    assert not list(harness.run_dir.glob("*.hold"))
    assert len(harness.starts("one")) == 1


def test_lock_of_the_pid_file_keeps_boot_away(harness):
    harness.running("one")
    with (harness.run_dir / "one.pid").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        harness.wait_states(one="HELD")
        assert f"locked by process {os.getpid()}" in harness.of("one").reason
    harness.wait_states(one="RUNNING")


def test_wrong_config_starts_nothing(harness):
    harness.service("one")
    harness.service("two")
    lines = harness.write_config("two", heartbeat=3).read_text().splitlines()
    boot = harness.start()
    assert boot.wait(20) == 2
    sentence = "unknown key 'heartbeat'; did you mean 'heartbeat_ms'?"
    assert f"two.yml:{lines.index('heartbeat: 3') + 1}: {sentence}" in harness.output
    assert not harness.run_dir.exists()
    assert not harness.starts("one")


def test_missing_program_backs_off_and_gives_up(harness, tmp_path):
    harness.service("one")
    (harness.control / "one.json").unlink()
    harness.start()
    harness.wait_states(one="FATAL")
    assert "No such file" in harness.of("one").reason


def test_logs_are_kept_per_service(harness):
    harness.running("one", control={"say": "hello from one"})
    assert "hello from one" in (harness.log_dir / "one.log").read_text()
    assert json.loads((harness.run_dir / "boot.json").read_text())["services"][0]["kind"] == "etcd"


def test_a_slow_system_is_not_taken_for_a_service_that_does_not_serve(harness, monkeypatch):
    """Each look takes longer than a check of serving may; the checks go on meanwhile and keep their own time."""
    monkeypatch.setenv("JUDGE_TEST_SLOW_LOOK", "3.5")
    harness.running("one", serving="http", control={"delay": 0.5}, serving_timeout=3, serving_failures=1)
    looks = harness.output.count("a slow look")
    wait_for(lambda: harness.output.count("a slow look") >= looks + 2, what="two more looks")
    assert "did not answer" not in harness.output
    assert len(harness.starts("one")) == 1


def test_a_hold_that_cannot_be_read_holds_and_boot_goes_on(harness):
    harness.running("one", "two")
    (harness.run_dir / "one.hold").mkdir()
    (harness.run_dir / "one.release").mkdir()
    harness.wait_states(one="HELD", two="RUNNING")
    assert "one.hold cannot be read: Is a directory; remove it" in harness.of("one").reason
    (harness.run_dir / "one.hold").rmdir()
    harness.wait_states(one="RUNNING")
    wait_for(lambda: "one.release cannot be taken away: Is a directory; remove it" in harness.output)


def test_logs_are_kept_small_while_services_run(harness):
    harness.running("one")
    log = harness.log_dir / "one.log"
    with log.open("ab") as file:
        file.truncate(20 * 1024**2)
    wait_for(lambda: log.stat().st_size < 1024**2, what="the rotation")
    assert log.with_name("one.log.1").stat().st_size == 20 * 1024**2
    os.kill(harness.of("one").pid, signal.SIGKILL)
    wait_for(lambda: harness.of("one").restarts == 1 and harness.states()["one"] == "RUNNING")
