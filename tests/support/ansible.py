"""The project's Ansible plug-ins, role variables and playbook tasks."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jinja2
import yaml
from ansible.module_utils.parsing.convert_bool import boolean

from judge.common import kinds

ROOT = Path(__file__).resolve().parents[2]
ROLES = ROOT / "roles"
# A host that is this machine, without rights: what would change it would fail.
LOCAL = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
NAMES = sorted(path.parent.name for path in ROLES.glob("*/meta"))
# The hosts of a small cluster, by group.
GROUPS = {"judicators": ["j1", "j2", "j3"], "executors": ["e1", "j1"], "gateways": ["g1", "j1"]}


def module_utils(name: str) -> ModuleType:
    return plugin("module_utils", name)


def plugin(kind: str, name: str) -> ModuleType:
    """One of plugins/action, plugins/filter, plugins/modules or plugins/module_utils."""
    return importlib.import_module(f"plugins.{kind}.{name}")


def ansible(program: str, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A run of `ansible`, or of `ansible-PROGRAM`, in the checkout."""
    return subprocess.run(
        [Path(sys.executable).parent / (f"ansible-{program}" if program else "ansible"), *words],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "COLUMNS": "1000", **environment},
    )  # fmt: skip


def run_module(name: str, arguments: dict[str, Any], *, check: bool = False) -> dict[str, Any]:
    """Run a module as a process, as on a host, and return its result."""
    parameters = {"ANSIBLE_MODULE_ARGS": {**arguments, "_ansible_check_mode": check}}
    program = (
        "import runpy; from ansible.module_utils import basic; "
        f"basic._ANSIBLE_ARGS = {json.dumps(parameters).encode()!r}; basic._ANSIBLE_PROFILE = 'legacy'; "
        f"runpy.run_module('plugins.modules.{name}', run_name='__main__')"
    )
    completed = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert completed.stdout, completed.stderr
    result: dict[str, Any] = json.loads(completed.stdout.strip().splitlines()[-1])
    return result


def value(role: str, variable: str, **inventory_values: Any) -> Any:
    """A variable of a role, with its defaults and variables, and with what an inventory would give."""
    place = ROOT / "roles" / role
    files = [place / "defaults/main.yml", place / "vars/main.yml"]
    extra_vars = {"role_path": str(place), "wanted": f"{{{{ {variable} }}}}", **inventory_values}
    options = [word for file in files if file.exists() for word in ("-e", f"@{file}")]
    words = ["localhost", "-i", "localhost,", "-m", "debug", "-a", "var=wanted", *options, "-e", json.dumps(extra_vars)]
    completed = ansible("", *words)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return json.loads(completed.stdout.partition("=>")[2])["wanted"]


def options(role: str) -> dict[str, Any]:
    documented: dict[str, Any] = {}
    for entry in read(ROLES / role / "meta/argument_specs.yml")["argument_specs"].values():
        documented |= entry.get("options", {})
    return documented


def variables(host: str, groups: dict[str, list[str]], *, formed: bool) -> dict[str, Any]:
    """What Ansible would give the templates of one host."""
    inventory = plugin("filter", "judge_inventory")
    names = sorted({name for hosts in groups.values() for name in hosts})
    hostvars = {name: {"ansible_host": f"10.0.0.{number}"} for number, name in enumerate(names, 1)}
    judicators = inventory.judge_addresses(hostvars, groups["judicators"])
    member = host in judicators
    return {
        **{name: option.get("default") for role in NAMES for name, option in options(role).items()},
        **{f"judge_{service}_metrics": "" for service in kinds.METRICS_PORTS},
        "inventory_hostname": host,
        "group_names": sorted(group for group, hosts in groups.items() if host in hosts),
        "judge_address": hostvars[host]["ansible_host"],
        "judge_mongodb_binary": "/usr/bin/mongod",
        "judge_common_data": "/var/lib/judge",
        "judge_common_etc": "/etc/judge",
        "judge_common_run": "/run/judge",
        "judge_common_tls": "/etc/judge/tls",
        "judge_common_judicators": judicators,
        "judge_common_is_judicator": member,
        "judge_common_etcd_endpoints": (
            inventory.judge_endpoints(judicators, 2379, host) if member else ["127.0.0.1:2379"]
        ),
        "judge_common_mongodb_seeds": inventory.judge_endpoints(judicators, 27017),
        "judge_common_cluster": {"token": "0" * 32, "initial_members": sorted(judicators), "admin_sha256": "0" * 64},
        "judge_common_has_formed": formed,
        "judge_boot_services": kinds.services_of({group for group, hosts in groups.items() if host in hosts})[1:],
    }


def render(role: str, template: str, values: dict[str, Any]) -> str:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, autoescape=False)
    environment.filters |= plugin("filter", "judge_inventory").FilterModule().filters()
    environment.filters |= {
        "to_json": json.dumps,
        "bool": boolean,
        "ternary": lambda value, yes, no: yes if value else no,
    }
    path = ROLES / f"judge_{role}" / "templates" / template
    return environment.from_string(path.read_text(encoding="utf-8")).render(values)


PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))
BUILTIN = "ansible.builtin."
# Keys that a task may have besides its module.
KEYWORDS = {
    "name", "when", "register", "vars", "tags", "become", "delegate_to", "run_once", "loop", "loop_control", "until",
    "retries", "delay", "changed_when", "failed_when", "check_mode", "no_log", "environment", "throttle",
    "any_errors_fatal", "ignore_unreachable", "freed",
}  # fmt: skip

Task = dict[str, Any]


class _Loader(yaml.SafeLoader):
    """Takes Ansible's own tags, such as !unsafe."""


_Loader.add_multi_constructor("!", lambda *_: None)


def read(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), _Loader)


def module(task: Task) -> str:
    """The module of a task, without the collection of Ansible's own."""
    (name,) = set(task) - KEYWORDS
    return str(name).removeprefix(BUILTIN)


def _argument(task: Task, name: str, key: str) -> tuple[str, str] | None:
    """(what is named, the rest) of an import or include; None where the task is none."""
    argument = task.get(f"{BUILTIN}import_{name}") or task.get(f"{BUILTIN}include_{name}")
    if not argument:
        return None
    return (argument, "main") if isinstance(argument, str) else (argument[key], argument.get("tasks_from", "main"))


def flat(tasks: list[Task] | None, beside: Path, variables: dict[str, Any] | None = None) -> Iterator[Task]:
    """These tasks, those of their blocks, and whatever they name, in order. `beside`: where their file is.

    `variables` are those of the playbook's import, which may name a file. A task has the key `freed` in a block whose
    rescue frees the deploy lock.
    """
    for task in tasks or []:
        blocks = [task[part] for part in ("block", "rescue", "always") if part in task]
        role, file = _argument(task, "role", "name"), _argument(task, "tasks", "file")
        frees = [_argument(other, "role", "name") for other in task.get("rescue", [])] == [("judge_common", "free")]
        for block in blocks:
            yield from ({**inner, "freed": True} if frees else inner for inner in flat(block, beside, variables))
        if role:
            path = ROOT / "roles" / role[0] / "tasks" / f"{role[1]}.yml"
            yield from flat(read(path), path.parent)
        elif file:
            path = (beside / jinja2.Template(file[0]).render(variables or {})).resolve()
            yield from flat(read(path), path.parent)
        elif not blocks:
            yield task


def of_playbook(path: Path, variables: dict[str, Any] | None = None) -> Iterator[Task]:
    """All tasks of a playbook, imported with these variables, and of those that it imports."""
    for play in read(path):
        playbook = play.get(f"{BUILTIN}import_playbook")
        if playbook:
            yield from of_playbook((path.parent / playbook).resolve(), play.get("vars"))
        else:
            always = {"check_mode": True} if play.get("check_mode") is True else {}
            yield from ({**always, **task} for task in flat(play.get("tasks"), path.parent, variables))
