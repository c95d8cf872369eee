"""A lab host with a kernel of its own (user-mode Linux): what it is, its power and cable, and nothing left of it."""

import json
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import cluster, network, uml
from lab import host as hosts
from lab.cluster import Lab
from lab.errors import LabError, UsageError
from tests.lab.test_lab import RELEASE, assert_nothing_left, command, fresh_name, quiet
from tests.support.lab import no_lab
from tests.support.servers import wait_for

REASON = no_lab() or ("" if shutil.which(uml.PROGRAM) else f"the package {uml.PACKAGE} is not installed")
pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(REASON), reason=REASON or "possible"),
]
BOOT = "cat /proc/sys/kernel/random/boot_id"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One host of each kind: u1 with a kernel of its own, e1 without."""
    name = fresh_name()
    try:
        directory = tmp_path_factory.mktemp("inventory")
        yield cluster.up(name, ["u1", "e1"], RELEASE, memory="1G", inventory_directory=directory)
    finally:
        cluster.down(name)
        assert_nothing_left(name)


def connects(lab: Lab, source: str | None = None) -> bool:
    """Whether u1's kernel takes a connection from a host, or from the lab itself; its programs are too slow to ask."""
    probe = f"timeout 5 bash -c ': </dev/tcp/{lab.record.address('u1')}/22'"
    inside = lab.ssh_command(source, probe) if source else [*network.inside(lab.record.name), "sh", "-c", probe]
    return subprocess.run(inside, capture_output=True, check=False).returncode == 0


def test_a_kernel_of_its_own_with_cgroups_of_version_2(lab: Lab) -> None:
    output = lab.ssh(
        "u1", "hostname; cat /proc/1/comm; systemctl is-system-running; . /etc/os-release; echo $VERSION_CODENAME"
    )
    assert output.split() == ["u1", "systemd", "running", RELEASE]
    assert lab.ssh("u1", "uname -r").strip() != platform.release()
    assert {"memory", "pids", "cpu"} <= set(lab.ssh("u1", "cat /sys/fs/cgroup/cgroup.controllers").split())
    assert lab.ssh("u1", "ip route show default") == "", "no route out"
    memory = int(lab.ssh("u1", "grep MemTotal /proc/meminfo").split()[1]) << 10
    assert 0.8 * (1 << 30) < memory <= 1 << 30
    hog = "python3 -c 'bytearray(200 << 20)'"
    assert lab.ssh("u1", f"systemd-run --quiet --wait -p MemoryMax=400M {hog} && echo fits").strip() == "fits"
    with pytest.raises(LabError):
        lab.ssh("u1", f"systemd-run --quiet --wait -p MemoryMax=32M {hog}")


def test_a_uml_host_reads_the_machines_files_and_writes_none(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    assert lab.ssh("u1", f"cat {uml.MACHINE}{file}") == "mine"
    with pytest.raises(LabError, match="Read-only file system"):
        lab.ssh("u1", f"echo changed >{uml.MACHINE}{file}")
    # not by another mount either: its files end at its own directory
    lab.ssh("u1", "mkdir -p /mnt/all && mount -t hostfs none /mnt/all -o /")
    assert "lab-network.service" in lab.ssh("u1", "ls /mnt/all/etc/systemd/system")
    with pytest.raises(LabError):
        lab.ssh("u1", f"touch /mnt/all{uml.MACHINE}{file}.new")
    lab.ssh("u1", "umount /mnt/all")
    assert file.read_text() == "mine" and [path.name for path in tmp_path.iterdir()] == ["file"]


def test_power_cable_and_hang(lab: Lab) -> None:
    assert connects(lab, "e1")
    lab.cut("u1", "e1")
    assert not connects(lab, "e1") and connects(lab)
    lab.cut("u1")
    assert not connects(lab)
    lab.heal()
    assert connects(lab)

    lab.freeze("u1")
    assert {item.name: item.state for item in lab.status()} == {"u1": "frozen", "e1": "running"}
    assert not connects(lab)
    lab.thaw()
    assert connects(lab)

    first = lab.ssh("u1", f"echo kept >/etc/mark; sync; {BOOT}")
    lab.kill("u1")
    assert {item.name: item.state for item in lab.status()} == {"u1": "off", "e1": "running"}
    lab.start("u1")
    lab.start("u1")  # once more changes nothing
    assert lab.ssh("u1", "cat /etc/mark").strip() == "kept"
    second = lab.ssh("u1", BOOT)
    assert second != first

    lab.stop("u1")
    assert not hosts.running(lab.record, "u1")
    lab.start("u1")
    output = lab.ssh("u1", "journalctl --list-boots --no-pager >&2; journalctl -b -1 --no-pager | tail -40")
    assert "Reached target" in output, "a shut down machine has said so"

    before = lab.ssh("u1", BOOT)
    subprocess.run(lab.ssh_command("u1", "systemctl reboot"), capture_output=True, check=False)
    wait_for(lambda: quiet(lab, "u1", BOOT) not in {before, None}, timeout=300, what="u1 after its reboot")
    lab.wait("u1")

    lab.wipe("u1")
    assert lab.ssh("u1", "ls /etc/mark 2>/dev/null || echo bare").strip() == "bare"


def test_a_uml_host_has_no_small_disks(lab: Lab) -> None:
    with pytest.raises(UsageError, match="u1 has no small disks"):
        lab.fill("u1", "/srv/data", "16M", full=True)


def test_a_uml_host_is_in_no_group_of_the_inventory(lab: Lab) -> None:
    text = (Path(lab.record.inventory) / "hosts.yml").read_text()
    assert "e1" in text and "u1" not in text
    status = json.loads(command("status", "--name", lab.record.name, "--json").stdout)
    assert [item["name"] for item in status["hosts"]] == ["u1", "e1"]
