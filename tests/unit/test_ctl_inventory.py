"""judgectl's view of inventories: what Ansible sees; one sentence per fault; secrets in no log."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from judge.common.errors import ConfigError, UsageError
from judge.ctl.fleet import ansible, inventory
from judge.ctl.fleet.ansible import Sources
from judge.ctl.fleet.inventory import Host, Inventory, natural
from judge.ctl.fleet.ssh_target import VARIABLES
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

# As Kubespray and many others write it.
INI = """
[all]
node[1:6] ansible_user=deploy
node1 ansible_host=192.0.2.1 ansible_port=2201
localhost ansible_connection=local

[judicators]
node[1:3]

[executors]
node[4:6]

[gateways]
node1

[machines:children]
judicators
executors

[machines:vars]
ansible_ssh_common_args='-o ProxyJump=jump@192.0.2.9 -o StrictHostKeyChecking=no'
"""

DIRECTORY = {
    "01-hosts.yml": """
all:
  vars: {a: all, b: all}
  children:
    machines:
      vars: {b: machines, c: machines}
      children:
        near: {children: {judicators: {hosts: {j1: {a: host}}}}}
        executors: {hosts: {"e[01:12:5]": }, vars: {c: executors}}
""",
    "02-more": "[gateways]\nj1\n\n[gateways:vars]\nd=two\n",
    "group_vars/all/one.yml": "e: one\nf: one\n",
    "group_vars/all/two.yml": "f: two\n",
    "group_vars/executors.yml": "c: file of executors\n",
    "host_vars/e06/login.yml": "ansible_user: six\n",
    "host_vars/e06/more.yml": "c: file of e06\n",
    "secrets/admin.token": "hush\n",
    "secrets/cluster.yml": "name: judge\n",
    "notes.md": "# no inventory\n",
}


def write(directory: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


def load(*paths: Path, vault: Path | None = None) -> Inventory:
    return ansible.load(Sources(tuple(map(str, paths)), (vault,) if vault else ()))


def filled(path: Path, *names: str, vault: Path | None = None, host: str = "h") -> Host:
    sources = Sources((str(path),), (vault,) if vault else ())
    return ansible.filled(sources, [ansible.load(sources).hosts[host]], names)[0]


# --- what people have -------------------------------------------------------------------------------------------------


def test_an_ini_inventory_with_ranges_children_and_variables(tmp_path: Path) -> None:
    cluster = load(write(tmp_path, {"hosts.ini": INI}) / "hosts.ini")
    assert [host.name for host in cluster.select([])] == [f"node{number}" for number in range(1, 7)]
    assert cluster.groups["machines"] == tuple(f"node{number}" for number in range(1, 7))
    assert cluster.hosts["node1"].groups == ("gateways", "judicators", "machines")
    assert (cluster.hosts["node1"].address, cluster.hosts["node1"].number("ansible_port")) == ("192.0.2.1", 2201)
    assert "ProxyJump=jump@192.0.2.9" in (cluster.hosts["node6"].text("ansible_ssh_common_args") or "")
    assert cluster.hosts["localhost"].groups == ()


def test_a_directory_with_children_of_children_and_many_files_of_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "mine", DIRECTORY)
    monkeypatch.chdir(tmp_path)  # no ansible.cfg there says which directories are no inventories
    cluster = load(tmp_path / "mine")
    assert list(cluster.hosts) == ["j1", "e01", "e06", "e11"], "nothing of the secrets is a host"
    assert cluster.groups["machines"] == ("j1", "e01", "e06", "e11")
    values = {name: {key: host.text(key) for key in "abcdef"} for name, host in cluster.hosts.items()}
    assert values["j1"] == {"a": "host", "b": "machines", "c": "machines", "d": "two", "e": "one", "f": "two"}
    assert values["e01"] == {"a": "all", "b": "machines", "c": "file of executors", "d": None, "e": "one", "f": "two"}
    assert (values["e06"]["c"], cluster.hosts["e06"].text("ansible_user")) == ("file of e06", "six")
    assert cluster.hosts["e06"].text("inventory_dir") == str(tmp_path / "mine")


def test_several_inventories_scripts_and_lists_of_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = {"executors": {"hosts": ["e7"]}, "_meta": {"hostvars": {"e7": {"ansible_host": "192.0.2.7"}}}}
    write(tmp_path, {"a.yml": SMALL, "cloud": f"#!/bin/sh\necho '{json.dumps(groups)}'\n"})
    (tmp_path / "cloud").chmod(0o755)
    write(tmp_path, {"site.yml": "[]\n", "group_vars/judicators.yml": "beside: the playbook\n"})
    monkeypatch.chdir(tmp_path)
    sources = Sources((str(tmp_path / "a.yml"), str(tmp_path / "cloud"), "x1,"))
    cluster = ansible.load(sources)
    assert set(cluster.hosts) == {"j1", "j2", "e7", "e9", "e10", "e11", "x1"}
    assert cluster.hosts["e7"].address == "192.0.2.7"
    assert cluster.hosts["j2"].text("beside") == "the playbook"
    e7, e9 = ansible.filled(sources, [cluster.hosts["e7"], cluster.hosts["e9"]], ["inventory_dir"])
    assert e7.text("inventory_dir") == e9.text("inventory_dir") == str(tmp_path)


def test_the_example_and_the_labs_inventory_are_understood(tmp_path: Path) -> None:
    example = load(ROOT / "inventory/example")
    assert [host.name for host in example.select([])] == ["j1", "j2", "j3", "e1", "e2", "g1"]
    assert example.hosts["j3"].address == "192.0.2.13"
    record = Record("lab", 0, "trixie", "/base", str(tmp_path), hosts={"j1": 11, "e1": 31, "g1": 21})
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(lab_inventory.tree(record), sort_keys=False))
    lab = load(tmp_path)
    assert lab.groups["executors"] == ("e1",)
    assert lab.hosts["g1"].text("ansible_user") == "root"
    assert lab.hosts["g1"].address == record.address("g1")


# --- which hosts are meant --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Inventory:
    return load(write(tmp_path_factory.mktemp("small"), {"hosts.yml": SMALL}) / "hosts.yml")


def test_hosts_are_in_the_order_of_their_kind_and_their_number(small: Inventory) -> None:
    assert list(small.hosts) == ["j1", "j2", "e9", "e10", "e11"]
    assert small.hosts["j1"].groups == ("gateways", "judicators")
    assert (small.hosts["e9"].address, small.hosts["e9"].number("ansible_port")) == ("e9", None)


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ([], "j1 j2 e9 e10 e11"), (["e1*", "gateways"], "j1 e10 e11"), (["judicators:&gateways"], "j1"),
        (["executors:!e10"], "e9 e11"), (["judicators,e9"], "j1 j2 e9"), (["!judicators"], "e9 e10 e11"),
    ],
)  # fmt: skip
def test_patterns_are_ansibles(small: Inventory, patterns: list[str], names: str) -> None:
    assert [host.name for host in small.select(patterns)] == names.split()


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [("executor", "did you mean 'executors'?"), ("all:!j11", "did you mean 'j1'?"), ("zzz", "there are j1, j2, e9")],
)
def test_an_unknown_host_gets_a_suggestion(small: Inventory, pattern: str, sentence: str) -> None:
    with pytest.raises(UsageError, match="is no host and no group of") as caught:
        small.select([pattern])
    assert sentence in str(caught.value)


def test_hosts_of_other_groups_are_not_the_cluster() -> None:
    text = json.dumps({"_meta": {"hostvars": {"desk": {}}}, "executors": {"hosts": ["e1"]}})
    cluster = inventory.parse_list(text, "mine", "/")
    assert [host.name for host in cluster.select([])] == ["e1"]
    assert [host.name for host in cluster.select(["desk"])] == ["desk"]


@given(st.permutations(["e1", "e2", "e10", "e10a", "e9-2", "e9-10", "f", "10"]))
def test_names_have_one_natural_order(names: list[str]) -> None:
    assert sorted(names, key=natural) == ["10", "e1", "e2", "e9-2", "e9-10", "e10", "e10a", "f"]


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(
    st.sampled_from(["_meta", "hostvars", "hosts", "children", "executors", "all", "e1"]), inner)))  # fmt: skip
def test_any_output_of_a_program_is_hosts_or_a_sentence(answer: object) -> None:
    with contextlib.suppress(ConfigError):
        assert inventory.parse_list(json.dumps(answer), "mine", "/").hosts


# --- templates and encrypted values -----------------------------------------------------------------------------------

TEMPLATES = """
all:
  vars:
    bastion_user: admin
    ansible_user: "{{ lookup('env', 'SOMEBODY') }}"
    ansible_ssh_common_args: >-
      -o ProxyCommand="ssh -W %h:%p {{ bastion_user }}@{{ hostvars['b'].ansible_host | default(inventory_hostname) }}"
    judge_secrets_dir: "{{ inventory_dir }}/../kept"
  hosts:
    h:
      ansible_host: "10.0.0.{{ 2 + 3 }}"
      judge_pki_directory: "{{ nowhere }}"
      judge_gateway_certificate: "{{ 'x' | port }}"
    b: {ansible_host: 10.0.0.1, raw: !unsafe "a{{ b }}"}
"""


def test_templates_are_filled_in_by_ansible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, {"h.yml": TEMPLATES}) / "h.yml"
    monkeypatch.setenv("SOMEBODY", "me")
    sources = Sources((str(path),))
    cluster = ansible.load(sources)
    names = ["ansible_host", "ansible_user", "ansible_ssh_common_args", "judge_secrets_dir"]
    h, b = ansible.filled(sources, [cluster.hosts["h"], cluster.hosts["b"]], names)
    assert (h.address, h.text("ansible_user"), b.address) == ("10.0.0.5", "me", "10.0.0.1")
    assert h.text("ansible_ssh_common_args") == '-o ProxyCommand="ssh -W %h:%p admin@10.0.0.1"'
    assert h.text("judge_secrets_dir") == f"{tmp_path}/../kept"
    assert ansible.filled(sources, [b], ["raw"])[0].text("raw") == "a{{ b }}", "what is marked !unsafe stays"
    for name, cause in (
        ("judge_pki_directory", "'nowhere' is undefined"),
        ("judge_gateway_certificate", "No filter named 'port'"),
    ):
        with pytest.raises(ConfigError) as caught:
            ansible.filled(sources, [h], [name])
        assert f"h: Ansible cannot work out {name}" in str(caught.value) and cause in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def vaulted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An inventory in whose group_vars one value is encrypted, and a template that names it; passwords in files."""
    directory = write(tmp_path_factory.mktemp("vaulted"), {"right": "right\n", "wrong": "wrong\n"})
    words = [Path(sys.executable).with_name("ansible-vault"), "encrypt_string", "--vault-password-file", "right"]
    run = subprocess.run(
        [*words, "--name", "vaulted_user", "hush"], cwd=directory, capture_output=True, text=True, check=True
    )
    variables = f"{run.stdout}\nansible_user: '{{{{ vaulted_user }}}}'\njudge_address: plain\n"
    return write(directory, {"hosts.yml": "executors: {hosts: {h: }}\n", "group_vars/all/vault.yml": variables})


def test_encrypted_values_are_read_with_their_password_and_shown_to_no_log(
    vaulted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSIBLE_LOG_PATH", str(tmp_path / "log"))
    path = vaulted / "hosts.yml"
    assert filled(path, *VARIABLES, vault=vaulted / "right").text("ansible_user") == "hush"
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(vaulted / "right"))
    assert filled(path, "vaulted_user").text("vaulted_user") == "hush"
    assert not (tmp_path / "log").exists()


def test_an_encrypted_value_without_its_password_is_named_when_it_is_needed(vaulted: Path) -> None:
    path = vaulted / "hosts.yml"
    assert filled(path, "judge_address").text("judge_address") == "plain"
    for name in ("vaulted_user", "ansible_user"):
        with pytest.raises(ConfigError) as caught:
            filled(path, name)
        assert str(caught.value) == (
            f"h: {name} is encrypted by ansible-vault; give --vault-password-file FILE, or set "
            "ANSIBLE_VAULT_PASSWORD_FILE"
        )
        with pytest.raises(ConfigError, match=f"h: {name} is encrypted by ansible-vault with another password"):
            filled(path, name, vault=vaulted / "wrong")


def test_an_encrypted_file_is_read_or_told(vaulted: Path, tmp_path: Path) -> None:
    write(tmp_path, {"hosts.yml": "executors: {hosts: {h: }}\n", "group_vars/all.yml": "ansible_user: hush\n"})
    vault = Path(sys.executable).with_name("ansible-vault")
    command = [vault, "encrypt", "--vault-password-file", vaulted / "right", tmp_path / "group_vars/all.yml"]
    subprocess.run(command, capture_output=True, check=True)
    assert load(tmp_path / "hosts.yml", vault=vaulted / "right").hosts["h"].text("ansible_user") == "hush"
    with pytest.raises(ConfigError, match=r"hosts\.yml: a part of it is encrypted by ansible-vault; give --vault"):
        load(tmp_path / "hosts.yml")
    with pytest.raises(ConfigError, match="with another password than the one that is given"):
        load(tmp_path / "hosts.yml", vault=vaulted / "wrong")
    with pytest.raises(ConfigError, match=r"The vault password file .*/none was not found"):
        load(tmp_path / "hosts.yml", vault=tmp_path / "none")


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("h.yml", "all:\n  hosts: [a, b]\n", 'h.yml: Invalid "hosts" entry for "all" group, requires a dictionary'),
        ("h.yml", "all: {hosts: {a: \n", "h.yml:2:1: YAML parsing failed"),
        ("h.yml", "- hosts: all\n", "h.yml: YAML inventory has invalid structure, it should be a dictionary, got: li"),
        ("h.yml", "a: {children: {b: {children: {a: }}}}\nc: {hosts: {x: }}\n", "creates a recursive dependency loop"),
        ("h.yml", "plugin: no.such.cloud\n", "specifies unknown plugin 'no.such.cloud'"),
        ("h.yml", "judicators: {}\n", "h.yml: no hosts in it; see inventory/example"),
        ("hosts", "[judicators]\nj1 a=b c\n", "hosts: Expected key=value host variable assignment, got: c"),
        ("cloud", "#!/bin/sh\necho no credentials >&2; exit 3\n", "non-zero exit code 3. (no credentials)"),
    ],
)  # fmt: skip
def test_faults_are_one_sentence_with_their_file(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    write(tmp_path, {name: text})
    (tmp_path / name).chmod(0o755 if text.startswith("#!") else 0o644)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / name)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value) and "class '" not in str(caught.value)


def test_a_missing_inventory_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist; name an inventory's file or directory"):
        load(tmp_path / "none")


def test_a_missing_ansible_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, {"h.yml": SMALL}) / "h.yml"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="ansible-inventory, which is not installed; install ansible-core"):
        load(path)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [(99999, "h: ansible_port: expected a port between 1 and 65535, got '99999'"), ([1], "found a list")],
)
def test_a_bad_port_is_told_with_its_host(value: object, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Host("h", (), {"ansible_port": value}).number("ansible_port")
    assert sentence in str(caught.value)


def test_an_inventory_is_read_once_by_a_command(tmp_path: Path) -> None:
    groups = {"executors": {"hosts": ["e1"]}, "_meta": {"hostvars": {}}}
    write(tmp_path, {"cloud": f"#!/bin/sh\necho x >>{tmp_path}/read\necho '{json.dumps(groups)}'\n"})
    (tmp_path / "cloud").chmod(0o755)
    own = [sys.executable, "-m", "judge.ctl.main", "-i", str(tmp_path / "cloud"), "hosts", "nobody"]
    run = subprocess.run(own, capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "200"})
    assert run.returncode == 2 and "'nobody' is no host and no group of" in run.stderr
    assert (tmp_path / "read").read_text() == "x\n"
