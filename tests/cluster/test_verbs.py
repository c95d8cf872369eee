"""What is done to hosts of a deployed cluster, under submissions: each playbook of docs/playbooks for whole hosts.

The last tests take hosts out and bring them back, so each ends with the cluster of the inventory.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.cluster.verbs import Verbs
from tests.support.capable import no_lab
from tests.support.deployed import Site

Figure = Callable[[str], None]

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(bool(no_lab()), reason=no_lab() or "possible"),
]

# A judicator's and an executor's work goes on elsewhere; a lone gateway is what people ask.
PLANNED = 5.0
TASKS = 22  # about how many a removal has


def test_reboot_of_a_judicator_and_an_executor(deployed: Site, verbs: Verbs) -> None:
    before = {host: deployed.restarts(host) for host in ("j2", "e1", "j1")}
    verbs.measure("reboot", ["j2", "e1"], lambda: deployed.play("playbooks/reboot.yml", "--limit", "j2,e1").check())
    for host in ("j2", "e1"):
        assert set(deployed.restarts(host).values()).isdisjoint(before[host].values()), host
    assert deployed.restarts("j1") == before["j1"]
    deployed.whole()


def test_maintain_runs_the_command_while_the_services_are_stopped(deployed: Site, verbs: Verbs) -> None:
    command = "systemctl is-active judge-executor.service judge-boot.service >/run/maintained || true"
    told = ["-e", json.dumps({"judge_maintain_command": command}), "--limit", "e2"]
    verbs.measure("maintain", ["e2"], lambda: deployed.play("playbooks/maintain.yml", *told).check())
    assert deployed.lab.ssh("e2", "cat /run/maintained").split() == ["inactive", "inactive"]
    deployed.whole()


def test_a_host_stops_and_starts_and_a_majority_is_not_stopped(deployed: Site, verbs: Verbs) -> None:
    refused = deployed.play("playbooks/stop.yml", "--limit", "j1,j3")
    assert refused.code != 0
    assert "of etcd 1 of 3 voters would run on, and 2 decide" in refused.text
    assert not refused.changed

    def act() -> None:
        foretold = deployed.play("playbooks/stop.yml", "--limit", "j3", "--check").check()
        assert deployed.play("playbooks/stop.yml", "--limit", "j3").check().changed == foretold.changed
        assert deployed.play("playbooks/stop.yml", "--limit", "j3").check().changed == set()
        assert "judge-boot.service" not in deployed.lab.ssh("j3", "systemctl list-units --plain 'judge-*.service'")
        deployed.play("playbooks/start.yml", "--limit", "j3").check()

    verbs.measure("stop, start", ["j3"], act)
    assert deployed.play("playbooks/start.yml", "--limit", "j3").check().changed == set()
    deployed.whole()


def answers(deployed: Site, keys: Path, name: str, judicator: str) -> int:
    """The HTTP status of a judicator's answer to a copy of a host's keys."""
    address = deployed.lab.record.address(judicator)
    done = subprocess.run(
        deployed.command(
            "curl", "--silent", "--insecure", "--max-time", "10", "--output", "/dev/null",
            "--write-out", "%{http_code}",
            "--cert", f"{keys}/{name}.crt", "--key", f"{keys}/{name}.key", "--json", "{}",
            f"https://{address}:7400/rpc/ping",
        ),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return int(done.stdout)


def copy_keys(deployed: Site, host: str, name: str, target: Path) -> Path:
    """What a thief would have: a host's certificate and key."""
    target.mkdir()
    for suffix in ("crt", "key"):
        (target / f"{name}.{suffix}").write_text(deployed.lab.ssh(host, f"cat /etc/judge/tls/{name}.{suffix}"))
    return target


@pytest.mark.parametrize("host", ["e1", "g1", "j3"])
def test_a_host_is_removed_cut_off_anywhere_and_comes_back(
    deployed: Site, verbs: Verbs, host: str, tmp_path: Path, figure: Figure
) -> None:
    """Its old keys open nothing from then on, nothing is left on it, and `site.yml --limit` brings it back."""
    name = {"e": "executor", "g": "gateway", "j": "judicator"}[host[0]]
    stolen = copy_keys(deployed, host, name, tmp_path / "stolen")
    rest = [one for one in ("j1", "j2", "j3") if one != host]
    assert [answers(deployed, stolen, name, one) for one in rest] == [200] * len(rest)
    arguments = ("playbooks/remove.yml", "-e", f"judge_remove={host}")
    unasked = deployed.play(*arguments)
    assert unasked.code != 0
    assert f"-e confirm={host}" in unasked.text
    assert not unasked.changed
    deployed.play(*arguments, "--check", "--diff").check()

    def act() -> None:
        reached = verbs.cut_off(
            f"remove {host}", TASKS, lambda at: deployed.play(*arguments, "-e", f"confirm={host}", kill_at=at)
        )
        figure(f"removal of {host} was cut off at: {'; '.join(reached)}")

    if host == "g1":
        act()  # there is no other gateway to hand in at
    else:
        verbs.measure("remove, killed 3 times", [host], act)
    assert deployed.play(*arguments, "-e", f"confirm={host}").check().changed == set()
    assert [answers(deployed, stolen, name, one) for one in rest] == [403] * len(rest)
    left = deployed.lab.ssh(
        host, "ls -d /etc/judge /var/lib/judge /opt/judge /run/judge 2>/dev/null; getent passwd judge; true"
    )
    assert left == ""
    if host == "j3":
        told = deployed.lab.ssh("j1", "etcdctl --endpoints unix:///var/lib/judge/etcd/client.sock:1 member list")
        assert "j3" not in told
        assert len(told.splitlines()) == 2
    others = {one: deployed.restarts(one) for one in ("j1", "j2", "e2")}
    if host == "g1":
        deployed.site("--limit", host).check()
    else:
        verbs.measure("add", [host], lambda: deployed.site("--limit", host).check())
    assert {one: deployed.restarts(one) for one in others} == others
    deployed.whole()
    assert [answers(deployed, stolen, name, one) for one in rest] == [403] * len(rest)
    fresh = copy_keys(deployed, host, name, tmp_path / "fresh")
    assert [answers(deployed, fresh, name, one) for one in rest] == [200] * len(rest)


def test_a_dead_judicator_is_replaced_by_a_machine_without_anything(deployed: Site, verbs: Verbs) -> None:
    def act() -> None:
        deployed.lab.kill("j2")
        deployed.lab.wipe("j2")
        deployed.play("playbooks/replace.yml", "-e", "judge_replace=j2", "-e", "confirm=j2").check()

    verbs.measure("replace of a dead one", ["j2"], act)
    deployed.whole()
    assert deployed.site().check().changed == set()


def test_a_member_that_left_the_inventory_only_is_named(deployed: Site) -> None:
    path = deployed.inventory / "hosts.yml"
    whole = path.read_text()
    tree = yaml.safe_load(whole)
    del tree["all"]["children"]["executors"]["hosts"]["e2"]
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    try:
        run = deployed.site("--check").check()
    finally:
        path.write_text(whole)
    assert "e2 is an executor, and not in the inventory" in run.text
