"""Six bare hosts, the bundle and `site.yml`: a cluster that judges, shows no secret, and is left alone by a second run.

Durations are printed and not bounded: CI's machine may be busy.
"""

import json
import re

import pytest

from tests.support.lab import HOSTS, ROOT, Figure, Site, lab_marks, leaks, shown_on_hosts

pytestmark = lab_marks(2400)
HELLO = ROOT / "examples/problems/hello/submissions"


def test_bare_hosts_become_a_cluster_that_judges(deployed: Site, figure: Figure) -> None:
    """The first commands of docs/deploy.md, at once: nothing was imported, and the bundle has no Java."""
    if deployed.first:
        figure(f"site.yml on bare hosts, with -vvv --diff: {deployed.first.seconds:.0f} s")
        assert all(deployed.first.changed_on(host) for host in HOSTS)
        assert deployed.preview and deployed.preview.changed == deployed.first.changed
    for host in HOSTS:
        assert deployed.lab.ssh(host, "ip route show default") == "", "no route out"
    handed = deployed.judgectl("submit", "--each", str(HELLO / "accepted/hello.c"), str(HELLO / "accepted/hello.py"))
    assert (handed.returncode, re.findall(r"^[A-Z]+", handed.stdout, re.MULTILINE)) == (0, ["AC", "AC"]), handed
    wrong = deployed.judgectl("submit", "--output", "json", str(HELLO / "wrong_answer/lower_case.py"))
    assert (wrong.returncode, json.loads(wrong.stdout)["verdict"]) == (10, "WA"), wrong
    deployed.wait_healthy()
    judged = deployed.judgectl("examples", "--present", "examples")
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert "all as expected" in judged.stdout


def test_a_second_run_changes_nothing(deployed: Site, figure: Figure) -> None:
    again = deployed.site().check()
    figure(f"second site.yml: {again.seconds:.0f} s")
    assert again.changed == set(), again.text
    assert again.hosts >= set(HOSTS)


# --- secrets and units --------------------------------------------------------------------------------------------


def test_every_kind_of_secret_is_looked_for(deployed: Site) -> None:
    names = set(deployed.all_secrets().values())
    expected = {"the controller's pki/ca.key", "the controller's pki/ca.passphrase", "the controller's admin.token"}
    expected |= {f"j1:/etc/judge/tls/{name}.key" for name in ("etcd", "mongodb", "judicator")}
    expected |= {"e1:/etc/judge/tls/executor.key", "g1:/etc/judge/tls/https.key", "g1:/etc/judge/tls/gateway.key"}
    expected |= {"g1:/etc/judge/session.key"}
    assert expected <= names
    for name in ("mongodb.keyfile", "mongodb.password"):
        assert any(label.endswith((name, "judicator.password")) for label in names), "one secret in several files"


def test_the_first_deployment_shows_no_secret(deployed: Site) -> None:
    """With everything that Ansible can say; the line `+log_level` proves that differences are printed."""
    secrets = deployed.all_secrets()
    assert shown_on_hosts(deployed.lab, secrets) == []
    if not deployed.first:
        pytest.skip("the kept lab was deployed before")
    assert "+log_level: info" in deployed.first.text
    for command in ("site.yml -vvv --diff", "bin/mongod", "bin/judge executor", "nginx"):
        assert command in deployed.process_text
    assert deployed.looks > 100
    assert leaks(secrets, {"site.yml": deployed.first.text, "the process list": deployed.process_text}) == []


def test_systemd_finds_no_fault_with_the_units_where_they_run(deployed: Site) -> None:
    """With the host's own systemd, all programs and users there; docs/units.md says why the executor is exposed."""
    for host in ("j1", "e1", "g1"):
        units = deployed.lab.ssh(host, "cd /etc/systemd/system && ls judge-*.service judge.slice").split()
        assert "judge-boot.service" in units
        assert deployed.lab.ssh(host, f"systemd-analyze verify --man=no {' '.join(units)} 2>&1").strip() == ""
        for unit in units:
            if unit.endswith(".service") and unit != "judge-executor.service":
                deployed.lab.ssh(host, f"systemd-analyze security --no-pager --threshold=20 {unit}")
