"""One run changes a cluster at a time: real runs of ansible-playbook against hosts that are this machine."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from plugins.filter.judge_inventory import judge_lock_fault
from tests.support.ansible import plugin
from tests.support.servers import wait_for

ROOT = Path(__file__).resolve().parents[2]
LOCK = plugin("action", "judge_deploy_lock")
ACT = plugin("modules", "judge_deploy_lock").act
PLAYBOOK = """
- name: One run at a time
  hosts: judicators:executors
  gather_facts: false
  any_errors_fatal: true
  tasks:
    # As playbooks/tasks/lock.yml, which knows no other path than that of hosts.
    - ansible.builtin.import_role: {{name: judge_common, tasks_from: lock}}
    - ansible.builtin.wait_for: {{path: "{{{{ until }}}}", timeout: 60}}
      run_once: true
      when: until is defined
- name: The next run may begin
  hosts: judicators:executors
  gather_facts: false
  tasks:
    - ansible.builtin.import_tasks: {root}/playbooks/tasks/unlock.yml
"""


class Cluster:
    """Two judicators and an executor that are this machine, and a judicator that cannot be reached."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        self.away = {"ansible_host": "127.0.0.1", "ansible_port": 9}
        self.with_judicators(j1=self.local, j2=self.local, j3=self.away)
        (directory / "play.yml").write_text(PLAYBOOK.format(root=ROOT))
        self.settings = directory / "settings.json"
        lock = f"{directory}/{{{{ judge_common_at | default(inventory_hostname) }}}}.lock"
        self.settings.write_text(json.dumps({"judge_common_lock": lock}))

    def with_judicators(self, **connections: dict[str, object]) -> None:
        """Replace the judicators of the inventory."""
        groups = {"judicators": {"hosts": connections}, "executors": {"hosts": {"e1": self.local}}}
        (self.directory / "hosts.yml").write_text(yaml.safe_dump(groups))

    def start(self, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [Path(sys.executable).parent / "ansible-playbook", "-i", self.directory / "hosts.yml",
             self.directory / "play.yml", "-e", f"@{self.settings}", *options],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env={**os.environ, "ANSIBLE_NOCOLOR": "1", "COLUMNS": "1000"},
        )  # fmt: skip

    def run(self, *options: str) -> tuple[int, str]:
        """A whole run: its exit code, and what it printed."""
        process = self.start(*options)
        text, _ = process.communicate(timeout=120)
        return process.returncode, text

    def locked(self) -> set[str]:
        """Whose lock is taken."""
        return {path.stem for path in self.directory.glob("*.lock")}

    def hold(self, *options: str) -> subprocess.Popen[str]:
        """A run that has the lock until it is told to go on."""
        process = self.start("-e", f"until={self.directory}/go", *options)
        wait_for(lambda: self.locked() == {"j1", "j2"}, what="the lock")
        return process


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_a_second_run_stops_before_it_has_begun(cluster: Cluster) -> None:
    """Whatever --limit says, and though one judicator is away."""
    first = cluster.hold()
    code, text = cluster.run("--limit", "e1")
    assert code != 0
    assert "has had the deploy lock for" in text
    assert "(play.yml)" in text
    assert "judge_lock_take_over=true" in text
    assert cluster.locked() == {"j1", "j2"}
    checked, _ = cluster.run("--check")
    assert checked == 0, "nothing is changed, so nothing is in the way"
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate(timeout=60)
    assert cluster.locked() == {"j1", "j2"}
    code, text = cluster.run("--limit", "e1")
    assert code == 0, f"a run that was killed is no hindrance: {text}"
    assert cluster.locked() == set()


def test_a_run_without_the_lock_of_a_majority_ends_before_it_has_begun(cluster: Cluster) -> None:
    """It names the judicators that it could not reach, and frees the one that it has."""
    cluster.with_judicators(j1=cluster.local, j2=cluster.away, j3=cluster.away)
    code, text = cluster.run("--limit", "e1")
    assert code != 0
    assert "the deploy lock needs a majority of the 3 judicators, and 2 cannot be reached (j2: " in text
    assert "; j3: " in text
    assert "The next run may begin" not in text
    assert cluster.locked() == set()
    dead = {"judge_common_dead": ["j2", "j3"]}
    assert cluster.run("-e", json.dumps(dead))[0] == 0, "the run has looked, and these are known to be dead"
    cluster.with_judicators(j1=cluster.away, j2=cluster.away, j3=cluster.away)
    code, text = cluster.run("--limit", "e1")
    assert code != 0
    assert "3 cannot be reached" in text


@pytest.mark.parametrize("gate", ["fail", "unreachable"])
def test_a_run_that_fails_before_its_first_change_frees_its_lock(cluster: Cluster, gate: str) -> None:
    cluster.with_judicators(j1=cluster.local, j2=cluster.local, j3=cluster.local)
    groups = yaml.safe_load((cluster.directory / "hosts.yml").read_text())
    groups["executors"]["hosts"]["e1"] = {
        **cluster.local, **cluster.away, "ansible_ssh_retries": 0, "ansible_connection": "{{ way | default('local') }}"
    }  # fmt: skip
    (cluster.directory / "hosts.yml").write_text(yaml.safe_dump(groups))
    free = {"ansible.builtin.import_role": {"name": "judge_common", "tasks_from": "free"}}
    fail = {"fail": {"msg": "the cluster could not do without it"}, "when": "inventory_hostname == 'j2'"}
    block = {"block": [fail if gate == "fail" else {"ping": {}}], "rescue": [free]}
    gates = {"hosts": "all", "gather_facts": False, "any_errors_fatal": True, "tasks": [block]}
    gates |= {"vars": {"way": "ssh"}} if gate == "unreachable" else {}
    change = {"hosts": "all", "gather_facts": False, "tasks": [{"debug": {"msg": "changed something"}}]}
    begin, end = yaml.safe_load(PLAYBOOK.format(root=ROOT))
    (cluster.directory / "play.yml").write_text(yaml.safe_dump([begin, gates, change, end]))
    code, text = cluster.run()
    assert code != 0
    assert "changed something" not in text
    assert ("the cluster could not do without it" if gate == "fail" else "unreachable=1") in text
    assert cluster.locked() == set()
    assert "The deploy lock is taken on every judicator that can be reached" in text


def test_a_verb_frees_its_lock_if_a_host_does_not_answer(cluster: Cluster) -> None:
    """Also the only host of the run: nobody else is there to do it."""
    cluster.with_judicators(j1=cluster.local, j2=cluster.local, j3=cluster.local)
    groups = yaml.safe_load((cluster.directory / "hosts.yml").read_text())
    groups["executors"]["hosts"]["e2"] = {**cluster.away, "ansible_become": False, "ansible_ssh_retries": 0}
    (cluster.directory / "hosts.yml").write_text(yaml.safe_dump(groups))
    begin, end = yaml.safe_load(PLAYBOOK.format(root=ROOT))
    gate = {"import_playbook": f"{ROOT}/playbooks/passes/gate.yml"}
    change = {"hosts": "all", "gather_facts": False, "tasks": [{"debug": {"msg": "changed something"}}]}
    (cluster.directory / "play.yml").write_text(yaml.safe_dump([begin, gate, change, end]))
    code, text = cluster.run("--limit", "e2")
    assert code != 0
    assert "nothing was changed: e2 does not answer (" in text
    assert "changed something" not in text
    assert cluster.locked() == set()
    assert "The deploy lock is taken on every judicator that can be reached" in text


def test_the_lock_stays_while_other_hosts_go_on(cluster: Cluster) -> None:
    """A rescue comes after what the others do in its block, as when one judicator has no part in a backup."""
    cluster.with_judicators(j1=cluster.local, j2=cluster.local, j3=cluster.local)
    free = {"ansible.builtin.import_role": {"name": "judge_common", "tasks_from": "free"}}
    fail = {"fail": {"msg": "its disk is full"}, "when": "inventory_hostname == 'j2'"}
    look = {"command": {"argv": ["ls", str(cluster.directory / "j1.lock")]}}
    block = {"block": [fail, look, look], "rescue": [free]}
    begin, end = yaml.safe_load(PLAYBOOK.format(root=ROOT))
    play = {"hosts": "judicators", "gather_facts": False, "tasks": [block]}
    (cluster.directory / "play.yml").write_text(yaml.safe_dump([begin, play, end]))
    code, text = cluster.run()
    assert code != 0
    assert "its disk is full" in text and "failed=1" in text
    assert "No such file" not in text
    assert cluster.locked() == set()


@given(
    st.dictionaries(st.sampled_from(["j1", "j2", "j3", "j4", "j5"]), st.booleans(), min_size=1),
    st.sets(st.sampled_from(["j1", "j2", "j3", "j4", "j5"])),
)
def test_at_most_one_run_has_the_lock(reached: dict[str, bool], dead: set[str]) -> None:
    """Each has a majority, or has found everybody dead whom it does not reach."""
    results = [
        {"judge_common_at": name, "problem": ""} | ({} if reachable else {"unreached": "no route"})
        for name, reachable in reached.items()
    ]
    away = {name for name, reachable in reached.items() if not reachable}
    may = len(reached) - len(away) > len(reached) / 2 or away <= dead
    fault = judge_lock_fault(results, dead)
    assert (fault == "") == may
    assert all(f"{name}: no route" in fault for name in away) or may
    assert "has no judicators" in judge_lock_fault([], dead)


def test_a_run_of_another_controller_keeps_its_lock_until_a_take_over(cluster: Cluster) -> None:
    """Another controller's process cannot be asked for; a run that stops frees its own only."""
    elsewhere = {"run": "x", "who": "anna@desk", "owner": "nightly", "verb": "site.yml", "since": 0}
    (cluster.directory / "j2.lock").write_text(json.dumps(elsewhere))
    code, text = cluster.run()
    assert code != 0
    assert "j2: anna@desk has had the deploy lock for" in text
    assert "days (site.yml)" in text
    assert cluster.locked() == {"j2"}
    code, text = cluster.run("-e", "judge_lock_take_over=true")
    assert code == 0, text
    assert "it was taken over" in text
    (cluster.directory / "j2.lock").write_text(json.dumps(elsewhere))
    assert cluster.run("-e", "judge_lock_owner=nightly")[0] == 0
    assert cluster.locked() == set()


def test_one_of_two_concurrent_take_overs_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert ACT(path, "taken", {"run": "old"}, None, 5.0) == {}
    assert ACT(path, "taken", {"run": "a"}, None, 9.0) == {"run": "old", "since": 5.0, "age": 4.0}
    assert ACT(path, "taken", {"run": "a"}, "old", 10.0) == {}
    assert ACT(path, "taken", {"run": "b"}, "old", 11.0)["run"] == "a"
    assert ACT(path, "taken", {"run": "a"}, None, 20.0) == {}
    assert ACT(path, "read", {"run": "b"}, None, 30.0) == {"run": "a", "since": 10.0, "age": 20.0}
    assert ACT(path, "free", {"run": "b"}, None, 30.0)["run"] == "a"
    assert ACT(path, "free", {"run": "a"}, None, 30.0) == {}
    assert ACT(path, "free", {"run": "a"}, None, 30.0) == {}
    assert not path.exists()


def test_a_lock_that_is_taken_outlives_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file's content is on the disk before its name is, and its name before the run goes on."""
    waited: list[bool] = []
    synced = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (waited.append(stat.S_ISDIR(os.fstat(fd).st_mode)), synced(fd)))
    ACT(tmp_path / "lock", "taken", {"run": "a"}, None, 5.0)
    assert waited == [False, True]
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_run_is_over_when_this_controller_has_its_process_no_more() -> None:
    controller = {"host": "desk", "machine": "m", "boot": "b", "processes": "pid:[1]"}
    own = {"pid": os.getpid(), "started": LOCK.started(os.getpid()), "controller": controller}
    assert own["started"]
    assert not LOCK.is_over(own, controller)
    assert LOCK.is_over({**own, "started": "1"}, controller), "the number is another process's now"
    assert LOCK.is_over({**own, "pid": 2**22 + 1}, controller)
    ended = {**own, "pid": 2**22 + 1}
    assert not LOCK.is_over(ended, {**controller, "host": "lap"})
    assert not LOCK.is_over(ended, {**controller, "processes": "pid:[2]"}), (
        "a container's processes are seen in it only"
    )
    assert LOCK.is_over(own, {**controller, "boot": "c"}), "the controller was started anew"
    assert not LOCK.is_over(
        {**own, "controller": {**controller, "machine": ""}}, {**controller, "boot": "c", "machine": ""}
    )
    assert not LOCK.is_over({"run": "damaged"}, controller)


@pytest.mark.parametrize(("seconds", "text"), [(3, "3 s"), (840, "14 min"), (7300, "2 h"), (1e6, "11 days")])
def test_ages_are_said_as_people_do(seconds: float, text: str) -> None:
    assert LOCK.duration(seconds) == text
