"""Machines of a deployed cluster die while programs are handed in: no submission is lost, doubled or misjudged.

The tests share one lab; each leaves a whole cluster behind. Durations are printed, and bounded loosely: CI's machine
may be busy.
"""

import random
import time

import pytest

from tests.cluster.conftest import SEED
from tests.support.clients import FinalTask, figures_line, outage
from tests.support.lab import EXECUTORS, JUDICATORS, Figure, Site, lab_marks
from tests.support.servers import wait_for

pytestmark = lab_marks(2400)

# Verdicts flow again in 10 s when the machine is idle (docs/deploy.md); CI's is not.
OUTAGE = 120.0


@pytest.mark.parametrize("number", range(len(JUDICATORS)))
def test_power_off_of_any_judicator_loses_and_doubles_nothing(deployed: Site, number: int, figure: Figure) -> None:
    victim = random.Random(SEED).sample(JUDICATORS, len(JUDICATORS))[number]
    before = deployed.wait_healthy()
    address = deployed.lab.record.address(victim)
    roles = [
        *(["judge leader"] if before.leader == victim else []),
        *(f"etcd {member.role}" for member in before.etcd if member.name == victim),
        *(f"mongodb {member.role}" for member in before.mongodb if member.address.split(":")[0] == address),
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
        deployed.wait_healthy()
        back = time.monotonic() - began
        crowd.flows()
        ledger = crowd.verify()
    figure(
        f"power-off of {victim} ({', '.join(roles)}): "
        + figures_line({
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
    """With one command and the inventory as it is; the other hosts' services run on."""
    victim = chance.choice(JUDICATORS if kind == "judicator" else EXECUTORS)
    deployed.wait_healthy()
    inventory = (deployed.inventory / "hosts.yml").read_bytes()
    files = deployed.fingerprint(victim)
    restarts = {host: deployed.restarts(host) for host in deployed.hosts if host != victim}
    with deployed.stream(1.0) as crowd:
        crowd.flows()
        deployed.lab.wipe(victim)
        assert deployed.lab.ssh(victim, "ls /etc/judge /var/lib/judge 2>/dev/null || echo bare") == "bare\n"
        crowd.flows()
        run = deployed.site("--limit", victim).check()
        deployed.wait_healthy()
        crowd.flows()
        if kind == "executor":
            wait_for(lambda: victim in _judges(crowd.ledger.seen), 300, "a verdict of its own")
        ledger = crowd.verify()
    figure(f"{victim} wiped and back: site.yml --limit {victim} {run.seconds:.0f} s, {len(ledger.ended)} submissions")
    assert run.changed_on(victim)
    assert {host for host, _ in run.changed} == {victim}
    assert deployed.fingerprint(victim) == files
    assert {host: deployed.restarts(host) for host in restarts} == restarts
    assert (deployed.inventory / "hosts.yml").read_bytes() == inventory


def _judges(finals: dict[str, tuple[FinalTask, float]]) -> set[str | None]:
    return {final.judged_by for final, _ in list(finals.values())}
