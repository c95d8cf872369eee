"""judgectl hosts, units and logs on real hosts: their sshd, systemd and journald, with small units of Judge's names."""

import json
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import cluster, network
from lab.cluster import Lab
from tests.support.lab import lab_marks
from tests.support.servers import wait_for

ROOT = Path(__file__).resolve().parents[2]
PATIENT = "60"  # seconds that a busy machine may take for a login


pytestmark = lab_marks(900)

SERVICE = """[Service]
Type=notify
NotifyAccess=all
ExecStart=/bin/sh -c 'systemd-notify --ready --status="judging 2 of 4"; n=0; \
  while :; do n=$((n+1)); echo "tick $n"; sleep 0.5; done'
[Install]
WantedBy=multi-user.target
"""
UNITS = {
    "j1": ("judge-boot", "judge-etcd", "judge-mongodb", "judge-judicator"),
    "e1": ("judge-boot", "judge-etcd-proxy", "judge-executor"),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A judicator and an executor, with units that only say that they live."""
    name = f"t{uuid.uuid4().hex[:8]}"
    try:
        lab = cluster.up(name, ["j1", "e1"], inventory_directory=tmp_path_factory.mktemp("inventory"))
        for host, units in UNITS.items():
            for unit in units:
                lab.ssh(host, f"cat >/etc/systemd/system/{unit}.service <<'END'\n{SERVICE}END\n")
            lab.ssh(host, f"systemctl daemon-reload; systemctl enable --now --quiet {' '.join(units)} 2>&1")
        yield lab
    finally:
        cluster.down(name)


def command(lab: Lab, *arguments: str, inventory: Path | None = None) -> list[str]:
    path = str(inventory or lab.record.inventory)
    return [*network.inside(lab.record.name), sys.executable, "-m", "judge.ctl.main", "-i", path, *arguments]


def judgectl(lab: Lab, *arguments: str, **keywords: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(lab, *arguments, "--timeout", PATIENT, **keywords),
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip


def test_all_is_well(lab: Lab) -> None:
    result = judgectl(lab, "units")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1] == "7 units on 2 hosts: all are well"
    rows = [row for row in result.stdout.splitlines() if "judge-executor" in row]
    assert len(rows) == 1 and re.match(r"e1 +judge-executor +active .*judging 2 of 4", rows[0])


def test_hosts_are_described(lab: Lab) -> None:
    lab.ssh("e1", "mkdir -p /opt/judge/releases/0.1.0 && ln -sfn releases/0.1.0 /opt/judge/current")
    result = judgectl(lab, "hosts", "--json")
    assert result.returncode == 0, result.stderr
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert list(rows) == ["j1", "e1"]
    for name, row in rows.items():
        assert row["reachable"] and row["address"] == lab.record.address(name)
        assert row["os"].startswith("Debian GNU/Linux") and row["boot"] == "active"
        assert row["uptime"] > 0 and row["disk_free"] > 0 and len(row["load"]) == 3
    assert (rows["j1"]["release"], rows["e1"]["release"]) == ("", "0.1.0")
    assert judgectl(lab, "hosts", "executors").stdout.splitlines()[1].startswith("e1")


def test_faults_come_first_and_with_exit_code_1(lab: Lab) -> None:
    lab.ssh("j1", "systemctl stop judge-etcd; systemctl kill --signal=SIGKILL judge-mongodb")
    lab.ssh("e1", "systemctl stop judge-executor; mv /etc/systemd/system/judge-executor.service /root; "
            "systemctl daemon-reload")  # fmt: skip
    try:
        wait_for(lambda: "failed" in lab.ssh("j1", "systemctl is-active judge-mongodb || true"), what="a failed unit")
        result = judgectl(lab, "units", "--json")
        assert result.returncode == 1
        faults = [(row["host"], row["unit"], row["fault"]) for row in json.loads(result.stdout) if row["fault"]]
        assert sorted(faults) == [
            ("e1", "judge-executor.service", "missing"),
            ("j1", "judge-etcd.service", "stopped"),
            ("j1", "judge-mongodb.service", "failed"),
        ]
        assert [row["fault"] for row in json.loads(result.stdout)][:4].count("") == 1
    finally:
        lab.ssh("e1", "mv /root/judge-executor.service /etc/systemd/system; systemctl daemon-reload")
        lab.ssh("e1", "systemctl start judge-executor")
        lab.ssh("j1", "systemctl reset-failed; systemctl start judge-etcd judge-mongodb")


def test_logs_of_all_hosts_are_in_order(lab: Lab) -> None:
    result = judgectl(lab, "logs", "--since", "1h", "--json")
    assert result.returncode == 0, result.stderr
    messages = [json.loads(line) for line in result.stdout.splitlines()]
    assert [message["time"] for message in messages] == sorted(message["time"] for message in messages)
    assert {(message["host"], message["unit"]) for message in messages} == {
        (host, f"{unit}.service") for host, units in UNITS.items() for unit in units
    }
    assert any("systemd: Started" in message["message"] for message in messages)
    result = judgectl(lab, "logs", "-n", "3", "--grep", "tick", "-u", "executor", "-u", "judicator")
    lines = result.stdout.splitlines()
    assert len(lines) == 3 and lines == sorted(lines)
    assert all(re.search(r"^\d{4}-.* (e1/executor|j1/judicator) tick \d+$", line) for line in lines)
    assert judgectl(lab, "logs", "e1", "--grep", "no such words at all", "-n", "5").stdout == ""


def test_bad_patterns_are_told_and_nothing_is_run(lab: Lab) -> None:
    result = judgectl(lab, "logs", "--grep", "(")
    assert result.returncode == 1 and "e1: its journal cannot be read" in result.stderr
    judgectl(lab, "logs", "--grep", "x'; touch /root/injected; '$(touch /root/injected)")
    assert lab.ssh("j1", "ls /root").split() == []


def test_only_errors_are_shown_when_asked_for(lab: Lab) -> None:
    # A cursor that moves, in the raw bytes that a service may write.
    lab.ssh("e1", "systemd-run --quiet --unit=judge-toy sh -c \"printf '<3>broken \\\\033[2J disk\\n'; sleep 2\"")

    def errors() -> str:
        return judgectl(lab, "logs", "e1", "--priority", "err", "-n", "5").stdout

    wait_for(lambda: "judge-toy" in errors() or "toy" in errors(), 90, "the error")
    earlier = errors()
    assert "e1/toy broken \\x1b[2J disk" in earlier and "tick" not in earlier and "\x1b" not in earlier


def test_a_host_whose_key_changed_is_not_trusted(lab: Lab, tmp_path: Path) -> None:
    """A copy of the inventory that knows only j1's host key, under e1's address too."""
    lines = (lab.record.directory / "known_hosts").read_text().splitlines()
    address = {host: lab.record.address(host) for host in UNITS}
    key = next(line.split(" ", 1)[1] for line in lines if line.startswith(f"{address['j1']} "))
    (tmp_path / "known_hosts").write_text(f"{address['e1']} {key}\n")
    config = (lab.record.directory / "ssh_config").read_text()
    (tmp_path / "ssh_config").write_text(
        re.sub(r"(?m)^UserKnownHostsFile .*$", f"UserKnownHostsFile {tmp_path / 'known_hosts'}", config)
    )
    text = (Path(lab.record.inventory) / "hosts.yml").read_text()
    (tmp_path / "hosts.yml").write_text(
        text.replace(str(lab.record.directory / "ssh_config"), str(tmp_path / "ssh_config"))
    )
    result = judgectl(lab, "hosts", inventory=tmp_path / "hosts.yml")
    assert result.returncode == 1
    assert f"e1: {address['e1']} has another host key" in result.stderr
    assert f"j1: the host key of {address['j1']} is not known" in result.stderr


def test_a_dead_and_a_frozen_host_are_rows_and_hold_up_nobody(lab: Lab) -> None:
    lab.kill("e1")
    lab.freeze("j1")
    try:
        completed = subprocess.run(
            command(lab, "hosts", "--json", "--timeout", "5"), capture_output=True, text=True, check=False, timeout=120
        )
    finally:
        lab.thaw("j1")
        lab.start("e1")
    assert completed.returncode == 1
    rows = {row["name"]: row for row in json.loads(completed.stdout)}
    assert [row["reachable"] for row in rows.values()] == [False, False]
    assert rows["e1"]["reason"] and rows["j1"]["reason"]
    wait_for(lambda: judgectl(lab, "units").returncode == 0, 180, "all units are back")


def test_followed_logs_survive_the_death_of_a_host(lab: Lab, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with out.open("w") as file:
        running = subprocess.Popen(
            command(lab, "logs", "-f", "-n", "2", "-u", "executor", "-u", "judicator", "--timeout", "10"),
            stdout=file, stderr=subprocess.STDOUT, cwd=ROOT,
        )  # fmt: skip

    def lines(word: str) -> list[str]:
        return [line for line in out.read_text().splitlines() if word in line]

    try:
        wait_for(lambda: len(lines("e1/executor")) > 3 and len(lines("j1/judicator")) > 3, 120, "lines of both")
        lab.kill("e1")
        wait_for(lambda: lines("judgectl: e1: "), 120, "a word of the host that died")
        count = len(lines("j1/"))
        wait_for(lambda: len(lines("j1/")) > count + 2, 120, "lines of the other host")
        lab.start("e1")
        wait_for(lambda: lines("e1: answers again"), 180, "the host's return")
        count = len(lines("e1/"))
        wait_for(lambda: len(lines("e1/")) > count + 2, 120, "lines of the host that is back")
    finally:
        running.send_signal(signal.SIGINT)
        code = running.wait(60)
    assert code == 0
    assert "trying again" in lines("judgectl: e1: ")[0]
    ticks = lines("j1/judicator tick")
    assert len(ticks) == len(set(ticks)), "no line twice"
    numbers = [int(line.rpartition(" ")[2]) for line in ticks]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "no line left out"
    still = "grep -lx journalctl /proc/[0-9]*/comm 2>/dev/null | wc -l"
    wait_for(lambda: lab.ssh("j1", still).strip() == "0", 90, "nothing of it is left on the host")
