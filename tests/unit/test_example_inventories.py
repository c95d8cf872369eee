"""The inventories under inventory/examples: each is listed, playbooks take it, and a precheck finds no fault in it."""

import json
import os
import re
from pathlib import Path

import pytest

from judge.ctl.fleet.ansible import Sources, load
from tests.support.ansible import LOCAL, ROOT, ansible

EXAMPLES = ROOT / "inventory/examples"
CLOUD: dict[str, dict[str, list[str] | str]] = {
    "j1": {"groups": ["judicators", "gateways"], "public": "203.0.113.11", "private": "198.51.100.11"},
    "e1": {"groups": ["executors"], "public": "203.0.113.21", "private": "198.51.100.21"},
}
GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "single": {"judicators": ("judge",), "executors": ("judge",), "gateways": ("judge",)},
    "bastion": {"judicators": ("j1", "j2", "j3"), "executors": ("e1", "e2"), "gateways": ("g1", "g2")},
    "cloud": {"judicators": ("j1",), "executors": ("e1",), "gateways": ("j1",)},
}


@pytest.fixture(autouse=True)
def terraform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terraform on the path that knows two machines."""
    program = tmp_path / "bin/terraform"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{json.dumps(CLOUD)}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def test_every_example_is_tried_and_has_its_section() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} == set(GROUPS)
    page = (EXAMPLES / "README.md").read_text()
    assert set(re.findall(r"^cp -r inventory/examples/(\w+) inventory/mine", page, re.MULTILINE)) == set(GROUPS)


@pytest.mark.parametrize("name", GROUPS)
def test_an_example_has_its_groups_and_every_playbook_takes_it(name: str) -> None:
    inventory = load(Sources((str(EXAMPLES / name),)))
    assert {group: inventory.groups[group] for group in GROUPS[name]} == GROUPS[name]
    playbooks = sorted((ROOT / "playbooks").glob("*.yml"))
    process = ansible("playbook", "-i", EXAMPLES / name, "--syntax-check", ROOT / "site.yml", *playbooks)
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.parametrize("name", GROUPS)
def test_a_precheck_faults_no_variable_name_or_address_of_an_example(name: str, tmp_path: Path) -> None:
    """Every host is this machine, so what remains is of it, of networks without hosts, or that there is no bundle."""
    variables = {**LOCAL, "judge_secrets_dir": str(tmp_path / "secrets"), "judge_bundle": str(tmp_path / "bundle")}
    process = ansible("playbook", "-i", EXAMPLES / name, "playbooks/precheck.yml", "-e", json.dumps(variables))
    lines = re.findall(r'"((?:FAULT|warning): .+?)",?$', process.stdout, re.MULTILINE)
    assert "bundle" in "".join(lines), process.stdout + process.stderr
    wrong = ("variable", "expected", "cannot be a host's", "has no address", "the same address", "no judicators",
             "is no IPv4 address", "cannot be reached", "cannot be looked at", "the inventory has no")  # fmt: skip
    assert [line for line in lines if any(text in line for text in wrong)] == []
