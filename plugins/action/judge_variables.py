"""Refuse misspelt and wrong variables: what begins with `judge_` must be as the roles' argument_specs say."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

import yaml
from ansible import __version__ as ansible_version
from ansible import constants
from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.utils.vars import load_extra_vars

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this project need not be installed beside Ansible
from plugins.action.judge_controller import ControllerAction
from plugins.module_utils.judge_names import name_fault

# The oldest and the newest ansible-core that `make test-ansible-versions` tries; meta/runtime.yml has the same.
VERSIONS = ((2, 19), (2, 21))
# Variables that name one host, and the group that it is in. A host that left the inventory may still be a member.
HOSTS = {
    "judge_remove": "all",
    "judge_replace": "all",
    "judge_survivor": "judicators",
    "judge_upgrade_canary": "executors",
}
# On the command line it would beat the tasks that need the release's own Python.
INTERPRETER = "ansible_python_interpreter"
# Settings of Ansible that change what plays mean, by their value here; plays themselves name their strategy.
SETTINGS: dict[str, Any] = {
    "ANY_ERRORS_FATAL": False,
    "DEFAULT_HASH_BEHAVIOUR": "replace",
    "DEFAULT_PRIVATE_ROLE_VARS": False,
    "TASK_TIMEOUT": 0,
    "VARIABLE_PRECEDENCE": [
        "all_inventory",
        "groups_inventory",
        "all_plugins_inventory",
        "all_plugins_play",
        "groups_plugins_inventory",
        "groups_plugins_play",
    ],
}
# Groups whose hosts are the cluster's, and the group that has them all in an inventory of other things, too.
GROUPS = ("judicators", "executors", "gateways", "monitors")
HOUSE = "judge"
ROLES = Path(__file__).resolve().parents[2] / "roles"
PREFIX = "judge_"


def documented() -> dict[str, tuple[str, dict[str, Any]]]:
    """By name every documented variable: the role that documents it, and its option."""
    options: dict[str, tuple[str, dict[str, Any]]] = {}
    for path in sorted(ROLES.glob("*/meta/argument_specs.yml")):
        specs = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]
        for entry in specs.values():
            options |= {name: (path.parents[1].name, option) for name, option in entry.get("options", {}).items()}
    return options


def faults(names: set[str], roles: dict[str, str]) -> list[str]:
    """One sentence for each given variable that has our prefix and is not documented; others are other people's."""
    sentences = []
    for name in sorted(names):
        if not name.startswith(PREFIX) or name in roles:
            continue
        near = difflib.get_close_matches(name, roles, n=1, cutoff=0.6)
        hint = f"did you mean '{near[0]}' (role {roles[near[0]]})?" if near else "see the tables in roles/*/README.md"
        sentences.append(f"unknown variable '{name}'; {hint}")
    return sentences


def wrong_values(values: Mapping[str, Any], options: Mapping[str, tuple[str, dict[str, Any]]]) -> list[str]:
    """One sentence for each given value of another type than documented, or that is none of the choices."""
    sentences = []
    for name in sorted(values.keys() & options.keys()):
        role, option = options[name]
        messages = ArgumentSpecValidator({name: option}).validate({name: values[name]}).error_messages
        sentences += [
            f"{' '.join(text.split())}; correct it as the table in roles/{role}/README.md says" for text in messages
        ]
    return sentences


def wrong_hosts(values: Mapping[str, Any], groups: Mapping[str, Collection[str]]) -> list[str]:
    """One sentence for each variable that has to name one host and does not."""
    faults = [
        name_fault(name, values[name], groups, among, elsewhere=name == "judge_remove")
        for name, among in HOSTS.items()
        if values.get(name) not in (None, "")
    ]
    return [fault for fault in faults if fault]


def outside(groups: Mapping[str, Collection[str]]) -> list[str]:
    """One sentence for each of our groups that has hosts outside the group `judge`, where there is such a group."""
    if HOUSE not in groups:
        return []
    strangers = {group: sorted(set(groups.get(group, [])) - set(groups[HOUSE])) for group in GROUPS}
    return [
        f"the inventory has the group '{HOUSE}', and {', '.join(hosts)} of '{group}' is not in it; use a group "
        f"'{group}' for Judge only, or put Judge's hosts into an inventory of their own"
        for group, hosts in strangers.items()
        if hosts
    ]


def version_fault(version: str) -> str:
    """A sentence if the playbooks were never tried with this ansible-core; else empty."""
    major, minor = (int(part) for part in version.split(".")[:2])
    oldest, newest = VERSIONS
    if oldest <= (major, minor) <= newest:
        return ""
    first, last = (".".join(map(str, bound)) for bound in VERSIONS)
    return f"this is ansible-core {version}, and the playbooks need {first} to {last}; `make setup-deploy` installs one"


def wrong_settings(settings: Mapping[str, tuple[Any, str]]) -> list[str]:
    """One sentence for each of SETTINGS that has another value; `settings` is (value, where it is set) by name."""
    return [
        f"Ansible's setting {name} is {settings[name][0]!r} ({settings[name][1]}), and the playbooks need {value!r}; "
        "remove it there"
        for name, value in SETTINGS.items()
        if settings[name][0] != value
    ]


class ActionModule(ControllerAction):
    """`judge_variables:` looks at what the inventory and the command line set for this host; it changes nothing.

    With `report: true` (the role `judge_precheck`) it returns `problems`, otherwise it fails with all of them.
    """

    OPTIONS: ClassVar[dict[str, Any]] = {"report": {"type": "bool", "default": False}}

    def act(self, args: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        if fault := version_fault(ansible_version):
            raise ValueError(fault)
        options = documented()
        names = self._variable_names(variables)
        problems = faults(names, {name: role for name, (role, _) in options.items()})
        values: dict[str, Any] = {}
        for name in sorted(names & options.keys() & variables.keys()):
            try:
                values[name] = self._templar.template(variables[name])
            except AnsibleError as exc:
                reason = " ".join(str(exc).split()).removesuffix(".")
                problems.append(f"variable '{name}' cannot be evaluated ({reason}); correct it in the inventory")
        problems += wrong_values({name: value for name, value in values.items() if name not in HOSTS}, options)
        problems += wrong_hosts(values, variables.get("groups", {}))
        problems += outside(variables.get("groups", {}))
        problems += wrong_settings({name: constants.config.get_config_value_and_origin(name) for name in SETTINGS})
        if INTERPRETER in load_extra_vars(self._loader):
            problems.append(
                f"{INTERPRETER} is set on the command line, where it beats the release's own Python for tasks that "
                "need it; set it in the inventory instead"
            )
        if problems and not args["report"]:
            raise ValueError("; ".join(problems))
        return {"problems": problems}

    @staticmethod
    def _variable_names(task_vars: dict[str, Any]) -> set[str]:
        """Names that people set: inventory, group_vars, host_vars and -e; not what plays register or roles default."""
        hostvars = task_vars["hostvars"]
        manager, inventory = hostvars._variable_manager, hostvars._inventory  # noqa: SLF001 - no public way to ask
        name = task_vars["inventory_hostname"]
        names = set(manager.get_vars(host=inventory.get_host(name), include_hostvars=False))
        return names - set(manager._nonpersistent_fact_cache.get(name, {}))  # noqa: SLF001
