"""What every playbook looks at before it changes anything: read from its tasks, in their order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from judge.errors import UnavailableError
from plugins.modules import judge_service
from tests.support.playbook_tasks import PLAYBOOKS, ROOT, Task, module, of_playbook

# None of these changes anything; the rest is taken for a change.
LOOKS = {
    "stat", "find", "assert", "debug", "fail", "set_fact", "group_by", "meta", "judge_precheck_host",
    "judge_bundle_verify", "judge_roster", "judge_variables", "judge_way_back",
}  # fmt: skip
READS = {"judge_removed", "judge_pki_ca", "judge_upgrade"}  # without a state, or with one of these


def changes(task: Task) -> bool:
    """Whether a task may change anything."""
    name = module(task)
    if name in READS:
        return (task[name] or {}).get("state", "read") not in {"read", "back"}
    if name in {"judge_wipe", "judge_pki_certificates", "command"}:
        return not (task.get("changed_when") is False and (task.get("check_mode") or name == "command"))
    if name == "judge_service":
        return task[name].get("mode") not in {"verify", "spare"}
    return name not in LOOKS


@pytest.mark.parametrize("playbook", PLAYBOOKS, ids=lambda path: path.stem)
def test_variables_are_looked_at_before_anything_is_changed(playbook: Path) -> None:
    before = []
    for task in of_playbook(playbook):
        if changes(task):
            break
        before.append(module(task))
    assert "judge_variables" in before, f"{playbook.name} begins to change: {task['name']}"


# These change no cluster: they look, or make something on the controller, or free a lock that was left behind.
WITHOUT_LOCK = {"bundle", "precheck", "unlock", "verify"}
# The submission that verify.yml has judged, and what keeps a record on this machine alone.
ASKS = {"uri", "judge_secrets"}
FREE_OR_ASK = {*ASKS, "judge_deploy_lock"}
# What comes before the lock although it writes: tasks by name, as what they do is in nobody's way.
BEFORE_THE_LOCK = {
    # The manifest of the backup goes to one judicator, for the plan that is to be confirmed: docs/playbooks/restore.md.
    "restore": {"The host has a place for it", "The host has its manifest"},
}
# What comes after it: the controller's own record, which the next run of the same verb would write as well.
AFTER_THE_LOCK = {"replace": {"The controller's record says that the replacement is over"}}


@pytest.mark.parametrize(
    "playbook", [path for path in PLAYBOOKS if path.stem not in WITHOUT_LOCK], ids=lambda path: path.stem
)
def test_the_lock_is_taken_before_the_first_change_and_freed_last(playbook: Path) -> None:
    """Two runs at once would pass their gates together, and stop more than the cluster can do without."""
    tasks = list(of_playbook(playbook))
    locks = [number for number, task in enumerate(tasks) if state_of_lock(task) == "taken"]
    assert locks, f"{playbook.name} changes a cluster and takes no lock"
    passed = BEFORE_THE_LOCK.get(playbook.stem, set())
    early = {task["name"] for task in tasks[: locks[0]] if changes(task) and module(task) != "judge_secrets"}
    assert early == passed, f"{playbook.name} changes something before it has the lock"
    late = {task["name"] for task in tasks[freed(tasks) :] if changes(task) and module(task) not in FREE_OR_ASK}
    assert late == AFTER_THE_LOCK.get(playbook.stem, set()), f"{playbook.name} changes something without the lock"


def state_of_lock(task: Task) -> str:
    """What a task does with the deploy lock; empty for nothing."""
    return str(task["judge_deploy_lock"]["state"]) if module(task) == "judge_deploy_lock" else ""


def freed(tasks: list[Task]) -> int:
    """The number of the first task that frees the lock of this run, not what it had of another one's."""
    return next(
        number for number, task in enumerate(tasks)
        if state_of_lock(task) == "free" and task["name"] == "The deploy lock is freed"
    )  # fmt: skip


def test_no_other_playbook_changes_a_host() -> None:
    for path in PLAYBOOKS:
        if path.stem in WITHOUT_LOCK - {"bundle", "unlock"}:
            found = [task["name"] for task in of_playbook(path) if changes(task) and module(task) not in ASKS]
            assert found == [], path.name


@pytest.mark.parametrize("name", ["backup", "monitor", "remove", "unlock", "verify"])
def test_a_misspelt_variable_is_refused(name: str, tmp_path: Path) -> None:
    """Hosts that do not exist: whoever asks one of them first says something else."""
    playbook = ROOT / f"playbooks/{name}.yml"
    hosts = {"ansible_host": "192.0.2.1", "ansible_ssh_timeout": 1}
    groups = {"judicators": "j1", "executors": "e1", "gateways": "g1", "monitors": "m1"}
    tree = {group: {"hosts": {host: hosts}} for group, host in groups.items()}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(tree))
    command = [Path(sys.executable).parent / "ansible-playbook", "-i", tmp_path / "hosts.yml", playbook]
    given = ["judge_log_levle=info", "judge_remove=e1", "judge_replace=e1", "judge_survivor=j1"]
    command += [word for one in given for word in ("-e", one)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "ANSIBLE_NOCOLOR": "1"}
    )
    assert done.returncode != 0
    assert "did you mean 'judge_log_level'" in done.stdout + done.stderr, done.stdout[-3000:]
    assert "changed: [" not in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["hosts.yml"], "nor anything on the controller"


@pytest.mark.parametrize("name", ["pki", "renew", "rollback", "rotate", "upgrade"])
def test_what_restarts_services_looks_first_whether_a_majority_would_be_lost(name: str) -> None:
    """At a host's own turn files of all hosts would be others already."""
    before = []
    for task in of_playbook(ROOT / f"playbooks/{name}.yml"):
        if module(task) in {"judge_deploy_lock", "judge_secrets"}:  # gone with the run; this machine's own
            continue
        if changes(task):
            break
        before.append(module(task))
    assert "judge_service" in before, f"{name}.yml begins to change: {task['name']}"


class Health:
    """Of a service of which the cluster says so."""

    def __init__(self, says: str | Exception) -> None:
        self.says = says

    def may_stop(self) -> str:
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


@pytest.mark.parametrize(
    ("says", "unsure", "told"),
    [
        ("", False, ""),
        ("only 1 of 3 voters would be left (j2 is down); bring that back first", True, "only 1 of 3 voters"),
        (UnavailableError("its certificate has expired"), False, "its certificate has expired"),
        (UnavailableError("its certificate has expired"), True, ""),
    ],
)
def test_the_look_says_why_and_does_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str | Exception, unsure: bool, told: str
) -> None:
    service = judge_service.Service.__new__(judge_service.Service)
    service.name, service.deadline = "etcd", 0.0
    service.unit = SimpleNamespace(name="judge-etcd.service")  # nothing else of it is touched
    monkeypatch.setattr(judge_service, "ETC", tmp_path)
    monkeypatch.setattr(judge_service, "health_of", lambda _: Health(says))
    service.spare(unsure=unsure)  # without a config there is nothing to be asked
    (tmp_path / "etcd.yml").touch()
    if not told:
        service.spare(unsure=unsure)
        return
    with pytest.raises(judge_service.UnitError, match=f"judge-etcd.service could not be restarted, so nothing.*{told}"):
        service.spare(unsure=unsure)
