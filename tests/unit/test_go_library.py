"""Go's standard library is compiled where it is missing, once per version of Go; the go program is a small script."""

import re
import sys
from pathlib import Path

import yaml

from tests.support.ansible import ROOT, ansible

SCRIPT = """#!/bin/sh
case "$1" in
  env) printf '%s\\n' "{root}" "{version}" ;;
  install) [ "$GODEBUG$CGO_ENABLED" = installgoroot=all0 ] && [ -d "$GOCACHE" ] || exit 9
    {end}; echo "$2" >>"{root}/installed" ;;
esac
"""
PLAY = """
- hosts: all
  connection: local
  gather_facts: false
  tasks:
    - import_role: {name: judge_executor, tasks_from: go}
"""


def go(place: Path, version: str, end: str = "true") -> Path:
    (place / "pkg").mkdir(parents=True, exist_ok=True)
    program = place / "go"
    program.write_text(SCRIPT.format(version=version, root=place, end=end))
    program.chmod(0o755)
    return program


def installed(program: Path) -> list[str]:
    path = program.with_name("installed")
    return path.read_text().split() if path.exists() else []


def run(directory: Path, programs: dict[str, Path], *options: str) -> tuple[dict[str, int], str]:
    """Run the tasks on hosts that each have a Go; how many tasks changed something per host, and all output."""
    hosts = {name: {"program": str(program)} for name, program in programs.items()}
    (directory / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    (directory / "play.yml").write_text(PLAY)
    words = ["-i", directory / "hosts.yml", directory / "play.yml", "-e", "judge_executor_go={{ program }}", *options]
    settings = {"ANSIBLE_ROLES_PATH": str(ROOT / "roles"), "ANSIBLE_PYTHON_INTERPRETER": sys.executable}
    process = ansible("playbook", *words, **settings)
    changes = re.findall(r"^(\w+) .* changed=(\d+) .* failed=0 ", process.stdout, re.MULTILINE)
    return {name: int(count) for name, count in changes}, process.stdout + process.stderr


def test_it_is_compiled_once_where_it_is_missing_and_again_after_an_upgrade(tmp_path: Path) -> None:
    programs = {
        "new": go(tmp_path / "new", "go1.24.4"),
        "old": go(tmp_path / "old", "go1.19.8"),
        "oldest": go(tmp_path / "oldest", "go1.2"),
        "full": go(tmp_path / "full", "go1.24.4", "echo no space left >&2; exit 1"),
        "none": tmp_path / "none/go",
    }
    unchanged = {"old": 0, "oldest": 0, "none": 0}
    assert run(tmp_path, programs, "--check")[0] == {**unchanged, "new": 1, "full": 1}
    assert not any(map(installed, programs.values())), "a check changes nothing"
    changes, output = run(tmp_path, programs)
    assert changes == {**unchanged, "new": 1}, "and the host without space has failed"
    assert "no space left" in output
    go(tmp_path / "full", "go1.24.4")
    assert run(tmp_path, programs)[0] == {**unchanged, "new": 0, "full": 1}, "a failure is tried again"
    go(tmp_path / "new", "go1.24.5 X:nodwarf5")
    assert run(tmp_path, programs)[0] == {**unchanged, "new": 1, "full": 0}
    assert {name: installed(program) for name, program in programs.items()} == {
        "new": ["std", "std"], "old": [], "oldest": [], "full": ["std"], "none": [],
    }  # fmt: skip
