"""A host argument of a playbook is the name of one host, never a pattern: real runs of ansible-playbook."""

import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from plugins.action.judge_variables import HOSTS, VERSIONS, outside, version_fault, wrong_hosts
from plugins.module_utils.judge_names import NOBODY, host_pattern, name_fault
from plugins.module_utils.judge_roster import refusals, unknown
from tests.support.ansible import LOCAL, ROOT, ansible

GROUPS = {
    "judicators": ["j1", "j2", "j3"],
    "executors": ["e1", "e2"],
    "gateways": ["g1"],
    "monitors": ["m1"],
}
ALL = {**GROUPS, "all": [name for names in GROUPS.values() for name in names]}
# The playbook that works on the host which a variable names.
VERBS = {
    "judge_remove": "remove",
    "judge_replace": "replace",
    "judge_survivor": "recover",
    "judge_upgrade_canary": "upgrade",
}
PATTERNS = [
    "a,b", "j2,j3", "j2, j3", "j2:j3", "j2;j3", "e*", "*", "?1", "!j1", "all:!j1", "j1:&judicators", "&judicators",
    "~j.", "j[1:2]", "judicators[0]", "j1 j2", " j1", "j1 ", "j1,", ",j1", "@hosts", "-j1", "j1\n", "{{ 'j2' }},j3",
    ["j2"], ["j2", "j3"], {"j2": "j3"}, 7, True,
]  # fmt: skip
GROUP_NAMES = ["all", "judicators", "executors", "gateways", "monitors", "ungrouped"]
ELSEWHERE = ["localhost", "127.0.0.1", "j9", "J1", "e1.example"]


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inventory") / "hosts.yml"
    groups = {"judicators": ["j2", "j3"], "executors": ["e1"], "gateways": ["g1"]}
    path.write_text(yaml.safe_dump({group: {"hosts": dict.fromkeys(names, LOCAL)} for group, names in groups.items()}))
    return path


def play(
    inventory: Path, verbs: Iterable[str], variables: dict[str, str], *options: str
) -> subprocess.CompletedProcess[str]:
    playbooks = [ROOT / f"playbooks/{verb}.yml" for verb in verbs]
    return ansible("playbook", "-i", inventory, *playbooks, "-e", json.dumps(variables), *options)


def plays(text: str) -> Iterator[tuple[str, set[str]]]:
    """(the pattern, the hosts) of each play that --list-hosts shows."""
    for part in re.split(r"^  play #\d+ ", text, flags=re.MULTILINE)[1:]:
        pattern = re.search(r"^    pattern: \[(.*)\]$", part, re.MULTILINE)
        assert pattern, part
        yield pattern[1], set(re.findall(r"^      (\S+)$", part, re.MULTILINE))


@pytest.mark.parametrize("value", [*PATTERNS, *GROUP_NAMES, *ELSEWHERE], ids=str)
@pytest.mark.parametrize("name", sorted(HOSTS))
def test_a_host_argument_that_is_no_host_name_is_refused(name: str, value: object) -> None:
    groups = {**ALL, "ungrouped": []}
    assert host_pattern(value, groups) == NOBODY
    faults = wrong_hosts({name: value}, groups)
    if name == "judge_remove" and value in ELSEWHERE:  # the cluster's list of members decides
        assert faults == []
        inventory = {group: ALL[group] for group in GROUPS}
        (sentence,) = unknown(healthy(), [str(value)], inventory)
        assert sentence.startswith(f"'{value}' is no host of the inventory")
        return
    (fault,) = faults
    assert fault.startswith(f"{name} is '{value}', which is ")


def test_a_host_outside_of_the_group_judge_is_refused() -> None:
    groups = {"judicators": ["j1"], "executors": ["e1"], "monitors": ["m1"]}
    assert outside(groups) == outside({**groups, "judge": ["j1", "e1", "m1"]}) == []
    (fault,) = outside({**groups, "judge": ["j1", "e1"]})
    assert "m1 of 'monitors' is not in it" in fault


@pytest.mark.parametrize("name", sorted(HOSTS))
def test_the_name_of_one_host_is_accepted(name: str) -> None:
    value = ALL[HOSTS[name]][0]
    assert wrong_hosts({name: value}, ALL) == []
    assert host_pattern(value, ALL) == value
    assert wrong_hosts({name: ""}, ALL) == [], "nothing is named, and each playbook says what it needs"
    assert host_pattern("", ALL) == NOBODY


@given(st.text(min_size=1))
def test_a_pattern_of_ansible_is_never_a_name(text: str) -> None:
    """A name that the inventory has may be odd, and is still not used as a pattern."""
    if set(text) & set(",:;*?!&~[]@ \n\t"):
        assert host_pattern(text, {"all": [text]}) == NOBODY
        assert name_fault("judge_remove", text, {"all": [text]})


def test_plays_for_a_named_host_have_no_hosts_if_a_pattern_is_given(inventory: Path) -> None:
    listed = []
    for value in ("", "j2,j3", "e*"):
        run = play(inventory, VERBS.values(), {**dict.fromkeys(VERBS, value), "confirm": value}, "--list-hosts")
        assert run.returncode == 0, run.stderr
        listed.append(list(plays(run.stdout)))
    assert len(listed[0]) > 20
    assert listed[0] == listed[1] == listed[2]


@pytest.mark.parametrize(("name", "verb"), sorted(VERBS.items()))
def test_a_playbook_ends_before_its_first_change_if_a_pattern_is_given(inventory: Path, name: str, verb: str) -> None:
    run = play(inventory, [verb], {name: "j2,j3", "confirm": "j2,j3"})
    assert run.returncode != 0
    assert "changed: [" not in run.stdout
    assert f"{name} is 'j2,j3', which is" in run.stdout.replace("\\'", "'"), run.stdout
    assert [path.name for path in inventory.parent.iterdir()] == ["hosts.yml"], "nor anything on the controller"


def healthy() -> dict[str, object]:
    members = [{"name": name, "votes": True, "healthy": True} for name in GROUPS["judicators"]]
    executors = [{"name": name, "alive": True, "drain": False} for name in GROUPS["executors"]]
    return {
        "etcd": members,
        "mongodb": members,
        "judicators": GROUPS["judicators"],
        "executors": executors,
        "refused": {},
    }


def test_two_of_three_judicators_do_not_leave_under_one_name() -> None:
    inventory = {group: ALL[group] for group in GROUPS}
    assert unknown(healthy(), ["j2,j3"], inventory)
    assert refusals(healthy(), ["j2", "j3"]) == [], "each may go, one after the other"
    assert unknown(healthy(), ["j2", "m1"], inventory) == []
    assert unknown({**healthy(), "refused": {"j9": 1.0}}, ["j9"], {}) == [], "a removal that was cut off goes on"


@pytest.mark.parametrize(
    ("version", "good"),
    [("2.16.19", False), ("2.18.0", False), ("2.19.0", True), ("2.21.5", True), ("2.22.0rc1", False), ("3.0.0", False)],
)
def test_an_ansible_that_was_never_tried_is_refused(version: str, good: bool) -> None:
    fault = version_fault(version)
    assert not fault if good else f"this is ansible-core {version}, and the playbooks need 2.19 to 2.21; " in fault
    (oldest, newest), text = VERSIONS, (ROOT / "meta/runtime.yml").read_text()
    assert yaml.safe_load(text) == {"requires_ansible": f">=2.{oldest[1]}.0,<2.{newest[1] + 1}.0"}
    script = (ROOT / "scripts/test-ansible-versions").read_text()
    assert f"for minor in {{{oldest[1]}..{newest[1]}}}" in script
