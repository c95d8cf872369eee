"""The controller's record of removed hosts: read, or noted that whatever was issued to a name until now is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this project need not be installed beside Ansible
from judge.pki.authority import CaError
from judge.pki.removed import Removed


class ActionModule(ActionBase):
    """`judge_removed: {directory, name, state}`; returns `before` (seconds since 1970) and whether it is `back`."""

    _requires_connection = False
    _VALID_ARGS = frozenset({"directory", "name", "state"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ansible's entry point."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, args = self.validate_argument_spec(
            argument_spec={
                "directory": {"type": "path", "required": True},
                "name": {"type": "str", "required": True},
                "state": {"type": "str", "choices": ["read", "noted"], "default": "read"},
            }
        )
        removed, name = Removed(Path(args["directory"]).expanduser()), str(args["name"])
        try:
            entry = removed.read().get(name)
            noted = args["state"] == "noted"
            before = entry.before if entry else 0.0
            if noted and not self._task.check_mode:
                before = removed.note(name)
        except CaError as exc:
            raise AnsibleActionFail(str(exc)) from None
        except OSError as exc:
            raise AnsibleActionFail(f"{exc.filename}: {exc.strerror}; make it writable for you") from None
        return result | {"changed": noted, "before": before, "back": bool(entry and entry.back)}
