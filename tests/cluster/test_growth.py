"""A cluster that gets more hosts, and hosts that move to other machines, while programs are handed in.

The tests share one lab; each leaves the cluster of the inventory behind.
"""

import functools

from tests.cluster.verbs import Verbs
from tests.support.lab import JUDICATORS, Run, Site, lab_marks

pytestmark = lab_marks(2400)


def join(site: Site, *hosts: str) -> Run:
    """With nothing but the inventory and `--limit`."""
    return site.play("site.yml", "--limit", ",".join(hosts)).check()


def leave(site: Site, host: str) -> Run:
    return site.play("playbooks/remove.yml", "-e", f"judge_remove={host}", "-e", f"confirm={host}").check()


def test_three_judicators_become_five_and_three_again(deployed: Site, verbs: Verbs) -> None:
    """At once; no other host is restarted."""
    before = {host: deployed.restarts(host) for host in deployed.hosts}
    joiners = ("j4", "j5")
    five = {name: name for name in (*JUDICATORS, *joiners)}
    with deployed.machines(*joiners), deployed.listed(judicators=five):
        verbs.measure("add (3 judicators to 5)", joiners, functools.partial(join, deployed, *joiners), planned=True)
        status = deployed.wait_healthy(judicators=five)
        assert len([member for member in status.mongodb if member.role in {"primary", "secondary"}]) == len(five)
        assert join(deployed, *joiners).changed == set()
        for host in joiners:
            verbs.measure("remove (of 5)", (host,), functools.partial(leave, deployed, host), planned=True)
    deployed.wait_healthy()
    assert {host: deployed.restarts(host) for host in deployed.hosts} == before
    assert deployed.site("--check").check().changed == set()


def test_a_second_gateway_joins_and_answers_while_the_first_is_away(deployed: Site, verbs: Verbs) -> None:
    before = {host: deployed.restarts(host) for host in deployed.hosts}
    with deployed.machines("g2"), deployed.listed(gateways={"g1": "g1", "g2": "g2"}):
        verbs.measure("add", ("g2",), lambda: join(deployed, "g2"), planned=True)
        assert join(deployed, "g2").changed == set()
        assert {host: deployed.restarts(host) for host in deployed.hosts} == before
        deployed.further_gateways = (f"https://{deployed.lab.record.address('g2')}",)
        try:
            row = verbs.measure(
                "reboot (of two gateways)", ("g1",),
                lambda: deployed.play("playbooks/reboot.yml", "--limit", "g1").check(), planned=True,
            )  # fmt: skip
            verbs.measure(
                "reboot (with two gateways)", (*deployed.hosts, "g2"),
                lambda: deployed.play("playbooks/reboot.yml").check(), planned=True,
            )  # fmt: skip
        finally:
            deployed.further_gateways = ()
        assert row.acknowledged is not None and row.acknowledged < row.seconds
        verbs.measure("remove (of two gateways)", ("g2",), lambda: leave(deployed, "g2"), planned=True)
    deployed.wait_healthy()
    assert deployed.site("--check").check().changed == set()


def test_other_machines_take_a_judicator_s_place(deployed: Site, verbs: Verbs) -> None:
    """Under the same name at another address, then under another name, and back."""

    def replace(dies: str, name: str, machine: str, host: str, reason: str) -> None:
        """The machine `dies`, whose host had this name; another machine is this host from now on."""
        judicators = {"j1": "j1", "j3": "j3", host: machine}

        def act() -> None:
            deployed.lab.kill(dies)
            if dies == machine:
                deployed.lab.wipe(machine)
            run = ("playbooks/replace.yml", "-e", f"judge_replace={name}")
            refusal = deployed.play(*run)
            assert refusal.code != 0 and not refusal.changed
            deployed.play(*run, "-e", f"confirm={name}").check()

        with deployed.listed(judicators=judicators):
            verbs.measure(f"replace ({reason})", (name,), act)
            status = deployed.wait_healthy(judicators=judicators)
            assert deployed.site("--check").check().changed == set()
        addresses = {member.address.partition(":")[0] for member in status.mongodb}
        assert addresses == {deployed.lab.record.address(machine) for machine in judicators.values()}

    with deployed.machines("j4"):
        replace("j2", "j2", "j4", "j2", "another address")
        deployed.lab.wipe("j2")
        replace("j4", "j2", "j2", "j4", "another name")
        replace("j2", "j4", "j2", "j2", "the first name")
    deployed.wait_healthy()
    assert deployed.site("--check").check().changed == set()
