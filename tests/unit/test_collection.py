"""The checkout as an Ansible collection: what its artefact has, what it never has, and that Ansible can use it."""

import getpass
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from judge import __version__
from plugins.action.judge_variables import VERSIONS

ROOT = Path(__file__).resolve().parents[2]
BESIDE = Path(sys.executable).parent
# Names that plug-ins use of ansible-core, and the version since which it has each of them.
SINCE = {"validate_argument_spec": (2, 13), "trust_as_template": (2, 19), "copy_with_new_env": (2, 9)}


def build(checkout: Path, output: Path) -> Path:
    command = [BESIDE / "ansible-galaxy", "collection", "build", checkout, "--output-path", output]
    subprocess.run(command, check=True, capture_output=True)
    (artefact,) = output.glob("*.tar.gz")
    return artefact


def names(artefact: Path) -> set[str]:
    with tarfile.open(artefact) as archive:
        return {member.name for member in archive if not member.isdir()}


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("artefact"))


def test_the_artefact_has_the_parts_of_a_deployment_only(artefact: Path) -> None:
    assert artefact.name == f"judge-cluster-{__version__}.tar.gz"
    inside = names(artefact)
    tops = {name.split("/")[0] for name in inside}
    assert tops == {
        "CHANGELOG.md", "FILES.json", "LICENSE", "MANIFEST.json", "README.md", "constraints.txt", "judge", "meta",
        "playbooks", "plugins", "roles", "systemd",
    }  # fmt: skip
    tracked = subprocess.run(
        ["git", "ls-files", "judge", "playbooks", "plugins", "roles", "systemd"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if tracked.returncode == 0:  # not so where the tests run outside a repository
        assert set(tracked.stdout.split()) - inside == set()
    assert not [name for name in inside if name.endswith((".pyc", ".token", ".key"))]


def test_the_artefact_has_no_unlisted_files(tmp_path: Path) -> None:
    """A checkout with an inventory and other things that no list names: secrets most of all."""
    (tmp_path / "galaxy.yml").write_text((ROOT / "galaxy.yml").read_text())
    for name in ("README.md", "LICENSE", "roles/x/tasks/main.yml", "inventory/mine/secrets/admin.token", ".venv/x.py",
                 "secrets/pki/ca.key", "lab/x.py", "tests/x.py", "scripts/x", "site.yml", "judge/sandbox/agent",
                 "molecule/x.yml", "pyproject.toml", "out/x", "my-notes", "new/x", "Makefile"):  # fmt: skip
        (tmp_path / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "checkout" / name).write_text("x\n")
    (tmp_path / "galaxy.yml").rename(tmp_path / "checkout/galaxy.yml")
    inside = names(build(tmp_path / "checkout", tmp_path / "output"))
    assert inside == {"FILES.json", "MANIFEST.json", "README.md", "LICENSE", "roles/x/tasks/main.yml"}


@pytest.fixture(scope="module")
def installed(artefact: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which Ansible has the collection, and no checkout."""
    path = tmp_path_factory.mktemp("collections")
    install = [
        BESIDE / "ansible-galaxy",
        "collection",
        "install",
        "--offline",
        artefact,
        "--collections-path",
        path,
    ]
    subprocess.run(install, check=True, capture_output=True)
    environment = os.environ | {"ANSIBLE_COLLECTIONS_PATH": str(path)}
    environment.pop("ANSIBLE_CONFIG", None)
    return environment


def test_ansible_finds_its_playbooks_roles_and_modules(installed: dict[str, str], tmp_path: Path) -> None:
    playbooks = [f"judge.cluster.{path.stem}" for path in sorted((ROOT / "playbooks").glob("*.yml"))]
    roles = [f"judge.cluster.{path.name}" for path in sorted((ROOT / "roles").iterdir())]
    for command in (
        ["ansible-playbook", *playbooks, "--syntax-check", "-i", ROOT / "inventory/example/hosts.yml"],
        ["ansible-doc", "--type", "role", *roles],
        ["ansible-doc", "judge.cluster.judge_place"],
    ):
        run = subprocess.run(
            [BESIDE / command[0], *command[1:]],
            cwd=tmp_path,
            env=installed,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        assert "not found" not in run.stdout + run.stderr, "a role that is not there is no error to ansible-doc"
        assert [name for name in command[1:] if name in roles and name not in run.stdout] == []


PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - judge.cluster.judge_place:
        items: [{dest: DIRECTORY/placed, state: file, src: DIRECTORY/hosts.yml, owner: USER, group: USER, mode: '0644'}]
    - ansible.builtin.import_role: {name: judge.cluster.judge_bundle, tasks_from: wanted}
"""


def test_a_playbook_elsewhere_uses_a_module_and_a_role(installed: dict[str, str], tmp_path: Path) -> None:
    """With the link of docs/ansible.md, by which the role finds its filters."""
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"e1": host}}}))
    text = PLAY.replace("DIRECTORY", str(tmp_path)).replace("USER", getpass.getuser())
    (tmp_path / "play.yml").write_text(text)
    collection = Path(installed["ANSIBLE_COLLECTIONS_PATH"]) / "ansible_collections/judge/cluster"
    (tmp_path / "filter_plugins").symlink_to(collection / "plugins/filter")
    command = [BESIDE / "ansible-playbook", "-i", tmp_path / "hosts.yml", tmp_path / "play.yml"]
    run = subprocess.run(command, cwd=tmp_path, env=installed, capture_output=True, text=True, check=False)
    assert run.returncode == 0 and (tmp_path / "placed").exists(), run.stdout


def test_the_oldest_ansible_has_the_names_that_plug_ins_import() -> None:
    """An older one would end in the middle of a deployment, at the first file that is placed."""
    pinned = re.search(r"^ansible-core==(\d+)\.(\d+)\.", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned
    needed = max(
        since
        for path in (ROOT / "plugins").rglob("*.py")
        for name, since in SINCE.items()
        if re.search(rf"\b{name}\b", path.read_text())
    )
    tested = tuple(map(int, pinned.groups()))
    assert needed <= VERSIONS[0] <= tested <= VERSIONS[1]
