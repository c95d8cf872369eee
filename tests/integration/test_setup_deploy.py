"""`make setup-deploy` on a controller without a compiler, in a checkout of its own."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What the target may use of the system; apt-get and gcc are not among it.
PROGRAMS = ("awk", "bash", "env", "git", "grep", "make", "python3", "sh", "touch")


@pytest.mark.timeout(600)
def test_a_controller_gets_all_that_playbooks_need_and_nothing_by_apt(tmp_path: Path) -> None:
    checkout, programs = tmp_path / "checkout", tmp_path / "programs"
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).symlink_to(str(shutil.which(name)))
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    for name in filter(None, names):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, checkout / name, follow_symlinks=False)

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(programs), "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
        # Where this machine has its mirror of PyPI.
        environment |= {name: value for name, value in os.environ.items() if name.upper().startswith(("PIP_", "HTTP"))}
        return subprocess.run(words, cwd=checkout, env=environment, capture_output=True, text=True, check=False)

    result = run("make", "setup-deploy", "PYTHON=/usr/bin/python3")
    assert result.returncode == 0, result.stdout + result.stderr
    assert not (checkout / "judge/sandbox/agent").exists()
    playbooks = ["site.yml", *(f"playbooks/{path.name}" for path in (ROOT / "playbooks").glob("*.yml"))]
    checked = run(".venv/bin/ansible-playbook", "-i", "inventory/example", "--syntax-check", *playbooks)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert run(".venv/bin/judgectl", "--version").stdout.startswith("judgectl ")
