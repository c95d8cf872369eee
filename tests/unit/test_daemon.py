"""How daemons start, are told to stop, and end; and that all lists of daemons follow the table of kinds."""

import importlib
import inspect
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2.nativetypes import NativeEnvironment

from judge.boot.embedded import cluster as embedded
from judge.common import kinds
from judge.common.errors import RefusedError
from judge.config import MODELS, BootService, Daemon, rendering
from judge.daemon import main as daemon
from judge.daemon.process import ChildProcess
from plugins.modules import judge_service
from tests.support.ansible import plugin
from tests.support.servers import wait_for

ROOT = Path(__file__).parents[2]
SIGNALLED = """
import os, signal
from judge.daemon.main import on_signals
stop = on_signals()
with stop._cond:  # as in every wait, for a moment
    os.kill(os.getpid(), signal.{name})
    for _ in range(1000):  # the handler runs in between
        pass
assert stop.wait(10)
"""
# The things that docs/contributing.md says that a new daemon needs, and nothing else.
ADDED = {
    "common/kinds.py": """
KINDS["clock"] = Kind("Tell the time.", "judge.clock_daemon", "ClockConfig", "clocks", proxy=True)
""",
    "config/services.py": """

class ClockConfig(Daemon):
    listen: HostPort

    def listening(self):
        return [self.listen, *super().listening()]
""",
    "clock_daemon.py": """
def run(config, stop):
    print("runs", config.name, stop.is_set())
    return 7
""",
}


@pytest.fixture
def judge(work):
    """Run Python with a copy of judge that has one daemon more; returns (exit code, lines of output, errors)."""
    shutil.copytree(ROOT / "judge", work / "judge", ignore=shutil.ignore_patterns("__pycache__", "agent*"))
    for name, text in ADDED.items():
        with (work / "judge" / name).open("a") as file:
            file.write(text)

    def call(*arguments: object) -> tuple[int, list[str], str]:
        command = [sys.executable, *map(str, arguments)]
        ended = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=60, check=False)
        return ended.returncode, ended.stdout.splitlines(), ended.stderr

    return call


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_in_the_middle_of_a_wait_is_heard(name):
    subprocess.run([sys.executable, "-c", SIGNALLED.format(name=name)], check=True, timeout=30)


def test_a_refusal_of_a_daemon_is_its_last_line_and_its_exit_code(caplog):
    def refuses() -> int:
        raise RefusedError("another cluster's data")

    assert daemon.ended(refuses) == 3
    assert caplog.messages == ["another cluster's data"] and caplog.records[0].exc_info is None
    assert daemon.ended(lambda: 5) == 5


def test_a_row_a_model_and_a_module_make_a_daemon(judge, work):
    (work / "clock.yml").write_text("name: big-ben\nlisten: 127.0.0.1:1234\n")
    assert judge("-m", "judge.cli", "clock", "--config", "clock.yml") == (7, ["runs big-ben False"], "")
    assert "Tell the time." in "\n".join(judge("-m", "judge.cli", "--help")[1])
    assert judge("-c", "from judge.ctl.fleet import logs; print(*logs.unit_names([]))")[1][0].endswith(
        "judge-clock.service judge-clock-proxy.service judge-*"
    )
    assert (
        "for name in boot etcd etcd-proxy mongodb judicator executor gateway clock clock-proxy; do"
        in (judge("-c", "from judge.ctl.fleet import versions; print(versions.SCRIPT)")[1])
    )
    lists = "from judge.common.kinds import services_of as of; print(*of({'clocks'}), '|', *of({'gateways'}))"
    assert judge("-c", lists)[1] == ["boot etcd-proxy clock | boot etcd-proxy gateway clock-proxy"]
    service = {"name": "clock", "kind": "clock", "config": "clock.yml"}
    (work / "boot.yml").write_text(yaml.safe_dump({"name": "host", "services": [service]}))
    check = ["-m", "judge.cli", "config", "check", "boot.yml"]
    assert judge(*check) == (0, ["clock.yml: good (clock)", "boot.yml: good (boot)"], "")
    (work / "boot.yml").write_text(yaml.safe_dump({"name": "host", "services": [service, service | {"name": "other"}]}))
    code, _, err = judge(*check)
    assert code == 2 and "address 127.0.0.1:1234 is already used by clock" in err


@pytest.mark.parametrize("name", kinds.KINDS)
def test_a_row_names_existing_code_and_units(name):
    kind = kinds.KINDS[name]
    run = importlib.import_module(kind.program).run
    assert list(inspect.signature(run).parameters)[:2] == ["config", "stop"]
    assert MODELS[name].__name__ == kind.config and issubclass(MODELS[name], Daemon)
    assert BootService(name=name, kind=name, config=Path("x")).kind == name
    for unit in [name, f"{name}-proxy"] if kind.proxy else [name]:
        text = (ROOT / "systemd" / f"judge-{unit}.service").read_text()
        assert f"/bin/judge {name} --config /run/judge/{unit}.yml" in text, unit
    assert any((ROOT / "roles" / role / "tasks" / "main.yml").is_file() for role in (name, f"judge_{name}"))


def test_units_that_are_installed_are_those_of_the_table():
    installed = {path.stem.removeprefix("judge-") for path in (ROOT / "systemd").glob("judge-*.service")}
    # A backup is no daemon: its timer starts it, and it ends.
    assert installed == {*kinds.services(), "backup"}


def test_the_module_that_restarts_services_knows_each_kind():
    assert list(judge_service.FILES) == list(kinds.KINDS)
    choices = yaml.safe_load(judge_service.DOCUMENTATION)["options"]["names"]["choices"]
    assert choices == judge_service.NAMES == kinds.services()


def test_the_playbook_puts_each_kind_on_the_hosts_of_its_group():
    (install,) = yaml.safe_load((ROOT / "playbooks/passes/install.yml").read_text())
    (hosts,) = re.findall(r"default\('([\w:]+)'\)", install["hosts"])
    assert set(hosts.split(":")) == {kind.group for kind in kinds.KINDS.values()}
    tasks = install["tasks"][0]["ansible.builtin.import_tasks"]
    made_of = yaml.safe_load((ROOT / "playbooks/passes" / tasks).read_text())
    roles = [(task["ansible.builtin.import_role"], task.get("when")) for task in made_of]
    conditions = {role["name"].removeprefix("judge_"): only for role, only in roles if "tasks_from" not in role}
    for name, kind in kinds.KINDS.items():
        assert conditions[name] == (None if kind.proxy else f"'{kind.group}' in group_names"), name


GROUPS = [
    {"judicators"},
    {"executors"},
    {"gateways"},
    {"executors", "gateways"},
    {kind.group for kind in kinds.KINDS.values()},
]


def rendered(expression: str, **variables: object) -> Any:
    """What Ansible makes of an expression in a file of variables."""
    environment = NativeEnvironment()
    environment.filters["regex_replace"] = lambda value, pattern, by: re.sub(pattern, by, value)
    return environment.from_string(expression).render(variables)


@pytest.mark.parametrize("groups", GROUPS, ids=lambda groups: "+".join(sorted(groups)))
@pytest.mark.parametrize(
    ("file", "variable"),
    [
        ("roles/judge_common/vars/main.yml", "judge_common_services"),
        ("molecule/shared/vars/documented.yml", "documented_services"),
    ],
)
def test_the_roles_expect_the_services_of_a_host_that_the_table_has(file, variable, groups):
    expression = yaml.safe_load((ROOT / file).read_text())[variable]
    variables = {"group_names": sorted(groups), "judge_common_is_judicator": "judicators" in groups}
    assert rendered(expression, **variables) == kinds.services_of(groups)


def test_check_mode_knows_what_the_role_of_each_kind_places():
    names = ["boot", *kinds.KINDS]
    for name in names:
        tasks = [path.read_text() for path in (ROOT / "roles" / f"judge_{name}" / "tasks").glob("*.yml")]
        assert any(f"register: judge_{name}_placed\n" in text for text in tasks), name
    expression = yaml.safe_load((ROOT / "roles/judge_common/vars/main.yml").read_text())["judge_common_changing"]
    placed = {f"judge_{name}_placed": {"paths": [f"{name}.yml"]} for name in names}
    assert sorted(rendered(expression, **placed)) == sorted(f"{name}.yml" for name in names)


def test_a_monitor_asks_each_service_for_its_metrics():
    assert {
        group: ("boot", *(name for name, kind in kinds.KINDS.items() if kind.group == group or kind.proxy))
        for group in dict.fromkeys(kind.group for kind in kinds.KINDS.values())
    } == plugin("filter", "judge_inventory").SERVICES


def test_an_embedded_cluster_has_every_daemon_in_the_order_of_start(work, monkeypatch):
    monkeypatch.setattr(embedded, "mongod_program", lambda: "mongod")
    directory = embedded.ClusterDirectory(work / "cluster")
    try:
        cluster = directory.open_cluster(0)
        directory.secrets()
        configs = embedded.configs(directory, cluster, slots=1, cores=[], weak=True)
        assert list(configs) == list(kinds.KINDS)
        assert all(type(config) is MODELS[name] for name, config in configs.items())
        boot = embedded.boot_config(directory, cluster, configs)
        assert [service.config for service in rendering.render_all(boot, {})] == list(configs.values())
    finally:
        directory.close()


# Ends when it has been told so often.
_TOLD = 'left=$1; trap "left=\\$((left - 1))" TERM; echo ready; while [ $left -gt 0 ]; do sleep 0.01; done; exit 7'


@pytest.fixture
def children(tmp_path: Path) -> Iterator[list[ChildProcess]]:
    """The children of a test, killed at its end."""
    processes: list[ChildProcess] = []
    yield processes
    for child in processes:
        child.kill()
        child.join()


def start(children: list[ChildProcess], times: int) -> ChildProcess:
    """A child that ends when it has been told so often."""
    child = ChildProcess("told", ["/bin/sh", "-c", _TOLD, "sh", str(times)])
    children.append(child)
    wait_for(lambda: child.last_line == "ready", what="the child's trap")
    return child


@pytest.mark.parametrize(
    ("times", "again", "seconds", "code"),
    [
        (1, None, 60, 7),
        (1, 0.05, 60, 7),
        (3, 0.05, 60, 7),
        (2, None, 0.3, -signal.SIGKILL),
        (1000, 0.05, 0.3, -signal.SIGKILL),
    ],
)
def test_a_child_is_asked_until_it_ends_or_its_time_is_over(children, times, again, seconds, code) -> None:
    assert start(children, times).stop(seconds, again=again) == code
