"""A cluster's secrets on the controller: where they are, encrypted by ansible-vault, or given as variables."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from judge.backup.__main__ import main as backup
from judge.backup.keys import OperatorKey
from judge.backup.repository import Repository
from judge.common import files
from judge.common.pki.authority import Authority
from tests.support.ansible import ROOT, ansible, plugin
from tests.support.lab import files_below

SECRETS = plugin("action", "judge_secrets")
ON_CONTROLLER = """
- hosts: localhost
  gather_facts: false
  tasks:
    - judge_secrets: {{directory: "{directory}", secrets: "{{{{ judge_secrets }}}}"}}
      when: judge_secrets is defined
    - judge_cluster:
        {{directory: "{directory}", name: test, judicators: [j1], targeted: [j1], formed: "{{{{ formed }}}}"}}
      register: made
    - judge_pki_ca: {{path: "{directory}/pki", name: test, state: "{{{{ 'read' if formed | bool else 'present' }}}}"}}
      register: authority
    - debug:
        msg: "{{{{ made.made }}}} problem={{{{ authority.problem }}}} left={{{{ authority.days_left | default(0) }}}}"
"""


def test_secrets_and_bundles_are_beside_the_inventory_and_not_in_it(tmp_path: Path) -> None:
    inventory = tmp_path / "mine"
    inventory.mkdir()
    (inventory / "hosts.yml").touch()
    for source in (inventory, inventory / "hosts.yml"):
        assert files.beside([str(source)], "secrets") == tmp_path / "mine.secrets"
    assert (
        files.beside(["j1,", str(tmp_path / "none"), str(inventory), str(tmp_path)], "bundle")
        == tmp_path / "mine.bundle"
    )
    assert files.beside(["j1,"], "secrets") is None
    (inventory / "secrets").mkdir()
    assert files.beside([str(inventory)], "secrets") == inventory / "secrets", (
        "that of a cluster that was deployed before"
    )


@pytest.mark.parametrize(
    ("inventory", "expected"),
    [
        (["-i", "{0}/mine", "-i", "{0}/more"], "{0}/mine.secrets"),
        (["-i", "{0}/more", "-i", "{0}/mine"], "{0}/more.secrets"),
        (["-i", "h1,h2,"], "set judge_secrets_dir"),
    ],
)
def test_all_hosts_have_one_directory_for_secrets(tmp_path: Path, inventory: list[str], expected: str) -> None:
    for name, host in (("mine", "h1"), ("more", "h2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "hosts.yml").write_text(f"all: {{hosts: {{{host}: }}}}\n")
    default = yaml.safe_load((ROOT / "roles/judge_common/defaults/main.yml").read_text())["judge_secrets_dir"]
    hosts = [word.format(tmp_path) for word in inventory]
    run = ansible("", *hosts, "all", "-m", "debug", "-a", f"msg={default}")
    answers = [line for line in run.stdout.splitlines() if '"msg":' in line and expected.format(tmp_path) in line]
    assert len(answers) == 2, run.stdout + run.stderr


def test_an_inventory_in_a_directory_of_several_has_no_hosts_out_of_secrets(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/hosts.yml").write_text("all: {hosts: {h1: }}\n")
    (tmp_path / "mine.secrets").mkdir()
    (tmp_path / "mine.secrets/admin.token").write_text("hush\n")
    run = ansible("inventory", "-i", tmp_path, "--list")
    assert '"h1"' in run.stdout
    assert "hush" not in run.stdout + run.stderr


def play(tmp_path: Path, directory: Path, variables: dict[str, Any], *options: str) -> str:
    """What a run on the controller says; AssertionError when it fails."""
    playbook = tmp_path / "play.yml"
    playbook.write_text(ON_CONTROLLER.format(directory=directory))
    extra_vars = tmp_path / "given.yml"
    extra_vars.write_text(yaml.safe_dump(variables))
    run = ansible("playbook", "-i", "localhost,", "-c", "local", playbook, "-e", f"@{extra_vars}", *options)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_encrypted_files_are_used_and_stay_encrypted(tmp_path: Path) -> None:
    """With a vault of two passwords, each file with the one that has encrypted it."""
    directory, first, second = tmp_path / "secrets", tmp_path / "first", tmp_path / "second"
    first.write_text("one\n")
    second.write_text("two\n")
    play(tmp_path, directory, {"formed": False})
    plain = files_below(directory)
    vault = [f"--vault-id=a@{first}", f"--vault-id=b@{second}"]
    names = [str(directory / name) for name in plain if name != ".lock"]
    ansible("vault", "encrypt", *vault, "--encrypt-vault-id=b", *names).check_returncode()
    output = play(tmp_path, directory, {"formed": True}, *vault)
    assert "['cluster.yml'] problem= left=3649" in output
    record = (directory / "cluster.yml").read_text()
    assert record.startswith("$ANSIBLE_VAULT;1.2;AES256;b")
    view = ansible("vault", "view", f"--vault-id=b@{second}", directory / "cluster.yml")
    assert "formed: true" in view.stdout
    assert "[] problem= " in play(tmp_path, directory, {"formed": True}, *vault)


def test_a_controller_that_keeps_nothing_is_given_everything(tmp_path: Path) -> None:
    source, fresh = tmp_path / "kept", tmp_path / "fresh/secrets"
    play(tmp_path, source, {"formed": False})
    play(tmp_path, source, {"formed": True})
    assert backup(["keys", "--secrets", str(source)]) == 0
    secrets = {name: data.decode() for name, (_, data) in files_below(source).items() if name in SECRETS.NEEDED}
    assert set(secrets) == set(SECRETS.NEEDED)
    record = yaml.safe_load(secrets["cluster.yml"])
    output = play(tmp_path, fresh, {"formed": True, "judge_secrets": {**secrets, "cluster.yml": record}})
    assert "[] problem= left=3649" in output, "nothing was made"
    copies = files_below(fresh)
    assert {name: data.decode() for name, (_, data) in copies.items() if name in secrets} == secrets | {
        "cluster.yml": copies["cluster.yml"][1].decode()
    }
    assert all(mode & 0o077 == 0 for name, (mode, _) in copies.items() if name in secrets)
    assert fresh.stat().st_mode & 0o077 == 0


def test_missing_secrets_are_named_without_values(tmp_path: Path) -> None:
    secrets = dict.fromkeys(SECRETS.NEEDED, "hush")
    for name in SECRETS.NEEDED:
        with pytest.raises(ValueError, match=f"lacks {name}, and nothing would keep") as caught:
            SECRETS.contents({**secrets, name: ""})
        assert "hush" not in str(caught.value)
    for odd in ("../x", "/etc/passwd", "pki/../../x", "a/b", ".ssh"):
        with pytest.raises(ValueError, match="is no file of judge_secrets_dir"):
            SECRETS.contents({**secrets, odd: "hush"})


def run_tasks(tmp_path: Path, tasks: list[dict[str, Any]], variables: dict[str, Any], *options: str | Path) -> str:
    """What a play of these tasks says on the controller, which stands for a host."""
    playbook = tmp_path / "tasks.yml"
    own = {"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": tasks}
    playbook.write_text(yaml.safe_dump([own]))
    run = ansible("playbook", "-i", "localhost,", "-c", "local", playbook, *options)
    return f"{run.returncode} {run.stdout}{run.stderr}"


def encrypted(path: Path, password: Path) -> None:
    ansible("vault", "encrypt", "--vault-password-file", password, path).check_returncode()


def test_a_backup_takes_the_secrets_along_when_its_key_is_encrypted(tmp_path: Path) -> None:
    """The role's own tasks; what they were given is nowhere to be seen."""
    own, password, key = tmp_path / "mine.secrets", tmp_path / "password", OperatorKey.new()
    own.mkdir()
    password.write_text("one\n")
    (own / "admin.token").write_text("hush\n")
    (own / "backup.signkey").write_text(key.controller_key().text())
    encrypted(own / "backup.signkey", password)
    tasks = yaml.safe_load((ROOT / "roles/judge_backup/tasks/write.yml").read_text())[:3]
    assert "ansible.builtin.assert" in tasks[-1], "what the first one says is looked at right after it"
    variables = yaml.safe_load((ROOT / "roles/judge_backup/vars/main.yml").read_text())
    names = {"judge_secrets_dir": str(own), "judge_backup_copies": str(tmp_path / "copies")}
    names |= {"judge_backup_project": str(ROOT)}
    names |= {name: variables[name] for name in ("judge_backup_controller", "judge_backup_dry_run")}
    vault = ["--vault-password-file", password, "-vvv"]
    output = run_tasks(tmp_path, tasks, names, *vault)
    assert output.startswith("0 "), output
    assert key.controller_key().text().strip() not in output
    assert len(list(Repository(tmp_path / "copies").secrets.iterdir())) == 2, "a file, and which one it is"
    (own / "backup.signkey").write_text("no key\n")
    output = run_tasks(tmp_path, tasks, names, *vault)
    assert output.startswith("2 "), output
    assert "this is not the controller's key of backups" in output, (
        "the sentence is read although the task says nothing"
    )
    (own / "backup.signkey").unlink()
    output = run_tasks(tmp_path, tasks, names, *vault)
    assert output.startswith("2 "), output
    assert "put backup.key beside it for the next run" in output


@pytest.mark.parametrize("state", ["noted", "settled"])
def test_the_record_of_removed_hosts_may_be_encrypted(tmp_path: Path, state: str) -> None:
    pki, password = tmp_path / "pki", tmp_path / "password"
    pki.mkdir()
    password.write_text("one\n")
    (pki / "removed.yml").write_text("e2: {before: 1.5, back: false, replacing: true}\n")
    encrypted(pki / "removed.yml", password)
    task = {"judge_removed": {"directory": str(pki), "name": "e2", "state": state}, "register": "judge_told"}
    output = run_tasks(tmp_path, [task], {}, "--vault-password-file", password, "-v")
    assert output.startswith("0 ") and "changed=1" in output, output
    assert (pki / "removed.yml").read_text().startswith("$ANSIBLE_VAULT")
    record = yaml.safe_load(ansible("vault", "view", "--vault-password-file", password, pki / "removed.yml").stdout)
    assert record["e2"]["replacing"] is False
    assert (record["e2"]["before"] == 1.5) == (state == "settled")


def test_the_whole_record_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "removed.yml").write_text("e1: {before: 1.5, back: true}\ne2: {before: 2.5, back: false}\n")
    tasks = [
        {"judge_removed": {"directory": str(tmp_path)}, "register": "judge_record"},
        {"assert": {"that": ["judge_record.refused == {'e1': 1.5, 'e2': 2.5}", "judge_record is not changed"]}},
    ]
    output = run_tasks(tmp_path, tasks, {})
    assert output.startswith("0 "), output


def test_given_secrets_refuse_a_removal(tmp_path: Path) -> None:
    """A removal whose record is lost would make old certificates count as good again."""
    task = {"judge_removed": {"directory": str(tmp_path), "name": "e2", "given": True}}
    output = run_tasks(tmp_path, [task], {})
    assert output.startswith("2 ") and "nothing would keep the record of removed hosts" in output, output
    parameters = yaml.safe_load((ROOT / "roles/judge_hosts/tasks/roster.yml").read_text())[0]["judge_removed"]
    assert "judge_secrets" in parameters["given"]


@pytest.mark.parametrize(
    "inventory",
    ["inventory/hosts.yml", "inventory/mine/hosts.yml", "inventory/mine", "etc/hosts.ini", "deploy/cluster.d"],
)
def test_git_takes_no_secret_whatever_the_layout(tmp_path: Path, inventory: str) -> None:
    source = tmp_path / inventory
    source.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix in {".yml", ".ini"}:
        source.write_text("")
    else:
        source.mkdir()
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    directory = files.beside([str(source)], "secrets")
    assert directory is not None
    files.secret_directory(directory)
    assert [path.name for path in directory.iterdir()] == [".gitignore"]
    assert backup(["keys", "--secrets", str(directory)]) == 0
    Authority(directory / "pki").make("judge", 10)
    elsewhere = tmp_path / "authority"
    Authority(elsewhere).make("judge", 10)
    paths = [path for room in (directory, elsewhere) for path in room.rglob("*") if path.is_file()]
    assert len(paths) > 6
    command = ["git", "-C", tmp_path, "check-ignore", *paths]
    ignored = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    assert sorted(ignored) == sorted(map(str, paths))
