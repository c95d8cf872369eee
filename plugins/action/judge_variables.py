"""Refuse a misspelt variable: every variable with a role's prefix, or `judge_`, must be in a role's argument_specs."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

ROLES = Path(__file__).resolve().parents[2] / "roles"


def known_variables(roles: Path = ROLES) -> dict[str, str]:
    """Every documented variable and the role that documents it."""
    found: dict[str, str] = {}
    for path in sorted(roles.glob("*/meta/argument_specs.yml")):
        specs = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]
        for entry in specs.values():
            found.update(dict.fromkeys(entry.get("options", {}), path.parents[1].name))
    return found


def faults(given: set[str], known: dict[str, str], roles: list[str]) -> list[str]:
    """One sentence for each given variable that has our prefixes and is not documented."""
    prefixes = tuple(f"{role}_" for role in ["judge", *roles])
    sentences = []
    for name in sorted(given):
        if not name.startswith(prefixes) or name in known:
            continue
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        hint = f"did you mean '{near[0]}' (role {known[near[0]]})?" if near else "see the tables in roles/*/README.md"
        sentences.append(f"unknown variable '{name}'; {hint}")
    return sentences


class ActionModule(ActionBase):
    """`judge_variables:` looks at what the inventory and the command line set for this host; it changes nothing."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_diff = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Fail with every misspelt variable of this host at once."""
        result = super().run(tmp, task_vars)
        self.validate_argument_spec(argument_spec={})
        roles = sorted(path.name for path in ROLES.iterdir() if path.is_dir())
        sentences = faults(self._given(task_vars or {}), known_variables(), roles)
        if sentences:
            raise AnsibleActionFail("; ".join(sentences))
        result["changed"] = False
        return result

    @staticmethod
    def _given(task_vars: dict[str, Any]) -> set[str]:
        """Names that people set: inventory, group_vars, host_vars and -e; not what plays register or roles default."""
        hostvars = task_vars["hostvars"]
        manager, inventory = hostvars._variable_manager, hostvars._inventory  # noqa: SLF001 - no public way to ask
        name = task_vars["inventory_hostname"]
        given = set(manager.get_vars(host=inventory.get_host(name), include_hostvars=False))
        return given - set(manager._nonpersistent_fact_cache.get(name, {}))  # noqa: SLF001
