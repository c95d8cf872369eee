"""Data that come back: a backup under load, all hosts wiped and restored, one judicator left of three.

The tests share one lab; each leaves a whole cluster behind. Durations are printed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from judge.model import messages as m
from tests.cluster.conftest import SEED
from tests.cluster.verbs import Row, Verbs
from tests.support.capable import no_lab
from tests.support.deployed import JUDICATORS, Site
from tests.support.deployment import Run
from tests.support.servers import wait_for

Figure = Callable[[str], None]

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(no_lab()), reason=no_lab() or "possible"),
]

BACKUP, RESTORE, RECOVER = (f"playbooks/{name}.yml" for name in ("backup", "restore", "recover"))


def submissions(deployed: Site) -> dict[str, dict[str, Any]]:
    """Every submission that is over, with its verdict, its outputs and its history, as the API tells it."""

    def ask(api: Any) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        before: str | None = None
        while True:
            page = api.search(limit=100, before=before)
            for task in page.tasks:
                whole: m.Task = api.get(task.id)
                if whole.done:
                    found[task.id] = whole.model_dump(mode="json")
            before = page.next
            if before is None:
                return found

    return deployed.ask(ask)


def came_back(
    verbs: Verbs,
    verb: str,
    began: float,
    before: dict[str, dict[str, Any]],
    after: dict[str, dict[str, Any]],
    hosts: str = "all judicators",
) -> None:
    """A row for a verb after a disaster, which `began`: all that time there was neither verdict nor acknowledgement."""
    lost = [task for task in before if task not in after]
    wrong = [task for task in before if task in after and after[task] != before[task]]
    seconds = time.monotonic() - began
    verbs.keep(Row(verb, hosts, seconds, seconds, seconds, len(lost), 0, len(wrong)))
    assert (lost, wrong) == ([], [])


def name_of(deployed: Site) -> str:
    return str(deployed.record()["name"])


def judged(deployed: Site, count: int) -> None:
    with deployed.stream(0.3) as crowd:
        crowd.flows(count)
        crowd.verify()


def test_a_backup_takes_nothing_from_those_who_hand_in(deployed: Site, verbs: Verbs) -> None:
    deployed.whole()
    assert deployed.play(BACKUP, "--check", "--diff").check().changed == set()
    assert not (deployed.secrets / "backups").exists()
    runs: list[Run] = []
    verbs.measure("backup", ["j1"], lambda: runs.append(deployed.play(BACKUP).check()), planned=True)

    def again(kill_at: int) -> Run:
        return deployed.play(BACKUP, kill_at=kill_at)

    verbs.cut_off("backup", len(runs[0].tasks), again)
    copies = deployed.secrets / "backups"
    assert list(copies.glob("backups/*.json"))
    secrets = [deployed.secret(name) for name in ("admin.token", "mongodb.password", "backup.key")]
    held = b"".join(path.read_bytes() for path in copies.rglob("*") if path.is_file())
    assert [secret for secret in secrets if secret.encode() in held] == []


def test_all_hosts_are_wiped_and_every_submission_comes_back(deployed: Site, verbs: Verbs, figure: Figure) -> None:
    judged(deployed, 20)
    before = submissions(deployed)
    backup = deployed.play(BACKUP).check()
    began = time.monotonic()
    deployed.lab.wipe(*deployed.hosts)
    name = name_of(deployed)
    formed = deployed.site("-e", f"judge_form_anew={name}").check()
    # To say it again changes nothing: judicators have data.
    shown = deployed.play(RESTORE)
    assert shown.code != 0 and "nothing was done yet; it restores" in shown.text
    confirmed = ("-e", f"confirm={name}")
    assert deployed.play(RESTORE, *confirmed, "--check", "--diff").check().changed == set()
    verbs.cut_off("restore", 30, lambda kill_at: deployed.play(RESTORE, *confirmed, kill_at=kill_at))
    seconds = time.monotonic() - began
    deployed.whole()
    came_back(verbs, "restore, cut off three times", began, before, submissions(deployed))
    figure(
        f"restore drill: {len(before)} submissions, backup {backup.seconds:.0f} s, all hosts wiped, site.yml "
        f"{formed.seconds:.0f} s, all of it with three cut-offs {seconds:.0f} s"
    )
    # Once more, it does nothing; another backup is refused.
    judged(deployed, 3)
    assert "has restored already" in deployed.play(RESTORE, *confirmed).check().text
    deployed.play(BACKUP).check()
    refused = deployed.play(RESTORE, *confirmed)
    assert refused.code != 0 and "this cluster is not empty" in refused.text


def test_one_judicator_is_left_and_becomes_a_cluster(deployed: Site, verbs: Verbs, figure: Figure) -> None:
    judged(deployed, 10)
    deployed.whole()
    before = submissions(deployed)
    shown = deployed.play(RECOVER, "-e", "judge_survivor=j1")
    assert shown.code != 0 and "there is nothing to recover" in shown.text
    survivor = JUDICATORS[SEED % len(JUDICATORS)]
    deployed.lab.wipe(*(host for host in JUDICATORS if host != survivor))
    began = time.monotonic()
    shown = deployed.play(RECOVER, "-e", f"judge_survivor={survivor}")
    assert shown.code != 0 and f"{survivor} becomes the only member of etcd" in shown.text
    confirmed = ("-e", f"judge_survivor={survivor}", "-e", f"confirm={name_of(deployed)}")
    kept = deployed.restarts(survivor), deployed.written(survivor)
    foretold = deployed.play(RECOVER, *confirmed, "--check", "--diff").check()
    assert {host for host, _ in foretold.changed} >= {host for host in JUDICATORS if host != survivor}
    assert (deployed.restarts(survivor), deployed.written(survivor)) == kept
    reached = verbs.cut_off("recover", 60, lambda kill_at: deployed.play(RECOVER, *confirmed, kill_at=kill_at))
    deployed.whole()
    figure(f"recovered from {survivor}, cut off at {reached}: in all {time.monotonic() - began:.0f} s")
    came_back(verbs, "recover, cut off three times", began, before, submissions(deployed))
    assert deployed.play(RECOVER, *confirmed).check().changed == set()
    judged(deployed, 3)


def test_a_whole_cluster_stops_and_starts(deployed: Site, verbs: Verbs) -> None:
    judged(deployed, 5)
    before = submissions(deployed)
    began = time.monotonic()
    for verb in (("stop", "-e", f"confirm={name_of(deployed)}"), ("start",)):
        play = (f"playbooks/{verb[0]}.yml", *verb[1:])
        foretold = deployed.play(*play, "--check", "--diff").check()
        assert foretold.changed == deployed.play(*play).check().changed != set()
        assert deployed.play(*play).check().changed == set()
        active = {host: deployed.lab.ssh(host, "systemctl list-units -q 'judge-*.service'") for host in deployed.hosts}
        assert {bool(units) for units in active.values()} == {verb[0] == "start"}, active
    deployed.whole()
    came_back(verbs, "stop and start", began, before, submissions(deployed), "all six")


def test_a_timer_makes_backups_until_it_is_switched_off(deployed: Site) -> None:
    every = json.dumps({"judge_backup_timer": True, "judge_backup_calendar": "*-*-* *:*:0/5"})
    place, unit = "/var/lib/judge/backup/backups", "judge-backup.timer"
    # At once: what keeps several judicators from beginning in the same second would take minutes.
    drop_in = f"/run/systemd/system/{unit}.d"
    deployed.lab.ssh("j1", f"mkdir -p {drop_in}; printf '[Timer]\\nRandomizedDelaySec=0\\n' >{drop_in}/now.conf")
    on = ("--limit", "j1", "-e", every)
    before = set(deployed.lab.ssh("j1", f"ls {place} 2>/dev/null || true").split())
    try:
        foretold = deployed.site(*on, "--check", "--diff").check()
        assert foretold.changed == deployed.site(*on).check().changed != set()
        assert deployed.site(*on).check().changed == set()
        wait_for(lambda: set(deployed.lab.ssh("j1", f"ls {place}").split()) - before, 120, "a backup by itself")
    finally:
        deployed.lab.ssh("j1", f"rm -r {drop_in}")
        deployed.site("--limit", "j1").check()
    assert deployed.lab.ssh("j1", f"systemctl is-active {unit} || true").strip() == "inactive"
    deployed.lab.ssh("j1", f"! test -e /etc/systemd/system/timers.target.wants/{unit}")
