"""A really deployed cluster: six bare hosts, the bundle, `site.yml`, and then what happens to machines.

The tests share one lab and go from the harmless to the violent; each leaves a whole cluster behind. What matters is
that no submission is lost, doubled or judged wrong. Durations are printed, and bounded loosely: CI's machine may be
busy.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.capable import no_lab
from tests.support.deployed import BIN, HOSTS, ROOT, Site, site
from tests.support.ledger import outage
from tests.support.servers import wait_for
from tests.support.stream import told

Figure = Callable[[str], None]

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(bool(no_lab()), reason=no_lab() or "possible"),
]

SEED = int(os.environ.get("JUDGE_TEST_SEED", random.SystemRandom().randrange(10**6)))
JUDICATORS = [name for name in HOSTS if name.startswith("j")]
EXECUTORS = [name for name in HOSTS if name.startswith("e")]
# Verdicts flow again in 10 s when the machine is idle (docs/deploy.md); CI's is not.
OUTAGE = 30.0


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site"), SEED) as made:
        yield made


@pytest.fixture
def chance(figure: Figure) -> random.Random:
    """What decides who is hit; JUDGE_TEST_SEED repeats a run."""
    figure(f"JUDGE_TEST_SEED={SEED}")
    return random.Random(SEED)


def test_bare_hosts_become_a_cluster_that_judges_the_examples(deployed: Site, tmp_path: Path, figure: Figure) -> None:
    if deployed.deployed is not None:
        figure(f"site.yml on bare hosts: {deployed.deployed.seconds:.0f} s")
        assert all(deployed.deployed.changed[host] > 0 for host in HOSTS)
    for host in HOSTS:
        assert deployed.lab.ssh(host, "ip route show default") == "", "no route out"
    deployed.whole()
    # The bundle has no Java.
    examples = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", examples, ignore=shutil.ignore_patterns("*.java"))
    context = deployed.inventory / "secrets" / "client.yml"
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "lab", "run", "--name", deployed.lab.record.name, "--",
         str(BIN / "judgectl"), "--context", str(context), "examples", str(examples)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all as expected" in done.stdout
    figure(f"examples judged: {time.monotonic() - began:.1f} s")


def test_a_second_run_changes_nothing(deployed: Site, figure: Figure) -> None:
    again = deployed.playbook("site.yml")
    figure(f"second site.yml: {again.seconds:.0f} s")
    changed = {host: count for host, count in again.changed.items() if count}
    assert not changed, again.output
    assert again.changed.keys() == set(HOSTS)


@pytest.mark.parametrize("number", range(len(JUDICATORS)))
def test_power_off_of_any_judicator_loses_and_doubles_nothing(deployed: Site, number: int, figure: Figure) -> None:
    victim = random.Random(SEED).sample(JUDICATORS, len(JUDICATORS))[number]
    before = deployed.whole()
    address = deployed.lab.record.address(victim)
    roles = [
        *(["judge leader"] if before.leader == victim else []),
        *(f"etcd {one.role}" for one in before.etcd if one.name == victim),
        *(f"mongodb {one.role}" for one in before.mongodb if one.address.split(":")[0] == address),
    ]
    with deployed.stream(0.5) as crowd:
        crowd.flows()
        event = time.monotonic()
        deployed.lab.kill(victim)
        crowd.flows(5)
        wait_for(lambda: crowd.judged() and deployed.status().leader not in {None, victim}, 180, "a new leader")
        noticed = outage(crowd.ledger, event, time.monotonic())
        began = time.monotonic()
        deployed.lab.start(victim)
        deployed.whole()
        back = time.monotonic() - began
        crowd.flows()
        ledger = crowd.verify()
    figure(
        f"power-off of {victim} ({', '.join(roles)}): "
        + told({
            "first new verdict after": noticed.flowing,
            "longest time without a verdict": noticed.verdicts,
            "without an acknowledgement": noticed.acknowledged,
            "powered on to whole cluster": back,
            "submissions": len(ledger.ended),
        })
    )  # fmt: skip
    assert noticed.flowing is not None
    assert max(noticed.flowing, noticed.verdicts) <= OUTAGE


@pytest.mark.parametrize("kind", ["judicator", "executor"])
def test_a_wiped_host_comes_back_while_submissions_flow(
    deployed: Site, chance: random.Random, kind: str, figure: Figure
) -> None:
    victim = chance.choice(JUDICATORS if kind == "judicator" else EXECUTORS)
    deployed.whole()
    inventory = (deployed.inventory / "hosts.yml").read_bytes()
    with deployed.stream(1.0) as crowd:
        crowd.flows()
        deployed.lab.wipe(victim)
        assert deployed.lab.ssh(victim, "ls /etc/judge /var/lib/judge 2>/dev/null || echo bare") == "bare\n"
        crowd.flows()
        play = deployed.playbook("site.yml", "--limit", victim)
        deployed.whole()
        crowd.flows()
        ledger = crowd.verify()
    figure(f"{victim} wiped and back: site.yml --limit {victim} {play.seconds:.0f} s, {len(ledger.ended)} submissions")
    assert play.changed[victim] > 0
    assert (deployed.inventory / "hosts.yml").read_bytes() == inventory
    if kind == "executor":
        deployed.whole()
        with deployed.stream(0.2) as crowd:
            judged = wait_for(
                lambda: victim in {final.judged_by for final, _ in list(crowd.ledger.seen.values())},
                300,
                "its verdicts",
            )
            assert judged
            crowd.verify()
