"""Every fault that a precheck has to find, from observations to sentences."""

from __future__ import annotations

import copy
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.ansible import ROOT, module_utils, run_module
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

    def seen(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.hostvars[name]["judge_precheck_observation"]["seen"]
        return found

    def lines(self) -> list[str]:
        report = precheck.report(self.hostvars, self.groups, {"/bundle": BUNDLE}, self.problems, self.token, 2.0)
        lines: list[str] = report["lines"]
        assert report["faults"] == sum(line.startswith("FAULT: ") for line in lines)
        return lines

    def line(self) -> str:
        (line,) = self.lines()
        return line


def test_a_healthy_cluster_has_nothing_to_say() -> None:
    assert Cluster().lines() == []


@pytest.mark.parametrize("number", [1, 3, 5, 7])
def test_odd_numbers_of_judicators_are_right(number: int) -> None:
    assert Cluster(number).lines() == []


def test_numbers_of_judicators() -> None:
    assert Cluster(4).line() == "warning: 4 judicators bear no more failures than 3; use 3 or 5"
    assert "there are 9 judicators and at most 7 can vote" in Cluster(9).line()
    assert "FAULT: the inventory has no judicators" in Cluster(0).line()


@pytest.mark.parametrize("group", ["executors", "gateways"])
def test_a_missing_kind_of_host_is_a_warning(group: str) -> None:
    cluster = Cluster()
    cluster.groups[group] = []
    assert cluster.line().startswith(f"warning: the inventory has no {group}")


def damage_release(cluster: Cluster) -> None:
    cluster.seen("e1")["os"]["codename"] = "bookworm"


def damage_ports(cluster: Cluster) -> None:
    cluster.seen("e1")["ports"] = {"27017": {"program": "python3", "unit": "squatter.service"}}


DAMAGES: list[tuple[str, Any, str]] = [
    ("same address", lambda c: c.hostvars["e1"].update(ansible_host="10.0.0.1"), "same address as e1, 10.0.0.1"),
    ("no address", lambda c: c.hostvars["e1"].pop("ansible_host"), "e1: it has no address; set ansible_host"),
    ("odd address", lambda c: c.hostvars["e1"].update(ansible_host="10.0.0.1:22"), "is no IPv4 address or host name"),
    (
        "six",
        lambda c: c.hostvars["e1"].update(ansible_host="fd00::1"),
        "is an IPv6 address, and hosts reach each other",
    ),
    (
        "off",
        lambda c: c.hostvars["e1"].update(judge_precheck_observation={"unreached": "timed out"}),
        "cannot be reached (timed out)",
    ),
    (
        "no python",
        lambda c: c.hostvars["e1"].update(judge_precheck_observation={"broken": "rc 127."}),
        "cannot be looked at (rc 127)",
    ),
    ("other OS", lambda c: c.seen("e1")["os"].update(id="ubuntu", codename="noble"), "its system is ubuntu noble"),
    ("no systemd", lambda c: c.seen("e1").update(systemd=False), "systemd does not run"),
    ("not root", lambda c: c.seen("e1").update(root=False), "do not run as root"),
    ("bundle's release", damage_release, "the bundle is for trixie and the host is bookworm"),
    (
        "architecture",
        lambda c: c.seen("e1").update(architecture="arm64"),
        "the bundle is for amd64 and the host is arm64",
    ),
    ("python", lambda c: c.seen("e1").update(python="3.12"), "wheels are for Python 3.13"),
    ("port", damage_ports, "port 27017, which MongoDB needs, is taken by squatter.service"),
    (
        "two uses",
        lambda c: c.hostvars["e1"]["judge_precheck_plan"]["ports"].append([2379, "x"]),
        "meant for etcd and for x",
    ),
    ("foreign address", lambda c: c.seen("e1").update(address=False), "10.0.0.4 is not an address of this host"),
    ("unresolved", lambda c: c.seen("e1").update(address=None), "cannot resolve its own address 10.0.0.4"),
    ("clock", lambda c: c.seen("e1")["clock"].update(ahead=-60.0), "its clock is 60.0 s behind the others"),
    ("bundle or CA", lambda c: c.problems.append("bundle /b: x is missing"), "FAULT: bundle /b: x is missing"),
]


@pytest.mark.parametrize(("damage", "text"), [item[1:] for item in DAMAGES], ids=[item[0] for item in DAMAGES])
def test_each_fault_is_one_sentence(damage: Any, text: str) -> None:
    cluster = Cluster()
    damage(cluster)
    assert text in cluster.line()


def test_all_faults_of_all_hosts_come_at_once() -> None:
    cluster = Cluster(2)
    damage_ports(cluster)
    damage_release(cluster)
    cluster.hostvars["j2"]["judge_precheck_observation"] = {"unreached": "no route"}
    cluster.seen("j1")["disks"]["/opt/judge"]["free"] = 1_000_000
    assert [line.partition(":")[0] for line in cluster.lines()] == ["FAULT"] * 4 + ["warning"]


def test_directories_on_one_disk_are_added_up() -> None:
    cluster = Cluster()
    for place in cluster.seen("e1")["disks"].values():
        place["free"] = 1_000_000_000
    assert "/opt/judge and /var/lib/judge: 1000 MB are free and 1300 MB are needed" in cluster.line()
    cluster.seen("e1")["disks"]["/opt/judge"]["device"] = 2
    assert cluster.lines() == []


@pytest.mark.parametrize("unit", ["judge-mongodb.service", "nginx.service"])
def test_a_port_of_our_own_is_no_fault(unit: str) -> None:
    cluster = Cluster()
    cluster.seen("e1")["ports"] = {"27017": {"program": "x", "unit": unit}}
    assert cluster.lines() == []


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
    cluster.seen("j1")["etcd"].update(etcd)
    cluster.seen("j1")["mongodb"].update(mongodb)
    lines = cluster.lines()
    assert len(lines) == len(texts) and all(text in line for text, line in zip(texts, lines, strict=True))


def test_a_host_without_an_address_is_not_said_to_be_unreachable() -> None:
    cluster = Cluster()
    cluster.hostvars["e1"] = {"judge_precheck_observation": {"unreached": "Could not resolve hostname e1"}}
    assert cluster.line() == "FAULT: e1: it has no address; set ansible_host (or judge_address) in the inventory"


def test_a_wrong_variable_that_hosts_share_is_said_once() -> None:
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


def test_hosts_outside_of_the_run_count_with_their_inventory() -> None:
    cluster = Cluster()
    cluster.hostvars["e1"] = {"ansible_host": "10.0.0.1"}
    assert "same address" in cluster.line()


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=7), st.floats(0, 5))
def test_clocks_within_the_limit_are_never_accused(offsets: list[float], unsure: float) -> None:
    cluster = Cluster(7)
    for name, offset in zip(cluster.groups["judicators"], offsets, strict=False):
        cluster.seen(name)["clock"] = {"ahead": offset, "unsure": unsure}
    assert cluster.lines() == []


def test_a_slow_way_to_a_host_is_no_skew() -> None:
    cluster = Cluster()
    cluster.seen("e1")["clock"] = {"ahead": 5.0, "unsure": 4.0}
    assert cluster.lines() == []


def test_the_module_sees_this_machine_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "etcd/data/member").mkdir(parents=True)
    (tmp_path / "etcd/membership.json").write_text(json.dumps({"token": TOKEN, "name": "j1"}))
    (tmp_path / "mongodb").mkdir()
    (tmp_path / "mongodb/WiredTiger").write_text("")
    before = sorted(tmp_path.rglob("*"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        seen = run_module(
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
    assert seen["ports"][str(port)]["program"] == comm
    assert seen["address"] is True and seen["disks"][str(tmp_path / "not/there")]["free"] > 0
    assert seen["etcd"] == {"data": True, "token": TOKEN, "name": "j1"}
    assert seen["mongodb"] == {"data": True, "marked": False, "replica_set_id": None}
    assert sorted(tmp_path.rglob("*")) == before


def test_observations_from_files() -> None:
    assert observe.os_release('ID=debian\nVERSION_CODENAME="trixie"\n') == {"id": "debian", "codename": "trixie"}
    assert observe.os_release("") == {"id": "", "codename": ""}
    assert observe.unit_of("1:name=systemd:/judge.slice/judge-etcd.service/x\n0::/\n") == "judge-etcd.service"
    assert observe.unit_of("0::/\n") == ""
    assert observe.has_address("203.0.113.77") is False
    assert observe.has_address("no-such-host.invalid") is None


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda c: c.seen("j1").update(mongod_can_run=False), "j1: its processor lacks AVX"),
        (
            lambda c: c.seen("e1").update(sandbox_lacks=["user namespaces"]),
            "e1: the sandbox needs user namespaces; boot",
        ),
        (
            lambda c: c.seen("e1").update(unreachable=["10.0.0.1:2379"]),
            "e1: it cannot reach 10.0.0.1:2379: nothing comes",
        ),
        (
            lambda c: (c.hostvars["g1"]["judge_precheck_plan"].update(ipv6=True), c.seen("g1").update(ipv6=False)),
            "g1: its kernel has no IPv6, so nginx could not start; set judge_gateway_ipv6: false",
        ),
    ],
)
def test_what_a_machine_or_the_network_cannot_do(damage: Any, told: str) -> None:
    cluster = Cluster()
    damage(cluster)
    assert cluster.line().startswith(f"FAULT: {told}")


def test_a_certificate_that_browsers_refuse_is_a_fault_and_one_that_ends_soon_a_warning() -> None:
    cluster = Cluster()
    cluster.seen("g1").update(https={"fault": "/x.pem: the certificate expired on May 1", "warnings": []})
    assert cluster.line().startswith("FAULT: g1: /x.pem: the certificate expired on May 1")
    cluster = Cluster()
    cluster.seen("g1").update(https={"fault": "", "warnings": ["/x.pem: the certificate expires in 3 days; renew it"]})
    report = precheck.report(cluster.hostvars, cluster.groups, {"/bundle": BUNDLE}, [], "", 2.0)
    assert report["faults"] == 0
    assert "warning: g1: /x.pem: the certificate expires in 3 days; renew it" in report["lines"]


@pytest.mark.parametrize(("days", "warned"), [(None, False), (30, False), (29, True), (0, True)])
def test_an_authority_that_ends_soon_is_a_warning(days: int | None, warned: bool) -> None:
    cluster = Cluster()
    report = precheck.report(cluster.hostvars, cluster.groups, {"/bundle": BUNDLE}, [], "", 2.0, 0, days)
    assert report["faults"] == 0
    told = [line for line in report["lines"] if "the cluster's CA" in line]
    assert [line.partition(";")[0] for line in told] == (
        [f"warning: the cluster's CA expires in {days} days"] if warned else []
    )


@pytest.mark.parametrize(
    ("here", "there", "refused"),
    [("6.0.5", "8.0.12", True), ("6.0.5", "7.0.1", False), ("6.0.5", "6.0.27", False), ("", "8.0.12", False)],
)
def test_mongodb_goes_from_one_series_to_the_next_only(here: str, there: str, refused: bool) -> None:
    cluster = Cluster()
    cluster.hostvars["j1"]["judge_precheck_plan"]["bundle_path"] = "/newer"
    cluster.seen("j1").update(mongod=here, mongodb={"data": True, "marked": True, "replica_set_id": None})
    cluster.seen("j1")["etcd"] = {"data": True, "token": "t", "name": "j1"}
    newer = {"/bundle": BUNDLE, "/newer": {**BUNDLE, "versions": {"mongodb-org-server": there}}}
    lines = precheck.report(cluster.hostvars, cluster.groups, newer, [], "t", 2.0)["lines"]
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


def test_a_judicator_needs_no_sandbox_and_a_dead_host_answers_nobody() -> None:
    cluster = Cluster()
    cluster.seen("j1").update(sandbox_lacks=["user namespaces"])
    cluster.seen("e1").update(mongod_can_run=False)
    assert cluster.lines() == []
    cluster.hostvars["j1"]["judge_precheck_observation"] = {"unreached": "timed out"}
    cluster.seen("e1").update(unreachable=["10.0.0.1:2379", "10.0.0.1:7400"])
    assert "j1: 10.0.0.1 cannot be reached" in cluster.line()


def test_a_refused_port_is_a_fault_where_somebody_listens() -> None:
    """Before the first deployment that is judge_precheck_listen; later a service may be just starting."""
    cluster = Cluster()
    cluster.seen("e1").update(refused=["10.0.0.1:2379", "10.0.0.1:7400"])
    assert cluster.lines() == []
    cluster.hostvars["j1"]["judge_precheck_listening"] = {"ports": [7400]}
    assert cluster.line().startswith("FAULT: e1: it cannot reach 10.0.0.1:7400: somebody listens there")
    cluster.hostvars["j1"]["judge_precheck_listening"] = {"skipped": True}
    cluster.seen("j1")["ports"] = {"2379": {"program": "etcd", "unit": "judge-etcd.service"}}
    assert cluster.line().startswith("warning: e1: it cannot reach 10.0.0.1:2379: somebody listens there")
    cluster.seen("j1")["ports"] = {"2379": {"program": "judge-precheck", "unit": "session-1.scope"}}
    assert cluster.lines() == [], "of a precheck that was cut off"


@pytest.mark.parametrize(
    ("name", "seen", "sentence"),
    [
        (
            "g1",
            {"sites": ["/etc/nginx/conf.d/blog.conf"]},
            "nginx has sites of its own (/etc/nginx/conf.d/blog.conf)",
        ),
        ("e1", {"upgrades_itself": True}, "unattended-upgrades changes etcd, nginx and compilers"),
        ("j1", {"keeps_time": False}, "no time service runs"),
        ("e1", {"newer_kernel": "6.1.0-44-amd64"}, "a newer kernel, 6.1.0-44-amd64, is installed and does not run"),
    ],
)
def test_habits_of_a_host_are_warnings(name: str, seen: dict[str, Any], sentence: str) -> None:
    cluster = Cluster()
    cluster.seen(name).update(seen)
    assert cluster.line().startswith(f"warning: {name}: {sentence}")


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
    for name in (
        "sites-enabled/default",
        "sites-enabled/blog",
        "conf.d/judge.conf",
        "conf.d/proxy.conf",
        "conf.d/x.off",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert observe.foreign_sites(tmp_path) == [f"{tmp_path}/conf.d/proxy.conf", f"{tmp_path}/sites-enabled/blog"]


def test_a_bare_host_listens_for_a_moment() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused, socket.create_server(("127.0.0.1", 0)) as used:
        port, taken = unused.getsockname()[1], used.getsockname()[1]
        unused.close()
        done = run_module("judge_precheck_listen", {"ports": [port, taken]})
        peer = ("127.0.0.1", port)
        try:
            assert done["ports"] == [port]
            assert [observe.reached([peer] * 50) for _ in range(3)] == [{"unreachable": [], "refused": []}] * 3
            assert observe.port_holders([port])[str(port)]["program"] == observe.LISTENER
        finally:
            run_module("judge_precheck_listen", {"pid": done["pid"]})
        assert observe.reached([peer])["refused"] == [f"127.0.0.1:{port}"]
        short = run_module("judge_precheck_listen", {"ports": [port], "seconds": 0})
        wait_for(lambda: bool(observe.reached([peer])["refused"]), what="the end of what listens")
        run_module("judge_precheck_listen", {"pid": os.getpid()})  # another process: nothing happens to it
        assert short["ports"] == [port]


def test_a_precheck_leaves_nobody_listening(tmp_path: Path) -> None:
    """The role's tasks: a judicator listens before it is asked, and no longer after it."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    here = {"ansible_connection": "local", "ansible_become": False, "judge_address": "127.0.0.1"}
    tree = {"judicators": {"hosts": {"j1": here}}, "executors": {"hosts": {"e1": here}}}
    (tmp_path / "hosts.yml").write_text(json.dumps(tree))
    command = [Path(sys.executable).parent / "ansible-playbook", "-i", tmp_path / "hosts.yml", "playbooks/precheck.yml"]
    given = ["judge_source=online", f"judge_rpc_port={port}", f"ansible_python_interpreter={sys.executable}"]
    options = [word for one in given for word in ("-e", one)]
    done = subprocess.run([*command, *options, "-v"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert max(int(pid) for pid in re.findall(r'"pid": (\d+)', done.stdout)) > 0, done.stdout
    assert f"127.0.0.1:{port}" not in done.stdout, "e1 reached it"
    assert observe.reached([("127.0.0.1", port)])["refused"] == [f"127.0.0.1:{port}"]


def test_executors_of_two_releases_are_a_warning() -> None:
    cluster = Cluster()
    cluster.groups["executors"] += ["g1"]
    cluster.seen("g1")["os"]["codename"] = "bookworm"
    cluster.hostvars["g1"]["judge_precheck_plan"]["bundle_path"] = ""
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
    report = precheck.report(cluster.hostvars, cluster.groups, {"/bundle": BUNDLE}, [], "", 2.0, percent)
    assert len(report["left_out"]) == left_out
    assert report["faults"] == dead - left_out
    assert len(report["lines"]) == dead
    assert all("it is left out" in line for line in report["lines"]) == bool(left_out or not dead)


@pytest.mark.parametrize(("executors", "percent", "left_out"), [(8, 10, 1), (2, 10, 1), (1, 10, 0), (8, 0, 0)])
def test_of_several_executors_one_may_always_be_away(executors: int, percent: int, left_out: int) -> None:
    """A tenth of eight is none, and one dead machine would stop a rollback."""
    gone = {"result": {"unreached": "timed out"}, "executor": True}
    hosts = {"e1": gone, **{f"e{number}": {"result": {}, "executor": True} for number in range(2, executors + 1)}}
    assert len(precheck.tolerated(hosts, percent)) == left_out


def test_an_executor_that_is_more_is_not_left_out() -> None:
    cluster = Cluster(1)
    cluster.groups["executors"] = ["j1"]
    cluster.hostvars["j1"]["judge_precheck_observation"] = {"unreached": "timed out"}
    assert precheck.report(cluster.hostvars, cluster.groups, {}, [], "", 2.0, 100)["left_out"] == []


# --- what a host can do ------------------------------------------------------------------------------------------


def test_the_release_s_python_is_asked_not_the_one_that_asks(tmp_path: Path) -> None:
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\necho 3.99\n")
    other.chmod(0o755)
    assert observe.python_version(str(other)) == "3.99"
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


def test_a_port_that_nothing_comes_back_from_is_told_from_one_that_nobody_uses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as used, socket.create_server(("127.0.0.1", 0)) as unused:
        free = unused.getsockname()[1]
        unused.close()
        found = observe.reached([("127.0.0.1", used.getsockname()[1]), ("127.0.0.1", free)])
        assert found == {"unreachable": [], "refused": [f"127.0.0.1:{free}"]}
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
