"""Changes to a deployed cluster by `site.yml`: what is foretold, what `--limit` writes, new secrets, a new release."""

import json
import time
from pathlib import Path

import pytest
import yaml

from tests.cluster.test_releases_and_secrets import NEXT, project
from tests.support.clients import figures_line, outage
from tests.support.lab import (
    HOSTS,
    Figure,
    ProcessWatch,
    Site,
    lab_marks,
    leaks,
    make_bundle,
    shown_on_hosts,
)

pytestmark = lab_marks(2400)


@pytest.mark.parametrize("host", HOSTS)
def test_a_part_of_the_hosts_gets_the_files_of_a_full_run(deployed: Site, host: str) -> None:
    """Nothing to change means: every file is as this run would write it; and it is told of no other host's."""
    assert deployed.site("--check", "--limit", host).check().changed == set()


def test_check_mode_foretells_what_a_changed_variable_changes(deployed: Site) -> None:
    before = {host: deployed.restarts(host) for host in HOSTS}
    change = ["-e", "judge_judicator_attempts=4", "-e", "judge_executor_report_interval=0.9"]
    preview = deployed.site("--check", "--diff", *change).check()
    assert {host: deployed.restarts(host) for host in HOSTS} == before
    run = deployed.site(*change).check()
    assert preview.changed == run.changed
    assert {host for host, _ in run.changed} == {"j1", "j2", "j3", "e1", "e2"}
    for host in HOSTS:
        after = deployed.restarts(host)
        restarted = {unit for unit in after if after[unit] != before[host].get(unit)}
        kinds = {"j": {"judge-judicator.service"}, "e": {"judge-executor.service"}, "g": set()}
        assert restarted == kinds[host[0]], host
    back = deployed.site("--check").check()  # to what the inventory says
    assert deployed.site().check().changed == back.changed != set()


def test_new_secrets_and_keys_are_not_shown(deployed: Site) -> None:
    """Where an old secret is replaced, a diff would show both."""
    old = deployed.all_secrets()
    for name in ("session.key", "admin.token"):
        (deployed.secrets / name).unlink()
    with ProcessWatch(deployed.lab) as watch:
        run = deployed.site("-vvv", "--diff", "-e", "judge_log_level=debug", "-e", "judge_pki_new_keys=true").check()
    assert "+log_level: debug" in run.text
    new = deployed.all_secrets()
    replaced = {name for needle, name in new.items() if needle not in old}
    assert {"the controller's admin.token", "j1:/etc/judge/tls/etcd.key", "g1:/etc/judge/tls/https.key"} <= replaced
    secrets = old | new
    assert leaks(secrets, {"site.yml": run.text, "the process list": watch.text()}) == []
    assert shown_on_hosts(deployed.lab, secrets) == []
    deployed.site().check()  # the inventory's log level again


@pytest.mark.parametrize("playbook", ["pki", "precheck", "verify"])
def test_other_playbooks_show_no_secret(deployed: Site, playbook: str) -> None:
    with ProcessWatch(deployed.lab) as watch:
        run = deployed.play(f"playbooks/{playbook}.yml", "-vvv", "--diff").check()
    secrets = deployed.all_secrets()
    assert leaks(secrets, {f"{playbook}.yml": run.text, "the process list": watch.text()}) == []


def test_an_upgrade_of_the_whole_cluster_loses_and_doubles_nothing(
    deployed: Site, tmp_path: Path, figure: Figure
) -> None:
    """Every service of every host is restarted with the next release, one gate after the other, under submissions."""
    if not deployed.first:
        pytest.skip("a kept lab has the bundle of `make lab`, whose release must stay")
    inventory = deployed.inventory / "hosts.yml"
    tree = yaml.safe_load(inventory.read_text())
    before = {host: deployed.restarts(host) for host in HOSTS}
    deployed.wait_healthy()
    with deployed.stream(0.5) as crowd:
        crowd.flows()
        copy = project(tmp_path / "project", NEXT)
        make_bundle(Path(str(deployed.lab.record.bundle)), "-e", f"judge_bundle_project={copy}")
        tree["all"]["vars"]["judge_version"] = NEXT
        inventory.write_text(yaml.safe_dump(tree, sort_keys=False))
        began = time.monotonic()
        run = deployed.site().check()
        noticed = outage(crowd.ledger, began, time.monotonic())
        deployed.wait_healthy()
        crowd.flows()
        ledger = crowd.verify()
    for host in HOSTS:
        after = deployed.restarts(host)
        assert all(after[unit] != invocation for unit, invocation in before[host].items()), host
        release = deployed.lab.ssh(host, "readlink /opt/judge/current; /opt/judge/current/bin/judge --version")
        assert release.count(NEXT) == 2, (host, release)
    judged = deployed.judgectl("submit", "--output", "json", "--command", "true")
    assert json.loads(judged.stdout)["result"]["judge_version"] == NEXT
    figure("upgrade of all six hosts under submissions: " + figures_line({
        "site.yml": run.seconds,
        "submissions": len(ledger.ended),
        "longest time without a verdict": noticed.verdicts,
        "without an acknowledgement": noticed.acknowledged,
    }))  # fmt: skip
    assert deployed.site().check().changed == set()
