"""site.yml on real systemd hosts without a route out: bare to judged, cut off anywhere, wiped, a variable changed.

One lab for all; the tests go on where the one before has stopped, in this order.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Iterator

import pytest

from tests.support.capable import no_lab
from tests.support.deployment import Deployment, deployment

HOSTS = ["j1", "j2", "j3", "e1", "e2", "g1"]
BOUNDARIES = 5
POWER_OFF = 60.0  # seconds that a host may take to stop its services and itself

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(no_lab()), reason=no_lab() or "possible"),
    pytest.mark.timeout(2400),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with deployment(f"t{uuid.uuid4().hex[:8]}", HOSTS, tmp_path_factory.mktemp("site")) as found:
        yield found


def test_check_mode_on_bare_hosts_writes_nothing(site: Deployment) -> None:
    before = {host: site.everything(host) for host in site.hosts}
    run = site.site("--check", "--diff").check()
    assert run.changed, "a bare host is not what it should be"
    for host in site.hosts:
        assert site.everything(host) == before[host], host
    assert not (site.inventory / "secrets").exists()


def test_a_run_cut_off_at_any_task_is_finished_by_the_next(site: Deployment) -> None:
    """Killed five times in a row, each time a random number of tasks further; then one run converges."""
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    reached: list[str] = []
    for begin in range(2, 52, 10):
        number = begin + chance.randrange(10)
        run = site.site(kill_at=number)
        assert run.code != 0
        assert len(run.tasks) <= number
        reached.append(run.tasks[-1])
    print("cut off at:", *reached, sep="\n  ")
    site.site().check()
    assert site.record()["formed"] is True
    assert site.site().check().changed == set()


def test_check_mode_foretells_what_a_changed_variable_changes(site: Deployment) -> None:
    before = {host: site.restarts(host) for host in site.hosts}
    change = ["-e", "judicator_attempts=4", "-e", "executor_report_interval=0.9"]
    foretold = site.site("--check", "--diff", *change).check()
    assert {host: site.restarts(host) for host in site.hosts} == before
    done = site.site(*change).check()
    assert foretold.changed == done.changed
    assert {host for host, _ in done.changed} == {"j1", "j2", "j3", "e1", "e2"}
    for host in site.hosts:
        after = site.restarts(host)
        restarted = {unit for unit in after if after[unit] != before[host].get(unit)}
        kinds = {"j": {"judge-judicator.service"}, "e": {"judge-executor.service"}, "g": set()}
        assert restarted == kinds[host[0]], host
    assert site.site("--check").check().changed  # back to what the inventory says
    site.site().check()


def test_no_run_shows_a_secret(site: Deployment) -> None:
    run = site.site("--check", "--diff", "-vvv", "-e", "pki_renew_all=true").check()
    for name in ("mongodb.keyfile", "mongodb.password", "session.key", "admin.token", "pki/ca.passphrase"):
        assert site.secret(name) not in run.text, name
    assert "PRIVATE KEY" not in run.text


@pytest.mark.parametrize("host", HOSTS)
def test_a_part_of_the_hosts_gets_the_files_of_a_full_run(site: Deployment, host: str) -> None:
    assert site.site("--check", "--limit", host).check().changed == set()


@pytest.mark.parametrize("host", ["j2", "e1", "g1", "j1"])
def test_a_wiped_host_is_back_with_one_command(site: Deployment, host: str) -> None:
    """No first host is special, and the others keep running."""
    before = site.written(host)
    others = {other: site.restarts(other) for other in site.hosts if other != host}
    site.lab.wipe(host)
    site.site("--limit", host).check()
    assert site.written(host) == before
    assert {other: site.restarts(other) for other in others} == others
    assert site.site().check().changed == set()


@pytest.mark.parametrize("host", ["j2", "e1", "g1"])
def test_a_host_stops_in_good_order_and_comes_back_by_itself(site: Deployment, host: str) -> None:
    begin = time.monotonic()
    site.lab.stop(host)
    took = time.monotonic() - begin
    print(f"{host} was off after {took:.1f} s")
    site.lab.start(host)
    assert took < POWER_OFF
    site.play("playbooks/verify.yml").check()
    journal = site.lab.ssh(host, "journalctl --boot=-1 --unit='judge-*' --output=json --no-pager")
    ended = [
        entry["UNIT"]
        for line in journal.splitlines()
        if (entry := json.loads(line)).get("JOB_RESULT") == "done" and entry.get("JOB_TYPE") == "stop"
    ]
    kinds = {"j": ["judicator", "mongodb", "etcd"], "e": ["executor", "etcd-proxy"], "g": ["gateway", "etcd-proxy"]}
    order = [f"judge-{service}.service" for service in kinds[host[0]]]
    assert ended[-len(order) - 1 :] == [*order, "judge-boot.service"]  # what was before were restarts
