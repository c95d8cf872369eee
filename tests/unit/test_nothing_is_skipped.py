"""`make test-cluster` installs whatever its tests may skip without: a skipped test is a promise that nobody keeps."""

import ast
import importlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import shell, uml

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "tests/cluster").glob("test_*.py"))
# Besides programs: what a machine cannot do, in a sentence that is printed, and what a lab that is kept must not.
CANNOT = "bool(no_lab())"
KEPT = re.compile(r"\bkept lab\b")


def calls(path: Path, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name:
            yield node


def needed_programs(path: Path) -> set[str]:
    """The programs without which a test of a module is skipped; AssertionError for a skip of another kind."""
    programs: set[str] = set()
    for call in calls(path, "skipif"):
        condition = ast.unparse(call.args[0])
        program = re.fullmatch(r"not shutil\.which\((.+)\)", condition)
        assert program or condition == CANNOT, f"{path.name} skips for a reason that nobody provides for: {condition}"
        if program:
            module = importlib.import_module(f"tests.cluster.{path.stem}")
            programs.add(str(eval(program[1], vars(module))))
    for call in calls(path, "skip"):
        assert KEPT.search(ast.unparse(call)), f"{path.name} skips: {ast.unparse(call)}"
    return programs


def groups() -> dict[str, dict[str, str]]:
    """By group of install-packages, its programs and their packages."""
    text = (ROOT / "scripts/install-packages").read_text(encoding="utf-8")
    matches = re.findall(r'^(\w+)_packages="([^"]*)"', text, re.MULTILINE)
    return {name: dict(item.split("|", 1) for item in items.split()) for name, items in matches}


def installed_groups(target: str) -> set[str]:
    """The groups that a target of the Makefile installs, with all that it needs."""
    command = ["make", "--dry-run", "--always-make", "--no-print-directory", target]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = re.findall(r"^scripts/install-packages (.+)$", process.stdout, re.MULTILINE)
    return {group for line in lines for group in line.split()}


def test_the_target_asks_for_every_package_that_a_test_may_skip_without() -> None:
    programs = set().union(*map(needed_programs, MODULES))
    assert programs >= {uml.PROGRAM, "gpg"}, "what is known to be skipped without"
    by_group = groups()
    assert {"run", "test", "lab", "uml"} <= by_group.keys()
    installed = {program for group in installed_groups("test-cluster") for program in by_group[group]}
    assert sorted(programs - installed) == []


@pytest.mark.parametrize("target", ["setup-test", "lab"])
def test_the_lab_s_own_packages_are_installed(target: str) -> None:
    """Without them there is no lab, and every test of it would be skipped."""
    by_group = groups()
    packages = {package for group in installed_groups(target) for package in by_group[group].values()}
    assert sorted({*shell.PROGRAMS.values()} - packages) == []
