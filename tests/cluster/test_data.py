"""Data that come back: a backup under load, all hosts wiped and restored, one judicator left of three.

The tests share one lab; each leaves a whole cluster behind. Durations are printed.
"""

import datetime
import json
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from judge.common.errors import JudgeError
from judge.common.pki.authority import Authority
from judge.model import messages as m
from tests.cluster.conftest import SEED
from tests.cluster.table import ALL
from tests.cluster.verbs import Row, Verbs, playing
from tests.support.lab import (
    EXECUTORS,
    JUDICATORS,
    ROOT,
    Figure,
    Run,
    Site,
    changed,
    environment,
    files_below,
    lab_marks,
)
from tests.support.servers import wait_for

pytestmark = lab_marks(3600)

BACKUP, RESTORE, RECOVER = (f"playbooks/{name}.yml" for name in ("backup", "restore", "recover"))


def submissions(deployed: Site) -> dict[str, dict[str, Any]]:
    """Every submission that is over, with its verdict, its outputs and its history, as the API tells it."""

    def ask(api: Any) -> dict[str, dict[str, Any]]:
        answers: dict[str, dict[str, Any]] = {}
        before: str | None = None
        while True:
            page = api.search(limit=100, before=before)
            for task in page.tasks:
                final: m.Task = api.get(task.id)
                if final.done:
                    answers[task.id] = final.model_dump(mode="json")
            before = page.next
            if before is None:
                return answers

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
    missing = [task for task in before if task not in after]
    wrong = [task for task in before if task in after and after[task] != before[task]]
    seconds = time.monotonic() - began
    verbs.table.keep(Row(verb, hosts, seconds, seconds, seconds, len(missing), 0, len(wrong)))
    assert (missing, wrong) == ([], [])


def name_of(deployed: Site) -> str:
    return str(deployed.record()["name"])


def judged(deployed: Site, count: int) -> None:
    with deployed.stream(0.3) as crowd:
        crowd.flows(count)
        crowd.verify()


def test_a_backup_takes_nothing_from_those_who_hand_in(deployed: Site, verbs: Verbs, tmp_path: Path) -> None:
    deployed.wait_healthy()
    preview = deployed.play(BACKUP, "--check", "--diff").check()
    assert not (deployed.secrets / "backups").exists()
    runs: list[Run] = []
    verbs.measure("backup", ["j1"], lambda: runs.append(deployed.play(BACKUP).check()), planned=True)
    assert preview.changed == runs[0].changed != set()
    verbs.killed("backup", ["j1"], len(runs[0].tasks), playing(deployed, BACKUP))
    # Now there are older ones, some of which go, here and at another place.
    away = tmp_path / "away"
    deployed.rehearsed(BACKUP, "-e", f"judge_backup_copy_to={away}")
    assert files_below(away) == files_below(deployed.secrets / "backups")
    for host in JUDICATORS:
        assert deployed.lab.ssh(host, "find /var/lib/judge/backup/copied -user judge -mmin -10").strip()
    copies = deployed.secrets / "backups"
    assert list(copies.glob("backups/*.json"))
    secrets = [deployed.secret(name) for name in ("admin.token", "mongodb.password", "backup.key")]
    content = b"".join(path.read_bytes() for path in copies.rglob("*") if path.is_file())
    assert [secret for secret in secrets if secret.encode() in content] == []


def with_outputs(deployed: Site) -> str:
    """A problem is imported, and something handed in whose output is kept as a blob; its id."""
    hello = ROOT / "examples/problems/hello"
    imported = deployed.judgectl("problem", "import", str(hello))
    assert imported.returncode == 0, imported.stderr
    against = deployed.judgectl(
        "submit", "--output", "json", "-p", "hello", str(hello / "submissions/accepted/hello.c")
    )
    assert json.loads(against.stdout)["verdict"] == "AC", against
    printed = deployed.judgectl("submit", "--output", "json", "--command", "seq 100000")
    task = json.loads(printed.stdout)
    assert task["result"]["stdout_blob"], "too large for the result itself"
    return str(task["id"])


def retained(deployed: Site, task: str, place: Path) -> tuple[dict[str, tuple[int, bytes]], bytes]:
    """The package of the problem as it is exported to this new place, and the output of a submission."""
    exported = deployed.judgectl("problem", "export", "hello", str(place))
    assert exported.returncode == 0, exported.stderr
    output = deployed.ask(lambda api: api.request("GET", f"/submissions/{task}/output").content)
    return files_below(place), output


def test_all_hosts_are_wiped_and_every_submission_comes_back(
    deployed: Site, verbs: Verbs, figure: Figure, tmp_path: Path
) -> None:
    judged(deployed, 20)
    task = with_outputs(deployed)
    contents = retained(deployed, task, tmp_path / "before")
    assert contents[0] and contents[1] == b"".join(b"%d\n" % number for number in range(1, 100_001))
    before = submissions(deployed)
    backup = deployed.play(BACKUP).check()
    began = time.monotonic()
    deployed.lab.wipe(*deployed.hosts)
    name = name_of(deployed)
    formed = deployed.site("-e", f"judge_form_anew={name}").check()
    # To say it again changes nothing: judicators have data.
    refusal = deployed.play(RESTORE)
    assert refusal.code != 0 and "nothing was done yet; it restores" in refusal.text
    confirmed = ("-e", f"confirm={name}")
    refused = deployed.play(RESTORE, "--check")
    assert refused.code != 0 and "nothing was done yet; it restores" in refused.text
    preview = deployed.play(RESTORE, *confirmed, "--check", "--diff").check()
    runs: list[Run] = []
    verbs.cut_off("restore", 30, playing(deployed, RESTORE, *confirmed, runs=runs))
    assert changed(runs) == preview.changed
    seconds = time.monotonic() - began
    deployed.wait_healthy()
    came_back(verbs, "restore, killed 3 times", began, before, submissions(deployed))
    assert retained(deployed, task, tmp_path / "after") == contents
    figure(
        f"restore drill: {len(before)} submissions, backup {backup.seconds:.0f} s, all hosts wiped, site.yml "
        f"{formed.seconds:.0f} s, all of it with three cut-offs {seconds:.0f} s"
    )
    # Once more, it does nothing; another backup is refused.
    judged(deployed, 3)
    for options in (["--check"], []):
        assert "has restored already" in deployed.play(RESTORE, *confirmed, *options).check().text
    deployed.play(BACKUP).check()
    refused = deployed.play(RESTORE, *confirmed)
    assert refused.code != 0 and "this cluster is not empty" in refused.text


def test_a_backup_comes_back_on_other_hosts(deployed: Site, figure: Figure, tmp_path: Path) -> None:
    """Other names at other addresses: executors and the gateway become judicators; then on the first ones again."""
    judged(deployed, 5)
    task = with_outputs(deployed)
    contents = retained(deployed, task, tmp_path / "before")
    before = submissions(deployed)
    deployed.play(BACKUP).check()
    judicators, executors = {"k1": "e1", "k2": "g1", "k3": "j3"}, {"x1": "j1", "x2": "e2"}

    def comes_back(place: str, **members: Collection[str]) -> None:
        began = time.monotonic()
        deployed.lab.wipe(*deployed.hosts)
        deployed.site("-e", f"judge_form_anew={name_of(deployed)}").check()
        deployed.play(RESTORE, "-e", f"confirm={name_of(deployed)}").check()
        figure(f"wiped and restored {place}: {time.monotonic() - began:.0f} s")
        deployed.wait_healthy(**members)
        after = submissions(deployed)
        assert {task: after.get(task) for task in before} == before
        assert retained(deployed, task, tmp_path / place) == contents
        judged(deployed, 3)

    with deployed.listed(judicators=judicators, executors=executors, gateways={"w1": "j2"}):
        comes_back("on other hosts", judicators=judicators, executors=executors)
    comes_back("on the first ones", judicators=JUDICATORS, executors=EXECUTORS)


def test_one_judicator_is_left_and_becomes_a_cluster(deployed: Site, verbs: Verbs, figure: Figure) -> None:
    judged(deployed, 10)
    deployed.wait_healthy()
    before = submissions(deployed)
    refusal = deployed.play(RECOVER, "-e", "judge_survivor=j1")
    assert refusal.code != 0 and "there is nothing to recover" in refusal.text
    survivor = JUDICATORS[SEED % len(JUDICATORS)]
    deployed.lab.wipe(*(host for host in JUDICATORS if host != survivor))
    began = time.monotonic()
    refusal = deployed.play(RECOVER, "-e", f"judge_survivor={survivor}")
    assert refusal.code != 0 and f"{survivor} becomes the only member of etcd" in refusal.text
    confirmed = ("-e", f"judge_survivor={survivor}", "-e", f"confirm={name_of(deployed)}")
    state = deployed.restarts(survivor), deployed.fingerprint(survivor)
    preview = deployed.play(RECOVER, *confirmed, "--check", "--diff").check()
    assert (deployed.restarts(survivor), deployed.fingerprint(survivor)) == state
    runs: list[Run] = []
    reached = verbs.cut_off("recover", 60, playing(deployed, RECOVER, *confirmed, runs=runs))
    assert changed(runs) == preview.changed
    deployed.wait_healthy()
    figure(f"recovered from {survivor}, cut off at {reached}: in all {time.monotonic() - began:.0f} s")
    came_back(verbs, "recover, killed 3 times", began, before, submissions(deployed))
    assert deployed.play(RECOVER, *confirmed).check().changed == set()
    judged(deployed, 3)


def test_a_whole_cluster_stops_and_starts(deployed: Site, verbs: Verbs) -> None:
    judged(deployed, 5)
    before = submissions(deployed)
    began = time.monotonic()
    for verb in (("stop", "-e", f"confirm={name_of(deployed)}"), ("start",)):
        play = (f"playbooks/{verb[0]}.yml", *verb[1:])
        assert deployed.rehearsed(*play).changed != set()
        assert deployed.play(*play).check().changed == set()
        active = {host: deployed.lab.ssh(host, "systemctl list-units -q 'judge-*.service'") for host in deployed.hosts}
        assert {bool(units) for units in active.values()} == {verb[0] == "start"}, active
    deployed.wait_healthy()
    came_back(verbs, "stop and start", began, before, submissions(deployed), ALL)


def expire(deployed: Site) -> None:
    """The authority and all its certificates end yesterday, on the controller and on all hosts; keys stay."""
    authority = Authority(deployed.secrets / "pki")
    key = authority.key()

    def ended(pem: bytes) -> bytes:
        (old,) = x509.load_pem_x509_certificates(pem)
        day = datetime.timedelta(days=1)
        builder = (
            x509.CertificateBuilder()
            .subject_name(old.subject)
            .issuer_name(old.issuer)
            .public_key(old.public_key())
            .serial_number(old.serial_number)
            .not_valid_before(datetime.datetime.now(datetime.UTC) - 10 * day)
            .not_valid_after(datetime.datetime.now(datetime.UTC) - day)
        )
        for extension in old.extensions:
            builder = builder.add_extension(extension.value, critical=extension.critical)
        return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    for host in deployed.hosts:
        for path in deployed.lab.ssh(host, "ls /etc/judge/tls/*.crt").split():
            pem = ended(deployed.lab.ssh(host, f"cat {path}").encode())
            deployed.lab.ssh(host, f"printf %s {shlex.quote(pem.decode())} >{path}")  # owner and mode stay
        nginx = "systemctl -q is-active nginx || exit 0; systemctl reload nginx"
        deployed.lab.ssh(host, f"systemctl --no-block restart 'judge-*'; {nginx}")
    authority.cert_file.write_bytes(ended(authority.cert_file.read_bytes()))


def documented(deployed: Site) -> list[list[str]]:
    """The commands of docs/playbooks/rotate.md for an authority that has expired, with this cluster's names."""
    page = (
        (ROOT / "docs/playbooks/rotate.md").read_text(encoding="utf-8").partition("### An authority that has expired")
    )
    lines = page[2].split("```")[1].strip().splitlines()
    paths = {"inventory/NAME.secrets": str(deployed.secrets), "inventory/NAME": str(deployed.inventory)}
    return [shlex.split(re.sub(r"inventory/NAME(\.secrets)?", lambda match: paths[match[0]], line)) for line in lines]


def test_an_authority_that_has_expired_is_replaced_as_the_page_says(deployed: Site, verbs: Verbs) -> None:
    """What was accepted before is kept, and judged afterwards."""
    judged(deployed, 5)
    deployed.wait_healthy()
    before = submissions(deployed)
    # Nobody takes this one: executors are stopped.
    for host in EXECUTORS:
        deployed.lab.ssh(host, "systemctl stop judge-boot judge-executor")
    waiting = deployed.ask(lambda api: api.submit(m.Submission(command="echo late", idempotency_key="late")))
    assert not waiting.done
    began = time.monotonic()
    expire(deployed)

    def stands_still() -> bool:
        try:
            deployed.status(5.0)
        except JudgeError:
            return True
        return False

    wait_for(stands_still, 120, "the end of the old certificates")
    refused = deployed.site()
    assert refused.code != 0 and not refused.changed
    assert "the cluster's CA" in refused.text and "expired on" in refused.text
    for command in documented(deployed):
        completed = subprocess.run(
            deployed.command(*command), cwd=ROOT, env=environment(), capture_output=True, text=True, check=False,
            timeout=1800,
        )  # fmt: skip
        assert completed.returncode == 0, (command, completed.stdout[-6000:], completed.stderr)
    deployed.wait_healthy()
    wait_for(lambda: deployed.ask(lambda api: api.get(waiting.id)).done, 120, "a late verdict")
    after = submissions(deployed)
    assert after[waiting.id]["verdict"] == "AC"
    came_back(verbs, "site.yml (the authority has expired)", began, before, after, ALL)
    assert deployed.site("--check").check().changed == set()
    shutil.rmtree(deployed.secrets / "pki.old")


def test_a_timer_makes_backups_until_it_is_switched_off(deployed: Site) -> None:
    every = json.dumps({"judge_backup_timer": True, "judge_backup_calendar": "*-*-* *:*:0/5"})
    place, unit = "/var/lib/judge/backup/backups", "judge-backup.timer"
    # At once: what keeps several judicators from beginning in the same second would take minutes.
    drop_in = f"/run/systemd/system/{unit}.d"
    deployed.lab.ssh("j1", f"mkdir -p {drop_in}; printf '[Timer]\\nRandomizedDelaySec=0\\n' >{drop_in}/now.conf")
    on = ("--limit", "j1", "-e", every)
    before = set(deployed.lab.ssh("j1", f"ls {place} 2>/dev/null || true").split())
    try:
        preview = deployed.site(*on, "--check", "--diff").check()
        assert preview.changed == deployed.site(*on).check().changed != set()
        assert deployed.site(*on).check().changed == set()
        wait_for(lambda: set(deployed.lab.ssh("j1", f"ls {place}").split()) - before, 120, "a backup by itself")
    finally:
        deployed.lab.ssh("j1", f"rm -r {drop_in}")
        deployed.site("--limit", "j1").check()
    assert deployed.lab.ssh("j1", f"systemctl is-active {unit} || true").strip() == "inactive"
    deployed.lab.ssh("j1", f"! test -e /etc/systemd/system/timers.target.wants/{unit}")
