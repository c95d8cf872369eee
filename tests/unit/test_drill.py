"""scripts/drill with playbooks that only note how they are called."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from judge.backup.__main__ import main
from judge.backup.keys import HostKey
from judge.backup.repository import writing
from tests.unit.test_backup import manifest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose cluster `mine` has a backup, and whose Ansible notes its calls in `calls`."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/drill", tmp_path / "scripts")
    programs = tmp_path / ".venv/bin"
    programs.mkdir(parents=True)
    note = f'#!/bin/sh\necho "${{0##*/}} $*" >>{tmp_path}/calls\ncase "$*" in *"$BROKEN"*) exit 2;; esac\n'
    for name in ("ansible", "ansible-playbook"):
        (programs / name).write_text(note)
    (programs / "python").write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} "$@"\n')
    inventory = Path(sys.executable).parent / "ansible-inventory"
    (programs / "ansible-inventory").write_text(f'#!/bin/sh\nexec {inventory} "$@"\n')
    for path in programs.iterdir():
        path.chmod(0o755)
    for name, address in (("mine", "10.0.0.1"), ("mine-drill", "10.0.0.9")):
        (tmp_path / "inventory" / name).mkdir(parents=True)
        hosts(tmp_path / "inventory" / name, f"{name}-host", address)
    secrets = tmp_path / "inventory/mine.secrets"
    (secrets / "pki").mkdir(parents=True)
    assert main(["keys", "--secrets", str(secrets)]) == 0
    assert main(["seal", "--secrets", str(secrets), str(secrets / "backups")]) == 0
    with writing(secrets / "backups", HostKey.parse((secrets / "backup.hostkey").read_text()), 4000) as writer:
        writer.publish(manifest(cluster="ours", secrets=writer.current_secrets()))
    return tmp_path


def hosts(inventory: Path, name: str, address: str) -> None:
    groups = {"judicators": {"hosts": {name: {"ansible_host": address}}}}
    (inventory / "hosts.yml").write_text(json.dumps(groups))


def drill(checkout: Path, *words: str, broken: str = "nothing") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "scripts/drill", *words], cwd="/", capture_output=True, text=True, check=False,
        env={**os.environ, "BROKEN": broken},
    )  # fmt: skip


def calls(checkout: Path) -> list[str]:
    path = checkout / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_a_drill_restores_resets_and_tells_the_cluster(checkout: Path) -> None:
    process = drill(checkout, "mine")
    assert process.returncode == 0, process.stderr
    ran = calls(checkout)
    assert [next(word for word in line.split() if word.endswith((".yml", ".file"))) for line in ran] == [
        "site.yml", "playbooks/restore.yml", "playbooks/reset.yml", "ansible.builtin.file",
    ]  # fmt: skip
    assert all(
        line.startswith("ansible-playbook -i inventory/mine-drill -e judge_cluster_name=ours") for line in ran[:3]
    )
    assert ran[0].endswith("judge_form_anew=ours") and all(line.endswith("confirm=ours") for line in ran[1:3])
    assert ran[3].startswith("ansible -i inventory/mine judicators") and "/var/lib/judge/backup/drilled" in ran[3]
    assert not (checkout / "inventory/mine-drill.secrets").exists()


def test_a_failed_drill_resets_nothing_and_the_next_waits_for_a_person(checkout: Path) -> None:
    assert drill(checkout, "mine", broken="restore.yml").returncode != 0
    assert len(calls(checkout)) == 2
    assert (checkout / "inventory/mine-drill.secrets/backup.key").exists()
    again = drill(checkout, "mine")
    assert (again.returncode, len(calls(checkout))) == (2, 2) and "of a drill that has not ended" in again.stderr


@pytest.mark.parametrize(("name", "address"), [("other", "10.0.0.1"), ("mine-host", "10.0.0.8")])
def test_a_host_of_the_cluster_is_refused(checkout: Path, name: str, address: str) -> None:
    hosts(checkout / "inventory/mine-drill", name, address)
    process = drill(checkout, "mine")
    assert (process.returncode, calls(checkout)) == (2, []) and "is in both inventories" in process.stderr


@pytest.mark.parametrize(("words", "sentence"), [((), "expected one argument"), (("../x",), "expected one argument"),
                                                 (("other",), "inventory/other-drill is missing")])  # fmt: skip
def test_a_wrong_name_gets_a_sentence(checkout: Path, words: tuple[str, ...], sentence: str) -> None:
    process = drill(checkout, *words)
    assert (process.returncode, calls(checkout)) == (2, []) and sentence in process.stderr
