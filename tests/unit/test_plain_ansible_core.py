"""A controller needs ansible-core and what that depends on, and no other package."""

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


def needed(name: str) -> set[str]:
    names: set[str] = set()
    todo = [name]
    while todo:
        package = todo.pop()
        if package in names:
            continue
        names.add(package)
        for text in importlib.metadata.requires(package) or []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                todo.append(requirement.name)
    return names


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of packages as `pip install ansible-core` makes it, of links to those that are installed here."""
    directory = tmp_path_factory.mktemp("packages")
    for name in needed("ansible-core"):
        distribution = importlib.metadata.distribution(name)
        for file in {path.parts[0] for path in distribution.files or [] if path.parts[0] != ".."}:
            if not (directory / file).exists() and file != "__pycache__":
                (directory / file).symlink_to(distribution.locate_file(file))
    return directory


def python(packages: Path, *words: str | Path, home: Path = ROOT, text: str = "") -> subprocess.CompletedProcess[str]:
    """Python with these packages only, and the project, which need not be installed."""
    environment = {**os.environ, "PYTHONPATH": f"{packages}:{home}"}
    return subprocess.run(
        [sys.executable, "-S", *words],
        cwd="/",
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


def commands() -> set[str]:
    """Packages of judge that playbooks run by `python -m` on the controller."""
    names = set()
    for room in ("playbooks", "roles", "plugins"):
        for path in (ROOT / room).rglob("*"):
            if path.suffix in {".yml", ".py", ".j2"} and path.is_file():
                names |= set(re.findall(r"-m[\"']?,? [\"']?(judge\.[a-z_.]+)", path.read_text(encoding="utf-8")))
    return names


def test_no_package_but_those_of_ansible_core_is_there(packages: Path) -> None:
    assert python(packages, "-c", "import ansible, yaml, cryptography").returncode == 0
    assert "ModuleNotFoundError" in python(packages, "-c", "import prometheus_client").stderr


def test_every_command_that_a_playbook_runs_on_the_controller_starts(packages: Path) -> None:
    assert commands() >= {"judge.backup", "judge.deploy.recovery", "judge.deploy.bundle"}
    for command in commands():
        process = python(packages, "-m", command, "--help")
        assert process.returncode == 0, f"{command}: {process.stderr}"


def test_every_plugin_of_the_controller_can_be_loaded(packages: Path) -> None:
    names = [
        f"plugins.{kind}.{path.stem}"
        for kind in ("action", "filter", "callback")
        for path in sorted((ROOT / "plugins" / kind).glob("judge_*.py"))
    ]
    assert len(names) > 10
    process = python(
        packages, "-c", "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)", *names
    )
    assert process.returncode == 0, process.stderr


def test_the_controllers_part_of_backups_works(packages: Path, tmp_path: Path) -> None:
    secrets, copies = tmp_path / "secrets", tmp_path / "copies"
    secrets.mkdir()
    (secrets / "admin.token").write_text("hush\n")
    for words in (
        ["keys", "--secrets", secrets],
        ["seal", "--secrets", secrets, copies],
        ["list", copies],
        ["prune", copies],
    ):
        process = python(packages, "-m", "judge.backup", *words)
        assert process.returncode == 0, process.stderr
    process = python(packages, "-m", "judge.deploy.recovery", "decide", "--survivor", "j1", text='{"j1": ""}')
    assert "refusal" in process.stdout, process.stderr
