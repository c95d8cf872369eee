"""Every fault that a precheck has to find, from observations to sentences."""

import copy
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.ansible import ROOT, ansible, module_utils, read, render, run_module
from tests.support.packages import write
from tests.support.servers import wait_for

precheck = module_utils("judge_findings")
observe = module_utils("judge_observe")

TOKEN = "token-of-this-cluster"
BUNDLE = {"release": "trixie", "architecture": "amd64", "python": "3.13"}
SEEN: dict[str, Any] = {
    "os": {"id": "debian", "codename": "trixie"},
    "architecture": "amd64",
    "python": "3.13",
    "systemd": True,
    "root": True,
    "address": True,
    "ports": {},
    "disks": {
        "/opt/judge": {"free": 9_000_000_000, "device": 1},
        "/var/lib/judge": {"free": 9_000_000_000, "device": 1},
    },
    "etcd": {"data": False, "token": None, "name": None},
    "mongodb": {"data": False, "marked": False, "replica_set_id": None},
    "clock": {"ahead": 0.0, "unsure": 0.01},
}
PLAN = {
    "ports": [[2379, "etcd"], [27017, "MongoDB"]],
    "space": {"/opt/judge": 800, "/var/lib/judge": 500},
    "bundle_path": "/bundle",
    "etcd_path": "/var/lib/judge/etcd",
    "mongodb_path": "/var/lib/judge/mongodb",
}


class Cluster:
    """A healthy cluster before its first deployment, to be damaged by a test."""

    def __init__(self, judicators: int = 3) -> None:
        self.groups = {
            "judicators": [f"j{number}" for number in range(1, judicators + 1)],
            "executors": ["e1"],
            "gateways": ["g1"],
        }
        names = [name for group in self.groups.values() for name in group]
        self.hostvars: dict[str, dict[str, Any]] = {
            name: {
                "ansible_host": f"10.0.0.{number}",
                "judge_precheck_plan": copy.deepcopy(PLAN),
                "judge_precheck_observation": {"seen": copy.deepcopy(SEEN)},
            }
            for number, name in enumerate(names, 1)
        }
        self.problems: list[str] = []
        self.token = ""

    def facts(self, name: str) -> dict[str, Any]:
        facts: dict[str, Any] = self.hostvars[name]["judge_precheck_observation"]["seen"]
        return facts

    def plan(self, name: str) -> dict[str, Any]:
        plan: dict[str, Any] = self.hostvars[name]["judge_precheck_plan"]
        return plan

    def report(self, **options: Any) -> dict[str, Any]:
        arguments = {"bundles": {"/bundle": BUNDLE}, "problems": self.problems, "token": self.token, **options}
        report: dict[str, Any] = precheck.report(self.hostvars, self.groups, clock_limit=2.0, **arguments)
        return report

    def lines(self) -> list[str]:
        report = self.report()
        lines: list[str] = report["lines"]
        assert report["faults"] == sum(line.startswith("FAULT: ") for line in lines)
        return lines

    def line(self) -> str:
        (line,) = self.lines()
        return line


def test_numbers_of_judicators() -> None:
    assert [Cluster(number).lines() for number in (1, 3, 5, 7)] == [[]] * 4
    assert Cluster(4).line() == "warning: 4 judicators bear no more failures than 3; use 3 or 5"
    assert "there are 9 judicators and at most 7 can vote" in Cluster(9).line()
    assert "FAULT: the inventory has no judicators" in Cluster(0).line()


Damage = Callable[[Cluster], object]


def observed(name: str, **facts: Any) -> Damage:
    return lambda cluster: cluster.facts(name).update(facts)


def declared(name: str, **variables: Any) -> Damage:
    return lambda cluster: cluster.hostvars[name].update(variables)


SQUATTED = {"27017": {"program": "python3", "unit": "squatter.service"}}
DAMAGES: list[tuple[Damage, str]] = [
    (lambda c: c.groups.update(executors=[]), "warning: the inventory has no executors"),
    (lambda c: c.groups.update(gateways=[]), "warning: the inventory has no gateways"),
    (declared("e1", ansible_host="10.0.0.1"), "same address as e1, 10.0.0.1"),
    (lambda c: c.hostvars.update(e1={"ansible_host": "10.0.0.1"}), "same address"),  # outside of the run
    (lambda c: c.hostvars["e1"].pop("ansible_host"), "e1: it has no address; set ansible_host"),
    (declared("e1", ansible_host="10.0.0.1:22"), "is no IPv4 address or host name"),
    (declared("e1", ansible_host="fd00::1"), "is an IPv6 address, and hosts reach each other"),
    (declared("e1", judge_precheck_observation={"unreached": "timed out"}), "cannot be reached (timed out)"),
    (declared("e1", judge_precheck_observation={"broken": "rc 127."}), "cannot be looked at (rc 127)"),
    (lambda c: c.facts("e1")["os"].update(id="ubuntu", codename="noble"), "its system is ubuntu noble"),
    (observed("e1", systemd=False), "systemd does not run"),
    (observed("e1", root=False), "do not run as root"),
    (lambda c: c.facts("e1")["os"].update(codename="bookworm"), "the bundle is for trixie and the host is bookworm"),
    (observed("e1", architecture="arm64"), "the bundle is for amd64 and the host is arm64"),
    (observed("e1", python="3.12"), "wheels are for Python 3.13"),
    (observed("e1", ports=SQUATTED), "port 27017, which MongoDB needs, is taken by squatter.service"),
    (lambda c: c.plan("e1")["ports"].append([2379, "x"]), "meant for etcd and for x"),
    (observed("e1", address=False), "10.0.0.4 is not an address of this host"),
    (observed("e1", address=None), "cannot resolve its own address 10.0.0.4"),
    (observed("e1", clock={"ahead": -60.0, "unsure": 0.01}), "its clock is 60.0 s behind the others"),
    (lambda c: c.problems.append("bundle /b: x is missing"), "FAULT: bundle /b: x is missing"),
    (observed("j1", mongod_can_run=False), "FAULT: j1: its processor lacks AVX"),
    (observed("e1", sandbox_lacks=["user namespaces"]), "FAULT: e1: the sandbox needs user namespaces; boot"),
    (observed("e1", unreachable=["10.0.0.1:2379"]), "FAULT: e1: it cannot reach 10.0.0.1:2379: nothing comes"),
    (
        lambda c: (c.plan("g1").update(ipv6=True), c.facts("g1").update(ipv6=False)),
        "FAULT: g1: its kernel has no IPv6, so nginx could not start; set judge_gateway_ipv6: false",
    ),
    (
        observed("g1", https={"fault": "/x.pem: the certificate expired on May 1", "warnings": []}),
        "FAULT: g1: /x.pem: the certificate expired on May 1",
    ),
    (
        observed("g1", https={"fault": "", "warnings": ["/x.pem: the certificate expires in 3 days; renew it"]}),
        "warning: g1: /x.pem: the certificate expires in 3 days; renew it",
    ),
    (observed("g1", sites=["/etc/nginx/a.conf"]), "warning: g1: nginx has sites of its own (/etc/nginx/a.conf)"),
    (observed("e1", upgrades_itself=True), "warning: e1: unattended-upgrades changes etcd, nginx and compilers"),
    (observed("j1", keeps_time=False), "warning: j1: no time service runs"),
    (observed("e1", newer_kernel="6.1.0-44"), "warning: e1: a newer kernel, 6.1.0-44, is installed and does not run"),
]


@pytest.mark.parametrize(("damage", "text"), DAMAGES)
def test_each_fault_is_one_sentence(damage: Damage, text: str) -> None:
    cluster = Cluster()
    damage(cluster)
    assert text in cluster.line()


def test_all_faults_of_all_hosts_come_at_once() -> None:
    cluster = Cluster(2)
    cluster.facts("e1")["ports"] = SQUATTED
    cluster.facts("e1")["os"]["codename"] = "bookworm"
    cluster.hostvars["j2"]["judge_precheck_observation"] = {"unreached": "no route"}
    cluster.facts("j1")["disks"]["/opt/judge"]["free"] = 1_000_000
    assert [line.partition(":")[0] for line in cluster.lines()] == ["FAULT"] * 4 + ["warning"]


def test_directories_on_one_disk_are_added_up() -> None:
    cluster = Cluster()
    for place in cluster.facts("e1")["disks"].values():
        place["free"] = 1_000_000_000
    assert "/opt/judge and /var/lib/judge: 1000 MB are free and 1300 MB are needed" in cluster.line()
    cluster.facts("e1")["disks"]["/opt/judge"]["device"] = 2
    assert cluster.lines() == []


@pytest.mark.parametrize(
    ("unit", "port", "facts", "own"),
    [
        ("judge-mongodb.service", 27017, {}, True),
        ("nginx.service", 27017, {"deployed": True}, False),
        ("nginx.service", 443, {}, True),
        ("nginx.service", 443, {"sites": ["/etc/nginx/sites-enabled/blog"]}, False),
        ("nginx.service", 443, {"sites": ["/etc/nginx/sites-enabled/blog"], "deployed": True}, True),
    ],
)
def test_a_port_of_our_own_is_no_fault(unit: str, port: int, facts: dict[str, Any], own: bool) -> None:
    """An nginx with somebody's site is not ours until it has been deployed, and never on another port than HTTP's."""
    cluster = Cluster()
    cluster.plan("g1")["ports"] = [[443, "HTTPS"], [27017, "MongoDB"]]
    cluster.facts("g1").update(ports={str(port): {"program": "x", "unit": unit}}, **facts)
    taken = [line for line in cluster.lines() if f"is taken by {unit}" in line]
    assert bool(taken) is not own and all(line.startswith("FAULT: g1: port") for line in taken)


def test_a_first_deployment_needs_more_room() -> None:
    cluster = Cluster()
    cluster.facts("e1")["disks"]["/var/lib/judge"]["free"] = 2_400_000_000
    cluster.facts("e1")["disks"]["/opt/judge"]["device"] = 2
    assert cluster.lines() == []
    cluster.plan("e1")["first_space"] = [["/var/lib/judge", 2000]]
    assert "e1: /var/lib/judge: 2400 MB are free and 2500 MB are needed" in cluster.line()
    cluster.facts("e1")["deployed"] = True
    assert cluster.lines() == []


def test_upgrades_that_the_role_holds_back_are_no_warning() -> None:
    cluster = Cluster()
    cluster.facts("e1")["upgrades_itself"] = True
    assert "name them in judge_common_held_back" in cluster.line()
    cluster.plan("e1")["held_back"] = True
    assert cluster.lines() == []


@pytest.mark.skipif(shutil.which("apt-config") is None, reason="apt-config is of Debian")
def test_apt_reads_what_is_held_back(tmp_path: Path) -> None:
    held_back = read(ROOT / "roles/judge_common/vars/main.yml")["judge_common_servers_and_compilers"]
    (tmp_path / "apt.conf").write_text(render("common", "apt.conf.j2", {"judge_common_held_back": held_back}))
    dump = subprocess.run(
        ["apt-config", "-c", tmp_path / "apt.conf", "dump", "Unattended-Upgrade"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    patterns = re.findall(r'^Unattended-Upgrade::Package-Blacklist:: "(.+)";$', dump, re.MULTILINE)
    assert 'Unattended-Upgrade::Automatic-Reboot "false";' in dump
    script = (ROOT / "scripts/install-packages").read_text()
    (compilers,) = re.findall(r'^language_packages="(.+)"$', script, re.MULTILINE)
    names = {item.split("|")[1] for item in compilers.split()}
    names |= {"etcd-server", "mongodb-org-server", "nginx-core", "gcc-12", "g++-12", "libc6-dev", "libstdc++6"}
    # As unattended-upgrades compares them.
    assert {name for name in names if not any(re.match(pattern, name) for pattern in patterns)} == set()
    assert not any(re.match(pattern, name) for pattern in patterns for name in ("openssl", "libssl3", "linux-image"))


@pytest.mark.parametrize(
    ("token", "etcd", "mongodb", "texts"),
    [
        ("", {"token": "old-cluster", "name": "j1"}, {}, ["another cluster's data"]),
        (TOKEN, {"token": "old-cluster", "name": "j1"}, {}, ["another cluster's data"]),
        (TOKEN, {"token": TOKEN, "name": "j2"}, {}, ["the data of member 'j2'"]),
        (TOKEN, {"token": "", "name": ""}, {}, ["membership.json is unreadable"]),
        ("", {"data": True}, {}, ["an etcd that judge did not start"]),
        ("", {}, {"data": True, "marked": True}, ["holds another cluster's database"]),
        (TOKEN, {}, {"data": True, "marked": False}, ["a database that judge did not make"]),
        (TOKEN, {"token": TOKEN, "name": "j1"}, {"data": True, "marked": True}, []),
        (TOKEN, {}, {"data": True, "marked": True}, []),
        (TOKEN, {}, {}, []),
    ],
)
def test_old_data(token: str, etcd: dict[str, Any], mongodb: dict[str, Any], texts: list[str]) -> None:
    cluster = Cluster()
    cluster.token = token
    cluster.facts("j1")["etcd"].update(etcd)
    cluster.facts("j1")["mongodb"].update(mongodb)
    lines = cluster.lines()
    assert len(lines) == len(texts) and all(text in line for text, line in zip(texts, lines, strict=True))


def test_a_host_without_an_address_is_not_called_unreachable() -> None:
    cluster = Cluster()
    cluster.hostvars["e1"] = {"judge_precheck_observation": {"unreached": "Could not resolve hostname e1"}}
    assert cluster.line() == "FAULT: e1: it has no address; set ansible_host (or judge_address) in the inventory"


def test_a_wrong_variable_of_several_hosts_is_one_line() -> None:
    cluster = Cluster()
    for name in ("j2", "j1"):
        cluster.hostvars[name]["judge_precheck_variables"] = {
            "problems": ["unknown variable 'judge_x'", f"wrong on {name}"]
        }
    assert cluster.lines() == [
        "FAULT: j1, j2: unknown variable 'judge_x'",
        "FAULT: j1: wrong on j1",
        "FAULT: j2: wrong on j2",
    ]


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=7), st.floats(0, 5))
@example([5.0], 4.0)
def test_clocks_within_the_limit_are_never_accused(offsets: list[float], unsure: float) -> None:
    cluster = Cluster(7)
    for name, offset in zip(cluster.groups["judicators"], offsets, strict=False):
        cluster.facts(name)["clock"] = {"ahead": offset, "unsure": unsure}
    assert cluster.lines() == []


def test_the_module_sees_this_machine_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "etcd/data/member").mkdir(parents=True)
    (tmp_path / "etcd/membership.json").write_text(json.dumps({"token": TOKEN, "name": "j1"}))
    (tmp_path / "mongodb").mkdir()
    (tmp_path / "mongodb/WiredTiger").write_text("")
    before = sorted(tmp_path.rglob("*"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        facts = run_module(
            "judge_precheck_host",
            {
                "address": "127.0.0.1",
                "ports": [port],
                "paths": [str(tmp_path / "not/there")],
                "etcd_path": str(tmp_path / "etcd"),
                "mongodb_path": str(tmp_path / "mongodb"),
            },
        )["seen"]
        comm = Path(f"/proc/{os.getpid()}/comm").read_text().strip()
    assert facts["ports"][str(port)]["program"] == comm
    assert facts["address"] is True and facts["disks"][str(tmp_path / "not/there")]["free"] > 0
    assert facts["etcd"] == {"data": True, "token": TOKEN, "name": "j1"}
    assert facts["mongodb"] == {"data": True, "marked": False, "replica_set_id": None}
    assert sorted(tmp_path.rglob("*")) == before


def test_observations_from_files() -> None:
    assert observe.os_release('ID=debian\nVERSION_CODENAME="trixie"\n') == {"id": "debian", "codename": "trixie"}
    assert observe.os_release("") == {"id": "", "codename": ""}
    assert observe.unit_of("1:name=systemd:/judge.slice/judge-etcd.service/x\n0::/\n") == "judge-etcd.service"
    assert observe.unit_of("0::/\n") == ""
    assert observe.has_address("203.0.113.77") is False
    assert observe.has_address("no-such-host.invalid") is None


@pytest.mark.parametrize(("days", "warned"), [(None, False), (30, False), (29, True), (0, True)])
def test_an_authority_that_ends_soon_is_a_warning(days: int | None, warned: bool) -> None:
    report = Cluster().report(authority_days=days)
    assert report["faults"] == 0
    lines = [line for line in report["lines"] if "the cluster's CA" in line]
    assert [line.partition(";")[0] for line in lines] == (
        [f"warning: the cluster's CA expires in {days} days"] if warned else []
    )


@pytest.mark.parametrize(
    ("installed", "bundled", "refused"),
    [("6.0.5", "8.0.12", True), ("6.0.5", "7.0.1", False), ("6.0.5", "6.0.27", False), ("", "8.0.12", False)],
)
def test_mongodb_goes_from_one_series_to_the_next_only(installed: str, bundled: str, refused: bool) -> None:
    cluster = Cluster()
    cluster.plan("j1")["bundle_path"] = "/newer"
    cluster.facts("j1").update(mongod=installed, mongodb={"data": True, "marked": True, "replica_set_id": None})
    cluster.facts("j1")["etcd"] = {"data": True, "token": "t", "name": "j1"}
    newer = {"/bundle": BUNDLE, "/newer": {**BUNDLE, "versions": {"mongodb-org-server": bundled}}}
    lines = cluster.report(bundles=newer, token="t")["lines"]
    assert [line.partition(";")[2] for line in lines] == (
        [" make the bundle with 7.0 first (docs/bundle.md)"] if refused else []
    )


def test_the_version_of_the_mongod_of_a_config(tmp_path: Path) -> None:
    program = tmp_path / "mongod"
    program.write_text("#!/bin/sh\necho db version v6.0.5\n")
    program.chmod(0o755)
    assert observe.mongod_version(f'name: "j1"\nbinary: "{program}"\ndata_dir: /x\n') == "6.0.5"
    assert observe.mongod_version(f"binary: {tmp_path}/none\n") == ""
    assert observe.mongod_version("") == ""


def test_a_judicator_needs_no_sandbox() -> None:
    cluster = Cluster()
    cluster.facts("j1").update(sandbox_lacks=["user namespaces"])
    cluster.facts("e1").update(mongod_can_run=False)
    assert cluster.lines() == []
    cluster.hostvars["j1"]["judge_precheck_observation"] = {"unreached": "timed out"}
    cluster.facts("e1").update(unreachable=["10.0.0.1:2379", "10.0.0.1:7400"])
    assert "j1: 10.0.0.1 cannot be reached" in cluster.line()


def test_a_refused_port_is_a_fault_where_somebody_listens() -> None:
    """Before the first deployment that is judge_precheck_listen; later a service may be just starting."""
    cluster = Cluster()
    cluster.facts("e1").update(refused=["10.0.0.1:2379", "10.0.0.1:7400"])
    assert cluster.lines() == []
    cluster.hostvars["j1"]["judge_precheck_listening"] = {"ports": [7400]}
    assert cluster.line().startswith("FAULT: e1: it cannot reach 10.0.0.1:7400: somebody listens there")
    cluster.hostvars["j1"]["judge_precheck_listening"] = {"skipped": True}
    cluster.facts("j1")["ports"] = {"2379": {"program": "etcd", "unit": "judge-etcd.service"}}
    assert cluster.line().startswith("warning: e1: it cannot reach 10.0.0.1:2379: somebody listens there")
    cluster.facts("j1")["ports"] = {"2379": {"program": "judge-precheck", "unit": "session-1.scope"}}
    assert cluster.lines() == [], "of a precheck that was cut off"


@pytest.mark.parametrize(
    ("running", "files", "newer"),
    [
        ("6.1.0-9-amd64", ["vmlinuz-6.1.0-9-amd64", "vmlinuz-6.1.0-44-amd64"], "6.1.0-44-amd64"),
        ("6.1.0-44-amd64", ["vmlinuz-6.1.0-9-amd64", "vmlinuz-6.1.0-44-amd64", "initrd.img-7.0.0-1-amd64"], ""),
        ("6.1.0-9-cloud-amd64", ["vmlinuz-6.12.0-1-amd64", "vmlinuz-6.1.0-10-cloud-amd64"], "6.1.0-10-cloud-amd64"),
        ("6.12.9+deb13-amd64", ["vmlinuz-6.12.10+deb13-amd64"], "6.12.10+deb13-amd64"),
        ("4.4.0", [], ""),
    ],
)
def test_a_kernel_that_waits_for_a_reboot(running: str, files: list[str], newer: str) -> None:
    assert observe.newer_kernel(running, files) == newer


def test_sites_that_are_not_ours(tmp_path: Path) -> None:
    names = ("sites-enabled/default", "sites-enabled/blog", "conf.d/judge.conf", "conf.d/proxy.conf", "conf.d/x.off")
    write(tmp_path, dict.fromkeys(names, ""))
    assert observe.foreign_sites(tmp_path) == [f"{tmp_path}/conf.d/proxy.conf", f"{tmp_path}/sites-enabled/blog"]


def test_a_bare_host_listens_for_a_moment() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused, socket.create_server(("127.0.0.1", 0)) as used:
        port, occupied = unused.getsockname()[1], used.getsockname()[1]
        unused.close()
        result = run_module("judge_precheck_listen", {"ports": [port, occupied]})
        peer = ("127.0.0.1", port)
        try:
            assert result["ports"] == [port]
            assert [observe.reached([peer] * 50) for _ in range(3)] == [{"unreachable": [], "refused": []}] * 3
            assert observe.port_holders([port])[str(port)]["program"] == observe.LISTENER
        finally:
            run_module("judge_precheck_listen", {"pid": result["pid"]})
        assert observe.reached([peer])["refused"] == [f"127.0.0.1:{port}"]
        short = run_module("judge_precheck_listen", {"ports": [port], "seconds": 0})
        wait_for(lambda: bool(observe.reached([peer])["refused"]), what="the end of what listens")
        run_module("judge_precheck_listen", {"pid": os.getpid()})  # another process: nothing happens to it
        assert short["ports"] == [port]


def test_a_precheck_leaves_nobody_listening(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    local = {"ansible_connection": "local", "ansible_become": False, "judge_address": "127.0.0.1"}
    tree = {"judicators": {"hosts": {"j1": local}}, "executors": {"hosts": {"e1": local}}}
    (tmp_path / "hosts.yml").write_text(json.dumps(tree))
    settings = ["judge_source=online", f"judge_rpc_port={port}", f"ansible_python_interpreter={sys.executable}"]
    options = [word for setting in settings for word in ("-e", setting)]
    process = ansible("playbook", "-i", tmp_path / "hosts.yml", "playbooks/precheck.yml", *options, "-v")
    assert max(int(pid) for pid in re.findall(r'"pid": (\d+)', process.stdout)) > 0, process.stdout
    assert f"127.0.0.1:{port}" not in process.stdout, "e1 reached it"
    assert observe.reached([("127.0.0.1", port)])["refused"] == [f"127.0.0.1:{port}"]


def test_executors_of_two_releases_are_a_warning() -> None:
    cluster = Cluster()
    cluster.groups["executors"] += ["g1"]
    cluster.facts("g1")["os"]["codename"] = "bookworm"
    cluster.plan("g1")["bundle_path"] = ""
    line = cluster.line()
    assert line.startswith("warning: executors have different compilers (Debian 12: g1; Debian 13: e1)")


@pytest.mark.parametrize(("dead", "percent", "left_out"), [(1, 10, 1), (2, 10, 0), (2, 20, 2), (1, 0, 0), (0, 10, 0)])
def test_a_share_of_the_executors_may_be_away(dead: int, percent: int, left_out: int) -> None:
    cluster = Cluster()
    for number in range(2, 11):
        cluster.groups["executors"].append(f"e{number}")
        cluster.hostvars[f"e{number}"] = {**cluster.hostvars["e1"], "ansible_host": f"10.0.1.{number}"}
    for number in range(2, 2 + dead):
        cluster.hostvars[f"e{number}"]["judge_precheck_observation"] = {"unreached": "timed out"}
    report = cluster.report(missing_percent=percent)
    assert len(report["left_out"]) == left_out
    assert report["faults"] == dead - left_out
    assert len(report["lines"]) == dead
    assert all("it is left out" in line for line in report["lines"]) == bool(left_out or not dead)


@pytest.mark.parametrize(("executors", "percent", "left_out"), [(8, 10, 1), (2, 10, 1), (1, 10, 0), (8, 0, 0)])
def test_of_several_executors_one_may_always_be_away(executors: int, percent: int, left_out: int) -> None:
    """A tenth of eight is none, and one dead machine would stop a rollback."""
    dead = {"result": {"unreached": "timed out"}, "executor": True}
    hosts = {"e1": dead, **{f"e{number}": {"result": {}, "executor": True} for number in range(2, executors + 1)}}
    assert len(precheck.tolerated(hosts, percent)) == left_out


def test_an_executor_that_is_more_is_not_left_out() -> None:
    cluster = Cluster(1)
    cluster.groups["executors"] = ["j1"]
    cluster.hostvars["j1"]["judge_precheck_observation"] = {"unreached": "timed out"}
    assert cluster.report(missing_percent=100)["left_out"] == []


def test_the_version_of_the_releases_python(tmp_path: Path) -> None:
    program = tmp_path / "python3"
    program.write_text("#!/bin/sh\necho 3.99\n")
    program.chmod(0o755)
    assert observe.python_version(str(program)) == "3.99"
    assert observe.python_version(str(tmp_path / "none")) == ""


def test_processors_that_mongod_runs_on() -> None:
    assert observe.processor_flags("processor: 0\nflags\t\t: fpu avx avx2\nflags : fpu\n") == {"fpu", "avx", "avx2"}
    assert observe.mongod_can_run("x86_64", {"fpu", "avx"})
    assert not observe.mongod_can_run("x86_64", {"fpu", "sse4_2"})
    assert observe.mongod_can_run("aarch64", observe.processor_flags("Features : fp asimd atomics\n"))
    assert not observe.mongod_can_run("aarch64", observe.processor_flags("Features : fp asimd crc32\n"))
    assert observe.mongod_can_run("x86_64", set()), "who does not say is believed"


def test_what_the_sandbox_needs_of_the_kernel() -> None:
    second = "cpuset cpu io memory hugetlb pids"
    first = "#subsys_name hierarchy num_cgroups enabled\ncpu 3 5 1\nmemory 0 5 1\npids 4 5 1\ncpuset 0 9 1\n"
    assert observe.sandbox_lacks(second, "", "15000") == []
    assert observe.sandbox_lacks("", first.replace("memory 0", "memory 2"), "") == []
    assert observe.sandbox_lacks("", first, "15000") == ["control groups with memory"]
    (lack,) = observe.sandbox_lacks(second, "", "0\n")
    assert "user.max_user_namespaces is 0" in lack


def test_a_silent_port_differs_from_an_unused_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as used, socket.create_server(("127.0.0.1", 0)) as unused:
        free = unused.getsockname()[1]
        unused.close()
        result = observe.reached([("127.0.0.1", used.getsockname()[1]), ("127.0.0.1", free)])
        assert result == {"unreachable": [], "refused": [f"127.0.0.1:{free}"]}
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        peers = [full.getsockname()]
        clients = [socket.socket() for _ in range(3)]
        for client in clients:  # nobody takes them, and the kernel answers no further one
            client.setblocking(False)
            client.connect_ex(peers[0])
        assert observe.reached(peers, 0.5)["unreachable"] == [f"127.0.0.1:{peers[0][1]}"]
        for client in clients:
            client.close()
