"""What every playbook looks at before it changes anything: read from its tasks, in their order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.playbook_tasks import PLAYBOOKS, ROOT, Task, module, of_playbook

# None of these changes anything; the rest is taken for a change.
LOOKS = {
    "stat", "find", "assert", "debug", "fail", "set_fact", "group_by", "meta", "judge_precheck_host",
    "judge_bundle_verify", "judge_roster", "judge_variables",
}  # fmt: skip
READS = {"judge_removed": "state", "judge_pki_ca": "state"}  # without a state, or with `read`


def changes(task: Task) -> bool:
    """Whether a task may change anything."""
    name = module(task)
    if name in READS:
        return bool((task[name] or {}).get("state", "read") != "read")
    if name in {"judge_wipe", "command"}:
        return not (task.get("changed_when") is False and (task.get("check_mode") or name == "command"))
    if name == "judge_service":
        return bool(task[name].get("mode") != "verify")
    return name not in LOOKS


@pytest.mark.parametrize("playbook", PLAYBOOKS, ids=lambda path: path.stem)
def test_variables_are_looked_at_before_anything_is_changed(playbook: Path) -> None:
    before = []
    for task in of_playbook(playbook):
        if changes(task):
            break
        before.append(module(task))
    assert "judge_variables" in before, f"{playbook.name} begins to change: {task['name']}"


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
