"""Controller's half of judge_precheck_listen: a host where nobody can listen is no end of the run."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    _VALID_ARGS = frozenset({"ports", "pid", "seconds"})

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        try:
            done = self._execute_module(module_args=self._task.args, task_vars=task_vars)
        except AnsibleError:
            done = {}
        return {**result, "changed": False, "pid": done.get("pid", 0), "ports": done.get("ports", [])}
