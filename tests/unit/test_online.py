"""Hosts that fetch their software for themselves (`judge_source: online`), and through a proxy where there is one."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.ansible import ROOT, Task, module, module_utils, plugin, read, value

apt = module_utils("judge_apt")
packages = plugin("modules", "judge_packages")
release = plugin("modules", "judge_release")
ONLINE = 'judge_source == "online"'


def tasks() -> Iterator[tuple[Path, Task]]:
    for path in sorted((ROOT / "roles").glob("*/tasks/*.yml")):
        for task in flat_of(read(path)):
            yield path, task


def flat_of(tasks: list[Task] | None) -> Iterator[Task]:
    """These and those of their blocks; what others import comes with its own file."""
    for task in tasks or []:
        blocks = [task[part] for part in ("block", "rescue", "always") if part in task]
        for block in blocks:
            yield from flat_of(block)
        if not blocks:
            yield task


@pytest.mark.parametrize(
    ("source", "wheel", "refused"),
    [
        ("bundle", "", False),
        ("online", "", True),
        ("online", str(ROOT / "pyproject.toml"), False),
    ],
)
def test_a_wheel_that_is_not_there_is_a_fault_of_the_precheck(source: str, wheel: str, refused: bool) -> None:
    problem = value("judge_precheck", "judge_precheck_wheel_problem", judge_source=source, judge_wheel=wheel)
    assert problem.startswith("judge_source is online and judge_wheel names no file") if refused else problem == ""
    assert "\n" not in problem, "one sentence in one line"


def test_the_precheck_tells_of_the_wheel() -> None:
    text = (ROOT / "roles/judge_precheck/tasks/main.yml").read_text(encoding="utf-8")
    assert re.search(r"\[judge_precheck_ca\.problem, judge_precheck_wheel_problem\]", text)


class Host:
    """Stands for the module on a host: programs succeed, and are written down."""

    def __init__(self, params: dict[str, Any], target: Path) -> None:
        self.params, self.target = params, target
        self.commands: list[list[str]] = []

    def run_command(self, command: list[str]) -> tuple[int, str, str]:
        self.commands.append(command)
        self.target.mkdir(exist_ok=True)  # as venv does
        return 0, "", ""


@pytest.mark.parametrize("offline", [False, True])
def test_pip_is_given_the_versions_that_were_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, offline: bool
) -> None:
    (tmp_path / "pip-25-py3-none-any.whl").touch()
    monkeypatch.setattr(release, "_PIP_WHEELS", tmp_path)
    wheel = tmp_path / "judge-1.0-py3-none-any.whl"
    wheel.touch()
    constraints = "" if offline else "/opt/judge/wheels/constraints.txt"
    host = Host({"offline": offline, "source": str(tmp_path), "constraints": constraints}, tmp_path / "1.0")
    release.Installer(host).install(wheel, host.target)
    (pip,) = (command for command in host.commands if "install" in command)
    assert ("--no-index" in pip) == offline
    assert [pip[number + 1] for number, word in enumerate(pip) if word == "--constraint"] == (
        [] if offline else [constraints]
    )


def test_the_release_is_installed_with_the_checkout_s_versions_where_there_is_no_bundle() -> None:
    install = read(ROOT / "roles/judge_common/tasks/release.yml")
    (task,) = (task for task in install if module(task) == "judge_release")
    (copied,) = (task for task in install if "judge_common_constraints" in str(task.get("ansible.builtin.copy", "")))
    assert copied["when"] == ONLINE
    assert copied["ansible.builtin.copy"]["dest"] == "{{ judge_common_wheels }}/constraints.txt"
    path = "{{ '' if judge_source == 'bundle' else judge_common_wheels ~ '/constraints.txt' }}"
    assert task["judge_release"]["constraints"] == path


@pytest.mark.parametrize(("role", "unit"), [("judge_etcd", "etcd.service"), ("judge_mongodb", "mongod.service")])
def test_the_distribution_s_own_service_never_starts(role: str, unit: str) -> None:
    """Its package would start it, and it would have the ports of ours."""
    (task,) = (task for path, task in tasks() if path.parents[1].name == role and module(task) == "judge_packages")
    assert task["judge_packages"]["masked"] == [unit]


class Apt:
    """The order in which it is asked for each thing."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def update(self) -> None:
        self.log.append("update")

    def choose(self, names: list[str]) -> list[str]:
        return names

    def plan(self, names: list[str], *, upgrade: bool) -> list[str]:
        return names

    def install(self, names: list[str], *, upgrade: bool) -> None:
        self.log.append(f"install {' '.join(names)}")


@pytest.mark.parametrize("installed", [False, True])
def test_units_are_masked_before_their_packages_come(monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    """And also where the package is here already; while it is installed, nothing starts at all."""
    log: list[str] = []

    @contextlib.contextmanager
    def nothing_starts() -> Iterator[None]:
        log.append("nothing starts")
        yield
        log.append("services may start")

    for name, instead in {
        "one_at_a_time": contextlib.nullcontext,
        "no_service_starts": nothing_starts,
        "remove_leftover_policy": lambda: log.append("policy"),
        "installed_status": dict,
        "not_installed": lambda _, names: [] if installed else names,
        "note_installed": lambda _: None,
        "unmasked": lambda units: units,
        "mask": lambda units: log.append(f"mask {' '.join(units)}"),
    }.items():
        monkeypatch.setattr(packages, name, instead)
    packages.bring_about(Apt(log), ["etcd-server"], masked=["etcd.service"], upgrade=False)
    fetched = ["update", "nothing starts", "install etcd-server", "services may start"]
    assert log == ["policy", "mask etcd.service", *([] if installed else fetched)]


def test_a_policy_that_a_broken_run_left_goes_though_nothing_is_missing(tmp_path: Path) -> None:
    """Until then no package of the host starts its service. A policy of somebody else stays, or comes back."""
    policy = tmp_path / "policy-rc.d"
    with pytest.raises(KeyboardInterrupt), apt.no_service_starts(policy):
        raise KeyboardInterrupt
    assert not policy.exists()
    policy.write_text("#!/bin/sh\nexit 0\n")
    apt.remove_leftover_policy(policy)
    assert "exit 0" in policy.read_text()
    interrupted = apt.no_service_starts(policy)
    interrupted.__enter__()
    assert "exit 101" in policy.read_text()
    apt.remove_leftover_policy(policy)
    assert "exit 0" in policy.read_text()


def fetches(task: Task) -> bool:
    name = module(task)
    if name == "judge_packages":
        return ONLINE in str(task.get("when", ""))
    return name == "judge_release" and task[name].get("state") != "current"


def test_fetching_tasks_use_the_proxy() -> None:
    fetchers = [(path, task) for path, task in tasks() if fetches(task)]
    assert {path.parents[1].name for path, _ in fetchers} == {
        "judge_common", "judge_etcd", "judge_executor", "judge_gateway", "judge_mongodb", "judge_monitor",
    }  # fmt: skip
    assert [(path, task["name"]) for path, task in fetchers if task.get("environment") != "{{ judge_proxy }}"] == []
    # Each of the others has a bundle, so that it asks nobody.
    bundled = [task for _, task in tasks() if module(task) == "judge_packages" and not fetches(task)]
    assert [task["name"] for task in bundled if not task["judge_packages"].get("bundle")] == []


def test_the_current_release_is_not_fetched() -> None:
    (task,) = (task for _, task in tasks() if module(task) == "judge_release" and not fetches(task))
    assert task["judge_release"]["state"] == "current"
