"""What is done to hosts of a deployed cluster: each row of tests/cluster/table.py, whole and killed, under submissions.

Rows that take hosts out bring them back, so each test ends with the cluster of the inventory.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.cluster.table import VERBS, Verb
from tests.cluster.verbs import Verbs, playing
from tests.support.lab import JUDICATORS, ROOT, Figure, Run, Site, changed, lab_marks
from tests.support.processes.thief import DOORS, OPEN

pytestmark = lab_marks(2400)

ROWS = pytest.mark.parametrize("verb", VERBS, ids=[verb.label for verb in VERBS])
# The certificate of each kind of host that others let in.
CERTIFICATES = {"j": "judicator", "e": "executor", "g": "gateway"}

# Prints for each of a host's own certificates whether it opens a door between members of etcd, from where it belongs.
PEERS = f"""python3 - {{address}} <<'END'
import glob, http.client, ssl, sys
for key in sorted(glob.glob("/etc/judge/tls/*.key")):
    name = key.rpartition("/")[2].removesuffix(".key")
    context = ssl.create_default_context(cafile="/etc/judge/tls/ca.crt")
    context.load_cert_chain(key.removesuffix(".key") + ".crt", key)
    door = http.client.HTTPSConnection(sys.argv[1], 2380, context=context, timeout=10)
    try:
        door.request("GET", "/members")
        print(name, "{OPEN}" if door.getresponse().status == 200 else "closed")
    except OSError:
        print(name, "closed")
END"""


class Stolen:
    """What a thief would have: copies of a host's certificates and keys, each tried at every other judicator."""

    def __init__(self, site: Site, host: str, directory: Path, judicators: Sequence[str] = JUDICATORS) -> None:
        self.site, self.host, self.directory, self.name = site, host, directory, CERTIFICATES[host[0]]
        self.addresses = [site.lab.record.address(name) for name in judicators if name != host]
        directory.mkdir()
        for path in site.lab.ssh(host, "ls /etc/judge/tls/*.crt /etc/judge/tls/*.key").split():
            (directory / Path(path).name).write_text(site.lab.ssh(host, f"cat {path}"))

    def answers(self) -> dict[str, dict[str, set[str]]]:
        program = (sys.executable, "-m", "tests.support.processes.thief", str(self.directory), *self.addresses)
        completed = subprocess.run(
            self.site.command(*program), cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
        )
        sets: dict[str, dict[str, dict[str, str]]] = json.loads(completed.stdout)
        return {
            name: {door: {doors[door] for doors in hosts.values()} for door in DOORS} for name, hosts in sets.items()
        }

    def open_what_they_should(self) -> None:
        """As long as the host belongs to the cluster; mongod wants a password beside them."""
        replies = self.answers()
        assert replies[self.name]["rpc"] == replies[self.name]["etcd"] == {OPEN}
        assert replies[self.name]["mongod"] == {"13 Unauthorized"}
        # Members believe a certificate only where its addresses are: at the host itself, not where its keys went.
        assert [name for name, doors in replies.items() if OPEN in doors["peer"]] == []
        at_home = self.site.lab.ssh(self.host, PEERS.format(address=self.addresses[0]))
        members = ("judicator", "etcd")  # the proxies of other hosts have a pair called etcd as well
        assert set(at_home.splitlines()) == {
            f"{name} {OPEN if (self.name, name) == members else 'closed'}" for name in replies
        }

    def open_nothing(self) -> None:
        replies = self.answers()
        own = replies[self.name]
        assert all(text.startswith("403 ") and "was removed from this cluster" in text for text in own["rpc"]), replies
        assert all("was removed from this cluster" in text for text in own["etcd"]), replies
        assert own["mongod"] == {"13 Unauthorized"}
        assert [(name, door) for name, doors in replies.items() for door, text in doors.items() if OPEN in text] == []


@contextmanager
def robbed(site: Site, verb: Verb, directory: Path) -> Iterator[list[Stolen]]:
    """Around what takes hosts out: their keys open something before and nothing after it, and nothing is left there."""
    stolen = [Stolen(site, host, directory / host) for host in verb.hosts if verb.removed]
    for copy in stolen:
        copy.open_what_they_should()
    yield stolen
    for host, copy in zip(verb.hosts, stolen, strict=False):
        copy.open_nothing()
        paths = "/etc/judge /var/lib/judge /opt/judge /run/judge"
        if not verb.dead:
            # -xdev: what a host has mounted there itself is its own.
            assert site.lab.ssh(host, f"find {paths} -xdev -type f 2>/dev/null; getent passwd judge; true") == "", host
        output = site.lab.ssh(
            next(judicator for judicator in JUDICATORS if judicator != host),
            "etcdctl --endpoints unix:///var/lib/judge/etcd/client.sock:1 member list",
        )
        members = {line.split(", ")[2] for line in output.splitlines()}
        assert members == set(JUDICATORS) - {host}


def whole_run(site: Site, verbs: Verbs, verb: Verb) -> None:
    """Check mode foretells it, submissions do not notice it, and a second run has nothing to do."""
    preview = site.play(*verb.play, "--check", "--diff").check() if verb.previewed else None
    runs: list[Run] = []

    def act() -> None:
        if verb.before:
            verb.before(site)
        runs.append(site.play(*verb.play).check())

    verbs.run(verb, act)
    if preview:
        assert runs[0].changed == preview.changed
    if verb.again:
        second = site.play(*verb.play).check()
        assert second.changed == set(), second.text[-6000:]


@ROWS
def test_a_verb_is_foretold_and_not_noticed(deployed: Site, verbs: Verbs, verb: Verb, tmp_path: Path) -> None:
    restarts = {host: deployed.restarts(host) for host in deployed.hosts if host not in verb.hosts}
    assert verbs.control  # now, with all hosts there: it would bring a removed one back
    with robbed(deployed, verb, tmp_path) as stolen:
        whole_run(deployed, verbs, verb)
    if verb.back:
        whole_run(deployed, verbs, verb.back)
    deployed.wait_healthy()
    for copy in stolen:
        copy.open_nothing()  # the name belongs to the cluster again, and the keys of before to nobody
    assert deployed.site("--check").check().changed == set()
    if not verb.before:  # a host that has died has its place taken by another, of which judicators are told
        assert {host: deployed.restarts(host) for host in restarts} == restarts


@ROWS
def test_a_verb_that_is_killed_three_times_ends_as_if_it_had_not_been(
    deployed: Site, verbs: Verbs, verb: Verb, tmp_path: Path, figure: Figure
) -> None:
    files = {host: deployed.fingerprint(host) for host in deployed.hosts}

    def cut_off(verb: Verb) -> None:
        def act() -> None:
            if verb.before:
                verb.before(deployed)
            preview = deployed.play(*verb.play, "--check").check()
            runs: list[Run] = []
            reached = verbs.cut_off(verb.label, len(preview.tasks), playing(deployed, *verb.play, runs=runs))
            assert changed(runs) == preview.changed
            figure(f"{verb.name} {', '.join(verb.hosts)} was cut off at: {'; '.join(reached)}")

        verbs.run(verb, act, ", killed 3 times")

    with robbed(deployed, verb, tmp_path) as stolen:
        cut_off(verb)
    if verb.back:
        cut_off(verb.back)
    deployed.wait_healthy()
    for copy in stolen:
        copy.open_nothing()
    assert {host: deployed.fingerprint(host) for host in deployed.hosts} == files
    assert deployed.site("--check").check().changed == set()


def test_a_loss_of_the_majority_is_refused_and_changes_nothing(deployed: Site) -> None:
    stopped = deployed.play("playbooks/stop.yml", "--limit", "j1,j3")
    assert stopped.code != 0
    assert "of etcd 1 of 3 voters would run on, and 2 decide" in stopped.text
    assert not stopped.changed
    deployed.lab.freeze("j2")
    try:
        removed = deployed.play("playbooks/remove.yml", "-e", "judge_remove=j3", "-e", "confirm=j3")
    finally:
        deployed.lab.thaw("j2")
    assert removed.code != 0
    assert "of etcd only 1 of 2 voters would be left healthy (j2 is down)" in removed.text
    assert not removed.changed
    deployed.wait_healthy()


@pytest.mark.parametrize("arguments", [("remove", "judge_remove=e1"), ("replace", "judge_replace=e1")])
def test_a_plan_is_shown_and_nothing_done_until_it_is_confirmed(deployed: Site, arguments: tuple[str, str]) -> None:
    playbook, variable = arguments
    refusal = deployed.play(f"playbooks/{playbook}.yml", "-e", variable)
    assert refusal.code != 0
    assert ("-e confirm=e1" if playbook == "remove" else "the old machine") in refusal.text
    assert not refusal.changed
    wrong = deployed.play(f"playbooks/{playbook}.yml", "-e", variable, "-e", "confirm=e2")
    assert wrong.code != 0
    assert not wrong.changed


def test_maintain_runs_the_command_while_the_services_are_stopped(deployed: Site) -> None:
    (row,) = (verb for verb in VERBS if verb.name == "maintain")
    deployed.play(*row.play).check()
    assert deployed.lab.ssh("e2", "cat /run/maintained").split() == ["inactive"]


def test_a_member_that_left_the_inventory_only_is_named(deployed: Site) -> None:
    path = deployed.inventory / "hosts.yml"
    content = path.read_text()
    tree = yaml.safe_load(content)
    del tree["all"]["children"]["executors"]["hosts"]["e2"]
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    try:
        run = deployed.site("--check").check()
    finally:
        path.write_text(content)
    assert "e2 is an executor, and not in the inventory" in run.text


def test_a_dead_executor_keeps_nobody_from_anything(deployed: Site) -> None:
    """A renewal, a rollback (to the release that runs), and the stop of the whole cluster."""
    release = deployed.lab.ssh("j1", "basename $(readlink /opt/judge/current)").strip().rpartition("-")[0]
    survivors = [host for host in deployed.hosts if host != "e2"]
    deployed.lab.kill("e2")
    try:
        renewed = deployed.play("playbooks/renew.yml", "-e", "judge_pki_renew_all=true").check()
        assert {host for host, task in renewed.changed if task.endswith("are right and last")} == set(survivors)
        assert "left out, as they cannot be reached: e2; their certificates are renewed by the next run" in renewed.text
        share = ("-e", "judge_precheck_missing_executors=50")
        back = deployed.play("playbooks/rollback.yml", "-e", f"judge_rollback_version={release}", *share).check()
        assert "e2 cannot be reached and keeps the release that it has" in back.text and not back.changed
        assert deployed.play("playbooks/maintain.yml", "--limit", "e1").check().changed
        refused = deployed.play("playbooks/stop.yml")
        assert refused.code != 0 and not refused.changed
        stopped = deployed.play("playbooks/stop.yml", "-e", "confirm=judge").check()
        assert "left as they are, as they cannot be reached: e2" in stopped.text
        for host in survivors:
            assert deployed.lab.ssh(host, "systemctl is-active judge-boot.service || true").strip() == "inactive", host
    finally:
        deployed.lab.start("e2")
    deployed.play("playbooks/start.yml").check()
    deployed.wait_healthy()
    deployed.play("playbooks/renew.yml", "-e", "judge_pki_renew_all=true", "--limit", "e2").check()
    assert deployed.site().check().changed == set()


def test_site_is_refused_before_it_writes_where_a_majority_would_be_lost(deployed: Site) -> None:
    """And only where a member would be restarted: judicators are others' too."""
    limit = ("--limit", "all:!j2")
    files = {host: deployed.fingerprint(host) for host in deployed.hosts}
    deployed.lab.freeze("j2")
    try:
        assert deployed.site(*limit).check().changed == set()
        refused = deployed.site(*limit, "-e", "judge_mongodb_cache_gib=0.3")
        executors = deployed.site("--limit", "e1,e2", "-e", "judge_executor_report_interval=0.9").check()
    finally:
        deployed.lab.thaw("j2")
    assert refused.code != 0
    assert "judge-mongodb.service could not be restarted, so nothing was changed" in refused.text
    assert {host: deployed.fingerprint(host) for host in ("j1", "j3", "g1")} == {
        h: files[h] for h in ("j1", "j3", "g1")
    }
    assert {host for host, _ in executors.changed} == {"e1", "e2"}
    deployed.wait_healthy()
    deployed.site().check()
    assert {host: deployed.fingerprint(host) for host in deployed.hosts} == files


def test_keys_of_another_kind_are_named(deployed: Site) -> None:
    deployed.lab.ssh("e1", "touch /etc/judge/session.key")
    try:
        run = deployed.site("--check", "--limit", "e1,e2").check()
    finally:
        deployed.lab.ssh("e1", "rm /etc/judge/session.key")
    assert "e1 has session.key of a kind that it is not in the inventory" in run.text
    assert "e2 has" not in run.text
