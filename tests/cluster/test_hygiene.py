"""A deployed host shows no secret, in output, process lists, journals or files; its units are clean for systemd."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.cluster import Lab
from tests.support.capable import no_lab
from tests.support.labs import bundle, fresh_lab, run_playbook
from tests.support.leaks import Needles, ProcessWatch, copies_on, journal, leaks, of_controller, of_hosts

pytestmark = [
    pytest.mark.root, pytest.mark.timeout(2400),
    pytest.mark.skipif(bool(no_lab()), reason=no_lab() or "possible"),
]  # fmt: skip
HOSTS = ("j1", "e1", "g1")
LONG = 1800  # seconds for a whole deployment on a busy machine


@dataclass
class Deployed:
    """A lab that site.yml has made a cluster of, and what could be seen meanwhile."""

    lab: Lab
    secrets: Path
    output: str
    watch: ProcessWatch


def deploy(lab: Lab, playbook: str, *arguments: str) -> tuple[str, ProcessWatch]:
    """What a playbook says with everything on, and what the hosts' process lists showed."""
    with ProcessWatch(lab) as watch:
        done = run_playbook(lab, playbook, "-vvv", "--diff", *arguments, timeout=LONG)
    assert done.returncode == 0, done.stdout[-20000:]
    return done.stdout, watch


def all_secrets(place: Deployed) -> Needles:
    return of_controller(place.secrets) | of_hosts(place.lab)


def everywhere(place: Deployed, secrets: Needles) -> list[str]:
    """Leaks on the hosts themselves: in their journals, and in files."""
    found = leaks(secrets, {f"the journal of {host}": journal(place.lab, host) for host in HOSTS})
    return found + [text for host in HOSTS for text in copies_on(place.lab, host, secrets)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    directory = tmp_path_factory.mktemp("secrets")
    with fresh_lab(HOSTS, directory, bundle()) as lab:
        output, watch = deploy(lab, "site.yml")
        yield Deployed(lab, directory / "secrets", output, watch)


def test_every_kind_of_secret_is_looked_for(place: Deployed) -> None:
    names = set(all_secrets(place).values())
    wanted = {"the controller's pki/ca.key", "the controller's pki/ca.passphrase", "the controller's admin.token"}
    wanted |= {f"j1:/etc/judge/tls/{name}.key" for name in ("etcd", "mongodb", "judicator")}
    wanted |= {"e1:/etc/judge/tls/executor.key", "g1:/etc/judge/tls/https.key", "g1:/etc/judge/tls/gateway.key"}
    wanted |= {"g1:/etc/judge/session.key", "j1:/etc/judge/mongodb.keyfile", "j1:/etc/judge/mongodb.password"}
    assert wanted - names <= {"j1:/etc/judge/mongodb.password"}, "judicator.password is the same secret"


def test_the_watch_saw_the_processes_of_all_hosts(place: Deployed) -> None:
    seen = place.watch.text()
    for command in ("ansible-playbook site.yml -vvv --diff", "bin/mongod", "bin/judge executor", "nginx"):
        assert command in seen
    assert place.watch.looks > 100


def test_the_first_deployment_shows_no_secret(place: Deployed) -> None:
    """The line `+log_level` proves that differences are printed."""
    assert "+log_level: info" in place.output
    secrets = all_secrets(place)
    assert leaks(secrets, {"site.yml": place.output, "the process list": place.watch.text()}) == []
    assert everywhere(place, secrets) == []


def test_new_secrets_and_keys_are_not_shown_either(place: Deployed) -> None:
    """Where an old secret is replaced, a diff would show both."""
    old = all_secrets(place)
    for name in ("session.key", "admin.token"):
        (place.secrets / name).unlink()
    output, watch = deploy(place.lab, "site.yml", "-e", "judge_log_level=debug", "-e", "pki_new_keys=true")
    assert "+log_level: debug" in output
    new = all_secrets(place)
    replaced = {name for needle, name in new.items() if needle not in old}
    assert {"the controller's admin.token", "j1:/etc/judge/tls/etcd.key", "g1:/etc/judge/tls/https.key"} <= replaced
    secrets = old | new
    assert leaks(secrets, {"site.yml": output, "the process list": watch.text()}) == []
    assert everywhere(place, secrets) == []


@pytest.mark.parametrize("playbook", ["pki", "precheck", "verify"])
def test_other_playbooks_show_no_secret(place: Deployed, playbook: str) -> None:
    output, watch = deploy(place.lab, f"playbooks/{playbook}.yml")
    secrets = all_secrets(place)
    assert leaks(secrets, {f"{playbook}.yml": output, "the process list": watch.text()}) == []


def test_systemd_finds_no_fault_with_the_units_where_they_run(place: Deployed) -> None:
    """With the host's own systemd, all programs and users there; docs/units.md says why the executor is exposed."""
    for host in HOSTS:
        units = place.lab.ssh(host, "cd /etc/systemd/system && ls judge-*.service judge.slice").split()
        assert "judge-boot.service" in units
        assert place.lab.ssh(host, f"systemd-analyze verify --man=no {' '.join(units)} 2>&1").strip() == ""
        for unit in units:
            if unit.endswith(".service") and unit != "judge-executor.service":
                place.lab.ssh(host, f"systemd-analyze security --no-pager --threshold=20 {unit}")
