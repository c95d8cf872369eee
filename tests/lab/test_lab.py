"""Real lab hosts: every command, two labs side by side, interruptions, and that nothing is left behind."""

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from lab import cgroups, cli, cluster, network, state
from lab import host as hosts
from lab.cluster import Lab
from lab.errors import LabError, UsageError
from tests.support.lab import lab_marks
from tests.support.servers import wait_for

ROOT = Path(__file__).resolve().parents[2]
RELEASE = os.environ.get("JUDGE_LAB_TEST_RELEASE", "trixie")


pytestmark = lab_marks()


def fresh_name() -> str:
    return f"t{uuid.uuid4().hex[:8]}"


def traces(name: str) -> list[str]:
    """What is on this machine of a lab: processes, mounts in any namespace, networks, cgroups, files, loop devices."""
    remains = [f"netns {item}" for item in network.names(name)]
    if network.mounted() and not any(network.NETNS.iterdir()):
        remains.append(f"{network.NETNS}, mounted for nothing")
    remains += [
        str(root / cgroups.group(name)) for root in cgroups.hierarchies() if (root / cgroups.group(name)).exists()
    ]
    remains += [str(path) for path in state.state_root().glob(f"*{name}*")]
    mark = re.compile(rf"judge-lab/\.?{name}|jl-{name}\b")
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text().replace("\0", " ")
            if mark.search(command):
                remains.append(f"process {process.name}: {command}")
            remains += [
                f"mount of {process.name}: {line}"
                for line in (process / "mounts").read_text().splitlines()
                if mark.search(line)
            ]
        except OSError:
            continue  # gone meanwhile
    loops = subprocess.run(["losetup", "--list", "--noheadings"], capture_output=True, text=True, check=True).stdout
    return remains + [f"loop device {line}" for line in loops.splitlines() if mark.search(line)]


def assert_nothing_left(name: str) -> None:
    # a loop device, and the mounts of a process that just died, go away a moment later
    wait_for(lambda: not traces(name), timeout=10, what=f"nothing left of {name}, but: {traces(name)[:5]}")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("bundle")
    (directory / "manifest.json").write_text("{}")
    return directory


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[Lab]:
    name = fresh_name()
    try:
        directory = tmp_path_factory.mktemp("inventory")
        yield cluster.up(name, ["j1", "e1"], RELEASE, bundle=bundle, inventory_directory=directory)
    finally:
        cluster.down(name)
        assert_nothing_left(name)


def reaches(lab: Lab, source: str, target: str) -> bool:
    probe = f"timeout 0.7 bash -c 'head -c 4 </dev/tcp/{lab.record.address(target)}/22'"
    completed = subprocess.run(lab.ssh_command(source, probe), capture_output=True, text=True, check=False)
    return completed.stdout == "SSH-"


def answers(lab: Lab, host: str) -> bool:
    """Whether a host's SSH answers the lab's own address."""
    probe = ["timeout", "0.7", "bash", "-c", f"head -c 4 </dev/tcp/{lab.record.address(host)}/22"]
    completed = subprocess.run([*network.inside(lab.record.name), *probe], capture_output=True, text=True, check=False)
    return completed.stdout == "SSH-"


def command(*arguments: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "lab", *arguments]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False, timeout=timeout)


def test_hosts_are_bare_debian_with_a_real_systemd(lab: Lab, bundle: Path) -> None:
    for name in lab.record.hosts:
        output = lab.ssh(
            name, "hostname; cat /proc/1/comm; systemctl is-system-running; . /etc/os-release; echo $VERSION_CODENAME"
        )
        assert output.split() == [name, "systemd", "running", RELEASE]
        output = lab.ssh(name, "systemctl --failed --no-legend; ip route show default; ls /opt")
        assert output.split() == [], "no failed unit, no route out, nothing of ours"
    inventory = yaml.safe_load((Path(lab.record.inventory) / "hosts.yml").read_text())
    assert inventory["all"]["vars"]["judge_bundle"] == str(bundle), "it is sent, as to real hosts"
    assert reaches(lab, "j1", "e1") and reaches(lab, "e1", "j1")
    keys = {lab.ssh(name, "cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub") for name in lab.record.hosts}
    assert len(keys) == 2
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if lab.record.name in line]
    assert all(line.startswith("nsfs ") for line in mounts), (
        "the machine's mount table shows network namespaces, no disks"
    )


def test_limits_are_enforced(lab: Lab) -> None:
    hog = "python3 -c 'bytearray(200 << 20)'"
    assert lab.ssh("e1", f"systemd-run --quiet --wait -p MemoryMax=400M {hog} && echo fits").strip() == "fits"
    with pytest.raises(LabError):
        lab.ssh("e1", f"systemd-run --quiet --wait --unit=hog -p MemoryMax=32M {hog}")
    assert "status=9/KILL" in lab.ssh("e1", "journalctl -u hog --no-pager")
    fork = "import os,time; [os.fork() or (time.sleep(9), os._exit(0)) for _ in range(40)]"
    with pytest.raises(LabError):
        lab.ssh("e1", f'systemd-run --quiet --wait -p TasksMax=20 python3 -c "{fork}"')
    # the sandbox makes cgroups of its own, below a delegated unit and beside it
    own = "for c in memory pids cpuacct freezer; do mkdir /sys/fs/cgroup/$c/own && rmdir /sys/fs/cgroup/$c/own; done"
    lab.ssh("e1", f"systemd-run --quiet --wait -p Delegate=yes sh -ec '{own}'")
    # and the machine itself is as big as it was said to be
    limit = Path(cgroups.controller("memory"), hosts.group(lab.record, "e1"), "memory.limit_in_bytes").read_text()
    assert int(limit) == 4 << 30


def test_inventory_and_commands(lab: Lab) -> None:
    name, directory = lab.record.name, Path(lab.record.inventory)
    tree = yaml.safe_load((directory / "hosts.yml").read_text())["all"]
    assert tree["children"]["judicators"]["hosts"] == {"j1": {"ansible_host": lab.record.address("j1")}}
    assert tree["children"]["executors"]["hosts"] == {"e1": {"ansible_host": lab.record.address("e1")}}
    # the inventory alone is enough to get in, from inside the lab
    ssh = ["ssh", *tree["vars"]["ansible_ssh_common_args"].split(), "-i", tree["vars"]["ansible_ssh_private_key_file"]]
    hostname = command("run", "--name", name, "--", *ssh, f"root@{lab.record.address('e1')}", "hostname")
    assert hostname.stdout == "e1\n", hostname.stderr
    assert command("ssh", "--name", name, "j1", "echo $HOSTNAME; exit 7").returncode == 7
    run = command("run", "--name", name, "--", "sh", "-c", "echo $ANSIBLE_INVENTORY; ip -br link | grep -c v-; exit 3")
    assert (run.returncode, run.stdout) == (3, f"{directory}\n2\n")
    status = json.loads(command("status", "--name", name, "--json").stdout)
    assert {item["name"]: item["state"] for item in status["hosts"]} == {"j1": "running", "e1": "running"}
    table = command("status", "--name", name)
    assert table.returncode == 0 and "10.77." in table.stdout
    inside = command("run", "--name", name, "--", sys.executable, "-m", "lab", "down", "--name", name)
    assert inside.returncode == 1 and "from outside" in inside.stderr


def test_faults_of_the_person_are_one_sentence(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = lab.record.name
    for arguments, message, code in [
        (("ssh", "--name", "nosuch", "j1"), "there is no lab 'nosuch'", 1),
        (("kill", "--name", name, "j9"), "no host 'j9'", 2),
        (("cut", "--name", name, "j1", "--from", "j1"), "from itself", 2),
        (("up", "--name", "Ä"), "lab name", 2),
        (("up", "--name", "x", "--hosts", "x1"), "host name 'x1'", 2),
        (("up", "--name", "x", "--release", "sarge"), "release 'sarge'", 2),
        (("up", "--name", "x", "--bundle", "/nonexistent"), "--bundle", 2),
        (("up", "--name", "x", "--memory", "1M"), "--memory", 2),
        (("up", "--name", name, "--release", "bookworm" if RELEASE == "trixie" else "trixie"), f"runs {RELEASE}", 2),
        (("fill", "--name", name, "j1", "/proc/x", "16M"), "directory '/proc/x'", 2),
        (("fill", "--name", name, "j1", "/data", "many"), "size 'many'", 2),
        (("skew", "--name", name, "j1", "a;b", "1"), "unit 'a;b'", 2),
        (("run", "--name", name, "--", "no-such-program"), "no program", 2),
        (("frobnicate",), "No such command", 2),
    ]:
        if "bookworm" in arguments or ("trixie" in arguments and RELEASE != "trixie"):
            # would build the other image first; the check is the same function
            with pytest.raises(UsageError, match=message):
                cluster.settle(name, arguments[-1], Path("/nonexistent"))
            continue
        monkeypatch.setattr(sys, "argv", ["lab", *arguments])
        with pytest.raises(SystemExit) as exit_info:
            cli.main()
        errors = capsys.readouterr().err
        assert exit_info.value.code == code and message in errors, (arguments, errors)
        assert len(errors.strip().splitlines()) == 1, errors
    assert state.read("x") is None


def test_cut_and_heal(lab: Lab) -> None:
    lab.cut("j1")
    assert not answers(lab, "j1") and not reaches(lab, "e1", "j1")
    assert {item.name: item.cable for item in lab.status()} == {"j1": "out", "e1": "in"}
    lab.heal()
    assert answers(lab, "j1") and reaches(lab, "e1", "j1")

    lab.cut("j1", "e1")
    lab.cut("j1", "e1")  # once more changes nothing
    assert network.drops(lab.record) == [("j1", "e1"), ("e1", "j1")]
    assert answers(lab, "j1") and answers(lab, "e1"), "only the pair is cut"
    assert not reaches(lab, "j1", "e1")
    lab.heal("e1")
    assert reaches(lab, "j1", "e1")


def test_a_one_way_cut_loses_only_what_the_host_sends(lab: Lab) -> None:
    def send(source: str, target: str) -> bool:
        address = lab.record.address(target)
        listen = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 9999))"
        listen += "; print(1, flush=True); s.settimeout(1.5); print(s.recv(9))"
        receiver = subprocess.Popen(
            lab.ssh_command(target, f'python3 -c "{listen}" 2>/dev/null'), stdout=subprocess.PIPE, text=True
        )
        with receiver:
            assert receiver.stdout and receiver.stdout.readline() == "1\n"
            # -u: a neighbour entry is needed to send, and is there from the reachability checks before
            lab.ssh(source, f"for i in 1 2 3; do echo x >/dev/udp/{address}/9999; done".join(("bash -c '", "'")))
            return "x" in receiver.stdout.read()

    assert reaches(lab, "j1", "e1")
    lab.cut("j1", "e1", oneway=True)
    assert not send("j1", "e1") and send("e1", "j1")
    lab.heal()
    assert send("j1", "e1")
    lab.cut("j1", oneway=True)
    assert not answers(lab, "j1")
    assert [item.lost for item in lab.status()] == [["to all"], []]
    lab.heal()
    assert answers(lab, "j1")


def test_freeze_and_thaw(lab: Lab) -> None:
    uptime = "ps -o lstart= 1"
    before = lab.ssh("e1", uptime)
    lab.freeze("e1")
    try:
        assert {item.name: item.state for item in lab.status()}["e1"] == "frozen"
        assert not answers(lab, "e1")
        # waiting for a host that hangs can be given up
        start = [sys.executable, "-m", "lab", "start", "--name", lab.record.name, "e1"]
        with subprocess.Popen(start, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
            wait_for(lambda: len(list(Path(f"/proc/{process.pid}/task").iterdir())) > 1, what="waiting")
            process.send_signal(signal.SIGINT)
            errors = process.communicate(timeout=10)[1]
        assert process.returncode == 130 and errors.count("\n") == 1 and "interrupted" in errors
        with pytest.raises(LabError, match=r"e1 does not answer after 0\.5 s"):
            lab.wait("e1", timeout=0.5)
    finally:
        lab.thaw()
    assert answers(lab, "e1") and lab.ssh("e1", uptime) == before


def test_power_loss_start_stop_reboot_and_wipe(lab: Lab) -> None:
    mark = "/etc/mark"
    boot = "cat /proc/1/stat | cut -d' ' -f22"
    first = lab.ssh("e1", f"echo kept >{mark}; sync; {boot}")
    lab.freeze("e1")
    lab.kill("e1")  # a frozen machine loses its power like any other
    assert {item.name: item.state for item in lab.status()} == {"j1": "running", "e1": "off"}
    assert not answers(lab, "e1") and answers(lab, "j1")
    with pytest.raises(LabError, match="e1 is off"):
        lab.freeze("e1")
    lab.heal()
    assert not answers(lab, "e1")
    lab.start("e1")
    lab.start("e1")  # once more changes nothing
    assert lab.ssh("e1", f"cat {mark}").strip() == "kept"
    second = lab.ssh("e1", boot)
    assert second != first

    lab.stop("e1")
    assert not hosts.running(lab.record, "e1")
    assert not any((root / hosts.group(lab.record, "e1")).exists() for root in cgroups.hierarchies())
    lab.start("e1")
    # a shut down machine has said so
    assert "Reached target" in lab.ssh(
        "e1", "journalctl --list-boots --no-pager >&2; journalctl -b -1 --no-pager | tail -40"
    )

    before = lab.ssh("e1", boot)
    subprocess.run(lab.ssh_command("e1", "systemctl reboot"), capture_output=True, check=False)
    wait_for(lambda: answers(lab, "e1") and quiet(lab, "e1", boot) not in {before, None}, what="e1 after its reboot")
    lab.wait("e1")

    lab.wipe("e1")
    assert lab.ssh("e1", f"ls {mark} 2>/dev/null || echo bare").strip() == "bare"


def quiet(lab: Lab, host: str, probe: str) -> str | None:
    """A command's output, or None while the host is between two lives."""
    try:
        return lab.ssh(host, probe)
    except LabError:
        return None


def test_small_disk(lab: Lab) -> None:
    lab.ssh("e1", "mkdir -p /srv/data && echo mine >/srv/data/file && chmod 750 /srv/data && chown 65534 /srv/data")
    lab.fill("e1", "/srv/data", "16M", full=True)
    assert lab.ssh("e1", "cat /srv/data/file; stat -c '%a %u' /srv/data; ls /srv/data").split() == [
        "mine", "750", "65534", "file", "lab-fill",
    ]  # fmt: skip
    with pytest.raises(LabError, match="No space left"):
        lab.ssh("e1", "head -c 100000 /dev/zero >/srv/data/more")
    lab.kill("e1")
    lab.start("e1")  # the disk is still there, and still full
    assert lab.ssh("e1", "rm /srv/data/lab-fill; df --output=size -k /srv/data | tail -1").strip() < "17000"
    assert [item.disks for item in lab.status()] == [[], ["/srv/data 16M"]]
    with pytest.raises(UsageError, match="has a disk of 16M"):
        lab.fill("e1", "/srv/data", "32M")
    lab.fill("e1", "/srv/data", "0")
    assert lab.ssh("e1", "cat /srv/data/file; df --output=target /srv/data | tail -1").split() == ["mine", "/"]


def test_skewed_clock_of_one_unit(lab: Lab) -> None:
    unit = "[Service]\nType=oneshot\nExecStart=/bin/date +TOLD=%%s\n"
    lab.ssh("j1", "cat >/etc/systemd/system/clock.service; systemctl daemon-reload", text=unit)

    def ahead() -> int:
        text = lab.ssh(
            "j1", "systemctl start clock; date +%s; journalctl -u clock -o cat --no-pager | grep TOLD | tail -1"
        )
        real, shown_time = text.split()
        return int(shown_time.removeprefix("TOLD=")) - int(real)

    lab.skew("j1", "clock", -3600)
    assert abs(ahead() + 3600) < 30
    assert lab.ssh("j1", "systemctl is-system-running").strip() == "running"
    lab.skew("j1", "clock", 0)
    assert abs(ahead()) < 30
    lab.ssh("j1", "test ! -e /etc/systemd/system/clock.service.d")


def test_two_labs_side_by_side_and_a_host_more(lab: Lab, tmp_path: Path) -> None:
    name = fresh_name()
    try:
        second = cluster.up(name, ["j1"], RELEASE, inventory_directory=tmp_path)
        assert second.record.network != lab.record.network
        assert second.ssh("j1", "hostname") == lab.ssh("j1", "hostname") == "j1\n"
        second.kill("j1")
        assert answers(lab, "j1"), "the labs have nothing to do with each other"
        again = cluster.up(name, ["g1"], inventory_directory=tmp_path)
        assert list(again.record.hosts) == ["j1", "g1"] and reaches(again, "g1", "j1"), "up completes, and adds"
        # processes that a `lab run` leaves behind end with the lab
        command("run", "--name", name, "--", "sh", "-c", "setsid -f sleep 1000 >/dev/null 2>&1", timeout=20)
        assert cgroups.processes(cgroups.group(name, "control"))
        again.freeze("j1")
    finally:
        assert cluster.down(name)
    assert_nothing_left(name)
    assert not (tmp_path / "hosts.yml").exists()
    assert cluster.down(name) is False, "nothing left to take down"
    assert answers(lab, "j1") and answers(lab, "e1")


def moments(name: str) -> dict[str, Callable[[], object]]:
    directory = state.state_root() / name
    return {
        "record": (directory / "lab.json").exists,
        "network": lambda: network.names(name),
        "half a host": lambda: list(directory.glob("hosts/.*")) or (directory / "hosts/j1").exists(),
        "cgroups": lambda: name in cgroups.names(),
        "first host on": lambda: cgroups.processes(cgroups.group(name)),
    }


@pytest.mark.parametrize("moment", moments("x"))
def test_interrupted_up(moment: str, tmp_path: Path) -> None:
    name = fresh_name()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "lab", "up", "--name", name, "--hosts", "j1,e1", "--release", RELEASE,
             "--inventory", str(tmp_path)],
            cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        with process:
            wait_for(lambda: moments(name)[moment]() or process.poll() is not None, what=moment)
            process.send_signal(signal.SIGKILL)
        if moment == "record" and not network.names(name):
            with pytest.raises(LabError, match="half there"):
                Lab.open(name).status()
        if moment in {"network", "first host on"}:
            lab = cluster.up(name, inventory_directory=tmp_path, names=["j1", "e1"])
            assert {item.state for item in lab.status()} == {"running"} and reaches(lab, "j1", "e1")
    finally:
        cluster.down(name)
    assert_nothing_left(name)


def test_a_broken_host_says_what_is_wrong(tmp_path: Path) -> None:
    name = fresh_name()
    try:
        lab = cluster.up(name, ["j1"], RELEASE, inventory_directory=tmp_path)
        lab.kill("j1")
        (lab.record.host_directory("j1") / "work").rename(tmp_path / "work")
        with pytest.raises(LabError, match=r"j1 is off again; .*mount"):
            lab.start("j1")
    finally:
        cluster.down(name)
    assert_nothing_left(name)
