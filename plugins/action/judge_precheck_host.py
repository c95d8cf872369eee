"""Controller's half of judge_precheck_host: a host that cannot be looked at is an observation, no end of the run."""

from __future__ import annotations

import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Asks for the host's time first, by a bare command: the shortest way, so the least uncertainty."""

    _VALID_ARGS = frozenset({"address", "ports", "paths", "etcd_path", "mongodb_path", "peers", "https"})

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        result["changed"] = False
        try:
            self._low_level_execute_command("true", sudoable=False)  # the connection's own time is not the clock's
            before = time.time()
            output = self._low_level_execute_command("date +%s.%N", sudoable=False)
            clock = _clock(output.get("stdout", ""), before, time.time())
            answer = self._execute_module(module_args=self._task.args, task_vars=task_vars)
        except AnsibleConnectionFailure as exc:
            return {**result, "unreached": _first_line(exc)}
        except AnsibleError as exc:
            return {**result, "broken": _first_line(exc)}
        if answer.get("failed") or "seen" not in answer:
            reason = answer.get("module_stderr") or answer.get("msg") or "the module gave no answer"
            return {**result, "broken": _first_line(reason)}
        return {**result, "seen": {**answer["seen"], "clock": clock}}


def _first_line(text: object) -> str:
    lines = [line.strip() for line in str(text).splitlines() if line.strip()]
    return lines[0] if lines else "no reason given"


def _clock(text: str, before: float, after: float) -> dict[str, float]:
    """The lead of the host's clock over the controller's, and the part that may be the way there, in seconds."""
    try:
        remote = float(text.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return {}
    return {"ahead": remote - (before + after) / 2, "unsure": (after - before) / 2}
