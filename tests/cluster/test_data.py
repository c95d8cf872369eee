"""Data that come back: a backup under load, all hosts wiped and restored, one judicator left of three.

The tests share one lab; each leaves a whole cluster behind. Durations are printed.
"""

from __future__ import annotations

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
    verbs: Verbs, verb: str, began: float, before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]
) -> None:
    """A row for a verb after a disaster, which `began`: all that time there was neither verdict nor acknowledgement."""
    lost = [task for task in before if task not in after]
    wrong = [task for task in before if task in after and after[task] != before[task]]
    seconds = time.monotonic() - began
    verbs.keep(Row(verb, "all judicators", seconds, seconds, seconds, len(lost), 0, len(wrong)))
    assert (lost, wrong) == ([], [])


def name_of(deployed: Site) -> str:
    return str(deployed.record()["name"])


def judged(deployed: Site, count: int) -> None:
    with deployed.stream(0.3) as crowd:
        crowd.flows(count)
        crowd.verify()


def test_a_backup_takes_nothing_from_those_who_hand_in(deployed: Site, verbs: Verbs) -> None:
    deployed.whole()
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
    reached = verbs.cut_off("recover", 60, lambda kill_at: deployed.play(RECOVER, *confirmed, kill_at=kill_at))
    deployed.whole()
    figure(f"recovered from {survivor}, cut off at {reached}: in all {time.monotonic() - began:.0f} s")
    came_back(verbs, "recover, cut off three times", began, before, submissions(deployed))
    judged(deployed, 3)
