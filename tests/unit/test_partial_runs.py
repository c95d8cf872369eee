"""No option of ansible-playbook makes a playbook change a cluster without its lock, gates and probes."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.ansible import BUILTIN, PLAYBOOKS, ROOT, ansible, read

# These change no cluster: they look, make something on the controller, or free a lock that was left behind.
WITHOUT_LOCK = {"bundle", "precheck", "unlock", "verify"}
VERBS = [path for path in PLAYBOOKS if path.stem not in WITHOUT_LOCK]
# The parts of a host are chosen by tags in this one only; its other plays are always run.
BY_PARTS = {"passes/install.yml", "passes/spare.yml"}
LOCK, UNLOCK = "The deploy lock is taken on every judicator that can be reached", "The deploy lock is freed"
INSTALLED = "Users, directories, kernel settings and the journal's bounds are there"


@pytest.mark.parametrize("path", VERBS, ids=lambda path: path.stem)
def test_a_playbook_runs_whole_with_any_tags(path: Path) -> None:
    if path.stem == "site":
        imported = {str(play.get(f"{BUILTIN}import_playbook")) for play in read(path)}
        assert imported >= BY_PARTS
        return
    assert [play["name"] for play in read(path) if play.get("tags") != ["always"]] == []


@pytest.mark.parametrize("path", VERBS, ids=lambda path: path.stem)
def test_a_playbook_begins_with_the_lock_and_ends_without_it(path: Path) -> None:
    """By the two files that all of them share, in itself or in the playbook that it imports."""
    imports = [str(play.get(f"{BUILTIN}import_playbook")) for play in read(path)]
    begins = any(name in {"passes/begin.yml", "pki.yml"} for name in imports)
    ends = any(name in {"passes/end.yml", "pki.yml", "site.yml"} for name in imports)
    assert begins
    assert ends
    for shared in ("begin", "end"):
        (play,) = read(ROOT / f"playbooks/passes/{shared}.yml")
        assert play["tags"] == ["always"]


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inventory") / "hosts.yml"
    names = {"judicators": ["j1", "j2", "j3"], "executors": ["e1", "e2"], "gateways": ["g1"], "monitors": ["m1"]}
    path.write_text(
        yaml.safe_dump({group: {"hosts": {name: {"ansible_host": "192.0.2.1"} for name in hosts}}
                        for group, hosts in names.items()})
    )  # fmt: skip
    return path


def listed(inventory: Path, playbook: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return ansible("playbook", "-i", inventory, playbook, "--list-tasks", *options)


def tasks(text: str) -> list[str]:
    """The tasks that would be run, without the names of their roles."""
    return [name.rpartition(" : ")[2] for name in re.findall(r"^      (.+?)\tTAGS", text, re.MULTILINE)]


@pytest.mark.parametrize("tag", ["executor", "etcd", "boot", "pki"])
def test_tags_of_a_deployment_leave_its_lock_its_gates_and_its_probes(inventory: Path, tag: str) -> None:
    remaining = tasks(listed(inventory, ROOT / "playbooks/site.yml", "--tags", tag).stdout)
    assert INSTALLED not in remaining
    for task in (
        LOCK,
        "This run has the deploy lock",
        "The cluster could do without each of its services",
        "Changed services are restarted one by one, each between two health gates",
        "Its services are well",
        "A submission is judged from end to end",
        UNLOCK,
    ):
        assert task in remaining, task


@pytest.mark.parametrize("name", ["upgrade", "rollback"])
def test_an_upgrade_is_never_made_in_parts(inventory: Path, name: str) -> None:
    path = ROOT / f"playbooks/{name}.yml"
    complete = tasks(listed(inventory, path).stdout)
    assert INSTALLED in complete
    assert tasks(listed(inventory, path, "--tags", "common,executor").stdout) == complete


@pytest.mark.parametrize("skipped", ["always", "all", "tagged"])
def test_skipping_the_lock_is_refused(inventory: Path, skipped: str) -> None:
    process = listed(inventory, ROOT / "playbooks/site.yml", "--skip-tags", skipped)
    assert process.returncode != 0
    assert f"--skip-tags {skipped} would skip the deploy lock" in process.stderr


@pytest.mark.parametrize("name", ["site", "upgrade", "renew"])
@pytest.mark.parametrize("option", [["--start-at-task", INSTALLED], ["--step"]], ids=lambda option: option[0])
def test_a_run_begins_at_its_first_task(inventory: Path, option: list[str], name: str) -> None:
    """--start-at-task would skip all plays before the task, those of the lock and the gates among them."""
    process = listed(inventory, ROOT / f"playbooks/{name}.yml", *option)
    assert process.returncode != 0
    assert f"{option[0]} could skip the deploy lock" in process.stderr


@pytest.mark.parametrize("name", ["remove", "replace", "recover", "restore"])
def test_a_playbook_that_needs_all_judicators_refuses_a_limit(inventory: Path, name: str) -> None:
    """`remove.yml --limit e2` skipped its plan and its question, whose hosts are the judicators, and wiped e2."""
    path = ROOT / f"playbooks/{name}.yml"
    process = listed(inventory, path, "--limit", "e2")
    assert process.returncode != 0
    assert "with --limit this playbook would not see the whole cluster" in process.stderr
    assert LOCK in tasks(listed(inventory, path).stdout)


@pytest.mark.parametrize("name", ["site", "upgrade", "renew"])
def test_parts_of_a_host_are_left_out_by_site_alone(inventory: Path, name: str) -> None:
    """An upgrade without its release would look done."""
    process = listed(inventory, ROOT / f"playbooks/{name}.yml", "--skip-tags", "common")
    if name == "site":
        assert INSTALLED not in tasks(process.stdout) and LOCK in tasks(process.stdout)
    else:
        assert process.returncode != 0 and "run it without --skip-tags" in process.stderr


@pytest.mark.parametrize(("name", "limit"), [("backup", "e1"), ("monitor", "j1")])
def test_a_limit_without_a_host_that_the_playbook_works_on_is_refused(inventory: Path, name: str, limit: str) -> None:
    """The run would end well, and nothing would have been done."""
    process = ansible("playbook", "-i", inventory, ROOT / f"playbooks/{name}.yml", "--limit", limit)
    assert process.returncode != 0
    assert "of which this run has no host" in process.stdout
