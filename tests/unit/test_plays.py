"""Which hosts the plays work on at a time: asked of ansible-playbook itself."""

import re
from pathlib import Path

import pytest
import yaml

from plugins.filter.judge_inventory import judge_emptied
from tests.support.ansible import LOCAL, ROOT, ansible

# All of a kind would be in a batch of a third together: the gateways at its end, one of them an executor as well.
HOSTS = {
    "judicators": ["j1", "j2", "j3"],
    "executors": [*(f"e{number}" for number in range(1, 6)), "g1"],
    "gateways": ["g1", "g2", "j3"],
}


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inventory") / "hosts.yml"
    groups = {
        group: {"hosts": {name: {"ansible_host": "192.0.2.1"} for name in names}} for group, names in HOSTS.items()
    }
    path.write_text(yaml.safe_dump(groups))
    return path


def listed(inventory: Path, playbook: str, *options: str) -> str:
    run = ansible("playbook", "-i", inventory, playbook, *options)
    assert run.returncode == 0, run.stderr
    return run.stdout


def plays(text: str) -> dict[str, str]:
    parts = re.split(r"^  play #\d+ \([^)]*\): ", text, flags=re.MULTILINE)[1:]
    return {part.split("\t", 1)[0]: part for part in parts}


@pytest.mark.parametrize(
    ("playbook", "word"), [("site.yml", "changes are taken over"), ("playbooks/pki.yml", "are renewed")]
)
def test_hosts_restart_once_and_gateways_one_at_a_time(inventory: Path, playbook: str, word: str) -> None:
    restarts = {name: part for name, part in plays(listed(inventory, playbook, "--list-hosts")).items() if word in name}
    restarted: list[str] = []
    for name, part in restarts.items():
        hosts = re.findall(r"^      (\w+)$", part, re.MULTILINE)
        assert hosts, part
        restarted += hosts
        if set(hosts) & {*HOSTS["judicators"], *HOSTS["gateways"]}:
            assert serial(name) == 1, (name, hosts)
    assert sorted(restarted) == sorted({host for hosts in HOSTS.values() for host in hosts})


def serial(name: str) -> object:
    turns = yaml.safe_load((ROOT / "playbooks/passes/turns.yml").read_text())
    return next(play["serial"] for play in turns if play["name"].partition(":")[0] == name.partition(":")[0])


# Plays that say so, and plays that ask hosts for nothing but the lock, which is the judicators'.
LOOKS = {
    "Look for what would go wrong",
    "Hosts that do not answer are left out",
    "Hosts that do not answer are left out, where the stop is confirmed",
    "One run at a time",
    "The next run may begin",
}


@pytest.mark.parametrize(
    ("playbook", "word"),
    [
        ("site.yml", "Executors, one first"),
        ("playbooks/pki.yml", "Executors, one first"),
        ("playbooks/renew.yml", "Executors, one first"),
        ("playbooks/rollback.yml", "Executors, one first"),
        ("playbooks/stop.yml", "Services stop, one executor first"),
        ("playbooks/upgrade.yml", "Executors, one first"),
    ],
)
def test_hosts_that_are_left_out_are_in_no_play_that_changes_any(inventory: Path, playbook: str, word: str) -> None:
    """A look groups executors that are away; an inventory with that group stands for what it does."""
    hosts = yaml.safe_load(inventory.read_text()) | {"judge_absent": {"hosts": {"e2": {}}}}
    away = inventory.with_name("away.yml")
    away.write_text(yaml.safe_dump(hosts))
    listing = plays(listed(away, playbook, "--list-hosts"))
    for name, part in listing.items():
        members = re.findall(r"^      (\w+)$", part, re.MULTILINE)
        assert ("e2" in members) == (name in LOOKS), name
    first = next(name for name, part in listing.items() if re.search(r"^      e1$", part, re.MULTILINE))
    assert first in LOOKS, "nobody is asked anything else before it is known who is there"
    assert any("e1" in part for name, part in listing.items() if word in name)


@pytest.mark.parametrize(
    ("kind", "name"), [("executors", "e2"), ("gateways", "g1"), ("monitors", "m1"), ("judicators", "j1")]
)
def test_a_host_that_is_down_does_not_stop_a_renewal(tmp_path: Path, kind: str, name: str) -> None:
    """Only a judicator does. Hosts that are there are this machine; the other one refuses connections."""
    away = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_retries": 0}
    names = {"judicators": "j1", "executors": "e1", "gateways": "g2", "monitors": "m2"}
    tree: dict[str, dict[str, dict[str, object]]] = {group: {"hosts": {host: LOCAL}} for group, host in names.items()}
    tree[kind]["hosts"][name] = away
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(tree))
    look = {"import_playbook": str(ROOT / "playbooks/passes/absent.yml"), "vars": {"judge_common_later": "later"}}
    report = {"hosts": "e1", "gather_facts": False, "tasks": [{"debug": {"msg": "absent: {{ groups.judge_absent }}"}}]}
    (tmp_path / "look.yml").write_text(yaml.safe_dump([look, report]))
    run = ansible("playbook", "-i", tmp_path / "hosts.yml", tmp_path / "look.yml")
    left_out = kind != "judicators"
    assert (f"cannot be reached: {name}; later" in run.stdout) == left_out, run.stdout + run.stderr
    assert (f"absent: ['{name}']" in run.stdout) == left_out, run.stdout


def test_a_stop_of_all_executors_or_gateways_is_confirmed(inventory: Path) -> None:
    run = ansible("playbook", "-i", inventory, "playbooks/stop.yml", "--limit", "executors")
    assert run.returncode != 0
    assert "nothing was stopped: this would stop all executors; choose fewer hosts" in run.stdout
    assert "-e confirm=judge" in run.stdout
    assert judge_emptied(HOSTS, ["e1", "e2", "g2", "j3"]) == []
    assert judge_emptied(HOSTS, ["g1", "g2", "j3"]) == ["gateways"]
    assert judge_emptied({"judicators": ["j1"], "executors": []}, ["j1"]) == []


def test_an_interpreter_of_the_command_line_is_refused(inventory: Path) -> None:
    """There it would beat what tasks need; in the inventory it does not."""
    words = ["e1", "-i", inventory, "-m", "judge_variables"]
    run = ansible("", *words, "-e", "ansible_python_interpreter=/usr/bin/python3")
    assert "beats the release's own Python" in run.stdout
    run = ansible("", *words)
    assert run.returncode == 0, run.stdout


def tried(tmp_path: Path, limit: str, absent: list[str], *options: str) -> str:
    """What the look at the hosts that try a release says, in a run with this --limit. Hosts are this machine."""
    local = {"ansible_connection": "local", "ansible_become": False}
    tree = {group: {"hosts": dict.fromkeys(names, local)} for group, names in HOSTS.items()}
    tree["judge_absent"] = {"hosts": dict.fromkeys(absent, local)}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(tree))
    role = {"name": "judge_common", "tasks_from": "tried"}
    look = {"hosts": "all", "gather_facts": False, "tasks": [{"import_role": role}]}
    later = {"hosts": "gateways", "gather_facts": False, "tasks": [{"debug": {"msg": "<{{ judge_common_canary }}>"}}]}
    (tmp_path / "look.yml").write_text(yaml.safe_dump([look, later]))
    run = ansible("playbook", "-i", tmp_path / "hosts.yml", tmp_path / "look.yml", "--limit", limit, *options)
    return run.stdout + run.stderr


@pytest.mark.parametrize(
    ("limit", "absent", "first"),
    [
        ("all", [], "e1"),
        ("all", ["e1"], "e2"),
        ("all", ["e1", "e2", "e3", "e4", "e5"], ""),
        ("all:!e1", [], "e2"),
        ("e5,g1", [], "e5"),
    ],
)
def test_the_first_host_of_an_upgrade_is_in_the_run(tmp_path: Path, limit: str, absent: list[str], first: str) -> None:
    """The precheck groups executors that are away: nobody would follow the first of them."""
    output = tried(tmp_path, limit, absent)
    assert f"<{first}>" in output, output


@pytest.mark.parametrize(
    ("limit", "options", "sentence"),
    [
        ("j1,g1", [], "leaves out all executors, one of which gets the release first"),
        ("all:!e2", ["-e", "judge_upgrade_canary=e2"], "leaves out the executor e2, which gets the release first"),
        ("e1", [], "leaves out all gateways"),
        ("all:!e2", ["-e", "{judge_common_back: {first: e2}}"], "leaves out the executor e2"),
    ],
)
def test_a_release_is_never_untried(tmp_path: Path, limit: str, options: list[str], sentence: str) -> None:
    output = tried(tmp_path, limit, [], *options)
    assert sentence in " ".join(output.split()), output


def test_every_play_names_its_strategy() -> None:
    """A strategy of the user's own ansible.cfg would make run_once and any_errors_fatal, which gates are, nothing."""
    for path in [*ROOT.glob("playbooks/*.yml"), *ROOT.glob("playbooks/passes/*.yml")]:
        for play in yaml.safe_load(path.read_text()):
            assert "hosts" not in play or play.get("strategy") == "linear", (path.name, play["name"])


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("ANSIBLE_PRIVATE_ROLE_VARS", "yes"),
        ("ANSIBLE_HASH_BEHAVIOUR", "merge"),
        ("ANSIBLE_ANY_ERRORS_FATAL", "yes"),
        ("ANSIBLE_TASK_TIMEOUT", "5"),
        ("ANSIBLE_PRECEDENCE", "groups_inventory,all_inventory"),
    ],
)
def test_settings_that_change_what_plays_mean_are_refused(inventory: Path, setting: str, value: str) -> None:
    """As a collection the playbooks are run with somebody else's ansible.cfg."""
    run = ansible("", "e1", "-i", inventory, "-m", "judge_variables", **{setting: value})
    assert f"(env: {setting}), and the playbooks need" in run.stdout, run.stdout + run.stderr
