"""judgectl hosts, units and logs over real SSH connections on loopback; the hosts' own programs are shell scripts here.

With systemd and journald on real hosts: tests/hosts/test_ctl_hosts.py.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest
import yaml
from typer.testing import CliRunner

from judge.common import clock
from judge.common.errors import JudgeError
from judge.ctl import main
from judge.ctl.fleet import ansible, ssh_target
from judge.ctl.fleet import commands as fleet_commands
from judge.ctl.fleet.ansible import Sources
from judge.ctl.fleet.machines import Fleet
from judge.ctl.fleet.ssh import MOST, CommandResult
from judge.ctl.options import GlobalOptions
from tests.support.lab import JumpHosts, SshServer, jump_hosts, no_sshd, ssh_server
from tests.support.servers import wait_for

PATIENT = 60.0  # seconds that a busy machine may take for a login


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    with ssh_server(tmp_path / "server") as server:
        yield server


@pytest.fixture(autouse=True)
def _no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSH_AUTH_SOCK", "JUDGE_INVENTORY", "JUDGE_CONTEXT", "JUDGE_SERVER", "JUDGE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(GlobalOptions, "inventory", None)


def inventory(tmp_path: Path, **hosts: dict) -> Path:
    path = tmp_path / "inventory.yml"
    path.write_text(yaml.safe_dump({"executors": {"hosts": hosts}}))
    return path


def fleet(path: Path, timeout: float = PATIENT) -> Fleet:
    sources = Sources((str(path),))
    return Fleet(ansible.filled(sources, ansible.load(sources).select([]), ssh_target.VARIABLES), timeout)


def ask(path: Path, script: str, timeout: float = PATIENT) -> dict:
    with fleet(path, timeout) as hosts:
        return hosts.ask(lambda _: script)


def refused(replies: dict) -> dict[str, str]:
    return {name: str(reply) for name, reply in replies.items() if isinstance(reply, JudgeError)}


def test_a_script_runs_there_as_it_is(server: SshServer, tmp_path: Path) -> None:
    script = "echo \"it's $((40 + 2))\"; echo 'a  b' >&2; exit 3"
    assert ask(inventory(tmp_path, e1=server.variables()), script) == {"e1": CommandResult(3, "it's 42\n", "a  b\n")}


def test_logins_are_kept_and_made_anew_when_they_break(server: SshServer, tmp_path: Path) -> None:
    with fleet(inventory(tmp_path, e1=server.variables())) as hosts:
        for _ in range(3):
            assert hosts.ask(lambda _: "echo x") == {"e1": CommandResult(0, "x\n", "")}
        assert len(server.transports) == 1
        server.drop()
        wait_for(lambda: isinstance(hosts.ask(lambda _: "echo x")["e1"], CommandResult), what="a new login")
        assert len(server.transports) >= 2


def reason(path: Path, timeout: float = PATIENT) -> str:
    return refused(ask(path, "true", timeout))["e1"]


def test_an_unknown_host_key_is_refused(server: SshServer, tmp_path: Path) -> None:
    server.trust(None)
    error = reason(inventory(tmp_path, e1=server.variables()))
    assert error == (
        f"the host key of 127.0.0.1 is not known ({server.key.fingerprint}), so it is not trusted; "
        f"compare it and accept it once with 'ssh -p {server.port} judge@127.0.0.1'"
    )
    assert server.offered == [], "no key is shown to a host that is not known"


def test_another_host_key_is_refused_whatever_ssh_is_told(server: SshServer, tmp_path: Path) -> None:
    server.trust(paramiko.ECDSAKey.generate())
    variables = server.variables()
    variables["ansible_ssh_common_args"] += " -o StrictHostKeyChecking=no"
    error = reason(inventory(tmp_path, e1=variables))
    assert f"has another host key ({server.key.fingerprint}) than known_hosts says" in error
    assert f"ssh-keygen -R '[127.0.0.1]:{server.port}'" in error
    assert server.offered == []


def test_a_key_that_is_not_let_in_is_told(server: SshServer, tmp_path: Path) -> None:
    path = inventory(tmp_path, e1=server.variables() | {"ansible_user": "other"})
    assert "127.0.0.1 does not let other in" in reason(path)
    assert str(tmp_path / "server/client_key") in reason(path)


def test_a_key_with_a_passphrase_asks_for_the_agent(server: SshServer, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    paramiko.ECDSAKey.generate().write_private_key_file(str(locked), password="x" * 8)
    error = reason(inventory(tmp_path, e1=server.variables() | {"ansible_ssh_private_key_file": str(locked)}))
    assert f"{locked} has a passphrase, so load it into the agent with ssh-add" in error
    assert "there is no key to offer" in error


def test_a_key_that_is_none_is_told(server: SshServer, tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("nonsense\n")
    error = reason(inventory(tmp_path, e1=server.variables() | {"ansible_ssh_private_key_file": str(tmp_path / "bad")}))
    assert f"{tmp_path / 'bad'}: is no private key that can be read" in error


def test_hosts_that_do_not_answer_have_their_deadline_and_hold_up_nobody(server: SshServer, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as closed:
        refuses = closed.getsockname()[1]
        closed.close()
        variables = server.variables()
        hosts = {
            "e1": variables,
            "e2": variables | {"ansible_port": silent.getsockname()[1]},
            "e3": variables | {"ansible_port": refuses},
        }
        replies = ask(inventory(tmp_path, **hosts), "echo fine", timeout=8)
    assert list(replies) == ["e1", "e2", "e3"]
    reasons = refused(replies)
    assert f"127.0.0.1 port {refuses} does not answer: Connection refused" in reasons["e3"]
    assert "e2" in reasons and ("says nothing" in reasons["e2"] or "did not answer within" in reasons["e2"])


def test_a_command_that_hangs_ends_with_the_deadline(server: SshServer, tmp_path: Path) -> None:
    began = clock.monotonic()
    assert (
        "said nothing for"
        in refused(ask(inventory(tmp_path, e1=server.variables()), "exec sleep 600", timeout=8))["e1"]
    )
    assert clock.monotonic() - began < 120


def test_a_flood_does_not_fill_this_machine(server: SshServer, tmp_path: Path) -> None:
    flood = f"head -c {3 * MOST} /dev/zero | tr '\\0' x; head -c {3 * MOST} /dev/zero >&2"
    answer = ask(inventory(tmp_path, e1=server.variables()), flood)["e1"]
    assert (len(answer.out), len(answer.err)) == (MOST, MOST)
    with fleet(inventory(tmp_path, e1=server.variables())) as hosts:
        answer = hosts.ask(lambda _: flood, most=2 * MOST)["e1"]
    assert isinstance(answer, CommandResult) and len(answer.out) == 2 * MOST, "`support` takes more than a table does"


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JumpHosts]:
    if no_sshd():
        pytest.skip(no_sshd())
    with jump_hosts(tmp_path_factory.mktemp("sshd")) as jumps:
        yield jumps


@pytest.fixture
def jumps(behind: JumpHosts) -> JumpHosts:
    behind.trust()
    return behind


def way(jumps: JumpHosts, kind: str) -> dict[str, object]:
    """Variables of a host that is reached in one of the ways that people write."""
    if kind == "ssh_config":
        config = jumps.config("Host target\n  ProxyJump jump\n")
        return {"ansible_host": "target", "ansible_ssh_common_args": f"-F {config}"}
    config = jumps.config()
    inside = f"root@127.0.0.1 -p {jumps.port} -i {jumps.directory}/to_jump -o IdentitiesOnly=yes"
    inside += f" -o UserKnownHostsFile={jumps.directory}/known_hosts -o BatchMode=yes -q"
    arguments = {
        "ProxyJump": f"-F {config} -o ProxyJump=jump",
        "two hops": f"-F {config} -J jump,second",
        "ProxyCommand": f"-F {config} -o ProxyCommand='ssh -W %h:%p {inside}'",
        "a command": f"-F {config} -o ProxyCommand='env ssh -F {config} -W %h:%p jump'",
    }[kind]
    known_hosts = f"-o UserKnownHostsFile={jumps.directory}/known_hosts"
    return {
        "ansible_host": "127.0.0.1", "ansible_port": 2202, "ansible_user": "root",
        "ansible_ssh_private_key_file": str(jumps.directory / "to_target"),
        "ansible_ssh_common_args" if kind != "ProxyJump" else "ansible_ssh_extra_args": f"{known_hosts} {arguments}",
    }  # fmt: skip


KINDS = ["ProxyJump", "ssh_config", "two hops", "ProxyCommand", "a command"]


@pytest.mark.root
@pytest.mark.parametrize("kind", KINDS)
def test_a_host_behind_jump_hosts_is_reached_as_ansible_reaches_it(jumps: JumpHosts, tmp_path: Path, kind: str) -> None:
    path = inventory(tmp_path, e1=way(jumps, kind), e2=way(jumps, kind))
    before = {name: jumps.logins(name) for name in ("jump", "second", "target")}
    assert ask(path, "echo fine") == dict.fromkeys(("e1", "e2"), CommandResult(0, "fine\n", ""))
    logins = {name: jumps.logins(name) - count for name, count in before.items()}
    assert logins == {"jump": 2 if kind == "a command" else 1, "second": int(kind == "two hops"), "target": 2}
    result = subprocess.run(
        [Path(sys.executable).with_name("ansible"), "-i", path, "e1", "-m", "ansible.builtin.raw", "-a", "echo fine"],
        capture_output=True, text=True, check=False, env=os.environ | {"ANSIBLE_SSH_ARGS": "-o ControlMaster=no"},
    )  # fmt: skip
    assert "fine" in result.stdout.splitlines(), result.stdout + result.stderr


@pytest.mark.root
def test_there_is_no_other_way_to_it(jumps: JumpHosts, tmp_path: Path) -> None:
    variables = way(jumps, "ProxyJump") | {"ansible_ssh_extra_args": f"-F {jumps.config()}"}
    assert "127.0.0.1 port 2202 does not answer: Connection refused" in reason(inventory(tmp_path, e1=variables))


@pytest.mark.root
@pytest.mark.parametrize("kind", ["ProxyJump", "ssh_config", "two hops", "ProxyCommand"])
@pytest.mark.parametrize("replaced", [True, False], ids=["another", "unknown"])
def test_a_jump_hosts_key_is_checked(jumps: JumpHosts, tmp_path: Path, kind: str, replaced: bool) -> None:
    hop = "second" if kind == "two hops" else "jump"
    jumps.trust(**{hop: paramiko.ECDSAKey.generate() if replaced else None})
    variables = way(jumps, kind)
    for name in ("ansible_ssh_common_args", "ansible_ssh_extra_args"):
        variables[name] = re.sub(r"(?<!\S)-q\b", "-o StrictHostKeyChecking=no -q", str(variables.get(name, "")))
    before = [jumps.logins(name) for name in (hop, "target")]
    error = reason(inventory(tmp_path, e1=variables))
    fingerprint = jumps.keys[hop].fingerprint
    assert error.startswith(f"at jump host root@127.0.0.1:{jumps.port if hop == 'jump' else 2201}: ")
    assert (f"has another host key ({fingerprint})" if replaced else f"is not known ({fingerprint})") in error
    assert [jumps.logins(name) for name in (hop, "target")] == before


@pytest.mark.root
@pytest.mark.parametrize("kind", KINDS)
def test_the_targets_key_is_checked_behind_every_way(jumps: JumpHosts, tmp_path: Path, kind: str) -> None:
    jumps.trust(target=None)
    before = jumps.logins("target")
    error = reason(inventory(tmp_path, e1=way(jumps, kind)))
    assert f"the host key of 127.0.0.1 is not known ({jumps.keys['target'].fingerprint})" in error
    assert jumps.logins("target") == before


@pytest.mark.root
def test_a_broken_way_is_told(jumps: JumpHosts, tmp_path: Path) -> None:
    variables = way(jumps, "ProxyJump")
    nowhere = reason(inventory(tmp_path, e1=variables | {"ansible_port": 2299}))
    assert "127.0.0.1 port 2299 cannot be reached from jump host 127.0.0.1: " in nowhere
    command = f"-F {jumps.config()} -o ProxyCommand='ls /no-way'"
    broken = reason(inventory(tmp_path, e1=variables | {"ansible_ssh_extra_args": command}))
    assert "does not speak SSH as expected: its ProxyCommand ended: " in broken and "/no-way" in broken
    (jumps.directory / "to_jump").rename(jumps.directory / "away")
    try:
        assert "does not let root in" in reason(inventory(tmp_path, e1=variables))
    finally:
        (jumps.directory / "away").rename(jumps.directory / "to_jump")


def test_a_proxy_command_ends_with_the_login(server: SshServer, tmp_path: Path) -> None:
    """Without root: a program of the person's own passes the bytes on, and is ended with all that it started."""
    relay = tmp_path / "relay.py"
    relay.write_text(
        "import os, pathlib, shutil, socket, sys, threading\n"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n"
        "far = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "def pump(read, write):\n    while data := read(65536): write(data)\n"
        "threading.Thread(target=pump, args=(lambda n: os.read(0, n), far.sendall), daemon=True).start()\n"
        "pump(far.recv, lambda data: os.write(1, data))\n"
    )
    variables = server.variables()
    variables["ansible_ssh_common_args"] = (
        f"{variables['ansible_ssh_common_args']} -o 'ProxyCommand={sys.executable} {relay} %h %p'"
    )
    assert ask(inventory(tmp_path, e1=variables), "echo x") == {"e1": CommandResult(0, "x\n", "")}
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), what="the end of the ProxyCommand")


def test_without_root_the_journal_is_read_through_sudo(server: SshServer, tmp_path: Path) -> None:
    server.program("sudo", 'echo "sudo: a password is required" >&2; exit 1')
    result = CliRunner().invoke(main.app, ["-i", str(inventory(tmp_path, e1=server.variables())), "logs"])
    assert result.exit_code == 1
    assert "judgectl: e1: its journal cannot be read: sudo: a password is required" in result.stderr
    assert server.commands[0].startswith("sudo -n -- /bin/sh -c ")


def journal_line(message: str, time: int, **fields: str) -> str:
    entry = {"__REALTIME_TIMESTAMP": str(time), "__CURSOR": f"c{time}", "UNIT": "judge-executor.service"}
    return json.dumps(entry | {"MESSAGE": message} | fields)


@pytest.fixture
def journals(server: SshServer, tmp_path: Path) -> Path:
    """A host with lines of its journal in a file, oldest first, which `journalctl` there prints as it is asked."""
    server.program("sudo", 'shift 2; exec "$@"')
    server.program(
        "journalctl",
        f'echo "$*" >>{tmp_path}/asked; case "$*" in *--follow*) echo $$ >>{tmp_path}/following; '
        f"cat {tmp_path}/news; exec sleep 600;; "
        f"*--reverse*) tac {tmp_path}/past;; *) cat {tmp_path}/past;; esac",
    )
    second = 1_000_000
    (tmp_path / "past").write_text("".join(journal_line(f"old {n}", n * second) + "\n" for n in range(5)) + "garbage\n")
    (tmp_path / "news").write_text(journal_line("new \x1b[2J", 9 * second, PRIORITY="3") + "\n")
    return inventory(tmp_path, e1=server.variables())


def test_logs_are_shown_oldest_first(journals: Path) -> None:
    result = CliRunner().invoke(main.app, ["logs", "--inventory", str(journals), "-n", "2", "--since", "1h"])
    assert result.stdout.splitlines() == [
        "1970-01-01 00:00:03.000 e1/executor old 3",
        "1970-01-01 00:00:04.000 e1/executor old 4",
    ]
    assert result.exit_code == 0
    result = CliRunner().invoke(main.app, ["logs", "--inventory", str(journals), "--since", "1h", "--json"])
    assert [json.loads(line)["message"] for line in result.stdout.splitlines()] == [f"old {n}" for n in range(5)]


def test_followed_logs_go_on_where_they_broke_off(journals: Path, server: SshServer, tmp_path: Path) -> None:
    # Ctrl-C must reach it although a background job of a shell, which these tests may be, ignores it.
    own = ["env", "--default-signal=INT", sys.executable, "-m", "judge.ctl.main"]
    command = [*own, "-i", str(journals), "logs", "-f", "-n", "1", "--timeout", "60"]
    out = tmp_path / "out"
    with out.open("w") as file:
        running = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        wait_for(lambda: "new" in out.read_text(), 90, "the first new line")
        (tmp_path / "news").write_text(journal_line("newer", 10_000_000) + "\n")
        server.drop()
        wait_for(lambda: "newer" in out.read_text(), 90, "a line after the break")
    finally:
        running.send_signal(signal.SIGINT)
        try:
            code = running.wait(60)
        finally:
            running.kill()
            running.wait()
    lines = out.read_text().splitlines()
    assert code == 0
    assert lines[0].endswith("e1/executor old 4")
    assert lines[1].endswith("e1/executor new \\x1b[2J")
    assert any("the connection to 127.0.0.1 was lost" in line and "trying again" in line for line in lines)
    assert any("e1: answers again" in line for line in lines)
    calls = (tmp_path / "asked").read_text().splitlines()
    assert "--after-cursor=c4000000" in calls[1]
    assert "--after-cursor=c9000000" in calls[2], "it goes on after the last line that was shown"
    followers = [int(pid) for pid in (tmp_path / "following").read_text().split()]
    assert len(followers) == 2
    wait_for(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in followers),
        60,
        "the end of what nobody reads, though nothing is logged",
    )


def test_hosts_and_units_are_told(server: SshServer, tmp_path: Path) -> None:
    server.program("systemctl", 'printf "Id=judge-boot.service\\nLoadState=loaded\\nActiveState=active\\n"')
    path = str(inventory(tmp_path, e1=server.variables(), e2={"ansible_host": "127.0.0.1", "ansible_port": 1}))
    result = CliRunner().invoke(main.app, ["-i", path, "hosts", "--timeout", "60"])
    assert result.exit_code == 1
    assert "judgectl: e2: 127.0.0.1 port 1 does not answer: Connection refused" in result.stderr
    rows = json.loads(CliRunner().invoke(main.app, ["-i", path, "hosts", "--json", "--timeout", "60"]).stdout)
    assert [(row["name"], row["reachable"], row["boot"]) for row in rows] == [("e1", True, "active"), ("e2", False, "")]
    assert rows[0]["kernel"] == os.uname().release and rows[0]["uptime"] > 0
    result = CliRunner().invoke(main.app, ["-i", path, "units", "e1", "-o", "json", "--timeout", "60"])
    assert {(row["unit"], row["fault"]) for row in json.loads(result.stdout)} == {
        ("judge-boot.service", ""), ("judge-etcd-proxy.service", "missing"), ("judge-executor.service", "missing"),
    }  # fmt: skip
    assert result.exit_code == 1
    result = CliRunner().invoke(main.app, ["-i", path, "units", "--timeout", "60"])
    assert "1 unreachable, 2 missing" in result.stdout or "2 missing, 1 unreachable" in result.stdout


def test_a_watched_table_ends_with_ctrl_c(server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def interrupted(_: float) -> None:
        looks.append(1)
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(fleet_commands.clock, "sleep", interrupted)
    path = str(inventory(tmp_path, e1=server.variables()))
    result = CliRunner().invoke(main.app, ["-i", path, "units", "--watch", "--timeout", "60"])
    assert result.exit_code == 0
    assert "judge-executor" in result.stdout or "unreachable" in result.stdout
    assert len(server.transports) == 1, "one login for all pictures"


@pytest.mark.parametrize("command", ["hosts", "units", "logs"])
def test_without_an_inventory_it_is_said_how_to_name_one(command: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "judge.ctl.main", command], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "which hosts? name the inventory" in result.stderr


def test_every_other_command_starts_without_ssh() -> None:
    code = "import sys; import judge.ctl.main; sys.exit('paramiko' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
