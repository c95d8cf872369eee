"""Go's standard library is compiled where it is missing, once per version of Go; the go program is a small script."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.lab import ROOT

SCRIPT = """#!/bin/sh
case "$1" in
  env) printf '%s\\n' "{root}" "{version}" ;;
  install) [ "$GODEBUG$CGO_ENABLED" = installgoroot=all0 ] && [ -d "$GOCACHE" ] || exit 9
    {end}; echo "$2" >>"{root}/installed" ;;
esac
"""
PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - import_role: {name: judge_executor, tasks_from: go}
"""


def go(place: Path, version: str, end: str = "true") -> Path:
    (place / "pkg").mkdir(exist_ok=True)
    program = place / "go"
    program.write_text(SCRIPT.format(version=version, root=place, end=end))
    program.chmod(0o755)
    return program


def changes(place: Path, program: Path, *options: str) -> int:
    """How many tasks have changed something; AssertionError with what Ansible said when one failed."""
    (place / "play.yml").write_text(PLAY)
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,", str(place / "play.yml")]
    settings = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
    settings |= {"ANSIBLE_ROLES_PATH": str(ROOT / "roles"), "ANSIBLE_PYTHON_INTERPRETER": sys.executable}
    done = subprocess.run(
        [*command, "-e", f"judge_executor_go={program}", *options],
        env={**os.environ, **settings}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return int(re.findall(r" changed=(\d+) ", done.stdout)[0])


def installed(place: Path) -> list[str]:
    return (place / "installed").read_text().split() if (place / "installed").exists() else []


def test_once_and_again_after_an_upgrade(tmp_path: Path) -> None:
    first, second = "go1.24.4", "go1.24.5 X:nodwarf5"
    assert changes(tmp_path, go(tmp_path, first), "--check") == 1 and not installed(tmp_path)
    assert [changes(tmp_path, go(tmp_path, first)) for _ in range(2)] == [1, 0]
    assert changes(tmp_path, go(tmp_path, first), "--check") == 0
    assert changes(tmp_path, go(tmp_path, second)) == 1
    assert installed(tmp_path) == ["std", "std"]


@pytest.mark.parametrize("version", ["go1.19.8", "go1.2"])
def test_older_ones_bring_it(tmp_path: Path, version: str) -> None:
    assert changes(tmp_path, go(tmp_path, version)) == 0 and not installed(tmp_path)


def test_without_go_nothing_happens(tmp_path: Path) -> None:
    assert changes(tmp_path, tmp_path / "go") == 0


def test_a_failure_says_why_and_is_tried_again(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no space left"):
        changes(tmp_path, go(tmp_path, "go1.24.4", "echo no space left >&2; exit 1"))
    assert changes(tmp_path, go(tmp_path, "go1.24.4")) == 1
