"""What every playbook looks at before it changes anything: read from its tasks, in their order."""

import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from hypothesis import given
from hypothesis import strategies as st

from judge.common.errors import UnavailableError
from plugins.filter.judge_inventory import judge_faults_without
from plugins.module_utils import judge_members
from plugins.modules import judge_host, judge_service
from tests.support.ansible import BUILTIN, PLAYBOOKS, ROOT, Task, flat, module, of_playbook, read

# None of these changes anything; the rest is taken for a change.
LOOKS = {
    "stat", "find", "assert", "debug", "fail", "set_fact", "group_by", "meta", "judge_precheck_host",
    "judge_precheck_listen",
    "judge_bundle_verify", "judge_https", "judge_roster", "judge_variables", "judge_way_back",
}  # fmt: skip
READS = {"judge_removed", "judge_pki_ca", "judge_upgrade"}  # without a state, or with one of these


def changes(task: Task) -> bool:
    """Whether a task may change anything."""
    name = module(task)
    if task.get("check_mode") is True:
        return False
    if name in READS:
        return (task[name] or {}).get("state", "read") not in {"read", "back"}
    if name in {"judge_wipe", "judge_pki_certificates", "command"}:
        return name != "command" or task.get("changed_when") is not False
    if name == "judge_service":
        return task[name].get("mode") not in {"verify", "spare"}
    if name == "judge_host":
        return task[name]["state"] != "spared"
    return name not in LOOKS


def before_change(playbook: Path, *passed: str) -> set[str]:
    """The modules of a playbook's tasks before its first change, but these."""
    modules = ((module(task), changes(task)) for task in of_playbook(playbook) if module(task) not in passed)
    return {name for name, _ in itertools.takewhile(lambda pair: not pair[1], modules)}


@pytest.mark.parametrize("playbook", PLAYBOOKS, ids=lambda path: path.stem)
def test_variables_are_checked_before_the_first_change(playbook: Path) -> None:
    assert "judge_variables" in before_change(playbook), f"{playbook.name} changes something first"


# These change no cluster: they look, or make something on the controller, or free a lock that was left behind.
WITHOUT_LOCK = {"bundle", "precheck", "unlock", "verify"}
# The submission that verify.yml has judged, and what keeps a record on this machine alone.
ASKS = {"uri", "judge_secrets"}
FREE_OR_ASK = {*ASKS, "judge_deploy_lock"}
# Tasks by name that come before the lock although they write, as what they do is in nobody's way.
BEFORE_THE_LOCK = {
    # The manifest of the backup goes to one judicator, for the plan that is to be confirmed: docs/playbooks/restore.md.
    # In check mode it goes into a temporary directory, and is removed.
    "restore": {
        "The host has a place for it",
        "The host has its manifest",
        "Check mode has a place for a moment",
        "Check mode has the manifest for a moment",
        "The moment is over",
    },
}
# Tasks that come after it: the controller's own record, which the next run of the same verb would write as well, and
# the lock's own directory.
AFTER_THE_LOCK = {
    "replace": {"The controller's record says that the replacement is over"},
    "reset": {"Nothing is left of the lock"},
}


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


# None of these refuses a run; a look fails at a host that does not answer.
QUIET = {"set_fact", "group_by", "debug", "meta", "stat", "fail", "judge_deploy_lock"}
# The look at what would be renewed has asked for it.
ASKED_BEFORE = {"The cluster's authority exists"}


@pytest.mark.parametrize(
    "playbook", [path for path in PLAYBOOKS if path.stem not in WITHOUT_LOCK], ids=lambda path: path.stem
)
def test_a_refusal_before_the_first_change_frees_the_lock(playbook: Path) -> None:
    """Nobody has to wait for a run that did nothing, or to take its lock over."""
    tasks = [task for task in of_playbook(playbook) if module(task) not in QUIET]
    (lock, *_) = (number for number, task in enumerate(tasks) if task["name"] == "This run has the deploy lock")
    assert tasks[lock]["freed"]
    own = itertools.takewhile(lambda task: task.get("freed") or not changes(task), tasks[lock:])
    gates = [(task["name"], "freed" in task) for task in own]
    asked = {task["name"] for task in tasks[:lock]} | {name for name, frees in gates if frees} | ASKED_BEFORE
    assert {name for name, frees in gates if not frees} - asked == set()


@pytest.mark.parametrize("name", ["backup", "monitor"])
def test_a_run_that_leaves_the_cluster_as_it_is_frees_its_lock_whatever_fails(name: str) -> None:
    tasks = [task for task in of_playbook(ROOT / f"playbooks/{name}.yml") if module(task) not in QUIET]
    lock = next(number for number, task in enumerate(tasks) if task["name"] == "This run has the deploy lock")
    assert len(tasks) > lock + 5 and all(task.get("freed") for task in tasks[lock:])


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
            tasks = [task["name"] for task in of_playbook(path) if changes(task) and module(task) not in ASKS]
            assert tasks == [], path.name


@pytest.mark.parametrize("name", ["backup", "monitor", "remove", "unlock", "verify"])
def test_a_misspelt_variable_is_refused(name: str, tmp_path: Path) -> None:
    """Hosts that do not exist: whoever asks one of them first says something else."""
    playbook = ROOT / f"playbooks/{name}.yml"
    hosts = {"ansible_host": "192.0.2.1", "ansible_ssh_timeout": 1}
    groups = {"judicators": "j1", "executors": "e1", "gateways": "g1", "monitors": "m1"}
    tree = {group: {"hosts": {host: hosts}} for group, host in groups.items()}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(tree))
    command = [Path(sys.executable).parent / "ansible-playbook", "-i", tmp_path / "hosts.yml", playbook]
    variables = ["judge_log_levle=info", "judge_remove=e1", "judge_replace=e1", "judge_survivor=j1"]
    command += [word for variable in variables for word in ("-e", variable)]
    run = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "ANSIBLE_NOCOLOR": "1"}
    )
    assert run.returncode != 0
    assert "did you mean 'judge_log_level'" in run.stdout + run.stderr, run.stdout[-3000:]
    assert "changed: [" not in run.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["hosts.yml"], "nor anything on the controller"


@pytest.mark.parametrize(
    "name", ["maintain", "pki", "reboot", "renew", "rollback", "rotate", "site", "stop", "upgrade"]
)
def test_playbooks_that_restart_services_check_the_majority_first(name: str) -> None:
    """At a host's own turn files of all hosts would be others already."""
    # The lock is gone with the run, and secrets are this machine's own.
    looks = before_change(ROOT / f"playbooks/{name}.yml", "judge_deploy_lock", "judge_secrets")
    assert looks & {"judge_service", "judge_host"}, f"{name}.yml changes something first"


def when_due(**changed: object) -> object:
    """The first look's own condition, whether something is due at all, on a host with such a release and bundle."""
    (task,) = (task for task in read(ROOT / "playbooks/tasks/spare.yml") if "judge_service" in task)
    variables = {
        "judge_version": "2",
        "judge_common_before": {"stat": {"exists": True, "lnk_target": "/opt/judge/releases/2-abc"}},
        "judge_common_bundle_before": {"stat": {"checksum": "new"}} if "judge_common_coming" in changed else {},
        **changed,
    }
    expressions = {name: trust_as_template(text) for name, text in task["vars"].items()}
    templar = Templar(loader=DataLoader(), variables={**expressions, **variables})
    return templar.template(trust_as_template("{{ " + task["when"][-1] + " }}"))


@pytest.mark.parametrize(
    ("changed", "due"),
    [
        ({}, False),
        ({"judge_version": "3"}, True),
        ({"judge_common_wanted": "1"}, True),
        ({"judge_common_coming": "new"}, False),
        ({"judge_common_coming": "newer"}, True),
        ({"judge_common_coming": "newer", "judge_common_bundle_before": {"stat": {"exists": False}}}, True),
        ({"judge_common_coming": "", "judge_common_bundle_before": {"skipped": True}}, False),
        ({"judge_common_packages": True}, True),
        ({"judge_version": "3", "judge_common_due": False}, False),
    ],
)
def test_another_release_or_another_bundle_is_due(changed: dict[str, object], due: bool) -> None:
    """etcd and mongod come with the bundle, whatever the release of judge is."""
    assert when_due(**changed) is due


@pytest.mark.parametrize("name", ["upgrade", "rollback"])
def test_the_check_knows_the_coming_bundle(name: str) -> None:
    tasks = [task for play in read(ROOT / f"playbooks/{name}.yml") for task in play.get("tasks", [])]
    tasks += [task for block in tasks for task in block.get("block", [])]
    (look,) = (task for task in tasks if task.get(f"{BUILTIN}import_tasks") == "tasks/spare.yml")
    assert "judge_common_coming" in look["vars"]


@pytest.mark.parametrize(
    ("status", "faults", "passes"),
    [
        (200, [], True),
        (200, ["executor 'e2' does not report"], True),
        (200, ["executor 'e1' does not report", "executor 'e2' does not report"], False),
        (200, ["no executor is alive; nothing is judged until one reports", "executor 'e2' does not report"], False),
        (
            200,
            ["etcd member j2 (10.0.0.2:2379) is not healthy", "mongod 10.0.0.2:27017 is DOWN and not healthy"],
            True,
        ),
        (
            200,
            ["etcd member j2 (10.0.0.2:2379) is not healthy", "mongod 10.0.0.22:27017 is DOWN and not healthy"],
            False,
        ),
        (200, ["etcd member j2-b (10.0.0.9:2379) is not healthy"], False),
        (503, None, False),
        (-1, None, False),
    ],
)
def test_faults_of_hosts_outside_a_run_do_not_end_it(status: int, faults: list[str] | None, passes: bool) -> None:
    """verify.yml waits for a healthy cluster; the sentences are those of judge/judicator/status.py."""
    tasks = flat(read(ROOT / "playbooks/tasks/judge_one.yml"), ROOT)
    (task,) = [task for task in tasks if task.get("register") == "judge_verify_health"]
    answer = {"status": status} | ({} if faults is None else {"json": {"faults": faults}})
    expressions = {name: trust_as_template(text) for name, text in task["vars"].items()}
    groups = {"judicators": ["j1", "j2"], "executors": ["e1", "e2"], "judge_verified": ["j1", "e1", "g1"]}
    hosts = {f"{kind}{number}": {"ansible_host": f"10.0.0.{number}"} for kind in "je" for number in (1, 2)}
    hosts["e2"]["ansible_host"] = "e2.lan"
    variables = {**expressions, "judge_verify_health": answer, "groups": groups, "hostvars": hosts}
    templar = Templar(loader=DataLoader(), variables=variables)
    assert templar.template(trust_as_template("{{ " + task["until"] + " }}")) is passes
    text = (ROOT / "judge/judicator/status.py").read_text(encoding="utf-8")
    assert (
        "executor '{executor.name}' does not report" in text
        and "etcd member {member.name} ({member.address}) is not" in text
    )


@given(st.sets(st.from_regex(r"[a-z][a-z0-9-]{0,6}", fullmatch=True), min_size=2))
def test_a_fault_is_a_host_s_own_by_its_whole_name(names: set[str]) -> None:
    own, *neighbours = sorted(names)
    faults = [f"etcd member {name} (10.0.0.1:2379) is not healthy" for name in (own, *neighbours)]
    assert judge_faults_without(faults, {own: "fd00::1"}) == faults[1:]
    mongods = [f"mongod [{address}]:27017 is DOWN and not healthy" for address in ("fd00::1", "fd00::11")]
    assert judge_faults_without(mongods, {own: "fd00::1"}) == mongods[1:]
    assert judge_faults_without(faults, {}) == faults


@pytest.mark.parametrize(
    ("deployed", "replacing", "replaced", "goes_on"),
    [
        (False, False, False, True),  # another machine
        (True, False, False, False),  # the old one
        (True, True, False, True),  # a run was cut off
        (True, False, True, True),  # a run has ended
    ],
)
def test_a_replacement_may_be_run_again(deployed: bool, replacing: bool, replaced: bool, goes_on: bool) -> None:
    variables = {
        "judge_hosts_certificate": {"stat": {"exists": deployed}},
        "groups": {"judge_keepers": ["j1"]},
        "hostvars": {"j1": {"judge_hosts_removed": {"replacing": replacing, "replaced": replaced}}},
    }
    tasks = [task for play in read(ROOT / "playbooks/replace.yml") for task in play.get("tasks", [])]
    (condition,) = (task[f"{BUILTIN}assert"]["that"] for task in tasks if task["name"] == "It is another machine")
    templar = Templar(loader=DataLoader(), variables=variables)
    assert templar.template(trust_as_template("{{ " + condition + " }}")) is goes_on


class Unit:
    """A unit of systemd that runs; `state` is what its status line says."""

    def __init__(self, state: str = "") -> None:
        self.running = self.active = True
        self.missing = False
        self.shown = {"StatusText": state, "UnitFileState": "enabled"}

    def look(self) -> dict[str, str]:
        return self.shown

    def systemctl(self, verb: str) -> None:
        raise AssertionError(verb)


@pytest.mark.parametrize(
    ("state", "signals"), [("drained, 0 tasks in hand", ["SIGUSR2"]), ("judging 0 of 2 slots", [])]
)
def test_an_executor_resumes_when_its_host_may_not_stop(
    monkeypatch: pytest.MonkeyPatch, state: str, signals: list[str]
) -> None:
    host = judge_host.HostUnits.__new__(judge_host.HostUnits)
    params = {"gate": True, "enabled": True, "patience": 0}
    host.module = SimpleNamespace(params=params, check_mode=False)
    host.boot, host.executor, host.patience = Unit(), Unit(state), 0.0
    signalled: list[str] = []

    def signal(name: str) -> None:
        signalled.append(name)
        host.executor.shown["StatusText"] = "judging 0 of 2 slots"

    monkeypatch.setattr(host, "_signal", signal)
    monkeypatch.setattr(judge_members, "health_of", lambda _: Health("only 1 of 3 voters would be left"))
    for act in (host.spare, host.stop):
        with pytest.raises(judge_host.UnitError, match="was not stopped, its services run on: only 1 of 3 voters"):
            act()
        assert signalled == (signals if act == host.stop else []), "a look touches nothing"


class Health:
    """Of a service of which the cluster says so."""

    def __init__(self, says: str | Exception) -> None:
        self.says = says

    def may_stop(self) -> str:
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


@pytest.mark.parametrize(
    ("says", "unsure", "sentence"),
    [
        ("", False, ""),
        ("only 1 of 3 voters would be left (j2 is down); bring that back first", True, "only 1 of 3 voters"),
        (UnavailableError("its certificate has expired"), False, "its certificate has expired"),
        (UnavailableError("its certificate has expired"), True, ""),
    ],
)
def test_a_refused_restart_gives_the_reason_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str | Exception, unsure: bool, sentence: str
) -> None:
    service = judge_service.HostService.__new__(judge_service.HostService)
    service.name, service.deadline = "etcd", 0.0
    service.unit = SimpleNamespace(name="judge-etcd.service")  # nothing else of it is touched
    monkeypatch.setattr(judge_service, "ETC", tmp_path)
    monkeypatch.setattr(judge_members, "health_of", lambda _: Health(says))
    service.spare(unsure=unsure)  # without a config there is nothing to be asked
    (tmp_path / "etcd.yml").touch()
    if not sentence:
        service.spare(unsure=unsure)
        return
    with pytest.raises(
        judge_service.UnitError, match=f"judge-etcd.service could not be restarted, so nothing.*{sentence}"
    ):
        service.spare(unsure=unsure)


def test_tasks_with_no_log_still_report_their_failure() -> None:
    """Of a task with no_log Ansible shows nothing but the message: a later one says what the result says is wrong.

    Our own modules have it in the message.
    """
    hiding = 0
    for path in [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/**/*.yml")]:
        content = read(path)
        tasks = [task for part in content for task in part.get("tasks", [part])]
        for number, (task, rescued) in enumerate(rows := list(unfolded(tasks))):
            if not task.get("no_log") or module(task).startswith("judge_"):
                continue
            hiding += 1
            assert "failed_when" in task or rescued, (path.name, task["name"])
            later = [
                str(task_after.get(f"{BUILTIN}assert") or task_after.get(f"{BUILTIN}fail"))
                for task_after, _ in rows[number + 1 :]
            ]
            assert any(task["register"] in text for text in later), (path.name, task["name"])
    assert hiding >= 7


def unfolded(tasks: list[Task], *, rescued: bool = False) -> Iterator[tuple[Task, bool]]:
    """Each task, and whether its block has a rescue."""
    for task in tasks:
        yield task, rescued
        for part in ("block", "rescue", "always"):
            yield from unfolded(task.get(part, []), rescued=part == "block" and "rescue" in task)


class Refusing(BaseHTTPRequestHandler):
    """A gateway whose cluster is healthy and takes nothing; or has faults."""

    faults: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        if self.path.endswith("/status"):
            authorized = self.headers["Authorization"] == "Bearer a-token-of-nobody"
            self.answer(200, {"faults": self.faults if authorized else ["there are some"]})
        else:
            self.answer(200, {"languages": [{"name": "c"}]})

    def do_POST(self) -> None:
        self.answer(503, {"code": "busy", "error": "the queue is full: 9 of 9 tasks wait"})

    def answer(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("faults", "sentence"),
    [
        (["no executor is alive"], "the cluster is not healthy: no executor is alive"),
        ([], "the gateway answers 503: the queue is full: 9 of 9 tasks wait"),
    ],
)
def test_verify_says_why_nothing_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: list[str], sentence: str
) -> None:
    monkeypatch.setattr(Refusing, "faults", faults)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _, *tasks = read(ROOT / "playbooks/tasks/judge_one.yml")  # nginx comes first
    tasks[0]["block"][0] |= {"retries": 1, "delay": 0}
    (tmp_path / "play.yml").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    (tmp_path / "admin.token").write_text("a-token-of-nobody")
    command = [Path(sys.executable).parent / "ansible-playbook", "-i", "g1,", "-c", "local", tmp_path / "play.yml"]
    variables = [f"judge_gateway_port={server.server_port}", f"judge_secrets_dir={tmp_path}"]
    variables.append(f"ansible_python_interpreter={sys.executable}")
    options = [word for variable in variables for word in ("-e", variable)]
    run = subprocess.run([*command, *options, "-vvv"], cwd=ROOT, capture_output=True, text=True, check=False)
    server.shutdown()
    server.server_close()
    assert run.returncode != 0
    assert sentence in run.stdout, run.stdout[-3000:]
    assert "a-token-of-nobody" not in run.stdout
