"""site.yml on bare hosts: foretold without a trace, killed at any task, hosts that are wiped and switched off.

One lab for all; the tests go on where the one before has stopped, in this order. Takes too long for `make test`.
"""

import json
import os
import random
import time
from collections.abc import Iterator

import pytest

from tests.cluster.table import ALL
from tests.cluster.verbs import Row, Table
from tests.support.lab import HOSTS, Deployment, Figure, Run, bare_hosts, bundle, changed, differences, lab_marks

BOUNDARIES = 5
SEED = int(os.environ.get("JUDGE_TEST_SEED", random.SystemRandom().randrange(10**6)))
POWER_OFF = 60.0  # seconds that a host may take to stop its services and itself

pytestmark = lab_marks(3600)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with bare_hosts(HOSTS, tmp_path_factory.mktemp("site"), software=bundle()) as deployment:
        yield deployment


def test_check_mode_on_bare_hosts_writes_nothing(site: Deployment) -> None:
    site.undisturbed()
    before = {host: site.everything(host) for host in site.hosts}
    run = site.site("--check", "--diff").check()
    assert run.changed, "a bare host is not what it should be"
    for host in site.hosts:
        assert differences(before[host], site.everything(host)) == [], host
    assert not site.secrets.exists()


def test_a_run_cut_off_at_any_task_is_finished_by_the_next(site: Deployment, figure: Figure) -> None:
    """Killed five times in a row, each time a random number of tasks further; then one run converges."""
    figure(f"JUDGE_TEST_SEED={SEED}")
    chance = random.Random(SEED)
    reached: list[str] = []
    for begin in range(2, 2 + 10 * BOUNDARIES, 10):
        number = begin + chance.randrange(10)
        run = site.site(kill_at=number)
        assert run.code != 0
        assert len(run.tasks) <= number
        reached.append(run.tasks[-1])
    figure("cut off at: " + "; ".join(reached))
    site.site().check()
    assert site.record()["formed"] is True
    assert site.site().check().changed == set()


@pytest.mark.parametrize("host", ["j2", "e1", "g1", "j1"])
def test_a_wiped_host_is_back_with_one_command(site: Deployment, host: str) -> None:
    """No first host is special, and the others keep running."""
    before = site.fingerprint(host)
    restarts = {bystander: site.restarts(bystander) for bystander in site.hosts if bystander != host}
    site.lab.wipe(host)
    site.rehearsed("site.yml", "--limit", host)
    assert site.fingerprint(host) == before
    assert {bystander: site.restarts(bystander) for bystander in restarts} == restarts
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
    assert ended[-len(order) - 1 :] == [*order, "judge-boot.service"]  # those before were restarts


# Directories of what apt, dpkg, ucf and systemd themselves keep of packages that came and went.
KEPT = ("/var/lib/apt/", "/var/lib/dpkg/", "/var/lib/ucf/", "/var/cache/", "/var/backups/")
# Files whose content is another one on each new host, and the lists of users before their last change.
OTHERS = ("/etc/ssh/ssh_host_", "/etc/machine-id", "/etc/passwd-", "/etc/shadow-", "/etc/group-", "/etc/gshadow-")


def kinds(files: dict[str, str]) -> dict[str, str]:
    """Kind, mode and owner of every file of a host that is a deployment's business."""
    return {path: " ".join(columns.split()[:3]) for path, columns in files.items() if not path.startswith(KEPT)}


def test_reset_killed_three_times_leaves_hosts_as_they_were(site: Deployment, table: Table, figure: Figure) -> None:
    """Compared file by file with the same hosts after a new installation; the last test, as no cluster is left."""
    unasked = site.play("playbooks/reset.yml")
    assert unasked.code != 0
    assert "all submissions, problems and keys on these hosts will be gone" in unasked.text
    assert not unasked.changed
    preview = site.play("playbooks/reset.yml", "--check", "--diff").check()
    confirmed = ("playbooks/reset.yml", "-e", "confirm=judge")
    chance = random.Random(SEED)
    reached, runs = [], list[Run]()
    began = time.monotonic()
    for number in sorted(chance.sample(range(2, len(preview.tasks)), 3)):
        run = site.play(*confirmed, kill_at=number)
        assert run.code != 0, f"it was not killed at its task {number}"
        reached.append(run.tasks[-1])
        runs.append(run)
    figure("reset was cut off at: " + "; ".join(reached))
    runs.append(site.play(*confirmed).check())
    assert changed(runs) == preview.changed
    table.keep(Row("reset, killed 3 times", ALL, time.monotonic() - began))
    assert site.play(*confirmed).check().changed == set()
    for host in ("j1", "e1", "g1"):
        entries, files = kinds(site.everything(host)), site.contents(host)
        site.lab.wipe(host)
        assert differences(entries, kinds(site.everything(host))) == [], host
        leftovers = [path for path in differences(files, site.contents(host)) if not path.startswith((*KEPT, *OTHERS))]
        assert not leftovers, f"{host}: {', '.join(leftovers)}"
