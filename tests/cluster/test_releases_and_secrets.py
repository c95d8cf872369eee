"""Verbs that replace what a cluster runs with while it judges: its secrets, its certificates, its release."""

import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest
import yaml

from judge.deploy.bundle.__main__ import write_manifest
from judge.deploy.bundle.files import read_manifest
from tests.cluster.verbs import Verbs, playing
from tests.support.lab import (
    HOSTS,
    JUDICATORS,
    ROOT,
    Figure,
    ProcessWatch,
    Run,
    Site,
    journal,
    lab_marks,
    leaks,
    make_bundle,
)

pytestmark = lab_marks(2400)
NEXT, WRONG, LAME = "99.0.0", "98.0.0", "97.0.0"
ROTATE = ("playbooks/rotate.yml", "-e", "judge_rotate=ca,mongodb.password,mongodb.keyfile,session.key,admin.token")


def project(copy: Path, version: str) -> Path:
    copy.mkdir()
    for name in ("judge", "pyproject.toml", "setup.py", "constraints.txt", "README.md"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, copy / name)
    for path in (copy / "pyproject.toml", copy / "judge/__init__.py"):
        exchange(path, r'^((?:__)?version(?:__)? = )"[^"]*"', rf'\1"{version}"')
    return copy


def exchange(path: Path, pattern: str, text: str) -> None:
    changed, count = re.subn(pattern, text, path.read_text(), flags=re.MULTILINE)
    assert count == 1, path
    path.write_text(changed)


def releases(site: Site) -> dict[str, str]:
    return {host: site.lab.ssh(host, "readlink /opt/judge/current").strip() for host in HOSTS}


def newer_bundle(site: Site, of: Path) -> None:
    """The bundle of another release, whose mongod is another one, too: a program with a byte more at its end."""
    bundle = Path(str(site.lab.record.bundle))
    make_bundle(bundle, "-e", f"judge_bundle_project={of}")
    with (bundle / "bin/mongod").open("ab") as program:
        program.write(b"\0")
    about = {key: value for key, value in read_manifest(bundle)[0].items() if key not in {"files", "format"}}
    write_manifest(bundle, about)


def the_bundle_of_before(site: Site) -> None:
    """Made again, it is what hosts have after a rollback."""
    site.wait_healthy()
    make_bundle(Path(str(site.lab.record.bundle)))
    assert site.site("--check").check().changed == set()


def mongods(site: Site) -> set[str]:
    return {site.lab.ssh(host, "sha256sum </proc/$(pgrep -xo mongod)/exe").split()[0] for host in JUDICATORS}


def test_all_secrets_are_replaced_and_shown_nowhere(deployed: Site, verbs: Verbs) -> None:
    old = deployed.all_secrets()
    preview = deployed.play(*ROTATE, "--check", "--diff").check()
    runs: list[Run] = []
    with ProcessWatch(deployed.lab) as watch:
        verbs.measure(
            "rotate", HOSTS, lambda: runs.append(deployed.play(*ROTATE, "-vvv", "--diff").check()), planned=True
        )
    assert preview.changed == runs[0].changed
    new = deployed.all_secrets()
    for name in ("mongodb.keyfile", "mongodb.password", "session.key", "admin.token", "pki/ca.key"):
        owner = f"the controller's {name}"
        assert not {needle for needle, holder in old.items() if holder == owner} & {
            needle for needle, holder in new.items() if holder == owner
        }, name
    assert leaks(old | new, {"rotate.yml": runs[0].text, "the process list": watch.text()}) == []
    assert leaks(old | new, {f"the journal of {host}": journal(deployed.lab, host) for host in HOSTS}) == []
    assert not (deployed.secrets / "rotation").exists()
    deployed.wait_healthy()
    assert deployed.site().check().changed == set()


def test_a_rotation_that_is_killed_anywhere_is_finished_by_another_run(
    deployed: Site, verbs: Verbs, figure: Figure
) -> None:
    def play(number: int) -> Run:
        under_way = (deployed.secrets / "rotation/rotation.yml").exists()
        return deployed.play(*(ROTATE[:1] if under_way else ROTATE), kill_at=number)

    tasks = len(deployed.play(*ROTATE, "--check").check().tasks)
    figure(f"rotate was cut off at: {', '.join(verbs.killed('rotate', HOSTS, tasks, play))}")
    deployed.wait_healthy()
    assert not (deployed.secrets / "rotation").exists()
    assert deployed.site().check().changed == set()


def test_a_lost_secret_is_refused_before_anything_is_changed(deployed: Site) -> None:
    password = deployed.secret("mongodb.password")
    (deployed.secrets / "mongodb.password").unlink()
    try:
        run = deployed.site()
        assert run.code != 0 and "the cluster knows no other one" in run.text and not run.changed
    finally:
        (deployed.secrets / "mongodb.password").write_text(f"{password}\n")
        (deployed.secrets / "mongodb.password").chmod(0o600)


def test_drift_and_running_versions_are_reported(deployed: Site, tmp_path: Path) -> None:
    assert json.loads(deployed.judgectl("drift", "--json").stdout) == []
    deployed.lab.ssh("e1", "echo '# by hand' >> /etc/judge/executor.yml")
    drift = deployed.judgectl("drift", "--json")
    assert drift.returncode == 1
    assert {(entry["host"], entry["what"]) for entry in json.loads(drift.stdout)} >= {("e1", "/etc/judge/executor.yml")}
    deployed.site("--limit", "e1").check()
    versions_result = deployed.judgectl("versions", "--output", "json")
    rows = {(row["host"], row["what"]): row for row in json.loads(versions_result.stdout)}
    assert versions_result.returncode == 0, versions_result.stderr
    assert rows["j1", "mongod"]["installed"] == rows["j1", "mongod"]["running"] != ""
    archive = tmp_path / "case.tar.gz"
    result = deployed.judgectl("support", "--to", str(archive))
    assert result.returncode == 0, result.stderr
    with tarfile.open(archive) as opened:
        files = [member for member in opened if member.isfile()]
        texts = {member.name: opened.extractfile(member).read().decode() for member in files}  # type: ignore[union-attr]
    assert {name.split("/")[1] for name in texts} >= set(HOSTS)
    assert leaks(deployed.all_secrets(), texts) == []


def test_a_release_that_judges_wrongly_stays_on_one_host_and_judges_nothing(
    deployed: Site, verbs: Verbs, tmp_path: Path
) -> None:
    if not deployed.first:
        pytest.skip("a kept lab has the bundle of `make lab`, whose release must stay")
    before = releases(deployed)
    faulty = project(tmp_path / "project", WRONG)
    exchange(
        faulty / "judge/executor/verdict.py",
        r"^    \(Verdict\.WA, lambda run: not run\.checked\.accepted, _rejection\),$",
        "    (Verdict.RTE, lambda run: not run.checked.accepted, _rejection),",
    )
    make_bundle(Path(str(deployed.lab.record.bundle)), "-e", f"judge_bundle_project={faulty}")
    stopped = deployed.play("playbooks/upgrade.yml", "-e", f"judge_version={WRONG}", "-e", "judge_upgrade_canary=e2")
    assert stopped.code != 0
    assert "'c that prints something else' is RTE instead of WA, it was WA; e2 is drained" in stopped.text
    now = releases(deployed)
    assert {host for host in HOSTS if now[host] != before[host]} == {"e2"}
    assert any("'e2' is drained: an upgrade was stopped" in warning for warning in deployed.status().warnings)
    back = "playbooks/rollback.yml"
    verbs.measure("rollback of a first host", ("e2",), lambda: deployed.play(back).check(), planned=True)
    assert releases(deployed) == before
    the_bundle_of_before(deployed)


def test_a_release_whose_judicator_does_not_start_stops_at_the_first_one(
    deployed: Site, verbs: Verbs, tmp_path: Path
) -> None:
    """The others go on with the release of before, and the way back is one command, which asks for nobody's help."""
    if not deployed.first:
        pytest.skip("a kept lab has the bundle of `make lab`, whose release must stay")

    before = releases(deployed)
    lame = project(tmp_path / "project", LAME)
    exchange(
        lame / "judge/judicator/main.py",
        r"^        self\._context = server_context\(config\.tls\)$",
        '        raise RuntimeError("a judicator that never starts")',
    )
    make_bundle(Path(str(deployed.lab.record.bundle)), "-e", f"judge_bundle_project={lame}")

    def upgrade_and_back() -> None:
        run = deployed.play("playbooks/upgrade.yml", "-e", f"judge_version={LAME}", "-e", "judge_upgrade_canary=e2")
        assert run.code != 0
        assert "judge-judicator.service is " in run.text, run.text[-6000:]
        switched = {host for host, release in releases(deployed).items() if release != before[host]}
        assert "e2" in switched, "the executor that was first judges with it"
        assert len(switched) == 2 and len(switched & set(JUDICATORS)) == 1, switched
        deployed.play("playbooks/rollback.yml").check()

    verbs.measure("stopped upgrade, and rollback", HOSTS, upgrade_and_back)
    assert releases(deployed) == before
    the_bundle_of_before(deployed)


def test_to_the_next_release_and_back_though_killed(
    deployed: Site, verbs: Verbs, tmp_path: Path, figure: Figure
) -> None:
    if not deployed.first:
        pytest.skip("a kept lab has the bundle of `make lab`, whose release must stay")
    before = deployed.lab.ssh("e1", "readlink /opt/judge/current").strip()
    mongod = mongods(deployed)
    newer_bundle(deployed, project(tmp_path / "project", NEXT))
    upgrade = ("playbooks/upgrade.yml", "-e", f"judge_version={NEXT}")
    preview = [deployed.play(*upgrade, "--check", "--diff").check()]
    runs: list[Run] = []
    verbs.measure("upgrade", HOSTS, lambda: runs.append(deployed.play(*upgrade).check()), planned=True)
    assert all(NEXT in deployed.lab.ssh(host, "readlink /opt/judge/current") for host in HOSTS)
    assert not mongods(deployed) & mongod
    assert yaml.safe_load((deployed.secrets / "upgrade.yml").read_text())["to"] == NEXT
    assert deployed.play(*upgrade).check().changed == set()
    back = ("playbooks/rollback.yml",)
    preview.append(deployed.play(*back, "--check", "--diff").check())
    verbs.measure("rollback", HOSTS, lambda: runs.append(deployed.play(*back).check()), planned=True)
    assert {deployed.lab.ssh(host, "readlink /opt/judge/current").strip() for host in HOSTS} == {before}
    assert mongods(deployed) == mongod
    assert deployed.play(*back).check().changed == set()
    assert [run.changed for run in preview] == [run.changed for run in runs]
    reached = verbs.killed("upgrade", HOSTS, len(runs[0].tasks), playing(deployed, *upgrade))
    figure(f"upgrade was cut off at: {', '.join(reached)}")
    reached = verbs.killed("rollback", HOSTS, len(runs[1].tasks), playing(deployed, *back))
    figure(f"rollback was cut off at: {', '.join(reached)}")
    assert {deployed.lab.ssh(host, "readlink /opt/judge/current").strip() for host in HOSTS} == {before}
    assert mongods(deployed) == mongod
    the_bundle_of_before(deployed)


def test_all_certificates_are_replaced_though_killed(deployed: Site, verbs: Verbs, figure: Figure) -> None:
    renew = ("playbooks/renew.yml", "-e", "judge_pki_renew_all=true")
    runs: list[Run] = []
    verbs.measure("renew", HOSTS, lambda: runs.append(deployed.play(*renew).check()), planned=True)
    reached = verbs.killed("renew", HOSTS, len(runs[0].tasks), playing(deployed, *renew))
    figure(f"renew was cut off at: {', '.join(reached)}")
    deployed.wait_healthy()
    assert deployed.site().check().changed == set()
