"""judgectl's reader of inventories: the same hosts, groups and variables that Ansible sees; one sentence per fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from judge.ctl.fleet import inventory_files
from judge.ctl.fleet.inventory import Opaque, natural
from judge.errors import ConfigError, UsageError
from lab import inventory as lab_inventory
from lab.state import Record

ROOT = Path(__file__).resolve().parents[2]

SMALL = """
all:
  vars: {ansible_user: root, judge_https_port: 8443}
judicators:
  hosts:
    j2: {ansible_host: 192.0.2.2}
    j1: {ansible_host: 192.0.2.1, ansible_port: 2222}
executors:
  hosts: {"e[9:11]": {}}
gateways:
  hosts: {j1: }
"""

MANY = {
    "hosts.yml": """
all:
  vars: {a: all, b: all, z: all}
  children:
    judicators:
      hosts:
        j1: {a: host}
        j[2:3]:
    fleet:
      vars: {b: fleet, c: fleet, d: fleet}
      children:
        executors:
          vars: {c: executors}
          hosts:
            e[01:12:5]:
            e[a:b]-x: {ansible_host: 10.0.0.9}
        beta: {vars: {c: beta, ansible_group_priority: 5}}
    alpha:
      hosts: {e01: , e06: }
      vars: {c: alpha, g: alpha}
gateways:
  hosts: {j1: , g1: {g: host}}
""",
    "more.yaml": "beta: {hosts: {e01: }}\ncontrol: {hosts: {desk: }}\n",
    "group_vars/all.yml": "b: file of all\nf: file of all\n",
    "group_vars/executors/one.yml": "c: file one\nd: file one\n",
    "group_vars/executors/two.yml": "c: file two\n",
    "group_vars/alpha.yml": "h: alpha.yml\n",
    "group_vars/alpha.yaml": "h: alpha.yaml, which nobody reads\n",
    "host_vars/e06.yml": "c: file of e06\n",
    "host_vars/j1": "a: file of j1\n",
    "secrets/cluster.yml": "name: judge\n",
    "notes.md": "# no inventory\n",
}


def write(directory: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


def ansible(path: Path) -> tuple[dict, dict]:
    """What Ansible itself makes of it: variables by host, hosts by group."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-inventory")), "-i", str(path), "--list"],
        capture_output=True, text=True, check=True, cwd=ROOT,
        env=os.environ | {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
    )  # fmt: skip
    said = json.loads(done.stdout)
    variables = said.pop("_meta")["hostvars"]
    for one in variables.values():
        one.pop("ansible_local", None)  # a fact, not the inventory's
    groups = {}

    def members(name: str) -> set[str]:
        body = said.get(name, {})
        return set(body.get("hosts", [])).union(*(members(child) for child in body.get("children", [])))

    for name in said:
        groups[name] = members(name)
    return variables, groups


@pytest.mark.parametrize("files", [MANY, {"hosts.yml": SMALL}], ids=["many", "small"])
def test_ansible_sees_the_same(tmp_path: Path, files: dict[str, str]) -> None:
    write(tmp_path, files)
    found = inventory_files.load(tmp_path)
    variables, groups = ansible(tmp_path)
    assert set(found.hosts) == groups["all"]
    for name, host in found.hosts.items():
        mine = {key: one.value for key, one in host.variables.items() if not key.startswith("inventory_")}
        assert mine == variables.get(name, {}), name
    for name, hosts in groups.items():
        if name != "ungrouped":
            assert set(found.groups.get(name, ())) == hosts, name


def test_hosts_are_in_the_order_of_their_kind_and_their_number(tmp_path: Path) -> None:
    found = inventory_files.load(write(tmp_path, {"hosts.yml": SMALL}) / "hosts.yml")
    assert list(found.hosts) == ["j1", "j2", "e9", "e10", "e11"]
    assert found.hosts["j1"].groups == ("gateways", "judicators")
    assert [host.name for host in found.select([])] == ["j1", "j2", "e9", "e10", "e11"]
    assert [host.name for host in found.select(["e1*", "gateways"])] == ["j1", "e10", "e11"]
    assert (found.hosts["j1"].address, found.hosts["j1"].number("ansible_port")) == ("192.0.2.1", 2222)
    assert (found.hosts["e9"].address, found.hosts["e9"].number("ansible_port")) == ("e9", None)
    assert found.hosts["e9"].text("inventory_dir") == str(tmp_path)


def test_hosts_of_other_groups_are_not_the_cluster(tmp_path: Path) -> None:
    found = inventory_files.load(write(tmp_path, MANY))
    assert "desk" not in {host.name for host in found.select([])}
    assert [host.name for host in found.select(["desk"])] == ["desk"]


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [("executor", "did you mean 'executors'?"), ("j11", "did you mean 'j1'?"), ("zzz", "there are j1, j2, e9")],
)
def test_an_unknown_host_is_told_with_what_is_near(tmp_path: Path, pattern: str, sentence: str) -> None:
    found = inventory_files.load(write(tmp_path, {"hosts.yml": SMALL}))
    with pytest.raises(UsageError, match="is no host and no group of") as caught:
        found.select([pattern])
    assert sentence in str(caught.value)


def test_plain_templates_are_filled_in(tmp_path: Path) -> None:
    variables = "base: '/srv/{{ name }}', name: x, dir: '{{base}}/{{ inventory_hostname }}'"
    text = f"all: {{vars: {{{variables}}}, hosts: {{h: }}}}\n"
    host = inventory_files.load(write(tmp_path, {"h.yml": text})).hosts["h"]
    assert host.text("absent", "dir") == "/srv/x/h"
    assert host.text("absent") is None


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("'{{ lookup(''env'', ''HOME'') }}'", "h.yml:3: judge_secrets_dir: judgectl does not work out the template"),
        ("'{% if x %}a{% endif %}'", "h.yml:3: judge_secrets_dir: judgectl does not work out the template"),
        ("'{{ missing }}'", "h.yml:3: judge_secrets_dir: 'missing' in '{{ missing }}' is not set in the inventory"),
        ("'{{ judge_secrets_dir }}'", "leads back to itself"),
        ("!vault abc", "h.yml:3: judge_secrets_dir is written as !vault, which judgectl cannot read"),
        ("[a]", "h.yml:3: judge_secrets_dir: expected a text or a number, found a list"),
    ],
)
def test_what_is_not_understood_is_told_when_it_is_needed(tmp_path: Path, value: str, sentence: str) -> None:
    text = f"all:\n  vars:\n    judge_secrets_dir: {value}\n  hosts: {{h: }}\n"
    host = inventory_files.load(write(tmp_path, {"h.yml": text})).hosts["h"]
    assert host.text("ansible_host") is None
    with pytest.raises(ConfigError) as caught:
        host.text("judge_secrets_dir")
    assert sentence in str(caught.value)
    assert isinstance(host.variables["judge_secrets_dir"].value, Opaque) == value.startswith("!")


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("h.yml", "all:\n  hosts: [a, b]\n", "h.yml:2: expected the hosts of group 'all', found a list"),
        ("h.yml", "all:\n  host:\n    a:\n", "h.yml:2: group 'all' has the key 'host', expected hosts, vars, children"),
        ("h.yml", "all:\n  hosts: {a: b}\n", "h.yml:2: expected a mapping of variables, found 'b'"),
        ("h.yml", "all:\n  vars: 3\n", "h.yml:2: expected a mapping of variables, found '3'"),
        ("h.yml", "all: {hosts: {a: \n", "h.yml:2: not YAML"),
        ("h.yml", "- hosts: all\n", "h.yml:1: expected groups of hosts, found a list; is this a playbook?"),
        ("h.yml", "{}\n", "no hosts in it"),
        ("h.yml", "a: {children: {b: {children: {a: }}}}\nc: {hosts: {x: }}\n", "is its own ancestor"),
        ("h.yml", "all: {hosts: {'e[5:1]': }}\n", "h.yml:1: host 'e[5:1]': expected a range such as"),
        ("h.yml", "all: {hosts: {'e[1:x]': }}\n", "expected a range such as"),
        ("h.yml", "all: {hosts: {'e[0:999999999]': }}\n", "expected a range such as"),
        ("h.yml", "$ANSIBLE_VAULT;1.1;AES256\n", "h.yml:1: is encrypted by ansible-vault"),
        ("h.ini", "[judicators]\nj1\n", "judgectl reads inventories in YAML (.yml, .yaml), not '.ini' files"),
        ("hosts", "[judicators]\nj1 ansible_host=1.2.3.4\n", "judgectl reads inventories in YAML, not INI"),
    ],
)  # fmt: skip
def test_faults_are_one_sentence_with_file_and_line(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    write(tmp_path, {name: text})
    with pytest.raises(ConfigError) as caught:
        inventory_files.load(tmp_path / name)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_inventory_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist; name an inventory's file or directory"):
        inventory_files.load(tmp_path / "none")


def test_a_bad_port_is_told_with_its_line(tmp_path: Path) -> None:
    text = "all:\n  hosts:\n    h:\n      ansible_port: 99999\n"
    host = inventory_files.load(write(tmp_path, {"h.yml": text})).hosts["h"]
    with pytest.raises(ConfigError, match=r"h\.yml:4: ansible_port: expected a port between 1 and 65535, got '99999'"):
        host.number("ansible_port")


def test_the_example_and_the_labs_inventory_are_understood(tmp_path: Path) -> None:
    example = inventory_files.load(ROOT / "inventory/example")
    assert [host.name for host in example.select([])] == ["j1", "j2", "j3", "e1", "e2", "g1"]
    assert example.hosts["j3"].address == "192.0.2.13"
    record = Record("lab", 0, "trixie", "/base", str(tmp_path), hosts={"j1": 11, "e1": 31, "g1": 21})
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(lab_inventory.tree(record), sort_keys=False))
    lab = inventory_files.load(tmp_path)
    assert lab.groups["executors"] == ("e1",)
    assert lab.hosts["g1"].text("ansible_user") == "root"
    assert lab.hosts["g1"].address == record.address("g1")


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 5), st.booleans())
def test_ranges_have_all_their_members(first: int, more: int, step: int, padded: bool) -> None:
    last = first + more
    text = f"e[{first:02d}:{last:02d}:{step}]" if padded else f"e[{first}:{last}:{step}]"
    names = inventory_files.expand(text, "x:1")
    assert [int(name[1:]) for name in names] == list(range(first, last + 1, step))
    if padded:
        assert all(len(name) == 3 for name in names)


@given(st.permutations(["e1", "e2", "e10", "e10a", "e9-2", "e9-10", "f", "10"]))
def test_names_have_one_natural_order(names: list[str]) -> None:
    assert sorted(names, key=natural) == ["10", "e1", "e2", "e9-2", "e9-10", "e10", "e10a", "f"]
